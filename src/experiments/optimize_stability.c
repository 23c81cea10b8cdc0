/* How far gradient descent gets from its way if one sample is left out (on-average stability). */
#include <math.h>
#include <string.h>

#include "experiments/optimize.h"

/* The i-th sample that is left out: of all, or of a random choice. */
static mhas_code sample_left_out(const optimize *run, int64_t i, int64_t *sample, mhas_error *error) {
  const int64_t n = run->shape.samples;
  int64_t *order = NULL;
  *sample = i;
  if (mhas_optimize_left_out(run->task->point.values) == n) {
    return MHAS_OK;
  }
  mhas_code code = mhas_alloc(&order, (size_t)n, sizeof *order, "the samples to leave out", error);
  if (code == MHAS_OK) {
    mhas_random_permutation(run->task->point.random, MHAS_STREAM_LEFT_OUT, 0, (size_t)n, order);
    *sample = order[i];
  }
  mhas_free(order);
  return mhas_team_agree(&run->task->team, code, error);
}

/* The mean over all n of the losses of the others. */
static double loss_without(const optimize *run, int64_t sample) {
  const double n = (double)run->shape.samples;
  return mhas_logistic_of(run->shape.samples, run->Phi, run->train.y).loss -
         mhas_logistic_of(1, run->Phi + sample, run->train.y + sample).loss / n;
}

/* The training without `sample`, from where it was. */
static mhas_code train_without(optimize *run, int64_t sample, mhas_error *error) {
  const int64_t K = run->task->point.values[P_STEPS].integer;
  optimize_progress *p = &run->progress;
  mhas_piece pieces[OPTIMIZE_PIECES];
  const int count = mhas_optimize_pieces(run, pieces);
  while (p->left_out_step < K) {
    MHAS_TRY(mhas_task_proceed(run->task, pieces, count, error));
    if (p->left_out_step == 0) {
      memcpy(run->left, run->theta0, (size_t)run->numbers * sizeof *run->left);
    }
    MHAS_TRY(mhas_selfattention_gradient(run->model, run->left, sample, run->gradient, run->Phi, error));
    const double loss = loss_without(run, sample);
    MHAS_TRY(mhas_optimize_check_loss(run, p->left_out_step, loss, error));
    MHAS_TRY(mhas_optimize_descend(run, loss, run->gradient, run->left, error));
    p->flops += mhas_selfattention_gradient_flops(&run->shape, run->shape.heads);
    p->left_out_step++;
  }
  return MHAS_OK;
}

/* Distance by (eta G / n) sum_{k < K} of the losses, where that is what the bound speaks of. */
static double factor_of_bound(const optimize *run) {
  const mhas_value *values = run->task->point.values;
  const int64_t rule = values[P_STEP_RULE].integer;
  if (run->shape.key_dim > 0 || rule == OPTIMIZE_NORMALISED || rule == OPTIMIZE_POLYAK) {
    return NAN;
  }
  return mhas_optimize_step_size(values) * run->progress.b1_most / (double)run->shape.samples;
}

static void fill(optimize *run) {
  const optimize_progress *p = &run->progress;
  mhas_value *result = run->row->results;
  result[R_STABILITY].real = p->left_out_sum / (double)mhas_optimize_left_out(run->task->point.values);
  result[R_STABILITY_BOUND].real = factor_of_bound(run) * p->loss_sum;
  if (isfinite(factor_of_bound(run)) && run->task->point.values[P_STEPS].integer > 0) {
    result[R_STABILITY_WORST].real = p->left_out_worst;
  }
}

mhas_code mhas_optimize_stability(optimize *run, mhas_error *error) {
  optimize_progress *p = &run->progress;
  const int64_t trainings = mhas_optimize_left_out(run->task->point.values);
  if (trainings == 0) {
    return MHAS_OK;
  }
  while (p->left_out < trainings) {
    int64_t sample = 0;
    double distance = 0.0;
    MHAS_TRY(sample_left_out(run, p->left_out, &sample, error));
    MHAS_TRY(train_without(run, sample, error));
    MHAS_TRY(mhas_optimize_norm(run, run->left, run->theta, &distance, error));
    p->left_out_sum += distance;
    p->left_out_worst = fmax(p->left_out_worst, distance / (factor_of_bound(run) * run->own_loss[sample]));
    p->left_out++;
    p->left_out_step = 0;
  }
  fill(run);
  return MHAS_OK;
}
