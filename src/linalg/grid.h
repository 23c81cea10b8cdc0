/* The inside of a grid, and what every file about block-cyclic matrices needs. */
#ifndef MHASWEEP_LINALG_GRID_H
#define MHASWEEP_LINALG_GRID_H

#include "mhasweep/linalg.h"

struct mhas_grid {
  MPI_Comm comm; /* borrowed */
  int context;   /* BLACS's; -1: none */
  int block;
  int rows, columns;
  int row, column; /* where this rank is; its number in comm is row * columns + column */
  mhas_code (*proceed)(void *context, mhas_error *error);
  void *proceed_context;
};

/* How many of `count` rows or columns in blocks belong to place `at` of `places`. */
int64_t mhas_dealt(int64_t count, int64_t block, int64_t at, int64_t places);

/* After a routine of ScaLAPACK: info < 0 means that it refused an argument. */
mhas_code mhas_scalapack_info(const char *routine, int info, mhas_error *error);

/* A workspace from what a query answered in a double, which may have been rounded or have overflowed on the way:
 * `least` is what it cannot be below. */
mhas_code mhas_scalapack_work(double asked, double least, int *length, double **work, mhas_error *error);

/* The Frobenius norm of rows and columns `first` and beyond, 0 if there are none. MHAS_NUMERIC if an entry is not
 * finite. Collective. */
mhas_code mhas_corner_norm(const mhas_cyclic *a, int64_t first, double *norm, mhas_error *error);

/* A mhas_cyclic_filler, for matrices that are zero: puts ones on the diagonal. */
mhas_code mhas_fill_identity(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns, double *block,
                             int64_t stride, mhas_error *error);

#endif
