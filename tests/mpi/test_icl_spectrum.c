/* All eigenvalues of the integral Hessian by a team: those that one rank finds, and nothing else changes. */
#include <mpi.h>

#include "point.h"

static point small(void) {
  static const struct {
    const char *name;
    double value;
  } sizes[] = {{"dim", 4},           {"features", 2},     {"true_features", 2},  {"neurons", 25},
               {"tokens", 40},       {"test_tokens", 40}, {"finite_tokens", 40}, {"teacher_neurons", 20},
               {"steps", 5},         {"log_every", 5},    {"step_size", 0.1},    {"attention_step_size", 1},
               {"dense_spectrum", 1}};
  point p;
  point_start(&p, "icl");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    point_set(&p, sizes[i].name, sizes[i].value);
  }
  p.store = MHAS_STORE_SPECTRUM;
  return p;
}

static mhas_team everyone(void) {
  mhas_team team = {.comm = MPI_COMM_WORLD};
  MPI_Comm_rank(team.comm, &team.rank);
  MPI_Comm_size(team.comm, &team.size);
  return team;
}

static void a_team_finds_the_eigenvalues_of_one_rank(void **state) {
  (void)state;
  enum { ORDER = 25 * 6 };
  point p = small();
  point team = small();
  team.team = everyone();
  point_runs(&p);
  point_runs(&team);
  assert_int_equal(p.row.spectrum_capacity, ORDER);
  assert_all_close(team.spectrum, p.spectrum, ORDER, 1e-12);
  const int dense = mhas_result_find(p.experiment, "lambda_min_dense");
  for (int i = 0; i < p.experiment->result_count; i++) {
    if (p.experiment->results[i].type == MHAS_REAL && !isnan(p.results[i].real)) {
      assert_close(team.results[i].real, p.results[i].real, i == dense ? 1e-12 : 0.0);
    } else if (p.experiment->results[i].type != MHAS_REAL) {
      assert_int_equal(team.results[i].integer, p.results[i].integer);
    }
  }
  point_free(&p);
  point_free(&team);
}

static void a_team_that_is_stopped_stops_together(void **state) {
  (void)state;
  point p = small();
  p.team = everyone();
  point_runs(&p);
  point_ends_where_told(&p, 21, 1 + p.calls / 7);
  point_free(&p);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_team_finds_the_eigenvalues_of_one_rank),
      cmocka_unit_test(a_team_that_is_stopped_stops_together),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  MPI_Finalize();
  return failed;
}
