/* All eigenvalues of the integral Hessian by a team: those that one rank finds, and nothing else changes. */
#include <mpi.h>

#include "point.h"

static mhas_code always(void *context, mhas_error *error) {
  (void)context, (void)error;
  return MHAS_OK;
}

static int64_t calls;

static mhas_code stop_late(void *context, mhas_error *error) {
  return calls++ < *(const int64_t *)context ? MHAS_OK : mhas_fail(error, MHAS_STOPPED, "told to stop");
}

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

static mhas_code run_on_team(point *p, double *spectrum, mhas_value *results,
                             mhas_code (*proceed)(void *, mhas_error *), void *context) {
  mhas_row row = {
      .results = results, .spectrum = spectrum, .spectrum_capacity = p->experiment->cost(p->values).spectrum};
  const mhas_task task = {.point = {.values = p->values, .random = p->random},
                          .store = p->store,
                          .team = everyone(),
                          .proceed = proceed,
                          .context = context};
  mhas_row_clear(p->experiment, &row);
  return p->experiment->run(&task, &row, &p->error);
}

static void a_team_finds_the_eigenvalues_of_one_rank(void **state) {
  (void)state;
  point p = small();
  enum { ORDER = 25 * 6 };
  double spectrum[ORDER];
  mhas_value results[POINT_RESULTS];
  point_runs(&p);
  assert_int_equal(p.row.spectrum_capacity, ORDER);
  assert_int_equal(run_on_team(&p, spectrum, results, always, NULL), MHAS_OK);
  assert_all_close(spectrum, p.spectrum, ORDER, 1e-12);
  const int dense = mhas_result_find(p.experiment, "lambda_min_dense");
  for (int i = 0; i < p.experiment->result_count; i++) {
    if (p.experiment->results[i].type == MHAS_REAL && !isnan(p.results[i].real)) {
      assert_close(results[i].real, p.results[i].real, i == dense ? 1e-12 : 0.0);
    } else if (p.experiment->results[i].type != MHAS_REAL) {
      assert_int_equal(results[i].integer, p.results[i].integer);
    }
  }
  point_free(&p);
}

/* Every member counts alike, as every member gets the same answer in a sweep. */
static void a_team_that_is_stopped_stops_together(void **state) {
  (void)state;
  point p = small();
  double spectrum[25 * 6];
  mhas_value results[POINT_RESULTS];
  int64_t never = INT64_MAX;
  assert_int_equal(run_on_team(&p, spectrum, results, stop_late, &never), MHAS_OK);
  const int64_t asked = calls;
  assert_true(asked > 20);
  for (int64_t at = 0; at < asked; at += 1 + asked / 7) {
    calls = 0;
    assert_int_equal(run_on_team(&p, spectrum, results, stop_late, &at), MHAS_STOPPED);
  }
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
