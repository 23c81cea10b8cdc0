#include "farm/talk.h"

#include <stdio.h>

static const double SHORTEST_NAP = 20e-6;
static const double LONGEST_WAIT_NAP = 2e-3;

mhas_code mhas_mpi_check(int mpi_code, const char *doing, mhas_error *error) {
  if (mpi_code == MPI_SUCCESS) {
    return MHAS_OK;
  }
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(mpi_code, words, &length) != MPI_SUCCESS) {
    (void)snprintf(words, sizeof words, "error %d", mpi_code);
  }
  return mhas_fail(error, MHAS_MPI, "the farm cannot %s: %s", doing, words);
}

void mhas_nap_reset(mhas_nap *nap) { nap->next = SHORTEST_NAP; }

void mhas_nap_take(mhas_nap *nap) {
  if (nap->next < SHORTEST_NAP) {
    nap->next = SHORTEST_NAP;
  }
  mhas_sleep(nap->next);
  nap->next = 2.0 * nap->next < nap->most ? 2.0 * nap->next : nap->most;
}

mhas_code mhas_wait_asleep(MPI_Request *request, const char *doing, mhas_error *error) {
  mhas_nap nap = {.most = LONGEST_WAIT_NAP};
  for (;;) {
    int complete = 0;
    MHAS_TRY(mhas_mpi_check(MPI_Test(request, &complete, MPI_STATUS_IGNORE), doing, error));
    if (complete) {
      return MHAS_OK;
    }
    mhas_nap_take(&nap);
  }
}

static mhas_code broadcast(MPI_Comm comm, void *data, int bytes, int root, mhas_error *error) {
  static const char doing[] = "broadcast";
  MPI_Request request = MPI_REQUEST_NULL;
  MHAS_TRY(mhas_mpi_check(MPI_Ibcast(data, bytes, MPI_BYTE, root, comm, &request), doing, error));
  return mhas_wait_asleep(&request, doing, error);
}

mhas_code mhas_share(MPI_Comm comm, void *data, int bytes, mhas_error *error) {
  return broadcast(comm, data, bytes, 0, error);
}

mhas_code mhas_agree(MPI_Comm comm, mhas_error *state, mhas_error *error) {
  static const char doing[] = "compare the ranks' states";
  int rank = 0;
  int size = 0;
  MHAS_TRY(mhas_mpi_check(MPI_Comm_rank(comm, &rank), doing, error));
  MHAS_TRY(mhas_mpi_check(MPI_Comm_size(comm, &size), doing, error));
  const int candidate = state->code == MHAS_OK ? size : rank;
  int first = size;
  MPI_Request request = MPI_REQUEST_NULL;
  MHAS_TRY(mhas_mpi_check(MPI_Iallreduce(&candidate, &first, 1, MPI_INT, MPI_MIN, comm, &request), doing, error));
  MHAS_TRY(mhas_wait_asleep(&request, doing, error));
  return first == size ? MHAS_OK : broadcast(comm, state, (int)sizeof *state, first, error);
}
