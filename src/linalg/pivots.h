/* Column pivots of a small dense matrix. */
#ifndef MHASWEEP_LINALG_PIVOTS_H
#define MHASWEEP_LINALG_PIVOTS_H

#include "mhasweep/base.h"

/* Scratch for matrices of `rows` rows, at most `columns` columns, of which at most `count` are chosen. */
typedef struct mhas_pivoter {
  int64_t rows;
  double *q;         /* (rows, count), column-major: what the chosen columns span */
  double *share;     /* (count, columns): products with q */
  double *remaining; /* [columns] squares of lengths, without what is in the span of q; -1: chosen */
} mhas_pivoter;

mhas_code mhas_pivoter_create(int64_t rows, int64_t columns, int64_t count, mhas_pivoter *pivoter, mhas_error *error);
void mhas_pivoter_free(mhas_pivoter *pivoter);

/*
 * The first `count` <= columns pivots of QR with column pivoting of y (rows x columns, column-major, destroyed): each
 * time the column of which most is left when the span of those before is taken out.
 */
void mhas_pivots_choose(mhas_pivoter *pivoter, int64_t columns, int64_t count, double *y, int64_t *chosen);

#endif
