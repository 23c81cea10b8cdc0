/* Products too small for BLAS, or too narrow for libxsmm: right at every size, the same bits at every level of the
 * vector unit. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "close.h"
#include "mhasweep/base.h"
#include "model/lanes.h"

enum { MOST = 40, STRIDE = MOST + 3, ROOM = STRIDE * (LANES_PRODUCT_DEPTH + 1) };

typedef struct shape {
  int64_t m, n, k;
  bool a_turned, b_turned;
  double alpha, beta;
} shape;

static const mhas_random seed = {.seed = 5};

static double entry(const double *x, bool turned, int64_t row, int64_t column) {
  return turned ? x[column * STRIDE * 2 + row] : x[row * STRIDE * 2 + column];
}

/* What c should be, and how much rounding may change it. */
static double expected(const shape *s, const double *a, const double *b, const double *c, int64_t i, int64_t j,
                       double *size) {
  double sum = 0.0;
  *size = fabs(c[i * STRIDE + j] * s->beta);
  for (int64_t p = 0; p < s->k; p++) {
    const double part = s->alpha * entry(a, s->a_turned, i, p) * entry(b, s->b_turned, p, j);
    sum += part;
    *size += fabs(part);
  }
  return sum + (s->beta == 0.0 ? 0.0 : s->beta * c[i * STRIDE + j]);
}

/* a and b have rows of 2 STRIDE numbers, so that all of k fits. */
static void check(const shape *s) {
  static double a[2 * ROOM], b[2 * ROOM], c[ROOM], made[ROOM], first[ROOM];
  static float a4[2 * ROOM], b4[2 * ROOM], made4[ROOM], first4[ROOM];
  mhas_random_normal(seed, MHAS_STREAM_SAMPLE, 0, 2 * ROOM, a);
  mhas_random_normal(seed, MHAS_STREAM_SAMPLE, 2 * ROOM, 2 * ROOM, b);
  mhas_random_normal(seed, MHAS_STREAM_SAMPLE, 4 * ROOM, ROOM, c);
  for (int64_t i = 0; i < 2 * ROOM; i++) {
    a[i] = (double)(a4[i] = (float)a[i]);
    b[i] = (double)(b4[i] = (float)b[i]);
  }
  for (lanes_level level = 0; level <= mhas_lanes_level(); level++) {
    for (int64_t i = 0; i < ROOM; i++) {
      c[i] = (double)(made4[i] = (float)c[i]);
      made[i] = c[i];
    }
    mhas_lanes_double(level)->product(s->a_turned, s->b_turned, s->m, s->n, s->k, s->alpha, a, 2 * STRIDE, b,
                                      2 * STRIDE, s->beta, made, STRIDE);
    mhas_lanes_float(level)->product(s->a_turned, s->b_turned, s->m, s->n, s->k, (float)s->alpha, a4, 2 * STRIDE, b4,
                                     2 * STRIDE, (float)s->beta, made4, STRIDE);
    for (int64_t i = 0; i < MOST; i++) {
      for (int64_t j = 0; j < STRIDE; j++) {
        const bool inside = i < s->m && j < s->n;
        double size = 0.0;
        const double right = inside ? expected(s, a, b, c, i, j, &size) : c[i * STRIDE + j];
        assert_true(fabs(made[i * STRIDE + j] - right) <= 2.0 * DBL_EPSILON * (double)s->k * size);
        assert_true(fabs((double)made4[i * STRIDE + j] - right) <= 2.0 * (double)FLT_EPSILON * (double)s->k * size);
      }
    }
    if (level == 0) {
      memcpy(first, made, sizeof first);
      memcpy(first4, made4, sizeof first4);
    }
    assert_memory_equal(first, made, sizeof first);
    assert_memory_equal(first4, made4, sizeof first4);
  }
}

static void small_products_are_right_at_every_size_and_level(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 40};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (int i = 0; i < SIZES; i++) {
    for (int j = 0; j < SIZES; j++) {
      for (int turns = 0; turns < 4; turns++) {
        const int64_t k = sizes[(i + 3 * j + turns) % SIZES];
        const shape s = {sizes[i],
                         sizes[j],
                         k,
                         (turns & 1) != 0,
                         (turns & 2) != 0,
                         turns == 1 ? 0.5 : 1.0,
                         turns % 2 == 0 ? 0.0 : 1.0};
        check(&s);
      }
    }
  }
}

static void the_deepest_product_is_right(void **state) {
  (void)state;
  for (int turns = 0; turns < 4; turns++) {
    const shape s = {5, 37, LANES_PRODUCT_DEPTH, (turns & 1) != 0, (turns & 2) != 0, -2.0, 0.25};
    check(&s);
  }
}

/* BLAS does not read c where beta is 0: what stands there may be anything. */
static void what_is_overwritten_is_not_read(void **state) {
  (void)state;
  for (lanes_level level = 0; level <= mhas_lanes_level(); level++) {
    double one[32], c[32];
    for (int i = 0; i < 32; i++) {
      one[i] = 1.0;
      c[i] = NAN;
    }
    mhas_lanes_double(level)->product(false, false, 1, 29, 1, 1.0, one, 1, one, 29, 0.0, c, 29);
    for (int i = 0; i < 29; i++) {
      assert_true(c[i] == 1.0);
    }
    assert_true(isnan(c[29]));
  }
}

/* Entries of a b^T are the dot products that `dots` makes, bit by bit, in tiles of any size. */
static void turned_products_are_dot_products(void **state) {
  (void)state;
  enum { MOST_R = 5, MOST_K = 8, MOST_N = 96, NUMBERS = MOST_K * MOST_N, OUT = MOST_R * MOST_K };
  static double a[NUMBERS], b[NUMBERS];
  static float a4[NUMBERS], b4[NUMBERS];
  mhas_random_normal(seed, MHAS_STREAM_SAMPLE, 0, NUMBERS, a);
  mhas_random_normal(seed, MHAS_STREAM_SAMPLE, NUMBERS, NUMBERS, b);
  for (int i = 0; i < NUMBERS; i++) {
    a4[i] = (float)a[i];
    b4[i] = (float)b[i];
  }
  const lanes_double *plain = mhas_lanes_double(LANES_PLAIN);
  const lanes_float *plain4 = mhas_lanes_float(LANES_PLAIN);
  for (lanes_level level = 0; level <= mhas_lanes_level(); level++) {
    for (int which = 0; which < MOST_R * MOST_K * 3 * 2; which++) {
      const bool adds = which % 2 == 1;
      const int64_t n = (int64_t[]){16, 48, MOST_N}[which / 2 % 3], R = which / 6 % MOST_R + 1, k = which / 30 + 1;
      double c[OUT + 1], dot = 0.0;
      float c4[OUT + 1], dot4 = 0.0F;
      for (int i = 0; i <= OUT; i++) {
        c[i] = c4[i] = 3.0F;
      }
      mhas_lanes_double(level)->turned(adds, R, k, n, a, b, c);
      mhas_lanes_float(level)->turned(adds, R, k, n, a4, b4, c4);
      for (int64_t i = 0; i < R * k; i++) {
        plain->dots(1, n, a + i / k * n, b + i % k * n, n, &dot);
        plain4->dots(1, n, a4 + i / k * n, b4 + i % k * n, n, &dot4);
        assert_true(c[i] == (adds ? 3.0 + dot : dot));
        assert_true(c4[i] == (adds ? 3.0F + dot4 : dot4));
      }
      assert_true(c[R * k] == 3.0 && c4[R * k] == 3.0F);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_products_are_right_at_every_size_and_level),
      cmocka_unit_test(the_deepest_product_is_right),
      cmocka_unit_test(what_is_overwritten_is_not_read),
      cmocka_unit_test(turned_products_are_dot_products),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
