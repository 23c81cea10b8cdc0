#include "store/arrays.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "store/hdf.h"

/* Does something with the arrays of one row. */
typedef mhas_code visit_arrays(void *context, int64_t row, const mhas_array *arrays, int count, mhas_error *error);

static mhas_code visit_rows(mhas_sweep *sweep, const mhas_rows *rows, visit_arrays *visit, void *context,
                            mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  const unsigned flags = mhas_sweep_store(sweep) & MHAS_STORE_ARRAYS;
  if (flags == 0 || experiment->arrays == NULL) {
    return MHAS_OK;
  }
  mhas_value *values = NULL;
  MHAS_TRY(mhas_alloc(&values, (size_t)experiment->parameter_count, sizeof *values, "a point", error));
  mhas_code code = MHAS_OK;
  for (int64_t row = 0; row < mhas_rows_count(rows) && code == MHAS_OK; row++) {
    mhas_array arrays[MHAS_ARRAYS_MOST];
    int64_t replicate = 0;
    bool included = true;
    code = mhas_sweep_point(sweep, mhas_rows_grid_index(rows, row), values, &replicate, &included, error);
    if (code == MHAS_USAGE) { /* a point that will fail has no arrays */
      code = MHAS_OK;
      continue;
    }
    if (code == MHAS_OK) {
      code = visit(context, row, arrays, experiment->arrays(values, flags, arrays), error);
    }
  }
  mhas_free(values);
  return code;
}

/* ---- size ---- */

typedef struct census {
  const char *path;
  int64_t points;
  double bytes;
} census;

static mhas_code count_arrays(void *context, int64_t row, const mhas_array *arrays, int count, mhas_error *error) {
  census *c = context;
  (void)row;
  c->points += count > 0 ? 1 : 0;
  if (c->points > STORE_ARRAY_POINTS_MOST) {
    return mhas_fail(error, MHAS_USAGE,
                     "%s: `store:` asks for arrays (weights, data, z or attention) of more than %d points; take them "
                     "out of `store:`, or "
                     "sweep fewer points into this file",
                     c->path, STORE_ARRAY_POINTS_MOST);
  }
  for (int i = 0; i < count; i++) {
    double elements = 1.0;
    for (int j = 0; j < arrays[i].rank; j++) {
      elements *= (double)arrays[i].shape[j];
    }
    c->bytes += elements * (double)sizeof(double);
  }
  return MHAS_OK;
}

mhas_code store_arrays_bytes(const char *path, mhas_sweep *sweep, const mhas_rows *rows, double *bytes,
                             mhas_error *error) {
  census c = {.path = path};
  const mhas_code code = visit_rows(sweep, rows, count_arrays, &c, error);
  *bytes = c.bytes;
  return code;
}

/* ---- creation ---- */

hid_t store_dataset_properties(void) {
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  if (properties < 0 || H5Pset_layout(properties, H5D_CONTIGUOUS) < 0 ||
      H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY) < 0 ||
      H5Pset_fill_time(properties, H5D_FILL_TIME_ALLOC) < 0 || H5Pset_obj_track_times(properties, false) < 0) {
    store_release(properties);
    return H5I_INVALID_HID;
  }
  return properties;
}

typedef struct making {
  const char *path;
  hid_t file;
  hid_t properties;
} making;

static bool create_array(const making *m, int64_t row, const mhas_array *array) {
  hsize_t shape[MHAS_ARRAY_RANK];
  for (int i = 0; i < array->rank; i++) {
    shape[i] = (hsize_t)array->shape[i];
  }
  char name[STORE_ARRAY_NAME_LENGTH];
  store_array_name(row, array->name, name);
  const hid_t space = H5Screate_simple(array->rank, shape, NULL);
  const hid_t dataset = space < 0
                            ? H5I_INVALID_HID
                            : H5Dcreate2(m->file, name, H5T_IEEE_F64LE, space, H5P_DEFAULT, m->properties, H5P_DEFAULT);
  const bool created = dataset >= 0 && store_write_text(dataset, "units", "1") &&
                       store_write_text(dataset, "long_name", array->meaning == NULL ? "" : array->meaning);
  store_release(dataset);
  store_release(space);
  return created;
}

static mhas_code create_row(void *context, int64_t row, const mhas_array *arrays, int count, mhas_error *error) {
  const making *m = context;
  if (count == 0) {
    return MHAS_OK;
  }
  char name[STORE_ARRAY_NAME_LENGTH];
  store_array_name(row, NULL, name);
  const hid_t group = H5Gcreate2(m->file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (group < 0) {
    return store_hdf5_error(error, m->path, "the group %s cannot be created", name);
  }
  store_release(group);
  for (int i = 0; i < count; i++) {
    if (!create_array(m, row, &arrays[i])) {
      return store_hdf5_error(error, m->path, "the array %s/%s cannot be created", name, arrays[i].name);
    }
  }
  return MHAS_OK;
}

mhas_code store_create_arrays(hid_t file, const char *path, mhas_sweep *sweep, const mhas_rows *rows,
                              mhas_error *error) {
  if ((mhas_sweep_store(sweep) & MHAS_STORE_ARRAYS) == 0 || mhas_sweep_experiment(sweep)->arrays == NULL) {
    return MHAS_OK;
  }
  const double missing = NAN;
  making m = {.path = path, .file = file, .properties = store_dataset_properties()};
  const hid_t group = H5Gcreate2(file, STORE_ARRAYS, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  mhas_code code = MHAS_OK;
  if (group < 0 || m.properties < 0 || H5Pset_fill_value(m.properties, H5T_NATIVE_DOUBLE, &missing) < 0) {
    code = store_hdf5_error(error, path, "the group %s cannot be created", STORE_ARRAYS);
  } else {
    code = visit_rows(sweep, rows, create_row, &m, error);
  }
  store_release(group);
  store_release(m.properties);
  return code;
}

void store_array_name(int64_t row, const char *name, char out[STORE_ARRAY_NAME_LENGTH]) {
  (void)snprintf(out, STORE_ARRAY_NAME_LENGTH, "%s/%" PRId64 "%s%s", STORE_ARRAYS, row, name == NULL ? "" : "/",
                 name == NULL ? "" : name);
}
