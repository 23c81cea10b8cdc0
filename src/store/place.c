#include "store/place.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "mhasweep/store.h"
#include "store/hdf.h"

bool mhas_store_exists(const char *path) {
  struct stat facts;
  return lstat(path, &facts) == 0; /* a link to nowhere is something too */
}

static mhas_code exists_error(const char *path, mhas_error *error) {
  return mhas_fail(error, MHAS_IO, "%s: is there already; it was not overwritten", path);
}

static mhas_code find_folder(const char *path, char **folder, mhas_error *error) {
  const char *slash = strrchr(path, '/');
  const size_t length = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
  MHAS_TRY(mhas_alloc(folder, length + 1, 1, "a file name", error));
  memcpy(*folder, slash == NULL ? "." : path, length);
  return MHAS_OK;
}

static mhas_code open_error(const char *path, const char *folder, int reason, mhas_error *error) {
  if (reason == ENOENT && access(folder, F_OK) != 0) {
    return mhas_fail(error, MHAS_IO, "%s: the folder %s does not exist", path, folder);
  }
  switch (reason) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case EROFS:
      return mhas_fail(error, MHAS_IO, "%s: no file can be made in the folder %s: %s", path, folder, strerror(reason));
    default: return mhas_fail(error, MHAS_IO, "%s: cannot be created: %s", path, strerror(reason));
  }
}

mhas_code store_place_begin(const char *path, store_place *place, mhas_error *error) {
  *place = (store_place){.path = path, .file = -1};
  if (mhas_store_exists(path)) {
    return exists_error(path, error);
  }
  MHAS_TRY(find_folder(path, &place->folder, error));
  const size_t length = strlen(path) + 64;
  MHAS_TRY(mhas_alloc(&place->temporary, length, 1, "a file name", error));
  do { /* the clock tells apart what two machines with the same process number make */
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(place->temporary, length, "%s.%ld-%09ld.tmp", path, (long)getpid(), (long)now.tv_nsec);
    place->file = open(place->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (place->file < 0 && errno == EEXIST);
  if (place->file < 0) {
    const mhas_code code = open_error(path, place->folder, errno, error);
    mhas_free(place->temporary);
    place->temporary = NULL;
    return code;
  }
  return MHAS_OK;
}

static mhas_code space_error(const store_place *place, double bytes, double available, int reason, mhas_error *error) {
  char needs[MHAS_HUMAN_LENGTH];
  char has[MHAS_HUMAN_LENGTH];
  return mhas_fail(error, MHAS_IO, "%s: %s: the file needs %s, the disk of %s has %s left", place->path,
                   strerror(reason), mhas_human_bytes(bytes, needs), place->folder, mhas_human_bytes(available, has));
}

/* For file systems that cannot reserve: zeros take the space just as well. Returns errno, 0 if all is well. */
static int write_zeros(int file, off_t bytes) {
  enum { BLOCK = 1 << 20 };
  static const char zeros[BLOCK];
  for (off_t at = 0; at < bytes;) {
    const size_t length = bytes - at < BLOCK ? (size_t)(bytes - at) : BLOCK;
    const ssize_t written = pwrite(file, zeros, length, at);
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    at += written < 0 ? 0 : written;
  }
  return fsync(file) == 0 ? 0 : errno;
}

static int take_space(int file, off_t bytes) {
  int status = 0;
  do {
    status = fallocate(file, FALLOC_FL_KEEP_SIZE, 0, bytes);
  } while (status != 0 && errno == EINTR);
  if (status == 0) {
    return 0;
  }
  return errno == EOPNOTSUPP || errno == ENOSYS ? write_zeros(file, bytes) : errno;
}

mhas_code store_place_reserve(const store_place *place, double bytes, mhas_error *error) {
  struct statvfs disk;
  struct rlimit limit;
  const double available = fstatvfs(place->file, &disk) == 0 ? (double)disk.f_bavail * (double)disk.f_frsize : INFINITY;
  if (bytes > 0x1p62 || bytes > available) { /* the first is beyond what off_t can say, and any disk */
    return space_error(place, bytes, available, ENOSPC, error);
  }
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > (double)limit.rlim_cur) {
    char needs[MHAS_HUMAN_LENGTH];
    char most[MHAS_HUMAN_LENGTH];
    return mhas_fail(error, MHAS_IO, "%s: the file needs %s, and no file may be larger than %s here (ulimit -f)",
                     place->path, mhas_human_bytes(bytes, needs), mhas_human_bytes((double)limit.rlim_cur, most));
  }
  const int reason = take_space(place->file, (off_t)bytes + 1);
  return reason == 0 ? MHAS_OK : space_error(place, bytes, available, reason, error);
}

static mhas_code move_into_place(const store_place *place, mhas_error *error) {
  if (renameat2(AT_FDCWD, place->temporary, AT_FDCWD, place->path, RENAME_NOREPLACE) == 0) {
    return MHAS_OK;
  }
  if (errno == EINVAL || errno == ENOSYS) { /* network file systems: a second name, then the first goes away */
    if (link(place->temporary, place->path) == 0) {
      if (unlink(place->temporary) == 0) {
        return MHAS_OK;
      }
      const int reason = errno;
      (void)unlink(place->path);
      errno = reason;
    }
  }
  if (errno == EEXIST) {
    return exists_error(place->path, error);
  }
  return mhas_fail(error, MHAS_IO, "%s: the finished file %s cannot get this name: %s", place->path, place->temporary,
                   strerror(errno));
}

mhas_code store_place_commit(store_place *place, mhas_error *error) {
  if (fsync(place->file) != 0) {
    return mhas_fail(error, MHAS_IO, "%s: cannot be brought to the disk: %s", place->path, strerror(errno));
  }
  MHAS_TRY(move_into_place(place, error));
  mhas_free(place->temporary);
  place->temporary = NULL;
  return store_sync(place->folder, error);
}

void store_place_end(store_place *place) {
  if (place->file >= 0) {
    (void)close(place->file); /* synced by commit, or thrown away */
  }
  if (place->temporary != NULL) {
    (void)unlink(place->temporary);
    mhas_free(place->temporary);
  }
  mhas_free(place->folder);
  *place = (store_place){.file = -1};
}
