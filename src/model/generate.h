/*
 * The coefficients of composing, generated from queries and context rows (mhas_variant in model.h has the formulas),
 * and the workspace that they live in. In the precision of real.h.
 *
 * H heads, n context rows, d dim, R rank, W = 2 R H. A sample's numbers are (H, n), so that every inner loop runs over
 * context rows. C contexts have coefficients of their own, at n positions each; a query is a context of one position.
 */
#ifndef MHASWEEP_MODEL_GENERATE_H
#define MHASWEEP_MODEL_GENERATE_H

#include <string.h>

#include "model/layers.h"
#include "model/variant.h"

/* Either branch of a stage: what its inputs x (C n, d) are turned into. */
typedef struct compose_side {
  int64_t C, n;
  const real *w_in, *w_out, *w_gate; /* (d, W), (W, 2 R, H), (d, H) */
  real *hidden;                      /* (C n, W): GELU(x w_in) */
  real *slope;                       /* (C n, W): GELU'(x w_in) */
  real *mix;                         /* (C, 2 R, H, n): R rows of w_1, normalised, R rows of w_2 */
  real *inverse;                     /* (C, R, n): what w_1 was multiplied with */
  real *gate;                        /* (C, H, n) */
  real *d_mix, *d_gate;              /* as mix and gate; NULL where there is no backward pass */
} compose_side;

typedef struct compose_stage {
  unsigned branches;
  int64_t H, n, d, R;
  const real *base; /* (H, H) */
  compose_side query, key;
  real *rows, *more_rows; /* (C n, W): scratch */
  real *lines;            /* (2, n): scratch */
} compose_stage;

/* ---- memory ------------------------------------------------------------------- */

/* The next `count` numbers of the workspace, on a cache line. A double counts them: they may be too many for memory,
 * which is found out by carving from NULL. */
static inline real *carve(real *work, double *at, double count) {
  real *here = work == NULL ? NULL : work + (int64_t)*at;
  *at += ceil(count / 16.0) * 16.0;
  return here;
}

static inline void carve_side(compose_side *side, const compose_stage *stage, int64_t C, int64_t n, bool backward,
                              real *work, double *at) {
  const double rows = (double)C * (double)n;
  const double H = (double)stage->H;
  const double width = 2.0 * (double)stage->R * H;
  side->C = C;
  side->n = n;
  side->hidden = carve(work, at, rows * width);
  side->slope = carve(work, at, rows * width);
  side->mix = carve(work, at, rows * width);
  side->inverse = carve(work, at, rows * (double)stage->R);
  side->gate = carve(work, at, rows * H);
  side->d_mix = backward ? carve(work, at, rows * width) : NULL;
  side->d_gate = backward ? carve(work, at, rows * H) : NULL;
}

/* Lays both stages into the workspace, for B queries on their own contexts or a shared one; returns the numbers it
 * takes. Fewer queries take less. */
static inline double carve_stages(compose_stage stages[MHAS_STAGES], const mhas_variant *variant, int64_t H, int64_t n,
                                  int64_t d, int64_t B, bool shared, bool backward, real *work) {
  const int64_t contexts = shared ? 1 : B;
  double at = 0.0;
  double most = 0.0;
  for (int i = 0; i < MHAS_STAGES; i++) {
    compose_stage *stage = &stages[i];
    *stage = (compose_stage){.branches = variant->compose[i], .H = H, .n = n, .d = d, .R = variant->rank};
    const double width = 2.0 * (double)variant->rank * (double)H;
    if ((stage->branches & MHAS_BRANCH_QUERY) != 0) {
      carve_side(&stage->query, stage, B, 1, backward, work, &at);
      most = fmax(most, (double)B * width);
    }
    if ((stage->branches & MHAS_BRANCH_KEY) != 0) {
      carve_side(&stage->key, stage, contexts, n, backward, work, &at);
      most = fmax(most, (double)contexts * (double)n * width);
    }
  }
  real *rows = carve(work, &at, most);
  real *more_rows = carve(work, &at, backward ? most : 0.0);
  real *lines = carve(work, &at, composes(variant) ? 2.0 * (double)n : 0.0);
  for (int i = 0; i < MHAS_STAGES; i++) {
    stages[i].rows = rows;
    stages[i].more_rows = more_rows;
    stages[i].lines = lines;
  }
  return at;
}

/* The arrays of a stage, in the order of variant.h. */
static inline void compose_weights(compose_stage *stage, const real *const part[PARTS]) {
  stage->base = part[PART_BASE];
  stage->query.w_in = part[PART_QUERY_IN];
  stage->query.w_out = part[PART_QUERY_OUT];
  stage->query.w_gate = part[PART_QUERY_GATE];
  stage->key.w_in = part[PART_KEY_IN];
  stage->key.w_out = part[PART_KEY_OUT];
  stage->key.w_gate = part[PART_KEY_GATE];
}

/* ---- the coefficients from their inputs ---------------------------------------------- */

/* x becomes GELU(x) = x s, s = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh form. slope is its
 * derivative. */
static inline void gelu_forward(int64_t count, real *x, real *slope) {
  const real root = (real)0.7978845608028654;
  const real cubic = (real)0.044715;
  for (int64_t i = 0; i < count; i++) {
    const real square = x[i] * x[i];
    const real s = 1 / (1 + REAL_EXP(-2 * root * x[i] * (1 + cubic * square)));
    slope[i] = s + 2 * root * x[i] * s * (1 - s) * (1 + 3 * cubic * square);
    x[i] *= s;
  }
}

/* to (C, width, n) = from (C, n, width), each context turned. */
static inline void turn_rows(int64_t C, int64_t n, int64_t width, const real *from, real *to) {
  for (int64_t c = 0; c < C; c++) {
    for (int64_t i = 0; i < n; i++) {
      for (int64_t k = 0; k < width; k++) {
        to[(c * width + k) * n + i] = from[(c * n + i) * width + k];
      }
    }
  }
}

/* w (H, n) is divided by its root mean square over the heads; inverse (n) is what it was multiplied with. */
static inline void normalise_forward(int64_t H, int64_t n, real *w, real *inverse) {
  memset(inverse, 0, (size_t)n * sizeof(real));
  for (int64_t h = 0; h < H; h++) {
    for (int64_t j = 0; j < n; j++) {
      inverse[j] += w[h * n + j] * w[h * n + j];
    }
  }
  for (int64_t j = 0; j < n; j++) {
    inverse[j] = 1 / REAL_SQRT(inverse[j] / (real)H + (real)1e-6);
  }
  for (int64_t h = 0; h < H; h++) {
    for (int64_t j = 0; j < n; j++) {
      w[h * n + j] *= inverse[j];
    }
  }
}

/* d_w (H, n), the gradient with respect to the normalised w, becomes that with respect to what it was:
 * inverse (d_w - w mean_h(w d_w)). mean (n) is scratch. */
static inline void normalise_backward(int64_t H, int64_t n, const real *w, const real *inverse, real *d_w, real *mean) {
  memset(mean, 0, (size_t)n * sizeof(real));
  for (int64_t h = 0; h < H; h++) {
    for (int64_t j = 0; j < n; j++) {
      mean[j] += w[h * n + j] * d_w[h * n + j];
    }
  }
  for (int64_t j = 0; j < n; j++) {
    mean[j] /= (real)H;
  }
  for (int64_t h = 0; h < H; h++) {
    for (int64_t j = 0; j < n; j++) {
      d_w[h * n + j] = inverse[j] * (d_w[h * n + j] - w[h * n + j] * mean[j]);
    }
  }
}

/* The coefficients of a branch from its inputs x (C n, d). */
static inline void generate_forward(const compose_stage *stage, const compose_side *side, const real *x) {
  const int64_t H = stage->H;
  const int64_t R = stage->R;
  const int64_t width = 2 * R * H;
  const int64_t n = side->n;
  const int64_t rows = side->C * n;
  linear_forward(rows, stage->d, width, x, side->w_in, NULL, side->hidden);
  gelu_forward(rows * width, side->hidden, side->slope);
  linear_forward(rows, width, width, side->hidden, side->w_out, NULL, stage->rows);
  turn_rows(side->C, n, width, stage->rows, side->mix);
  for (int64_t c = 0; c < side->C; c++) {
    for (int64_t r = 0; r < R; r++) {
      normalise_forward(H, n, side->mix + (c * width + r * H) * n, side->inverse + (c * R + r) * n);
    }
  }
  linear_forward(rows, stage->d, H, x, side->w_gate, NULL, stage->rows);
  for (int64_t i = 0; i < rows * H; i++) {
    stage->rows[i] = REAL_TANH(stage->rows[i]);
  }
  turn_rows(side->C, n, H, stage->rows, side->gate);
}

/* The gradients of a branch's arrays: (d, W), (W, 2 R, H), (d, H). */
typedef struct compose_gradient {
  real *w_in, *w_out, *w_gate;
} compose_gradient;

/* From side->d_mix and d_gate: adds to the gradient, and to d_x (C n, d). d_mix and d_gate are lost. */
static inline void generate_backward(const compose_stage *stage, const compose_side *side, const real *x,
                                     const compose_gradient *gradient, real *d_x) {
  const int64_t H = stage->H;
  const int64_t R = stage->R;
  const int64_t d = stage->d;
  const int64_t width = 2 * R * H;
  const int64_t n = side->n;
  const int64_t rows = side->C * n;
  for (int64_t c = 0; c < side->C; c++) {
    for (int64_t r = 0; r < R; r++) {
      const int64_t at = (c * width + r * H) * n;
      normalise_backward(H, n, side->mix + at, side->inverse + (c * R + r) * n, side->d_mix + at, stage->lines);
    }
  }
  turn_rows(side->C, width, n, side->d_mix, stage->rows);
  linear_backward(rows, width, width, side->hidden, side->w_out, stage->rows, gradient->w_out, NULL, stage->more_rows);
  for (int64_t i = 0; i < rows * width; i++) {
    stage->more_rows[i] *= side->slope[i];
  }
  gemm(TURNED, AS_IS, d, width, rows, 1, x, d, stage->more_rows, width, 1, gradient->w_in, width);
  gemm(AS_IS, TURNED, rows, d, width, 1, stage->more_rows, width, side->w_in, width, 1, d_x, d);
  for (int64_t i = 0; i < rows * H; i++) {
    side->d_gate[i] *= 1 - side->gate[i] * side->gate[i];
  }
  turn_rows(side->C, H, n, side->d_gate, stage->rows);
  gemm(TURNED, AS_IS, d, H, rows, 1, x, d, stage->rows, H, 1, gradient->w_gate, H);
  gemm(AS_IS, TURNED, rows, d, H, 1, stage->rows, H, side->w_gate, H, 1, d_x, d);
}

#endif
