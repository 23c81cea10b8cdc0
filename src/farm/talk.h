/*
 * How ranks talk: checked MPI calls, waiting without burning a core, agreeing on an error. Private to the farm.
 */
#ifndef MHASWEEP_FARM_TALK_H
#define MHASWEEP_FARM_TALK_H

#include <mpi.h>

#include "mhasweep/base.h"

/* MHAS_MPI if an MPI call's return code says that it failed: "the farm cannot <doing>: <MPI's words>". */
mhas_code mhas_mpi_check(int mpi_code, const char *doing, mhas_error *error);

/* Sleeps between two looks at the world: short after something has happened, then longer and longer. */
typedef struct mhas_nap {
  double most; /* seconds */
  double next;
} mhas_nap;
void mhas_nap_take(mhas_nap *nap);
void mhas_nap_reset(mhas_nap *nap);

/* MPI_Wait, asleep: MPI's own spins, and other ranks may be long in coming. */
mhas_code mhas_wait_asleep(MPI_Request *request, const char *doing, mhas_error *error);

/* Collective. Broadcasts from rank 0, asleep. */
mhas_code mhas_share(MPI_Comm comm, void *data, int bytes, mhas_error *error);

/* Collective. If *state is an error on any rank, it becomes the one of the first of them on all. */
mhas_code mhas_agree(MPI_Comm comm, mhas_error *state, mhas_error *error);

#endif
