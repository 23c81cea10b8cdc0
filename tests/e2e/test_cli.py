#!/usr/bin/env python3
"""The command line as a user meets it: words, messages, exit statuses, streams, files."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import h5py

MHASWEEP = os.environ["MHASWEEP"]
COMMANDS = ("run", "plan", "show", "export", "experiments", "simulate", "doctor")
TIMEOUT = 120  # of one call; none is expected to come near it

SPEC = """\
experiment: probe
seed: 7
parameters:
  heads: [1, 2, 4]
  context: [2, 4]
  dim: 4
  context_type: shared
where: "heads * context <= 8"
replicates: 2
"""
SPEC_POINTS = 10  # (1, 2) (1, 4) (2, 2) (2, 4) (4, 2), twice each


def call(*words, cwd=None, env=None, **more):
    """Runs the program; returns the completed process with stdout and stderr as text."""
    full = dict(os.environ)
    full.update(env or {})
    return subprocess.run([MHASWEEP, *words], cwd=cwd, env=full, text=True, timeout=TIMEOUT,
                          stdin=subprocess.DEVNULL,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})


def shell(line, **more):
    """Runs a line of bash in which $MHASWEEP is the program."""
    return subprocess.run(["bash", "-c", line], text=True, timeout=TIMEOUT, capture_output=True, **more)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mhasweep-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def assert_refused(self, done, *words, status=2):
        """It ended with this status, said nothing on stdout, and its message has these words."""
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_fine(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")


class TheProgram(Case):
    def test_version_names_version_and_commit(self):
        done = call("--version")
        self.assert_fine(done)
        self.assertRegex(done.stdout, r"^mhasweep \d+\.\d+\.\d+ \(git [0-9a-z.-]+\)\n$")

    def test_help_lists_every_command_and_three_examples(self):
        for word in ("--help", "-h"):
            done = call(word)
            self.assert_fine(done)
            for command in COMMANDS:
                self.assertRegex(done.stdout, rf"(?m)^  {command} +\w")
            self.assertEqual(len(re.findall(r"(?m)^  (?:mpirun -n \d+ )?mhasweep \w+ sweep", done.stdout)), 3)

    def test_no_command_is_a_usage_error(self):
        self.assert_refused(call(), "no command", "--help")

    def test_unknown_commands_get_the_nearest(self):
        self.assert_refused(call("rum"), "unknown command rum", "did you mean run?")
        self.assert_refused(call("experiment"), "did you mean experiments?")
        self.assert_refused(call("--versoin"), "unknown option --versoin", "did you mean --version?")
        self.assert_refused(call("zzzzzzzz"), "unknown command zzzzzzzz", "--help")


class EveryCommand(Case):
    def test_help_tells_usage_options_examples_and_exit_statuses(self):
        for command in COMMANDS:
            for words in ([command, "--help"], [command, "-h"], [command, "a", "--help"]):
                done = call(*words)
                self.assert_fine(done)
                self.assertTrue(done.stdout.startswith(f"Usage: mhasweep {command}"), done.stdout)
                for title in ("Options:", "--help", "Examples:", f"mhasweep {command}", "Exit status:", "  0  ", "  2  "):
                    self.assertIn(title, done.stdout)
                self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)

    def test_help_has_every_option(self):
        expected = {
            "run": ["-o", "--resume", "--retry-failed", "--set", "--limit", "--teams", "--quiet"],
            "simulate": ["--ranks", "--set", "--rate", "--overhead", "--message", "--noise", "--teams", "--json"],
            "plan": ["--set", "--list", "--json"],
            "show": ["--point", "--failed", "--json"],
            "export": ["--format", "-o"],
            "experiments": ["--json"],
        }
        for command, options in expected.items():
            text = call(command, "--help").stdout
            for option in options:
                self.assertRegex(text, rf"(?m)^ +(-\w, )?{option}\b", command)

    def test_unknown_options_get_the_nearest(self):
        for command, word, nearest in (("run", "--resme", "--resume"), ("run", "--retry-faild", "--retry-failed"),
                                       ("plan", "--lsit", "--list"), ("show", "--pont=3", "--point"),
                                       ("export", "--fromat", "--format"), ("experiments", "--jsno", "--json"),
                                       ("doctor", "--hepl", "--help")):
            self.assert_refused(call(command, word), f"unknown option {word.split('=')[0]}", f"did you mean {nearest}?")
        self.assert_refused(call("run", "-z"), "unknown option -z", "mhasweep run --help")
        self.assert_refused(call("run", "--quite-something-else"), "unknown option", "mhasweep run --help")

    def test_options_take_values_or_none_as_the_table_says(self):
        self.assert_refused(call("run", "a.yaml", "--set"), "--set needs a value", "NAME=VALUE")
        self.assert_refused(call("run", "a.yaml", "-o"), "--output needs a value")
        self.assert_refused(call("run", "a.yaml", "--quiet=3"), "--quiet takes no value")
        for number in ("x", "-3", "1.5", "", "99999999999999999999"):
            self.assert_refused(call("run", "a.yaml", "--limit", number), "--limit", "whole number")

    def test_operands_are_counted(self):
        for command in ("run", "plan", "show", "export"):
            self.assert_refused(call(command), f"{command}: needs")
            self.assert_refused(call(command, "a", "b"), "unexpected word b")
        self.assert_refused(call("doctor", "a"), "unexpected word a")

    def test_options_stand_before_or_after_the_file(self):
        path = self.write("sweep.yaml", SPEC)
        first = call("plan", "--list", path)
        last = call("plan", path, "--list")
        self.assert_fine(first)
        self.assertEqual(first.stdout, last.stdout)
        self.assertEqual(first.stdout, call("plan", "--list", "--", path).stdout)


class Experiments(Case):
    def test_list_has_every_experiment_with_its_title(self):
        done = call("experiments")
        self.assert_fine(done)
        for name in ("probe", "memorize"):
            self.assertRegex(done.stdout, rf"(?m)^{name} +\w")

    def test_json_and_text_agree_and_have_the_fixed_names(self):
        done = call("experiments", "--json")
        self.assert_fine(done)
        everything = {one["name"]: one for one in json.loads(done.stdout)}
        wanted = {
            "probe": ("heads dim key_dim context samples context_type distribution labels classes weights logit_scale",
                      "rank rank_1e3 rank_1e6 rank_1e9 condition residual memorized saturated bound_lower bound_shared "
                      "bound_width parameters", ""),
            "memorize": ("heads dim key_dim value_dim out_dim context samples classes context_type labels batch lr steps "
                         "min_steps epochs warmup eval_every early_stop", "accuracy loss best_step steps_run",
                         "step loss accuracy"),
        }
        for name, (parameters, results, curves) in wanted.items():
            one = everything[name]
            for kind, names in (("parameters", parameters), ("results", results), ("curves", curves)):
                self.assertLessEqual(set(names.split()), {entry["name"] for entry in one[kind]})
            self.assertEqual(json.loads(call("experiments", name, "--json").stdout), one)
            text = call("experiments", name).stdout
            for entry in one["parameters"] + one["results"] + one["curves"]:
                self.assertRegex(text, rf"(?m)^  {entry['name']} ")
                self.assertTrue(entry["unit"] and entry["meaning"])

    def test_json_has_types_ranges_and_defaults(self):
        one = json.loads(call("experiments", "memorize", "--json").stdout)
        by_name = {entry["name"]: entry for entry in one["parameters"]}
        self.assertEqual(by_name["heads"]["type"], "integer")
        self.assertEqual((by_name["heads"]["default"], by_name["heads"]["least"]), (20, 1))
        self.assertEqual((by_name["lr"]["type"], by_name["lr"]["default"], by_name["lr"]["greater_than"]),
                         ("real", 0.001, 0))
        self.assertEqual(by_name["context_type"]["choices"], ["own", "shared", "bag"])
        self.assertIs(by_name["early_stop"]["default"], True)
        self.assertEqual(by_name["key_dim"]["default"], "= dim")

    def test_unknown_experiment_gets_the_nearest_or_all_names(self):
        self.assert_refused(call("experiments", "memorise"), "no experiment memorise", "did you mean memorize?")
        self.assert_refused(call("experiments", "xyz"), "probe", "memorize")


class Plan(Case):
    def setUp(self):
        super().setUp()
        self.path = self.write("sweep.yaml", SPEC)

    def plan(self, *words):
        done = call("plan", self.path, "--json", *words)
        self.assert_fine(done)
        return json.loads(done.stdout)

    def test_json_counts_points_and_estimates(self):
        plan = self.plan()
        self.assertEqual((plan["grid"], plan["points"], plan["exact"]), (12, SPEC_POINTS, True))
        self.assertEqual(plan["experiment"], "probe")
        self.assertEqual({axis["name"]: axis["values"] for axis in plan["axes"]},
                         {"heads": [1, 2, 4], "context": [2, 4]})
        self.assertEqual(plan["replicates"], 2)
        self.assertIsNone(plan["memory_per_rank"])
        for key in ("flops", "flops_most", "bytes_most", "file_bytes", "flops_per_second", "core_hours", "seconds"):
            self.assertGreater(plan[key], 0, key)
        self.assertLessEqual(plan["flops_most"], plan["flops"])
        self.assertAlmostEqual(plan["core_hours"], plan["flops"] / plan["flops_per_second"] / 3600)
        self.assertGreaterEqual(plan["ranks"], 1)

    def test_operations_in_single_precision_are_timed_as_such(self):
        for words, share, precision in ((("experiment=memorize", "heads=1"), "all", "single"),
                                        (("experiment=memorize", "heads=1", "precision=float64"), "none", "double"),
                                        (("heads=1", "weights=trained", "steps=10"), "some", "single and double"),
                                        (("heads=1",), "none", "double")):
            more = [it for word in (*words, "where=true") for it in ("--set", word)]
            plan = self.plan(*more)
            self.assertEqual({0: "none", plan["flops"]: "all"}.get(plan["flops_float32"], "some"), share, words)
            self.assertRegex(re.sub(r"\s+", " ", call("plan", self.path, *more).stdout),
                             rf"GF/s of matrix products in {precision} precision measured here")

    def test_text_tells_what_json_does(self):
        done = call("plan", self.path)
        self.assert_fine(done)
        self.assertIn(f"{SPEC_POINTS} of 12; where leaves out 2", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ +heads +3 +1, 2, 4$")
        for word in ("points", "axes", "work", "memory", "file", "core-hours", "estimate", "ranks", "mhasweep run"):
            self.assertIn(word, done.stdout)

    def test_set_overrides(self):
        self.assertEqual(self.plan("--set", "replicates=5")["points"], SPEC_POINTS // 2 * 5)
        plan = self.plan("--set", "heads=[1, 2]", "--set", "where=true", "--set", "limits.memory_per_rank=1GiB")
        self.assertEqual((plan["points"], plan["memory_per_rank"]), (8, 2**30))
        self.assert_refused(call("plan", self.path, "--set", "haeds=3"), "--set haeds", "did you mean")
        self.assert_refused(call("plan", self.path, "--set", "heads"), "--set heads")

    def test_models_are_measured_in_parameters(self):
        plan = self.plan("--set", "heads=[1, 2]", "--set", "where=true", "--set", "dim=8", "--set", "key_dim=4")
        self.assertEqual((plan["parameters_least"], plan["parameters_most"]), (8 * (2 * 4 + 1), 2 * 8 * (2 * 4 + 1)))
        given = ("--set", "heads=2", "--set", "where=true", "--set", "dim=8", "--set", "key_dim=4")
        self.assertIn(f"{2 * 8 * (2 * 4 + 1)} parameters in every point", call("plan", self.path, *given).stdout)

    def test_memory_limit_is_compared(self):
        self.assertIn("within limits.memory_per_rank", call("plan", self.path, "--set", "limits.memory_per_rank=1GiB").stdout)
        self.assertIn("MORE than limits.memory_per_rank", call("plan", self.path, "--set", "limits.memory_per_rank=1B").stdout)

    def test_list_has_a_line_per_point_with_what_varies(self):
        done = call("plan", self.path, "--list")
        self.assert_fine(done)
        rows = list(csv.DictReader(io.StringIO(done.stdout), delimiter="\t"))
        self.assertEqual([row["point"] for row in rows], [str(i) for i in range(SPEC_POINTS)])
        self.assertEqual(list(rows[0]), ["point", "heads", "context", "samples", "steps", "replicate"])
        self.assertEqual([row["replicate"] for row in rows], ["0", "1"] * (SPEC_POINTS // 2))
        for row in rows:
            heads, context = int(row["heads"]), int(row["context"])
            self.assertLessEqual(heads * context, 8)
            self.assertEqual(int(row["samples"]), heads * (context - 1) + 1)

    def test_list_and_json_exclude_each_other(self):
        self.assert_refused(call("plan", self.path, "--list", "--json"), "--list", "--json")

    def test_a_grid_of_a_billion_points_is_planned(self):
        self.path = self.write("large.yaml", """\
experiment: probe
parameters:
  heads: {from: 1, to: 1000, step: 1}
  context: {from: 1, to: 1000, step: 1}
  dim: {from: 1, to: 100, step: 1}
where: "heads <= 500"
replicates: 10
""")
        plan = self.plan()
        self.assertEqual((plan["grid"], plan["exact"]), (10**9, False))
        self.assertAlmostEqual(plan["points"], 5e8, delta=5e7)
        text = call("plan", self.path).stdout
        self.assertIn("about", text)
        self.assertRegex(text, r"(?m)^ +heads +1000 +1, 2, 3, 4, 5, 6 \.\.\. 1000$")

    def test_sampled_ranges_are_told_as_ranges(self):
        self.path = self.write("sampled.yaml", """\
experiment: probe
parameters:
  heads: {from: 1, to: 9}
  logit_scale: {from: 0.1, to: 10, scale: log}
sample: {method: sobol, count: 64}
""")
        plan = self.plan()
        self.assertEqual(plan["points"], 64)
        self.assertIn({"name": "heads", "from": 1, "to": 9}, plan["axes"])
        self.assertRegex(call("plan", self.path).stdout, r"logit_scale +any +drawn from 0\.1 to 10")

    def test_what_is_no_sweep_file_is_refused(self):
        self.assert_refused(call("plan", os.path.join(self.folder, "missing.yaml")), "missing.yaml", "No such file")
        self.assert_refused(call("plan", self.folder), self.folder, "folder")
        self.assert_refused(call("plan", self.write("empty.yaml", "")), "empty.yaml")

    def test_all_errors_of_a_sweep_file_are_told_with_their_places(self):
        path = self.write("broken.yaml", "experiment: probe\nparameters:\n  haeds: 3\n  dim: -1\nsede: 1\n")
        done = call("plan", path)
        self.assert_refused(done, f"{path}:3:3:", f"{path}:4:8:", f"{path}:5:1:", "did you mean")
        self.assertEqual(len(done.stderr.strip().splitlines()), 3)


class Streams(Case):
    def test_a_full_disk_under_stdout_is_an_error(self):
        self.write("sweep.yaml", SPEC)
        for words in ("--help", "--version", "run --help", "experiments", "experiments memorize --json",
                      "plan sweep.yaml", "plan sweep.yaml --list", "plan sweep.yaml --json"):
            done = shell(f'"$MHASWEEP" {words} > /dev/full', cwd=self.folder)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("cannot write to standard output: No space left on device", done.stderr)

    def test_a_closed_stdout_is_an_error(self):
        for words in ("--help", "experiments", "experiments --json"):
            done = shell(f'"$MHASWEEP" {words} >&-')
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("cannot write to standard output", done.stderr)

    def test_closed_standard_streams_do_not_get_into_files(self):
        path = self.write("sweep.yaml", SPEC)
        done = shell(f'"$MHASWEEP" run {path} >&- 2>&- <&-', cwd=self.folder)
        self.assertEqual(done.returncode, 0)
        with h5py.File(os.path.join(self.folder, "sweep.h5"), "r") as file:
            self.assertEqual(list(file["status"][()]), [2] * SPEC_POINTS)

    def test_a_reader_that_goes_away_ends_it_in_silence(self):
        path = self.write("long.yaml", "experiment: probe\nparameters:\n  heads: {from: 1, to: 100000, step: 1}\n")
        for trap in ("", "trap '' PIPE; "):  # killed by SIGPIPE, or told by EPIPE
            done = shell(f'{trap}"$MHASWEEP" plan {path} --list | head -n 2; exit "${{PIPESTATUS[0]}}"')
            self.assertEqual(done.returncode, 1 if trap else 141)
            self.assertEqual(len(done.stdout.splitlines()), 2)
            self.assertEqual(done.stderr, "")


class Results(Case):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="mhasweep-cli-")
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        with open(os.path.join(cls.shared, "sweep.yaml"), "w", encoding="utf-8") as file:
            file.write(SPEC)
        cls.ran = call("run", "sweep.yaml", "--quiet", cwd=cls.shared)
        cls.file = os.path.join(cls.shared, "sweep.h5")

    def test_results_that_no_point_has_take_no_column(self):
        shown = call("show", self.file).stdout
        self.assertIn("residual", shown)
        self.assertNotIn("rank_per_head_min", shown)  # of constructed weights, which nobody asked for

    def test_run_names_the_file_after_the_sweep_and_is_quiet(self):
        self.assertEqual((self.ran.returncode, self.ran.stdout, self.ran.stderr), (0, "", ""))
        with h5py.File(self.file, "r") as file:
            self.assertEqual(list(file["status"][()]), [2] * SPEC_POINTS)

    def test_run_never_overwrites(self):
        with open(self.file, "rb") as file:
            before = file.read()
        done = call("run", "sweep.yaml", cwd=self.shared)
        self.assert_refused(done, "sweep.h5", "--resume")
        with open(self.file, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_run_resumes_a_finished_file_to_no_effect(self):
        done = call("run", "sweep.yaml", "--resume", "--quiet", cwd=self.shared)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_run_limit_leaves_the_rest_pending_and_retry_failed_resumes(self):
        path = self.write("sweep.yaml", SPEC)
        done = call("run", path, "--limit", "3", cwd=self.folder)
        self.assertEqual(done.returncode, 75, done.stderr)
        with h5py.File(os.path.join(self.folder, "sweep.h5"), "r") as file:
            self.assertEqual(sorted(file["status"][()]), [0] * (SPEC_POINTS - 3) + [2] * 3)
        counts = json.loads(call("show", "sweep.h5", "--json", cwd=self.folder).stdout)["counts"]
        self.assertEqual((counts["done"], counts["pending"], counts["total"]), (3, SPEC_POINTS - 3, SPEC_POINTS))
        done = call("run", path, "--retry-failed", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_run_refuses_a_broken_sweep_and_writes_nothing(self):
        path = self.write("broken.yaml", "experiment: prob\n")
        self.assert_refused(call("run", path, cwd=self.folder), "broken.yaml:1:", "did you mean probe?")
        self.assert_refused(call("run", "missing.yaml", cwd=self.folder), "missing.yaml")
        self.assertEqual(os.listdir(self.folder), ["broken.yaml"])

    def test_usage_errors_under_mpirun_are_said_once(self):
        done = subprocess.run(["mpirun", "-n", "2", MHASWEEP, "run", "--resme"], text=True, capture_output=True,
                              timeout=TIMEOUT, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("did you mean --resume?"), 1)

    def test_show_tells_counts_and_a_table_with_a_row_per_point(self):
        done = call("show", self.file)
        self.assert_fine(done)
        self.assertIn(f"{SPEC_POINTS}: {SPEC_POINTS} done", done.stdout)
        self.assertIn("probe", done.stdout)
        lines = done.stdout.splitlines()
        titles = next(i for i, line in enumerate(lines) if line.split()[:1] == ["point"])
        self.assertEqual(lines[titles].split()[:3], ["point", "heads", "context"])
        self.assertEqual(lines[titles].split()[-1], "status")
        rows = [line.split() for line in lines[titles + 1:titles + 1 + SPEC_POINTS]]
        self.assertEqual([row[0] for row in rows], [str(i) for i in range(SPEC_POINTS)])
        self.assertEqual({row[-1] for row in rows}, {"done"})
        self.assertNotIn("\033", done.stdout)

    def test_show_json_has_the_values_of_the_file(self):
        done = call("show", self.file, "--json")
        self.assert_fine(done)
        shown = json.loads(done.stdout)
        self.assertEqual((shown["experiment"], shown["counts"]["done"]), ("probe", SPEC_POINTS))
        with h5py.File(self.file, "r") as file:
            self.assertEqual([point["rank"] for point in shown["points"]], file["rank"][()].tolist())
            self.assertEqual([point["residual"] for point in shown["points"]], file["residual"][()].tolist())
        self.assertEqual({point["context_type"] for point in shown["points"]}, {"shared"})
        self.assertEqual({point["status"] for point in shown["points"]}, {"done"})

    def test_show_point_has_everything_of_one_point(self):
        done = call("show", self.file, "--point", "3")
        self.assert_fine(done)
        self.assertIn("point 3, done", done.stdout)
        for name in ("heads", "samples", "rank", "residual", "seconds", "hostname"):
            self.assertRegex(done.stdout, rf"(?m)^  {name} +\S")
        point, = json.loads(call("show", self.file, "--point", "3", "--json").stdout)["points"]
        self.assertEqual(point["point"], 3)
        self.assert_refused(call("show", self.file, "--point", str(SPEC_POINTS)), f"no point {SPEC_POINTS}")
        self.assert_refused(call("show", self.file, "--point", "x"), "whole number")

    def test_show_failed_without_failures_says_so(self):
        done = call("show", self.file, "--failed")
        self.assert_fine(done)
        self.assertIn("No point has failed", done.stdout)
        self.assertEqual(json.loads(call("show", self.file, "--failed", "--json").stdout)["points"], [])

    def test_what_is_no_result_file_is_an_error(self):
        text = self.write("text.h5", "not HDF5\n")
        with h5py.File(os.path.join(self.folder, "foreign.h5"), "w") as file:
            file["x"] = [1, 2, 3]
        foreign = os.path.join(self.folder, "foreign.h5")
        missing = os.path.join(self.folder, "missing.h5")
        with open(self.file, "rb") as file:
            whole = file.read()
        short = os.path.join(self.folder, "short.h5")
        with open(short, "wb") as file:
            file.write(whole[:len(whole) // 2])
        for command in ("show", "export"):
            for path in (text, foreign, missing, short, self.folder):
                self.assert_refused(call(command, path), "mhasweep: ", path, status=1)

    def test_export_csv_has_a_header_and_a_line_per_point(self):
        done = call("export", self.file)
        self.assert_fine(done)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual(len(rows), SPEC_POINTS)
        with h5py.File(self.file, "r") as file:
            self.assertEqual([int(row["rank"]) for row in rows], file["rank"][()].tolist())
            self.assertEqual([float(row["residual"]) for row in rows], file["residual"][()].tolist())

    def test_export_jsonl_has_an_object_per_point(self):
        done = call("export", self.file, "--format", "jsonl")
        self.assert_fine(done)
        points = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(points), SPEC_POINTS)
        self.assertEqual({point["status"] for point in points}, {"done"})
        self.assert_refused(call("export", self.file, "--format", "xml"), "xml", "csv", "jsonl")

    def test_export_makes_new_files_only(self):
        out = os.path.join(self.folder, "out.csv")
        done = call("export", self.file, "-o", out)
        self.assert_fine(done)
        self.assertEqual(done.stdout, "")
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), call("export", self.file).stdout)
        self.write("out.csv", "mine")
        self.assert_refused(call("export", self.file, "-o", out), "out.csv exists", "remove it")
        with open(out, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        nowhere = os.path.join(self.folder, "no", "out.csv")
        self.assert_refused(call("export", self.file, "-o", nowhere), nowhere, "No such file", status=1)

    def test_show_and_export_notice_a_full_disk(self):
        for words in ("show", "show --json", "show --point 0", "export", "export --format jsonl"):
            command, *more = words.split()
            done = shell(f'"$MHASWEEP" {command} {self.file} {" ".join(more)} > /dev/full')
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("No space left on device", done.stderr, words)


class Failures(Case):
    def test_failed_points_are_shown_with_their_reasons(self):
        path = self.write("sweep.yaml", """\
experiment: memorize
parameters: {heads: 1, dim: 2, context: 2, classes: 2, samples: 8, batch: 4, steps: 40, eval_every: 10,
             lr: [1.0e-3, 1.0e+12], early_stop: false}
""")
        ran = call("run", path, "--quiet", cwd=self.folder)
        self.assertEqual(ran.returncode, 3, ran.stderr)
        file = os.path.join(self.folder, "sweep.h5")
        whole = call("show", file)
        self.assert_fine(whole)
        self.assertIn("2: 1 done, 1 failed", whole.stdout)
        self.assertIn("--failed", whole.stdout)
        failed, = json.loads(call("show", file, "--failed", "--json").stdout)["points"]
        self.assertEqual((failed["point"], failed["lr"], failed["loss"]), (1, 1e12, None))
        self.assertTrue(failed["error"])
        text = call("show", file, "--failed").stdout
        self.assertIn(failed["error"], text)
        self.assertIn(failed["error"], call("show", file, "--point", "1").stdout)

    def test_curves_of_a_point_are_shown(self):
        path = self.write("sweep.yaml", """\
experiment: memorize
parameters: {heads: 1, dim: 2, context: 2, classes: 2, samples: 8, batch: 4, steps: 40, eval_every: 10,
             early_stop: false}
""")
        ran = call("run", path, "--quiet", cwd=self.folder)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        file = os.path.join(self.folder, "sweep.h5")
        point, = json.loads(call("show", file, "--point", "0", "--json").stdout)["points"]
        with h5py.File(file, "r") as results:
            steps = results["curve_step"][0]
            loss = results["curve_loss"][0]
        used = len(point["curves"]["step"])
        self.assertEqual(point["curves"]["step"], steps[:used].tolist())
        self.assertEqual(point["curves"]["loss"], loss[:used].tolist())
        self.assertEqual(point["curves"]["step"][-1], 40)
        self.assertIn(f"Curves, {used} records", call("show", file, "--point", "0").stdout)


class Doctor(Case):
    CHECKS = ("build", "BLAS", "dgemm", "CPUs", "memory", "timer", "MPI", "HDF5", "folder", "writing", "locking")

    def verdicts(self, done):
        return {found[1]: found[0] for found in re.findall(r"(?m)^(ok|warn|FAIL) +(\w+) ", done.stdout)}

    def test_one_line_a_check_and_nothing_left_behind(self):
        done = call("doctor", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        verdicts = self.verdicts(done)
        for check in self.CHECKS:
            self.assertIn(verdicts.get(check), ("ok", "warn"), check)
        self.assertEqual(verdicts["dgemm"], "ok")
        self.assertEqual(verdicts["writing"], "ok")
        self.assertEqual(verdicts["team"], "ok")  # ScaLAPACK multiplies with the BLAS of the program
        self.assertEqual(os.listdir(self.folder), [])

    def test_rank_0_speaks_for_all(self):
        done = subprocess.run(["mpirun", "-n", "2", MHASWEEP, "doctor"], text=True, capture_output=True,
                              timeout=TIMEOUT, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for check in self.CHECKS:
            self.assertEqual(len(re.findall(rf"(?m)^(?:ok|warn|FAIL) +{check} ", done.stdout)), 1, check)
        self.assertIn("a world of 2 ranks", done.stdout)
        self.assertIn("written by 2 ranks", done.stdout)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_copy_that_wrongly_thinks_it_is_alone_fails(self):
        done = call("doctor", cwd=self.folder, env={"PMI_SIZE": "4", "PMI_RANK": "0"})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.verdicts(done)["MPI"], "FAIL")
        self.assertIn("4 copies", done.stdout)
        done = call("doctor", cwd=self.folder, env={"PMI_SIZE": "4", "PMI_RANK": "1"})
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_a_folder_that_takes_no_files_fails(self):
        done = call("doctor", cwd="/proc")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(self.verdicts(done)["writing"], "FAIL")

    def test_slow_kernels_that_the_user_asked_for_are_told(self):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            if " avx2 " not in file.read():
                self.skipTest("this CPU has nothing better")
        done = call("doctor", cwd=self.folder, env={"OPENBLAS_CORETYPE": "Prescott"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.verdicts(done)["BLAS"], "warn")
        self.assertRegex(done.stdout, r"Prescott kernels[^;]*unset\s+OPENBLAS_CORETYPE")
        self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
