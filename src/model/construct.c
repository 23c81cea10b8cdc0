/*
 * Weights by the proof: one head at a time, each adding r - 1 to the rank of Z (the first r), r = min(n, d_h, d).
 *
 * Source: the constructive proof of Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in
 * Transformers", ICLR 2024, arXiv 2306.02010, sub-steps 1.A and 1.B. Head h is W_h = W* + c W+. On the samples that it
 * owns, W* gives each a pattern of attention of its own choice, and W+ is zero; on earlier samples c W+ = c u w^T
 * saturates, c being the saturation gain. W* has a rank of at most the samples owned, W+ has rank 1.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "mhasweep/linalg.h"
#include "mhasweep/model.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t mhas_construct_rank(const mhas_features_shape *shape) {
  return smaller(smaller(shape->context, shape->key_dim), shape->dim);
}

int64_t mhas_construct_owned(const mhas_features_shape *shape, int64_t head, int64_t *first) {
  const int64_t r = mhas_construct_rank(shape);
  *first = head == 0 ? 0 : head * (r - 1) + 1;
  return head == 0 ? r : r - 1;
}

typedef struct head_work {
  double *target; /* (n, k): logarithms of the patterns wanted, up to a constant */
  double *v;      /* (k, d): what W* has to make of each query */
  double *solved; /* (d, max(k, d)) */
  double *W;      /* (d, d) */
  double *u, *w;  /* (d) */
  double *along;  /* (k): the part of w along the owned queries */
  double *sigma;  /* (d) */
} head_work;

static mhas_code allocate(head_work *work, int64_t n, int64_t d, int64_t k, mhas_error *error) {
  const size_t D = (size_t)d;
  const size_t K = (size_t)k;
  MHAS_TRY(mhas_alloc(&work->target, (size_t)n * K, sizeof(double), "the patterns of a head", error));
  MHAS_TRY(mhas_alloc(&work->v, K * D, sizeof(double), "the images of a head's queries", error));
  MHAS_TRY(mhas_alloc(&work->solved, D * (D > K ? D : K), sizeof(double), "the solution for a head", error));
  MHAS_TRY(mhas_alloc(&work->W, D * D, sizeof(double), "the weights of a head", error));
  MHAS_TRY(mhas_alloc(&work->u, D, sizeof(double), "a direction", error));
  MHAS_TRY(mhas_alloc(&work->w, D, sizeof(double), "a direction", error));
  MHAS_TRY(mhas_alloc(&work->along, K, sizeof(double), "a direction", error));
  return mhas_alloc(&work->sigma, D, sizeof(double), "singular values", error);
}

static void release(head_work *work) {
  mhas_free(work->target);
  mhas_free(work->v);
  mhas_free(work->solved);
  mhas_free(work->W);
  mhas_free(work->u);
  mhas_free(work->w);
  mhas_free(work->along);
  mhas_free(work->sigma);
}

/* Sample i of the head attends most to context row i (there are r <= n samples): `peak` there, and a tenth of a normal
 * number everywhere. */
static void draw_targets(const head_work *work, int64_t n, int64_t first, int64_t k, double peak, mhas_random random) {
  for (int64_t i = 0; i < k; i++) {
    for (int64_t j = 0; j < n; j++) {
      double noise = 0.0;
      mhas_random_normal(random, MHAS_STREAM_TARGET, (uint64_t)((first + i) * n + j), 1, &noise);
      work->target[j * k + i] = 0.1 * noise + (j == i ? peak : 0.0);
    }
  }
}

/* v: E_t v_t = target_t (exactly so where E_t has rank n, else as near as can be). One solve if the context is shared.
 */
static mhas_code solve_images(const mhas_features_shape *s, int64_t k, const double *E, const head_work *work,
                              mhas_error *error) {
  const int64_t n = s->context;
  const int64_t d = s->dim;
  const int64_t together = s->shared ? k : 1;
  double *wanted = NULL; /* (n, together) */
  MHAS_TRY(mhas_alloc(&wanted, (size_t)(n * together), sizeof *wanted, "the patterns of a sample", error));
  mhas_code code = MHAS_OK;
  for (int64_t first = 0; code == MHAS_OK && first < k; first += together) {
    for (int64_t j = 0; j < n; j++) {
      memcpy(wanted + j * together, work->target + j * k + first, (size_t)together * sizeof *wanted);
    }
    code = mhas_least_squares(n, d, together, E + first * n * d, wanted, mhas_rank_tolerance(n, d), work->solved,
                              work->sigma, error);
    for (int64_t i = 0; code == MHAS_OK && i < together; i++) {
      for (int64_t j = 0; j < d; j++) {
        work->v[(first + i) * d + j] = work->solved[j * together + i];
      }
    }
  }
  mhas_free(wanted);
  return code;
}

/* W = W*: the matrix of smallest norm that takes each owned query to its image. */
static mhas_code solve_own(int64_t d, int64_t k, const double *e, const head_work *work, mhas_error *error) {
  MHAS_TRY(mhas_least_squares(k, d, d, e, work->v, mhas_rank_tolerance(k, d), work->solved, work->sigma, error));
  for (int64_t i = 0; i < d; i++) {
    for (int64_t j = 0; j < d; j++) {
      work->W[i * d + j] = work->solved[j * d + i];
    }
  }
  return MHAS_OK;
}

static void normalise(int64_t d, double *x) {
  const double length = cblas_dnrm2((int)d, x, 1);
  cblas_dscal((int)d, length > 0.0 ? 1.0 / length : 0.0, x, 1);
}

/* W += gain u w^T with random u and w of length 1, w orthogonal to the owned queries. */
static mhas_code add_saturation(int64_t d, int64_t k, int64_t head, const double *e, double gain, mhas_random random,
                                const head_work *work, mhas_error *error) {
  const uint64_t index = (uint64_t)(head * 2 * d);
  mhas_random_normal(random, MHAS_STREAM_SATURATE, index, (size_t)d, work->u);
  mhas_random_normal(random, MHAS_STREAM_SATURATE, index + (uint64_t)d, (size_t)d, work->w);
  if (k > 0) {
    cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)k, (int)d, 1.0, e, (int)d, work->w, 1, 0.0, work->along, 1);
    MHAS_TRY(mhas_least_squares(k, d, 1, e, work->along, mhas_rank_tolerance(k, d), work->solved, work->sigma, error));
    cblas_daxpy((int)d, -1.0, work->solved, 1, work->w, 1);
  }
  normalise(d, work->u);
  normalise(d, work->w);
  cblas_dger(CblasRowMajor, (int)d, (int)d, gain, work->u, 1, work->w, 1, work->W, (int)d);
  return MHAS_OK;
}

mhas_code mhas_construct_head(const mhas_features_shape *shape, int64_t head, double saturation_gain, double peak,
                              mhas_random random, const double *E, const double *e, double *W_Q, double *W_K,
                              mhas_error *error) {
  const int64_t d = shape->dim;
  int64_t first = 0;
  const int64_t k = mhas_construct_owned(shape, head, &first);
  head_work work = {.W = NULL};
  mhas_code code = allocate(&work, shape->context, d, k, error);
  if (code == MHAS_OK && k > 0) {
    draw_targets(&work, shape->context, first, k, peak, random);
    code = solve_images(shape, k, E, &work, error);
    if (code == MHAS_OK) {
      code = solve_own(d, k, e, &work, error);
    }
  }
  if (code == MHAS_OK && head > 0) {
    code = add_saturation(d, k, head, e, saturation_gain, random, &work, error);
  }
  if (code == MHAS_OK) { /* the logits are scaled, the proof's are not */
    const double factor = sqrt((double)d) / shape->logit_scale;
    for (int64_t i = 0; i < d * d; i++) {
      work.W[i] *= factor;
    }
    code = mhas_low_rank(d, d, shape->key_dim, work.W, W_K, W_Q, error);
  }
  release(&work);
  return code;
}

/* Per head: a solve for its patterns, one for W*, and the decomposition of W (about 22 d^3, Golub and Van Loan, 4th
 * ed., table 8.6.1). */
double mhas_construct_flops(const mhas_features_shape *shape) {
  const double d = (double)shape->dim;
  const int64_t r = mhas_construct_rank(shape);
  const double patterns = shape->shared ? mhas_least_squares_flops(shape->context, shape->dim, r)
                                        : (double)r * mhas_least_squares_flops(shape->context, shape->dim, 1);
  return (double)shape->heads * (patterns + mhas_least_squares_flops(r, shape->dim, shape->dim) + 22.0 * d * d * d);
}

/* The contexts and queries of a head, and its matrices. */
double mhas_construct_bytes(const mhas_features_shape *shape) {
  const double d = (double)shape->dim;
  const double n = (double)shape->context;
  const double r = (double)mhas_construct_rank(shape);
  return sizeof(double) * ((shape->shared ? 1.0 : r) * n * d + 3.0 * r * d + n * r + 12.0 * d * d);
}
