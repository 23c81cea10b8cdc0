/* NumPy's .npy: a header that is a Python dictionary, then the numbers (numpy.lib.format). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/format.h"

enum { PREFIX = 12, HEADER_MOST = 1 << 16 };

/* All of `length` bytes from `offset`; false at the end of the file or on an error (errno 0: the end). */
static bool read_at(int descriptor, void *out, size_t length, int64_t offset) {
  char *at = out;
  while (length > 0) {
    errno = 0;
    const ssize_t count = pread(descriptor, at, length, offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    at += count;
    offset += count;
    length -= (size_t)count;
  }
  return true;
}

static mhas_code cut_short(const mhas_file *file, mhas_error *error) {
  return errno != 0 ? mhas_fail(error, MHAS_IO, "%s: cannot be read: %s", file->path, strerror(errno))
                    : mhas_fail(error, MHAS_IO, "%s: is cut short", file->path);
}

/* What stands behind 'key': in the dictionary; NULL if it has no such key. */
static const char *value_of(const char *header, const char *key) {
  char quoted[32];
  (void)snprintf(quoted, sizeof quoted, "'%s':", key);
  const char *found = strstr(header, quoted);
  return found == NULL ? NULL : found + strlen(quoted) + strspn(found + strlen(quoted), " ");
}

static mhas_code take_type(mhas_file *file, const char *header, mhas_error *error) {
  const char *type = value_of(header, "descr");
  const bool labels = file->kind == MHAS_FILE_LABELS;
  if (type != NULL && (strncmp(type, "'<f4'", 5) == 0 || strncmp(type, "'<f8'", 5) == 0)) {
    file->number = 'f';
    file->number_bytes = type[3] - '0';
    return MHAS_OK;
  }
  if (labels && type != NULL && type[0] == '\'' && strchr("<|", type[1]) != NULL && strchr("iu", type[2]) != NULL &&
      strchr("1248", type[3]) != NULL && type[4] == '\'') {
    file->number = type[2];
    file->number_bytes = type[3] - '0';
    return MHAS_OK;
  }
  const int length = type == NULL ? 0 : (int)strcspn(type, ",}");
  return mhas_fail(error, MHAS_IO, "%s: holds numbers of the type %.*s; %s, little-endian ('<%s', '<f8')", file->path,
                   length, type == NULL ? "" : type,
                   labels ? "labels are integers or floating-point numbers" : "tokens are float32 or float64",
                   labels ? "i8" : "f4");
}

static mhas_code take_shape(mhas_file *file, const char *header, mhas_error *error) {
  const char *order = value_of(header, "fortran_order");
  const char *shape = value_of(header, "shape");
  if (order == NULL || shape == NULL || *shape != '(') {
    return mhas_fail(error, MHAS_IO, "%s: has a header that cannot be understood", file->path);
  }
  const int length = (int)strcspn(shape, "}\n");
  char *rest = (char *)shape + 1;
  const int wanted = mhas_file_rank(file);
  int rank = 0;
  while (*rest != ')' && *rest != '\0' && rank <= wanted) {
    char *end = NULL;
    errno = 0;
    const long long extent = strtoll(rest, &end, 10);
    if (end == rest || errno != 0) {
      break;
    }
    if (rank < wanted) {
      file->shape[rank] = extent;
    }
    rank++;
    rest = end + strspn(end, ", ");
  }
  if (*rest != ')' || rank != wanted) {
    return mhas_fail(error, MHAS_IO, "%s: has the shape %.*s; %s", file->path, length, shape,
                     file->kind == MHAS_FILE_LABELS ? "labels are (samples)"
                                                    : "tokens are (samples, context + 1, dim), the query first");
  }
  if (strncmp(order, "False", 5) != 0) {
    return mhas_fail(error, MHAS_IO, "%s: is in Fortran's order; save numpy.ascontiguousarray(array)", file->path);
  }
  return mhas_file_check_shape(file, error);
}

static mhas_code check_size(const mhas_file *file, mhas_error *error) {
  struct stat facts;
  const int64_t expected =
      file->offset + file->shape[0] * file->shape[1] * file->shape[2] * file->number_bytes; /* below 2^52 */
  if (fstat(file->descriptor, &facts) != 0) {
    return mhas_fail(error, MHAS_IO, "%s: %s", file->path, strerror(errno));
  }
  if ((int64_t)facts.st_size != expected) {
    return mhas_fail(error, MHAS_IO, "%s: is %s: it has %" PRId64 " bytes, and its header speaks of %" PRId64,
                     file->path, (int64_t)facts.st_size < expected ? "cut short" : "too long", (int64_t)facts.st_size,
                     expected);
  }
  return MHAS_OK;
}

/* Version 1 has a header length of two bytes, later ones of four. */
static mhas_code read_header(mhas_file *file, char **header, mhas_error *error) {
  unsigned char prefix[PREFIX];
  if (!read_at(file->descriptor, prefix, sizeof prefix, 0)) {
    return cut_short(file, error);
  }
  const int64_t start = prefix[6] == 1 ? 10 : PREFIX;
  int64_t length = prefix[8] | prefix[9] << 8;
  if (prefix[6] != 1) {
    length |= (int64_t)prefix[10] << 16 | (int64_t)prefix[11] << 24;
  }
  if (prefix[6] < 1 || prefix[6] > 3 || length > HEADER_MOST) {
    return mhas_fail(error, MHAS_IO, "%s: has a header that cannot be understood", file->path);
  }
  MHAS_TRY(mhas_alloc(header, (size_t)length + 1, 1, "a file's header", error));
  file->offset = start + length;
  return read_at(file->descriptor, *header, (size_t)length, start) ? MHAS_OK : cut_short(file, error);
}

static mhas_code open_npy(mhas_file *file, mhas_error *error) {
  char *header = NULL;
  file->descriptor = open(file->path, O_RDONLY | O_CLOEXEC);
  if (file->descriptor < 0) {
    return mhas_fail(error, MHAS_IO, "%s: %s", file->path, strerror(errno));
  }
  mhas_code code = read_header(file, &header, error);
  if (code == MHAS_OK) {
    code = take_type(file, header, error);
  }
  if (code == MHAS_OK) {
    code = take_shape(file, header, error);
  }
  if (code == MHAS_OK) {
    code = check_size(file, error);
  }
  mhas_free(header);
  return code;
}

/* The number at `place` of the file's type. */
static double number_at(const mhas_file *file, const char *place) {
  union {
    float real4;
    double real8;
    uint64_t word;
  } raw = {.word = 0};
  memcpy(&raw, place, (size_t)file->number_bytes);
  if (file->number == 'f') {
    return file->number_bytes == 8 ? raw.real8 : (double)raw.real4;
  }
  const int unused = 64 - 8 * (int)file->number_bytes; /* bits; shifted out and in again, they take the sign */
  return file->number == 'u' ? (double)raw.word : (double)((int64_t)(raw.word << unused) >> unused);
}

/* Shorter numbers are read into the end of the place and widened from the front. */
static mhas_code read_npy(mhas_file *file, int64_t first, int64_t count, double *out, mhas_error *error) {
  const int64_t size = file->shape[1] * file->shape[2];
  const int64_t numbers = count * size;
  const int64_t offset = file->offset + first * size * file->number_bytes;
  char *place = (char *)out + numbers * ((int64_t)sizeof *out - file->number_bytes);
  if (!read_at(file->descriptor, place, (size_t)(numbers * file->number_bytes), offset)) {
    return cut_short(file, error);
  }
  for (int64_t i = 0; i < numbers; i++) {
    out[i] = number_at(file, place + i * file->number_bytes);
  }
  return MHAS_OK;
}

static void close_npy(mhas_file *file) {
  if (file->descriptor >= 0) {
    (void)close(file->descriptor); /* only read from */
  }
}

const mhas_format mhas_format_npy = {.open = open_npy, .read = read_npy, .close = close_npy};
