/* Gaussian tokens with the labels of a planted model. */
#include <math.h>

#include "experiments/optimize.h"

enum { TRIES = 1024 }; /* of a sample, to keep the margin */

void mhas_planted_free(mhas_planted *planted) {
  mhas_free(planted->theta);
  planted->theta = NULL;
}

static void make_unit(int64_t count, double *values) {
  double squares = 0.0;
  for (int64_t i = 0; i < count; i++) {
    squares += values[i] * values[i];
  }
  for (int64_t i = 0; i < count; i++) {
    values[i] /= sqrt(squares);
  }
}

/* A logit x^T W x' has deviation |x| |x'| times that of W's entries. */
mhas_code mhas_planted_draw(const mhas_value *values, mhas_random random, mhas_planted *planted, mhas_error *error) {
  const int64_t heads = values[P_PLANTED_HEADS].integer;
  const double S = values[P_SIGNAL].real;
  const double deviation = values[P_PLANTED_LOGIT].real / (S * S);
  planted->shape = (mhas_selfattention_shape){
      .samples = 1, .tokens = values[P_TOKENS].integer, .dim = values[P_DIM].integer, .heads = heads, .copies = 1};
  const int64_t u = mhas_selfattention_numbers_u(&planted->shape, heads);
  const int64_t w = mhas_selfattention_numbers_w(&planted->shape, heads);
  MHAS_TRY(mhas_alloc(&planted->theta, (size_t)(u + w), sizeof(double), "the planted model", error));
  mhas_random_normal(random, MHAS_STREAM_PLANTED_U, 0, (size_t)u, planted->theta);
  mhas_random_normal(random, MHAS_STREAM_PLANTED_W, 0, (size_t)w, planted->theta + u);
  for (int64_t h = 0; h < heads; h++) {
    make_unit(u / heads, planted->theta + h * (u / heads));
  }
  for (int64_t i = 0; i < w; i++) {
    planted->theta[u + i] *= deviation;
  }
  return MHAS_OK;
}

/* Draws x (T, d), which `model` looks at, until the planted model is sure enough of it. */
static mhas_code draw(const mhas_maker *maker, mhas_selfattention *model, uint64_t number, double *x, double *Phi,
                      mhas_error *error) {
  const mhas_value *values = maker->task->point.values;
  const int64_t numbers = values[P_TOKENS].integer * values[P_DIM].integer;
  const double deviation = values[P_SIGNAL].real / sqrt((double)values[P_DIM].integer);
  MHAS_TRY(maker->task->proceed(maker->task->context, error));
  for (uint64_t try = 0; try < TRIES; try++) {
    mhas_random_normal(maker->task->point.random, MHAS_STREAM_MIX_NOISE, (number * TRIES + try) * (uint64_t)numbers,
                       (size_t)numbers, x);
    for (int64_t i = 0; i < numbers; i++) {
      x[i] *= deviation;
    }
    mhas_selfattention_show(model, x);
    MHAS_TRY(mhas_selfattention_outputs(model, maker->planted->theta, Phi, error));
    if (fabs(*Phi) >= values[P_PLANTED_MARGIN].real && *Phi != 0.0) {
      return MHAS_OK;
    }
  }
  return mhas_fail(error, MHAS_NUMERIC, "planted_margin = %g: none of %d samples had it; take less",
                   values[P_PLANTED_MARGIN].real, TRIES);
}

mhas_code mhas_planted_samples(const mhas_maker *maker, mhas_set set, mhas_labelled *made, mhas_error *error) {
  const mhas_value *values = maker->task->point.values;
  const int64_t numbers = values[P_TOKENS].integer * values[P_DIM].integer;
  mhas_selfattention *model = NULL;
  mhas_code code =
      mhas_selfattention_create(&maker->planted->shape, MHAS_OUTPUTS, made->X, NULL, MPI_COMM_NULL, &model, error);
  code = mhas_team_agree(&maker->task->team, code, error);
  for (int64_t i = 0; i < made->samples && code == MHAS_OK; i++) {
    double Phi = 0.0;
    code = draw(maker, model, mhas_sample_number(set, i), made->X + i * numbers, &Phi, error);
    made->clean[i] = Phi > 0.0 ? 1.0 : -1.0;
  }
  mhas_selfattention_destroy(model);
  return code;
}
