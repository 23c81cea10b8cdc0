/* The whole program as a function, with an allocation or a write of it failing; and what result files must keep to. */
#ifndef MHASWEEP_TESTS_PROGRAM_H
#define MHASWEEP_TESTS_PROGRAM_H

#include <cblas.h>
#include <errno.h>
#include <fcntl.h>
/* clang-format off: needs what is above */
#include "store_fixture.h"
/* clang-format on */

#include <getopt.h>
#include <limits.h>
#include <sys/stat.h>

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

/* It also leaves without ending MPI; then nothing of HDF5 is to be used any more. */
static jmp_buf left_at;
static bool left_alone;
void inject__exit(int status);
int inject_MPI_Abort(MPI_Comm comm, int status);
void inject__exit(int status) {
  left_alone = true;
  longjmp(left_at, status + 1);
}
int inject_MPI_Abort(MPI_Comm comm, int status) {
  (void)comm;
  inject__exit(status);
  return MPI_SUCCESS;
}

/* ---- running the program ---- */

enum { WORDS_MOST = 16, SAID_MOST = 1 << 16 };

static char said_out[SAID_MOST], said_err[SAID_MOST];

static inline void read_whole(const char *path, char *out) {
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  out[fread(out, 1, SAID_MOST - 1, file)] = '\0';
  assert_int_equal(fclose(file), 0);
}

static inline int redirect(int stream, const char *path) {
  const int kept = dup(stream);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(kept >= 0 && file >= 0 && dup2(file, stream) == stream);
  assert_int_equal(close(file), 0);
  return kept;
}

static inline void put_back(int stream, int kept) {
  assert_true(dup2(kept, stream) == stream);
  assert_int_equal(close(kept), 0);
}

/* What is to fail, if `at` is not -1: allocation number `at`, or write number `at`, or all from that on. */
typedef struct injection {
  enum { ALLOCATION, WRITE_ONCE, WRITES_FROM } kind;
  long at;
  int reason;  /* errno of writes */
  long seen;   /* afterwards: how many there were */
  bool failed; /* afterwards: did one fail? */
} injection;

/* The exit status of `mhasweep WORDS`, words parted by blanks; what it says is in said_out and said_err. */
static inline int run_program(const char *words, injection *what) {
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
  if (what->kind == ALLOCATION) {
    inject_allocation(what->at);
  } else {
    inject_write(what->at, what->kind == WRITES_FROM, what->reason, folder_path("work"));
  }
  const int left = setjmp(left_at);
  const int status = left == 0 ? mhasweep_main(argc, argv) : left - 1;
  what->seen = what->kind == ALLOCATION ? inject_allocations_seen(&what->failed) : inject_writes_seen(&what->failed);
  (void)fflush(NULL);
  put_back(STDOUT_FILENO, out);
  put_back(STDERR_FILENO, err);
  mhas_files_close();
  read_whole("out", said_out);
  read_whole("err", said_err);
  return status;
}

static inline void must_run(const char *words) {
  injection none = {.at = -1};
  const int status = run_program(words, &none);
  if (status != 0) {
    fail_msg("mhasweep %s: status %d: %s", words, status, said_err);
  }
}

/* ---- result files ---- */

static inline void copy_file(const char *from, const char *to) {
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
static inline int64_t compare_rows(const char *path, const char *reference) {
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

/* ---- sweeps ---- */

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

static inline void write_text(const char *name, const char *text) {
  FILE *file = fopen(name, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* A folder with these sweeps, in which the process then is: one below folder, which is MPI's for its own files. */
static inline int make_sweeps(void **state) {
  if (folder_make(state) != 0 || mkdir(folder_path("work"), 0700) != 0 || chdir(folder_path("work")) != 0) {
    return -1;
  }
  write_text("rich.yaml", RICH);
  write_text("sampled.yaml", SAMPLED);
  write_text("broken.yaml", BROKEN);
  write_text("memorize.yaml", MEMORIZE);
  write_text("probe.yaml", PROBE);
  write_text("assumptions.yaml", ASSUMPTIONS);
  write_text("search.yaml", SEARCH);
  return 0;
}

static inline int remove_sweeps(void **state) { return chdir("/") == 0 ? folder_remove(state) : -1; }

#endif
