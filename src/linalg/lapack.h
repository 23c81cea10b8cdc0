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

/* QR: plain, with column pivoting; its orthogonal factor applied. */
void dgeqrf_(const int *m, const int *n, double *a, const int *lda, double *tau, double *work, const int *lwork,
             int *info);
void dgeqp3_(const int *m, const int *n, double *a, const int *lda, int *jpvt, double *tau, double *work,
             const int *lwork, int *info);
void dormqr_(const char *side, const char *trans, const int *m, const int *n, const int *k, const double *a,
             const int *lda, const double *tau, double *c, const int *ldc, double *work, const int *lwork, int *info,
             size_t side_length, size_t trans_length);

/* QR of a triangle on top of another matrix (of whose last l rows only the upper trapezoid is there), and its factor
 * applied to two matrices that stand on each other. */
void dtpqrt_(const int *m, const int *n, const int *l, const int *nb, double *a, const int *lda, double *b,
             const int *ldb, double *t, const int *ldt, double *work, int *info);
void dtpmqrt_(const char *side, const char *trans, const int *m, const int *n, const int *k, const int *l,
              const int *nb, const double *v, const int *ldv, const double *t, const int *ldt, double *a,
              const int *lda, double *b, const int *ldb, double *work, int *info, size_t side_length,
              size_t trans_length);

/* Column j of x becomes column k[j] of what it was (forward). */
void dlapmt_(const int *forward, const int *m, const int *n, double *x, const int *ldx, int *k);

/* One step of incremental condition estimation: the largest (job 1) or smallest (job 2) singular value of a triangular
 * matrix that grows by a row. */
void dlaic1_(const int *job, const int *j, const double *x, const double *sest, const double *w, const double *gamma,
             double *sestpr, double *s, double *c);

/* Eigenvalues of a symmetric matrix, ascending, and its eigenvectors in place of it. */
void dsyev_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda, double *w, double *work,
            const int *lwork, int *info, size_t jobz_length, size_t uplo_length);

/* Cholesky factorization. */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info, size_t uplo_length);

#endif
