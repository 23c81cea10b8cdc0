/*
 * The loops of self-attention that are no matrix products, compiled for several widths of the vector unit as those of
 * lanes.h are, with the same bits at every level.
 *
 * Matrices have T rows and C columns; a column is what one query of one head has of each token of a sample. Columns are
 * the vectors' direction, so that short ones cost nothing. A stride is from row to row.
 */
#ifndef MHASWEEP_MODEL_COLUMNS_H
#define MHASWEEP_MODEL_COLUMNS_H

#include "model/lanes.h"

typedef struct columns_double {
  /* Each column of S becomes its softmax. */
  void (*softmax)(int64_t T, int64_t C, double *S, int64_t stride);
  /* The sum of A o G. */
  double (*total)(int64_t T, int64_t C, const double *A, const double *G, int64_t stride);
  /* The mean of each column of G by the weights A is taken off; returns the sum of the means. */
  double (*centre)(int64_t T, int64_t C, const double *A, double *G, int64_t stride);
  /* The same, and G becomes A o G then. */
  double (*weigh)(int64_t T, int64_t C, const double *A, double *G, int64_t stride);
  /*
   * The derivatives, for those dS of the logits and dG of what A weighs; G is centred. dS becomes dA = A o (dS -
   * columns' means by A), and dG becomes the derivative dM = dA o G + A o (dG - g) of M = A o G, with the derivatives g
   * of the means of G; returns the sum of g. A and G have a stride of their own.
   */
  double (*tangent)(int64_t T, int64_t C, const double *A, const double *G, int64_t stride, double *dS, double *dG,
                    int64_t d_stride);
  /* dA becomes a A + b dA, and dM becomes a A o G + b dM. */
  void (*blend)(int64_t T, int64_t C, double a, double b, const double *A, const double *G, int64_t stride, double *dA,
                double *dM, int64_t d_stride);
} columns_double;

extern const columns_double mhas_columns_plain_double;
#if MHASWEEP_X86_LANES
extern const columns_double mhas_columns_avx2_double, mhas_columns_avx512_double;
#endif

const columns_double *mhas_columns_double(lanes_level level);

#endif
