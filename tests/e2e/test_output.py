"""The result file: never overwritten, never half-made, one writer at a time, resumed only by its own sweep."""
import os
import shutil
import subprocess
import unittest

import h5py

import harness

SWEEP = "experiment: probe\nseed: 1\nparameters: {heads: [1, 2, 3], dim: 4, context: 3, samples: 9}\n"


class Output(harness.Folder):
    def setUp(self):
        super().setUp()
        self.write("sweep.yaml", SWEEP)

    def test_an_existing_file_is_not_touched_and_the_error_tells_what_it_holds(self):
        self.run_program("run", "sweep.yaml")
        before = (self.folder / "sweep.h5").read_bytes()
        ended = self.run_program("run", "sweep.yaml", expect=2)
        self.assertIn("3 done", ended.stderr)
        self.assertIn("--resume", ended.stderr)
        self.assertEqual((self.folder / "sweep.h5").read_bytes(), before)

    def test_a_foreign_file_is_not_touched(self):
        self.write("sweep.h5", "my thesis")
        for words in ((), ("--resume",)):
            self.run_program("run", "sweep.yaml", *words, expect=None)
            self.assertEqual((self.folder / "sweep.h5").read_text(), "my thesis")

    def test_resume_of_a_complete_file_runs_nothing(self):
        self.run_program("run", "sweep.yaml")
        ended = self.run_program("run", "sweep.yaml", "--resume", ranks=3)
        self.assertIn("nothing is left to run", ended.stderr)
        self.assertNotIn("0 of 0", ended.stderr)
        self.assertEqual(harness.column(self.folder / "sweep.h5", "attempts").tolist(), [1, 1, 1])

    def test_resume_ignores_comments_and_key_order(self):
        self.run_program("run", "sweep.yaml")
        self.write("other.yaml", "# a comment\nparameters: {samples: 9, context: 3, dim: 4, heads: [1, 2, 3]}\nseed: 1\nexperiment: probe\n")
        self.run_program("run", "other.yaml", "-o", "sweep.h5", "--resume")

    def test_resume_with_another_sweep_names_what_differs(self):
        self.run_program("run", "sweep.yaml")
        before = (self.folder / "sweep.h5").read_bytes()
        for change, key in ((("--set", "seed=2"), "seed"), (("--set", "dim=5"), "dim"),
                            (("--set", "heads=[1,2]"), "heads"), (("--set", "replicates=2"), "replicates")):
            with self.subTest(key=key):
                ended = self.run_program("run", "sweep.yaml", "--resume", *change, expect=2)
                self.assertIn(key, ended.stderr)
                self.assertEqual((self.folder / "sweep.h5").read_bytes(), before)

    def test_a_folder_that_is_not_there(self):
        ended = self.run_program("run", "sweep.yaml", "-o", "no/such/out.h5", expect=1)
        self.assertIn("no/such", ended.stderr)

    def test_a_read_only_place(self):
        ended = self.run_program("run", "sweep.yaml", "-o", "/proc/out.h5", expect=1)
        self.assertIn("/proc/out.h5", ended.stderr)

    def test_a_full_disk_is_said_and_leaves_nothing(self):
        place = self.folder / "small"
        place.mkdir()
        mounted = os.getuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True).returncode == 0
        if not mounted:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", place])
        ended = self.run_program("run", "sweep.yaml", "-o", "small/out.h5", "--set", "replicates=10000", expect=1)
        self.assertRegex(ended.stderr.lower(), "space|full")
        self.assertEqual(list(place.iterdir()), [])

    def test_two_runs_on_one_file(self):
        self.write("long.yaml", "experiment: memorize\nparameters: {heads: 2, dim: 8, context: 4, samples: 40, "
                   "steps: 1000000000, eval_every: 1000000, batch: 16, early_stop: false}\n")
        path = self.folder / "long.h5"
        process = self.start_program("run", "long.yaml", ranks=2)
        self.wait_for("the file", path.exists)
        self.wait_for("a running point", lambda: (harness.statuses(path) == harness.RUNNING).any())
        ended = self.run_program("run", "long.yaml", "--resume", expect=None)
        self.assertIn(ended.returncode, (1, 2))
        self.assertIn("another run", ended.stderr)
        self.assertIsNone(process.poll())
        shown = self.run_program("show", "long.h5")
        self.assertIn("running", shown.stdout)
        self.assertEqual([p.name for p in self.folder.iterdir() if "lock" in p.name], [])

    def test_names_with_spaces_quotes_and_umlauts(self):
        odd = self.folder / "a 'b' \"c\" äöü"
        odd.mkdir()
        shutil.copy(self.folder / "sweep.yaml", odd / "my sweep.yaml")
        self.run_program("run", odd / "my sweep.yaml", "-o", odd / "my results.h5", ranks=2)
        with h5py.File(odd / "my results.h5") as file:
            self.assertEqual(file["rank"].shape, (3,))
        self.run_program("show", odd / "my results.h5")


if __name__ == "__main__":
    unittest.main()
