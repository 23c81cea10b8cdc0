/* What the files of overfit share: the places of its tables, and its run. */
#ifndef MHASWEEP_EXPERIMENTS_OVERFIT_H
#define MHASWEEP_EXPERIMENTS_OVERFIT_H

#include "mhasweep/experiments.h"

/* ---- places of the tables ---- */

enum {
  P_SAMPLES,
  P_TEST_SAMPLES,
  P_TOKENS,
  P_DIM,
  P_SIGNAL,
  P_WEAK,
  P_LABEL_NOISE,
  P_WEIGHTS,
  P_TRAINED,
  P_STEP_SIZE,
  P_STEPS,
  P_LOG_EVERY,
  P_ERROR_LOW,
  P_COUNT
};
enum { WEIGHTS_IDENTITY, WEIGHTS_RANDOM }; /* of P_WEIGHTS */
enum { TRAINED_TOKEN, TRAINED_BOTH };      /* of P_TRAINED */

enum {
  R_TEST_ERROR,
  R_TRAIN_ERROR,
  R_ERROR_FLIPPED,
  R_ERROR_CLEAN,
  R_BENIGN,
  R_FIT_STEP,
  R_GENERALIZE_STEP,
  R_DELAY,
  R_SNR,
  R_TRAIN_LOSS,
  R_TEST_LOSS,
  R_ATTENTION_CLEAN,
  R_ATTENTION_FLIPPED,
  R_ALIGNMENT_PLUS,
  R_ALIGNMENT_MINUS,
  R_COUNT
};

enum {
  C_STEP,
  C_TRAIN_LOSS,
  C_TRAIN_ERROR,
  C_TEST_LOSS,
  C_TEST_ERROR,
  C_ATTENTION_CLEAN,
  C_ATTENTION_FLIPPED,
  C_COUNT
};

/* ---- of values in the order of the table ---- */

/* Whether there is a W; without it, W is the identity throughout. */
bool overfit_has_weights(const mhas_value *values);
/* Of a point after so many steps, with so many entries in its curves. */
double overfit_flops(const mhas_value *values, double steps, double records);

/* A mhas_experiment.run. */
mhas_code overfit_run(const mhas_task *task, mhas_row *row, mhas_error *error);

#endif
