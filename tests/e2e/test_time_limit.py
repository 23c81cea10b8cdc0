"""The end of the time that a run has: nothing starts that would not end in time, what runs keeps its state, status 75."""
import math
import os
import time
import unittest

import harness

SWEEP = """
experiment: memorize
seed: 3
parameters:
  heads: [1, 2, 4]
  dim: 16
  context: 8
  samples: [200, 400]
  classes: 10
  batch: 32
  steps: 16000
  eval_every: 4000
  lr: 5.0e-3
  early_stop: false
replicates: 1
"""


class TimeLimit(harness.Folder):
    def test_a_sweep_stops_in_time_and_resume_ends_it(self):
        self.write("sweep.yaml", SWEEP)
        path = self.folder / "sweep.h5"
        # 16 seconds of one core, for two ranks that have 4 each.
        replicates = math.ceil(16 / harness.cpu_seconds(self.folder, "run", "sweep.yaml", "-o", "trial.h5"))
        self.write("sweep.yaml", SWEEP.replace("replicates: 1", f"replicates: {replicates}"))
        ended = self.run_program("run", "sweep.yaml", "--time-limit", "4s", ranks=3, expect=75)
        self.assertIn("--time-limit", ended.stderr)
        self.assertIn("--resume", ended.stderr)
        status = harness.statuses(path)
        self.assertFalse((status == harness.RUNNING).any())
        self.assertTrue((status == harness.PENDING).any())
        self.run_program("run", "sweep.yaml", "--resume", ranks=3)
        self.run_program("run", "sweep.yaml", "-o", "reference.h5", ranks=2)
        self.assert_same_results(path, self.folder / "reference.h5")

    def check_endless(self, words, ranks=None, **variables):
        self.write("endless.yaml", harness.ENDLESS)
        path = self.folder / "endless.h5"
        ended = self.run_program("run", "endless.yaml", *words, ranks=ranks, expect=75, **variables)
        self.assertTrue((harness.statuses(path) == harness.PENDING).all())
        kept = [name.name for name in self.folder.glob("endless.h5.*.checkpoint")]
        self.assertTrue(kept, "what ran has kept no state")
        path.unlink()
        return ended

    def test_an_endless_training_keeps_its_state(self):
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                self.check_endless(["--time-limit", "0:04"], ranks)

    def test_the_end_of_the_slurm_job_counts(self):
        ended = self.check_endless([], SLURM_JOB_END_TIME=str(int(time.time()) + 6), SLURM_JOB_ID="17")
        self.assertIn("SLURM_JOB_END_TIME", ended.stderr)

    def test_squeue_is_asked_where_slurm_sets_no_end(self):
        squeue = self.write("squeue", "#!/bin/sh\necho 0:06\n")
        squeue.chmod(0o700)
        ended = self.check_endless([], SLURM_JOB_ID="17", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertIn("(squeue)", ended.stderr)

    def test_a_limit_that_is_no_duration_is_a_usage_error(self):
        self.write("sweep.yaml", SWEEP)
        for word in ("90", "1x", ""):
            ended = self.run_program("run", "sweep.yaml", "--time-limit", word, expect=2)
            self.assertIn("not a duration such as 90s", ended.stderr)
        self.assertFalse((self.folder / "sweep.h5").exists())


if __name__ == "__main__":
    unittest.main()
