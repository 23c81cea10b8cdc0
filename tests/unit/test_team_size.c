/* How many ranks a point needs: the least that do, whatever the world. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "mhasweep/experiments.h"

#include <cmocka.h>

/* A thousand bytes a unit, alone. */
static mhas_cost cost(const mhas_value *values) { return (mhas_cost){.bytes = 1e3 * (double)values[0].integer}; }

/* Shared, some of it is on every rank, and odd numbers of ranks share badly. */
static double shared(const mhas_value *values, int ranks) {
  const double all = 1e3 * (double)values[0].integer;
  return 0.1 * all + all / (ranks % 2 == 0 ? ranks : ranks - 1);
}

static int ranks_of(const mhas_experiment *experiment, int64_t size, double most, double *bytes) {
  const mhas_value value = {.integer = size};
  return mhas_experiment_ranks(experiment, &value, most, bytes);
}

static void without_teams_a_point_fits_or_not(void **unused) {
  (void)unused;
  const mhas_experiment alone = {.cost = cost};
  double bytes = 0.0;
  assert_int_equal(ranks_of(&alone, 5, 5000.0, &bytes), 1);
  assert_true(bytes == 5000.0);
  assert_int_equal(ranks_of(&alone, 5, 4999.0, &bytes), 0);
  assert_true(bytes == 5000.0);
  assert_int_equal(ranks_of(&alone, 1 << 30, INFINITY, NULL), 1);
}

static void memory_is_shared_evenly_unless_told_otherwise(void **unused) {
  (void)unused;
  const mhas_experiment even = {.cost = cost, .max_ranks = 4};
  double bytes = 0.0;
  assert_int_equal(ranks_of(&even, 10, 10000.0, &bytes), 1);
  assert_int_equal(ranks_of(&even, 10, 9999.0, &bytes), 2);
  assert_true(bytes == 5000.0);
  assert_int_equal(ranks_of(&even, 10, 2500.0, &bytes), 4);
  assert_int_equal(ranks_of(&even, 10, 2499.0, &bytes), 0);
  assert_true(bytes == 2500.0);
}

static void the_least_number_of_ranks_that_do_is_taken(void **unused) {
  (void)unused;
  const mhas_experiment odd = {.cost = cost, .max_ranks = 64, .team_bytes = shared};
  double bytes = 0.0;
  assert_int_equal(ranks_of(&odd, 10, 6000.0, &bytes), 2);
  assert_int_equal(ranks_of(&odd, 10, 3500.0, &bytes), 4);
  assert_true(fabs(bytes - 3500.0) < 1e-9);
  assert_int_equal(ranks_of(&odd, 10, 2000.0, &bytes), 10);
  assert_int_equal(ranks_of(&odd, 10, 1000.0, &bytes), 0);
  const mhas_value value = {.integer = 10};
  assert_true(mhas_experiment_bytes(&odd, &value, 1) == 10000.0);
}

static void the_probe_shares_large_points_only(void **unused) {
  (void)unused;
  const mhas_experiment *probe = mhas_experiment_find("probe");
  const mhas_experiment *memorize = mhas_experiment_find("memorize");
  assert_non_null(probe);
  assert_non_null(memorize);
  assert_true(probe->max_ranks > 1);
  assert_true(memorize->max_ranks <= 1);
}

static void one_rank_alone_agrees_with_itself(void **unused) {
  (void)unused;
  const mhas_team alone = {.size = 1};
  const mhas_team nothing = {.size = 0};
  mhas_error error = {.text = ""};
  int data = 7;
  assert_int_equal(mhas_team_agree(&alone, MHAS_OK, &error), MHAS_OK);
  (void)mhas_fail(&error, MHAS_NUMERIC, "a NaN");
  assert_int_equal(mhas_team_agree(&nothing, MHAS_NUMERIC, &error), MHAS_NUMERIC);
  assert_string_equal(error.text, "a NaN");
  assert_int_equal(mhas_team_share(&nothing, &data, (int)sizeof data, &error), MHAS_OK);
  assert_int_equal(data, 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_teams_a_point_fits_or_not),
      cmocka_unit_test(memory_is_shared_evenly_unless_told_otherwise),
      cmocka_unit_test(the_least_number_of_ranks_that_do_is_taken),
      cmocka_unit_test(the_probe_shares_large_points_only),
      cmocka_unit_test(one_rank_alone_agrees_with_itself),
  };
  return cmocka_run_group_tests_name("team size", tests, NULL, NULL);
}
