/* Z on a grid of ranks: each makes the tiles that touch its own blocks, from the streams that the samples come from. */
#include <inttypes.h>
#include <string.h>

#include "mhasweep/model.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct maker {
  const mhas_features_shape *shape;
  const mhas_features_samples *samples;
  const double *W_Q, *W_K, *compose;
  mhas_cyclic *Z;
  double *E, *e, *scratch;
  int64_t saturated;
} maker;

static mhas_code allocate(maker *m, mhas_error *error) {
  const int64_t block = mhas_features_block(m->shape, m->samples->count);
  const int64_t contexts = m->shape->shared ? 1 : block;
  const size_t numbers = (size_t)(contexts * m->shape->context * m->shape->dim);
  MHAS_TRY(mhas_alloc(&m->E, numbers, sizeof *m->E, "the contexts", error));
  MHAS_TRY(mhas_alloc(&m->e, (size_t)(block * m->shape->dim), sizeof *m->e, "the queries", error));
  const size_t scratch = (size_t)mhas_features_tile_scratch(m->shape);
  MHAS_TRY(mhas_alloc(&m->scratch, scratch, sizeof *m->scratch, "the features' scratch", error));
  return m->shape->shared ? m->samples->contexts(m->samples->context, 0, 1, m->E, error) : MHAS_OK;
}

/* Local columns that belong to heads first .. first + heads - 1. */
static int64_t columns_of(const maker *m, int64_t first, int64_t heads, int64_t *count) {
  const int64_t from = mhas_cyclic_columns_before(m->Z, first * m->shape->dim);
  *count = mhas_cyclic_columns_before(m->Z, (first + heads) * m->shape->dim) - from;
  return from;
}

static bool is_here(const mhas_cyclic *a, int64_t row, int64_t column) {
  return mhas_cyclic_rows_before(a, row) < mhas_cyclic_rows_before(a, row + 1) &&
         mhas_cyclic_columns_before(a, column) < mhas_cyclic_columns_before(a, column + 1);
}

/* One tile, z (block, G, d): what of it is local goes into Z. */
static void put(const maker *m, int64_t sample, int64_t count, int64_t head, int64_t heads, const double *z) {
  const int64_t width = mhas_features_tile_heads(m->shape) * m->shape->dim;
  const int64_t first_row = mhas_cyclic_rows_before(m->Z, sample);
  const int64_t last_row = mhas_cyclic_rows_before(m->Z, sample + count);
  int64_t columns = 0;
  const int64_t from = columns_of(m, head, heads, &columns);
  for (int64_t c = from; c < from + columns; c++) {
    const double *source = z + mhas_cyclic_column(m->Z, c) - head * m->shape->dim;
    double *column = m->Z->local + c * m->Z->stride;
    for (int64_t r = first_row; r < last_row; r++) {
      column[r] = source[(mhas_cyclic_row(m->Z, r) - sample) * width];
    }
  }
}

/* A block of samples: nothing is drawn if none of their rows live here. */
static mhas_code make_rows(maker *m, int64_t sample, int64_t count, mhas_error *error) {
  const mhas_features_shape *shape = m->shape;
  const mhas_features_samples *samples = m->samples;
  const int64_t G = mhas_features_tile_heads(shape);
  if (mhas_cyclic_rows_before(m->Z, sample) == mhas_cyclic_rows_before(m->Z, sample + count) ||
      m->Z->local_columns == 0) {
    return MHAS_OK;
  }
  if (!shape->shared) {
    MHAS_TRY(samples->contexts(samples->context, sample, count, m->E, error));
  }
  MHAS_TRY(samples->queries(samples->context, sample, count, m->e, error));
  for (int64_t h = 0; h < shape->heads; h += G) {
    const int64_t heads = smaller(G, shape->heads - h);
    const int64_t weights = h * shape->dim * shape->key_dim;
    int64_t columns = 0;
    (void)columns_of(m, h, heads, &columns);
    if (columns > 0) {
      const mhas_features_part part = mhas_features_tile(shape, count, heads, m->E, m->e, m->W_Q + weights,
                                                         m->W_K + weights, m->compose, m->scratch);
      put(m, sample, count, h, heads, part.z);
      /* Several ranks may make this tile; the one that has its first entry counts. */
      m->saturated += is_here(m->Z, sample, h * shape->dim) ? part.saturated : 0;
    }
  }
  return MHAS_OK;
}

/* All ranks go through all blocks, so that they ask together whether to go on. */
static mhas_code make_all(maker *m, mhas_error *error) {
  enum { BLOCKS_BETWEEN_QUESTIONS = 16 };
  const mhas_grid *grid = m->Z->grid;
  const int64_t block = mhas_features_block(m->shape, m->samples->count);
  mhas_code mine = MHAS_OK;
  for (int64_t t = 0, k = 0; t < m->samples->count; t += block, k++) {
    if (mine == MHAS_OK) {
      mine = make_rows(m, t, smaller(block, m->samples->count - t), error);
    }
    if (k % BLOCKS_BETWEEN_QUESTIONS == 0) {
      MHAS_TRY(mhas_grid_agree(grid, mine, error));
      MHAS_TRY(mhas_grid_proceed(grid, error));
    }
  }
  return mhas_grid_agree(grid, mine, error);
}

mhas_code mhas_features_cyclic(const mhas_features_shape *shape, const mhas_features_samples *samples,
                               const double *W_Q, const double *W_K, const double *compose, mhas_cyclic *Z,
                               int64_t *saturated, mhas_error *error) {
  *saturated = 0;
  if (Z->rows != samples->count || Z->columns != shape->heads * shape->dim) {
    return mhas_fail(error, MHAS_INTERNAL,
                     "features of %" PRId64 " samples and %" PRId64 " columns do not fit a matrix of %" PRId64
                     " x %" PRId64,
                     samples->count, shape->heads * shape->dim, Z->rows, Z->columns);
  }
  maker m = {.shape = shape, .samples = samples, .W_Q = W_Q, .W_K = W_K, .compose = compose, .Z = Z};
  mhas_code code = mhas_grid_agree(Z->grid, allocate(&m, error), error);
  if (code == MHAS_OK) {
    code = make_all(&m, error);
  }
  if (code == MHAS_OK) {
    *saturated = m.saturated;
    code = mhas_grid_sum(Z->grid, saturated, 1, error);
  }
  mhas_free(m.E);
  mhas_free(m.e);
  mhas_free(m.scratch);
  return code;
}
