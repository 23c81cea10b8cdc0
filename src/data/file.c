#include "data/file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/format.h"

/* ---- which format ---- */

enum { MAGIC_BYTES = 8 };
static const unsigned char npy_magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
static const unsigned char hdf5_magic[MAGIC_BYTES] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};

static mhas_code read_magic(const char *path, unsigned char magic[MAGIC_BYTES], mhas_error *error) {
  struct stat facts;
  if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return mhas_fail(error, MHAS_IO, "%s: is a folder, not a file", path);
  }
  FILE *stream = fopen(path, "rb");
  if (stream == NULL) {
    return mhas_fail(error, MHAS_IO, "%s: %s", path, strerror(errno));
  }
  memset(magic, 0, MAGIC_BYTES);
  const size_t count = fread(magic, 1, MAGIC_BYTES, stream);
  const bool failed = ferror(stream) != 0;
  (void)fclose(stream);
  if (failed) {
    return mhas_fail(error, MHAS_IO, "%s: cannot be read: %s", path, strerror(errno));
  }
  return count == 0 ? mhas_fail(error, MHAS_IO, "%s: is empty", path) : MHAS_OK;
}

static mhas_code choose_format(mhas_file *file, mhas_error *error) {
  unsigned char magic[MAGIC_BYTES];
  MHAS_TRY(read_magic(file->path, magic, error));
  const bool is_npy = memcmp(magic, npy_magic, sizeof npy_magic) == 0;
  const bool is_hdf5 = memcmp(magic, hdf5_magic, sizeof hdf5_magic) == 0;
  if (file->kind == MHAS_FILE_IMAGES) {
    if (is_npy || is_hdf5) {
      return mhas_fail(error, MHAS_IO, "%s: holds an array, not images; source: tokens reads it", file->path);
    }
    file->format = &mhas_format_idx;
    return MHAS_OK;
  }
  if (file->kind == MHAS_FILE_LABELS && !is_npy && !is_hdf5) {
    file->format = &mhas_format_idx;
    return MHAS_OK;
  }
  if (!is_npy && !is_hdf5) {
    return mhas_fail(error, MHAS_IO, "%s: is neither a .npy nor an HDF5 file", file->path);
  }
  file->format = is_npy ? &mhas_format_npy : &mhas_format_hdf5;
  return MHAS_OK;
}

/* ---- the cache ---- */

static mhas_file *opened; /* of this process, the last one first */

static void destroy(mhas_file *file) {
  if (file->format != NULL) {
    file->format->close(file);
  }
  mhas_free(file->path);
  mhas_free(file);
}

void mhas_files_close(void) {
  while (opened != NULL) {
    mhas_file *next = opened->next;
    destroy(opened);
    opened = next;
  }
}

int mhas_file_rank(const mhas_file *file) { return file->kind == MHAS_FILE_LABELS ? 1 : MHAS_FILE_RANK; }

mhas_code mhas_file_check_shape(const mhas_file *file, mhas_error *error) {
  double numbers = 1.0;
  for (int i = 0; i < MHAS_FILE_RANK; i++) {
    if (file->shape[i] < 1) {
      return mhas_fail(error, MHAS_IO, "%s: is empty: its shape is (%" PRId64 ", %" PRId64 ", %" PRId64 ")", file->path,
                       file->shape[0], file->shape[1], file->shape[2]);
    }
    numbers *= (double)file->shape[i];
  }
  if (numbers > 0x1p48) {
    return mhas_fail(error, MHAS_IO, "%s: says that it holds %.3g numbers, more than a file can", file->path, numbers);
  }
  return MHAS_OK;
}

mhas_code mhas_file_open(mhas_file_kind kind, const char *path, mhas_file **file, mhas_error *error) {
  for (*file = opened; *file != NULL; *file = (*file)->next) {
    if ((*file)->kind == kind && strcmp((*file)->path, path) == 0) {
      return MHAS_OK;
    }
  }
  mhas_file *made = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "a file", error));
  *made = (mhas_file){.kind = kind, .shape = {1, 1, 1}, .descriptor = -1, .dataset = H5I_INVALID_HID};
  mhas_code code = mhas_alloc(&made->path, strlen(path) + 1, 1, "a file's name", error);
  if (code == MHAS_OK) {
    memcpy(made->path, path, strlen(path));
    code = choose_format(made, error);
  }
  if (code == MHAS_OK) {
    code = made->format->open(made, error);
  }
  if (code != MHAS_OK) {
    destroy(made);
    return code;
  }
  made->next = opened;
  opened = made;
  *file = made;
  return MHAS_OK;
}

/* ---- what is in it ---- */

const char *mhas_file_path(const mhas_file *file) { return file->path; }
const int64_t *mhas_file_shape(const mhas_file *file) { return file->shape; }

double mhas_file_bytes(const mhas_file *file) {
  return file->format == &mhas_format_idx ? (double)file->shape[0] * (double)file->shape[1] * (double)file->shape[2]
                                          : 0.0;
}

static mhas_code check_finite(const mhas_file *file, int64_t first, int64_t count, const double *values,
                              mhas_error *error) {
  const int64_t width = file->shape[2];
  const int64_t size = file->shape[1] * width;
  for (int64_t i = 0; i < count * size; i++) {
    if (!isfinite(values[i])) {
      return mhas_fail(error, MHAS_NUMERIC,
                       "%s: holds a number that is not finite: %g in sample %" PRId64 ", row %" PRId64
                       ", column %" PRId64 " (counted from 0)",
                       file->path, values[i], first + i / size, i % size / width, i % width);
    }
  }
  return MHAS_OK;
}

mhas_code mhas_file_read(mhas_file *file, int64_t first, int64_t count, double *out, mhas_error *error) {
  if (first < 0 || count < 0 || first > file->shape[0] || count > file->shape[0] - first) {
    return mhas_fail(error, MHAS_INTERNAL, "%s: samples %" PRId64 " and on, %" PRId64 " of them, of %" PRId64,
                     file->path, first, count, file->shape[0]);
  }
  MHAS_TRY(file->format->read(file, first, count, out, error));
  return check_finite(file, first, count, out, error);
}

/* FNV-1a over 64-bit words, with the high bits folded back so that all of a word counts. */
static uint64_t hash_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(1099511628211);
  return hash ^ hash >> 32;
}

mhas_code mhas_file_scan(mhas_file *file, int64_t *hash, mhas_error *error) {
  enum { NUMBERS = 1 << 20 };
  const int64_t size = file->shape[1] * file->shape[2];
  const int64_t block = size > NUMBERS ? 1 : NUMBERS / size;
  double *values = NULL;
  if (file->scanned) {
    *hash = file->hash;
    return MHAS_OK;
  }
  MHAS_TRY(mhas_alloc(&values, (size_t)(block * size), sizeof *values, "a block of a file", error));
  uint64_t sum = UINT64_C(14695981039346656037);
  for (int i = 0; i < MHAS_FILE_RANK; i++) {
    sum = hash_word(sum, (uint64_t)file->shape[i]);
  }
  mhas_code code = MHAS_OK;
  for (int64_t first = 0; code == MHAS_OK && first < file->shape[0]; first += block) {
    const int64_t count = file->shape[0] - first < block ? file->shape[0] - first : block;
    code = mhas_file_read(file, first, count, values, error);
    for (int64_t i = 0; code == MHAS_OK && i < count * size; i++) {
      uint64_t word = 0;
      memcpy(&word, &values[i], sizeof word);
      sum = hash_word(sum, word);
    }
  }
  mhas_free(values);
  if (code != MHAS_OK) {
    return code;
  }
  file->hash = (int64_t)(sum >> 12 | 1);
  file->scanned = true;
  *hash = file->hash;
  return MHAS_OK;
}
