/*
 * The passes of the mean-field MLP in the precision of real.h. Tokens are taken in blocks, so that what is N x M wide
 * passes through the cache once in each pass: a product makes it, a vectorised loop bends it, products use it up.
 */
#ifndef MHASWEEP_MODEL_MEANFIELD_PASSES_H
#define MHASWEEP_MODEL_MEANFIELD_PASSES_H

#include <string.h>

#include "model/lanes.h"
#include "model/meanfield_parts.h"
#include "model/product.h"

static void prepare(mhas_meanfield *m) {
  const mhas_meanfield_shape *s = &m->shape;
  const int64_t P = m->row;
  const int64_t d = s->dim;
  const int64_t k = s->features;
  const int64_t rows[2] = {m->block, s->tokens % m->block};
  for (int i = 0; i < 2; i++) {
    const int64_t R = rows[i];
    if (R == 0) {
      continue;
    }
    product *p = m->product[i];
    p[MF_INPUTS] = product_of(false, AS_IS, R, P, d, d, P, P);
    p[MF_BACK] = product_of(false, AS_IS, R, P, k, k, P, P);
    p[MF_ONTO_A] = product_of(true, TURNED, k, P, R, k, P, P);
    p[MF_ONTO_W] = product_of(true, TURNED, d, P, R, d, P, P);
  }
}

/* Neurons to what is along them: turned (columns, P) = x (M, columns) turned; and back. */
static void turn_in(const mhas_meanfield *m, int64_t columns, const double *x, real *turned) {
  for (int64_t i = 0; i < m->shape.neurons; i++) {
    for (int64_t j = 0; j < columns; j++) {
      turned[j * m->row + i] = (real)x[i * columns + j];
    }
  }
}

static void turn_out(const mhas_meanfield *m, int64_t columns, const real *turned, double *x) {
  for (int64_t i = 0; i < m->shape.neurons; i++) {
    for (int64_t j = 0; j < columns; j++) {
      x[i * columns + j] = (double)turned[j * m->row + i];
    }
  }
}

static void scale_in(int64_t count, double factor, const double *x, real *scaled) {
  for (int64_t i = 0; i < count; i++) {
    scaled[i] = (real)(factor * x[i]);
  }
}

static void scale_out(int64_t count, double factor, const real *x, double *scaled) {
  for (int64_t i = 0; i < count; i++) {
    scaled[i] = factor * (double)x[i];
  }
}

/* The products for the block of tokens that begins at `first`; *rows of them. */
static const product *products_at(const mhas_meanfield *m, int64_t first, int64_t *rows) {
  const int64_t left = m->shape.tokens - first;
  *rows = left < m->block ? left : m->block;
  return m->product[left < m->block];
}

/* Rows that stay in the nearest cache from one loop to the next. */
enum { CLOSE = 4 };

static void forward(mhas_meanfield *m, const double *a, const double *w, const double *x, double *h) {
  const mhas_meanfield_shape *s = &m->shape;
  const int64_t P = m->row;
  const int64_t k = s->features;
  const REAL_NAME(lanes) *lanes = m->lanes;
  const real *tokens = m->buffer[MF_TOKENS];
  real *values = m->buffer[MF_VALUES];
  real *outputs = m->buffer[MF_H];
  scale_in(s->tokens * s->dim, 1.0, x, m->buffer[MF_TOKENS]);
  turn_in(m, s->dim, w, m->buffer[MF_W]);
  turn_in(m, k, a, m->buffer[MF_A]);
  for (int64_t first = 0, rows = 0; first < s->tokens; first += rows) {
    const product *p = products_at(m, first, &rows);
    multiply(&p[MF_INPUTS], tokens + first * s->dim, m->buffer[MF_W], values + first * P);
    for (int64_t r = 0; r < rows; r += CLOSE) {
      const int64_t close = rows - r < CLOSE ? rows - r : CLOSE;
      real *at = values + (first + r) * P;
      lanes->neuron[s->neuron](close * P, at);
      lanes->turned(false, close, k, P, at, m->buffer[MF_A], outputs + (first + r) * k);
    }
  }
  scale_out(s->tokens * k, 1.0 / (double)s->neurons, outputs, h);
}

static void backward(mhas_meanfield *m, const double *q, double *g_a, double *g_w) {
  const mhas_meanfield_shape *s = &m->shape;
  const int64_t P = m->row;
  const REAL_NAME(lanes) *lanes = m->lanes;
  const real *tokens = m->buffer[MF_TOKENS];
  const real *values = m->buffer[MF_VALUES];
  const real *pull = m->buffer[MF_Q];
  real *block = m->buffer[MF_BLOCK];
  scale_in(s->tokens * s->features, 1.0 / (double)s->tokens, q, m->buffer[MF_Q]);
  memset(m->buffer[MF_G_A], 0, (size_t)(s->features * P) * sizeof(real));
  memset(m->buffer[MF_G_W], 0, (size_t)(s->dim * P) * sizeof(real));
  for (int64_t first = 0, rows = 0; first < s->tokens; first += rows) {
    const product *p = products_at(m, first, &rows);
    multiply(&p[MF_BACK], pull + first * s->features, m->buffer[MF_A], block);
    lanes->slope[s->neuron](rows * P, values + first * P, block); /* goes straight through values: they are far away */
    multiply(&p[MF_ONTO_A], pull + first * s->features, values + first * P, m->buffer[MF_G_A]);
    multiply(&p[MF_ONTO_W], tokens + first * s->dim, block, m->buffer[MF_G_W]);
  }
  turn_out(m, s->features, m->buffer[MF_G_A], g_a);
  turn_out(m, s->dim, m->buffer[MF_G_W], g_w);
}

static void tangent(mhas_meanfield *m, const double *v_a, const double *v_w, double *u) {
  const mhas_meanfield_shape *s = &m->shape;
  const int64_t P = m->row;
  const int64_t k = s->features;
  const REAL_NAME(lanes) *lanes = m->lanes;
  const real *tokens = m->buffer[MF_TOKENS];
  const real *values = m->buffer[MF_VALUES];
  real *block = m->buffer[MF_BLOCK];
  real *outputs = m->buffer[MF_H];
  turn_in(m, s->dim, v_w, m->buffer[MF_V_W]);
  turn_in(m, k, v_a, m->buffer[MF_V_A]);
  for (int64_t first = 0, rows = 0; first < s->tokens; first += rows) {
    const product *p = products_at(m, first, &rows);
    multiply(&p[MF_INPUTS], tokens + first * s->dim, m->buffer[MF_V_W], block);
    for (int64_t r = 0; r < rows; r += CLOSE) {
      const int64_t close = rows - r < CLOSE ? rows - r : CLOSE;
      const real *at = values + (first + r) * P;
      real *out = outputs + (first + r) * k;
      lanes->slope[s->neuron](close * P, at, block + r * P);
      lanes->turned(false, close, k, P, at, m->buffer[MF_V_A], out);
      lanes->turned(true, close, k, P, block + r * P, m->buffer[MF_A], out);
    }
  }
  scale_out(s->tokens * k, 1.0 / (double)s->neurons, outputs, u);
}

const meanfield_kernels REAL_NAME(mhas_meanfield_kernels) = {
    .prepare = prepare, .forward = forward, .backward = backward, .tangent = tangent};

#endif
