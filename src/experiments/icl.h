/* What the files of the experiment icl share: the places of its tables. */
#ifndef MHASWEEP_EXPERIMENTS_ICL_H
#define MHASWEEP_EXPERIMENTS_ICL_H

#include "mhasweep/experiments.h"
#include "mhasweep/meanfield.h"

/* ---- places of the tables ---- */

enum {
  P_MODEL,
  P_DIM,
  P_FEATURES,
  P_TRUE_FEATURES,
  P_NEURONS,
  P_TOKENS,
  P_PROMPTS,
  P_STEP_SIZE,
  P_ATTENTION_STEP_RATIO,
  P_TEACHER,
  P_INIT_SCALE,
  P_ACTIVATION,
  P_BIRTH_DEATH,
  P_PERTURBATION,
  P_PERTURBATION_SIZE,
  P_PERTURB_EVERY,
  P_TASK,
  P_STEPS,
  P_SAMPLING,
  P_PROMPT_BATCH,
  P_QUERIES,
  P_BIAS,
  P_PRECISION,
  P_TEACHER_GAIN,
  P_TEACHER_NEURONS,
  P_TRIGGER,
  P_PERTURB_FIRST,
  P_SETTLE,
  P_PERTURB_GRADIENT,
  P_PERTURB_DECREASE,
  P_ATTENTION_STEP_SIZE,
  P_ATTENTION_START,
  P_ATTENTION_SCALE,
  P_RIDGE,
  P_CUT_OFF,
  P_RANK_TOLERANCE,
  P_BARRON_PENALTY,
  P_LOG_EVERY,
  P_LAMBDA_EVERY,
  P_PLATEAU_GRADIENT,
  P_PLATEAU_STEPS,
  P_ESCAPE_LEVEL,
  P_TEST_TOKENS,
  P_TEST_TASKS,
  P_TASK_SHIFT,
  P_FINITE_TOKENS,
  P_FINITE_DRAWS,
  P_DENSE_SPECTRUM,
  P_COUNT
};

enum { MODEL_ATTENTION, MODEL_STATIC, MODEL_MODIFIED };
enum { TASK_STANDARD, TASK_RANK_DEFICIENT, TASK_SYMMETRIC };
enum { PERTURB_NONE, PERTURB_ISOTROPIC, PERTURB_HESSIAN };
enum { TRIGGER_GRADIENT, TRIGGER_PERIODIC, TRIGGER_ONCE };
enum { SAMPLING_FRESH, SAMPLING_POOL, SAMPLING_PROMPTS };
enum { ATTENTION_SMALL, ATTENTION_OPTIMAL };

enum {
  R_LOSS,
  R_LOSS_ATTENTION,
  R_LOSS_FLOOR,
  R_NEAREST_RUNG,
  R_RUNG_DISTANCE,
  R_SIGMA_MIN_B,
  R_RANK_CROSS,
  R_CONDITION,
  R_LAMBDA_MIN,
  R_ESCAPE_STEP,
  R_BARRON_NORM,
  R_ICL_ERROR,
  R_PROJECTION_ERROR,
  R_EXPONENT,
  R_LOSS_START,
  R_LOSS_STATIONARY,
  R_LOWEST_RUNG,
  R_SUCCESS,
  R_STALLED,
  R_STIFFNESS,
  R_STIFF,
  R_JUMPS,
  R_LOSS_SADDLE,
  R_LAMBDA_SADDLE,
  R_ESCAPE_SLOPE,
  R_PLATEAUS,
  R_PLATEAU_LOSS,
  R_PLATEAU_DISTANCE,
  R_CURVATURE,
  R_CURVATURE_BOUND,
  R_TIMESCALE_GAP,
  R_ATTENTION_RATE,
  R_ATTENTION_RATE_THEORY,
  R_LOSS_FINITE,
  R_LOSS_FINITE_SAMPLED,
  R_LAMBDA_MIN_DENSE,
  R_COUNT
};

enum {
  C_STEP,
  C_LOSS,
  C_LOSS_ATTENTION,
  C_GRADIENT_NORM,
  C_SIGMA_MIN_B,
  C_SIGMA_BOUND,
  C_RANK_CROSS,
  C_SIGMA_MIN_CROSS,
  C_EIGEN_MIN,
  C_EIGEN_MAX,
  C_CONDITION,
  C_NEAREST_RUNG,
  C_RUNG_DISTANCE,
  C_CURVATURE,
  C_CURVATURE_BOUND,
  C_LAMBDA_MIN,
  C_ATTENTION_GAP,
  C_BARRON_NORM,
  C_JUMPS,
  C_COUNT
};

/* ---- sizes: of values in the order of the table ---- */

int64_t icl_inputs(const mhas_value *values);      /* numbers of a token that a neuron sees */
int64_t icl_step_tokens(const mhas_value *values); /* of all prompts of a step, queries included */
int64_t icl_test_tokens(const mhas_value *values);
int64_t icl_teacher_neurons(const mhas_value *values);
int64_t icl_numbers(const mhas_value *values); /* of all neurons: M (k + inputs) */
int64_t icl_records(const mhas_value *values);
int64_t icl_least(const mhas_value *values);   /* min(k, k0) */
int64_t icl_spectra(const mhas_value *values); /* eigenvalues of S, singular values of B and of C: k + 2 min(k, k0) */
mhas_precision icl_precision(const mhas_value *values);
/* Of a step, of the evaluations, and of the teacher. */
mhas_meanfield_shape icl_shape(const mhas_value *values, int64_t tokens);
mhas_meanfield_shape icl_teacher_shape(const mhas_value *values, int64_t tokens);
double icl_step_flops(const mhas_value *values);
double icl_test_flops(const mhas_value *values);    /* of a record */
double icl_product_flops(const mhas_value *values); /* of a product with the integral Hessian on the test tokens */

mhas_cost icl_cost(const mhas_value *values);               /* a mhas_experiment.cost */
double icl_team_bytes(const mhas_value *values, int ranks); /* and its team_bytes, also for one rank */

enum { ICL_PLATEAUS = 16, ICL_JUMPS = 64 }; /* that are stored */

/* A mhas_experiment.run. */
mhas_code icl_run(const mhas_task *task, mhas_row *row, mhas_error *error);

#endif
