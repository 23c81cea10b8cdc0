/* Weights by the constructive proof and by training: the theorem's numbers, and those of an independent program. */
#include <inttypes.h>

#include "data/model/expected.h"
#include "mhasweep/linalg.h"
#include "mhasweep/model.h"
#include "point.h"

static point probe(const char *weights, int H, int d_h, int T, const char *context_type) {
  point p;
  point_start(&p, "probe");
  point_choose(&p, "weights", weights);
  point_set(&p, "heads", H);
  point_set(&p, "context", 32);
  point_set(&p, "dim", 64);
  point_set(&p, "key_dim", d_h);
  point_set(&p, "samples", T);
  point_set(&p, "out_dim", 64);
  point_set(&p, "steps", 1);
  point_choose(&p, "context_type", context_type);
  return p;
}

/* ---- constructed ---- */

static void constructed_heads_are_those_of_an_independent_program(void **state) {
  (void)state;
  const mhas_random random = {.seed = 42, .replicate = 1};
  for (int shared = 0; shared < 2; shared++) {
    const mhas_features_shape shape = {.heads = shared ? 3 : 2,
                                       .dim = shared ? 5 : 4,
                                       .key_dim = shared ? 2 : 3,
                                       .context = 3,
                                       .shared = shared != 0,
                                       .logit_scale = shared ? 1.0 : 40.0};
    const mhas_data_shape data = {.samples = 30,
                                  .context = 3,
                                  .dim = shape.dim,
                                  .shared = shape.shared,
                                  .distribution = shared ? MHAS_UNIFORM : MHAS_GAUSSIAN};
    const double *expected = shared ? expected_construct_shared : expected_construct_own;
    const int64_t d = shape.dim;
    const int64_t k = shape.key_dim;
    for (int64_t h = 0; h < shape.heads; h++) {
      double E[3 * 3 * 5];
      double e[3 * 5];
      double W_Q[15];
      double W_K[15];
      mhas_error error;
      int64_t first = -1;
      const int64_t count = mhas_construct_owned(&shape, h, &first);
      mhas_data_contexts(&data, random, shared ? 0 : first, shared ? 1 : count, E);
      mhas_data_queries(&data, random, first, count, e);
      assert_int_equal(mhas_construct_head(&shape, h, 100.0, 3.0, random, E, e, W_Q, W_K, &error), MHAS_OK);
      for (int64_t i = 0; i < d; i++) {
        for (int64_t j = 0; j < d; j++) {
          double sum = 0.0;
          for (int64_t c = 0; c < k; c++) {
            sum += W_K[i * k + c] * W_Q[j * k + c];
          }
          assert_close(sum * shape.logit_scale / sqrt((double)d), expected[(h * d + i) * d + j], 1e-11);
        }
      }
    }
  }
}

static void every_sample_up_to_the_bound_is_owned_once(void **state) {
  (void)state;
  const mhas_features_shape shapes[] = {{.heads = 5, .dim = 9, .key_dim = 4, .context = 7},
                                        {.heads = 5, .dim = 9, .key_dim = 8, .context = 3},
                                        {.heads = 4, .dim = 3, .key_dim = 8, .context = 7},
                                        {.heads = 4, .dim = 3, .key_dim = 1, .context = 7}};
  const int64_t ranks[] = {4, 3, 3, 1};
  for (int i = 0; i < 4; i++) {
    int64_t next = 0;
    assert_int_equal(mhas_construct_rank(&shapes[i]), ranks[i]);
    for (int64_t h = 0; h < shapes[i].heads; h++) {
      int64_t first = -1;
      const int64_t count = mhas_construct_owned(&shapes[i], h, &first);
      assert_int_equal(first, next);
      next += count;
    }
    assert_int_equal(next, shapes[i].heads * (ranks[i] - 1) + 1);
  }
}

static const int heads[] = {2, 8, 20};

/* The theorem, run: a full rank at H (r - 1) + 1, each head adding r - 1, by matrices of rank d_h. */
static void constructed_weights_memorize_as_many_samples_as_the_theorem_says(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) {
    const int H = heads[i % 3];
    const int r = i < 3 ? 16 : 32;
    const int T = H * (r - 1) + 1;
    point p = probe("constructed", H, r, T, "shared");
    p.store = MHAS_STORE_CURVES;
    point_runs(&p);
    assert_int_equal(point_integer(&p, "rank"), T);
    assert_int_equal(point_integer(&p, "bound_lower"), T);
    assert_int_equal(point_integer(&p, "memorized"), 1);
    assert_true(point_real(&p, "residual") < 1e-8);
    assert_int_equal(point_integer(&p, "rank_per_head_min"), r - 1);
    assert_true(point_real(&p, "saturated") > 0.2);
    assert_true(point_real(&p, "largest_weight") > 10.0);
    assert_true(isnan(point_real(&p, "loss")));
    for (int h = 0; h < H; h++) {
      assert_true(point_curve(&p, 0, h) == (float)(h + 1));
      assert_true(point_curve(&p, 1, h) == (float)(h == 0 ? r : r - 1));
    }
    point_free(&p);
  }
}

static void one_sample_more_is_dependent_where_the_rank_is_the_contexts(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    const int T = heads[i] * 31 + 1;
    point p = probe("constructed", heads[i], 32, T + 1, "shared");
    point_runs(&p);
    assert_int_equal(point_integer(&p, "rank"), T);
    assert_int_equal(point_integer(&p, "memorized"), 0);
    assert_int_equal(point_integer(&p, "rank_per_head_min"), 31);
    point_free(&p);
  }
}

static void own_contexts_take_constructed_weights_too(void **state) {
  (void)state;
  point p = probe("constructed", 8, 16, 8 * 15 + 1, "own");
  point_runs(&p);
  assert_int_equal(point_integer(&p, "rank"), 8 * 15 + 1);
  assert_int_equal(point_integer(&p, "rank_per_head_min"), 15);
  assert_true(point_real(&p, "residual") < 1e-8);
  point_free(&p);
}

/* The weights are a function of the samples that heads own, however many there are. */
static void constructed_weights_do_not_depend_on_the_number_of_samples(void **state) {
  (void)state;
  point p = probe("constructed", 3, 16, 5, "own");
  point q = probe("constructed", 3, 16, 60, "own");
  p.store = q.store = MHAS_STORE_WEIGHTS | MHAS_STORE_Z;
  point_runs(&p);
  point_runs(&q);
  assert_memory_equal(point_kept(&p, "W_Q")->data, point_kept(&q, "W_Q")->data, 3 * 64 * 16 * sizeof(double));
  assert_memory_equal(point_kept(&p, "W_K")->data, point_kept(&q, "W_K")->data, 3 * 64 * 16 * sizeof(double));
  assert_all_close(point_kept(&p, "Z")->data, point_kept(&q, "Z")->data, 5 * 3 * 64, 1e-9);
  assert_int_equal(point_integer(&p, "rank_per_head_min"), 0); /* no sample is left for the later heads */
  point_free(&p);
  point_free(&q);
}

static void a_larger_gain_saturates_more_with_larger_weights(void **state) {
  (void)state;
  double saturated = -1.0;
  double largest = 0.0;
  static const double gains[] = {1.0, 1e2, 1e4, 1e6};
  for (int i = 0; i < 4; i++) {
    point p = probe("constructed", 8, 16, 8 * 15 + 1, "shared");
    point_set(&p, "saturation_gain", gains[i]);
    point_runs(&p);
    assert_true(point_real(&p, "saturated") > saturated);
    assert_true(point_real(&p, "largest_weight") > largest);
    saturated = point_real(&p, "saturated");
    largest = point_real(&p, "largest_weight");
    point_free(&p);
  }
}

static void a_stop_and_a_broken_store_are_passed_on_while_constructing(void **state) {
  (void)state;
  point p = probe("constructed", 4, 16, 61, "own");
  p.stop_at = 2;
  p.stop_code = MHAS_STOPPED;
  assert_int_equal(point_run(&p), MHAS_STOPPED);
  p.stop_at = -1;
  p.store = MHAS_STORE_WEIGHTS;
  p.keep_fails_at = 1;
  assert_int_equal(point_run(&p), MHAS_IO);
  point_free(&p);
}

/* ---- trained ---- */

static void set_recipe(point *p) {
  static const struct {
    const char *name;
    double value;
  } recipe[] = {{"heads", 3},  {"dim", 16},   {"out_dim", 16}, {"key_dim", 4},    {"context", 6},   {"samples", 40},
                {"batch", 16}, {"steps", 60}, {"lr", 0.01},    {"eval_every", 7}, {"value_dim", 2}, {"classes", 5}};
  for (size_t i = 0; i < sizeof recipe / sizeof *recipe; i++) {
    point_set(p, recipe[i].name, recipe[i].value);
  }
  point_choose(p, "labels", "classes");
  point_choose(p, "precision", "float64");
}

/* The probe of trained weights is that of the model that memorize trains, on what its attention sees. */
static void trained_weights_are_those_of_memorize(void **state) {
  (void)state;
  for (int shared = 0; shared < 2; shared++) {
    point m;
    point p;
    point_start(&m, "memorize");
    point_start(&p, "probe");
    set_recipe(&m);
    set_recipe(&p);
    point_choose(&p, "weights", "trained");
    point_choose(&m, "context_type", shared ? "shared" : "own");
    point_choose(&p, "context_type", shared ? "shared" : "own");
    m.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
    p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_Z | MHAS_STORE_DATA;
    point_runs(&m);
    point_runs(&p);
    assert_true(point_real(&m, "loss") == point_real(&p, "loss"));
    assert_true(point_real(&m, "accuracy") == point_real(&p, "accuracy"));
    assert_memory_equal(point_kept(&m, "W_Q")->data, point_kept(&p, "W_Q")->data, 3 * 16 * 4 * sizeof(double));
    assert_memory_equal(point_kept(&m, "W_K")->data, point_kept(&p, "W_K")->data, 3 * 16 * 4 * sizeof(double));
    assert_int_equal(point_integer(&p, "rank_per_head_min"), -1);
    /* The last row of Z, from the definitions. */
    const double *E = point_kept(&m, "E")->data + (shared ? 0 : 39 * 6 * 16);
    const double *e = point_kept(&m, "e")->data + 39 * 16;
    const double *W = point_kept(&m, "embedding")->data;
    const double *b = point_kept(&m, "embedding_bias")->data;
    double x[7][16]; /* embedded: the query, then the context */
    for (int i = 0; i < 7; i++) {
      for (int j = 0; j < 16; j++) {
        const double angle = i * pow(10000.0, -(j - j % 2) / 16.0);
        x[i][j] = b[j] + (j % 2 == 0 ? sin(angle) : cos(angle));
        for (int k = 0; k < 16; k++) {
          x[i][j] += (i == 0 ? e[k] : E[(i - 1) * 16 + k]) * W[k * 16 + j];
        }
      }
    }
    for (int h = 0; h < 3; h++) {
      const double *W_Q = point_kept(&m, "W_Q")->data + h * 64;
      const double *W_K = point_kept(&m, "W_K")->data + h * 64;
      double theta[6];
      double total = 0.0;
      for (int i = 0; i < 6; i++) {
        double logit = 0.0;
        for (int c = 0; c < 4; c++) {
          double q = 0.0;
          double key = 0.0;
          for (int j = 0; j < 16; j++) {
            q += x[0][j] * W_Q[j * 4 + c];
            key += x[i + 1][j] * W_K[j * 4 + c];
          }
          logit += q * key;
        }
        theta[i] = exp(logit / 4.0);
        total += theta[i];
      }
      for (int j = 0; j < 16; j++) {
        double z = 0.0;
        for (int i = 0; i < 6; i++) {
          z += theta[i] / total * x[i + 1][j];
        }
        assert_close(point_kept(&p, "Z")->data[39 * 48 + h * 16 + j], z, 1e-12);
      }
    }
    point_free(&m);
    point_free(&p);
  }
}

static void a_training_that_diverges_fails_the_probe(void **state) {
  (void)state;
  point p;
  point_start(&p, "probe");
  set_recipe(&p);
  point_choose(&p, "weights", "trained");
  point_choose(&p, "precision", "float32");
  point_set(&p, "lr", 1e12);
  assert_int_equal(point_run(&p), MHAS_NUMERIC);
  assert_non_null(strstr(p.error.text, "diverged"));
  point_free(&p);
}

static void a_model_that_cannot_be_is_refused_only_if_it_is_trained(void **state) {
  (void)state;
  point q = probe("trained", 2, 16, 10, "own");
  point_set(&q, "heads", 60000);
  point_set(&q, "value_dim", 60000);
  assert_int_equal(point_check(&q), MHAS_USAGE);
  point_choose(&q, "weights", "random");
  assert_int_equal(point_check(&q), MHAS_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constructed_heads_are_those_of_an_independent_program),
      cmocka_unit_test(every_sample_up_to_the_bound_is_owned_once),
      cmocka_unit_test(constructed_weights_memorize_as_many_samples_as_the_theorem_says),
      cmocka_unit_test(one_sample_more_is_dependent_where_the_rank_is_the_contexts),
      cmocka_unit_test(own_contexts_take_constructed_weights_too),
      cmocka_unit_test(constructed_weights_do_not_depend_on_the_number_of_samples),
      cmocka_unit_test(a_larger_gain_saturates_more_with_larger_weights),
      cmocka_unit_test(a_stop_and_a_broken_store_are_passed_on_while_constructing),
      cmocka_unit_test(trained_weights_are_those_of_memorize),
      cmocka_unit_test(a_training_that_diverges_fails_the_probe),
      cmocka_unit_test(a_model_that_cannot_be_is_refused_only_if_it_is_trained),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
