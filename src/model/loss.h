/*
 * The two losses, in the precision of real.h; sums over samples are in double. B samples, C outputs.
 */
#ifndef MHASWEEP_MODEL_LOSS_H
#define MHASWEEP_MODEL_LOSS_H

#include "model/real.h"

/* The sum of the samples' cross-entropies; outputs (B, C) become probabilities. *right counts the samples whose largest
 * output is their label: the first largest, if there are several. */
static inline double cross_entropy_forward(int64_t B, int64_t C, const int64_t *labels, real *outputs, int64_t *right) {
  double loss = 0.0;
  *right = 0;
  for (int64_t b = 0; b < B; b++) {
    real *row = outputs + b * C;
    int64_t best = 0;
    for (int64_t c = 1; c < C; c++) {
      best = row[c] > row[best] ? c : best;
    }
    const real most = row[best];
    const real own = row[labels[b]] - most;
    real sum = 0;
    for (int64_t c = 0; c < C; c++) {
      row[c] = REAL_EXP(row[c] - most);
      sum += row[c];
    }
    for (int64_t c = 0; c < C; c++) {
      row[c] /= sum;
    }
    loss += log((double)sum) - (double)own;
    *right += best == labels[b];
  }
  return loss;
}

/* Probabilities (B, C) become the gradient of the mean cross-entropy with respect to the outputs. */
static inline void cross_entropy_backward(int64_t B, int64_t C, const int64_t *labels, real *outputs) {
  const real share = (real)(1.0 / (double)B);
  for (int64_t b = 0; b < B; b++) {
    outputs[b * C + labels[b]] -= 1;
  }
  for (int64_t i = 0; i < B * C; i++) {
    outputs[i] *= share;
  }
}

/* The sum of the squared errors; outputs (B) become errors. */
static inline double squared_error_forward(int64_t B, const real *targets, real *outputs) {
  double loss = 0.0;
  for (int64_t b = 0; b < B; b++) {
    outputs[b] -= targets[b];
    loss += (double)outputs[b] * (double)outputs[b];
  }
  return loss;
}

/* Errors (B) become the gradient of the mean squared error with respect to the outputs. */
static inline void squared_error_backward(int64_t B, real *outputs) {
  const real share = (real)(2.0 / (double)B);
  for (int64_t b = 0; b < B; b++) {
    outputs[b] *= share;
  }
}

#endif
