/*
 * The hard support vector machine of attention: the matrix of least norm that separates, in each of n samples, one
 * token from the T - 1 others, W_mm = argmin ||W||_F  such that  (x_i,alpha_i - x_it)^T W z_i >= 1 for all i and all t
 * != alpha_i.
 */
#ifndef MHASWEEP_EXPERIMENTS_SEPARATOR_H
#define MHASWEEP_EXPERIMENTS_SEPARATOR_H

#include "mhasweep/base.h"

typedef struct mhas_separator {
  int n, T, d;
  const double *X, *Z; /* tokens (n, T, d), queries (n, d); not its own */
  int corners;         /* n (T - 1) */
  int64_t *selected;   /* (n): tokens alpha that W_mm is for; the first is -1 before there is one */
  double *apart;       /* (corners, d): x_i,alpha_i - x_it */
  double *kernel;      /* (corners, corners) */
  double *q;           /* (corners) */
  double *W_mm;        /* (d, d), of norm 1 */
  double margin;       /* 1 / ||W_mm|| before it was scaled; 0: there is none */
} mhas_separator;

/* For tokens and queries that may be filled in later. To be freed also after a failure. */
mhas_code mhas_separator_create(int n, int T, int d, const double *X, const double *Z, mhas_separator *separator,
                                mhas_error *error);
void mhas_separator_free(mhas_separator *separator);

/* W_mm for these tokens (n), unless it is there already. */
mhas_code mhas_separator_find(mhas_separator *separator, const int64_t *tokens, mhas_error *error);

/* || W / ||W|| - W_mm ||^2 / 2, which is 1 - correlation. NaN where either is zero. */
double mhas_separator_misalignment(const mhas_separator *separator, const double *W);

#endif
