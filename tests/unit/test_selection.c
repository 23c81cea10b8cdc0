/* One head with fixed values, and the two experiments that watch which tokens it selects. */
#include "experiments/selection.h"
#include "notebook.h"

static point p;
static mhas_error error;

/* ---- the head -------------------------------------------------------------------------- */

static mhas_selection make_head(int64_t n, int64_t T, double spread) {
  mhas_selection head;
  const mhas_random random = {.seed = 4};
  assert_int_equal(mhas_selection_create(n, T, true, &head, &error), MHAS_OK);
  mhas_random_normal(random, MHAS_STREAM_SAMPLE, 0, (size_t)(n * T), head.scores);
  mhas_random_normal(random, MHAS_STREAM_QUERY, 0, (size_t)(n * T), head.logits);
  for (int64_t i = 0; i < n * T; i++) {
    head.logits[i] *= spread;
  }
  for (int64_t i = 0; i < n; i++) {
    head.y[i] = i % 3 == 0 ? -1.0 : 1.0;
  }
  return head;
}

static void slopes_are_the_differences_of_the_loss(void **state) {
  (void)state;
  mhas_selection head = make_head(5, 4, 1.0);
  double slopes[20];
  (void)mhas_selection_evaluate(&head);
  memcpy(slopes, head.slopes, sizeof slopes);
  for (int64_t k = 0; k < 20; k++) {
    const double logit = head.logits[k];
    head.logits[k] = logit + 1e-5;
    const double above = mhas_selection_evaluate(&head).loss;
    head.logits[k] = logit - 1e-5;
    const double below = mhas_selection_evaluate(&head).loss;
    head.logits[k] = logit;
    assert_close((above - below) / 2e-5, slopes[k], 1e-10);
  }
  mhas_selection_free(&head);
}

/* One token has all weight but 1e-26 of it: its slope is that of the others, to all digits. */
static void slopes_keep_their_digits_where_attention_is_saturated(void **state) {
  (void)state;
  mhas_selection head = make_head(1, 3, 0.0);
  head.scores[0] = 0.3;
  head.scores[1] = -0.4;
  head.scores[2] = 0.7;
  head.logits[0] = 60.0;
  head.logits[1] = 0.5;
  (void)mhas_selection_evaluate(&head);
  const double factor = 1.0 / (1.0 + exp(-0.3)); /* y = -1 */
  const double first = factor * exp(0.5 - 60.0) * (-0.4 - 0.3);
  const double second = factor * exp(-60.0) * (0.7 - 0.3);
  assert_close(head.slopes[1] / first, 1.0, 1e-13);
  assert_close(head.slopes[2] / second, 1.0, 1e-13);
  assert_close(head.slopes[0] / -(first + second), 1.0, 1e-13);
  assert_int_equal(mhas_selection_of(&head, 0), 0);
  mhas_selection_free(&head);
}

static void large_logits_overflow_nothing(void **state) {
  (void)state;
  mhas_selection head = make_head(6, 5, 1e300);
  const mhas_selection_loss loss = mhas_selection_evaluate(&head);
  assert_true(isfinite(loss.loss));
  for (int64_t i = 0; i < 6; i++) {
    assert_close(head.weights[i * 5 + mhas_selection_of(&head, i)], 1.0, 0.0);
  }
  mhas_selection_free(&head);
}

static void logged_steps_are_as_many_as_announced(void **state) {
  (void)state;
  for (int64_t steps = 1; steps < 30; steps++) {
    for (int64_t every = 1; every < 12; every++) {
      int64_t logged = 0;
      for (int64_t step = 0; step <= steps; step++) {
        logged += mhas_selection_is_logged(step, steps, every);
      }
      assert_int_equal(logged, mhas_selection_records(steps, every));
    }
  }
}

/* ---- select ------------------------------------------------------------------------------- */

static void start_select(int steps) {
  point_start(&p, "select");
  point_set(&p, "steps", steps);
  point_set(&p, "log_every", steps > 10 ? steps / 10 : 1);
}

/* The result of 2308.16898: directional convergence to the separator of what is selected. */
static void normalised_steps_turn_to_the_separator(void **state) {
  (void)state;
  for (uint32_t replicate = 0; replicate < 4; replicate++) {
    start_select(2000);
    p.random.replicate = replicate;
    p.store = MHAS_STORE_CURVES;
    point_runs(&p);
    assert_true(point_real(&p, "correlation") > 0.99);
    assert_close(1.0 - point_real(&p, "correlation"), point_real(&p, "misalignment"), 1e-12);
    assert_true(point_real(&p, "softmax_least") > 1.0 - 1e-9);
    assert_int_equal(point_integer(&p, "separable"), 1);
    assert_true(point_real(&p, "norm") <= 2000 * 0.1 + sqrt(10.0)); /* steps have length 0.1 */
    if (point_real(&p, "optimal_share") == 1.0) {
      assert_close(point_real(&p, "correlation_optimal"), point_real(&p, "correlation"), 1e-12);
      assert_close(point_real(&p, "margin_optimal"), point_real(&p, "margin"), 1e-9);
    } else {
      assert_true(point_real(&p, "correlation_optimal") < point_real(&p, "correlation"));
    }
    const int64_t last = p.row.record_capacity - 1;
    assert_int_equal(last, 10);
    assert_true(point_curve(&p, 0, last) == 2000.0F && point_curve(&p, 0, 0) == 0.0F);
    assert_true(point_curve(&p, 3, last) < point_curve(&p, 3, 1)); /* misalignment falls */
    point_free(&p);
  }
}

/* Of one sample with two tokens the separator is (x_a - x_b) z^T, and W can only grow along it. */
static void two_tokens_have_their_difference_for_a_separator(void **state) {
  (void)state;
  const char *const rules[] = {"normalised", "constant", "polyak"};
  for (int rule = 0; rule < 3; rule++) {
    start_select(20);
    point_set(&p, "samples", 1);
    point_set(&p, "tokens", 2);
    point_choose(&p, "init", "zero");
    point_choose(&p, "step_rule", rules[rule]);
    point_runs(&p);
    assert_true(point_real(&p, "misalignment") < 1e-15);
    assert_true(point_real(&p, "margin") > 0.0 && point_real(&p, "margin") < 2.0);
    assert_true(point_real(&p, "optimal_share") == 1.0);
    assert_true(point_real(&p, "softmax_least") > 0.5);
    if (rule == 0) {
      assert_close(point_real(&p, "norm"), 20 * 0.1, 1e-12);
    }
    point_free(&p);
  }
}

/* In one dimension, tokens of length 1 are 1 or -1: the selected one has a twin. */
static void twins_cannot_be_separated(void **state) {
  (void)state;
  start_select(50);
  point_set(&p, "dim", 1);
  point_set(&p, "tokens", 6);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "separable"), 0);
  assert_true(point_real(&p, "margin") == 0.0);
  assert_true(isnan(point_real(&p, "correlation")));
  assert_true(isfinite(point_real(&p, "train_loss")));
  point_free(&p);
}

static void longer_constant_steps_come_nearer(void **state) {
  (void)state;
  double before = 1.0;
  for (double size = 0.1; size < 20.0; size *= 10.0) {
    start_select(1000);
    point_choose(&p, "step_rule", "constant");
    point_set(&p, "step_size", size);
    point_runs(&p);
    assert_true(point_real(&p, "misalignment") < before);
    before = point_real(&p, "misalignment");
    point_free(&p);
  }
}

static void an_interrupted_selection_goes_on_with_the_same_bits(void **state) {
  (void)state;
  start_select(60);
  p.store = MHAS_STORE_CURVES;
  assert_same_with_stops(&p, 7);
  point_free(&p);
}

/* ---- overfit -------------------------------------------------------------------------------- */

static void start_overfit(double signal, double step_size, int steps) {
  point_start(&p, "overfit");
  point_set(&p, "dim", 400);
  point_set(&p, "test_samples", 150);
  point_set(&p, "signal", signal);
  point_set(&p, "step_size", step_size);
  point_set(&p, "steps", steps);
  point_set(&p, "log_every", 10);
}

static void flipped_labels_are_fitted_with_little_signal_and_not_with_much(void **state) {
  (void)state;
  start_overfit(9.0, 0.02, 600);
  point_runs(&p);
  assert_close(point_real(&p, "snr"), 0.45, 1e-14);
  assert_true(point_real(&p, "train_error") == 0.0);
  assert_true(point_real(&p, "error_flipped") == 0.0);
  assert_true(point_real(&p, "test_error") <= 0.05);
  assert_int_equal(point_integer(&p, "benign"), 1);
  assert_true(point_integer(&p, "fit_step") > 0);
  assert_close(point_real(&p, "delay"), (double)(point_integer(&p, "generalize_step") - point_integer(&p, "fit_step")),
               0.0);
  assert_true(point_real(&p, "attention_flipped") < 0.1); /* they attend to noise, */
  assert_true(point_real(&p, "attention_clean") > 0.9);   /* the others to their signal */
  point_free(&p);

  start_overfit(450.0, 0.002, 300);
  point_runs(&p);
  assert_true(point_real(&p, "error_clean") == 0.0);
  assert_true(point_real(&p, "error_flipped") == 1.0);
  assert_close(point_real(&p, "train_error"), 0.2, 1e-12);
  assert_true(point_real(&p, "test_error") == 0.0);
  assert_int_equal(point_integer(&p, "benign"), 0);
  assert_int_equal(point_integer(&p, "fit_step"), -1);
  assert_true(isnan(point_real(&p, "delay")));
  point_free(&p);
}

static void with_too_little_signal_overfitting_is_not_benign(void **state) {
  (void)state;
  start_overfit(0.5, 0.02, 600);
  point_set(&p, "weak", 0.0);
  point_runs(&p);
  assert_true(point_real(&p, "train_error") == 0.0);
  assert_true(point_real(&p, "test_error") > 0.2);
  assert_int_equal(point_integer(&p, "benign"), 0);
  assert_int_equal(point_integer(&p, "generalize_step"), -1);
  point_free(&p);
}

static void labels_are_flipped_as_many_as_asked(void **state) {
  (void)state;
  const struct { double noise, share; } cases[] = {{0.2, 0.2}, {0.21, 0.25}, {0.01, 0.05}, {1.0, 1.0}};
  for (int i = 0; i < 4; i++) { /* with all weight on a strong signal, what is flipped is wrong */
    start_overfit(1000.0, 1e-12, 1);
    point_set(&p, "label_noise", cases[i].noise);
    point_set(&p, "weak", 0.0);
    point_runs(&p);
    assert_close(point_real(&p, "train_error"), cases[i].share, 1e-12);
    assert_true(point_real(&p, "test_error") == 0.0);
    point_free(&p);
  }
}

static void groups_that_are_empty_have_no_numbers(void **state) {
  (void)state;
  start_overfit(20.0, 0.005, 20);
  point_set(&p, "label_noise", 0.0);
  point_set(&p, "test_samples", 0);
  point_runs(&p);
  assert_true(isnan(point_real(&p, "error_flipped")) && isnan(point_real(&p, "attention_flipped")));
  assert_true(isnan(point_real(&p, "test_error")));
  assert_int_equal(point_integer(&p, "benign"), -1);
  assert_true(point_real(&p, "error_clean") == point_real(&p, "train_error"));
  point_free(&p);
}

static void an_interrupted_fit_goes_on_with_the_same_bits(void **state) {
  (void)state;
  for (int both = 0; both < 2; both++) {
    start_overfit(9.0, 0.05, 60);
    point_set(&p, "dim", 50);
    point_set(&p, "log_every", 7);
    point_choose(&p, "trained", both ? "both" : "token");
    p.store = MHAS_STORE_CURVES;
    assert_same_with_stops(&p, 11);
    point_free(&p);
  }
}

/* p starts at 0, so that W has no gradient at first: the first two queries are the same with and without it. */
static void weights_are_trained_only_if_asked(void **state) {
  (void)state;
  double loss[2][2];
  for (int steps = 1; steps <= 2; steps++) {
    for (int both = 0; both < 2; both++) {
      start_overfit(9.0, 0.5, steps);
      point_set(&p, "dim", 60);
      point_choose(&p, "trained", both ? "both" : "token");
      point_runs(&p);
      loss[steps - 1][both] = point_real(&p, "train_loss");
      point_free(&p);
    }
  }
  assert_close(loss[0][0], loss[0][1], 1e-13);
  assert_true(fabs(loss[1][0] - loss[1][1]) > 1e-9);
  start_overfit(9.0, 0.01, 300);
  point_set(&p, "dim", 60);
  point_choose(&p, "weights", "random");
  point_runs(&p);
  assert_true(point_real(&p, "train_loss") < log(2.0));
  point_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slopes_are_the_differences_of_the_loss),
      cmocka_unit_test(slopes_keep_their_digits_where_attention_is_saturated),
      cmocka_unit_test(large_logits_overflow_nothing),
      cmocka_unit_test(logged_steps_are_as_many_as_announced),
      cmocka_unit_test(normalised_steps_turn_to_the_separator),
      cmocka_unit_test(two_tokens_have_their_difference_for_a_separator),
      cmocka_unit_test(twins_cannot_be_separated),
      cmocka_unit_test(longer_constant_steps_come_nearer),
      cmocka_unit_test(an_interrupted_selection_goes_on_with_the_same_bits),
      cmocka_unit_test(flipped_labels_are_fitted_with_little_signal_and_not_with_much),
      cmocka_unit_test(with_too_little_signal_overfitting_is_not_benign),
      cmocka_unit_test(labels_are_flipped_as_many_as_asked),
      cmocka_unit_test(groups_that_are_empty_have_no_numbers),
      cmocka_unit_test(an_interrupted_fit_goes_on_with_the_same_bits),
      cmocka_unit_test(weights_are_trained_only_if_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
