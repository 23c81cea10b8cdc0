/* What regularises a training, and what is left of a model in fewer parameters or bits. */
#include <string.h>

#include "rig.h"

static const mhas_random case_random = {.seed = 11, .replicate = 2};

static mhas_model_shape shape_with(double dropout, double noise, const mhas_variant *variant, bool shared) {
  return (mhas_model_shape){.heads = 3,
                            .dim = 5,
                            .key_dim = 2,
                            .value_dim = 2,
                            .out_dim = 4,
                            .context = 7,
                            .shared = shared,
                            .classes = 3,
                            .logit_scale = 2.0,
                            .position_base = 1e4,
                            .variant = *variant,
                            .disturbance = {.dropout = dropout, .noise = noise}};
}

static const mhas_variant softmax = {.weighting = MHAS_SOFTMAX};

static rig rig_with(double dropout, double noise, mhas_precision precision) {
  const mhas_model_shape shape = shape_with(dropout, noise, &softmax, false);
  return rig_create(&shape, precision, 6, MHAS_GAUSSIAN, case_random);
}

static double loss_of_step(const rig *r, int64_t step) {
  mhas_model_disturb(r->model, case_random, step);
  return rig_loss(r);
}

static double loss_of_step_3(const rig *r) { return loss_of_step(r, 3); }

/* ---- dropout and noise -------------------------------------------------------------- */

static void gradients_under_dropout_and_noise_are_those_of_differences(void **state) {
  (void)state;
  const mhas_variant composed = {MHAS_SOFTMAX, {7, 7}, 2, 30.0};
  for (int i = 0; i < 4; i++) {
    const mhas_model_shape shape = shape_with(0.4, 0.7, i / 2 == 0 ? &softmax : &composed, i % 2 == 1);
    rig r = rig_create(&shape, MHAS_FLOAT64, 4, MHAS_GAUSSIAN, case_random);
    for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
      check_differences(&r, slice, loss_of_step_3, 2e-5, 1e-7);
    }
    rig_destroy(&r);
  }
}

static void a_step_is_disturbed_the_same_way_each_time_and_other_steps_differently(void **state) {
  (void)state;
  const double strengths[3][2] = {{0.5, 0.0}, {0.0, 0.5}, {0.3, 0.3}};
  for (int i = 0; i < 3; i++) {
    rig r = rig_with(strengths[i][0], strengths[i][1], MHAS_FLOAT32);
    const double third = loss_of_step(&r, 3);
    assert_true(loss_of_step(&r, 4) != third);
    assert_true(loss_of_step(&r, 3) == third);
    rig_destroy(&r);
  }
}

/* Only the gradient right behind mhas_model_disturb is disturbed. */
static void scores_outputs_and_later_gradients_are_not_disturbed(void **state) {
  (void)state;
  rig plain = rig_with(0.0, 0.0, MHAS_FLOAT64);
  rig r = rig_with(0.5, 0.5, MHAS_FLOAT64);
  double outputs[2][18];
  mhas_model_forward(plain.model, &plain.samples, plain.picks, plain.T, outputs[0]);
  const double loss = rig_loss(&plain);
  mhas_model_disturb(r.model, case_random, 0);
  mhas_model_forward(r.model, &r.samples, r.picks, r.T, outputs[1]);
  assert_memory_equal(outputs[0], outputs[1], sizeof outputs[0]);
  assert_true(mhas_model_score(r.model, &r.samples, 0, r.T).loss ==
              mhas_model_score(plain.model, &plain.samples, 0, plain.T).loss);
  assert_true(rig_loss(&r) != loss);
  assert_true(rig_loss(&r) == loss);
  mhas_model_disturb(plain.model, case_random, 0); /* nothing to disturb */
  assert_true(rig_loss(&plain) == loss);
  rig_destroy(&plain);
  rig_destroy(&r);
}

/* The expectation of a dropped-out weight is the weight: over many steps the mean of the gradients of an output that is
 * linear in the weights comes near that without dropout. */
static void dropout_keeps_the_mean_of_what_is_linear(void **state) {
  (void)state;
  enum { STEPS = 20000 };
  mhas_model_shape shape = shape_with(0.25, 0.0, &softmax, true);
  shape.classes = 0;
  rig r = rig_create(&shape, MHAS_FLOAT64, 1, MHAS_GAUSSIAN, case_random);
  double output = 0.0;
  mhas_model_forward(r.model, &r.samples, r.picks, 1, &output);
  /* d loss / d bias = 2 (output - label) */
  double sum = 0.0;
  double squares = 0.0;
  for (int64_t step = 0; step < STEPS; step++) {
    (void)loss_of_step(&r, step);
    double slope = 0.0;
    mhas_model_get_gradient(r.model, MHAS_DECODER_BIAS, &slope);
    const double seen = slope / 2.0 + r.samples.labels[0];
    sum += seen;
    squares += (seen - output) * (seen - output);
  }
  const double deviation = sqrt(squares / STEPS);
  assert_true(deviation > 1e-3);
  assert_close((sum / STEPS - output) / deviation, 0.0, 4.0 / sqrt((double)STEPS));
  rig_destroy(&r);
}

/* ---- decay ---------------------------------------------------------------------------- */

static void weight_decay_is_that_of_adamw(void **state) {
  (void)state;
  rig r = rig_with(0.0, 0.0, MHAS_FLOAT64);
  double *before = slice_values(&r, MHAS_W_QUERY, mhas_model_get);
  mhas_model_decay(r.model, 0.1, 0.5);
  double *after = slice_values(&r, MHAS_W_QUERY, mhas_model_get);
  for (int64_t i = 0; i < mhas_slice_count(&r.shape, MHAS_W_QUERY); i++) {
    assert_close(after[i], before[i] * (1.0 - 0.1 * 0.5), 1e-16);
  }
  free(before);
  free(after);
  rig_destroy(&r);
}

static void l1_moves_every_parameter_nearer_to_zero_and_no_further(void **state) {
  (void)state;
  rig r = rig_with(0.0, 0.0, MHAS_FLOAT64);
  const double before[4] = {0.3, -0.3, 0.01, NAN};
  double bias[5] = {0.3, -0.3, 0.01, NAN, -0.02};
  mhas_model_set(r.model, MHAS_EMBEDDING_BIAS, bias);
  mhas_model_shrink(r.model, 0.1, 0.2);
  mhas_model_get(r.model, MHAS_EMBEDDING_BIAS, bias);
  assert_close(bias[0], before[0] - 0.02, 1e-16);
  assert_close(bias[1], before[1] + 0.02, 1e-16);
  assert_true(bias[2] == 0.0);
  assert_true(isnan(bias[3])); /* what has diverged is not hidden */
  assert_true(bias[4] == 0.0);
  rig_destroy(&r);
}

/* ---- compression ------------------------------------------------------------------------- */

static int64_t zeros_of(const rig *r, double *largest_zeroed, const rig *original) {
  int64_t zeros = 0;
  *largest_zeroed = 0.0;
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    double *values = slice_values(r, slice, mhas_model_get);
    double *was = slice_values(original, slice, mhas_model_get);
    for (int64_t i = 0; i < mhas_slice_count(&r->shape, slice); i++) {
      zeros += values[i] == 0.0;
      if (values[i] == 0.0) {
        *largest_zeroed = fmax(*largest_zeroed, fabs(was[i]));
      } else {
        assert_true(values[i] == was[i]);
      }
    }
    free(values);
    free(was);
  }
  return zeros;
}

static double least_kept(const rig *r) {
  double least = INFINITY;
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    double *values = slice_values(r, slice, mhas_model_get);
    for (int64_t i = 0; i < mhas_slice_count(&r->shape, slice); i++) {
      least = values[i] == 0.0 ? least : fmin(least, fabs(values[i]));
    }
    free(values);
  }
  return least;
}

static void pruning_drops_the_smallest_of_all_parameters(void **state) {
  (void)state;
  const double shares[] = {0.0, 1e-9, 0.1, 0.5, 0.999, 1.0};
  rig original = rig_with(0.0, 0.0, MHAS_FLOAT32);
  const int64_t count = mhas_model_parameters(&original.shape);
  for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
    rig r = rig_with(0.0, 0.0, MHAS_FLOAT32);
    double largest = NAN;
    assert_int_equal(mhas_model_prune(r.model, shares[i], &rig_error), MHAS_OK);
    assert_int_equal(zeros_of(&r, &largest, &original), (int64_t)(shares[i] * (double)count));
    assert_true(largest <= least_kept(&r));
    rig_destroy(&r);
  }
  rig_destroy(&original);
}

static void of_equal_parameters_the_first_are_pruned(void **state) {
  (void)state;
  rig r = rig_with(0.0, 0.0, MHAS_FLOAT64);
  const int64_t count = mhas_model_parameters(&r.shape);
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    double *values = slice_values(&r, slice, mhas_model_get);
    for (int64_t i = 0; i < mhas_slice_count(&r.shape, slice); i++) {
      values[i] = i % 2 == 0 ? 0.5 : -0.5;
    }
    mhas_model_set(r.model, slice, values);
    free(values);
  }
  assert_int_equal(mhas_model_prune(r.model, 3.5 / (double)count, &rig_error), MHAS_OK);
  double embedding[25];
  mhas_model_get(r.model, MHAS_EMBEDDING, embedding);
  for (int i = 0; i < 25; i++) {
    assert_close(fabs(embedding[i]), i < 3 ? 0.0 : 0.5, 0.0);
  }
  rig_destroy(&r);
}

static void rounded_parameters_are_multiples_of_a_step_of_their_array(void **state) {
  (void)state;
  for (int bits = 2; bits <= 8; bits++) {
    rig original = rig_with(0.0, 0.0, MHAS_FLOAT64);
    rig r = rig_with(0.0, 0.0, MHAS_FLOAT64);
    assert_int_equal(mhas_model_quantize(r.model, bits, &rig_error), MHAS_OK);
    for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
      double *was = slice_values(&original, slice, mhas_model_get);
      double *now = slice_values(&r, slice, mhas_model_get);
      double most = 0.0;
      for (int64_t i = 0; i < mhas_slice_count(&r.shape, slice); i++) {
        most = fmax(most, fabs(was[i]));
      }
      const double step = most / (double)((1 << (bits - 1)) - 1);
      for (int64_t i = 0; i < mhas_slice_count(&r.shape, slice); i++) {
        assert_close(now[i] / step, round(now[i] / step), 1e-12);
        assert_true(fabs(now[i] - was[i]) <= step * 0.5000001);
      }
      free(was);
      free(now);
    }
    rig_destroy(&original);
    rig_destroy(&r);
  }
}

static void many_bits_and_an_array_of_zeros_change_nothing_to_speak_of(void **state) {
  (void)state;
  rig r = rig_with(0.0, 0.0, MHAS_FLOAT64);
  double zeros[5] = {0};
  double embedding[2][25];
  mhas_model_set(r.model, MHAS_EMBEDDING_BIAS, zeros);
  mhas_model_get(r.model, MHAS_EMBEDDING, embedding[0]);
  assert_int_equal(mhas_model_quantize(r.model, 32, &rig_error), MHAS_OK);
  mhas_model_get(r.model, MHAS_EMBEDDING_BIAS, zeros);
  mhas_model_get(r.model, MHAS_EMBEDDING, embedding[1]);
  assert_all_close(embedding[1], embedding[0], 25, 1e-9);
  for (int i = 0; i < 5; i++) {
    assert_true(zeros[i] == 0.0);
  }
  rig_destroy(&r);
}

static void the_best_parameters_come_back(void **state) {
  (void)state;
  rig r = rig_with(0.0, 0.0, MHAS_FLOAT32);
  double *best = slice_values(&r, MHAS_W_OUT, mhas_model_get);
  mhas_model_keep_best(r.model);
  assert_int_equal(mhas_model_prune(r.model, 1.0, &rig_error), MHAS_OK);
  mhas_model_load_best(r.model);
  double *back = slice_values(&r, MHAS_W_OUT, mhas_model_get);
  assert_memory_equal(back, best, (size_t)mhas_slice_count(&r.shape, MHAS_W_OUT) * sizeof *best);
  free(best);
  free(back);
  rig_destroy(&r);
}

/* ---- labels ------------------------------------------------------------------------------- */

static void a_share_of_the_labels_gives_way_to_random_ones(void **state) {
  (void)state;
  enum { T = 20000 };
  static double clean[T];
  static double noisy[T];
  mhas_data_shape shape = {.samples = T, .context = 1, .dim = 1, .classes = 10};
  mhas_data_labels(&shape, case_random, 0, T, clean);
  memcpy(noisy, clean, sizeof clean);
  mhas_data_label_noise(&shape, case_random, 0.0, 0, T, noisy);
  assert_memory_equal(noisy, clean, sizeof clean);
  mhas_data_label_noise(&shape, case_random, 0.3, 0, T, noisy);
  int64_t changed = 0;
  for (int64_t t = 0; t < T; t++) {
    assert_true(noisy[t] == floor(noisy[t]) && noisy[t] >= 0.0 && noisy[t] < 10.0);
    changed += noisy[t] != clean[t];
  }
  /* 0.3 times 9 in 10, within four standard errors */
  assert_close((double)changed / T, 0.27, 4.0 * sqrt(0.27 * 0.73 / T));
  /* any block by itself */
  double block[100];
  memcpy(block, clean + 777, sizeof block);
  mhas_data_label_noise(&shape, case_random, 0.3, 777, 100, block);
  assert_memory_equal(block, noisy + 777, sizeof block);
  /* numbers */
  shape.classes = 0;
  mhas_data_labels(&shape, case_random, 0, 100, block);
  mhas_data_label_noise(&shape, case_random, 1.0, 0, 100, block);
  for (int i = 0; i < 100; i++) {
    assert_true(block[i] >= 0.0 && block[i] < 1.0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_under_dropout_and_noise_are_those_of_differences),
      cmocka_unit_test(a_step_is_disturbed_the_same_way_each_time_and_other_steps_differently),
      cmocka_unit_test(scores_outputs_and_later_gradients_are_not_disturbed),
      cmocka_unit_test(dropout_keeps_the_mean_of_what_is_linear),
      cmocka_unit_test(weight_decay_is_that_of_adamw),
      cmocka_unit_test(l1_moves_every_parameter_nearer_to_zero_and_no_further),
      cmocka_unit_test(pruning_drops_the_smallest_of_all_parameters),
      cmocka_unit_test(of_equal_parameters_the_first_are_pruned),
      cmocka_unit_test(rounded_parameters_are_multiples_of_a_step_of_their_array),
      cmocka_unit_test(many_bits_and_an_array_of_zeros_change_nothing_to_speak_of),
      cmocka_unit_test(the_best_parameters_come_back),
      cmocka_unit_test(a_share_of_the_labels_gives_way_to_random_ones),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
