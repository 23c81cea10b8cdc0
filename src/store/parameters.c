#include "store/parameters.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "store/hdf.h"

enum { BLOCK = 8192 };

typedef struct writing {
  const char *path;
  const store_layout *layout;
  int count; /* of the columns written here: the parameters and replicate */
  mhas_sweep *sweep;
  const mhas_rows *rows;
  hid_t *datasets; /* [count] */
  char **blocks;   /* [count][BLOCK] in the column's kind */
  bool *missing;   /* [count] has a missing value */
  mhas_value *values;
} writing;

bool store_write_fill_value(hid_t dataset, store_kind kind) {
  const store_column column = {.kind = kind};
  const double real = NAN;
  const int64_t integer = STORE_MISSING;
  const bool is_real = kind == STORE_FLOAT32 || kind == STORE_FLOAT64;
  const hid_t type = store_file_type(&column);
  const bool written =
      type >= 0 && store_write_numbers(dataset, "_FillValue", type, is_real ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64, 1,
                                       is_real ? (const void *)&real : (const void *)&integer);
  store_release(type);
  return written;
}

static void put(writing *w, int column, int64_t place, mhas_value value) {
  const size_t bytes = w->layout->columns[column].row_bytes;
  switch (w->layout->columns[column].kind) {
    case STORE_TEXT: (void)strncpy(w->blocks[column] + (size_t)place * bytes, value.text, bytes); break; /* padded */
    case STORE_FLOAT64: ((double *)(void *)w->blocks[column])[place] = value.real; break;
    case STORE_INT64: ((int64_t *)(void *)w->blocks[column])[place] = value.integer; break;
    default: ((int8_t *)w->blocks[column])[place] = (int8_t)value.integer;
  }
}

static void put_missing(writing *w, int64_t place) {
  for (int i = 0; i < w->count; i++) {
    switch (w->layout->columns[i].kind) {
      case STORE_TEXT: put(w, i, place, (mhas_value){.text = ""}); continue; /* empty is its own mark */
      case STORE_FLOAT64: put(w, i, place, (mhas_value){.real = NAN}); break;
      default: put(w, i, place, (mhas_value){.integer = STORE_MISSING});
    }
    w->missing[i] = true;
  }
}

static mhas_code take_row(writing *w, int64_t row, int64_t place, mhas_error *error) {
  int64_t replicate = STORE_MISSING;
  bool included = true;
  const mhas_code code =
      mhas_sweep_point(w->sweep, mhas_rows_grid_index(w->rows, row), w->values, &replicate, &included, error);
  if (code == MHAS_USAGE) { /* its run will fail with this reason */
    put_missing(w, place);
    return MHAS_OK;
  }
  if (code != MHAS_OK) {
    return code;
  }
  for (int i = 0; i < w->layout->replicate; i++) {
    put(w, i, place, w->values[i]);
  }
  put(w, w->layout->replicate, place, (mhas_value){.integer = replicate});
  return MHAS_OK;
}

static mhas_code write_block(writing *w, int64_t first, int64_t rows, mhas_error *error) {
  const hsize_t start = (hsize_t)first;
  const hsize_t count = (hsize_t)rows;
  const hsize_t points = (hsize_t)mhas_rows_count(w->rows);
  const hid_t memory = H5Screate_simple(1, &count, NULL);
  const hid_t space = H5Screate_simple(1, &points, NULL);
  mhas_code code = MHAS_OK;
  if (memory < 0 || space < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL) < 0) {
    code = store_hdf5_error(error, w->path, "the parameters cannot be written");
  }
  for (int i = 0; i < w->count && code == MHAS_OK; i++) {
    const store_column *column = &w->layout->columns[i];
    const hid_t text = column->kind == STORE_TEXT ? store_file_type(column) : H5I_INVALID_HID;
    const hid_t type = column->kind == STORE_TEXT ? text : store_memory_type(column->kind);
    if (type < 0 || H5Dwrite(w->datasets[i], type, memory, space, H5P_DEFAULT, w->blocks[i]) < 0) {
      code = store_hdf5_error(error, w->path, "the variable %s cannot be written", column->name);
    }
    store_release(text);
  }
  store_release(space);
  store_release(memory);
  return code;
}

static mhas_code prepare(writing *w, hid_t file, mhas_error *error) {
  const size_t count = (size_t)w->count;
  MHAS_TRY(mhas_alloc(&w->datasets, count, sizeof *w->datasets, "a list of variables", error));
  memset(w->datasets, 0xFF, count * sizeof *w->datasets); /* no dataset is open yet */
  MHAS_TRY(mhas_alloc(&w->blocks, count, sizeof *w->blocks, "a list of variables", error));
  MHAS_TRY(mhas_alloc(&w->missing, count, sizeof *w->missing, "a list of variables", error));
  MHAS_TRY(mhas_alloc(&w->values, count, sizeof *w->values, "a point", error));
  for (int i = 0; i < w->count; i++) {
    MHAS_TRY(mhas_alloc(&w->blocks[i], BLOCK, w->layout->columns[i].row_bytes, "a block of parameters", error));
    w->datasets[i] = H5Dopen2(file, w->layout->columns[i].name, H5P_DEFAULT);
    if (w->datasets[i] < 0) {
      return store_hdf5_error(error, w->path, "the variable %s cannot be opened", w->layout->columns[i].name);
    }
  }
  return MHAS_OK;
}

static mhas_code write_all(writing *w, mhas_error *error) {
  const int64_t points = mhas_rows_count(w->rows);
  for (int64_t first = 0; first < points; first += BLOCK) {
    const int64_t rows = points - first < BLOCK ? points - first : BLOCK;
    for (int64_t i = 0; i < rows; i++) {
      MHAS_TRY(take_row(w, first + i, i, error));
    }
    MHAS_TRY(write_block(w, first, rows, error));
  }
  for (int i = 0; i < w->count; i++) {
    if (w->missing[i] && !store_write_fill_value(w->datasets[i], w->layout->columns[i].kind)) {
      return store_hdf5_error(error, w->path, "the attributes of %s cannot be written", w->layout->columns[i].name);
    }
  }
  return MHAS_OK;
}

mhas_code store_write_parameters(hid_t file, const char *path, const store_layout *layout, mhas_sweep *sweep,
                                 const mhas_rows *rows, mhas_error *error) {
  writing w = {.path = path, .layout = layout, .count = layout->replicate + 1, .sweep = sweep, .rows = rows};
  mhas_code code = prepare(&w, file, error);
  if (code == MHAS_OK) {
    code = write_all(&w, error);
  }
  for (int i = 0; i < w.count; i++) {
    store_release(w.datasets == NULL ? H5I_INVALID_HID : w.datasets[i]);
    mhas_free(w.blocks == NULL ? NULL : w.blocks[i]);
  }
  mhas_free(w.values);
  mhas_free(w.missing);
  mhas_free(w.blocks);
  mhas_free(w.datasets);
  return code;
}
