/* What the files of optimize's theory share: the tangent kernel, margins, and closed forms of both. */
#ifndef MHASWEEP_EXPERIMENTS_OPTIMIZE_THEORY_H
#define MHASWEEP_EXPERIMENTS_OPTIMIZE_THEORY_H

#include "experiments/optimize.h"
#include "mhasweep/eigen.h"

/* ---- the tangent kernel (optimize_kernel.c) ---- */

/* Gram matrices (n, n) of y_i f_i, where f_i is the gradient of Phi(X_i) with respect to U, to W, and to both. */
typedef struct mhas_kernel {
  double *u, *w, *both;
} mhas_kernel;

/* At theta. To be freed also after a failure. Collective; the same on all ranks. */
mhas_code mhas_kernel_make(optimize *run, const double *theta, mhas_kernel *kernel, mhas_error *error);
void mhas_kernel_free(mhas_kernel *kernel);

/* Margins of the whole and of its two parts; theta_star = sum_i weight_i y_i f_i has length 1 and the first one. */
typedef struct mhas_margins {
  mhas_margin both, u, w;
  double least;   /* eigenvalue of `both` (signs of labels do not change them) */
  double *weight; /* (n); the caller frees it */
} mhas_margins;

/* Collective; the same on all ranks. */
mhas_code mhas_kernel_margins(const optimize *run, const mhas_kernel *kernel, mhas_margins *margins, mhas_error *error);
/* Whether a margin is more than what rounding of the kernel makes of one that is zero. */
bool mhas_margin_is_there(const optimize *run, const mhas_kernel *kernel, const mhas_margin *margin);

/* out = sum_i weight_i y_i f_i at theta, this rank's part (of each copy). Collective (for the code alone). */
mhas_code mhas_kernel_direction(optimize *run, const double *theta, const double *weight, double *out,
                                mhas_error *error);
/* min_i y_i <f_i, v>, of U's numbers and of W's, for a v like theta (of each copy). Collective. */
mhas_code mhas_kernel_scores(optimize *run, const double *theta, const double *v, double *u, double *w,
                             mhas_error *error);

/* For the cost: operations and bytes of a kernel and its margins at one theta. */
double mhas_kernel_flops(const mhas_value *values);
double mhas_kernel_bytes(const mhas_value *values, int ranks);

/* ---- closed forms (optimize_closed.c) ---- */

/* gamma_lin, gamma_attn; the exact margin of W's features alone where labels and prototypes are dealt out evenly and
 * there is no noise. NaN where data or initialisation are others. */
typedef struct mhas_closed_margins {
  double linear, attention, w;
} mhas_closed_margins;
mhas_closed_margins mhas_closed_margins_of(const mhas_value *values);

/* The paper's direction (U_star, W_star), each of length 1 over all heads and copies; this rank's part (numbers). For
 * dm1 with the one_step initialisation and key_dim 0. Not collective. */
void mhas_closed_direction(const optimize *run, double *out);
/* alpha T max_i |<xbar_i, utilde>| of the one_step initialisation run->theta0. Collective. */
mhas_code mhas_closed_deviation(const optimize *run, double *deviation, mhas_error *error);

#endif
