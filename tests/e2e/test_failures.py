"""A point that fails is recorded with its reason, and the sweep goes on."""
import unittest

import harness

DIVERGING = """
experiment: memorize
parameters:
  heads: 2
  dim: 8
  context: 4
  samples: 40
  labels: regression
  batch: 16
  steps: 200
  eval_every: 50
  lr: [1.0e-3, 1.0e+12]
replicates: 2
"""


class Failures(harness.Folder):
    def test_divergence_is_a_failure_with_reason_and_step(self):
        self.write("sweep.yaml", DIVERGING)
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                path = self.folder / f"{ranks}.h5"
                ended = self.run_program("run", "sweep.yaml", "-o", path.name, ranks=ranks, expect=3)
                self.assertIn("--retry-failed", ended.stderr)
                status = harness.statuses(path)
                diverged = harness.column(path, "lr") > 1
                self.assertEqual(status[diverged].tolist(), [harness.FAILED] * 2)
                self.assertEqual(status[~diverged].tolist(), [harness.DONE] * 2)
                reason = harness.column(path, "error")[diverged][0].decode()
                self.assertRegex(reason, r"diverged at step \d+")
                loss = harness.column(path, "loss")
                self.assertTrue((loss[diverged] != loss[diverged]).all(), "a failed point must stay NaN")
                listed = self.run_program("show", path.name, "--failed").stdout
                self.assertIn("diverged at step", listed)

    def test_resume_leaves_failed_points_and_retry_runs_them(self):
        self.write("sweep.yaml", DIVERGING)
        path = self.folder / "sweep.h5"
        self.run_program("run", "sweep.yaml", expect=3)
        self.run_program("run", "sweep.yaml", "--resume", expect=3)
        self.assertEqual(harness.column(path, "attempts").tolist(), [1] * 4)
        self.run_program("run", "sweep.yaml", "--resume", "--retry-failed", expect=3)
        self.assertEqual(sorted(harness.column(path, "attempts").tolist()), [1, 1, 2, 2])

    def test_a_point_over_its_time_fails(self):
        self.write("sweep.yaml", "experiment: memorize\nparameters: {heads: 2, dim: 8, context: 4, samples: 40, "
                   "steps: [10, 1000000000], eval_every: 1000000, batch: 16, early_stop: false}\nlimits: {seconds_per_point: 0.5}\n")
        self.run_program("run", "sweep.yaml", ranks=2, expect=3)
        path = self.folder / "sweep.h5"
        self.assertEqual(harness.statuses(path).tolist(), [harness.DONE, harness.FAILED])
        self.assertIn(b"seconds_per_point", harness.column(path, "error")[1])

    def test_a_point_that_needs_too_much_memory_fails_before_it_starts(self):
        self.write("sweep.yaml", "experiment: memorize\nparameters: {heads: [1, 64], dim: 64, context: 2, samples: 1000, steps: 1}\n"
                   "limits: {memory_per_rank: 20MiB}\n")
        self.run_program("run", "sweep.yaml", expect=3)
        path = self.folder / "sweep.h5"
        self.assertEqual(harness.statuses(path).tolist(), [harness.DONE, harness.FAILED])
        self.assertRegex(harness.column(path, "error")[1].decode(), "needs about .* MiB of memory")

    def test_too_many_failures_stop_the_sweep_early(self):
        self.write("sweep.yaml", DIVERGING.replace("replicates: 2", "replicates: 200\nlimits: {max_failures: 3}")
                   .replace("[1.0e-3, 1.0e+12]", "1.0e+12"))
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                ended = self.run_program("run", "sweep.yaml", "-o", f"{ranks}.h5", ranks=ranks, expect=3)
                self.assertIn("max_failures", ended.stderr)
                self.assertIn("diverged", ended.stderr)
                self.assertTrue((harness.statuses(self.folder / f"{ranks}.h5") == harness.PENDING).any())

    def test_an_expression_that_fits_no_parameter_fails_its_points_only(self):
        axis = ", ".join(str(i) for i in range(1, 301))
        self.write("sweep.yaml", f"experiment: probe\nparameters:\n  heads: [{axis}]\n  dim: 2\n  context: 1\n"
                   f"  key_dim: [{axis}]\n  samples: '= 302 - heads - (key_dim == 300) * heads'\nwhere: 'key_dim > 298'\n")
        ended = self.run_program("run", "sweep.yaml", ranks=2, expect=None)
        self.assertIn(ended.returncode, (2, 3))
        self.assertIn("samples", ended.stderr)


if __name__ == "__main__":
    unittest.main()
