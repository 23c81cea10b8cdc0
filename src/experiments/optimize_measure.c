/* What is measured at a logged step. */
#include <math.h>
#include <string.h>

#include "experiments/all.h"
#include "experiments/optimize.h"

/* All of it, NaN where it does not apply. */
typedef struct measured {
  mhas_logistic train, clean, test;
  double distance, gradient_norm, mass, spread;
  mhas_selfattention_bounds bounds;
  optimize_eigenvalues eigen;
} measured;

static bool wants_eigenvalues(const optimize *run) {
  const mhas_value *values = run->task->point.values;
  return values[P_EIGENVALUES].integer == OPTIMIZE_LOGGED ||
         (values[P_EIGENVALUES].integer == OPTIMIZE_AT_END && run->progress.step == values[P_STEPS].integer);
}

static mhas_code measure_test(optimize *run, mhas_logistic *test, mhas_error *error) {
  *test = (mhas_logistic){NAN, NAN, NAN};
  if (run->tester == NULL) {
    return MHAS_OK;
  }
  const mhas_selfattention_shape shape = mhas_optimize_shape(run->task->point.values, run->test.samples);
  MHAS_TRY(mhas_selfattention_outputs(run->tester, run->theta, run->Phi_test, error));
  *test = mhas_logistic_of(run->test.samples, run->Phi_test, run->test.y);
  run->progress.flops += mhas_selfattention_outputs_flops(&shape, shape.heads);
  return MHAS_OK;
}

static mhas_code measure_mass(optimize *run, double *mass, mhas_error *error) {
  *mass = NAN;
  if (run->train.relevant == NULL) {
    return MHAS_OK;
  }
  run->progress.flops += mhas_selfattention_outputs_flops(&run->shape, run->shape.heads);
  return mhas_selfattention_mass(run->model, run->theta, run->train.relevant, mass, error);
}

/* What a head has of each array in theta: where the array starts, and a head's numbers. */
typedef struct head_part {
  int64_t start, numbers;
} head_part;

enum { PARTS = 3 };
static int head_parts(const optimize *run, head_part parts[PARTS]) {
  const int64_t u = run->shape.tokens * run->shape.dim;
  const int64_t d = run->shape.dim;
  const int64_t d_k = run->shape.key_dim;
  parts[0] = (head_part){0, u};
  parts[1] = (head_part){run->heads * u, d_k > 0 ? d * d_k : d * d};
  parts[2] = (head_part){run->heads * (u + d * d_k), d * d_k};
  return d_k > 0 ? 3 : 2;
}

/* The sum of ||theta_h - mean||^2 as sum ||delta_h||^2 - ||sum delta_h||^2 / H with delta_h = theta_h - theta_1, so
 * that heads that are equal have no spread at all. */
static mhas_code measure_spread(const optimize *run, double *spread, mhas_error *error) {
  head_part parts[PARTS];
  const int count = head_parts(run, parts);
  const int64_t numbers = mhas_selfattention_numbers(&run->shape, 1);
  double *first = run->head;
  double *sum = run->head + numbers;
  double squares[2] = {0.0, 0.0}; /* of heads, of deltas */
  int64_t at = 0;
  for (int i = 0; i < count; at += parts[i].numbers, i++) {
    memcpy(first + at, run->theta + parts[i].start, (size_t)parts[i].numbers * sizeof *first);
  }
  MHAS_TRY(mhas_team_share(&run->task->team, first, (size_t)numbers * sizeof *first, error));
  memset(sum, 0, (size_t)numbers * sizeof *sum);
  at = 0;
  for (int i = 0; i < count; at += parts[i].numbers, i++) {
    for (int64_t j = 0; j < run->heads * parts[i].numbers; j++) {
      const int64_t place = at + j % parts[i].numbers;
      const double value = run->theta[parts[i].start + j];
      const double delta = value - first[place];
      sum[place] += delta;
      squares[0] += value * value;
      squares[1] += delta * delta;
    }
  }
  MHAS_TRY(mhas_optimize_sum(run, sum, numbers, error));
  MHAS_TRY(mhas_optimize_sum(run, squares, 2, error));
  for (int64_t j = 0; j < numbers; j++) {
    squares[1] -= sum[j] * sum[j] / (double)run->shape.heads;
  }
  *spread = squares[0] > 0.0 ? sqrt(fmax(squares[1], 0.0) / squares[0]) : 0.0;
  return MHAS_OK;
}

/* Bounds speak of W as a matrix of its own. */
static mhas_code measure_bounds(const optimize *run, mhas_selfattention_bounds *bounds, mhas_error *error) {
  double B = mhas_selfattention_largest_u(&run->shape, run->heads, run->theta);
  *bounds = (mhas_selfattention_bounds){NAN, NAN};
  MHAS_TRY(mhas_optimize_most(run, &B, 1, error));
  if (run->shape.key_dim == 0) {
    *bounds = mhas_selfattention_bound(&run->shape, run->radius, B);
  }
  return MHAS_OK;
}

static mhas_code measure(optimize *run, measured *m, mhas_error *error) {
  m->train = mhas_logistic_of(run->shape.samples, run->Phi, run->train.y);
  m->clean = mhas_logistic_of(run->shape.samples, run->Phi, run->train.clean);
  m->eigen = (optimize_eigenvalues){NAN, NAN, NAN, NAN, NAN};
  MHAS_TRY(mhas_optimize_norm(run, run->theta, run->theta0, &m->distance, error));
  MHAS_TRY(mhas_optimize_norm(run, run->gradient, NULL, &m->gradient_norm, error));
  MHAS_TRY(measure_test(run, &m->test, error));
  MHAS_TRY(measure_mass(run, &m->mass, error));
  MHAS_TRY(measure_spread(run, &m->spread, error));
  MHAS_TRY(measure_bounds(run, &m->bounds, error));
  return wants_eigenvalues(run) ? mhas_optimize_eigenvalues(run, &m->eigen, error) : MHAS_OK;
}

/* ---- what is kept of it ------------------------------------------------------------ */

/* The larger one; NaN counts as not measured. Of losses that are 0 there is no ratio. */
static double larger(double most, double value) { return isfinite(value) ? fmax(most, value) : most; }

static void keep_extremes(optimize *run, const measured *m) {
  optimize_progress *p = &run->progress;
  const double loss = m->train.loss;
  const double top = m->bounds.b1 * m->bounds.b1 / 4.0 + m->bounds.kappa * fmin(1.0, loss);
  p->b1_most = larger(p->b1_most, m->bounds.b1);
  p->self_bound = larger(p->self_bound, m->gradient_norm / (m->bounds.b1 * loss));
  p->weak_convexity = larger(p->weak_convexity, -m->eigen.least / (m->bounds.kappa * loss));
  p->curvature_ratio = larger(p->curvature_ratio, -m->eigen.least / loss);
  p->smoothness = larger(p->smoothness, m->eigen.most / top);
}

static void record(const optimize *run, const measured *m) {
  const double loss = m->train.loss;
  const double values[C_COUNT] = {
      [C_STEP] = (double)run->progress.step, [C_TRAIN_LOSS] = loss,
      [C_TEST_LOSS] = m->test.loss,          [C_TRAIN_ERROR] = m->train.error,
      [C_TEST_ERROR] = m->test.error,        [C_DISTANCE] = m->distance,
      [C_GRADIENT_NORM] = m->gradient_norm,  [C_GRADIENT_RATIO] = m->gradient_norm / (m->bounds.b1 * loss),
      [C_LAMBDA_MIN] = m->eigen.least,       [C_LAMBDA_MAX] = m->eigen.most,
      [C_LAMBDA_BLOCKS] = m->eigen.blocks,   [C_CURVATURE_RATIO] = -m->eigen.least / (m->bounds.kappa * loss),
      [C_ATTENTION_MASS] = m->mass,          [C_HEAD_SPREAD] = m->spread,
  };
  mhas_row_record(&mhas_experiment_optimize, run->row, run->progress.records, values);
}

/* What was never measured stays NaN: the row starts so. */
static void fill_bounds(const optimize *run, mhas_value *result) {
  const optimize_progress *p = &run->progress;
  const bool eigenvalues = run->task->point.values[P_EIGENVALUES].integer != OPTIMIZE_NEVER;
  if (run->shape.key_dim == 0) {
    result[R_SELF_BOUND].real = p->self_bound;
  }
  if (eigenvalues) {
    result[R_CURVATURE_RATIO].real = p->curvature_ratio;
  }
  if (eigenvalues && run->shape.key_dim == 0) {
    result[R_WEAK_CONVEXITY].real = p->weak_convexity;
    result[R_SMOOTHNESS].real = p->smoothness;
  }
}

static void fill_results(const optimize *run, const measured *m) {
  mhas_value *result = run->row->results;
  result[R_TRAIN_LOSS].real = m->train.loss;
  result[R_TRAIN_ERROR].real = m->train.error;
  result[R_TRAIN_ERROR_CLEAN].real = m->clean.error;
  result[R_TEST_LOSS].real = m->test.loss;
  result[R_TEST_ERROR].real = m->test.error;
  result[R_GAP].real = m->test.loss - m->train.loss;
  result[R_PARAMETERS].integer = run->shape.copies * mhas_selfattention_numbers(&run->shape, run->shape.heads);
  result[R_DISTANCE].real = m->distance;
  result[R_GRADIENT_NORM].real = m->gradient_norm;
  result[R_ATTENTION_MASS].real = m->mass;
  result[R_HEAD_SPREAD].real = m->spread;
  result[R_LAMBDA_MIN].real = m->eigen.least;
  result[R_LAMBDA_MIN_RESIDUAL].real = m->eigen.least_residual;
  result[R_LAMBDA_BLOCKS].real = m->eigen.blocks;
  result[R_LAMBDA_MAX].real = m->eigen.most;
  result[R_LAMBDA_MAX_RESIDUAL].real = m->eigen.most_residual;
  fill_bounds(run, result);
}

mhas_code mhas_optimize_measure(optimize *run, mhas_error *error) {
  measured m;
  double away = 0.0;
  MHAS_TRY(measure(run, &m, error));
  if (run->target != NULL) {
    MHAS_TRY(mhas_optimize_norm(run, run->theta, run->target, &away, error));
    run->progress.farthest = fmax(run->progress.farthest, away);
  }
  keep_extremes(run, &m);
  record(run, &m);
  run->progress.records++;
  if (run->progress.step == run->task->point.values[P_STEPS].integer) {
    fill_results(run, &m);
  }
  return MHAS_OK;
}
