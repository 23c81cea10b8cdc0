/* Rows against a plain list, plans against sums over all points. */
#include <math.h>

#include "sweep/inside.h"
#include "unit/test_sweep_helpers.h"

/* ---- an experiment with known costs: that of a registered one, with these functions ---- */

static int heads_at, dim_at;

static mhas_cost plain_cost(const mhas_value *values) {
  const double heads = (double)values[heads_at].integer;
  const double dim = (double)values[dim_at].integer;
  return (mhas_cost){.flops = heads * dim * dim,
                     .flops_float32 = heads * dim,
                     .bytes = 8.0 * heads * dim,
                     .records = values[heads_at].integer,
                     .spectrum = values[dim_at].integer};
}

static int plain_arrays(const mhas_value *values, unsigned flags, mhas_array *arrays) {
  if ((flags & MHAS_STORE_Z) == 0) {
    return 0;
  }
  arrays[0] = (mhas_array){.name = "Z", .flag = MHAS_STORE_Z, .rank = 2};
  arrays[0].shape[0] = values[heads_at].integer;
  arrays[0].shape[1] = values[dim_at].integer;
  return 1;
}

static mhas_code refuse_three_heads(const mhas_value *values, mhas_error *error) {
  return values[heads_at].integer == 3 ? mhas_fail(error, MHAS_USAGE, "three heads are too many") : MHAS_OK;
}

/* Gives the sweep the functions above; `mine` must live as long as it. */
static void use_plain_costs(mhas_sweep *sweep, mhas_experiment *mine) {
  *mine = *mhas_sweep_experiment(sweep);
  mine->cost = plain_cost;
  mine->arrays = plain_arrays;
  mine->check = NULL;
  heads_at = mhas_parameter_find(mine, "heads");
  dim_at = mhas_parameter_find(mine, "dim");
  sweep->experiment = mine;
}

/* ---- rows ---- */

static void rows_are_the_kept_points_in_order(void **state) {
  (void)state;
  static const char *const wheres[] = {
      "heads * dim % 7 == 3",         "heads > 90", "heads == 100 && dim == 100", "true", "heads <= 2",
      "replicate == 1 && heads > dim"};
  for (size_t w = 0; w < COUNT_OF(wheres); w++) {
    char override[64];
    (void)snprintf(override, sizeof override, "where=%s", wheres[w]);
    mhas_sweep *sweep = sweep_from(
        "experiment: probe\nparameters: {heads: {from: 1, to: 100, step: 1}, dim: {from: 1, to: 100, step: "
        "1}}\nreplicates: 2\n",
        override);
    mhas_rows *rows = NULL;
    mhas_error error;
    assert_int_equal(mhas_rows_create(sweep, &rows, &error), MHAS_OK);
    int64_t row = 0;
    for (int64_t i = 0; i < mhas_sweep_grid_count(sweep); i++) {
      mhas_value values[PARAMETERS_MOST];
      int64_t replicate = 0;
      bool included = false;
      assert_int_equal(mhas_sweep_point(sweep, i, values, &replicate, &included, &error), MHAS_OK);
      if (included) {
        assert_int_equal(mhas_rows_grid_index(rows, row), i);
        row++;
      }
    }
    assert_int_equal(mhas_rows_count(rows), row);
    mhas_rows_destroy(rows);
    mhas_sweep_destroy(sweep);
  }
}

static void without_where_rows_are_points(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\nparameters: {heads: {from: 1, to: 1000000, step: 1}, dim: {from: 1, to: 1000, "
      "step: 1}, samples: 5}\n",
      NULL);
  mhas_rows *rows = NULL;
  assert_int_equal(mhas_rows_create(sweep, &rows, NULL), MHAS_OK);
  assert_int_equal(mhas_rows_count(rows), 1000000000);
  assert_int_equal(mhas_rows_grid_index(rows, 999999999), 999999999);
  mhas_rows_destroy(rows);
  mhas_sweep_destroy(sweep);
}

static void no_rows_at_all_is_an_error(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: probe\nparameters: {heads: [1, 2]}\nwhere: \"heads > 2\"\n", NULL);
  mhas_rows *rows = NULL;
  mhas_error error;
  assert_int_equal(mhas_rows_create(sweep, &rows, &error), MHAS_USAGE);
  assert_string_equal(error.text, "where leaves out every point; nothing is left to run");
  assert_null(rows);
  mhas_rows_destroy(rows);
  mhas_sweep_destroy(sweep);
}

static void points_that_cannot_be_run_stay_rows(void **state) {
  (void)state;
  /* too many combinations to be looked at beforehand; samples is below 1 at heads * dim <= 4 */
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\nparameters: {heads: {from: 1, to: 300, step: 1}, dim: {from: 1, to: 300, step: 1}, samples: "
      "\"= heads * dim - 4\", context: 4}\nwhere: \"heads != 2\"\n",
      NULL);
  mhas_rows *rows = NULL;
  mhas_plan plan;
  mhas_error error;
  assert_int_equal(mhas_rows_create(sweep, &rows, &error), MHAS_OK);
  assert_int_equal(mhas_rows_count(rows), 299 * 300);
  assert_int_equal(mhas_rows_grid_index(rows, 0), 0);
  assert_int_equal(mhas_sweep_plan(sweep, false, &plan, &error), MHAS_OK);
  assert_true(plan.points == 299.0 * 300.0);
  mhas_rows_destroy(rows);
  mhas_sweep_destroy(sweep);
}

/* ---- plan ---- */

static void small_plans_are_sums_over_all_points(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: memorize\nparameters: {heads: [2, 3, 5], dim: [7, 11]}\nwhere: \"heads + dim != 13\"\nreplicates: "
      "4\nstore: [curves, spectrum, z]\n",
      NULL);
  mhas_experiment mine;
  mhas_plan plan;
  mhas_error error;
  use_plain_costs(sweep, &mine);
  assert_int_equal(mhas_sweep_plan(sweep, false, &plan, &error), MHAS_OK);
  assert_true(plan.exact);
  assert_int_equal(plan.grid, 24);
  assert_true(plan.points == 20.0); /* without (2, 11) */
  assert_true(plan.flops == 4.0 * (2 * 49 + 3 * 49 + 5 * 49 + 3 * 121 + 5 * 121));
  assert_true(plan.flops_float32 == 4.0 * (2 * 7 + 3 * 7 + 5 * 7 + 3 * 11 + 5 * 11));
  assert_true(plan.flops_most == 5.0 * 121.0);
  assert_true(plan.bytes_most == 8.0 * 55.0);
  assert_int_equal(plan.records_most, 5);
  assert_int_equal(plan.spectrum_most, 11);
  double row = 361.0 + 4.0 * mine.curve_count * 5.0 + 8.0 * 11.0;
  for (int p = 0; p < mine.parameter_count; p++) {
    const mhas_type type = mine.parameters[p].type;
    row += type == MHAS_INTEGER || type == MHAS_REAL ? 8.0 : 1.0; /* the texts are empty */
  }
  for (int r = 0; r < mine.result_count; r++) {
    row += mine.results[r].type == MHAS_FLAG ? 1.0 : 8.0;
  }
  const double arrays = 8.0 * 4.0 * (2 * 7 + 3 * 7 + 5 * 7 + 3 * 11 + 5 * 11);
  assert_true(fabs(plan.file_bytes - (65536.0 + 20.0 * row + arrays)) < 0.5);
  mhas_sweep_destroy(sweep);
}

static void what_is_not_stored_costs_no_file(void **state) {
  (void)state;
  mhas_experiment mine;
  mhas_plan with;
  mhas_plan without;
  mhas_error error;
  mhas_sweep *sweep =
      sweep_from("experiment: memorize\nparameters: {heads: [2, 3]}\nstore: [curves, spectrum]\n", NULL);
  use_plain_costs(sweep, &mine);
  assert_int_equal(mhas_sweep_plan(sweep, false, &with, &error), MHAS_OK);
  sweep->store = 0;
  assert_int_equal(mhas_sweep_plan(sweep, false, &without, &error), MHAS_OK);
  assert_true(with.file_bytes - without.file_bytes == 2.0 * (4.0 * mine.curve_count * 3.0 + 8.0 * 64.0));
  mhas_sweep_destroy(sweep);
}

static void where_that_looks_at_replicates_is_counted_for_each(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: memorize\nparameters: {heads: [2, 3, 4]}\nwhere: \"replicate < heads - 1\"\nreplicates: 4\n", NULL);
  mhas_experiment mine;
  mhas_plan plan;
  use_plain_costs(sweep, &mine);
  assert_int_equal(mhas_sweep_plan(sweep, false, &plan, NULL), MHAS_OK);
  assert_true(plan.points == 1.0 + 2.0 + 3.0);
  assert_true(plan.flops == 4096.0 * (1 * 2 + 2 * 3 + 3 * 4));
  mhas_sweep_destroy(sweep);
}

static void a_sampled_plan_is_close_to_the_exact_one(void **state) {
  (void)state;
  /* 1.6 M points: beyond the limit for exactness, small enough to be walked for comparison */
  mhas_sweep *sweep = sweep_from(
      "experiment: memorize\nparameters: {heads: {from: 1, to: 200, step: 1}, dim: {from: 1, to: 200, step: 1}, "
      "classes: {from: 2, to: 21, step: 1}}\nreplicates: 2\nwhere: \"heads + dim <= 300\"\nstore: [z]\n",
      NULL);
  mhas_experiment mine;
  mhas_plan exact;
  mhas_plan sampled;
  use_plain_costs(sweep, &mine);
  assert_int_equal(mhas_sweep_plan(sweep, false, &sampled, NULL), MHAS_OK);
  assert_int_equal(mhas_sweep_plan(sweep, true, &exact, NULL), MHAS_OK);
  assert_false(sampled.exact);
  assert_true(exact.exact);
  assert_true(sampled.points == exact.points); /* where's own part of the grid is small, so its count is exact */
  assert_true(fabs(sampled.flops / exact.flops - 1.0) < 0.01);
  assert_true(fabs(sampled.file_bytes / exact.file_bytes - 1.0) < 0.01);
  assert_true(sampled.flops_most > 0.95 * exact.flops_most && sampled.flops_most <= exact.flops_most);
  assert_int_equal(sampled.records_most, exact.records_most);
  assert_int_equal(sampled.spectrum_most, exact.spectrum_most);
  mhas_sweep_destroy(sweep);
}

static void the_corners_of_a_huge_grid_are_looked_at(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: memorize\nparameters: {heads: {from: 1, to: 1000, step: 1}, dim: {from: 1, to: 1000, step: 1}, "
      "classes: {from: 2, to: 1001, step: 1}}\n",
      NULL);
  mhas_experiment mine;
  mhas_plan plan;
  use_plain_costs(sweep, &mine);
  assert_int_equal(mhas_sweep_plan(sweep, false, &plan, NULL), MHAS_OK);
  assert_int_equal(plan.grid, 1000000000);
  assert_true(plan.points == 1e9);
  assert_true(plan.flops_most == 1e9);
  assert_true(plan.bytes_most == 8e6);
  /* sum of h d^2 over all: (1000 * 1001 / 2) (1000 * 1001 * 2001 / 6) * 1000 */
  assert_true(fabs(plan.flops / (500500.0 * 333833500.0 * 1000.0) - 1.0) < 0.01);
  mhas_sweep_destroy(sweep);
}

static void where_on_too_many_axes_is_estimated(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: memorize\nparameters: {heads: {from: 1, to: 1000, step: 1}, dim: {from: 1, to: 1000, step: 1}, "
      "classes: {from: 2, to: 1001, step: 1}}\nwhere: \"heads + dim + classes <= 1502\"\n",
      NULL);
  mhas_plan plan;
  assert_int_equal(mhas_sweep_plan(sweep, false, &plan, NULL), MHAS_OK);
  assert_true(fabs(plan.points / 0.5e9 - 1.0) < 0.02);
  mhas_sweep_destroy(sweep);
}

/* ---- the experiment's own rules ---- */

static void a_point_that_the_experiment_refuses_is_refused(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: memorize\nparameters: {heads: [2, 3]}\n", NULL);
  mhas_experiment mine;
  mhas_value values[PARAMETERS_MOST];
  int64_t replicate = 0;
  bool included = false;
  mhas_error error;
  use_plain_costs(sweep, &mine);
  mine.check = refuse_three_heads;
  assert_int_equal(mhas_sweep_point(sweep, 0, values, &replicate, &included, &error), MHAS_OK);
  assert_int_equal(mhas_sweep_point(sweep, 1, values, &replicate, &included, &error), MHAS_USAGE);
  assert_string_equal(error.text, "three heads are too many");
  mhas_sweep_destroy(sweep);
}

static void the_experiments_rules_are_looked_at_while_reading(void **state) {
  (void)state;
  const char *text = "experiment: memorize\nparameters: {heads: [2, 3], dim: [4, 5]}\n";
  mhas_sweep *sweep = sweep_from(text, NULL);
  mhas_experiment mine;
  mhas_text report = {0};
  sweep_complaints complaints = {.name = "test.yaml"};
  sweep_arena arena = {0};
  sweep_reader reader = {.sweep = sweep, .complaints = &complaints, .arena = &arena};
  reader.root = sweep_tree_read(&arena, 0, text, strlen(text), &complaints);
  assert_non_null(reader.root);
  use_plain_costs(sweep, &mine);
  mine.check = refuse_three_heads;
  sweep_verify(&reader);
  sweep_complaints_report(&complaints, &report);
  assert_string_equal(mhas_text_string(&report), "test.yaml:2:1: three heads are too many at heads = 3, dim = 4\n");
  mhas_text_free(&report);
  sweep_complaints_free(&complaints);
  sweep_arena_free(&arena);
  mhas_sweep_destroy(sweep);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_the_kept_points_in_order),
      cmocka_unit_test(without_where_rows_are_points),
      cmocka_unit_test(no_rows_at_all_is_an_error),
      cmocka_unit_test(points_that_cannot_be_run_stay_rows),
      cmocka_unit_test(small_plans_are_sums_over_all_points),
      cmocka_unit_test(what_is_not_stored_costs_no_file),
      cmocka_unit_test(where_that_looks_at_replicates_is_counted_for_each),
      cmocka_unit_test(a_sampled_plan_is_close_to_the_exact_one),
      cmocka_unit_test(the_corners_of_a_huge_grid_are_looked_at),
      cmocka_unit_test(where_on_too_many_axes_is_estimated),
      cmocka_unit_test(a_point_that_the_experiment_refuses_is_refused),
      cmocka_unit_test(the_experiments_rules_are_looked_at_while_reading),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
