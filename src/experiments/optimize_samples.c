/* Samples of the experiment optimize: the tokenized mixture, and what all kinds of samples have in common. */
#include <math.h>
#include <string.h>

#include "experiments/optimize.h"

enum { SAMPLES_BITS = 30 }; /* of a sample's number in its set */

uint64_t mhas_sample_number(mhas_set set, int64_t i) { return (uint64_t)set << SAMPLES_BITS | (uint64_t)i; }

void mhas_mixture_free(mhas_mixture *mixture) {
  mhas_free(mixture->mu);
  mhas_free(mixture->nu);
  *mixture = (mhas_mixture){0};
}

void mhas_labelled_free(mhas_labelled *set) {
  mhas_free(set->X);
  mhas_free(set->y);
  mhas_free(set->clean);
  mhas_free(set->relevant);
  *set = (mhas_labelled){0};
}

/* ---- the mixture's vectors -------------------------------------------------------- */

static void subtract_part(int64_t d, const double *unit, double *vector) {
  double part = 0.0;
  for (int64_t i = 0; i < d; i++) {
    part += unit[i] * vector[i];
  }
  for (int64_t i = 0; i < d; i++) {
    vector[i] -= part * unit[i];
  }
}

/* Gram and Schmidt, twice, which makes them orthogonal to rounding (Parlett, "twice is enough"). */
static void orthonormalise(int64_t count, int64_t d, double *vectors) {
  for (int64_t k = 0; k < count; k++) {
    double *vector = vectors + k * d;
    for (int64_t j = 0; j < 2 * k; j++) {
      subtract_part(d, vectors + j % k * d, vector);
    }
    double squares = 0.0;
    for (int64_t i = 0; i < d; i++) {
      squares += vector[i] * vector[i];
    }
    for (int64_t i = 0; i < d; i++) {
      vector[i] /= sqrt(squares);
    }
  }
}

mhas_code mhas_mixture_draw(const mhas_value *values, mhas_random random, mhas_mixture *mixture, mhas_error *error) {
  const int64_t d = values[P_DIM].integer;
  const int64_t M = values[P_PROTOTYPES].integer;
  const double S = values[P_SIGNAL].real;
  double *basis = NULL;
  MHAS_TRY(mhas_alloc(&mixture->mu, (size_t)(2 * d), sizeof(double), "the signals", error));
  MHAS_TRY(mhas_alloc(&mixture->nu, (size_t)(M * d), sizeof(double), "the prototypes", error));
  MHAS_TRY(mhas_alloc(&basis, (size_t)((2 + M) * d), sizeof *basis, "orthogonal vectors", error));
  mhas_random_normal(random, MHAS_STREAM_MIX_BASIS, 0, (size_t)((2 + M) * d), basis);
  orthonormalise(2 + M, d, basis);
  for (int64_t i = 0; i < (2 + M) * d; i++) {
    basis[i] *= S;
  }
  memcpy(mixture->mu, basis, (size_t)(2 * d) * sizeof *basis);
  memcpy(mixture->nu, basis + 2 * d, (size_t)(M * d) * sizeof *basis);
  mhas_free(basis);
  return MHAS_OK;
}

/* ---- the mixture's samples --------------------------------------------------------- */

static double draw_label(const mhas_maker *maker, int64_t i, uint64_t number) {
  int64_t minus = i % 2;
  if (maker->task->point.values[P_MIXING].integer == OPTIMIZE_MIX_RANDOM) {
    mhas_random_below(maker->task->point.random, MHAS_STREAM_MIX_LABEL, number, 1, 2, &minus);
  }
  return minus == 0 ? 1.0 : -1.0;
}

/* An irrelevant token: the k-th one of its sample, at position t. */
static void draw_token(const mhas_maker *maker, uint64_t number, int64_t k, int64_t t, double *x) {
  const mhas_value *values = maker->task->point.values;
  const mhas_random random = maker->task->point.random;
  const int64_t d = values[P_DIM].integer;
  const uint64_t T = (uint64_t)values[P_TOKENS].integer;
  const double sigma = values[P_NOISE].real;
  int64_t prototype = k % values[P_PROTOTYPES].integer;
  if (values[P_MIXING].integer == OPTIMIZE_MIX_RANDOM) {
    mhas_random_below(random, MHAS_STREAM_MIX_PROTOTYPE, number * T + (uint64_t)k, 1,
                      (uint64_t)values[P_PROTOTYPES].integer, &prototype);
  }
  if (sigma > 0.0) {
    mhas_random_normal(random, MHAS_STREAM_MIX_NOISE, (number * T + (uint64_t)t) * (uint64_t)d, (size_t)d, x);
  }
  for (int64_t i = 0; i < d; i++) {
    x[i] = maker->mixture->nu[prototype * d + i] + sigma * x[i];
  }
}

static mhas_code mixture_samples(const mhas_maker *maker, mhas_set set, mhas_labelled *made, mhas_error *error) {
  const mhas_value *values = maker->task->point.values;
  const int64_t T = values[P_TOKENS].integer;
  const int64_t d = values[P_DIM].integer;
  const int64_t relevant = mhas_optimize_relevant(values);
  int64_t *order = NULL;
  MHAS_TRY(mhas_alloc(&made->relevant, (size_t)(made->samples * T), sizeof(double), "relevant tokens", error));
  MHAS_TRY(mhas_alloc(&order, (size_t)T, sizeof *order, "positions of tokens", error));
  for (int64_t i = 0; i < made->samples; i++) {
    const uint64_t number = mhas_sample_number(set, i);
    made->clean[i] = draw_label(maker, i, number);
    mhas_random_permutation(maker->task->point.random, MHAS_STREAM_MIX_POSITION, number, (size_t)T, order);
    for (int64_t k = 0; k < T; k++) {
      double *x = made->X + (i * T + order[k]) * d;
      if (k < relevant) {
        memcpy(x, maker->mixture->mu + (made->clean[i] > 0.0 ? 0 : d), (size_t)d * sizeof *x);
        made->relevant[i * T + order[k]] = 1.0;
      } else {
        draw_token(maker, number, k - relevant, order[k], x);
      }
    }
  }
  mhas_free(order);
  return MHAS_OK;
}

/* ---- all kinds ---------------------------------------------------------------------- */

/* Flips labels that are trained on; those of tests stay. */
static void flip(const mhas_maker *maker, mhas_set set, mhas_labelled *made) {
  const double share = maker->task->point.values[P_LABEL_NOISE].real;
  memcpy(made->y, made->clean, (size_t)made->samples * sizeof *made->y);
  for (int64_t i = 0; i < made->samples && set != MHAS_SET_TEST && share > 0.0; i++) {
    double chance = 0.0;
    mhas_random_uniform(maker->task->point.random, MHAS_STREAM_FLIP, mhas_sample_number(set, i), 1, &chance);
    made->y[i] = chance < share ? -made->clean[i] : made->clean[i];
  }
}

static mhas_code allocate(const mhas_value *values, mhas_labelled *made, mhas_error *error) {
  const size_t samples = (size_t)made->samples;
  const size_t numbers = (size_t)(values[P_TOKENS].integer * values[P_DIM].integer);
  MHAS_TRY(mhas_alloc(&made->X, samples * numbers, sizeof(double), "the samples", error));
  MHAS_TRY(mhas_alloc(&made->y, samples, sizeof(double), "the labels", error));
  return mhas_alloc(&made->clean, samples, sizeof(double), "the labels before noise", error);
}

mhas_code mhas_labelled_make(const mhas_maker *maker, mhas_set set, int64_t samples, mhas_labelled *made,
                             mhas_error *error) {
  const mhas_value *values = maker->task->point.values;
  const mhas_team *team = &maker->task->team;
  made->samples = samples;
  mhas_code code = mhas_team_agree(team, allocate(values, made, error), error);
  MHAS_TRY(code);
  switch (values[P_DATA].integer) {
    case OPTIMIZE_DM1: code = mixture_samples(maker, set, made, error); break;
    case OPTIMIZE_PLANTED: code = mhas_planted_samples(maker, set, made, error); break;
    default: code = mhas_file_samples(maker, set, made, error);
  }
  code = mhas_team_agree(team, code, error);
  if (code == MHAS_OK) {
    flip(maker, set, made);
  }
  return code;
}
