#include "experiments/icl_teacher.h"

#include <cblas.h>
#include <math.h>

enum { SINGLE_INDEX, RANDOM_NETWORK, MEAN_FIELD };

/* Rows of w (count, inputs): N(0, 1) in the first `seen` coordinates, 0 in the others. */
static void draw_inputs(const icl_teacher *t, int64_t count, int64_t seen) {
  for (int64_t i = 0; i < count; i++) {
    mhas_random_normal(t->random, MHAS_STREAM_ICL_TEACHER_W, (uint64_t)(i * t->dim), (size_t)seen,
                       t->w + i * t->inputs);
  }
}

/* Makes the rows orthonormal, in their order (Gram and Schmidt, twice for the sake of rounding). */
static void make_orthonormal(int64_t count, int64_t dim, double *rows) {
  const int n = (int)dim;
  for (int64_t i = 0; i < count; i++) {
    double *row = rows + i * dim;
    for (int64_t again = 0; again < 2; again++) {
      for (int64_t j = 0; j < i; j++) {
        cblas_daxpy(n, -cblas_ddot(n, rows + j * dim, 1, row, 1), rows + j * dim, 1, row, 1);
      }
      cblas_dscal(n, 1.0 / cblas_dnrm2(n, row, 1), row, 1);
    }
  }
}

static void make_single_index(icl_teacher *t, int64_t count, int64_t seen, double gain) {
  draw_inputs(t, count, seen);
  make_orthonormal(count, t->inputs, t->w);
  for (int64_t i = 0; i < count; i++) {
    cblas_dscal((int)t->inputs, gain, t->w + i * t->inputs, 1);
    t->a[i * t->features + i] = (double)t->neurons;
  }
}

/* (sigmoid(W x) - shift) A / sqrt(count), for the first `features` features. */
static void make_network(icl_teacher *t, int64_t count, int64_t seen, int64_t features, double shift) {
  const double scale = 1.0 / sqrt((double)count);
  draw_inputs(t, count, seen);
  for (int64_t i = 0; i < count; i++) {
    double *row = t->a + i * t->features;
    mhas_random_normal(t->random, MHAS_STREAM_ICL_TEACHER_A, (uint64_t)(i * t->features), (size_t)features, row);
    for (int64_t j = 0; j < features; j++) {
      t->offset[j] += shift * scale * row[j];
      row[j] *= scale * (double)t->neurons;
    }
  }
}

/* The last feature becomes sigmoid(gain x_d) - 1/2, which is odd. */
static void make_odd(icl_teacher *t, double gain) {
  const int64_t last = t->neurons - 1;
  t->w[last * t->inputs + t->dim - 1] = gain;
  t->a[last * t->features + t->features - 1] = (double)t->neurons;
  t->offset[t->features - 1] = 0.5;
}

mhas_code icl_teacher_create(const mhas_value *values, mhas_random random, icl_teacher *t, mhas_error *error) {
  const bool odd = values[P_TASK].integer == TASK_SYMMETRIC;
  const double gain = values[P_TEACHER_GAIN].real;
  *t = (icl_teacher){.neurons = icl_teacher_neurons(values),
                     .features = values[P_TRUE_FEATURES].integer,
                     .dim = values[P_DIM].integer,
                     .inputs = icl_inputs(values),
                     .mirrored = odd,
                     .random = random};
  const size_t M0 = (size_t)t->neurons;
  MHAS_TRY(mhas_alloc(&t->a, M0 * (size_t)t->features, sizeof(double), "the teacher", error));
  MHAS_TRY(mhas_alloc(&t->w, M0 * (size_t)t->inputs, sizeof(double), "the teacher", error));
  MHAS_TRY(mhas_alloc(&t->offset, (size_t)t->features, sizeof(double), "the teacher", error));
  const int64_t count = t->neurons - odd;
  const int64_t seen = t->dim - odd;
  if (values[P_TEACHER].integer == SINGLE_INDEX) {
    make_single_index(t, count, seen, gain);
  } else {
    make_network(t, count, seen, t->features - odd, values[P_TEACHER].integer == RANDOM_NETWORK ? 0.5 : 0.0);
  }
  if (odd) {
    make_odd(t, gain);
  }
  return MHAS_OK;
}

void icl_teacher_free(icl_teacher *t) {
  mhas_free(t->a);
  mhas_free(t->w);
  mhas_free(t->offset);
  *t = (icl_teacher){0};
}

void icl_teacher_tokens(const icl_teacher *t, mhas_stream stream, int64_t first, int64_t count, double *X) {
  for (int64_t i = 0; i < count; i++) {
    double *row = X + i * t->inputs;
    const double *twin = row - t->inputs;
    const bool mirror = t->mirrored && i % 2 == 1;
    if (mirror) {
      cblas_dcopy((int)t->inputs, twin, 1, row, 1);
      row[t->dim - 1] = -row[t->dim - 1];
      continue;
    }
    mhas_random_normal(t->random, stream, (uint64_t)((first + i) * t->dim), (size_t)t->dim, row);
    if (t->inputs > t->dim) {
      row[t->dim] = 1.0;
    }
  }
}

void icl_teacher_features(const icl_teacher *t, mhas_meanfield *mlp, int64_t tokens, const double *X, double *F) {
  mhas_meanfield_forward(mlp, t->a, t->w, X, F);
  for (int64_t i = 0; i < tokens; i++) {
    for (int64_t j = 0; j < t->features; j++) {
      F[i * t->features + j] -= t->offset[j];
    }
  }
}
