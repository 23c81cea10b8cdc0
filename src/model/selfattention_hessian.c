/* Products with the Hessian of the loss of self-attention with one output. */
#include <string.h>

#include "model/selfattention.h"

static int64_t numbers_W(const mhas_selfattention *m, int64_t heads) { return heads * m->shape.dim * m->shape.dim; }

mhas_code mhas_selfattention_linearise(mhas_selfattention *model, const double *theta, double *Phi, mhas_error *error) {
  const int64_t n = model->shape.samples;
  const int64_t sample = model->shape.tokens * model->columns;
  if (model->shape.key_dim > 0) { /* its second derivatives have the gradient of W in them */
    const int64_t numbers = mhas_selfattention_numbers(&model->shape, model->heads);
    MHAS_TRY(mhas_selfattention_gradient(model, theta, -1, model->kept_theta, NULL, error));
    memcpy(model->kept_d_W, model->d_W, (size_t)numbers_W(model, model->heads) * sizeof(double));
    memcpy(model->kept_theta, theta, (size_t)numbers * sizeof(double));
  }
  const double *W = selfattention_W(model, theta);
  for (int64_t first = 0; first < n; first += model->round) {
    const int64_t count = selfattention_round(model, first);
    selfattention_forward(model, theta, W, first, count, CENTRED_G, model->kept_A + first * sample,
                          model->kept_G + first * sample, model->sums + first);
    MHAS_TRY(selfattention_sum(model, model->sums + first, count, error));
  }
  for (int64_t i = 0; i < n; i++) {
    const double output = model->factor * model->sums[i];
    const double wrong = 1.0 / (1.0 + exp(model->y[i] * output));
    model->slope[i] = -model->y[i] * wrong * (model->root / (double)n);
    model->bend[i] = wrong * (1.0 - wrong) * (model->root / (double)n);
    if (Phi != NULL) {
      Phi[i] = output;
    }
  }
  return MHAS_OK;
}

/* The direction of W of heads first .. first + heads - 1, for one of what it is made of: dQ K^T + Q dK^T, by
 * sqrt(d_k). */
static const double *direction_of_W(const mhas_selfattention *m, int64_t first, int64_t heads, const double *v) {
  const int64_t d = m->shape.dim;
  const int64_t d_k = m->shape.key_dim;
  const double *v_Q = v + mhas_selfattention_numbers_u(&m->shape, heads);
  if (d_k == 0) {
    return v_Q;
  }
  const double *v_K = v_Q + heads * d * d_k;
  const double *W_Q = m->kept_theta + mhas_selfattention_numbers_u(&m->shape, m->heads) + first * d * d_k;
  const double *W_K = W_Q + m->heads * d * d_k;
  const double factor = 1.0 / sqrt((double)d_k);
  for (int64_t h = 0; h < heads; h++) {
    const int64_t at = h * d * d_k;
    gemm(AS_IS, TURNED, d, d, d_k, factor, v_Q + at, d_k, W_K + at, d_k, 0.0, m->v_W + h * d * d, d);
    gemm(AS_IS, TURNED, d, d, d_k, factor, W_Q + at, d_k, v_K + at, d_k, 1.0, m->v_W + h * d * d, d);
  }
  return m->v_W;
}

/* What the products with W mean for W_Q and W_K: by the chain rule, and by the bend of the product itself. */
static void finish(const mhas_selfattention *m, int64_t first, int64_t heads, const double *v, double *y) {
  const int64_t d = m->shape.dim;
  const int64_t d_k = m->shape.key_dim;
  const int64_t u = mhas_selfattention_numbers_u(&m->shape, heads);
  const double factor = 1.0 / sqrt((double)d_k);
  const double *W_Q = m->kept_theta + mhas_selfattention_numbers_u(&m->shape, m->heads) + first * d * d_k;
  const double *W_K = W_Q + m->heads * d * d_k;
  for (int64_t h = 0; h < heads; h++) {
    const int64_t at = h * d * d_k;
    const double *product_W = m->d_W + h * d * d;
    const double *gradient_W = m->kept_d_W + (first + h) * d * d;
    double *y_Q = y + u + at;
    double *y_K = y_Q + heads * d * d_k;
    const double *v_Q = v + u + at;
    const double *v_K = v_Q + heads * d * d_k;
    gemm(AS_IS, AS_IS, d, d_k, d, factor, product_W, d, W_K + at, d_k, 0.0, y_Q, d_k);
    gemm(AS_IS, AS_IS, d, d_k, d, factor, gradient_W, d, v_K, d_k, 1.0, y_Q, d_k);
    gemm(TURNED, AS_IS, d, d_k, d, factor, product_W, d, W_Q + at, d_k, 0.0, y_K, d_k);
    gemm(TURNED, AS_IS, d, d_k, d, factor, gradient_W, d, v_Q, d_k, 1.0, y_K, d_k);
  }
}

/* For some heads, and samples from `first` on: A becomes dA, G becomes dM, and each sample's sum of the changes of G's
 * means goes to sums. */
static void tangents(const mhas_selfattention *m, int64_t first, int64_t count, int64_t head, int64_t heads,
                     const double *v_U, const double *v_W, double *sums) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const int64_t C = m->columns;
  for (int64_t at = 0; at < count; at += m->tile) {
    const int64_t some = count - at < m->tile ? count - at : m->tile;
    double *A = m->A + at * T * C;
    double *G = m->G + at * T * C;
    gemm(AS_IS, TURNED, some * T, heads * T, d, 1.0, m->X + (first + at) * T * d, d, v_U, d, 0.0, G, C);
    selfattention_logits(m, first + at, some, heads, v_W, A);
    for (int64_t i = 0; i < some; i++) {
      const int64_t kept = (first + at + i) * T * C + head * T;
      sums[at + i] =
          m->loops->tangent(T, heads * T, m->kept_A + kept, m->kept_G + kept, C, A + i * T * C, G + i * T * C, C);
    }
  }
}

/* Adds these samples' part, which has factors a (count) on A and M and b on their changes, to y_U and y_W. */
static void combine(mhas_selfattention *m, int64_t first, int64_t count, int64_t head, int64_t heads, const double *a,
                    const double *b, double *y_U, double *y_W) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  const int64_t C = m->columns;
  for (int64_t at = 0; at < count; at += m->tile) {
    const int64_t some = count - at < m->tile ? count - at : m->tile;
    const double *X = m->X + (first + at) * T * d;
    double *A = m->A + at * T * C;
    double *G = m->G + at * T * C;
    for (int64_t i = 0; i < some; i++) {
      const int64_t kept = (first + at + i) * T * C + head * T;
      m->loops->blend(T, heads * T, a != NULL ? a[at + i] : 0.0, b[at + i], m->kept_A + kept, m->kept_G + kept, C,
                      A + i * T * C, G + i * T * C, C);
    }
    gemm(TURNED, AS_IS, heads * T, d, some * T, 1.0, A, C, X, d, 1.0, y_U, d);
    selfattention_add_d_W(m, first + at, some, heads, G, X, y_W);
  }
}

static double *start(const mhas_selfattention *m, int64_t heads, double *y) {
  const int64_t u = mhas_selfattention_numbers_u(&m->shape, heads);
  double *y_W = m->shape.key_dim > 0 ? m->d_W : y + u;
  memset(y, 0, (size_t)u * sizeof *y);
  memset(y_W, 0, (size_t)numbers_W(m, heads) * sizeof *y_W);
  return y_W;
}

mhas_code mhas_selfattention_hessian(mhas_selfattention *model, const double *v, double *y, mhas_error *error) {
  double *y_W = start(model, model->heads, y);
  const double *v_W = direction_of_W(model, 0, model->heads, v);
  double *a = model->sums;
  for (int64_t first = 0; first < model->shape.samples; first += model->round) {
    const int64_t count = selfattention_round(model, first);
    tangents(model, first, count, 0, model->heads, v, v_W, a);
    MHAS_TRY(selfattention_sum(model, a, count, error));
    for (int64_t i = 0; i < count; i++) {
      a[i] *= model->factor * model->bend[first + i];
    }
    combine(model, first, count, 0, model->heads, a, model->slope + first, y, y_W);
  }
  if (model->shape.key_dim > 0) {
    finish(model, 0, model->heads, v, y);
  }
  return MHAS_OK;
}

void mhas_selfattention_hessian_blocks(mhas_selfattention *model, int64_t first, int64_t heads, const double *v,
                                       double *y) {
  double *y_W = start(model, heads, y);
  const double *v_W = direction_of_W(model, first, heads, v);
  for (int64_t from = 0; from < model->shape.samples; from += model->round) {
    const int64_t count = selfattention_round(model, from);
    tangents(model, from, count, first, heads, v, v_W, model->sums);
    combine(model, from, count, first, heads, NULL, model->slope + from, y, y_W);
  }
  if (model->shape.key_dim > 0) {
    finish(model, first, heads, v, y);
  }
}
