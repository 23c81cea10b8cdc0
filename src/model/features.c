/* The features of random attention, in double, and the bounds of the theory about them. */
#include <math.h>
#include <string.h>

#include "mhasweep/model.h"

#define REAL_IS_FLOAT 0
#include "model/attention.h"
#include "model/layers.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/*
 * BLAS may round an entry of a product differently when the product's shape changes, or the entry's place in it. So
 * features are made in tiles, TILE_HEADS heads of some consecutive samples, that start at multiples of their size and
 * are computed whole, even where fewer heads or samples are wanted: an entry of Z depends on its sample and its head
 * alone, not on how many there are or on who computes which.
 */
enum { TILE_HEADS = MHAS_FEATURES_TILE_HEADS };

/* Samples of a tile: as keep their contexts in the cache, between 1 and 32. */
static int64_t tile_samples(const mhas_features_shape *shape) {
  enum { NUMBERS = 1 << 18, MOST = 32 };
  const int64_t context = shape->shared ? 1 : shape->context * shape->dim;
  return larger(1, smaller(MOST, NUMBERS / context));
}

int64_t mhas_features_block(const mhas_features_shape *shape) { return tile_samples(shape); }

/* e (B, d), q (B, d_h), u_h (B, d); u and z (B, G, d), theta (B, G, n), for B samples and G heads of a tile. */
int64_t mhas_features_scratch(const mhas_features_shape *shape) {
  const int64_t B = tile_samples(shape);
  return B * (2 * shape->dim + shape->key_dim) + B * TILE_HEADS * (2 * shape->dim + shape->context);
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

const double *mhas_features_tile(const mhas_features_shape *shape, int64_t count, int64_t heads, const double *E,
                                 const double *e, const double *W_Q, const double *W_K, double *scratch,
                                 int64_t *saturated) {
  const int64_t n = shape->context;
  const int64_t d = shape->dim;
  const int64_t d_h = shape->key_dim;
  const int64_t B = tile_samples(shape);
  double *x = scratch;
  double *q = x + B * d;
  double *u_h = q + B * d_h;
  double *u = u_h + B * d;
  double *z = u + B * TILE_HEADS * d;
  double *theta = z + B * TILE_HEADS * d;
  const double factor = shape->logit_scale / sqrt((double)d);
  memcpy(x, e, (size_t)(count * d) * sizeof *x);
  memset(x + count * d, 0, (size_t)((B - count) * d) * sizeof *x);
  memset(u, 0, (size_t)(B * TILE_HEADS * d) * sizeof *u);
  for (int64_t h = 0; h < heads; h++) {
    query_forward(B, 1, d, d_h, x, W_Q + h * d * d_h, W_K + h * d * d_h, q, u_h);
    for (int64_t t = 0; t < count; t++) {
      memcpy(u + (t * TILE_HEADS + h) * d, u_h + t * d, (size_t)d * sizeof *u);
    }
  }
  if (shape->shared) {
    attention_forward(B * TILE_HEADS, n, d, factor, u, E, theta, z);
  }
  for (int64_t t = 0; t < count; t++) {
    const int64_t row = t * TILE_HEADS;
    if (!shape->shared) {
      attention_forward(TILE_HEADS, n, d, factor, u + row * d, E + t * n * d, theta + row * n, z + row * d);
    }
    *saturated += count_saturated(heads, n, theta + row * n);
  }
  return z;
}

int64_t mhas_features(const mhas_features_shape *shape, int64_t count, const double *E, const double *e,
                      const double *W_Q, const double *W_K, double *scratch, double *Z) {
  const int64_t H = shape->heads;
  const int64_t d = shape->dim;
  const int64_t B = tile_samples(shape);
  const int64_t context = shape->shared ? 0 : shape->context * d; /* from one sample's to the next one's */
  int64_t saturated = 0;
  for (int64_t t = 0; t < count; t += B) {
    const int64_t samples = smaller(B, count - t);
    for (int64_t h = 0; h < H; h += TILE_HEADS) {
      const int64_t heads = smaller(TILE_HEADS, H - h);
      const int64_t weights = h * d * shape->key_dim;
      const double *z = mhas_features_tile(shape, samples, heads, E + t * context, e + t * d, W_Q + weights,
                                           W_K + weights, scratch, &saturated);
      for (int64_t i = 0; i < samples; i++) {
        memcpy(Z + ((t + i) * H + h) * d, z + i * TILE_HEADS * d, (size_t)(heads * d) * sizeof *Z);
      }
    }
  }
  return saturated;
}

mhas_code mhas_features_check(const mhas_features_shape *shape, int64_t samples, mhas_error *error) {
  int unused = 0;
  MHAS_TRY(mhas_narrow(shape->heads * shape->dim, "heads * dim", &unused, error));
  return mhas_narrow(samples, "samples", &unused, error);
}

double mhas_features_flops(const mhas_features_shape *shape, int64_t samples) {
  const double H = (double)shape->heads;
  const double d = (double)shape->dim;
  const double n = (double)shape->context;
  return (double)samples * H * (4.0 * d * (double)shape->key_dim + 4.0 * n * d + 5.0 * n);
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
