/* A set of tokens with everything that is known about the MLP on them: those of a step, and those of the test. */
#ifndef MHASWEEP_EXPERIMENTS_ICL_SIDE_H
#define MHASWEEP_EXPERIMENTS_ICL_SIDE_H

#include "experiments/icl_teacher.h"

/* Zero before it is made. */
typedef struct icl_side {
  int64_t N, M, d, k, k0; /* d: inputs */
  mhas_meanfield *mlp;
  mhas_meanfield *teaching; /* the teacher's work space */
  mhas_moments moments;
  double *X, *F;               /* (N, d), (N, k0) */
  double *h, *q, *u;           /* (N, k) */
  double *zeta;                /* (N, k0) */
  double loss, loss_attention; /* L(mu); L_TF, or L(mu) without a W */
} icl_side;

mhas_code icl_side_create(const mhas_value *values, int64_t tokens, icl_side *side, mhas_error *error);
void icl_side_free(icl_side *side);

/* Tokens first .. first + N - 1 of a stream, and their features. */
void icl_side_draw(icl_side *side, const icl_teacher *teacher, mhas_stream stream, int64_t first);

/* Neurons theta: a (M, k), then w (M, d). Takes h, moments and L(mu). */
mhas_code icl_side_forward(icl_side *side, const double *theta, mhas_error *error);

/* Behind forward: g (like theta) gets the gradient, by particle, of L(mu), or of L_TF with W (k, k), not NULL. */
void icl_side_gradient(icl_side *side, const double *W, double *g);

/* Behind forward, and with zeta of L(mu): product (like theta) with the integral Hessian of L(mu). */
void icl_side_product(icl_side *side, const double *v, double *product);

#endif
