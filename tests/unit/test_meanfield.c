/* Mean-field features: an independent program, differences, both precisions, and the theory's landscape. */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "data/icl/expected.h"
#include "mhasweep/meanfield.h"
#include "model/lanes.h"

static mhas_error error;
static const mhas_random some_random = {.seed = 11};

/* Sanitizers would end the program where an allocation is refused; the tests want to see it refused. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static double *numbers(int64_t count) {
  double *x = calloc((size_t)count, sizeof *x);
  assert_non_null(x);
  return x;
}

static double *wave(int number, double scale, int64_t count) {
  double *x = numbers(count);
  for (int64_t i = 0; i < count; i++) {
    const double at = (double)i;
    x[i] = scale * sin(0.7 * at + 0.3 * number + 0.011 * at * at);
  }
  return x;
}

static double *normal(int number, double scale, int64_t count) {
  double *x = numbers(count);
  mhas_random_normal(some_random, (mhas_stream)number, 0, (size_t)count, x);
  cblas_dscal((int)count, scale, x, 1);
  return x;
}

/* The largest difference, by the largest expected number. */
static double off(int64_t count, const double *actual, const double *expected) {
  double most = 0.0;
  double size = 0.0;
  for (int64_t i = 0; i < count; i++) {
    most = fmax(most, fabs(actual[i] - expected[i]));
    size = fmax(size, fabs(expected[i]));
  }
  return size > 0.0 ? most / size : most;
}

static double dot(int64_t count, const double *x, const double *y) { return cblas_ddot((int)count, x, 1, y, 1); }

/* ---- a set of everything --------------------------------------------------------------- */

typedef struct rig {
  mhas_meanfield_shape s;
  int64_t k0, a_count, w_count;
  mhas_meanfield *mlp;
  mhas_moments m;
  double *X, *F, *a, *w, *v_a, *v_w, *W;
  double *h, *q, *u, *zeta, *g_a, *g_w, *H_a, *H_w, *g_W;
} rig;

static rig rig_of(mhas_meanfield_shape s, int64_t k0, mhas_precision precision) {
  rig r = {.s = s, .k0 = k0, .a_count = s.neurons * s.features, .w_count = s.neurons * s.dim};
  assert_int_equal(mhas_meanfield_create(&s, precision, &r.mlp, &error), MHAS_OK);
  r.m = (mhas_moments){.features = s.features, .true_features = k0};
  assert_int_equal(mhas_moments_create(&r.m, &error), MHAS_OK);
  r.X = wave(0, 2.0, s.tokens * s.dim);
  r.w = wave(1, 1.5, r.w_count);
  r.a = wave(2, 3.0, r.a_count);
  r.F = wave(3, 1.0, s.tokens * k0);
  r.v_a = wave(4, 1.0, r.a_count);
  r.v_w = wave(5, 1.0, r.w_count);
  r.W = wave(6, 1.0, s.features * s.features);
  r.h = numbers(s.tokens * s.features);
  r.q = numbers(s.tokens * s.features);
  r.u = numbers(s.tokens * s.features);
  r.zeta = numbers(s.tokens * k0);
  r.g_a = numbers(r.a_count);
  r.g_w = numbers(r.w_count);
  r.H_a = numbers(r.a_count);
  r.H_w = numbers(r.w_count);
  r.g_W = numbers(s.features * s.features);
  return r;
}

static void rig_free(rig *r) {
  double *const all[] = {r->X, r->F, r->a,    r->w,   r->v_a, r->v_w, r->W,   r->h,
                         r->q, r->u, r->zeta, r->g_a, r->g_w, r->H_a, r->H_w, r->g_W};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    free(all[i]);
  }
  mhas_moments_free(&r->m);
  mhas_meanfield_destroy(r->mlp);
}

static double reduced(rig *r) {
  mhas_meanfield_forward(r->mlp, r->a, r->w, r->X, r->h);
  assert_int_equal(mhas_moments_take(&r->m, r->s.tokens, r->h, r->F, &error), MHAS_OK);
  return mhas_reduced_loss(&r->m, r->s.tokens, r->h, r->F, r->zeta, r->q);
}

static double joint(rig *r) {
  mhas_meanfield_forward(r->mlp, r->a, r->w, r->X, r->h);
  assert_int_equal(mhas_moments_take(&r->m, r->s.tokens, r->h, r->F, &error), MHAS_OK);
  return mhas_joint_loss(&r->m, r->s.tokens, r->h, r->F, r->W, r->zeta, r->q, r->g_W);
}

/* H v behind `reduced`. */
static void product(rig *r, const double *v_a, const double *v_w, double *H_a, double *H_w) {
  mhas_meanfield_tangent(r->mlp, v_a, v_w, r->u);
  mhas_reduced_hessian(&r->m, r->s.tokens, r->h, r->zeta, r->u, r->q);
  mhas_meanfield_backward(r->mlp, r->q, H_a, H_w);
}

static rig expected_rig(mhas_precision precision) {
  const mhas_meanfield_shape s = {EXPECTED_N, EXPECTED_M, EXPECTED_D, EXPECTED_K, MHAS_SIGMOID};
  return rig_of(s, EXPECTED_K0, precision);
}

/* ---- the independent program --------------------------------------------------------------- */

static void losses_gradients_and_products_are_those_of_the_independent_program(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  const double loss = reduced(&r);
  assert_close(loss, expected_loss[0], 1e-13);
  assert_close(r.m.condition / expected_condition[0], 1.0, 1e-11);
  mhas_meanfield_backward(r.mlp, r.q, r.g_a, r.g_w);
  assert_true(off(r.a_count, r.g_a, expected_g_a) < 1e-11);
  assert_true(off(r.w_count, r.g_w, expected_g_w) < 1e-11);
  product(&r, r.v_a, r.v_w, r.H_a, r.H_w);
  assert_true(off(r.a_count, r.H_a, expected_H_a) < 1e-11);
  assert_true(off(r.w_count, r.H_w, expected_H_w) < 1e-11);
  assert_close(joint(&r), expected_joint_loss[0], 1e-13);
  assert_true(off(EXPECTED_K * EXPECTED_K, r.g_W, expected_joint_g_W) < 1e-11);
  mhas_meanfield_backward(r.mlp, r.q, r.g_a, r.g_w);
  assert_true(off(r.a_count, r.g_a, expected_joint_g_a) < 1e-11);
  assert_true(off(r.w_count, r.g_w, expected_joint_g_w) < 1e-11);
  const int64_t lengths[] = {1, 5, 1000};
  for (int i = 0; i < 3; i++) {
    double finite = 0.0;
    assert_int_equal(mhas_finite_loss(&r.m, EXPECTED_N, r.h, r.F, lengths[i], &finite, NULL, &error), MHAS_OK);
    assert_close(finite, expected_finite[i], 1e-11);
  }
  rig_free(&r);
}

static void single_precision_is_near_double(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT32);
  assert_close(reduced(&r), expected_loss[0], 1e-4);
  mhas_meanfield_backward(r.mlp, r.q, r.g_a, r.g_w);
  assert_true(off(r.a_count, r.g_a, expected_g_a) < 1e-3);
  assert_true(off(r.w_count, r.g_w, expected_g_w) < 1e-3);
  product(&r, r.v_a, r.v_w, r.H_a, r.H_w);
  assert_true(off(r.a_count, r.H_a, expected_H_a) < 1e-2);
  assert_true(off(r.w_count, r.H_w, expected_H_w) < 1e-2);
  rig_free(&r);
}

/* ---- differences ------------------------------------------------------------------------------ */

/* Along (v_a, v_w): central differences of `loss`. */
static double difference(rig *r, double (*loss)(rig *), double t) {
  double values[2];
  for (int side = 0; side < 2; side++) {
    const double step = side == 0 ? -t : t;
    cblas_daxpy((int)r->a_count, step, r->v_a, 1, r->a, 1);
    cblas_daxpy((int)r->w_count, step, r->v_w, 1, r->w, 1);
    values[side] = loss(r);
    cblas_daxpy((int)r->a_count, -step, r->v_a, 1, r->a, 1);
    cblas_daxpy((int)r->w_count, -step, r->v_w, 1, r->w, 1);
  }
  return (values[1] - values[0]) / (2.0 * t);
}

static double along(rig *r) {
  mhas_meanfield_backward(r->mlp, r->q, r->g_a, r->g_w);
  return (dot(r->a_count, r->g_a, r->v_a) + dot(r->w_count, r->g_w, r->v_w)) / (double)r->s.neurons;
}

static void gradients_are_those_of_differences_for_every_neuron(void **state) {
  (void)state;
  for (mhas_neuron neuron = MHAS_SIGMOID; neuron <= MHAS_RELU; neuron++) {
    rig r = rig_of((mhas_meanfield_shape){30, 8, 3, 2, neuron}, 3, MHAS_FLOAT64);
    double by_difference = difference(&r, reduced, 1e-6);
    (void)reduced(&r);
    assert_close(along(&r), by_difference, 1e-7);
    by_difference = difference(&r, joint, 1e-6);
    (void)joint(&r);
    assert_close(along(&r), by_difference, 1e-6);
    rig_free(&r);
  }
}

static void the_gradient_of_attention_is_that_of_differences(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  (void)joint(&r);
  double *gradient = numbers(9);
  memcpy(gradient, r.g_W, 9 * sizeof *gradient);
  for (int i = 0; i < 9; i++) {
    const double kept = r.W[i];
    r.W[i] = kept + 1e-5;
    const double above = joint(&r);
    r.W[i] = kept - 1e-5;
    const double below = joint(&r);
    r.W[i] = kept;
    assert_close((above - below) / 2e-5, gradient[i], 1e-7);
  }
  free(gradient);
  rig_free(&r);
}

/* L(h + t u) as t goes: its second derivative is E[u . q]. */
static void the_product_is_the_second_derivative_along_the_features(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  const int64_t count = EXPECTED_N * EXPECTED_K;
  const double t = 1e-4;
  double *middle = numbers(count);
  double values[3];
  (void)reduced(&r);
  memcpy(middle, r.h, (size_t)count * sizeof *middle);
  mhas_meanfield_tangent(r.mlp, r.v_a, r.v_w, r.u);
  for (int i = 0; i < 3; i++) {
    memcpy(r.h, middle, (size_t)count * sizeof *middle);
    cblas_daxpy((int)count, (i - 1) * t, r.u, 1, r.h, 1);
    assert_int_equal(mhas_moments_take(&r.m, EXPECTED_N, r.h, r.F, &error), MHAS_OK);
    values[i] = mhas_reduced_loss(&r.m, EXPECTED_N, r.h, r.F, r.zeta, NULL);
  }
  (void)reduced(&r);
  mhas_reduced_hessian(&r.m, EXPECTED_N, r.h, r.zeta, r.u, r.q);
  const double second = dot(count, r.u, r.q) / EXPECTED_N;
  assert_close((values[0] - 2.0 * values[1] + values[2]) / (t * t) / second, 1.0, 1e-5);
  free(middle);
  rig_free(&r);
}

static void products_are_symmetric(void **state) {
  (void)state;
  for (mhas_neuron neuron = MHAS_SIGMOID; neuron <= MHAS_RELU; neuron++) {
    rig r = rig_of((mhas_meanfield_shape){70, 19, 4, 3, neuron}, 3, MHAS_FLOAT64);
    double *y_a = wave(8, 1.0, r.a_count);
    double *y_w = wave(9, 1.0, r.w_count);
    (void)reduced(&r);
    product(&r, r.v_a, r.v_w, r.H_a, r.H_w);
    const double one = dot(r.a_count, r.H_a, y_a) + dot(r.w_count, r.H_w, y_w);
    product(&r, y_a, y_w, r.H_a, r.H_w);
    const double other = dot(r.a_count, r.H_a, r.v_a) + dot(r.w_count, r.H_w, r.v_w);
    assert_close(one / other, 1.0, 1e-9);
    free(y_a);
    free(y_w);
    rig_free(&r);
  }
}

static void the_penalty_has_the_gradient_of_differences(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  const int64_t M = EXPECTED_M;
  memset(r.a, 0, EXPECTED_K * sizeof *r.a); /* a neuron where the norm has no gradient */
  const double norm = mhas_barron_norm(M, EXPECTED_K, EXPECTED_D, r.a, r.w, 2.0, r.g_a, r.g_w);
  for (int64_t j = 0; j < EXPECTED_K; j++) {
    assert_close(r.g_a[j], 0.0, 0.0);
  }
  const double t = 1e-6;
  r.a[5] += t;
  r.w[4] += t;
  const double moved = mhas_barron_norm(M, EXPECTED_K, EXPECTED_D, r.a, r.w, 0.0, NULL, NULL);
  assert_close(2.0 * (moved - norm) / t, (r.g_a[5] + r.g_w[4]) / (double)M, 1e-5);
  rig_free(&r);
}

/* ---- kernels ----------------------------------------------------------------------------------- */

static double value_of(mhas_neuron neuron, double z) {
  return neuron == MHAS_SIGMOID ? 1.0 / (1.0 + exp(-z)) : neuron == MHAS_TANH ? tanh(z) : fmax(z, 0.0);
}

static double slope_of(mhas_neuron neuron, double z) {
  const double s = value_of(neuron, z);
  return neuron == MHAS_SIGMOID ? s * (1.0 - s) : neuron == MHAS_TANH ? 1.0 - s * s : (double)(z > 0.0);
}

/* Any number of blocks, whole and broken ones, against plain loops. */
static void blocks_of_every_size_give_what_plain_loops_give(void **state) {
  (void)state;
  const int64_t sizes[][4] = {{1, 1, 1, 1}, {2, 3, 1, 4}, {129, 5, 2, 3}, {257, 64, 20, 5}, {33, 3000, 3, 2}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const mhas_meanfield_shape s = {sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], (mhas_neuron)(i % 3)};
    rig r = rig_of(s, 1, MHAS_FLOAT64);
    double *q = wave(7, 1.0, s.tokens * s.features);
    double *h = numbers(s.tokens * s.features);
    double *g_a = numbers(r.a_count);
    double *g_w = numbers(r.w_count);
    for (int64_t n = 0; n < s.tokens; n++) {
      for (int64_t m = 0; m < s.neurons; m++) {
        const double *a = r.a + m * s.features;
        const double *qn = q + n * s.features;
        const double z = dot(s.dim, r.w + m * s.dim, r.X + n * s.dim);
        const double value = value_of(s.neuron, z);
        const double back = slope_of(s.neuron, z) * dot(s.features, a, qn) / (double)s.tokens;
        cblas_daxpy((int)s.features, value / (double)s.neurons, a, 1, h + n * s.features, 1);
        cblas_daxpy((int)s.features, value / (double)s.tokens, qn, 1, g_a + m * s.features, 1);
        cblas_daxpy((int)s.dim, back, r.X + n * s.dim, 1, g_w + m * s.dim, 1);
      }
    }
    mhas_meanfield_forward(r.mlp, r.a, r.w, r.X, r.h);
    mhas_meanfield_backward(r.mlp, q, r.g_a, r.g_w);
    assert_true(off(s.tokens * s.features, r.h, h) < 1e-12);
    assert_true(off(r.a_count, r.g_a, g_a) < 1e-12);
    assert_true(off(r.w_count, r.g_w, g_w) < 1e-12);
    free(q);
    free(h);
    free(g_a);
    free(g_w);
    rig_free(&r);
  }
}

static void neurons_are_exact_to_rounding_from_one_end_to_the_other(void **state) {
  (void)state;
  enum { COUNT = 4001 };
  double z[COUNT];
  double twice[COUNT];
  float single[COUNT];
  for (mhas_neuron neuron = MHAS_SIGMOID; neuron <= MHAS_RELU; neuron++) {
    for (int i = 0; i < COUNT; i++) {
      z[i] = (i - 2000) * 0.02 * (i % 7 == 0 ? 1e-3 : 1.0);
      twice[i] = z[i];
      single[i] = (float)z[i];
    }
    mhas_lanes_double(mhas_lanes_level())->neuron[neuron](COUNT, twice);
    mhas_lanes_float(mhas_lanes_level())->neuron[neuron](COUNT, single);
    for (int i = 0; i < COUNT; i++) {
      const double right = value_of(neuron, z[i]);
      const double right_single = value_of(neuron, (double)(float)z[i]);
      assert_true(fabs(twice[i] - right) <= 2e-15 * fabs(right));
      assert_true(fabs((double)single[i] - right_single) <= 1e-6 * fabs(right_single));
    }
  }
}

static void neurons_saturate_and_keep_what_is_not_a_number(void **state) {
  (void)state;
  for (mhas_neuron neuron = MHAS_SIGMOID; neuron <= MHAS_RELU; neuron++) {
    double z[3] = {-1e6, 1e6, NAN};
    float y[3] = {-1e6F, 1e6F, NAN};
    mhas_lanes_double(mhas_lanes_level())->neuron[neuron](3, z);
    mhas_lanes_float(mhas_lanes_level())->neuron[neuron](3, y);
    assert_close(z[0], value_of(neuron, -1e6), 0.0);
    assert_close(z[1], value_of(neuron, 1e6), 0.0);
    assert_true(isnan(z[2]));
    assert_close((double)y[0], value_of(neuron, -1e6), 0.0);
    assert_true(isnan((double)y[2]));
  }
}

static void every_width_of_the_vector_unit_gives_the_same_bits(void **state) {
  (void)state;
  enum { COUNT = 1003 };
  double plain[COUNT];
  double other[COUNT];
  float plain_single[COUNT];
  float other_single[COUNT];
  for (lanes_level level = 0; level <= mhas_lanes_level(); level++) {
    for (mhas_neuron neuron = MHAS_SIGMOID; neuron <= MHAS_RELU; neuron++) {
      for (int i = 0; i < COUNT; i++) {
        plain[i] = other[i] = 9.0 * sin(1.3 * i);
        plain_single[i] = other_single[i] = (float)plain[i];
      }
      mhas_lanes_plain_double.neuron[neuron](COUNT, plain);
      mhas_lanes_double(level)->neuron[neuron](COUNT, other);
      mhas_lanes_plain_float.neuron[neuron](COUNT, plain_single);
      mhas_lanes_float(level)->neuron[neuron](COUNT, other_single);
      assert_memory_equal(plain, other, sizeof plain);
      assert_memory_equal(plain_single, other_single, sizeof plain_single);
      mhas_lanes_plain_double.slope[neuron](COUNT, plain, plain);
      mhas_lanes_double(level)->slope[neuron](COUNT, other, other);
      assert_memory_equal(plain, other, sizeof plain);
    }
  }
}

/* ---- the landscape --------------------------------------------------------------------------------- */

enum { TOKENS = 600 };

/* Eigenvectors of S0 as rows of V (k0, k0), with the ladder; F of random waves. */
typedef struct scene {
  int64_t k, k0;
  double *F, *S0, *V, *h, *zeta;
  mhas_moments m;
  mhas_ladder ladder;
} scene;

static scene scene_of(int64_t k, int64_t k0) {
  scene s = {.k = k, .k0 = k0};
  s.F = normal(20, 1.0, TOKENS * k0);
  for (int64_t i = 0; i < TOKENS; i++) {
    for (int64_t j = 0; j < k0; j++) { /* features that mix, of sizes of their own */
      s.F[i * k0 + j] = s.F[i * k0 + j] * (1.0 + 0.5 * (double)j) + (j > 0 ? 0.3 * s.F[i * k0] : 0.0);
    }
  }
  s.S0 = numbers(k0 * k0);
  cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)k0, (int)k0, TOKENS, 1.0 / TOKENS, s.F, (int)k0, s.F,
              (int)k0, 0.0, s.S0, (int)k0);
  s.h = numbers(TOKENS * k);
  s.zeta = numbers(TOKENS * k0);
  s.m = (mhas_moments){.features = k, .true_features = k0};
  assert_int_equal(mhas_moments_create(&s.m, &error), MHAS_OK);
  assert_int_equal(mhas_ladder_create(k, k0, s.S0, &s.ladder, &error), MHAS_OK);
  return s;
}

static void scene_free(scene *s) {
  double *const all[] = {s->F, s->S0, s->h, s->zeta};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    free(all[i]);
  }
  mhas_moments_free(&s->m);
  mhas_ladder_free(&s->ladder);
}

static double scene_loss(scene *s) {
  assert_int_equal(mhas_moments_take(&s->m, TOKENS, s->h, s->F, &error), MHAS_OK);
  return mhas_reduced_loss(&s->m, TOKENS, s->h, s->F, s->zeta, NULL);
}

/* Power iteration with deflation would do; the eigenvectors come from inverse iteration on the ladder's eigenvalues. */
static void eigenvector(const scene *s, int64_t which, double *v) {
  const int64_t n = s->k0;
  double *inverse = numbers(n * n);
  for (int64_t i = 0; i < n; i++) {
    v[i] = 1.0 + 0.1 * (double)i;
  }
  for (int round = 0; round < 4; round++) { /* Gauss elimination of S0 - (lambda + shift) I */
    for (int64_t i = 0; i < n * n; i++) {
      inverse[i] = s->S0[i] - (i % (n + 1) == 0 ? s->ladder.eigenvalues[which] * (1.0 + 1e-9) : 0.0);
    }
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = i + 1; j < n; j++) {
        const double factor = inverse[j * n + i] / inverse[i * n + i];
        cblas_daxpy((int)(n - i), -factor, inverse + i * n + i, 1, inverse + j * n + i, 1);
        v[j] -= factor * v[i];
      }
    }
    for (int64_t i = n - 1; i >= 0; i--) {
      v[i] = (v[i] - dot(n - 1 - i, inverse + i * n + i + 1, v + i + 1)) / inverse[i * n + i];
    }
    cblas_dscal((int)n, 1.0 / cblas_dnrm2((int)n, v, 1), v, 1);
  }
  free(inverse);
}

/*
 * h that sees the eigen-directions of S0 in `seen` (a bit each) and, for the outputs left over, noise that is
 * uncorrelated with f; outputs are mixed, so that nothing is aligned with coordinates. Returns half the sum of what is
 * not seen.
 */
static double critical_point(scene *s, unsigned seen) {
  double *v = numbers(s->k0);
  double *parts = numbers(TOKENS * s->k);
  double *mix = normal(31, 1.0, s->k * s->k);
  double *noise = normal(32, 1.0, TOKENS);
  double unseen = 0.0;
  int64_t output = 0;
  for (int64_t j = 0; j < s->k0; j++) {
    if ((seen >> j & 1U) == 0) {
      unseen += 0.5 * s->ladder.eigenvalues[j];
      continue;
    }
    eigenvector(s, j, v);
    for (int64_t i = 0; i < TOKENS; i++) {
      parts[i * s->k + output] = dot(s->k0, v, s->F + i * s->k0);
    }
    output++;
  }
  for (int again = 0; again < 3; again++) { /* E[noise f] = 0 */
    for (int64_t j = 0; j < s->k0; j++) {
      double along_v = 0.0;
      eigenvector(s, j, v);
      for (int64_t i = 0; i < TOKENS; i++) {
        along_v += noise[i] * dot(s->k0, v, s->F + i * s->k0) / TOKENS;
      }
      for (int64_t i = 0; i < TOKENS; i++) {
        noise[i] -= along_v / s->ladder.eigenvalues[j] * dot(s->k0, v, s->F + i * s->k0);
      }
    }
  }
  assert_in_range(s->k - output, 0, 1); /* one output of noise at most */
  for (int64_t i = 0; i < TOKENS && output < s->k; i++) {
    parts[i * s->k + output] = noise[i];
  }
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, TOKENS, (int)s->k, (int)s->k, 1.0, parts, (int)s->k, mix,
              (int)s->k, 0.0, s->h, (int)s->k);
  free(v);
  free(parts);
  free(mix);
  free(noise);
  return unseen;
}

static void constructed_critical_points_sit_on_the_ladder(void **state) {
  (void)state;
  scene s = scene_of(3, 4);
  assert_int_equal(s.ladder.count, 15); /* all subsets but the empty one */
  for (unsigned seen = 0; seen < 16; seen++) {
    if (__builtin_popcount(seen) != 3 && __builtin_popcount(seen) != 2) {
      continue;
    }
    const double expected = critical_point(&s, seen);
    const double loss = scene_loss(&s);
    const double rung = mhas_ladder_nearest(&s.ladder, loss);
    assert_close(loss / expected, 1.0, 1e-12);
    assert_close(rung / expected, 1.0, 1e-12);
    assert_true(mhas_ladder_distance(&s.ladder, loss, rung) < 1e-12);
    assert_true(loss >= s.ladder.floor * (1.0 - 1e-12));
  }
  assert_close(s.ladder.floor, 0.5 * s.ladder.eigenvalues[0], 1e-15);
  assert_close(s.ladder.lowest, 0.5 * s.ladder.eigenvalues[1], 1e-15);
  scene_free(&s);
}

/* h + s R f, with the R that was looked for. */
static double homotopy_loss(scene *s, const double *h, const double *R, double t) {
  memcpy(s->h, h, (size_t)(TOKENS * s->k) * sizeof *h);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, TOKENS, (int)s->k, (int)s->k0, t, s->F, (int)s->k0, R,
              (int)s->k0, 1.0, s->h, (int)s->k);
  return scene_loss(s);
}

static void the_curvature_along_the_homotopy_is_its_closed_form_and_below_the_bound(void **state) {
  (void)state;
  for (unsigned lost = 0; lost < 3; lost++) {
    scene s = scene_of(3, 3);
    double R[9];
    mhas_landscape look = {.R = R};
    const double value = critical_point(&s, 7U & ~(1U << lost));
    double *h = numbers(TOKENS * 3);
    memcpy(h, s.h, TOKENS * 3 * sizeof *h);
    (void)scene_loss(&s);
    assert_int_equal(mhas_landscape_look(&s.m, 1e-8, &look, &error), MHAS_OK);
    assert_int_equal(look.rank_cross, 2);
    assert_true(look.sigma_min_b < 1e-12 && look.sigma_min_cross < 1e-12);
    /* One direction is lost, so the loss on the way is known for every t: beta = v S^-1 v, w = R^T v, S0 w = lambda w.
     */
    const double lambda = s.ladder.eigenvalues[lost];
    const double beta = -look.curvature / (lambda * lambda);
    for (int i = 0; i < 3; i++) {
      const double t = 0.01 * pow(10.0, i);
      const double expected = value - 0.5 * t * t * beta * lambda * lambda / (1.0 + t * t * lambda * beta);
      assert_close(homotopy_loss(&s, h, R, t), expected, 1e-11);
    }
    double second[2]; /* at t and at 2 t; together without their error of t^2 */
    for (int i = 0; i < 2; i++) {
      const double t = 0.01 * (i + 1) / sqrt(lambda * beta);
      const double ends = homotopy_loss(&s, h, R, t) + homotopy_loss(&s, h, R, -t);
      second[i] = (ends - 2.0 * homotopy_loss(&s, h, R, 0.0)) / (t * t);
    }
    assert_close((4.0 * second[0] - second[1]) / 3.0 / look.curvature, 1.0, 1e-6);
    assert_true(look.curvature <= look.curvature_bound && look.curvature_bound < 0.0);
    free(h);
    scene_free(&s);
  }
}

static void below_the_lowest_rung_b_cannot_be_singular(void **state) {
  (void)state;
  scene s = scene_of(3, 3);
  mhas_landscape look = {0};
  for (int i = 1; i <= 20; i++) { /* h nearer and nearer to f */
    double *noise = normal(40 + i, 0.6 / i, TOKENS * 3);
    for (int64_t j = 0; j < TOKENS * 3; j++) {
      s.h[j] = s.F[j] + noise[j];
    }
    free(noise);
    const double loss = scene_loss(&s);
    assert_int_equal(mhas_landscape_look(&s.m, 1e-8, &look, &error), MHAS_OK);
    const double r = s.ladder.eigenvalues[0];
    const double most = s.m.eigenvalues[2];
    if (2.0 * loss < r) {
      assert_true(look.sigma_min_b * look.sigma_min_b >= (r - 2.0 * loss) / most);
    }
  }
  scene_free(&s);
}

static void no_features_get_below_the_floor_of_a_misspecified_model(void **state) {
  (void)state;
  scene s = scene_of(2, 5);
  double sum = 0.0;
  for (int i = 0; i < 3; i++) {
    sum += 0.5 * s.ladder.eigenvalues[i];
  }
  assert_close(s.ladder.floor, sum, 1e-15);
  for (int i = 0; i < 10; i++) {
    double *h = normal(50 + i, 1.0, TOKENS * 2);
    memcpy(s.h, h, TOKENS * 2 * sizeof *h);
    free(h);
    assert_true(scene_loss(&s) >= s.ladder.floor);
  }
  assert_close(critical_point(&s, 8U | 16U), s.ladder.floor, 1e-13);
  assert_close(scene_loss(&s), s.ladder.floor, 1e-12);
  scene_free(&s);
}

static void the_scale_of_the_features_is_free(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  const double loss = reduced(&r);
  cblas_dscal((int)r.a_count, 1e-3, r.a, 1);
  assert_close(reduced(&r), loss, 1e-12);
  rig_free(&r);
}

/* ---- prompts of finite length ------------------------------------------------------------------------ */

static void long_prompts_approach_the_limit_by_one_over_their_length(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  const double limit = reduced(&r);
  double gap[2];
  for (int i = 0; i < 2; i++) {
    double loss = 0.0;
    assert_int_equal(mhas_finite_loss(&r.m, EXPECTED_N, r.h, r.F, i == 0 ? 10000000 : 100000000, &loss, NULL, &error),
                     MHAS_OK);
    gap[i] = loss - limit;
  }
  assert_true(gap[0] > 0.0 && gap[1] > 0.0);
  assert_close(gap[0] / gap[1], 10.0, 0.02);
  rig_free(&r);
}

/* ---- near-singular S ----------------------------------------------------------------------------------- */

static void a_pseudo_inverse_leaves_a_lost_output_exactly_alone(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  const int64_t last = EXPECTED_K - 1;
  for (int64_t i = 0; i < EXPECTED_M; i++) {
    r.a[i * EXPECTED_K + last] = 0.0;
  }
  r.m.cut_off = 1e-13;
  (void)reduced(&r);
  assert_true(isinf(r.m.condition));
  assert_int_equal(r.m.rank, last);
  mhas_meanfield_backward(r.mlp, r.q, r.g_a, r.g_w);
  for (int64_t i = 0; i < EXPECTED_M; i++) {
    assert_true(r.g_a[i * EXPECTED_K + last] == 0.0);
  }
  double loss = 0.0;
  assert_int_equal(mhas_finite_loss(&r.m, EXPECTED_N, r.h, r.F, 10, &loss, NULL, &error), MHAS_NUMERIC);
  assert_non_null(strstr(error.text, "singular"));
  mhas_landscape look = {0};
  assert_int_equal(mhas_landscape_look(&r.m, 1e-8, &look, &error), MHAS_OK);
  assert_int_equal(look.rank_cross, last);
  assert_true(isnan(look.curvature));
  rig_free(&r);
}

static void a_ridge_raises_what_is_left(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  const double without = reduced(&r);
  r.m.ridge = 0.1;
  assert_true(reduced(&r) > without);
  r.m.ridge = 0.0;
  assert_close(reduced(&r), without, 0.0);
  rig_free(&r);
}

static void the_best_attention_leaves_no_gap(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  const double least = reduced(&r);
  double smallest = 0.0;
  double largest = 0.0;
  memcpy(r.W, r.m.S_inverse, 9 * sizeof *r.W);
  assert_close(joint(&r), least, 1e-12);
  assert_true(mhas_joint_gap(&r.m, r.W) < 1e-11);
  assert_int_equal(mhas_joint_ends(&r.m, &smallest, &largest, &error), MHAS_OK);
  assert_true(0.0 < smallest && smallest < largest);
  rig_free(&r);
}

/* ---- errors ---------------------------------------------------------------------------------------------- */

static void what_is_not_finite_is_said(void **state) {
  (void)state;
  rig r = expected_rig(MHAS_FLOAT64);
  double smallest = 0.0;
  double largest = 0.0;
  mhas_ladder ladder = {0};
  const double bad = NAN;
  r.a[3] = NAN;
  mhas_meanfield_forward(r.mlp, r.a, r.w, r.X, r.h);
  assert_int_equal(mhas_moments_take(&r.m, EXPECTED_N, r.h, r.F, &error), MHAS_NUMERIC);
  assert_non_null(strstr(error.text, "E[h h^T]"));
  assert_int_equal(mhas_joint_ends(&r.m, &smallest, &largest, &error), MHAS_NUMERIC);
  assert_int_equal(mhas_ladder_create(1, 1, &bad, &ladder, &error), MHAS_NUMERIC);
  mhas_ladder_free(&ladder);
  rig_free(&r);
}

static void sizes_that_cannot_be_are_refused(void **state) {
  (void)state;
  mhas_meanfield *made = NULL;
  mhas_ladder ladder = {0};
  const mhas_meanfield_shape wide = {10, (int64_t)1 << 40, 3, 2, MHAS_SIGMOID};
  const mhas_meanfield_shape large = {(int64_t)1 << 30, (int64_t)1 << 30, 3, 2, MHAS_SIGMOID};
  const mhas_meanfield_shape much = {(int64_t)1 << 22, (int64_t)1 << 20, 3, 2, MHAS_SIGMOID};
  assert_int_equal(mhas_meanfield_check(&wide, &error), MHAS_LIMIT);
  assert_int_equal(mhas_meanfield_check(&large, &error), MHAS_LIMIT);
  assert_int_equal(mhas_meanfield_create(&much, MHAS_FLOAT64, &made, &error), MHAS_NO_MEMORY);
  assert_null(made);
  assert_int_equal(mhas_ladder_create(5, MHAS_LADDER_MOST + 1, NULL, &ladder, &error), MHAS_LIMIT);
  mhas_meanfield_destroy(NULL);
}

int main(void) {
  openblas_set_num_threads(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_gradients_and_products_are_those_of_the_independent_program),
      cmocka_unit_test(single_precision_is_near_double),
      cmocka_unit_test(gradients_are_those_of_differences_for_every_neuron),
      cmocka_unit_test(the_gradient_of_attention_is_that_of_differences),
      cmocka_unit_test(the_product_is_the_second_derivative_along_the_features),
      cmocka_unit_test(products_are_symmetric),
      cmocka_unit_test(the_penalty_has_the_gradient_of_differences),
      cmocka_unit_test(blocks_of_every_size_give_what_plain_loops_give),
      cmocka_unit_test(neurons_are_exact_to_rounding_from_one_end_to_the_other),
      cmocka_unit_test(neurons_saturate_and_keep_what_is_not_a_number),
      cmocka_unit_test(every_width_of_the_vector_unit_gives_the_same_bits),
      cmocka_unit_test(constructed_critical_points_sit_on_the_ladder),
      cmocka_unit_test(the_curvature_along_the_homotopy_is_its_closed_form_and_below_the_bound),
      cmocka_unit_test(below_the_lowest_rung_b_cannot_be_singular),
      cmocka_unit_test(no_features_get_below_the_floor_of_a_misspecified_model),
      cmocka_unit_test(the_scale_of_the_features_is_free),
      cmocka_unit_test(long_prompts_approach_the_limit_by_one_over_their_length),
      cmocka_unit_test(a_pseudo_inverse_leaves_a_lost_output_exactly_alone),
      cmocka_unit_test(a_ridge_raises_what_is_left),
      cmocka_unit_test(the_best_attention_leaves_no_gap),
      cmocka_unit_test(what_is_not_finite_is_said),
      cmocka_unit_test(sizes_that_cannot_be_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
