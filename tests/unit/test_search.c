/* The search for the largest value that keeps a condition: on an experiment made for it, whose answer is known. */
#include <inttypes.h>
#include <string.h>

#include "close.h"
#include "mhasweep/experiments.h"

/* ---- an experiment whose answer is one of its parameters ---- */

enum { P_SIZE, P_ANSWER, P_TWICE, P_COUNT };
enum { R_GOOD, R_SCORE, R_TWICE, R_COUNT };

static const mhas_parameter parameters[P_COUNT] = {
    {"size", MHAS_INTEGER, "1", "1", 1, 1 << 30, NULL, "what is searched for"},
    {"answer", MHAS_INTEGER, "1", "1", 0, 1 << 30, NULL, "the largest size that is good"},
    {"twice", MHAS_INTEGER, "1", "= 2 * size", 1, 1LL << 31, NULL, "an expression of the size"},
};
static const mhas_result results[R_COUNT] = {
    {"good", MHAS_FLAG, "1", "is it good?"},
    {"score", MHAS_REAL, "1", "answer - size"},
    {"twice_found", MHAS_INTEGER, "1", "twice, as the run saw it"},
};
static const mhas_curve curves[] = {{"size_seen", "1", "the size of the run"}};

static int64_t runs, guess_value, fails_at, missing_at, refused_at;
static mhas_code fails_with;
extern const mhas_experiment fake;

static mhas_code run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  const int64_t size = task->point.values[P_SIZE].integer;
  const int64_t answer = task->point.values[P_ANSWER].integer;
  const double seen = (double)size;
  runs++;
  row->flops = 100.0;
  MHAS_TRY(task->proceed(task->context, error));
  if (size >= fails_at) {
    return mhas_fail(error, fails_with, "it broke");
  }
  if (size != missing_at) {
    row->results[R_GOOD].integer = size <= answer;
  }
  row->results[R_SCORE].real = (double)(answer - size);
  row->results[R_TWICE].integer = task->point.values[P_TWICE].integer;
  mhas_row_record(&fake, row, 0, &seen);
  if (row->spectrum != NULL) {
    row->spectrum[0] = seen;
  }
  return MHAS_OK;
}

static mhas_cost cost(const mhas_value *values) {
  return (mhas_cost){
      .flops = (double)values[P_SIZE].integer, .bytes = 8.0 * (double)values[P_SIZE].integer, .records = 1};
}

static int arrays(const mhas_value *values, unsigned flags, mhas_array *out) {
  (void)values;
  (void)flags;
  (void)out;
  return 0;
}

static mhas_code guess(const mhas_task *task, int result, int64_t *found, double *flops, mhas_error *error) {
  assert_int_equal(result, R_GOOD);
  *flops = 1.0;
  *found = guess_value;
  return guess_value < -1 ? mhas_fail(error, MHAS_NO_MEMORY, "no memory to guess")
                          : task->proceed(task->context, error);
}

static int64_t guess_most(const mhas_value *values) { return values[P_ANSWER].integer; }

static const mhas_searchable plain = {.parameter = "size"};
static const mhas_searchable guessing = {.parameter = "size", .guess = guess, .guess_most = guess_most};

const mhas_experiment fake = {.name = "fake",
                              .title = "a known answer",
                              .summary = "",
                              .numerics = 1,
                              .parameters = parameters,
                              .parameter_count = P_COUNT,
                              .results = results,
                              .result_count = R_COUNT,
                              .curves = curves,
                              .curve_count = 1,
                              .cost = cost,
                              .arrays = arrays,
                              .run = run,
                              .searchable = &plain};

/* ---- one search ---- */

enum { RECORDS = 128, FOUND = R_COUNT };

typedef struct hunt {
  mhas_search search;
  bool guesses;
  mhas_value values[P_COUNT];
  mhas_value row_results[R_COUNT + 1];
  float row_curves[3][RECORDS];
  double spectrum[1];
  mhas_row row;
  mhas_error error;
  int64_t calls, stop_at;
  int64_t records; /* as the cost promised */
  const mhas_checkpoints *checkpoints;
} hunt;

static mhas_code proceed(void *context, mhas_error *error) {
  hunt *h = context;
  return h->calls++ == h->stop_at ? mhas_fail(error, MHAS_STOPPED, "told to stop") : MHAS_OK;
}

static mhas_code at(void *context, int64_t size, mhas_value *values, mhas_error *error) {
  const hunt *h = context;
  memcpy(values, h->values, sizeof h->values);
  values[P_SIZE].integer = size;
  values[P_TWICE].integer = 2 * size;
  return size == refused_at ? mhas_fail(error, MHAS_USAGE, "it is not allowed") : MHAS_OK;
}

static hunt start(int64_t answer, int64_t from, int64_t to) {
  runs = 0;
  guess_value = 0;
  fails_at = INT64_MAX;
  missing_at = -1;
  refused_at = -1;
  fails_with = MHAS_NUMERIC;
  return (hunt){.search = {.parameter = P_SIZE,
                           .result = R_GOOD,
                           .relation = MHAS_AT_LEAST,
                           .bound = 1.0,
                           .from = from,
                           .to = to,
                           .tolerance = 1},
                .values = {[P_SIZE] = {.integer = to}, [P_ANSWER] = {.integer = answer}},
                .stop_at = -1};
}

static mhas_code hunt_run(hunt *h) {
  mhas_experiment base = fake;
  mhas_experiment *made = NULL;
  base.searchable = h->guesses ? &guessing : &plain;
  assert_int_equal(mhas_searching_create(&base, &h->search, &made, &h->error), MHAS_OK);
  h->records = mhas_experiment_cost(made, h->values).records;
  assert_in_range(h->records, 1, RECORDS);
  h->row = (mhas_row){.results = h->row_results,
                      .curves = h->row_curves[0],
                      .record_capacity = RECORDS,
                      .spectrum = h->spectrum,
                      .spectrum_capacity = 1};
  mhas_row_clear(made, &h->row);
  const mhas_task task = {.point = {.values = h->values},
                          .proceed = proceed,
                          .context = h,
                          .at = at,
                          .at_context = h,
                          .checkpoints = h->checkpoints};
  const mhas_code code = mhas_experiment_run(made, &task, &h->row, &h->error);
  mhas_searching_destroy(made);
  return code;
}

static int64_t capacity(hunt *h) {
  if (hunt_run(h) != MHAS_OK) {
    fail_msg("%s", h->error.text);
  }
  assert_true(runs <= h->records);
  return h->row_results[FOUND].integer;
}

/* Every trial that was made is in the curves, and nothing else. */
static void assert_trials(const hunt *h) {
  for (int64_t i = 0; i < RECORDS; i++) {
    assert_int_equal(isnan(h->row_curves[1][i]), i >= runs);
    assert_int_equal(isnan(h->row_curves[2][i]), i >= runs);
    if (i < runs) {
      assert_int_equal(h->row_curves[2][i] == 1.0F, h->row_curves[1][i] <= (float)h->values[P_ANSWER].integer);
    }
  }
}

/* ---- what is found ---- */

static void the_largest_that_holds_is_found_wherever_it_is(void **state) {
  (void)state;
  for (int64_t from = 1; from < 12; from += 5) {
    for (int64_t to = from; to < 40; to++) {
      for (int64_t answer = 0; answer < 45; answer++) {
        hunt h = start(answer, from, to);
        const int64_t expected = answer < from ? -1 : answer < to ? answer : to;
        const int64_t found = capacity(&h);
        if (found != expected) {
          fail_msg("from %" PRId64 " to %" PRId64 ": %" PRId64 ", not %" PRId64, from, to, found, expected);
        }
        assert_trials(&h);
      }
    }
  }
}

static void large_ranges_take_few_trials(void **state) {
  (void)state;
  static const int64_t answers[] = {1, 2, 99999, 1 << 20, (1 << 30) - 1, 1 << 30};
  for (int i = 0; i < 6; i++) {
    hunt h = start(answers[i], 1, 1 << 30);
    assert_int_equal(capacity(&h), answers[i]);
    assert_true(runs <= 62);
  }
}

static void a_tolerance_ends_the_search_early_at_a_value_that_holds(void **state) {
  (void)state;
  for (int64_t tolerance = 1; tolerance < 2000; tolerance *= 3) {
    hunt h = start(777, 1, 1000);
    h.search.tolerance = tolerance;
    const int64_t found = capacity(&h);
    assert_true(found <= 777 && found > 777 - tolerance);
  }
}

static void the_row_is_that_of_the_value_found(void **state) {
  (void)state;
  hunt h = start(77, 1, 1000);
  assert_int_equal(capacity(&h), 77);
  assert_int_equal(h.row_results[R_GOOD].integer, 1);
  assert_true(h.row_results[R_SCORE].real == 0.0);
  assert_int_equal(h.row_results[R_TWICE].integer, 154); /* expressions follow the size */
  assert_true(h.row_curves[0][0] == 77.0F);
  assert_true(h.spectrum[0] == 77.0);
  assert_true(h.row.flops == 100.0 * (double)runs);
  h = start(5, 10, 1000); /* none holds: the row of the smallest */
  assert_int_equal(capacity(&h), -1);
  assert_int_equal(runs, 1);
  assert_int_equal(h.row_results[R_GOOD].integer, 0);
  assert_true(h.row_curves[0][0] == 10.0F);
}

static void every_relation_and_the_size_itself_can_be_asked_for(void **state) {
  (void)state;
  static const struct {
    mhas_relation relation;
    double bound;
    int64_t expected;
  } cases[] = {{MHAS_AT_LEAST, 10.0, 90}, {MHAS_ABOVE, 10.0, 89}, {MHAS_AT_LEAST, 9.5, 90}};
  for (int i = 0; i < 3; i++) {
    hunt h = start(100, 1, 1000);
    h.search.result = R_SCORE;
    h.search.relation = cases[i].relation;
    h.search.bound = cases[i].bound;
    assert_int_equal(capacity(&h), cases[i].expected);
  }
  hunt h = start(100, 1, 1000);
  h.search.result = R_SCORE; /* answer - size >= size */
  h.search.bound_is_parameter = true;
  assert_int_equal(capacity(&h), 50);
  h = start(100, 1, 1000);
  h.search.result = R_TWICE;
  h.search.relation = MHAS_BELOW;
  h.search.bound = 31.0;
  assert_int_equal(capacity(&h), 15);
  h.search.relation = MHAS_AT_MOST;
  h.search.bound = 32.0;
  assert_int_equal(capacity(&h), 16);
  h = start(100, 1, 1000);
  h.search.relation = MHAS_EQUAL;
  assert_int_equal(capacity(&h), 100);
}

/* ---- guesses ---- */

static void a_right_guess_takes_two_trials(void **state) {
  (void)state;
  hunt h = start(621, 1, 100000);
  h.guesses = true;
  guess_value = 621;
  assert_int_equal(capacity(&h), 621);
  assert_int_equal(runs, 2);
  assert_true(h.row_curves[1][0] == 621.0F && h.row_curves[1][1] == 622.0F);
  assert_true(h.row.flops == 201.0);
  h = start(621, 1, 621); /* nothing is beyond it */
  h.guesses = true;
  guess_value = 621;
  assert_int_equal(capacity(&h), 621);
  assert_int_equal(runs, 1);
}

static void a_wrong_guess_changes_no_answer(void **state) {
  (void)state;
  for (int64_t answer = 0; answer < 40; answer++) {
    for (int64_t wrong = -1; wrong < 45; wrong++) {
      hunt h = start(answer, 3, 35);
      h.guesses = true;
      guess_value = wrong;
      assert_int_equal(capacity(&h), answer < 3 ? -1 : answer < 35 ? answer : 35);
      assert_trials(&h);
    }
  }
}

static void the_cost_is_that_of_the_trials(void **state) {
  (void)state;
  hunt h = start(100, 1, 1 << 20);
  mhas_experiment base = fake;
  mhas_experiment *made = NULL;
  assert_int_equal(mhas_searching_create(&base, &h.search, &made, &h.error), MHAS_OK);
  mhas_cost planned = mhas_experiment_cost(made, h.values);
  assert_true(planned.flops == (2.0 + 21.0) * 0x1p20);
  assert_true(planned.bytes == 8.0 * 0x1p20);
  assert_int_equal(planned.records, 2 + 1 + 20 + 1 + 21);
  mhas_searching_destroy(made);
  base.searchable = &guessing;
  assert_int_equal(mhas_searching_create(&base, &h.search, &made, &h.error), MHAS_OK);
  planned = mhas_experiment_cost(made, h.values);
  assert_true(planned.flops == 3.0 * 101.0);
  assert_true(planned.bytes == 8.0 * 101.0);
  mhas_searching_destroy(made);
  assert_true(mhas_experiment_cost(&fake, h.values).flops == 0x1p20);
}

/* ---- other endings ---- */

static void a_trial_that_fails_fails_the_point_and_says_which(void **state) {
  (void)state;
  hunt h = start(1000, 1, 1000);
  fails_at = 100;
  assert_int_equal(hunt_run(&h), MHAS_NUMERIC);
  assert_string_equal(h.error.text, "trial with size = 128: it broke");
  fails_with = MHAS_LIMIT;
  assert_int_equal(hunt_run(&h), MHAS_LIMIT);
  fails_with = MHAS_IO;
  assert_int_equal(hunt_run(&h), MHAS_IO);
  h = start(13, 13, 1000);
  refused_at = 26;
  assert_int_equal(hunt_run(&h), MHAS_USAGE);
  assert_string_equal(h.error.text, "trial with size = 26: it is not allowed");
  h = start(100, 1, 1000);
  h.guesses = true;
  guess_value = -2;
  assert_int_equal(hunt_run(&h), MHAS_NO_MEMORY);
}

static void a_stop_is_passed_on_at_any_trial(void **state) {
  (void)state;
  for (int64_t stop = 0; stop < 12; stop++) {
    hunt h = start(100, 1, 1000);
    h.guesses = stop % 2 == 0;
    h.stop_at = stop;
    assert_int_equal(hunt_run(&h), MHAS_STOPPED);
    assert_string_equal(h.error.text, "told to stop");
  }
}

/* One checkpoint: the row as the farm keeps it, and the one piece of a search. */
typedef struct shelf {
  hunt *h;
  bool full;
  int writes;
  mhas_value results[sizeof((hunt *)NULL)->row_results / sizeof(mhas_value)];
  float curves[3][RECORDS];
  double flops, spectrum;
  char piece[8192];
} shelf;

static bool never_due(void *context) { return context == NULL; }

static mhas_code put(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, mhas_error *error) {
  shelf *s = context;
  (void)mover, (void)error;
  assert_int_equal(count, 1);
  assert_true(pieces[0].bytes <= sizeof s->piece);
  memcpy(s->piece, pieces[0].data, pieces[0].bytes);
  memcpy(s->results, s->h->row_results, sizeof s->results);
  memcpy(s->curves, s->h->row_curves, sizeof s->curves);
  s->flops = s->h->row.flops;
  s->spectrum = s->h->spectrum[0];
  s->full = true;
  s->writes++;
  return MHAS_OK;
}

static mhas_code get(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, bool *found,
                     mhas_error *error) {
  shelf *s = context;
  (void)mover, (void)error;
  assert_int_equal(count, 1);
  *found = s->full;
  if (s->full) {
    memcpy(pieces[0].data, s->piece, pieces[0].bytes);
    memcpy(s->h->row_results, s->results, sizeof s->results);
    memcpy(s->h->row_curves, s->curves, sizeof s->curves);
    s->h->row.flops = s->flops;
    s->h->spectrum[0] = s->spectrum;
  }
  return MHAS_OK;
}

static void a_search_that_is_stopped_does_no_trial_twice(void **state) {
  (void)state;
  for (int guesses = 0; guesses < 2; guesses++) {
    hunt whole = start(777, 1, 100000);
    whole.guesses = guesses == 1;
    guess_value = 700;
    assert_int_equal(capacity(&whole), 777);
    const int64_t trials = runs;
    hunt h = start(777, 1, 100000);
    guess_value = 700;
    h.guesses = whole.guesses;
    shelf s = {.h = &h};
    const mhas_checkpoints kept = {never_due, put, get, &s};
    h.checkpoints = &kept;
    mhas_code code = MHAS_STOPPED;
    int stops = 0;
    for (; code == MHAS_STOPPED; stops++) {
      assert_true(stops < 1000);
      h.calls = 0;
      h.stop_at = 1 + stops % 4; /* in a trial, or between two */
      code = hunt_run(&h);
    }
    assert_int_equal(code, MHAS_OK);
    assert_true(stops > 3);
    assert_true(s.writes >= stops - 1);
    assert_true(runs <= trials + stops); /* those that were stopped in the middle are begun anew */
    assert_memory_equal(h.row_results, whole.row_results, sizeof h.row_results);
    assert_memory_equal(h.row_curves, whole.row_curves, sizeof h.row_curves);
    assert_true(h.row.flops == whole.row.flops);
  }
}

static void a_result_without_a_value_ends_the_search(void **state) {
  (void)state;
  hunt h = start(100, 1, 1000);
  missing_at = 8;
  assert_int_equal(hunt_run(&h), MHAS_NUMERIC);
  assert_string_equal(h.error.text,
                      "trial with size = 8: the search cannot go on: good has no value with these parameters");
}

static void a_row_without_curves_and_spectrum_is_filled_too(void **state) {
  (void)state;
  hunt h = start(100, 1, 1000);
  mhas_experiment *made = NULL;
  assert_int_equal(mhas_searching_create(&fake, &h.search, &made, &h.error), MHAS_OK);
  h.row = (mhas_row){.results = h.row_results};
  mhas_row_clear(made, &h.row);
  const mhas_task task = {.point = {.values = h.values}, .proceed = proceed, .context = &h, .at = at, .at_context = &h};
  assert_int_equal(mhas_experiment_run(made, &task, &h.row, &h.error), MHAS_OK);
  assert_int_equal(h.row_results[FOUND].integer, 100);
  mhas_searching_destroy(made);
}

static void the_tables_say_what_a_search_adds(void **state) {
  (void)state;
  hunt h = start(100, 1, 1000);
  mhas_experiment *made = NULL;
  assert_int_equal(mhas_searching_create(&fake, &h.search, &made, &h.error), MHAS_OK);
  assert_int_equal(mhas_result_find(made, "capacity"), R_COUNT);
  assert_string_equal(made->curves[1].name, "trial_size");
  assert_string_equal(made->curves[2].name, "trial_value");
  assert_non_null(strstr(made->parameters[P_SIZE].meaning, "capacity"));
  assert_string_equal(made->parameters[P_ANSWER].meaning, parameters[P_ANSWER].meaning);
  assert_null(made->arrays);
  mhas_searching_destroy(made);
  mhas_searching_destroy(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_largest_that_holds_is_found_wherever_it_is),
      cmocka_unit_test(large_ranges_take_few_trials),
      cmocka_unit_test(a_tolerance_ends_the_search_early_at_a_value_that_holds),
      cmocka_unit_test(the_row_is_that_of_the_value_found),
      cmocka_unit_test(every_relation_and_the_size_itself_can_be_asked_for),
      cmocka_unit_test(a_right_guess_takes_two_trials),
      cmocka_unit_test(a_wrong_guess_changes_no_answer),
      cmocka_unit_test(the_cost_is_that_of_the_trials),
      cmocka_unit_test(a_trial_that_fails_fails_the_point_and_says_which),
      cmocka_unit_test(a_stop_is_passed_on_at_any_trial),
      cmocka_unit_test(a_search_that_is_stopped_does_no_trial_twice),
      cmocka_unit_test(a_result_without_a_value_ends_the_search),
      cmocka_unit_test(a_row_without_curves_and_spectrum_is_filled_too),
      cmocka_unit_test(the_tables_say_what_a_search_adds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
