/*
 * Attention in all its variants, with composing before and after the weighting and with dropout, in the precision of
 * real.h. Where a variant is plain softmax the kernels are called as attention.h does, to the same bits.
 *
 * B samples, H heads, n context rows, d dim.
 */
#ifndef MHASWEEP_MODEL_ATTEND_H
#define MHASWEEP_MODEL_ATTEND_H

#include "model/attention.h"
#include "model/compose.h"

typedef struct attend {
  mhas_variant variant;
  int64_t B, H, n, d;
  bool shared;
  real factor;      /* on the logits */
  const real *x;    /* (B, d): what queries compose with */
  const real *keys; /* (B, n, d), or (n, d) if shared */
  const real *u;    /* (B, H, d): queries in the space of the keys */
  /* results of the forward pass, all (B, H, n) */
  real *scores;     /* logits, before they are composed; NULL if they are not */
  real *weights;    /* weights, before they are composed; NULL if they are not */
  real *theta;      /* weights */
  const real *mask; /* factors on theta; NULL: none */
  real *dropped;    /* theta times mask; NULL without one */
  compose_stage stages[MHAS_STAGES];
} attend;

/* Logits (R, n) become weights. */
static inline void weigh_forward(mhas_weighting weighting, int64_t R, int64_t n, real *theta) {
  if (weighting == MHAS_SOFTMAX) {
    softmax_forward(R, n, theta);
    return;
  }
  for (int64_t r = 0; r < R; r++) {
    real *row = theta + r * n;
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
      best = row[i] > row[best] ? i : best;
    }
    for (int64_t i = 0; i < n; i++) {
      row[i] = weighting == MHAS_LINEAR ? row[i] / (real)n : (real)(i == best);
    }
  }
}

/* d_theta (R, n), the gradient with respect to the weights, becomes that with respect to the logits. */
static inline void weigh_backward(mhas_weighting weighting, int64_t R, int64_t n, const real *theta, real *d_theta) {
  if (weighting == MHAS_SOFTMAX) {
    softmax_backward(R, n, theta, d_theta);
    return;
  }
  for (int64_t i = 0; i < R * n; i++) {
    d_theta[i] = weighting == MHAS_LINEAR ? d_theta[i] / (real)n : 0;
  }
}

/* out (B, H, n) = scale a (B, H, d) K^T, and out (B, H, d) = scale a (B, H, n) K; a shared context sees the rows of all
 * samples as one matrix. */
static inline void onto_rows(const attend *p, real scale, const real *a, real *out) {
  const int64_t steps = p->shared ? 1 : p->B;
  const int64_t R = p->shared ? p->B * p->H : p->H;
  for (int64_t s = 0; s < steps; s++) {
    gemm(AS_IS, TURNED, R, p->n, p->d, scale, a + s * R * p->d, p->d, p->keys + s * p->n * p->d, p->d, 0,
         out + s * R * p->n, p->n);
  }
}

static inline void over_rows(const attend *p, real scale, const real *a, real *out) {
  const int64_t steps = p->shared ? 1 : p->B;
  const int64_t R = p->shared ? p->B * p->H : p->H;
  for (int64_t s = 0; s < steps; s++) {
    gemm(AS_IS, AS_IS, R, p->d, p->n, scale, a + s * R * p->n, p->n, p->keys + s * p->n * p->d, p->d, 0,
         out + s * R * p->d, p->d);
  }
}

/* d_keys = (or +=) scale a^T b, for a (B, H, n) and b (B, H, d). */
static inline void into_rows(const attend *p, real scale, const real *a, const real *b, real keep, real *d_keys) {
  const int64_t steps = p->shared ? 1 : p->B;
  const int64_t R = p->shared ? p->B * p->H : p->H;
  for (int64_t s = 0; s < steps; s++) {
    gemm(TURNED, AS_IS, p->n, p->d, R, scale, a + s * R * p->n, p->n, b + s * R * p->d, p->d, keep,
         d_keys + s * p->n * p->d, p->d);
  }
}

/* Where the logits belong, before they are composed; and the weights that count. */
static inline real *attend_logits(const attend *p) {
  return p->scores != NULL ? p->scores : p->weights != NULL ? p->weights : p->theta;
}
static inline real *attend_used(const attend *p) { return p->mask != NULL ? p->dropped : p->theta; }

/* From the logits: all that is composed and weighed. */
static inline void attend_weigh_forward(const attend *p) {
  real *weighted = p->weights != NULL ? p->weights : p->theta;
  for (int i = 0; i < MHAS_STAGES; i++) {
    compose_prepare(&p->stages[i], p->x, p->keys);
  }
  if (p->scores != NULL) {
    compose_forward(&p->stages[MHAS_PRE], p->B, p->shared, p->scores, weighted);
  }
  weigh_forward(p->variant.weighting, p->B * p->H, p->n, weighted);
  if (p->weights != NULL) {
    compose_forward(&p->stages[MHAS_POST], p->B, p->shared, p->weights, p->theta);
  }
  for (int64_t i = 0; p->mask != NULL && i < p->B * p->H * p->n; i++) {
    p->dropped[i] = p->theta[i] * p->mask[i];
  }
}

/* Sets the results, and z (B, H, d): the weighted sums of the context rows. */
static inline void attend_forward(const attend *p, real *z) {
  onto_rows(p, p->factor, p->u, attend_logits(p));
  attend_weigh_forward(p);
  over_rows(p, 1, attend_used(p), z);
}

/* Gradients with respect to the parameters of one stage. */
typedef struct stage_gradient {
  real *base; /* (H, H) */
  compose_gradient query, key;
} stage_gradient;

/*
 * From d_theta (B, H, n), the gradient with respect to the weights that count: adds to the gradients of the base
 * branches, and leaves those of the coefficients to attend_backward_keys and attend_backward_queries. Returned is where
 * the gradient with respect to the logits is: d_theta or d_scores (B, H, n; may be NULL if nothing is composed).
 */
static inline real *attend_weigh_backward(const attend *p, const stage_gradient gradient[MHAS_STAGES], real *d_theta,
                                          real *d_scores) {
  const real *weighted = p->weights != NULL ? p->weights : p->theta;
  real *now = d_theta;
  real *other = d_scores;
  for (int64_t i = 0; p->mask != NULL && i < p->B * p->H * p->n; i++) {
    d_theta[i] *= p->mask[i];
  }
  if (p->weights != NULL) {
    compose_backward(&p->stages[MHAS_POST], p->B, p->shared, p->weights, now, gradient[MHAS_POST].base, other);
    now = d_scores;
    other = d_theta;
  }
  weigh_backward(p->variant.weighting, p->B * p->H, p->n, weighted, now);
  if (p->scores != NULL) {
    compose_backward(&p->stages[MHAS_PRE], p->B, p->shared, p->scores, now, gradient[MHAS_PRE].base, other);
    now = other;
  }
  return now;
}

/* After attend_weigh_backward: adds to the gradients of the key branches and to d_keys. */
static inline void attend_backward_keys(const attend *p, const stage_gradient gradient[MHAS_STAGES], real *d_keys) {
  for (int i = 0; i < MHAS_STAGES; i++) {
    if ((p->stages[i].branches & MHAS_BRANCH_KEY) != 0) {
      generate_backward(&p->stages[i], &p->stages[i].key, p->keys, &gradient[i].key, d_keys);
    }
  }
}

/* From d_z (B, H, d): sets d_u (B, H, d) and d_keys, the latter with what composing adds; the rest is as for
 * attend_weigh_backward, to which d_theta and d_scores are scratch. */
static inline void attend_backward(const attend *p, const stage_gradient gradient[MHAS_STAGES], const real *d_z,
                                   real *d_theta, real *d_scores, real *d_u, real *d_keys) {
  onto_rows(p, 1, d_z, d_theta);
  const real *d_logits = attend_weigh_backward(p, gradient, d_theta, d_scores);
  over_rows(p, p->factor, d_logits, d_u);
  into_rows(p, 1, attend_used(p), d_z, 0, d_keys);
  into_rows(p, p->factor, d_logits, p->u, 1, d_keys);
  attend_backward_keys(p, gradient, d_keys);
}

/* After attend_weigh_backward: adds to the gradients of the query branches and to d_x (B, d). */
static inline void attend_backward_queries(const attend *p, const stage_gradient gradient[MHAS_STAGES], real *d_x) {
  for (int i = 0; i < MHAS_STAGES; i++) {
    if ((p->stages[i].branches & MHAS_BRANCH_QUERY) != 0) {
      generate_backward(&p->stages[i], &p->stages[i].query, p->x, &gradient[i].query, d_x);
    }
  }
}

#endif
