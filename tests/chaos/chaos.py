#!/usr/bin/env python3
"""Chaos: a sweep with team points is run and resumed while its ranks are killed, stopped and continued.

    tests/chaos/chaos.py [--rounds 50] [--seed 1] [--ranks 6]

A round begins a new result file. Until it is complete, the sweep is started (--resume, with or without the launcher's
--enable-recovery), and at random moments a random rank gets SIGKILL, or SIGSTOP and perhaps SIGCONT later, or all of them
SIGUSR1, or everything dies at once, or the file of a checkpoint is cut short. Whatever happens, nothing may hang, every row that the file calls done
must hold its final bits at every moment that it is looked at, and in the end the file must be the one of an undisturbed
run: no row lost, none twice, none different. Which faults come when depends on the seed and on how fast the machine is.
"""
import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import h5py
import harness

# Trainings that keep checkpoints, and points that two or three ranks share.
SWEEPS = {
    "train": """
experiment: memorize
seed: 3
parameters: {heads: [1, 2, 4], dim: 16, context: [4, 8], samples: [100, 200], classes: 10, batch: 32, steps: 1500, eval_every: 300, lr: 5.0e-3, early_stop: false}
replicates: 3
""",
    "teams": """
experiment: probe
seed: 8
parameters: {heads: [8, 16, 24], dim: 16, context: 8, context_type: shared, distribution: gaussian, samples: [50, 70, 200, 400, 600, 800], solver: rrqr}
where: "heads * samples <= 7000"
replicates: 4
store: [spectrum, weights]
limits: {memory_per_rank: 4480KiB}
""",
}
TIMEOUT = "3"  # --worker-timeout: short, so that hangs are noticed within a round
HANG = 240     # seconds after which a run that does not end is a failure of this test


class Chaos:
    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.chance = random.Random(options.seed)
        self.faults = collections.Counter()
        self.runs = self.wrong = 0

    def start(self, name, recovery):
        words = harness.command("run", f"{name}.yaml", "-o", f"{name}.h5", "--resume", "--worker-timeout", TIMEOUT,
                                "--checkpoint-every", "0.1", ranks=self.options.ranks, recovery=recovery)
        self.log = open(self.folder / "log", "w+")
        self.runs += 1
        return subprocess.Popen(words, cwd=self.folder, env=harness.environment(), stdout=self.log, stderr=self.log,
                                stdin=subprocess.DEVNULL, start_new_session=True)

    def fail(self, words):
        self.wrong += 1
        self.log.seek(0)
        print(f"FAILED: {words}\n{self.log.read()[-4000:]}", flush=True)

    def signal_rank(self, process, number):
        ranks = harness.rank_processes(process)
        if not ranks:
            return None
        pid = self.chance.choice(ranks)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return None
        return pid

    def disturb(self, process, name):
        """One fault; whoever was stopped and is to wake up again is in self.stopped."""
        kind = self.chance.choice(["kill", "kill", "kill", "hang", "pause", "pause", "signal", "tear", "crash"])
        if kind == "kill" and self.signal_rank(process, signal.SIGKILL) is None:
            return
        if kind in ("hang", "pause"):
            pid = self.signal_rank(process, signal.SIGSTOP)
            if pid is None:
                return
            if kind == "hang":
                self.hung.add(pid)
            else:
                self.stopped.append((time.monotonic() + self.chance.choice([0.5, 1.5, 6.0]), pid))
        if kind == "crash":
            for pid in [*harness.rank_processes(process), process.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if kind == "signal":
            process.send_signal(signal.SIGUSR1)
        if kind == "tear":
            kept = list(self.folder.glob(f"{name}.h5.*.checkpoint"))
            if not kept:
                return
            try:
                os.truncate(self.chance.choice(kept), self.chance.randrange(2000))
            except FileNotFoundError:
                return
        self.faults[kind] += 1

    def wake(self, everybody=False):
        for when, pid in list(self.stopped):
            if everybody or time.monotonic() > when:
                self.stopped.remove((when, pid))
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass

    def end_the_hung(self, process):
        """If nobody else is left (rank 0 hangs, and the others have ended for that), as a batch system would."""
        ranks = set(harness.rank_processes(process))
        if ranks and ranks <= self.hung:
            for pid in ranks:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def check_done_rows(self, name):
        """The file opens, and what it calls done is final."""
        path = self.folder / f"{name}.h5"
        if not path.exists():
            return 0
        with h5py.File(path, "r") as file, h5py.File(self.folder / f"{name}-reference.h5", "r") as final:
            done = file["status"][:] == harness.DONE
            for column, item in harness.datasets(file):
                if column in harness.PROVENANCE or item.shape[:1] != done.shape or column.startswith("stored/"):
                    continue
                if not harness.same_bits(item[:][done], final[column][:][done]):
                    self.fail(f"{column} of a row that is done differs")
        return int(done.sum())

    def left_over(self):
        return harness.processes_in(self.folder)

    def end_run(self, process):
        """Ranks that were stopped for good are ended as a batch system would; nobody else may need that."""
        deadline = time.monotonic() + 30
        while self.left_over() and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in self.left_over():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        while self.left_over():
            time.sleep(0.02)

    def run_once(self, name):
        """Starts or resumes the sweep and disturbs it; its exit status."""
        self.stopped, self.hung = [], set()
        recovery = self.chance.random() < 0.7
        process = self.start(name, recovery)
        self.faults["start with recovery" if recovery else "start without"] += 1
        # Not while MPI starts: a rank that dies there leaves the launcher waiting, which is not ours to mend.
        while process.poll() is None and b"points to run" not in pathlib.Path(self.log.name).read_bytes():
            time.sleep(0.01)
        begun = time.monotonic()
        next_fault = begun + self.chance.uniform(0.0, 1.5)
        faults_left = self.chance.randint(0, 5)
        while process.poll() is None and time.monotonic() < begun + HANG:
            self.wake()
            self.end_the_hung(process)
            if faults_left > 0 and time.monotonic() > next_fault:
                self.disturb(process, name)
                faults_left -= 1
                next_fault = time.monotonic() + self.chance.uniform(0.1, 1.5)
            time.sleep(0.01)
        self.wake(everybody=True)
        if process.poll() is None:
            self.fail(f"a run did not end within {HANG} s")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.end_run(process)
        self.check_done_rows(name)
        self.log.close()

    def round(self, name):
        path = self.folder / f"{name}.h5"
        for old in self.folder.glob(f"{name}.h5*"):
            old.unlink()
        for attempt in range(60):
            self.run_once(name)
            if path.exists() and (harness.statuses(path) == harness.DONE).all():
                break
        else:
            self.fail("the sweep is not complete after 60 runs")
        self.log = open(self.folder / "log", "w+")
        differences = harness.compare(path, self.folder / f"{name}-reference.h5")
        if differences:
            self.fail(f"the file differs in {differences}")
        self.log.close()
        return attempt + 1

    def run(self):
        for name, text in SWEEPS.items():
            (self.folder / f"{name}.yaml").write_text(text)
            subprocess.run(harness.command("run", f"{name}.yaml", "-o", f"{name}-reference.h5", "--quiet", ranks=6),
                           cwd=self.folder, env=harness.environment(), check=True, timeout=300)
        rows = 0
        for number in range(self.options.rounds):
            name = list(SWEEPS)[number % len(SWEEPS)]
            started = self.round(name)
            rows += harness.statuses(self.folder / f"{name}.h5").size
            print(f"round {number + 1}: {name}, complete after {started} runs", flush=True)
        counts = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        print(f"{self.options.rounds} rounds, {rows} rows, {self.runs} runs; faults: {counts}; failures: {self.wrong}")
        return self.wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=6)
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mhasweep-chaos-"))
    try:
        return 1 if Chaos(folder, options).run() > 0 else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
