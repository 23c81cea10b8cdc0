/* What a small product is, whatever its precision: see product.h. */
#ifndef MHASWEEP_MODEL_SMALL_H
#define MHASWEEP_MODEL_SMALL_H

#include <stdbool.h>
#include <stdint.h>

/* c (m x n) = op(a) b, or +=. */
typedef struct product {
  bool a_turned, adds;
  int64_t m, n, k, lda, ldb, ldc;
  void (*kernel)(void); /* libxsmm's; NULL: BLAS has to do */
} product;

#endif
