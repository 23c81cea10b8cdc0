/* The features of random attention, in double, and the bounds of the theory about them. */
#include <math.h>

#include "mhasweep/model.h"

#define REAL_IS_FLOAT 0
#include "model/attend.h"
#include "model/layers.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* As many samples as keep the largest array of a block in the cache, between 1 and 256. */
int64_t mhas_features_block(const mhas_features_shape *shape, int64_t samples) {
  enum { NUMBERS = 1 << 18, MOST = 256 };
  const int64_t context = shape->shared ? 0 : shape->context * shape->dim;
  const bool by_rows = !shape->shared && composes_with(&shape->variant, MHAS_BRANCH_KEY);
  const int64_t composed = by_rows ? shape->context * compose_width(&shape->variant, shape->heads) : 0;
  const int64_t per_sample =
      larger(larger(context, composed), shape->heads * larger(shape->dim, larger(shape->context, shape->key_dim)));
  return smaller(samples, larger(1, smaller(MOST, NUMBERS / per_sample)));
}

static int64_t block_count(const mhas_features_shape *shape, int64_t samples) {
  const int64_t block = mhas_features_block(shape, samples);
  return samples / block + (samples % block != 0);
}

/* What composing needs besides its arrays: scores, weights, coefficients. */
static int64_t compose_scratch(const mhas_features_shape *s, int64_t block) {
  compose_stage stages[MHAS_STAGES];
  int64_t maps = 0;
  for (int i = 0; i < MHAS_STAGES; i++) {
    maps += s->variant.compose[i] != 0;
  }
  return maps * block * s->heads * s->context +
         (int64_t)carve_stages(stages, &s->variant, s->heads, s->context, s->dim, block, s->shared, false, NULL);
}

/* q (H, B, d_h), u (B, H, d), theta (B, H, n), and what composing needs. */
int64_t mhas_features_scratch(const mhas_features_shape *shape, int64_t block) {
  return block * shape->heads * (shape->key_dim + shape->dim + shape->context) + compose_scratch(shape, block);
}

const double *mhas_features_attention(const mhas_features_shape *shape, int64_t count, const double *scratch) {
  return scratch + count * shape->heads * (shape->key_dim + shape->dim);
}

static int64_t count_saturated(int64_t rows, int64_t n, const double *theta) {
  int64_t saturated = 0;
  for (int64_t r = 0; r < rows; r++) {
    double most = 0.0;
    for (int64_t i = 0; i < n; i++) {
      most = fmax(most, theta[r * n + i]);
    }
    saturated += most > 0.99;
  }
  return saturated;
}

static void set_weights(const mhas_features_shape *shape, const double *compose, compose_stage stages[MHAS_STAGES]) {
  for (int i = 0; i < MHAS_STAGES; i++) {
    const double *part[PARTS];
    for (int k = 0; k < PARTS; k++) {
      part[k] = compose;
      compose +=
          compose_slice_count(&shape->variant, shape->heads, shape->dim, (mhas_slice)(MHAS_PRE_BASE + i * PARTS + k));
    }
    compose_weights(&stages[i], part);
  }
}

int64_t mhas_features(const mhas_features_shape *shape, int64_t count, const double *E, const double *e,
                      const double *W_Q, const double *W_K, const double *compose, double *scratch, double *Z) {
  const int64_t H = shape->heads;
  const int64_t n = shape->context;
  const int64_t d = shape->dim;
  const int64_t map = count * H * n;
  double *q = scratch;
  double *u = q + count * H * shape->key_dim;
  double *theta = u + count * H * d;
  double *next = theta + map;
  attend p = {.variant = shape->variant,
              .B = count,
              .H = H,
              .n = n,
              .d = d,
              .shared = shape->shared,
              .factor = shape->logit_scale / sqrt((double)d),
              .x = e,
              .keys = E,
              .u = u,
              .theta = theta};
  query_forward(count, H, d, shape->key_dim, e, W_Q, W_K, q, u);
  if (shape->variant.compose[MHAS_PRE] != 0) {
    p.scores = next;
    next += map;
  }
  if (shape->variant.compose[MHAS_POST] != 0) {
    p.weights = next;
    next += map;
  }
  if (composes(&shape->variant)) {
    (void)carve_stages(p.stages, &shape->variant, H, n, d, count, shape->shared, false, next);
    set_weights(shape, compose, p.stages);
  }
  attend_forward(&p, Z);
  return count_saturated(count * H, n, p.weights != NULL ? p.weights : theta);
}

mhas_code mhas_features_check(const mhas_features_shape *shape, int64_t samples, mhas_error *error) {
  int unused = 0;
  const int64_t block = mhas_features_block(shape, samples);
  MHAS_TRY(mhas_narrow(shape->heads * shape->dim, "heads * dim", &unused, error));
  MHAS_TRY(compose_check(&shape->variant, shape->heads, error));
  return mhas_narrow(block * shape->heads, "heads", &unused, error);
}

double mhas_features_flops(const mhas_features_shape *shape, int64_t samples) {
  const double H = (double)shape->heads;
  const double d = (double)shape->dim;
  const double n = (double)shape->context;
  const double entry = shape->variant.weighting == MHAS_SOFTMAX ? 5.0 : 1.0;
  const double rows = (double)(shape->shared ? block_count(shape, samples) : samples) * n;
  return (double)samples * H * (4.0 * d * (double)shape->key_dim + 4.0 * n * d + entry * n) +
         compose_flops(&shape->variant, shape->heads, shape->context, shape->dim, (double)samples, rows);
}

void mhas_xavier_query_key(int64_t heads, int64_t dim, int64_t key_dim, mhas_random random, double *W_Q, double *W_K) {
  const int64_t count = heads * dim * key_dim;
  const double bound = sqrt(6.0 / ((double)dim + (double)key_dim));
  mhas_random_uniform(random, MHAS_STREAM_W_QUERY, 0, (size_t)count, W_Q);
  mhas_random_uniform(random, MHAS_STREAM_W_KEY, 0, (size_t)count, W_K);
  for (int64_t i = 0; i < count; i++) {
    W_Q[i] = (2.0 * W_Q[i] - 1.0) * bound;
    W_K[i] = (2.0 * W_K[i] - 1.0) * bound;
  }
}

int64_t mhas_bound_lower(int64_t heads, int64_t context, int64_t key_dim) {
  return heads * (smaller(context, key_dim) - 1) + 1;
}

int64_t mhas_bound_shared(int64_t heads, int64_t context) { return heads * (context - 1) + 1; }

int64_t mhas_bound_width(int64_t heads, int64_t dim) { return heads * dim; }
