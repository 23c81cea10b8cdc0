/* What the programs here share: an end with a message, CPU time, files of numbers. */
#ifndef MHASWEEP_TESTS_BENCH_H
#define MHASWEEP_TESTS_BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "mhasweep/base.h"

static mhas_error error;

static inline void demand(bool fine, const char *what) {
  if (!fine) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, error.text);
    exit(1);
  }
}

static inline double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* `count` numbers of `size` bytes into the file FOLDER/NAME. */
static inline void write_file(const char *folder, const char *name, const void *data, size_t size, int64_t count) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  demand(file != NULL, path);
  demand(fwrite(data, size, (size_t)count, file) == (size_t)count && fclose(file) == 0, path);
}

#endif
