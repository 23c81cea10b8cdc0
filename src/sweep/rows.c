/*
 * Rows: the points that `where` keeps, numbered.
 *
 * A bit per grid point, and the number of bits before each block of them: the n-th set bit is found by a search among
 * the blocks and then within one.
 */
#include "sweep/inside.h"

enum { BLOCK_BITS = 4096, BLOCK_WORDS = BLOCK_BITS / 64 };

struct mhas_rows {
  int64_t count;
  int64_t blocks;
  uint64_t *bits;  /* NULL: every point is a row */
  int64_t *before; /* [blocks + 1] rows before each block */
};

static mhas_code mark(mhas_sweep *sweep, mhas_rows *rows, mhas_error *error) {
  const int64_t grid = mhas_sweep_grid_count(sweep);
  mhas_value *values = NULL;
  rows->blocks = (grid + BLOCK_BITS - 1) / BLOCK_BITS;
  MHAS_TRY(mhas_alloc(&rows->bits, (size_t)rows->blocks, BLOCK_BITS / 8, "the points that where keeps", error));
  MHAS_TRY(mhas_alloc(&rows->before, (size_t)rows->blocks + 1, sizeof *rows->before, "the counts of rows", error));
  MHAS_TRY(mhas_alloc(&values, (size_t)sweep->experiment->parameter_count, sizeof *values, "a point", error));
  for (int64_t i = 0; i < grid; i++) {
    if (i % BLOCK_BITS == 0) {
      rows->before[i / BLOCK_BITS] = rows->count;
    }
    if (sweep_keeps(sweep, i, values)) {
      rows->bits[i / 64] |= UINT64_C(1) << i % 64;
      rows->count++;
    }
  }
  rows->before[rows->blocks] = rows->count;
  mhas_free(values);
  if (rows->count == 0) {
    return mhas_fail(error, MHAS_USAGE, "where leaves out every point; nothing is left to run");
  }
  return MHAS_OK;
}

mhas_code mhas_rows_create(mhas_sweep *sweep, mhas_rows **rows, mhas_error *error) {
  *rows = NULL;
  mhas_rows *made = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "the rows", error));
  if (sweep->where == NULL) {
    made->count = mhas_sweep_grid_count(sweep);
  } else {
    const mhas_code code = mark(sweep, made, error);
    if (code != MHAS_OK) {
      mhas_rows_destroy(made);
      return code;
    }
  }
  *rows = made;
  return MHAS_OK;
}

void mhas_rows_destroy(mhas_rows *rows) {
  if (rows != NULL) {
    mhas_free(rows->bits);
    mhas_free(rows->before);
    mhas_free(rows);
  }
}

int64_t mhas_rows_count(const mhas_rows *rows) { return rows->count; }

/* The place of the n-th set bit (from 0) of a word that has that many. */
static int nth_bit(uint64_t word, int64_t n) {
  for (; n > 0; n--) {
    word &= word - 1;
  }
  return __builtin_ctzll(word);
}

int64_t mhas_rows_grid_index(const mhas_rows *rows, int64_t row) {
  if (rows->bits == NULL) {
    return row;
  }
  int64_t low = 0; /* before[low] <= row < before[high] */
  int64_t high = rows->blocks;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    *(rows->before[middle] <= row ? &low : &high) = middle;
  }
  int64_t left = row - rows->before[low];
  int64_t word = low * BLOCK_WORDS;
  for (int64_t held = 0; (held = __builtin_popcountll(rows->bits[word])) <= left; word++) {
    left -= held;
  }
  return word * 64 + nth_bit(rows->bits[word], left);
}
