/* Points of the experiment optimize whose heads are split over a team: what one rank finds, and the same bits each
 * time. */
#include <mpi.h>

#include "point.h"

enum { HEADS = 7, REAL_RESULTS = 96 };

static mhas_team world(void) {
  mhas_team team = {.comm = MPI_COMM_WORLD};
  MPI_Comm_rank(MPI_COMM_WORLD, &team.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &team.size);
  return team;
}

static point team_point(void) {
  point p;
  point_start(&p, "optimize");
  p.store = MHAS_STORE_CURVES;
  point_set(&p, "heads", HEADS);
  point_set(&p, "tokens", 5);
  point_set(&p, "dim", 7);
  point_set(&p, "samples", 12);
  point_set(&p, "test_samples", 9);
  point_set(&p, "init_samples", 12);
  point_set(&p, "relevant", 0.4);
  point_set(&p, "prototypes", 3);
  point_set(&p, "steps", 15);
  point_set(&p, "target_loss", 0.05);
  point_set(&p, "stability_samples", 3);
  point_set(&p, "log_every", 5);
  point_choose(&p, "eigenvalues", "logged");
  point_choose(&p, "theory", "ends");
  return p;
}

static mhas_code run_on_team(point *p) {
  p->team = world();
  const mhas_code code = point_run(p);
  p->team = (mhas_team){0};
  return code;
}

static void must_run_on_team(point *p) {
  const mhas_code code = run_on_team(p);
  if (code != MHAS_OK) {
    fail_msg("%s", p->error.text);
  }
}

static void assert_same_results(const point *team, const point *alone, double tolerance) {
  for (int i = 0; i < team->experiment->result_count; i++) {
    const mhas_result *result = &team->experiment->results[i];
    const bool real = result->type == MHAS_REAL;
    if (!real) {
      assert_int_equal(team->results[i].integer, alone->results[i].integer);
    } else if (isnan(alone->results[i].real)) {
      assert_true(isnan(team->results[i].real));
    } else if (strstr(result->name, "residual") == NULL && !(fabs(team->results[i].real - alone->results[i].real) <=
                                                             tolerance * fmax(1.0, fabs(alone->results[i].real)))) {
      fail_msg("%s is %.17g on the team, and %.17g alone", result->name, team->results[i].real, alone->results[i].real);
    }
  }
}

static void check_against_one_rank(point team, double tolerance) {
  point alone = team;
  must_run_on_team(&team);
  point_runs(&alone);
  assert_same_results(&team, &alone, tolerance);
  point_free(&team);
  point_free(&alone);
}

static void a_team_finds_what_one_rank_finds(void **state) {
  (void)state;
  static const char *const inits[] = {"one_step", "gaussian", "planted"};
  for (int i = 0; i < 3; i++) {
    point team = team_point();
    point_choose(&team, "init", inits[i]);
    check_against_one_rank(team, 1e-7);
  }
}

static void keys_apart_are_split_too(void **state) {
  (void)state;
  point team = team_point();
  point_set(&team, "key_dim", 3);
  point_choose(&team, "init", "gaussian");
  check_against_one_rank(team, 1e-7);
}

static void rules_that_need_norms_are_followed_together(void **state) {
  (void)state;
  static const char *const rules[] = {"normalised", "polyak"};
  for (int i = 0; i < 2; i++) {
    point team = team_point();
    point_choose(&team, "step_rule", rules[i]);
    point_set(&team, "step_size", 0.2);
    point_choose(&team, "eigenvalues", "never");
    check_against_one_rank(team, 1e-10);
  }
}

static void the_same_team_gets_the_same_bits(void **state) {
  (void)state;
  point first = team_point();
  must_run_on_team(&first);
  point second = team_point();
  must_run_on_team(&second);
  assert_memory_equal(first.results, second.results, (size_t)first.experiment->result_count * sizeof(mhas_value));
  assert_memory_equal(first.curves, second.curves,
                      (size_t)(first.experiment->curve_count * first.row.record_capacity) * sizeof(float));
  /* and so do its members among each other */
  double mine[REAL_RESULTS];
  double theirs[REAL_RESULTS];
  memcpy(mine, first.results, sizeof mine);
  memcpy(theirs, mine, sizeof theirs);
  MPI_Bcast(theirs, REAL_RESULTS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  assert_memory_equal(mine, theirs, (size_t)first.experiment->result_count * sizeof(double));
  point_free(&first);
  point_free(&second);
}

static void arrays_of_all_heads_come_together_on_member_0(void **state) {
  (void)state;
  point team = team_point();
  team.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_ATTENTION;
  point_choose(&team, "eigenvalues", "never");
  point alone = team;
  must_run_on_team(&team);
  point_runs(&alone);
  if (world().rank > 0) {
    assert_int_equal(team.kept_count, 0);
  } else {
    assert_int_equal(team.kept_count, alone.kept_count);
  }
  for (int i = 0; i < team.kept_count; i++) {
    assert_string_equal(team.kept[i].name, alone.kept[i].name);
    assert_int_equal(team.kept[i].count, alone.kept[i].count);
    assert_all_close(team.kept[i].data, alone.kept[i].data, alone.kept[i].count, 1e-11);
  }
  team.keep_fails_at = 2;
  assert_int_equal(run_on_team(&team), MHAS_IO); /* on all members */
  point_free(&team);
  point_free(&alone);
}

static void a_team_diverges_and_stops_as_one(void **state) {
  (void)state;
  point p = team_point();
  point_set(&p, "step_size", 1e10);
  assert_int_equal(run_on_team(&p), MHAS_NUMERIC);
  assert_non_null(strstr(p.error.text, "diverged at step"));
  point_free(&p);
  p = team_point();
  p.stop_code = MHAS_STOPPED;
  for (p.stop_at = 0; p.stop_at < 400; p.stop_at += 57) {
    assert_int_equal(run_on_team(&p), MHAS_STOPPED);
  }
  point_free(&p);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_team_finds_what_one_rank_finds),
      cmocka_unit_test(keys_apart_are_split_too),
      cmocka_unit_test(rules_that_need_norms_are_followed_together),
      cmocka_unit_test(the_same_team_gets_the_same_bits),
      cmocka_unit_test(arrays_of_all_heads_come_together_on_member_0),
      cmocka_unit_test(a_team_diverges_and_stops_as_one),
  };
  MPI_Init(&argc, &argv);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  MPI_Finalize();
  return failed;
}
