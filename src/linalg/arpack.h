/*
 * The routines of ARPACK and PARPACK in use, as Fortran has them (see lapack.h); PARPACK's take a communicator first.
 * They keep what they know between calls in variables of their own: one search at a time.
 *
 * Source: Lehoucq, Sorensen, Yang, "ARPACK Users' Guide", SIAM 1998; Maschhoff and Sorensen, "P_ARPACK", 1996.
 */
#ifndef MHASWEEP_LINALG_ARPACK_H
#define MHASWEEP_LINALG_ARPACK_H

#include <mpi.h>
#include <stddef.h>

/* Asks for products until *ido is 99: workd[ipntr[1] - 1 ...] = A workd[ipntr[0] - 1 ...]. */
void dsaupd_(int *ido, const char *bmat, const int *n, const char *which, const int *nev, double *tol, double *resid,
             const int *ncv, double *v, const int *ldv, int *iparam, int *ipntr, double *workd, double *workl,
             const int *lworkl, int *info, size_t bmat_length, size_t which_length);
void pdsaupd_(const MPI_Fint *comm, int *ido, const char *bmat, const int *n, const char *which, const int *nev,
              double *tol, double *resid, const int *ncv, double *v, const int *ldv, int *iparam, int *ipntr,
              double *workd, double *workl, const int *lworkl, int *info, size_t bmat_length, size_t which_length);

/* What was found then: iparam[4] values, which may be more than nev, and their vectors. d has room for ncv. */
void dseupd_(const int *rvec, const char *howmny, int *select, double *d, double *z, const int *ldz,
             const double *sigma, const char *bmat, const int *n, const char *which, const int *nev, double *tol,
             double *resid, const int *ncv, double *v, const int *ldv, int *iparam, int *ipntr, double *workd,
             double *workl, const int *lworkl, int *info, size_t howmny_length, size_t bmat_length,
             size_t which_length);
void pdseupd_(const MPI_Fint *comm, const int *rvec, const char *howmny, int *select, double *d, double *z,
              const int *ldz, const double *sigma, const char *bmat, const int *n, const char *which, const int *nev,
              double *tol, double *resid, const int *ncv, double *v, const int *ldv, int *iparam, int *ipntr,
              double *workd, double *workl, const int *lworkl, int *info, size_t howmny_length, size_t bmat_length,
              size_t which_length);

#endif
