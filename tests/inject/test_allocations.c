/*
 * The whole program, with each of its allocations failing in turn: no crash, nothing lost, a clear end.
 *
 * Each act is a command line. It is run once undisturbed; then with its first allocation failing, its second, and so on
 * until none fails any more. It must end with status 1 and a message (or, if the allocation was for a luxury, do all of
 * its work); every block must be freed; and a result file that it leaves must open, with every done row right, and be
 * completed by --resume.
 *
 * By default only so many allocations of each act are tried as take a few seconds; MHASWEEP_INJECT=full tries them all.
 */
#include "inject/program.h"

/* ---- acts ---- */

typedef struct act {
  const char *words;
  int status;           /* undisturbed */
  const char *start;    /* the result file out.h5 at the start; NULL: none */
  const char *complete; /* what completes a file that was left; NULL: the act makes none */
  const char *begin;    /* what does it if none was left */
  bool varies;          /* it says how fast this machine is, which is not the same twice */
} act;

static long visited;

static void prepare(const act *a) {
  (void)unlink("out.h5");
  (void)unlink("table.csv");
  if (a->start != NULL) {
    copy_file(a->start, "out.h5");
  }
}

/* What a run that was disturbed has left is intact, and can be completed. */
static void check_file(const act *a, const char *reference, long at) {
  if (a->complete == NULL) {
    return;
  }
  const bool there = access("out.h5", F_OK) == 0;
  if (there) {
    (void)compare_rows("out.h5", reference);
  }
  must_run(there ? a->complete : a->begin);
  if (compare_rows("out.h5", reference) != 0) {
    fail_msg("mhasweep %s, allocation %ld: rows stay open", a->words, at);
  }
}

static void check_end(const act *a, int status, const char *expected, long at) {
  if (status == a->status) { /* it could do without */
    if (a->complete == NULL && !a->varies && strcmp(said_out, expected) != 0) {
      fail_msg("mhasweep %s, allocation %ld: says something else, and status %d", a->words, at, status);
    }
    return;
  }
  const bool point_failed = a->complete != NULL && status == 3;
  if ((status != 1 && !point_failed) || said_err[0] == '\0') {
    fail_msg("mhasweep %s, allocation %ld: status %d, and says '%s'", a->words, at, status, said_err);
  }
  if (strstr(said_err, "memory") == NULL) {
    fail_msg("mhasweep %s, allocation %ld: does not speak of memory: %s", a->words, at, said_err);
  }
}

static void try_act(const act *a) {
  static char expected[SAID_MOST];
  const char *mode = getenv("MHASWEEP_INJECT");
  const long tries = mode != NULL && strcmp(mode, "full") == 0 ? LONG_MAX : 60;
  injection what = {.kind = ALLOCATION, .at = -1};
  for (int i = 0; i < 2; i++) { /* once for what is only allocated the first time */
    prepare(a);
    assert_int_equal(run_program(a->words, &what), a->status);
  }
  (void)snprintf(expected, sizeof expected, "%s", said_out);
  if (a->complete != NULL) {
    if (access("out.h5", F_OK) == 0 && a->status != 0) {
      must_run(a->complete);
    }
    copy_file("out.h5", "reference.h5");
  }
  const long total = what.seen;
  const long step = total <= tries ? 1 : (total + tries - 1) / tries;
  long tried = 0;
  for (long at = 0; at < total; at += step, tried++) {
    prepare(a);
    const long before = inject_blocks();
    what.at = at;
    const int status = run_program(a->words, &what);
    assert_true(what.failed);
    check_end(a, status, expected, at);
    if (inject_blocks() != before) {
      fail_msg("mhasweep %s, allocation %ld: %ld blocks are lost (%s)", a->words, at, inject_blocks() - before,
               said_err);
    }
    check_file(a, "reference.h5", at);
  }
  print_message("  %5ld of %5ld allocations of: mhasweep %s\n", tried, total, a->words);
  visited += tried;
}

static void try_acts(const act *acts, size_t count) {
  for (size_t i = 0; i < count; i++) {
    try_act(&acts[i]);
  }
}

/* ---- the tests ---- */

static int set_up(void **state) {
  injection none = {.at = -1};
  if (make_sweeps(state) != 0) {
    return -1;
  }
  must_run("run memorize.yaml -q -o done.h5");
  assert_int_equal(run_program("run memorize.yaml -q --limit 1 -o half.h5", &none), 75);
  return 0;
}

static void sweep_files_are_read_and_planned(void **state) {
  (void)state;
  const act acts[] = {
      {.words = "plan rich.yaml", .varies = true},
      {.words = "plan sampled.yaml --json", .varies = true},
      {.words = "plan rich.yaml --list --set heads=[1,2] --set limits.seconds_per_point=3"},
      {.words = "plan search.yaml", .varies = true},
      {.words = "plan broken.yaml", .status = 2},
      {.words = "simulate rich.yaml --ranks 3"},
  };
  try_acts(acts, sizeof acts / sizeof *acts);
}

static void result_files_are_shown_and_exported(void **state) {
  (void)state;
  const act acts[] = {
      {.words = "show done.h5"},
      {.words = "show half.h5 --failed"},
      {.words = "show done.h5 --point 1"},
      {.words = "show done.h5 --json"},
      {.words = "export done.h5"},
      {.words = "export done.h5 --format jsonl"},
      {.words = "export done.h5 -o table.csv"},
      {.words = "experiments"},
      {.words = "experiments memorize --json"},
      {.words = "experiments memorise", .status = 2},
  };
  try_acts(acts, sizeof acts / sizeof *acts);
}

#define RUN(name) "run " name ".yaml -o out.h5"
#define RUN_ACT(name) \
  { .words = RUN(name), .complete = RUN(name) " -q --resume --retry-failed", .begin = RUN(name) " -q" }

static void sweeps_are_run(void **state) {
  (void)state;
  const act acts[] = {RUN_ACT("memorize"), RUN_ACT("probe"), RUN_ACT("assumptions"), RUN_ACT("search")};
  try_acts(acts, sizeof acts / sizeof *acts);
}

static void sweeps_are_resumed_and_grow(void **state) {
  (void)state;
  const act acts[] = {
      {.words = RUN("memorize") " --resume",
       .start = "half.h5",
       .complete = RUN("memorize") " -q --resume --retry-failed",
       .begin = RUN("memorize") " -q"},
      {.words = RUN("memorize") " --set heads=[1,2,3] --reuse done.h5",
       .complete = RUN("memorize") " -q --set heads=[1,2,3] --resume --retry-failed",
       .begin = RUN("memorize") " -q --set heads=[1,2,3]"},
  };
  try_acts(acts, sizeof acts / sizeof *acts);
}

int main(void) {
  (void)setenv("OPENBLAS_CORETYPE", openblas_get_corename(), 1); /* or the program would start itself again */
  int provided = 0;
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) {
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sweep_files_are_read_and_planned),
      cmocka_unit_test(result_files_are_shown_and_exported),
      cmocka_unit_test(sweeps_are_run),
      cmocka_unit_test(sweeps_are_resumed_and_grow),
  };
  const int failures = cmocka_run_group_tests(tests, set_up, remove_sweeps);
  print_message("%ld allocations failed in turn\n", visited);
  return failures;
}
