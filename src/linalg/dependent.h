/* Making small dependent subsets out of large ones. */
#ifndef MHASWEEP_LINALG_DEPENDENT_H
#define MHASWEEP_LINALG_DEPENDENT_H

#include "mhasweep/kruskal.h"

/* What reducing needs: vectors of length one, and space. */
typedef struct mhas_reducer {
  const mhas_vectors *vectors;
  double tolerance;
  double *unit; /* (count, dim): the vectors at length one; zero ones stay zero */
  mhas_prefix *prefix;
  double *combination;    /* [dim] */
  int64_t *order, *other; /* [dim] */
  double *rows;           /* (dim, dim) */
  double *sigma;          /* [dim] */
  mhas_dependent *smallest;
} mhas_reducer;

mhas_code mhas_reducer_create(const mhas_vectors *vectors, double tolerance, mhas_dependent *smallest,
                              mhas_reducer *reducer, mhas_error *error);
void mhas_reducer_free(mhas_reducer *reducer); /* also after a failure */

/* The smallest subset is now these rows, at most dim, if they are fewer and their singular values say that they are
 * dependent. */
mhas_code mhas_reducer_offer(mhas_reducer *reducer, const int64_t *rows, int64_t count, mhas_error *error);

/*
 * order[0] .. order[k - 1] are independent, and order[k] depends on them: by which of them? Those with the largest
 * coefficients come first in a new order, whose first dependent prefix is offered; and so on while that makes it
 * shorter. Nothing happens if the coefficients rule out a smaller subset than the smallest.
 */
mhas_code mhas_reducer_shrink(mhas_reducer *reducer, const int64_t *order, int64_t k, mhas_error *error);

#endif
