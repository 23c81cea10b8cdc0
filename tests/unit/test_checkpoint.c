/* Checkpoint files, and trainings that go on from them. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mhasweep/checkpoint.h"
#include "point.h"

static char folder[] = "/tmp/mhasweep-checkpoint-XXXXXX";
static char results[sizeof folder + 16]; /* stands for the result file */
static char path[sizeof results + 32];   /* of point 7 */

static const mhas_checkpoint_key KEY = {.spec_hash = "0123456789abcdef", .numerics = 2, .point = 7, .ranks = 3};

static int make_folder(void **state) {
  (void)state;
  if (mkdtemp(folder) == NULL) {
    return -1;
  }
  (void)snprintf(results, sizeof results, "%s/out.h5", folder);
  (void)snprintf(path, sizeof path, "%s.7.checkpoint", results);
  const int file = open(results, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  return file < 0 ? -1 : close(file);
}

static int count_files(void) {
  int count = 0;
  DIR *entries = opendir(folder);
  assert_non_null(entries);
  for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    count += entry->d_name[0] != '.';
  }
  (void)closedir(entries);
  return count;
}

static int empty_folder(void **state) {
  (void)state;
  DIR *entries = opendir(folder);
  for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    if (strcmp(entry->d_name, "out.h5") != 0 && entry->d_name[0] != '.') {
      (void)unlinkat(dirfd(entries), entry->d_name, 0);
    }
  }
  return closedir(entries);
}

static int remove_folder(void **state) {
  (void)empty_folder(state);
  (void)unlink(results);
  return rmdir(folder);
}

/* ---- the file --------------------------------------------------------------------- */

enum { NUMBERS = 20000 }; /* more than a block of the reader's */

typedef struct state_of {
  int64_t step;
  float numbers[NUMBERS];
  mhas_piece pieces[3];
} state_of;

static void set_state(state_of *s, int64_t step) {
  s->step = step;
  for (int i = 0; i < NUMBERS; i++) {
    s->numbers[i] = (float)(step * i) * 0.25f;
  }
  s->pieces[0] = (mhas_piece){&s->step, sizeof s->step};
  s->pieces[1] = (mhas_piece){NULL, 0}; /* what is not stored has no bytes */
  s->pieces[2] = (mhas_piece){s->numbers, sizeof s->numbers};
}

static void write_state(int64_t step) {
  static state_of s;
  mhas_error error;
  set_state(&s, step);
  assert_int_equal(mhas_checkpoint_write(path, &KEY, s.pieces, 3, NULL, &error), MHAS_OK);
}

/* Reads with this key; on failure nothing may have been touched. Returns the words, "" if there are none. */
static const char *read_with(const mhas_checkpoint_key *key, bool *found, int64_t *step) {
  static state_of s;
  static state_of before;
  static mhas_error why;
  set_state(&s, 999);
  before = s;
  why.text[0] = '\0';
  const mhas_code code = mhas_checkpoint_read(path, key, s.pieces, 3, NULL, found, &why);
  assert_true(code == MHAS_OK || code == MHAS_IO);
  if (*found) {
    assert_int_equal(code, MHAS_OK);
    *step = s.step;
    for (int i = 0; i < NUMBERS; i++) {
      assert_true(s.numbers[i] == (float)(s.step * i) * 0.25f);
    }
  } else {
    assert_memory_equal(&s, &before, sizeof s);
  }
  return code == MHAS_OK ? "" : why.text;
}

static void assert_refused(const mhas_checkpoint_key *key, const char *words) {
  bool found = true;
  int64_t step = 0;
  const char *why = read_with(key, &found, &step);
  assert_false(found);
  assert_non_null(strstr(why, words));
}

static void the_last_state_written_is_read(void **state) {
  (void)state;
  bool found = false;
  int64_t step = 0;
  write_state(3);
  write_state(5);
  assert_string_equal(read_with(&KEY, &found, &step), "");
  assert_true(found);
  assert_int_equal(step, 5);
  assert_int_equal(count_files(), 2); /* and no temporary file stays */
}

static void no_file_is_no_state_and_no_error(void **state) {
  (void)state;
  assert_refused(&KEY, "");
}

static void another_sweeps_or_points_state_is_refused(void **state) {
  (void)state;
  write_state(3);
  mhas_checkpoint_key other = KEY;
  other.spec_hash = "0123456789abcdee";
  assert_refused(&other, "another sweep");
  other = KEY;
  other.numerics = 3;
  assert_refused(&other, "another sweep");
  other = KEY;
  other.point = 8;
  assert_refused(&other, "another point (7)");
  other = KEY;
  other.ranks = 2;
  assert_refused(&other, "a team of another size (3)");
}

static void a_state_of_another_size_is_refused(void **state) {
  (void)state;
  int64_t step = 4;
  mhas_error why;
  const mhas_piece one = {&step, sizeof step};
  assert_int_equal(mhas_checkpoint_write(path, &KEY, &one, 1, NULL, &why), MHAS_OK);
  assert_refused(&KEY, "another size");
}

/* Cut short at many places, and with single bits changed. */
static void a_torn_or_damaged_file_is_refused(void **state) {
  (void)state;
  write_state(3);
  struct stat facts;
  assert_int_equal(stat(path, &facts), 0);
  for (off_t length = 0; length < facts.st_size; length = length < 700 ? length + 37 : length + 7919) {
    write_state(3);
    assert_int_equal(truncate(path, length), 0);
    assert_refused(&KEY, "torn or damaged");
  }
  for (off_t at = 0; at < facts.st_size; at = at < 700 ? at + 13 : at + 7919) {
    write_state(3);
    const int file = open(path, O_RDWR | O_CLOEXEC);
    char byte = 0;
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte = (char)(byte ^ 0x10);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    (void)close(file);
    assert_refused(&KEY, path);
  }
  write_state(3);
  assert_int_equal(truncate(path, facts.st_size + 1), 0);
  assert_refused(&KEY, "torn or damaged");
}

static void something_else_at_its_place_is_refused(void **state) {
  (void)state;
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_refused(&KEY, path);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_refused(&KEY, path);
  state_of *s = malloc(sizeof *s);
  mhas_error error;
  set_state(s, 1);
  assert_int_equal(mhas_checkpoint_write(path, &KEY, s->pieces, 3, NULL, &error), MHAS_IO);
  assert_int_equal(count_files(), 2); /* the folder and the results: no temporary file stays */
  assert_int_equal(rmdir(path), 0);
  free(s);
}

static void a_folder_that_is_gone_is_an_error_in_words(void **state) {
  (void)state;
  int64_t step = 4;
  mhas_error error;
  const mhas_piece one = {&step, sizeof step};
  assert_int_equal(mhas_checkpoint_write("/nowhere/x.h5.7.checkpoint", &KEY, &one, 1, NULL, &error), MHAS_IO);
  assert_non_null(strstr(error.text, "/nowhere"));
}

static bool is_five(void *context, int64_t row) {
  (void)context;
  return row == 5;
}

static void touch(const char *name) {
  char whole[sizeof folder + 128];
  (void)snprintf(whole, sizeof whole, "%s/%s", folder, name);
  const int file = open(whole, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_true(file >= 0);
  (void)close(file);
}

static void tidying_takes_what_no_run_needs_and_nothing_else(void **state) {
  (void)state;
  static const char *const stays[] = {"out.h5.5.checkpoint",     "out.h5.checkpoint",
                                      "out.h5.x.checkpoint",     "other.h5.4.checkpoint",
                                      "out.h5.4.checkpoint.old", "out.h5.4.checkpoint.ABCDEF.tm"};
  static const char *const gone[] = {"out.h5.4.checkpoint", "out.h5.4.checkpoint.ABCDEF.tmp",
                                     "out.h5.5.checkpoint.abcdef.tmp"};
  for (size_t i = 0; i < sizeof stays / sizeof *stays; i++) {
    touch(stays[i]);
  }
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
    touch(gone[i]);
  }
  mhas_checkpoint_tidy(results, is_five, NULL);
  assert_int_equal(count_files(), 1 + sizeof stays / sizeof *stays);
  mhas_error error;
  (void)snprintf(path, sizeof path, "%s.5.checkpoint", results);
  assert_int_equal(mhas_checkpoint_retire(path, results, &error), MHAS_OK);
  assert_int_equal(mhas_checkpoint_retire(path, results, &error), MHAS_OK); /* also if there is none */
  assert_int_equal(count_files(), sizeof stays / sizeof *stays);
  (void)snprintf(path, sizeof path, "%s.7.checkpoint", results);
}

/* ---- trainings ----------------------------------------------------------------------- */

/* As the farm keeps them: the row, then the experiment's pieces. */
typedef struct shelf {
  point *p;
  int writes, reads;
  bool always; /* due at every step */
} shelf;

enum { ROW_PIECES = 3 };

static int join(const shelf *s, const mhas_piece *pieces, int count, mhas_piece *all) {
  mhas_row *row = &s->p->row;
  all[0] = (mhas_piece){row->results, sizeof s->p->results};
  all[1] = (mhas_piece){row->curves,
                        (size_t)s->p->experiment->curve_count * (size_t)row->record_capacity * sizeof *row->curves};
  all[2] = (mhas_piece){&row->flops, sizeof row->flops};
  memcpy(all + ROW_PIECES, pieces, (size_t)count * sizeof *pieces);
  return ROW_PIECES + count;
}

static bool due(void *context) { return ((const shelf *)context)->always; }

static mhas_code put(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, mhas_error *error) {
  shelf *s = context;
  mhas_piece all[MHAS_CHECKPOINT_PIECES_MOST];
  s->writes++;
  return mhas_checkpoint_write(path, &KEY, all, join(s, pieces, count, all), mover, error);
}

static mhas_code get(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, bool *found,
                     mhas_error *error) {
  shelf *s = context;
  mhas_piece all[MHAS_CHECKPOINT_PIECES_MOST];
  const mhas_code code = mhas_checkpoint_read(path, &KEY, all, join(s, pieces, count, all), mover, found, error);
  s->reads += *found;
  return code;
}

/* Own contexts, noise in training, an early stop that never comes, a ragged last batch, compression afterwards. */
static point training(void) {
  point p;
  point_start(&p, "memorize");
  point_set(&p, "heads", 2);
  point_set(&p, "context", 3);
  point_set(&p, "dim", 6);
  point_set(&p, "key_dim", 4);
  point_set(&p, "value_dim", 3);
  point_set(&p, "out_dim", 6);
  point_set(&p, "samples", 50);
  point_set(&p, "classes", 20);
  point_set(&p, "batch", 16);
  point_set(&p, "steps", 60);
  point_set(&p, "eval_every", 7);
  point_set(&p, "lr", 0.02);
  point_set(&p, "dropout", 0.1);
  point_set(&p, "input_noise", 0.05);
  point_set(&p, "label_noise", 0.2);
  point_set(&p, "prune", 0.3);
  point_set(&p, "bits", 4);
  p.store = MHAS_STORE_CURVES;
  return p;
}

static void assert_same_point(const point *a, const point *b) {
  assert_memory_equal(a->results, b->results, sizeof a->results);
  assert_true(a->row.flops == b->row.flops);
  assert_memory_equal(a->curves, b->curves,
                      (size_t)a->experiment->curve_count * (size_t)a->row.record_capacity * sizeof *a->curves);
}

/* Stopped again and again, `stride` questions further each time, until it ends. */
static int run_in_pieces(point *p, const mhas_checkpoints *checkpoints, int64_t stride) {
  int stops = 0;
  mhas_code code = MHAS_STOPPED;
  p->checkpoints = checkpoints;
  p->stop_code = MHAS_STOPPED;
  for (; code == MHAS_STOPPED; stops++) {
    assert_true(stops < 2000);
    p->stop_at = stride;
    code = point_run(p);
  }
  assert_int_equal(code, MHAS_OK);
  return stops - 1;
}

static void a_training_interrupted_anywhere_ends_with_the_same_bits(void **state) {
  (void)state;
  point whole = training();
  point_runs(&whole);
  const int64_t calls = whole.calls;
  const int64_t pass = (50 + 15) / 16; /* questions in one pass over the samples */
  /* Less than reading the samples, and three passes for what is asked of the best model, gets nowhere. */
  for (int64_t stride = 4 * pass + 1; stride < calls; stride += stride < 35 ? 1 : 17) {
    point p = training();
    shelf s = {.p = &p};
    const mhas_checkpoints checkpoints = {due, put, get, &s};
    const int stops = run_in_pieces(&p, &checkpoints, stride);
    assert_true(stops >= 1);
    assert_int_equal(s.writes, stops); /* wherever it was stopped: in a step, an evaluation, or after the training */
    assert_int_equal(s.reads, stops);
    assert_same_point(&p, &whole);
    assert_int_equal(unlink(path), 0);
    point_free(&p);
  }
  point_free(&whole);
}

static void a_training_killed_at_five_random_steps_ends_with_the_same_bits(void **state) {
  (void)state;
  point whole = training();
  point_runs(&whole);
  point p = training();
  shelf s = {.p = &p, .always = true};
  const mhas_checkpoints checkpoints = {due, put, get, &s};
  uint64_t words[5];
  mhas_random_words((mhas_random){.seed = 8}, MHAS_STREAM_SAMPLE, 0, 5, words);
  p.checkpoints = &checkpoints;
  p.stop_code = MHAS_INTERNAL; /* as if the process ended: nothing is written then */
  for (int i = 0; i < 5; i++) {
    p.stop_at = 10 + (int64_t)(words[i] % 20);
    assert_int_equal(point_run(&p), MHAS_INTERNAL);
  }
  p.stop_at = -1;
  point_runs(&p);
  assert_int_equal(s.reads, 5);
  assert_same_point(&p, &whole);
  point_free(&p);
  point_free(&whole);
}

static void an_early_stop_is_remembered(void **state) {
  (void)state;
  point whole = training();
  for (int i = 0; i < 2; i++) {
    point p = training();
    point_set(&p, "samples", 6);
    point_set(&p, "label_noise", 0.0);
    point_set(&p, "dropout", 0.0);
    point_set(&p, "steps", 2000);
    if (i == 0) {
      point_runs(&p);
      assert_true(point_integer(&p, "steps_run") < 2000);
      point_free(&whole);
      whole = p;
    } else {
      shelf s = {.p = &p};
      const mhas_checkpoints checkpoints = {due, put, get, &s};
      (void)run_in_pieces(&p, &checkpoints, whole.calls - 1); /* in what is asked of the best model */
      assert_int_equal(s.reads, 1);
      assert_same_point(&p, &whole);
      point_free(&p);
    }
  }
  point_free(&whole);
}

static void trained_weights_of_the_probe_go_on_too(void **state) {
  (void)state;
  point p[2];
  for (int i = 0; i < 2; i++) {
    point_start(&p[i], "probe");
    point_set(&p[i], "heads", 2);
    point_set(&p[i], "context", 3);
    point_set(&p[i], "dim", 5);
    point_set(&p[i], "key_dim", 3);
    point_set(&p[i], "samples", 12);
    point_choose(&p[i], "weights", "trained");
    point_set(&p[i], "out_dim", 5);
    point_set(&p[i], "value_dim", 5);
    point_set(&p[i], "steps", 40);
    point_set(&p[i], "batch", 4);
  }
  point_runs(&p[0]);
  shelf s = {.p = &p[1]};
  const mhas_checkpoints checkpoints = {due, put, get, &s};
  p[1].checkpoints = &checkpoints;
  p[1].stop_code = MHAS_STOPPED;
  p[1].stop_at = 15;
  assert_int_equal(point_run(&p[1]), MHAS_STOPPED);
  assert_int_equal(s.writes, 1);
  p[1].stop_at = -1;
  point_runs(&p[1]);
  assert_int_equal(s.reads, 1);
  assert_same_point(&p[1], &p[0]);
  point_free(&p[0]);
  point_free(&p[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(the_last_state_written_is_read, empty_folder),
      cmocka_unit_test_teardown(no_file_is_no_state_and_no_error, empty_folder),
      cmocka_unit_test_teardown(another_sweeps_or_points_state_is_refused, empty_folder),
      cmocka_unit_test_teardown(a_state_of_another_size_is_refused, empty_folder),
      cmocka_unit_test_teardown(a_torn_or_damaged_file_is_refused, empty_folder),
      cmocka_unit_test_teardown(something_else_at_its_place_is_refused, empty_folder),
      cmocka_unit_test_teardown(a_folder_that_is_gone_is_an_error_in_words, empty_folder),
      cmocka_unit_test_teardown(tidying_takes_what_no_run_needs_and_nothing_else, empty_folder),
      cmocka_unit_test_teardown(a_training_interrupted_anywhere_ends_with_the_same_bits, empty_folder),
      cmocka_unit_test_teardown(a_training_killed_at_five_random_steps_ends_with_the_same_bits, empty_folder),
      cmocka_unit_test_teardown(an_early_stop_is_remembered, empty_folder),
      cmocka_unit_test_teardown(trained_weights_of_the_probe_go_on_too, empty_folder),
  };
  return cmocka_run_group_tests_name("checkpoint", tests, make_folder, remove_folder);
}
