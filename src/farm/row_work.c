#include "farm/row_work.h"

#include <math.h>
#include <stdio.h>

#include "farm/keeper.h"

/* However long a chunk turns out to be, a finished row reaches the file about this soon. */
static const double flush_seconds = 1.0;

struct mhas_row_work {
  mhas_sweep *sweep;
  const mhas_rows *rows;
  mhas_store *store;
  const mhas_experiment *experiment;
  mhas_value *values; /* of the point that runs */
  bool keeps;         /* arrays are stored */
  mhas_row row;       /* reused by every point */
  mhas_store_keep keep;
  mhas_keeper keeper;
};

mhas_code mhas_row_work_create(mhas_sweep *sweep, const mhas_rows *rows, mhas_store *store, const char *path,
                               double checkpoint_every, mhas_row_work **work, mhas_error *error) {
  mhas_row_work *made = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "the work of a rank", error));
  made->sweep = sweep;
  made->rows = rows;
  made->store = store;
  made->experiment = mhas_sweep_experiment(sweep);
  made->keep.store = store;
  mhas_keeper_start(&made->keeper, path, checkpoint_every, sweep);
  const unsigned wanted = mhas_sweep_store(sweep);
  mhas_row *row = &made->row;
  row->record_capacity = mhas_store_record_capacity(store);
  row->spectrum_capacity = mhas_store_spectrum_capacity(store);
  if ((wanted & MHAS_STORE_ARRAYS) != 0) {
    made->keeps = true;
    row->keep_context = &made->keep;
  }
  const size_t parameters = (size_t)made->experiment->parameter_count;
  const size_t results = (size_t)made->experiment->result_count;
  const size_t curve_cells = (size_t)made->experiment->curve_count * (size_t)row->record_capacity;
  mhas_code code = mhas_alloc(&made->values, parameters, sizeof *made->values, "a point's values", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&row->results, results, sizeof *row->results, "a point's results", error);
  }
  if (code == MHAS_OK && curve_cells > 0) {
    code = mhas_alloc(&row->curves, curve_cells, sizeof *row->curves, "a point's curves", error);
  }
  if (code == MHAS_OK && row->spectrum_capacity > 0) {
    code =
        mhas_alloc(&row->spectrum, (size_t)row->spectrum_capacity, sizeof *row->spectrum, "a point's spectrum", error);
  }
  if (code != MHAS_OK) {
    mhas_row_work_destroy(made);
    return code;
  }
  *work = made;
  return MHAS_OK;
}

void mhas_row_work_destroy(mhas_row_work *work) {
  if (work == NULL) {
    return;
  }
  mhas_free(work->values);
  mhas_free(work->row.results);
  mhas_free(work->row.curves);
  mhas_free(work->row.spectrum);
  mhas_free(work);
}

/* What a running point may still take. */
typedef struct allowance {
  mhas_farm_control *control;
  const mhas_team *team;
  mhas_keeper *keeper;
  double started;
  double seconds_most;
} allowance;

typedef struct decision {
  mhas_code code;
  bool due; /* a checkpoint */
} decision;

/* Every member hears the master and tells it of signals; what member 0 makes of it holds for all of them. */
static mhas_code proceed(void *context, mhas_error *error) {
  const allowance *allowed = context;
  const bool gives_up = mhas_farm_give_up(allowed->control);
  const double now = mhas_now();
  decision made = {.code = MHAS_OK, .due = now >= allowed->keeper->next};
  if (gives_up) {
    made.code = MHAS_STOPPED;
  } else if (now - allowed->started > allowed->seconds_most) {
    made.code = MHAS_LIMIT;
  }
  MHAS_TRY(mhas_team_share(allowed->team, &made, sizeof made, error));
  allowed->keeper->due = made.due;
  switch (made.code) {
    case MHAS_STOPPED: return mhas_fail(error, MHAS_STOPPED, "stopped on request");
    case MHAS_LIMIT:
      return mhas_fail(error, MHAS_LIMIT, "took longer than %g s (limits.seconds_per_point)", allowed->seconds_most);
    default: return MHAS_OK;
  }
}

/* A point that is too large even if shared says what it would need. */
static mhas_code check_memory(const mhas_row_work *work, int team_size, mhas_error *error) {
  const mhas_experiment *experiment = work->experiment;
  const double most = mhas_sweep_limits(work->sweep)->memory_per_rank;
  double needed = 0.0;
  const int ranks = mhas_experiment_ranks(experiment, work->values, most, &needed);
  if (ranks == team_size) {
    return MHAS_OK;
  }
  if (ranks > 0) {
    return mhas_fail(error, MHAS_INTERNAL, "a point for %d ranks was given to %d", ranks, team_size);
  }
  char alone[MHAS_HUMAN_LENGTH];
  char have[MHAS_HUMAN_LENGTH];
  char shared[MHAS_HUMAN_LENGTH];
  char team[96] = "";
  if (experiment->max_ranks > 1) {
    (void)snprintf(team, sizeof team, " on one rank, and still %s on each of %d", mhas_human_bytes(needed, shared),
                   experiment->max_ranks);
  }
  return mhas_fail(error, MHAS_LIMIT, "needs about %s of memory%s, more than the %s of limits.memory_per_rank",
                   mhas_human_bytes(mhas_experiment_bytes(experiment, work->values, 1), alone), team,
                   mhas_human_bytes(most, have));
}

/* A member's row is not the one that counts. */
static mhas_code drop_array(void *context, const char *name, const double *data, mhas_error *error) {
  (void)context, (void)name, (void)data, (void)error;
  return MHAS_OK;
}

/* For a search: the values of the point with another size. */
typedef struct grid_point {
  mhas_sweep *sweep;
  int64_t index;
} grid_point;

static mhas_code values_at(void *context, int64_t size, mhas_value *values, mhas_error *error) {
  const grid_point *point = context;
  return mhas_sweep_point_at(point->sweep, point->index, size, values, error);
}

/* Computes one row into work->row. */
static mhas_code run_point(mhas_row_work *work, int64_t row_number, allowance *allowed, mhas_error *error) {
  const mhas_team *team = allowed->team;
  grid_point point = {.sweep = work->sweep, .index = mhas_rows_grid_index(work->rows, row_number)};
  mhas_row_clear(work->experiment, &work->row);
  mhas_keeper_begin(&work->keeper, row_number, team->size, &work->row, &allowed->started);
  work->keep.row = row_number;
  work->row.keep = !work->keeps ? NULL : team->rank == 0 ? mhas_store_keep_array : drop_array;
  int64_t replicate = 0;
  bool included = false;
  mhas_code code = mhas_sweep_point(work->sweep, point.index, work->values, &replicate, &included, error);
  if (code == MHAS_OK) {
    code = check_memory(work, team->size, error);
  }
  MHAS_TRY(mhas_team_agree(team, code, error));
  const mhas_task task = {
      .point = {.values = work->values,
                .random = {.seed = mhas_sweep_seed(work->sweep), .replicate = (uint32_t)replicate}},
      .store = mhas_sweep_store(work->sweep),
      .team = *team,
      .proceed = proceed,
      .context = allowed,
      .checkpoints = &work->keeper.checkpoints,
      .at = values_at,
      .at_context = &point,
  };
  return mhas_experiment_run(work->experiment, &task, &work->row, error);
}

/* A failure that another rank need not have. */
static bool is_accident(mhas_code code) { return code == MHAS_LIMIT || code == MHAS_NO_MEMORY; }

/* Runs one row and, on member 0, puts how it ended into the file. Fails only if the run as a whole is broken. */
static mhas_code run_row(mhas_row_work *work, const mhas_team *team, int64_t row_number, mhas_farm_control *control,
                         uint8_t *outcome, mhas_error *error) {
  allowance allowed = {
      .control = control,
      .team = team,
      .keeper = &work->keeper,
      .started = mhas_now(),
      .seconds_most = mhas_sweep_limits(work->sweep)->seconds_per_point,
  };
  mhas_error reason = {.text = ""};
  mhas_outcome ended = {.status = MHAS_DONE, .reason = "", .started = mhas_epoch(), .ranks = team->size};
  reason.code = mhas_team_agree(team, run_point(work, row_number, &allowed, &reason), &reason);
  switch (reason.code) {
    case MHAS_OK: break;
    case MHAS_USAGE: /* an expression gave this point a value that cannot be */
    case MHAS_NUMERIC:
    case MHAS_LIMIT:
    case MHAS_NO_MEMORY:
      ended.status = MHAS_FAILED;
      ended.reason = reason.text;
      break;
    case MHAS_STOPPED: ended.status = MHAS_PENDING; break;
    case MHAS_IO:
    case MHAS_MPI:
    case MHAS_INTERNAL:
    default: *error = reason; return mhas_error_context(error, "point %lld", (long long)row_number);
  }
  if (ended.status != MHAS_DONE && (ended.status == MHAS_PENDING || is_accident(reason.code)) &&
      mhas_farm_lapsed(control)) {
    *outcome = MHAS_RUNNING; /* it may be somebody else's by now, who may have done it */
    return MHAS_OK;
  }
  ended.seconds = mhas_now() - allowed.started;
  *outcome = (uint8_t)ended.status;
  if (team->rank > 0) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_store_append(work->store, row_number, &work->row, &ended, error));
  if (ended.status == MHAS_FAILED && is_accident(reason.code)) {
    MHAS_TRY(mhas_store_flush(work->store, error)); /* while this is known to be the rank that has the row */
  }
  return ended.status == MHAS_PENDING ? MHAS_OK : mhas_keeper_end(&work->keeper, work->store, error);
}

/* Puts a row back as it was. */
static mhas_code leave_row(mhas_row_work *work, const mhas_team *team, int64_t row_number, mhas_error *error) {
  const mhas_outcome untouched = {.status = MHAS_PENDING, .reason = "", .ranks = team->size};
  return team->rank > 0 ? MHAS_OK : mhas_store_append(work->store, row_number, &work->row, &untouched, error);
}

static mhas_code run_rows(mhas_row_work *work, const mhas_team *team, const int64_t *rows, int64_t count,
                          mhas_farm_control *control, uint8_t *outcome, mhas_error *error) {
  double flushed = mhas_now();
  for (int64_t i = 0; i < count; i++) {
    bool stopping = mhas_farm_stopping(control);
    MHAS_TRY(mhas_team_share(team, &stopping, sizeof stopping, error));
    if (team->size == 1 && mhas_farm_lapsed(control)) {
      outcome[i] = MHAS_RUNNING; /* somebody else may have it */
    } else if (stopping) {
      outcome[i] = MHAS_PENDING;
      MHAS_TRY(leave_row(work, team, rows[i], error));
    } else {
      MHAS_TRY(run_row(work, team, rows[i], control, &outcome[i], error));
    }
    if (team->rank == 0 && mhas_now() - flushed > flush_seconds) {
      MHAS_TRY(mhas_store_flush(work->store, error));
      flushed = mhas_now();
    }
  }
  return MHAS_OK;
}

mhas_code mhas_row_work_run(void *context, const mhas_team *team, const int64_t *rows, int64_t count,
                            mhas_farm_control *control, uint8_t *outcome, mhas_error *error) {
  mhas_row_work *work = context;
  mhas_code code = team->rank == 0 ? mhas_store_begin(work->store, rows, count, error) : MHAS_OK;
  MHAS_TRY(mhas_team_agree(team, code, error));
  MHAS_TRY(run_rows(work, team, rows, count, control, outcome, error));
  return team->rank == 0 ? mhas_store_flush(work->store, error) : MHAS_OK;
}

mhas_code mhas_row_work_recall(void *context, const int64_t *rows, int64_t count, uint8_t *outcome, mhas_error *error) {
  mhas_row_work *work = context;
  MHAS_TRY(mhas_store_statuses(work->store, rows, count, outcome, error));
  for (int64_t i = 0; i < count; i++) {
    outcome[i] = outcome[i] == MHAS_DONE || outcome[i] == MHAS_FAILED ? outcome[i] : MHAS_PENDING;
  }
  return MHAS_OK;
}

mhas_code mhas_row_work_condemn(void *context, int64_t row, mhas_error *error) {
  mhas_row_work *work = context;
  const mhas_outcome ended = {.status = MHAS_FAILED,
                              .reason =
                                  "every rank that ran it died or hung (out of memory?); the log of the system "
                                  "may know more",
                              .seconds = NAN,
                              .ranks = 0};
  mhas_row_clear(work->experiment, &work->row);
  MHAS_TRY(mhas_store_append(work->store, row, &work->row, &ended, error));
  return mhas_store_flush(work->store, error);
}
