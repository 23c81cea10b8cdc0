/* What the fuzz targets share: the bytes of an input as a file. */
#ifndef MHASWEEP_TESTS_FUZZ_H
#define MHASWEEP_TESTS_FUZZ_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise that the code under test has to keep, whatever the input. */
#define FUZZ_REQUIRE(condition)                                                       \
  do {                                                                                \
    if (!(condition)) {                                                               \
      (void)fprintf(stderr, "%s:%d: not kept: %s\n", __FILE__, __LINE__, #condition); \
      abort();                                                                        \
    }                                                                                 \
  } while (0)

static char fuzz_path[128];

static inline void fuzz_remove_file(void) { (void)unlink(fuzz_path); }

/* The path of a file with these bytes, one of this process that goes away with it. (HDF5 wants one that has a name.) */
static inline const char *fuzz_file(const uint8_t *data, size_t size) {
  static int file = -1;
  if (file < 0) {
    const char *folder = getenv("TMPDIR");
    (void)snprintf(fuzz_path, sizeof fuzz_path, "%s/mhasweep-fuzz-%ld", folder == NULL ? "/tmp" : folder,
                   (long)getpid());
    file = open(fuzz_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_REQUIRE(file >= 0 && atexit(fuzz_remove_file) == 0);
  }
  FUZZ_REQUIRE(ftruncate(file, 0) == 0);
  FUZZ_REQUIRE(pwrite(file, data, size, 0) == (ssize_t)size);
  return fuzz_path;
}

#endif
