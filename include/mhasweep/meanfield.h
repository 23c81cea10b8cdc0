/*
 * Mean-field MLP features under linear attention: loss, gradients, and the landscape that theory describes.
 *
 * Letters: N tokens, M neurons, d dimension of a token, k features of the MLP, k0 true features. Matrices are double,
 * row-major and contiguous: X (N, d) tokens, F (N, k0) the true features of each, a (M, k) and w (M, d) the neurons,
 * h (N, k) what the MLP makes of the tokens: h(x) = (1/M) sum_i a_i sigma(w_i . x). E is the mean over the N tokens.
 *
 * A prompt holds pairs (x_i, y_i), y = v . f(x), and a query; linear attention W (k, k) predicts
 * E[y h^T] W h(x_query). Over all tasks v with E[v v^T] = I that is the loss
 *
 *   L_TF(mu, W) = 1/2 E |f - C W h|^2,   S = E[h h^T],   C = E[f h^T],   A = C^T C,   S0 = E[f f^T],
 *   L(mu) = min_W L_TF = 1/2 E |zeta|^2,   zeta = f - B h,   B = C S^-1.
 *
 * Source: Kim and Suzuki, "Transformers Learn Nonlinear Features In Context", ICML 2024, arXiv 2402.01258, equations
 * (2) and (3). Derived here and checked numerically: the gradients, the products with the integral Hessian, the ladder
 * of critical values, the curvature along the homotopy, and the loss of finite prompts.
 *
 * Nothing here is collective. An object must not be used by two threads at once.
 */
#ifndef MHASWEEP_MEANFIELD_H
#define MHASWEEP_MEANFIELD_H

#include "mhasweep/base.h"
#include "mhasweep/model.h"

/* ---- the MLP ---------------------------------------------------------------- */

typedef enum mhas_neuron { MHAS_SIGMOID, MHAS_TANH, MHAS_RELU } mhas_neuron; /* sigma; ReLU's slope at 0 is 0 */

typedef struct mhas_meanfield_shape {
  int64_t tokens, neurons, dim, features; /* N, M, d, k */
  mhas_neuron neuron;
} mhas_meanfield_shape;

/* Work space for one shape. In MHAS_FLOAT32 the work on N x M numbers is in single precision. */
typedef struct mhas_meanfield mhas_meanfield;

/* Fails with MHAS_LIMIT if a size is beyond what BLAS or the machine can address. */
mhas_code mhas_meanfield_check(const mhas_meanfield_shape *shape, mhas_error *error);
double mhas_meanfield_bytes(const mhas_meanfield_shape *shape, mhas_precision precision);
mhas_code mhas_meanfield_create(const mhas_meanfield_shape *shape, mhas_precision precision, mhas_meanfield **made,
                                mhas_error *error);
void mhas_meanfield_destroy(mhas_meanfield *m); /* NULL is fine */

/* h (N, k) of neurons a, w at the tokens X. All three are remembered, with the neurons' values, for what follows. */
void mhas_meanfield_forward(mhas_meanfield *m, const double *a, const double *w, const double *X, double *h);

/*
 * What a change of h by dh, with dL = E[q . dh], means for a particle: g_a (M, k) = E[q sigma], g_w (M, d) =
 * E[(a . q) sigma' x]. That is M times the plain gradient; its negative is a particle's velocity. q (N, k).
 */
void mhas_meanfield_backward(mhas_meanfield *m, const double *q, double *g_a, double *g_w);

/* u (N, k): the derivative of h as the neurons move along v_a (M, k), v_w (M, d). */
void mhas_meanfield_tangent(mhas_meanfield *m, const double *v_a, const double *v_w, double *u);

/* Floating-point operations of one call; a neuron's value counts as 20. */
double mhas_meanfield_forward_flops(const mhas_meanfield_shape *shape);
double mhas_meanfield_backward_flops(const mhas_meanfield_shape *shape);
double mhas_meanfield_tangent_flops(const mhas_meanfield_shape *shape);

/* ---- loss and gradients with respect to h --------------------------------------- */

/* Moments of h and F, and what follows from them; k and k0 numbers a side. Only mhas_moments_take changes them. */
typedef struct mhas_moments {
  int64_t features, true_features; /* k, k0 */
  double ridge;                    /* added to the diagonal of S, by its mean eigenvalue, before it is inverted */
  double cut_off;                  /* eigenvalues up to this, by the largest, are left out: a pseudo-inverse */
  double *S, *A, *S_inverse;       /* (k, k) */
  double *C, *B;                   /* (k0, k) */
  double *S0;                      /* (k0, k0) */
  double *eigenvalues;             /* (k): of S, ascending */
  double condition;                /* of S, without the ridge; infinite if it is not positive definite */
  int64_t rank;                    /* eigenvalues that were kept */
  double *work;
} mhas_moments;

/* Sizes, ridge and cut_off are set by the caller, the rest is zero. To be freed also after a failure. */
mhas_code mhas_moments_create(mhas_moments *m, mhas_error *error);
void mhas_moments_free(mhas_moments *m);

/* From h (N, k) and F (N, k0). MHAS_NUMERIC if S is not finite. */
mhas_code mhas_moments_take(mhas_moments *m, int64_t tokens, const double *h, const double *F, mhas_error *error);

/*
 * The following stand on moments of the same tokens.
 *
 * L(mu), with zeta (N, k0), and q (N, k) = -B^T zeta for mhas_meanfield_backward; q may be NULL. With a ridge it is
 * what B leaves, not the minimum, and q takes the ridge as constant.
 */
double mhas_reduced_loss(const mhas_moments *m, int64_t tokens, const double *h, const double *F, double *zeta,
                         double *q);

/*
 * The integral Hessian of L at mu: for u (N, k), the change of h along a vector v, the q (N, k) that makes
 * mhas_meanfield_backward give the product H_mu v. With Mx = E[zeta u^T] - B E[u h^T]:
 * q = B^T B u - S^-1 Mx^T zeta + B^T Mx S^-1 h. Symmetric: (1/M) sum_i <v_i, (H v')_i>.
 */
void mhas_reduced_hessian(const mhas_moments *m, int64_t tokens, const double *h, const double *zeta, const double *u,
                          double *q);

/* L_TF(mu, W), with its q (N, k) and its gradient g_W (k, k) = A (W S - I), which may be NULL; zeta (N, k0) gets
 * f - C W h. */
double mhas_joint_loss(const mhas_moments *m, int64_t tokens, const double *h, const double *F, const double *W,
                       double *zeta, double *q, double *g_W);
void mhas_joint_gradient(const mhas_moments *m, const double *W, double *g_W); /* the gradient in W alone */
double mhas_joint_gap(const mhas_moments *m, const double *W);                 /* |C W - B|, Frobenius */
/* The ends of A's spectrum. MHAS_NUMERIC if A is not finite. */
mhas_code mhas_joint_ends(const mhas_moments *m, double *smallest, double *largest, mhas_error *error);

/*
 * The least of L_TF over W when a prompt has n tokens: with T = E[|f|^2 h h^T] and Q = (1 - 1/n) A + T/n,
 * W = Q^-1 A S^-1 (k, k; may be NULL) and 1/2 tr S0 - 1/2 tr(A Q^-1 A S^-1). MHAS_NUMERIC if S or Q is singular.
 */
mhas_code mhas_finite_loss(const mhas_moments *m, int64_t tokens, const double *h, const double *F, int64_t n,
                           double *loss, double *W, mhas_error *error);

/* (1/M) sum_i |a_i| |w_i|: no less than the Barron norm of h. Its subgradient by particle, times `factor`, is added to
 * g_a and g_w, which may be NULL. */
double mhas_barron_norm(int64_t neurons, int64_t features, int64_t dim, const double *a, const double *w, double factor,
                        double *g_a, double *g_w);

/* ---- the landscape -------------------------------------------------------------- */

/*
 * The values that L can have at a critical point: Res B = 0 makes the range of B an invariant subspace of S0, so L is
 * half a sum of eigenvalues of S0, of k0 - k or more of them.
 */
typedef struct mhas_ladder {
  int64_t true_features, count;
  double *eigenvalues; /* (k0): of S0, ascending */
  double *rungs;       /* (count), ascending */
  double floor;        /* the lowest: no model of k features gets below it (Eckart and Young 1936) */
  double lowest;       /* the one above it; r/2 if k0 <= k */
} mhas_ladder;

enum { MHAS_LADDER_MOST = 20 }; /* true features: there are up to 2^k0 rungs */

/* From S0 (k0, k0). Free it also after a failure. MHAS_NUMERIC if S0 is not finite. */
mhas_code mhas_ladder_create(int64_t features, int64_t true_features, const double *S0, mhas_ladder *ladder,
                             mhas_error *error);
void mhas_ladder_free(mhas_ladder *ladder);
double mhas_ladder_nearest(const mhas_ladder *ladder, double loss);
/* |loss - rung| by the rung, or by `lowest` if the rung is 0. */
double mhas_ladder_distance(const mhas_ladder *ladder, double loss, double rung);

typedef struct mhas_landscape {
  double sigma_min_b;     /* smallest singular value of B */
  double sigma_min_cross; /* ... and of C */
  int64_t rank_cross;     /* singular values of C above `tolerance` times the largest */
  double curvature;       /* -tr(R^T S^-1 R Res^2): second derivative of L along h + s R f where Res B = 0 */
  double curvature_bound; /* -4 L^2 / (k tr S) */
  /* Set by the caller, or NULL: the R of that curvature (k, k0); all singular values of B and C (min(k, k0)). */
  double *R, *sigma_b, *sigma_cross;
} mhas_landscape;

/*
 * R takes the null space of B (k - rank_cross directions; the weakest one if there is none) to the directions outside
 * the range of B where most of Res = S0 - B S B^T lies. MHAS_NUMERIC if LAPACK fails.
 */
mhas_code mhas_landscape_look(const mhas_moments *m, double tolerance, mhas_landscape *look, mhas_error *error);

#endif
