"""The manual pages and completions that the build makes: they render, say what --help says, and complete for real."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

import harness

PROGRAM = pathlib.Path(harness.PROGRAM).resolve()
MANUAL = PROGRAM.parent / "manual"
PAGES = ("mhasweep.1", "mhasweep-sweep.5", "mhasweep-experiments.7")
COMMANDS = ("run", "plan", "show", "export", "experiments", "simulate", "doctor")


def output(*words):
    return subprocess.run([PROGRAM, *words], text=True, capture_output=True, check=True, timeout=60).stdout


def rendered(page):
    env = dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="200", MAN_KEEP_FORMATTING="")
    return subprocess.run(["man", "--no-hyphenation", "-l", f"./{page}"], cwd=MANUAL, env=env, text=True, capture_output=True, check=True,
                          timeout=60).stdout


def squeezed(text):
    """Without what filling and hyphens of a page change."""
    return re.sub(r"\s+", "", text).replace("\u2010", "-").replace("\u2212", "-")


@unittest.skipUnless(shutil.which("man"), "there is no man here")
class Pages(unittest.TestCase):
    def test_every_page_renders_without_a_warning(self):
        for page in PAGES:
            for command in (["man", "--warnings", "-l", f"./{page}"],
                            ["groff", "-ww", "-z", "-k", "-man", "-Tutf8", page]):
                if not shutil.which(command[0]):
                    continue
                done = subprocess.run(command, cwd=MANUAL, env=dict(os.environ, LC_ALL="C.UTF-8"), text=True,
                                      capture_output=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)

    def test_the_page_of_the_program_and_help_have_the_same_options_and_words(self):
        page = rendered("mhasweep.1")
        sections = re.split(r"(?m)^   (\w+)$", page.split("\nCOMMANDS\n")[1].split("\nENVIRONMENT\n")[0])
        self.assertEqual(tuple(sections[1::2]), COMMANDS)
        for command, section in zip(sections[1::2], sections[2::2]):
            text = output(command, "--help")
            options = re.findall(r"(?m)^ +((?:-\w, )?--[\w-]+(?: [^ ]+)?)(?:  |$)", text.split("Options:")[1])
            self.assertIn("-h, --help", options)
            options.remove("-h, --help")  # said once for all commands
            named = r"(?m)^ {7}((?:-\w, )?--[\w-]+(?: (?:[A-Z[]\S*|\w+(?:\|\w+)+))?)(?: |$)"
            self.assertEqual(re.findall(named, section), options, command)
            description = re.search(r"(?s)\n\n(.*?)\nOptions:", text).group(1)
            self.assertTrue(squeezed(description) in squeezed(section), command)
            for status in re.findall(r"(?m)^ +(\d+  .+)$", text.split("Exit status:")[1]):
                self.assertTrue(squeezed(status) in squeezed(section), f"{command}: {status}")

    def test_the_page_of_experiments_has_every_number_with_its_meaning(self):
        page = squeezed(rendered("mhasweep-experiments.7"))
        for experiment in json.loads(output("experiments", "--json")):
            self.assertTrue(squeezed(experiment["summary"]) in page, experiment["name"])
            for kind in ("parameters", "results", "curves"):
                for entry in experiment[kind]:
                    self.assertTrue(f"{entry['name']}" in page, entry["name"])
                    self.assertTrue(squeezed(entry["meaning"]) in page, entry["name"])

    def test_the_page_of_the_sweep_file_has_every_setting(self):
        page = (MANUAL / "mhasweep-sweep.5").read_text()
        settings = completion_settings()
        self.assertGreater(len(settings), 15)
        for setting in settings:
            for key in setting.split("."):
                self.assertTrue(rf"\fB{key}\fR" in page, setting)

    def test_the_example_of_the_page_is_a_sweep(self):
        example = re.search(r"(?m)^experiment: memorize\n(?:.+\n)*?limits: .+$", rendered_example()).group()
        folder = harness.Folder("run")
        folder.setUp()
        try:
            folder.write("example.yaml", example + "\n")
            self.assertGreater(json.loads(folder.run_program("plan", "example.yaml", "--json").stdout)["points"], 100)
        finally:
            folder.doCleanups()


def rendered_example():
    page = (MANUAL / "mhasweep-sweep.5").read_text()
    return page.split(".EX\n")[1].split(".EE")[0].replace(r"\-", "-")


def completion_settings():
    return re.search(r"(?m)^_mhasweep_settings='(.+)'$", (MANUAL / "mhasweep.bash").read_text()).group(1).split()


class Completion(harness.Folder):
    """Words are completed in a folder with a sweep file, a result file and a folder."""

    def setUp(self):
        super().setUp()
        self.write("heads.yaml", "# a comment\nexperiment: memorize\nparameters: {heads: 1}\n")
        self.write("old.h5", "")
        self.write("notes.txt", "")
        (self.folder / "results").mkdir()
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "mhasweep").symlink_to(PROGRAM)
        self.path = f"{self.folder / 'bin'}:{os.environ['PATH']}"


class Bash(Completion):
    def complete(self, line):
        """What bash offers for the last word; the line is split as readline does, at = too."""
        words = [word for part in line.split(" ") for word in (re.split("(=)", part) if "=" in part else [part])]
        words = [word for i, word in enumerate(words) if word != "" or i == len(words) - 1]
        if words[-1] == "" and line.endswith("="):
            words.pop()
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; '
                  '_mhasweep; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "bash", MANUAL / "mhasweep.bash", *words], cwd=self.folder,
                              env=dict(os.environ, PATH=self.path), text=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""), line)
        return done.stdout.split()

    def test_commands(self):
        self.assertEqual(self.complete("mhasweep "), [*COMMANDS, "--help", "--version"])
        self.assertEqual(self.complete("mhasweep s"), ["show", "simulate"])
        self.assertEqual(self.complete("mhasweep zzz"), [])

    def test_options_are_those_of_help(self):
        for command in COMMANDS:
            expected = re.findall(r"(?m)^ +(?:-\w, )?(--[\w-]+)", output(command, "--help").split("Options:")[1].split("\n\n")[0])
            self.assertEqual([word.rstrip("=") for word in self.complete(f"mhasweep {command} --")], expected)
        self.assertLessEqual({"--resume", "--retry-failed"}, set(self.complete("mhasweep run --re")))
        self.assertEqual(self.complete("mhasweep run --set"), ["--set="])

    def test_operands_are_files_of_their_kind_and_folders(self):
        self.assertEqual(sorted(self.complete("mhasweep run ")), ["bin", "heads.yaml", "results"])
        self.assertEqual(self.complete("mhasweep plan h"), ["heads.yaml"])
        self.assertEqual(self.complete("mhasweep show o"), ["old.h5"])
        self.assertEqual(self.complete("mhasweep run heads.yaml -o o"), ["old.h5"])
        self.assertEqual(self.complete("mhasweep run heads.yaml --output=o"), ["old.h5"])
        self.assertEqual(self.complete("mhasweep export old.h5 -o n"), ["notes.txt"])

    def test_experiments(self):
        names = [experiment["name"] for experiment in json.loads(output("experiments", "--json"))]
        self.assertEqual(self.complete("mhasweep experiments "), names)
        self.assertEqual(self.complete("mhasweep experiments memo"), ["memorize"])
        self.assertEqual(self.complete("mhasweep run heads.yaml --set experiment=pro"), ["probe"])

    def test_parameters_and_settings_after_set(self):
        memorize = [entry["name"] for entry in json.loads(output("experiments", "memorize", "--json"))["parameters"]]
        expected = [f"{name}=" for name in (*memorize, *completion_settings())]
        self.assertEqual(self.complete("mhasweep run heads.yaml --set "), expected)
        self.assertEqual(self.complete("mhasweep run heads.yaml --set eval_e"), ["eval_every="])
        self.assertEqual(self.complete("mhasweep run heads.yaml --set=eval_e"), ["eval_every="])
        self.assertEqual(self.complete("mhasweep run heads.yaml --set limits.max"), ["limits.max_failures="])
        self.assertEqual(self.complete("mhasweep plan heads.yaml --set saturation_g"), [])  # a parameter of probe
        self.assertEqual(self.complete("mhasweep plan heads.yaml --set experiment=probe --set saturation_g"), ["saturation_gain="])
        self.assertEqual(self.complete("mhasweep plan --set saturation_g"), ["saturation_gain="])  # of any experiment

    def test_words_of_choices_and_flags(self):
        self.assertEqual(self.complete("mhasweep run heads.yaml --set context_type="), ["bag", "own", "shared"])
        self.assertEqual(self.complete("mhasweep run heads.yaml --set context_type=sh"), ["shared"])
        self.assertEqual(self.complete("mhasweep run heads.yaml --set early_stop=t"), ["true"])
        self.assertEqual(self.complete("mhasweep run heads.yaml --set heads="), [])
        self.assertEqual(self.complete("mhasweep run heads.yaml --teams "), ["dynamic", "static"])
        self.assertEqual(self.complete("mhasweep export old.h5 --format=j"), ["jsonl"])

    def test_without_the_program_there_are_no_errors(self):
        (self.folder / "bin" / "mhasweep").unlink()
        self.path = "/usr/bin:/bin"
        self.assertEqual(self.complete("mhasweep experiments "), [])
        self.assertEqual(self.complete("mhasweep run heads.yaml --set se"), ["seed=", "search=", "search.parameter=",
                         "search.until=", "search.from=", "search.to=", "search.tolerance="])


class Typed(Completion):
    """A line typed into a shell on a terminal, with the tabulator key."""

    def type_into(self, shell, setup, line, wanted):
        env = dict(os.environ, PATH=self.path, TERM="dumb", PS1="$ ", HOME=str(self.folder), LC_ALL="C.UTF-8")
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe(shell[0], shell, env)
        try:
            os.write(terminal, f"{setup}; echo rea''dy\n".encode())
            self.read_until(terminal, "ready")
            os.write(terminal, line.encode())
            return self.read_until(terminal, wanted)
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)

    def read_until(self, terminal, wanted, timeout=30):
        seen, end = "", time.monotonic() + timeout
        while wanted not in seen:
            if time.monotonic() > end:
                self.fail(f"waited for {wanted!r}, saw {seen!r}")
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 65536).decode(errors="replace").replace("\r", "")
                seen = re.sub(r"(?s).\x08", "", seen)
        return seen

    def test_bash(self):
        shell, setup = ["bash", "--norc", "--noprofile", "-i"], f"source {MANUAL}/mhasweep.bash"
        self.type_into(shell, setup, "mhasweep pl\the\t--se\t", "mhasweep plan heads.yaml --set=")
        self.type_into(shell, setup, "mhasweep run heads.yaml --set eval_e\t", "--set eval_every=")
        self.type_into(shell, setup, "mhasweep run heads.yaml --set context_type=sh\t", "context_type=shared ")
        self.type_into(shell, setup, "mhasweep run re\t", "mhasweep run results/")

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh here")
    def test_zsh(self):
        shell = ["zsh", "-f", "-i"]
        setup = f"PS1='$ '; fpath=({MANUAL} $fpath); autoload -Uz compinit; compinit -u -D"
        self.type_into(shell, setup, "mhasweep pl\the\t--se\t", "mhasweep plan heads.yaml --set=")
        self.type_into(shell, setup, "mhasweep run heads.yaml --set eval_e\t", "--set eval_every=")
        self.type_into(shell, setup, "mhasweep run heads.yaml --set=eval_e\t", "--set=eval_every=")
        self.type_into(shell, setup, "mhasweep run heads.yaml --set context_type=sh\t", "context_type=shared")
        self.type_into(shell, setup, "mhasweep experiments memo\t", "mhasweep experiments memorize")
        self.type_into(shell, setup, "mhasweep show o\t", "mhasweep show old.h5")


if __name__ == "__main__":
    unittest.main(verbosity=2)
