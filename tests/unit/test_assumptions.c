/* The experiment `assumptions`: its shares, its bound, its certificate, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format off: needs what is above */
#include <cmocka.h>
/* clang-format on */
#include <math.h>

#include "folder.h"
#include "point.h"

enum { C_K, C_SHARE, C_LOW, C_HIGH, C_FLOAT64 };

static void start(point *p, int64_t samples, int64_t context, int64_t dim) {
  point_start(p, "assumptions");
  point_set(p, "samples", (double)samples);
  point_set(p, "context", (double)context);
  point_set(p, "dim", (double)dim);
  point_set(p, "anchors", (double)samples);
  point_set(p, "orders", 200);
  p->store = MHAS_STORE_CURVES | MHAS_STORE_DATA;
}

/* (T, n + 1, d) numbers in doubles. */
static const char *write_tokens(const char *name, const double *numbers, int T, int rows, int d) {
  char header[128];
  const int length = snprintf(header + 10, sizeof header - 10,
                              "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d, %d), }\n", T, rows, d);
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = (char)length;
  header[9] = 0;
  return folder_write(name, header, 10 + (size_t)length, numbers, (size_t)(T * rows * d) * sizeof *numbers);
}

static void random_data_meet_every_assumption(void **state) {
  (void)state;
  point p;
  start(&p, 100, 8, 16);
  point_choose(&p, "distribution", "gaussian");
  point_runs(&p);
  assert_true(point_real(&p, "assumption1") == 1.0);
  assert_true(point_real(&p, "assumption2") == 1.0);
  assert_true(point_real(&p, "assumption3") == 1.0);
  assert_true(point_real(&p, "general_position") >= 0.99);
  assert_int_equal(point_integer(&p, "kruskal_99"), 16);
  assert_int_equal(point_integer(&p, "kruskal_upper"), 16);
  assert_int_equal(point_integer(&p, "source_hash"), 0);
  for (int k = 1; k <= 16; k++) {
    assert_true(point_curve(&p, C_K, k - 1) == (float)k);
  }
  point_free(&p);
}

/* Wilson's interval for 200 of 200 at 95 %: z^2 = 3.841459, lower end 200 / (200 + z^2). */
static void certain_shares_have_an_interval_too(void **state) {
  (void)state;
  point p;
  start(&p, 100, 8, 16);
  point_runs(&p);
  assert_true(point_curve(&p, C_SHARE, 0) == 1.0F);
  assert_true(point_curve(&p, C_HIGH, 0) == 1.0F);
  assert_true(fabs((double)point_curve(&p, C_LOW, 0) - 200.0 / 203.841459) < 1e-6);
  point_set(&p, "confidence", 0.99);
  point_runs(&p);
  assert_true(fabs((double)point_curve(&p, C_LOW, 0) - 200.0 / 206.634897) < 1e-6);
  point_free(&p);
}

/* Equal queries, and a quarter of the contexts short of a rank; e + mean(E) is as good as random. */
static void each_assumption_fails_by_itself(void **state) {
  (void)state;
  enum { T = 40, ROWS = 4, D = 6 };
  double numbers[T * ROWS * D];
  const mhas_random random = {.seed = 5};
  mhas_random_normal(random, MHAS_STREAM_QUERY, 0, T * ROWS * D, numbers);
  for (int t = 0; t < T; t++) {
    for (int j = 0; j < D; j++) {
      numbers[t * ROWS * D + j] = (double)(j + 1); /* all queries are equal */
      if (t < 10) {
        numbers[t * ROWS * D + 3 * D + j] = -numbers[t * ROWS * D + D + j]; /* rank 2 of 3 */
      }
    }
  }
  point p;
  start(&p, T, 3, D);
  point_choose(&p, "source", "tokens");
  point_write(&p, "path", write_tokens("equal.npy", numbers, T, ROWS, D));
  point_runs(&p);
  assert_true(point_real(&p, "assumption1") == 0.0);
  assert_true(point_real(&p, "assumption2") == 0.75);
  assert_true(point_real(&p, "assumption3") == 1.0);
  assert_true(point_real(&p, "general_position") == 0.0);
  assert_int_equal(point_integer(&p, "kruskal_99"), 1);
  assert_int_equal(point_integer(&p, "kruskal_upper"), 1);
  assert_true(point_integer(&p, "source_hash") > 0);
  const kept *certificate = point_kept(&p, "certificate");
  assert_non_null(certificate);
  assert_int_equal(certificate->count, D + 1);
  assert_true(certificate->data[0] < certificate->data[1] && isnan(certificate->data[2]));
  const kept *e = point_kept(&p, "e");
  const kept *E = point_kept(&p, "E");
  assert_true(e != NULL && E != NULL);
  assert_int_equal(E->count, T * 3 * D);
  assert_memory_equal(e->data, numbers, D * sizeof *numbers);
  assert_memory_equal(E->data + 3 * D, numbers + (ROWS + 1) * D, 3 * D * sizeof *numbers);
  point_free(&p);
}

/* Dependent to 1e-9: float32 cannot tell that from dependence, float64 can. */
static void the_tolerance_decides_what_counts(void **state) {
  (void)state;
  enum { T = 4, ROWS = 2, D = 6 };
  double numbers[T * ROWS * D];
  const mhas_random random = {.seed = 6};
  mhas_random_normal(random, MHAS_STREAM_QUERY, 0, T * ROWS * D, numbers);
  for (int j = 0; j < D; j++) {
    numbers[2 * ROWS * D + j] = numbers[j] + numbers[ROWS * D + j] + (j == 0 ? 1e-9 : 0.0);
  }
  point p;
  start(&p, T, 1, D);
  point_choose(&p, "source", "tokens");
  point_write(&p, "path", write_tokens("near.npy", numbers, T, ROWS, D));
  point_runs(&p);
  assert_int_equal(point_integer(&p, "kruskal_upper"), 2);
  assert_true(point_curve(&p, C_SHARE, 2) < 1.0F);
  assert_true(point_curve(&p, C_FLOAT64, 2) == 1.0F);
  assert_true(isnan(point_real(&p, "general_position"))); /* 4 vectors have no 6-subset */
  point_choose(&p, "tolerance", "float64");
  point_runs(&p);
  assert_int_equal(point_integer(&p, "kruskal_upper"), 4);
  assert_true(point_curve(&p, C_SHARE, 2) == 1.0F);
  assert_true(isnan(point_kept(&p, "certificate")->data[0])); /* nothing is dependent */
  point_free(&p);
}

static void more_rows_than_dim_are_never_independent(void **state) {
  (void)state;
  point p;
  start(&p, 30, 9, 8);
  point_choose(&p, "context_type", "shared");
  point_runs(&p);
  assert_true(point_real(&p, "assumption1") == 0.0);
  assert_true(point_real(&p, "assumption2") == 0.0);
  assert_true(point_real(&p, "assumption3") == 0.0);
  point_free(&p);
  start(&p, 3, 4, 8);
  point_runs(&p);
  assert_true(isnan(point_real(&p, "assumption1")));
  assert_true(point_real(&p, "assumption2") == 1.0);
  assert_int_equal(point_integer(&p, "kruskal_upper"), 3);
  point_free(&p);
}

static void the_same_point_gives_the_same_bits(void **state) {
  (void)state;
  point p;
  point q;
  start(&p, 60, 5, 12);
  start(&q, 60, 5, 12);
  point_choose(&p, "stage", "transformer");
  point_choose(&q, "stage", "transformer");
  point_runs(&p);
  point_runs(&q);
  assert_memory_equal(p.results, q.results, sizeof(mhas_value) * (size_t)p.experiment->result_count);
  assert_memory_equal(p.curves, q.curves, sizeof(float) * 5 * 12);
  point_free(&p);
  point_free(&q);
}

static void a_point_stops_when_told(void **state) {
  (void)state;
  point p;
  start(&p, 20, 3, 8);
  point_ends_where_told(&p, 21, 17);
  point_ends_where_the_store_breaks(&p, 3);
  point_free(&p);
}

static void files_are_looked_at_before_anything_runs(void **state) {
  (void)state;
  enum { T = 4, ROWS = 2, D = 6 };
  double numbers[T * ROWS * D] = {0.0};
  point p;
  start(&p, T, 1, D);
  point_choose(&p, "source", "tokens");
  assert_int_equal(point_check(&p), MHAS_USAGE);
  point_write(&p, "path", write_tokens("zero.npy", numbers, T, ROWS, D));
  assert_int_equal(point_check(&p), MHAS_OK);
  assert_int_equal(p.experiment->inspect(p.values, &p.error), MHAS_OK);
  point_set(&p, "samples", T + 1);
  assert_int_equal(point_check(&p), MHAS_USAGE);
  point_set(&p, "samples", T);
  numbers[7] = NAN;
  point_write(&p, "path", write_tokens("nan.npy", numbers, T, ROWS, D));
  assert_int_equal(point_check(&p), MHAS_OK); /* the header is good */
  assert_int_equal(p.experiment->inspect(p.values, &p.error), MHAS_USAGE);
  assert_int_equal(point_run(&p), MHAS_NUMERIC);
  point_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_data_meet_every_assumption),
      cmocka_unit_test(certain_shares_have_an_interval_too),
      cmocka_unit_test(each_assumption_fails_by_itself),
      cmocka_unit_test(the_tolerance_decides_what_counts),
      cmocka_unit_test(more_rows_than_dim_are_never_independent),
      cmocka_unit_test(the_same_point_gives_the_same_bits),
      cmocka_unit_test(a_point_stops_when_told),
      cmocka_unit_test(files_are_looked_at_before_anything_runs),
  };
  return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
