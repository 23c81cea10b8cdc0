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

/* This MPI's name, the variable by which its own mpirun tells how many copies it starts, and how srun has to speak. */
#if defined(MPICH_NAME)
#define THIS_MPI "MPICH"
#define OWN_SIZE "PMI_SIZE"
#define SRUN_FAULT "srun does not speak PMI as MPICH does"
#define SRUN_RIGHT "srun --mpi=pmi2 (on a Cray --mpi=cray_shasta; "
#else
#define THIS_MPI "Open MPI"
#define OWN_SIZE "OMPI_COMM_WORLD_SIZE"
#define SRUN_FAULT "srun was used without PMIx"
#define SRUN_RIGHT "srun --mpi=pmix ("
#endif

static mhas_code refuse(long copies, const char *variable, const char *remedy, mhas_error *error) {
  return mhas_fail(error, MHAS_MPI,
                   "%ld copies of mhasweep were started (%s=%ld), but each thinks that it is alone: the launcher and "
                   "this program's MPI (" THIS_MPI
                   ") do not understand each other. %s. To run one copy alone, start it "
                   "without a launcher",
                   copies, variable, copies, remedy);
}

static const char OTHER_MPI[] = "Likely the mpirun or mpiexec belongs to another MPI: start it with " THIS_MPI
                                "'s mpirun, the one of the installation that mhasweep was built with";
static const char OTHER_SRUN[] = "Likely " SRUN_FAULT ": start it with " SRUN_RIGHT
                                 "srun --mpi=list shows what there is), or with " THIS_MPI "'s mpirun inside the job";

mhas_code mhas_world_check(int world_size, mhas_error *error) {
  /* This MPI's own mpirun decides where it is the launcher, also inside a SLURM step. */
  const long own = count_from(OWN_SIZE);
  if (world_size > 1 || own == 1) {
    return MHAS_OK;
  }
  if (own > 1) {
    return refuse(own, OWN_SIZE, OTHER_MPI, error);
  }
  /* SLURM before the others: its plugins set them too. The step's count before the job's: a step may be smaller. */
  if (getenv("SLURM_STEP_ID") != NULL) {
    const char *variable = count_from("SLURM_STEP_NUM_TASKS") > 0 ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    const long tasks = count_from(variable);
    if (tasks > 1) {
      return refuse(tasks, variable, OTHER_SRUN, error);
    }
  }
  static const char *const others[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const long copies = count_from(others[i]);
    if (copies > 1) {
      return refuse(copies, others[i], OTHER_MPI, error);
    }
  }
  return MHAS_OK;
}
