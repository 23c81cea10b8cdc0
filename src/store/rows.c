#include "store/rows.h"

#include <math.h>
#include <string.h>

#include "store/hdf.h"
#include "store/open.h"

static bool fits(hid_t dataset, const store_column *column) {
  const hid_t stored = H5Dget_type(dataset);
  const H5T_class_t class = stored < 0 ? H5T_NO_CLASS : H5Tget_class(stored);
  const bool fixed = class != H5T_STRING || H5Tis_variable_str(stored) == 0;
  store_release(stored);
  switch (column->kind) {
    case STORE_TEXT: return class == H5T_STRING && fixed;
    case STORE_FLOAT32:
    case STORE_FLOAT64: return class == H5T_FLOAT;
    default: return class == H5T_INTEGER;
  }
}

mhas_code store_strip_open(hid_t file, const char *path, const store_column *column, int64_t points, store_strip *strip,
                           mhas_error *error) {
  *strip = (store_strip){.dataset = H5I_INVALID_HID, .type = H5I_INVALID_HID, .points = points, .as = column};
  const htri_t there = H5Lexists(file, column->name, H5P_DEFAULT);
  if (there <= 0) {
    return mhas_fail(error, MHAS_USAGE, "it has no %s", column->name);
  }
  store_dataset dataset;
  MHAS_TRY(store_open_dataset(file, path, column->name, &dataset, error));
  strip->dataset = dataset.id;
  strip->rank = column->dimension == NULL ? 1 : 2;
  strip->width = column->width;
  strip->there = strip->rank == 1 ? 1 : (int64_t)dataset.shape[1];
  strip->there = strip->there < strip->width ? strip->there : strip->width;
  strip->row_bytes = column->row_bytes;
  strip->type = column->kind == STORE_TEXT ? store_file_type(column) : H5Tcopy(store_memory_type(column->kind));
  if (strip->type < 0) {
    return store_hdf5_error(error, path, "no type for %s", column->name);
  }
  if (dataset.rank != strip->rank || dataset.shape[0] != (hsize_t)points || strip->there < 1 ||
      !fits(dataset.id, column)) {
    return mhas_fail(error, MHAS_USAGE, "its %s is of another kind than today's", column->name);
  }
  return MHAS_OK;
}

void store_strip_close(store_strip *strip) {
  store_release(strip->dataset);
  store_release(strip->type);
  strip->dataset = H5I_INVALID_HID;
  strip->type = H5I_INVALID_HID;
}

int64_t store_scratch_rows(size_t row_bytes) {
  const size_t fitting = STORE_SCRATCH_BYTES / row_bytes;
  return fitting < 1 ? 1 : fitting < STORE_SCRATCH_ROWS ? (int64_t)fitting : STORE_SCRATCH_ROWS;
}

/* ---- consecutive rows ---- */

typedef enum direction { READ, WRITE } direction;

static void fill_missing(const store_strip *strip, int64_t count, char *data) {
  const int64_t elements = count * strip->width;
  for (int64_t i = 0; i < elements; i++) {
    if (strip->as->kind == STORE_FLOAT32) {
      ((float *)(void *)data)[i] = NAN;
    } else {
      ((double *)(void *)data)[i] = NAN;
    }
  }
}

static bool move(const store_strip *strip, int64_t first, int64_t count, direction way, char *data) {
  const hsize_t start[2] = {(hsize_t)first, 0};
  const hsize_t origin[2] = {0, 0};
  const hsize_t extent[2] = {(hsize_t)count, (hsize_t)strip->there};
  const hsize_t in_memory[2] = {(hsize_t)count, (hsize_t)strip->width};
  const hid_t memory = H5Screate_simple(strip->rank, in_memory, NULL);
  const hid_t space = H5Dget_space(strip->dataset);
  bool moved = memory >= 0 && space >= 0 &&
               H5Sselect_hyperslab(memory, H5S_SELECT_SET, origin, NULL, extent, NULL) >= 0 &&
               H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, extent, NULL) >= 0;
  if (moved && way == READ && strip->there < strip->width) {
    fill_missing(strip, count, data);
  }
  moved = moved && (way == READ ? H5Dread(strip->dataset, strip->type, memory, space, H5P_DEFAULT, data)
                                : H5Dwrite(strip->dataset, strip->type, memory, space, H5P_DEFAULT, data)) >= 0;
  store_release(space);
  store_release(memory);
  return moved;
}

/* ---- rows that lie near each other go together ---- */

typedef struct span {
  int64_t low, high; /* rows of the file, both included */
  int64_t count;     /* of those that are wanted */
} span;

/* As many of the rows as a span holds that fits the scratch and is not mostly rows that nobody wants. */
static span next_span(const int64_t *rows, int64_t left, int64_t most) {
  enum { WASTE = 4, START = 64 };
  span s = {.low = rows[0], .high = rows[0], .count = 1};
  for (; s.count < left; s.count++) {
    const int64_t row = rows[s.count];
    const int64_t low = row < s.low ? row : s.low;
    const int64_t high = row > s.high ? row : s.high;
    const int64_t length = high - low + 1;
    if (length > most || length > WASTE * s.count + START) {
      break;
    }
    s.low = low;
    s.high = high;
  }
  return s;
}

bool store_gather(const store_strip *strip, const int64_t *rows, int64_t count, char *scratch, char *out) {
  const int64_t most = store_scratch_rows(strip->row_bytes);
  for (int64_t i = 0; i < count;) {
    const span s = next_span(rows + i, count - i, most);
    if (!move(strip, s.low, s.high - s.low + 1, READ, scratch)) {
      return false;
    }
    for (int64_t j = 0; j < s.count; j++, i++) {
      memcpy(out + (size_t)i * strip->row_bytes, scratch + (size_t)(rows[i] - s.low) * strip->row_bytes,
             strip->row_bytes);
    }
  }
  return true;
}

bool store_scatter(const store_strip *strip, const int64_t *rows, int64_t count, char *scratch, const char *data) {
  const int64_t most = store_scratch_rows(strip->row_bytes);
  for (int64_t i = 0; i < count;) {
    const span s = next_span(rows + i, count - i, most);
    const int64_t length = s.high - s.low + 1;
    if (length > s.count && !move(strip, s.low, length, READ, scratch)) { /* those between stay as they are */
      return false;
    }
    for (int64_t j = 0; j < s.count; j++, i++) {
      memcpy(scratch + (size_t)(rows[i] - s.low) * strip->row_bytes, data + (size_t)i * strip->row_bytes,
             strip->row_bytes);
    }
    if (!move(strip, s.low, length, WRITE, scratch)) {
      return false;
    }
  }
  return true;
}
