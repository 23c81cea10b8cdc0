"""On a real SLURM cluster of four virtual nodes: whatever ends or disturbs a job, no finished point is lost, and what goes
on comes to the same bits."""
import math
import os
import signal
import subprocess
import time

import cluster
from cluster import LAUNCHERS, call, harness, long, reference


# One point.
TRAINING = """
experiment: memorize
parameters: {heads: 4, dim: 16, context: 8, samples: 400, classes: 10, batch: 32, steps: 20000, eval_every: 10000,
             early_stop: false}
"""

LIMIT, WORK = "5s", 10  # a limit of time, and seconds of one core that are longer even on a core that gets faster


class Interruptions(cluster.OnCluster):
    def disturb(self, disturbance, nodes=2, tasks=4, options=(), **variables):
        """Submits long() and calls disturbance(job) when a few of its points are done; (job, path, statuses before)."""
        self.write("long.yaml", long())
        path = self.folder / "long.h5"
        job = self.submit("long.yaml", nodes=nodes, tasks=tasks, options=options, **variables)
        before = self.await_rows(job, path, 3)
        self.assertTrue((before == harness.PENDING).any(), "the sweep is too short to be disturbed")
        disturbance(job)
        return job, path, before

    def test_a_job_warned_of_its_time_limit_queues_itself_again(self):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                self.jobs, self.started = [], time.monotonic()
                (self.folder / "long.h5").unlink(missing_ok=True)
                job, path, before = self.disturb(lambda it: call("scancel", "--signal=USR1", "--batch", it.number),
                                                 MHASWEEP_LAUNCHER=launcher)
                self.assert_ended(job, "COMPLETED", 0)
                self.assertEqual(job.restarts(), 1, str(job))
                self.assertIn("queues itself again to go on", job.words())
                self.conclude(f"SIGUSR1, requeue ({launcher})", [path], reference("long"), before)

    def test_a_job_that_stops_by_its_own_clock_queues_itself_again(self):
        self.limit("the program's own clock, requeue", long(WORK))

    def test_a_training_longer_than_a_job_goes_on_from_its_kept_state(self):
        steps = math.ceil(2 * WORK / cluster.trial(TRAINING)) * 10000
        self.limit("a training longer than a job", TRAINING.replace("steps: 20000", f"steps: {steps}"))

    def limit(self, scenario, text):
        """A sweep that takes longer than its job may is done by several of them."""
        self.write("limited.yaml", text)
        job = self.submit("limited.yaml", "--time-limit", LIMIT, nodes=1, tasks=1)
        alone = subprocess.run([cluster.PROGRAM, "run", "limited.yaml", "-o", "undisturbed.h5", "--quiet"], cwd=self.folder)
        self.assertEqual(alone.returncode, 0)
        self.assert_ended(job, "COMPLETED", 0)
        self.assertGreaterEqual(job.restarts(), 1, str(job))
        self.assertIn("stopped in time", job.words())
        self.assertEqual(list(self.folder.glob("*.checkpoint")), [])
        self.conclude(scenario, [self.folder / "limited.h5"], self.folder / "undisturbed.h5")

    def test_a_requeued_job_goes_on(self):
        job, path, before = self.disturb(lambda it: call("scontrol", "requeue", it.number))
        self.assert_ended(job, "COMPLETED", 0)
        self.assertEqual(job.restarts(), 1, str(job))
        self.conclude("scontrol requeue", [path], reference("long"), before)

    def test_a_preempted_job_goes_on_later(self):
        for partition, launcher in (("spare", "srun"), ("spare_grace", "mpirun"), ("spare_grace", "srun")):
            with self.subTest(partition=partition, launcher=launcher):
                self.jobs, self.started = [], time.monotonic()
                (self.folder / "long.h5").unlink(missing_ok=True)
                job, path, before = self.disturb(
                    lambda _: self.sbatch("-p", "urgent", "--nodes=4", "--exclusive", "--wrap=true"),
                    options=["-p", partition], MHASWEEP_LAUNCHER=launcher)
                self.assert_ended(job, "COMPLETED", 0)
                self.assertEqual(job.restarts(), 1, str(job))
                grace = ", time of grace" if partition == "spare_grace" else ""
                self.conclude(f"preempted{grace} ({launcher})", [path], reference("long"), before)

    def test_a_cancelled_job_stays_cancelled_and_the_next_goes_on(self):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                self.jobs, self.started = [], time.monotonic()
                (self.folder / "long.h5").unlink(missing_ok=True)
                job, path, before = self.disturb(lambda it: call("scancel", it.number), MHASWEEP_LAUNCHER=launcher)
                self.assertEqual(self.await_state(job), "CANCELLED", str(job))
                self.assertEqual(job.restarts(), 0)
                self.assertFalse(harness.compare(path, path))
                again = self.submit("long.yaml", MHASWEEP_LAUNCHER=launcher)
                self.assert_ended(again, "COMPLETED", 0)
                self.conclude(f"scancel, submitted again ({launcher})", [path], reference("long"), before)

    def kill_rank(self, rank):
        def kill(_):
            os.kill(cluster.ranks()[rank], signal.SIGKILL)
        return kill

    def test_when_a_rank_is_killed_the_others_or_the_next_start_finish(self):
        for launcher, rank in (("mpirun", 1), ("mpirun", 4), ("srun", 1)):
            with self.subTest(launcher=launcher, rank=rank):
                self.jobs, self.started = [], time.monotonic()
                (self.folder / "long.h5").unlink(missing_ok=True)
                job, path, before = self.disturb(self.kill_rank(rank), MHASWEEP_LAUNCHER=launcher)
                self.assert_ended(job, "COMPLETED", 0)
                # SLURM's PMIx plugin may end the whole step, whatever srun was told; the job then queues itself again.
                self.assertLessEqual(job.restarts(), 1 if launcher == "srun" else 0, str(job))
                self.assertIn(f"rank {rank} has died", job.words())
                self.conclude(f"rank {rank} is killed ({launcher})", [path], reference("long"), before)

    def test_when_rank_0_is_killed_the_job_queues_itself_again(self):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                self.jobs, self.started = [], time.monotonic()
                (self.folder / "long.h5").unlink(missing_ok=True)
                job, path, before = self.disturb(self.kill_rank(0), MHASWEEP_LAUNCHER=launcher)
                self.assert_ended(job, "COMPLETED", 0)
                self.assertEqual(job.restarts(), 1, str(job))
                self.conclude(f"rank 0 is killed ({launcher})", [path], reference("long"), before)

    def test_a_node_that_loses_three_ranks_gets_nothing_more(self):
        self.write("long.yaml", long())
        path, status_file = self.folder / "long.h5", self.folder / "status"
        job = self.sbatch("--nodes=2", "--exclusive", "--wrap=mpirun --enable-recovery --oversubscribe --bind-to none "
                          f"--map-by ppr:4:node {cluster.PROGRAM} run long.yaml", MHASWEEP_STATUS_FILE=str(status_file))
        before = self.await_rows(job, path, 3)
        ranks = cluster.ranks()
        for number in (signal.SIGSTOP, signal.SIGKILL):  # each with points of its own
            for rank in (4, 5, 6):
                os.kill(ranks[rank], number)
        words = f"host {job.nodes()[1]} keeps losing ranks: those that are left there get nothing more"
        self.wait_for(words, lambda: words in job.words() or job.state() in cluster.ENDED, cluster.DEADLINE)
        self.assertIn(words, job.words())
        pending = harness.statuses(path) == harness.PENDING
        self.assertTrue(pending.any(), "the sweep is too short")
        self.await_state(job)
        self.assertEqual(int(status_file.read_text()), 0, str(job))
        self.assertTrue((harness.column(path, "first_rank")[pending] <= 3).all(), "rank 7 got more")
        self.conclude("a node loses three of its ranks (mpirun)", [path], reference("long"), before)

    def lose_node(self, place, launcher):
        """Kills the node at this place of the job's list; SLURM is told and starts the job again on others."""
        lost = []

        def crash(job):
            lost.append(job.nodes()[place])
            call(cluster.HERE / "node.sh", "crash", lost[0])
            call("scontrol", "update", f"nodename={lost[0]}", "state=down", "reason=crash")

        def repair():
            call(cluster.HERE / "node.sh", "start", lost[0])
            call("scontrol", "update", f"nodename={lost[0]}", "state=resume")
            self.wait_for(f"{lost[0]} to be back", lambda: call("sinfo", "-h", "-p", "debug", "-n", lost[0], "-o", "%T")
                          in ("idle", "mixed"), cluster.DEADLINE)

        try:
            job, path, before = self.disturb(crash, options=["--exclude=n4"], MHASWEEP_LAUNCHER=launcher)
            self.assert_ended(job, "COMPLETED", 0)
            self.assertEqual(job.restarts(), 1, str(job))
            self.assertNotIn(lost[0], job.nodes())
        finally:
            if lost:
                repair()
        return path, before

    def test_a_lost_node_costs_only_what_was_running(self):
        path, before = self.lose_node(1, "srun")
        self.conclude("a node is lost (srun)", [path], reference("long"), before)

    def test_the_loss_of_the_masters_node_costs_only_what_was_running(self):
        path, before = self.lose_node(0, "mpirun")
        self.conclude("the master's node is lost (mpirun)", [path], reference("long"), before)


if __name__ == "__main__":
    cluster.main()
