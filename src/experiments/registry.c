#include <math.h>
#include <string.h>

#include "experiments/all.h"

/* The one list of experiments: a new one is its file beside this one and its line here. */
static const mhas_experiment *const experiments[] = {
    &mhas_experiment_probe,  &mhas_experiment_memorize, &mhas_experiment_assumptions, &mhas_experiment_optimize,
    &mhas_experiment_select, &mhas_experiment_overfit,  &mhas_experiment_icl,
};

const mhas_experiment *const *mhas_experiments(int *count) {
  *count = (int)(sizeof experiments / sizeof *experiments);
  return experiments;
}

const mhas_experiment *mhas_experiment_find(const char *name) {
  for (size_t i = 0; i < sizeof experiments / sizeof *experiments; i++) {
    if (strcmp(experiments[i]->name, name) == 0) {
      return experiments[i];
    }
  }
  return NULL;
}

int mhas_parameter_find(const mhas_experiment *experiment, const char *name) {
  for (int i = 0; i < experiment->parameter_count; i++) {
    if (strcmp(experiment->parameters[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

int mhas_result_find(const mhas_experiment *experiment, const char *name) {
  for (int i = 0; i < experiment->result_count; i++) {
    if (strcmp(experiment->results[i].name, name) == 0) {
      return i;
    }
  }
  return -1;
}

void mhas_row_clear(const mhas_experiment *experiment, mhas_row *row) {
  for (int i = 0; i < experiment->result_count; i++) {
    if (experiment->results[i].type == MHAS_REAL) {
      row->results[i].real = NAN;
    } else {
      row->results[i].integer = -1;
    }
  }
  if (row->curves != NULL) {
    for (int64_t i = 0; i < experiment->curve_count * row->record_capacity; i++) {
      row->curves[i] = NAN;
    }
  }
  if (row->spectrum != NULL) {
    for (int64_t i = 0; i < row->spectrum_capacity; i++) {
      row->spectrum[i] = NAN;
    }
  }
  row->flops = 0.0;
}

void mhas_row_record(const mhas_experiment *experiment, mhas_row *row, int64_t record, const double *values) {
  if (row->curves == NULL || record < 0 || record >= row->record_capacity) {
    return;
  }
  for (int i = 0; i < experiment->curve_count; i++) {
    row->curves[i * row->record_capacity + record] = (float)values[i];
  }
}
