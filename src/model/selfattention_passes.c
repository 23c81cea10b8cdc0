/* Outputs, gradients, features and attention of self-attention with one output. */
#include <string.h>

#include "model/selfattention.h"

int64_t selfattention_block(const mhas_selfattention *m, int64_t first) {
  const int64_t left = m->shape.samples - first;
  return left < m->block ? left : m->block;
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

void selfattention_chain(const mhas_selfattention *m, int64_t heads, const double *of, const double *d_W, double *out) {
  const int64_t d = m->shape.dim;
  const int64_t d_k = m->shape.key_dim;
  const int64_t u = mhas_selfattention_numbers_u(&m->shape, heads);
  for (int64_t h = 0; h < heads; h++) {
    const int64_t Q = u + h * d * d_k;
    const int64_t K = Q + heads * d * d_k;
    gemm(AS_IS, AS_IS, d, d_k, d, logit_factor(m), d_W + h * d * d, d, of + K, d_k, 1.0, out + Q, d_k);
    gemm(TURNED, AS_IS, d, d_k, d, logit_factor(m), d_W + h * d * d, d, of + Q, d_k, 1.0, out + K, d_k);
  }
}

void selfattention_forward(const mhas_selfattention *m, const double *U, const double *W, int64_t first, int64_t count,
                           double *A, double *G, double *sums) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const int64_t C = m->columns;
  const double *X = m->X + first * T * d;
  gemm(AS_IS, TURNED, m->heads * d, count * T, d, 1.0, W, d, X, d, 0.0, m->PN, m->block * T);
  gemm(AS_IS, TURNED, count * T, C, d, 1.0, X, d, U, d, 0.0, G, C);
  for (int64_t i = 0; i < count; i++) {
    double *A_i = A + i * T * C;
    const double *XT = m->XT + (first + i) * T * d;
    for (int64_t h = 0; h < m->heads; h++) {
      multiply(&m->to_S, m->PN + (h * d * m->block + i) * T, XT, A_i + h * T);
    }
    m->loops->softmax(T, C, A_i, C);
    sums[i] = m->loops->centre(T, C, A_i, G + i * T * C, C);
  }
}

void selfattention_gather(const mhas_selfattention *m, int64_t first, int64_t count, int64_t heads, const double *A,
                          const double *X, const double *M, double *d_U, double *d_W) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const int64_t C = m->columns;
  const int64_t width = m->heads * d;
  const double *rows = m->X + first * T * d;
  for (int64_t i = 0; i < count; i++) {
    for (int64_t h = 0; h < heads; h++) {
      multiply(&m->to_N, M + i * T * C + h * T, rows + i * T * d, m->PN + i * T * width + h * d);
    }
  }
  gemm(TURNED, AS_IS, heads * T, d, count * T, 1.0, A, C, X, d, 1.0, d_U, d);
  gemm(TURNED, AS_IS, heads * d, d, count * T, 1.0, m->PN, width, rows, d, 1.0, d_W, d);
}

/* ---- outputs ------------------------------------------------------------------------ */

static void scale(double factor, int64_t count, double *values) {
  for (int64_t i = 0; i < count; i++) {
    values[i] *= factor;
  }
}

mhas_code mhas_selfattention_outputs(mhas_selfattention *model, const double *theta, double *Phi, mhas_error *error) {
  const double *W = selfattention_W(model, theta);
  for (int64_t first = 0; first < model->shape.samples; first += model->block) {
    const int64_t count = selfattention_block(model, first);
    selfattention_forward(model, theta, W, first, count, model->A, model->G, Phi + first);
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
    selfattention_forward(model, theta, W, first + i, 1, model->A, model->G, model->sums);
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
  for (int64_t first = 0; first < model->shape.samples; first += model->block) {
    const int64_t count = selfattention_block(model, first);
    selfattention_forward(model, theta, W, first, count, model->A, model->G, model->sums);
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

/* A block's part of d_U and d_W, for the outputs' gradients c (count). A and the centred G are used up. */
static void backward(mhas_selfattention *m, int64_t first, int64_t count, const double *c, double *d_U, double *d_W) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const int64_t C = m->columns;
  for (int64_t i = 0; i < count; i++) {
    const double *X = m->X + (first + i) * T * d;
    double *cX = m->cX + i * T * d;
    for (int64_t j = 0; j < T * d; j++) {
      cX[j] = c[i] * X[j];
    }
    m->loops->weigh(T, C, c[i], m->A + i * T * C, m->G + i * T * C, C);
  }
  selfattention_gather(m, first, count, m->heads, m->A, m->cX, m->G, d_U, d_W);
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
  for (int64_t first = 0; first < n; first += model->block) {
    const int64_t count = selfattention_block(model, first);
    selfattention_forward(model, theta, W, first, count, model->A, model->G, c);
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
    selfattention_chain(model, model->heads, theta, model->d_W, gradient);
  }
  return MHAS_OK;
}

void mhas_selfattention_features(mhas_selfattention *model, const double *theta, int64_t first, int64_t count,
                                 double *F) {
  const int64_t T = model->shape.tokens;
  const int64_t numbers = mhas_selfattention_numbers(&model->shape, model->heads);
  const double *W = selfattention_W(model, theta);
  for (int64_t i = 0; i < count; i++) {
    double *row = F + i * numbers;
    clear(model, row);
    selfattention_forward(model, theta, W, first + i, 1, model->A, model->G, model->sums);
    model->loops->weigh(T, model->columns, 1.0, model->A, model->G, model->columns);
    selfattention_gather(model, first + i, 1, model->heads, model->A, model->X + (first + i) * T * model->shape.dim,
                         model->G, row, place_of_d_W(model, row));
    if (model->shape.key_dim > 0) {
      selfattention_chain(model, model->heads, theta, model->d_W, row);
    }
    scale(model->root, numbers, row);
  }
}
