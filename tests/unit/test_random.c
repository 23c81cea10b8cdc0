/* The counter-based random numbers, against known answers and against themselves. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "data/model/expected.h"
#include "mhasweep/base.h"

static const mhas_random expected_random = {.seed = 0x0123456789abcdefu, .replicate = 7};

static void philox_gives_the_known_answer_for_all_zeros(void **state) {
  (void)state;
  /* Random123's kat_vectors: philox4x32 10, counter and key zero -> 6627e8d5 e169c58d bc57ac4c 9b00dbd8. */
  uint64_t words[2];
  mhas_random_words((mhas_random){0}, (mhas_stream)0, 0, 2, words);
  assert_true(words[0] == 0xe169c58d6627e8d5u);
  assert_true(words[1] == 0x9b00dbd8bc57ac4cu);
}

static void words_are_philox_of_seed_replicate_stream_and_index(void **state) {
  (void)state;
  uint64_t words[4];
  mhas_random_words(expected_random, MHAS_STREAM_QUERY, 0, 4, words);
  assert_memory_equal(words, expected_words, 4 * sizeof *words);
  mhas_random_words(expected_random, MHAS_STREAM_QUERY, (1ull << 40) + 3, 3, words);
  assert_memory_equal(words, expected_words + 4, 3 * sizeof *words);
}

static void numbers_are_the_expected_ones(void **state) {
  (void)state;
  double numbers[5];
  mhas_random_uniform(expected_random, MHAS_STREAM_CONTEXT, 0, 5, numbers);
  assert_memory_equal(numbers, expected_uniform, sizeof numbers);
  mhas_random_normal(expected_random, MHAS_STREAM_CONTEXT, 0, 5, numbers);
  assert_all_close(numbers, expected_normal, 5, 1e-15);
  int64_t below[12];
  mhas_random_below(expected_random, MHAS_STREAM_LABEL, 0, 12, 10, below);
  assert_memory_equal(below, expected_below_10, sizeof below);
  int64_t order[9];
  mhas_random_permutation(expected_random, MHAS_STREAM_SHUFFLE, 3, 9, order);
  assert_memory_equal(order, expected_permutation_3_of_9, sizeof order);
}

static void any_part_is_the_same_as_in_the_whole(void **state) {
  (void)state;
  enum { N = 41 };
  double whole[N];
  double part[N];
  mhas_random_normal(expected_random, MHAS_STREAM_W_KEY, 0, N, whole);
  for (size_t first = 0; first < N; first++) {
    for (size_t count = 0; first + count <= N; count++) {
      mhas_random_normal(expected_random, MHAS_STREAM_W_KEY, first, count, part);
      assert_memory_equal(part, whole + first, count * sizeof *part);
    }
  }
}

static void seeds_replicates_and_streams_differ(void **state) {
  (void)state;
  const mhas_random randoms[] = {{1, 0}, {1ull << 32, 0}, {1, 1}, {0, 1}};
  uint64_t words[8];
  for (size_t i = 0; i < 4; i++) {
    mhas_random_words(randoms[i], MHAS_STREAM_QUERY, 0, 1, &words[2 * i]);
    mhas_random_words(randoms[i], MHAS_STREAM_CONTEXT, 0, 1, &words[2 * i + 1]);
  }
  for (size_t i = 0; i < 8; i++) {
    for (size_t j = 0; j < i; j++) {
      assert_true(words[i] != words[j]);
    }
  }
}

enum { MANY = 200000 };

/* Fails beyond five standard deviations of the mean of `MANY` values with the given variance. */
static void check_mean(const double *values, double power, double expected, double variance) {
  double sum = 0.0;
  for (size_t i = 0; i < MANY; i++) {
    sum += pow(values[i], power);
  }
  assert_close(sum / MANY, expected, 5.0 * sqrt(variance / MANY));
}

static void uniform_numbers_have_their_moments(void **state) {
  (void)state;
  double *values = malloc(MANY * sizeof *values);
  assert_non_null(values);
  mhas_random_uniform(expected_random, MHAS_STREAM_CONTEXT, 1, MANY, values);
  for (size_t i = 0; i < MANY; i++) {
    assert_true(values[i] >= 0.0 && values[i] < 1.0);
  }
  check_mean(values, 1, 1.0 / 2, 1.0 / 12);
  check_mean(values, 2, 1.0 / 3, 4.0 / 45);
  check_mean(values, 3, 1.0 / 4, 9.0 / 112);
  free(values);
}

static void normal_numbers_have_their_moments(void **state) {
  (void)state;
  double *values = malloc(MANY * sizeof *values);
  assert_non_null(values);
  mhas_random_normal(expected_random, MHAS_STREAM_CONTEXT, 0, MANY, values);
  check_mean(values, 1, 0, 1);
  check_mean(values, 2, 1, 2);
  check_mean(values, 3, 0, 15);
  check_mean(values, 4, 3, 96);
  free(values);
}

static void integers_are_uniform_below_their_bound(void **state) {
  (void)state;
  enum { BOUND = 7 };
  int64_t *values = malloc(MANY * sizeof *values);
  assert_non_null(values);
  int64_t seen[BOUND] = {0};
  mhas_random_below(expected_random, MHAS_STREAM_LABEL, 0, MANY, BOUND, values);
  for (size_t i = 0; i < MANY; i++) {
    assert_in_range(values[i], 0, BOUND - 1);
    seen[values[i]]++;
  }
  double chi2 = 0.0;
  for (int i = 0; i < BOUND; i++) {
    const double expected = (double)MANY / BOUND;
    chi2 += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
  }
  assert_true(chi2 < 33.1); /* 6 degrees of freedom, p = 1e-5 */
  free(values);
}

static void a_permutation_has_every_number_once(void **state) {
  (void)state;
  enum { N = 1000 };
  int64_t order[N];
  int64_t other[N];
  for (size_t count = 0; count <= 5; count++) {
    mhas_random_permutation(expected_random, MHAS_STREAM_SHUFFLE, 2, count, order);
    bool seen[5] = {false};
    for (size_t i = 0; i < count; i++) {
      assert_in_range(order[i], 0, count - 1);
      assert_false(seen[order[i]]);
      seen[order[i]] = true;
    }
  }
  bool seen[N] = {false};
  mhas_random_permutation(expected_random, MHAS_STREAM_SHUFFLE, 0, N, order);
  for (size_t i = 0; i < N; i++) {
    assert_in_range(order[i], 0, N - 1);
    assert_false(seen[order[i]]);
    seen[order[i]] = true;
  }
  mhas_random_permutation(expected_random, MHAS_STREAM_SHUFFLE, 1, N, other);
  assert_memory_not_equal(order, other, sizeof order);
}

static void permutations_of_three_are_equally_frequent(void **state) {
  (void)state;
  enum { ROUNDS = 60000 };
  int64_t seen[27] = {0};
  for (uint64_t round = 0; round < ROUNDS; round++) {
    int64_t order[3];
    mhas_random_permutation(expected_random, MHAS_STREAM_SHUFFLE, round, 3, order);
    seen[9 * order[0] + 3 * order[1] + order[2]]++;
  }
  const int places[6] = {5, 7, 11, 15, 19, 21}; /* 012 021 102 120 201 210 */
  double chi2 = 0.0;
  for (int i = 0; i < 6; i++) {
    const double off = (double)seen[places[i]] - ROUNDS / 6.0;
    chi2 += off * off / (ROUNDS / 6.0);
  }
  assert_true(chi2 < 30.9); /* 5 degrees of freedom, p = 1e-5 */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_gives_the_known_answer_for_all_zeros),
      cmocka_unit_test(words_are_philox_of_seed_replicate_stream_and_index),
      cmocka_unit_test(numbers_are_the_expected_ones),
      cmocka_unit_test(any_part_is_the_same_as_in_the_whole),
      cmocka_unit_test(seeds_replicates_and_streams_differ),
      cmocka_unit_test(uniform_numbers_have_their_moments),
      cmocka_unit_test(normal_numbers_have_their_moments),
      cmocka_unit_test(integers_are_uniform_below_their_bound),
      cmocka_unit_test(a_permutation_has_every_number_once),
      cmocka_unit_test(permutations_of_three_are_equally_frequent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
