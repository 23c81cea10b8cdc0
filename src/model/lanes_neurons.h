/* Part of lanes_body.h: neurons, and what a layer of them in the mean-field MLP needs besides large products. */

/* Where exp underflows: the k of `lowest` makes a 2^k of 0; and from where on 1 / (1 + exp(-z)) is 1. Volatile, because
 * for ends that it knows the compiler works out what follows from them, and compares and selects at length. */
static const volatile NUMBER NAME(ends)[2] = {LANES_FLOAT ? (NUMBER)-88 : (NUMBER)-709.1, LANES_FLOAT ? 20 : 40};

/* 2^k exp(r) as top / bottom, so that what is made of it takes one division in all. */
static inline void NAME(exp_parts)(NUMBER power, NUMBER r, NUMBER *top, NUMBER *bottom) {
  NUMBER p;
  NUMBER q;
  NAME(exp_ratio)(r, &p, &q);
  *top = (q + p) * power;
  *bottom = q - p;
}

/* In two loops: of one, with a chain of so many operations a number, processors see too few numbers ahead. */
static void NAME(sigmoid)(int64_t n, NUMBER *z) {
  enum { AT_ONCE = 256 };
  const NUMBER lowest = NAME(ends)[0];
  const NUMBER highest = NAME(ends)[1];
  NUMBER power[AT_ONCE];
  for (int64_t first = 0; first < n; first += AT_ONCE) {
    const int64_t count = n - first < AT_ONCE ? n - first : AT_ONCE;
    NUMBER *at = z + first;
    for (int64_t i = 0; i < count; i++) {
      const NUMBER below = at[i] > highest ? highest : at[i];
      NUMBER r;
      power[i] = NAME(exp_reduce)(below < lowest ? lowest : below, &r);
      at[i] = r;
    }
    for (int64_t i = 0; i < count; i++) {
      NUMBER top;
      NUMBER bottom;
      NAME(exp_parts)(power[i], at[i], &top, &bottom);
      at[i] = top / (top + bottom);
    }
  }
}

/* Near 0 by a minimax approximation (Cephes), where 1 - exp(-2 z) would lose digits. */
static inline NUMBER NAME(tanh_small)(NUMBER z) {
  const NUMBER zz = z * z;
#if LANES_FLOAT
  const float p =
      (((-5.70498872745e-3F * zz + 2.06390887954e-2F) * zz - 5.37397155531e-2F) * zz + 1.33314422036e-1F) * zz -
      3.33332819422e-1F;
  return z + z * (zz * p);
#else
  const double p = (-9.64399179425052238628e-1 * zz - 9.92877231001918586564e1) * zz - 1.61468768441708447952e3;
  const double q = ((zz + 1.12811678491631932402e2) * zz + 2.23548839060100448583e3) * zz + 4.84406305325125486048e3;
  return z + z * (zz * (p / q));
#endif
}

static void NAME(tanh)(int64_t n, NUMBER *z) {
  const NUMBER lowest = NAME(ends)[0];
  for (int64_t i = 0; i < n; i++) {
    const NUMBER size = z[i] < 0 ? -z[i] : z[i];
    const NUMBER x = -2 * size < lowest ? lowest : -2 * size;
    NUMBER r;
    const NUMBER power = NAME(exp_reduce)(x, &r);
    NUMBER top;
    NUMBER bottom;
    NAME(exp_parts)(power, r, &top, &bottom);
    const NUMBER far = (bottom - top) / (bottom + top);
    const NUMBER near = NAME(tanh_small)(z[i]);
    const NUMBER signed_far = z[i] < 0 ? -far : far;
    z[i] = size < (NUMBER)0.625 ? near : signed_far;
  }
}

static void NAME(relu)(int64_t n, NUMBER *z) {
  for (int64_t i = 0; i < n; i++) {
    z[i] = z[i] < 0 ? 0 : z[i]; /* NaN stays */
  }
}

static void NAME(sigmoid_slope)(int64_t n, const NUMBER *restrict s, NUMBER *restrict p) {
  for (int64_t i = 0; i < n; i++) {
    p[i] *= s[i] * (1 - s[i]);
  }
}

static void NAME(tanh_slope)(int64_t n, const NUMBER *restrict s, NUMBER *restrict p) {
  for (int64_t i = 0; i < n; i++) {
    p[i] *= 1 - s[i] * s[i];
  }
}

static void NAME(relu_slope)(int64_t n, const NUMBER *restrict s, NUMBER *restrict p) {
  for (int64_t i = 0; i < n; i++) {
    p[i] = s[i] > 0 ? p[i] : 0;
  }
}

/* As `total`, of a sum that stands in registers. */
static inline NUMBER NAME(total_of)(NAME(unit) sum[NAME(UNITS)]) {
  NUMBER part[NAME(UNIT)];
  for (int half = NAME(UNITS) / 2; half > 0; half /= 2) {
    for (int u = 0; u < half; u++) {
      sum[u] += sum[u + half];
    }
  }
  *(NAME(unit) *)part = sum[0];
#define HALVE(half)                                                    \
  for (int64_t j = 0; j < (half) && (half) < (int)(NAME(UNIT)); j++) { \
    part[j] += part[j + (half)];                                       \
  }
  HALVES
#undef HALVE
  return part[0];
}

/* ROWS x COLUMNS entries of c = a b^T, each summed as `dot` does it. */
#define TURNED_TILE(ROWS, COLUMNS)                                                                           \
  static inline void NAME(turned_##ROWS##_##COLUMNS)(bool adds, int64_t n, const NUMBER *a, const NUMBER *b, \
                                                     NUMBER *c, int64_t ldc) {                               \
    NAME(unit) sum[ROWS][COLUMNS][NAME(UNITS)];                                                              \
    for (int i = 0; i < (ROWS); i++) {                                                                       \
      for (int j = 0; j < (COLUMNS); j++) {                                                                  \
        for (int u = 0; u < NAME(UNITS); u++) {                                                              \
          sum[i][j][u] = (NAME(unit)){0};                                                                    \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
    for (int64_t m = 0; m < n; m += LANES) {                                                                 \
      for (int u = 0; u < NAME(UNITS); u++) {                                                                \
        NAME(unit) row[ROWS];                                                                                \
        for (int i = 0; i < (ROWS); i++) {                                                                   \
          row[i] = *(const NAME(unit) *)(a + i * n + m + u * NAME(UNIT));                                    \
        }                                                                                                    \
        for (int j = 0; j < (COLUMNS); j++) {                                                                \
          const NAME(unit) other = *(const NAME(unit) *)(b + j * n + m + u * NAME(UNIT));                    \
          for (int i = 0; i < (ROWS); i++) {                                                                 \
            sum[i][j][u] += row[i] * other;                                                                  \
          }                                                                                                  \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
    for (int i = 0; i < (ROWS); i++) {                                                                       \
      for (int j = 0; j < (COLUMNS); j++) {                                                                  \
        const NUMBER total = NAME(total_of)(sum[i][j]);                                                      \
        c[i * ldc + j] = adds ? c[i * ldc + j] + total : total;                                              \
      }                                                                                                      \
    }                                                                                                        \
  }
TURNED_TILE(1, 1)
TURNED_TILE(2, 1)
TURNED_TILE(2, 2)
TURNED_TILE(2, 3)
#undef TURNED_TILE

static void NAME(turned)(bool adds, int64_t R, int64_t k, int64_t n, const NUMBER *a, const NUMBER *b, NUMBER *c) {
  int64_t r = 0;
  for (; r + 2 <= R; r += 2) {
    int64_t j = 0;
    for (; j + 3 <= k; j += 3) {
      NAME(turned_2_3)(adds, n, a + r * n, b + j * n, c + r * k + j, k);
    }
    if (j + 2 == k) {
      NAME(turned_2_2)(adds, n, a + r * n, b + j * n, c + r * k + j, k);
    } else if (j + 1 == k) {
      NAME(turned_2_1)(adds, n, a + r * n, b + j * n, c + r * k + j, k);
    }
  }
  for (int64_t j = 0; r < R && j < k; j++) {
    NAME(turned_1_1)(adds, n, a + r * n, b + j * n, c + r * k + j, k);
  }
}
