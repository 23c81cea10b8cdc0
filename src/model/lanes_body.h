/*
 * The loops of lanes.h, for the includer's LANES_LEVEL (plain, avx2, avx512) and number type: LANES_FLOAT is 1 or 0.
 * Included twice by each level's file; the compiler's options decide which instructions come out. No guard for that.
 */
#if defined(__has_builtin) && !defined(LANES_SHUFFLE)
#define LANES_SHUFFLE __has_builtin(__builtin_shufflevector)
#endif
#if LANES_FLOAT
#define NUMBER float
#define BITS int32_t
#define ROOT sqrtf
#define NAMED(name, level) name##_##level##_float
#define TABLE_TYPE lanes_float
#define HALVES HALVE(8) HALVE(4) HALVE(2) HALVE(1) /* written out: as a loop it stays one in the machine's code */
#else
#define NUMBER double
#define BITS int64_t
#define ROOT sqrt
#define NAMED(name, level) name##_##level##_double
#define TABLE_TYPE lanes_double
#define HALVES HALVE(4) HALVE(2) HALVE(1)
#endif
#define NAMED_(name, level) NAMED(name, level)
#define NAME(name) NAMED_(name, LANES_LEVEL)
#define LANES ((int64_t)(64 / sizeof(NUMBER))) /* partial sums: as many as the widest unit has lanes */
#if defined(__AVX512F__)
#define REGISTER 64
#elif defined(__AVX__)
#define REGISTER 32
#else
#define REGISTER 16
#endif

/* A register's worth of numbers: longer vectors the compiler would keep in memory. Of them, 64 bytes have UNITS. */
enum { NAME(UNIT) = REGISTER / sizeof(NUMBER), NAME(UNITS) = 64 / REGISTER };
typedef NUMBER NAME(unit) __attribute__((vector_size(REGISTER), aligned(sizeof(NUMBER)), may_alias));

/* 2^k from t, a sum that has k in its low bits. */
static inline NUMBER NAME(power_of_two)(NUMBER t) {
  enum { MANTISSA = sizeof(NUMBER) == 4 ? 23 : 52, BIAS = sizeof(NUMBER) == 4 ? 127 : 1023 };
  union {
    NUMBER number;
    BITS bits;
  } power = {.number = t};
  power.bits = (BITS)((uint64_t)(power.bits + BIAS) << MANTISSA);
  return power.number;
}

/* x = k ln 2 + r, with |r| up to ln 2 / 2; returns 2^k. */
static inline NUMBER NAME(exp_reduce)(NUMBER x, NUMBER *r) {
#if LANES_FLOAT
  const float shift = 12582912.0F; /* 1.5 2^23: adding it rounds to an integer, found in the low bits of the sum */
  const float t = x * 1.44269504088896341F + shift;
  const float k = t - shift;
  *r = (x - k * 0.693359375F) - k * -2.12194440e-4F;
#else
  const double shift = 6755399441055744.0; /* 1.5 2^52 */
  const double t = x * 1.4426950408889634074 + shift;
  const double k = t - shift;
  *r = (x - k * 6.93145751953125e-1) - k * 1.42860682030941723212e-6;
#endif
  return NAME(power_of_two)(t);
}

/* exp(r) = (q + p) / (q - p): minimax approximations, in double precision that of Moshier's Cephes library, in single
 * precision of r coth(r/2) = 2 + r^2/6 - r^4/360 + ..., within 6e-10. */
static inline void NAME(exp_ratio)(NUMBER r, NUMBER *p, NUMBER *q) {
  const NUMBER rr = r * r;
#if LANES_FLOAT
  *p = r;
  *q = (-2.766007325e-3F * rr + 1.666661799e-1F) * rr + 2.0F;
#else
  *p = r * ((1.26177193074810590878e-4 * rr + 3.02994407707441961300e-2) * rr + 9.99999999999999999910e-1);
  *q = ((3.00198505138664455042e-6 * rr + 2.52448340349684104192e-3) * rr + 2.27265548208155028766e-1) * rr +
       2.00000000000000000005;
#endif
}

/* exp for x <= 0 (NaN stays NaN), as in Cephes. Below the smallest normal result it is 0. Within 2 units in the last
 * place. */
static inline NUMBER NAME(exp_negative)(NUMBER x) {
  NUMBER r;
  const NUMBER power = NAME(exp_reduce)(x, &r);
#if LANES_FLOAT
  const float lowest = -87.3365447504F;
  const float p = ((((1.9875691500e-4F * r + 1.3981999507e-3F) * r + 8.3334519073e-3F) * r + 4.1665795894e-2F) * r +
                   1.6666665459e-1F) *
                      r +
                  5.0000001201e-1F;
  const float e = (p * r) * r + r + 1.0F;
#else
  const double lowest = -708.396418532264;
  double p;
  double q;
  NAME(exp_ratio)(r, &p, &q);
  const double e = 1.0 + 2.0 * (p / (q - p));
#endif
  return x < lowest ? 0 : e * power;
}

static inline NUMBER NAME(greatest)(int64_t n, const NUMBER *x) {
  NUMBER part[LANES];
  int64_t i = 0;
  for (int64_t j = 0; j < LANES; j++) {
    part[j] = x[0];
  }
  for (; i + LANES <= n; i += LANES) {
    for (int64_t j = 0; j < LANES; j++) {
      part[j] = x[i + j] > part[j] ? x[i + j] : part[j];
    }
  }
  for (int64_t j = 0; i < n; i++, j++) {
    part[j] = x[i] > part[j] ? x[i] : part[j];
  }
#define HALVE(half)                                                    \
  for (int64_t j = 0; j < (half); j++) {                               \
    part[j] = part[j + (half)] > part[j] ? part[j + (half)] : part[j]; \
  }
  HALVES
#undef HALVE
  return part[0];
}

static inline NUMBER NAME(total)(NUMBER part[LANES]) {
#define HALVE(half)                      \
  for (int64_t j = 0; j < (half); j++) { \
    part[j] += part[j + (half)];         \
  }
  HALVES
#undef HALVE
  return part[0];
}

static inline NUMBER NAME(sum)(int64_t n, const NUMBER *x) {
  NUMBER part[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int64_t j = 0; j < LANES; j++) {
      part[j] += x[i + j];
    }
  }
  for (int64_t j = 0; i < n; i++, j++) {
    part[j] += x[i];
  }
  return NAME(total)(part);
}

static inline NUMBER NAME(dot)(int64_t n, const NUMBER *x, const NUMBER *y) {
  NUMBER part[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    for (int64_t j = 0; j < LANES; j++) {
      part[j] += x[i + j] * y[i + j];
    }
  }
  for (int64_t j = 0; i < n; i++, j++) {
    part[j] += x[i] * y[i];
  }
  return NAME(total)(part);
}

/* Blocks of TILE x TILE are turned in registers, where the compiler knows how to say that. */
#if LANES_SHUFFLE
enum { NAME(TILE) = 32 / sizeof(NUMBER) };
typedef NUMBER NAME(tile_row) __attribute__((vector_size(32), aligned(sizeof(NUMBER)), may_alias));

static inline void NAME(turn_tile)(const NUMBER *x, int64_t x_stride, NUMBER *xt, int64_t xt_stride) {
  NAME(tile_row) a[NAME(TILE)];
  NAME(tile_row) b[NAME(TILE)];
  for (int i = 0; i < NAME(TILE); i++) {
    a[i] = *(const NAME(tile_row) *)(x + i * x_stride);
  }
#if LANES_FLOAT
  for (int i = 0; i < 8; i += 2) {
    b[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    b[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; j++) {
      a[i + 2 * j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      a[i + 2 * j + 1] = __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; i++) {
    b[i] = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    b[i + 4] = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
#else
  NAME(tile_row) c[NAME(TILE)];
  for (int i = 0; i < 4; i += 2) {
    c[i] = __builtin_shufflevector(a[i], a[i + 1], 0, 4, 2, 6);
    c[i + 1] = __builtin_shufflevector(a[i], a[i + 1], 1, 5, 3, 7);
  }
  for (int i = 0; i < 2; i++) {
    b[i] = __builtin_shufflevector(c[i], c[i + 2], 0, 1, 4, 5);
    b[i + 2] = __builtin_shufflevector(c[i], c[i + 2], 2, 3, 6, 7);
  }
#endif
  for (int i = 0; i < NAME(TILE); i++) {
    *(NAME(tile_row) *)(xt + i * xt_stride) = b[i];
  }
}
#else
enum { NAME(TILE) = 1 };

static inline void NAME(turn_tile)(const NUMBER *x, int64_t x_stride, NUMBER *xt, int64_t xt_stride) {
  (void)x_stride;
  (void)xt_stride;
  *xt = *x;
}
#endif

static void NAME(turn)(int64_t n, int64_t d, const NUMBER *restrict x, NUMBER *restrict xt) {
  const int64_t n_tiles = n / NAME(TILE) * NAME(TILE);
  const int64_t d_tiles = d / NAME(TILE) * NAME(TILE);
  for (int64_t i = 0; i < n_tiles; i += NAME(TILE)) {
    for (int64_t j = 0; j < d_tiles; j += NAME(TILE)) {
      NAME(turn_tile)(x + i * d + j, d, xt + j * n + i, n);
    }
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = i < n_tiles ? d_tiles : 0; j < d; j++) {
      xt[j * n + i] = x[i * d + j];
    }
  }
}

static void NAME(softmax)(int64_t R, int64_t n, NUMBER factor, const NUMBER *logits, int64_t stride, NUMBER *theta,
                          NUMBER *sums) {
  for (int64_t r = 0; r < R; r++) {
    const NUMBER *from = logits + r * stride;
    NUMBER *to = theta + r * n;
    const NUMBER most = NAME(greatest)(n, from);
    for (int64_t i = 0; i < n; i++) {
      to[i] = factor * (from[i] - most);
    }
  }
  for (int64_t i = 0; i < R * n; i++) {
    theta[i] = NAME(exp_negative)(theta[i]);
  }
  for (int64_t r = 0; r < R; r++) {
    NUMBER *row = theta + r * n;
    const NUMBER sum = NAME(sum)(n, row);
    const NUMBER share = 1 / sum;
    for (int64_t i = 0; i < n; i++) {
      row[i] *= share;
    }
    if (sums != NULL) {
      sums[r] = sum;
    }
  }
}

static void NAME(softmax_back)(int64_t R, int64_t n, NUMBER factor, const NUMBER *restrict theta, NUMBER *restrict d,
                               int64_t stride) {
  for (int64_t r = 0; r < R; r++) {
    const NUMBER *p = theta + r * n;
    NUMBER *row = d + r * stride;
    const NUMBER mean = NAME(dot)(n, p, row);
    for (int64_t i = 0; i < n; i++) {
      row[i] = factor * p[i] * (row[i] - mean);
    }
  }
}

static void NAME(dots)(int64_t R, int64_t n, const NUMBER *a, const NUMBER *b, int64_t stride, NUMBER *out) {
  for (int64_t r = 0; r < R; r++) {
    out[r] = NAME(dot)(n, a + r * n, b + r * stride);
  }
}

static void NAME(dots_back)(int64_t R, int64_t n, NUMBER factor, const NUMBER *restrict s, int64_t s_stride,
                            const NUMBER *restrict out, const NUMBER *restrict d_out, NUMBER *restrict theta,
                            NUMBER *restrict d_logits, int64_t stride) {
  for (int64_t r = 0; r < R; r++) {
    NUMBER *p = theta + r * n;
    NUMBER *d = d_logits + r * stride;
    const NUMBER *score = s + r * s_stride;
    const NUMBER mean = out[r];
    const NUMBER grow = d_out[r];
    for (int64_t i = 0; i < n; i++) {
      p[i] *= grow;
      d[i] = factor * p[i] * (score[i] - mean);
    }
  }
}

static void NAME(add)(int64_t R, int64_t n, const NUMBER *restrict a, NUMBER *restrict sum, int64_t stride) {
  for (int64_t r = 0; r < R; r++) {
    for (int64_t i = 0; i < n; i++) {
      sum[r * stride + i] += a[r * n + i];
    }
  }
}

static void NAME(adam)(int64_t count, NUMBER rate, NUMBER root, NUMBER keep1, NUMBER take1, NUMBER keep2, NUMBER take2,
                       NUMBER epsilon, const NUMBER *restrict gradient, NUMBER *restrict first, NUMBER *restrict second,
                       NUMBER *restrict parameter) {
  for (int64_t i = 0; i < count; i++) {
    first[i] = first[i] * keep1 + gradient[i] * take1;
    second[i] = second[i] * keep2 + gradient[i] * gradient[i] * take2;
    parameter[i] -= rate * (first[i] / (ROOT(second[i]) / root + epsilon));
  }
}

#include "model/lanes_neurons.h"
#include "model/lanes_product.h"

const TABLE_TYPE NAME(mhas_lanes) = {
    .turn = NAME(turn),
    .softmax = NAME(softmax),
    .softmax_back = NAME(softmax_back),
    .dots = NAME(dots),
    .dots_back = NAME(dots_back),
    .add = NAME(add),
    .adam = NAME(adam),
    .product = NAME(product),
    .turned = NAME(turned),
    .neuron = {NAME(sigmoid), NAME(tanh), NAME(relu)},
    .slope = {NAME(sigmoid_slope), NAME(tanh_slope), NAME(relu_slope)},
};

#undef NUMBER
#undef BITS
#undef ROOT
#undef NAMED
#undef NAMED_
#undef NAME
#undef TABLE_TYPE
#undef HALVES
#undef LANES
#undef REGISTER
