/*
 * Would several small models be faster together than one after the other? The products of a training step of a model
 * of d = DIM, n = DIM / 2, H = 2, batch 4, in float32: formed for each of 16 models as the program does it, and for all
 * 16 at once, each in its own lane of the vector unit (arrays of structures of 16), blocked over registers.
 *
 *   bench_together DIM...       CPU time, the best of several rounds; one line for each DIM, say 8 16 24 32
 *
 * Not in it: what a step does besides products (softmax, loss, Adam), which is bound by the memory that it goes through
 * and gains nothing from company.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "model/lanes.h"

enum { MODELS = 16, ROUNDS = 200, HEADS = 2, BATCH = 4, MOST = 64, KINDS = 9 };

typedef float lane __attribute__((vector_size(64), aligned(4), may_alias));

typedef struct shape {
  int64_t m, n, k, times;
} shape;

/* Layer by layer (src/model/network.h): embedding of rows and queries, two projections a head, logits and weighted sums
 * a sample; backward the same twice over, so these stand for the step. */
static void shapes_of(int64_t d, shape shapes[KINDS]) {
  const int64_t n = d / 2;
  const shape all[KINDS] = {{BATCH * n, d, d, 1}, {BATCH, d, d, 1},         {BATCH, d, d, 2 * HEADS},
                            {HEADS, n, d, BATCH}, {HEADS, d, n, BATCH},     {d, d, BATCH * n, 1},
                            {d, d, BATCH, 1},     {d, d, BATCH, 2 * HEADS}, {n, d, HEADS, 2 * BATCH}};
  for (int i = 0; i < KINDS; i++) {
    shapes[i] = all[i];
  }
}

/* c (m, n) = a (m, k) b (k, n), every entry a lane of 16 models: four by four entries of c stay in registers. */
static void product_together(const shape *s, const lane *a, const lane *b, lane *c) {
  for (int64_t i = 0; i < s->m; i += 4) {
    const int rows = s->m - i < 4 ? (int)(s->m - i) : 4;
    for (int64_t j = 0; j < s->n; j += 4) { /* n is a multiple of 4 */
      lane sum[4][4] = {{{0}}};
      for (int64_t p = 0; p < s->k; p++) {
        for (int r = 0; r < 4; r++) {
          const lane entry = a[(i + (r < rows ? r : 0)) * s->k + p];
          for (int q = 0; q < 4; q++) {
            sum[r][q] += entry * b[p * s->n + j + q];
          }
        }
      }
      for (int r = 0; r < rows; r++) {
        for (int q = 0; q < 4; q++) {
          c[(i + r) * s->n + j + q] = sum[r][q];
        }
      }
    }
  }
}

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void fill(float *x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    x[i] = 0.001F * (float)(i % 977) - 0.4F;
  }
}

typedef struct arrays {
  float *a, *b, *c; /* 16 models of `room` numbers each */
} arrays;

enum { ROOM = MOST * MOST * 4 };

static double seconds_alone(const lanes_float *lanes, const arrays *x, const shape shapes[KINDS]) {
  const double start = cpu_seconds();
  for (int model = 0; model < MODELS; model++) {
    const int64_t at = model * (int64_t)ROOM;
    for (int i = 0; i < KINDS; i++) {
      const shape *s = &shapes[i];
      for (int64_t t = 0; t < s->times; t++) {
        lanes->product(false, false, s->m, s->n, s->k, 1, x->a + at, s->k, x->b + at, s->n, 0, x->c + at, s->n);
      }
    }
  }
  return cpu_seconds() - start;
}

static double seconds_together(const arrays *x, const shape shapes[KINDS]) {
  const double start = cpu_seconds();
  for (int i = 0; i < KINDS; i++) {
    for (int64_t t = 0; t < shapes[i].times; t++) {
      product_together(&shapes[i], (const lane *)x->a, (const lane *)x->b, (lane *)x->c);
    }
  }
  return cpu_seconds() - start;
}

static void compare(const arrays *x, int64_t d) {
  const lanes_float *lanes = mhas_lanes_here_float();
  shape shapes[KINDS];
  shapes_of(d, shapes);
  double flops = 0.0;
  for (int i = 0; i < KINDS; i++) {
    flops += 2.0 * MODELS * (double)(shapes[i].m * shapes[i].n * shapes[i].k * shapes[i].times);
  }
  double alone = 1e9;
  double together = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    const double one = seconds_alone(lanes, x, shapes);
    const double all = seconds_together(x, shapes);
    alone = one < alone ? one : alone;
    together = all < together ? all : together;
  }
  printf("dim %2d: a model alone %6.3f us (%5.1f GF/s), in company %6.3f us (%5.1f GF/s): %.2f times as fast\n", (int)d,
         1e6 * alone / MODELS, 1e-9 * flops / alone, 1e6 * together / MODELS, 1e-9 * flops / together,
         alone / together);
}

int main(int argc, char **argv) {
  if (mhas_lanes_level() != LANES_AVX512) {
    fputs("bench_together: compiled for AVX-512, which this processor does not have\n", stderr);
    return 1;
  }
  arrays x = {aligned_alloc(64, sizeof(float) * ROOM * MODELS), aligned_alloc(64, sizeof(float) * ROOM * MODELS),
              aligned_alloc(64, sizeof(float) * ROOM * MODELS)};
  int status = x.a != NULL && x.b != NULL && x.c != NULL ? 0 : 1;
  if (status == 0) {
    fill(x.a, ROOM * MODELS);
    fill(x.b, ROOM * MODELS);
  }
  for (int i = 1; status == 0 && i < argc; i++) {
    const int64_t d = atoll(argv[i]);
    if (d < 8 || d > MOST || d % 8 != 0) {
      fprintf(stderr, "bench_together: a DIM is a multiple of 8, up to %d\n", MOST);
      status = 2;
    } else {
      compare(&x, d);
    }
  }
  free(x.a);
  free(x.b);
  free(x.c);
  return status;
}
