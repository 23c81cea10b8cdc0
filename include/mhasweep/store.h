/*
 * The result file: one HDF5 file per sweep, netCDF-4 conventions, one 1-D variable per parameter and per result over
 * the dimension `point`.
 *
 * Rank 0 creates every object serially, fills every variable with "missing" and fsyncs the file; from then on only raw
 * data is written, into pre-allocated contiguous datasets, by independent writes of disjoint rows. So a process may be
 * killed at any time: the file opens, and every row whose status is done or failed is final (its data was written
 * before its status).
 *
 * What is brought to the disk (fsync) when: the whole file and its folder before the first point runs; the statuses
 * that resuming sets back and the rows that are taken from older files, before anything runs; everything when the file
 * is closed, by each rank on its machine. In between, rows are handed to the operating system and not synced: with
 * hundreds of ranks on one file of a cluster's file system that would cost more than it saves. So
 *
 *   a process that dies     costs the points that it was running, and what it finished within the last second;
 *   a machine that crashes  costs also what it had not written back by itself: on Linux the rows that its ranks
 * finished within about the last 30 s; a power cut             costs the same on all machines whose disks or servers
 * lose power.
 *
 * After the latter two, pages may have reached the disk in any order. The file opens, since its structure was synced,
 * but a row of those last seconds may say done before its data is there. Where `seconds`, which every ended row has, is
 * missing, resuming and reusing take the row for pending; a row of which only other pages were lost is not noticed.
 */
#ifndef MHASWEEP_STORE_H
#define MHASWEEP_STORE_H

#include <mpi.h>

#include "mhasweep/sweep.h"

typedef enum mhas_status { MHAS_PENDING = 0, MHAS_RUNNING = 1, MHAS_DONE = 2, MHAS_FAILED = 3 } mhas_status;

enum { MHAS_REASON_LENGTH = 256, MHAS_HOSTNAME_LENGTH = 64 };

/* ---- creating and resuming: rank 0 alone, not collective ---- */

/* Facts about this run for the root attributes; strings stay the caller's. */
typedef struct mhas_provenance {
  const char *version, *git_commit, *mpi_library, *blas_library, *blas_core, *slurm_job_id;
  const char *reused; /* the older files that the run takes rows from, a line each */
  int mpi_size;
} mhas_provenance;

/* Is there something at `path`? For "an existing file is never overwritten". */
bool mhas_store_exists(const char *path);

/* Creates the file with all its objects, every row pending. Written beside the path and renamed into place when
 * complete, so a failure (full disk, read-only folder) leaves nothing behind. MHAS_IO if something stands at the path
 * already. `plan` must be exact if curves or spectra are stored. The parameters of a point that cannot be computed are
 * missing. MHAS_USAGE if arrays of more than 100,000 points are asked for. */
mhas_code mhas_store_create(const char *path, mhas_sweep *sweep, const mhas_rows *rows, const mhas_plan *plan,
                            const mhas_provenance *provenance, mhas_error *error);

/*
 * Opens an existing file for going on: checks that it is ours, complete and of the same sweep (else MHAS_USAGE with the
 * keys that differ), sets rows back to pending that are running, ended without data (after a crash of the
 * machine) or, with retry_failed, failed, and returns the status of
 * every row; the caller frees *status with mhas_free.
 */
mhas_code mhas_store_resume(const char *path, const mhas_sweep *sweep, int64_t row_count, bool retry_failed,
                            uint8_t **status, mhas_error *error);

/*
 * Taking from an older file the rows that a sweep has in common with it: those of equal parameters, replicate, seed and
 * numerics version, with all that this sweep stores, solved by as many ranks as this sweep would use. What a parameter
 * names, say a file of tokens, is taken to be the same as then. A failed row is not taken.
 */
typedef struct mhas_reuse mhas_reuse;

/* Opens the older file and makes an index of its done rows. MHAS_USAGE, in a sentence, if it is no result file, cut
 * short, or of another experiment. The sweep must outlive *reuse; the caller closes it. */
mhas_code mhas_reuse_open(const char *path, mhas_sweep *sweep, mhas_reuse **reuse, mhas_error *error);
void mhas_reuse_close(mhas_reuse *reuse); /* NULL is fine */

/* Why the file is of no use to this sweep, as it would follow a colon; "" if it may be of use. */
const char *mhas_reuse_refusal(const mhas_reuse *reuse);

/*
 * Copies into the result file at `path`, made for the same sweep, what the pending rows among `status` have in the
 * older file: parameters apart, all their variables and arrays. Their status becomes done, in the file (last of all)
 * and in `status`. Killed on the way, it leaves rows that are as pending as before.
 */
typedef struct mhas_reuse_count {
  int64_t taken;
  int64_t lacking;    /* equal, but not all that this sweep stores is there */
  int64_t other_team; /* equal, but solved by another number of ranks (limits.memory_per_rank) */
} mhas_reuse_count;
mhas_code mhas_reuse_take(mhas_reuse *reuse, const char *path, const mhas_rows *rows, uint8_t *status,
                          mhas_reuse_count *count, mhas_error *error);

/* Makes sure that one run at a time writes the file: MHAS_IO if another one does. The lock dies with the process; on a
 * file system that knows no locks there is none. *lock (-1 if there is none) is to be handed to mhas_store_unlock. */
mhas_code mhas_store_lock(const char *path, int *lock, mhas_error *error);
void mhas_store_unlock(int lock);

/* Does a run hold that lock now? Unknown where the file system knows no locks. Looks only. */
typedef enum mhas_written { MHAS_NOT_WRITTEN, MHAS_WRITTEN, MHAS_WRITTEN_UNKNOWN } mhas_written;
mhas_written mhas_store_is_written(const char *path);

/* ---- writing ---- */

typedef struct mhas_store mhas_store;

/* Opens the file for writing with the MPI-IO driver. Collective over comm, as is closing; everything between is
 * independent. All ranks return the same code. The sweep must outlive the store. */
mhas_code mhas_store_open(const char *path, MPI_Comm comm, const mhas_sweep *sweep, mhas_store **store,
                          mhas_error *error);
mhas_code mhas_store_close(mhas_store *store, mhas_error *error); /* flushes first; frees the store in any case */

/* Sizes of the file's curves and spectra, for the buffers of a mhas_row. 0 if they are not stored. */
int64_t mhas_store_record_capacity(const mhas_store *store);
int64_t mhas_store_spectrum_capacity(const mhas_store *store);

/* These rows are about to be run here: status running, one more attempt. */
mhas_code mhas_store_begin(mhas_store *store, const int64_t *rows, int64_t count, mhas_error *error);

/* What the file says of these rows just now, also of those that other ranks write; may be behind on a network file
 * system, never ahead. */
mhas_code mhas_store_statuses(mhas_store *store, const int64_t *rows, int64_t count, uint8_t *statuses,
                              mhas_error *error);

/* How the run of one row ended. */
typedef struct mhas_outcome {
  mhas_status status; /* done, failed, or pending again (given up) */
  const char *reason; /* of a failure, else "" */
  double started;     /* seconds since 1970, by the clock of the machine that ran it */
  double seconds;     /* wall time */
  int ranks;          /* that worked on it */
} mhas_outcome;

/* Takes one finished row. It reaches the file at the next flush; a full buffer flushes by itself. Only with status done
 * do the results count. */
mhas_code mhas_store_append(mhas_store *store, int64_t row_number, const mhas_row *row, const mhas_outcome *outcome,
                            mhas_error *error);
mhas_code mhas_store_flush(mhas_store *store, mhas_error *error);

/* Brings what this machine has of the file to the disk, as closing does: for who cannot close it. */
mhas_code mhas_store_sync(const mhas_store *store, mhas_error *error);

/* A mhas_row's `keep`: writes /stored/<row>/<name> at once. keep_context must point to a mhas_store_keep. */
typedef struct mhas_store_keep {
  mhas_store *store;
  int64_t row;
} mhas_store_keep;
mhas_code mhas_store_keep_array(void *keep_context, const char *name, const double *data, mhas_error *error);

/* ---- reading: serial, needs no MPI, works while a sweep writes the file ---- */

typedef struct mhas_reader mhas_reader;

typedef struct mhas_variable {
  const char *name;
  mhas_type type; /* MHAS_CHOICE and MHAS_FLAG have words */
  bool is_text;   /* error, hostname: no numbers */
  enum { MHAS_ROLE_PARAMETER, MHAS_ROLE_RESULT, MHAS_ROLE_RUN } role;
  bool is_axis; /* of the sweep: takes several values by itself */
  const char *unit, *meaning;
  const char *const *words; /* names of the values 0, 1, ... of a choice or flag */
  int word_count;
} mhas_variable;

/* MHAS_IO, in a sentence, if it is no file, no HDF5, not ours, or cut short. The caller closes *reader. */
mhas_code mhas_reader_open(const char *path, mhas_reader **reader, mhas_error *error);
void mhas_reader_close(mhas_reader *reader);
int64_t mhas_reader_points(const mhas_reader *reader);
int mhas_reader_variable_count(const mhas_reader *reader);
const mhas_variable *mhas_reader_variable(const mhas_reader *reader, int variable);
int mhas_reader_find(const mhas_reader *reader, const char *name); /* -1 if there is none */

/* A root attribute as text ("" if there is none); stays owned by the reader. */
const char *mhas_reader_attribute(mhas_reader *reader, const char *name);

/* Rows first .. first + count - 1 of a variable. Integers, choices and flags come as exact doubles (below 2^53),
 * missing ones as NaN. */
mhas_code mhas_reader_numbers(mhas_reader *reader, int variable, int64_t first, int64_t count, double *out,
                              mhas_error *error);
/* The same of a text variable; each of the `count` strings is NUL-terminated in `width` bytes. */
mhas_code mhas_reader_texts(mhas_reader *reader, int variable, int64_t first, int64_t count, size_t width, char *out,
                            mhas_error *error);

/* Curves of one point: names without "curve_", and mhas_reader_records values each (NaN past the end). */
int mhas_reader_curve_count(const mhas_reader *reader);
const char *mhas_reader_curve_name(const mhas_reader *reader, int curve);
int64_t mhas_reader_records(const mhas_reader *reader);
mhas_code mhas_reader_curve(mhas_reader *reader, int curve, int64_t point, float *out, mhas_error *error);

/* ---- export ---- */

typedef enum mhas_export_format { MHAS_EXPORT_CSV, MHAS_EXPORT_JSONL } mhas_export_format;

/* All points as CSV (a header, then a line a point; missing is empty) or JSON lines (missing is null; curves as
 * arrays), to a stdio stream. */
mhas_code mhas_export(mhas_reader *reader, mhas_export_format format, void *file, mhas_error *error);

#endif
