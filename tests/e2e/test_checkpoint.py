"""A long training that is stopped or killed goes on where it was, and ends with the same bits."""
import math
import signal
import time
import unittest

import harness

SWEEP = """
experiment: memorize
seed: 5
parameters: {heads: [2, 3], dim: 16, context: 8, samples: 300, classes: 20, batch: 32, steps: 10000, eval_every: 5000, lr: 5.0e-3, early_stop: false}
"""


class Checkpoint(harness.Folder):
    sweep = None        # of points that take one core some 3.5 seconds, whatever the machine
    undisturbed = None  # the file of a run that nothing interrupts, for all tests

    def setUp(self):
        super().setUp()
        self.reference, self.path = self.folder / "reference.h5", self.folder / "sweep.h5"
        if Checkpoint.sweep is None:
            self.write("sweep.yaml", SWEEP)
            times = math.ceil(7 / harness.cpu_seconds(self.folder, "run", "sweep.yaml", "-o", "trial.h5"))
            Checkpoint.sweep = SWEEP.replace("steps: 10000", f"steps: {10000 * times}")
        self.write("sweep.yaml", self.sweep)
        if Checkpoint.undisturbed is None:
            self.run_program("run", "sweep.yaml", "-o", "reference.h5")
            Checkpoint.undisturbed = self.reference.read_bytes()
        self.reference.write_bytes(Checkpoint.undisturbed)

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


if __name__ == "__main__":
    unittest.main()
