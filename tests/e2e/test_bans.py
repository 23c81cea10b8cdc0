"""What keeps failing is left alone, a host or a point, and the sweep ends without it."""
import os
import pathlib
import signal
import subprocess
import unittest

import harness

SWEEP = """
experiment: memorize
seed: 3
parameters: {heads: [3, 4], dim: 16, context: [4, 8], samples: [100, 200], classes: 10, batch: 32, steps: 4000, eval_every: 2000, lr: 5.0e-3, early_stop: false}
replicates: 4
"""
# One that ends at once, and one that never does.
ENDLESS = """
experiment: memorize
parameters: {heads: 2, dim: 16, context: 4, samples: 50, classes: 10, batch: 32, steps: [100, 2000000000], early_stop: false, eval_every: 1000000000}
"""

# Stands before the C library and tells ranks 3 to 6 that they are on another host.
ELSEWHERE = """
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
int gethostname(char *name, size_t length) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  struct utsname here;
  if (uname(&here) != 0 || length == 0) {
    return -1;
  }
  strncpy(name, rank != NULL && atoi(rank) >= 3 ? "elsewhere" : here.nodename, length - 1);
  name[length - 1] = 0;
  return 0;
}
"""


def ticks(pid):
    """The CPU time of a process; 0 if it is gone."""
    try:
        return sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
    except OSError:
        return 0


class Bans(harness.Folder):
    def test_a_host_that_loses_three_ranks_gets_nothing_more(self):
        self.write("host.c", ELSEWHERE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "host.so", "host.c"], cwd=self.folder, check=True)
        self.write("sweep.yaml", SWEEP)
        path, status_file = self.folder / "sweep.h5", self.folder / "status"
        process = self.start_program("run", "sweep.yaml", ranks=7, recovery=True, LD_PRELOAD=str(self.folder / "host.so"),
                                     MHASWEEP_STATUS_FILE=str(status_file))
        self.wait_for_done(path, 1, process)
        for pid in [self.send(process, rank, signal.SIGSTOP) for rank in (3, 4, 5)]:  # each with a point of its own
            os.kill(pid, signal.SIGKILL)
        self.wait_for_words("host elsewhere keeps losing ranks: those that are left there get nothing more", process)
        pending = harness.statuses(path) == harness.PENDING
        self.assertTrue(pending.any(), "the sweep is too short")
        process.wait(timeout=240)
        self.assertIn(" 0 failed, 0 open", self.words_of(process))
        self.assertEqual(int(status_file.read_text()), 0)
        self.assertFalse((harness.column(path, "first_rank")[pending] >= 3).any(), "the rank that is left there got more")
        self.wait_for("all ranks to end", lambda: not self.left_over())
        self.run_program("run", "sweep.yaml", "-o", "reference.h5", ranks=3)
        self.assert_same_results(path, self.folder / "reference.h5")

    def busy_rank(self, process):
        """The process of the one rank that computes."""
        ranks = harness.rank_processes(process)
        before = {pid: ticks(pid) for pid in ranks}
        found = []

        def clear():
            worked = sorted((ticks(pid) - before[pid], pid) for pid in ranks)
            found[:] = [worked[-1][1]]
            return worked[-1][0] > 20 and worked[-2][0] * 4 < worked[-1][0]

        self.wait_for("a rank to compute", clear)
        return found[0]

    def test_a_point_that_kills_three_ranks_has_failed_and_the_sweep_goes_on(self):
        self.write("endless.yaml", ENDLESS)
        path, status_file = self.folder / "endless.h5", self.folder / "status"
        process = self.start_program("run", "endless.yaml", ranks=5, recovery=True,
                                     MHASWEEP_STATUS_FILE=str(status_file))
        for killed in range(3):
            self.wait_for("the point to run", lambda: path.exists() and process.poll() is None and
                          harness.statuses(path).tolist() == [harness.DONE, harness.RUNNING] and
                          harness.column(path, "attempts")[1] == killed + 1)
            os.kill(self.busy_rank(process), signal.SIGKILL)
        process.wait(timeout=120)
        self.assertIn(" 1 failed, 0 open", self.words_of(process))
        self.assertEqual(harness.statuses(path).tolist(), [harness.DONE, harness.FAILED])
        self.assertEqual(int(status_file.read_text()), 3)
        shown = self.run_program("show", "endless.h5", "--failed")
        self.assertIn("every rank that ran it died or hung", shown.stdout)


if __name__ == "__main__":
    unittest.main()
