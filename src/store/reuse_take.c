/*
 * Taking rows from an older file: a sweep grows without computing again what it has in common with it.
 *
 * The rows are looked up by their parameters in a hash table, and copied variable by variable in blocks, so that a row
 * costs microseconds. The status goes last, as in a run.
 */
#include <inttypes.h>

#include "store/arrays.h"
#include "store/driver.h"
#include "store/hdf.h"
#include "store/open.h"
#include "store/reuse.h"
#include "store/rows.h"

/* ---- which rows? ---- */

typedef struct pairs {
  int64_t *rows, *old; /* [count]; rows ascend */
  int64_t count;
} pairs;

/* A copy of one file into another. */
typedef struct copying {
  mhas_reuse *from;
  const char *path;
  hid_t file;
  store_layout layout;
  const mhas_rows *rows;
  mhas_value *values;
  mhas_array arrays[MHAS_ARRAYS_MOST];
  pairs pairs;
} copying;

/* The values of a row; false if it cannot have any. */
static bool point_of(copying *c, int64_t row, int64_t *replicate) {
  bool included = true;
  return mhas_sweep_point(c->from->sweep, mhas_rows_grid_index(c->rows, row), c->values, replicate, &included, NULL) ==
         MHAS_OK;
}

static int list_arrays(copying *c) {
  const mhas_experiment *experiment = mhas_sweep_experiment(c->from->sweep);
  const unsigned flags = mhas_sweep_store(c->from->sweep) & MHAS_STORE_ARRAYS;
  return flags == 0 || experiment->arrays == NULL ? 0 : experiment->arrays(c->values, flags, c->arrays);
}

static int64_t elements_of(const mhas_array *array) {
  int64_t elements = 1;
  for (int i = 0; i < array->rank; i++) {
    elements *= array->shape[i];
  }
  return elements;
}

/* An array of a file, if it is there and has this shape; to be released. */
static hid_t open_array(hid_t file, int64_t row, const mhas_array *array) {
  char name[STORE_ARRAY_NAME_LENGTH];
  hsize_t shape[H5S_MAX_RANK] = {0};
  store_array_name(row, array->name, name);
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  const hid_t space = dataset < 0 ? H5I_INVALID_HID : H5Dget_space(dataset);
  bool same = space >= 0 && H5Sget_simple_extent_dims(space, shape, NULL) == array->rank;
  for (int i = 0; same && i < array->rank; i++) {
    same = shape[i] == (hsize_t)array->shape[i];
  }
  store_release(space);
  if (!same) {
    store_release(dataset);
    return H5I_INVALID_HID;
  }
  return dataset;
}

/* Has the older row all that this sweep stores of it? */
static bool has_all(copying *c, int64_t old) {
  const mhas_reuse *from = c->from;
  const mhas_cost cost = mhas_experiment_cost(mhas_sweep_experiment(from->sweep), c->values);
  const bool curves = c->layout.first_curve < c->layout.spectrum;
  const bool spectrum = c->layout.spectrum < c->layout.count;
  if ((curves && cost.records > from->records) || (spectrum && cost.spectrum > from->singular_values)) {
    return false;
  }
  const int arrays = list_arrays(c);
  for (int i = 0; i < arrays; i++) {
    const hid_t array = open_array(from->file, old, &c->arrays[i]);
    if (array < 0) {
      return false;
    }
    store_release(array);
  }
  return true;
}

static mhas_code find_rows(copying *c, const uint8_t *status, mhas_reuse_count *count, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(c->from->sweep);
  const double memory = mhas_sweep_limits(c->from->sweep)->memory_per_rank;
  const int64_t points = mhas_rows_count(c->rows);
  pairs *p = &c->pairs;
  MHAS_TRY(mhas_alloc(&p->rows, (size_t)points, sizeof *p->rows, "the points that are taken over", error));
  MHAS_TRY(mhas_alloc(&p->old, (size_t)points, sizeof *p->old, "the points that are taken over", error));
  MHAS_TRY(mhas_alloc(&c->values, (size_t)experiment->parameter_count, sizeof *c->values, "a point's values", error));
  for (int64_t row = 0; row < points; row++) {
    int64_t replicate = 0;
    if (status[row] != MHAS_PENDING || !point_of(c, row, &replicate)) {
      continue;
    }
    const int64_t old = store_index_find(c->from->index, c->values, replicate);
    if (old < 0) {
      continue;
    }
    if (c->from->ranks[old] != mhas_experiment_ranks(experiment, c->values, memory, NULL)) {
      count->other_team++;
    } else if (!has_all(c, old)) {
      count->lacking++;
    } else {
      p->rows[p->count] = row;
      p->old[p->count++] = old;
    }
  }
  return MHAS_OK;
}

/* ---- copying ---- */

static mhas_code copy_blocks(const copying *c, const store_strip *from, const store_strip *to, char *scratch,
                             char *block, mhas_error *error) {
  const int64_t most = store_scratch_rows(to->row_bytes);
  for (int64_t first = 0; first < c->pairs.count; first += most) {
    const int64_t count = c->pairs.count - first < most ? c->pairs.count - first : most;
    if (!store_gather(from, c->pairs.old + first, count, scratch, block)) {
      return store_hdf5_error(error, c->from->path, "the variable %s cannot be read", to->as->name);
    }
    if (!store_scatter(to, c->pairs.rows + first, count, scratch, block)) {
      return store_hdf5_error(error, c->path, "the variable %s cannot be written", to->as->name);
    }
  }
  return MHAS_OK;
}

/* A variable that the older file lacks is a refusal, half a sentence in *why. */
static mhas_code copy_column(const copying *c, const store_column *column, mhas_error *why) {
  store_strip from;
  store_strip to = {.dataset = H5I_INVALID_HID, .type = H5I_INVALID_HID};
  char *scratch = NULL;
  char *block = NULL;
  const size_t rows = (size_t)store_scratch_rows(column->row_bytes);
  mhas_code code = store_strip_open(c->from->file, c->from->path, column, c->from->points, &from, why);
  if (code == MHAS_OK) {
    code = store_strip_open(c->file, c->path, column, mhas_rows_count(c->rows), &to, why);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&scratch, rows, column->row_bytes, "a block of rows", why);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&block, rows, column->row_bytes, "a block of rows", why);
  }
  if (code == MHAS_OK) {
    code = copy_blocks(c, &from, &to, scratch, block, why);
  }
  mhas_free(scratch);
  mhas_free(block);
  store_strip_close(&to);
  store_strip_close(&from);
  return code;
}

/* Those of the older file that are needed, before anything is written. */
static mhas_code check_columns(const copying *c, mhas_error *why) {
  for (int i = c->layout.first_result; i < c->layout.count; i++) {
    store_strip strip;
    const mhas_code code =
        store_strip_open(c->from->file, c->from->path, &c->layout.columns[i], c->from->points, &strip, why);
    store_strip_close(&strip);
    MHAS_TRY(code);
  }
  return MHAS_OK;
}

static mhas_code copy_array(const copying *c, int64_t row, int64_t old, const mhas_array *array, mhas_error *error) {
  double *numbers = NULL;
  MHAS_TRY(mhas_alloc(&numbers, (size_t)elements_of(array), sizeof *numbers, "a stored array", error));
  const hid_t from = open_array(c->from->file, old, array);
  const hid_t to = open_array(c->file, row, array);
  mhas_code code = MHAS_OK;
  if (from < 0 || H5Dread(from, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) < 0) {
    code = store_hdf5_error(error, c->from->path, "the array %s of point %" PRId64 " cannot be read", array->name, old);
  } else if (to < 0 || H5Dwrite(to, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) < 0) {
    code = store_hdf5_error(error, c->path, "the array %s of point %" PRId64 " cannot be written", array->name, row);
  }
  store_release(to);
  store_release(from);
  mhas_free(numbers);
  return code;
}

static mhas_code copy_arrays(copying *c, mhas_error *error) {
  for (int64_t i = 0; i < c->pairs.count; i++) {
    int64_t replicate = 0;
    const int arrays = point_of(c, c->pairs.rows[i], &replicate) ? list_arrays(c) : 0;
    for (int j = 0; j < arrays; j++) {
      MHAS_TRY(copy_array(c, c->pairs.rows[i], c->pairs.old[i], &c->arrays[j], error));
    }
  }
  return MHAS_OK;
}

/* Data first; the status, which says that it counts, when all of it is on its way. */
static mhas_code copy_rows(copying *c, const int *failure, mhas_error *error) {
  const int status = c->layout.first_run + STORE_RUN_STATUS;
  for (int i = c->layout.first_result; i < c->layout.count; i++) {
    if (i != status) {
      MHAS_TRY(copy_column(c, &c->layout.columns[i], error));
    }
  }
  MHAS_TRY(copy_arrays(c, error));
  if (H5Fflush(c->file, H5F_SCOPE_LOCAL) < 0) {
    return store_hdf5_error(error, c->path, "cannot be written");
  }
  if (*failure != 0) {
    return MHAS_OK; /* closing will say so */
  }
  return copy_column(c, &c->layout.columns[status], error);
}

static mhas_code take(copying *c, const uint8_t *status, const int *failure, mhas_reuse_count *count,
                      mhas_error *error) {
  int64_t records = 0;
  int64_t singular_values = 0;
  MHAS_TRY(store_read_length(c->file, c->path, STORE_RECORD, &records, error));
  MHAS_TRY(store_read_length(c->file, c->path, STORE_K, &singular_values, error));
  MHAS_TRY(store_layout_create(c->from->sweep, records, singular_values, &c->layout, error));
  mhas_error why = {.text = ""};
  MHAS_TRY(store_reuse_refuse(c->from, check_columns(c, &why), &why, error));
  if (c->from->refusal.length > 0) {
    return MHAS_OK;
  }
  MHAS_TRY(find_rows(c, status, count, error));
  return c->pairs.count == 0 ? MHAS_OK : copy_rows(c, failure, error);
}

mhas_code mhas_reuse_take(mhas_reuse *reuse, const char *path, const mhas_rows *rows, uint8_t *status,
                          mhas_reuse_count *count, mhas_error *error) {
  *count = (mhas_reuse_count){0};
  if (reuse->refusal.length > 0) {
    return MHAS_OK;
  }
  copying c = {.from = reuse, .path = path, .file = H5I_INVALID_HID, .rows = rows};
  int failure = 0;
  MHAS_TRY(store_open_writable(path, &c.file, &failure, error));
  mhas_code code = take(&c, status, &failure, count, error);
  code = store_driver_close(c.file, path, &failure, code, error);
  if (code == MHAS_OK && c.pairs.count > 0) {
    code = store_sync(path, error);
  }
  for (int64_t i = 0; code == MHAS_OK && i < c.pairs.count; i++) {
    status[c.pairs.rows[i]] = MHAS_DONE;
  }
  count->taken = code == MHAS_OK ? c.pairs.count : 0;
  store_layout_free(&c.layout);
  mhas_free(c.values);
  mhas_free(c.pairs.rows);
  mhas_free(c.pairs.old);
  return code;
}
