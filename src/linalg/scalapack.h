/*
 * The routines of BLACS, PBLAS and ScaLAPACK in use. Their libraries come without C headers: BLACS has a C interface
 * (Cdgsum2d ...), the others are Fortran's, as in lapack.h. Descriptors are int[9]; indices into matrices start at 1.
 */
#ifndef MHASWEEP_LINALG_SCALAPACK_H
#define MHASWEEP_LINALG_SCALAPACK_H

#include <mpi.h>
#include <stddef.h>

/* ---- BLACS: grids, and messages between rectangles of them ---- */

int Csys2blacs_handle(MPI_Comm comm);
void Cfree_blacs_system_handle(int handle);
void Cblacs_gridmap(int *context, int *map, int ldmap, int rows, int columns);
void Cblacs_gridinfo(int context, int *rows, int *columns, int *row, int *column);
void Cblacs_gridexit(int context);
void Cblacs_set(int context, int what, int *value);

/* What Cblacs_set can set (Bdef.h): sums that are the same every time, and on every process. */
enum { BLACS_REPEATABLE_SUMS = 15, BLACS_COHERENT_SUMS = 16 };

/* A rectangle from one process to another. */
void Cdgesd2d(int context, int m, int n, const double *a, int lda, int row, int column);
void Cdgerv2d(int context, int m, int n, double *a, int lda, int row, int column);
/* Sum over a scope ("Row", "Column", "All"), into one process or, if row is -1, into all. */
void Cdgsum2d(int context, const char *scope, const char *topology, int m, int n, double *a, int lda, int row,
              int column);
/* Broadcast over a scope: by the one that has it, and by the others. */
void Cdgebs2d(int context, const char *scope, const char *topology, int m, int n, const double *a, int lda);
void Cdgebr2d(int context, const char *scope, const char *topology, int m, int n, double *a, int lda, int row,
              int column);

/* ---- PBLAS ---- */

void pdgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha,
             const double *a, const int *ia, const int *ja, const int *desca, const double *b, const int *ib,
             const int *jb, const int *descb, const double *beta, double *c, const int *ic, const int *jc,
             const int *descc);
void pdgeadd_(const char *trans, const int *m, const int *n, const double *alpha, const double *a, const int *ia,
              const int *ja, const int *desca, const double *beta, double *c, const int *ic, const int *jc,
              const int *descc);
void pdtrsm_(const char *side, const char *uplo, const char *trans, const char *diag, const int *m, const int *n,
             const double *alpha, const double *a, const int *ia, const int *ja, const int *desca, double *b,
             const int *ib, const int *jb, const int *descb);
void pdsyrk_(const char *uplo, const char *trans, const int *n, const int *k, const double *alpha, const double *a,
             const int *ia, const int *ja, const int *desca, const double *beta, double *c, const int *ic,
             const int *jc, const int *descc);

/* ---- ScaLAPACK ---- */

/* QR: without pivots, with column pivots. */
void pdgeqrf_(const int *m, const int *n, double *a, const int *ia, const int *ja, const int *desca, double *tau,
              double *work, const int *lwork, int *info);
void pdgeqpf_(const int *m, const int *n, double *a, const int *ia, const int *ja, const int *desca, int *ipiv,
              double *tau, double *work, const int *lwork, int *info);
/* The triangle that joins the Householder vectors of a block, and the block applied by it. */
void pdlarft_(const char *direct, const char *storev, const int *n, const int *k, const double *v, const int *iv,
              const int *jv, const int *descv, const double *tau, double *t, double *work);
void pdlarfb_(const char *side, const char *trans, const char *direct, const char *storev, const int *m, const int *n,
              const int *k, const double *v, const int *iv, const int *jv, const int *descv, const double *t, double *c,
              const int *ic, const int *jc, const int *descc, double *work);

/* LQ. */
void pdgelqf_(const int *m, const int *n, double *a, const int *ia, const int *ja, const int *desca, double *tau,
              double *work, const int *lwork, int *info);

/* Cholesky. */
void pdpotrf_(const char *uplo, const int *n, double *a, const int *ia, const int *ja, const int *desca, int *info);

/* Singular value decomposition. */
void pdgesvd_(const char *jobu, const char *jobvt, const int *m, const int *n, double *a, const int *ia, const int *ja,
              const int *desca, double *s, double *u, const int *iu, const int *ju, const int *descu, double *vt,
              const int *ivt, const int *jvt, const int *descvt, double *work, const int *lwork, int *info);

#endif
