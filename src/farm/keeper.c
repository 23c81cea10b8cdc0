#include "farm/keeper.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "farm/run_words.h"

static const double WRITING_SHARE = 0.01; /* of a point's time goes into checkpoints at the most */

/* The state as the file has it: the experiment's pieces, then the row and the time spent. */
enum { ROW_PIECES = 5 };

static mhas_code join(mhas_keeper *keeper, const mhas_piece *pieces, int count,
                      mhas_piece all[MHAS_CHECKPOINT_PIECES_MOST], mhas_error *error) {
  const mhas_experiment *experiment = keeper->experiment;
  mhas_row *row = keeper->row;
  if (count > MHAS_CHECKPOINT_PIECES_MOST - ROW_PIECES) {
    return mhas_fail(error, MHAS_INTERNAL, "a state of %d pieces", count);
  }
  const size_t cells = row->curves == NULL ? 0 : (size_t)experiment->curve_count * (size_t)row->record_capacity;
  const size_t values = row->spectrum == NULL ? 0 : (size_t)row->spectrum_capacity;
  const mhas_piece tail[ROW_PIECES] = {
      {&keeper->spent, sizeof keeper->spent},
      {row->results, (size_t)experiment->result_count * sizeof *row->results},
      {row->curves, cells * sizeof *row->curves},
      {row->spectrum, values * sizeof *row->spectrum},
      {&row->flops, sizeof row->flops},
  };
  memcpy(all, pieces, (size_t)count * sizeof *pieces); /* with the numbers that a mover knows them by */
  memcpy(all + count, tail, sizeof tail);
  return MHAS_OK;
}

static bool due(void *context) { return ((const mhas_keeper *)context)->due; }

/* A checkpoint that cannot be written is no reason to stop computing. */
static mhas_code write_state(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover,
                             mhas_error *error) {
  mhas_keeper *keeper = context;
  mhas_piece all[MHAS_CHECKPOINT_PIECES_MOST];
  mhas_error reason;
  char *path = NULL;
  MHAS_TRY(join(keeper, pieces, count, all, error));
  MHAS_TRY(mhas_checkpoint_path(keeper->results, keeper->key.point, &path, error));
  const double from = mhas_now();
  keeper->spent = from - *keeper->started;
  const mhas_code code = mhas_checkpoint_write(path, &keeper->key, all, ROW_PIECES + count, mover, &reason);
  mhas_free(path);
  const double now = mhas_now();
  keeper->next = keeper->every > 0.0 ? now + fmax(keeper->every, (now - from) / WRITING_SHARE) : INFINITY;
  if (code == MHAS_OK) {
    keeper->there = true;
  } else if (!keeper->complained) {
    keeper->complained = true;
    mhas_say("warning: %s; while this lasts, an interruption costs what was done of the point", reason.text);
  }
  return MHAS_OK;
}

static mhas_code read_state(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, bool *found,
                            mhas_error *error) {
  mhas_keeper *keeper = context;
  mhas_piece all[MHAS_CHECKPOINT_PIECES_MOST];
  char *path = NULL;
  MHAS_TRY(join(keeper, pieces, count, all, error));
  MHAS_TRY(mhas_checkpoint_path(keeper->results, keeper->key.point, &path, error));
  mhas_code code = mhas_checkpoint_read(path, &keeper->key, all, ROW_PIECES + count, mover, found, error);
  mhas_free(path);
  if (*found) {
    *keeper->started -= keeper->spent;
  }
  keeper->there = *found || code != MHAS_OK;
  if (code == MHAS_IO) {
    mhas_say("%s: it is ignored, and point %" PRId64 " begins anew", error->text, keeper->key.point);
    code = MHAS_OK;
  }
  return code;
}

void mhas_keeper_start(mhas_keeper *keeper, const char *results, double every, const mhas_sweep *sweep) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  *keeper = (mhas_keeper){.results = results,
                          .every = every,
                          .experiment = experiment,
                          .key = {.spec_hash = mhas_sweep_hash(sweep), .numerics = experiment->numerics},
                          .checkpoints = {.due = due, .write = write_state, .read = read_state, .context = keeper}};
}

void mhas_keeper_begin(mhas_keeper *keeper, int64_t point, int ranks, mhas_row *row, double *started) {
  keeper->key.point = point;
  keeper->key.ranks = ranks;
  keeper->row = row;
  keeper->started = started;
  keeper->next = keeper->every > 0.0 ? *started + keeper->every : INFINITY;
  keeper->due = false;
  keeper->there = false;
}

mhas_code mhas_keeper_end(mhas_keeper *keeper, mhas_store *store, mhas_error *error) {
  char *path = NULL;
  if (!keeper->there) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_store_flush(store, error));
  MHAS_TRY(mhas_checkpoint_path(keeper->results, keeper->key.point, &path, error));
  mhas_error reason;
  if (mhas_checkpoint_retire(path, keeper->results, &reason) != MHAS_OK) {
    mhas_say("warning: %s", reason.text);
  }
  mhas_free(path);
  return MHAS_OK;
}
