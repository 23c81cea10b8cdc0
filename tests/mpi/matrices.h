/*
 * Matrices for tests of block-cyclic algebra: each is made whole and row-major on every rank, and dealt out from there;
 * and the checks that every such test makes.
 */
#ifndef MHASWEEP_TESTS_MATRICES_H
#define MHASWEEP_TESTS_MATRICES_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "mhasweep/linalg.h"

static const mhas_random matrix_seed = {.seed = 20230607};

#define assert_code(call, expected)                                                                \
  do {                                                                                             \
    mhas_error code_error = {0};                                                                   \
    mhas_error *error = &code_error;                                                               \
    const mhas_code code_got = (call);                                                             \
    if (code_got != (expected)) {                                                                  \
      fail_msg("%s: code %d, not %d: %s", #call, (int)code_got, (int)(expected), code_error.text); \
    }                                                                                              \
  } while (0)
#define assert_ok(call) assert_code(call, MHAS_OK)

typedef struct matrix {
  int64_t rows, columns;
  double *entries; /* row-major */
} matrix;

static inline matrix matrix_new(int64_t rows, int64_t columns) {
  matrix a = {rows, columns, NULL};
  assert_ok(mhas_alloc(&a.entries, (size_t)(rows * columns), sizeof *a.entries, "a test matrix", error));
  return a;
}

static inline void matrix_free(matrix *a) {
  mhas_free(a->entries);
  a->entries = NULL;
}

static inline matrix matrix_gaussian(int64_t rows, int64_t columns, uint64_t from) {
  matrix a = matrix_new(rows, columns);
  mhas_random_normal(matrix_seed, MHAS_STREAM_SAMPLE, from, (size_t)(rows * columns), a.entries);
  return a;
}

/* a = (1 - 2 v v^T) a for the unit vector v of random numbers from..: orthogonal, so singular values stay. */
static inline void matrix_reflect_rows(matrix *a, uint64_t from) {
  matrix v = matrix_gaussian(a->rows, 1, from);
  double square = 0.0;
  for (int64_t i = 0; i < a->rows; i++) {
    square += v.entries[i] * v.entries[i];
  }
  for (int64_t j = 0; j < a->columns; j++) {
    double product = 0.0;
    for (int64_t i = 0; i < a->rows; i++) {
      product += v.entries[i] * a->entries[i * a->columns + j];
    }
    for (int64_t i = 0; i < a->rows; i++) {
      a->entries[i * a->columns + j] -= 2.0 * product / square * v.entries[i];
    }
  }
  matrix_free(&v);
}

static inline matrix matrix_transposed(const matrix *a) {
  matrix t = matrix_new(a->columns, a->rows);
  for (int64_t i = 0; i < a->rows; i++) {
    for (int64_t j = 0; j < a->columns; j++) {
      t.entries[j * a->rows + i] = a->entries[i * a->columns + j];
    }
  }
  return t;
}

/* A dense matrix with these min(rows, columns) singular values. */
static inline matrix matrix_with(int64_t rows, int64_t columns, const double *sigma) {
  matrix a = matrix_new(rows, columns);
  for (int64_t i = 0; i < rows && i < columns; i++) {
    a.entries[i * columns + i] = sigma[i];
  }
  for (int k = 0; k < 3; k++) {
    matrix_reflect_rows(&a, (uint64_t)(1000 * k + 7));
    matrix turned = matrix_transposed(&a);
    matrix_reflect_rows(&turned, (uint64_t)(1000 * k + 500007));
    matrix_free(&a);
    a = matrix_transposed(&turned);
    matrix_free(&turned);
  }
  return a;
}

static inline mhas_code matrix_fill(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns,
                                    double *block, int64_t stride, mhas_error *error) {
  (void)error;
  const matrix *a = context;
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) {
      block[i + j * stride] = a->entries[(row + i) * a->columns + column + j];
    }
  }
  return MHAS_OK;
}

static inline mhas_cyclic matrix_deal(const mhas_grid *grid, matrix *a) {
  mhas_cyclic dealt;
  assert_ok(mhas_cyclic_create(grid, a->rows, a->columns, "a test matrix", &dealt, error));
  assert_ok(mhas_cyclic_fill(&dealt, matrix_fill, a, error));
  return dealt;
}

static inline matrix matrix_collect(const mhas_cyclic *a) {
  matrix whole = matrix_new(a->rows, a->columns);
  assert_ok(mhas_cyclic_read(a, 0, a->rows, 0, a->columns, whole.entries, error));
  return whole;
}

/* The rank that the singular value decomposition of one rank sees. */
static inline int64_t matrix_rank(const matrix *a, double tolerance) {
  const int64_t count = a->rows < a->columns ? a->rows : a->columns;
  double *sigma = NULL;
  assert_ok(mhas_alloc(&sigma, (size_t)count, sizeof *sigma, "singular values", error));
  assert_ok(mhas_singular_values(a->rows, a->columns, a->entries, sigma, error));
  const int64_t rank = mhas_numerical_rank(sigma, count, tolerance);
  mhas_free(sigma);
  return rank;
}

/* main of a test program under mpirun: a failure on one rank ends all. */
#define MATRIX_TESTS_MAIN(tests)                                  \
  int main(int argc, char **argv) {                               \
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {                  \
      return 1;                                                   \
    }                                                             \
    const int failed = cmocka_run_group_tests(tests, NULL, NULL); \
    (void)MPI_Finalize();                                         \
    return failed;                                                \
  }

#endif
