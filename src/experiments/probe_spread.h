/* The probe's linear algebra where Z is spread over a team of ranks (or lies block-cyclic on one). */
#ifndef MHASWEEP_EXPERIMENTS_PROBE_SPREAD_H
#define MHASWEEP_EXPERIMENTS_PROBE_SPREAD_H

#include "mhasweep/experiments.h"
#include "mhasweep/model.h"

/* How rank and least squares are found; the words of the parameter `solver`, in this order. */
typedef enum mhas_probe_solver { MHAS_SOLVE_SVD, MHAS_SOLVE_RRQR, MHAS_SOLVE_QP3 } mhas_probe_solver;

enum { MHAS_PROBE_RANKS = 4 }; /* tolerances: the standard one, 1e-3, 1e-6, 1e-9 */

typedef struct mhas_spread_probe {
  const mhas_task *task;
  mhas_features_shape shape;
  mhas_data_shape data; /* classes 0: regression */
  int64_t width;        /* H d */
  int64_t outputs;
  mhas_probe_solver solver;
  bool loose_ranks; /* whether the three loose ranks are wanted; they are -1 if not */
  double fit_tolerance;
  const double *W_Q, *W_K, *compose;    /* as for mhas_features, on every rank */
  const mhas_features_samples *samples; /* that Z is made of; not collective */

  /* Filled in, the same on all ranks. */
  int64_t ranks[MHAS_PROBE_RANKS];
  double condition;
  double residual;
  bool memorized;
  int64_t saturated;
  double *sigma; /* (min(T, H d)), the caller's; NULL: not wanted, unless the solver is svd */
  double *B;     /* (H d, outputs), the caller's; NULL: not wanted */
  double *Z;     /* (T, H d), whole on every rank, the caller's; NULL: not wanted */
} mhas_spread_probe;

/* Collective over the task's team; MPI has to be there also for a team of one. */
mhas_code mhas_probe_spread(mhas_spread_probe *probe, mhas_error *error);

/* The most bytes that each of `ranks` ranks holds at a time, without weights and sources; and the operations of all of
 * them. */
double mhas_probe_spread_bytes(const mhas_features_shape *shape, int64_t samples, int64_t outputs,
                               mhas_probe_solver solver, int ranks);
double mhas_probe_spread_flops(const mhas_features_shape *shape, int64_t samples, int64_t outputs,
                               mhas_probe_solver solver, bool loose_ranks);

#endif
