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
#include <cblas.h>
#include <fcntl.h>
#include <openblas_config.h>
/* clang-format off: needs what is above */
#include "store_fixture.h"
/* clang-format on */

#include <getopt.h>
#include <limits.h>

#include "data/file.h"
#include "inject/inject.h"
#include "mhasweep/farm.h"

int mhasweep_main(int argc, char **argv); /* src/cli/main.c's */

/* What the program calls in place of the functions of these names: it would start and end MPI each time; here it stays
 * up. */
int inject_MPI_Init(int *argc, char ***argv);
int inject_MPI_Finalize(void);
int inject_MPI_Init(int *argc, char ***argv) {
  (void)argc, (void)argv;
  return MPI_SUCCESS;
}
int inject_MPI_Finalize(void) { return MPI_SUCCESS; }

/* ---- running the program ---- */

enum { WORDS_MOST = 16, SAID_MOST = 1 << 16 };

static char said_out[SAID_MOST], said_err[SAID_MOST];

static void read_whole(const char *path, char *out) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  out[fread(out, 1, SAID_MOST - 1, file)] = '\0';
  assert_int_equal(fclose(file), 0);
}

static int redirect(int stream, const char *path) {
  const int kept = dup(stream);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(kept >= 0 && file >= 0 && dup2(file, stream) == stream);
  assert_int_equal(close(file), 0);
  return kept;
}

static void put_back(int stream, int kept) {
  assert_true(dup2(kept, stream) == stream);
  assert_int_equal(close(kept), 0);
}

/* The exit status of `mhasweep WORDS`, words parted by blanks; what it says is in said_out and said_err. Allocation
 * number `at` fails. */
static int run_program(const char *words, long at, long *seen, bool *failed) {
  char copy[512];
  char *argv[WORDS_MOST + 1] = {"mhasweep"};
  int argc = 1;
  (void)snprintf(copy, sizeof copy, "%s", words);
  for (char *word = strtok(copy, " "); word != NULL && argc < WORDS_MOST; word = strtok(NULL, " ")) {
    argv[argc++] = word;
  }
  (void)fflush(NULL);
  const int out = redirect(STDOUT_FILENO, "out");
  const int err = redirect(STDERR_FILENO, "err");
  optind = 0; /* getopt starts anew */
  inject_allocation(at);
  const int status = mhasweep_main(argc, argv);
  *seen = inject_allocations_seen(failed);
  (void)fflush(NULL);
  put_back(STDOUT_FILENO, out);
  put_back(STDERR_FILENO, err);
  mhas_files_close();
  read_whole("out", said_out);
  read_whole("err", said_err);
  return status;
}

static void must_run(const char *words) {
  long seen = 0;
  bool failed = false;
  const int status = run_program(words, -1, &seen, &failed);
  if (status != 0) {
    fail_msg("mhasweep %s: status %d: %s", words, status, said_err);
  }
}

/* ---- result files ---- */

static void copy_file(const char *from, const char *to) {
  static char bytes[1 << 22];
  FILE *in = fopen(from, "rb");
  FILE *out = fopen(to, "wb");
  assert_true(in != NULL && out != NULL);
  const size_t length = fread(bytes, 1, sizeof bytes, in);
  assert_true(length < sizeof bytes);
  assert_int_equal(fwrite(bytes, 1, length, out), length);
  assert_int_equal(fclose(in), 0);
  assert_int_equal(fclose(out), 0);
}

/* Every done row has the bits of the reference. Returns how many rows are not done. */
static int64_t compare_rows(const char *path, const char *reference) {
  mhas_reader *ours = must_read(path);
  mhas_reader *theirs = must_read(reference);
  int64_t open = 0;
  assert_int_equal(mhas_reader_points(ours), mhas_reader_points(theirs));
  for (int64_t row = 0; row < mhas_reader_points(ours); row++) {
    if (number_at(ours, "status", row) != MHAS_DONE) {
      open++;
      continue;
    }
    for (int i = 0; i < mhas_reader_variable_count(ours); i++) {
      const mhas_variable *variable = mhas_reader_variable(ours, i);
      if (!variable->is_text && variable->role != MHAS_ROLE_RUN) {
        assert_number(ours, variable->name, row, number_at(theirs, variable->name, row));
      }
    }
    for (int i = 0; i < mhas_reader_curve_count(ours); i++) {
      float one[256];
      float other[256];
      mhas_error error;
      const size_t bytes = (size_t)mhas_reader_records(ours) * sizeof *one;
      assert_in_range(bytes, 1, sizeof one);
      assert_int_equal(mhas_reader_curve(ours, i, row, one, &error), MHAS_OK);
      assert_int_equal(mhas_reader_curve(theirs, i, row, other, &error), MHAS_OK);
      assert_memory_equal(one, other, bytes);
    }
  }
  mhas_reader_close(theirs);
  mhas_reader_close(ours);
  return open;
}

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
  long seen = 0;
  long total = 0;
  bool failed = false;
  for (int i = 0; i < 2; i++) { /* once for what is only allocated the first time */
    prepare(a);
    assert_int_equal(run_program(a->words, -1, &total, &failed), a->status);
  }
  (void)snprintf(expected, sizeof expected, "%s", said_out);
  if (a->complete != NULL) {
    if (access("out.h5", F_OK) == 0 && a->status != 0) {
      must_run(a->complete);
    }
    copy_file("out.h5", "reference.h5");
  }
  const long step = total <= tries ? 1 : (total + tries - 1) / tries;
  long tried = 0;
  for (long at = 0; at < total; at += step, tried++) {
    prepare(a);
    const long before = inject_blocks();
    const int status = run_program(a->words, at, &seen, &failed);
    assert_true(failed);
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

#define RICH                                                                                \
  "experiment: probe # a comment\nseed: 3\nparameters:\n  heads: [1, 2, 3]\n"               \
  "  dim: {from: 2, to: 8, step: 2}\n  context: [2, 4]\n  key_dim: \"= max(1, dim / 2)\"\n" \
  "  context_type: [own, shared]\n  samples: [4, 5]\nzip: [[context, samples]]\n"           \
  "where: \"heads * dim <= 12\"\nreplicates: 2\nstore: [spectrum]\nlimits: {memory_per_rank: 1GiB}\n"
#define SAMPLED                                                                       \
  "experiment: memorize\nparameters:\n  lr: {from: 1.0e-4, to: 1.0e-1, scale: log}\n" \
  "  heads: {from: 1, to: 8}\nsample: {method: lhs, count: 7}\n"
#define BROKEN                                                                                                     \
  "experiment: memorize\nsead: 3\nparameters: {haeds: 2, dim: [1, 1], lr: much, samples: \"= heds\"}\nwhere: \"1 " \
  "+\"\n"
#define MEMORIZE                                                                                                      \
  "experiment: memorize\nseed: 5\nparameters: {heads: [1, 2], dim: 4, context: 2, samples: 8, classes: 3, batch: 4, " \
  "steps: 6, eval_every: 3}\nstore: [curves, weights, data]\n"
#define PROBE                                                                        \
  "experiment: probe\nparameters: {heads: [1, 2], dim: 3, context: 2, samples: 4}\n" \
  "store: [spectrum, weights, data, z, attention]\n"
#define ASSUMPTIONS "experiment: assumptions\nparameters: {dim: 3, context: 2, samples: [6, 8]}\n"
#define SEARCH                                                                                             \
  "experiment: memorize\nparameters: {heads: [1, 2], dim: 4, context: 2, classes: 3, batch: 4, steps: 6, " \
  "eval_every: 3}\nsearch: {parameter: samples, until: \"accuracy >= 0.5\", from: 2, to: 8}\n"

static void write_text(const char *name, const char *text) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static int set_up(void **state) {
  if (make_folder(state) != 0 || chdir(test_folder) != 0) {
    return -1;
  }
  write_text("rich.yaml", RICH);
  write_text("sampled.yaml", SAMPLED);
  write_text("broken.yaml", BROKEN);
  write_text("memorize.yaml", MEMORIZE);
  write_text("probe.yaml", PROBE);
  write_text("assumptions.yaml", ASSUMPTIONS);
  write_text("search.yaml", SEARCH);
  must_run("run memorize.yaml -q -o done.h5");
  long seen = 0;
  bool failed = false;
  assert_int_equal(run_program("run memorize.yaml -q --limit 1 -o half.h5", -1, &seen, &failed), 75);
  return 0;
}

static int tear_down(void **state) { return chdir("/") == 0 ? remove_folder(state) : -1; }

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
  const int failures = cmocka_run_group_tests(tests, set_up, tear_down);
  print_message("%ld allocations failed in turn\n", visited);
  return failures;
}
