/* What the files of the mean-field MLP share: its buffers, and the kernels of both precisions. */
#ifndef MHASWEEP_MODEL_MEANFIELD_PARTS_H
#define MHASWEEP_MODEL_MEANFIELD_PARTS_H

#include "mhasweep/meanfield.h"
#include "model/parts.h"

/* Matrices in the precision of the model, row-major. What is along M neurons is turned, so that rows are long, and such
 * rows have P numbers: M, and zeros up to a multiple of 64 bytes. */
typedef enum meanfield_buffer {
  MF_TOKENS, /* (N, d) */
  MF_VALUES, /* (N, P): sigma(w_i . x_n) */
  MF_W,      /* (d, P) */
  MF_A,      /* (k, P) */
  MF_V_W,    /* (d, P) */
  MF_V_A,    /* (k, P) */
  MF_BLOCK,  /* (R, P): what passes through a block of R tokens */
  MF_H,      /* (N, k): M h or M u */
  MF_Q,      /* (N, k): q / N */
  MF_G_A,    /* (k, P) */
  MF_G_W,    /* (d, P) */
  MF_BUFFERS
} meanfield_buffer;

typedef enum meanfield_product {
  MF_INPUTS, /* (R, P) = tokens W */
  MF_BACK,   /* (R, P) = q A */
  MF_ONTO_A, /* (k, P) += q^T values */
  MF_ONTO_W, /* (d, P) += tokens^T block */
  MF_PRODUCTS
} meanfield_product;

typedef struct meanfield_kernels {
  void (*prepare)(mhas_meanfield *m);
  void (*forward)(mhas_meanfield *m, const double *a, const double *w, const double *X, double *h);
  void (*backward)(mhas_meanfield *m, const double *q, double *g_a, double *g_w);
  void (*tangent)(mhas_meanfield *m, const double *v_a, const double *v_w, double *u);
} meanfield_kernels;

extern const meanfield_kernels mhas_meanfield_kernels_float;
extern const meanfield_kernels mhas_meanfield_kernels_double;

struct mhas_meanfield {
  mhas_meanfield_shape shape;
  const meanfield_kernels *kernels;
  const void *lanes;               /* lanes_float or lanes_double */
  int64_t row;                     /* P */
  int64_t block;                   /* R: tokens that are worked on at a time, so that (R, P) stays in cache */
  product product[2][MF_PRODUCTS]; /* for R tokens, and for those left over */
  void *buffer[MF_BUFFERS];
};

#endif
