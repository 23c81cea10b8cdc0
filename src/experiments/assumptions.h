/* What the files of assumptions share: the places of its tables, the sizes of a point, and its run. */
#ifndef MHASWEEP_EXPERIMENTS_ASSUMPTIONS_H
#define MHASWEEP_EXPERIMENTS_ASSUMPTIONS_H

#include "experiments/from_source.h"

/* ---- places of the tables ---- */

enum {
  P_DIM,
  P_CONTEXT,
  P_SAMPLES,
  P_CONTEXT_TYPE,
  P_DISTRIBUTION,
  P_ORDERS,
  P_TOLERANCE,
  P_CONFIDENCE,
  P_ANCHORS,
  P_SOURCE, /* the first of SOURCE_PARAMETER_COUNT */
  P_COUNT = P_SOURCE + SOURCE_PARAMETER_COUNT
};

enum { FLOAT32, FLOAT64, TOLERANCES }; /* of P_TOLERANCE */

enum {
  R_ASSUMPTION1,
  R_ASSUMPTION2,
  R_ASSUMPTION3,
  R_GENERAL_POSITION,
  R_KRUSKAL_99,
  R_KRUSKAL_UPPER,
  R_SOURCE_HASH,
  R_COUNT
};

enum { C_K, C_SHARE, C_SHARE_LOW, C_SHARE_HIGH, C_SHARE_FLOAT64, C_COUNT };

/* ---- sizes: of values in the order of the table ---- */

mhas_source_shape assumptions_shape(const mhas_value *values);
/* The longest sequences that can be independent. */
int64_t assumptions_longest(const mhas_data_shape *data);
double assumptions_flops(const mhas_value *values);

/* A mhas_experiment.run. */
mhas_code assumptions_run(const mhas_task *task, mhas_row *row, mhas_error *error);

#endif
