/* What is learned in context: new tasks on new tokens; and prompts of finite length, by sampling. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "experiments/icl_run.h"
#include "model/meanfield_algebra.h"

enum { NEW_NEURONS = 64 }; /* of the random networks that new tasks come from */

/* Makes the mean square of `count` numbers, `stride` apart, 1. */
static void make_unit(int64_t count, int64_t stride, double *x) {
  const double size = cblas_dnrm2((int)count, x, (int)stride) / sqrt((double)count);
  cblas_dscal((int)count, 1.0 / size, x, (int)stride);
}

/* G (N, tasks): outputs of a random network of neurons sigmoid - 1/2. */
static mhas_code draw_networks(const icl *run, int64_t tasks, double *G, mhas_error *error) {
  const icl_side *t = &run->test;
  const mhas_meanfield_shape shape = {
      .tokens = t->N, .neurons = NEW_NEURONS, .dim = t->d, .features = tasks, .neuron = MHAS_SIGMOID};
  const size_t a_count = (size_t)(NEW_NEURONS * tasks);
  const size_t w_count = (size_t)(NEW_NEURONS * t->d);
  mhas_meanfield *mlp = NULL;
  double *a = NULL;
  MHAS_TRY(mhas_alloc(&a, a_count + w_count, sizeof *a, "the new tasks", error));
  const mhas_code code = mhas_meanfield_create(&shape, MHAS_FLOAT64, &mlp, error);
  if (code == MHAS_OK) {
    mhas_random_normal(run->random, MHAS_STREAM_ICL_NEW_A, 0, a_count, a);
    mhas_random_normal(run->random, MHAS_STREAM_ICL_NEW_W, 0, w_count, a + a_count);
    mhas_meanfield_forward(mlp, a, a + a_count, t->X, G);
  }
  for (int64_t j = 0; code == MHAS_OK && j < tasks; j++) {
    double middle = 0.0;
    for (int64_t i = 0; i < NEW_NEURONS; i++) {
      middle += 0.5 * a[i * tasks + j] / NEW_NEURONS;
    }
    for (int64_t i = 0; i < t->N; i++) {
      G[i * tasks + j] -= middle;
    }
  }
  mhas_meanfield_destroy(mlp);
  mhas_free(a);
  return code;
}

/* G (N, tasks): sqrt(1 - shift^2) v . f + shift network, each of unit norm, and then the sum. */
static mhas_code draw_new_tasks(const icl *run, int64_t tasks, double *G, mhas_error *error) {
  const icl_side *t = &run->test;
  const double shift = run->values[P_TASK_SHIFT].real;
  double v[MHAS_LADDER_MOST]; /* there are no more true features */
  double *old = NULL;
  MHAS_TRY(draw_networks(run, tasks, G, error));
  MHAS_TRY(mhas_alloc(&old, (size_t)t->N, sizeof *old, "the new tasks", error));
  for (int64_t j = 0; j < tasks; j++) {
    mhas_random_normal(run->random, MHAS_STREAM_ICL_NEW_MIX, (uint64_t)(j * run->k0), (size_t)run->k0, v);
    small_multiply(AS_IS, AS_IS, t->N, 1, run->k0, 1.0, t->F, v, 0.0, old);
    make_unit(t->N, 1, old);
    make_unit(t->N, tasks, G + j);
    cblas_dscal((int)t->N, shift, G + j, (int)tasks);
    cblas_daxpy((int)t->N, sqrt(1.0 - shift * shift), old, 1, G + j, (int)tasks);
    make_unit(t->N, tasks, G + j);
  }
  mhas_free(old);
  return MHAS_OK;
}

/* Mean square, over tokens and tasks, of G - features M^T; M (tasks, width). */
static double mean_square(int64_t tokens, int64_t tasks, int64_t width, const double *features, const double *M,
                          double *G) {
  small_multiply(AS_IS, TURNED, tokens, tasks, width, -1.0, features, M, 1.0, G);
  return small_inner(tokens * tasks, G, G) / ((double)tokens * (double)tasks);
}

typedef struct transfer {
  int64_t tasks;
  double *G, *rest;        /* (N, tasks) */
  double *W;               /* (k, k) */
  double *cross, *readout; /* (tasks, width) */
  double *inverse, *values, *work;
} transfer;

static mhas_code judge_new_tasks(icl *run, transfer *t, double *icl_error, double *projection_error,
                                 mhas_error *error) {
  icl_side *test = &run->test;
  const int64_t N = test->N;
  const size_t bytes = (size_t)(N * t->tasks) * sizeof(double);
  int64_t rank = 0;
  memcpy(t->W, run->has_attention ? run->W : test->moments.S_inverse, (size_t)(run->k * run->k) * sizeof(double));
  icl_side_draw(test, &run->teacher, MHAS_STREAM_ICL_NEW_TOKENS, 0);
  MHAS_TRY(icl_side_forward(test, run->theta, error));
  MHAS_TRY(draw_new_tasks(run, t->tasks, t->G, error));
  small_multiply(TURNED, AS_IS, t->tasks, run->k, N, 1.0 / (double)N, t->G, test->h, 0.0, t->cross);
  small_multiply(AS_IS, AS_IS, t->tasks, run->k, run->k, 1.0, t->cross, t->W, 0.0, t->readout);
  memcpy(t->rest, t->G, bytes);
  *icl_error = mean_square(N, t->tasks, run->k, test->h, t->readout, t->rest);
  small_multiply(TURNED, AS_IS, t->tasks, run->k0, N, 1.0 / (double)N, t->G, test->F, 0.0, t->cross);
  MHAS_TRY(mhas_small_inverse("S0 = E[f f^T]", run->k0, test->moments.S0, 0.0, 1e-13, t->inverse, t->values, &rank,
                              t->work, error));
  small_multiply(AS_IS, AS_IS, t->tasks, run->k0, run->k0, 1.0, t->cross, t->inverse, 0.0, t->readout);
  memcpy(t->rest, t->G, bytes);
  *projection_error = mean_square(N, t->tasks, run->k0, test->F, t->readout, t->rest);
  return MHAS_OK;
}

mhas_code icl_new_tasks(icl *run, double *icl_error, double *projection_error, mhas_error *error) {
  const int64_t width = run->k > run->k0 ? run->k : run->k0;
  const int64_t tasks = run->values[P_TEST_TASKS].integer;
  const int64_t G = run->test.N * tasks;
  transfer t = {.tasks = tasks};
  double *all = NULL;
  MHAS_TRY(mhas_alloc(&all, (size_t)(2 * G + 2 * tasks * width + 2 * width * width + width + small_eigen_work(width)),
                      sizeof *all, "the new tasks", error));
  t.G = all;
  t.rest = t.G + G;
  t.cross = t.rest + G;
  t.readout = t.cross + tasks * width;
  t.W = t.readout + tasks * width;
  t.inverse = t.W + width * width;
  t.values = t.inverse + width * width;
  t.work = t.values + width;
  const mhas_code code = judge_new_tasks(run, &t, icl_error, projection_error, error);
  mhas_free(all);
  return code;
}

/* ---- finite prompts ---------------------------------------------------------------- */

typedef struct sampling {
  int64_t n;
  int64_t *picks;           /* (n): tokens of a prompt */
  double *C, *CW, *through; /* (k0, k): (1/n) sum f h^T; that times W; that times S */
} sampling;

/* The loss of one prompt at W, in the mean over queries and tasks: 1/2 tr(S0) - tr(C_n W C^T) + 1/2 tr(C_n W S ...). */
static double prompt_loss(const icl *run, sampling *s, uint64_t draw, const double *W) {
  const icl_side *t = &run->test;
  const int64_t k = run->k;
  const int64_t k0 = run->k0;
  mhas_random_below(run->random, MHAS_STREAM_ICL_PROMPTS, draw * (uint64_t)s->n, (size_t)s->n, (uint64_t)t->N,
                    s->picks);
  memset(s->C, 0, (size_t)(k0 * k) * sizeof *s->C);
  for (int64_t p = 0; p < s->n; p++) {
    const double *f = t->F + s->picks[p] * k0;
    const double *h = t->h + s->picks[p] * k;
    for (int64_t i = 0; i < k0; i++) {
      for (int64_t j = 0; j < k; j++) {
        s->C[i * k + j] += f[i] * h[j] / (double)s->n;
      }
    }
  }
  small_multiply(AS_IS, AS_IS, k0, k, k, 1.0, s->C, W, 0.0, s->CW);
  small_multiply(AS_IS, AS_IS, k0, k, k, 1.0, s->CW, t->moments.S, 0.0, s->through);
  return 0.5 * small_trace(k0, t->moments.S0) - small_inner(k0 * k, s->CW, t->moments.C) +
         0.5 * small_inner(k0 * k, s->through, s->CW);
}

mhas_code icl_finite_sampled(icl *run, int64_t n, const double *W, double *loss, mhas_error *error) {
  const int64_t draws = run->values[P_FINITE_DRAWS].integer;
  const int64_t square = run->k0 * run->k;
  sampling s = {.n = n};
  double sum = 0.0;
  mhas_code code = mhas_alloc(&s.picks, (size_t)n, sizeof *s.picks, "a prompt", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&s.C, (size_t)(3 * square), sizeof *s.C, "a prompt", error);
  }
  s.CW = s.C + square;
  s.through = s.CW + square;
  code = mhas_team_agree(&run->task->team, code, error);
  for (int64_t i = 0; code == MHAS_OK && i < draws; i++) {
    code = run->task->proceed(run->task->context, error);
    sum += code == MHAS_OK ? prompt_loss(run, &s, (uint64_t)i, W) : 0.0;
  }
  *loss = code == MHAS_OK ? sum / (double)draws : NAN;
  mhas_free(s.C);
  mhas_free(s.picks);
  return code;
}
