/* What the files of the mean-field MLP share: its buffers, and the kernels of both precisions. */
#ifndef MHASWEEP_MODEL_MEANFIELD_PARTS_H
#define MHASWEEP_MODEL_MEANFIELD_PARTS_H

#include "mhasweep/meanfield.h"
#include "model/parts.h"

/* Matrices in the precision of the model, row-major. What is along M neurons is turned, so that rows are long. */
typedef enum meanfield_buffer {
  MF_TOKENS, /* (N, d) */
  MF_VALUES, /* (N, M): sigma(w_i . x_n) */
  MF_W,      /* (d, M) */
  MF_A,      /* (k, M) */
  MF_OUT,    /* (M, k): a / M */
  MF_V_W,    /* (d, M) */
  MF_V_OUT,  /* (M, k): v_a / M */
  MF_BLOCK,  /* (R, M): what passes through a block of R tokens */
  MF_H,      /* (N, k): h or u */
  MF_Q,      /* (N, k): q / N */
  MF_G_A,    /* (k, M) */
  MF_G_W,    /* (d, M) */
  MF_BUFFERS
} meanfield_buffer;

typedef enum meanfield_product {
  MF_INPUTS,     /* (R, M) = tokens W */
  MF_OUTPUTS,    /* (R, k) = values out */
  MF_ADD_OUTPUT, /* (R, k) += block out */
  MF_BACK,       /* (R, M) = q A */
  MF_ONTO_A,     /* (k, M) += q^T values */
  MF_ONTO_W,     /* (d, M) += tokens^T block */
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
  int64_t block;                   /* R: tokens that are worked on at a time, so that (R, M) stays in cache */
  product product[2][MF_PRODUCTS]; /* for R tokens, and for those left over */
  void *buffer[MF_BUFFERS];
};

#endif
