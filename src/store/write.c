/*
 * Writing rows while a sweep runs: independent writes into what creation has laid out.
 *
 * Finished rows wait in one buffer per column until a flush, which writes runs of consecutive rows at once. Data goes
 * out before status, so a row that a reader sees as done or failed is final whenever the process dies.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "store/arrays.h"
#include "store/hdf.h"
#include "store/session.h"

static int run_column(const mhas_store *store, store_run_column column) { return store->layout.first_run + column; }

/* ---- rows of one column ---- */

typedef enum direction { READ, WRITE } direction;

/* Rows first .. first + count - 1 of a column, from or into `data`. */
static mhas_code move(mhas_store *store, int column, int64_t first, int64_t count, direction way, void *data,
                      mhas_error *error) {
  const store_column *shape = &store->layout.columns[column];
  const int rank = shape->dimension == NULL ? 1 : 2;
  const hsize_t whole[2] = {(hsize_t)store->points, (hsize_t)shape->width};
  const hsize_t start[2] = {(hsize_t)first, 0};
  const hsize_t extent[2] = {(hsize_t)count, (hsize_t)shape->width};
  const hid_t memory = H5Screate_simple(rank, extent, NULL);
  const hid_t space = H5Screate_simple(rank, whole, NULL);
  mhas_code code = MHAS_OK;
  if (memory < 0 || space < 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, extent, NULL) < 0 ||
      (way == READ ? H5Dread(store->datasets[column], store->types[column], memory, space, H5P_DEFAULT, data)
                   : H5Dwrite(store->datasets[column], store->types[column], memory, space, H5P_DEFAULT, data)) < 0) {
    code = store_hdf5_error(error, store->path, "the variable %s cannot be %s at point %" PRId64, shape->name,
                            way == READ ? "read" : "written", first);
  }
  store_release(space);
  store_release(memory);
  return code;
}

/* How many of the rows from place `first` on are consecutive. */
static int64_t run_length(const int64_t *rows, int64_t first, int64_t count) {
  int64_t length = 1;
  while (first + length < count && rows[first + length] == rows[first] + length) {
    length++;
  }
  return length;
}

static mhas_code check_row(const mhas_store *store, int64_t row, mhas_error *error) {
  if (row < 0 || row >= store->points) {
    return mhas_fail(error, MHAS_INTERNAL, "%s: there is no point %" PRId64 " among %" PRId64, store->path, row,
                     store->points);
  }
  return MHAS_OK;
}

/* ---- before the run of a row ---- */

/* One run of consecutive rows, short enough for the buffers on the stack. */
enum { BEGIN_MOST = 1024 };
static mhas_code begin_run(mhas_store *store, int64_t first, int64_t count, mhas_error *error) {
  int64_t attempts[BEGIN_MOST];
  int8_t status[BEGIN_MOST];
  const int column = run_column(store, STORE_RUN_ATTEMPTS);
  MHAS_TRY(move(store, column, first, count, READ, attempts, error));
  for (int64_t i = 0; i < count; i++) {
    attempts[i]++;
    status[i] = MHAS_RUNNING;
  }
  MHAS_TRY(move(store, column, first, count, WRITE, attempts, error));
  return move(store, run_column(store, STORE_RUN_STATUS), first, count, WRITE, status, error);
}

mhas_code mhas_store_begin(mhas_store *store, const int64_t *rows, int64_t count, mhas_error *error) {
  for (int64_t i = 0; i < count; i++) {
    MHAS_TRY(check_row(store, rows[i], error));
  }
  for (int64_t i = 0; i < count;) {
    const int64_t length = run_length(rows, i, count);
    const int64_t taken = length < BEGIN_MOST ? length : BEGIN_MOST;
    MHAS_TRY(begin_run(store, rows[i], taken, error));
    i += taken;
  }
  return MHAS_OK;
}

mhas_code mhas_store_statuses(mhas_store *store, const int64_t *rows, int64_t count, uint8_t *statuses,
                              mhas_error *error) {
  for (int64_t i = 0; i < count;) {
    const int64_t length = run_length(rows, i, count);
    MHAS_TRY(check_row(store, rows[i], error));
    MHAS_TRY(check_row(store, rows[i + length - 1], error));
    MHAS_TRY(move(store, run_column(store, STORE_RUN_STATUS), rows[i], length, READ, statuses + i, error));
    i += length;
  }
  return MHAS_OK;
}

/* ---- after it ---- */

static void *slot(const mhas_store *store, int column) {
  return store->buffers[column] + (size_t)store->used * store->layout.columns[column].row_bytes;
}

static void put_integer(const mhas_store *store, int column, int64_t number) {
  if (store->layout.columns[column].kind == STORE_INT8) {
    *(int8_t *)slot(store, column) = (int8_t)number;
  } else {
    *(int64_t *)slot(store, column) = number;
  }
}

static void put_real(const mhas_store *store, int column, double number) { *(double *)slot(store, column) = number; }

/* Cut at a whole character, one byte short of the end, and zeros behind it. */
static void put_text(const mhas_store *store, int column, const char *text) {
  const size_t length = store->layout.columns[column].text_length;
  memset(slot(store, column), 0, length);
  memcpy(slot(store, column), text, store_utf8_cut(text, length - 1));
}

static void put_results(const mhas_store *store, const mhas_row *row) {
  for (int i = 0; i < store->experiment->result_count; i++) {
    const int column = store->layout.first_result + i;
    if (store->layout.columns[column].kind == STORE_FLOAT64) {
      put_real(store, column, row == NULL ? NAN : row->results[i].real);
    } else {
      put_integer(store, column, row == NULL ? STORE_MISSING : row->results[i].integer);
    }
  }
}

static void put_wide(const mhas_store *store, const mhas_row *row) {
  const store_layout *layout = &store->layout;
  for (int column = layout->first_curve; column < layout->spectrum; column++) {
    float *out = slot(store, column);
    const int64_t there = row == NULL || row->curves == NULL ? 0 : row->record_capacity;
    const float *in = there == 0 ? NULL : row->curves + (column - layout->first_curve) * row->record_capacity;
    for (int64_t i = 0; i < layout->records; i++) {
      out[i] = i < there ? in[i] : NAN;
    }
  }
  if (layout->spectrum < layout->count) {
    double *out = slot(store, layout->spectrum);
    const int64_t there = row == NULL || row->spectrum == NULL ? 0 : row->spectrum_capacity;
    for (int64_t i = 0; i < layout->singular_values; i++) {
      out[i] = i < there ? row->spectrum[i] : NAN;
    }
  }
}

static void put_run(const mhas_store *store, const mhas_row *row, const mhas_outcome *outcome) {
  put_text(store, run_column(store, STORE_RUN_ERROR),
           outcome->status == MHAS_FAILED && outcome->reason != NULL ? outcome->reason : "");
  put_real(store, run_column(store, STORE_RUN_STARTED), outcome->started);
  put_real(store, run_column(store, STORE_RUN_SECONDS), outcome->seconds);
  put_integer(store, run_column(store, STORE_RUN_RANKS), outcome->ranks);
  put_integer(store, run_column(store, STORE_RUN_FIRST_RANK), store->rank);
  put_real(store, run_column(store, STORE_RUN_FLOPS), row == NULL ? NAN : row->flops);
  put_text(store, run_column(store, STORE_RUN_HOSTNAME), store->hostname);
}

mhas_code mhas_store_append(mhas_store *store, int64_t row_number, const mhas_row *row, const mhas_outcome *outcome,
                            mhas_error *error) {
  MHAS_TRY(check_row(store, row_number, error));
  if (outcome->status == MHAS_RUNNING || (outcome->status == MHAS_DONE && row == NULL)) {
    return mhas_fail(error, MHAS_INTERNAL, "%s: point %" PRId64 " has not ended", store->path, row_number);
  }
  if (store->ended == store->capacity) {
    MHAS_TRY(mhas_store_flush(store, error));
  }
  if (outcome->status != MHAS_PENDING) {
    /* What a failed or an earlier attempt may have left is overwritten as missing. */
    const mhas_row *counting = outcome->status == MHAS_DONE ? row : NULL;
    put_results(store, counting);
    put_wide(store, counting);
    put_run(store, row, outcome);
    store->rows[store->used++] = row_number;
  }
  store->ended_rows[store->ended] = row_number;
  store->ended_statuses[store->ended++] = (int8_t)outcome->status;
  return MHAS_OK;
}

mhas_code mhas_store_flush(mhas_store *store, mhas_error *error) {
  const store_layout *layout = &store->layout;
  for (int64_t first = 0; first < store->used;) {
    const int64_t length = run_length(store->rows, first, store->used);
    for (int column = layout->first_result; column < layout->count; column++) {
      if (store_is_buffered(layout, column)) {
        char *data = store->buffers[column] + (size_t)first * layout->columns[column].row_bytes;
        MHAS_TRY(move(store, column, store->rows[first], length, WRITE, data, error));
      }
    }
    first += length;
  }
  for (int64_t first = 0; first < store->ended;) {
    const int64_t length = run_length(store->ended_rows, first, store->ended);
    MHAS_TRY(move(store, run_column(store, STORE_RUN_STATUS), store->ended_rows[first], length, WRITE,
                  store->ended_statuses + first, error));
    first += length;
  }
  store->used = 0;
  store->ended = 0;
  return MHAS_OK;
}

/* ---- arrays ---- */

mhas_code mhas_store_keep_array(void *keep_context, const char *name, const double *data, mhas_error *error) {
  const mhas_store_keep *keep = keep_context;
  char whole[STORE_ARRAY_NAME_LENGTH];
  store_array_name(keep->row, name, whole);
  const hid_t dataset = H5Dopen2(keep->store->file, whole, H5P_DEFAULT);
  mhas_code code = MHAS_OK;
  if (dataset < 0) {
    code = store_hdf5_error(error, keep->store->path, "the array %s was not announced", whole);
  } else if (H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
    code = store_hdf5_error(error, keep->store->path, "the array %s cannot be written", whole);
  }
  store_release(dataset);
  return code;
}
