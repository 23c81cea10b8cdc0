/* probe: the exact ranks of the theory, an independent program's numbers, and what a row and a file get. */
#include <inttypes.h>

#include "data/model/expected.h"
#include "mhasweep/linalg.h"
#include "point.h"

static point probe(int H, int n, int d, int d_h, int T, const char *context_type) {
  point p;
  point_start(&p, "probe");
  point_set(&p, "heads", H);
  point_set(&p, "context", n);
  point_set(&p, "dim", d);
  point_set(&p, "key_dim", d_h);
  point_set(&p, "samples", T);
  point_set(&p, "out_dim", d); /* of a training, which these points have none of */
  point_set(&p, "steps", 1);
  point_choose(&p, "context_type", context_type);
  return p;
}

static const int heads[] = {1, 2, 4, 8};
static const int contexts[] = {2, 8, 16};
static const int key_dims[] = {4, 32};

static void a_shared_context_has_exactly_the_rank_of_the_theory(void **state) {
  (void)state;
  for (int i = 0; i < 24; i++) {
    const int H = heads[i / 6];
    const int n = contexts[i / 2 % 3];
    point p = probe(H, n, 32, key_dims[i % 2], H * 32 + 20, "shared");
    point_runs(&p);
    if (point_integer(&p, "rank") != H * (n - 1) + 1) {
      fail_msg("H = %d, n = %d, d_h = %d: rank %d, not %d", H, n, key_dims[i % 2], (int)point_integer(&p, "rank"),
               H * (n - 1) + 1);
    }
    assert_int_equal(point_integer(&p, "bound_shared"), H * (n - 1) + 1);
    assert_int_equal(point_integer(&p, "bound_width"), H * 32);
    point_free(&p);
  }
}

static void own_contexts_have_full_rank(void **state) {
  (void)state;
  for (int i = 0; i < 24; i++) {
    const int H = heads[i / 6];
    for (int T = H * 32 - 12; T <= H * 32 + 12; T += 24) {
      point p = probe(H, contexts[i / 2 % 3], 32, key_dims[i % 2], T, "own");
      point_runs(&p);
      assert_int_equal(point_integer(&p, "rank"), T < H * 32 ? T : H * 32);
      point_free(&p);
    }
  }
}

static void as_many_samples_as_the_rank_are_memorized_and_more_are_not(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    const int limit = 4 * 7 + 1;
    point p = probe(4, 8, 32, 32, limit + i, "shared");
    point_choose(&p, "distribution", "gaussian");
    point_runs(&p);
    assert_int_equal(point_integer(&p, "memorized"), i == 0);
    assert_int_equal(point_integer(&p, "rank"), limit);
    if (i == 0) {
      assert_true(point_real(&p, "residual") < 1e-9);
    } else {
      assert_true(point_real(&p, "residual") > 1e-6);
    }
    point_free(&p);
  }
}

static void classes_are_memorized_where_the_largest_output_is_right(void **state) {
  (void)state;
  point p = probe(4, 8, 16, 16, 60, "own");
  point_choose(&p, "labels", "classes");
  point_set(&p, "classes", 5);
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_Z;
  point_runs(&p);
  assert_int_equal(point_integer(&p, "memorized"), 1); /* T <= H d */
  assert_true(point_real(&p, "residual") < 1e-9);
  point_free(&p);
  point_set(&p, "samples", 70); /* a little over H d: not fitted, and still classified right */
  point_runs(&p);
  assert_true(point_real(&p, "residual") > 1e-3);
  assert_int_equal(point_integer(&p, "memorized"), 1);
  point_set(&p, "samples", 1000);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "memorized"), 0);
  /* The flag is what the stored arrays say. */
  const kept *Z = point_kept(&p, "Z");
  const kept *B = point_kept(&p, "B");
  const kept *y = point_kept(&p, "y");
  assert_int_equal(B->count, 64 * 5);
  double errors = 0.0;
  for (int64_t t = 0; t < 1000; t++) {
    for (int64_t c = 0; c < 5; c++) {
      double off = c == (int64_t)y->data[t] ? -1.0 : 0.0;
      for (int64_t j = 0; j < 64; j++) {
        off += Z->data[t * 64 + j] * B->data[j * 5 + c];
      }
      errors += off * off;
    }
  }
  assert_close(point_real(&p, "residual"), sqrt(errors / 1000.0), 1e-10);
  point_free(&p);
}

static void check_numbers(point *p, int rank, const double *sigma, const double *last_row, const double *facts) {
  p->random = (mhas_random){.seed = 42, .replicate = 1};
  p->store = MHAS_STORE_SPECTRUM | MHAS_STORE_WEIGHTS | MHAS_STORE_Z;
  point_runs(p);
  assert_int_equal(point_integer(p, "rank"), rank);
  for (int i = 0; i < rank; i++) {
    assert_close(p->spectrum[i] / sigma[0], sigma[i] / sigma[0], 1e-14);
  }
  const kept *Z = point_kept(p, "Z");
  const int64_t width = Z->count / 30;
  assert_all_close(Z->data + 29 * width, last_row, width, 1e-14);
  const kept *B = point_kept(p, "B");
  double squares = 0.0;
  for (int64_t i = 0; i < B->count; i++) {
    squares += B->data[i] * B->data[i];
  }
  assert_close(point_real(p, "condition") / facts[0], 1.0, 1e-10);
  assert_close(point_real(p, "residual"), facts[1], 1e-10);
  assert_close(sqrt(squares) / facts[2], 1.0, 1e-9);
  assert_close(point_real(p, "saturated"), facts[3], 1e-15);
  point_free(p);
}

static void own_contexts_give_the_expected_numbers(void **state) {
  (void)state;
  point p = probe(2, 3, 4, 3, 30, "own");
  point_choose(&p, "distribution", "gaussian");
  point_set(&p, "logit_scale", 40);
  check_numbers(&p, 8, expected_probe_own_sigma, expected_probe_own_last_row, expected_probe_own_facts);
}

static void a_shared_context_gives_the_expected_numbers(void **state) {
  (void)state;
  point p = probe(3, 3, 5, 2, 30, "shared");
  point_choose(&p, "labels", "classes");
  point_set(&p, "classes", 4);
  check_numbers(&p, 7, expected_probe_shared_sigma, expected_probe_shared_last_row, expected_probe_shared_facts);
}

static void ranks_at_tolerances_come_from_the_stored_spectrum(void **state) {
  (void)state;
  point p = probe(4, 16, 32, 4, 200, "shared");
  p.store = MHAS_STORE_SPECTRUM;
  point_runs(&p);
  assert_int_equal(p.row.spectrum_capacity, 128);
  const double tolerances[] = {1e-3, 1e-6, 1e-9, 200 * 0x1p-52};
  const char *names[] = {"rank_1e3", "rank_1e6", "rank_1e9", "rank"};
  for (int i = 0; i < 4; i++) {
    assert_int_equal(point_integer(&p, names[i]), mhas_numerical_rank(p.spectrum, 128, tolerances[i]));
    assert_true(i == 0 || point_integer(&p, names[i]) >= point_integer(&p, names[i - 1]));
  }
  assert_true(point_integer(&p, "rank_1e3") < point_integer(&p, "rank"));
  assert_close(point_real(&p, "condition"), p.spectrum[0] / p.spectrum[point_integer(&p, "rank") - 1], 1e-15);
  point_free(&p);
}

static void loose_ranks_are_missing_where_they_are_not_asked(void **state) {
  (void)state;
  point p = probe(4, 16, 32, 4, 200, "shared");
  point_set(&p, "loose_ranks", 0);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "rank_1e3"), -1);
  assert_int_equal(point_integer(&p, "rank_1e6"), -1);
  assert_int_equal(point_integer(&p, "rank_1e9"), -1);
  assert_int_equal(point_integer(&p, "rank"), 4 * 15 + 1);
  point_free(&p);
}

static void theory_stands_beside_the_measurement(void **state) {
  (void)state;
  point p = probe(20, 32, 64, 16, 10, "own");
  point_runs(&p);
  assert_int_equal(point_integer(&p, "bound_lower"), 20 * 15 + 1);
  assert_int_equal(point_integer(&p, "bound_shared"), 20 * 31 + 1);
  assert_int_equal(point_integer(&p, "bound_width"), 20 * 64);
  assert_int_equal(point_integer(&p, "parameters"), 2 * 20 * 64 * 16 + 20 * 64);
  point_choose(&p, "labels", "classes");
  point_runs(&p);
  assert_int_equal(point_integer(&p, "parameters"), 2 * 20 * 64 * 16 + 20 * 64 * 100);
  point_free(&p);
}

static void one_context_row_saturates_every_head(void **state) {
  (void)state;
  point p = probe(3, 1, 4, 4, 9, "shared");
  point_runs(&p);
  assert_close(point_real(&p, "saturated"), 1.0, 0.0);
  assert_int_equal(point_integer(&p, "rank"), 1);
  point_free(&p);
}

/* The rows of Z are what the stored E, e, W_Q and W_K say, one at a time; T makes several blocks and a short one. */
static void stored_arrays_reproduce_z(void **state) {
  (void)state;
  enum { H = 2, N = 3, D = 5, K = 2, T = 600 };
  for (int shared = 0; shared < 2; shared++) {
    point p = probe(H, N, D, K, T, shared ? "shared" : "own");
    p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_Z;
    point_runs(&p);
    assert_int_equal(p.kept_count, 7);
    const double *E = point_kept(&p, "E")->data;
    const double *e = point_kept(&p, "e")->data;
    const double *W_Q = point_kept(&p, "W_Q")->data;
    const double *W_K = point_kept(&p, "W_K")->data;
    assert_int_equal(point_kept(&p, "E")->count, (shared ? 1 : T) * N * D);
    for (int t = 0; t < T; t++) {
      for (int h = 0; h < H; h++) {
        double weight[N];
        double sum = 0.0;
        for (int i = 0; i < N; i++) {
          double logit = 0.0;
          for (int k = 0; k < K; k++) {
            double query = 0.0;
            double key = 0.0;
            for (int j = 0; j < D; j++) {
              query += e[t * D + j] * W_Q[(h * D + j) * K + k];
              key += E[((shared ? 0 : t) * N + i) * D + j] * W_K[(h * D + j) * K + k];
            }
            logit += query * key;
          }
          weight[i] = exp(logit / sqrt(D));
          sum += weight[i];
        }
        for (int j = 0; j < D; j++) {
          double z = 0.0;
          for (int i = 0; i < N; i++) {
            z += weight[i] / sum * E[((shared ? 0 : t) * N + i) * D + j];
          }
          assert_close(point_kept(&p, "Z")->data[t * H * D + h * D + j], z, 1e-14);
        }
      }
    }
    point_free(&p);
  }
}

static void only_the_wanted_arrays_are_announced(void **state) {
  (void)state;
  point p = probe(2, 3, 4, 5, 6, "own");
  mhas_array out[MHAS_ARRAYS_MOST];
  assert_int_equal(p.experiment->arrays(p.values, MHAS_STORE_CURVES | MHAS_STORE_SPECTRUM, out), 0);
  assert_int_equal(p.experiment->arrays(p.values, MHAS_STORE_Z, out), 1);
  assert_string_equal(out[0].name, "Z");
  assert_int_equal(out[0].shape[0], 6);
  assert_int_equal(out[0].shape[1], 8);
  assert_int_equal(p.experiment->arrays(p.values, MHAS_STORE_DATA, out), 3);
  assert_int_equal(out[0].rank, 3);
  assert_int_equal(p.experiment->arrays(p.values, MHAS_STORE_WEIGHTS, out), 3);
  assert_int_equal(out[1].shape[2], 5);
}

static void runs_repeat_bit_for_bit_and_replicates_differ(void **state) {
  (void)state;
  point a = probe(3, 8, 16, 8, 300, "own");
  point b = a;
  point c = a;
  c.random.replicate = 1;
  a.store = b.store = c.store = MHAS_STORE_SPECTRUM;
  point_runs(&a);
  point_runs(&b);
  point_runs(&c);
  assert_memory_equal(a.results, b.results, sizeof a.results);
  assert_memory_equal(a.spectrum, b.spectrum, 48 * sizeof(double));
  assert_memory_not_equal(a.spectrum, c.spectrum, 48 * sizeof(double));
  point_free(&a);
  point_free(&b);
  point_free(&c);
}

static void a_request_to_stop_is_passed_on(void **state) {
  (void)state;
  point p = probe(2, 3, 4, 4, 600, "own");
  point_ends_where_told(&p, 3, 1);
  point_free(&p);
}

static void a_store_that_breaks_is_passed_on(void **state) {
  (void)state;
  point p = probe(2, 3, 4, 5, 6, "own");
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_Z;
  point_ends_where_the_store_breaks(&p, 7);
  point_free(&p);
}

static void sizes_that_cannot_be_are_usage_errors(void **state) {
  (void)state;
  point p = probe(1 << 20, 2, 1 << 20, 4, 10, "own");
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_int_equal(p.error.code, MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "heads * dim"));
  p = probe(1 << 10, 2, 1 << 10, 4, 1 << 30, "own");
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "Z (samples x heads dim)"));
  p = probe(1, 1 << 20, 1 << 10, 4, 1 << 20, "own");
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "contexts"));
  point_choose(&p, "context_type", "shared");
  assert_int_equal(point_check(&p), MHAS_OK);
  point_choose(&p, "labels", "classes");
  point_set(&p, "samples", 1 << 28);
  point_set(&p, "classes", 1 << 20);
  point_set(&p, "dim", 2);
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "labels"));
}

static void cost_grows_with_the_point_and_names_its_spectrum(void **state) {
  (void)state;
  point p = probe(4, 8, 16, 16, 50, "own");
  const mhas_cost small = p.experiment->cost(p.values);
  assert_int_equal(small.spectrum, 50);
  assert_int_equal(small.records, 0);
  point_set(&p, "samples", 500);
  const mhas_cost large = p.experiment->cost(p.values);
  assert_int_equal(large.spectrum, 64);
  assert_true(large.flops > small.flops && large.bytes > small.bytes);
  assert_true(large.bytes > 2 * 500 * 64 * 8);
  point_runs(&p);
  assert_close(p.row.flops, large.flops, 1e-12);
  point_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_shared_context_has_exactly_the_rank_of_the_theory),
      cmocka_unit_test(own_contexts_have_full_rank),
      cmocka_unit_test(as_many_samples_as_the_rank_are_memorized_and_more_are_not),
      cmocka_unit_test(classes_are_memorized_where_the_largest_output_is_right),
      cmocka_unit_test(own_contexts_give_the_expected_numbers),
      cmocka_unit_test(a_shared_context_gives_the_expected_numbers),
      cmocka_unit_test(ranks_at_tolerances_come_from_the_stored_spectrum),
      cmocka_unit_test(loose_ranks_are_missing_where_they_are_not_asked),
      cmocka_unit_test(theory_stands_beside_the_measurement),
      cmocka_unit_test(one_context_row_saturates_every_head),
      cmocka_unit_test(stored_arrays_reproduce_z),
      cmocka_unit_test(only_the_wanted_arrays_are_announced),
      cmocka_unit_test(runs_repeat_bit_for_bit_and_replicates_differ),
      cmocka_unit_test(a_request_to_stop_is_passed_on),
      cmocka_unit_test(a_store_that_breaks_is_passed_on),
      cmocka_unit_test(sizes_that_cannot_be_are_usage_errors),
      cmocka_unit_test(cost_grows_with_the_point_and_names_its_spectrum),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
