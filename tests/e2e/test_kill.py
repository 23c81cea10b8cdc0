"""SIGKILL at any moment costs the points in flight and nothing else."""
import os
import random
import signal
import time
import unittest

import h5py

import harness

SWEEP = """
experiment: memorize
seed: 3
parameters:
  heads: [1, 2, 4]
  dim: 16
  context: [4, 8]
  samples: [100, 200]
  classes: 10
  batch: 32
  steps: 1200
  eval_every: 200
  lr: 5.0e-3
  early_stop: false
replicates: 4
"""


class Kill(harness.Folder):
    def check_done_rows(self, path, reference):
        """The file opens, and each row that it calls done holds its final values."""
        with h5py.File(path, "r") as file, h5py.File(reference, "r") as final:
            done = file["status"][:] == harness.DONE
            for name, item in harness.datasets(file):
                if name in harness.PROVENANCE or item.shape[:1] != done.shape:
                    continue
                self.assertTrue(harness.same_bits(item[:][done], final[name][:][done]), name)
        return int(done.sum())

    def kill_at_random(self, chance, path, process, rows_before, kills_left):
        """Waits for a random moment, of the start or of the work, and kills a random rank; False if it ended before."""
        if kills_left > 7:
            time.sleep(chance.uniform(0.1, 1.0))
        else:
            share = (self.rows - rows_before) // (kills_left + 1)
            target = rows_before + chance.randint(0, max(share, 1))
            while process.poll() is None and (not path.exists() or (harness.statuses(path) == harness.DONE).sum() < target):
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.1))
        ranks = harness.rank_processes(process)
        if process.poll() is not None or not ranks:
            return False
        try:
            os.kill(chance.choice(ranks), signal.SIGKILL)
        except ProcessLookupError:
            return False
        process.wait(timeout=60)
        return process.returncode != 0

    def test_a_random_rank_killed_at_ten_random_moments_then_resumed(self):
        self.write("sweep.yaml", SWEEP)
        reference, path = self.folder / "reference.h5", self.folder / "killed.h5"
        self.run_program("run", "sweep.yaml", "-o", reference.name, ranks=3)
        self.rows = harness.statuses(reference).size
        chance = random.Random(20260101)
        seen = []
        while len(seen) < 10:
            before = int((harness.statuses(path) == harness.DONE).sum()) if path.exists() else 0
            if before == self.rows:
                path.unlink()  # it finished before it could be killed: once more from the start
                before = 0
            process = self.start_program("run", "sweep.yaml", "-o", path.name, "--resume", ranks=3)
            if self.kill_at_random(chance, path, process, before, 10 - len(seen)):
                self.wait_for("the other ranks to end", lambda: not self.left_over())
                seen.append(self.check_done_rows(path, reference) if path.exists() else -1)
        self.run_program("run", "sweep.yaml", "-o", path.name, "--resume", ranks=3)
        self.assert_same_results(path, reference)
        print(f"rows done of {self.rows} after each kill (-1: no file yet): {seen}")
        self.assertGreater(len({rows for rows in seen if 0 < rows < self.rows}), 2, seen)

    def test_attempts_count_the_interrupted_ones(self):
        self.write("sweep.yaml", SWEEP)
        path = self.folder / "sweep.h5"
        process = self.start_program("run", "sweep.yaml", ranks=2)
        self.wait_for_done(path, 1, process)
        for rank in harness.rank_processes(process):
            try:
                os.kill(rank, signal.SIGKILL)
            except ProcessLookupError:
                pass  # mpirun was quicker: it ends them all after the first
        process.wait()
        self.wait_for("the other ranks to end", lambda: not self.left_over())
        before = harness.column(path, "attempts")
        interrupted = harness.statuses(path) == harness.RUNNING
        finished = harness.statuses(path) == harness.DONE
        self.run_program("run", "sweep.yaml", "--resume", ranks=2)
        after = harness.column(path, "attempts")
        self.assertTrue((after[interrupted] == before[interrupted] + 1).all())
        self.assertTrue((after[finished] == before[finished]).all(), "resume ran a finished point again")


if __name__ == "__main__":
    unittest.main()
