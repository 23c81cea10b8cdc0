/* The result file of a run, made or taken up again. Rank 0 only. */
#include <inttypes.h>
#include <stdlib.h>

#include "farm/older.h"
#include "farm/run.h"
#include "farm/run_words.h"
#include "farm/talk.h"
#include "mhasweep/checkpoint.h"
#include "mhasweep/linalg.h"

static mhas_code refuse_existing(const char *path, mhas_error *error) {
  mhas_tally tally;
  mhas_error reading;
  if (mhas_tally_file(path, &tally, &reading) != MHAS_OK) {
    return mhas_fail(error, MHAS_USAGE, "%s exists and is never overwritten (%s); choose another file with -o", path,
                     reading.text);
  }
  return mhas_fail(error, MHAS_USAGE,
                   "%s exists and is never overwritten: it holds %" PRId64 " done, %" PRId64 " failed and %" PRId64
                   " open points; --resume goes on with it, -o names another file",
                   path, tally.done, tally.failed, tally.pending + tally.running);
}

/* What the points read is looked at before anything is computed or written. */
static mhas_code inspect_inputs(sweep_run *run, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(run->sweep);
  const int64_t count = mhas_rows_count(run->rows);
  mhas_value *values = NULL;
  if (experiment->inspect == NULL) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_alloc(&values, (size_t)experiment->parameter_count, sizeof *values, "a point's values", error));
  mhas_code code = MHAS_OK;
  for (int64_t row = 0; code == MHAS_OK && row < count; row++) {
    int64_t replicate = 0;
    bool included = false;
    const int64_t index = mhas_rows_grid_index(run->rows, row);
    if (mhas_sweep_point(run->sweep, index, values, &replicate, &included, NULL) == MHAS_OK) {
      code = experiment->inspect(values, error);
    }
  }
  mhas_free(values);
  return code;
}

static mhas_code create_file(sweep_run *run, const mhas_older_files *older, mhas_error *error) {
  char mpi_library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MHAS_TRY(mhas_mpi_check(MPI_Get_library_version(mpi_library, &length), "learn the version of MPI", error));
  const char *job = getenv("SLURM_JOB_ID");
  const mhas_provenance provenance = {
      .version = mhas_version(),
      .git_commit = mhas_git_commit(),
      .mpi_library = mpi_library,
      .blas_library = mhas_blas_library(),
      .blas_core = mhas_blas_core(),
      .slurm_job_id = job == NULL ? "" : job,
      .mpi_size = run->size,
      .reused = older->names.data,
  };
  mhas_plan plan;
  MHAS_TRY(mhas_sweep_plan(run->sweep, true, &plan, error));
  return mhas_store_create(run->path.data, run->sweep, run->rows, &plan, &provenance, error);
}

/* After this the file is there and locked. *status: of every row; NULL if all are pending. */
static mhas_code make_or_take_up(sweep_run *run, mhas_older_files *older, uint8_t **status, mhas_error *error) {
  const char *path = run->path.data;
  const int64_t count = mhas_rows_count(run->rows);
  if (mhas_store_exists(path)) {
    MHAS_TRY(mhas_store_lock(path, &run->lock, error));
    MHAS_TRY(mhas_store_resume(path, run->sweep, count, run->options->retry_failed, status, error));
  } else {
    MHAS_TRY(create_file(run, older, error));
    MHAS_TRY(mhas_store_lock(path, &run->lock, error));
  }
  if (older->count == 0) {
    return MHAS_OK;
  }
  if (*status == NULL) {
    MHAS_TRY(mhas_alloc(status, (size_t)count, sizeof **status, "the status of all points", error));
  }
  return mhas_older_take(older, path, run->rows, *status, run->options->quiet, error);
}

/* A checkpoint is of use as long as its point is open; in a new file none is. */
typedef struct open_rows {
  const uint8_t *status; /* [count]; NULL: a new file */
  int64_t count;
} open_rows;

static bool is_open(void *context, int64_t row) {
  const open_rows *rows = context;
  return rows->status != NULL && row < rows->count && rows->status[row] == MHAS_PENDING;
}

mhas_code mhas_run_prepare_file(sweep_run *run, mhas_error *error) {
  const mhas_run_options *options = run->options;
  uint8_t *status = NULL;
  if (mhas_store_exists(run->path.data) && !options->resume) {
    return refuse_existing(run->path.data, error);
  }
  mhas_older_files older;
  mhas_code code = mhas_older_open(options->reuse, options->reuse_count, run->path.data, run->sweep, &older, error);
  if (code == MHAS_OK) {
    code = inspect_inputs(run, error);
  }
  if (code == MHAS_OK) {
    code = make_or_take_up(run, &older, &status, error);
  }
  mhas_older_close(&older);
  if (code == MHAS_OK) {
    open_rows open = {status, mhas_rows_count(run->rows)};
    mhas_checkpoint_tidy(run->path.data, is_open, &open);
    const int workers = run->size == 1 ? 1 : run->size - 1;
    code = mhas_workload_list(run->sweep, run->rows, status, options->limit, workers, &run->todo, error);
  }
  mhas_free(status);
  return code;
}
