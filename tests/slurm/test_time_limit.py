"""A real time limit, of one minute, on a real SLURM cluster: the job queues itself again until all is done.

As SLURM looks at limits every 30 seconds, it warns of a job's last 30 at any time in the first 30; so the sweep takes some
36 seconds of the job's one worker."""
import subprocess

import cluster
from cluster import long

SECONDS = 36


class TimeLimit(cluster.OnCluster):
    def test_a_job_at_its_time_limit_queues_itself_again_until_all_is_done(self):
        self.write("long.yaml", long(SECONDS))
        path, undisturbed = self.folder / "long.h5", self.folder / "undisturbed.h5"
        job = self.submit("long.yaml", nodes=1, tasks=1, options=["--time=1", "--signal=B:USR1@30"])
        alone = subprocess.run([cluster.PROGRAM, "run", "long.yaml", "-o", undisturbed.name, "--quiet"], cwd=self.folder)
        self.assertEqual(alone.returncode, 0)
        self.assert_ended(job, "COMPLETED", 0)
        self.assertGreaterEqual(job.restarts(), 1, str(job))
        self.assertEqual(job.words().count("queues itself again to go on"), job.restarts())
        self.conclude("time limit of one minute", [path], undisturbed)


if __name__ == "__main__":
    cluster.main()
