/*
 * The whole program, with each of its writes failing in turn: once, as on a faulty disk, or from then on, as on a full
 * one. No crash, nothing lost, a clear end. Writes are those of HDF5 and of MPI-IO too, and whatever else changes a
 * file: truncating it, setting space aside, syncing, renaming.
 *
 * Each is tried by a process of its own, since after a failure HDF5 and MPI-IO are not what they were; their end is
 * part of what must not crash. The run that follows undisturbed must complete the file.
 *
 * By default only some writes of each act are tried; MHASWEEP_INJECT=full tries them all.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "inject/program.h"

typedef struct act {
  const char *words;
  const char *start;    /* the result file out.h5 at the start; NULL: none */
  const char *complete; /* what completes the file */
  const char *begin;    /* what does if there is none */
} act;

/* How a child process ended, in memory that it shares. */
typedef struct ending {
  int status; /* of the program */
  injection what;
  char said[SAID_MOST];
} ending;

static ending *shared;
static long visited;

/* Runs the program in a child process, with MPI around it; it must come to an orderly end. */
static void run_child(const char *words, const injection *what) {
  *shared = (ending){.status = -1, .what = *what};
  (void)fflush(NULL);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    int provided = 0;
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
      (void)signal(signals[i], SIG_DFL); /* cmocka would go on with its next test here */
    }
    (void)setenv("CMOCKA_TEST_ABORT", "1", 1);
    (void)setenv("TMPDIR", folder, 1); /* what MPI leaves there goes away with the folder */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) {
      _exit(100);
    }
    shared->status = run_program(words, &shared->what);
    memcpy(shared->said, said_err, sizeof said_err);
    if (left_alone) {
      _exit(0);
    }
    exit(MPI_Finalize() == MPI_SUCCESS ? 0 : 101); /* by way of what HDF5 and the sanitizers do at the end */
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fail_msg("mhasweep %s, write %ld of kind %d: the process ended by %s %d: %s", words, what->at, (int)what->kind,
             WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
             shared->said);
  }
}

static void must_complete(const char *words) {
  const injection none = {.kind = WRITE_ONCE, .at = -1};
  run_child(words, &none);
  if (shared->status != 0) {
    fail_msg("mhasweep %s: status %d: %s", words, shared->status, shared->said);
  }
}

static void prepare(const act *a) {
  (void)unlink("out.h5");
  if (a->start != NULL) {
    copy_file(a->start, "out.h5");
  }
}

/* Nothing is left but the result file, whole or absent. */
static void check_rest(const act *a, const injection *what) {
  const bool there = access("out.h5", F_OK) == 0;
  DIR *entries = opendir(".");
  assert_non_null(entries);
  for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
    if (strncmp(entry->d_name, "out.h5.", 7) == 0 && strstr(entry->d_name, ".checkpoint") == NULL) {
      fail_msg("mhasweep %s, write %ld: %s is left", a->words, what->at, entry->d_name);
    }
  }
  assert_int_equal(closedir(entries), 0);
  if (there) {
    (void)compare_rows("out.h5", "reference.h5");
  }
  must_complete(there ? a->complete : a->begin);
  assert_int_equal(compare_rows("out.h5", "reference.h5"), 0);
}

static void try_one(const act *a, injection what) {
  prepare(a);
  run_child(a->words, &what);
  if (!shared->what.failed) {
    return; /* fewer writes than the last time: a flush by the clock */
  }
  const bool worked = shared->status == 0; /* it could do without, say an optional checkpoint */
  if (!worked && (shared->status != 1 || shared->said[0] == '\0')) {
    fail_msg("mhasweep %s, write %ld: status %d, and says '%s'", a->words, what.at, shared->status, shared->said);
  }
  if (!worked && strstr(shared->said, strerror(what.reason)) == NULL && strstr(shared->said, "write failed") == NULL) {
    fail_msg("mhasweep %s, write %ld: says neither '%s' nor that a write failed (MPI-IO knows no more): %s", a->words,
             what.at, strerror(what.reason), shared->said);
  }
  visited++;
  check_rest(a, &what);
}

static void try_act(const act *a) {
  const char *mode = getenv("MHASWEEP_INJECT");
  const long tries = mode != NULL && strcmp(mode, "full") == 0 ? LONG_MAX : 8;
  const injection none = {.kind = WRITE_ONCE, .at = -1};
  prepare(a);
  run_child(a->words, &none);
  assert_int_equal(shared->status, 0);
  const long total = shared->what.seen;
  copy_file("out.h5", "reference.h5");
  const long step = total <= tries ? 1 : (total + tries - 1) / tries;
  const long before = visited;
  for (long at = 0; at < total; at += step) {
    try_one(a, (injection){.kind = WRITE_ONCE, .at = at, .reason = EIO});
    try_one(a, (injection){.kind = WRITES_FROM, .at = at, .reason = ENOSPC});
  }
  print_message("  %4ld writes, %4ld failures of: mhasweep %s\n", total, visited - before, a->words);
}

/* ---- the tests ---- */

#define RUN(name) "run " name ".yaml -o out.h5"

static void sweeps_are_run(void **state) {
  (void)state;
  try_act(&(act){.words = RUN("memorize"), .complete = RUN("memorize") " -q --resume", .begin = RUN("memorize") " -q"});
  try_act(&(act){.words = RUN("probe"), .complete = RUN("probe") " -q --resume", .begin = RUN("probe") " -q"});
}

static void sweeps_are_resumed(void **state) {
  (void)state;
  try_act(&(act){.words = RUN("memorize") " --resume", .start = "half.h5", .complete = RUN("memorize") " -q --resume"});
}

static void sweeps_grow(void **state) {
  (void)state;
  try_act(&(act){.words = RUN("memorize") " --set heads=[1,2,3] --reuse done.h5",
                 .complete = RUN("memorize") " -q --set heads=[1,2,3] --resume",
                 .begin = RUN("memorize") " -q --set heads=[1,2,3]"});
}

static int set_up(void **state) {
  const injection none = {.kind = WRITE_ONCE, .at = -1};
  if (make_sweeps(state) != 0) {
    return -1;
  }
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  must_complete("run memorize.yaml -q -o done.h5");
  run_child("run memorize.yaml -q --limit 1 -o half.h5", &none);
  return shared->status == 75 ? 0 : -1;
}

int main(void) {
  (void)setenv("OPENBLAS_CORETYPE", openblas_get_corename(), 1); /* or the program would start itself again */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sweeps_are_run),
      cmocka_unit_test(sweeps_are_resumed),
      cmocka_unit_test(sweeps_grow),
  };
  const int failures = cmocka_run_group_tests(tests, set_up, remove_sweeps);
  print_message("%ld writes failed in turn\n", visited);
  return failures;
}
