/* Z on a grid of ranks: each makes the tiles that touch its own blocks, from the streams that the samples come from. */
#include <inttypes.h>
#include <string.h>

#include "mhasweep/model.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct maker {
  const mhas_features_shape *shape;
  const mhas_data_shape *data;
  mhas_random random;
  const double *W_Q, *W_K;
  mhas_cyclic *Z;
  double *E, *e, *scratch;
  int64_t saturated;
} maker;

static mhas_code allocate(maker *m, mhas_error *error) {
  const int64_t block = mhas_features_block(m->shape);
  const int64_t contexts = m->shape->shared ? 1 : block;
  const size_t numbers = (size_t)(contexts * m->shape->context * m->shape->dim);
  MHAS_TRY(mhas_alloc(&m->E, numbers, sizeof *m->E, "the contexts", error));
  MHAS_TRY(mhas_alloc(&m->e, (size_t)(block * m->shape->dim), sizeof *m->e, "the queries", error));
  const size_t scratch = (size_t)mhas_features_scratch(m->shape);
  return mhas_alloc(&m->scratch, scratch, sizeof *m->scratch, "the features' scratch", error);
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
  const int64_t width = MHAS_FEATURES_TILE_HEADS * m->shape->dim;
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
static void make_rows(maker *m, int64_t sample, int64_t count) {
  const mhas_features_shape *shape = m->shape;
  if (mhas_cyclic_rows_before(m->Z, sample) == mhas_cyclic_rows_before(m->Z, sample + count) ||
      m->Z->local_columns == 0) {
    return;
  }
  if (!shape->shared) {
    mhas_data_contexts(m->data, m->random, sample, count, m->E);
  }
  mhas_data_queries(m->data, m->random, sample, count, m->e);
  for (int64_t h = 0; h < shape->heads; h += MHAS_FEATURES_TILE_HEADS) {
    const int64_t heads = smaller(MHAS_FEATURES_TILE_HEADS, shape->heads - h);
    const int64_t weights = h * shape->dim * shape->key_dim;
    int64_t columns = 0;
    (void)columns_of(m, h, heads, &columns);
    if (columns > 0) {
      int64_t saturated = 0;
      const double *z = mhas_features_tile(shape, count, heads, m->E, m->e, m->W_Q + weights, m->W_K + weights,
                                           m->scratch, &saturated);
      put(m, sample, count, h, heads, z);
      /* Several ranks may make this tile; the one that has its first entry counts. */
      m->saturated += is_here(m->Z, sample, h * shape->dim) ? saturated : 0;
    }
  }
}

mhas_code mhas_features_cyclic(const mhas_features_shape *shape, const mhas_data_shape *data, mhas_random random,
                               const double *W_Q, const double *W_K, mhas_cyclic *Z, int64_t *saturated,
                               mhas_error *error) {
  enum { BLOCKS_BETWEEN_QUESTIONS = 16 };
  *saturated = 0;
  if (Z->rows != data->samples || Z->columns != shape->heads * shape->dim) {
    return mhas_fail(error, MHAS_INTERNAL,
                     "features of %" PRId64 " samples and %" PRId64 " columns do not fit a matrix of %" PRId64
                     " x %" PRId64,
                     data->samples, shape->heads * shape->dim, Z->rows, Z->columns);
  }
  maker m = {.shape = shape, .data = data, .random = random, .W_Q = W_Q, .W_K = W_K, .Z = Z};
  mhas_code code = mhas_grid_agree(Z->grid, allocate(&m, error), error);
  if (code == MHAS_OK && shape->shared) {
    mhas_data_contexts(data, random, 0, 1, m.E);
  }
  const int64_t block = mhas_features_block(shape);
  for (int64_t t = 0; code == MHAS_OK && t < data->samples; t += block) {
    make_rows(&m, t, smaller(block, data->samples - t));
    if (t / block % BLOCKS_BETWEEN_QUESTIONS == 0) {
      code = mhas_grid_proceed(Z->grid, error);
    }
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
