/* One attention head with fixed values, its loss and its derivatives by the logits. */
#include "experiments/selection.h"

#include <inttypes.h>
#include <math.h>

mhas_code mhas_selection_create(int64_t samples, int64_t tokens, bool trained, mhas_selection *selection,
                                mhas_error *error) {
  const size_t all = (size_t)(samples * tokens);
  *selection = (mhas_selection){.samples = samples, .tokens = tokens};
  MHAS_TRY(mhas_alloc(&selection->scores, all, sizeof(double), "the scores of tokens", error));
  MHAS_TRY(mhas_alloc(&selection->y, (size_t)samples, sizeof(double), "the labels", error));
  MHAS_TRY(mhas_alloc(&selection->logits, all, sizeof(double), "the logits of tokens", error));
  MHAS_TRY(mhas_alloc(&selection->weights, all, sizeof(double), "the weights of tokens", error));
  MHAS_TRY(mhas_alloc(&selection->outputs, (size_t)samples, sizeof(double), "the outputs", error));
  return trained ? mhas_alloc(&selection->slopes, all, sizeof(double), "derivatives of the loss", error) : MHAS_OK;
}

void mhas_selection_free(mhas_selection *selection) {
  mhas_free(selection->scores);
  mhas_free(selection->y);
  mhas_free(selection->logits);
  mhas_free(selection->weights);
  mhas_free(selection->outputs);
  mhas_free(selection->slopes);
  *selection = (mhas_selection){0};
}

static int64_t largest(int64_t count, const double *values) {
  int64_t best = 0;
  for (int64_t t = 1; t < count; t++) {
    best = values[t] > values[best] ? t : best;
  }
  return best;
}

int64_t mhas_selection_of(const mhas_selection *selection, int64_t i) {
  return largest(selection->tokens, selection->weights + i * selection->tokens);
}

static double attend(int64_t T, const double *logits, const double *scores, double *weights) {
  const double top = logits[largest(T, logits)];
  double sum = 0.0;
  double output = 0.0;
  for (int64_t t = 0; t < T; t++) {
    weights[t] = exp(logits[t] - top);
    sum += weights[t];
  }
  for (int64_t t = 0; t < T; t++) {
    weights[t] /= sum;
    output += weights[t] * scores[t];
  }
  return output;
}

/* factor A_t (gamma_t - f). They sum to zero, and the one of the largest weight comes from that: its own difference
 * would be lost to rounding when it has nearly all the weight. */
static void differentiate(int64_t T, double factor, double f, const double *weights, const double *scores,
                          double *slopes) {
  const int64_t top = largest(T, weights);
  slopes[top] = 0.0;
  for (int64_t t = 0; t < T; t++) {
    if (t != top) {
      slopes[t] = factor * weights[t] * (scores[t] - f);
      slopes[top] -= slopes[t];
    }
  }
}

mhas_selection_loss mhas_selection_evaluate(mhas_selection *s) {
  mhas_selection_loss mean = {0};
  const double n = (double)s->samples;
  for (int64_t i = 0; i < s->samples; i++) {
    const int64_t at = i * s->tokens;
    s->outputs[i] = attend(s->tokens, s->logits + at, s->scores + at, s->weights + at);
    const double z = s->y[i] * s->outputs[i];
    mean.loss += ((z < 0.0 ? -z : 0.0) + log1p(exp(-fabs(z)))) / n;
    mean.error += (z > 0.0 ? 0.0 : 1.0) / n;
    if (s->slopes != NULL) {
      differentiate(s->tokens, -s->y[i] / (1.0 + exp(z)) / n, s->outputs[i], s->weights + at, s->scores + at,
                    s->slopes + at);
    }
  }
  return mean;
}

mhas_code mhas_selection_check_loss(double loss, int64_t step, double step_size, mhas_error *error) {
  return isfinite(loss)
             ? MHAS_OK
             : mhas_fail(error, MHAS_NUMERIC, "diverged at step %" PRId64 ": the training loss is %.3g (step_size %g)",
                         step, loss, step_size);
}

bool mhas_selection_is_logged(int64_t step, int64_t steps, int64_t log_every) {
  return step == steps || step % log_every == 0;
}

int64_t mhas_selection_records(int64_t steps, int64_t log_every) {
  return 1 + steps / log_every + (steps % log_every != 0);
}
