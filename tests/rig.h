/* A model and samples to try it on, for tests. */
#ifndef MHASWEEP_TESTS_RIG_H
#define MHASWEEP_TESTS_RIG_H

#include <cblas.h>
#include <stdlib.h>

#include "close.h"
#include "mhasweep/model.h"

static mhas_error rig_error;

/* A model and its samples, both drawn from the same random numbers. */
typedef struct rig {
  mhas_model_shape shape;
  mhas_samples samples;
  mhas_model *model;
  int64_t *picks; /* 0, 1, 2 ... */
  int64_t T;
} rig;

static inline rig rig_create(const mhas_model_shape *shape, mhas_precision precision, int64_t T,
                             mhas_distribution distribution, mhas_random random) {
  const mhas_data_shape data = {.samples = T,
                                .context = shape->context,
                                .dim = shape->dim,
                                .shared = shape->shared,
                                .distribution = distribution,
                                .classes = shape->classes};
  openblas_set_num_threads(1); /* as in a sweep */
  rig r = {.shape = *shape, .T = T, .picks = calloc((size_t)T, sizeof(int64_t))};
  assert_non_null(r.picks);
  for (int64_t t = 0; t < T; t++) {
    r.picks[t] = t;
  }
  assert_int_equal(mhas_samples_create(&data, precision, &r.samples, &rig_error), MHAS_OK);
  assert_int_equal(mhas_samples_draw(&r.samples, random, 0, T, &rig_error), MHAS_OK);
  assert_int_equal(mhas_model_create(shape, precision, T, &r.model, &rig_error), MHAS_OK);
  mhas_model_initialise(r.model, random);
  return r;
}

static inline void rig_destroy(rig *r) {
  mhas_model_destroy(r->model);
  mhas_samples_free(&r->samples);
  free(r->picks);
}

static inline double *slice_values(const rig *r, mhas_slice slice,
                                   void (*get)(const mhas_model *model, mhas_slice slice, double *values)) {
  double *values = calloc((size_t)mhas_slice_count(&r->shape, slice), sizeof *values);
  assert_non_null(values);
  get(r->model, slice, values);
  return values;
}

/* The loss with entry k of a slice at `value`; `values` are the slice's. */
static inline double loss_at(const rig *r, mhas_slice slice, double *values, int64_t k, double value,
                             double (*again)(const rig *r)) {
  const double here = values[k];
  values[k] = value;
  mhas_model_set(r->model, slice, values);
  values[k] = here;
  return again(r);
}

/* The gradient of one slice against central differences of fourth order; `again` computes the gradient and gives the
 * loss. */
static inline void check_differences(const rig *r, mhas_slice slice, double (*again)(const rig *r), double step,
                                     double tolerance) {
  (void)again(r);
  double *gradient = slice_values(r, slice, mhas_model_get_gradient);
  double *values = slice_values(r, slice, mhas_model_get);
  for (int64_t k = 0; k < mhas_slice_count(&r->shape, slice); k++) {
    const double near =
        loss_at(r, slice, values, k, values[k] + step, again) - loss_at(r, slice, values, k, values[k] - step, again);
    const double far = loss_at(r, slice, values, k, values[k] + 2.0 * step, again) -
                       loss_at(r, slice, values, k, values[k] - 2.0 * step, again);
    const double difference = (8.0 * near - far) / (12.0 * step);
    if (!(fabs(gradient[k] - difference) <= tolerance * fmax(1.0, fabs(difference)))) {
      fail_msg("gradient of %s[%d] is %.12g, differences give %.12g", mhas_slice_name(slice), (int)k, gradient[k],
               difference);
    }
  }
  mhas_model_set(r->model, slice, values);
  free(gradient);
  free(values);
}

#endif
