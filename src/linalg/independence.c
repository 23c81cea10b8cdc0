/*
 * Which rows of a matrix are independent: one QR that stops at the first dependent row, and one that grows by rows and
 * columns. Rows of a row-major matrix are columns to LAPACK, so a QR of the transpose takes them in their order.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "linalg/dense.h"
#include "linalg/lapack.h"

enum { BLOCK = 64 }; /* rows that are taken in at once; columns in a block reflector */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- QR of columns, with workspace -------------------------------------------- */

/* c (m x n) = Q^T c for the k reflectors that dgeqrf or dgeqp3 left in v. */
static mhas_code reflect(int m, int n, int k, const double *v, int ldv, const double *tau, double *c, int ldc,
                         mhas_error *error) {
  double asked = 0.0;
  double *work = NULL;
  int length = -1;
  int info = 0;
  bool unused = true;
  if (n == 0 || k == 0) {
    return MHAS_OK;
  }
  dormqr_("L", "T", &m, &n, &k, v, &ldv, tau, c, &ldc, &asked, &length, &info, 1, 1);
  MHAS_TRY(mhas_lapack_info("DORMQR", info, &unused, error));
  MHAS_TRY(mhas_lapack_workspace(asked, &length, &work, error));
  dormqr_("L", "T", &m, &n, &k, v, &ldv, tau, c, &ldc, work, &length, &info, 1, 1);
  mhas_free(work);
  return mhas_lapack_info("DORMQR", info, &unused, error);
}

/* QR in place; with `pivots` (n of them, from 1) the columns are exchanged, the largest rest first. */
static mhas_code factor(int m, int n, double *a, int lda, int *pivots, double *tau, mhas_error *error) {
  const char *routine = pivots == NULL ? "DGEQRF" : "DGEQP3";
  double asked = 0.0;
  double *work = &asked;
  int length = -1;
  int info = 0;
  bool unused = true;
  mhas_code code = MHAS_OK;
  for (int pass = 0; pass < 2 && code == MHAS_OK; pass++) {
    if (pivots == NULL) {
      dgeqrf_(&m, &n, a, &lda, tau, work, &length, &info);
    } else {
      memset(pivots, 0, (size_t)n * sizeof *pivots); /* all columns are free to move */
      dgeqp3_(&m, &n, a, &lda, pivots, tau, work, &length, &info);
    }
    code = mhas_lapack_info(routine, info, &unused, error);
    if (pass == 0 && code == MHAS_OK) {
      code = mhas_lapack_workspace(asked, &length, &work, error);
    }
  }
  if (work != &asked) {
    mhas_free(work);
  }
  return code;
}

/* ---- the first dependent row ----------------------------------------------------- */

/* Takes in rows first .. first + count - 1, which stand in q as columns; *independent counts on. */
static mhas_code take_rows(int64_t columns, int64_t first, int64_t count, double *q, double *tau, double *squares,
                           int64_t *independent, mhas_error *error) {
  double *fresh = q + first * columns;
  const int width = (int)columns;
  double *norms = NULL;
  MHAS_TRY(mhas_alloc(&norms, (size_t)count, sizeof *norms, "the lengths of rows", error));
  for (int64_t t = 0; t < count; t++) {
    *squares += cblas_ddot(width, fresh + t * columns, 1, fresh + t * columns, 1);
    norms[t] = sqrt(*squares);
  }
  mhas_code code = reflect(width, (int)count, (int)first, q, width, tau, fresh, width, error);
  if (code == MHAS_OK) {
    code = factor((int)(columns - first), (int)count, fresh + first, width, NULL, tau + first, error);
  }
  for (int64_t t = 0; code == MHAS_OK && t < count; t++) {
    const double distance = fabs(fresh[t * columns + first + t]);
    if (!(distance > mhas_rank_tolerance(first + t + 1, columns) * norms[t])) {
      break;
    }
    ++*independent;
  }
  mhas_free(norms);
  return code;
}

mhas_code mhas_independent_rows(int64_t most, int64_t columns, mhas_rows_source *source, void *context,
                                int64_t *independent, double *flops, mhas_error *error) {
  const int64_t limit = smaller(most, columns); /* no more can be independent */
  int narrow = 0;
  double *q = NULL;
  double *tau = NULL;
  double squares = 0.0;
  *independent = 0;
  *flops = 0.0;
  MHAS_TRY(mhas_narrow(columns, "the number of columns of the matrix", &narrow, error));
  mhas_code code = mhas_alloc(&q, (size_t)limit * (size_t)columns, sizeof *q, "the rows that are factored", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&tau, (size_t)limit, sizeof *tau, "the factors of reflectors", error);
  }
  for (int64_t first = 0; code == MHAS_OK && first < limit && *independent == first; first += BLOCK) {
    const int64_t count = smaller(BLOCK, limit - first);
    code = source(context, first, count, q + first * columns, error);
    if (code == MHAS_OK) {
      code = mhas_check_finite("the matrix", count, columns, q + first * columns, error);
    }
    if (code == MHAS_OK) {
      code = take_rows(columns, first, count, q, tau, &squares, independent, error);
      *flops += (double)count * (double)(first + count) * (4.0 * (double)columns - 2.0 * (double)first);
    }
  }
  mhas_free(tau);
  mhas_free(q);
  return code;
}

/* ---- ranks of growing blocks ------------------------------------------------------ */

/*
 * Samples are columns here. The first `rank` of them are independent; `triangle` is their R, continued over the other
 * samples. `rest` is what the other samples have beside the span of those, in an orthonormal basis of `height`.
 */
typedef struct growth {
  int samples, lead; /* lead: leading dimension of rest */
  int rank, height;
  double *triangle;  /* (samples, samples), column-major */
  double *rest;      /* (lead, samples), column-major */
  double *fresh;     /* (widest new block, samples), column-major */
  double *reflector; /* (BLOCK, samples) */
  double *work;      /* (BLOCK, samples) */
  double *tau;
  int *pivots;
  int64_t *order; /* which row of the matrix a sample is */
  int64_t *exchanged;
} growth;

static mhas_code growth_create(growth *g, int widest, mhas_error *error) {
  const size_t samples = (size_t)g->samples;
  MHAS_TRY(mhas_alloc(&g->triangle, samples * samples, sizeof(double), "the triangle of the QR", error));
  MHAS_TRY(mhas_alloc(&g->rest, (size_t)g->lead * samples, sizeof(double), "the rest of the QR", error));
  MHAS_TRY(mhas_alloc(&g->fresh, (size_t)widest * samples, sizeof(double), "the new columns", error));
  MHAS_TRY(mhas_alloc(&g->reflector, BLOCK * samples, sizeof(double), "the reflectors", error));
  MHAS_TRY(mhas_alloc(&g->work, BLOCK * (size_t)larger(g->samples, widest), sizeof(double), "the workspace of LAPACK",
                      error));
  MHAS_TRY(mhas_alloc(&g->tau, samples, sizeof(double), "the factors of reflectors", error));
  MHAS_TRY(mhas_alloc(&g->pivots, samples, sizeof(int), "the pivots", error));
  MHAS_TRY(mhas_alloc(&g->order, samples, sizeof(int64_t), "the order of the rows", error));
  return mhas_alloc(&g->exchanged, samples, sizeof(int64_t), "the order of the rows", error);
}

static void growth_free(growth *g) {
  mhas_free(g->triangle);
  mhas_free(g->rest);
  mhas_free(g->fresh);
  mhas_free(g->reflector);
  mhas_free(g->work);
  mhas_free(g->tau);
  mhas_free(g->pivots);
  mhas_free(g->order);
  mhas_free(g->exchanged);
}

/* New columns of the matrix, already in `fresh`: eliminated against the triangle, then part of the rest. */
static mhas_code add_columns(growth *g, int width, mhas_error *error) {
  const int zero = 0;
  const int block = (int)smaller(BLOCK, g->rank);
  const int others = g->samples - g->rank;
  bool unused = true;
  int info = 0;
  if (g->rank > 0) {
    dtpqrt_(&width, &g->rank, &zero, &block, g->triangle, &g->samples, g->fresh, &width, g->reflector, &block, g->work,
            &info);
    MHAS_TRY(mhas_lapack_info("DTPQRT", info, &unused, error));
  }
  if (g->rank > 0 && others > 0) {
    dtpmqrt_("L", "T", &width, &others, &g->rank, &zero, &block, g->fresh, &width, g->reflector, &block,
             g->triangle + (size_t)g->rank * (size_t)g->samples, &g->samples,
             g->fresh + (size_t)g->rank * (size_t)width, &width, g->work, &info, 1, 1);
    MHAS_TRY(mhas_lapack_info("DTPMQRT", info, &unused, error));
  }
  for (int t = g->rank; t < g->samples; t++) {
    memcpy(g->rest + (size_t)t * (size_t)g->lead + g->height, g->fresh + (size_t)t * (size_t)width,
           (size_t)width * sizeof(double));
  }
  g->height += width;
  return MHAS_OK;
}

/* The samples from number `rank` on are exchanged as `pivots` says, in the triangle and in the order. */
static void exchange(growth *g, int count) {
  const int forward = 1;
  int64_t *order = g->order + g->rank;
  dlapmt_(&forward, &g->rank, &count, g->triangle + (size_t)g->rank * (size_t)g->samples, &g->samples, g->pivots);
  for (int j = 0; j < count; j++) {
    g->exchanged[j] = order[g->pivots[j] - 1];
  }
  memcpy(order, g->exchanged, (size_t)count * sizeof *order);
}

/* The first `found` rows of the rest join the triangle; of samples that stay dependent nothing else is left. */
static void promote(growth *g, int found, int end) {
  for (int t = g->rank; t < g->samples; t++) {
    double *rest = g->rest + (size_t)t * (size_t)g->lead;
    memcpy(g->triangle + (size_t)t * (size_t)g->samples + g->rank, rest, (size_t)found * sizeof *rest);
    if (t < end) {
      memset(rest, 0, (size_t)g->height * sizeof *rest);
    } else {
      memmove(rest, rest + found, (size_t)(g->height - found) * sizeof *rest);
    }
  }
  g->rank += found;
  g->height -= found;
}

/* Samples up to `end` take part: those that are new, and those that were dependent so far. */
static mhas_code add_samples(growth *g, int end, double rounding, mhas_error *error) {
  const int count = end - g->rank;
  double *rest = g->rest + (size_t)g->rank * (size_t)g->lead;
  const int reflectors = (int)smaller(count, g->height);
  if (reflectors == 0) {
    return MHAS_OK;
  }
  MHAS_TRY(factor(g->height, count, rest, g->lead, g->pivots, g->tau, error));
  MHAS_TRY(reflect(g->height, g->samples - end, reflectors, rest, g->lead, g->tau,
                   g->rest + (size_t)end * (size_t)g->lead, g->lead, error));
  int found = 0;
  while (found < reflectors && fabs(rest[(size_t)found * (size_t)g->lead + found]) > rounding) {
    found++;
  }
  exchange(g, count);
  promote(g, found, end);
  return MHAS_OK;
}

mhas_code mhas_nested_ranks(int64_t rows, int64_t columns, const double *a, int64_t blocks, const int64_t *row_ends,
                            const int64_t *column_ends, double rounding, int64_t *ranks, mhas_error *error) {
  growth g = {.rank = 0};
  int64_t widest = 1;
  for (int64_t i = 0; i < blocks; i++) {
    widest = larger(widest, column_ends[i] - (i == 0 ? 0 : column_ends[i - 1]));
  }
  MHAS_TRY(mhas_narrow(rows, "the number of rows of the matrix", &g.samples, error));
  MHAS_TRY(mhas_narrow(columns, "the number of columns of the matrix", &g.lead, error));
  MHAS_TRY(mhas_check_finite("the matrix", rows, columns, a, error));
  mhas_code code = growth_create(&g, (int)widest, error);
  for (int64_t t = 0; code == MHAS_OK && t < rows; t++) {
    g.order[t] = t;
  }
  for (int64_t i = 0; code == MHAS_OK && i < blocks; i++) {
    const int64_t first = i == 0 ? 0 : column_ends[i - 1];
    const int64_t width = column_ends[i] - first;
    for (int64_t t = 0; t < rows; t++) {
      memcpy(g.fresh + t * width, a + g.order[t] * columns + first, (size_t)width * sizeof *a);
    }
    if (width > 0) {
      code = add_columns(&g, (int)width, error);
    }
    if (code == MHAS_OK) {
      code = add_samples(&g, (int)row_ends[i], rounding, error);
    }
    ranks[i] = g.rank;
  }
  growth_free(&g);
  return code;
}

double mhas_nested_ranks_bytes(int64_t rows, int64_t columns) {
  const double T = (double)rows;
  return sizeof(double) * (T * T + 2.0 * T * (double)columns + 2.0 * BLOCK * T);
}
