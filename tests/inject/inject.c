#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- allocations ---- */

static struct {
  bool armed, failed;
  long at, seen;
} allocation;
static long blocks;

void inject_allocation(long at) {
  allocation.armed = true;
  allocation.failed = false;
  allocation.at = at;
  allocation.seen = 0;
}

long inject_allocations_seen(bool *failed) {
  allocation.armed = false;
  *failed = allocation.failed;
  return allocation.seen;
}

long inject_blocks(void) { return blocks; }

static bool refused(void) {
  if (!allocation.armed || allocation.seen++ != allocation.at) {
    return false;
  }
  allocation.failed = true;
  errno = ENOMEM;
  return true;
}

static void *counted(void *block) {
  blocks += block != NULL;
  return block;
}

void *inject_malloc(size_t size) { return refused() ? NULL : counted(malloc(size)); }

void *inject_calloc(size_t count, size_t size) { return refused() ? NULL : counted(calloc(count, size)); }

void *inject_realloc(void *block, size_t size) {
  if (refused()) {
    return NULL;
  }
  return block == NULL ? counted(realloc(block, size)) : realloc(block, size);
}

void *inject_aligned_alloc(size_t alignment, size_t size) {
  return refused() ? NULL : counted(aligned_alloc(alignment, size));
}

char *inject_strdup(const char *text) { return refused() ? NULL : counted(strdup(text)); }

void inject_free(void *block) {
  blocks -= block != NULL;
  free(block);
}

/* ---- writes ---- */

static struct {
  bool armed, lasting, failed;
  int reason;
  long at, seen;
  char folder[PATH_MAX];
} writing;

void inject_write(long at, bool lasting, int reason, const char *folder) {
  writing.armed = true;
  writing.lasting = lasting;
  writing.failed = false;
  writing.reason = reason;
  writing.at = at;
  writing.seen = 0;
  (void)snprintf(writing.folder, sizeof writing.folder, "%s", folder);
}

long inject_writes_seen(bool *failed) {
  writing.armed = false;
  *failed = writing.failed;
  return writing.seen;
}

static bool refuse_name(const char *name) {
  if (!writing.armed || strncmp(name, writing.folder, strlen(writing.folder)) != 0) {
    return false;
  }
  const long number = writing.seen++;
  if (writing.at < 0 || (writing.lasting ? number < writing.at : number != writing.at)) {
    return false;
  }
  writing.failed = true;
  errno = writing.reason;
  return true;
}

static bool refuse_file(int file) {
  char link[64];
  char name[PATH_MAX];
  if (!writing.armed) {
    return false;
  }
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, name, sizeof name - 1);
  name[length < 0 ? 0 : length] = '\0';
  return refuse_name(name);
}

ssize_t write(int file, const void *bytes, size_t count) {
  return refuse_file(file) ? -1 : syscall(SYS_write, file, bytes, count);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  return refuse_file(file) ? -1 : syscall(SYS_writev, file, parts, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
  return refuse_file(file) ? -1 : syscall(SYS_pwrite64, file, bytes, count, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off_t offset) {
  return refuse_file(file) ? -1 : syscall(SYS_pwrite64, file, bytes, count, offset);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset) {
  return refuse_file(file) ? -1 : syscall(SYS_pwritev, file, parts, count, offset, (off_t)0);
}

int ftruncate(int file, off_t length) { return refuse_file(file) ? -1 : (int)syscall(SYS_ftruncate, file, length); }

int ftruncate64(int file, off_t length) { return refuse_file(file) ? -1 : (int)syscall(SYS_ftruncate, file, length); }

int fallocate(int file, int mode, off_t offset, off_t length) {
  return refuse_file(file) ? -1 : (int)syscall(SYS_fallocate, file, mode, offset, length);
}

int fsync(int file) { return refuse_file(file) ? -1 : (int)syscall(SYS_fsync, file); }

int rename(const char *from, const char *to) {
  return refuse_name(to) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  return refuse_name(to) ? -1 : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}
