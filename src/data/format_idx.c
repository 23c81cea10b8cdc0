/*
 * IDX, the format of MNIST and its kin: two zero bytes, the type, the number of dimensions, the extents (big-endian),
 * the numbers; mostly gzipped. A gzipped file has no random access, so all of it is kept in memory.
 */
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "data/format.h"

enum { HEADER_MOST = 16, BYTES = 0x08 };

/* The extents of an array of images or labels, 4 bytes each, stand behind 4 bytes. */
static int header_bytes(const mhas_file *file) { return 4 + 4 * mhas_file_rank(file); }

static mhas_code open_stream(const mhas_file *file, gzFile *stream, mhas_error *error) {
  *stream = gzopen(file->path, "rb");
  return *stream == NULL ? mhas_fail(error, MHAS_IO, "%s: cannot be opened", file->path) : MHAS_OK;
}

static int64_t big_endian(const unsigned char *bytes) {
  return (int64_t)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

static mhas_code read_header(mhas_file *file, gzFile stream, mhas_error *error) {
  const bool labels = file->kind == MHAS_FILE_LABELS;
  unsigned char header[HEADER_MOST] = {0};
  const int count = gzread(stream, header, (unsigned)header_bytes(file));
  if (count < 0) {
    return mhas_fail(error, MHAS_IO, "%s: is cut short or damaged", file->path);
  }
  if (count < 4 || header[0] != 0 || header[1] != 0) {
    return mhas_fail(error, MHAS_IO, "%s: is no IDX file of %s, gzipped or not%s", file->path,
                     labels ? "labels" : "images", labels ? ", no .npy and no HDF5 file" : "");
  }
  if (header[2] != BYTES || header[3] != mhas_file_rank(file)) {
    return mhas_fail(error, MHAS_IO, "%s: holds %s in %d dimensions; %s", file->path,
                     header[2] == BYTES ? "bytes" : "other numbers than bytes", header[3],
                     labels ? "labels are bytes in 1" : "images are bytes in 3: (images, rows, columns)");
  }
  if (count < header_bytes(file)) {
    return mhas_fail(error, MHAS_IO, "%s: is cut short", file->path);
  }
  for (int i = 0; i < mhas_file_rank(file); i++) {
    file->shape[i] = big_endian(header + 4 + 4 * i);
  }
  return mhas_file_check_shape(file, error);
}

/* Deflate makes nothing smaller than by a factor of 1032, so a header that asks for more memory than that is wrong. */
static mhas_code check_size(const mhas_file *file, mhas_error *error) {
  struct stat facts;
  const double total = (double)file->shape[0] * (double)file->shape[1] * (double)file->shape[2];
  if (stat(file->path, &facts) == 0 && total > 1032.0 * ((double)facts.st_size + 1.0)) {
    return mhas_fail(error, MHAS_IO, "%s: is cut short: its header speaks of %.0f bytes", file->path, total);
  }
  return MHAS_OK;
}

static mhas_code open_idx(mhas_file *file, mhas_error *error) {
  gzFile stream = NULL;
  MHAS_TRY(open_stream(file, &stream, error));
  const mhas_code code = read_header(file, stream, error);
  (void)gzclose(stream); /* the rest of it is looked at when it is read */
  return code == MHAS_OK ? check_size(file, error) : code;
}

/* All pixels, and the end of the file behind them. */
static mhas_code read_pixels(mhas_file *file, gzFile stream, mhas_error *error) {
  const int64_t total = file->shape[0] * file->shape[1] * file->shape[2];
  unsigned char beyond = 0;
  for (int64_t done = 0; done < total;) {
    const int64_t rest = total - done;
    const int count = gzread(stream, file->pixels + done, (unsigned)(rest < 1 << 30 ? rest : 1 << 30));
    if (count <= 0) {
      return mhas_fail(error, MHAS_IO,
                       "%s: is cut short or damaged: it ends after %" PRId64 " of the %" PRId64
                       " bytes that its header speaks of",
                       file->path, done, total);
    }
    done += count;
  }
  if (gzread(stream, &beyond, 1) != 0) {
    return mhas_fail(error, MHAS_IO, "%s: is damaged, or longer than the %" PRId64 " bytes its header speaks of",
                     file->path, total);
  }
  return MHAS_OK;
}

static mhas_code load(mhas_file *file, mhas_error *error) {
  const int64_t total = file->shape[0] * file->shape[1] * file->shape[2];
  gzFile stream = NULL;
  MHAS_TRY(open_stream(file, &stream, error));
  mhas_code code = MHAS_OK;
  if (gzseek(stream, header_bytes(file), SEEK_SET) != header_bytes(file)) {
    code = mhas_fail(error, MHAS_IO, "%s: is cut short or damaged", file->path);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&file->pixels, (size_t)total, 1, "the images", error);
  }
  if (code == MHAS_OK) {
    code = read_pixels(file, stream, error);
  }
  if (gzclose(stream) != Z_OK && code == MHAS_OK) {
    code = mhas_fail(error, MHAS_IO, "%s: is damaged: its checksum is wrong", file->path);
  }
  if (code != MHAS_OK) {
    mhas_free(file->pixels);
    file->pixels = NULL;
  }
  return code;
}

static mhas_code read_idx(mhas_file *file, int64_t first, int64_t count, double *out, mhas_error *error) {
  const int64_t size = file->shape[1] * file->shape[2];
  if (file->pixels == NULL) {
    MHAS_TRY(load(file, error));
  }
  for (int64_t i = 0; i < count * size; i++) {
    out[i] = (double)file->pixels[first * size + i];
  }
  return MHAS_OK;
}

static void close_idx(mhas_file *file) { mhas_free(file->pixels); }

const mhas_format mhas_format_idx = {.open = open_idx, .read = read_idx, .close = close_idx};
