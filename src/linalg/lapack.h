/*
 * The LAPACK routines in use, as Fortran has them: column-major, everything by address, the lengths of character
 * arguments at the end. Declared here because OpenBLAS brings the routines without their C header.
 */
#ifndef MHASWEEP_LINALG_LAPACK_H
#define MHASWEEP_LINALG_LAPACK_H

#include <stddef.h>

/* Singular value decomposition: by divide and conquer, and by QR iteration. */
void dgesdd_(const char *jobz, const int *m, const int *n, double *a, const int *lda, double *s, double *u,
             const int *ldu, double *vt, const int *ldvt, double *work, const int *lwork, int *iwork, int *info,
             size_t jobz_length);
void dgesvd_(const char *jobu, const char *jobvt, const int *m, const int *n, double *a, const int *lda, double *s,
             double *u, const int *ldu, double *vt, const int *ldvt, double *work, const int *lwork, int *info,
             size_t jobu_length, size_t jobvt_length);

/* Least squares of smallest norm for any rank: by divide and conquer, and by QR iteration. */
void dgelsd_(const int *m, const int *n, const int *nrhs, double *a, const int *lda, double *b, const int *ldb,
             double *s, const double *rcond, int *rank, double *work, const int *lwork, int *iwork, int *info);
void dgelss_(const int *m, const int *n, const int *nrhs, double *a, const int *lda, double *b, const int *ldb,
             double *s, const double *rcond, int *rank, double *work, const int *lwork, int *info);

/* QR with column pivoting. */
void dgeqp3_(const int *m, const int *n, double *a, const int *lda, int *jpvt, double *tau, double *work,
             const int *lwork, int *info);

#endif
