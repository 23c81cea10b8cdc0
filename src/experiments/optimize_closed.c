/*
 * Closed forms of the tokenized mixture's margins, where attention is uniform, and at its optimum.
 *
 * With W = 0 the features are H^{-1/2} (1_T xbar^T, alpha_h T xbar c^T), where utilde is the step's direction and
 * c = (1/T) sum_s <utilde, x_s - xbar> x_s. Without noise, with labels and prototypes dealt out evenly, it is utilde =
 * zeta (mu_+ - mu_-) / 2 and c = y e (mu_y - nubar), e = zeta^2 (1 - zeta) S^2 / 2. All samples of a label are one
 * point then, two points together, and the nearest to the origin is half way between them:
 *   margin_w^2 = alpha^2 T^2 e^2 S^2 [a (1 + 1/M) + b / M] / 2,  b = (1 - zeta)^2 S^2 / M,  a = zeta^2 S^2 + b,
 * and margin^2 = margin_u^2 + margin_w^2. With attention m on the relevant tokens margin_u is m S sqrt(T / 2), m = zeta
 * while attention is uniform, 1 at the optimum. Derived, in the style of arXiv 2310.12680, whose direction (U_star,
 * W_star) has the margins gamma_lin and gamma_attn.
 */
#include <math.h>

#include "experiments/optimize_theory.h"

static bool is_mixture(const mhas_value *values) { return values[P_DATA].integer == OPTIMIZE_DM1; }

/* The attention on relevant tokens: all queries have the same logit on them and 0 on the others. */
static double attention_mass(const mhas_value *values, double zeta) {
  const double logit = values[P_INIT].integer == OPTIMIZE_INIT_PLANTED ? values[P_INIT_LOGIT].real : 0.0;
  return zeta / (zeta + (1.0 - zeta) * exp(-logit));
}

mhas_closed_margins mhas_closed_margins_of(const mhas_value *values) {
  const bool one_step = values[P_INIT].integer == OPTIMIZE_ONE_STEP;
  const bool planted = values[P_INIT].integer == OPTIMIZE_INIT_PLANTED;
  const double T = (double)values[P_TOKENS].integer;
  const int64_t relevant = mhas_optimize_relevant(values);
  const double zeta = (double)relevant / T;
  const int64_t M = values[P_PROTOTYPES].integer;
  const double S = values[P_SIGNAL].real;
  const double alpha = one_step ? values[P_INIT_SCALE].real : 0.0;
  if (!is_mixture(values) || values[P_INIT].integer == OPTIMIZE_GAUSSIAN || values[P_KEY_DIM].integer > 0) {
    return (mhas_closed_margins){NAN, NAN, NAN};
  }
  const double linear = attention_mass(values, zeta) * S * sqrt(0.5 * T);
  if (planted) {
    return (mhas_closed_margins){linear, NAN, NAN};
  }
  mhas_closed_margins closed = {
      .linear = linear,
      .attention = alpha * T * zeta * zeta * (1.0 - zeta) * S * S * S * S / (2.0 * sqrt(2.0 * (double)(M + 1))),
      .w = NAN};
  if (values[P_MIXING].integer == OPTIMIZE_MIX_EVEN && (values[P_TOKENS].integer - relevant) % M == 0) {
    const double e = zeta * zeta * (1.0 - zeta) * S * S / 2.0;
    const double b = (1.0 - zeta) * (1.0 - zeta) * S * S / (double)M;
    const double a = zeta * zeta * S * S + b;
    closed.w = alpha * T * e * S * sqrt(0.5 * (a * (1.0 + 1.0 / (double)M) + b / (double)M));
  }
  return closed;
}

/* Wbar = mu_+ mu_+^T + mu_- mu_-^T + sum_l nu_l (mu_+ + mu_-)^T, by its norm S^2 sqrt(2 (M + 1)): (d, d). */
static void add_attention(const optimize *run, double factor, double *W) {
  const int64_t d = run->shape.dim;
  const int64_t M = run->task->point.values[P_PROTOTYPES].integer;
  const double *plus = run->mixture.mu;
  const double *minus = run->mixture.mu + d;
  for (int64_t i = 0; i < d; i++) {
    double others = 0.0;
    for (int64_t l = 0; l < M; l++) {
      others += run->mixture.nu[l * d + i];
    }
    for (int64_t j = 0; j < d; j++) {
      W[i * d + j] = factor * (plus[i] * plus[j] + minus[i] * minus[j] + others * (plus[j] + minus[j]));
    }
  }
}

void mhas_closed_direction(const optimize *run, double *out) {
  const mhas_selfattention_shape *shape = &run->shape;
  const int64_t d = shape->dim;
  const double S = run->task->point.values[P_SIGNAL].real;
  const double M = (double)run->task->point.values[P_PROTOTYPES].integer;
  const double H = (double)shape->heads * (double)shape->copies;
  const double unit_u = 1.0 / (sqrt(2.0 * (double)shape->tokens * H) * S);
  const double unit_w = 1.0 / (S * S * sqrt(2.0 * (M + 1.0) * H));
  for (int64_t i = 0; i < run->heads * shape->tokens * d; i++) {
    out[i] = unit_u * (run->mixture.mu[i % d] - run->mixture.mu[d + i % d]);
  }
  for (int64_t h = 0; h < run->heads; h++) {
    const double sign = mhas_optimize_sign(run->task, run->first_head + h) < 0.0 ? -1.0 : 1.0;
    add_attention(run, sign * unit_w, out + run->heads * shape->tokens * d + h * d * d);
  }
}

mhas_code mhas_closed_deviation(const optimize *run, double *deviation, mhas_error *error) {
  const int64_t d = run->shape.dim;
  *deviation = 0.0;
  for (int64_t i = 0; i < run->shape.samples; i++) {
    double sum = 0.0; /* T <xbar, alpha utilde> */
    for (int64_t k = 0; k < run->shape.tokens * d; k++) {
      sum += run->train.X[i * run->shape.tokens * d + k] * run->theta0[k % d];
    }
    *deviation = fmax(*deviation, fabs(sum));
  }
  return mhas_team_share(&run->task->team, deviation, sizeof *deviation, error);
}
