/*
 * The tangent kernel of self-attention on the training samples, and its margins.
 *
 * Features are made for some rows of samples at a time, so that only two blocks of them are ever there; each block is
 * made again for every block before it, which is far less work than the products are.
 *
 * The margin max_{||v|| = 1} min_i y_i <f_i, v> is the distance of the origin from the hull of the y_i f_i (duality of
 * the hard support vector machine without a bias).
 */
#include <cblas.h>
#include <float.h>
#include <math.h>

#include "experiments/optimize_theory.h"

enum { BLOCK_BYTES = 1 << 26 };
static const double tolerance = 1e-10; /* of margins, relative */

/* The same on all ranks of a team: by the numbers of member 0, which has the most. */
static int64_t rows_at_once(const mhas_selfattention_shape *shape, int ranks) {
  int64_t first = 0;
  const int64_t numbers = mhas_selfattention_numbers(shape, mhas_selfattention_heads(shape, 0, ranks, &first));
  const int64_t fit = BLOCK_BYTES / ((int64_t)sizeof(double) * numbers);
  return fit < 1 ? 1 : fit < shape->samples ? fit : shape->samples;
}

/* ---- the Gram matrices ---------------------------------------------------------------- */

typedef struct blocks {
  optimize *run;
  const double *theta;
  int n, numbers, numbers_u; /* of this rank */
  int64_t rows;
  double *left, *right; /* (rows, numbers) */
} blocks;

static int64_t rows_from(const blocks *b, int64_t first) { return first + b->rows < b->n ? b->rows : b->n - first; }

static mhas_code blocks_create(optimize *run, const double *theta, bool both, blocks *b, mhas_error *error) {
  const int64_t n = run->shape.samples;
  const int ranks = run->task->team.size;
  *b = (blocks){.run = run, .theta = theta, .rows = rows_at_once(&run->shape, ranks > 1 ? ranks : 1)};
  MHAS_TRY(mhas_narrow(n, "the number of samples", &b->n, error));
  MHAS_TRY(mhas_narrow(run->numbers, "the numbers of a rank's heads", &b->numbers, error));
  b->numbers_u = (int)mhas_selfattention_numbers_u(&run->shape, run->heads);
  const size_t count = (size_t)(b->rows * run->numbers);
  MHAS_TRY(mhas_alloc(&b->left, count, sizeof(double), "tangent features", error));
  return both && b->rows < n ? mhas_alloc(&b->right, count, sizeof(double), "tangent features", error) : MHAS_OK;
}

static void blocks_free(blocks *b) {
  mhas_free(b->left);
  mhas_free(b->right);
}

/* Rows i.. and columns j.. of the Gram matrices of U's and W's features. */
static void multiply_blocks(const blocks *b, int64_t i, int64_t j, mhas_kernel *kernel) {
  const int rows = (int)rows_from(b, i);
  double *const out[2] = {kernel->u + i * b->n + j, kernel->w + i * b->n + j};
  for (int part = 0; part < 2; part++) {
    const int first = part == 0 ? 0 : b->numbers_u;
    const int count = part == 0 ? b->numbers_u : b->numbers - b->numbers_u;
    if (i == j) {
      cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, rows, count, 1.0, b->left + first, b->numbers, 0.0,
                  out[part], b->n);
    } else {
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, (int)rows_from(b, j), count, 1.0, b->left + first,
                  b->numbers, b->right + first, b->numbers, 0.0, out[part], b->n);
    }
  }
}

static mhas_code multiply_all(const blocks *b, mhas_kernel *kernel, mhas_error *error) {
  const mhas_task *task = b->run->task;
  for (int64_t i = 0; i < b->n; i += b->rows) {
    mhas_selfattention_features(b->run->model, b->theta, i, rows_from(b, i), b->left);
    for (int64_t j = 0; j < i; j += b->rows) {
      MHAS_TRY(task->proceed(task->context, error));
      mhas_selfattention_features(b->run->model, b->theta, j, rows_from(b, j), b->right);
      multiply_blocks(b, i, j, kernel);
    }
    multiply_blocks(b, i, i, kernel);
  }
  return MHAS_OK;
}

static mhas_code sum_over_ranks(const optimize *run, double *values, int64_t count, mhas_error *error) {
  int narrow = 0;
  if (run->task->team.size <= 1) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_narrow(count, "the entries of a tangent kernel", &narrow, error));
  return MPI_Allreduce(MPI_IN_PLACE, values, narrow, MPI_DOUBLE, MPI_SUM, run->task->team.comm) == MPI_SUCCESS
             ? MHAS_OK
             : mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
}

/* The other triangle, all copies, the signs of the labels, and the sum. */
static void complete(const optimize *run, mhas_kernel *kernel) {
  const int64_t n = run->shape.samples;
  const double *y = run->train.y;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j <= i; j++) {
      const double factor = y[i] * y[j] * (double)run->shape.copies;
      kernel->u[i * n + j] = kernel->u[j * n + i] = factor * kernel->u[i * n + j];
      kernel->w[i * n + j] = kernel->w[j * n + i] = factor * kernel->w[i * n + j];
      kernel->both[i * n + j] = kernel->both[j * n + i] = kernel->u[i * n + j] + kernel->w[i * n + j];
    }
  }
}

static mhas_code kernel_create(int64_t n, mhas_kernel *kernel, mhas_error *error) {
  const size_t count = (size_t)(n * n);
  *kernel = (mhas_kernel){0};
  MHAS_TRY(mhas_alloc(&kernel->u, count, sizeof(double), "the tangent kernel of U", error));
  MHAS_TRY(mhas_alloc(&kernel->w, count, sizeof(double), "the tangent kernel of W", error));
  return mhas_alloc(&kernel->both, count, sizeof(double), "the tangent kernel", error);
}

void mhas_kernel_free(mhas_kernel *kernel) {
  mhas_free(kernel->u);
  mhas_free(kernel->w);
  mhas_free(kernel->both);
  *kernel = (mhas_kernel){0};
}

mhas_code mhas_kernel_make(optimize *run, const double *theta, mhas_kernel *kernel, mhas_error *error) {
  const int64_t n = run->shape.samples;
  blocks b;
  mhas_code code = kernel_create(n, kernel, error);
  const mhas_code blocks_code = blocks_create(run, theta, true, &b, code == MHAS_OK ? error : NULL);
  code = mhas_team_agree(&run->task->team, code == MHAS_OK ? blocks_code : code, error);
  if (code == MHAS_OK) {
    code = multiply_all(&b, kernel, error);
  }
  blocks_free(&b);
  MHAS_TRY(code);
  MHAS_TRY(sum_over_ranks(run, kernel->u, n * n, error));
  MHAS_TRY(sum_over_ranks(run, kernel->w, n * n, error));
  complete(run, kernel);
  run->progress.flops += mhas_kernel_flops(run->task->point.values);
  return MHAS_OK;
}

/* ---- margins ----------------------------------------------------------------------------- */

static mhas_code find_margins(const optimize *run, const mhas_kernel *kernel, mhas_margins *margins,
                              mhas_error *error) {
  const int64_t n = run->shape.samples;
  MHAS_TRY(mhas_least_norm(n, kernel->both, tolerance, margins->weight, &margins->both, error));
  MHAS_TRY(mhas_least_norm(n, kernel->u, tolerance, NULL, &margins->u, error));
  MHAS_TRY(mhas_least_norm(n, kernel->w, tolerance, NULL, &margins->w, error));
  for (int64_t i = 0; i < n && margins->both.upper > 0.0; i++) {
    margins->weight[i] /= margins->both.upper;
  }
  double *values = NULL;
  MHAS_TRY(mhas_alloc(&values, (size_t)n, sizeof *values, "eigenvalues", error));
  const mhas_code code = mhas_symmetric_values(n, kernel->both, values, error);
  margins->least = values[0];
  mhas_free(values);
  return code;
}

/* Member 0 finds them for all: the others would find the same, to rounding if their processors differ. */
mhas_code mhas_kernel_margins(const optimize *run, const mhas_kernel *kernel, mhas_margins *margins,
                              mhas_error *error) {
  const mhas_team *team = &run->task->team;
  const size_t n = (size_t)run->shape.samples;
  *margins = (mhas_margins){0};
  mhas_code code = mhas_alloc(&margins->weight, n, sizeof(double), "the weights of samples", error);
  if (code == MHAS_OK && team->rank == 0) {
    code = find_margins(run, kernel, margins, error);
  }
  MHAS_TRY(mhas_team_agree(team, code, error));
  double *const weight = margins->weight;
  MHAS_TRY(mhas_team_share(team, margins, sizeof *margins, error));
  margins->weight = weight;
  return mhas_team_share(team, weight, n * sizeof(double), error);
}

bool mhas_margin_is_there(const optimize *run, const mhas_kernel *kernel, const mhas_margin *margin) {
  const int64_t n = run->shape.samples;
  double largest = 0.0;
  for (int64_t i = 0; i < n; i++) {
    largest = fmax(largest, kernel->both[i * n + i]);
  }
  return margin->lower > sqrt((double)n * DBL_EPSILON * largest);
}

/* ---- directions ------------------------------------------------------------------------------ */

mhas_code mhas_kernel_direction(optimize *run, const double *theta, const double *weight, double *out,
                                mhas_error *error) {
  blocks b;
  double *signed_weight = NULL;
  mhas_code code = blocks_create(run, theta, false, &b, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&signed_weight, (size_t)b.n, sizeof *signed_weight, "the weights of samples", error);
  }
  code = mhas_team_agree(&run->task->team, code, error);
  for (int64_t i = 0; code == MHAS_OK && i < b.n; i++) {
    signed_weight[i] = weight[i] * run->train.y[i];
  }
  for (int64_t i = 0; code == MHAS_OK && i < b.n; i += b.rows) {
    const int rows = (int)rows_from(&b, i);
    mhas_selfattention_features(run->model, theta, i, rows, b.left);
    cblas_dgemv(CblasRowMajor, CblasTrans, rows, b.numbers, 1.0, b.left, b.numbers, signed_weight + i, 1,
                i == 0 ? 0.0 : 1.0, out, 1);
  }
  mhas_free(signed_weight);
  blocks_free(&b);
  return code;
}

static double least_score(const optimize *run, const double *scores) {
  double least = INFINITY;
  for (int64_t i = 0; i < run->shape.samples; i++) {
    least = fmin(least, run->train.y[i] * scores[i] * (double)run->shape.copies);
  }
  return least;
}

mhas_code mhas_kernel_scores(optimize *run, const double *theta, const double *v, double *u, double *w,
                             mhas_error *error) {
  blocks b;
  double *scores = NULL; /* (2, n) */
  mhas_code code = blocks_create(run, theta, false, &b, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&scores, (size_t)(2 * b.n), sizeof *scores, "scores of samples", error);
  }
  code = mhas_team_agree(&run->task->team, code, error);
  for (int64_t i = 0; code == MHAS_OK && i < b.n; i += b.rows) {
    const int rows = (int)rows_from(&b, i);
    mhas_selfattention_features(run->model, theta, i, rows, b.left);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, rows, b.numbers_u, 1.0, b.left, b.numbers, v, 1, 0.0, scores + i, 1);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, rows, b.numbers - b.numbers_u, 1.0, b.left + b.numbers_u, b.numbers,
                v + b.numbers_u, 1, 0.0, scores + b.n + i, 1);
  }
  if (code == MHAS_OK) {
    code = sum_over_ranks(run, scores, (int64_t)2 * b.n, error);
  }
  if (code == MHAS_OK) {
    *u = least_score(run, scores);
    *w = least_score(run, scores + b.n);
  }
  mhas_free(scores);
  blocks_free(&b);
  return code;
}

/* ---- cost ------------------------------------------------------------------------------------- */

double mhas_kernel_flops(const mhas_value *values) {
  const mhas_selfattention_shape shape = mhas_optimize_shape(values, values[P_SAMPLES].integer);
  const double n = (double)shape.samples;
  const int64_t numbers = mhas_selfattention_numbers(&shape, shape.heads);
  const double made = fmax(1.0, 0.5 * n / (double)rows_at_once(&shape, 1)); /* times features are made */
  return n * n * (double)numbers + made * mhas_selfattention_gradient_flops(&shape, shape.heads) +
         (4.0 / 3.0 + 3.0) * n * n * n;
}

double mhas_kernel_bytes(const mhas_value *values, int ranks) {
  const mhas_selfattention_shape shape = mhas_optimize_shape(values, values[P_SAMPLES].integer);
  const double n = (double)shape.samples;
  int64_t first = 0;
  const int64_t numbers = mhas_selfattention_numbers(&shape, mhas_selfattention_heads(&shape, 0, ranks, &first));
  const double rows = (double)rows_at_once(&shape, 1);
  const double blocks_count = rows < n ? 2.0 : 1.0;
  return sizeof(double) * (4.0 * n * n + 16.0 * n + blocks_count * rows * (double)numbers + 2.0 * (double)numbers);
}
