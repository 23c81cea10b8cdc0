"""Jobs on a real SLURM cluster of four virtual nodes: how they start, what their status is, and submit.sh."""

import cluster
from cluster import LAUNCHERS, SHORT, call, harness, long, reference


class Launch(cluster.OnCluster):
    def test_two_and_four_nodes_by_mpirun_and_srun(self):
        spec = self.write("it's a sweep.yaml", SHORT)
        ways = [(nodes, options, ranks, launcher)
                for nodes, options, ranks in ((2, ["--ntasks=4"], 5), (2, ["--exclusive"], 2 * cluster.CPUS + 1),
                                              (4, ["--ntasks-per-node=2"], 9)) for launcher in LAUNCHERS]
        paths = [self.folder / f"{place}.h5" for place in range(len(ways))]
        for (nodes, options, ranks, launcher), path in zip(ways, paths):
            self.submit(spec.name, "-o", path.name, nodes=nodes, tasks=None, options=options, MHASWEEP_LAUNCHER=launcher)
        for (nodes, options, ranks, launcher), job in zip(ways, self.jobs):
            self.assert_ended(job, "COMPLETED", 0)
            self.assertIn(f"on {ranks} ranks ({ranks - 1} at work), {nodes} hosts", job.words())
        self.conclude("2 and 4 nodes, mpirun and srun", paths, reference("short"))

    def test_copies_that_cannot_find_each_other_are_refused(self):
        self.write("sweep.yaml", SHORT)
        # Open MPI refuses where it sees that SLURM started it, and this program where it does not.
        without_pmix = self.submit("sweep.yaml", MHASWEEP_LAUNCHER="srun", SLURM_MPI_TYPE="none")
        alone = self.submit_command(f"srun -n 4 --mpi=none env -u SLURM_NODELIST {cluster.PROGRAM} run sweep.yaml")
        self.assert_ended(without_pmix, "FAILED", 1)
        self.assert_ended(alone, "FAILED", 2)
        self.assertIn("4 copies of mhasweep were started", alone.words())
        self.assertIn("--mpi=pmix", alone.words())
        self.assertEqual([job.restarts() for job in self.jobs], [0, 0])
        self.assertFalse((self.folder / "sweep.h5").exists())
        self.enter("copies without PMIx: refused")

    def test_better_blas_kernels_are_chosen_on_every_node(self):
        # Stands before OpenBLAS and tells the program of a fallback until it has started itself anew.
        self.write("old.c", '#include <stdlib.h>\nconst char *openblas_get_corename(void) {\n'
                            '  const char *core = getenv("OPENBLAS_CORETYPE");\n'
                            '  return core == NULL ? "Prescott" : core;\n}\n')
        call("cc", "-shared", "-fPIC", "-o", "old.so", "old.c", cwd=self.folder)
        self.write("sweep.yaml", SHORT)
        old = {"LD_PRELOAD": str(self.folder / "old.so")}
        alone = self.run_program("run", "sweep.yaml", "-o", "alone.h5", **old)
        if "restarted with OPENBLAS_CORETYPE=" not in alone.stderr:
            self.skipTest("no kernels are better than Prescott's on this machine")
        paths = []
        for launcher in LAUNCHERS:
            paths.append(self.folder / f"{launcher}.h5")
            self.submit("sweep.yaml", "-o", paths[-1].name, nodes=4, tasks=8, MHASWEEP_LAUNCHER=launcher, **old)
        for job in self.jobs:
            self.assert_ended(job, "COMPLETED", 0)
            self.assertEqual(job.words().count("restarted with OPENBLAS_CORETYPE="), 1, str(job))
        self.conclude("restart with other BLAS kernels", paths, self.folder / "alone.h5")


class Statuses(cluster.OnCluster):
    def test_a_rank_that_never_starts_does_not_keep_the_others_waiting(self):
        self.write("sweep.yaml", SHORT)
        program = self.write("program", f'#!/bin/bash\n[ "${{OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}" != 3 ] || exit 127\n'
                                        f'exec {cluster.PROGRAM} "$@"\n')
        program.chmod(0o755)
        for launcher in LAUNCHERS:
            self.sbatch("--nodes=2", "--ntasks=4", cluster.BATCH, "sweep.yaml", "--worker-timeout", "2", "-o",
                        f"{launcher}.h5", MHASWEEP=str(program), MHASWEEP_LAUNCHER=launcher)
        for job in self.jobs:
            self.assertEqual((self.await_state(job), job.restarts()), ("FAILED", 0), str(job))
            self.assertIn("not all ranks have started", job.words())
        self.enter("a rank never starts: ended")

    def test_what_is_no_early_stop_is_passed_on_and_not_repeated(self):
        self.write("failing.yaml", SHORT + "limits: {memory_per_rank: 1KiB}\n")
        self.write("broken.yaml", SHORT.replace("heads", "heds"))
        failing = self.submit("failing.yaml", nodes=1, tasks=2)
        broken = self.submit("broken.yaml", nodes=1, tasks=2)
        limited = self.submit(self.write("sweep.yaml", SHORT).name, "--limit", "5", nodes=1, tasks=2)
        self.assert_ended(failing, "FAILED", 3)
        self.assert_ended(broken, "FAILED", 2)
        self.assertIn("did you mean heads?", broken.words())
        self.assert_ended(limited, "FAILED", 75)
        self.assertIn("--limit is for this once", limited.words())
        self.assertEqual([job.restarts() for job in self.jobs], [0, 0, 0])
        self.enter("status 2, 3, --limit: passed on")

    def test_a_job_that_can_do_nothing_is_not_queued_again(self):
        # Its one point wants more ranks than there are, so every start would end early.
        self.write("wide.yaml", "experiment: probe\nparameters: {heads: 16, dim: 64, context: 8, samples: 1500, solver: rrqr}\n"
                                "limits: {memory_per_rank: 8MiB}\n")
        job = self.submit("wide.yaml", nodes=1, tasks=1)
        self.assert_ended(job, "FAILED", 75)
        self.assertIn("it could do nothing", job.words())
        self.assertEqual(job.restarts(), 0)
        self.enter("too few ranks: not repeated")

    def test_two_jobs_on_one_file_do_not_disturb_each_other_and_no_third(self):
        self.write("long.yaml", long())
        path = self.folder / "long.h5"
        first = self.submit("long.yaml", nodes=1, tasks=2, options=["--nodelist=n1"])
        self.await_rows(first, path, 1)
        second = self.submit("long.yaml", nodes=1, tasks=2, options=["--nodelist=n2"])
        self.assert_ended(second, "FAILED", 1)
        self.assertIn("long.h5: is being written by another run", second.words())
        call("scancel", "--signal=KILL", "--full", first.number)
        self.await_state(first)
        third = self.submit("long.yaml", options=["--nodelist=n3"])
        self.assert_ended(third, "COMPLETED", 0)
        self.conclude("two jobs on one file, and a third", [path], reference("long"))

    def test_restarts_are_bounded(self):
        self.write("long.yaml", long())
        path = self.folder / "long.h5"
        job = self.submit("long.yaml", MHASWEEP_RESTARTS="1")
        for restart in (0, 1):
            self.await_rows(job, path, 2 + int((harness.statuses(path) == harness.DONE).sum()) if restart else 2)
            call("scancel", "--signal=USR1", "--batch", job.number)
            if restart == 0:
                self.wait_for("the restart", lambda: job.restarts() == 1 and job.state() == "RUNNING", cluster.DEADLINE)
        self.assert_ended(job, "FAILED", 75)
        self.assertIn("not queued again: it was restarted 1 times (MHASWEEP_RESTARTS)", job.words())
        self.enter("too many restarts: ended")


class Submit(cluster.OnCluster):
    SUBMIT = harness.SOURCE / "jobs" / "submit.sh"

    def submit_sh(self, *words):
        said = call(self.SUBMIT, *words, cwd=self.folder, MHASWEEP=cluster.PROGRAM)
        return self.take(said.split()[-1])

    def test_a_sweep_is_submitted_and_done_by_its_name_alone(self):
        spec = self.write("it's a sweep.yaml", SHORT)
        job = self.submit_sh(spec.name)
        self.assert_ended(job, "COMPLETED", 0)
        printed = self.folder / "job.sh"
        printed.write_text(call(self.SUBMIT, "--print", spec.name, "--ntasks=3", "--comment=it's for me", "--", "-o",
                                "of mine.h5", cwd=self.folder, MHASWEEP=cluster.PROGRAM) + "\n")
        other = self.sbatch(printed.name)
        self.assert_ended(other, "COMPLETED", 0)
        self.assertIn("4 ranks by mpirun", other.words())
        self.assertEqual(other.fact("JobName"), "it-s-a-sweep")
        self.conclude("submit.sh", [self.folder / "it's a sweep.h5", self.folder / "of mine.h5"], reference("short"))

    def test_options_reach_sbatch_and_the_partition_limits_the_time(self):
        self.write("large.yaml", "experiment: memorize\nparameters: {heads: [40, 60], samples: 100000, steps: 3000000}\n")
        job = self.submit_sh("--max-ranks", "2", "large.yaml", "--hold", "-p", "short", "--comment=it's a test")
        self.assertEqual([job.fact(name) for name in ("JobState", "Partition", "TimeLimit", "NumTasks")],
                         ["PENDING", "short", "00:30:00", "2"])
        self.assertIn("Comment=it's a test", call("scontrol", "show", "job", job.number))


if __name__ == "__main__":
    cluster.main()
