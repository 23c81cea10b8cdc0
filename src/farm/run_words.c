#include "farm/run_words.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "farm/talk.h"
#include "mhasweep/linalg.h"

void mhas_say(const char *format, ...) {
  char text[2 * MHAS_ERROR_LENGTH];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  (void)fprintf(stderr, "mhasweep: %s\n", text);
}

enum { BLOCK = 4096 };

mhas_code mhas_tally_file(const char *path, mhas_tally *tally, mhas_error *error) {
  *tally = (mhas_tally){0};
  mhas_reader *reader = NULL;
  MHAS_TRY(mhas_reader_open(path, &reader, error));
  const int status = mhas_reader_find(reader, "status");
  mhas_code code = status < 0 ? mhas_fail(error, MHAS_IO, "%s: has no variable `status`", path) : MHAS_OK;
  const int64_t points = mhas_reader_points(reader);
  double block[BLOCK];
  for (int64_t first = 0; code == MHAS_OK && first < points; first += BLOCK) {
    const int64_t count = points - first < BLOCK ? points - first : BLOCK;
    code = mhas_reader_numbers(reader, status, first, count, block, error);
    for (int64_t i = 0; code == MHAS_OK && i < count; i++) {
      tally->pending += block[i] == MHAS_PENDING;
      tally->running += block[i] == MHAS_RUNNING;
      tally->done += block[i] == MHAS_DONE;
      tally->failed += block[i] == MHAS_FAILED;
    }
  }
  mhas_reader_close(reader);
  return code;
}

/* The ranks of one host: how many there are, and on how many cores they may run together. */
typedef struct host {
  int ranks;
  int workers; /* ranks that compute: not the master, unless it is alone */
  int cores;
} host;

static mhas_code look_at_host(MPI_Comm comm, host *here, int *hosts, mhas_error *error) {
  int rank = 0;
  int size = 1;
  MHAS_TRY(mhas_mpi_check(MPI_Comm_rank(comm, &rank), "count the ranks", error));
  MHAS_TRY(mhas_mpi_check(MPI_Comm_size(comm, &size), "count the ranks", error));
  MPI_Comm node = MPI_COMM_NULL;
  MHAS_TRY(mhas_mpi_check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
                          "find the ranks of a host", error));
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) {
    CPU_ZERO(&cores); /* unknown: no warning will be made of it */
  }
  int node_rank = 0;
  int worker = size == 1 || rank != 0;
  int first = 0;
  int result = MPI_Comm_rank(node, &node_rank);
  if (result == MPI_SUCCESS) {
    result = MPI_Comm_size(node, &here->ranks);
  }
  if (result == MPI_SUCCESS) {
    result = MPI_Allreduce(MPI_IN_PLACE, &cores, (int)sizeof cores, MPI_BYTE, MPI_BOR, node);
  }
  if (result == MPI_SUCCESS) {
    result = MPI_Allreduce(&worker, &here->workers, 1, MPI_INT, MPI_SUM, node);
  }
  here->cores = CPU_COUNT(&cores);
  first = node_rank == 0;
  if (result == MPI_SUCCESS) {
    result = MPI_Allreduce(&first, hosts, 1, MPI_INT, MPI_SUM, comm);
  }
  const int freed = MPI_Comm_free(&node);
  return mhas_mpi_check(result == MPI_SUCCESS ? freed : result, "look at the hosts", error);
}

mhas_code mhas_say_banner(MPI_Comm comm, const mhas_sweep *sweep, int64_t rows, int64_t rows_in_file, const char *path,
                          bool quiet, mhas_error *error) {
  host here = {0};
  int hosts = 0;
  MHAS_TRY(look_at_host(comm, &here, &hosts, error));
  const int threads = mhas_blas_threads();
  int crowded = here.cores > 0 && here.workers * threads > here.cores ? here.workers : 0;
  MHAS_TRY(
      mhas_mpi_check(MPI_Allreduce(MPI_IN_PLACE, &crowded, 1, MPI_INT, MPI_MAX, comm), "compare the hosts", error));
  int rank = 0;
  int size = 1;
  MHAS_TRY(mhas_mpi_check(MPI_Comm_rank(comm, &rank), "count the ranks", error));
  MHAS_TRY(mhas_mpi_check(MPI_Comm_size(comm, &size), "count the ranks", error));
  if (rank != 0) {
    return MHAS_OK;
  }
  if (!quiet) {
    mhas_say("%s: %" PRId64 " of %" PRId64
             " points to run on %d rank%s (%d at work), %d host%s, BLAS core %s with %d thread%s -> %s",
             mhas_sweep_experiment(sweep)->name, rows, rows_in_file, size, size == 1 ? "" : "s",
             size == 1 ? 1 : size - 1, hosts, hosts == 1 ? "" : "s", mhas_blas_core(), threads, threads == 1 ? "" : "s",
             path);
  }
  if (crowded > 0) {
    mhas_say(
        "warning: %d working ranks with %d BLAS thread%s each share fewer cores than that on one host; expect them to "
        "be slow (see mpirun --bind-to, -n, OPENBLAS_NUM_THREADS, or `mhasweep doctor`)",
        crowded, threads, threads == 1 ? "" : "s");
  }
  return MHAS_OK;
}

void mhas_say_failures(const char *path, int64_t most) {
  mhas_reader *reader = NULL;
  mhas_error error;
  if (mhas_reader_open(path, &reader, &error) != MHAS_OK) {
    mhas_say("%s", error.text);
    return;
  }
  const int status = mhas_reader_find(reader, "status");
  const int reason = mhas_reader_find(reader, "error");
  const int64_t points = mhas_reader_points(reader);
  double block[BLOCK];
  for (int64_t first = 0; status >= 0 && reason >= 0 && most > 0 && first < points; first += BLOCK) {
    const int64_t count = points - first < BLOCK ? points - first : BLOCK;
    if (mhas_reader_numbers(reader, status, first, count, block, &error) != MHAS_OK) {
      break;
    }
    for (int64_t i = 0; i < count && most > 0; i++) {
      char text[MHAS_REASON_LENGTH + 1];
      if (block[i] == MHAS_FAILED &&
          mhas_reader_texts(reader, reason, first + i, 1, sizeof text, text, &error) == MHAS_OK) {
        mhas_say("point %" PRId64 " failed: %s", first + i, text);
        most--;
      }
    }
  }
  mhas_reader_close(reader);
}
