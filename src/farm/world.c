/*
 * N copies that each think they are alone would each run the whole sweep into the same file: the launcher's variables
 * tell.
 */
#include <stdlib.h>

#include "mhasweep/farm.h"

/* A count from the environment; 0 if it is not there or no count. */
static long count_from(const char *name) {
  const char *text = getenv(name);
  if (text == NULL || *text == '\0') {
    return 0;
  }
  char *end = NULL;
  const long count = strtol(text, &end, 10);
  return *end == '\0' && count > 0 ? count : 0;
}

static mhas_code refuse(long copies, const char *variable, const char *remedy, mhas_error *error) {
  return mhas_fail(error, MHAS_MPI,
                   "%ld copies of mhasweep were started (%s=%ld), but each thinks that it is alone: the launcher and "
                   "this program's MPI (Open MPI) do not understand each other. %s. To run one copy alone, start it "
                   "without a launcher",
                   copies, variable, copies, remedy);
}

static const char OTHER_MPI[] =
    "Likely the mpirun or mpiexec belongs to another MPI (MPICH, Intel MPI): start it with Open MPI's mpirun, the one "
    "of the installation that mhasweep was built with";
static const char NO_PMIX[] =
    "Likely srun was used without PMIx: start it with srun --mpi=pmix (srun --mpi=list shows what there is), or with "
    "Open MPI's mpirun inside the job";

mhas_code mhas_world_check(int world_size, mhas_error *error) {
  /* Open MPI's own mpirun decides where it is the launcher, also inside a SLURM step. */
  const long open_mpi = count_from("OMPI_COMM_WORLD_SIZE");
  if (world_size > 1 || open_mpi == 1) {
    return MHAS_OK;
  }
  if (open_mpi > 1) {
    return refuse(open_mpi, "OMPI_COMM_WORLD_SIZE", OTHER_MPI, error);
  }
  /* SLURM before the others: its plugins set them too. The step's count before the job's: a step may be smaller. */
  if (getenv("SLURM_STEP_ID") != NULL) {
    const char *variable = count_from("SLURM_STEP_NUM_TASKS") > 0 ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    const long tasks = count_from(variable);
    if (tasks > 1) {
      return refuse(tasks, variable, NO_PMIX, error);
    }
  }
  static const char *const others[] = {"PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const long copies = count_from(others[i]);
    if (copies > 1) {
      return refuse(copies, others[i], OTHER_MPI, error);
    }
  }
  return MHAS_OK;
}
