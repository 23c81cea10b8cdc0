"""jobs/submit.sh and jobs/sweep.sbatch where there is no SLURM: stand-ins for its commands tell how they were called. What a
real SLURM makes of them is tested in tests/slurm."""
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import harness

SUBMIT = harness.SOURCE / "jobs" / "submit.sh"
BATCH = harness.SOURCE / "jobs" / "sweep.sbatch"

SMALL = "experiment: probe\nparameters: {heads: [1, 2, 3], dim: 4, context: 3, samples: 9}\n"
# 32 points, some core-months.
LARGE = """
experiment: memorize
parameters: {heads: [20, 40], samples: [10000, 20000], steps: 3000000}
replicates: 8
"""
# One point of 64 MiB, for a team.
WIDE = """
experiment: probe
parameters: {heads: 16, dim: 64, context: 8, samples: 1500, solver: rrqr}
limits: {memory_per_rank: 8MiB}
"""
ENDLESS = """
experiment: memorize
parameters: {heads: [1, 2, 3, 4], dim: 16, context: 4, samples: 50, classes: 10, batch: 32, steps: 300, early_stop: false}
replicates: 5000
"""

# Every command of the system but SLURM's.
TOOLS = ("bash", "awk", "sed", "realpath", "dirname", "sort", "head", "timeout", "cat", "hostname", "mpirun", "env", "sh",
         "tr", "paste", "stat", "mktemp", "rm")


class WithoutSlurm(harness.Folder):
    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def stand_in(self, name, script):
        """A command that notes its words in NAME.words, a line for every call."""
        path = self.bin / name
        path.write_text(f"#!/bin/bash\necho \"$*\" >>'{self.folder}/{name}.words'\n{script}\n")
        path.chmod(0o755)

    def calls_of(self, name):
        path = self.folder / f"{name}.words"
        return path.read_text().splitlines() if path.exists() else []

    def environment(self, **more):
        env = {name: value for name, value in harness.environment().items() if not name.startswith(("SLURM", "SBATCH"))}
        return dict(env, PATH=str(self.bin), MHASWEEP=os.path.abspath(harness.PROGRAM)) | more

    def call(self, *words, expect=0, **more):
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=self.environment(**more), text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
        self.assertEqual(done.returncode, expect, f"{words}\n{done.stdout}\n{done.stderr}")
        return done


class Submit(WithoutSlurm):
    def submit(self, *words, expect=0, **more):
        return self.call(SUBMIT, *words, expect=expect, **more)

    def script(self, *words, **more):
        return self.submit("--print", *words, **more).stdout

    def options(self, *words, **more):
        """What a printed script asks of sbatch, by its long names."""
        return dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", self.script(*words, **more), re.MULTILINE))

    def plan(self, name):
        return json.loads(self.run_program("plan", name, "--json").stdout)

    def test_ranks_memory_and_time_follow_from_the_plan(self):
        self.write("small.yaml", SMALL)
        options = self.options("small.yaml")
        self.assertEqual((options["ntasks"], options["time"], options["job-name"]), ("1", "0-00:15:00", "small"))
        self.write("large.yaml", LARGE)
        hour, months = self.options("large.yaml"), self.options("--hours", "2000", "large.yaml")
        self.assertEqual(int(hour["ntasks"]), min(128, self.plan("large.yaml")["workers_most"]))
        self.assertLess(int(months["ntasks"]), int(hour["ntasks"]))
        bytes_most = self.plan("large.yaml")["bytes_most"]
        self.assertGreater(int(hour["mem-per-cpu"].rstrip("M")) * 2**20, bytes_most * 1.25 + 2**28)

    def test_caps_hold(self):
        self.write("large.yaml", LARGE)
        self.assertEqual(self.options("--max-ranks=3", "large.yaml")["ntasks"], "3")
        self.assertEqual(self.options("--max-ranks", "2", "--max-time", "90", "large.yaml")["time"], "0-01:30:00")
        self.assertEqual(self.options("--max-ranks", "2", "--max-time", "2-1", "large.yaml")["time"], "2-01:00:00")

    def test_the_time_is_within_the_partitions_limit(self):
        self.write("large.yaml", LARGE)
        self.stand_in("sinfo", 'case "$*" in *short*) echo 2:00:00 ;; *%P*) printf "a 10:00\\nb* 3-00:00:00\\n" ;; *) echo infinite ;; esac')
        self.assertEqual(self.options("large.yaml", "--partition=short")["time"], "0-02:00:00")
        self.assertEqual(self.options("large.yaml", "-p", "short")["time"], "0-02:00:00")
        self.assertEqual(self.options("large.yaml", SBATCH_PARTITION="short")["time"], "0-02:00:00")
        self.assertEqual(self.options("--max-time", "9-0", "--max-ranks=1", "large.yaml")["time"], "3-00:00:00")
        self.assertEqual(self.options("--max-time", "5-0", "--max-ranks=1", "large.yaml", "-plong")["time"], "5-00:00:00")

    def test_a_team_fits_or_is_refused(self):
        self.write("wide.yaml", WIDE)
        team = self.plan("wide.yaml")["ranks_most"]
        self.assertGreater(team, 1)
        self.assertEqual(self.options("wide.yaml")["ntasks"], str(team))
        refused = self.submit("--print", "--max-ranks", team - 1, "wide.yaml", expect=2)
        self.assertIn(f"takes a team of {team} ranks", refused.stderr)

    def test_options_for_sbatch_win(self):
        self.write("sweep.yaml", SMALL)
        for words, name in ((["-n", "7"], "ntasks"), (["--ntasks-per-node=7"], "ntasks"), (["-t5"], "time"),
                            (["--mem=2G"], "mem-per-cpu")):
            with self.subTest(words=words):
                self.assertNotIn(name, self.options("sweep.yaml", *words))
                self.assertIn("\n#SBATCH " + " ".join(words) + "\n", self.script("sweep.yaml", *words))

    def test_what_is_submitted_is_what_is_printed(self):
        self.write("sweep.yaml", SMALL)
        self.stand_in("sbatch", "cat >script; echo Submitted batch job 17")
        words = ("sweep.yaml", "--comment=it's a test", "--", "-o", "a b.h5")
        done = self.submit(*words)
        self.assertEqual(done.stdout, "Submitted batch job 17\n")
        self.assertEqual((self.folder / "script").read_text(), self.script(*words))
        self.assertIn("""\n#SBATCH '--comment=it'\\''s a test'\n""", self.script(*words))

    def test_no_word_is_ever_evaluated(self):
        spec = self.write("a $(touch oops) 'b'\n\"c\" `touch oops`.yaml", SMALL)
        words = [spec.name, "-o", "x; touch oops.h5", "--set", "samples=[10, 11]"]
        script = self.script(words[0], "--comment=$(touch oops)", "--", *words[1:])
        lines = script[script.index("\nset --"):script.index("\nMHASWEEP_LAUNCHER")]
        done = self.call("bash", "-c", lines + "\nprintf '%s\\0' \"$@\" \"$MHASWEEP\"", MHASWEEP="")
        self.assertEqual(done.stdout.split("\0")[:-1], words + [os.path.realpath(harness.PROGRAM)])
        self.assertFalse((self.folder / "oops").exists())
        self.assertIn("6 points", script)  # --set counts for the plan too

    def test_a_wrong_sweep_file_is_told_by_the_plan_and_not_submitted(self):
        self.stand_in("sbatch", "")
        self.write("broken.yaml", SMALL.replace("heads", "heds"))
        self.assertIn("did you mean heads?", self.submit("broken.yaml", expect=2).stderr)
        self.assertIn("absent.yaml", self.submit("absent.yaml", expect=2).stderr)
        self.write("empty.yaml", SMALL + "where: heads > 5\n")
        self.assertIn("empty.yaml has no point to run", self.submit("empty.yaml", expect=2).stderr)
        self.assertEqual(self.calls_of("sbatch"), [])

    def test_wrong_words_are_refused(self):
        self.write("sweep.yaml", SMALL)
        for words, message in (([], "jobs/submit.sh"), (["--prnt", "sweep.yaml"], "unknown option --prnt"),
                               (["--hours", "0", "sweep.yaml"], "--hours 0"), (["--max-ranks=x", "sweep.yaml"], "--max-ranks x"),
                               (["--max-time", "soon", "sweep.yaml"], "--max-time soon"), (["--hours"], "--hours needs a value"),
                               (["sweep.yaml", "--print"], "--print goes before the sweep file"),
                               (["sweep.yaml", "a\nb"], "line break")):
            with self.subTest(words=words):
                self.assertIn(message, self.submit(*words, expect=2).stderr)

    def test_no_sbatch_or_one_that_fails(self):
        self.write("sweep.yaml", SMALL)
        self.assertIn("no sbatch here", self.submit("sweep.yaml", expect=1).stderr)
        self.stand_in("sbatch", "echo 'sbatch: error: no account' >&2; exit 1")
        self.assertRegex(self.submit("sweep.yaml", expect=1).stderr, r"(?s)no account.*did not take the job")


class Batch(WithoutSlurm):
    def setUp(self):
        super().setUp()
        self.stand_in("scontrol", "")
        self.stand_in("squeue", "echo RUNNING")

    def job(self, **more):
        return dict({"SLURM_JOB_ID": "17", "SLURM_NTASKS": "2", "OMPI_MCA_plm": "isolated", "OMPI_MCA_ras": "^slurm"}, **more)

    def interrupted(self, number, **more):
        """Sends the script a signal when points are done; its status and words."""
        self.write("endless.yaml", ENDLESS)
        with open(self.folder / "log", "w") as log:
            process = subprocess.Popen([BATCH, "endless.yaml"], cwd=self.folder, env=self.environment(**self.job(**more)),
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(lambda: process.poll() is not None or os.killpg(process.pid, signal.SIGKILL))
        path = self.folder / "endless.h5"
        self.wait_for("rows", lambda: process.poll() is not None
                      or path.exists() and (harness.statuses(path) == harness.DONE).any())
        process.send_signal(number)
        status = process.wait(timeout=120)
        return status, (self.folder / "log").read_text()

    def test_a_warned_job_stops_and_is_queued_again(self):
        status, words = self.interrupted(signal.SIGUSR1)
        self.assertEqual(status, 75, words)
        self.assertIn("requeue 17", self.calls_of("scontrol"), words)
        self.assertIn("on 3 ranks", words)

    def test_a_job_restarted_too_often_is_not(self):
        status, words = self.interrupted(signal.SIGUSR1, SLURM_RESTART_COUNT="3", MHASWEEP_RESTARTS="3")
        self.assertEqual(status, 75, words)
        self.assertNotIn("requeue 17", self.calls_of("scontrol"), words)
        self.assertIn("restarted 3 times", words)

    def test_a_cancelled_job_is_not(self):
        self.stand_in("squeue", "echo COMPLETING")
        status, words = self.interrupted(signal.SIGTERM)
        self.assertEqual(status, 75, words)
        self.assertNotIn("requeue 17", self.calls_of("scontrol"), words)
        self.assertIn("it was cancelled", words)

    def test_what_is_missing_is_told(self):
        self.write("sweep.yaml", SMALL)
        for more, message, status in (({"MHASWEEP_LAUNCHER": "mpiexec"}, "mpirun or srun, not mpiexec", 2),
                                      ({"MHASWEEP_LAUNCHER": "srun"}, "there is no srun on", 1),
                                      ({"SLURM_RESTART_COUNT": "51"}, "restarted too often", 75)):
            with self.subTest(message=message):
                self.assertIn(message, self.call(BATCH, "sweep.yaml", expect=status, **self.job(**more)).stderr)
        self.assertIn("usage: sbatch", self.call(BATCH, expect=1, **self.job()).stderr)
        self.assertIn("the script of a SLURM job", self.call(BATCH, "sweep.yaml", expect=1).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
