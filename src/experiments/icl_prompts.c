/*
 * Stochastic gradients from sampled prompts. The tokens of a step are its prompts one behind the other, each n pairs
 * and then Q queries; prompt p has a task v_p of its own, y = v_p . f(x). With c_p = (1/n) sum_i y_i h(x_i):
 *
 *   loss = mean over prompts and queries of 1/2 (y - c_p . W h(x))^2
 *
 * In its mean over v and long prompts this is L_TF. The models without a W of their own take the best one, S^-1, and
 * hold it while they differentiate: at a minimum over W that is the whole gradient.
 */
#include <string.h>

#include "experiments/icl_run.h"
#include "model/meanfield_algebra.h"

typedef struct prompts {
  int64_t P, n, Q, k;
} prompts;

static prompts prompts_of(const icl *run) {
  return (prompts){.P = run->values[P_PROMPT_BATCH].integer,
                   .n = run->values[P_TOKENS].integer,
                   .Q = run->values[P_QUERIES].integer,
                   .k = run->k};
}

void icl_prompts_label(icl *run) {
  const prompts s = prompts_of(run);
  const int64_t k0 = run->k0;
  const int64_t different = run->values[P_PROMPTS].integer;
  for (int64_t p = 0; p < s.P; p++) {
    const int64_t number = (run->state.step * s.P + p) % different;
    double *v = run->tasks + p * k0;
    mhas_random_normal(run->random, MHAS_STREAM_ICL_TASKS, (uint64_t)(number * k0), (size_t)k0, v);
    for (int64_t i = p * (s.n + s.Q); i < (p + 1) * (s.n + s.Q); i++) {
      run->labels[i] = small_inner(k0, v, run->drawn.F + i * k0);
    }
  }
}

/* out (k) = W x, or W^T x */
static void apply(int64_t k, bool turned, const double *W, const double *x, double *out) {
  for (int64_t i = 0; i < k; i++) {
    out[i] = 0.0;
    for (int64_t j = 0; j < k; j++) {
      out[i] += (turned ? W[j * k + i] : W[i * k + j]) * x[j];
    }
  }
}

/* One prompt: h, y and q at its first token; `weight` is of one of its queries in the loss, `tokens` of the step. */
static double add_prompt(const prompts *s, double weight, double tokens, const double *h, const double *y,
                         const double *W, double *q, double *g_W) {
  enum { MOST = 64 };
  const int64_t k = s->k;
  double c[MOST] = {0};   /* (1/n) sum y h */
  double Wc[MOST];        /* W^T c */
  double sum[MOST] = {0}; /* sum over queries of error h */
  double Wsum[MOST];
  double loss = 0.0;
  for (int64_t i = 0; i < s->n; i++) {
    for (int64_t j = 0; j < k; j++) {
      c[j] += y[i] * h[i * k + j] / (double)s->n;
    }
  }
  apply(k, true, W, c, Wc);
  for (int64_t i = s->n; i < s->n + s->Q; i++) {
    const double error = y[i] - small_inner(k, Wc, h + i * k);
    loss += 0.5 * weight * error * error;
    for (int64_t j = 0; j < k; j++) {
      sum[j] += weight * error * h[i * k + j];
      q[i * k + j] = -tokens * weight * error * Wc[j];
    }
  }
  apply(k, false, W, sum, Wsum);
  for (int64_t i = 0; i < s->n; i++) {
    for (int64_t j = 0; j < k; j++) {
      q[i * k + j] = -tokens * y[i] * Wsum[j] / (double)s->n;
    }
  }
  for (int64_t i = 0; g_W != NULL && i < k; i++) {
    for (int64_t j = 0; j < k; j++) {
      g_W[i * k + j] -= c[i] * sum[j];
    }
  }
  return loss;
}

double icl_prompts_loss(icl *run, const double *W, double *q, double *g_W) {
  const prompts s = prompts_of(run);
  const int64_t tokens = s.n + s.Q;
  double loss = 0.0;
  if (g_W != NULL) {
    memset(g_W, 0, (size_t)(s.k * s.k) * sizeof *g_W);
  }
  for (int64_t p = 0; p < s.P; p++) {
    const int64_t at = p * tokens;
    loss += add_prompt(&s, 1.0 / (double)(s.P * s.Q), (double)(s.P * tokens), run->drawn.h + at * s.k, run->labels + at,
                       W, q + at * s.k, g_W);
  }
  return loss;
}
