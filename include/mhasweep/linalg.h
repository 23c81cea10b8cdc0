/*
 * Dense linear algebra for one rank, and the BLAS under it.
 *
 * Not collective. LAPACK's info is always looked at; sizes are 64-bit here and narrowed in one place.
 */
#ifndef MHASWEEP_LINALG_H
#define MHASWEEP_LINALG_H

#include "mhasweep/base.h"

/* ---- which BLAS kernels run ------------------------------------------------ */

/* The names OpenBLAS uses: "Prescott", "Haswell", "SkylakeX" ... */
const char *mhas_blas_core(void); /* that are in use now */
const char *mhas_blas_core_for_cpu(
    void); /* that this CPU could use; NULL if the ones in use are right or nothing is known */
const char *mhas_blas_library(void); /* version and build options in one line */

/*
 * If OpenBLAS fell back to kernels far below what the CPU can do, and the user has not chosen (OPENBLAS_CORETYPE), sets
 * the variable and executes the program again with the same arguments; does not return then. To be called before
 * MPI_Init and before BLAS does work. Sets one BLAS thread unless OPENBLAS_NUM_THREADS or OMP_NUM_THREADS says
 * otherwise. `quiet`: no line on stderr about it.
 */
mhas_code mhas_blas_setup(char **argv, bool quiet, mhas_error *error);
int mhas_blas_threads(void);

#endif
