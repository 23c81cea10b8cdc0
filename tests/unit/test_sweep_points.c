/* From a sweep file to the values of its points: ranges, enumeration, zip, expressions, where, replicates, samplers. */
#include <gsl/gsl_qrng.h>
#include <math.h>

#include "unit/test_sweep_helpers.h"

/* ---- ranges ---- */

static void ranges_give_the_decimals_that_people_expect(void **state) {
  (void)state;
  assert_range("lr: {from: 0.1, to: 0.5, step: 0.1}", "lr", "0.1 0.2 0.3 0.4 0.5");
  assert_range("lr: {from: 0.1, to: 0.8, count: 8}", "lr", "0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8");
  assert_range("lr: {from: 1e-3, to: 7e-3, step: 1e-3}", "lr", "0.001 0.002 0.003 0.004 0.005 0.006 0.007");
  assert_range("lr: {from: 1, to: 2, count: 4}", "lr", "1 1.3333333333333333 1.6666666666666667 2");
  assert_range("lr: {from: 0.5, to: 1.7, step: 0.5}", "lr", "0.5 1 1.5");
  assert_range("heads: {from: 8, to: 32, step: 8}", "heads", "8 16 24 32");
  assert_range("heads: {from: 8, to: 30, step: 8}", "heads", "8 16 24");
  assert_range("heads: {from: 1, to: 10, count: 4}", "heads", "1 4 7 10");
  assert_range("heads: {from: 5, to: 5, step: 1}", "heads", "5");
  assert_range("heads: {from: 5, to: 5, count: 1}", "heads", "5");
  assert_range("heads: {from: 5, to: 5}", "heads", "5");
  assert_range("heads: {from: 5, to: 5, count: 1, scale: log}", "heads", "5");
}

static void log_ranges_hit_the_powers_of_ten(void **state) {
  (void)state;
  assert_range("lr: {from: 1.0e-6, to: 1.0, count: 7, scale: log}", "lr", "1e-06 1e-05 0.0001 0.001 0.01 0.1 1");
  assert_range("heads: {from: 1, to: 1024, count: 11, scale: log}", "heads", "1 2 4 8 16 32 64 128 256 512 1024");
  mhas_sweep *sweep =
      sweep_from("experiment: memorize\nparameters: {lr: {from: 1.0e-4, to: 1.0e-2, count: 5, scale: log}}", NULL);
  for (int64_t i = 0; i < 5; i++) {
    const double expected = pow(10.0, -4.0 + 0.5 * (double)i);
    assert_true(fabs(strtod(value_at(sweep, i, "lr"), NULL) / expected - 1.0) < 1e-14);
  }
  mhas_sweep_destroy(sweep);
}

static void long_decimals_still_end_exactly_at_to(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: memorize\nparameters: {lr: {from: 0.123456789012345, to: "
      "123456.789012345678, count: 1001}}",
      NULL);
  assert_string_equal(value_at(sweep, 0, "lr"), "0.123456789012345");
  assert_true(strtod(value_at(sweep, 1000, "lr"), NULL) == 123456.789012345678);
  mhas_sweep_destroy(sweep);
}

static void whole_reals_are_integers_and_flags_and_words_make_axes(void **state) {
  (void)state;
  assert_range("heads: [1e3, 2.0, 0x10]", "heads", "1000 2 16");
  assert_range("early_stop: [true, false]", "early_stop", "true false");
  assert_range("context_type: [shared, 'own']", "context_type", "shared own");
}

/* ---- enumeration ---- */

static void points_agree_with_nested_loops(void **state) {
  (void)state;
  /* In the order of the experiment's table, whatever the order of the file; the last fastest, then replicates. */
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\n"
      "parameters:\n"
      "  logit_scale: [1, 3, 2]\n"
      "  context: {from: 4, to: 12, step: 2}\n"
      "  context_type: [shared, own]\n"
      "  heads: [5, 1]\n"
      "replicates: 4\n",
      NULL);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  const int heads = mhas_parameter_find(experiment, "heads");
  const int context = mhas_parameter_find(experiment, "context");
  const int type = mhas_parameter_find(experiment, "context_type");
  const int scale = mhas_parameter_find(experiment, "logit_scale");
  static const int64_t heads_values[] = {5, 1};
  static const double scales[] = {1.0, 3.0, 2.0};
  int64_t index = 0;
  for (int h = 0; h < 2; h++) {
    for (int64_t n = 4; n <= 12; n += 2) {
      for (int c = 0; c < 2; c++) {
        for (int s = 0; s < 3; s++) {
          for (int64_t r = 0; r < 4; r++) {
            mhas_value values[PARAMETERS_MOST];
            int64_t replicate = -1;
            bool included = false;
            assert_int_equal(mhas_sweep_point(sweep, index, values, &replicate, &included, NULL), MHAS_OK);
            assert_true(included);
            assert_int_equal(values[heads].integer, heads_values[h]);
            assert_int_equal(values[context].integer, n);
            assert_int_equal(values[type].integer, 1 - c); /* shared is the second word of the table */
            assert_true(values[scale].real == scales[s]);
            assert_int_equal(replicate, r);
            index++;
          }
        }
      }
    }
  }
  assert_int_equal(mhas_sweep_grid_count(sweep), index);
  mhas_sweep_destroy(sweep);
}

static void a_point_outside_of_the_grid_is_an_error(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: probe\nparameters: {heads: [1, 2]}", NULL);
  mhas_value values[PARAMETERS_MOST];
  int64_t replicate = 0;
  bool included = false;
  mhas_error error;
  assert_int_equal(mhas_sweep_point(sweep, 2, values, &replicate, &included, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_sweep_point(sweep, -1, values, &replicate, &included, &error), MHAS_INTERNAL);
  mhas_sweep_destroy(sweep);
}

static void a_grid_of_2_to_the_40_points_is_the_largest(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\nparameters:\n  heads: {from: 1, to: 1048576, step: 1}\n  samples: {from: 1, to: 1048576, "
      "step: "
      "1}\n  dim: 7\n",
      NULL);
  assert_true(mhas_sweep_grid_count(sweep) == INT64_C(1) << 40);
  assert_string_equal(value_at(sweep, (INT64_C(1) << 40) - 2, "heads"), "1048576");
  assert_string_equal(value_at(sweep, (INT64_C(1) << 40) - 2, "samples"), "1048575");
  mhas_sweep_destroy(sweep);
  assert_refused(
      "experiment: probe\nparameters:\n  heads: {from: 1, to: 1048576, step: 1}\n  samples: {from: 1, to: 1048576, "
      "step: 1}\nreplicates: 2\n",
      NULL,
      "test.yaml:2:1: the grid has 2.2 T points, the most is 2^40 (1.1 T); use fewer values, or sample: {method: "
      "sobol, count: N}\n");
}

/* ---- zip ---- */

static void zipped_axes_advance_together_at_the_place_of_the_first(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\n"
      "parameters:\n"
      "  heads: [1, 1, 2]\n" /* repeats alone, not together with its partner */
      "  dim: [8, 16]\n"
      "  key_dim: {from: 4, to: 6, step: 1}\n"
      "zip: [[key_dim, heads]]\n",
      NULL);
  assert_values(sweep, "heads", "1 1 1 1 2 2");
  assert_values(sweep, "key_dim", "4 4 5 5 6 6");
  assert_values(sweep, "dim", "8 16 8 16 8 16");
  assert_true(mhas_sweep_is_axis(sweep, mhas_parameter_find(mhas_sweep_experiment(sweep), "key_dim")));
  assert_true(mhas_sweep_is_axis(sweep, mhas_parameter_find(mhas_sweep_experiment(sweep), "heads")));
  assert_false(mhas_sweep_is_axis(sweep, mhas_parameter_find(mhas_sweep_experiment(sweep), "samples")));
  assert_false(mhas_sweep_is_axis(sweep, mhas_parameter_find(mhas_sweep_experiment(sweep), "context")));
  mhas_sweep_destroy(sweep);
}

/* ---- expressions ---- */

static void expressions_follow_the_axes_and_each_other(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\n"
      "parameters:\n"
      "  heads: [1, 2, 3]\n"
      "  samples: \"= context * 2\"\n" /* stands before what it needs */
      "  context: \"= max(heads, 2) + 7 % 4\"\n",
      NULL);
  assert_values(sweep, "context", "5 5 6");
  assert_values(sweep, "samples", "10 10 12");
  mhas_sweep_destroy(sweep);
}

static void expressions_know_functions_words_and_truth(void **state) {
  (void)state;
  assert_range("heads: \"= floor(7 / 2) + ceil(0.2) + round(2.5) + min(4, 5) + log2(8) + mod(7, 4)\"", "heads", "17");
  assert_range("lr: \"= 2 ^ -3\"", "lr", "0.125");
  assert_range("lr: \"= sqrt(16) + abs(-1) + exp(0) + log(1) + log10(100)\"", "lr", "8");
  assert_range("heads: \"= context_type == own ? 3 : 4\"", "heads", "3");
  assert_range("heads: \"= 'own' != context_type || !early_stop ? 3 : 4\"", "heads", "4");
  assert_range("early_stop: \"= heads > 100 or true and false\"", "early_stop", "false");
  assert_range("labels: \"= heads > 1 ? regression : 'classes'\"", "labels", "regression");
  assert_range("heads: \"= 0.1 * 3 * 10\"", "heads", "3"); /* 3.0000000000000004 */
}

static void a_word_that_is_also_a_parameter_is_told_by_what_it_is_compared_with(void **state) {
  (void)state;
  /* classes is a word of labels and a number of its own */
  assert_range("heads: \"= labels == classes ? classes : 1\"", "heads", "100");
}

static void equal_words_of_two_parameters_are_equal(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\nparameters: {distribution: [uniform, gaussian], weights: random, "
      "heads: \"= distribution == distribution ? 2 : 1\"}",
      NULL);
  assert_values(sweep, "heads", "2 2");
  mhas_sweep_destroy(sweep);
}

static void a_value_that_no_check_could_foresee_is_refused_at_its_point(void **state) {
  (void)state;
  /* 10^6 combinations decide samples: too many to look at all of them beforehand. */
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\nparameters:\n  heads: {from: 1, to: 1000, step: 1}\n  context: {from: 1, to: 1000, step: "
      "1}\n  samples: \"= heads * context - 4\"\n",
      NULL);
  mhas_value values[PARAMETERS_MOST];
  int64_t replicate = 0;
  bool included = false;
  mhas_error error;
  assert_int_equal(mhas_sweep_point(sweep, 0, values, &replicate, &included, &error), MHAS_USAGE);
  assert_string_equal(error.text, "samples = -3: it takes whole numbers from 1 to 1073741824");
  assert_true(included);
  assert_int_equal(mhas_sweep_point(sweep, 4, values, &replicate, &included, &error), MHAS_OK);
  mhas_sweep_destroy(sweep);
}

static void values_that_where_leaves_out_need_not_fit(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\nparameters:\n  heads: [1, 8]\n  context: [4, 8]\n  samples: \"= heads * (context - 4) - "
      "8\"\nwhere: \"samples > 0\"\n",
      NULL);
  static const bool expected[] = {false, false, false, true};
  for (int64_t i = 0; i < 4; i++) {
    mhas_value values[PARAMETERS_MOST];
    int64_t replicate = 0;
    bool included = false;
    assert_int_equal(mhas_sweep_point(sweep, i, values, &replicate, &included, NULL), MHAS_OK);
    assert_int_equal(included, expected[i]);
  }
  mhas_sweep_destroy(sweep);
}

static void where_may_look_at_the_replicate_and_nothing_else_may(void **state) {
  (void)state;
  mhas_sweep *sweep =
      sweep_from("experiment: probe\nparameters: {heads: [1, 2]}\nreplicates: 3\nwhere: \"replicate < heads\"\n", NULL);
  static const bool expected[] = {true, false, false, true, true, false};
  for (int64_t i = 0; i < 6; i++) {
    mhas_value values[PARAMETERS_MOST];
    int64_t replicate = 0;
    bool included = false;
    assert_int_equal(mhas_sweep_point(sweep, i, values, &replicate, &included, NULL), MHAS_OK);
    assert_int_equal(included, expected[i]);
    assert_int_equal(replicate, i % 3);
  }
  mhas_sweep_destroy(sweep);
  assert_refused("experiment: probe\nparameters: {heads: \"= replicate + 1\"}\n", NULL,
                 "test.yaml:2:21: the expression of heads: replicate can be used in where only: a parameter is the "
                 "same for all replicates of a point\n");
}

static void expressions_that_would_surprise_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *expression, *reason;
  } cases[] = {
      {"heads = 3", "a single = compares nothing; write =="},
      {"1 < heads < 3", "a < b < c does not compare all three; write a < b && b < c"},
      {"heads, dim", "a comma stands outside of a function's brackets"},
      {"(heads, dim)", "a comma stands outside of a function's brackets"},
      {"heads & dim", "write &&"},
      {"heads ** 2", "** is not understood: powers are written with ^"},
      {"heads // 2", "// is not understood: write floor(a / b)"},
      {"2heads", "a number is followed by h; is a * missing?"},
      {"heads dim", "it cannot be understood at dim"},
      {"heads)", "there is a ) without its ("},
      {"not heads", "not is written !, as in !(a < b)"},
      {"not(heads)", "not is written !, as in !(a < b)"},
      {"flor(heads)", "unknown function flor; did you mean floor?"},
      {"floor", "floor is a function; write floor( ... )"},
      {"min(1, 2, 3", "there is a ( without its )"},
      {"floor(1, 2)", "a function gets too many values"},
      {"heads ? 1", "there is a ? without its :"},
      {"context_type == 1", "context_type is never 1; it is one of: own, shared, bag"},
      {"context_type == 'gaussian'", "context_type is never 'gaussian'; it is one of: own, shared, bag"},
      {"'nonsense' == 3", "'nonsense' is no word of this experiment"},
      {"'open", "a quote ' is not closed"},
      {"1.2.3", "1.2.3 is no number"},
      {"heads $ 2", "$ has no meaning in an expression"},
      {" ", "nothing stands there"},
      {"rund(1)", "unknown function rund; did you mean round?"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char text[256];
    char expected[512];
    (void)snprintf(text, sizeof text, "experiment: probe\nwhere: \"%s\"\n", cases[i].expression);
    (void)snprintf(expected, sizeof expected, "test.yaml:2:8: the expression of where: %s\n", cases[i].reason);
    assert_refused(text, NULL, expected);
  }
}

/* ---- samplers ---- */

static const char *const sample_text =
    "experiment: memorize\n"
    "seed: 5\n"
    "parameters:\n"
    "  heads: [1, 2, 4, 8]\n"
    "  dim: {from: 1, to: 4}\n"
    "  lr: {from: 1.0e-4, to: 1.0e-2, scale: log}\n"
    "  beta1: {from: 0.5, to: 0.9}\n"
    "  samples: \"= heads * 10\"\n";

static mhas_sweep *sampled(const char *method, int count) {
  char text[1024];
  (void)snprintf(text, sizeof text, "%ssample: {method: %s, count: %d}\nreplicates: 2\n", sample_text, method, count);
  return sweep_from(text, NULL);
}

static void check_sampled_ranges(mhas_sweep *sweep, int64_t count) {
  assert_int_equal(mhas_sweep_grid_count(sweep), 2 * count);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  const int heads = mhas_parameter_find(experiment, "heads");
  const int dim = mhas_parameter_find(experiment, "dim");
  const int lr = mhas_parameter_find(experiment, "lr");
  const int samples = mhas_parameter_find(experiment, "samples");
  int64_t of_dim[5] = {0};
  for (int64_t i = 0; i < 2 * count; i++) {
    mhas_value values[PARAMETERS_MOST];
    int64_t replicate = 0;
    bool included = false;
    assert_int_equal(mhas_sweep_point(sweep, i, values, &replicate, &included, NULL), MHAS_OK);
    assert_int_equal(replicate, i % 2);
    assert_true(values[dim].integer >= 1 && values[dim].integer <= 4);
    assert_true(values[lr].real >= 1e-4 && values[lr].real <= 1e-2);
    assert_int_equal(values[samples].integer, 10 * values[heads].integer);
    of_dim[values[dim].integer]++;
  }
  for (int d = 1; d <= 4; d++) { /* the ends get their share too */
    assert_true(llabs(of_dim[d] - count / 2) < count / 10);
  }
}

static void sobol_points_are_those_of_gsl(void **state) {
  (void)state;
  enum { POINTS = 200 };
  mhas_sweep *sweep = sampled("sobol", POINTS);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  static const int64_t heads_values[] = {1, 2, 4, 8};
  gsl_qrng *sequence = gsl_qrng_alloc(gsl_qrng_sobol, 4);
  assert_non_null(sequence);
  for (int64_t i = 0; i < POINTS; i++) {
    double u[4]; /* axes in the order of the table: heads, dim, lr, beta1 */
    mhas_value values[PARAMETERS_MOST];
    int64_t replicate = 0;
    bool included = false;
    assert_int_equal(gsl_qrng_get(sequence, u), 0);
    assert_int_equal(mhas_sweep_point(sweep, 2 * i, values, &replicate, &included, NULL), MHAS_OK);
    assert_int_equal(values[mhas_parameter_find(experiment, "heads")].integer, heads_values[(int)(u[0] * 4.0)]);
    assert_int_equal(values[mhas_parameter_find(experiment, "dim")].integer, 1 + (int64_t)(u[1] * 4.0));
    const double lr = exp(log(1e-4) + u[2] * log(100.0));
    assert_true(fabs(values[mhas_parameter_find(experiment, "lr")].real / lr - 1.0) < 1e-12);
    const double beta1 = 0.5 + u[3] * (0.9 - 0.5);
    assert_true(values[mhas_parameter_find(experiment, "beta1")].real == beta1);
  }
  gsl_qrng_free(sequence);
  check_sampled_ranges(sweep, POINTS);
  mhas_sweep_destroy(sweep);
}

static void a_latin_hypercube_hits_every_stratum_once(void **state) {
  (void)state;
  enum { POINTS = 400 };
  mhas_sweep *sweep = sampled("lhs", POINTS);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  bool hit_beta[POINTS] = {false};
  bool hit_lr[POINTS] = {false};
  int equal = 0;
  for (int64_t i = 0; i < POINTS; i++) {
    mhas_value values[PARAMETERS_MOST];
    int64_t replicate = 0;
    bool included = false;
    assert_int_equal(mhas_sweep_point(sweep, 2 * i, values, &replicate, &included, NULL), MHAS_OK);
    const double beta1 = values[mhas_parameter_find(experiment, "beta1")].real;
    const double lr = values[mhas_parameter_find(experiment, "lr")].real;
    const int beta_stratum = (int)((beta1 - 0.5) / 0.4 * POINTS);
    const int lr_stratum = (int)(log(lr / 1e-4) / log(100.0) * POINTS);
    assert_true(beta_stratum >= 0 && beta_stratum < POINTS && lr_stratum >= 0 && lr_stratum < POINTS);
    assert_false(hit_beta[beta_stratum]);
    assert_false(hit_lr[lr_stratum]);
    hit_beta[beta_stratum] = true;
    hit_lr[lr_stratum] = true;
    equal += beta_stratum == lr_stratum;
  }
  assert_true(equal < POINTS / 20); /* the axes are shuffled independently */
  check_sampled_ranges(sweep, POINTS);
  mhas_sweep_destroy(sweep);
}

static void random_points_are_a_function_of_the_seed(void **state) {
  (void)state;
  mhas_sweep *one = sampled("random", 1000);
  mhas_sweep *two = sampled("random", 2000);
  for (int64_t i = 0; i < 2000; i += 2) { /* a larger sample begins with the smaller one */
    assert_string_equal(value_at(one, i, "lr"), value_at(two, i, "lr"));
    assert_string_equal(value_at(one, i, "lr"), value_at(one, i + 1, "lr"));
  }
  check_sampled_ranges(one, 1000);
  char text[1024];
  (void)snprintf(text, sizeof text, "%ssample: {method: random, count: 1000}\nreplicates: 2\n", sample_text);
  mhas_sweep *other = sweep_from(text, "seed=6");
  assert_string_not_equal(value_at(one, 0, "lr"), value_at(other, 0, "lr"));
  mhas_sweep_destroy(one);
  mhas_sweep_destroy(two);
  mhas_sweep_destroy(other);
}

static void a_sample_too_large_for_memory_is_refused(void **state) {
  (void)state;
  assert_refused(
      "experiment: probe\nparameters: {heads: [1, 2], dim: [3, 4]}\nsample: {method: lhs, count: "
      "100000000}\n",
      NULL, "test.yaml:3:9: sample.count is at most 67108864 with 2 axes\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranges_give_the_decimals_that_people_expect),
      cmocka_unit_test(log_ranges_hit_the_powers_of_ten),
      cmocka_unit_test(long_decimals_still_end_exactly_at_to),
      cmocka_unit_test(whole_reals_are_integers_and_flags_and_words_make_axes),
      cmocka_unit_test(points_agree_with_nested_loops),
      cmocka_unit_test(a_point_outside_of_the_grid_is_an_error),
      cmocka_unit_test(a_grid_of_2_to_the_40_points_is_the_largest),
      cmocka_unit_test(zipped_axes_advance_together_at_the_place_of_the_first),
      cmocka_unit_test(expressions_follow_the_axes_and_each_other),
      cmocka_unit_test(expressions_know_functions_words_and_truth),
      cmocka_unit_test(a_word_that_is_also_a_parameter_is_told_by_what_it_is_compared_with),
      cmocka_unit_test(equal_words_of_two_parameters_are_equal),
      cmocka_unit_test(a_value_that_no_check_could_foresee_is_refused_at_its_point),
      cmocka_unit_test(values_that_where_leaves_out_need_not_fit),
      cmocka_unit_test(where_may_look_at_the_replicate_and_nothing_else_may),
      cmocka_unit_test(expressions_that_would_surprise_are_refused),
      cmocka_unit_test(sobol_points_are_those_of_gsl),
      cmocka_unit_test(a_latin_hypercube_hits_every_stratum_once),
      cmocka_unit_test(random_points_are_a_function_of_the_seed),
      cmocka_unit_test(a_sample_too_large_for_memory_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
