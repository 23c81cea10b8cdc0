/*
 * Times training steps of one shape, and writes what another program needs to train the same: used by train.sh.
 *
 *   bench_train own|shared|own-layered|shared-layered HEADS DIM KEY_DIM CONTEXT BATCH CLASSES STEPS [FOLDER]
 *
 * "layered" is the order of products that folds nothing. STEPS steps are taken on batches that go round 8 BATCH samples
 * in order, with Adam at 1e-3. In FOLDER: float32 files of samples (contexts, queries), parameters before the steps
 * (embedding ...), int64 labels, and float64 losses. Then steps are timed, in CPU time, the best of several rounds;
 * printed is one line of JSON.
 */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "bench.h"
#include "mhasweep/linalg.h"
#include "mhasweep/model.h"
#include "model/lanes.h"
#include "model/order.h"

enum { ROUNDS = 12 };
static const mhas_adam adam = {0.9, 0.999, 1e-8};

typedef struct bench {
  mhas_model_shape shape;
  int64_t batch, T;
  mhas_samples samples;
  mhas_model *model;
  int64_t *order;
  int64_t step;
} bench;

static double take_step(bench *b) {
  const double loss = mhas_model_gradient(b->model, &b->samples, b->order + b->step % 8 * b->batch, b->batch);
  mhas_model_update(b->model, &adam, 1e-3);
  b->step++;
  return loss;
}

static void write_inputs(const bench *b, const char *folder) {
  const mhas_data_shape *data = &b->samples.shape;
  int64_t *labels = calloc((size_t)b->T, sizeof *labels);
  demand(labels != NULL, "memory");
  for (int64_t t = 0; t < b->T; t++) {
    labels[t] = (int64_t)b->samples.labels[t];
  }
  write_file(folder, "contexts", b->samples.contexts, 4, mhas_data_contexts_count(data) * data->context * data->dim);
  write_file(folder, "queries", b->samples.queries, 4, b->T * data->dim);
  write_file(folder, "labels", labels, sizeof *labels, b->T);
  free(labels);
  for (mhas_slice slice = 0; slice < MHAS_PRE_BASE; slice++) {
    const int64_t count = mhas_slice_count(&b->shape, slice);
    double *values = calloc((size_t)count, sizeof *values);
    float *single = calloc((size_t)count, sizeof *single);
    demand(values != NULL && single != NULL, "memory");
    mhas_model_get(b->model, slice, values);
    for (int64_t i = 0; i < count; i++) {
      single[i] = (float)values[i];
    }
    write_file(folder, mhas_slice_name(slice), single, sizeof *single, count);
    free(values);
    free(single);
  }
}

/* The best rate of a large product: what the shares of peak refer to. */
static double gemm_peak(void) {
  enum { N = 768 };
  float *a = NULL;
  demand(mhas_alloc(&a, 3 * N * N, sizeof *a, "a matrix", &error) == MHAS_OK, "memory");
  double best = 1e300;
  for (int i = 0; i < ROUNDS; i++) {
    const double start = cpu_seconds();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1.0f, a, N, a + N * N, N, 0.0f, a + 2 * N * N, N);
    const double took = cpu_seconds() - start;
    best = i > 0 && took < best ? took : best;
  }
  mhas_free(a);
  return 2.0 * N * N * N / best;
}

static double seconds_of(bench *b, bool evaluate, int64_t steps) {
  const double start = cpu_seconds();
  for (int64_t i = 0; i < steps; i++) {
    if (evaluate) {
      (void)mhas_model_score(b->model, &b->samples, i % 8 * b->batch, b->batch);
    } else {
      (void)take_step(b);
    }
  }
  return cpu_seconds() - start;
}

/* Rounds of about 0.1 s: the clock is asked twice a round, for a question takes a tenth of a small step. */
static double best_step(bench *b, bool evaluate) {
  double best = seconds_of(b, evaluate, 1);
  for (int round = 0; round < ROUNDS; round++) {
    const int64_t steps = 1 + (int64_t)(0.1 / best);
    best = fmin(best, seconds_of(b, evaluate, steps) / (double)steps);
  }
  return best;
}

int main(int argc, char **argv) {
  if (argc < 9 || argc > 10) {
    fprintf(stderr, "usage: bench_train own|shared[-layered] HEADS DIM KEY_DIM CONTEXT BATCH CLASSES STEPS [FOLDER]\n");
    return 2;
  }
  int64_t n[7];
  for (int i = 0; i < 7; i++) {
    n[i] = strtoll(argv[2 + i], NULL, 10);
  }
  demand(mhas_blas_setup(argv, true, &error) == MHAS_OK, "BLAS"); /* as mhasweep does it */
  openblas_set_num_threads(1);
  bench b = {.shape = {.heads = n[0], .dim = n[1], .key_dim = n[2], .value_dim = 1, .out_dim = n[1], .context = n[3]},
             .batch = n[4],
             .T = 8 * n[4]};
  b.shape.shared = strncmp(argv[1], "shared", 6) == 0;
  b.shape.classes = n[5];
  b.shape.logit_scale = 1.0;
  b.shape.position_base = 1e4;
  const mhas_data_shape data = {b.T, n[3], n[1], b.shape.shared, MHAS_UNIFORM, n[5]};
  const mhas_order order = strstr(argv[1], "layered") != NULL ? (mhas_order){0} : mhas_order_of(&b.shape, b.batch);
  demand(mhas_model_create_ordered(&b.shape, order, MHAS_FLOAT32, b.batch, &b.model, &error) == MHAS_OK, "model");
  demand(mhas_samples_create(&data, MHAS_FLOAT32, &b.samples, &error) == MHAS_OK, "samples");
  demand(mhas_samples_draw(&b.samples, (mhas_random){.seed = 1}, 0, b.T, &error) == MHAS_OK, "samples");
  mhas_model_initialise(b.model, (mhas_random){.seed = 1});
  demand(mhas_alloc(&b.order, (size_t)b.T, sizeof *b.order, "the order", &error) == MHAS_OK, "memory");
  for (int64_t t = 0; t < b.T; t++) {
    b.order[t] = t;
  }
  double *losses = NULL;
  demand(mhas_alloc(&losses, (size_t)n[6], sizeof *losses, "the losses", &error) == MHAS_OK, "memory");
  if (argc == 10) {
    write_inputs(&b, argv[9]);
  }
  for (int64_t i = 0; i < n[6]; i++) {
    losses[i] = take_step(&b);
  }
  if (argc == 10) {
    write_file(argv[9], "losses", losses, sizeof *losses, n[6]);
  }
  const double peak = gemm_peak();
  const double step = best_step(&b, false);
  const double forward = best_step(&b, true);
  const double flops = mhas_order_gradient_flops(&b.shape, order, (double)b.batch) + mhas_model_update_flops(&b.shape);
  printf(
      "{\"step\": %.6e, \"forward\": %.6e, \"flops\": %.6e, \"peak\": %.6e, \"blas\": \"%s\", \"lanes\": %d, "
      "\"folded\": %d, \"joined\": %d, \"value_first\": %d}\n",
      step, forward, flops, peak, openblas_get_corename(), (int)mhas_lanes_level(), order.folded, order.joined,
      order.value_first);
  mhas_free(losses);
  mhas_free(b.order);
  mhas_samples_free(&b.samples);
  mhas_model_destroy(b.model);
  return 0;
}
