"""A long training that is stopped or killed goes on where it was, and ends with the same bits."""
import json
import math
import os
import signal
import time
import unittest

import harness

SWEEP = """
experiment: memorize
seed: 5
parameters: {heads: [2, 3], dim: 16, context: 8, samples: 300, classes: 20, batch: 32, steps: 10000, eval_every: 5000, lr: 5.0e-3, early_stop: false}
"""

# Points that a team of two shares if a rank may hold 0.99 of one: heads are split, or every member trains alike.
TEAM_SWEEPS = {
    "optimize": "{heads: 12, tokens: 16, dim: 16, samples: 64, test_samples: 0, steps: 700, log_every: 200, stability_samples: 1, step_size: 0.1}",
    "icl": "{neurons: 100, dim: 8, features: 4, true_features: 2, tokens: 200, test_tokens: 200, finite_tokens: 200, steps: 1000, log_every: 500, step_size: 0.05, attention_step_size: 0.1, dense_spectrum: true}",
    "probe": "{heads: 16, dim: 16, context: 4, context_type: shared, samples: 1200, weights: trained, solver: rrqr, key_dim: 4, value_dim: 4, out_dim: 16, classes: 20, batch: 32, steps: 8000, eval_every: 2000, lr: 5.0e-3, early_stop: false}",
}


class Checkpoint(harness.Folder):
    sweep = None  # of points that take one core some 2.5 seconds, whatever the machine

    def setUp(self):
        super().setUp()
        self.path = self.folder / "sweep.h5"
        if Checkpoint.sweep is None:
            self.write("sweep.yaml", SWEEP)
            times = math.ceil(5 / harness.cpu_seconds(self.folder, "run", "sweep.yaml", "-o", "trial.h5"))
            Checkpoint.sweep = SWEEP.replace("steps: 10000", f"steps: {10000 * times}")
        self.write("sweep.yaml", self.sweep)
        self.reference = self.run_undisturbed("sweep.yaml", ranks=None)

    def checkpoints(self):
        return sorted(path.name for path in self.folder.glob("*.checkpoint*"))

    def wait_for_checkpoint(self, process):
        def there():
            if process.poll() is not None:
                self.fail(f"the run ended early ({process.returncode}): {self.words_of(process)}")
            return any(name.endswith(".checkpoint") for name in self.checkpoints())

        self.wait_for("a checkpoint", there)

    def resume(self, *words):
        ended = self.run_program("run", "sweep.yaml", "--resume", *words)
        self.assert_same_results(self.path, self.reference)
        self.assertEqual(self.checkpoints(), [], "checkpoints stay although their points are done")
        return ended

    def test_stopped_twice_it_keeps_its_state_and_goes_on(self):
        process = self.start_program("run", "sweep.yaml")
        self.wait_for("a running point",
                      lambda: self.path.exists() and (harness.statuses(self.path) == harness.RUNNING).any())
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        time.sleep(1.1)  # a second wish, not the same one
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 75, self.words_of(process))
        kept = self.checkpoints()
        self.assertLessEqual(len(kept), 1)
        self.resume()

    def test_killed_it_goes_on_from_the_last_checkpoint(self):
        for kill in range(3):
            process = self.start_program("run", "sweep.yaml", "--resume", "--checkpoint-every", "0.05")
            self.wait_for_checkpoint(process)
            time.sleep(0.2)
            process.kill()
            process.wait()
            if (harness.statuses(self.path) == harness.DONE).all():
                break
        self.resume()

    def test_a_torn_or_foreign_checkpoint_is_ignored_with_a_line(self):
        process = self.start_program("run", "sweep.yaml", "--checkpoint-every", "0.05")
        self.wait_for_checkpoint(process)
        process.kill()
        process.wait()
        point = int((harness.statuses(self.path) == harness.RUNNING).argmax())
        checkpoint = self.folder / f"sweep.h5.{point}.checkpoint"
        self.assertTrue(checkpoint.exists())
        checkpoint.write_bytes(checkpoint.read_bytes()[:-5])
        leftover = self.folder / f"sweep.h5.{point}.checkpoint.a1B2c3.tmp"
        leftover.write_bytes(b"half")
        ended = self.resume("--quiet")
        self.assertIn(f"torn or damaged: it is ignored, and point {point} begins anew", ended.stderr)

    def test_a_folder_that_takes_no_checkpoints_costs_a_warning_alone(self):
        (self.folder / "sweep.h5.0.checkpoint").mkdir()
        ended = self.run_program("run", "sweep.yaml", "--checkpoint-every", "0.05", "--set", "heads=2")
        self.assertIn("warning:", ended.stderr)
        self.assertEqual(ended.stderr.count("warning:"), 1 + ended.stderr.count("cannot be removed"), ended.stderr)


class TeamCheckpoint(harness.Folder):
    references = {}  # files of runs that nothing interrupts, for all tests

    def prepare(self, experiment):
        """Writes the sweep; runs it undisturbed, if that has not been done yet."""
        self.name = experiment
        self.path, self.reference = (self.folder / f"{experiment}{kind}.h5" for kind in ("", "-reference"))
        self.write(f"{experiment}.yaml", f"experiment: {experiment}\nparameters: {TEAM_SWEEPS[experiment]}\n")
        plan = json.loads(self.run_program("plan", f"{experiment}.yaml", "--json").stdout)
        self.limit = f"limits.memory_per_rank={int(0.99 * plan['bytes_most'])}"
        if experiment not in TeamCheckpoint.references:
            self.run_program(*self.words("-o", self.reference.name), ranks=3)
            TeamCheckpoint.references[experiment] = self.reference.read_bytes()
        self.reference.write_bytes(TeamCheckpoint.references[experiment])
        self.assertEqual(set(harness.column(self.reference, "ranks")), {2})

    def words(self, *more):
        return "run", f"{self.name}.yaml", "--set", self.limit, *more

    def start(self, every="0.05", ranks=3, **how):
        return self.start_program(*self.words("--checkpoint-every", every), ranks=ranks, **how)

    def checkpoints(self):
        return list(self.folder.glob("*.checkpoint"))

    def wait_for_checkpoint(self, process):
        def there():
            if process.poll() is not None:
                self.fail(f"the run ended early ({process.returncode}): {self.words_of(process)}")
            return self.checkpoints() != []

        self.wait_for("a checkpoint", there)

    def kill_all(self, process):
        for pid in (process.pid, *harness.rank_processes(process)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.wait()
        self.wait_for("all ranks to end", lambda: not harness.processes_in(self.folder))

    def resume(self, *more):
        ended = self.run_program(*self.words("--resume", *more), ranks=3)
        self.assert_same_results(self.path, self.reference)
        self.assertEqual(self.checkpoints(), [], "checkpoints stay although their points are done")
        return ended

    def test_killed_it_goes_on_from_the_last_checkpoint(self):
        for experiment in TEAM_SWEEPS:
            with self.subTest(experiment):
                self.prepare(experiment)
                process = self.start()
                self.wait_for_checkpoint(process)
                self.kill_all(process)
                self.assertEqual(len(self.checkpoints()), 1)
                self.assertNotIn("ignored", self.resume().stderr)

    def test_stopped_it_keeps_its_state_and_goes_on(self):
        self.prepare("optimize")
        process = self.start(every="0")
        self.wait_for("a running point",
                      lambda: self.path.exists() and (harness.statuses(self.path) == harness.RUNNING).any())
        process.send_signal(signal.SIGUSR1)
        time.sleep(1.1)  # a second wish, not the same one
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=60), 75, self.words_of(process))
        self.assertEqual(len(self.checkpoints()), 1)
        self.assertNotIn("ignored", self.resume().stderr)

    def test_one_that_is_torn_is_ignored_with_a_line(self):
        self.prepare("optimize")
        process = self.start()
        self.wait_for_checkpoint(process)
        self.kill_all(process)
        checkpoint, = self.checkpoints()
        checkpoint.write_bytes(checkpoint.read_bytes()[:-5])
        ended = self.resume("--quiet")
        self.assertEqual(ended.stderr.count("torn or damaged: it is ignored, and point 0 begins anew"), 1, ended.stderr)

    def test_one_of_a_team_of_another_size_is_ignored_with_a_line(self):
        self.prepare("optimize")
        process = self.start()
        self.wait_for_checkpoint(process)
        self.kill_all(process)
        ended = self.run_program("run", "optimize.yaml", "--resume", "--quiet")
        self.assertEqual(ended.stderr.count("a team of another size (2): it is ignored"), 1, ended.stderr)
        self.assertEqual(set(harness.column(self.path, "ranks")), {1})

    def test_when_a_member_dies_others_go_on(self):
        self.prepare("optimize")
        process = self.start(ranks=5, recovery=True)
        self.wait_for_checkpoint(process)
        self.send(process, 2, signal.SIGKILL)
        process.wait(timeout=300)
        self.assertIn("rank 2", self.words_of(process))
        self.assert_same_results(self.path, self.reference)
        self.assertEqual(self.checkpoints(), [])


if __name__ == "__main__":
    unittest.main()
