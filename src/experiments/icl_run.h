/* A point of icl while it runs, for the files that run it. */
#ifndef MHASWEEP_EXPERIMENTS_ICL_RUN_H
#define MHASWEEP_EXPERIMENTS_ICL_RUN_H

#include "experiments/icl_side.h"
#include "mhasweep/eigen.h"

/* What a run has come to: flat, and kept with theta, W and the histories where it is interrupted. */
typedef struct icl_state {
  int64_t step, records; /* done */
  double loss, gradient; /* last seen in training: L or L_TF; |velocity| in L2(mu) */
  double loss_start, timescale_gap, flops, stiffness;
  /* jumps and the escape */
  int64_t jumps, last_jump, jump_steps[ICL_JUMPS];
  double loss_at_jump;
  bool settled;                /* no more jumps: the last one lowered the loss by too little */
  int64_t origin, escape_step; /* -1: not yet, never */
  double loss_saddle, lambda_saddle, curvature, curvature_bound;
  /* plateaus */
  int64_t plateaus, plateau_from;        /* plateau_from: -1 off a plateau */
  double plateau_gradient, plateau_loss; /* the least gradient on it, and the loss there */
  double plateau_found[ICL_PLATEAUS][3]; /* first and last step, plateau_loss */
} icl_state;

typedef struct icl {
  const mhas_task *task;
  mhas_row *row;
  const mhas_value *values;
  mhas_random random;
  int64_t k, k0, numbers;
  bool has_attention, is_modified, samples_prompts;
  icl_teacher teacher;
  icl_side test;   /* the tokens that are evaluated on */
  icl_side drawn;  /* those of a step; unused with a pool */
  icl_side *train; /* one of the two */
  mhas_ladder ladder;
  double *theta, *W;      /* (numbers): a, then w; (k, k) */
  double *g, *noise;      /* (numbers) */
  double *g_W;            /* (k, k) */
  double *spectra;        /* (records, icl_spectra): eigenvalues of S, singular values of B and of C */
  double *losses, *gaps;  /* (records): loss and attention_gap of each record */
  double *tasks, *labels; /* sampled prompts: v (prompts of a step, k0), y (tokens of a step) */
  icl_state state;
} icl;

/* ---- icl_run.c ---- */

/* MHAS_NUMERIC: "diverged at step k", and that the start was stiff if it was. */
mhas_code icl_diverged(const icl *run, int64_t step, const char *what, double value, mhas_error *error);

/* ---- icl_prompts.c ---- */

/* The loss of the step's sampled prompts with attention W, q in train->q, and the gradient in W into g_W unless NULL.
 */
void icl_prompts_label(icl *run); /* tasks and labels of this step */
double icl_prompts_loss(icl *run, const double *W, double *q, double *g_W);

/* ---- icl_jumps.c ---- */

mhas_code icl_jump_if_due(icl *run, mhas_error *error); /* before a step; also marks where an escape is counted from */
void icl_redraw(icl *run);                              /* birth and death, behind a step */
/* What a step, or a record, saw after `step` steps. */
void icl_observe(icl *run, int64_t step, double loss, double gradient);
void icl_close_plateau(icl *run, int64_t step);
void icl_draw_neurons(const icl *run, mhas_stream a_stream, mhas_stream w_stream, int64_t index, int64_t first,
                      int64_t count); /* of the initial law, into theta */

/* ---- icl_look.c ---- */

/* Of lambda_min, relative to the largest |eigenvalue|: near a minimum eigenvalues crowd at 0, and no product tells them
 * apart. */
#define ICL_LAMBDA_TOLERANCE 1e-4

/* Smallest or largest eigenvalue of the integral Hessian at theta, on the test tokens; NaN if none was found in the
 * number of products allowed. Forgets what the last step left in `test`. */
mhas_code icl_lambda(icl *run, mhas_end end, double tolerance, double *lambda, mhas_error *error);
mhas_code icl_look(icl *run, mhas_landscape *look, mhas_error *error); /* at theta, on the test tokens */
double icl_velocity_norm(const icl *run, const double *g);
mhas_code icl_record(icl *run, mhas_error *error);
mhas_code icl_conclude(icl *run, mhas_error *error); /* all results */

/* ---- icl_transfer.c ---- */

mhas_code icl_new_tasks(icl *run, double *icl_error, double *projection_error, mhas_error *error);
mhas_code icl_finite_sampled(icl *run, int64_t n, const double *W, double *loss, mhas_error *error);

/* ---- icl_dense.c: collective over the task's team ---- */

mhas_code icl_dense_spectrum(icl *run, double *lambda_min, mhas_error *error);

#endif
