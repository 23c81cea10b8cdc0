/* Synthetic samples: where each number comes from, and how they are held. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "mhasweep/data.h"

static const mhas_random random_ = {.seed = 3, .replicate = 2};

enum { T = 7, N = 3, D = 5 };

static mhas_data_shape small(bool shared, mhas_distribution distribution, int64_t classes) {
  return (mhas_data_shape){
      .samples = T, .context = N, .dim = D, .shared = shared, .distribution = distribution, .classes = classes};
}

static void entries_are_numbered_as_documented(void **state) {
  (void)state;
  const mhas_data_shape shape = small(false, MHAS_UNIFORM, 0);
  double E[T * N * D];
  double e[T * D];
  double y[T];
  mhas_data_contexts(&shape, random_, 0, T, E);
  mhas_data_queries(&shape, random_, 0, T, e);
  mhas_data_labels(&shape, random_, 0, T, y);
  double number = 0.0;
  for (uint64_t t = 0; t < T; t++) {
    for (uint64_t j = 0; j < D; j++) {
      for (uint64_t i = 0; i < N; i++) {
        mhas_random_uniform(random_, MHAS_STREAM_CONTEXT, (t * N + i) * D + j, 1, &number);
        assert_true(E[(t * N + i) * D + j] == number);
      }
      mhas_random_uniform(random_, MHAS_STREAM_QUERY, t * D + j, 1, &number);
      assert_true(e[t * D + j] == number);
    }
    mhas_random_uniform(random_, MHAS_STREAM_LABEL, t, 1, &number);
    assert_true(y[t] == number);
  }
}

static void fewer_samples_are_a_prefix_of_more(void **state) {
  (void)state;
  const mhas_data_shape few = small(false, MHAS_GAUSSIAN, 10);
  mhas_data_shape many = few;
  many.samples = 2 * T;
  double some[2 * T * N * D];
  double all[2 * T * N * D];
  mhas_data_contexts(&few, random_, 0, T, some);
  mhas_data_contexts(&many, random_, 0, 2 * T, all);
  assert_memory_equal(some, all, T * N * D * sizeof *some);
  mhas_data_queries(&few, random_, 0, T, some);
  mhas_data_queries(&many, random_, 0, 2 * T, all);
  assert_memory_equal(some, all, T * D * sizeof *some);
  mhas_data_labels(&few, random_, 0, T, some);
  mhas_data_labels(&many, random_, 0, 2 * T, all);
  assert_memory_equal(some, all, T * sizeof *some);
}

static void a_block_is_the_same_as_in_the_whole(void **state) {
  (void)state;
  const mhas_data_shape shape = small(false, MHAS_GAUSSIAN, 4);
  double whole[T * N * D];
  double block[T * N * D];
  for (int64_t first = 0; first < T; first++) {
    const int64_t count = T - first < 3 ? T - first : 3;
    mhas_data_contexts(&shape, random_, 0, T, whole);
    mhas_data_contexts(&shape, random_, first, count, block);
    assert_memory_equal(block, whole + first * N * D, (size_t)(count * N * D) * sizeof *block);
    mhas_data_queries(&shape, random_, 0, T, whole);
    mhas_data_queries(&shape, random_, first, count, block);
    assert_memory_equal(block, whole + first * D, (size_t)(count * D) * sizeof *block);
    mhas_data_labels(&shape, random_, 0, T, whole);
    mhas_data_labels(&shape, random_, first, count, block);
    assert_memory_equal(block, whole + first, (size_t)count * sizeof *block);
  }
}

static void the_shared_context_is_the_first_own_one(void **state) {
  (void)state;
  const mhas_data_shape own = small(false, MHAS_UNIFORM, 0);
  const mhas_data_shape shared = small(true, MHAS_UNIFORM, 0);
  double a[N * D];
  double b[N * D];
  assert_int_equal(mhas_data_contexts_count(&own), T);
  assert_int_equal(mhas_data_contexts_count(&shared), 1);
  mhas_data_contexts(&own, random_, 0, 1, a);
  mhas_data_contexts(&shared, random_, 0, 1, b);
  assert_memory_equal(a, b, sizeof a);
}

static void classes_are_whole_numbers_below_their_count(void **state) {
  (void)state;
  mhas_data_shape shape = small(false, MHAS_UNIFORM, 3);
  shape.samples = 300;
  double y[300];
  int64_t seen[3] = {0};
  mhas_data_labels(&shape, random_, 0, 300, y);
  for (size_t t = 0; t < 300; t++) {
    assert_true(y[t] == floor(y[t]) && y[t] >= 0.0 && y[t] < 3.0);
    seen[(int)y[t]]++;
  }
  assert_true(seen[0] > 50 && seen[1] > 50 && seen[2] > 50);
}

static void held_samples_are_the_drawn_ones_rounded(void **state) {
  (void)state;
  for (int variant = 0; variant < 4; variant++) {
    const mhas_precision precision = variant % 2 == 0 ? MHAS_FLOAT32 : MHAS_FLOAT64;
    const mhas_data_shape shape = small(variant / 2 == 1, MHAS_GAUSSIAN, 5);
    const size_t contexts = (size_t)mhas_data_contexts_count(&shape) * N * D;
    mhas_samples samples;
    mhas_error error;
    assert_int_equal(mhas_samples_create(&shape, precision, &samples, &error), MHAS_OK);
    /* In two pieces, the second first. */
    assert_int_equal(mhas_samples_draw(&samples, random_, 4, T - 4, &error), MHAS_OK);
    assert_int_equal(mhas_samples_draw(&samples, random_, 0, 4, &error), MHAS_OK);
    double E[T * N * D];
    double e[T * D];
    double y[T];
    double held[T * N * D];
    mhas_data_contexts(&shape, random_, 0, mhas_data_contexts_count(&shape), E);
    mhas_data_queries(&shape, random_, 0, T, e);
    mhas_data_labels(&shape, random_, 0, T, y);
    mhas_samples_get_contexts(&samples, held);
    for (size_t i = 0; i < contexts; i++) {
      assert_true(held[i] == (precision == MHAS_FLOAT32 ? (double)(float)E[i] : E[i]));
    }
    mhas_samples_get_queries(&samples, held);
    for (size_t i = 0; i < T * D; i++) {
      assert_true(held[i] == (precision == MHAS_FLOAT32 ? (double)(float)e[i] : e[i]));
    }
    assert_memory_equal(samples.labels, y, sizeof y);
    mhas_samples_free(&samples);
  }
}

static void samples_beyond_memory_are_refused(void **state) {
  (void)state;
  mhas_data_shape shape = small(false, MHAS_UNIFORM, 0);
  shape.samples = (int64_t)1 << 40;
  shape.context = (int64_t)1 << 20;
  shape.dim = (int64_t)1 << 20;
  mhas_samples samples;
  mhas_error error;
  assert_int_equal(mhas_samples_create(&shape, MHAS_FLOAT32, &samples, &error), MHAS_NO_MEMORY);
  assert_non_null(strstr(error.text, "contexts"));
  mhas_samples_free(&samples);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(entries_are_numbered_as_documented),
      cmocka_unit_test(fewer_samples_are_a_prefix_of_more),
      cmocka_unit_test(a_block_is_the_same_as_in_the_whole),
      cmocka_unit_test(the_shared_context_is_the_first_own_one),
      cmocka_unit_test(classes_are_whole_numbers_below_their_count),
      cmocka_unit_test(held_samples_are_the_drawn_ones_rounded),
      cmocka_unit_test(samples_beyond_memory_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
