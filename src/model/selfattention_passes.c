/* Outputs, gradients, features and attention of self-attention with one output. */
#include <string.h>

#include "model/selfattention.h"

int64_t selfattention_round(const mhas_selfattention *m, int64_t first) {
  const int64_t left = m->shape.samples - first;
  return left < m->round ? left : m->round;
}

static double logit_factor(const mhas_selfattention *m) { return 1.0 / sqrt((double)m->shape.key_dim); }

const double *selfattention_W(const mhas_selfattention *m, const double *theta) {
  const int64_t d = m->shape.dim;
  const int64_t d_k = m->shape.key_dim;
  const double *W_Q = theta + mhas_selfattention_numbers_u(&m->shape, m->heads);
  if (d_k == 0) {
    return W_Q;
  }
  const double *W_K = W_Q + m->heads * d * d_k;
  for (int64_t h = 0; h < m->heads; h++) {
    gemm(AS_IS, TURNED, d, d, d_k, logit_factor(m), W_Q + h * d * d_k, d_k, W_K + h * d * d_k, d_k, 0.0,
         m->W + h * d * d, d);
  }
  return m->W;
}

void selfattention_chain(const mhas_selfattention *m, const double *theta, const double *d_W, double *out) {
  const int64_t d = m->shape.dim;
  const int64_t d_k = m->shape.key_dim;
  const int64_t u = mhas_selfattention_numbers_u(&m->shape, m->heads);
  for (int64_t h = 0; h < m->heads; h++) {
    const int64_t Q = u + h * d * d_k;
    const int64_t K = Q + m->heads * d * d_k;
    gemm(AS_IS, AS_IS, d, d_k, d, logit_factor(m), d_W + h * d * d, d, theta + K, d_k, 1.0, out + Q, d_k);
    gemm(TURNED, AS_IS, d, d_k, d, logit_factor(m), d_W + h * d * d, d, theta + Q, d_k, 1.0, out + K, d_k);
  }
}

/* ---- tiles ---------------------------------------------------------------------------- */

/* Where a sample's tile begins, and how many samples it has. */
typedef struct tile {
  int64_t first, count;
  int last; /* which of the prepared products are its */
} tile;

static tile tile_with(const mhas_selfattention *m, int64_t sample) {
  const int64_t first = sample - sample % m->tile;
  const int64_t left = m->shape.samples - first;
  return left < m->tile ? (tile){first, left, 1} : (tile){first, m->tile, 0};
}

/* Samples from `at` to `end` that are of one tile. */
static int64_t in_tile(const mhas_selfattention *m, int64_t at, int64_t end) {
  const tile t = tile_with(m, at);
  return end < t.first + t.count ? end - at : t.first + t.count - at;
}

void selfattention_logits(const mhas_selfattention *m, int64_t first, int64_t count, int64_t heads, const double *W,
                          double *A) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const tile t = tile_with(m, first);
  const int64_t rows = t.count * T;
  const double *XT = m->XT + t.first * T * d + (first - t.first) * T;
  for (int64_t h = 0; h < heads; h++) {
    if (count == t.count) {
      multiply(&m->to_P[t.last], W + h * d * d, XT, m->PN);
    } else {
      gemm(AS_IS, AS_IS, d, count * T, d, 1.0, W + h * d * d, d, XT, rows, 0.0, m->PN, rows);
    }
    for (int64_t i = 0; i < count; i++) {
      multiply(&m->to_S[t.last], m->PN + i * T, XT + i * T, A + i * T * m->columns + h * T);
    }
  }
}

void selfattention_add_d_W(const mhas_selfattention *m, int64_t first, int64_t count, int64_t heads, const double *M,
                           const double *X, double *d_W) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const tile t = tile_with(m, first);
  const double *rows = m->X + first * T * d;
  for (int64_t h = 0; h < heads; h++) {
    for (int64_t i = 0; i < count; i++) {
      multiply(&m->to_N, M + i * T * m->columns + h * T, rows + i * T * d, m->PN + i * T * d);
    }
    if (count == t.count) {
      multiply(&m->to_d_W[t.last], m->PN, X, d_W + h * d * d);
    } else {
      gemm(TURNED, AS_IS, d, d, count * T, 1.0, m->PN, d, X, d, 1.0, d_W + h * d * d, d);
    }
  }
}

static void forward_tile(const mhas_selfattention *m, const double *U, const double *W, int64_t first, int64_t count,
                         selfattention_G kind, double *A, double *G, double *sums) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const int64_t C = m->columns;
  gemm(AS_IS, TURNED, count * T, C, d, 1.0, m->X + first * T * d, d, U, d, 0.0, G, C);
  selfattention_logits(m, first, count, m->heads, W, A);
  for (int64_t i = 0; i < count; i++) {
    double *A_i = A + i * T * C;
    double *G_i = G + i * T * C;
    m->loops->softmax(T, C, A_i, C);
    sums[i] = kind == PLAIN_G     ? m->loops->total(T, C, A_i, G_i, C)
              : kind == CENTRED_G ? m->loops->centre(T, C, A_i, G_i, C)
                                  : m->loops->weigh(T, C, A_i, G_i, C);
  }
}

void selfattention_forward(const mhas_selfattention *m, const double *U, const double *W, int64_t first, int64_t count,
                           selfattention_G kind, double *A, double *G, double *sums) {
  const int64_t sample = m->shape.tokens * m->columns;
  for (int64_t at = 0; at < count;) {
    const int64_t some = in_tile(m, first + at, first + count);
    forward_tile(m, U, W, first + at, some, kind, A + at * sample, G + at * sample, sums + at);
    at += some;
  }
}

/* ---- outputs ------------------------------------------------------------------------ */

static void scale(double factor, int64_t count, double *values) {
  for (int64_t i = 0; i < count; i++) {
    values[i] *= factor;
  }
}

mhas_code mhas_selfattention_outputs(mhas_selfattention *model, const double *theta, double *Phi, mhas_error *error) {
  const double *W = selfattention_W(model, theta);
  for (int64_t first = 0; first < model->shape.samples; first += model->round) {
    const int64_t count = selfattention_round(model, first);
    selfattention_forward(model, theta, W, first, count, PLAIN_G, model->A, model->G, Phi + first);
    MHAS_TRY(selfattention_sum(model, Phi + first, count, error));
  }
  scale(model->factor, model->shape.samples, Phi);
  return MHAS_OK;
}

void mhas_selfattention_maps(mhas_selfattention *model, const double *theta, int64_t first, int64_t count, double *A) {
  const int64_t T = model->shape.tokens;
  const int64_t C = model->columns;
  const double *W = selfattention_W(model, theta);
  for (int64_t i = 0; i < count; i++) {
    selfattention_forward(model, theta, W, first + i, 1, PLAIN_G, model->A, model->G, model->sums);
    for (int64_t s = 0; s < T; s++) {
      for (int64_t c = 0; c < C; c++) {
        A[(i * C + c) * T + s] = model->A[s * C + c];
      }
    }
  }
}

mhas_code mhas_selfattention_mass(mhas_selfattention *model, const double *theta, const double *relevant, double *mass,
                                  mhas_error *error) {
  const int64_t T = model->shape.tokens;
  const int64_t C = model->columns;
  const double *W = selfattention_W(model, theta);
  double sum = 0.0;
  for (int64_t first = 0; first < model->shape.samples; first += model->round) {
    const int64_t count = selfattention_round(model, first);
    selfattention_forward(model, theta, W, first, count, PLAIN_G, model->A, model->G, model->sums);
    for (int64_t row = 0; row < count * T; row++) {
      const double *A = model->A + row * C;
      double of_row = 0.0;
      for (int64_t c = 0; c < C; c++) {
        of_row += A[c];
      }
      sum += relevant[first * T + row] * of_row;
    }
  }
  MHAS_TRY(selfattention_sum(model, &sum, 1, error));
  *mass = sum / ((double)model->shape.samples * (double)model->shape.heads * (double)T);
  return MHAS_OK;
}

/* ---- gradients ---------------------------------------------------------------------- */

/* Adds the part of d_U and d_W that samples first .. first + count - 1 have, for the outputs' gradients c (count). */
static void backward(mhas_selfattention *m, int64_t first, int64_t count, const double *c, double *d_U, double *d_W) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const int64_t C = m->columns;
  for (int64_t at = 0; at < count;) {
    const int64_t some = in_tile(m, first + at, first + count);
    const double *X = m->X + (first + at) * T * d;
    for (int64_t i = 0; i < some; i++) {
      for (int64_t j = i * T * d; j < (i + 1) * T * d; j++) {
        m->cX[j] = c[at + i] * X[j];
      }
    }
    gemm(TURNED, AS_IS, C, d, some * T, 1.0, m->A + at * T * C, C, m->cX, d, 1.0, d_U, d);
    selfattention_add_d_W(m, first + at, some, m->heads, m->G + at * T * C, m->cX, d_W);
    at += some;
  }
}

/* Where the gradient with respect to W goes: in its place, or to where the chain rule takes it from. */
static double *place_of_d_W(const mhas_selfattention *m, double *gradient) {
  return m->shape.key_dim > 0 ? m->d_W : gradient + mhas_selfattention_numbers_u(&m->shape, m->heads);
}

static void clear(const mhas_selfattention *m, double *gradient) {
  memset(gradient, 0, (size_t)mhas_selfattention_numbers(&m->shape, m->heads) * sizeof *gradient);
  if (m->shape.key_dim > 0) {
    memset(m->d_W, 0, (size_t)(m->heads * m->shape.dim * m->shape.dim) * sizeof *m->d_W);
  }
}

mhas_code mhas_selfattention_gradient(mhas_selfattention *model, const double *theta, int64_t left_out,
                                      double *gradient, double *Phi, mhas_error *error) {
  const int64_t n = model->shape.samples;
  const double *W = selfattention_W(model, theta);
  double *c = model->sums;
  clear(model, gradient);
  for (int64_t first = 0; first < n; first += model->round) {
    const int64_t count = selfattention_round(model, first);
    selfattention_forward(model, theta, W, first, count, WEIGHED_G, model->A, model->G, c);
    MHAS_TRY(selfattention_sum(model, c, count, error));
    for (int64_t i = 0; i < count; i++) {
      const double y = model->y[first + i];
      const double output = model->factor * c[i];
      if (Phi != NULL) {
        Phi[first + i] = output;
      }
      c[i] = first + i == left_out ? 0.0 : -y / (1.0 + exp(y * output)) * (model->root / (double)n);
    }
    backward(model, first, count, c, gradient, place_of_d_W(model, gradient));
  }
  if (model->shape.key_dim > 0) {
    selfattention_chain(model, theta, model->d_W, gradient);
  }
  return MHAS_OK;
}

void mhas_selfattention_features(mhas_selfattention *model, const double *theta, int64_t first, int64_t count,
                                 double *F) {
  const int64_t T = model->shape.tokens;
  const int64_t d = model->shape.dim;
  const int64_t numbers = mhas_selfattention_numbers(&model->shape, model->heads);
  const double *W = selfattention_W(model, theta);
  for (int64_t i = 0; i < count; i++) {
    double *row = F + i * numbers;
    const double *X = model->X + (first + i) * T * d;
    clear(model, row);
    selfattention_forward(model, theta, W, first + i, 1, WEIGHED_G, model->A, model->G, model->sums);
    gemm(TURNED, AS_IS, model->columns, d, T, 1.0, model->A, model->columns, X, d, 0.0, row, d);
    selfattention_add_d_W(model, first + i, 1, model->heads, model->G, X, place_of_d_W(model, row));
    if (model->shape.key_dim > 0) {
      selfattention_chain(model, theta, model->d_W, row);
    }
    scale(model->root, numbers, row);
  }
}
