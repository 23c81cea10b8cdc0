"""MHASWEEP_STATUS_FILE tells the exit status of a run also where its launcher loses it."""
import unittest

import harness

SWEEP = "experiment: probe\nparameters: {heads: [1, 2, 3], dim: 4, context: 3, samples: 9}\n"


class StatusFile(harness.Folder):
    def setUp(self):
        super().setUp()
        self.write("sweep.yaml", SWEEP)
        self.file = self.folder / "a status.txt"

    def told(self):
        return int(self.file.read_text())

    def test_it_holds_the_exit_status(self):
        for words, status in ((("sweep.yaml", "--limit", "1"), 75), (("sweep.yaml",), 2), (("sweep.yaml", "--resume"), 0),
                              (("sweep.yaml", "--nosuch"), 2), (("absent.yaml",), 2),
                              (("sweep.yaml", "-o", "new.h5", "--set", "limits.memory_per_rank=1KiB"), 3)):
            with self.subTest(words=words):
                self.run_program("run", *words, expect=status, MHASWEEP_STATUS_FILE=str(self.file))
                self.assertEqual(self.told(), status)

    def test_it_is_right_where_the_launcher_is_not(self):
        more = {"MHASWEEP_STATUS_FILE": str(self.file), "OMPI_MCA_orte_enable_recovery": "1"}
        self.run_program("run", "sweep.yaml", "--limit", "1", ranks=3, expect=None, **more)
        self.assertEqual(self.told(), 75)
        self.run_program("run", "sweep.yaml", ranks=3, expect=None, **more)
        self.assertEqual(self.told(), 2)

    def test_other_commands_leave_it_alone(self):
        self.run_program("plan", "sweep.yaml", MHASWEEP_STATUS_FILE=str(self.file))
        self.assertFalse(self.file.exists())

    def test_one_that_cannot_be_written_is_a_warning(self):
        ended = self.run_program("run", "sweep.yaml", MHASWEEP_STATUS_FILE=str(self.folder / "no" / "folder"))
        self.assertIn("(MHASWEEP_STATUS_FILE) cannot be written: No such file", ended.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
