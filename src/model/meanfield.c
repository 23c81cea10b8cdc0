/* The mean-field MLP: its work space and what it costs. The passes are in meanfield_passes.h. */
#include <limits.h>

#include "model/lanes.h"
#include "model/meanfield_parts.h"

static size_t number_size(mhas_precision precision) {
  return precision == MHAS_FLOAT32 ? sizeof(float) : sizeof(double);
}

/* P: M as a whole number of the widest registers, so that loops along a row have no end to treat. */
static int64_t row_of(const mhas_meanfield_shape *s, mhas_precision precision) {
  const int64_t lanes = 64 / (int64_t)number_size(precision);
  return (s->neurons + lanes - 1) / lanes * lanes;
}

/* R tokens: a block of (R, P) numbers is to fit beside another one into half a megabyte of cache. It follows from the
 * shape alone, so that sums run in one order everywhere. */
static int64_t block_of(const mhas_meanfield_shape *s) {
  enum { NUMBERS = 16384, LEAST = 8, MOST = 128 };
  int64_t rows = NUMBERS / s->neurons / 8 * 8;
  rows = rows < LEAST ? LEAST : rows;
  rows = rows > MOST ? MOST : rows;
  return rows < s->tokens ? rows : s->tokens;
}

/* The numbers in a buffer, as a double: it may be more than can be allocated. */
static double count_of(const mhas_meanfield_shape *s, mhas_precision precision, meanfield_buffer buffer) {
  const double N = (double)s->tokens;
  const double P = (double)row_of(s, precision);
  const double d = (double)s->dim;
  const double k = (double)s->features;
  switch (buffer) {
    case MF_TOKENS: return N * d;
    case MF_VALUES: return N * P;
    case MF_W:
    case MF_V_W:
    case MF_G_W: return d * P;
    case MF_A:
    case MF_V_A:
    case MF_G_A: return k * P;
    case MF_BLOCK: return (double)block_of(s) * P;
    case MF_H:
    case MF_Q: return N * k;
    case MF_BUFFERS: break;
  }
  return 0.0;
}

mhas_code mhas_meanfield_check(const mhas_meanfield_shape *shape, mhas_error *error) {
  const int64_t sizes[] = {shape->tokens, shape->neurons, shape->dim, shape->features};
  static const char *const names[] = {"tokens", "neurons", "dim", "features"};
  int narrow = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    MHAS_TRY(mhas_narrow(sizes[i], names[i], &narrow, error));
  }
  if (mhas_meanfield_bytes(shape, MHAS_FLOAT64) > 0x1p47) {
    return mhas_fail(error, MHAS_LIMIT, "tokens x neurons: %.3g numbers, more than a machine can address",
                     count_of(shape, MHAS_FLOAT64, MF_VALUES));
  }
  return MHAS_OK;
}

double mhas_meanfield_bytes(const mhas_meanfield_shape *shape, mhas_precision precision) {
  double numbers = 0.0;
  for (meanfield_buffer i = 0; i < MF_BUFFERS; i++) {
    numbers += count_of(shape, precision, i);
  }
  return (double)number_size(precision) * numbers;
}

mhas_code mhas_meanfield_create(const mhas_meanfield_shape *shape, mhas_precision precision, mhas_meanfield **made,
                                mhas_error *error) {
  const bool single = precision == MHAS_FLOAT32;
  const lanes_level level = mhas_lanes_level();
  mhas_meanfield *m = NULL;
  MHAS_TRY(mhas_meanfield_check(shape, error));
  MHAS_TRY(mhas_alloc(&m, 1, sizeof *m, "the MLP", error));
  m->shape = *shape;
  m->kernels = single ? &mhas_meanfield_kernels_float : &mhas_meanfield_kernels_double;
  m->lanes = single ? (const void *)mhas_lanes_float(level) : (const void *)mhas_lanes_double(level);
  m->row = row_of(shape, precision);
  m->block = block_of(shape);
  for (meanfield_buffer i = 0; i < MF_BUFFERS; i++) {
    const mhas_code code =
        mhas_alloc(&m->buffer[i], (size_t)count_of(shape, precision, i), number_size(precision), "the MLP", error);
    if (code != MHAS_OK) {
      mhas_meanfield_destroy(m);
      return code;
    }
  }
  m->kernels->prepare(m);
  *made = m;
  return MHAS_OK;
}

void mhas_meanfield_destroy(mhas_meanfield *m) {
  if (m == NULL) {
    return;
  }
  for (meanfield_buffer i = 0; i < MF_BUFFERS; i++) {
    mhas_free(m->buffer[i]);
  }
  mhas_free(m);
}

void mhas_meanfield_forward(mhas_meanfield *m, const double *a, const double *w, const double *tokens, double *h) {
  m->kernels->forward(m, a, w, tokens, h);
}

void mhas_meanfield_backward(mhas_meanfield *m, const double *q, double *g_a, double *g_w) {
  m->kernels->backward(m, q, g_a, g_w);
}

void mhas_meanfield_tangent(mhas_meanfield *m, const double *v_a, const double *v_w, double *u) {
  m->kernels->tangent(m, v_a, v_w, u);
}

/* ---- operations: products, and loops over (N, M) ------------------------------- */

static double passes(const mhas_meanfield_shape *s, int64_t inner, double loop) {
  return (double)s->tokens * (double)s->neurons * (2.0 * (double)inner + loop);
}

double mhas_meanfield_forward_flops(const mhas_meanfield_shape *shape) {
  enum { NEURON = 20 };
  return passes(shape, shape->dim + shape->features, NEURON);
}

double mhas_meanfield_backward_flops(const mhas_meanfield_shape *shape) {
  enum { SLOPE = 3 };
  return passes(shape, shape->dim + 2 * shape->features, SLOPE);
}

double mhas_meanfield_tangent_flops(const mhas_meanfield_shape *shape) {
  enum { SLOPE = 3 };
  return passes(shape, shape->dim + 2 * shape->features, SLOPE);
}
