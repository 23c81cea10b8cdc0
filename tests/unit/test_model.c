/* The trained model: forward against an independent program, gradients against differences, and the recipe's parts. */
#include <cblas.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/model/expected.h"
#include "model/order.h"
#include "rig.h"

/* clang-format off */
#define PLAIN {MHAS_SOFTMAX, {0, 0}, 0, 0.0}, {0.0, 0.0} /* softmax attention, nothing disturbed */
/* clang-format on */

/* Odd sizes: ones, primes, wide values, more outputs than anything; own and shared contexts, classes and numbers. */
static const struct {
  int64_t T;
  mhas_model_shape shape;
} cases[] = {
    {5, {2, 5, 3, 2, 4, 3, false, 3, 1.5, 1e4, PLAIN}},  {6, {3, 6, 2, 1, 5, 4, true, 0, 2.0, 1e4, PLAIN}},
    {1, {1, 1, 1, 1, 1, 1, false, 2, 1.0, 1e4, PLAIN}},  {1, {1, 1, 1, 1, 1, 1, true, 0, 1.0, 1e4, PLAIN}},
    {1, {3, 7, 1, 3, 5, 1, true, 11, 1.0, 1e4, PLAIN}},  {4, {1, 7, 5, 3, 5, 11, false, 0, 3.0, 1e4, PLAIN}},
    {3, {5, 2, 7, 3, 5, 13, true, 2, 4.0, 100., PLAIN}}, {7, {2, 3, 1, 1, 2, 2, false, 13, 0.5, 1.0, PLAIN}},
    {5, {4, 8, 8, 1, 8, 5, true, 4, 1.0, 1e4, PLAIN}},   {11, {2, 4, 3, 3, 1, 1, false, 0, 1.0, 1e4, PLAIN}},
};
enum { CASES = sizeof cases / sizeof *cases };
static const mhas_random case_random = {.seed = 5, .replicate = 1};
static const mhas_order layered = {.folded = false};

static rig rig_of_case(int i, mhas_precision precision) {
  return rig_create(&cases[i].shape, precision, cases[i].T, MHAS_GAUSSIAN, case_random);
}

/* ---- against the independent program --------------------------------------------- */

static void own_contexts_and_classes_give_the_expected_outputs_and_gradients(void **state) {
  (void)state;
  const mhas_model_shape shape = {2, 5, 3, 2, 4, 3, false, 3, 1.5, 1e4, PLAIN};
  const expectation expected = {expected_own_outputs, expected_own_loss, expected_own_gradient_norm,
                                expected_own_gradient_moment};
  check_expectation(&shape, 5, MHAS_UNIFORM, &expected, 1e-14);
}

static void a_shared_context_and_numbers_give_the_expected_outputs_and_gradients(void **state) {
  (void)state;
  const mhas_model_shape shape = {3, 6, 2, 1, 5, 4, true, 0, 2.0, 1e4, PLAIN};
  const expectation expected = {expected_shared_outputs, expected_shared_loss, expected_shared_gradient_norm,
                                expected_shared_gradient_moment};
  check_expectation(&shape, 6, MHAS_GAUSSIAN, &expected, 1e-14);
}

/* ---- against itself ----------------------------------------------------------------- */

/* The largest parameter array of the cases has a few hundred entries: each is moved both ways. */
static void gradients_are_those_of_central_differences(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    rig r = rig_of_case(i, MHAS_FLOAT64);
    for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
      check_differences(&r, slice, rig_loss, 1e-5, 1e-8);
    }
    rig_destroy(&r);
  }
}

static void single_precision_agrees_with_double(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    rig single = rig_of_case(i, MHAS_FLOAT32);
    rig twice = rig_of_case(i, MHAS_FLOAT64);
    const int64_t outputs = cases[i].T * mhas_model_outputs(&cases[i].shape);
    double a[256];
    double b[256];
    assert_in_range(outputs, 1, 256);
    mhas_model_forward(single.model, &single.samples, single.picks, single.T, a);
    mhas_model_forward(twice.model, &twice.samples, twice.picks, twice.T, b);
    assert_all_close(a, b, outputs, 2e-5);
    assert_close(rig_loss(&single), rig_loss(&twice), 2e-5);
    check_same_gradients(&single, &twice, 1e-4);
    rig_destroy(&single);
    rig_destroy(&twice);
  }
}

static void a_shared_context_is_the_same_as_that_context_repeated(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    if (!cases[i].shape.shared) {
      continue;
    }
    rig shared = rig_of_case(i, MHAS_FLOAT64);
    rig own = rig_with_own_contexts(&shared, case_random);
    assert_close(rig_loss(&own), rig_loss(&shared), 1e-14);
    check_same_gradients(&own, &shared, 1e-13);
    rig_destroy(&shared);
    rig_destroy(&own);
  }
}

static void picks_choose_samples_and_the_loss_is_their_mean(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    rig r = rig_of_case(i, MHAS_FLOAT64);
    double sum = 0.0;
    for (int64_t t = r.T - 1; t >= 0; t--) {
      sum += mhas_model_gradient(r.model, &r.samples, &t, 1);
    }
    assert_close(rig_loss(&r), sum / (double)r.T, 1e-13);
    const mhas_score score = mhas_model_score(r.model, &r.samples, 0, r.T);
    assert_close(score.loss, sum, 1e-13);
    rig_destroy(&r);
  }
}

static void the_score_counts_largest_outputs_that_are_the_label(void **state) {
  (void)state;
  rig r = rig_of_case(0, MHAS_FLOAT64);
  double outputs[15];
  mhas_model_forward(r.model, &r.samples, r.picks, r.T, outputs);
  for (int64_t t = 0; t < r.T; t++) {
    int best = 0;
    for (int c = 1; c < 3; c++) {
      best = outputs[3 * t + c] > outputs[3 * t + best] ? c : best;
    }
    r.samples.labels[t] = best;
  }
  assert_int_equal(mhas_model_score(r.model, &r.samples, 0, r.T).right, r.T);
  r.samples.labels[2] = r.samples.labels[2] == 0.0 ? 1.0 : 0.0;
  assert_int_equal(mhas_model_score(r.model, &r.samples, 0, r.T).right, r.T - 1);
  assert_int_equal(mhas_model_score(r.model, &r.samples, 2, 1).right, 0);
  rig_destroy(&r);
}

static void huge_logits_do_not_overflow(void **state) {
  (void)state;
  const mhas_model_shape shape = {2, 5, 3, 2, 4, 3, false, 3, 1e12, 1e4, PLAIN};
  for (int precision = MHAS_FLOAT32; precision <= MHAS_FLOAT64; precision++) {
    rig r = rig_create(&shape, (mhas_precision)precision, 5, MHAS_GAUSSIAN, case_random);
    assert_true(isfinite(rig_loss(&r)));
    rig_destroy(&r);
  }
}

static void the_same_calls_give_the_same_bits(void **state) {
  (void)state;
  const mhas_model_shape shape = {5, 24, 16, 1, 24, 9, false, 10, 1.0, 1e4, PLAIN};
  const mhas_adam adam = {0.9, 0.999, 1e-8};
  double *weights[2];
  double losses[2][20];
  for (int turn = 0; turn < 2; turn++) {
    void *shift = malloc(turn == 0 ? 8 : 4104); /* the second model lives elsewhere */
    rig r = rig_create(&shape, MHAS_FLOAT32, 50, MHAS_UNIFORM, case_random);
    for (int step = 0; step < 20; step++) {
      losses[turn][step] = mhas_model_gradient(r.model, &r.samples, r.picks + step, 30);
      mhas_model_update(r.model, &adam, 1e-2);
    }
    weights[turn] = slice_values(&r, MHAS_W_QUERY, mhas_model_get);
    rig_destroy(&r);
    free(shift);
  }
  assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
  assert_memory_equal(weights[0], weights[1], (size_t)mhas_slice_count(&shape, MHAS_W_QUERY) * sizeof(double));
  assert_true(losses[0][19] < losses[0][0]);
  free(weights[0]);
  free(weights[1]);
}

/* ---- parameters ------------------------------------------------------------------- */

static void initial_values_fill_their_bounds(void **state) {
  (void)state;
  const mhas_model_shape shape = {6, 30, 20, 3, 25, 4, true, 50, 1.0, 1e4, PLAIN};
  const double bounds[MHAS_PRE_BASE] = {sqrt(1.0 / 30), sqrt(1.0 / 30), sqrt(6.0 / 50), sqrt(6.0 / 50),
                                        sqrt(6.0 / 33), sqrt(6.0 / 43), sqrt(1.0 / 25), sqrt(1.0 / 25)};
  rig r = rig_create(&shape, MHAS_FLOAT64, 2, MHAS_UNIFORM, case_random);
  for (mhas_slice slice = 0; slice < MHAS_PRE_BASE; slice++) {
    double *values = slice_values(&r, slice, mhas_model_get);
    double least = INFINITY;
    double most = -INFINITY;
    for (int64_t i = 0; i < mhas_slice_count(&shape, slice); i++) {
      least = fmin(least, values[i]);
      most = fmax(most, values[i]);
    }
    assert_true(least >= -bounds[slice] && most < bounds[slice]);
    assert_true(least < -0.8 * bounds[slice] && most > 0.8 * bounds[slice]);
    free(values);
  }
  rig_destroy(&r);
}

static void the_first_heads_are_the_same_for_any_number_of_heads(void **state) {
  (void)state;
  const mhas_model_shape few = {2, 6, 5, 3, 4, 3, false, 3, 1.0, 1e4, PLAIN};
  mhas_model_shape many = few;
  many.heads = 5;
  rig a = rig_create(&few, MHAS_FLOAT64, 1, MHAS_UNIFORM, case_random);
  rig b = rig_create(&many, MHAS_FLOAT64, 1, MHAS_UNIFORM, case_random);
  const mhas_slice slices[] = {MHAS_W_QUERY, MHAS_W_KEY, MHAS_W_VALUE};
  for (int i = 0; i < 3; i++) {
    double *values = slice_values(&a, slices[i], mhas_model_get);
    double *more = slice_values(&b, slices[i], mhas_model_get);
    assert_memory_equal(values, more, (size_t)mhas_slice_count(&few, slices[i]) * sizeof *values);
    free(values);
    free(more);
  }
  double W_Q[2 * 6 * 5];
  double W_K[2 * 6 * 5];
  mhas_xavier_query_key(2, 6, 5, case_random, W_Q, W_K);
  double *values = slice_values(&a, MHAS_W_KEY, mhas_model_get);
  assert_memory_equal(values, W_K, sizeof W_K);
  free(values);
  rig_destroy(&a);
  rig_destroy(&b);
}

static void parameters_are_counted_as_the_paper_does(void **state) {
  (void)state;
  mhas_model_shape shape = {20, 64, 64, 1, 64, 32, false, 100, 1.0, 1e4, PLAIN};
  assert_int_equal(mhas_model_parameters(&shape), 177060);
  shape.heads = 60;
  assert_int_equal(mhas_model_parameters(&shape), 509860);
  shape.heads = 20;
  shape.classes = 0;
  assert_int_equal(mhas_model_parameters(&shape), 170625);
}

static void the_best_parameters_stay_when_training_goes_on(void **state) {
  (void)state;
  rig r = rig_of_case(0, MHAS_FLOAT32);
  const mhas_adam adam = {0.9, 0.999, 1e-8};
  double *before = slice_values(&r, MHAS_W_OUT, mhas_model_get);
  mhas_model_keep_best(r.model);
  (void)rig_loss(&r);
  mhas_model_update(r.model, &adam, 0.1);
  double *after = slice_values(&r, MHAS_W_OUT, mhas_model_get);
  double *best = slice_values(&r, MHAS_W_OUT, mhas_model_get_best);
  const size_t size = (size_t)mhas_slice_count(&r.shape, MHAS_W_OUT) * sizeof *before;
  assert_memory_equal(best, before, size);
  assert_memory_not_equal(after, before, size);
  free(before);
  free(after);
  free(best);
  rig_destroy(&r);
}

static void models_beyond_32_bit_sizes_are_refused_by_name(void **state) {
  (void)state;
  const mhas_model_shape good = {2, 5, 3, 2, 4, 3, false, 3, 1.0, 1e4, PLAIN};
  mhas_model *model = NULL;
  mhas_model_shape shape = good;
  shape.context = 1 << 16;
  assert_int_equal(mhas_model_create(&shape, MHAS_FLOAT32, 1 << 16, &model, &rig_error), MHAS_LIMIT);
  assert_non_null(strstr(rig_error.text, "batch * context"));
  shape = good;
  shape.heads = 1 << 16;
  assert_int_equal(mhas_model_check(&shape, 1 << 16, &rig_error), MHAS_LIMIT);
  assert_non_null(strstr(rig_error.text, "batch * heads"));
  shape.dim = 1 << 16;
  assert_int_equal(mhas_model_check(&shape, 1, &rig_error), MHAS_LIMIT);
  assert_non_null(strstr(rig_error.text, "heads * dim"));
  shape.dim = 1;
  shape.value_dim = 1 << 16;
  assert_int_equal(mhas_model_check(&shape, 1, &rig_error), MHAS_LIMIT);
  assert_non_null(strstr(rig_error.text, "heads * value_dim"));
  assert_null(model);
  mhas_model_destroy(NULL);
}

/* ---- the recipe -------------------------------------------------------------------- */

static void the_schedule_is_that_of_torch(void **state) {
  (void)state;
  const mhas_schedule warm = {.lr = 0.5, .warmup = 0.2, .warmup_start = 0.01, .lr_end = 0.1, .steps = 40};
  for (int64_t step = 0; step < 40; step++) {
    assert_close(mhas_schedule_lr(&warm, step) / expected_schedule[step], 1.0, 1e-12);
  }
  const mhas_schedule cold = {.lr = 0.5, .warmup = 0.0, .warmup_start = 0.01, .lr_end = 0.0, .steps = 8};
  for (int64_t step = 0; step < 8; step++) {
    assert_close(mhas_schedule_lr(&cold, step) / expected_schedule_cold[step], 1.0, 1e-12);
  }
  /* All warm-up, and a warm-up shorter than a step. */
  const mhas_schedule all = {.lr = 1.0, .warmup = 1.0, .warmup_start = 0.5, .lr_end = 0.0, .steps = 4};
  assert_close(mhas_schedule_lr(&all, 0), 0.5, 1e-15);
  assert_close(mhas_schedule_lr(&all, 3), 0.875, 1e-15);
  const mhas_schedule one = {.lr = 1.0, .warmup = 0.05, .warmup_start = 0.5, .lr_end = 0.0, .steps = 1};
  assert_close(mhas_schedule_lr(&one, 0), 1.0, 1e-15);
}

/* With Adam, m / (1 - beta1) = g and v / (1 - beta2) = g^2 after the first step, whatever the betas. */
static void the_first_step_of_adam_goes_by_the_sign_of_the_gradient(void **state) {
  (void)state;
  rig r = rig_of_case(4, MHAS_FLOAT64);
  const mhas_adam adam = {0.7, 0.95, 1e-3};
  double *before = slice_values(&r, MHAS_DECODER, mhas_model_get);
  (void)rig_loss(&r);
  double *gradient = slice_values(&r, MHAS_DECODER, mhas_model_get_gradient);
  mhas_model_update(r.model, &adam, 0.25);
  double *after = slice_values(&r, MHAS_DECODER, mhas_model_get);
  for (int64_t i = 0; i < mhas_slice_count(&r.shape, MHAS_DECODER); i++) {
    assert_close(after[i], before[i] - 0.25 * gradient[i] / (fabs(gradient[i]) + 1e-3), 1e-14);
  }
  free(before);
  free(gradient);
  free(after);
  rig_destroy(&r);
}

/* ---- costs ---------------------------------------------------------------------------- */

static void operations_are_counted_by_hand_for_one_shape(void **state) {
  (void)state;
  const mhas_model_shape own = {2, 5, 3, 7, 4, 11, false, 13, 1.0, 1e4, PLAIN};
  /* a sample: queries 2 (2 5 3 + 2 3 5) = 120, attention 2 (2 11 5 + 2 11 5) = 440, values 2 2 5 7 = 140, W_O 2 14 4 =
   * 112, decoder 2 4 13 = 104; embedding 2 12 25 = 600; softmax 5 (22 + 13) = 175 */
  assert_close(mhas_order_forward_flops(&own, layered, 3.0), 3.0 * (916 + 600 + 175), 0.0);
  assert_close(mhas_order_gradient_flops(&own, layered, 3.0), 3.0 * (3 * 916 + 2 * 600 + 2 * 175), 0.0);
  mhas_model_shape shared = own;
  shared.shared = true;
  assert_close(mhas_order_forward_flops(&shared, layered, 3.0), 3.0 * (916 + 50 + 175) + 550, 0.0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(own_contexts_and_classes_give_the_expected_outputs_and_gradients),
      cmocka_unit_test(a_shared_context_and_numbers_give_the_expected_outputs_and_gradients),
      cmocka_unit_test(gradients_are_those_of_central_differences),
      cmocka_unit_test(single_precision_agrees_with_double),
      cmocka_unit_test(a_shared_context_is_the_same_as_that_context_repeated),
      cmocka_unit_test(picks_choose_samples_and_the_loss_is_their_mean),
      cmocka_unit_test(the_score_counts_largest_outputs_that_are_the_label),
      cmocka_unit_test(huge_logits_do_not_overflow),
      cmocka_unit_test(the_same_calls_give_the_same_bits),
      cmocka_unit_test(initial_values_fill_their_bounds),
      cmocka_unit_test(the_first_heads_are_the_same_for_any_number_of_heads),
      cmocka_unit_test(parameters_are_counted_as_the_paper_does),
      cmocka_unit_test(the_best_parameters_stay_when_training_goes_on),
      cmocka_unit_test(models_beyond_32_bit_sizes_are_refused_by_name),
      cmocka_unit_test(the_schedule_is_that_of_torch),
      cmocka_unit_test(the_first_step_of_adam_goes_by_the_sign_of_the_gradient),
      cmocka_unit_test(operations_are_counted_by_hand_for_one_shape),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
