#include "linalg/dependent.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mhasweep/linalg.h"

/* ---- the subset itself ---- */

mhas_code mhas_dependent_create(const mhas_vectors *vectors, mhas_dependent *dependent, mhas_error *error) {
  *dependent = (mhas_dependent){0};
  MHAS_TRY(
      mhas_alloc(&dependent->rows, (size_t)vectors->dim + 1, sizeof *dependent->rows, "a dependent subset", error));
  if (vectors->count > vectors->dim) {
    dependent->count = vectors->dim + 1;
    for (int64_t i = 0; i < dependent->count; i++) {
      dependent->rows[i] = i;
    }
  }
  return MHAS_OK;
}

void mhas_dependent_free(mhas_dependent *dependent) {
  mhas_free(dependent->rows);
  *dependent = (mhas_dependent){0};
}

int64_t mhas_kruskal_upper(const mhas_vectors *vectors, const mhas_dependent *dependent) {
  return dependent->count > 0 ? dependent->count - 1 : vectors->count;
}

/* ---- reducing ---- */

static void set_units(mhas_reducer *r) {
  const int64_t dim = r->vectors->dim;
  for (int64_t i = 0; i < r->vectors->count; i++) {
    const double *x = r->vectors->X + i * dim;
    const double length = cblas_dnrm2((int)dim, x, 1);
    for (int64_t j = 0; j < dim; j++) {
      r->unit[i * dim + j] = length > 0.0 ? x[j] / length : 0.0;
    }
  }
}

mhas_code mhas_reducer_create(const mhas_vectors *vectors, double tolerance, mhas_dependent *smallest,
                              mhas_reducer *reducer, mhas_error *error) {
  const size_t dim = (size_t)vectors->dim;
  const size_t count = (size_t)vectors->count;
  *reducer = (mhas_reducer){.vectors = vectors, .tolerance = tolerance, .smallest = smallest};
  MHAS_TRY(mhas_alloc(&reducer->unit, count * dim, sizeof(double), "the vectors at length one", error));
  MHAS_TRY(mhas_alloc(&reducer->combination, dim, sizeof(double), "a combination", error));
  MHAS_TRY(mhas_alloc(&reducer->order, dim, sizeof(int64_t), "an order", error));
  MHAS_TRY(mhas_alloc(&reducer->other, dim, sizeof(int64_t), "an order", error));
  MHAS_TRY(mhas_alloc(&reducer->rows, dim * dim, sizeof(double), "a subset", error));
  MHAS_TRY(mhas_alloc(&reducer->sigma, dim, sizeof(double), "singular values", error));
  MHAS_TRY(mhas_prefix_create(vectors->dim, vectors->dim, &reducer->prefix, error));
  set_units(reducer);
  return MHAS_OK;
}

void mhas_reducer_free(mhas_reducer *reducer) {
  mhas_free(reducer->unit);
  mhas_free(reducer->combination);
  mhas_free(reducer->order);
  mhas_free(reducer->other);
  mhas_free(reducer->rows);
  mhas_free(reducer->sigma);
  mhas_prefix_destroy(reducer->prefix);
  *reducer = (mhas_reducer){0};
}

static int by_number(const void *left, const void *right) {
  const int64_t a = *(const int64_t *)left;
  const int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

mhas_code mhas_reducer_offer(mhas_reducer *r, const int64_t *rows, int64_t count, mhas_error *error) {
  const int64_t dim = r->vectors->dim;
  if (r->smallest->count > 0 && count >= r->smallest->count) {
    return MHAS_OK;
  }
  for (int64_t i = 0; i < count; i++) {
    memcpy(r->rows + i * dim, r->unit + rows[i] * dim, (size_t)dim * sizeof *r->rows);
  }
  MHAS_TRY(mhas_singular_values(count, dim, r->rows, r->sigma, error));
  if (r->sigma[count - 1] > r->tolerance * r->sigma[0]) {
    return MHAS_OK;
  }
  memcpy(r->smallest->rows, rows, (size_t)count * sizeof *rows);
  qsort(r->smallest->rows, (size_t)count, sizeof *rows, by_number);
  r->smallest->count = count;
  return MHAS_OK;
}

/* The rows that matter, into `to`: from[k], then those with coefficients, the largest first. Returns how many. */
static int64_t sort_by_coefficients(mhas_reducer *r, const int64_t *from, int64_t k, int64_t *to) {
  const double negligible = fmax(1e-3 * r->tolerance, 1e-12); /* of vectors that are all of length one */
  double *size = r->sigma;                                    /* scratch here */
  int64_t count = 0;
  for (int64_t i = 0; i < k; i++) {
    const double coefficient = fabs(r->combination[i]);
    if (coefficient <= negligible) {
      continue;
    }
    int64_t place = count++;
    for (; place > 0 && size[place - 1] < coefficient; place--) {
      size[place] = size[place - 1];
      to[place + 1] = to[place];
    }
    size[place] = coefficient;
    to[place + 1] = from[i];
  }
  to[0] = from[k];
  return count + 1;
}

/* How many coefficients are not small: a subset of fewer cannot come out. */
static int64_t large_coefficients(const mhas_reducer *r, int64_t k) {
  const double small = sqrt(r->tolerance);
  int64_t count = 0;
  for (int64_t i = 0; i < k; i++) {
    count += fabs(r->combination[i]) > small;
  }
  return count;
}

mhas_code mhas_reducer_shrink(mhas_reducer *r, const int64_t *order, int64_t k, mhas_error *error) {
  enum { PASSES = 4 };
  int64_t *from = r->order;
  int64_t *to = r->other;
  int64_t count = k + 1;
  memcpy(from, order, (size_t)count * sizeof *order);
  for (int pass = 0; pass < PASSES; pass++) {
    MHAS_TRY(mhas_prefix_factor(r->prefix, r->unit, from, count, error));
    const int64_t independent = mhas_prefix_independent(r->prefix, r->tolerance);
    if (independent >= count) {
      return MHAS_OK; /* at length one they are not that near to each other */
    }
    mhas_prefix_combination(r->prefix, independent, r->combination);
    if (r->smallest->count > 0 && large_coefficients(r, independent) + 1 >= r->smallest->count) {
      return MHAS_OK;
    }
    const int64_t support = sort_by_coefficients(r, from, independent, to);
    MHAS_TRY(mhas_reducer_offer(r, to, support, error));
    if (pass > 0 && support == count) {
      return MHAS_OK;
    }
    count = support;
    int64_t *swapped = from;
    from = to;
    to = swapped;
  }
  return MHAS_OK;
}
