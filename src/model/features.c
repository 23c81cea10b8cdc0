/* The features of random attention, in double, and the bounds of the theory about them. */
#include <math.h>
#include <string.h>

#include "mhasweep/model.h"

#define REAL_IS_FLOAT 0
#include "model/attend.h"
#include "model/layers.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- tiles ------------------------------------------------------------------ */

/*
 * BLAS may round an entry of a product differently when the product's shape changes, or the entry's place in it. So
 * features are made in tiles, a few heads (or all of them, where they are composed) of some consecutive samples, that
 * start at multiples of their size and are computed whole, even where fewer heads or samples are wanted: an entry of Z
 * depends on its sample and its head alone, not on how many there are or on who computes which.
 */
int64_t mhas_features_tile_heads(const mhas_features_shape *shape) {
  enum { HEADS = 8 };
  return composes(&shape->variant) ? shape->heads : HEADS;
}

/* As many as keep the largest array of a tile in the cache; at least 1. */
static int64_t tile_samples(const mhas_features_shape *shape) {
  enum { NUMBERS = 1 << 18, MOST = 32 };
  const int64_t heads = mhas_features_tile_heads(shape);
  const int64_t context = shape->shared ? 0 : shape->context * shape->dim;
  const bool by_rows = !shape->shared && composes_with(&shape->variant, MHAS_BRANCH_KEY);
  const int64_t composed = by_rows ? shape->context * compose_width(&shape->variant, heads) : 0;
  const int64_t per_sample =
      larger(larger(context, composed), heads * larger(shape->dim, larger(shape->context, shape->key_dim)));
  return larger(1, smaller(MOST, NUMBERS / per_sample));
}

static int64_t tile_count(const mhas_features_shape *shape, int64_t samples) {
  const int64_t tile = tile_samples(shape);
  return samples / tile + (samples % tile != 0);
}

/* Contexts are only copied where all rows of a tile go through one product. */
static bool pads_contexts(const mhas_features_shape *shape) { return !shape->shared && composes(&shape->variant); }

/* For B samples and G heads. */
typedef struct tile {
  int64_t B, G;
  double *x;                 /* (B, d): queries, zero beyond those there are */
  double *keys;              /* (B, n, d), the same of contexts; NULL unless they are padded */
  double *q, *u1;            /* (B, d_h) and (B, d): of one head */
  double *u, *z;             /* (B, G, d) */
  double *theta;             /* (B, G, n) */
  double *maps[MHAS_STAGES]; /* (B, G, n): what is composed; NULL: nothing */
  double *stages;            /* what carve_stages deals out */
} tile;

/* Deals the scratch out; returns how many numbers that takes. A NULL scratch is only counted. */
static int64_t lay_out(const mhas_features_shape *s, double *scratch, tile *t) {
  int64_t used = 0;
  *t = (tile){.B = tile_samples(s), .G = mhas_features_tile_heads(s)};
  const struct {
    double **slot;
    int64_t count;
  } parts[] = {
      {&t->x, t->B * s->dim},
      {&t->keys, pads_contexts(s) ? t->B * s->context * s->dim : 0},
      {&t->q, t->B * s->key_dim},
      {&t->u1, t->B * s->dim},
      {&t->u, t->B * t->G * s->dim},
      {&t->z, t->B * t->G * s->dim},
      {&t->theta, t->B * t->G * s->context},
      {&t->maps[MHAS_PRE], s->variant.compose[MHAS_PRE] != 0 ? t->B * t->G * s->context : 0},
      {&t->maps[MHAS_POST], s->variant.compose[MHAS_POST] != 0 ? t->B * t->G * s->context : 0},
  };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    *parts[i].slot = scratch == NULL || parts[i].count == 0 ? NULL : scratch + used;
    used += parts[i].count;
  }
  t->stages = scratch == NULL ? NULL : scratch + used;
  if (composes(&s->variant)) {
    compose_stage stages[MHAS_STAGES];
    used += (int64_t)carve_stages(stages, &s->variant, t->G, s->context, s->dim, t->B, s->shared, false, NULL);
  }
  return used;
}

int64_t mhas_features_block(const mhas_features_shape *shape, int64_t samples) {
  return smaller(samples, tile_samples(shape));
}

/* The attention maps of all samples and heads, and a tile. */
int64_t mhas_features_scratch(const mhas_features_shape *shape, int64_t block) {
  tile unused;
  return block * shape->heads * shape->context + lay_out(shape, NULL, &unused);
}

int64_t mhas_features_tile_scratch(const mhas_features_shape *shape) {
  tile unused;
  return lay_out(shape, NULL, &unused);
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

/* `count` rows of `width` numbers, and zeros up to `all` rows. */
static void pad(int64_t count, int64_t all, int64_t width, const double *from, double *to) {
  memcpy(to, from, (size_t)(count * width) * sizeof *to);
  memset(to + count * width, 0, (size_t)((all - count) * width) * sizeof *to);
}

/* u (B, G, d), zero for samples and heads that are not there. */
static void project(const mhas_features_shape *s, const tile *t, int64_t count, int64_t heads, const double *W_Q,
                    const double *W_K) {
  memset(t->u, 0, (size_t)(t->B * t->G * s->dim) * sizeof *t->u);
  for (int64_t h = 0; h < heads; h++) {
    const int64_t weights = h * s->dim * s->key_dim;
    query_forward(t->B, 1, s->dim, s->key_dim, t->x, W_Q + weights, W_K + weights, t->q, t->u1);
    for (int64_t i = 0; i < count; i++) {
      memcpy(t->u + (i * t->G + h) * s->dim, t->u1 + i * s->dim, (size_t)s->dim * sizeof *t->u);
    }
  }
}

mhas_features_part mhas_features_tile(const mhas_features_shape *shape, int64_t count, int64_t heads, const double *E,
                                      const double *e, const double *W_Q, const double *W_K, const double *compose,
                                      double *scratch) {
  const int64_t n = shape->context;
  tile t;
  (void)lay_out(shape, scratch, &t);
  pad(count, t.B, shape->dim, e, t.x);
  if (pads_contexts(shape)) {
    pad(count, t.B, n * shape->dim, E, t.keys);
  }
  project(shape, &t, count, heads, W_Q, W_K);
  attend p = {.variant = shape->variant,
              /* contexts of their own go through products one by one: those that are not there can be left out */
              .B = shape->shared || pads_contexts(shape) ? t.B : count,
              .H = t.G,
              .n = n,
              .d = shape->dim,
              .shared = shape->shared,
              .factor = shape->logit_scale / sqrt((double)shape->dim),
              .x = t.x,
              .keys = pads_contexts(shape) ? t.keys : E,
              .u = t.u,
              .theta = t.theta,
              .scores = t.maps[MHAS_PRE],
              .weights = t.maps[MHAS_POST]};
  if (composes(&shape->variant)) {
    (void)carve_stages(p.stages, &shape->variant, t.G, n, shape->dim, t.B, shape->shared, false, t.stages);
    set_weights(shape, compose, p.stages);
  }
  attend_forward(&p, t.z);
  mhas_features_part part = {.z = t.z, .attention = t.theta, .saturated = 0};
  const double *weighted = p.weights != NULL ? p.weights : t.theta;
  for (int64_t i = 0; i < count; i++) {
    part.saturated += count_saturated(heads, n, weighted + i * t.G * n);
  }
  return part;
}

/* ---- all heads of some samples ------------------------------------------------ */

const double *mhas_features_attention(const double *scratch) { return scratch; }

/* part (count of a tile, G, width) into rows of all (., H, width) at head `first`. */
static void put_part(int64_t count, int64_t heads, int64_t G, int64_t H, int64_t width, int64_t first,
                     const double *part, double *all) {
  for (int64_t i = 0; i < count; i++) {
    memcpy(all + (i * H + first) * width, part + i * G * width, (size_t)(heads * width) * sizeof *all);
  }
}

int64_t mhas_features(const mhas_features_shape *shape, int64_t count, const double *E, const double *e,
                      const double *W_Q, const double *W_K, const double *compose, double *scratch, double *Z) {
  const int64_t H = shape->heads;
  const int64_t n = shape->context;
  const int64_t d = shape->dim;
  const int64_t B = tile_samples(shape);
  const int64_t G = mhas_features_tile_heads(shape);
  const int64_t context = shape->shared ? 0 : n * d; /* from one sample's to the next one's */
  double *maps = scratch;
  int64_t saturated = 0;
  for (int64_t t = 0; t < count; t += B) {
    const int64_t samples = smaller(B, count - t);
    for (int64_t h = 0; h < H; h += G) {
      const int64_t heads = smaller(G, H - h);
      const int64_t weights = h * d * shape->key_dim;
      const mhas_features_part part =
          mhas_features_tile(shape, samples, heads, E + t * context, e + t * d, W_Q + weights, W_K + weights, compose,
                             scratch + count * H * n);
      put_part(samples, heads, G, H, d, h, part.z, Z + t * H * d);
      put_part(samples, heads, G, H, n, h, part.attention, maps + t * H * n);
      saturated += part.saturated;
    }
  }
  return saturated;
}

mhas_code mhas_features_check(const mhas_features_shape *shape, int64_t samples, mhas_error *error) {
  int unused = 0;
  MHAS_TRY(mhas_narrow(samples, "samples", &unused, error));
  MHAS_TRY(mhas_narrow(shape->heads * shape->dim, "heads * dim", &unused, error));
  MHAS_TRY(compose_check(&shape->variant, shape->heads, error));
  return mhas_narrow(tile_samples(shape) * mhas_features_tile_heads(shape), "heads", &unused, error);
}

double mhas_features_flops(const mhas_features_shape *shape, int64_t samples) {
  const double H = (double)shape->heads;
  const double d = (double)shape->dim;
  const double n = (double)shape->context;
  const double entry = shape->variant.weighting == MHAS_SOFTMAX ? 5.0 : 1.0;
  const double rows = (double)(shape->shared ? tile_count(shape, samples) : samples) * n;
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
