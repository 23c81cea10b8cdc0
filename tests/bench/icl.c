/*
 * Times steps of the static model of icl, and writes what another program needs to take the same: used by icl.sh.
 *
 *   bench_icl float32|float64 TOKENS NEURONS DIM FEATURES STEPS [FOLDER]
 *
 * A step on given tokens: the MLP, the k x k algebra, the gradient and the move of the neurons by 1. In FOLDER: float64
 * files X, F, a, w (before the steps) and losses (of STEPS steps). Then steps are timed, in CPU time, the best of
 * several rounds; printed is one line of JSON.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "bench.h"
#include "mhasweep/linalg.h"
#include "mhasweep/meanfield.h"

enum { ROUNDS = 20, STEPS_IN_ROUND = 10 };

static double *numbers(int64_t count) {
  double *x = NULL;
  demand(mhas_alloc(&x, (size_t)count, sizeof *x, "numbers", &error) == MHAS_OK, "memory");
  return x;
}

static double *normal(int number, int64_t count, double scale) {
  const mhas_random random = {.seed = 1};
  double *x = numbers(count);
  mhas_random_normal(random, (mhas_stream)number, 0, (size_t)count, x);
  cblas_dscal((int)count, scale, x, 1);
  return x;
}

typedef struct bench {
  mhas_meanfield_shape s;
  mhas_meanfield *mlp;
  mhas_moments m;
  double *X, *F, *a, *w, *h, *q, *zeta, *g_a, *g_w;
} bench;

/* Smooth features of the tokens, so that the steps have something to learn. */
static double *features_of(const mhas_meanfield_shape *s, const double *X) {
  double *F = numbers(s->tokens * s->features);
  for (int64_t i = 0; i < s->tokens; i++) {
    for (int64_t j = 0; j < s->features; j++) {
      F[i * s->features + j] = sin(X[i * s->dim + j % s->dim] + (double)j);
    }
  }
  return F;
}

static bench bench_of(mhas_meanfield_shape s, mhas_precision precision) {
  bench b = {.s = s, .m = {.features = s.features, .true_features = s.features}};
  demand(mhas_meanfield_create(&s, precision, &b.mlp, &error) == MHAS_OK, "the MLP");
  demand(mhas_moments_create(&b.m, &error) == MHAS_OK, "moments");
  b.X = normal(1, s.tokens * s.dim, 1.0);
  b.F = features_of(&s, b.X);
  b.a = normal(2, s.neurons * s.features, 5.0);
  b.w = normal(3, s.neurons * s.dim, 1.0);
  b.h = numbers(s.tokens * s.features);
  b.q = numbers(s.tokens * s.features);
  b.zeta = numbers(s.tokens * s.features);
  b.g_a = numbers(s.neurons * s.features);
  b.g_w = numbers(s.neurons * s.dim);
  return b;
}

static void bench_free(bench *b) {
  double *const all[] = {b->X, b->F, b->a, b->w, b->h, b->q, b->zeta, b->g_a, b->g_w};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    mhas_free(all[i]);
  }
  mhas_moments_free(&b->m);
  mhas_meanfield_destroy(b->mlp);
}

static double take_step(bench *b) {
  mhas_meanfield_forward(b->mlp, b->a, b->w, b->X, b->h);
  demand(mhas_moments_take(&b->m, b->s.tokens, b->h, b->F, &error) == MHAS_OK, "moments");
  const double loss = mhas_reduced_loss(&b->m, b->s.tokens, b->h, b->F, b->zeta, b->q);
  mhas_meanfield_backward(b->mlp, b->q, b->g_a, b->g_w);
  cblas_daxpy((int)(b->s.neurons * b->s.features), -1.0, b->g_a, 1, b->a, 1);
  cblas_daxpy((int)(b->s.neurons * b->s.dim), -1.0, b->g_w, 1, b->w, 1);
  return loss;
}

static void record(bench *b, int steps, const char *folder) {
  double *losses = numbers(steps);
  write_file(folder, "X", b->X, sizeof(double), b->s.tokens * b->s.dim);
  write_file(folder, "F", b->F, sizeof(double), b->s.tokens * b->s.features);
  write_file(folder, "a", b->a, sizeof(double), b->s.neurons * b->s.features);
  write_file(folder, "w", b->w, sizeof(double), b->s.neurons * b->s.dim);
  for (int i = 0; i < steps; i++) {
    losses[i] = take_step(b);
  }
  write_file(folder, "losses", losses, sizeof(double), steps);
  mhas_free(losses);
}

int main(int argc, char **argv) {
  demand(mhas_blas_setup(argv, true, &error) == MHAS_OK, "BLAS");
  demand(argc == 7 || argc == 8, "usage: bench_icl float32|float64 TOKENS NEURONS DIM FEATURES STEPS [FOLDER]");
  const mhas_meanfield_shape s = {.tokens = atoll(argv[2]),
                                  .neurons = atoll(argv[3]),
                                  .dim = atoll(argv[4]),
                                  .features = atoll(argv[5]),
                                  .neuron = MHAS_SIGMOID};
  bench b = bench_of(s, strcmp(argv[1], "float32") == 0 ? MHAS_FLOAT32 : MHAS_FLOAT64);
  if (argc == 8) {
    record(&b, atoi(argv[6]), argv[7]);
  }
  double best = INFINITY;
  for (int round = 0; round < ROUNDS; round++) {
    const double start = cpu_seconds();
    for (int i = 0; i < STEPS_IN_ROUND; i++) {
      (void)take_step(&b);
    }
    best = fmin(best, (cpu_seconds() - start) / STEPS_IN_ROUND);
  }
  const double flops = mhas_meanfield_forward_flops(&s) + mhas_meanfield_backward_flops(&s);
  printf("{\"ms\": %.4f, \"gflops\": %.1f, \"blas\": \"%s\"}\n", 1e3 * best, flops / best * 1e-9, mhas_blas_core());
  bench_free(&b);
  return 0;
}
