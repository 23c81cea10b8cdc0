/* HDF5 with a dataset `tokens` of floating-point numbers, or `labels`; HDF5 converts their size and byte order. */
#include <inttypes.h>
#include <string.h>

#include "data/format.h"

static const char *dataset_of(const mhas_file *file) { return file->kind == MHAS_FILE_LABELS ? "labels" : "tokens"; }

static mhas_code take_space(mhas_file *file, hid_t type, hid_t space, mhas_error *error) {
  hsize_t extent[MHAS_FILE_RANK] = {0};
  const int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
  if (type < 0 || rank < 0) {
    return mhas_fail(error, MHAS_IO, "%s: its dataset %s cannot be read", file->path, dataset_of(file));
  }
  const bool labels = file->kind == MHAS_FILE_LABELS;
  if (H5Tget_class(type) != H5T_FLOAT && !(labels && H5Tget_class(type) == H5T_INTEGER)) {
    return mhas_fail(error, MHAS_IO, "%s: its dataset %s does not hold %s", file->path, dataset_of(file),
                     labels ? "numbers" : "floating-point numbers");
  }
  if (rank != mhas_file_rank(file) || H5Sget_simple_extent_dims(space, extent, NULL) < 0) {
    return mhas_fail(error, MHAS_IO, "%s: its dataset %s has %d dimensions; %s", file->path, dataset_of(file), rank,
                     labels ? "labels are (samples)" : "tokens are (samples, context + 1, dim), the query first");
  }
  for (int i = 0; i < rank; i++) {
    file->shape[i] = (int64_t)extent[i];
  }
  return mhas_file_check_shape(file, error);
}

/* HDF5 would print its stack of errors; what is wrong is said here in one sentence. */
static mhas_code open_hdf5(mhas_file *file, mhas_error *error) {
  hid_t opened = H5I_INVALID_HID;
  htri_t has_tokens = 0;
  mhas_code code = MHAS_OK;
  H5E_BEGIN_TRY {
    opened = H5Fopen(file->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    has_tokens = opened < 0 ? 0 : H5Lexists(opened, dataset_of(file), H5P_DEFAULT);
    file->dataset = has_tokens > 0 ? H5Dopen2(opened, dataset_of(file), H5P_DEFAULT) : H5I_INVALID_HID;
  }
  H5E_END_TRY
  if (opened < 0) {
    return mhas_fail(error, MHAS_IO, "%s: cannot be opened as HDF5: it is cut short, damaged or being written",
                     file->path);
  }
  if (file->dataset < 0) {
    code = mhas_fail(error, MHAS_IO, "%s: has no dataset %s", file->path, dataset_of(file));
  } else {
    const hid_t type = H5Dget_type(file->dataset);
    const hid_t space = H5Dget_space(file->dataset);
    code = take_space(file, type, space, error);
    if (type >= 0) {
      (void)H5Tclose(type);
    }
    if (space >= 0) {
      (void)H5Sclose(space);
    }
  }
  (void)H5Fclose(opened); /* the dataset keeps it open */
  return code;
}

static mhas_code read_hdf5(mhas_file *file, int64_t first, int64_t count, double *out, mhas_error *error) {
  const hsize_t start[MHAS_FILE_RANK] = {(hsize_t)first, 0, 0};
  const hsize_t extent[MHAS_FILE_RANK] = {(hsize_t)count, (hsize_t)file->shape[1], (hsize_t)file->shape[2]};
  bool done = false;
  if (count == 0) {
    return MHAS_OK;
  }
  H5E_BEGIN_TRY {
    const hid_t memory = H5Screate_simple(mhas_file_rank(file), extent, NULL);
    const hid_t space = H5Dget_space(file->dataset);
    done = memory >= 0 && space >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, extent, NULL) >= 0 &&
           H5Dread(file->dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, out) >= 0;
    (void)H5Sclose(memory);
    (void)H5Sclose(space);
  }
  H5E_END_TRY
  return done ? MHAS_OK
              : mhas_fail(error, MHAS_IO, "%s: samples %" PRId64 " to %" PRId64 " of its dataset %s cannot be read",
                          file->path, first, first + count - 1, dataset_of(file));
}

static void close_hdf5(mhas_file *file) {
  if (file->dataset >= 0) {
    (void)H5Dclose(file->dataset);
  }
}

const mhas_format mhas_format_hdf5 = {.open = open_hdf5, .read = read_hdf5, .close = close_hdf5};
