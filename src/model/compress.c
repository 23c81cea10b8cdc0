/* What is left of a trained model in fewer parameters or fewer bits. */
#include <math.h>
#include <stdlib.h>

#include "model/parts.h"

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* All parameters (P), one array behind the other. */
static mhas_code read_all(const mhas_model *model, double **values, mhas_error *error) {
  MHAS_TRY(
      mhas_alloc(values, (size_t)mhas_model_parameters(&model->shape), sizeof **values, "a copy of the model", error));
  double *at = *values;
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    mhas_model_get(model, slice, at);
    at += mhas_slice_count(&model->shape, slice);
  }
  return MHAS_OK;
}

static void write_all(mhas_model *model, const double *values) {
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    mhas_model_set(model, slice, values);
    values += mhas_slice_count(&model->shape, slice);
  }
}

/* Of `count` values, the `zeros` of least magnitude become zero. */
static mhas_code drop_smallest(double *values, int64_t count, int64_t zeros, mhas_error *error) {
  double *sorted = NULL;
  MHAS_TRY(mhas_alloc(&sorted, (size_t)count, sizeof *sorted, "the magnitudes of the parameters", error));
  for (int64_t i = 0; i < count; i++) {
    sorted[i] = fabs(values[i]);
  }
  qsort(sorted, (size_t)count, sizeof *sorted, compare);
  const double limit = sorted[zeros - 1];
  int64_t equal = zeros; /* of those that are just as large as the limit, how many go */
  for (int64_t i = 0; i < zeros; i++) {
    equal -= sorted[i] < limit;
  }
  mhas_free(sorted);
  for (int64_t i = 0; i < count; i++) {
    const double magnitude = fabs(values[i]);
    if (magnitude < limit || (magnitude == limit && equal-- > 0)) {
      values[i] = 0.0;
    }
  }
  return MHAS_OK;
}

mhas_code mhas_model_prune(mhas_model *model, double share, mhas_error *error) {
  const int64_t count = mhas_model_parameters(&model->shape);
  const int64_t zeros = (int64_t)floor(share * (double)count);
  double *values = NULL;
  if (zeros < 1) {
    return MHAS_OK;
  }
  MHAS_TRY(read_all(model, &values, error));
  const mhas_code code = drop_smallest(values, count, zeros, error);
  if (code == MHAS_OK) {
    write_all(model, values);
  }
  mhas_free(values);
  return code;
}

mhas_code mhas_model_quantize(mhas_model *model, int bits, mhas_error *error) {
  const double levels = ldexp(1.0, bits - 1) - 1.0;
  double *values = NULL;
  MHAS_TRY(read_all(model, &values, error));
  double *at = values;
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    const int64_t count = mhas_slice_count(&model->shape, slice);
    double most = 0.0;
    for (int64_t i = 0; i < count; i++) {
      most = fmax(most, fabs(at[i]));
    }
    for (int64_t i = 0; most > 0.0 && i < count; i++) {
      at[i] = round(at[i] / most * levels) / levels * most;
    }
    at += count;
  }
  write_all(model, values);
  mhas_free(values);
  return MHAS_OK;
}
