/*
 * One run at a time writes a result file.
 *
 * The lock is on bytes of the result file far behind its end, so nothing is left behind when a process dies, and
 * neither HDF5 nor a reader ever meets it. On NFS, though, Open MPI's OMPIO locks whole files, would meet the lock of
 * its own process, and wait for ever: there the same bytes are locked in a file beside it, which its owner removes.
 */
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "mhasweep/store.h"

/* The byte at GUARD is the lock. A second byte behind it tells others who holds it: its place is made of the machine's
 * name and the process number. */
#define GUARD ((off_t)1 << 62)
#define OWNER_PID_BITS 32
#define NFS_MAGIC 0x6969

static uint32_t host_digest(void) {
  char name[MHAS_HOSTNAME_LENGTH] = "";
  (void)gethostname(name, sizeof name - 1);
  uint32_t digest = 2166136261u; /* FNV-1a, folded to 20 bits */
  for (const char *c = name; *c != '\0'; c++) {
    digest = (digest ^ (unsigned char)*c) * 16777619u;
  }
  return (digest ^ digest >> 20) & 0xFFFFF;
}

static int set_lock(int file, off_t byte) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
  return fcntl(file, F_OFD_SETLK, &lock);
}

static mhas_code held_error(int file, const char *path, mhas_error *error) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = GUARD + 1, .l_len = 0};
  if (fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) {
    return mhas_fail(error, MHAS_IO, "%s: is being written by another run", path);
  }
  const int64_t owner = (int64_t)(lock.l_start - GUARD - 1);
  if ((uint32_t)(owner >> OWNER_PID_BITS) != host_digest()) {
    return mhas_fail(error, MHAS_IO, "%s: is being written by another run, on another machine", path);
  }
  return mhas_fail(error, MHAS_IO, "%s: is being written by another run (process %" PRIu32 " on this machine)", path,
                   (uint32_t)owner);
}

/* Takes both bytes. *taken is false only if the file went away meanwhile (its last owner removed it): try again. */
static mhas_code take(int file, const char *path, bool *taken, mhas_error *error) {
  *taken = true;
  if (set_lock(file, GUARD) != 0) {
    switch (errno) {
      case EAGAIN:
      case EACCES: return held_error(file, path, error);
      case ENOSYS:
      case ENOLCK:
      case EOPNOTSUPP:
      case EINVAL: /* a file system without locks: better to run unguarded than not at all */ return MHAS_OK;
      default: return mhas_fail(error, MHAS_IO, "%s: cannot be locked: %s", path, strerror(errno));
    }
  }
  (void)set_lock(file, GUARD + 1 + ((off_t)host_digest() << OWNER_PID_BITS) + getpid()); /* only a hint for others */
  struct stat facts;
  *taken = fstat(file, &facts) != 0 || facts.st_nlink > 0;
  return MHAS_OK;
}

mhas_code store_lock_file(const char *path, const char *lock_path, bool create, int *lock, mhas_error *error) {
  for (;;) {
    const int file = open(lock_path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
    if (file < 0) {
      return mhas_fail(error, MHAS_IO, "%s: cannot be opened for writing: %s", lock_path, strerror(errno));
    }
    bool taken = false;
    const mhas_code code = take(file, path, &taken, error);
    if (code == MHAS_OK && taken) {
      *lock = file;
      return MHAS_OK;
    }
    (void)close(file);
    if (code != MHAS_OK) {
      return code;
    }
  }
}

mhas_code store_lock_beside(const char *path, int *lock, mhas_error *error) {
  char *beside = NULL;
  const size_t length = strlen(path) + sizeof STORE_LOCK_SUFFIX;
  MHAS_TRY(mhas_alloc(&beside, length, 1, "a file name", error));
  (void)snprintf(beside, length, "%s%s", path, STORE_LOCK_SUFFIX);
  const mhas_code code = store_lock_file(path, beside, true, lock, error);
  mhas_free(beside);
  return code;
}

/* Will Open MPI lock the file as a whole, by itself or because it was told to? */
static bool is_locked_whole(const char *path) {
  struct statfs disk;
  const char *algorithm = getenv("OMPI_MCA_fs_ufs_lock_algorithm");
  return (statfs(path, &disk) == 0 && disk.f_type == NFS_MAGIC) || (algorithm != NULL && strcmp(algorithm, "2") == 0);
}

mhas_code mhas_store_lock(const char *path, int *lock, mhas_error *error) {
  *lock = -1;
  return is_locked_whole(path) ? store_lock_beside(path, lock, error) : store_lock_file(path, path, false, lock, error);
}

static mhas_written is_held(const char *lock_path) {
  const int file = open(lock_path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return errno == ENOENT ? MHAS_NOT_WRITTEN : MHAS_WRITTEN_UNKNOWN;
  }
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = GUARD, .l_len = 1};
  const bool asked = fcntl(file, F_OFD_GETLK, &lock) == 0;
  (void)close(file);
  if (!asked) {
    return MHAS_WRITTEN_UNKNOWN;
  }
  return lock.l_type == F_UNLCK ? MHAS_NOT_WRITTEN : MHAS_WRITTEN;
}

mhas_written mhas_store_is_written(const char *path) {
  char beside[4096];
  if (!is_locked_whole(path)) {
    return is_held(path);
  }
  const int length = snprintf(beside, sizeof beside, "%s%s", path, STORE_LOCK_SUFFIX);
  return length < (int)sizeof beside ? is_held(beside) : MHAS_WRITTEN_UNKNOWN;
}

/* The name under which the locked file can be found, if it is one that only serves as a lock: those are empty. */
static bool lock_file_name(int lock, char name[4096]) {
  struct stat facts;
  if (fstat(lock, &facts) != 0 || facts.st_size != 0) {
    return false;
  }
  char link[64];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", lock);
  const ssize_t length = readlink(link, name, 4095);
  const size_t suffix = sizeof STORE_LOCK_SUFFIX - 1;
  if (length <= (ssize_t)suffix) {
    return false;
  }
  name[length] = '\0';
  return strcmp(name + (size_t)length - suffix, STORE_LOCK_SUFFIX) == 0;
}

void mhas_store_unlock(int lock) {
  if (lock < 0) {
    return;
  }
  char name[4096];
  if (lock_file_name(lock, name)) {
    (void)unlink(name); /* still locked: who opened it meanwhile notices that it is gone */
  }
  (void)close(lock);
}
