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
  P_PLANTED_LOGIT,
  P_PLANTED_MARGIN,
  P_LABEL_NOISE,
  P_PATH,
  P_LABELS_PATH,
  P_PATCH,
  P_POSITIONS,
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
  P_ATTENTION_SAMPLES,
  P_COUNT
};

enum { OPTIMIZE_DM1, OPTIMIZE_PLANTED, OPTIMIZE_PATCHES, OPTIMIZE_FILE };              /* of P_DATA */
enum { OPTIMIZE_MIX_RANDOM, OPTIMIZE_MIX_EVEN };                                       /* of P_MIXING */
enum { OPTIMIZE_ZERO, OPTIMIZE_ONE_STEP, OPTIMIZE_GAUSSIAN, OPTIMIZE_INIT_PLANTED };   /* of P_INIT */
enum { OPTIMIZE_CONSTANT, OPTIMIZE_SQRT_HEADS, OPTIMIZE_NORMALISED, OPTIMIZE_POLYAK }; /* of P_STEP_RULE */
enum { OPTIMIZE_NEVER, OPTIMIZE_AT_END, OPTIMIZE_LOGGED };                             /* of P_EIGENVALUES */
#define OPTIMIZE_DIVERGED 1e6                                            /* a training loss that is no loss any more */
enum { OPTIMIZE_NO_THEORY, OPTIMIZE_THEORY_INIT, OPTIMIZE_THEORY_ENDS }; /* of P_THEORY */

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
  R_OUTPUT_DEVIATION,
  R_SEPARABLE,
  R_MARGIN,
  R_MARGIN_UPPER,
  R_MARGIN_U,
  R_MARGIN_W,
  R_MARGIN_LINEAR,
  R_MARGIN_ATTENTION,
  R_MARGIN_W_CLOSED,
  R_DIRECTION_U,
  R_DIRECTION_W,
  R_NTK_LEAST,
  R_REALIZED,
  R_REALIZED_LOSS,
  R_REALIZED_DISTANCE,
  R_CONDITION_RATIO,
  R_STEP_RATIO,
  /* by the theory at the end */
  R_MARGIN_END,
  R_MARGIN_END_UPPER,
  R_NTK_LEAST_END,
  R_CONDITION_MEASURED,
  R_TRAINING_RATIO,
  R_LOCAL_RATIO,
  R_CONCLUSIONS,
  R_LOCALITY,
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

/* ---- sizes and costs (optimize_cost.c): of values in the order of the table ---- */

/* The model on so many samples, with one head for all where equal heads are held once (P_COLLAPSE). */
mhas_selfattention_shape mhas_optimize_shape(const mhas_value *values, int64_t samples);
/* Relevant tokens of a sample of dm1: zeta T, rounded, at least 1. */
int64_t mhas_optimize_relevant(const mhas_value *values);
/* The step length of the rules constant and sqrt_heads; of the others the factor on theirs. */
double mhas_optimize_step_size(const mhas_value *values);
/* Entries of the curves, and whether there is one after `step` steps. */
int64_t mhas_optimize_records(const mhas_value *values);
bool mhas_optimize_is_logged(const mhas_value *values, int64_t step);
/* Samples that are left out in turn. */
int64_t mhas_optimize_left_out(const mhas_value *values);

mhas_cost mhas_optimize_cost(const mhas_value *values);               /* a mhas_experiment.cost */
double mhas_optimize_team_bytes(const mhas_value *values, int ranks); /* and its team_bytes, also for one rank */

/* ---- data (optimize_samples.c, optimize_planted.c, optimize_files.c) ---- */

/* Orthogonal vectors of norm S that dm1's tokens are made of. */
typedef struct mhas_mixture {
  double *mu; /* (2, d): mu_+, mu_- */
  double *nu; /* (M, d) */
} mhas_mixture;

typedef struct mhas_labelled {
  int64_t samples;  /* n */
  double *X;        /* (n, T, d) */
  double *y;        /* (n): -1 or 1, as trained on */
  double *clean;    /* (n): before label_noise */
  double *relevant; /* (n, T): 1 where a token carries the label; NULL where that is not known */
} mhas_labelled;

/* Sets of samples that have nothing in common. */
typedef enum mhas_set { MHAS_SET_TRAIN, MHAS_SET_TEST, MHAS_SET_INIT } mhas_set;

/* A planted model: planted_heads heads with U_h of norm 1 and W_h normal, so that logits have deviation planted_logit.
 */
typedef struct mhas_planted {
  mhas_selfattention_shape shape;
  double *theta;
} mhas_planted;

void mhas_mixture_free(mhas_mixture *mixture);
void mhas_labelled_free(mhas_labelled *set);
void mhas_planted_free(mhas_planted *planted);

/* To be freed also after a failure. */
mhas_code mhas_mixture_draw(const mhas_value *values, mhas_random random, mhas_mixture *mixture, mhas_error *error);
mhas_code mhas_planted_draw(const mhas_value *values, mhas_random random, mhas_planted *planted, mhas_error *error);

/* What samples are made of: `mixture` for dm1, `planted` for planted. */
typedef struct mhas_maker {
  const mhas_task *task;
  const mhas_mixture *mixture;
  const mhas_planted *planted;
} mhas_maker;

/* Collective over the task's team, with the same code on all: every member makes all samples. */
mhas_code mhas_labelled_make(const mhas_maker *maker, mhas_set set, int64_t samples, mhas_labelled *made,
                             mhas_error *error);
/* Its parts: X and the clean labels of a set whose arrays are there. */
mhas_code mhas_planted_samples(const mhas_maker *maker, mhas_set set, mhas_labelled *made, mhas_error *error);
mhas_code mhas_file_samples(const mhas_maker *maker, mhas_set set, mhas_labelled *made, mhas_error *error);

/* The number of sample i of a set in the streams. */
uint64_t mhas_sample_number(mhas_set set, int64_t i);

/* Whether the files of `values` can be read as they say: by their headers, or from end to end. */
mhas_code mhas_optimize_check_files(const mhas_value *values, mhas_error *error);
mhas_code mhas_optimize_inspect_files(const mhas_value *values, mhas_error *error);

/* ---- a point while it runs ---- */

/* What a run has to remember; flat, for it is kept in checkpoints. "Logged" is over the logged steps so far. */
typedef struct optimize_progress {
  int64_t step;     /* theta is theta_step */
  int64_t trained;  /* 1: the last step has been measured */
  int64_t records;  /* entries in the curves */
  int64_t left_out; /* leave-one-out trainings that are done, and the steps of the one at work */
  int64_t left_out_step;
  double loss;            /* of the step before */
  double loss_sum;        /* sum_{k < step} of the training loss at theta_k, */
  double loss_sum_from_1; /* and sum_{1 <= k <= step}, once it is measured */
  double loss_rise;       /* the largest loss_{k+1} - loss_k */
  double farthest;        /* the largest ||theta_k - target|| (logged), if there is a target */
  double self_bound;      /* the largest ||gradient|| / (b1 loss) (logged) */
  double weak_convexity;  /* of -lambda_min / (kappa loss), */
  double curvature_ratio; /* of -lambda_min / loss, */
  double smoothness;      /* of lambda_max / (b1^2 / 4 + kappa min(1, loss)), */
  double b1_most;         /* of b1 (logged) */
  double left_out_sum;    /* of ||theta_K - theta_K,-i|| over the leave-one-out trainings that are done, */
  double left_out_worst;  /* and the largest by (eta b1_most / n) sum_{k < K} loss_i(theta_k) */
  double flops;
} optimize_progress;

typedef struct optimize {
  const mhas_task *task;
  mhas_row *row;
  mhas_selfattention_shape shape;    /* of the training set */
  int64_t first_head, heads;         /* this rank's of shape.heads */
  int64_t numbers;                   /* of this rank's theta */
  double radius;                     /* R: the largest norm of a token of the training set */
  mhas_mixture mixture;              /* NULLs unless the data are dm1 */
  mhas_planted planted;              /* so unless they are planted */
  mhas_labelled train, test;         /* test.samples may be 0 */
  mhas_selfattention *model;         /* of the training set: for Hessian products if eigenvalues are asked for */
  mhas_selfattention *tester;        /* of the test set; NULL without one */
  double *theta0, *theta, *gradient; /* (numbers) */
  double *Phi, *Phi_test;            /* (n), (test_samples): outputs at theta */
  double *own_loss;                  /* (n): sum_{k < step} of each sample's loss; NULL unless stability is asked for */
  double *left;                      /* (numbers): theta of the leave-one-out training at work; NULL likewise */
  double *head;                      /* (2, numbers of one head): scratch */
  double *target;                    /* (numbers) or NULL: theta_(eps); the theory allocates it, the run frees it */
  optimize_progress progress;
} optimize;

/* ||a - b||, or ||a|| with b NULL, of all heads and copies. Collective over the task's team. */
mhas_code mhas_optimize_norm(const optimize *run, const double *a, const double *b, double *norm, mhas_error *error);
/* Sum or largest over the team of `count` numbers, in place, in the order of the ranks. Collective. */
mhas_code mhas_optimize_sum(const optimize *run, double *values, int64_t count, mhas_error *error);
mhas_code mhas_optimize_most(const optimize *run, double *values, int64_t count, mhas_error *error);
MPI_Comm mhas_optimize_comm(const mhas_task *task); /* MPI_COMM_NULL without a team */

/* theta_0 into run->theta0; draws fresh samples where it needs them. */
mhas_code mhas_optimize_initialise(optimize *run, mhas_error *error);
/* The sign of the step of a head, counted over all ranks (init: one_step). */
double mhas_optimize_sign(const mhas_task *task, int64_t head);

/* Measures theta = theta_step, whose gradient and Phi are there: an entry of the curves, and after the last step most
 * results. Nothing but the flops of progress is changed if it fails. Collective. */
mhas_code mhas_optimize_measure(optimize *run, mhas_error *error);

/* The outermost eigenvalues of the Hessian at theta. Collective. */
typedef struct optimize_eigenvalues {
  double least, least_residual, blocks, most, most_residual;
} optimize_eigenvalues;
mhas_code mhas_optimize_eigenvalues(optimize *run, optimize_eigenvalues *found, mhas_error *error);

/* The pieces of a run's state, for checkpoints; returns how many. */
enum { OPTIMIZE_PIECES = 4 };
int mhas_optimize_pieces(optimize *run, mhas_piece pieces[OPTIMIZE_PIECES]);
/* theta's next step by the rule, from its gradient and the loss. Collective. */
mhas_code mhas_optimize_descend(const optimize *run, double loss, const double *gradient, double *theta,
                                mhas_error *error);
/* MHAS_NUMERIC: "diverged at step ...", if the loss is no number to go on with. */
mhas_code mhas_optimize_check_loss(const optimize *run, int64_t step, double loss, mhas_error *error);

/* Trainings without one sample each, and their distances from run->theta. Collective. */
mhas_code mhas_optimize_stability(optimize *run, mhas_error *error);
/* Arrays that are stored, of all heads: what there will be; handing them over on member 0, which is collective. */
int64_t mhas_optimize_maps(const mhas_value *values); /* samples whose attention is stored */
int mhas_optimize_arrays(const mhas_value *values, unsigned flags, mhas_array *arrays);
mhas_code mhas_optimize_keep(optimize *run, mhas_error *error);

/* A mhas_experiment.run. */
mhas_code mhas_optimize_run(const mhas_task *task, mhas_row *row, mhas_error *error);

/* ---- its theory (optimize_theory.c) ---- */

/*
 * Fills the theory's results in run->row->results. At theta_0: before the first step, with theta = theta_0 and Phi
 * set; may set run->target. Also when a run goes on after an interruption, so it has to do the same each time. At the
 * end: with theta = theta_K, Phi, progress and the run's own results. Both are called whatever P_THEORY says, are
 * collective over the task's team, and add what they did to run->progress.flops.
 */
mhas_code mhas_optimize_theory_at_init(optimize *run, mhas_error *error);
mhas_code mhas_optimize_theory_at_end(optimize *run, mhas_error *error);
/* What they take at most, for the cost of a point: operations, and bytes on each of `ranks` ranks. */
double mhas_optimize_theory_flops(const mhas_value *values);
double mhas_optimize_theory_bytes(const mhas_value *values, int ranks);

#endif
