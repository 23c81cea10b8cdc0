/* What the files of the probe share: the places of its tables, the sizes of a point, and a point while it runs. */
#ifndef MHASWEEP_EXPERIMENTS_PROBE_H
#define MHASWEEP_EXPERIMENTS_PROBE_H

#include "experiments/from_source.h"
#include "experiments/probe_spread.h"
#include "experiments/variant.h"
#include "experiments/weights.h"

/* ---- places of the tables ---- */

enum {
  P_HEADS,
  P_DIM,
  P_KEY_DIM,
  P_CONTEXT,
  P_SAMPLES,
  P_CONTEXT_TYPE,
  P_DISTRIBUTION,
  P_LABELS,
  P_CLASSES,
  P_WEIGHTS,
  P_LOGIT_SCALE,
  P_VARIANT, /* the first of VARIANT_PARAMETERS */
  P_FIT_TOLERANCE = P_VARIANT + VARIANT_PARAMETERS,
  P_SOLVER,
  P_LOOSE_RANKS,
  P_SATURATION_GAIN,
  P_PEAK,
  P_VALUE_DIM,
  P_OUT_DIM,
  P_ATTENTION_SAMPLES,
  P_RECIPE,                           /* the first of RECIPE_COUNT */
  P_SOURCE = P_RECIPE + RECIPE_COUNT, /* the first of SOURCE_PARAMETER_COUNT */
  P_COUNT = P_SOURCE + SOURCE_PARAMETER_COUNT
};

enum {
  R_RANK,
  R_RANK_1E3,
  R_RANK_1E6,
  R_RANK_1E9,
  R_CONDITION,
  R_RESIDUAL,
  R_MEMORIZED,
  R_SATURATED,
  R_BOUND_LOWER,
  R_BOUND_SHARED,
  R_BOUND_WIDTH,
  R_PARAMETERS,
  R_KEY_DIM_USED,
  R_LARGEST_WEIGHT,
  R_RANK_PER_HEAD_MIN,
  R_ACCURACY,
  R_LOSS,
  R_COUNT
};

enum { C_HEAD, C_RANK_ADDED, C_COUNT };

/* ---- sizes: of values in the order of the table ---- */

bool probe_is_classes(const mhas_value *values); /* labels are classes, fitted as one-hot vectors */
/* Columns of what is fitted: one-hot classes, or one number. */
int64_t probe_output_count(const mhas_value *values);
int64_t probe_width(const mhas_value *values);
int64_t probe_spectrum_count(const mhas_value *values);
mhas_features_shape probe_features_shape(const mhas_value *values);
mhas_data_shape probe_data_shape(const mhas_value *values);
mhas_source_shape probe_source(const mhas_value *values);
mhas_weights_wish probe_wish(const mhas_value *values);
bool probe_is_constructed(const mhas_value *values);
/* The numbers of the mixings of heads. */
int64_t probe_compose_count(const mhas_value *values);
/* W_Q and W_K, the mixings, and the readout. */
int64_t probe_parameter_count(const mhas_value *values);
/* Samples whose attention maps are stored. */
int64_t probe_attention_samples(const mhas_value *values);
mhas_probe_solver probe_solver(const mhas_value *values);
/* Of Z and the solve. */
double probe_flops(const mhas_value *values);

/* ---- a point while it runs ---- */

typedef struct probe {
  const mhas_task *task;
  mhas_row *row;
  mhas_features_shape shape;
  mhas_data_shape data;
  mhas_source *source;
  int64_t T, width, outputs;
  mhas_weights weights;
  double *maps;  /* (attention_samples, H, n): attention; NULL unless it is stored */
  double *Z;     /* (T, H d) */
  double *y;     /* (T) */
  double *Y;     /* (T, outputs): labels as they are fitted; then the errors Z B - Y */
  double *B;     /* (H d, outputs) */
  double *sigma; /* (min(T, H d)) */
} probe;

/* As the task asks, with nothing allocated. */
probe probe_start(const mhas_task *task, mhas_row *row);
void probe_release(probe *p);

/* Samples first .. first + count - 1 as the attention sees them: where there is an embedding, `drawn` takes what is
 * before it (probe_drawn_count numbers for a block of samples). */
mhas_code probe_see_contexts(const probe *p, int64_t first, int64_t count, double *drawn, double *E, mhas_error *error);
mhas_code probe_see_queries(const probe *p, int64_t first, int64_t count, double *drawn, double *e, mhas_error *error);
size_t probe_drawn_count(const probe *p, int64_t block);

/* Rows first .. first + total - 1 of Z, block by block: the contexts of a block are drawn, used and forgotten. */
mhas_code probe_build_features(probe *p, int64_t first, int64_t total, double *Z, int64_t *saturated,
                               mhas_error *error);

/* The theory's columns and what the weights tell; and what is stored. */
void probe_fill_theory(const probe *p, int64_t saturated);
mhas_code probe_keep(const probe *p, mhas_error *error);

/* A mhas_experiment.run, and what it does where Z is spread: there it is collective over the task's team. */
mhas_code probe_run(const mhas_task *task, mhas_row *row, mhas_error *error);
mhas_code probe_run_on_team(const mhas_task *task, mhas_row *row, mhas_error *error);

/* For a mhas_searchable: samples up to the first row of Z that is a combination of those before it. */
mhas_code probe_guess(const mhas_task *task, int result, int64_t *samples, double *flops, mhas_error *error);
int64_t probe_guess_most(const mhas_value *values);

#endif
