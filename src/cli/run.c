/* mhasweep run: from the command line into the world of MPI and back. */
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "mhasweep/farm.h"
#include "mhasweep/linalg.h"

enum {
  OPTION_OUTPUT,
  OPTION_RESUME,
  OPTION_RETRY_FAILED,
  OPTION_REUSE,
  OPTION_SET,
  OPTION_LIMIT,
  OPTION_TIME_LIMIT,
  OPTION_CHECKPOINT_EVERY,
  OPTION_WORKER_TIMEOUT,
  OPTION_TEAMS,
  OPTION_QUIET,
  OPTION_COUNT
};

static const cli_option options[OPTION_COUNT] = {
    [OPTION_OUTPUT] = {"output", 'o', "FILE.h5",
                       "the result file; default: the sweep file's name with .h5. An existing file is never "
                       "overwritten"},
    [OPTION_RESUME] = {"resume", 0, NULL, "go on with an existing result file: run what is not done in it"},
    [OPTION_RETRY_FAILED] = {"retry-failed", 0, NULL, "as --resume, and run the failed points again"},
    [OPTION_REUSE] = {"reuse", 0, "OLD.h5",
                      "take over from an older result file every point of equal parameters, replicate, seed and "
                      "numerics version, with its curves and stored arrays, and run only the others: so a sweep grows "
                      "by values, axes or replicates; may be repeated, the first file that has a point counts"},
    [OPTION_SET] = {"set", 0, "NAME=VALUE",
                    "override a parameter or a setting (seed, replicates, limits.seconds_per_point ...) of the sweep "
                    "file; VALUE is YAML; may be repeated"},
    [OPTION_LIMIT] = {"limit", 0, "N", "run at most N points now; the others stay pending"},
    [OPTION_TIME_LIMIT] = {"time-limit", 0, "DURATION",
                           "end within this time (90s, 30m, 1h30m, 2d, 1:30:00, 1-12:00:00); default: the end of the "
                           "SLURM job, by SLURM_JOB_END_TIME or else squeue; the earlier of both counts"},
    [OPTION_CHECKPOINT_EVERY] = {"checkpoint-every", 0, "SECONDS",
                                 "how often a long training keeps its state in FILE.h5.POINT.checkpoint, from which an "
                                 "interrupted point goes on bit-identically; default 300; 0: only when it is stopped"},
    [OPTION_WORKER_TIMEOUT] = {"worker-timeout", 0, "SECONDS",
                               "a rank that gives no sign of life for so long is lost, and its points go to others; "
                               "default 60; 0: ranks are not watched"},
    [OPTION_TEAMS] = {"teams", 0, "dynamic|static",
                      "how ranks come together for points that need several: a communicator for each such point "
                      "(dynamic, the default), or all split off at the start (static), for an MPI in which "
                      "MPI_Comm_create_group misbehaves. The results are the same"},
    [OPTION_QUIET] = {"quiet", 'q', NULL, "no progress on stderr, only warnings and errors"},
};

/* ---- the start: where launchers are told to go on without ranks that died, MPI_Init waits for them for ever ---- */

static const double START_PATIENCE = 5.0; /* times the worker timeout: programs of some ranks may be long in loading */

static void give_up_start(int number) {
  static const char words[] = "mhasweep: not all ranks have started, and the others do not wait any longer\n";
  (void)number;
  if (cli_launcher_rank() <= 1) { /* one could be the one that is missing */
    (void)!write(STDERR_FILENO, words, sizeof words - 1);
  }
  _exit(1);
}

static mhas_code start_mpi(double timeout, mhas_error *error) {
  const struct sigaction give_up = {.sa_handler = give_up_start};
  const struct sigaction before = {.sa_handler = SIG_DFL};
  (void)sigaction(SIGALRM, &give_up, NULL);
  (void)alarm((unsigned)fmin(ceil(START_PATIENCE * timeout), 1e6));
  const int code = MPI_Init(NULL, NULL);
  (void)alarm(0);
  (void)sigaction(SIGALRM, &before, NULL);
  return code == MPI_SUCCESS ? MHAS_OK : mhas_fail(error, MHAS_MPI, "MPI_Init failed");
}

static mhas_code run_sweep(const mhas_run_options *run_options, int *status, mhas_error *error) {
  MHAS_TRY(start_mpi(run_options->worker_timeout, error));
  mhas_leave leave = MHAS_LEAVE_TOGETHER;
  *status = mhas_run(MPI_COMM_WORLD, run_options, &leave);
  if (leave != MHAS_LEAVE_TOGETHER) {
    cli_report_status(*status);
    (void)fflush(NULL);
  }
  if (leave == MHAS_LEAVE_ABORT) {
    MPI_Abort(MPI_COMM_WORLD, *status);
  }
  if (leave == MHAS_LEAVE_ALONE) {
    _exit(*status);
  }
  if (MPI_Finalize() != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "MPI_Finalize failed");
  }
  return MHAS_OK;
}

static mhas_code read_time_limit(const cli_words *words, double *seconds, mhas_error *error) {
  const char *word = cli_value(words, OPTION_TIME_LIMIT);
  if (word != NULL && !mhas_duration_read(word, seconds)) {
    return mhas_fail(error, MHAS_USAGE, "run: --time-limit %s: not a duration such as 90s, 30m, 1h30m or 1:30:00",
                     word);
  }
  return MHAS_OK;
}

static mhas_code run(const cli_words *words, int *status, mhas_error *error) {
  mhas_run_options run_options = {
      .spec_path = words->operand,
      .output_path = cli_value(words, OPTION_OUTPUT),
      .resume = cli_has(words, OPTION_RESUME) || cli_has(words, OPTION_RETRY_FAILED),
      .retry_failed = cli_has(words, OPTION_RETRY_FAILED),
      .quiet = cli_has(words, OPTION_QUIET),
      .limit = -1,
      .checkpoint_every = 300.0,
      .time_limit = INFINITY,
      .worker_timeout = 60.0,
  };
  MHAS_TRY(cli_count(words, OPTION_LIMIT, &run_options.limit, error));
  MHAS_TRY(read_time_limit(words, &run_options.time_limit, error));
  MHAS_TRY(cli_number(words, OPTION_CHECKPOINT_EVERY, 0.0, &run_options.checkpoint_every, error));
  MHAS_TRY(cli_number(words, OPTION_WORKER_TIMEOUT, 0.0, &run_options.worker_timeout, error));
  MHAS_TRY(cli_teams(words, OPTION_TEAMS, &run_options.static_teams, error));
  const size_t most = (size_t)words->given_count;
  const char **overrides = NULL;
  const char **older = NULL;
  MHAS_TRY(mhas_alloc(&overrides, most, sizeof *overrides, "the command line", error));
  const mhas_code allocated = mhas_alloc(&older, most, sizeof *older, "the command line", error);
  if (allocated != MHAS_OK) {
    mhas_free(overrides);
    return allocated;
  }
  run_options.overrides = overrides;
  run_options.override_count = cli_values(words, OPTION_SET, overrides);
  run_options.reuse = older;
  run_options.reuse_count = cli_values(words, OPTION_REUSE, older);

  const bool silent = run_options.quiet || cli_launcher_rank() != 0;
  if (mhas_blas_setup(words->argv, silent, error) != MHAS_OK && !silent) {
    (void)fprintf(stderr, "mhasweep: warning: slow BLAS kernels: %s\n", error->text);
  }
  const mhas_code code = run_sweep(&run_options, status, error);
  mhas_free(older);
  mhas_free(overrides);
  return code;
}

const cli_command cli_run = {
    .name = "run",
    .operand = "SPEC.yaml",
    .summary = "run a sweep into a result file, on one process or under mpirun or srun",
    .description =
        "Runs every point of a sweep file and writes each result into one HDF5 file as soon as it is there. Rank 0 "
        "hands out the points, the other ranks work, so P cores are filled by P + 1 ranks; a single process does "
        "everything itself.\n\n"
        "A point that needs more memory than limits.memory_per_rank is shared by a team of ranks, if its experiment "
        "can "
        "be. How many depends on the point and on that limit alone, so that its numbers do. If there are too few "
        "ranks, "
        "the point stays pending, all others are run, and the exit status is 75.\n\n"
        "Where ranks may die and the others go on (mpirun --enable-recovery), launchers lose the exit status; it is "
        "then "
        "also written to the file that the environment variable MHASWEEP_STATUS_FILE names.\n\n"
        "SIGINT, SIGTERM or SIGUSR1 stop the sweep: no new points start, running ones end or are given up, the file is "
        "complete, and --resume goes on. A second signal does not wait for running points. The same happens before the "
        "time of a SLURM job, or --time-limit, is over: no point starts that would not end in time, and what still "
        "runs near the end is stopped. A training that is stopped keeps its state in FILE.h5.POINT.checkpoint, and "
        "goes "
        "on from it; such files may be deleted, which costs that state alone.\n\n"
        "Under a launcher that lets the other ranks live when one dies (mpirun --enable-recovery), the points of a "
        "rank "
        "that dies, or is silent for --worker-timeout, go to others. That mpirun then returns 0 whatever happened: the "
        "file knows.",
    .options = options,
    .option_count = OPTION_COUNT,
    .examples =
        "  mhasweep run sweep.yaml\n"
        "  mpirun -n 5 mhasweep run sweep.yaml -o results/sweep.h5\n"
        "  srun -n 65 mhasweep run sweep.yaml --resume\n"
        "  mhasweep run larger.yaml --reuse sweep.h5\n"
        "  mhasweep run sweep.yaml --set seed=7 --set 'heads=[1, 2, 4]' -o seed7.h5\n",
    .statuses =
        "   0  every point is done\n"
        "   1  the run broke (I/O, MPI, out of memory); what was done is in the file\n"
        "   2  the command line or the sweep file is wrong; nothing was written\n"
        "   3  finished, and some points failed (they are in the file, with the reason)\n"
        "  75  stopped early (signal, time limit, --limit), or points need more ranks; --resume goes on\n",
    .under_mpi = true,
    .run = run,
};
