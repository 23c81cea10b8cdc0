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

/* The same with contexts of its own, each of them the shared one. */
static inline rig rig_with_own_contexts(const rig *shared, mhas_random random) {
  mhas_model_shape shape = shared->shape;
  shape.shared = false;
  rig own = rig_create(&shape, MHAS_FLOAT64, shared->T, MHAS_GAUSSIAN, random);
  double context[256];
  assert_in_range(shape.context * shape.dim, 1, 256);
  mhas_samples_get_contexts(&shared->samples, context);
  for (int64_t t = 0; t < own.T; t++) {
    mhas_samples_put_contexts(&own.samples, t, 1, context);
  }
  return own;
}

/* The loss, and the gradient into the model. */
static inline double rig_loss(const rig *r) { return mhas_model_gradient(r->model, &r->samples, r->picks, r->T); }

static inline double *slice_values(const rig *r, mhas_slice slice,
                                   void (*get)(const mhas_model *model, mhas_slice slice, double *values)) {
  double *values = calloc((size_t)mhas_slice_count(&r->shape, slice), sizeof *values);
  assert_non_null(values);
  get(r->model, slice, values);
  return values;
}

static inline void check_same_gradients(const rig *a, const rig *b, double tolerance) {
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    double *got = slice_values(a, slice, mhas_model_get_gradient);
    double *expected = slice_values(b, slice, mhas_model_get_gradient);
    assert_all_close(got, expected, mhas_slice_count(&a->shape, slice), tolerance);
    free(got);
    free(expected);
  }
}

/* What an independent program says of a model: outputs, loss, and of each gradient in turn the norm and the sum of its
 * entries times 1, 2 ... */
typedef struct expectation {
  const double *outputs, *loss, *norm, *moment;
} expectation;

static inline void check_expectation(const mhas_model_shape *shape, int64_t T, mhas_distribution distribution,
                                     const expectation *expected, double tolerance) {
  rig r = rig_create(shape, MHAS_FLOAT64, T, distribution, (mhas_random){.seed = 42, .replicate = 1});
  double got[64];
  int entry = 0;
  assert_in_range(T * mhas_model_outputs(shape), 1, 64);
  mhas_model_forward(r.model, &r.samples, r.picks, T, got);
  assert_all_close(got, expected->outputs, T * mhas_model_outputs(shape), tolerance);
  assert_close(rig_loss(&r), *expected->loss, tolerance);
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    if (mhas_slice_count(shape, slice) == 0) {
      continue;
    }
    double *gradient = slice_values(&r, slice, mhas_model_get_gradient);
    double squares = 0.0;
    double first = 0.0;
    for (int64_t i = 0; i < mhas_slice_count(shape, slice); i++) {
      squares += gradient[i] * gradient[i];
      first += gradient[i] * (double)(i + 1);
    }
    assert_close(sqrt(squares), expected->norm[entry], 10.0 * tolerance);
    assert_close(first, expected->moment[entry], 100.0 * tolerance);
    entry++;
    free(gradient);
  }
  rig_destroy(&r);
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
