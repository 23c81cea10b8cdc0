/* Features of attention: an entry of Z is a function of its sample and its head, to the last bit. */
#include <string.h>

#include "close.h"
#include "mhasweep/model.h"

enum { HEADS = 19, DIM = 12, KEY_DIM = 7, CONTEXT = 10, SAMPLES = 70 };

static const mhas_random seed = {.seed = 5};

typedef struct problem {
  double W_Q[HEADS * DIM * KEY_DIM], W_K[HEADS * DIM * KEY_DIM];
  double E[SAMPLES * CONTEXT * DIM], e[SAMPLES * DIM];
  double compose[1 << 16];
  double Z[SAMPLES * HEADS * DIM];
} problem;

static mhas_features_shape shape_of(bool shared) {
  return (mhas_features_shape){
      .heads = HEADS, .dim = DIM, .key_dim = KEY_DIM, .context = CONTEXT, .shared = shared, .logit_scale = 3.0};
}

static int64_t compute(const mhas_features_shape *shape, const problem *p, int64_t first, int64_t count, double *Z) {
  double *scratch = NULL;
  mhas_error error = {0};
  assert_int_equal(
      mhas_alloc(&scratch, (size_t)mhas_features_scratch(shape, count), sizeof *scratch, "the scratch", &error),
      MHAS_OK);
  const double *E = p->E + (shape->shared ? 0 : first * CONTEXT * DIM);
  const int64_t saturated = mhas_features(shape, count, E, p->e + first * DIM, p->W_Q, p->W_K, p->compose, scratch, Z);
  mhas_free(scratch);
  return saturated;
}

static void draw(problem *p, bool shared) {
  const mhas_data_shape data = {
      .samples = SAMPLES, .context = CONTEXT, .dim = DIM, .shared = shared, .distribution = MHAS_GAUSSIAN};
  mhas_data_contexts(&data, seed, 0, mhas_data_contexts_count(&data), p->E);
  mhas_data_queries(&data, seed, 0, SAMPLES, p->e);
  mhas_xavier_query_key(HEADS, DIM, KEY_DIM, seed, p->W_Q, p->W_K);
}

/* The formula, a number at a time. */
static double feature(const problem *p, bool shared, int64_t t, int64_t h, int64_t j) {
  const double *E = p->E + (shared ? 0 : t * CONTEXT * DIM);
  double q[KEY_DIM] = {0.0};
  double u[DIM] = {0.0};
  double theta[CONTEXT] = {0.0};
  double sum = 0.0;
  double z = 0.0;
  for (int64_t k = 0; k < KEY_DIM; k++) {
    for (int64_t i = 0; i < DIM; i++) {
      q[k] += p->e[t * DIM + i] * p->W_Q[(h * DIM + i) * KEY_DIM + k];
    }
  }
  for (int64_t i = 0; i < DIM; i++) {
    for (int64_t k = 0; k < KEY_DIM; k++) {
      u[i] += q[k] * p->W_K[(h * DIM + i) * KEY_DIM + k];
    }
  }
  for (int64_t r = 0; r < CONTEXT; r++) {
    for (int64_t i = 0; i < DIM; i++) {
      theta[r] += E[r * DIM + i] * u[i];
    }
    theta[r] = exp(3.0 * theta[r] / sqrt((double)DIM));
    sum += theta[r];
  }
  for (int64_t r = 0; r < CONTEXT; r++) {
    z += theta[r] / sum * E[r * DIM + j];
  }
  return z;
}

static void features_follow_the_formula(void **unused) {
  (void)unused;
  static problem p;
  for (int shared = 0; shared <= 1; shared++) {
    const mhas_features_shape shape = shape_of(shared);
    draw(&p, shared);
    (void)compute(&shape, &p, 0, SAMPLES, p.Z);
    for (int64_t t = 0; t < SAMPLES; t++) {
      for (int64_t h = 0; h < HEADS; h++) {
        for (int64_t j = 0; j < DIM; j++) {
          assert_close(p.Z[(t * HEADS + h) * DIM + j], feature(&p, shared, t, h, j), 1e-12);
        }
      }
    }
  }
}

/* Softmax, and composing of all kinds. */
static mhas_features_shape shape_number(int i, problem *p) {
  mhas_features_shape shape = shape_of(i % 2 == 1);
  if (i >= 2) {
    shape.variant = (mhas_variant){
        .compose = {MHAS_BRANCH_BASE | MHAS_BRANCH_QUERY | MHAS_BRANCH_KEY, MHAS_BRANCH_QUERY | MHAS_BRANCH_KEY},
        .rank = 2,
        .scale = 30.0};
    assert_true(mhas_variant_parameters(&shape.variant, HEADS, DIM) <= (int64_t)(sizeof p->compose / sizeof(double)));
    mhas_variant_draw(&shape.variant, HEADS, DIM, seed, p->compose);
  }
  draw(p, shape.shared);
  return shape;
}

enum { SHAPES = 4 };

static void fewer_samples_give_the_same_first_rows(void **unused) {
  (void)unused;
  static problem p;
  static double few[SAMPLES * HEADS * DIM];
  for (int i = 0; i < SHAPES; i++) {
    const mhas_features_shape shape = shape_number(i, &p);
    (void)compute(&shape, &p, 0, SAMPLES, p.Z);
    for (int64_t count = 1; count < SAMPLES; count += 11) {
      (void)compute(&shape, &p, 0, count, few);
      assert_memory_equal(few, p.Z, (size_t)(count * HEADS * DIM) * sizeof *few);
    }
  }
}

static void blocks_of_samples_give_the_same_rows(void **unused) {
  (void)unused;
  static problem p;
  static double parts[SAMPLES * HEADS * DIM];
  for (int i = 0; i < SHAPES; i++) {
    const mhas_features_shape shape = shape_number(i, &p);
    const int64_t block = mhas_features_block(&shape, SAMPLES);
    const int64_t saturated = compute(&shape, &p, 0, SAMPLES, p.Z);
    int64_t sum = 0;
    for (int64_t t = 0; t < SAMPLES; t += block) {
      sum += compute(&shape, &p, t, SAMPLES - t < block ? SAMPLES - t : block, parts + t * HEADS * DIM);
    }
    assert_memory_equal(parts, p.Z, sizeof parts);
    assert_int_equal(sum, saturated);
  }
}

static void fewer_heads_give_the_same_first_columns(void **unused) {
  (void)unused;
  static problem p;
  static double few[SAMPLES * HEADS * DIM];
  for (int shared = 0; shared <= 1; shared++) {
    mhas_features_shape shape = shape_of(shared);
    draw(&p, shared);
    (void)compute(&shape, &p, 0, SAMPLES, p.Z);
    for (shape.heads = 1; shape.heads < HEADS; shape.heads += 5) {
      (void)compute(&shape, &p, 0, SAMPLES, few);
      for (int64_t t = 0; t < SAMPLES; t++) {
        assert_memory_equal(few + t * shape.heads * DIM, p.Z + t * HEADS * DIM,
                            (size_t)(shape.heads * DIM) * sizeof *few);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(features_follow_the_formula),
      cmocka_unit_test(fewer_samples_give_the_same_first_rows),
      cmocka_unit_test(blocks_of_samples_give_the_same_rows),
      cmocka_unit_test(fewer_heads_give_the_same_first_columns),
  };
  return cmocka_run_group_tests_name("features", tests, NULL, NULL);
}
