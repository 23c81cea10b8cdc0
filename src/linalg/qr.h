/* The inside of a mhas_qr, and the parts that factor a matrix. */
#ifndef MHASWEEP_LINALG_QR_H
#define MHASWEEP_LINALG_QR_H

#include "linalg/grid.h"
#include "linalg/pivots.h"

struct mhas_qr {
  const mhas_grid *grid;
  mhas_cyclic *a; /* borrowed: R above the diagonal, Householder vectors below */
  mhas_random random;
  int64_t least; /* min(rows, columns) */
  int64_t steps; /* columns factored */
  double largest;
  double rest;      /* Frobenius norm of the block that was not factored */
  double *tau;      /* [local columns], ScaLAPACK's */
  double *diagonal; /* [least], |R_ii| */
  int64_t *columns; /* [columns]: which column of the matrix stands in each place */
};

/* Singular values this many times above or below a tolerance are not in doubt. */
#define MHAS_QR_DOUBT 16.0

/* The largest singular value of a, whose Frobenius norm is given, from below and mostly to 0.3 %, by Golub-Kahan
 * bidiagonalization. Collective. */
mhas_code mhas_cyclic_largest(const mhas_cyclic *a, double norm, mhas_random random, double *largest,
                              mhas_error *error);

/* The smallest singular value of the leading triangle (size x size) of *r, in units of `unit`, from above and mostly
 * within a factor 2, by inverse iteration; no diagonal entry is zero. Collective. */
mhas_code mhas_triangle_smallest(const mhas_cyclic *r, int64_t size, double unit, mhas_random random, double *smallest,
                                 mhas_error *error);

/*
 * Applies the transpose of the Householder block of columns from .. from + count - 1 (from is a multiple of the block,
 * count at most a block) to columns `first` and beyond of c, which has a's rows. work: mhas_qr_block_work numbers.
 * (PDORMQR would do, but takes the first block column by column.) Collective.
 */
void mhas_qr_apply_block(const mhas_qr *qr, int64_t from, int count, mhas_cyclic *c, int64_t first, double *work);
double mhas_qr_block_work(const mhas_qr *qr, const mhas_cyclic *c);

/* ---- the sketch: a few random mixtures of the rows, in which pivots are looked for ---- */

typedef struct mhas_sketch {
  const mhas_cyclic *a;
  double unit; /* about as large as a is, so that no square overflows */
  mhas_random random;
  int64_t rows;  /* a block, and some more for certainty */
  uint64_t used; /* rows of random numbers used so far */
  double *y;     /* (rows, local columns), column-major; on grid row 0 only, whose ranks choose */
  /* scratch */
  double *mix;     /* (rows, block): random numbers */
  double *trial;   /* (rows, local columns): destroyed in the choice */
  double *finals;  /* (rows + 1, block x grid columns): the best of each grid column, and their numbers */
  double *factors; /* (rows, block): sketch of the panel */
  double *band;    /* (block, local columns): rows of R */
  double *choice;  /* [block + 1]: what is told to all */
  int64_t *chosen; /* [block] */
  mhas_pivoter pivoter;
} mhas_sketch;

mhas_code mhas_sketch_create(const mhas_cyclic *a, double unit, mhas_random random, mhas_sketch *sketch,
                             mhas_error *error);
void mhas_sketch_free(mhas_sketch *sketch); /* not collective */

/* Mixes rows and columns `from` and beyond anew. Collective. */
void mhas_sketch_make(mhas_sketch *sketch, int64_t from);
/* Chooses `count` <= block pivots among columns `from` and beyond, and estimates the Frobenius norm of the block there;
 * the same on all ranks. Collective. */
mhas_code mhas_sketch_choose(mhas_sketch *sketch, int64_t from, int count, int64_t *pivots, double *norm,
                             mhas_error *error);
/* Takes out what rows from .. from + count - 1 of R explain, where r (count x count) is R's diagonal block, which is
 * safely regular. Collective. */
void mhas_sketch_reduce(mhas_sketch *sketch, int64_t from, int count, const double *r);

/* ---- columns that change places ---- */

typedef struct mhas_move {
  int64_t place, source; /* the column at `source` comes to stand at `place` */
  int64_t column;        /* its number in the matrix as it was at first */
} mhas_move;

typedef struct mhas_exchange {
  mhas_cyclic *a;
  double *y;     /* (extra, local columns), moves along */
  int64_t extra; /* 0 but on grid row 0 */
  mhas_move *moves;
  int64_t count;
  double *out, *in; /* columns that leave and arrive here, by partner, in the order of the moves */
  MPI_Request *requests;
} mhas_exchange;

/* For a, and a sketch y of it with `extra` rows. Collective; the freeing is not. */
mhas_code mhas_exchange_create(mhas_cyclic *a, double *y, int64_t extra, mhas_exchange *exchange, mhas_error *error);
void mhas_exchange_free(mhas_exchange *exchange);

/*
 * Brings column pivots[k] to place from + k, for k = 0 .. count - 1 one after the other, each in exchange for what
 * stands there: in a, in y and in `columns`. count <= block. Collective.
 */
mhas_code mhas_exchange_columns(mhas_exchange *exchange, int64_t from, int count, const int64_t *pivots,
                                int64_t *columns, mhas_error *error);

#endif
