"""Broken sweep files: exit 2, lines that a person can act on, nothing written, no crash, whatever the command."""
import json
import os
import re
import unittest

import harness

BROKEN = harness.SOURCE / "tests" / "data" / "sweep" / "broken"


class BrokenSweeps(harness.Folder):
    def expected(self, file):
        """Lines of the report, where the word EXPERIMENTS stands for the names of all that there are."""
        known = json.loads(self.run_program("experiments", "--json").stdout)
        names = ", ".join(experiment["name"] for experiment in known)
        lines = file.with_suffix(".expected").read_text().replace("EXPERIMENTS", names).splitlines()
        return [line for line in lines if line]

    def check_refused(self, path, *fragments, **more):
        for words in (("run", path, "-o", "out.h5"), ("plan", path)):
            ended = self.run_program(*words, expect=2, timeout=60, **more)
            for fragment in fragments:
                self.assertIn(fragment, ended.stderr)
            self.assertNotRegex(ended.stderr, "(?i)assert|sanitizer|segmentation|backtrace")
            self.assertEqual(ended.stdout, "")
        self.assertFalse((self.folder / "out.h5").exists())
        return ended.stderr

    def test_each_file_of_the_collection(self):
        files = sorted(BROKEN.glob("*.yaml"))
        self.assertGreaterEqual(len(files), 40)
        for file in files:
            with self.subTest(file=file.name):
                expected = self.expected(file)
                self.assertTrue(expected)
                said = self.check_refused(file, *(f"{file}:{line}" for line in expected))
                self.assertEqual(len(said.splitlines()), len(expected), said)
                for line in said.splitlines():
                    self.assertRegex(line, rf"^{re.escape(str(file))}:\d+:\d+: ")

    def test_each_file_is_refused_once_under_mpirun(self):
        file = BROKEN / "01-unknown-key.yaml"
        ended = self.run_program("run", file, "-o", "out.h5", ranks=3, expect=2)
        own = [line for line in ended.stderr.splitlines() if line.startswith(str(file))]
        self.assertEqual(len(own), len(self.expected(file)))
        self.assertFalse((self.folder / "out.h5").exists())

    def test_no_file(self):
        self.check_refused("missing.yaml", "missing.yaml", "No such file")

    def test_a_folder(self):
        self.check_refused(self.folder, "folder")

    def test_an_empty_file(self):
        self.check_refused(self.write("empty.yaml", ""), "empty.yaml")

    def test_comments_alone(self):
        self.check_refused(self.write("comments.yaml", "# nothing\n# here\n"), "comments.yaml")

    def test_binary(self):
        path = self.folder / "binary.yaml"
        path.write_bytes(bytes(range(256)) * 20)
        self.check_refused(path, "binary.yaml")
        path.write_bytes(b"experiment: probe\nseed: \xff\xfe\n")
        self.check_refused(path, "binary.yaml")
        path.write_bytes(b"experiment: probe\n\0\nseed: 1\n")
        self.check_refused(path, "binary.yaml")

    def test_the_program_itself(self):
        self.check_refused(harness.PROGRAM, "mhasweep")

    def test_tabs(self):
        self.check_refused(self.write("tabs.yaml", "experiment: probe\nparameters:\n\theads: 4\n"), "tabs.yaml:3:")

    def test_ten_million_lines(self):
        path = self.folder / "long.yaml"
        with open(path, "w") as file:
            file.write("experiment: probe\n")
            for _ in range(100):
                file.write("# comment\n" * 100000)
        self.check_refused(path, "long.yaml", "MiB")

    def test_a_file_that_never_ends(self):
        self.check_refused("/dev/zero", "/dev/zero")

    def test_deep_nesting(self):
        self.check_refused(self.write("deep.yaml", "experiment: probe\nparameters:\n  heads: " + "[" * 100000 + "\n"), "deep.yaml:")

    def test_a_hundred_thousand_values_of_which_all_are_wrong(self):
        self.check_refused(self.write("wrong.yaml", "experiment: probe\nparameters:\n  heads: [" + "x, " * 100000 + "x]\n"), "wrong.yaml:3:")

    @unittest.skipIf(os.getuid() == 0, "root may read everything")
    def test_a_file_without_permission(self):
        path = self.write("secret.yaml", "experiment: probe\n")
        path.chmod(0)
        self.check_refused(path, "ermission")

    def test_broken_overrides(self):
        self.write("good.yaml", "experiment: probe\nparameters: {heads: 2}\n")
        for override in ("heds=3", "heads", "heads=x", "heads=", "seed=-1", "limits.time=3", "=3", "heads=[1", "sample=sobol"):
            with self.subTest(override=override):
                ended = self.run_program("run", "good.yaml", "-o", "out.h5", "--set", override, expect=2)
                self.assertIn("--set", ended.stderr)
                self.assertFalse((self.folder / "out.h5").exists())


if __name__ == "__main__":
    unittest.main()
