/*
 * QR factorization with column pivoting of a block-cyclic matrix: panel by panel with pivots from a random sketch, or
 * column by column through ScaLAPACK.
 */
#include "linalg/qr.h"

#include <math.h>

#include "linalg/lapack.h"
#include "linalg/scalapack.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

double mhas_qr_block_work(const mhas_qr *qr, const mhas_cyclic *c) {
  const double block = qr->grid->block;
  return block * ((double)c->local_rows + (double)c->local_columns + 4.0 * block);
}

void mhas_qr_apply_block(const mhas_qr *qr, int64_t from, int count, mhas_cyclic *c, int64_t first, double *work) {
  const mhas_cyclic *a = qr->a;
  const int m = (int)(a->rows - from);
  const int n = (int)(c->columns - first);
  const int at = (int)from + 1;
  const int column = (int)first + 1;
  double *triangle = work;
  double *rest = work + (int64_t)qr->grid->block * qr->grid->block;
  if (n > 0) {
    pdlarft_("F", "C", &m, &count, a->local, &at, &at, a->descriptor, qr->tau, triangle, rest);
    pdlarfb_("L", "T", "F", "C", &m, &n, &count, a->local, &at, &at, a->descriptor, triangle, c->local, &at, &column,
             c->descriptor, rest);
  }
}

/* ---- randomized, by the panel ------------------------------------------------------ */

typedef struct panels {
  mhas_qr *qr;
  mhas_sketch sketch;
  mhas_exchange exchange;
  int64_t *pivots; /* [block] */
  double *corner;  /* (block, block): the diagonal block of R */
  double *work;    /* of PDGEQRF and mhas_qr_apply_block */
  int work_length;
  double stop; /* what is left may be forgotten when its norm is below this */
} panels;

static mhas_code panels_create(mhas_qr *qr, double stop, panels *p, mhas_error *error) {
  *p = (panels){.qr = qr, .stop = stop};
  const double block = qr->grid->block;
  mhas_code code = mhas_alloc(&p->pivots, (size_t)qr->grid->block, sizeof *p->pivots, "pivots", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&p->corner, (size_t)(block * block), sizeof *p->corner, "a block of R", error);
  }
  if (code == MHAS_OK) {
    code = mhas_scalapack_work(mhas_qr_block_work(qr, qr->a), 0.0, &p->work_length, &p->work, error);
  }
  MHAS_TRY(mhas_grid_agree(qr->grid, code, error));
  MHAS_TRY(mhas_sketch_create(qr->a, qr->largest, qr->random, &p->sketch, error));
  return mhas_exchange_create(qr->a, p->sketch.y, p->sketch.rows, &p->exchange, error);
}

static void panels_free(panels *p) {
  mhas_exchange_free(&p->exchange);
  mhas_sketch_free(&p->sketch);
  mhas_free(p->work);
  mhas_free(p->corner);
  mhas_free(p->pivots);
}

/* The panel, and what is right of it. */
static mhas_code factor_panel(panels *p, int64_t from, int count, mhas_error *error) {
  const mhas_qr *qr = p->qr;
  const mhas_cyclic *a = qr->a;
  const int m = (int)(a->rows - from);
  const int at = (int)from + 1;
  int info = 0;
  pdgeqrf_(&m, &count, a->local, &at, &at, a->descriptor, qr->tau, p->work, &p->work_length, &info);
  mhas_qr_apply_block(qr, from, count, qr->a, from + count, p->work);
  return mhas_scalapack_info("PDGEQRF", info, error);
}

/* The diagonal block to all; the least of its diagonal. */
static double share_corner(panels *p, int64_t from, int count) {
  const mhas_qr *qr = p->qr;
  const mhas_grid *grid = qr->grid;
  const mhas_cyclic *a = qr->a;
  const int row = (int)(from / grid->block % grid->rows);
  const int column = (int)(from / grid->block % grid->columns);
  if (grid->row == row && grid->column == column) {
    const double *corner =
        a->local + mhas_cyclic_rows_before(a, from) + mhas_cyclic_columns_before(a, from) * a->stride;
    for (int c = 0; c < count; c++) {
      for (int r = 0; r < count; r++) {
        p->corner[r + c * count] = corner[r + c * a->stride];
      }
    }
    Cdgebs2d(grid->context, "All", " ", count, count, p->corner, count);
  } else {
    Cdgebr2d(grid->context, "All", " ", count, count, p->corner, count, row, column);
  }
  double least = INFINITY;
  for (int k = 0; k < count; k++) {
    qr->diagonal[from + k] = fabs(p->corner[k + k * count]);
    least = fmin(least, qr->diagonal[from + k]);
  }
  return least;
}

/* Whether what is left from `from` on can be forgotten. */
static mhas_code look_at_rest(panels *p, int64_t from, bool *done, mhas_error *error) {
  MHAS_TRY(mhas_corner_norm(p->qr->a, from, &p->qr->rest, error));
  *done = p->qr->rest <= p->stop;
  return MHAS_OK;
}

/* One panel: moved into place, factored, and taken out of the sketch; the latter only if R's diagonal block can be
 * divided by, else what is left is small, or a new sketch is made of it. */
static mhas_code take_panel(panels *p, int count, bool *done, mhas_error *error) {
  mhas_qr *qr = p->qr;
  const int64_t from = qr->steps;
  MHAS_TRY(mhas_exchange_columns(&p->exchange, from, count, p->pivots, qr->columns, error));
  MHAS_TRY(mhas_grid_agree(qr->grid, factor_panel(p, from, count, error), error));
  const double least = share_corner(p, from, count);
  qr->steps += count;
  qr->rest = 0.0;
  *done = qr->steps == qr->least;
  if (*done) {
    return MHAS_OK;
  }
  if (least > p->stop) {
    mhas_sketch_reduce(&p->sketch, from, count, p->corner);
    return MHAS_OK;
  }
  MHAS_TRY(look_at_rest(p, qr->steps, done, error));
  if (!*done) {
    mhas_sketch_make(&p->sketch, qr->steps);
  }
  return MHAS_OK;
}

static mhas_code take_panels(panels *p, mhas_error *error) {
  mhas_qr *qr = p->qr;
  bool done = false;
  mhas_sketch_make(&p->sketch, 0);
  while (!done) {
    const int count = (int)smaller(qr->grid->block, qr->least - qr->steps);
    double estimate = 0.0;
    MHAS_TRY(mhas_grid_proceed(qr->grid, error));
    MHAS_TRY(mhas_sketch_choose(&p->sketch, qr->steps, count, p->pivots, &estimate, error));
    if (estimate <= 2.0 * p->stop) {
      MHAS_TRY(look_at_rest(p, qr->steps, &done, error));
    }
    if (!done) {
      MHAS_TRY(take_panel(p, count, &done, error));
    }
  }
  return MHAS_OK;
}

static mhas_code factor_by_panels(mhas_qr *qr, double stop, mhas_error *error) {
  panels p;
  mhas_code code = panels_create(qr, stop, &p, error);
  if (code == MHAS_OK && qr->largest > 0.0) {
    code = take_panels(&p, error);
  }
  panels_free(&p);
  return code;
}

/* ---- column by column ------------------------------------------------------------------ */

static mhas_code pivot_by_lapack(mhas_qr *qr, int *order, mhas_error *error) {
  mhas_cyclic *a = qr->a;
  const int m = (int)a->rows;
  const int n = (int)a->columns;
  const int stride = (int)a->stride;
  double asked = 0.0;
  double *work = NULL;
  int length = -1;
  int info = 0;
  dgeqp3_(&m, &n, a->local, &stride, order, qr->tau, &asked, &length, &info);
  MHAS_TRY(mhas_scalapack_info("DGEQP3", info, error));
  MHAS_TRY(mhas_scalapack_work(asked, 3.0 * n + 1.0, &length, &work, error));
  dgeqp3_(&m, &n, a->local, &stride, order, qr->tau, work, &length, &info);
  mhas_free(work);
  return mhas_scalapack_info("DGEQP3", info, error);
}

static mhas_code pivot_by_scalapack(mhas_qr *qr, int *order, mhas_error *error) {
  mhas_cyclic *a = qr->a;
  const int m = (int)a->rows;
  const int n = (int)a->columns;
  const int one = 1;
  const double least = (double)a->local_rows + 2.0 * (double)a->local_columns + 4.0 * qr->grid->block + 3.0;
  double asked = 0.0;
  double *work = NULL;
  int length = -1;
  int info = 0;
  pdgeqpf_(&m, &n, a->local, &one, &one, a->descriptor, order, qr->tau, &asked, &length, &info);
  mhas_code code = mhas_scalapack_info("PDGEQPF", info, error);
  if (code == MHAS_OK) {
    code = mhas_scalapack_work(asked, least, &length, &work, error);
  }
  code = mhas_grid_agree(qr->grid, code, error);
  if (code == MHAS_OK) {
    pdgeqpf_(&m, &n, a->local, &one, &one, a->descriptor, order, qr->tau, work, &length, &info);
    code = mhas_scalapack_info("PDGEQPF", info, error);
  }
  mhas_free(work);
  return code;
}

/* Each rank has the order of its own columns, and some of the diagonal; every rank gets all. */
static mhas_code share_pivots(mhas_qr *qr, const int *order, mhas_error *error) {
  const mhas_cyclic *a = qr->a;
  for (int64_t c = 0; c < a->columns; c++) {
    qr->columns[c] = 0;
  }
  for (int64_t c = 0; c < a->local_columns; c++) {
    const int64_t column = mhas_cyclic_column(a, c);
    const int64_t r = mhas_cyclic_rows_before(a, column);
    if (qr->grid->row == 0) {
      qr->columns[column] = order[c] - 1;
    }
    if (column < qr->least && r < a->local_rows && mhas_cyclic_row(a, r) == column) {
      qr->diagonal[column] = fabs(a->local[r + c * a->stride]);
    }
  }
  Cdgsum2d(qr->grid->context, "All", " ", (int)qr->least, 1, qr->diagonal, (int)qr->least, -1, -1);
  return mhas_grid_sum(qr->grid, qr->columns, (int)a->columns, error);
}

static mhas_code factor_by_columns(mhas_qr *qr, mhas_error *error) {
  int *order = NULL;
  mhas_code code =
      mhas_alloc(&order, (size_t)qr->a->local_columns + 1, sizeof *order, "the order of the columns", error);
  code = mhas_grid_agree(qr->grid, code, error);
  if (code == MHAS_OK) {
    code = qr->grid->rows * qr->grid->columns == 1 ? pivot_by_lapack(qr, order, error)
                                                   : pivot_by_scalapack(qr, order, error);
  }
  if (code == MHAS_OK) {
    qr->steps = qr->least;
    code = share_pivots(qr, order, error);
  }
  mhas_free(order);
  return code;
}

/* ---- both ---------------------------------------------------------------------------- */

static mhas_code allocate(mhas_qr *qr, mhas_error *error) {
  MHAS_TRY(mhas_alloc(&qr->tau, (size_t)qr->a->local_columns + 1, sizeof *qr->tau, "Householder factors", error));
  MHAS_TRY(mhas_alloc(&qr->diagonal, (size_t)qr->least, sizeof *qr->diagonal, "the diagonal of R", error));
  return mhas_alloc(&qr->columns, (size_t)qr->a->columns, sizeof *qr->columns, "the order of the columns", error);
}

mhas_code mhas_qr_create(mhas_qr_method method, mhas_cyclic *a, double tolerance, mhas_random random, mhas_qr **out,
                         mhas_error *error) {
  *out = NULL;
  mhas_qr *qr = NULL;
  double norm = 0.0;
  mhas_code code = mhas_alloc(&qr, 1, sizeof *qr, "a factorization", error);
  if (code == MHAS_OK) {
    *qr = (mhas_qr){.grid = a->grid, .a = a, .random = random, .least = smaller(a->rows, a->columns)};
    code = allocate(qr, error);
  }
  code = mhas_grid_agree(a->grid, code, error);
  if (code == MHAS_OK) {
    code = mhas_cyclic_norm(a, &norm, error);
  }
  if (code == MHAS_OK) {
    code = mhas_cyclic_largest(a, norm, random, &qr->largest, error);
  }
  if (code == MHAS_OK) {
    for (int64_t c = 0; c < a->columns; c++) {
      qr->columns[c] = c;
    }
    code = method == MHAS_QR_RANDOMIZED ? factor_by_panels(qr, tolerance * qr->largest / MHAS_QR_DOUBT, error)
                                        : factor_by_columns(qr, error);
  }
  if (code != MHAS_OK) {
    mhas_qr_destroy(qr);
    return code;
  }
  *out = qr;
  return MHAS_OK;
}

void mhas_qr_destroy(mhas_qr *qr) {
  if (qr != NULL) {
    mhas_free(qr->tau);
    mhas_free(qr->diagonal);
    mhas_free(qr->columns);
    mhas_free(qr);
  }
}

double mhas_qr_largest(const mhas_qr *qr) { return qr->largest; }
int64_t mhas_qr_steps(const mhas_qr *qr) { return qr->steps; }
const double *mhas_qr_diagonal(const mhas_qr *qr) { return qr->diagonal; }
const int64_t *mhas_qr_columns(const mhas_qr *qr) { return qr->columns; }
