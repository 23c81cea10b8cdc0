/* Variants, regularisation and compression as probe and memorize are asked for them. */
#include "point.h"

static point point_of(const char *experiment, int64_t heads, int64_t dim, int64_t key_dim, int64_t context,
                      int64_t samples) {
  point p;
  point_start(&p, experiment);
  point_set(&p, "heads", (double)heads);
  point_set(&p, "dim", (double)dim);
  point_set(&p, "key_dim", (double)key_dim);
  point_set(&p, "context", (double)context);
  point_set(&p, "samples", (double)samples);
  point_set(&p, "out_dim", (double)dim);
  point_set(&p, "steps", 60);
  if (strcmp(experiment, "memorize") == 0) {
    point_set(&p, "classes", 5);
    point_set(&p, "eval_every", 20);
    point_set(&p, "batch", 16);
    point_set(&p, "lr", 0.02);
  }
  return p;
}

/* ---- the rank of Z on a shared context ---------------------------------------------- */

static int64_t rank_of(const char *attention, const char *pre, const char *post, int64_t *bound) {
  point p = point_of("probe", 3, 16, 4, 6, 300);
  point_choose(&p, "context_type", "shared");
  point_choose(&p, "distribution", "gaussian");
  point_choose(&p, "attention", attention);
  point_choose(&p, "compose_pre", pre);
  point_choose(&p, "compose_post", post);
  point_set(&p, "compose_scale", 50);
  point_runs(&p);
  const int64_t rank = point_integer(&p, "rank");
  *bound = point_integer(&p, "bound_shared");
  point_free(&p);
  return rank;
}

static void queries_that_mix_weights_lift_the_shared_rank_and_nothing_else_does(void **state) {
  (void)state;
  const struct {
    const char *attention, *pre, *post;
    int64_t rank, bound;
  } cases[] = {
      {"softmax", "query_key", "query_key", 16, 16}, /* composing is dcmha's */
      {"hard", "none", "none", 15, 16},              /* one row is never the largest of one head */
      {"linear", "none", "none", 12, 12},            /* H d_h */
      {"talking_heads", "none", "none", 16, 16},
      {"dcmha", "none", "none", 16, 16},
      {"dcmha", "query", "none", 16, 16},
      {"dcmha", "key", "none", 16, 16},
      {"dcmha", "all", "none", 16, 16},
      {"dcmha", "all", "base", 16, 16},
      {"dcmha", "none", "query", 18, 18},
      {"dcmha", "all", "key", 16, 16}, /* the shared rows mix the same for all samples */
      {"dcmha", "base_query", "base_key", 16, 16},
      {"dcmha", "none", "base_query", 18, 18},
      {"dcmha", "query_key", "query_key", 18, 18},
      {"dcmha", "all", "all", 18, 18},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t bound = 0;
    const int64_t rank = rank_of(cases[i].attention, cases[i].pre, cases[i].post, &bound);
    if (rank != cases[i].rank || bound != cases[i].bound) {
      fail_msg("%s, pre %s, post %s: rank %d, bound %d", cases[i].attention, cases[i].pre, cases[i].post, (int)rank,
               (int)bound);
    }
  }
}

static void composing_at_scale_zero_is_softmax_in_the_probe_to_the_bit(void **state) {
  (void)state;
  for (int shared = 0; shared < 2; shared++) {
    point plain = point_of("probe", 3, 7, 4, 5, 40);
    plain.store = MHAS_STORE_Z;
    point_choose(&plain, "context_type", shared ? "shared" : "own");
    point zero = plain;
    point_choose(&zero, "attention", "dcmha");
    point_choose(&zero, "compose_pre", "all");
    point_choose(&zero, "compose_post", "all");
    point_set(&zero, "compose_scale", 0);
    point_runs(&plain);
    point_runs(&zero);
    const kept *a = point_kept(&plain, "Z");
    const kept *b = point_kept(&zero, "Z");
    assert_non_null(a);
    assert_non_null(b);
    assert_memory_equal(a->data, b->data, (size_t)a->count * sizeof(double));
    point_free(&plain);
    point_free(&zero);
  }
}

/* Blocks of samples are an accident of memory: the shared context's coefficients are made anew in each. */
static void features_do_not_depend_on_the_block(void **state) {
  (void)state;
  for (int shared = 0; shared < 2; shared++) {
    point many = point_of("probe", 2, 5, 3, 4, 600);
    point_choose(&many, "context_type", shared ? "shared" : "own");
    point_choose(&many, "attention", "dcmha");
    point_set(&many, "compose_scale", 50);
    many.store = MHAS_STORE_Z;
    point few = many;
    point_set(&few, "samples", 7);
    point_runs(&many);
    point_runs(&few);
    assert_all_close(point_kept(&few, "Z")->data, point_kept(&many, "Z")->data, 7 * 10, 1e-12);
    point_free(&many);
    point_free(&few);
  }
}

static void saturation_is_not_asked_of_linear_attention(void **state) {
  (void)state;
  point p = point_of("probe", 2, 5, 3, 4, 20);
  point_choose(&p, "attention", "hard");
  point_runs(&p);
  assert_true(point_real(&p, "saturated") == 1.0);
  point_choose(&p, "attention", "linear");
  point_runs(&p);
  assert_true(isnan(point_real(&p, "saturated")));
  point_free(&p);
}

static void saturation_looks_at_the_weights_before_they_are_mixed(void **state) {
  (void)state;
  point p = point_of("probe", 2, 5, 3, 4, 50);
  point_set(&p, "logit_scale", 30);
  point_runs(&p);
  const double saturated = point_real(&p, "saturated");
  assert_true(saturated > 0.1 && saturated < 0.9);
  point_choose(&p, "attention", "dcmha");
  point_choose(&p, "compose_pre", "none");
  point_set(&p, "compose_scale", 50);
  point_runs(&p);
  assert_true(point_real(&p, "saturated") == saturated);
  point_free(&p);
}

/* ---- equal parameters --------------------------------------------------------------- */

static void matched_parameters_agree_with_softmax_to_one_percent(void **state) {
  (void)state;
  const char *const experiments[] = {"probe", "memorize"};
  const char *const attentions[] = {"softmax", "linear", "hard", "talking_heads", "dcmha"};
  for (int e = 0; e < 2; e++) {
    for (int a = 0; a < 5; a++) {
      for (int64_t heads = 2; heads <= 20; heads += 9) {
        point p = point_of(experiments[e], heads, 64, 64, 3, 8);
        if (e == 1) {
          point_set(&p, "steps", 1);
        }
        point_runs(&p);
        const double plain = (double)point_integer(&p, "parameters");
        point_choose(&p, "attention", attentions[a]);
        point_choose(&p, "compose_pre", "all");
        point_set(&p, "match_parameters", 1);
        point_runs(&p);
        const double matched = (double)point_integer(&p, "parameters");
        assert_true(fabs(matched - plain) <= 0.01 * plain);
        assert_true(point_integer(&p, "key_dim_used") == 64 || a >= 3);
        assert_true(p.experiment->cost(p.values).parameters == matched);
        point_set(&p, "match_parameters", 0);
        point_runs(&p);
        assert_int_equal(point_integer(&p, "key_dim_used"), 64);
        assert_true((double)point_integer(&p, "parameters") > plain || a < 3);
        point_free(&p);
      }
    }
  }
}

static void a_key_dim_too_small_to_match_is_refused_with_what_would_do(void **state) {
  (void)state;
  point p = point_of("memorize", 20, 64, 10, 3, 8);
  point_choose(&p, "attention", "dcmha");
  point_set(&p, "match_parameters", 1);
  assert_int_equal(point_check(&p), MHAS_USAGE);
  const char *least = strstr(p.error.text, "take at least ");
  assert_non_null(least);
  point_set(&p, "key_dim", atof(least + strlen("take at least ")));
  assert_int_equal(point_check(&p), MHAS_OK);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "key_dim_used"), 1);
  point_free(&p);
}

static void mixings_too_large_are_refused(void **state) {
  (void)state;
  point p = point_of("probe", 1 << 20, 1, 1, 1, 1);
  point_choose(&p, "attention", "dcmha");
  point_set(&p, "compose_rank", 256);
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "composing"));
}

static void one_bit_is_refused(void **state) {
  (void)state;
  point p = point_of("memorize", 1, 2, 2, 2, 4);
  point_set(&p, "bits", 1);
  assert_int_equal(point_check(&p), MHAS_USAGE);
  assert_non_null(strstr(p.error.text, "bits"));
}

/* ---- training ----------------------------------------------------------------------- */

static void every_variant_trains(void **state) {
  (void)state;
  const char *const attentions[] = {"softmax", "linear", "hard", "talking_heads", "dcmha"};
  for (int a = 0; a < 5; a++) {
    point p = point_of("memorize", 3, 8, 4, 5, 40);
    p.store = MHAS_STORE_CURVES;
    point_choose(&p, "attention", attentions[a]);
    point_runs(&p);
    assert_true(point_curve(&p, 1, 2) < point_curve(&p, 1, 0));
    assert_close(p.row.flops, p.experiment->cost(p.values).flops, 1e-9);
    point_free(&p);
  }
}

static void what_was_not_asked_is_missing(void **state) {
  (void)state;
  point p = point_of("memorize", 2, 4, 3, 3, 20);
  point_runs(&p);
  assert_true(point_real(&p, "accuracy_clean") == point_real(&p, "accuracy"));
  assert_true(isnan(point_real(&p, "accuracy_pruned")) && isnan(point_real(&p, "loss_pruned")));
  assert_true(isnan(point_real(&p, "accuracy_quantized")) && isnan(point_real(&p, "loss_quantized")));
  point_free(&p);
}

static void compressing_a_little_keeps_the_accuracy_and_compressing_all_loses_it(void **state) {
  (void)state;
  point p = point_of("memorize", 3, 8, 4, 5, 40);
  point_set(&p, "steps", 400);
  point_set(&p, "prune", 1e-6); /* less than one parameter */
  point_set(&p, "bits", 30);
  point_runs(&p);
  const double accuracy = point_real(&p, "accuracy");
  const double loss = point_real(&p, "loss");
  assert_true(accuracy > 0.9);
  assert_true(point_real(&p, "accuracy_pruned") == accuracy && point_real(&p, "loss_pruned") == loss);
  assert_true(point_real(&p, "accuracy_quantized") == accuracy);
  assert_close(point_real(&p, "loss_quantized"), loss, 1e-5);
  assert_close(p.row.flops / p.experiment->cost(p.values).flops, 1.0, 0.9); /* it may stop early */
  point_set(&p, "prune", 1.0);
  point_set(&p, "bits", 2);
  point_runs(&p);
  assert_true(point_real(&p, "accuracy") == accuracy && point_real(&p, "loss") == loss);
  assert_close(point_real(&p, "loss_pruned"), log(5.0), 1e-6); /* nothing is left: all classes alike */
  assert_true(point_real(&p, "accuracy_pruned") < accuracy);
  assert_true(point_real(&p, "loss_quantized") > loss);
  point_choose(&p, "labels", "regression");
  point_runs(&p);
  assert_true(isnan(point_real(&p, "accuracy_pruned")) && isnan(point_real(&p, "accuracy_quantized")));
  assert_true(isnan(point_real(&p, "accuracy_clean")));
  assert_true(point_real(&p, "loss_pruned") >= point_real(&p, "loss"));
  point_free(&p);
}

static void wrong_labels_are_learned_and_the_clean_ones_are_not(void **state) {
  (void)state;
  point p = point_of("memorize", 4, 8, 4, 5, 40);
  p.store = MHAS_STORE_DATA;
  point_runs(&p);
  double clean[40];
  memcpy(clean, point_kept(&p, "y")->data, sizeof clean);
  point_set(&p, "steps", 600);
  point_set(&p, "label_noise", 0.5);
  point_runs(&p);
  const double *noisy = point_kept(&p, "y")->data;
  double same = 0.0;
  for (int t = 0; t < 40; t++) {
    same += noisy[t] == clean[t] ? 1.0 / 40 : 0.0;
  }
  assert_true(same > 0.3 && same < 0.9);
  assert_true(point_real(&p, "accuracy") == 1.0);
  assert_close(point_real(&p, "accuracy_clean"), same, 1e-12);
  point_free(&p);
}

/* Each of them alone changes the loss, and the same point gives the same bits. */
static void regularisation_changes_the_training_reproducibly(void **state) {
  (void)state;
  const struct {
    const char *name;
    double value;
  } asked[] = {{"weight_decay", 0.1}, {"l1", 0.01}, {"dropout", 0.2}, {"input_noise", 0.1}};
  point p = point_of("memorize", 2, 4, 3, 3, 30);
  point_runs(&p);
  const double plain = point_real(&p, "loss");
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
    point q = point_of("memorize", 2, 4, 3, 3, 30);
    point_set(&q, asked[i].name, asked[i].value);
    point_runs(&q);
    const double loss = point_real(&q, "loss");
    assert_true(loss != plain);
    assert_close(q.row.flops / q.experiment->cost(q.values).flops, 1.0, 1e-9);
    point_runs(&q);
    assert_true(point_real(&q, "loss") == loss);
    point_free(&q);
  }
  point_free(&p);
}

static void l1_leaves_exact_zeros(void **state) {
  (void)state;
  point p = point_of("memorize", 2, 4, 3, 3, 30);
  p.store = MHAS_STORE_WEIGHTS;
  point_set(&p, "l1", 0.5);
  point_runs(&p);
  const kept *W_Q = point_kept(&p, "W_Q");
  int zeros = 0;
  for (int64_t i = 0; i < W_Q->count; i++) {
    zeros += W_Q->data[i] == 0.0;
  }
  assert_true(zeros > 0);
  point_free(&p);
}

/* ---- what is stored ------------------------------------------------------------------ */

static void attention_maps_of_the_first_samples_are_stored(void **state) {
  (void)state;
  const char *const experiments[] = {"probe", "memorize"};
  for (int e = 0; e < 2; e++) {
    for (int shared = 0; shared < 2; shared++) {
      point p = point_of(experiments[e], 3, 5, 2, 4, 300);
      p.store = MHAS_STORE_ATTENTION;
      point_choose(&p, "context_type", shared ? "shared" : "own");
      point_set(&p, "attention_samples", 290); /* more than a block or a batch */
      point_runs(&p);
      const kept *maps = point_kept(&p, "attention");
      assert_non_null(maps);
      assert_int_equal(p.kept_count, 1);
      assert_int_equal(maps->count, 290 * 3 * 4);
      for (int64_t row = 0; row < 290 * 3; row++) {
        double sum = 0.0;
        for (int i = 0; i < 4; i++) {
          sum += maps->data[4 * row + i];
        }
        assert_close(sum, 1.0, 1e-6);
      }
      point_set(&p, "attention_samples", 1000);
      point_runs(&p);
      assert_int_equal(point_kept(&p, "attention")->count, 300 * 3 * 4);
      p.keep_fails_at = 0;
      assert_int_equal(point_run(&p), MHAS_IO);
      point_free(&p);
    }
  }
}

static void composing_weights_are_stored_beside_the_others(void **state) {
  (void)state;
  const char *const experiments[] = {"probe", "memorize"};
  for (int e = 0; e < 2; e++) {
    point p = point_of(experiments[e], 3, 5, 2, 4, 20);
    p.store = MHAS_STORE_WEIGHTS;
    point_runs(&p);
    const int plain = p.kept_count;
    point_choose(&p, "attention", "dcmha");
    point_choose(&p, "compose_pre", "base_key");
    point_choose(&p, "compose_post", "query");
    point_runs(&p);
    assert_int_equal(p.kept_count, plain + 7);
    assert_int_equal(point_kept(&p, "pre_base")->count, 9);
    assert_int_equal(point_kept(&p, "pre_key_in")->count, 5 * 12);
    assert_int_equal(point_kept(&p, "pre_key_out")->count, 12 * 4 * 3);
    assert_int_equal(point_kept(&p, "post_query_gate")->count, 5 * 3);
    assert_null(point_kept(&p, "post_key_in"));
    p.keep_fails_at = plain + 3;
    assert_int_equal(point_run(&p), MHAS_IO);
    point_free(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(queries_that_mix_weights_lift_the_shared_rank_and_nothing_else_does),
      cmocka_unit_test(composing_at_scale_zero_is_softmax_in_the_probe_to_the_bit),
      cmocka_unit_test(features_do_not_depend_on_the_block),
      cmocka_unit_test(saturation_is_not_asked_of_linear_attention),
      cmocka_unit_test(saturation_looks_at_the_weights_before_they_are_mixed),
      cmocka_unit_test(matched_parameters_agree_with_softmax_to_one_percent),
      cmocka_unit_test(a_key_dim_too_small_to_match_is_refused_with_what_would_do),
      cmocka_unit_test(mixings_too_large_are_refused),
      cmocka_unit_test(one_bit_is_refused),
      cmocka_unit_test(every_variant_trains),
      cmocka_unit_test(what_was_not_asked_is_missing),
      cmocka_unit_test(compressing_a_little_keeps_the_accuracy_and_compressing_all_loses_it),
      cmocka_unit_test(wrong_labels_are_learned_and_the_clean_ones_are_not),
      cmocka_unit_test(regularisation_changes_the_training_reproducibly),
      cmocka_unit_test(l1_leaves_exact_zeros),
      cmocka_unit_test(attention_maps_of_the_first_samples_are_stored),
      cmocka_unit_test(composing_weights_are_stored_beside_the_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
