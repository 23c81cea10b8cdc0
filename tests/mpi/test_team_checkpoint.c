/* Points on teams that go on from checkpoints: states of which members have parts, and the experiments that train. */
#include <mpi.h>
#include <unistd.h>

#include "close.h"
#include "folder.h"
#include "mhasweep/checkpoint.h"
#include "notebook.h"

static mhas_team world(void) {
  mhas_team team = {.comm = MPI_COMM_WORLD};
  MPI_Comm_rank(MPI_COMM_WORLD, &team.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &team.size);
  return team;
}

/* ---- a state ---------------------------------------------------------------------- */

enum { SAME = 70001, PART = 50021, PIECES = 4 }; /* more than a block of the file's, and none ends with one */

/* Counts, then numbers that are the same on all, then parts: long ones, and ones that only members 1, 3 .. have. */
typedef struct stand {
  int64_t step;
  unsigned char same[SAME], own[8 * PART], odd[PART];
  mhas_piece pieces[PIECES];
  mhas_team team;
  char path[FOLDER_PATH + 64]; /* member 0 of each team has it from there */
  mhas_code answer;            /* of writing, if it is to fail before the file is looked at */
} stand;

static unsigned char byte_of(int64_t step, int64_t salt, int64_t i) {
  return (unsigned char)(step * 7 + salt + i * 31);
}

static void set_state(stand *s, int64_t step) {
  const int64_t own = (s->team.rank % 8) * PART + 5;
  const int64_t odd = s->team.rank % 2 == 1 ? PART : 0;
  s->step = step;
  for (int64_t i = 0; i < SAME; i++) {
    s->same[i] = byte_of(step, 1, i);
  }
  for (int64_t i = 0; i < own; i++) {
    s->own[i] = byte_of(step, 2 + s->team.rank, i);
  }
  for (int64_t i = 0; i < odd; i++) {
    s->odd[i] = byte_of(step, 3 * s->team.rank, i);
  }
  s->pieces[0] = (mhas_piece){&s->step, sizeof s->step};
  s->pieces[1] = (mhas_piece){s->own, (size_t)own};
  s->pieces[2] = (mhas_piece){s->same, SAME};
  s->pieces[3] = (mhas_piece){s->odd, (size_t)odd};
}

static void assert_state(stand *s, int64_t step) {
  static stand wanted;
  wanted.team = s->team;
  set_state(&wanted, step);
  for (int i = 0; i < PIECES; i++) {
    assert_memory_equal(s->pieces[i].data, wanted.pieces[i].data, wanted.pieces[i].bytes);
  }
}

static const mhas_checkpoint_key KEY = {.spec_hash = "0123456789abcdef", .numerics = 1, .point = 4, .ranks = 3};

static bool always_due(void *context) { return context != NULL; }

static mhas_code put(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, mhas_error *error) {
  const stand *s = context;
  assert_int_equal(s->team.rank, 0);
  MHAS_TRY(s->answer);
  return mhas_checkpoint_write(s->path, &KEY, pieces, count, mover, error);
}

static mhas_code get(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, bool *found,
                     mhas_error *error) {
  const stand *s = context;
  assert_int_equal(s->team.rank, 0);
  const mhas_code code = mhas_checkpoint_read(s->path, &KEY, pieces, count, mover, found, error);
  return code == MHAS_IO ? MHAS_OK : code; /* as the farm does: torn is not there */
}

static mhas_code go_on(void *context, mhas_error *error) {
  (void)context, (void)error;
  return MHAS_OK;
}

/* A team of all ranks, in the order of `key` times their rank. */
static void take_stand(stand *s, int key) {
  const mhas_team all = world();
  s->team = all;
  assert_int_equal(MPI_Comm_split(MPI_COMM_WORLD, 0, key * all.rank, &s->team.comm), MPI_SUCCESS);
  MPI_Comm_rank(s->team.comm, &s->team.rank);
  char name[FOLDER_PATH];
  memcpy(name, folder, sizeof name);
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD); /* each rank has made one */
  (void)snprintf(s->path, sizeof s->path, "%s/out.h5.4.checkpoint", name);
}

static mhas_task task_of(stand *s, const mhas_checkpoints *checkpoints) {
  return (mhas_task){.team = s->team, .proceed = go_on, .checkpoints = checkpoints, .parts = 1U << 1 | 1U << 3};
}

/* Whether a state is found. */
static bool restores(stand *s) {
  const mhas_checkpoints checkpoints = {always_due, put, get, s};
  const mhas_task task = task_of(s, &checkpoints);
  bool found = false;
  set_state(s, 99);
  assert_int_equal(mhas_task_restore(&task, s->pieces, PIECES, &found, NULL), MHAS_OK);
  return found;
}

static mhas_code proceeds(stand *s, int64_t step) {
  const mhas_checkpoints checkpoints = {always_due, put, get, s};
  const mhas_task task = task_of(s, &checkpoints);
  set_state(s, step);
  return mhas_task_proceed(&task, s->pieces, PIECES, NULL);
}

static void every_member_gets_back_what_it_had(void **state) {
  (void)state;
  static stand s;
  take_stand(&s, 1);
  assert_false(restores(&s));
  assert_state(&s, 99);
  assert_int_equal(proceeds(&s, 3), MHAS_OK);
  assert_int_equal(proceeds(&s, 5), MHAS_OK);
  assert_true(restores(&s));
  assert_state(&s, 5);
  MPI_Comm_free(&s.team.comm);
}

static void a_team_of_the_same_size_on_other_ranks_goes_on(void **state) {
  (void)state;
  static stand s;
  take_stand(&s, -1);
  assert_true(restores(&s)); /* of the test before */
  assert_state(&s, 5);
  MPI_Comm_free(&s.team.comm);
}

static void a_torn_checkpoint_is_none_for_all(void **state) {
  (void)state;
  static stand s;
  take_stand(&s, 1);
  if (s.team.rank == 0) {
    assert_int_equal(truncate(s.path, 4321), 0);
  }
  assert_false(restores(&s));
  assert_state(&s, 99);
  MPI_Comm_free(&s.team.comm);
}

static void a_member_that_cannot_write_holds_nobody_up(void **state) {
  (void)state;
  static stand s;
  take_stand(&s, 1);
  assert_int_equal(proceeds(&s, 6), MHAS_OK);
  s.answer = MHAS_NO_MEMORY;
  assert_int_equal(proceeds(&s, 7), MHAS_NO_MEMORY);
  s.answer = MHAS_OK;
  char path[sizeof s.path];
  memcpy(path, s.path, sizeof path);
  (void)snprintf(s.path, sizeof s.path, "/nowhere/out.h5.4.checkpoint");
  assert_int_equal(proceeds(&s, 8), MHAS_IO);
  memcpy(s.path, path, sizeof path);
  assert_true(restores(&s));
  assert_state(&s, 6);
  MPI_Comm_free(&s.team.comm);
}

/* ---- experiments ------------------------------------------------------------------- */

static void start(point *p, const char *experiment) {
  point_start(p, experiment);
  p->team = world();
  p->store = MHAS_STORE_CURVES;
}

static point descent(void) {
  point p;
  start(&p, "optimize");
  point_set(&p, "heads", 7);
  point_set(&p, "tokens", 4);
  point_set(&p, "dim", 5);
  point_set(&p, "samples", 8);
  point_set(&p, "test_samples", 6);
  point_set(&p, "init_samples", 8);
  point_set(&p, "relevant", 0.5);
  point_set(&p, "prototypes", 2);
  point_set(&p, "steps", 9);
  point_set(&p, "log_every", 4);
  point_set(&p, "target_loss", 0.05);
  point_set(&p, "stability_samples", 2);
  point_choose(&p, "theory", "ends");
  return p;
}

static void heads_that_are_split_go_on_with_the_same_bits(void **state) {
  (void)state;
  static const int64_t rests[] = {3, 8, 20};
  for (int i = 0; i < 3; i++) {
    point p = descent();
    assert_same_with_stops(&p, rests[i]);
    assert_same_with_ends(&p, rests[i], true);
    point_free(&p);
  }
}

static void a_team_that_is_stopped_in_eigenvalues_goes_on_too(void **state) {
  (void)state;
  point p = descent();
  point_choose(&p, "eigenvalues", "logged");
  point_runs(&p);
  const int64_t most = p.calls / 2;
  assert_true(most > 50);
  assert_same_with_stops(&p, most);
  point_free(&p);
}

static point in_context(void) {
  static const struct {
    const char *name;
    double value;
  } sizes[] = {{"dim", 4},
               {"features", 2},
               {"true_features", 2},
               {"neurons", 10},
               {"tokens", 30},
               {"test_tokens", 30},
               {"finite_tokens", 30},
               {"teacher_neurons", 20},
               {"step_size", 0.02},
               {"log_every", 40},
               {"lambda_every", 0},
               {"attention_step_size", 0.05},
               {"dense_spectrum", 1},
               {"birth_death", 1},
               {"perturb_every", 15}};
  point p;
  start(&p, "icl");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    point_set(&p, sizes[i].name, sizes[i].value);
  }
  point_choose(&p, "sampling", "fresh");
  point_choose(&p, "model", "modified");
  point_choose(&p, "trigger", "periodic");
  return p;
}

static void particles_go_on_with_the_same_bits(void **state) {
  (void)state;
  point p = in_context();
  point_set(&p, "steps", 1);
  point_runs(&p);
  const int64_t asked = p.calls; /* by one step and all around it, mostly by eigenvalues */
  point_set(&p, "steps", 200);
  assert_same_with_stops(&p, asked + 40);
  assert_same_with_ends(&p, asked + 70, true);
  point_free(&p);
}

static void trained_weights_go_on_with_the_same_bits(void **state) {
  (void)state;
  point p;
  start(&p, "probe");
  point_set(&p, "heads", 2);
  point_set(&p, "context", 3);
  point_set(&p, "dim", 5);
  point_set(&p, "key_dim", 3);
  point_set(&p, "samples", 12);
  point_set(&p, "out_dim", 5);
  point_set(&p, "value_dim", 5);
  point_set(&p, "steps", 90);
  point_set(&p, "batch", 4);
  point_set(&p, "eval_every", 10);
  point_choose(&p, "weights", "trained");
  point_choose(&p, "solver", "rrqr");
  static const int64_t rests[] = {25, 40, 61};
  for (int i = 0; i < 3; i++) {
    assert_same_with_stops(&p, rests[i]);
    assert_same_with_ends(&p, rests[i], true);
  }
  point_free(&p);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_member_gets_back_what_it_had),
      cmocka_unit_test(a_team_of_the_same_size_on_other_ranks_goes_on),
      cmocka_unit_test(a_torn_checkpoint_is_none_for_all),
      cmocka_unit_test(a_member_that_cannot_write_holds_nobody_up),
      cmocka_unit_test(heads_that_are_split_go_on_with_the_same_bits),
      cmocka_unit_test(a_team_that_is_stopped_in_eigenvalues_goes_on_too),
      cmocka_unit_test(particles_go_on_with_the_same_bits),
      cmocka_unit_test(trained_weights_go_on_with_the_same_bits),
  };
  MPI_Init(&argc, &argv);
  const int failed = cmocka_run_group_tests(tests, folder_make, folder_remove);
  MPI_Finalize();
  return failed;
}
