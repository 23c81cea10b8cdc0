/* A fresh folder per test program for the files that tests make. */
#ifndef MHASWEEP_TESTS_FOLDER_H
#define MHASWEEP_TESTS_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mhasweep/base.h"

enum { FOLDER_PATH = 512 };

static char folder[FOLDER_PATH];

static inline int folder_remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *place) {
  (void)facts;
  (void)kind;
  (void)place;
  return remove(path);
}

static inline int folder_make(void **state) {
  (void)state;
  const char *parent = getenv("TMPDIR");
  (void)snprintf(folder, sizeof folder, "%s/mhasweep-test-XXXXXX", parent == NULL ? "/tmp" : parent);
  return mkdtemp(folder) == NULL ? -1 : 0;
}

static inline int folder_remove(void **state) {
  (void)state;
  /* The helper of a killed MPI process may still be tidying up in there. */
  for (int i = 0; i < 100 && nftw(folder, folder_remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0; i++) {
    mhas_sleep(0.05);
  }
  return access(folder, F_OK) == 0 ? -1 : 0;
}

/* The path of a name in the folder, in a buffer that every fourth call uses again. */
static inline const char *folder_path(const char *name) {
  static char paths[4][2 * FOLDER_PATH];
  static int turn = 0;
  turn = (turn + 1) % 4;
  (void)snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
  return paths[turn];
}

/* Writes the bytes, two pieces of them, into a file of that name; returns its path. */
static inline const char *folder_write(const char *name, const void *head, size_t head_length, const void *body,
                                       size_t body_length) {
  const char *path = folder_path(name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(head, 1, head_length, file), head_length);
  assert_int_equal(fwrite(body, 1, body_length, file), body_length);
  assert_int_equal(fclose(file), 0);
  return path;
}

#endif
