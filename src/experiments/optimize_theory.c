/*
 * What the theory of optimization says of a point, beside what was measured: before the first step, and after the last.
 *
 * Realizability: with gamma the margin of the tangent features and theta_star its direction, theta = theta_0 + lambda
 * theta_star has a loss of at most epsilon, if Phi bends little on the way (derived, in the style of arXiv 2310.12680:
 * y Phi(theta) >= -B_Phi + lambda gamma - lambda^2 kappa / 2, and the last term is granted max(B_Phi, 1)).
 *
 * Training: with D = ||theta - theta_0|| = lambda, b1 and kappa at their largest within 5 D of theta_0 and rho = b1^2 /
 * 4 + kappa, if kappa D^2 <= 0.095 and eta <= min(1 / rho, D^2 / (K L(theta)), D^2 / L(theta_0)), then the loss falls,
 * ||theta_k - theta|| <= 2 D, and the mean of the losses is at most 1.5 L(theta) + 0.875 D^2 / (eta K) (derived; 5 D
 * becomes (3 + 2 sqrt(L(theta_0))) D where that is more). The conditions ask for very many heads: the conclusions are
 * looked at whether they are met or not.
 */
#include "experiments/optimize_theory.h"

#include <math.h>

static const double condition_most = 0.095;

static bool has_constant_steps(const mhas_value *values) {
  return values[P_STEP_RULE].integer == OPTIMIZE_CONSTANT || values[P_STEP_RULE].integer == OPTIMIZE_SQRT_HEADS;
}

/* ---- at theta_0 ----------------------------------------------------------------------- */

/* Closed forms are there whether a kernel is made or not. */
static mhas_code fill_closed(const optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  const mhas_closed_margins closed = mhas_closed_margins_of(values);
  mhas_value *result = run->row->results;
  result[R_MARGIN_LINEAR].real = closed.linear;
  result[R_MARGIN_ATTENTION].real = closed.attention;
  result[R_MARGIN_W_CLOSED].real = closed.w;
  return values[P_INIT].integer == OPTIMIZE_ONE_STEP
             ? mhas_closed_deviation(run, &result[R_OUTPUT_DEVIATION].real, error)
             : MHAS_OK;
}

/* What the paper's direction achieves. */
static mhas_code measure_direction(optimize *run, double *scratch, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  mhas_value *result = run->row->results;
  if (values[P_DATA].integer != OPTIMIZE_DM1 || values[P_INIT].integer != OPTIMIZE_ONE_STEP || run->shape.key_dim > 0) {
    return MHAS_OK;
  }
  mhas_closed_direction(run, scratch);
  return mhas_kernel_scores(run, run->theta0, scratch, &result[R_DIRECTION_U].real, &result[R_DIRECTION_W].real, error);
}

/* theta_0 + lambda theta_star into run->target, and the loss there. run->Phi is of theta_0, before and after. */
static mhas_code realize(optimize *run, const double *weight, double lambda, double *loss, mhas_error *error) {
  const int64_t n = run->shape.samples;
  double *Phi = NULL;
  mhas_code code = mhas_alloc(&run->target, (size_t)run->numbers, sizeof(double), "the weights that realize", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&Phi, (size_t)n, sizeof *Phi, "the outputs", error);
  }
  code = mhas_team_agree(&run->task->team, code, error);
  if (code == MHAS_OK) {
    code = mhas_kernel_direction(run, run->theta0, weight, run->target, error);
  }
  for (int64_t i = 0; code == MHAS_OK && i < run->numbers; i++) {
    run->target[i] = run->theta0[i] + lambda * run->target[i];
  }
  if (code == MHAS_OK) {
    code = mhas_selfattention_outputs(run->model, run->target, Phi, error);
  }
  if (code == MHAS_OK) {
    *loss = mhas_logistic_of(n, Phi, run->train.y).loss;
    run->progress.flops += mhas_selfattention_outputs_flops(&run->shape, run->shape.heads);
  }
  mhas_free(Phi);
  return code;
}

/* The training theorem's conditions with theta = run->target, as ratios that it wants to be at most 1. */
static mhas_code fill_conditions(const optimize *run, double D, double loss, double loss0, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  mhas_value *result = run->row->results;
  double B = mhas_selfattention_largest_u(&run->shape, run->heads, run->theta0);
  MHAS_TRY(mhas_optimize_most(run, &B, 1, error));
  const double reach = fmax(5.0, 3.0 + 2.0 * sqrt(loss0)) * D;
  const mhas_selfattention_bounds bounds = mhas_selfattention_bound(&run->shape, run->radius, B + reach);
  const double rho = bounds.b1 * bounds.b1 / 4.0 + bounds.kappa;
  if (run->shape.key_dim > 0) {
    return MHAS_OK;
  }
  result[R_CONDITION_RATIO].real = bounds.kappa * D * D / condition_most;
  if (has_constant_steps(values)) {
    const double slowest = fmax(rho, fmax((double)values[P_STEPS].integer * loss, loss0) / (D * D));
    result[R_STEP_RATIO].real = mhas_optimize_step_size(values) * slowest;
  }
  return MHAS_OK;
}

static mhas_code fill_realizability(optimize *run, const mhas_margins *margins, mhas_error *error) {
  mhas_value *result = run->row->results;
  const double target_loss = run->task->point.values[P_TARGET_LOSS].real;
  double B = 0.0;
  for (int64_t i = 0; i < run->shape.samples; i++) {
    B = fmax(B, fabs(run->Phi[i]));
  }
  const double D = (B + fmax(B, 1.0) - log(target_loss)) / margins->both.lower;
  double loss = NAN;
  MHAS_TRY(realize(run, margins->weight, D, &loss, error));
  result[R_REALIZED_DISTANCE].real = D;
  result[R_REALIZED_LOSS].real = loss;
  result[R_REALIZED].integer = loss <= target_loss;
  return fill_conditions(run, D, loss, mhas_logistic_of(run->shape.samples, run->Phi, run->train.y).loss, error);
}

static mhas_code use_kernel(optimize *run, const mhas_kernel *kernel, mhas_error *error) {
  mhas_value *result = run->row->results;
  mhas_margins margins;
  mhas_code code = mhas_kernel_margins(run, kernel, &margins, error);
  if (code == MHAS_OK) {
    result[R_MARGIN].real = margins.both.lower;
    result[R_MARGIN_UPPER].real = margins.both.upper;
    result[R_MARGIN_U].real = margins.u.lower;
    result[R_MARGIN_W].real = margins.w.lower;
    result[R_NTK_LEAST].real = margins.least;
    result[R_SEPARABLE].integer = mhas_margin_is_there(run, kernel, &margins.both);
    if (result[R_SEPARABLE].integer == 1) {
      code = fill_realizability(run, &margins, error);
    }
  }
  mhas_free(margins.weight);
  return code;
}

mhas_code mhas_optimize_theory_at_init(optimize *run, mhas_error *error) {
  MHAS_TRY(fill_closed(run, error));
  if (run->task->point.values[P_THEORY].integer == OPTIMIZE_NO_THEORY) {
    return MHAS_OK;
  }
  mhas_kernel kernel;
  mhas_code code = mhas_kernel_make(run, run->theta0, &kernel, error);
  if (code == MHAS_OK) {
    code = measure_direction(run, run->gradient, error);
  }
  if (code == MHAS_OK) {
    code = use_kernel(run, &kernel, error);
  }
  mhas_kernel_free(&kernel);
  return code;
}

/* ---- after the last step ------------------------------------------------------------------ */

static mhas_code fill_end_margins(optimize *run, mhas_error *error) {
  mhas_value *result = run->row->results;
  mhas_kernel kernel;
  mhas_margins margins = {0};
  mhas_code code = mhas_kernel_make(run, run->theta, &kernel, error);
  if (code == MHAS_OK) {
    code = mhas_kernel_margins(run, &kernel, &margins, error);
  }
  if (code == MHAS_OK) {
    result[R_MARGIN_END].real = margins.both.lower;
    result[R_MARGIN_END_UPPER].real = margins.both.upper;
    result[R_NTK_LEAST_END].real = margins.least;
  }
  mhas_free(margins.weight);
  mhas_kernel_free(&kernel);
  return code;
}

/* What the training theorem concludes, with theta = run->target. */
static void fill_conclusions(const optimize *run, double eta) {
  mhas_value *result = run->row->results;
  const double K = (double)run->progress.step;
  const double D = result[R_REALIZED_DISTANCE].real;
  result[R_TRAINING_RATIO].real =
      result[R_MEAN_LOSS].real / (1.5 * result[R_REALIZED_LOSS].real + 0.875 * D * D / (eta * K));
  result[R_LOCAL_RATIO].real = run->progress.farthest / (2.0 * D);
  result[R_CONCLUSIONS].integer =
      result[R_TRAINING_RATIO].real <= 1.0 && result[R_LOCAL_RATIO].real <= 1.0 && result[R_MONOTONE].integer == 1;
  result[R_CONDITION_MEASURED].real = result[R_CURVATURE_RATIO].real * D * D / condition_most;
  result[R_LOCALITY].real = result[R_DISTANCE].real * result[R_MARGIN].real / log(fmax(K, 2.0));
}

mhas_code mhas_optimize_theory_at_end(optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  mhas_value *result = run->row->results;
  const double eta = mhas_optimize_step_size(values);
  const double G = run->progress.b1_most;
  if (has_constant_steps(values) && run->target != NULL && run->progress.step > 0) {
    fill_conclusions(run, eta);
  }
  if (run->shape.key_dim == 0) {
    result[R_GAP_BOUND].real = 2.0 * G * result[R_STABILITY].real;
  }
  if (run->shape.key_dim == 0 && has_constant_steps(values)) {
    result[R_GAP_BOUND_LOSSES].real = 2.0 * eta * G * G * result[R_LOSS_SUM].real / (double)run->shape.samples;
  }
  return values[P_THEORY].integer == OPTIMIZE_THEORY_ENDS ? fill_end_margins(run, error) : MHAS_OK;
}

/* ---- cost -------------------------------------------------------------------------------------- */

double mhas_optimize_theory_flops(const mhas_value *values) {
  const mhas_selfattention_shape shape = mhas_optimize_shape(values, values[P_SAMPLES].integer);
  const int64_t when = values[P_THEORY].integer;
  const double kernels = when == OPTIMIZE_NO_THEORY ? 0.0 : when == OPTIMIZE_THEORY_INIT ? 1.0 : 2.0;
  return kernels * mhas_kernel_flops(values) +
         (kernels > 0.0 ? mhas_selfattention_outputs_flops(&shape, shape.heads) : 0.0);
}

double mhas_optimize_theory_bytes(const mhas_value *values, int ranks) {
  return values[P_THEORY].integer == OPTIMIZE_NO_THEORY ? 0.0 : mhas_kernel_bytes(values, ranks);
}
