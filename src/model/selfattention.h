/*
 * The inside of a mhas_selfattention: samples block by block, heads side by side.
 *
 * A column belongs to one head and one query, C = H T of them, in that order. For one sample, A and G are (T, C): row s
 * has the weights, or the products with U, of token s. For a block of b samples everything but two small products for
 * each sample and head is one product for all of them, on arrays as they lie:
 *
 *   P (H d, b T) = W X^T        S_ih (T, T) = P_ih^T X_i^T     A = softmax of S's columns
 *   G (b T, C) = X U^T          Phi_i = H^{-1/2} sum of A o G  M = A o (G - columns' means)
 *   grad_U (C, d) += A^T (c X)  N_ih (T, d) = c_i M_ih X_i     grad_W (H d, d) += N^T X,   N (b T, H d)
 */
#ifndef MHASWEEP_MODEL_SELFATTENTION_H
#define MHASWEEP_MODEL_SELFATTENTION_H

#define REAL_IS_FLOAT 0
#include "mhasweep/selfattention.h"
#include "model/columns.h"
#include "model/product.h"

struct mhas_selfattention {
  mhas_selfattention_shape shape;
  mhas_selfattention_use use;
  MPI_Comm comm;
  int rank, ranks;
  int64_t heads;   /* of this rank */
  int64_t columns; /* C = heads T */
  int64_t block;   /* b */
  double factor;   /* Phi is that times the sum over the heads held: copies / sqrt(H) */
  double root;     /* 1 / sqrt(H) */
  const columns_double *loops;
  product to_S, to_N;
  const double *X, *y;
  double *XT;     /* (n, d, T) */
  double *A, *G;  /* (b, T, C) */
  double *PN;     /* (H d, b T) or (b T, H d) */
  double *cX;     /* (b T, d) */
  double *sums;   /* (n) */
  double *gather; /* (ranks, n); NULL without a team */
  double *W;      /* (H, d, d), the product of W_Q and W_K; NULL if key_dim is 0, as the next */
  double *d_W;    /* (H, d, d): its gradient */
  /* kept by linearise */
  double *kept_A, *kept_G; /* (n, T, C); G is centred */
  double *slope;           /* (n): l'_i y_i / (n sqrt(H)) */
  double *bend;            /* (n): l''_i / (n sqrt(H)) */
  double *kept_theta;      /* key_dim > 0: theta, and the gradient of W there, and W's directions */
  double *kept_d_W;
  double *v_W;
};

/* How many samples from `first` on are one block. */
int64_t selfattention_block(const mhas_selfattention *m, int64_t first);
/* W of these weights, made if there are W_Q and W_K. */
const double *selfattention_W(const mhas_selfattention *m, const double *theta);
/* What a gradient d_W means for the weights behind `heads` W's, from `of` on: into out. `of` and out begin with U. */
void selfattention_chain(const mhas_selfattention *m, int64_t heads, const double *of, const double *d_W, double *out);

/* A and centred G of samples first .. first + count - 1, and this rank's sums into sums. */
void selfattention_forward(const mhas_selfattention *m, const double *U, const double *W, int64_t first, int64_t count,
                           double *A, double *G, double *sums);
/* Adds what N and A of `heads` heads give to d_U (heads T, d) and d_W (heads d, d): of A the products with the rows of
 * X, of M (b, T, C) both. */
void selfattention_gather(const mhas_selfattention *m, int64_t first, int64_t count, int64_t heads, const double *A,
                          const double *X, const double *M, double *d_U, double *d_W);
/* `values` summed over the team, in the order of the ranks. */
mhas_code selfattention_sum(const mhas_selfattention *m, double *values, int64_t count, mhas_error *error);

#endif
