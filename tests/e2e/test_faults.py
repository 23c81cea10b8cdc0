"""Ranks that die or hang while the launcher lets the others live (mpirun --enable-recovery): the sweep ends without them."""
import os
import signal
import time
import unittest

import harness

SWEEP = """
experiment: memorize
seed: 3
parameters: {heads: [1, 2, 4], dim: 16, context: [4, 8], samples: [100, 200], classes: 10, batch: 32, steps: 1500, eval_every: 300, lr: 5.0e-3, early_stop: false}
replicates: 4
"""

# Every point needs two ranks.
TEAMS = """
experiment: probe
seed: 5
parameters: {heads: 24, dim: 32, context: 8, context_type: shared, samples: 1200, distribution: gaussian, solver: qp3}
replicates: 10
limits: {memory_per_rank: 18MiB}
"""

# One LAPACK call of some seconds, in which a rank answers nobody.
SILENT = """
experiment: probe
parameters: {heads: [30, 31], dim: 48, context: 16, samples: 1500, distribution: gaussian, solver: svd}
"""


class Faults(harness.Folder):
    def run_reference(self, spec, ranks=3):
        self.write("sweep.yaml", spec)
        self.reference, self.path = self.run_undisturbed("sweep.yaml", ranks), self.folder / "sweep.h5"

    def start(self, *words, ranks):
        process = self.start_program("run", "sweep.yaml", *words, ranks=ranks, recovery=True)
        self.wait_for_done(self.path, 1, process)
        return process

    def ends_complete(self, process, *words):
        """Exit 0, every point done, the right bits."""
        self.assertEqual(process.wait(timeout=120), 0, self.words_of(process))
        said = self.words_of(process)
        self.assertIn(" 0 failed, 0 open", said)
        for word in words:
            self.assertIn(word, said)
        self.assertTrue((harness.statuses(self.path) == harness.DONE).all())
        self.assert_same_results(self.path, self.reference)
        self.wait_for("all ranks to end", lambda: not self.left_over())

    def test_one_of_five_is_killed(self):
        self.run_reference(SWEEP)
        process = self.start(ranks=5)
        self.send(process, 3, signal.SIGKILL)
        self.ends_complete(process, "rank 3 has died")
        attempts = harness.column(self.path, "attempts")
        self.assertLessEqual(int(attempts.sum()), attempts.size + 2, "more than the point in flight was run again")

    def test_all_but_one_are_killed(self):
        self.run_reference(SWEEP)
        process = self.start(ranks=4)
        for rank in (1, 3):
            self.send(process, rank, signal.SIGKILL)
        self.ends_complete(process, "rank 1 has died", "rank 3 has died")

    def test_a_member_of_a_team_is_killed(self):
        self.run_reference(TEAMS)
        self.assertTrue((harness.column(self.reference, "ranks") == 2).all())
        process = self.start(ranks=5)
        self.send(process, 2, signal.SIGKILL)
        self.ends_complete(process, "rank 2 has died")

    def test_the_last_team_is_killed(self):
        self.run_reference(TEAMS)
        process = self.start(ranks=3)
        self.send(process, 1, signal.SIGKILL)
        process.wait(timeout=120)
        self.assertIn("--resume", self.words_of(process))
        self.wait_for("all ranks to end", lambda: not self.left_over())
        self.run_program("run", "sweep.yaml", "--resume", ranks=3)
        self.assert_same_results(self.path, self.reference)

    def test_one_that_hangs_and_wakes_up(self):
        self.run_reference(SWEEP)
        process = self.start("--worker-timeout", "2", ranks=4)
        pid = self.send(process, 2, signal.SIGSTOP)
        self.wait_for("the loss", lambda: "rank 2 has not been heard of" in self.words_of(process) or
                      process.poll() is not None)
        os.kill(pid, signal.SIGCONT)
        self.ends_complete(process)

    def test_one_that_hangs_for_ever(self):
        self.run_reference(SWEEP)
        process = self.start("--worker-timeout", "2", ranks=4)
        self.send(process, 2, signal.SIGSTOP)
        self.ends_complete(process, "rank 2 has not been heard of")

    def test_the_master_is_killed(self):
        self.run_reference(SWEEP)
        process = self.start(ranks=4)
        self.send(process, 0, signal.SIGKILL)
        process.wait(timeout=60)
        self.wait_for("the other ranks to end", lambda: not self.left_over())
        done = harness.statuses(self.path) == harness.DONE
        self.run_program("run", "sweep.yaml", "--resume", ranks=3)
        self.assert_same_results(self.path, self.reference)
        self.assertTrue((harness.column(self.path, "attempts")[done] == 1).all(), "a finished point was run again")

    def test_one_that_is_deep_in_lapack_is_not_lost(self):
        self.write("sweep.yaml", SILENT)
        ended = self.run_program("run", "sweep.yaml", "--worker-timeout", "3", ranks=3)
        self.assertNotIn("rank", ended.stderr.split("->")[1].replace("working ranks", ""), ended.stderr)

    def test_losses_while_ranks_do_something_together_end_the_run(self):
        """At the opening and the closing of the file; then resume does the rest."""
        self.run_reference(SWEEP)
        for words, pause in (("points to run", 0.0), ("points to run", 0.03), ("points done in", 0.0),
                             ("0 open after", 0.0)):
            with self.subTest(words=words, pause=pause):
                self.path.unlink(missing_ok=True)
                process = self.start_program("run", "sweep.yaml", ranks=3, recovery=True)
                self.wait_for(words, lambda: words in self.words_of(process) or process.poll() is not None)
                time.sleep(pause)
                pid = harness.rank_process(process, 1)
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
                process.wait(timeout=120)
                self.wait_for("the ranks to end", lambda: not self.left_over())
                self.run_program("run", "sweep.yaml", "--resume", ranks=3)
                self.assert_same_results(self.path, self.reference)


if __name__ == "__main__":
    unittest.main()
