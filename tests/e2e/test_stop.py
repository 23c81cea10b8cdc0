"""Stopping on request: running points finish, the rest stays open, exit status 75, and --resume goes on."""
import signal
import unittest

import h5py

import harness

SWEEP = """
experiment: memorize
seed: 3
parameters:
  heads: [1, 2, 4]
  dim: 16
  context: 8
  samples: [100, 200, 400]
  classes: 10
  batch: 32
  steps: 1000
  eval_every: 100
  lr: 5.0e-3
  early_stop: false
replicates: 8
"""


class Stop(harness.Folder):
    def check_drain(self, number, ranks):
        self.write("sweep.yaml", SWEEP)
        path = self.folder / "sweep.h5"
        process = self.start_program("run", "sweep.yaml", ranks=ranks)
        self.wait_for_done(path, 2, process)
        process.send_signal(number)
        self.assertEqual(process.wait(timeout=60), 75, self.words_of(process))
        self.assertIn("--resume", self.words_of(process))
        status = harness.statuses(path)
        self.assertFalse((status == harness.RUNNING).any())
        self.assertTrue((status == harness.PENDING).any())
        done = status == harness.DONE
        self.assertGreaterEqual(int(done.sum()), 2)
        self.run_program("run", "sweep.yaml", "--resume", ranks=2)
        self.assertTrue((harness.statuses(path) == harness.DONE).all())
        self.assertTrue((harness.column(path, "attempts")[done] == 1).all())
        self.assert_same_results(path, self.run_undisturbed("sweep.yaml"))

    def test_sigusr1_through_mpirun_drains(self):
        self.check_drain(signal.SIGUSR1, 3)

    def test_sigterm_drains_a_single_process(self):
        self.check_drain(signal.SIGTERM, None)

    def test_sigint_drains_a_single_process(self):
        self.check_drain(signal.SIGINT, None)

    def test_a_second_signal_gives_up_running_points(self):
        self.write("sweep.yaml", harness.ENDLESS)
        path = self.folder / "sweep.h5"
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                path.unlink(missing_ok=True)
                process = self.start_program("run", "sweep.yaml", ranks=ranks)
                self.wait_for("a running point",
                              lambda: path.exists() and (harness.statuses(path) == harness.RUNNING).any())
                process.send_signal(signal.SIGUSR1)
                self.wait_for("the drain", lambda: process.poll() is None)
                process.send_signal(signal.SIGUSR1)
                # Two signals in a row may merge into one on their way; a third cannot hurt.
                try:
                    process.wait(timeout=3)
                except Exception:
                    process.send_signal(signal.SIGUSR1)
                self.assertEqual(process.wait(timeout=60), 75, self.words_of(process))
                self.assertTrue((harness.statuses(path) == harness.PENDING).all())
                with h5py.File(path) as file:
                    self.assertTrue((file["steps_run"][:] == -1).all())

    def test_limit_runs_so_many_points_and_resume_the_rest(self):
        self.write("sweep.yaml", "experiment: probe\nparameters: {heads: [1, 2, 3, 4, 5], dim: 4, context: 3, samples: 9}\n")
        self.run_program("run", "sweep.yaml", "--limit", "2", expect=75)
        path = self.folder / "sweep.h5"
        self.assertEqual(int((harness.statuses(path) == harness.DONE).sum()), 2)
        self.run_program("run", "sweep.yaml", "--resume")
        self.assertTrue((harness.statuses(path) == harness.DONE).all())
        self.assertEqual(harness.column(path, "attempts").tolist(), [1] * 5)


if __name__ == "__main__":
    unittest.main()
