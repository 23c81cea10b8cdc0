/*
 * One layer of multi-head self-attention with one output, its logistic loss, and its first and second derivatives.
 *
 *   Phi(X) = H^{-1/2} sum_h <U_h, softmax(X W_h X^T) X>,   loss = (1/n) sum_i log(1 + exp(-y_i Phi(X_i)))
 *
 * Letters: n samples, T tokens, d dim, H heads; X (n, T, d), y (n) of -1 and 1, U (H, T, d), W (H, d, d); with d_k
 * key_dim > 0 it is W_h = W_Q,h W_K,h^T / sqrt(d_k), W_Q and W_K (H, d, d_k). Softmax is row by row. All arrays are
 * row-major in the order their shape is written, all numbers double.
 *
 * Source: Deora, Ghaderi, Taheri, Thrampoulidis, "On the Optimization and Generalization of Multi-head Attention", TMLR
 * 2024, arXiv 2310.12680; W_Q and W_K apart are not in it. Derivatives are derived: see the functions.
 */
#ifndef MHASWEEP_SELFATTENTION_H
#define MHASWEEP_SELFATTENTION_H

#include <mpi.h>

#include "mhasweep/base.h"

/*
 * A rank of a team has some of the heads; what is said of arrays of heads is then of its own ones. Heads that are equal
 * and stay so (they start equal, and the loss is symmetric in them) can be held once: `copies` says how many each one
 * stands for, and the H of the formula is heads x copies. Gradients and products are then those of each copy.
 */
typedef struct mhas_selfattention_shape {
  int64_t samples; /* n */
  int64_t tokens;  /* T */
  int64_t dim;     /* d */
  int64_t heads;   /* held, by all ranks together */
  int64_t copies;  /* at least 1 */
  int64_t key_dim; /* d_k; 0: W_h is a matrix of its own */
} mhas_selfattention_shape;

/* MHAS_LIMIT if a size is beyond BLAS's 32-bit integers. Not collective. */
mhas_code mhas_selfattention_check(const mhas_selfattention_shape *shape, mhas_error *error);

/* How many heads rank `rank` of `ranks` has, and the first of them: as even as can be, ranks <= heads. */
int64_t mhas_selfattention_heads(const mhas_selfattention_shape *shape, int rank, int ranks, int64_t *first);

/* theta of `heads` heads is U, then W, or then W_Q, then W_K, one behind the other. */
int64_t mhas_selfattention_numbers_u(const mhas_selfattention_shape *shape, int64_t heads); /* heads T d */
int64_t mhas_selfattention_numbers_w(const mhas_selfattention_shape *shape, int64_t heads); /* heads d d or 2 d d_k */
int64_t mhas_selfattention_numbers(const mhas_selfattention_shape *shape, int64_t heads);   /* both */

/* Operations of one rank's heads on all samples: outputs; outputs and gradient; outputs and what Hessian products need;
 * a Hessian product. n H (2 T d^2 + 4 T^2 d), twice that, n H (2 T d^2 + 4 T^2 d), n H (4 T d^2 + 8 T^2 d), and terms
 * of T^2. */
double mhas_selfattention_outputs_flops(const mhas_selfattention_shape *shape, int64_t heads);
double mhas_selfattention_gradient_flops(const mhas_selfattention_shape *shape, int64_t heads);
double mhas_selfattention_linearise_flops(const mhas_selfattention_shape *shape, int64_t heads);
double mhas_selfattention_hessian_flops(const mhas_selfattention_shape *shape, int64_t heads);

/* The samples, and workspaces. */
typedef struct mhas_selfattention mhas_selfattention;

typedef enum mhas_selfattention_use {
  MHAS_OUTPUTS,  /* outputs, loss, attention, features */
  MHAS_GRADIENT, /* and gradients */
  MHAS_HESSIAN   /* and products with the Hessian, which keep 2 n H T^2 numbers */
} mhas_selfattention_use;

/* Of one of `ranks` ranks. */
double mhas_selfattention_bytes(const mhas_selfattention_shape *shape, mhas_selfattention_use use, int ranks);

/*
 * X (n, T, d) and y (n) are borrowed and have to outlive the model; y may be NULL where only outputs are asked for.
 * comm: the team, whose ranks split the heads as above, or MPI_COMM_NULL for this rank alone, without MPI. Collective
 * over comm, as are the calls below unless they say otherwise: all ranks give their own part of theta and of what has
 * its shape. Only creating allocates. Sums over heads run in the order of the ranks: teams of one size get the same
 * bits. What the ranks say to each other are n numbers per evaluation. MHAS_MPI if they cannot.
 */
mhas_code mhas_selfattention_create(const mhas_selfattention_shape *shape, mhas_selfattention_use use, const double *X,
                                    const double *y, MPI_Comm comm, mhas_selfattention **model, mhas_error *error);
void mhas_selfattention_destroy(mhas_selfattention *model); /* not collective; NULL is fine */

/* Puts X (n, T, d), borrowed, in place of the samples it has. Not collective. */
void mhas_selfattention_show(mhas_selfattention *model, const double *X);

/* Phi (n), the same on all ranks. */
mhas_code mhas_selfattention_outputs(mhas_selfattention *model, const double *theta, double *Phi, mhas_error *error);

/* Of outputs and labels; Phi <= 0 on the label's side counts as an error. Not collective. */
typedef struct mhas_logistic {
  double loss;  /* mean of log(1 + exp(-y Phi)) */
  double slope; /* mean of |l'| = 1 / (1 + exp(y Phi)), at most min(1, loss) */
  double error; /* share with y Phi <= 0 */
} mhas_logistic;
mhas_logistic mhas_logistic_of(int64_t count, const double *Phi, const double *y);

/*
 * The gradient of (1/n) sum_i of the losses at theta, without sample `left_out` (still divided by n) unless that is
 * negative. Phi (n) gets the outputs; may be NULL. For one head and sample, A = softmax(X W X^T), G = U X^T,
 * M = A o (G - rowsum(A o G)): grad_U Phi_h = A X, grad_W Phi_h = X^T M X.
 */
mhas_code mhas_selfattention_gradient(mhas_selfattention *model, const double *theta, int64_t left_out,
                                      double *gradient, double *Phi, mhas_error *error);

/* Keeps what products with the Hessian of the mean loss at theta need; Phi as above. */
mhas_code mhas_selfattention_linearise(mhas_selfattention *model, const double *theta, double *Phi, mhas_error *error);

/*
 * y = Hessian v at the theta of the last linearise. The Hessian is (1/n) sum_i [l''_i g_i g_i^T + l'_i y_i D^2 Phi_i]:
 * a positive semi-definite part of a rank of at most n, and one that is block-diagonal over heads, whose smallest
 * eigenvalue is a lower bound of the Hessian's (Weyl). With copies, v is the part of each copy.
 */
mhas_code mhas_selfattention_hessian(mhas_selfattention *model, const double *v, double *y, mhas_error *error);

/*
 * The block-diagonal part alone, of this rank's heads first .. first + heads - 1: v and y are a theta of so many heads.
 * Not collective.
 */
void mhas_selfattention_hessian_blocks(mhas_selfattention *model, int64_t first, int64_t heads, const double *v,
                                       double *y);

/*
 * The NTK features of samples first .. first + count - 1: row i of F (count, numbers) is the gradient of Phi(X_i) with
 * respect to this rank's theta: H^{-1/2} (A X, X^T M X) for each head, U's columns first. With copies, those of each
 * copy: a Gram matrix of them is 1 / copies of the whole. Not collective.
 */
void mhas_selfattention_features(mhas_selfattention *model, const double *theta, int64_t first, int64_t count,
                                 double *F);

/* A (count, this rank's heads, T, T) of samples first .. first + count - 1. Not collective. */
void mhas_selfattention_maps(mhas_selfattention *model, const double *theta, int64_t first, int64_t count, double *A);

/* The attention that token t of sample i gets where relevant (n, T) is 1: summed over such t, and mean over samples,
 * heads and queries. */
mhas_code mhas_selfattention_mass(mhas_selfattention *model, const double *theta, const double *relevant, double *mass,
                                  mhas_error *error);

/*
 * Bounds, with R the largest norm of a token and B = max_h ||U_h||_F (over all ranks); for W as a matrix of its own
 * (key_dim 0). Derived in the style of the paper, with constants of their own:
 *   ||grad Phi|| <= b1 = sqrt(T) R sqrt(1 + R^4 B^2),   ||D^2 Phi|| <= kappa = sqrt(T / H) R^3 (1 + 2 R^2 B),
 *   ||grad loss|| <= b1 loss,   -kappa loss <= Hessian of the loss <= b1^2 / 4 + kappa min(1, loss).
 * Not collective.
 */
typedef struct mhas_selfattention_bounds {
  double b1, kappa;
} mhas_selfattention_bounds;
mhas_selfattention_bounds mhas_selfattention_bound(const mhas_selfattention_shape *shape, double R, double B);
double mhas_selfattention_radius(const mhas_selfattention_shape *shape, const double *X); /* R */
/* max_h ||U_h||_F of `heads` heads. */
double mhas_selfattention_largest_u(const mhas_selfattention_shape *shape, int64_t heads, const double *theta);

#endif
