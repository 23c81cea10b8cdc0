/*
 * Opening a result file for writing on all ranks, and closing it.
 *
 * Each step is agreed upon before the next, so that a rank where it fails does not leave the others in a collective
 * call.
 */
#include "store/session.h"

#include <limits.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store/driver.h"
#include "store/hdf.h"
#include "store/open.h"

enum { BUFFER_ROWS = 1024, BUFFER_BYTES = 8 << 20 };

bool store_is_buffered(const store_layout *layout, int column) {
  return column >= layout->first_result && column != layout->first_run + STORE_RUN_STATUS &&
         column != layout->first_run + STORE_RUN_ATTEMPTS;
}

/* The worst of the ranks' codes, with the words of the lowest rank that has it. */
static mhas_code agree(MPI_Comm comm, mhas_code code, mhas_error *error) {
  struct {
    int code, rank;
  } mine = {.code = (int)code}, worst;
  mhas_error said = {.code = code};
  if (MPI_Comm_rank(comm, &mine.rank) != MPI_SUCCESS ||
      MPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks could not agree on whether the result file is open");
  }
  if (worst.code == MHAS_OK) {
    return MHAS_OK;
  }
  if (worst.rank == mine.rank && error != NULL) {
    said = *error;
  }
  if (MPI_Bcast(&said, (int)sizeof said, MPI_BYTE, worst.rank, comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks could not agree on whether the result file is open");
  }
  if (worst.rank == mine.rank) {
    return code;
  }
  return mhas_fail(error, (mhas_code)worst.code, "on rank %d: %.*s", worst.rank, MHAS_ERROR_LENGTH - 32, said.text);
}

static mhas_code open_columns(mhas_store *store, mhas_error *error) {
  const store_layout *layout = &store->layout;
  for (int i = layout->first_result; i < layout->count; i++) {
    const store_column *column = &layout->columns[i];
    store_dataset dataset;
    MHAS_TRY(store_open_dataset(store->file, store->path, column->name, &dataset, error));
    store->datasets[i] = dataset.id;
    store->types[i] = column->kind == STORE_TEXT ? store_file_type(column) : H5Tcopy(store_memory_type(column->kind));
    if (store->types[i] < 0) {
      return store_hdf5_error(error, store->path, "no type for %s", column->name);
    }
    if (dataset.rank != (column->dimension == NULL ? 1 : 2) || dataset.shape[0] != (hsize_t)store->points ||
        (dataset.rank == 2 && dataset.shape[1] != (hsize_t)column->width)) {
      return mhas_fail(error, MHAS_IO, "%s: the variable %s has an unexpected shape", store->path, column->name);
    }
  }
  return MHAS_OK;
}

static mhas_code create_buffers(mhas_store *store, mhas_error *error) {
  const store_layout *layout = &store->layout;
  size_t row_bytes = 1;
  for (int i = 0; i < layout->count; i++) {
    row_bytes += store_is_buffered(layout, i) ? layout->columns[i].row_bytes : 0;
  }
  const size_t fitting = BUFFER_BYTES / row_bytes;
  store->capacity = fitting < 1 ? 1 : fitting < BUFFER_ROWS ? (int64_t)fitting : BUFFER_ROWS;
  const size_t capacity = (size_t)store->capacity;
  MHAS_TRY(mhas_alloc(&store->rows, capacity, sizeof *store->rows, "a buffer of rows", error));
  MHAS_TRY(mhas_alloc(&store->ended_rows, capacity, sizeof *store->ended_rows, "a buffer of rows", error));
  MHAS_TRY(mhas_alloc(&store->ended_statuses, capacity, sizeof *store->ended_statuses, "a buffer of rows", error));
  for (int i = 0; i < layout->count; i++) {
    if (store_is_buffered(layout, i)) {
      MHAS_TRY(mhas_alloc(&store->buffers[i], capacity, layout->columns[i].row_bytes, "a buffer of rows", error));
    }
  }
  return MHAS_OK;
}

/* Everything but opening the file itself; not collective. */
static mhas_code prepare(mhas_store *store, const mhas_sweep *sweep, mhas_error *error) {
  int64_t records = 0;
  int64_t singular_values = 0;
  MHAS_TRY(store_read_points(store->file, store->path, &store->points, error));
  MHAS_TRY(store_read_length(store->file, store->path, STORE_RECORD, &records, error));
  MHAS_TRY(store_read_length(store->file, store->path, STORE_K, &singular_values, error));
  MHAS_TRY(store_layout_create(sweep, records, singular_values, &store->layout, error));
  const size_t count = (size_t)store->layout.count;
  MHAS_TRY(mhas_alloc(&store->datasets, count, sizeof *store->datasets, "a list of variables", error));
  memset(store->datasets, 0xFF, count * sizeof *store->datasets); /* none is open yet */
  MHAS_TRY(mhas_alloc(&store->types, count, sizeof *store->types, "a list of variables", error));
  memset(store->types, 0xFF, count * sizeof *store->types);
  MHAS_TRY(mhas_alloc(&store->buffers, count, sizeof *store->buffers, "a list of variables", error));
  MHAS_TRY(open_columns(store, error));
  return create_buffers(store, error);
}

/* Collective, as closing a parallel file is. */
static mhas_code free_store(mhas_store *store, mhas_error *error) {
  mhas_code code = MHAS_OK;
  for (int i = 0; i < store->layout.count; i++) {
    store_release(store->datasets == NULL ? H5I_INVALID_HID : store->datasets[i]);
    store_release(store->types == NULL ? H5I_INVALID_HID : store->types[i]);
    mhas_free(store->buffers == NULL ? NULL : store->buffers[i]);
  }
  if (store->file >= 0) {
    if (H5Fclose(store->file) < 0) {
      code = store_hdf5_error(error, store->path, "cannot be closed");
    }
    if (code == MHAS_OK) { /* each rank for what its own machine still holds back */
      code = store_sync(store->path, error);
    }
  }
  mhas_free(store->datasets);
  mhas_free(store->types);
  mhas_free(store->buffers);
  mhas_free(store->rows);
  mhas_free(store->ended_rows);
  mhas_free(store->ended_statuses);
  store_layout_free(&store->layout);
  mhas_free(store->path);
  mhas_free(store);
  return code;
}

static mhas_code open_parallel(mhas_store *store, mhas_error *error) {
  const hid_t access = store_serial_access();
  if (access < 0 || H5Pset_fapl_mpio(access, store->comm, MPI_INFO_NULL) < 0) {
    const mhas_code code = store_hdf5_error(error, store->path, "cannot be opened with MPI-IO");
    store_release(access);
    return code;
  }
  store->file = H5Fopen(store->path, H5F_ACC_RDWR, access);
  const mhas_code code =
      store->file < 0 ? store_hdf5_error(error, store->path, "cannot be opened with MPI-IO") : MHAS_OK;
  store_release(access);
  return code;
}

static mhas_code create_store(const char *path, MPI_Comm comm, const mhas_sweep *sweep, mhas_store **store,
                              mhas_error *error) {
  const size_t length = strlen(path);
  mhas_store *created = NULL;
  MHAS_TRY(mhas_alloc(&created, 1, sizeof *created, "the result file", error));
  created->comm = comm;
  created->experiment = mhas_sweep_experiment(sweep);
  created->file = H5I_INVALID_HID;
  (void)MPI_Comm_rank(comm, &created->rank);
  (void)gethostname(created->hostname, sizeof created->hostname - 1);
  const mhas_code code = mhas_alloc(&created->path, length + 1, 1, "a file name", error);
  if (code != MHAS_OK) {
    mhas_free(created);
    return code;
  }
  memcpy(created->path, path, length);
  *store = created;
  return MHAS_OK;
}

/* Open MPI 4.1 (sharedfp/sm) takes a semaphore of the machine, named after the file but not its folder, while it opens
 * a file. A process that is killed there leaves it taken, and who opens a file of that name later waits for ever, deaf
 * to signals. Nobody here needs it; one that another run holds just now stays valid for that run. */
static void remove_stale_semaphore(const char *path) {
  const char *slash = strrchr(path, '/');
  char name[NAME_MAX + 16];
  (void)snprintf(name, sizeof name, "/OMPIO_%s", slash == NULL ? path : slash + 1);
  (void)sem_unlink(name);
}

/* A rank that does not see the file must not leave the others waiting in a collective call. */
static mhas_code check_visible(const char *path, mhas_error *error) {
  hid_t file = H5I_INVALID_HID;
  int failure = 0;
  const mhas_code code = store_open_writable(path, &file, &failure, error);
  return code == MHAS_OK ? store_driver_close(file, path, &failure, code, error) : code;
}

mhas_code mhas_store_open(const char *path, MPI_Comm comm, const mhas_sweep *sweep, mhas_store **store,
                          mhas_error *error) {
  *store = NULL;
  store_quiet();
  mhas_store *opened = NULL;
  remove_stale_semaphore(path); /* before any rank opens the file: they agree on something first */
  mhas_code code = check_visible(path, error);
  if (code == MHAS_OK) {
    code = create_store(path, comm, sweep, &opened, error);
  }
  code = agree(comm, code, error);
  if (code == MHAS_OK) {
    code = agree(comm, open_parallel(opened, error), error);
  }
  if (code == MHAS_OK) {
    code = agree(comm, prepare(opened, sweep, error), error);
  }
  if (code != MHAS_OK) {
    if (opened != NULL) {
      (void)free_store(opened, NULL);
    }
    return code;
  }
  *store = opened;
  return MHAS_OK;
}

mhas_code mhas_store_sync(const mhas_store *store, mhas_error *error) { return store_sync(store->path, error); }

mhas_code mhas_store_close(mhas_store *store, mhas_error *error) {
  const mhas_code flushed = mhas_store_flush(store, error);
  const mhas_code closed = free_store(store, flushed == MHAS_OK ? error : NULL);
  return flushed != MHAS_OK ? flushed : closed;
}

int64_t mhas_store_record_capacity(const mhas_store *store) { return store->layout.records; }

int64_t mhas_store_spectrum_capacity(const mhas_store *store) { return store->layout.singular_values; }
