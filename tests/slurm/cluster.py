"""What the tests on a cluster share: submitting jobs, watching them, and the account of what came of each scenario.

Each test script runs itself inside cluster.sh, and ends with status 77 and the reason where there can be no cluster."""
import functools
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
import harness  # noqa: E402

HERE = pathlib.Path(__file__).parent
PROGRAM = os.path.abspath(harness.PROGRAM)
BATCH = harness.SOURCE / "jobs" / "sweep.sbatch"
CPUS = 3  # of a node
DEADLINE = 300  # seconds that anything may take: the machine may be busy

SHORT = """
experiment: memorize
seed: 3
parameters:
  heads: [1, 2, 4]
  dim: 8
  context: 4
  samples: [40, 60]
  classes: 10
  batch: 16
  steps: 60
  eval_every: 20
  context_type: [own, shared]
replicates: 3
store: [curves, weights]
"""

# In small points, and so many of them as long() asks for.
FOUR = """
experiment: memorize
seed: 5
parameters:
  heads: [1, 2, 4]
  dim: 16
  context: 8
  samples: [100, 200, 400]
  classes: 10
  batch: 32
  steps: 2000
  eval_every: 500
  lr: 5.0e-3
  early_stop: false
replicates: 4
"""
LONG_SECONDS = 7  # time enough to disturb it

LAUNCHERS = ("mpirun", "srun")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "PREEMPTED"}


def call(*words, cwd=None, **variables):
    """Runs a command of SLURM; its output."""
    env = dict(os.environ, **variables)
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=DEADLINE)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


@functools.cache
def trial(text):
    """What this sweep takes of one core."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trial-"))  # in the cluster's own file system, and gone with it
    (folder / "trial.yaml").write_text(text)
    return harness.cpu_seconds(folder, "run", "trial.yaml", "--quiet")


def long(seconds=LONG_SECONDS):
    """A sweep that takes one core of this machine so many seconds."""
    return FOUR.replace("replicates: 4", f"replicates: {math.ceil(4 * seconds / trial(FOUR))}")


@functools.cache
def reference(name):
    """The file of SHORT or long() ("short", "long") as an undisturbed run by one process writes it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="reference-"))
    (folder / f"{name}.yaml").write_text(SHORT if name == "short" else long())
    call(PROGRAM, "run", f"{name}.yaml", "--quiet", cwd=folder)
    return folder / f"{name}.h5"


class Job:
    """A job of the cluster, by its number."""

    def __init__(self, number, log):
        self.number = number
        self.log = log

    def __str__(self):
        facts = ", ".join(f"{name} {self.fact(name)}" for name in ("JobState", "Reason", "ExitCode", "Restarts"))
        return f"job {self.number}: {facts}\n{self.words()}"

    def fact(self, name):
        text = call("scontrol", "show", "job", "--oneliner", self.number)
        return re.search(rf"(?:^| ){name}=(\S*)", text).group(1)

    def words(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def state(self):
        return self.fact("JobState")

    def restarts(self):
        return int(self.fact("Restarts"))

    def exit_status(self):
        return int(self.fact("ExitCode").split(":")[0])

    def nodes(self):
        return call("scontrol", "show", "hostnames", self.fact("NodeList")).split()


def ranks():
    """The processes of the program on all nodes, by their ranks (those of one job, if it is the only one)."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit() or (entry / "comm").read_text().strip() != pathlib.Path(PROGRAM).name[:15]:
                continue
            words = dict(word.split(b"=", 1) for word in (entry / "environ").read_bytes().split(b"\0") if b"=" in word)
            found[int(words.get(b"OMPI_COMM_WORLD_RANK") or words[b"PMIX_RANK"])] = int(entry.name)
        except (OSError, KeyError):
            continue  # it has ended, or is no rank
    return found


class Account:
    """The table of scenarios: jobs submitted, how often they started, points, and how many of those were lost."""

    def __init__(self):
        self.rows = []

    def add(self, scenario, jobs, points, done, lost, seconds):
        starts = sum(1 + job.restarts() for job in jobs)
        self.rows.append((scenario, len(jobs), starts, points, done, lost, f"{seconds:.0f}"))

    def print(self):
        titles = ("scenario", "jobs", "starts", "points", "done", "lost", "seconds")
        table = [titles, *([str(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[i]) for row in table) for i in range(len(titles))]
        print()
        for row in table:
            print(row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:])), sep="  ")


class OnCluster(harness.Folder):
    """A test case whose jobs run in its folder, which all nodes see."""

    account = Account()

    def setUp(self):
        super().setUp()
        self.jobs = []
        self.started = time.monotonic()
        self.addCleanup(self.cancel)

    def cancel(self):
        left = [job.number for job in self.jobs if job.state() not in ENDED]
        if left:
            call("scancel", *left)
            for job in self.jobs:
                self.wait_for("the end of a cancelled job", lambda job=job: job.state() in ENDED, DEADLINE)

    def submit(self, *words, nodes=2, tasks=4, options=(), **variables):
        """jobs/sweep.sbatch with these words, and so many tasks or as many as the options say (tasks=None)."""
        asked = [f"--nodes={nodes}"] + ([] if tasks is None else [f"--ntasks={tasks}"])
        return self.sbatch(*asked, *options, BATCH, *words, MHASWEEP=PROGRAM, **variables)

    def submit_command(self, command, tasks=4):
        """A command of the shell as a job."""
        return self.sbatch(f"--ntasks={tasks}", f"--wrap={command}")

    def sbatch(self, *words, **variables):
        return self.take(call("sbatch", "--parsable", *words, cwd=self.folder, **variables))

    def take(self, number):
        """The job of this number, to be looked after."""
        self.jobs.append(Job(number, self.folder / f"slurm-{number}.out"))
        return self.jobs[-1]

    def await_state(self, job, *states, timeout=DEADLINE):
        """Waits until the job is in one of these states (default: at an end); which one."""
        end = time.monotonic() + timeout
        while (state := job.state()) not in (states or ENDED):
            if state in ENDED or time.monotonic() > end:
                self.fail(f"waited for {states or ENDED}: {job}")
            time.sleep(0.2)
        return state

    def await_rows(self, job, path, rows):
        """Waits until a running job's file has so many finished points; their statuses then."""
        end = time.monotonic() + DEADLINE
        while not (path.exists() and (harness.statuses(path) == harness.DONE).sum() >= rows):
            if job.state() in ENDED or time.monotonic() > end:
                self.fail(f"waited for {rows} points: {job}")
            time.sleep(0.05)
        return harness.statuses(path)

    def assert_ended(self, job, state, exit_status):
        self.await_state(job)
        self.assertEqual((job.state(), job.exit_status()), (state, exit_status), str(job))

    def enter(self, scenario, points="-", done="-", lost="-"):
        self.account.add(scenario, self.jobs, points, done, lost, time.monotonic() - self.started)

    def conclude(self, scenario, paths, reference, before=None):
        """Checks the files against an undisturbed run's and enters the scenario into the account. A point is lost if
        it is not done at the end, or was done before the fault (`before`: statuses then) and had to be done again."""
        points = done = lost = 0
        for path in paths:
            status, attempts = harness.statuses(path), harness.column(path, "attempts")
            again = 0 if before is None else int(((before == harness.DONE) & (attempts > 1)).sum())
            points += len(status)
            done += int((status == harness.DONE).sum())
            lost += int((status != harness.DONE).sum()) + again
        self.enter(scenario, points, done, lost)
        self.assertEqual((done, lost), (points, 0), "\n".join(map(str, self.jobs)))
        for path in paths:
            self.assert_same_results(path, reference)


def main():
    """What a test script does: itself, inside a cluster."""
    if "SLURMLAB_DIR" not in os.environ:
        os.environ["SLURMLAB_CPUS"] = str(CPUS)
        cluster = str(HERE / "cluster.sh")
        sys.stdout.flush()
        os.execv(cluster, [cluster, sys.executable, *sys.argv])
    program = unittest.main(verbosity=2, exit=False)
    OnCluster.account.print()
    sys.exit(not program.result.wasSuccessful())
