/*
 * The two losses, in the precision of real.h; sums over samples are in double. B samples, C outputs.
 */
#ifndef MHASWEEP_MODEL_LOSS_H
#define MHASWEEP_MODEL_LOSS_H

#include "model/lanes.h"
#include "model/real.h"

/* The sum of the samples' cross-entropies; outputs (B, C) become probabilities. *right counts the samples whose largest
 * output is their label: the first largest, if there are several. work (2 B) is scratch. */
static inline double cross_entropy_forward(const REAL_NAME(lanes) * lanes, int64_t B, int64_t C, const int64_t *labels,
                                           real *outputs, real *work, int64_t *right) {
  real *sums = work;
  real *below = work + B; /* the label's output less the largest */
  double loss = 0.0;
  *right = 0;
  for (int64_t b = 0; b < B; b++) {
    const real *row = outputs + b * C;
    int64_t best = 0;
    for (int64_t c = 1; c < C; c++) {
      best = row[c] > row[best] ? c : best;
    }
    below[b] = row[labels[b]] - row[best];
    *right += best == labels[b];
  }
  lanes->softmax(B, C, 1, outputs, C, outputs, sums);
  for (int64_t b = 0; b < B; b++) {
    loss += log((double)sums[b]) - (double)below[b];
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
