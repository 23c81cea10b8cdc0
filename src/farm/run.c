/* A sweep from its file to its exit status. */
#include "farm/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "farm/allotment.h"
#include "farm/run_words.h"
#include "farm/talk.h"

static const double STALL_SECONDS =
    600.0; /* beyond limits.seconds_per_point, in which a point at least asks for time */
static const double SQUEUE_SECONDS = 10.0; /* for it to answer */

static void run_release(sweep_run *run) {
  mhas_watch_destroy(run->watch);
  mhas_row_work_destroy(run->work);
  mhas_rows_destroy(run->rows);
  mhas_sweep_destroy(run->sweep);
  mhas_workload_free(&run->todo);
  mhas_text_free(&run->path);
  mhas_text_free(&run->spec);
  if (run->lock >= 0) {
    mhas_store_unlock(run->lock);
  }
}

/* Collective: the same answer on all ranks, an error of any of them being everybody's. */
static mhas_code agree(MPI_Comm comm, mhas_code code, mhas_error *error) {
  mhas_error together = {.code = code};
  if (code != MHAS_OK) {
    together = *error;
  }
  MHAS_TRY(mhas_agree(comm, &together, error));
  if (together.code != MHAS_OK) {
    *error = together;
  }
  return together.code;
}

/* ---- the sweep file, read once and understood by every rank ------------------- */

/* out.h5 for out.yaml, in the folder where the program runs. */
static void default_path(const char *spec_path, mhas_text *path) {
  const char *slash = strrchr(spec_path, '/');
  const char *name = slash == NULL ? spec_path : slash + 1;
  const char *dot = strrchr(name, '.');
  const bool yaml = dot != NULL && dot != name && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
  mhas_text_append_bytes(path, name, yaml ? (size_t)(dot - name) : strlen(name));
  mhas_text_append(path, ".h5");
}

static mhas_code share_text(MPI_Comm comm, int rank, mhas_text *text, mhas_error *error) {
  uint64_t length = text->length;
  MHAS_TRY(mhas_share(comm, &length, (int)sizeof length, error));
  char *bytes = NULL;
  mhas_code code = mhas_alloc(&bytes, length + 1, 1, "the sweep file's text", error);
  MHAS_TRY(agree(comm, code, error));
  if (rank == 0) {
    memcpy(bytes, mhas_text_string(text), length);
  }
  code = mhas_share(comm, bytes, (int)length, error);
  if (code == MHAS_OK && rank != 0) {
    mhas_text_append_bytes(text, bytes, length);
  }
  mhas_free(bytes);
  return code;
}

static mhas_code read_sweep(sweep_run *run, mhas_text *report, mhas_error *error) {
  const mhas_run_options *options = run->options;
  mhas_code code = MHAS_OK;
  if (run->rank == 0) {
    code = mhas_text_read_file(options->spec_path, MHAS_SWEEP_BYTES_MOST, &run->spec, error);
    if (code == MHAS_IO) {
      code = MHAS_USAGE; /* a sweep file that cannot be read is the user's error, not the run's */
      error->code = code;
    }
  }
  MHAS_TRY(agree(run->comm, code, error));
  MHAS_TRY(share_text(run->comm, run->rank, &run->spec, error));
  code = mhas_sweep_parse(options->spec_path, mhas_text_string(&run->spec), run->spec.length, options->overrides,
                          options->override_count, &run->sweep, report);
  if (code != MHAS_OK) {
    mhas_fail(error, code, "the sweep file is wrong"); /* the report has the details */
  }
  MHAS_TRY(agree(run->comm, code, error));
  return agree(run->comm, mhas_rows_create(run->sweep, &run->rows, error), error);
}

/* ---- how much time there is ------------------------------------------------------ */

/* Rank 0: when all work has to be over, for the scheduler; 0 if nothing says so. */
static double find_end(const sweep_run *run) {
  mhas_error doubt;
  const double spent = mhas_now() - run->began;
  const mhas_allotment time = mhas_allotment_find(run->options->time_limit - spent, SQUEUE_SECONDS, &doubt);
  if (doubt.text[0] != '\0') {
    mhas_say("warning: %s; --time-limit tells how much time there is", doubt.text);
  }
  if (isinf(time.seconds)) {
    return 0.0;
  }
  const double left = fmax(time.seconds, 0.0);
  const double margin = mhas_allotment_margin(left);
  char whole[MHAS_HUMAN_LENGTH];
  char end[MHAS_HUMAN_LENGTH];
  if (!run->options->quiet) {
    mhas_say("time: %s (%s); no point starts that would not end by then, and running ones stop %s before",
             mhas_human_seconds(left, whole), time.source, mhas_human_seconds(margin, end));
  }
  return mhas_now() + left - margin;
}

/* ---- the run itself -------------------------------------------------------------- */

static mhas_code work_through(sweep_run *run, mhas_farm_state *state, mhas_error *error) {
  const mhas_limits *limits = mhas_sweep_limits(run->sweep);
  mhas_progress *progress = NULL;
  mhas_code code = MHAS_OK;
  if (run->rank == 0 && !run->options->quiet) {
    code = mhas_progress_create(isatty(STDERR_FILENO) == 1, &progress, error);
  }
  MHAS_TRY(agree(run->comm, code, error));
  const mhas_farm_options options = {
      .schedule = {.max_failures = limits->max_failures,
                   .static_teams = run->options->static_teams,
                   .ends = run->rank == 0 ? find_end(run) : 0.0,
                   .silence = run->options->worker_timeout,
                   .stall = isfinite(limits->seconds_per_point) ? limits->seconds_per_point + STALL_SECONDS : 0.0},
      .grace_seconds = 20.0, /* less than the 30 s that SLURM leaves between SIGTERM and SIGKILL */
      .progress = progress == NULL ? NULL : mhas_progress_show,
      .progress_context = progress,
  };
  const mhas_farm_work work = {
      .context = run->work, .recall = mhas_row_work_recall, .condemn = mhas_row_work_condemn, .run = mhas_row_work_run};
  const mhas_workload *todo = &run->todo;
  code = mhas_farm_run(run->comm, todo->rows, todo->flops, todo->ranks, todo->count, &work, run->watch, &options, state,
                       error);
  mhas_progress_destroy(progress);
  return code;
}

/*
 * Some ranks are lost: nothing that all do together would end. Open MPI 4.1.4's mpirun --enable-recovery ends when the
 * others simply do (_exit, after which it asks nothing of them) on one host; over several it only ends if all that are
 * left call MPI_Abort (tested; its own exit status is 0 either way).
 */
static mhas_code leave_early(sweep_run *run, const mhas_farm_state *state, mhas_code code, mhas_error *error) {
  bool hanging = false;
  if (code == MHAS_OK) {
    code = mhas_store_sync(run->store, error); /* as closing would */
  }
  mhas_watch_part(run->watch, &hanging);
  *run->leave = hanging || state->hosts > 1 ? MHAS_LEAVE_ABORT : MHAS_LEAVE_ALONE;
  if (run->rank == 0 && *run->leave == MHAS_LEAVE_ABORT) {
    mhas_say("ranks are lost, so the launch is ended by MPI_Abort; what is done is in the file");
  }
  return code;
}

/* Opens, works, concludes (rank 0), closes. Collective, until a rank is lost. */
static mhas_code run_farm(sweep_run *run, int *status, bool *lost, mhas_error *error) {
  mhas_farm_state state = {0};
  MHAS_TRY(mhas_store_open(run->path.data, run->comm, run->sweep, &run->store, error));
  mhas_code code = mhas_row_work_create(run->sweep, run->rows, run->store, run->path.data,
                                        run->options->checkpoint_every, &run->work, error);
  code = agree(run->comm, code, error);
  if (code == MHAS_OK) {
    code = work_through(run, &state, error);
  }
  if (code == MHAS_OK && run->rank == 0) {
    *status = mhas_run_conclude(run, &state); /* all is in the file; closing it only frees what was opened */
  }
  *lost = state.lost > 0;
  if (*lost) {
    return leave_early(run, &state, code, error);
  }
  mhas_watch_guard(run->watch, *status, "close the file");
  mhas_error closing;
  const mhas_code closed = agree(run->comm, mhas_store_close(run->store, &closing), &closing);
  run->store = NULL;
  if (closed != MHAS_OK) {
    *run->leave = MHAS_LEAVE_ALONE; /* HDF5 could not bring the file to the disk, and would crash when MPI ends */
  }
  if (code == MHAS_OK && closed != MHAS_OK) {
    *error = closing;
    code = closed;
  }
  return code;
}

/* There was nothing to run: the file is complete, or --limit is 0. */
static mhas_code conclude_idle(const sweep_run *run, int *status, mhas_error *error) {
  if (run->rank == 0) {
    const mhas_farm_state nothing = {0};
    if (!run->options->quiet) {
      mhas_say("%s: %s", run->path.data,
               run->todo.cut ? "no point is run, by --limit" : "nothing is left to run, every point has ended");
    }
    *status = mhas_run_conclude(run, &nothing);
  }
  return mhas_share(run->comm, status, (int)sizeof *status, error);
}

static mhas_code run_steps(sweep_run *run, mhas_text *report, int *status, mhas_error *error) {
  MHAS_TRY(mhas_mpi_check(MPI_Comm_set_errhandler(run->comm, MPI_ERRORS_RETURN), "have errors returned", error));
  if (mhas_world_check(run->size, error) != MHAS_OK) {
    return MHAS_USAGE; /* each such copy is alone: nobody to agree with, and nothing was written */
  }
  MHAS_TRY(agree(run->comm, mhas_signals_catch(error), error));
  MHAS_TRY(mhas_watch_create(run->comm, run->options->worker_timeout, &run->watch, error));
  mhas_watch_guard(run->watch, EXIT_BROKEN, "begin");
  MHAS_TRY(read_sweep(run, report, error));
  MHAS_TRY(agree(run->comm, run->rank == 0 ? mhas_run_prepare_file(run, error) : MHAS_OK, error));
  int64_t count = run->todo.count;
  MHAS_TRY(mhas_share(run->comm, &count, (int)sizeof count, error));
  if (count == 0) {
    return conclude_idle(run, status, error);
  }
  MHAS_TRY(mhas_say_banner(run->comm, run->sweep, run->todo.count, mhas_rows_count(run->rows), run->path.data,
                           run->options->quiet, error));
  bool lost = false;
  MHAS_TRY(run_farm(run, status, &lost, error));
  if (lost) {
    *status = run->rank == 0 ? *status : EXIT_DONE; /* launchers report the worst: rank 0 knows */
    return MHAS_OK;
  }
  return mhas_share(run->comm, status, (int)sizeof *status, error);
}

int mhas_run(MPI_Comm comm, const mhas_run_options *options, mhas_leave *leave) {
  *leave = MHAS_LEAVE_TOGETHER;
  sweep_run run = {.comm = comm, .options = options, .lock = -1, .leave = leave, .began = mhas_now()};
  mhas_text report = {0};
  mhas_error error = {.text = ""};
  int status = EXIT_BROKEN;
  mhas_code code = mhas_mpi_check(MPI_Comm_rank(comm, &run.rank), "count the ranks", &error);
  if (code == MHAS_OK) {
    code = mhas_mpi_check(MPI_Comm_size(comm, &run.size), "count the ranks", &error);
  }
  if (options->output_path != NULL) {
    mhas_text_append(&run.path, "%s", options->output_path);
  } else {
    default_path(options->spec_path, &run.path);
  }
  if (run.path.failed) {
    code = mhas_fail(&error, MHAS_NO_MEMORY, "out of memory");
  }
  if (code == MHAS_OK) {
    code = run_steps(&run, &report, &status, &error);
  }
  const bool torn = code == MHAS_MPI;
  if (torn) {
    *leave = MHAS_LEAVE_ABORT;
  }
  if (code != MHAS_OK && (run.rank == 0 || torn)) {
    if (report.length > 0) {
      (void)fputs(report.data, stderr);
    } else {
      mhas_say("%s", error.text);
    }
  }
  mhas_text_free(&report);
  run_release(&run);
  if (code != MHAS_OK) {
    return code == MHAS_USAGE ? EXIT_USAGE : EXIT_BROKEN;
  }
  return status;
}
