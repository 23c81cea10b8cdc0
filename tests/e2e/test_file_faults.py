"""The result file where disks are full, files torn and names odd: a clear line, the right status, nothing lost."""
import ctypes
import os
import shutil
import signal
import subprocess
import unittest

import h5py

import harness

PROBE = "experiment: probe\nseed: 1\nparameters: {heads: [1, 2, 3], dim: 4, context: 3, samples: 9}\n"
LONG = ("experiment: memorize\nparameters: {heads: [1, 2, 3, 4], dim: 8, context: 4, samples: 40, steps: 1000000000, eval_every: 1000000, "
        "batch: 16, early_stop: false}\n")
SHORT = LONG.replace("1000000000", "4000").replace("1000000", "1000")

ODD_NAMES = ("it's \"a b\"\n; touch injected; $(touch injected) `touch injected` & #", "{}*?[x] %s%n%d =\\ \u00e4\u00f6\u00fc \u6ce8\u610f \U0001f600")


class Faults(harness.Folder):
    def mount(self, name, options):
        place = self.folder / name
        place.mkdir()
        if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place],
                                              capture_output=True).returncode != 0:
            self.skipTest("file systems cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", place])
        return place

    def fill(self, place):
        with open(place / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError:
                pass

    def line(self, ended):
        lines = [line for line in ended.stderr.splitlines() if line.startswith("mhasweep")]
        self.assertEqual(len(lines), 1, ended.stderr)
        return lines[0]

    def test_a_killed_run_leaves_no_lock(self):
        self.write("sweep.yaml", LONG)
        path = self.folder / "sweep.h5"
        for how in (signal.SIGKILL, signal.SIGSEGV):
            process = self.start_program("run", "sweep.yaml", *(("--resume",) if path.exists() else ()))
            self.wait_for("a running point", lambda: path.exists() and (harness.statuses(path) == harness.RUNNING).any())
            ended = self.run_program("run", "sweep.yaml", "--resume", expect=1)
            self.assertIn("is being written by another run", self.line(ended))
            process.send_signal(how)
            process.wait()
        third = self.start_program("run", "sweep.yaml", "--resume")
        self.wait_for("the third run at work", lambda: "points to run" in self.words_of(third))
        self.assertIsNone(third.poll())
        third.send_signal(signal.SIGTERM)
        self.assertEqual(third.wait(timeout=60), 75)

    def test_a_semaphore_that_a_killed_run_left_taken_blocks_nobody(self):
        name = f"stale-{os.getpid()}.h5"
        library = ctypes.CDLL(None)
        library.sem_open.restype = ctypes.c_void_p
        self.assertIsNotNone(library.sem_open(f"/OMPIO_{name}".encode(), os.O_CREAT, 0o600, 0))
        self.addCleanup(library.sem_unlink, f"/OMPIO_{name}".encode())
        self.write("sweep.yaml", PROBE)
        process = self.start_program("run", "sweep.yaml", "-o", name, ranks=2)
        self.assertEqual(process.wait(timeout=60), 0)

    def test_a_disk_that_is_full_from_the_start_is_said_and_leaves_nothing(self):
        place = self.mount("small", "size=4m")
        self.fill(place)
        self.write("sweep.yaml", PROBE)
        ended = self.run_program("run", "sweep.yaml", "-o", "small/out.h5", expect=1)
        self.assertRegex(self.line(ended), r"small/out.h5: .*[Nn]o space left")
        self.assertEqual([entry.name for entry in place.iterdir()], ["filler"])

    def test_a_disk_that_fills_in_mid_run_costs_no_results(self):
        place = self.mount("small", "size=4m")
        self.write("sweep.yaml", SHORT + "store: [curves, weights]\n")
        self.run_program("run", "sweep.yaml", "-o", "whole.h5")
        self.run_program("run", "sweep.yaml", "-o", "small/out.h5", "--limit", "1", expect=75)
        self.fill(place)  # all of the result file has its place already; a checkpoint has none
        ended = self.run_program("run", "sweep.yaml", "-o", "small/out.h5", "--resume", "--checkpoint-every", "0.01", expect=None)
        self.assertIn(ended.returncode, (0, 1), ended.stderr)
        if ended.returncode == 1:
            self.assertRegex(ended.stderr, "[Nn]o space left")
        (place / "filler").unlink()
        self.run_program("run", "sweep.yaml", "-o", "small/out.h5", "--resume")
        self.assert_same_results(place / "out.h5", self.folder / "whole.h5")
        self.assertEqual([entry.name for entry in place.iterdir()], ["out.h5"])

    def test_an_export_to_a_full_disk_leaves_nothing(self):
        place = self.mount("small", "size=64k")
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml")
        self.fill(place)
        ended = self.run_program("export", "sweep.h5", "-o", "small/out.csv", expect=1)
        self.assertIn("No space left on device", self.line(ended))
        self.assertFalse((place / "out.csv").exists())

    def test_a_read_only_file_system_can_be_read_but_not_run_on(self):
        place = self.mount("readonly", "size=4m")
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml", "-o", "readonly/out.h5", "--limit", "1", expect=75)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        for words in (("-o", "readonly/out.h5", "--resume"), ("-o", "readonly/new.h5")):
            ended = self.run_program("run", "sweep.yaml", *words, expect=1)
            self.assertIn("Read-only file system", self.line(ended))
        self.assertIn("1 done", self.run_program("show", "readonly/out.h5").stdout)
        self.run_program("export", "readonly/out.h5")
        self.run_program("run", "sweep.yaml", "--reuse", "readonly/out.h5")

    def test_a_file_without_write_permission(self):
        if os.getuid() == 0:
            self.skipTest("root may write everything")
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml")
        (self.folder / "sweep.h5").chmod(0o444)
        ended = self.run_program("run", "sweep.yaml", "--resume", expect=1)
        self.assertIn("Permission denied", self.line(ended))

    def test_a_folder_that_vanishes_in_mid_run(self):
        self.write("sweep.yaml", SHORT)
        place = self.folder / "gone"
        place.mkdir()
        process = self.start_program("run", "sweep.yaml", "-o", "gone/out.h5", "--quiet", "--set", "steps=20000")
        self.wait_for("a running point", lambda: (place / "out.h5").exists() and (harness.statuses(place / "out.h5") == harness.RUNNING).any())
        shutil.rmtree(place)
        self.assertEqual(process.wait(timeout=120), 1, self.words_of(process))
        self.assertIn("gone/out.h5: there is no such file", self.words_of(process))

    def test_bad_files_are_refused_in_one_line(self):
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml")
        whole = (self.folder / "sweep.h5").read_bytes()
        cases = {"is empty": b"", "is not an HDF5 file": b"not HDF5 at all" * 10, "is cut short or damaged": whole[: len(whole) // 3]}
        for words, content in cases.items():
            (self.folder / "bad.h5").write_bytes(content)
            with self.subTest(words):
                for command in (("show", "bad.h5"), ("export", "bad.h5"), ("run", "sweep.yaml", "-o", "bad.h5", "--resume")):
                    self.assertIn(words, self.line(self.run_program(*command, expect=1)))
                    self.assertEqual((self.folder / "bad.h5").read_bytes(), content)
                self.assertIn(words, self.line(self.run_program("run", "sweep.yaml", "-o", "bad.h5", expect=2)))
        with h5py.File(self.folder / "foreign.h5", "w") as file:
            file["x"] = [1]
        for command in (("show", "foreign.h5"), ("export", "foreign.h5"), ("run", "sweep.yaml", "-o", "foreign.h5", "--resume")):
            self.assertIn("not a result file of mhasweep", self.line(self.run_program(*command, expect=1)))
        for length in range(0, len(whole), 2999):  # wherever it was cut
            (self.folder / "bad.h5").write_bytes(whole[:length])
            self.line(self.run_program("show", "bad.h5", expect=1))

    def test_a_row_whose_data_a_crash_of_the_machine_took_runs_again(self):
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml")
        shutil.copy(self.folder / "sweep.h5", self.folder / "whole.h5")
        with h5py.File(self.folder / "sweep.h5", "r+") as file:
            file["seconds"][1] = file["rank"][1] = -1
            file["seconds"][1] = float("nan")
        shutil.copy(self.folder / "sweep.h5", self.folder / "torn.h5")
        self.run_program("run", "sweep.yaml", "--resume")
        self.assertEqual(harness.column(self.folder / "sweep.h5", "attempts").tolist(), [1, 2, 1])
        self.assert_same_results(self.folder / "sweep.h5", self.folder / "whole.h5")
        ended = self.run_program("run", "sweep.yaml", "-o", "new.h5", "--reuse", "torn.h5")
        self.assertIn("2 of 3 open points taken", ended.stderr)
        self.assert_same_results(self.folder / "new.h5", self.folder / "whole.h5")

    def test_a_file_of_another_schema_is_shown_but_not_resumed(self):
        self.write("sweep.yaml", PROBE)
        self.run_program("run", "sweep.yaml")
        for schema, age in ((0, "an older"), (99, "a newer")):
            with h5py.File(self.folder / "sweep.h5", "r+") as file:
                file.attrs["schema_version"] = schema
            ended = self.run_program("run", "sweep.yaml", "--resume", expect=2)
            self.assertIn(f"was written by {age} mhasweep (layout {schema}, this one writes 1)", self.line(ended))
            self.run_program("show", "sweep.h5")
            self.run_program("export", "sweep.h5")

    def test_a_file_that_is_being_written_is_shown_and_exported(self):
        self.write("sweep.yaml", PROBE.replace("[1, 2, 3]", "{from: 1, to: 12, step: 1}").replace("samples: 9", "samples: {from: 100, to: 200, step: 1}"))
        path = self.folder / "sweep.h5"
        process = self.start_program("run", "sweep.yaml", ranks=3)
        self.wait_for_done(path, 1, process)
        seen = 0
        while process.poll() is None:
            self.assertIn("points", self.run_program("show", "sweep.h5").stdout)
            table = self.run_program("export", "sweep.h5").stdout.splitlines()
            self.assertEqual(len(table), 1 + 12 * 101)
            self.run_program("export", "sweep.h5", "--format", "jsonl")
            seen += 1
        self.assertEqual(process.returncode, 0, self.words_of(process))
        self.assertGreater(seen, 0)

    def test_odd_names_are_names_and_no_shell_sees_them(self):
        self.write("sweep.yaml", PROBE)
        for name in ODD_NAMES:
            with self.subTest(name=name):
                odd = self.folder / name
                odd.mkdir()
                spec, out = f"{name}/{name}.yaml", f"{name}/{name}.h5"
                shutil.copy(self.folder / "sweep.yaml", self.folder / spec)
                self.run_program("plan", spec)
                self.run_program("run", spec, "-o", out, "--limit", "1", expect=75)
                self.run_program("run", spec, "-o", out, "--resume")
                self.run_program("show", out, "--json")
                self.run_program("export", out, "-o", f"{name}/{name}.csv")
                self.run_program("run", spec, "-o", f"{name}/more.h5", "--reuse", out, "--set", "replicates=2", ranks=2)
                self.assertEqual(sorted(entry.name for entry in odd.iterdir()),
                                 sorted([f"{name}.csv", f"{name}.h5", f"{name}.yaml", "more.h5"]))
                self.assertFalse((self.folder / "injected").exists())
                self.assertFalse((odd / "injected").exists())


if __name__ == "__main__":
    unittest.main()
