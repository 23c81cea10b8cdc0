"""What the end-to-end tests share: running the program as a user does, and comparing result files."""
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import h5py
import numpy

PROGRAM = os.environ.get("MHASWEEP", "mhasweep")
SOURCE = pathlib.Path(os.environ.get("MHASWEEP_SOURCE", pathlib.Path(__file__).parents[2]))

# What describes a run instead of a point, and so may differ between two runs of one sweep.
PROVENANCE = {"attempts", "started", "seconds", "first_rank", "hostname"}
PROVENANCE_ATTRIBUTES = {"created", "mpi_size", "git_commit", "slurm_job_id", "reused_files"}

# All that the tests know of the launcher, which is Open MPI's or MPICH's, is in this file.
OPEN_MPI = "Open MPI" in subprocess.run(["mpirun", "--version"], text=True, capture_output=True, check=False).stdout
RECOVERY = "--enable-recovery" if OPEN_MPI else "-disable-auto-cleanup"

PENDING, RUNNING, DONE, FAILED = range(4)

# Two points that never end by themselves.
ENDLESS = """
experiment: memorize
parameters: {heads: [2, 3], dim: 16, context: 4, samples: 50, classes: 10, batch: 32, steps: 2000000000, early_stop: false, eval_every: 1000000}
"""


def environment(**more):
    env = dict(os.environ, OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",  # Open MPI 4, 5
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", PRTE_MCA_hwloc_default_binding_policy="none")
    if os.getuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    env.update(more)
    return env


def command(*words, ranks=None, recovery=False):
    """`recovery`: the launcher lets other ranks live when one dies; its own exit status is 0 then, whatever theirs are."""
    launcher = [] if ranks is None else ["mpirun", *([RECOVERY] if recovery else []), "-n", str(ranks)]
    return [*launcher, PROGRAM, *map(str, words)]


def cpu_seconds(folder, *words):
    """What a run of the program takes of one core: tests choose by it how much work outlasts a limit of time, on any
    machine, however busy it is with other things."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command(*words), cwd=folder, env=environment(OPENBLAS_NUM_THREADS="1"), check=True, timeout=600,
                   capture_output=True, stdin=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


class Folder(unittest.TestCase):
    """A test case with a folder of its own, in which the program runs."""

    undisturbed = {}  # by the text of a sweep: its file

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mhasweep-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def run_program(self, *words, ranks=None, expect=0, timeout=300, **more):
        """Runs the program to its end; checks its exit status (None: any)."""
        ended = subprocess.run(command(*words, ranks=ranks), cwd=self.folder, env=environment(**more), text=True,
                               capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL)
        if expect is not None:
            self.assertEqual(ended.returncode, expect, f"{words}\n{ended.stdout}\n{ended.stderr}")
        return ended

    def start_program(self, *words, ranks=None, recovery=False, **more):
        """Starts the program; its process is killed when the test ends, if it still runs."""
        log = open(self.folder / f"log-{time.monotonic_ns()}", "w+")
        process = subprocess.Popen(command(*words, ranks=ranks, recovery=recovery), cwd=self.folder, env=environment(**more), text=True,
                                   stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        process.log = log

        def end():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            log.close()

        self.addCleanup(end)
        return process

    def words_of(self, process):
        process.log.seek(0)
        return process.log.read()

    def wait_for(self, what, condition, timeout=60):
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                self.fail(f"waited {timeout} s for {what}")
            time.sleep(0.01)

    def run_undisturbed(self, spec, ranks=3):
        """reference.h5, as a run of this sweep file writes it that nothing disturbs: run once for all tests."""
        text, path = (self.folder / spec).read_text(), self.folder / "reference.h5"
        if text not in self.undisturbed:
            self.run_program("run", spec, "-o", path.name, ranks=ranks)
            self.undisturbed[text] = path.read_bytes()
        path.write_bytes(self.undisturbed[text])
        return path

    def wait_for_words(self, words, process):
        """Waits until a running program has said so."""
        self.wait_for(words, lambda: words in self.words_of(process) or process.poll() is not None)
        self.assertIn(words, self.words_of(process))

    def send(self, process, rank, number):
        """A signal to one rank below a running mpirun; its pid."""
        if number == signal.SIGKILL and not OPEN_MPI:
            self.skipTest("MPICH's mpirun answers a death with SIGUSR1 to the others, which stops the run")
        pid = rank_process(process, rank)
        self.assertIsNotNone(pid, f"rank {rank} is not there: {self.words_of(process)}")
        os.kill(pid, number)
        return pid

    def left_over(self):
        """The ranks that still hold on, whose launcher may have ended."""
        return processes_in(self.folder)

    def wait_for_done(self, path, rows, process, timeout=120):
        """Waits until a running sweep has at least so many finished rows in its file."""

        def enough():
            if process.poll() is not None:
                self.fail(f"the run ended early ({process.returncode}): {self.words_of(process)}")
            return path.exists() and int((statuses(path) >= DONE).sum()) >= rows

        self.wait_for(f"{rows} rows", enough, timeout)

    def assert_same_results(self, path, reference):
        differences = compare(path, reference)
        self.assertEqual(differences, [], f"{path} differs from {reference}")


def statuses(path):
    with h5py.File(path, "r") as file:
        return file["status"][:]


def rank_processes(process):
    """The pids of the program's ranks below a running mpirun (or the process itself)."""
    name = pathlib.Path(PROGRAM).name
    parents, ours = {}, []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        title, rest = re.match(r"\d+ \((.*)\) (.*)", stat, re.S).groups()
        parents[int(entry.name)] = int(rest.split()[1])
        if title == name[:15]:
            ours.append(int(entry.name))

    def below(pid):
        """MPICH's mpirun has a proxy between itself and the ranks."""
        return process.pid in (pid, parents.get(pid), parents.get(parents.get(pid)))

    return sorted(filter(below, ours))


def processes_in(folder):
    """The pids of all processes that run in a folder, such as ranks that outlive their launcher."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def rank_process(process, rank):
    """The pid of one rank below a running mpirun; None if it is not there."""
    for pid in rank_processes(process):
        try:
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if (b"OMPI_COMM_WORLD_RANK=%d" if OPEN_MPI else b"PMI_RANK=%d") % rank in variables:
            return pid
    return None


def datasets(group, prefix=""):
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            yield from datasets(item, f"{prefix}{name}/")
        else:
            yield prefix + name, item


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and numpy.ascontiguousarray(a).tobytes() == numpy.ascontiguousarray(b).tobytes()


def compare(path, reference):
    """Names of datasets and root attributes whose bits differ, provenance left aside."""
    with h5py.File(path, "r") as ours, h5py.File(reference, "r") as theirs:
        mine, other = dict(datasets(ours)), dict(datasets(theirs))
        wrong = sorted(set(mine) ^ set(other))
        wrong += [name for name in sorted(set(mine) & set(other) - PROVENANCE)
                  if not same_bits(mine[name][()], other[name][()])]
        wrong += [f"@{name}" for name in sorted((set(ours.attrs) | set(theirs.attrs)) - PROVENANCE_ATTRIBUTES)
                  if str(ours.attrs.get(name)) != str(theirs.attrs.get(name))]
        return wrong


def column(path, name):
    with h5py.File(path, "r") as file:
        return file[name][:]


def axes(path, *names):
    """The grid's values per point, as tuples."""
    return list(zip(*(column(path, name).tolist() for name in names)))
