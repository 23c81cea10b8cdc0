/* A training set in memory, in single or double precision. */
#include "mhasweep/source.h"

size_t mhas_precision_size(mhas_precision precision) {
  return precision == MHAS_FLOAT32 ? sizeof(float) : sizeof(double);
}

mhas_code mhas_samples_create(const mhas_data_shape *shape, mhas_precision precision, mhas_samples *samples,
                              mhas_error *error) {
  *samples = (mhas_samples){.shape = *shape, .precision = precision};
  const size_t size = mhas_precision_size(precision);
  size_t context = 0;
  size_t contexts = 0;
  size_t queries = 0;
  if (!mhas_multiply((size_t)shape->context, (size_t)shape->dim, &context) ||
      !mhas_multiply((size_t)mhas_data_contexts_count(shape), context, &contexts) ||
      !mhas_multiply((size_t)shape->samples, (size_t)shape->dim, &queries)) {
    return mhas_fail(error, MHAS_NO_MEMORY, "out of memory: the contexts are more numbers than can be addressed");
  }
  MHAS_TRY(mhas_alloc(&samples->contexts, contexts, size, "the contexts", error));
  MHAS_TRY(mhas_alloc(&samples->queries, queries, size, "the queries", error));
  return mhas_alloc(&samples->labels, (size_t)shape->samples, sizeof(double), "the labels", error);
}

void mhas_samples_free(mhas_samples *samples) {
  mhas_free(samples->contexts);
  mhas_free(samples->queries);
  mhas_free(samples->labels);
  *samples = (mhas_samples){0};
}

static void put(mhas_precision precision, void *array, int64_t first, int64_t count, const double *values) {
  if (precision == MHAS_FLOAT32) {
    float *out = (float *)array + first;
    for (int64_t i = 0; i < count; i++) {
      out[i] = (float)values[i];
    }
  } else {
    double *out = (double *)array + first;
    for (int64_t i = 0; i < count; i++) {
      out[i] = values[i];
    }
  }
}

void mhas_samples_put_contexts(mhas_samples *samples, int64_t first, int64_t count, const double *E) {
  const int64_t size = samples->shape.context * samples->shape.dim;
  put(samples->precision, samples->contexts, first * size, count * size, E);
}

void mhas_samples_put_queries(mhas_samples *samples, int64_t first, int64_t count, const double *e) {
  put(samples->precision, samples->queries, first * samples->shape.dim, count * samples->shape.dim, e);
}

static void get(mhas_precision precision, const void *array, int64_t count, double *values) {
  for (int64_t i = 0; i < count; i++) {
    values[i] = precision == MHAS_FLOAT32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
  }
}

void mhas_samples_get_contexts(const mhas_samples *samples, double *E) {
  const mhas_data_shape *shape = &samples->shape;
  get(samples->precision, samples->contexts, mhas_data_contexts_count(shape) * shape->context * shape->dim, E);
}

void mhas_samples_get_queries(const mhas_samples *samples, double *e) {
  get(samples->precision, samples->queries, samples->shape.samples * samples->shape.dim, e);
}

mhas_code mhas_samples_read(mhas_samples *samples, mhas_source *source, int64_t first, int64_t count,
                            mhas_error *error) {
  const mhas_data_shape *shape = &samples->shape;
  double *E = NULL; /* a context and a query in double, before they are rounded */
  double *e = NULL;
  mhas_code code = mhas_alloc(&E, (size_t)(shape->context * shape->dim), sizeof *E, "a context", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&e, (size_t)shape->dim, sizeof *e, "a query", error);
  }
  for (int64_t t = first; code == MHAS_OK && t < first + count; t++) {
    const bool has_context = !shape->shared || t == 0;
    code = mhas_source_read(source, t, 1, has_context ? E : NULL, e, error);
    if (code == MHAS_OK && has_context) {
      mhas_samples_put_contexts(samples, t, 1, E);
    }
    if (code == MHAS_OK) {
      mhas_samples_put_queries(samples, t, 1, e);
    }
  }
  if (code == MHAS_OK) {
    mhas_source_labels(source, first, count, samples->labels + first);
  }
  mhas_free(e);
  mhas_free(E);
  return code;
}

mhas_code mhas_samples_draw(mhas_samples *samples, mhas_random random, int64_t first, int64_t count,
                            mhas_error *error) {
  const mhas_source_shape shape = {.data = samples->shape, .kind = MHAS_SYNTHETIC, .path = ""};
  mhas_source *source = NULL;
  MHAS_TRY(mhas_source_open(&shape, random, &source, error));
  const mhas_code code = mhas_samples_read(samples, source, first, count, error);
  mhas_source_close(source);
  return code;
}
