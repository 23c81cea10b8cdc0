/* What the modified dynamics add: perturbations and birth-death; and the places where training stands still. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "experiments/icl_run.h"

/* ---- perturbations ----------------------------------------------------------- */

static bool is_due(icl *run) {
  const mhas_value *values = run->values;
  icl_state *s = &run->state;
  const int64_t first = values[P_PERTURB_FIRST].integer;
  const int64_t every = values[P_PERTURB_EVERY].integer;
  if (!run->is_modified || values[P_PERTURBATION].integer == PERTURB_NONE || s->step < first || s->settled) {
    return false;
  }
  if (values[P_TRIGGER].integer == TRIGGER_ONCE) {
    return s->step == first;
  }
  if (values[P_TRIGGER].integer == TRIGGER_PERIODIC) {
    return (s->step - first) % every == 0;
  }
  if (!(s->gradient <= values[P_PERTURB_GRADIENT].real) || (s->jumps > 0 && s->step - s->last_jump < every)) {
    return false;
  }
  s->settled = s->jumps > 0 && s->loss_at_jump - s->loss < values[P_PERTURB_DECREASE].real &&
               values[P_PERTURB_DECREASE].real > 0.0;
  return !s->settled;
}

/* Does anything ever jump? If not, an escape is counted from perturb_first. */
static bool never_jumps(const icl *run) {
  return !run->is_modified || run->values[P_PERTURBATION].integer == PERTURB_NONE;
}

static mhas_code mark_origin(icl *run, mhas_error *error) {
  icl_state *s = &run->state;
  mhas_landscape look = {0};
  s->origin = s->step;
  MHAS_TRY(icl_look(run, &look, error));
  s->loss_saddle = run->test.loss_attention;
  s->curvature = look.curvature;
  s->curvature_bound = look.curvature_bound;
  return icl_lambda(run, MHAS_SMALLEST, ICL_LAMBDA_TOLERANCE, &s->lambda_saddle, error);
}

/*
 * theta_i += eta xi_i / rms(xi). Isotropic: xi = N(0, 1). Hessian: xi = H_mu g, which is a Gaussian process with
 * covariance H_mu^2 on the particles, for one product (derived). `test` has been looked at.
 */
static mhas_code jump(icl *run, mhas_error *error) {
  const int n = (int)run->numbers;
  icl_state *s = &run->state;
  double *xi = run->noise;
  mhas_random_normal(run->random, MHAS_STREAM_ICL_NOISE, (uint64_t)(s->jumps * run->numbers), (size_t)run->numbers, xi);
  if (run->values[P_PERTURBATION].integer == PERTURB_HESSIAN) {
    MHAS_TRY(icl_side_forward(&run->test, run->theta, error));
    icl_side_product(&run->test, xi, run->g);
    cblas_dcopy(n, run->g, 1, xi, 1);
    s->flops += icl_product_flops(run->values) + icl_test_flops(run->values);
  }
  const double rms = cblas_dnrm2(n, xi, 1) / sqrt((double)n);
  if (isfinite(rms) && rms > 0.0) {
    cblas_daxpy(n, run->values[P_PERTURBATION_SIZE].real / rms, xi, 1, run->theta, 1);
  }
  if (s->jumps < ICL_JUMPS) {
    s->jump_steps[s->jumps] = s->step;
  }
  s->loss_at_jump = s->loss;
  s->last_jump = s->step;
  s->jumps++;
  return MHAS_OK;
}

mhas_code icl_jump_if_due(icl *run, mhas_error *error) {
  const bool due = is_due(run);
  const bool begins = never_jumps(run) ? run->state.step == run->values[P_PERTURB_FIRST].integer : due;
  if (begins && run->state.origin < 0) {
    MHAS_TRY(mark_origin(run, error));
  }
  return due ? jump(run, error) : MHAS_OK;
}

/* ---- birth and death ------------------------------------------------------------ */

void icl_draw_neurons(const icl *run, mhas_stream a_stream, mhas_stream w_stream, int64_t index, int64_t first,
                      int64_t count) {
  const int64_t d = run->test.d;
  double *a = run->theta + first * run->k;
  double *w = run->theta + run->test.M * run->k + first * d;
  mhas_random_normal(run->random, a_stream, (uint64_t)(index * run->k), (size_t)(count * run->k), a);
  mhas_random_normal(run->random, w_stream, (uint64_t)(index * d), (size_t)(count * d), w);
  cblas_dscal((int)(count * run->k), run->values[P_INIT_SCALE].real, a, 1);
}

/* Of the whole initial law, whatever the task has made of the start. */
void icl_redraw(icl *run) {
  enum { BATCH = 256 };
  const int64_t M = run->test.M;
  const double share = run->values[P_BIRTH_DEATH].real * run->values[P_STEP_SIZE].real;
  double draws[BATCH];
  if (!run->is_modified || share == 0.0) {
    return;
  }
  for (int64_t first = 0; first < M; first += BATCH) {
    const int64_t count = M - first < BATCH ? M - first : BATCH;
    const int64_t index = run->state.step * M + first;
    mhas_random_uniform(run->random, MHAS_STREAM_ICL_BIRTH, (uint64_t)index, (size_t)count, draws);
    for (int64_t i = 0; i < count; i++) {
      if (draws[i] < share) {
        icl_draw_neurons(run, MHAS_STREAM_ICL_BIRTH_A, MHAS_STREAM_ICL_BIRTH_W, index + i, first + i, 1);
      }
    }
  }
}

/* ---- plateaus and the escape ------------------------------------------------------- */

void icl_close_plateau(icl *run, int64_t step) {
  icl_state *s = &run->state;
  if (s->plateau_from >= 0 && step - s->plateau_from >= run->values[P_PLATEAU_STEPS].integer) {
    if (s->plateaus < ICL_PLATEAUS) {
      double *found = s->plateau_found[s->plateaus];
      found[0] = (double)s->plateau_from;
      found[1] = (double)step;
      found[2] = s->plateau_loss;
    }
    s->plateaus++;
  }
  s->plateau_from = -1;
}

void icl_observe(icl *run, int64_t step, double loss, double gradient) {
  icl_state *s = &run->state;
  s->loss = loss;
  s->gradient = gradient;
  if (s->origin >= 0 && s->escape_step < 0 && loss < run->values[P_ESCAPE_LEVEL].real * s->loss_saddle) {
    s->escape_step = step - s->origin;
  }
  if (gradient > run->values[P_PLATEAU_GRADIENT].real) {
    icl_close_plateau(run, step);
    return;
  }
  if (s->plateau_from < 0) {
    s->plateau_from = step;
    s->plateau_gradient = INFINITY;
  }
  if (gradient < s->plateau_gradient) {
    s->plateau_gradient = gradient;
    s->plateau_loss = loss;
  }
}
