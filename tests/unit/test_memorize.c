/* memorize: an independent program's training, the recipe's rules, and how a training ends. */
#include <inttypes.h>

#include "data/model/expected.h"
#include "mhasweep/data.h"
#include "point.h"

/* Sanitizers would end the program where an allocation is refused; the tests want to see it refused. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

enum { STEP, LOSS, ACCURACY };

static point memorize(int H, int n, int d, int T, const char *context_type) {
  point p;
  point_start(&p, "memorize");
  point_set(&p, "heads", H);
  point_set(&p, "context", n);
  point_set(&p, "dim", d);
  point_set(&p, "key_dim", d);
  point_set(&p, "out_dim", d);
  point_set(&p, "samples", T);
  point_set(&p, "steps", 100);
  point_choose(&p, "context_type", context_type);
  p.store = MHAS_STORE_CURVES;
  return p;
}

/* A problem that a few hundred steps solve: few samples, own contexts, values as wide as the embedding. */
static point easy(void) {
  point p = memorize(4, 4, 12, 40, "own");
  point_set(&p, "value_dim", 4);
  point_set(&p, "classes", 3);
  point_set(&p, "batch", 16);
  point_set(&p, "steps", 800);
  point_set(&p, "lr", 0.01);
  point_set(&p, "eval_every", 10);
  point_choose(&p, "distribution", "gaussian");
  return p;
}

/* ---- the independent program ------------------------------------------------------ */

static void check_curves(point *p, const double *loss, const double *accuracy, double tolerance) {
  p->random = (mhas_random){.seed = 42, .replicate = 1};
  point_set(p, "steps", 12);
  point_set(p, "lr", 0.02);
  point_set(p, "warmup", 0.25);
  point_set(p, "eval_every", 1);
  point_runs(p);
  assert_int_equal(p->row.record_capacity, 12);
  double best = INFINITY;
  int64_t best_step = 0;
  for (int64_t i = 0; i < 12; i++) {
    assert_close(point_curve(p, STEP, i), (double)i + 1.0, 0.0);
    assert_close(point_curve(p, LOSS, i), loss[i], fmax(tolerance, 1e-7)); /* curves are stored in float */
    if (!isnan(accuracy[i])) {
      assert_close(point_curve(p, ACCURACY, i), accuracy[i], 1e-7);
    } else {
      assert_true(isnan(point_curve(p, ACCURACY, i)));
    }
    if (loss[i] < best) {
      best = loss[i];
      best_step = i + 1;
    }
  }
  assert_close(point_real(p, "loss"), best, tolerance);
  assert_int_equal(point_integer(p, "best_step"), best_step);
  assert_int_equal(point_integer(p, "steps_run"), 12);
  point_free(p);
}

static point small_own(const char *precision) {
  point p = memorize(2, 3, 5, 5, "own");
  point_set(&p, "key_dim", 3);
  point_set(&p, "value_dim", 2);
  point_set(&p, "out_dim", 4);
  point_set(&p, "classes", 3);
  point_set(&p, "logit_scale", 1.5);
  point_set(&p, "batch", 3);
  point_choose(&p, "precision", precision);
  return p;
}

static point small_shared(const char *precision) {
  point p = memorize(3, 4, 6, 6, "shared");
  point_set(&p, "key_dim", 2);
  point_set(&p, "out_dim", 5);
  point_set(&p, "logit_scale", 2);
  point_set(&p, "batch", 2);
  point_choose(&p, "labels", "regression");
  point_choose(&p, "distribution", "gaussian");
  point_choose(&p, "precision", precision);
  return p;
}

static void training_on_classes_follows_the_expected_curve(void **state) {
  (void)state;
  point twice = small_own("float64");
  check_curves(&twice, expected_own_curve_loss, expected_own_curve_accuracy, 1e-12);
  point single = small_own("float32");
  check_curves(&single, expected_own_curve_loss, expected_own_curve_accuracy, 1e-4);
}

static void training_on_numbers_follows_the_expected_curve(void **state) {
  (void)state;
  point twice = small_shared("float64");
  check_curves(&twice, expected_shared_curve_loss, expected_shared_curve_accuracy, 1e-12);
  point single = small_shared("float32");
  check_curves(&single, expected_shared_curve_loss, expected_shared_curve_accuracy, 1e-4);
}

/* ---- rules of the recipe ------------------------------------------------------------- */

static void an_easy_problem_is_memorized_and_stops_early(void **state) {
  (void)state;
  point p = easy();
  point_runs(&p);
  assert_close(point_real(&p, "accuracy"), 1.0, 0.0);
  const int64_t steps_run = point_integer(&p, "steps_run");
  assert_true(steps_run < 800 && steps_run > 10 && steps_run % 10 == 0);
  assert_int_equal(point_integer(&p, "best_step"), steps_run);
  assert_close(point_curve(&p, ACCURACY, steps_run / 10 - 1), 1.0, 0.0);
  assert_true(point_curve(&p, ACCURACY, steps_run / 10 - 2) < 1.0F);
  assert_true(isnan(point_curve(&p, LOSS, steps_run / 10)));
  point_set(&p, "early_stop", 0);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "steps_run"), 800);
  assert_close(point_curve(&p, STEP, 79), 800.0, 0.0);
  point_free(&p);
}

static void evaluation_is_every_so_often_and_at_the_end(void **state) {
  (void)state;
  point p = memorize(1, 2, 3, 10, "own");
  point_set(&p, "steps", 25);
  point_set(&p, "eval_every", 10);
  assert_int_equal(p.experiment->cost(p.values).records, 3);
  point_runs(&p);
  assert_close(point_curve(&p, STEP, 0), 10, 0.0);
  assert_close(point_curve(&p, STEP, 1), 20, 0.0);
  assert_close(point_curve(&p, STEP, 2), 25, 0.0);
  point_set(&p, "eval_every", 25);
  assert_int_equal(p.experiment->cost(p.values).records, 1);
  point_set(&p, "eval_every", 1000);
  point_runs(&p);
  assert_int_equal(p.row.record_capacity, 1);
  assert_close(point_curve(&p, STEP, 0), 25, 0.0);
  point_free(&p);
}

static void the_best_model_is_kept_when_the_loss_grows_again(void **state) {
  (void)state;
  point p = memorize(2, 3, 6, 30, "own");
  point_choose(&p, "labels", "regression");
  point_set(&p, "steps", 300);
  point_set(&p, "lr", 0.3); /* too much, but not enough to diverge */
  point_set(&p, "warmup", 0.9);
  point_set(&p, "eval_every", 3);
  point_set(&p, "batch", 7);
  point_choose(&p, "precision", "float64");
  p.store |= MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
  point_runs(&p);
  float least = INFINITY;
  int64_t at = 0;
  for (int64_t i = 0; i < 100; i++) {
    if (point_curve(&p, LOSS, i) < least) {
      least = point_curve(&p, LOSS, i);
      at = i;
    }
  }
  assert_true(at < 99 && point_curve(&p, LOSS, 99) > 1.01F * least);
  assert_int_equal(point_integer(&p, "best_step"), 3 * (at + 1));
  assert_close(point_real(&p, "loss"), least, 1e-6);
  assert_true(isnan(point_real(&p, "accuracy")));

  /* A shorter run that ends there has the same weights, so the stored ones are the best and not the last. */
  double *decoder = malloc(6 * sizeof *decoder);
  assert_non_null(decoder);
  memcpy(decoder, point_kept(&p, "decoder")->data, 6 * sizeof *decoder);
  const int64_t best_step = point_integer(&p, "best_step");
  const double warm = 270.0;
  assert_true((double)best_step < warm); /* so that the schedule up to there can be made again */
  point_set(&p, "steps", (double)best_step);
  point_set(&p, "warmup", 1.0);
  point_set(&p, "lr", 0.3 * (0.01 + 0.99 * (double)best_step / warm));
  point_set(&p, "warmup_start", 0.01 / (0.01 + 0.99 * (double)best_step / warm));
  point_runs(&p);
  assert_int_equal(point_integer(&p, "best_step"), best_step);
  assert_all_close(point_kept(&p, "decoder")->data, decoder, 6, 1e-9);
  free(decoder);
  point_free(&p);
}

static void one_shared_context_row_gives_the_share_of_the_largest_class(void **state) {
  (void)state;
  point p = memorize(2, 1, 4, 60, "shared");
  point_set(&p, "classes", 3);
  point_set(&p, "batch", 60);
  point_set(&p, "steps", 400);
  point_set(&p, "lr", 0.01);
  p.store |= MHAS_STORE_DATA;
  point_runs(&p);
  int64_t seen[3] = {0};
  for (int t = 0; t < 60; t++) {
    seen[(int)point_kept(&p, "y")->data[t]]++;
  }
  int64_t most = 0;
  double entropy = 0.0;
  for (int c = 0; c < 3; c++) {
    most = seen[c] > most ? seen[c] : most;
    entropy -= (double)seen[c] / 60.0 * log((double)seen[c] / 60.0);
  }
  assert_close(point_real(&p, "accuracy"), (double)most / 60.0, 1e-12);
  assert_close(point_real(&p, "loss"), entropy, 1e-3); /* of the best constant */
  point_free(&p);
}

static void a_batch_larger_than_the_data_is_the_data(void **state) {
  (void)state;
  point p = small_own("float64");
  point_set(&p, "batch", 1 << 30);
  point_runs(&p);
  const double loss = point_real(&p, "loss");
  point_set(&p, "batch", 5);
  point_runs(&p);
  assert_true(point_real(&p, "loss") == loss);
  point_free(&p);
}

static void runs_repeat_bit_for_bit_and_replicates_differ(void **state) {
  (void)state;
  point a = easy();
  point b = a;
  point c = a;
  c.random.replicate = 1;
  point_runs(&a);
  point_runs(&b);
  point_runs(&c);
  const size_t size = (size_t)(3 * a.row.record_capacity) * sizeof *a.curves;
  assert_memory_equal(a.results, b.results, sizeof a.results);
  assert_memory_equal(a.curves, b.curves, size);
  assert_memory_not_equal(a.curves, c.curves, size);
  point_free(&a);
  point_free(&b);
  point_free(&c);
}

/* ---- other endings -------------------------------------------------------------------- */

static void an_absurd_learning_rate_diverges_with_its_step(void **state) {
  (void)state;
  const char *labels[] = {"classes", "regression"};
  for (int i = 0; i < 2; i++) {
    point p = easy();
    point_set(&p, "lr", 1e12);
    point_choose(&p, "labels", labels[i]);
    assert_int_equal(point_run(&p), MHAS_NUMERIC);
    int64_t step = 0;
    char word[16];
    assert_int_equal(sscanf(p.error.text, "diverged at step %" SCNd64 ": loss is %15s (lr 1e+12)", &step, word), 2);
    assert_in_range(step, 2, 10); /* within the first warm-up steps */
    assert_true(strcmp(word, "nan") == 0 || strcmp(word, "infinite") == 0);
    assert_non_null(strstr(p.error.text, "(lr 1e+12)"));
    assert_true(isnan(point_real(&p, "loss")));
    assert_int_equal(point_integer(&p, "best_step"), -1);
    point_free(&p);
  }
}

static void a_request_to_stop_is_passed_on_wherever_it_comes(void **state) {
  (void)state;
  point p = memorize(2, 3, 4, 20, "own");
  point_set(&p, "batch", 8);
  point_set(&p, "steps", 6);
  point_set(&p, "eval_every", 2);
  point_ends_where_told(&p, 6 + 3 * 3, 1); /* every step, every batch of an evaluation */
  point_free(&p);
}

static void a_point_that_does_not_fit_into_memory_fails(void **state) {
  (void)state;
  point p = memorize(1, 1 << 8, 1 << 10, 1 << 26, "own"); /* 64 TiB of contexts */
  assert_int_equal(point_run(&p), MHAS_NO_MEMORY);
  assert_non_null(strstr(p.error.text, "the contexts needs 64.0 TiB"));
  point_free(&p);
}

static void a_store_that_breaks_is_passed_on(void **state) {
  (void)state;
  point p = small_own("float32");
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
  point_ends_where_the_store_breaks(&p, 11);
  point_free(&p);
}

static void sizes_that_cannot_be_are_usage_errors(void **state) {
  (void)state;
  point p = memorize(1 << 16, 2, 1 << 16, 4, "own");
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_int_equal(p.error.code, MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "heads * dim"));
  p = memorize(1, 1 << 16, 1, 1 << 30, "own");
  point_set(&p, "batch", 1 << 30);
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "batch * context"));
  p = memorize(1, 1 << 16, 1 << 16, 1 << 30, "own");
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "contexts"));
  point_choose(&p, "context_type", "shared");
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "queries"));
}

/* ---- what the file gets ------------------------------------------------------------------ */

static void stored_weights_and_data_have_their_shapes(void **state) {
  (void)state;
  point p = small_shared("float32");
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
  mhas_array out[MHAS_ARRAYS_MOST];
  assert_int_equal(p.experiment->arrays(p.values, MHAS_STORE_CURVES | MHAS_STORE_Z, out), 0);
  assert_int_equal(p.experiment->arrays(p.values, MHAS_STORE_DATA, out), 3);
  assert_int_equal(p.experiment->arrays(p.values, MHAS_STORE_WEIGHTS, out), 8);
  point_runs(&p);
  assert_int_equal(p.kept_count, 11);
  const struct {
    const char *name;
    int64_t count;
  } expected[] = {{"embedding", 36}, {"embedding_bias", 6}, {"W_Q", 36}, {"W_K", 36}, {"W_V", 18}, {"W_O", 15},
                  {"decoder", 5},    {"decoder_bias", 1},   {"E", 24},   {"e", 36},   {"y", 6}};
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    const kept *k = point_kept(&p, expected[i].name);
    assert_non_null(k);
    assert_int_equal(k->count, expected[i].count);
    double squares = 0.0;
    for (int64_t j = 0; j < k->count; j++) {
      squares += k->data[j] * k->data[j];
    }
    assert_true(isfinite(squares) && squares > 0.0);
  }
  /* What was trained on, rounded to single precision. */
  double E[24];
  const mhas_data_shape shape = {6, 4, 6, true, MHAS_GAUSSIAN, 0};
  mhas_data_contexts(&shape, p.random, 0, 1, E);
  for (int i = 0; i < 24; i++) {
    assert_true(point_kept(&p, "E")->data[i] == (double)(float)E[i]);
  }
  point_free(&p);
}

static void cost_is_what_is_done_when_nothing_stops_early(void **state) {
  (void)state;
  point p = memorize(3, 5, 8, 50, "own");
  point_set(&p, "batch", 20);
  point_set(&p, "steps", 30); /* ten epochs of 20, 20 and 10 samples */
  point_set(&p, "eval_every", 7);
  point_set(&p, "early_stop", 0);
  const mhas_cost cost = p.experiment->cost(p.values);
  assert_int_equal(cost.records, 5);
  assert_int_equal(cost.spectrum, 0);
  point_runs(&p);
  assert_close(p.row.flops / cost.flops, 1.0, 1e-12);
  point_set(&p, "samples", 5000);
  const mhas_cost more = p.experiment->cost(p.values);
  assert_true(more.bytes > cost.bytes + 4 * 4900 * 5 * 8);
  point_free(&p);
}

static void theory_stands_beside_the_measurement(void **state) {
  (void)state;
  point p = memorize(20, 32, 64, 10, "shared");
  point_set(&p, "key_dim", 10);
  point_set(&p, "steps", 1);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "bound_lower"), 20 * 9 + 1);
  assert_int_equal(point_integer(&p, "bound_shared"), 20 * 31 + 1);
  assert_int_equal(point_integer(&p, "bound_width"), 20 * 64);
  assert_int_equal(point_integer(&p, "parameters"), 4160 + 20 * (128 * 10 + 64 + 64) + 65 * 100);
  point_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(training_on_classes_follows_the_expected_curve),
      cmocka_unit_test(training_on_numbers_follows_the_expected_curve),
      cmocka_unit_test(an_easy_problem_is_memorized_and_stops_early),
      cmocka_unit_test(evaluation_is_every_so_often_and_at_the_end),
      cmocka_unit_test(the_best_model_is_kept_when_the_loss_grows_again),
      cmocka_unit_test(one_shared_context_row_gives_the_share_of_the_largest_class),
      cmocka_unit_test(a_batch_larger_than_the_data_is_the_data),
      cmocka_unit_test(runs_repeat_bit_for_bit_and_replicates_differ),
      cmocka_unit_test(an_absurd_learning_rate_diverges_with_its_step),
      cmocka_unit_test(a_request_to_stop_is_passed_on_wherever_it_comes),
      cmocka_unit_test(a_point_that_does_not_fit_into_memory_fails),
      cmocka_unit_test(a_store_that_breaks_is_passed_on),
      cmocka_unit_test(sizes_that_cannot_be_are_usage_errors),
      cmocka_unit_test(stored_weights_and_data_have_their_shapes),
      cmocka_unit_test(cost_is_what_is_done_when_nothing_stops_early),
      cmocka_unit_test(theory_stands_beside_the_measurement),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
