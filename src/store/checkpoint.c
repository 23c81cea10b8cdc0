/*
 * A checkpoint file is a head, the pieces one after the other, and a CRC-32 of all before it (zlib's). Numbers are in
 * the machine's own order, as the pieces are; a file from a machine of another order is foreign.
 */
#include "mhasweep/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "store/hdf.h"

#define SUFFIX ".checkpoint"
#define TEMPORARY ".tmp"

typedef struct head {
  char magic[8];
  uint32_t order; /* ORDER as this machine writes it */
  uint32_t count; /* of pieces */
  char spec_hash[MHAS_CHECKPOINT_HASH];
  int64_t numerics, point, ranks;
  uint64_t bytes[MHAS_CHECKPOINT_PIECES_MOST]; /* of each piece; zeros behind them */
} head;

static const char MAGIC[8] = "mhasckp2";
enum { ORDER = 0x01020304, BLOCK = 1 << 16 };

static head head_of(const mhas_checkpoint_key *key, const mhas_piece *pieces, int count) {
  head made;
  memset(&made, 0, sizeof made); /* its padding is compared and summed too */
  memcpy(made.magic, MAGIC, sizeof made.magic);
  made.order = ORDER;
  made.count = (uint32_t)count;
  (void)snprintf(made.spec_hash, sizeof made.spec_hash, "%s", key->spec_hash);
  made.numerics = key->numerics;
  made.point = key->point;
  made.ranks = key->ranks;
  for (int i = 0; i < count; i++) {
    made.bytes[i] = pieces[i].bytes;
  }
  return made;
}

mhas_code mhas_checkpoint_path(const char *results, int64_t point, char **path, mhas_error *error) {
  const size_t length = strlen(results) + sizeof SUFFIX + 24;
  MHAS_TRY(mhas_alloc(path, length, 1, "a file name", error));
  (void)snprintf(*path, length, "%s.%" PRId64 SUFFIX, results, point);
  return MHAS_OK;
}

/* ---- writing ---- */

static uint32_t sum_of(uint32_t sum, const void *bytes, size_t count) {
  return count == 0 ? sum : (uint32_t)crc32_z(sum, bytes, count); /* zlib starts anew where there is nothing */
}

/* Returns errno, 0 if all is well. */
static int write_all(int file, const void *bytes, size_t count) {
  const char *at = bytes;
  while (count > 0) {
    const ssize_t written = write(file, at, count);
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    if (written > 0) {
      at += written;
      count -= (size_t)written;
    }
  }
  return 0;
}

static int put(int file, const void *bytes, size_t count, uint32_t *sum) {
  *sum = sum_of(*sum, bytes, count);
  return write_all(file, bytes, count);
}

static size_t block_from(size_t offset, size_t bytes) { return bytes - offset < BLOCK ? bytes - offset : BLOCK; }

static int put_piece(int file, const mhas_piece *piece, int number, const mhas_mover *mover, uint32_t *sum) {
  char block[BLOCK];
  int reason = 0;
  if (piece->data != NULL) {
    return put(file, piece->data, piece->bytes, sum);
  }
  for (size_t offset = 0; reason == 0 && offset < piece->bytes; offset += BLOCK) {
    const size_t length = block_from(offset, piece->bytes);
    reason = mover->fetch(mover->context, number, offset, length, block) ? put(file, block, length, sum) : EIO;
  }
  return reason;
}

static int fill(int file, const mhas_checkpoint_key *key, const mhas_piece *pieces, int count,
                const mhas_mover *mover) {
  const head first = head_of(key, pieces, count);
  uint32_t sum = 0;
  int reason = put(file, &first, sizeof first, &sum);
  for (int i = 0; reason == 0 && i < count; i++) {
    reason = put_piece(file, &pieces[i], i, mover, &sum);
  }
  if (reason == 0) {
    reason = write_all(file, &sum, sizeof sum);
  }
  return reason != 0 ? reason : fsync(file) != 0 ? errno : 0;
}

static mhas_code sync_folder(const char *path, mhas_error *error) {
  const char *slash = strrchr(path, '/');
  const size_t length = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
  char *folder = NULL;
  MHAS_TRY(mhas_alloc(&folder, length + 1, 1, "a file name", error));
  memcpy(folder, slash == NULL ? "." : path, length);
  const mhas_code code = store_sync(folder, error);
  mhas_free(folder);
  return code;
}

static mhas_code write_beside(const char *path, const mhas_checkpoint_key *key, const mhas_piece *pieces, int count,
                              const mhas_mover *mover, char *temporary, mhas_error *error) {
  const int file = mkostemps(temporary, sizeof TEMPORARY - 1, O_CLOEXEC);
  if (file < 0) {
    return mhas_fail(error, MHAS_IO, "%s: cannot be created: %s", temporary, strerror(errno));
  }
  int reason = fill(file, key, pieces, count, mover);
  if (close(file) != 0 && reason == 0) {
    reason = errno;
  }
  if (reason == 0 && rename(temporary, path) != 0) {
    reason = errno;
  }
  if (reason != 0) {
    (void)unlink(temporary);
    return mhas_fail(error, MHAS_IO, "%s: cannot be written: %s", path, strerror(reason));
  }
  return sync_folder(path, error);
}

mhas_code mhas_checkpoint_write(const char *path, const mhas_checkpoint_key *key, const mhas_piece *pieces, int count,
                                const mhas_mover *mover, mhas_error *error) {
  if (count < 0 || count > MHAS_CHECKPOINT_PIECES_MOST) {
    return mhas_fail(error, MHAS_INTERNAL, "%s: a checkpoint of %d pieces", path, count);
  }
  char *temporary = NULL;
  const size_t length = strlen(path) + sizeof ".XXXXXX" TEMPORARY;
  MHAS_TRY(mhas_alloc(&temporary, length, 1, "a file name", error));
  (void)snprintf(temporary, length, "%s.XXXXXX" TEMPORARY, path);
  const mhas_code code = write_beside(path, key, pieces, count, mover, temporary, error);
  mhas_free(temporary);
  return code;
}

/* ---- reading ---- */

/* False at the end of the file or on an error. */
static bool read_all(int file, void *bytes, size_t count) {
  char *at = bytes;
  while (count > 0) {
    const ssize_t got = read(file, at, count);
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return false;
    }
    if (got > 0) {
      at += got;
      count -= (size_t)got;
    }
  }
  return true;
}

static mhas_code check_head(const char *path, const head *there, const head *wanted, mhas_error *why) {
  if (memcmp(there->magic, wanted->magic, sizeof there->magic) != 0 || there->order != wanted->order) {
    return mhas_fail(why, MHAS_IO, "%s: is no checkpoint of this version and kind of machine", path);
  }
  if (memcmp(there->spec_hash, wanted->spec_hash, sizeof there->spec_hash) != 0 ||
      there->numerics != wanted->numerics) {
    return mhas_fail(why, MHAS_IO, "%s: is a checkpoint of another sweep", path);
  }
  if (there->point != wanted->point) {
    return mhas_fail(why, MHAS_IO, "%s: is a checkpoint of another point (%" PRId64 ")", path, there->point);
  }
  if (there->ranks != wanted->ranks) {
    return mhas_fail(why, MHAS_IO, "%s: is a checkpoint of a team of another size (%" PRId64 ")", path, there->ranks);
  }
  if (memcmp(there, wanted, sizeof *there) != 0) {
    return mhas_fail(why, MHAS_IO, "%s: is a checkpoint of a state of another size", path);
  }
  return MHAS_OK;
}

/* The length first, since it is quick, then the sum. Leaves the file where the pieces begin. */
static mhas_code check_whole(int file, const char *path, const head *first, uint64_t bytes, mhas_error *why) {
  struct stat facts;
  if (fstat(file, &facts) != 0) {
    return mhas_fail(why, MHAS_IO, "%s: cannot be read: %s", path, strerror(errno));
  }
  uint32_t sum = sum_of(0, first, sizeof *first);
  bool whole = facts.st_size >= 0 && (uint64_t)facts.st_size == sizeof *first + bytes + sizeof sum;
  char block[BLOCK];
  while (whole && bytes > 0) {
    const size_t length = bytes < BLOCK ? (size_t)bytes : BLOCK;
    whole = read_all(file, block, length);
    sum = sum_of(sum, block, length);
    bytes -= length;
  }
  uint32_t expected = 0;
  if (!whole || !read_all(file, &expected, sizeof expected) || expected != sum ||
      lseek(file, sizeof *first, SEEK_SET) < 0) {
    return mhas_fail(why, MHAS_IO, "%s: is torn or damaged", path);
  }
  return MHAS_OK;
}

static bool get_piece(int file, const mhas_piece *piece, int number, const mhas_mover *mover) {
  char block[BLOCK];
  bool got = true;
  if (piece->data != NULL) {
    return read_all(file, piece->data, piece->bytes);
  }
  for (size_t offset = 0; got && offset < piece->bytes; offset += BLOCK) {
    const size_t length = block_from(offset, piece->bytes);
    got = read_all(file, block, length) && mover->deliver(mover->context, number, offset, length, block);
  }
  return got;
}

static mhas_code read_open(int file, const char *path, const mhas_checkpoint_key *key, const mhas_piece *pieces,
                           int count, const mhas_mover *mover, bool *found, mhas_error *why) {
  const head wanted = head_of(key, pieces, count);
  head there;
  if (!read_all(file, &there, sizeof there)) {
    return mhas_fail(why, MHAS_IO, "%s: is torn or damaged", path);
  }
  MHAS_TRY(check_head(path, &there, &wanted, why));
  uint64_t bytes = 0;
  for (int i = 0; i < count; i++) {
    bytes += pieces[i].bytes; /* of memory that there is, so it cannot overflow */
  }
  MHAS_TRY(check_whole(file, path, &there, bytes, why));
  for (int i = 0; i < count; i++) {
    if (!get_piece(file, &pieces[i], i, mover)) {
      return mhas_fail(why, MHAS_INTERNAL, "%s: changed or failed while it was read", path);
    }
  }
  *found = true;
  return MHAS_OK;
}

mhas_code mhas_checkpoint_read(const char *path, const mhas_checkpoint_key *key, const mhas_piece *pieces, int count,
                               const mhas_mover *mover, bool *found, mhas_error *why) {
  *found = false;
  if (count < 0 || count > MHAS_CHECKPOINT_PIECES_MOST) {
    return mhas_fail(why, MHAS_INTERNAL, "%s: a checkpoint of %d pieces", path, count);
  }
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO shall not make it wait */
  if (file < 0) {
    return errno == ENOENT ? MHAS_OK : mhas_fail(why, MHAS_IO, "%s: cannot be opened: %s", path, strerror(errno));
  }
  const mhas_code code = read_open(file, path, key, pieces, count, mover, found, why);
  (void)close(file);
  return code;
}

/* ---- removing ---- */

mhas_code mhas_checkpoint_retire(const char *path, const char *results, mhas_error *error) {
  if (access(path, F_OK) != 0) {
    return MHAS_OK;
  }
  MHAS_TRY(store_sync(results, error));
  return unlink(path) == 0 || errno == ENOENT
             ? MHAS_OK
             : mhas_fail(error, MHAS_IO, "%s: cannot be removed: %s", path, strerror(errno));
}

/* The row of NAME.ROW.checkpoint; -1 if it is NAME.ROW.checkpoint.XXXXXX.tmp, -2 if it is neither. */
static int64_t row_of(const char *entry, const char *name) {
  const size_t length = strlen(name);
  if (strncmp(entry, name, length) != 0 || entry[length] != '.' || entry[length + 1] < '0' || entry[length + 1] > '9') {
    return -2;
  }
  char *end = NULL;
  errno = 0;
  const long long row = strtoll(entry + length + 1, &end, 10);
  if (errno != 0 || strncmp(end, SUFFIX, sizeof SUFFIX - 1) != 0) {
    return -2;
  }
  end += sizeof SUFFIX - 1;
  if (*end == '\0') {
    return row;
  }
  return strlen(end) == sizeof ".XXXXXX" TEMPORARY - 1 && strcmp(end + 7, TEMPORARY) == 0 ? -1 : -2;
}

void mhas_checkpoint_tidy(const char *results, bool (*wanted)(void *context, int64_t point), void *context) {
  const char *slash = strrchr(results, '/');
  const char *name = slash == NULL ? results : slash + 1;
  mhas_text folder = {0};
  mhas_text_append_bytes(&folder, slash == NULL ? "." : results, slash == NULL ? 1 : (size_t)(name - results));
  DIR *entries = folder.failed ? NULL : opendir(mhas_text_string(&folder));
  if (entries != NULL) {
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
      const int64_t row = row_of(entry->d_name, name);
      if (row == -1 || (row >= 0 && !wanted(context, row))) {
        (void)unlinkat(dirfd(entries), entry->d_name, 0);
      }
    }
    (void)closedir(entries);
  }
  mhas_text_free(&folder);
}
