/* Eigenvalues at the ends of the spectrum, by products alone, against LAPACK's of the whole matrix. */
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "linalg/lapack.h"
#include "mhasweep/eigen.h"

static mhas_error error;

typedef struct dense {
  int n;
  double *a; /* (n, n) */
  int64_t products, broken_from;
} dense;

static mhas_code multiply(void *context, const double *x, double *y, mhas_error *e) {
  (void)e;
  dense *m = context;
  m->products++;
  for (int i = 0; i < m->n; i++) {
    y[i] = 0.0;
    for (int j = 0; j < m->n; j++) {
      y[i] += m->a[(int64_t)i * m->n + j] * x[j];
    }
  }
  if (m->broken_from > 0 && m->products >= m->broken_from) {
    y[m->n / 2] = NAN;
  }
  return MHAS_OK;
}

static dense with_values(int n, const double *values) {
  dense m = {.n = n, .a = calloc((size_t)n * (size_t)n, sizeof(double))};
  double *v = calloc((size_t)n, sizeof *v);
  assert_non_null(m.a);
  assert_non_null(v);
  for (int i = 0; i < n; i++) {
    m.a[(int64_t)i * n + i] = values[i];
  }
  for (int k = 0; k < 3; k++) { /* a = (1 - 2 v v^T) a (1 - 2 v v^T) */
    double square = 0.0;
    mhas_random_normal((mhas_random){.seed = 3}, MHAS_STREAM_SAMPLE, (uint64_t)(k * n), (size_t)n, v);
    for (int i = 0; i < n; i++) {
      square += v[i] * v[i];
    }
    for (int side = 0; side < 2; side++) {
      const int64_t along = side == 0 ? 1 : n;
      const int64_t across = side == 0 ? n : 1;
      for (int j = 0; j < n; j++) {
        double product = 0.0;
        for (int i = 0; i < n; i++) {
          product += v[i] * m.a[i * across + j * along];
        }
        for (int i = 0; i < n; i++) {
          m.a[i * across + j * along] -= 2.0 * product / square * v[i];
        }
      }
    }
  }
  free(v);
  return m;
}

static mhas_eigen_problem problem_of(dense *m) {
  m->products = 0;
  return (mhas_eigen_problem){.size = m->n,
                              .comm = MPI_COMM_NULL,
                              .product = multiply,
                              .context = m,
                              .random = {.seed = 11},
                              .tolerance = 1e-9,
                              .products_most = 5000};
}

/* Values and vectors at both ends, as LAPACK has them. */
static void check_ends(dense *m, int count, double tolerance) {
  const int n = m->n;
  double *a = malloc((size_t)n * (size_t)n * sizeof *a);
  double *w = malloc((size_t)n * sizeof *w);
  double *work = malloc((size_t)(34 * n) * sizeof *work);
  double *vectors = malloc((size_t)(count * n) * sizeof *vectors);
  double *y = malloc((size_t)n * sizeof *y);
  mhas_eigen found[8];
  const int length = 34 * n;
  int info = 0;
  memcpy(a, m->a, (size_t)n * (size_t)n * sizeof *a);
  dsyev_("N", "U", &n, a, &n, w, work, &length, &info, 1, 1);
  assert_int_equal(info, 0);
  const double norm = fmax(fmax(fabs(w[0]), fabs(w[n - 1])), 1e-300);
  for (mhas_end end = MHAS_SMALLEST; end <= MHAS_LARGEST; end++) {
    const mhas_eigen_problem problem = problem_of(m);
    int64_t products = 0;
    assert_int_equal(mhas_eigen_ends(&problem, end, count, found, vectors, &products, &error), MHAS_OK);
    assert_int_equal(products, m->products);
    for (int k = 0; k < count; k++) {
      assert_close(found[k].value / norm, w[end == MHAS_SMALLEST ? k : n - 1 - k] / norm, tolerance);
      assert_true(found[k].residual <= 1e-8 * norm);
      for (int other = 0; other <= k; other++) {
        double product = 0.0;
        for (int i = 0; i < n; i++) {
          product += vectors[k * n + i] * vectors[other * n + i];
        }
        assert_close(product, k == other ? 1.0 : 0.0, 1e-8);
      }
      (void)multiply(m, vectors + k * n, y, &error);
      for (int i = 0; i < n; i++) {
        assert_close(y[i] / norm, found[k].value / norm * vectors[k * n + i], 1e-8);
      }
    }
  }
  free(a);
  free(w);
  free(work);
  free(vectors);
  free(y);
}

static void spread_values_are_found_at_any_size(void **state) {
  (void)state;
  const int sizes[] = {1, 2, 3, 17, 80, 81, 100, 300};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    double values[300];
    mhas_random_normal((mhas_random){.seed = s}, MHAS_STREAM_QUERY, 0, (size_t)sizes[s], values);
    dense m = with_values(sizes[s], values);
    for (int count = 1; count <= 4 && count <= sizes[s]; count++) {
      check_ends(&m, count, 1e-9);
    }
    free(m.a);
  }
}

/* A Hessian of few samples: outliers, thousands of values at zero, a weak negative tail. */
static void a_weak_tail_below_a_cluster_at_zero_is_found(void **state) {
  (void)state;
  double values[400] = {0};
  for (int i = 0; i < 20; i++) {
    values[i] = 1.0 / (1 + i);
  }
  values[40] = -1e-3;
  values[50] = -9e-4;
  values[60] = -8e-4;
  dense m = with_values(400, values);
  check_ends(&m, 3, 1e-9);
  free(m.a);
}

/* Rank 5: both ends reach into the cluster at zero, whose values have no digits of their own. */
static void a_cluster_at_zero_at_the_very_end_is_found(void **state) {
  (void)state;
  double values[200] = {0};
  for (int i = 0; i < 2; i++) {
    values[i] = 2.0 + i;
    values[10 + i] = -1.0 - i;
  }
  dense m = with_values(200, values);
  check_ends(&m, 4, 1e-9);
  free(m.a);
}

/* A multiple value may be found once only; what is found is right for all that. */
static void values_of_multiple_ones_are_right(void **state) {
  (void)state;
  double values[150];
  for (int i = 0; i < 150; i++) {
    values[i] = i < 10 ? -2.0 : i < 100 ? 0.5 : 3.0;
  }
  dense m = with_values(150, values);
  for (mhas_end end = MHAS_SMALLEST; end <= MHAS_LARGEST; end++) {
    const mhas_eigen_problem problem = problem_of(&m);
    mhas_eigen found[3];
    int64_t products = 0;
    assert_int_equal(mhas_eigen_ends(&problem, end, 3, found, NULL, &products, &error), MHAS_OK);
    assert_close(found[0].value, end == MHAS_SMALLEST ? -2.0 : 3.0, 1e-9);
    for (int k = 0; k < 3; k++) {
      const double value = found[k].value;
      assert_true(found[k].residual <= 1e-8);
      assert_true(fmin(fabs(value + 2.0), fmin(fabs(value - 0.5), fabs(value - 3.0))) <= 1e-8);
    }
  }
  free(m.a);
}

static void multiples_of_the_unit_matrix_and_zero_are_found(void **state) {
  (void)state;
  const double scales[] = {0.0, 1.0, -3.5, 1e-160, 1e150};
  for (int s = 0; s < 5; s++) {
    dense m = {.n = 120, .a = calloc(120 * 120, sizeof(double))};
    for (int i = 0; i < 120; i++) {
      m.a[i * 121] = scales[s];
    }
    check_ends(&m, 3, 1e-12);
    free(m.a);
  }
}

static void the_same_search_gives_the_same_bits_whatever_came_before(void **state) {
  (void)state;
  double values[130];
  for (int i = 0; i < 130; i++) {
    values[i] = i % 4; /* a Lanczos basis ends after four vectors: the rest is up to fresh random ones */
  }
  dense m = {.n = 130, .a = calloc(130 * 130, sizeof(double))};
  for (int i = 0; i < 130; i++) {
    m.a[i * 131] = values[i];
  }
  dense other = with_values(130, values);
  double vectors[2][3 * 130];
  mhas_eigen found[2][3];
  for (int turn = 0; turn < 2; turn++) {
    const mhas_eigen_problem problem = problem_of(&m);
    int64_t products = 0;
    assert_int_equal(mhas_eigen_ends(&problem, MHAS_SMALLEST, 3, found[turn], vectors[turn], &products, &error),
                     MHAS_OK);
    check_ends(&other, 2, 1e-9);
  }
  assert_memory_equal(found[0], found[1], sizeof found[0]);
  assert_memory_equal(vectors[0], vectors[1], sizeof vectors[0]);
  free(m.a);
  free(other.a);
}

static void too_few_products_are_told(void **state) {
  (void)state;
  double values[200];
  for (int i = 0; i < 200; i++) {
    values[i] = 1.0 / (1.0 + i);
  }
  dense m = with_values(200, values);
  mhas_eigen_problem problem = problem_of(&m);
  mhas_eigen found[2];
  int64_t products = 0;
  problem.products_most = 30;
  assert_int_equal(mhas_eigen_ends(&problem, MHAS_SMALLEST, 2, found, NULL, &products, &error), MHAS_NUMERIC);
  assert_non_null(strstr(error.text, "30 products"));
  assert_int_equal(products, 30);
  free(m.a);
}

static void a_product_that_is_not_finite_ends_the_search(void **state) {
  (void)state;
  double values[200];
  for (int i = 0; i < 200; i++) {
    values[i] = sin(i);
  }
  for (int n = 50; n <= 200; n += 150) {
    dense m = with_values(n, values);
    mhas_eigen found[2];
    int64_t products = 0;
    const mhas_eigen_problem problem = problem_of(&m);
    m.broken_from = 7;
    assert_int_equal(mhas_eigen_ends(&problem, MHAS_LARGEST, 2, found, NULL, &products, &error), MHAS_NUMERIC);
    assert_non_null(strstr(error.text, "not finite"));
    free(m.a);
  }
}

static mhas_code refuse(void *context, const double *x, double *y, mhas_error *e) {
  (void)context;
  (void)x;
  (void)y;
  return mhas_fail(e, MHAS_STOPPED, "no more");
}

static void a_product_that_fails_is_passed_on(void **state) {
  (void)state;
  mhas_eigen found[2];
  int64_t products = 0;
  for (int64_t n = 10; n <= 1000; n *= 10) {
    const mhas_eigen_problem problem = {
        .size = n, .comm = MPI_COMM_NULL, .product = refuse, .tolerance = 1e-6, .products_most = 100};
    assert_int_equal(mhas_eigen_ends(&problem, MHAS_LARGEST, 1, found, NULL, &products, &error), MHAS_STOPPED);
    assert_string_equal(error.text, "no more");
  }
}

static void all_values_of_a_matrix_in_memory_are_found(void **state) {
  (void)state;
  double values[60];
  double found[60];
  for (int i = 0; i < 60; i++) {
    values[i] = i < 20 ? -1.0 : i < 40 ? 0.0 : (double)i;
  }
  dense m = with_values(60, values);
  assert_int_equal(mhas_symmetric_values(60, m.a, found, &error), MHAS_OK);
  assert_all_close(found, values, 60, 1e-12);
  m.a[7 * 60 + 3] = NAN;
  assert_int_equal(mhas_symmetric_values(60, m.a, found, &error), MHAS_NUMERIC);
  assert_int_equal(mhas_symmetric_values((int64_t)1 << 31, m.a, found, &error), MHAS_LIMIT);
  free(m.a);
}

static void more_values_than_rows_are_refused(void **state) {
  (void)state;
  mhas_eigen found[4];
  int64_t products = 0;
  mhas_eigen_problem problem = {
      .size = 3, .comm = MPI_COMM_NULL, .product = refuse, .tolerance = 1e-6, .products_most = 100};
  assert_int_equal(mhas_eigen_ends(&problem, MHAS_LARGEST, 4, found, NULL, &products, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_eigen_ends(&problem, MHAS_LARGEST, 0, found, NULL, &products, &error), MHAS_INTERNAL);
  problem.tolerance = 0.0;
  assert_int_equal(mhas_eigen_ends(&problem, MHAS_LARGEST, 1, found, NULL, &products, &error), MHAS_INTERNAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(spread_values_are_found_at_any_size),
      cmocka_unit_test(a_weak_tail_below_a_cluster_at_zero_is_found),
      cmocka_unit_test(a_cluster_at_zero_at_the_very_end_is_found),
      cmocka_unit_test(values_of_multiple_ones_are_right),
      cmocka_unit_test(multiples_of_the_unit_matrix_and_zero_are_found),
      cmocka_unit_test(the_same_search_gives_the_same_bits_whatever_came_before),
      cmocka_unit_test(too_few_products_are_told),
      cmocka_unit_test(a_product_that_is_not_finite_ends_the_search),
      cmocka_unit_test(a_product_that_fails_is_passed_on),
      cmocka_unit_test(all_values_of_a_matrix_in_memory_are_found),
      cmocka_unit_test(more_values_than_rows_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
