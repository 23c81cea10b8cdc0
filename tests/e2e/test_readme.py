"""The README is true: its example runs and looks as it is printed, its other commands run, its links lead somewhere."""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import unittest

import harness

TEXT = (harness.SOURCE / "README.md").read_text()
EXAMPLE = TEXT.split("## An example\n")[1].split("\n## ")[0]
BLOCKS = re.findall(r"(?s)```(\w*)\n(.*?)```", EXAMPLE)
TIME = r"\d[\d.]* (?:us|ms|s|min|h)\b(?: \d+ (?:s|min|h)\b)?"


def shape(text):
    """What must be equal: all words, but no times, numbers, hashes, dates, bars and names of kernels."""
    text = re.sub(r"(?m)^after .*\n", "", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "DATE", text)
    text = re.sub(r"\b[0-9a-f]{16}\b", "HASH", text)
    text = re.sub(r"BLAS core \w+", "BLAS core", text)
    text = re.sub(r"[ \u2581-\u2588]*[\u2581-\u2588]", " BARS", text)
    text = re.sub(r"\s+", " ", text)
    text = re.sub(TIME, "TIME", text)
    return re.sub(r"-?\d[\d.]*(?:e[-+]?\d+)?", "#", text).strip()


class Readme(harness.Folder):
    def setUp(self):
        super().setUp()
        kind, sweep = BLOCKS[0]
        self.assertEqual(kind, "yaml")
        self.write("heads.yaml", sweep)
        self.path = f"{pathlib.Path(harness.PROGRAM).resolve().parent}:{os.environ['PATH']}"

    def shell(self, line):
        env = harness.environment(PATH=self.path, LC_ALL="C.UTF-8", PYTHONPATH=str(harness.SOURCE / "analysis"))
        # On a terminal of 100 columns, as the text was taken from one.
        line = f"stty cols 100 rows 50; export NO_COLOR=1 TERM=xterm; {line}"
        done = subprocess.run(["script", "-qec", f"bash -c '{line}'", "/dev/null"], cwd=self.folder, env=env, text=True,
                              capture_output=True, timeout=600, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, line + done.stdout + done.stderr)
        return done.stdout.replace("\r\n", "\n").replace("\r", "\n")

    def test_the_example_runs_and_looks_as_it_is_printed(self):
        commands = [it for kind, block in BLOCKS if kind == "" for it in re.split(r"(?m)^\$ ", block) if it]
        commands = [it for it in commands if it.startswith(("mhasweep", "mpirun"))]
        self.assertEqual([it.split("\n")[0].split("mhasweep ")[1].split()[0] for it in commands], ["plan", "run", "show"])
        for block in commands:
            command, expected = block.split("\n", 1)
            if command.startswith("mpirun"):  # whose progress is a log where nobody looks
                ended = subprocess.run(command.split(), cwd=self.folder, text=True, capture_output=True, timeout=600,
                                       env=harness.environment(PATH=self.path), check=True)
                self.assertEqual(ended.stdout, "")
                seen = re.sub(r"(?m)^mhasweep: OpenBLAS chose .*\n", "", ended.stderr)
            else:
                seen = self.shell(command)
            self.assertEqual(shape(seen), shape(expected), command)
        self.numbers_are_about_right(commands[2])
        self.python_prints_what_it_says()
        self.other_commands_run()

    def numbers_are_about_right(self, printed):
        """Trainings end in other digits on other CPUs, but not far away; what is no training is equal."""
        rows = [line.split() for line in printed.splitlines() if line.endswith("  done")]
        self.assertEqual(len(rows), 14)
        for name, place, delta in (("heads", 1, 0), ("samples", 2, 0), ("accuracy", 4, 0.08), ("bound_lower", 8, 0)):
            for row, value in zip(rows, harness.column(self.folder / "heads.h5", name)):
                self.assertAlmostEqual(float(row[place]), value, delta=delta, msg=name)

    def python_prints_what_it_says(self):
        block, = [block for kind, block in BLOCKS if block.startswith(">>> ")]
        lines = block.splitlines()
        code = [line[4:] for line in lines if line.startswith(">>> ")]
        expected = "\n".join(line for line in lines if not line.startswith(">>> "))
        names = {}
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()):
            for line in code[:-1]:
                exec(line, names)
            seen = repr(eval(code[-1], names))
        self.assertEqual(shape(seen), shape(expected))

    def other_commands_run(self):
        words = [it for it in re.findall(r"`([^`\n]*heads\.h5[^`\n]*)`", EXAMPLE) if "mhasweep" in it]
        self.assertGreaterEqual(len(words), 4)
        for line in words:
            self.shell(line.replace("PYTHONPATH=analysis", f"PYTHONPATH={harness.SOURCE}/analysis")
                       .replace("python3", "/usr/bin/python3"))

    def test_every_link_leads_to_a_file_or_a_heading(self):
        headings = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in re.findall(r"(?m)^#+ (.+)$", TEXT)}
        links = re.findall(r"\]\(([^)\s]+)\)", TEXT)
        self.assertGreater(len(links), 20)
        for link in links:
            if link.startswith("#"):
                self.assertIn(link[1:], headings)
            elif not link.startswith("https://"):
                self.assertTrue((harness.SOURCE / link.split("#")[0]).exists(), link)

    def test_every_command_and_option_that_it_names_is_there(self):
        for command, rest in re.findall(r"`mhasweep ([a-z]+)([^`\n]*)`", TEXT):
            text = self.run_program(command, "--help").stdout
            for option in re.findall(r"--[\w-]+", rest):
                self.assertIn(option, text, f"mhasweep {command}{rest}")

    def test_every_experiment_stands_in_its_table(self):
        listed = re.findall(r"(?m)^\| `(\w+)` \|", TEXT.split("## Experiments\n")[1].split("\n## ")[0])
        names = re.findall(r"(?m)^(\w+)  ", self.run_program("experiments").stdout)
        self.assertEqual(sorted(listed), sorted(names))


if __name__ == "__main__":
    unittest.main(verbosity=2)
