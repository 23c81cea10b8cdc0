/* Variants of attention: forward against an independent program, gradients against differences, and what each promises.
 */
#include <stdio.h>
#include <string.h>

#include "data/model/variants.h"
#include "model/order.h"
#include "rig.h"

enum { B = MHAS_BRANCH_BASE, Q = MHAS_BRANCH_QUERY, K = MHAS_BRANCH_KEY, ALL = B | Q | K };
static const mhas_random case_random = {.seed = 5, .replicate = 1};
static const mhas_order layered = {.folded = false};

/* Big enough a scale that composing is far from the identity. */
static const mhas_variant variants[] = {
    {MHAS_LINEAR, {0, 0}, 0, 0.0},    {MHAS_HARD, {0, 0}, 0, 0.0},        {MHAS_SOFTMAX, {B, B}, 1, 3.0},
    {MHAS_SOFTMAX, {B, 0}, 2, 3.0},   {MHAS_SOFTMAX, {Q, 0}, 2, 50.0},    {MHAS_SOFTMAX, {0, Q}, 1, 50.0},
    {MHAS_SOFTMAX, {K, 0}, 1, 50.0},  {MHAS_SOFTMAX, {0, K}, 3, 50.0},    {MHAS_SOFTMAX, {Q | K, Q | K}, 2, 50.0},
    {MHAS_SOFTMAX, {ALL, K}, 2, 5.0}, {MHAS_SOFTMAX, {ALL, ALL}, 1, 5.0}, {MHAS_LINEAR, {Q, B | K}, 2, 50.0},
    {MHAS_HARD, {K, Q}, 1, 50.0},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Odd sizes: ones and primes; own and shared contexts, classes and numbers. */
static const struct {
  int64_t T;
  mhas_model_shape shape;
} cases[] = {
    {3, {.heads = 2, .dim = 5, .key_dim = 3, .value_dim = 2, .out_dim = 4, .context = 3, .classes = 3}},
    {4, {.heads = 3, .dim = 4, .key_dim = 2, .value_dim = 1, .out_dim = 5, .context = 5, .shared = true}},
    {1, {.heads = 1, .dim = 1, .key_dim = 1, .value_dim = 1, .out_dim = 1, .context = 1, .classes = 2}},
    {2, {.heads = 1, .dim = 3, .key_dim = 2, .value_dim = 2, .out_dim = 2, .context = 7, .shared = true, .classes = 2}},
    {3, {.heads = 5, .dim = 2, .key_dim = 1, .value_dim = 1, .out_dim = 3, .context = 1}},
    {2, {.heads = 3, .dim = 7, .key_dim = 5, .value_dim = 1, .out_dim = 2, .context = 2, .shared = true}},
};
enum { CASES = sizeof cases / sizeof *cases };

static mhas_model_shape shape_of(int c, const mhas_variant *variant) {
  mhas_model_shape shape = cases[c].shape;
  shape.logit_scale = 2.0;
  shape.position_base = 1e4;
  shape.variant = *variant;
  return shape;
}

static rig rig_of(int c, const mhas_variant *variant, mhas_precision precision) {
  const mhas_model_shape shape = shape_of(c, variant);
  return rig_create(&shape, precision, cases[c].T, MHAS_GAUSSIAN, case_random);
}

/* ---- against the independent program --------------------------------------------- */

static void check_features(const mhas_model_shape *s, int64_t T, mhas_distribution distribution,
                           const double *expected) {
  const mhas_random random = {.seed = 42, .replicate = 1};
  const mhas_features_shape shape = {.heads = s->heads,
                                     .dim = s->dim,
                                     .key_dim = s->key_dim,
                                     .context = s->context,
                                     .shared = s->shared,
                                     .logit_scale = s->logit_scale,
                                     .variant = s->variant};
  const mhas_data_shape data = {
      .samples = T, .context = s->context, .dim = s->dim, .shared = s->shared, .distribution = distribution};
  double E[64];
  double e[32];
  double W_Q[32];
  double W_K[32];
  double Z[64];
  double *compose = calloc((size_t)mhas_variant_parameters(&s->variant, s->heads, s->dim) + 1, sizeof *compose);
  double *scratch = calloc((size_t)mhas_features_scratch(&shape, T), sizeof *scratch);
  assert_non_null(compose);
  assert_non_null(scratch);
  mhas_data_contexts(&data, random, 0, mhas_data_contexts_count(&data), E);
  mhas_data_queries(&data, random, 0, T, e);
  mhas_xavier_query_key(s->heads, s->dim, s->key_dim, random, W_Q, W_K);
  mhas_variant_draw(&s->variant, s->heads, s->dim, random, compose);
  (void)mhas_features(&shape, T, E, e, W_Q, W_K, compose, scratch, Z);
  assert_all_close(Z, expected, T * s->heads * s->dim, 1e-13);
  free(compose);
  free(scratch);
}

/* The sizes of generate_variants.py. */
#define SIZES                                                                                         \
  .heads = 3, .dim = 5, .key_dim = 2, .value_dim = 2, .out_dim = 4, .context = 3, .logit_scale = 2.0, \
  .position_base = 1e4
#define CHECK(name, distribution, ...)                                                                             \
  do {                                                                                                             \
    const mhas_model_shape shape = {SIZES, __VA_ARGS__};                                                           \
    const expectation expected = {variant_##name##_outputs, variant_##name##_loss, variant_##name##_gradient_norm, \
                                  variant_##name##_gradient_moment};                                               \
    check_expectation(&shape, 4, distribution, &expected, 1e-13);                                                  \
    check_features(&shape, 4, distribution, variant_##name##_features);                                            \
  } while (0)

static void linear_and_hard_weights_give_the_expected_numbers(void **state) {
  (void)state;
  CHECK(linear, MHAS_UNIFORM, .classes = 3, .variant = {MHAS_LINEAR, {0, 0}, 2, 100.0});
  CHECK(hard, MHAS_GAUSSIAN, .shared = true, .variant = {MHAS_HARD, {0, 0}, 2, 100.0});
}

static void talking_heads_give_the_expected_numbers(void **state) {
  (void)state;
  CHECK(talking, MHAS_UNIFORM, .classes = 3, .shared = true, .variant = {MHAS_SOFTMAX, {B, B}, 2, 3.0});
}

static void composed_heads_give_the_expected_numbers(void **state) {
  (void)state;
  CHECK(all_own, MHAS_GAUSSIAN, .classes = 3, .variant = {MHAS_SOFTMAX, {ALL, ALL}, 2, 100.0});
  CHECK(mixed_shared, MHAS_UNIFORM, .shared = true, .variant = {MHAS_SOFTMAX, {Q, K}, 1, 100.0});
  CHECK(mixed_own, MHAS_UNIFORM, .variant = {MHAS_SOFTMAX, {B | K, Q}, 3, 100.0});
}

/* ---- gradients ----------------------------------------------------------------------- */

static void gradients_of_every_variant_are_those_of_central_differences(void **state) {
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    for (int c = 0; c < CASES; c++) {
      rig r = rig_of(c, &variants[v], MHAS_FLOAT64);
      for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
        check_differences(&r, slice, rig_loss, 2e-5, 1e-7);
      }
      rig_destroy(&r);
    }
  }
}

/* The initial size is where the mean square is no larger than what is added to it. */
static void gradients_are_right_where_composing_starts(void **state) {
  (void)state;
  const mhas_variant variant = {MHAS_SOFTMAX, {ALL, ALL}, 2, 1.0};
  rig r = rig_of(0, &variant, MHAS_FLOAT64);
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    check_differences(&r, slice, rig_loss, 1e-5, 1e-7);
  }
  rig_destroy(&r);
}

static void hard_attention_gives_queries_and_keys_no_gradient(void **state) {
  (void)state;
  rig r = rig_of(0, &variants[1], MHAS_FLOAT64);
  (void)rig_loss(&r);
  for (mhas_slice slice = MHAS_W_QUERY; slice <= MHAS_W_KEY; slice++) {
    double *gradient = slice_values(&r, slice, mhas_model_get_gradient);
    for (int64_t i = 0; i < mhas_slice_count(&r.shape, slice); i++) {
      assert_true(gradient[i] == 0.0);
    }
    free(gradient);
  }
  rig_destroy(&r);
}

static void single_precision_of_every_variant_agrees_with_double(void **state) {
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    for (int c = 0; c < CASES; c++) {
      rig single = rig_of(c, &variants[v], MHAS_FLOAT32);
      rig twice = rig_of(c, &variants[v], MHAS_FLOAT64);
      double a[64];
      double b[64];
      mhas_model_forward(single.model, &single.samples, single.picks, single.T, a);
      mhas_model_forward(twice.model, &twice.samples, twice.picks, twice.T, b);
      assert_all_close(a, b, single.T * mhas_model_outputs(&single.shape), 2e-4);
      rig_destroy(&single);
      rig_destroy(&twice);
    }
  }
}

static void a_shared_context_is_the_same_as_that_context_repeated(void **state) {
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    rig shared = rig_of(1, &variants[v], MHAS_FLOAT64);
    rig own = rig_with_own_contexts(&shared, case_random);
    assert_close(rig_loss(&own), rig_loss(&shared), 1e-12);
    check_same_gradients(&own, &shared, 1e-11);
    rig_destroy(&shared);
    rig_destroy(&own);
  }
}

/* The last batch of an epoch is short. */
static void fewer_samples_than_the_batch_give_their_own_mean(void **state) {
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    for (int c = 0; c < CASES; c++) {
      rig r = rig_of(c, &variants[v], MHAS_FLOAT64);
      double sum = 0.0;
      for (int64_t t = r.T - 1; t >= 0; t--) {
        sum += mhas_model_gradient(r.model, &r.samples, &t, 1);
      }
      assert_close(rig_loss(&r), sum / (double)r.T, 1e-12);
      rig_destroy(&r);
    }
  }
}

/* ---- what composing promises -------------------------------------------------------- */

/* A rig whose products come layer by layer, which no variant changes. */
static rig layered_rig(int number, const mhas_variant *variant, mhas_precision precision) {
  rig r = rig_of(number, variant, precision);
  mhas_model_destroy(r.model);
  assert_int_equal(mhas_model_create_ordered(&r.shape, layered, precision, r.T, &r.model, &rig_error), MHAS_OK);
  mhas_model_initialise(r.model, case_random);
  return r;
}

static void composing_with_zeros_is_softmax_to_the_bit(void **state) {
  (void)state;
  const mhas_variant plain = {MHAS_SOFTMAX, {0, 0}, 0, 0.0};
  const mhas_variant zero = {MHAS_SOFTMAX, {ALL, ALL}, 2, 0.0};
  for (int precision = MHAS_FLOAT32; precision <= MHAS_FLOAT64; precision++) {
    for (int c = 0; c < CASES; c++) {
      rig a = layered_rig(c, &plain, (mhas_precision)precision);
      rig b = layered_rig(c, &zero, (mhas_precision)precision);
      double outputs[2][64];
      mhas_model_forward(a.model, &a.samples, a.picks, a.T, outputs[0]);
      mhas_model_forward(b.model, &b.samples, b.picks, b.T, outputs[1]);
      assert_memory_equal(outputs[0], outputs[1], (size_t)(a.T * mhas_model_outputs(&a.shape)) * sizeof(double));
      assert_true(rig_loss(&a) == rig_loss(&b));
      for (mhas_slice slice = 0; slice < MHAS_PRE_BASE; slice++) {
        double *ga = slice_values(&a, slice, mhas_model_get_gradient);
        double *gb = slice_values(&b, slice, mhas_model_get_gradient);
        for (int64_t i = 0; i < mhas_slice_count(&a.shape, slice); i++) {
          assert_true(ga[i] == gb[i]);
        }
        free(ga);
        free(gb);
      }
      rig_destroy(&a);
      rig_destroy(&b);
    }
  }
}

/* The maps of a model are what its variant says: sums of 1, ones and zeros. */
static void attention_maps_are_those_of_the_variant(void **state) {
  (void)state;
  for (int v = 0; v < VARIANTS; v++) {
    rig r = rig_of(1, &variants[v], MHAS_FLOAT64);
    double maps[4 * 3 * 5];
    mhas_model_attention(r.model, &r.samples, 1, 3, maps);
    double all[4 * 3 * 5];
    mhas_model_attention(r.model, &r.samples, 0, 4, all);
    assert_all_close(maps, all + 15, 45, 1e-13);
    for (int row = 0; row < 9; row++) {
      double sum = 0.0;
      double most = 0.0;
      for (int i = 0; i < 5; i++) {
        sum += maps[row * 5 + i];
        most = fmax(most, maps[row * 5 + i]);
      }
      if (variants[v].compose[MHAS_POST] == 0 && variants[v].weighting != MHAS_LINEAR) {
        assert_close(sum, 1.0, 1e-14);
      }
      if (variants[v].compose[MHAS_POST] == 0 && variants[v].weighting == MHAS_HARD) {
        assert_true(most == 1.0);
      }
    }
    rig_destroy(&r);
  }
}

static void shared_bounds_follow_from_how_weights_add_up(void **state) {
  (void)state;
  const mhas_variant softmax = {.weighting = MHAS_SOFTMAX};
  const mhas_variant hard = {.weighting = MHAS_HARD};
  const mhas_variant linear = {.weighting = MHAS_LINEAR};
  const mhas_variant talking = {.compose = {B, B}};
  const mhas_variant pre = {.compose = {ALL, B}};
  const mhas_variant post = {.compose = {0, Q}};
  const mhas_variant post_key = {.compose = {ALL, K | B}};
  const mhas_variant linear_post = {.weighting = MHAS_LINEAR, .compose = {0, Q}};
  assert_int_equal(mhas_variant_bound_shared(&softmax, 3, 6, 16, 8), 16);
  assert_int_equal(mhas_variant_bound_shared(&hard, 3, 6, 16, 8), 16);
  assert_int_equal(mhas_variant_bound_shared(&talking, 3, 6, 16, 8), 16);
  assert_int_equal(mhas_variant_bound_shared(&pre, 3, 6, 16, 8), 16);
  assert_int_equal(mhas_variant_bound_shared(&post, 3, 6, 16, 8), 18);
  assert_int_equal(mhas_variant_bound_shared(&post_key, 3, 6, 16, 8), 16);
  assert_int_equal(mhas_variant_bound_shared(&linear, 3, 6, 16, 8), 16);
  assert_int_equal(mhas_variant_bound_shared(&linear, 3, 5, 16, 8), 15);
  assert_int_equal(mhas_variant_bound_shared(&linear, 3, 6, 16, 4), 12);
  assert_int_equal(mhas_variant_bound_shared(&linear_post, 3, 6, 16, 8), 18);
}

static void composing_arrays_are_counted_as_the_formula_says(void **state) {
  (void)state;
  const mhas_variant variant = {MHAS_SOFTMAX, {ALL, ALL}, 2, 1.0};
  /* 4 (d 2 R H + (2 R H)^2 + d H) + 2 H^2 for d = 64, H = 4 */
  assert_int_equal(mhas_variant_parameters(&variant, 4, 64), 4 * (64 * 16 + 256 + 256) + 32);
  mhas_model_shape shape = shape_of(0, &variant);
  mhas_model_shape plain = shape;
  plain.variant = (mhas_variant){.weighting = MHAS_SOFTMAX};
  assert_int_equal(mhas_model_parameters(&shape) - mhas_model_parameters(&plain),
                   mhas_variant_parameters(&variant, shape.heads, shape.dim));
}

static void composing_operations_are_counted_by_hand_for_one_shape(void **state) {
  (void)state;
  const mhas_variant variant = {MHAS_SOFTMAX, {ALL, 0}, 3, 1.0};
  mhas_model_shape own = shape_of(0, &variant);
  mhas_model_shape plain = own;
  plain.variant = (mhas_variant){.weighting = MHAS_SOFTMAX};
  /* H 2, d 5, n 3, R 3, W 12: an input 2 (60 + 144 + 10) + 10 (12 + 2) = 568; a branch 26 2 = 52 a pair, base 8 */
  assert_close(mhas_order_forward_flops(&own, layered, 7.0) - mhas_order_forward_flops(&plain, layered, 7.0),
               7.0 * (568 + 3 * 568 + 3 * (52 + 52 + 8)), 0.0);
  own.shared = true;
  plain.shared = true;
  assert_close(mhas_order_gradient_flops(&own, layered, 7.0) - mhas_order_gradient_flops(&plain, layered, 7.0),
               3.0 * (7.0 * (568 + 3 * (52 + 52 + 8)) + 3 * 568), 0.0);
}

static void composing_beyond_32_bit_sizes_is_refused_by_name(void **state) {
  (void)state;
  const mhas_variant variant = {MHAS_SOFTMAX, {Q, 0}, 256, 1.0};
  mhas_model_shape shape = shape_of(4, &variant);
  shape.heads = 1 << 23;
  assert_int_equal(mhas_model_check(&shape, 1, &rig_error), MHAS_LIMIT);
  assert_non_null(strstr(rig_error.text, "compose_rank"));
}

static void initial_composing_has_the_authors_size(void **state) {
  (void)state;
  const mhas_variant variant = {MHAS_SOFTMAX, {ALL, ALL}, 2, 1.0};
  const double H = 8.0;
  const double d = 48.0;
  const double W = 32.0;
  const double sizes[7] = {
      0.1 / sqrt(H),     sqrt(2 / (d + W)),          0.02 / (sqrt(W) * (H + 2)), 0.005 * sqrt(2 / (d + H)),
      sqrt(2 / (d + W)), 0.02 / (sqrt(W) * (H + 2)), 0.005 * sqrt(2 / (d + H))};
  mhas_model_shape shape = shape_of(0, &variant);
  shape.heads = 8;
  shape.dim = 48;
  rig r = rig_create(&shape, MHAS_FLOAT64, 1, MHAS_UNIFORM, case_random);
  for (mhas_slice slice = MHAS_PRE_BASE; slice < MHAS_SLICES; slice++) {
    const int64_t count = mhas_slice_count(&shape, slice);
    double *values = slice_values(&r, slice, mhas_model_get);
    double squares = 0.0;
    for (int64_t i = 0; i < count; i++) {
      squares += values[i] * values[i];
    }
    /* four standard errors */
    assert_close(sqrt(squares / (double)count) / sizes[(slice - MHAS_PRE_BASE) % 7], 1.0,
                 4.0 / sqrt(2.0 * (double)count));
    free(values);
  }
  rig_destroy(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(linear_and_hard_weights_give_the_expected_numbers),
      cmocka_unit_test(talking_heads_give_the_expected_numbers),
      cmocka_unit_test(composed_heads_give_the_expected_numbers),
      cmocka_unit_test(gradients_of_every_variant_are_those_of_central_differences),
      cmocka_unit_test(gradients_are_right_where_composing_starts),
      cmocka_unit_test(hard_attention_gives_queries_and_keys_no_gradient),
      cmocka_unit_test(single_precision_of_every_variant_agrees_with_double),
      cmocka_unit_test(a_shared_context_is_the_same_as_that_context_repeated),
      cmocka_unit_test(fewer_samples_than_the_batch_give_their_own_mean),
      cmocka_unit_test(composing_with_zeros_is_softmax_to_the_bit),
      cmocka_unit_test(attention_maps_are_those_of_the_variant),
      cmocka_unit_test(shared_bounds_follow_from_how_weights_add_up),
      cmocka_unit_test(composing_arrays_are_counted_as_the_formula_says),
      cmocka_unit_test(composing_operations_are_counted_by_hand_for_one_shape),
      cmocka_unit_test(composing_beyond_32_bit_sizes_is_refused_by_name),
      cmocka_unit_test(initial_composing_has_the_authors_size),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
