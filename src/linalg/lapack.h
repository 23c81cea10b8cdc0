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

/* QR factorization by Householder reflections. */
void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau, double *work, const int *lwork,
             int *info);

/* One step of incremental condition estimation: the largest (job 1) or smallest (job 2) singular value of a triangular
 * matrix that grows by a row. */
void dlaic1_(const int *job, const int *j, const double *x, const double *sest, const double *w, const double *gamma,
             double *sestpr, double *s, double *c);

/* Cholesky factorization. */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t uplo_length);

#endif
