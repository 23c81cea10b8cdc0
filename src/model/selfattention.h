/*
 * The inside of a mhas_selfattention: samples block by block, heads side by side.
 *
 * A column belongs to one head and one query, C = H T of them, in that order. For one sample, A and G are (T, C): row s
 * has the weights, or the products with U, of token s. Samples go through in tiles of b, as many as leave A and G in
 * the cache:
 *
 *   G (b T, C) = X U^T          P_h (d, b T) = W_h X^T    S_ih (T, T) = P_ih^T X_i^T      A = softmax of S's columns
 *   Phi_i = H^{-1/2} sum of A o G                          M = A o (G - columns' means)
 *   grad_U (C, d) += A^T (c X)  N_ih (T, d) = M_ih X_i    grad_W_h (d, d) += N_h^T (c X)
 *
 * with the gradients c of the outputs. A rank alone has them after a tile; a team after a round of tiles, for which A
 * and M are kept.
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
  int64_t tile;    /* b */
  int64_t round;   /* samples between two talks of a team, a multiple of b; b without a team */
  double factor;   /* Phi is that times the sum over the heads held: copies / sqrt(H) */
  double root;     /* 1 / sqrt(H) */
  const columns_double *loops;
  product to_P[2], to_S[2], to_d_W[2]; /* of whole tiles; of the last one */
  product to_N;
  const double *X, *y;
  double *XT;     /* (d, b T) for each tile */
  double *A, *G;  /* (round, T, C); G becomes M */
  double *PN;     /* P_h (d, b T), or N_h (b T, d) */
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

/* How many samples from `first` on are one round. */
int64_t selfattention_round(const mhas_selfattention *m, int64_t first);
/* W of these weights, made if there are W_Q and W_K. */
const double *selfattention_W(const mhas_selfattention *m, const double *theta);
/* What a gradient d_W means for the W_Q and W_K of theta, added to those of `out`; all of this rank's heads. */
void selfattention_chain(const mhas_selfattention *m, const double *theta, const double *d_W, double *out);

/* S of heads `head` and on, for W's that begin with that head's, into A (count, T, C): of samples first .. first +
 * count - 1, which are of one tile. Likewise N^T X added to d_W, for the M of these heads and the X (count T, d) given.
 */
void selfattention_logits(const mhas_selfattention *m, int64_t first, int64_t count, int64_t heads, const double *W,
                          double *A);
void selfattention_add_d_W(const mhas_selfattention *m, int64_t first, int64_t count, int64_t heads, const double *M,
                           const double *X, double *d_W);

/* What becomes of G: nothing, centred, or M. */
typedef enum selfattention_G { PLAIN_G, CENTRED_G, WEIGHED_G } selfattention_G;

/* A and G of samples first .. first + count - 1, which are of one tile or begin with one, and this rank's sums into
 * sums (count). */
void selfattention_forward(const mhas_selfattention *m, const double *U, const double *W, int64_t first, int64_t count,
                           selfattention_G kind, double *A, double *G, double *sums);
/* `values` summed over the team, in the order of the ranks. */
mhas_code selfattention_sum(const mhas_selfattention *m, double *values, int64_t count, mhas_error *error);

#endif
