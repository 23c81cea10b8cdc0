/* `search` in a sweep file: what it means for points, tables, the canonical text and the plan. What is refused stands
 * in tests/data/sweep/broken. */
#include "unit/test_sweep_helpers.h"

#define SEARCH "search: {parameter: samples, until: \"accuracy >= 0.999\", from: 10, to: 100000, tolerance: 5}\n"

static const mhas_search *search_of(const mhas_sweep *sweep) { return mhas_sweep_experiment(sweep)->search; }

static void a_search_is_read(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: memorize\nparameters: {heads: [1, 2]}\n" SEARCH, NULL);
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  const mhas_search *search = experiment->search;
  assert_non_null(search);
  assert_ptr_equal(experiment->base, mhas_experiment_find("memorize"));
  assert_string_equal(experiment->name, "memorize");
  assert_string_equal(experiment->parameters[search->parameter].name, "samples");
  assert_string_equal(experiment->results[search->result].name, "accuracy");
  assert_int_equal(search->relation, MHAS_AT_LEAST);
  assert_true(search->bound == 0.999 && !search->bound_is_parameter);
  assert_int_equal(search->from, 10);
  assert_int_equal(search->to, 100000);
  assert_int_equal(search->tolerance, 5);
  assert_int_equal(mhas_sweep_grid_count(sweep), 2);
  assert_false(mhas_sweep_is_axis(sweep, search->parameter));
  mhas_sweep_destroy(sweep);
}

static void a_sweep_without_one_has_the_experiment_as_it_is(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: memorize\n", NULL);
  assert_ptr_equal(mhas_sweep_experiment(sweep), mhas_experiment_find("memorize"));
  assert_null(search_of(sweep));
  assert_int_equal(mhas_result_find(mhas_sweep_experiment(sweep), "capacity"), -1);
  mhas_sweep_destroy(sweep);
}

static void from_and_tolerance_have_defaults(void **state) {
  (void)state;
  mhas_sweep *sweep =
      sweep_from("experiment: probe\nsearch: {parameter: samples, until: rank==samples, to: 70}\n", NULL);
  assert_int_equal(search_of(sweep)->from, 1);
  assert_int_equal(search_of(sweep)->tolerance, 1);
  assert_int_equal(search_of(sweep)->relation, MHAS_EQUAL);
  assert_true(search_of(sweep)->bound_is_parameter);
  mhas_sweep_destroy(sweep);
}

static void conditions_are_understood_however_they_are_spaced(void **state) {
  (void)state;
  static const struct {
    const char *written, *meant;
  } cases[] = {{"rank>=3", "rank >= 3"},
               {"\"  rank   <  1e2 \"", "rank < 100"},
               {"memorized == true", "memorized == 1"},
               {"memorized == false", "memorized == 0"},
               {"residual<=1e-8", "residual <= 1e-08"},
               {"rank_1e3 > samples", "rank_1e3 > samples"},
               {"residual > -.5", "residual > -0.5"}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char text[256];
    (void)snprintf(text, sizeof text, "experiment: probe\nsearch: {parameter: samples, until: %s, to: 9}\n",
                   cases[i].written);
    mhas_sweep *sweep = sweep_from(text, NULL);
    mhas_text condition = {0};
    mhas_search_format(mhas_sweep_experiment(sweep), &condition);
    assert_string_equal(mhas_text_string(&condition), cases[i].meant);
    mhas_text_free(&condition);
    mhas_sweep_destroy(sweep);
  }
}

static void the_searched_parameter_stands_at_its_most_and_expressions_follow_it(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: memorize\nparameters: {heads: [1, 2], batch: 10, min_steps: 1}\n"
      "replicates: 2\n" SEARCH,
      NULL);
  assert_values(sweep, "samples", "100000 100000 100000 100000");
  assert_values(sweep, "steps", "5000000 5000000 5000000 5000000");
  mhas_value values[PARAMETERS_MOST];
  mhas_error error;
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  assert_int_equal(mhas_sweep_point_at(sweep, 3, 40, values, &error), MHAS_OK);
  assert_int_equal(values[mhas_parameter_find(experiment, "samples")].integer, 40);
  assert_int_equal(values[mhas_parameter_find(experiment, "steps")].integer, 2000);
  assert_int_equal(values[mhas_parameter_find(experiment, "heads")].integer, 2);
  assert_values(sweep, "steps", "5000000 5000000 5000000 5000000"); /* as before */
  mhas_sweep_destroy(sweep);
}

static void a_size_that_an_expression_cannot_take_is_an_error_of_the_point(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: memorize\nparameters: {steps: \"= samples - 50\"}\n" SEARCH, NULL);
  mhas_value values[PARAMETERS_MOST];
  mhas_error error;
  assert_int_equal(mhas_sweep_point_at(sweep, 0, 51, values, &error), MHAS_OK);
  assert_int_equal(mhas_sweep_point_at(sweep, 0, 50, values, &error), MHAS_USAGE);
  assert_non_null(strstr(error.text, "steps = 0"));
  mhas_sweep_destroy(sweep);
}

static void the_meaning_of_a_sweep_has_its_search(void **state) {
  (void)state;
  static const char *const others[] = {
      "search: {parameter: samples, until: \"accuracy >= 0.99\", from: 10, to: 100000, tolerance: 5}\n",
      "search: {parameter: samples, until: \"accuracy > 0.999\", from: 10, to: 100000, tolerance: 5}\n",
      "search: {parameter: samples, until: \"accuracy >= 0.999\", from: 11, to: 100000, tolerance: 5}\n",
      "search: {parameter: samples, until: \"accuracy >= 0.999\", from: 10, to: 200000, tolerance: 5}\n",
      "search: {parameter: samples, until: \"accuracy >= 0.999\", from: 10, to: 100000, tolerance: 6}\n",
      ""};
  mhas_sweep *one = sweep_from("experiment: memorize\n" SEARCH, NULL);
  mhas_sweep *same = sweep_from(
      "search: {tolerance: 5.0, to: 1.0e5, from: 0xA, until: accuracy>=.999, parameter: samples}\nexperiment: "
      "memorize\n",
      NULL);
  assert_non_null(strstr(mhas_sweep_canonical(one),
                         "\nsearch = {parameter: samples, until: \"accuracy >= 0.999\", from: 10, to: 100000, "
                         "tolerance: 5}\n"));
  assert_string_equal(mhas_sweep_hash(one), mhas_sweep_hash(same));
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    char text[256];
    (void)snprintf(text, sizeof text, "experiment: memorize\n%s", others[i]);
    mhas_sweep *other = sweep_from(text, NULL);
    assert_string_not_equal(mhas_sweep_hash(one), mhas_sweep_hash(other));
    mhas_sweep_destroy(other);
  }
  mhas_sweep_destroy(same);
  mhas_sweep_destroy(one);
}

static void set_reaches_into_a_search(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: memorize\n" SEARCH, "search.to=77");
  assert_int_equal(search_of(sweep)->to, 77);
  mhas_sweep_destroy(sweep);
  sweep = sweep_from("experiment: memorize\n" SEARCH, "search.until=loss <= 0.1");
  assert_string_equal(mhas_sweep_experiment(sweep)->results[search_of(sweep)->result].name, "loss");
  mhas_sweep_destroy(sweep);
  sweep = sweep_from("experiment: memorize\n", "search={parameter: samples, until: loss < 1, to: 5}");
  assert_int_equal(search_of(sweep)->to, 5);
  mhas_sweep_destroy(sweep);
  assert_refused("experiment: memorize\n" SEARCH, "samples=7",
                 "--set samples=7: samples is what the search varies; take it out of parameters, or take out search\n");
}

static void the_plan_counts_trials(void **state) {
  (void)state;
  const char *text =
      "experiment: memorize\nparameters: {steps: 10, eval_every: 5}\n"
      "search: {parameter: samples, until: \"accuracy >= 0.999\", from: 1, to: 1024}\n";
  mhas_sweep *sweep = sweep_from(text, NULL);
  mhas_sweep *single =
      sweep_from("experiment: memorize\nparameters: {steps: 10, eval_every: 5, samples: 1024}\n", NULL);
  mhas_plan plan;
  mhas_plan one;
  mhas_error error;
  assert_int_equal(mhas_sweep_plan(sweep, true, &plan, &error), MHAS_OK);
  assert_int_equal(mhas_sweep_plan(single, true, &one, &error), MHAS_OK);
  assert_int_equal(one.records_most, 2);
  assert_true(plan.records_most >= 10 + 10);
  assert_true(plan.flops > 10.0 * one.flops && plan.flops < 20.0 * one.flops);
  assert_true(plan.bytes_most == one.bytes_most);
  mhas_sweep_destroy(single);
  mhas_sweep_destroy(sweep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_search_is_read),
      cmocka_unit_test(a_sweep_without_one_has_the_experiment_as_it_is),
      cmocka_unit_test(from_and_tolerance_have_defaults),
      cmocka_unit_test(conditions_are_understood_however_they_are_spaced),
      cmocka_unit_test(the_searched_parameter_stands_at_its_most_and_expressions_follow_it),
      cmocka_unit_test(a_size_that_an_expression_cannot_take_is_an_error_of_the_point),
      cmocka_unit_test(the_meaning_of_a_sweep_has_its_search),
      cmocka_unit_test(set_reaches_into_a_search),
      cmocka_unit_test(the_plan_counts_trials),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
