/* What the files of the experiment optimize share: the places of its tables, and a point while it runs. */
#ifndef MHASWEEP_EXPERIMENTS_OPTIMIZE_H
#define MHASWEEP_EXPERIMENTS_OPTIMIZE_H

#include "mhasweep/experiments.h"
#include "mhasweep/selfattention.h"

/* ---- places of the tables ---- */

enum {
  P_HEADS,
  P_TOKENS,
  P_DIM,
  P_KEY_DIM,
  P_SAMPLES,
  P_TEST_SAMPLES,
  /* data */
  P_DATA,
  P_RELEVANT,
  P_SIGNAL,
  P_PROTOTYPES,
  P_NOISE,
  P_MIXING,
  P_PLANTED_HEADS,
  P_PLANTED_MARGIN,
  P_LABEL_NOISE,
  P_PATH,
  P_LABELS_PATH,
  P_PATCH,
  P_CLASS_PLUS,
  P_CLASS_MINUS,
  /* training */
  P_INIT,
  P_INIT_SCALE,
  P_INIT_SAMPLES,
  P_INIT_LOGIT,
  P_RANDOM_SIGNS,
  P_COLLAPSE,
  P_STEP_RULE,
  P_STEP_SIZE,
  P_STEPS,
  /* what is measured */
  P_LOG_EVERY,
  P_LOG_POINTS,
  P_EIGENVALUES,
  P_EIGEN_TOLERANCE,
  P_EIGEN_PRODUCTS,
  P_STABILITY_SAMPLES,
  P_THEORY,
  P_TARGET_LOSS,
  P_COUNT
};

enum { OPTIMIZE_DM1, OPTIMIZE_PLANTED, OPTIMIZE_TOKENS };                              /* of P_DATA */
enum { OPTIMIZE_MIX_RANDOM, OPTIMIZE_MIX_EVEN };                                       /* of P_MIXING */
enum { OPTIMIZE_ZERO, OPTIMIZE_ONE_STEP, OPTIMIZE_GAUSSIAN, OPTIMIZE_INIT_PLANTED };   /* of P_INIT */
enum { OPTIMIZE_CONSTANT, OPTIMIZE_SQRT_HEADS, OPTIMIZE_NORMALISED, OPTIMIZE_POLYAK }; /* of P_STEP_RULE */
enum { OPTIMIZE_NEVER, OPTIMIZE_AT_END, OPTIMIZE_LOGGED };                             /* of P_EIGENVALUES */
enum { OPTIMIZE_NO_THEORY, OPTIMIZE_THEORY_INIT, OPTIMIZE_THEORY_ENDS };               /* of P_THEORY */

enum {
  /* by the run */
  R_TRAIN_LOSS,
  R_TRAIN_ERROR,
  R_TRAIN_ERROR_CLEAN,
  R_TEST_LOSS,
  R_TEST_ERROR,
  R_GAP,
  R_MEAN_LOSS,
  R_LOSS_SUM,
  R_MONOTONE,
  R_STEPS_RUN,
  R_PARAMETERS,
  R_DISTANCE,
  R_GRADIENT_NORM,
  R_ATTENTION_MASS,
  R_HEAD_SPREAD,
  R_OUTPUT_AT_INIT,
  R_SELF_BOUND,
  R_LAMBDA_MIN,
  R_LAMBDA_MIN_RESIDUAL,
  R_LAMBDA_BLOCKS,
  R_LAMBDA_MAX,
  R_LAMBDA_MAX_RESIDUAL,
  R_WEAK_CONVEXITY,
  R_CURVATURE_RATIO,
  R_SMOOTHNESS,
  R_STABILITY,
  R_STABILITY_BOUND,
  R_STABILITY_WORST,
  /* by the theory at theta_0 */
  R_MARGIN,
  R_MARGIN_UPPER,
  R_MARGIN_U,
  R_MARGIN_W,
  R_MARGIN_LINEAR,
  R_MARGIN_ATTENTION,
  R_NTK_LEAST,
  R_REALIZED_LOSS,
  R_REALIZED_DISTANCE,
  R_CONDITION_RATIO,
  R_STEP_RATIO,
  /* by the theory at the end */
  R_MARGIN_END,
  R_MARGIN_END_UPPER,
  R_NTK_LEAST_END,
  R_TRAINING_RATIO,
  R_LOCAL_RATIO,
  R_GAP_BOUND,
  R_GAP_BOUND_LOSSES,
  R_COUNT
};

enum {
  C_STEP,
  C_TRAIN_LOSS,
  C_TEST_LOSS,
  C_TRAIN_ERROR,
  C_TEST_ERROR,
  C_DISTANCE,
  C_GRADIENT_NORM,
  C_GRADIENT_RATIO,
  C_LAMBDA_MIN,
  C_LAMBDA_MAX,
  C_LAMBDA_BLOCKS,
  C_CURVATURE_RATIO,
  C_ATTENTION_MASS,
  C_HEAD_SPREAD,
  C_COUNT
};

/* The model of a point, with one head for all where equal heads are held once (P_COLLAPSE). */
mhas_selfattention_shape mhas_optimize_shape(const mhas_value *values);
/* Relevant tokens of a sample of dm1: zeta T, rounded. */
int64_t mhas_optimize_relevant(const mhas_value *values);

/* ---- data ---- */

/* Orthogonal vectors of norm S that dm1's tokens are made of. */
typedef struct mhas_mixture {
  int64_t dim, prototypes; /* d, M */
  double *mu;              /* (2, d): mu_+, mu_- */
  double *nu;              /* (M, d) */
} mhas_mixture;

typedef struct mhas_labelled {
  int64_t samples;
  double *X;        /* (n, T, d) */
  double *y;        /* (n): -1 or 1, with noise if it is a training set */
  double *clean;    /* (n): without */
  double *relevant; /* (n, T): 1 where a token carries the label; NULL where that is not known */
} mhas_labelled;

/* ---- a point while it runs ---- */

/* What one evaluation of the model needs to be remembered for; flat, for it is kept in checkpoints. */
typedef struct optimize_progress {
  int64_t step;     /* done */
  int64_t records;  /* entries in the curves */
  int64_t left_out; /* leave-one-out runs that are done, and the step in the one at work */
  int64_t left_out_step;
  double loss_before;     /* of step - 1 */
  double loss_sum;        /* sum_{k < step} of the training losses */
  double loss_sum_from_1; /* sum_{1 <= k < step} of them */
  double loss_rose;       /* the largest rise from step to step; 0 or less: never */
  double farthest;        /* max_k ||theta_k - target|| over all steps so far, if there is a target */
  double farthest_start;  /* max_k ||theta_k - theta_0|| */
  double self_bound;      /* max over logged steps of ||grad|| / (b1 loss) */
  double weak_convexity;  /* of -lambda_min / (kappa loss) */
  double curvature_ratio; /* of -lambda_min / loss */
  double smoothness;      /* of lambda_max / (b1^2 / 4 + kappa min(1, loss)) */
  double b1_most;         /* of b1 */
  double distance_sum;    /* over the leave-one-out runs that are done: ||theta_K - theta_K,-i|| */
  double stability_worst; /* over them: that by (eta b1_most / n) sum_k loss_i(theta_k) */
  double flops;
} optimize_progress;

typedef struct optimize {
  const mhas_task *task;
  mhas_row *row;
  mhas_selfattention_shape shape;    /* of the training set; heads = 1 and copies = H where equal heads are held once */
  int64_t heads;                     /* H */
  int64_t first_head, own_heads;     /* held by this rank */
  int64_t numbers;                   /* of this rank's theta */
  double radius;                     /* R: the largest norm of a token of the training set */
  mhas_mixture mixture;              /* zero unless the data are dm1 */
  mhas_labelled train, test;         /* test.samples may be 0 */
  mhas_selfattention *model;         /* on the training set, fit for what the point asks for */
  mhas_selfattention *tester;        /* on the test set; NULL without one */
  double *theta0, *theta, *gradient; /* (numbers) */
  double *Phi, *Phi_test;            /* outputs of the last evaluation */
  double *Phi_start;                 /* at theta_0 */
  double *target;   /* (numbers) or NULL: theta_(eps), set by the theory at theta_0; freed with the run */
  double *own_loss; /* (n): sum_{k < step} of the loss of each sample */
  optimize_progress progress;
} optimize;

/* The weights are those of `own_heads` heads, and each stands for `copies`: squared norms of the whole theta are copies
 * times the sum over all ranks of this. Collective over the task's team. */
mhas_code mhas_optimize_norm(const optimize *run, const double *a, const double *b, double *norm,
                             mhas_error *error); /* ||a - b||, or ||a|| with b NULL */

/* The step length of the rule `constant` or `sqrt_heads`; of the others the factor on theirs. */
double mhas_optimize_step_size(const mhas_value *values);

/*
 * The theory's results, into run->row->results (optimize_theory.c). At theta_0: before the first step, with theta =
 * theta_0 and Phi_start set; may set run->target. Also after an interruption, so it has to be the same each time. At
 * the end: with theta, Phi and progress after the last step, and the run's own results filled. Collective over the
 * task's team; flops go to run->progress.flops.
 */
mhas_code mhas_optimize_theory_at_init(optimize *run, mhas_error *error);
mhas_code mhas_optimize_theory_at_end(optimize *run, mhas_error *error);
/* What they take at most, for the cost of a point: operations, and bytes on one of `ranks` ranks. */
double mhas_optimize_theory_flops(const mhas_value *values);
double mhas_optimize_theory_bytes(const mhas_value *values, int ranks);

#endif
