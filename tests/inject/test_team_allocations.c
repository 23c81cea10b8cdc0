/*
 * Points on teams, with an allocation of one member failing: the point fails on all members with the same code, nobody
 * waits for one that has left, and nothing is lost.
 *
 * By default some allocations of each point are tried, first and last ones among them; MHASWEEP_INJECT=full tries them
 * all. A member that waits for ever is found by the time limit of the test.
 */
#include <mpi.h>

#include "inject/inject.h"
#include "notebook.h"

enum { TRIES = 24 }; /* of a point and member, by default */

static mhas_team world(void) {
  mhas_team team = {.comm = MPI_COMM_WORLD};
  MPI_Comm_rank(MPI_COMM_WORLD, &team.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &team.size);
  return team;
}

static void start(point *p, const char *experiment) {
  point_start(p, experiment);
  p->team = world();
  p->store = MHAS_STORE_CURVES | MHAS_STORE_SPECTRUM | MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_ATTENTION;
}

/* Runs the point with allocation `at` of `member` failing, and a checkpoint at every step; -1: none does. Returns how
 * many allocations that member made; *failed: was one of them made to fail? */
static long run(point *p, int member, long at, mhas_code *code, bool *failed) {
  notebook book = {.p = p, .every = true};
  const mhas_checkpoints checkpoints = {notebook_due, notebook_write, notebook_read, &book};
  const long before = inject_blocks();
  p->checkpoints = &checkpoints;
  p->error.text[0] = '\0';
  inject_allocation(p->team.rank == member ? at : -1);
  *code = point_run(p);
  long seen = inject_allocations_seen(failed);
  assert_int_equal(inject_blocks(), before);
  p->checkpoints = NULL;
  free(book.bytes);
  free(book.curves);
  assert_int_equal(MPI_Bcast(&seen, 1, MPI_LONG, member, MPI_COMM_WORLD), MPI_SUCCESS);
  assert_int_equal(MPI_Bcast(failed, sizeof *failed, MPI_BYTE, member, MPI_COMM_WORLD), MPI_SUCCESS);
  return seen;
}

static void assert_fails_on_all(const point *p, mhas_code code, int member, long at) {
  int codes[2] = {(int)code, -(int)code};
  MPI_Allreduce(MPI_IN_PLACE, codes, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (code != MHAS_NO_MEMORY || codes[0] != -codes[1]) {
    fail_msg("%s: with allocation %ld of member %d failing, member %d says %d (%s)", p->experiment->name, at, member,
             p->team.rank, (int)code, p->error.text);
  }
}

static void try_point(point *p) {
  const char *how = getenv("MHASWEEP_INJECT");
  const bool all = how != NULL && strcmp(how, "full") == 0;
  for (int member = 0; member < p->team.size; member++) {
    mhas_code code = MHAS_OK;
    bool failed = false;
    const long count = run(p, member, -1, &code, &failed);
    assert_int_equal(code, MHAS_OK);
    const long stride = all ? 1 : count / TRIES + 1;
    for (long at = 0; at < count; at = at + stride < count || at == count - 1 ? at + stride : count - 1) {
      (void)run(p, member, at, &code, &failed);
      assert_true(failed);
      assert_fails_on_all(p, code, member, at);
    }
    print_message("%s: %ld allocations of member %d\n", p->experiment->name, count, member);
  }
  point_free(p);
}

/* ---- points ------------------------------------------------------------------------ */

static void descents_fail_together(void **state) {
  (void)state;
  static const char *const data[] = {"dm1", "planted"};
  for (int i = 0; i < 2; i++) {
    point p;
    start(&p, "optimize");
    point_choose(&p, "data", data[i]);
    point_choose(&p, "init", i == 0 ? "one_step" : "gaussian");
    point_set(&p, "heads", 5);
    point_set(&p, "tokens", 4);
    point_set(&p, "dim", 5);
    point_set(&p, "samples", 6);
    point_set(&p, "test_samples", 3);
    point_set(&p, "init_samples", 6);
    point_set(&p, "relevant", 0.5);
    point_set(&p, "prototypes", 2);
    point_set(&p, "steps", 3);
    point_set(&p, "log_every", 2);
    point_set(&p, "target_loss", 0.05);
    point_set(&p, "stability_samples", 2);
    point_choose(&p, "theory", "ends");
    point_choose(&p, "eigenvalues", "end");
    try_point(&p);
  }
}

static void particles_fail_together(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double value;
  } sizes[] = {{"dim", 3},          {"features", 2},       {"true_features", 2},          {"neurons", 20},
               {"tokens", 20},      {"test_tokens", 20},   {"finite_tokens", 20},         {"teacher_neurons", 10},
               {"finite_draws", 3}, {"step_size", 0.02},   {"attention_step_size", 0.05}, {"steps", 4},
               {"log_every", 2},    {"dense_spectrum", 1}, {"lambda_every", 1},           {"perturb_every", 2}};
  point p;
  start(&p, "icl");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    point_set(&p, sizes[i].name, sizes[i].value);
  }
  point_choose(&p, "model", "modified");
  point_choose(&p, "trigger", "periodic");
  try_point(&p);
}

static void probes_fail_together(void **state) {
  (void)state;
  static const char *const weights[] = {"random", "constructed", "trained"};
  static const char *const solvers[] = {"rrqr", "qp3", "svd"};
  for (int i = 0; i < 3; i++) {
    point p;
    start(&p, "probe");
    point_set(&p, "heads", 2);
    point_set(&p, "context", 6);
    point_set(&p, "dim", 5);
    point_set(&p, "key_dim", 5);
    point_set(&p, "samples", 12);
    point_set(&p, "out_dim", 5);
    point_set(&p, "value_dim", 5);
    point_set(&p, "steps", 6);
    point_set(&p, "batch", 4);
    point_set(&p, "label_noise", 0.2);
    point_choose(&p, "weights", weights[i]);
    point_choose(&p, "solver", p.team.size == 1 && i == 2 ? "rrqr" : solvers[i]); /* svd on one rank is no team's */
    try_point(&p);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descents_fail_together),
      cmocka_unit_test(particles_fail_together),
      cmocka_unit_test(probes_fail_together),
  };
  MPI_Init(&argc, &argv);
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  MPI_Finalize();
  return failed;
}
