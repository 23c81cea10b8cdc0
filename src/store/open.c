#include "store/open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/driver.h"
#include "store/hdf.h"
#include "store/layout.h"

/* HDF5's own messages for these would only confuse. */
static mhas_code check_is_hdf5(const char *path, mhas_error *error) {
  static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  struct stat facts;
  if (stat(path, &facts) != 0) {
    return mhas_fail(error, MHAS_IO, "%s: %s", path, errno == ENOENT ? "there is no such file" : strerror(errno));
  }
  if (S_ISDIR(facts.st_mode)) {
    return mhas_fail(error, MHAS_IO, "%s: is a folder, not a result file", path);
  }
  if (!S_ISREG(facts.st_mode)) {
    return mhas_fail(error, MHAS_IO, "%s: is not a regular file", path);
  }
  if (facts.st_size == 0) {
    return mhas_fail(error, MHAS_IO, "%s: is empty", path);
  }
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return mhas_fail(error, MHAS_IO, "%s: cannot be read: %s", path, strerror(errno));
  }
  unsigned char start[sizeof signature] = {0};
  const ssize_t got = read(file, start, sizeof start);
  (void)close(file);
  if (got != (ssize_t)sizeof start || memcmp(start, signature, sizeof start) != 0) {
    return mhas_fail(error, MHAS_IO, "%s: is not an HDF5 file", path);
  }
  return MHAS_OK;
}

static mhas_code check_is_ours(hid_t file, const char *path, mhas_error *error) {
  int64_t schema = 0;
  if (!store_read_integer(file, STORE_ATTRIBUTE_SCHEMA, &schema) || H5Aexists(file, STORE_ATTRIBUTE_EXPERIMENT) <= 0 ||
      H5Aexists(file, STORE_ATTRIBUTE_HASH) <= 0) {
    return mhas_fail(error, MHAS_IO, "%s: is an HDF5 file, but not a result file of mhasweep", path);
  }
  return MHAS_OK;
}

static mhas_code open_file(const char *path, int *failure, hid_t *file, mhas_error *error) {
  const hid_t access = store_serial_access();
  hid_t opened = H5I_INVALID_HID;
  if (access >= 0 && (failure == NULL || store_driver_use(access, failure))) {
    opened = H5Fopen(path, failure == NULL ? H5F_ACC_RDONLY : H5F_ACC_RDWR, access);
  }
  if (opened < 0) {
    const mhas_code code = store_hdf5_error(error, path, "is cut short or damaged");
    store_release(access);
    return code;
  }
  store_release(access);
  const mhas_code code = check_is_ours(opened, path, error);
  if (code != MHAS_OK) {
    (void)H5Fclose(opened); /* nothing was written */
    return code;
  }
  *file = opened;
  return MHAS_OK;
}

mhas_code store_open_serial(const char *path, hid_t *file, mhas_error *error) {
  *file = H5I_INVALID_HID;
  store_quiet();
  MHAS_TRY(check_is_hdf5(path, error));
  return open_file(path, NULL, file, error);
}

mhas_code store_open_writable(const char *path, hid_t *file, int *failure, mhas_error *error) {
  *file = H5I_INVALID_HID;
  store_quiet();
  MHAS_TRY(check_is_hdf5(path, error));
  if (access(path, W_OK) != 0) {
    return mhas_fail(error, MHAS_IO, "%s: cannot be written to: %s", path, strerror(errno));
  }
  return open_file(path, failure, file, error);
}

mhas_code store_open_dataset(hid_t file, const char *path, const char *name, store_dataset *dataset,
                             mhas_error *error) {
  *dataset = (store_dataset){.id = H5I_INVALID_HID};
  const hid_t id = H5Dopen2(file, name, H5P_DEFAULT);
  if (id < 0) {
    return store_hdf5_error(error, path, "the variable %s cannot be opened", name);
  }
  hsize_t shape[H5S_MAX_RANK] = {0};
  const hid_t space = H5Dget_space(id);
  dataset->rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, shape, NULL);
  store_release(space);
  if (dataset->rank < 0) {
    const mhas_code code = store_hdf5_error(error, path, "the shape of %s cannot be read", name);
    store_release(id);
    return code;
  }
  dataset->id = id;
  memcpy(dataset->shape, shape, sizeof dataset->shape);
  return MHAS_OK;
}

mhas_code store_read_points(hid_t file, const char *path, int64_t *points, mhas_error *error) {
  store_dataset status;
  MHAS_TRY(store_open_dataset(file, path, STORE_STATUS, &status, error));
  store_release(status.id);
  if (status.rank != 1 || status.shape[0] > INT64_MAX) {
    return mhas_fail(error, MHAS_IO, "%s: the variable %s has an unexpected shape", path, STORE_STATUS);
  }
  *points = (int64_t)status.shape[0];
  return MHAS_OK;
}

mhas_code store_read_length(hid_t file, const char *path, const char *scale, int64_t *length, mhas_error *error) {
  *length = 0;
  const htri_t there = H5Lexists(file, scale, H5P_DEFAULT);
  if (there < 0) {
    return store_hdf5_error(error, path, "the dimension %s cannot be looked for", scale);
  }
  if (there == 0) {
    return MHAS_OK;
  }
  store_dataset dataset;
  MHAS_TRY(store_open_dataset(file, path, scale, &dataset, error));
  store_release(dataset.id);
  *length = dataset.rank == 1 ? (int64_t)dataset.shape[0] : 0;
  return MHAS_OK;
}
