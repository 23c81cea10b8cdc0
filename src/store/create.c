/*
 * Creating a result file: every object, attribute and fill value, and the values of all parameters, by one process.
 *
 * Every dataset is contiguous, allocated and filled at once. So afterwards only raw data changes, and a disk that is
 * too small shows now.
 */
#include <hdf5_hl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/arrays.h"
#include "store/driver.h"
#include "store/hdf.h"
#include "store/layout.h"
#include "store/parameters.h"
#include "store/place.h"

/* What is needed along the way. */
typedef struct creation {
  const char *path;
  mhas_sweep *sweep;
  const mhas_rows *rows;
  int64_t points;
  store_layout layout;
  hid_t file;
  hid_t point_scale, record_scale, k_scale;
} creation;

/* Large datasets start on a page of their own, small ones stay close together. */
enum { ALIGN_FROM = 1 << 16, ALIGN_TO = 4096 };

static hid_t create_file(const char *name, int *failure) {
  const hid_t creation_properties = H5Pcreate(H5P_FILE_CREATE);
  const hid_t access = store_serial_access();
  hid_t file = H5I_INVALID_HID;
  /* netCDF tells the order of dimensions and variables from the order of creation. */
  if (creation_properties >= 0 && access >= 0 && store_driver_use(access, failure) &&
      H5Pset_link_creation_order(creation_properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) >= 0 &&
      H5Pset_alignment(access, ALIGN_FROM, ALIGN_TO) >= 0) {
    file = H5Fcreate(name, H5F_ACC_TRUNC, creation_properties, access);
  }
  store_release(access);
  store_release(creation_properties);
  return file;
}

/* ---- variables ---- */

static bool set_fill(hid_t properties, const store_column *column) {
  const double real = NAN;
  const int64_t integer = STORE_MISSING;
  if (!column->starts_missing) {
    return true; /* HDF5's default of zeros */
  }
  return column->kind == STORE_FLOAT64 || column->kind == STORE_FLOAT32
             ? H5Pset_fill_value(properties, H5T_NATIVE_DOUBLE, &real) >= 0
             : H5Pset_fill_value(properties, H5T_NATIVE_INT64, &integer) >= 0;
}

/* *no_memory: that is why it failed. */
static bool write_words(hid_t dataset, const char *const *words, bool *no_memory) {
  int8_t values[INT8_MAX];
  size_t count = 0;
  mhas_text meanings = {0};
  for (; words[count] != NULL && count < INT8_MAX; count++) {
    values[count] = (int8_t)count;
    mhas_text_append(&meanings, "%s%s", count == 0 ? "" : " ", words[count]);
  }
  const bool written = !meanings.failed &&
                       store_write_numbers(dataset, "flag_values", H5T_STD_I8LE, H5T_NATIVE_INT8, count, values) &&
                       store_write_text(dataset, "flag_meanings", mhas_text_string(&meanings));
  *no_memory = meanings.failed;
  mhas_text_free(&meanings);
  return written;
}

static bool write_attributes(hid_t dataset, const store_column *column, bool *no_memory) {
  const int8_t is_axis = column->is_axis ? 1 : 0;
  const bool is_parameter = strcmp(column->role, STORE_ROLE_PARAMETER) == 0;
  return store_write_text(dataset, "units", column->unit) && store_write_text(dataset, "long_name", column->meaning) &&
         store_write_text(dataset, "role", column->role) &&
         (column->words == NULL || write_words(dataset, column->words, no_memory)) &&
         (!is_parameter || store_write_numbers(dataset, "is_axis", H5T_STD_I8LE, H5T_NATIVE_INT8, 1, &is_axis)) &&
         /* Parameters are seldom missing: they get a _FillValue only then, and stay integers in xarray. */
         (!column->starts_missing || is_parameter || store_write_fill_value(dataset, column->kind));
}

static hid_t scale_of(const creation *c, const char *dimension) {
  return strcmp(dimension, STORE_RECORD) == 0 ? c->record_scale : c->k_scale;
}

static mhas_code create_column(const creation *c, const store_column *column, mhas_error *error) {
  const hsize_t shape[2] = {(hsize_t)c->points, (hsize_t)column->width};
  const hid_t space = H5Screate_simple(column->dimension == NULL ? 1 : 2, shape, NULL);
  const hid_t type = store_file_type(column);
  const hid_t properties = store_dataset_properties();
  hid_t dataset = H5I_INVALID_HID;
  if (space >= 0 && type >= 0 && properties >= 0 && set_fill(properties, column)) {
    dataset = H5Dcreate2(c->file, column->name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  }
  mhas_code code = MHAS_OK;
  bool no_memory = false;
  if (dataset < 0 || !write_attributes(dataset, column, &no_memory) ||
      H5DSattach_scale(dataset, c->point_scale, 0) < 0 ||
      (column->dimension != NULL && H5DSattach_scale(dataset, scale_of(c, column->dimension), 1) < 0)) {
    code = no_memory ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory: the words of %s", column->name)
                     : store_hdf5_error(error, c->path, "the variable %s cannot be created", column->name);
  }
  store_release(dataset);
  store_release(properties);
  store_release(type);
  store_release(space);
  return code;
}

/* ---- dimensions ---- */

static bool fill_scale(hid_t dataset, hid_t space, int64_t length) {
  enum { BLOCK = 4096 };
  int64_t numbers[BLOCK];
  for (int64_t first = 0; first < length; first += BLOCK) {
    const hsize_t start = (hsize_t)first;
    const hsize_t count = (hsize_t)(length - first < BLOCK ? length - first : BLOCK);
    for (hsize_t i = 0; i < count; i++) {
      numbers[i] = (int64_t)(start + i);
    }
    const hid_t memory = H5Screate_simple(1, &count, NULL);
    const bool written = memory >= 0 && H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0 &&
                         H5Dwrite(dataset, H5T_NATIVE_INT64, memory, space, H5P_DEFAULT, numbers) >= 0;
    store_release(memory);
    if (!written) {
      return false;
    }
  }
  return true;
}

static mhas_code create_scale(const creation *c, const char *name, const char *meaning, int64_t length, hid_t *scale,
                              mhas_error *error) {
  const hsize_t shape = (hsize_t)length;
  const hid_t space = H5Screate_simple(1, &shape, NULL);
  const hid_t properties = store_dataset_properties();
  hid_t dataset = H5I_INVALID_HID;
  if (space >= 0 && properties >= 0) {
    dataset = H5Dcreate2(c->file, name, H5T_STD_I64LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  }
  mhas_code code = MHAS_OK;
  if (dataset < 0 || !store_write_text(dataset, "units", "1") || !store_write_text(dataset, "long_name", meaning) ||
      H5DSset_scale(dataset, name) < 0 || !fill_scale(dataset, space, length)) {
    code = store_hdf5_error(error, c->path, "the dimension %s cannot be created", name);
  }
  store_release(properties);
  store_release(space);
  *scale = dataset;
  return code;
}

static mhas_code create_scales(creation *c, mhas_error *error) {
  MHAS_TRY(create_scale(c, STORE_POINT, "point of the sweep", c->points, &c->point_scale, error));
  if (c->layout.first_curve < c->layout.spectrum) {
    MHAS_TRY(create_scale(c, STORE_RECORD, "entry of the curves", c->layout.records, &c->record_scale, error));
  }
  if (c->layout.spectrum < c->layout.count) {
    MHAS_TRY(create_scale(c, STORE_K, "place of the singular value", c->layout.singular_values, &c->k_scale, error));
  }
  return MHAS_OK;
}

/* ---- the file's own attributes ---- */

static mhas_code write_root(const creation *c, const mhas_provenance *provenance, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(c->sweep);
  char created[32];
  char hdf5_version[32];
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  mhas_timestamp(created);
  (void)H5get_libversion(&major, &minor, &patch);
  (void)snprintf(hdf5_version, sizeof hdf5_version, "%u.%u.%u", major, minor, patch);
  const struct {
    const char *name, *text;
  } texts[] = {
      {"Conventions", "CF-1.8"},
      {"title", experiment->title},
      {STORE_ATTRIBUTE_EXPERIMENT, experiment->name},
      {"spec", mhas_sweep_text(c->sweep)},
      {"spec_overrides", mhas_sweep_overrides(c->sweep)},
      {STORE_ATTRIBUTE_CANONICAL, mhas_sweep_canonical(c->sweep)},
      {STORE_ATTRIBUTE_HASH, mhas_sweep_hash(c->sweep)},
      {"mhasweep_version", provenance->version},
      {"git_commit", provenance->git_commit},
      {"created", created},
      {"mpi_library", provenance->mpi_library},
      {"blas_library", provenance->blas_library},
      {"blas_core", provenance->blas_core},
      {"hdf5_version", hdf5_version},
      {"slurm_job_id", provenance->slurm_job_id},
      {"reused_files", provenance->reused},
  };
  bool written = true;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && written; i++) {
    written = store_write_text(c->file, texts[i].name, texts[i].text == NULL ? "" : texts[i].text);
  }
  const uint64_t seed = mhas_sweep_seed(c->sweep);
  const int64_t schema = STORE_SCHEMA;
  const int64_t mpi_size = provenance->mpi_size;
  written = written && store_write_numbers(c->file, "seed", H5T_STD_U64LE, H5T_NATIVE_UINT64, 1, &seed) &&
            store_write_numbers(c->file, STORE_ATTRIBUTE_SCHEMA, H5T_STD_I64LE, H5T_NATIVE_INT64, 1, &schema) &&
            store_write_numbers(c->file, "mpi_size", H5T_STD_I64LE, H5T_NATIVE_INT64, 1, &mpi_size);
  return written ? MHAS_OK : store_hdf5_error(error, c->path, "the attributes of the file cannot be written");
}

/* ---- the whole ---- */

/* Once a write has failed there is no use in going on; who closes the file will say so. */
static mhas_code fill_file(creation *c, const mhas_provenance *provenance, const int *failure, mhas_error *error) {
  MHAS_TRY(write_root(c, provenance, error));
  MHAS_TRY(create_scales(c, error));
  for (int i = 0; i < c->layout.count && *failure == 0; i++) {
    MHAS_TRY(create_column(c, &c->layout.columns[i], error));
  }
  if (*failure != 0) {
    return MHAS_OK;
  }
  MHAS_TRY(store_write_parameters(c->file, c->path, &c->layout, c->sweep, c->rows, error));
  return store_create_arrays(c->file, c->path, c->sweep, c->rows, error);
}

static mhas_code create_in_place(creation *c, store_place *place, double bytes, const mhas_provenance *provenance,
                                 mhas_error *error) {
  int failure = 0;
  c->file = create_file(place->temporary, &failure);
  if (c->file < 0) {
    return store_hdf5_error(error, c->path, "cannot be created");
  }
  /* After HDF5 has truncated the file, or it would give the space back. */
  mhas_code code = store_place_reserve(place, bytes, error);
  if (code == MHAS_OK) {
    code = fill_file(c, provenance, &failure, error);
  }
  store_release(c->k_scale);
  store_release(c->record_scale);
  store_release(c->point_scale);
  if (code == MHAS_OK && H5Fflush(c->file, H5F_SCOPE_LOCAL) < 0) {
    code = store_hdf5_error(error, c->path, "cannot be written");
  }
  code = store_driver_close(c->file, c->path, &failure, code, error);
  return code == MHAS_OK ? store_place_commit(place, error) : code;
}

/* Of all data exactly, and of what describes it roughly. */
static double file_bytes(const creation *c, double array_bytes) {
  enum { DESCRIPTION = 1 << 10 };
  double row = 8.0; /* of the scale */
  for (int i = 0; i < c->layout.count; i++) {
    row += (double)c->layout.columns[i].row_bytes;
  }
  return row * (double)c->points + array_bytes + (double)DESCRIPTION * c->layout.count +
         (double)strlen(mhas_sweep_text(c->sweep)) + (double)strlen(mhas_sweep_canonical(c->sweep));
}

static mhas_code check_sizes(const creation *c, const mhas_plan *plan, mhas_error *error) {
  if (c->points <= 0) {
    return mhas_fail(error, MHAS_USAGE, "%s: the sweep has no points to make a file for", c->path);
  }
  if (!plan->exact && (mhas_sweep_store(c->sweep) & (MHAS_STORE_CURVES | MHAS_STORE_SPECTRUM)) != 0) {
    return mhas_fail(error, MHAS_INTERNAL, "%s: the file cannot be laid out from an estimated plan", c->path);
  }
  return MHAS_OK;
}

mhas_code mhas_store_create(const char *path, mhas_sweep *sweep, const mhas_rows *rows, const mhas_plan *plan,
                            const mhas_provenance *provenance, mhas_error *error) {
  store_quiet();
  creation c = {.path = path,
                .sweep = sweep,
                .rows = rows,
                .points = mhas_rows_count(rows),
                .file = H5I_INVALID_HID,
                .point_scale = H5I_INVALID_HID,
                .record_scale = H5I_INVALID_HID,
                .k_scale = H5I_INVALID_HID};
  MHAS_TRY(check_sizes(&c, plan, error));
  double array_bytes = 0.0;
  MHAS_TRY(store_arrays_bytes(path, sweep, rows, &array_bytes, error));
  const unsigned store = mhas_sweep_store(sweep);
  MHAS_TRY(store_layout_create(sweep, (store & MHAS_STORE_CURVES) != 0 ? plan->records_most : 0,
                               (store & MHAS_STORE_SPECTRUM) != 0 ? plan->spectrum_most : 0, &c.layout, error));
  store_place place;
  mhas_code code = store_place_begin(path, &place, error);
  if (code == MHAS_OK) {
    code = create_in_place(&c, &place, file_bytes(&c, array_bytes), provenance, error);
  }
  store_place_end(&place);
  store_layout_free(&c.layout);
  return code;
}
