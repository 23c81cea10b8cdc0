/* Random contexts, queries and labels, any block of them, from the counter-based streams. */
#include "mhasweep/data.h"

int64_t mhas_data_contexts_count(const mhas_data_shape *shape) { return shape->shared ? 1 : shape->samples; }

static void draw(const mhas_data_shape *shape, mhas_random random, mhas_stream stream, int64_t first, int64_t count,
                 double *out) {
  if (shape->distribution == MHAS_GAUSSIAN) {
    mhas_random_normal(random, stream, (uint64_t)first, (size_t)count, out);
  } else {
    mhas_random_uniform(random, stream, (uint64_t)first, (size_t)count, out);
  }
}

void mhas_data_contexts(const mhas_data_shape *shape, mhas_random random, int64_t first, int64_t count, double *E) {
  const int64_t size = shape->context * shape->dim;
  draw(shape, random, MHAS_STREAM_CONTEXT, first * size, count * size, E);
}

void mhas_data_queries(const mhas_data_shape *shape, mhas_random random, int64_t first, int64_t count, double *e) {
  draw(shape, random, MHAS_STREAM_QUERY, first * shape->dim, count * shape->dim, e);
}

void mhas_data_labels(const mhas_data_shape *shape, mhas_random random, int64_t first, int64_t count, double *y) {
  if (shape->classes == 0) {
    mhas_random_uniform(random, MHAS_STREAM_LABEL, (uint64_t)first, (size_t)count, y);
    return;
  }
  for (int64_t t = 0; t < count; t++) {
    int64_t label = 0;
    mhas_random_below(random, MHAS_STREAM_LABEL, (uint64_t)(first + t), 1, (uint64_t)shape->classes, &label);
    y[t] = (double)label;
  }
}
