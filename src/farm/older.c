#include "farm/older.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "farm/run_words.h"

static bool is_same_file(const char *one, const char *other) {
  struct stat a;
  struct stat b;
  return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

mhas_code mhas_older_open(const char *const *paths, size_t count, const char *result_path, mhas_sweep *sweep,
                          mhas_older_files *older, mhas_error *error) {
  *older = (mhas_older_files){.paths = paths, .count = count};
  MHAS_TRY(mhas_alloc(&older->files, count, sizeof *older->files, "a list of files", error));
  for (size_t i = 0; i < count; i++) {
    if (is_same_file(paths[i], result_path)) {
      return mhas_fail(error, MHAS_USAGE, "--reuse: %s: is the result file itself", paths[i]);
    }
    if (mhas_reuse_open(paths[i], sweep, &older->files[i], error) != MHAS_OK) {
      return mhas_error_context(error, "--reuse");
    }
    mhas_text_append(&older->names, "%s%s", i == 0 ? "" : "\n", paths[i]);
  }
  return older->names.failed ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory: a list of files") : MHAS_OK;
}

void mhas_older_close(mhas_older_files *older) {
  for (size_t i = 0; older->files != NULL && i < older->count; i++) {
    mhas_reuse_close(older->files[i]);
  }
  mhas_free(older->files);
  mhas_text_free(&older->names);
  *older = (mhas_older_files){0};
}

static void say_taken(const char *path, const mhas_reuse *file, const mhas_reuse_count *count, int64_t open,
                      bool quiet) {
  const char *refusal = mhas_reuse_refusal(file);
  if (refusal[0] != '\0') {
    mhas_say("--reuse %s: nothing can be taken: %s", path, refusal);
  } else if (!quiet) {
    mhas_say("--reuse %s: %" PRId64 " of %" PRId64 " open points taken", path, count->taken, open);
  }
  if (count->lacking > 0) {
    mhas_say("--reuse %s: %" PRId64 " equal points will run, as not all that `store` asks for is there", path,
             count->lacking);
  }
  if (count->other_team > 0) {
    mhas_say("--reuse %s: %" PRId64
             " equal points will run, as they were solved by another number of ranks (limits.memory_per_rank)",
             path, count->other_team);
  }
}

mhas_code mhas_older_take(mhas_older_files *older, const char *path, const mhas_rows *rows, uint8_t *status, bool quiet,
                          mhas_error *error) {
  int64_t open = 0;
  for (int64_t row = 0; row < mhas_rows_count(rows); row++) {
    open += status[row] == MHAS_PENDING;
  }
  for (size_t i = 0; i < older->count; i++) {
    mhas_reuse_count count;
    MHAS_TRY(mhas_reuse_take(older->files[i], path, rows, status, &count, error));
    say_taken(older->paths[i], older->files[i], &count, open, quiet);
    open -= count.taken;
  }
  return MHAS_OK;
}
