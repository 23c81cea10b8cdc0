/* What optimize's theory says of a point: closed forms to rounding, bounds that hold, trends. */
#include "point.h"

static point p;

/* The tokenized mixture without noise, dealt out evenly: closed forms are exact. */
static void start_even(int heads, int tokens, int relevant, double signal, int prototypes, double alpha) {
  point_start(&p, "optimize");
  point_set(&p, "heads", heads);
  point_set(&p, "tokens", tokens);
  point_set(&p, "relevant", (double)relevant / tokens);
  point_set(&p, "signal", signal);
  point_set(&p, "prototypes", prototypes);
  point_set(&p, "dim", prototypes + 4);
  point_set(&p, "init_scale", alpha);
  point_set(&p, "samples", 12);
  point_set(&p, "init_samples", 12);
  point_set(&p, "test_samples", 0);
  point_set(&p, "noise", 0);
  point_choose(&p, "mixing", "even");
  point_set(&p, "steps", 0);
  point_set(&p, "target_loss", 0.1);
}

static const struct {
  int heads, tokens, relevant;
  double signal;
  int prototypes;
  double alpha;
} cases[] = {{4, 10, 2, 2.0, 4, 0.3},   {8, 10, 2, 2.0, 4, 0.3},  {16, 10, 2, 1.0, 8, 1.0},  {5, 10, 4, 2.0, 3, 0.1},
             {3, 6, 2, 1.5, 2, 0.5},    {1, 6, 1, 1.0, 5, 0.7},   {2, 6, 3, 3.0, 1, 0.2},    {7, 12, 4, 2.0, 4, 0.3},
             {6, 12, 6, 0.5, 3, 2.0},   {9, 12, 8, 1.0, 2, 1.0},  {4, 20, 2, 2.0, 6, 0.05},  {4, 20, 10, 1.0, 5, 0.4},
             {12, 9, 3, 1.2, 3, 0.6},   {11, 8, 4, 1.7, 2, 0.25}, {10, 5, 1, 2.5, 4, 0.15},  {2, 5, 3, 1.0, 2, 3.0},
             {13, 16, 4, 0.8, 12, 1.5}, {3, 16, 8, 2.2, 4, 0.1},  {20, 7, 1, 1.0, 6, 0.333}, {32, 4, 2, 2.0, 2, 0.3}};

static void margins_after_one_step_match_their_closed_forms(void **state) {
  (void)state;
  assert_int_equal(sizeof cases / sizeof *cases, 20);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    start_even(cases[i].heads, cases[i].tokens, cases[i].relevant, cases[i].signal, cases[i].prototypes,
               cases[i].alpha);
    point_runs(&p);
    const double T = cases[i].tokens;
    const double zeta = cases[i].relevant / T;
    const double S = cases[i].signal;
    const double M = cases[i].prototypes;
    const double linear = zeta * S * sqrt(T / 2.0);
    const double attention =
        cases[i].alpha * T * zeta * zeta * (1.0 - zeta) * pow(S, 4.0) / (2.0 * sqrt(2.0 * (M + 1.0)));
    const double closed = hypot(linear, point_real(&p, "margin_w_closed"));
    assert_close(point_real(&p, "margin_linear") / linear, 1.0, 1e-14);
    assert_close(point_real(&p, "margin_attention") / attention, 1.0, 1e-14);
    assert_close(point_real(&p, "margin_u") / linear, 1.0, 1e-9);
    assert_close(point_real(&p, "margin_w") / point_real(&p, "margin_w_closed"), 1.0, 1e-9);
    assert_close(point_real(&p, "margin") / closed, 1.0, 1e-9);
    assert_close(point_real(&p, "margin_upper") / closed, 1.0, 1e-9);
    assert_close(point_real(&p, "direction_u") / linear, 1.0, 1e-9);
    assert_close(point_real(&p, "direction_w") / attention, 1.0, 1e-9);
    assert_close(point_real(&p, "output_deviation") / (cases[i].alpha * T * zeta * zeta * S * S / 2.0), 1.0, 1e-9);
    point_free(&p);
  }
}

/* |sum_h alpha_h| / sqrt(H) T zeta^2 S^2 / 2. */
static void outputs_at_the_start_are_those_of_the_sum_of_signs(void **state) {
  (void)state;
  for (int signs = 0; signs < 2; signs++) {
    start_even(9, 10, 2, 2.0, 4, 0.3);
    point_set(&p, "random_signs", signs);
    point_runs(&p);
    const double ratio = point_real(&p, "output_at_init") / point_real(&p, "output_deviation");
    const double sum = ratio * 3.0; /* a whole number, odd as H is, and H without random signs */
    assert_close(sum, round(sum), 1e-9);
    assert_int_equal((int)round(sum) % 2, 1);
    assert_true(signs == 1 ? round(sum) < 9.0 : round(sum) == 9.0);
    point_free(&p);
  }
}

static void margins_do_not_depend_on_the_number_of_heads(void **state) {
  (void)state;
  double first = 0.0;
  for (int heads = 4; heads <= 1024; heads *= 16) {
    start_even(heads, 10, 2, 2.0, 4, 0.3);
    point_set(&p, "samples", 4);
    point_set(&p, "dim", 6);
    point_runs(&p);
    first = heads == 4 ? point_real(&p, "margin") : first;
    assert_close(point_real(&p, "margin") / first, 1.0, 1e-9);
    point_free(&p);
  }
  for (int heads = 4; heads <= 64; heads *= 16) { /* with noise it has no closed form, but is as independent of H */
    start_even(heads, 10, 2, 2.0, 4, 0.3);
    point_set(&p, "noise", 0.3);
    point_choose(&p, "mixing", "random");
    point_runs(&p);
    first = heads == 4 ? point_real(&p, "margin") : first;
    assert_close(point_real(&p, "margin") / first, 1.0, 1e-9);
    point_free(&p);
  }
}

static void at_zero_the_margin_is_that_of_u_alone(void **state) {
  (void)state;
  for (int collapse = 0; collapse < 2; collapse++) {
    start_even(6, 10, 2, 2.0, 4, 0.3);
    point_choose(&p, "init", "zero");
    point_set(&p, "collapse", collapse);
    point_runs(&p);
    const double linear = 0.2 * 2.0 * sqrt(5.0);
    assert_close(point_real(&p, "margin"), linear, 1e-9);
    assert_close(point_real(&p, "margin_u"), linear, 1e-9);
    assert_true(point_real(&p, "margin_w") == 0.0);
    assert_true(point_real(&p, "margin_w_closed") == 0.0);
    assert_true(isnan(point_real(&p, "direction_w")));
    assert_true(point_real(&p, "output_at_init") == 0.0);
    point_free(&p);
  }
}

/* The margin of U grows with the attention on relevant tokens, from gamma_lin up to 1 / zeta times that. */
static void attention_that_is_learned_raises_the_margin_by_one_over_zeta(void **state) {
  (void)state;
  const double logits[] = {0.0, 1.0, 3.0, 40.0};
  for (int i = 0; i < 4; i++) {
    start_even(2, 10, 2, 2.0, 4, 0.3);
    point_choose(&p, "init", "planted");
    point_set(&p, "init_logit", logits[i]);
    point_runs(&p);
    const double mass = 0.2 / (0.2 + 0.8 * exp(-logits[i]));
    assert_close(point_real(&p, "attention_mass"), mass, 1e-12);
    assert_close(point_real(&p, "margin_linear"), mass * 2.0 * sqrt(5.0), 1e-12);
    assert_close(point_real(&p, "margin_u"), mass * 2.0 * sqrt(5.0), 1e-9);
    assert_true(isnan(point_real(&p, "margin_attention")));
    point_free(&p);
  }
}

static void what_theory_promises_is_reached(void **state) {
  (void)state;
  for (int heads = 4; heads <= 16; heads *= 4) {
    for (double epsilon = 0.1; epsilon > 5e-5; epsilon *= 0.1) {
      start_even(heads, 10, 2, 1.0, 4, 0.3);
      point_set(&p, "samples", 8);
      point_set(&p, "noise", 0.2);
      point_choose(&p, "mixing", "random");
      point_set(&p, "target_loss", epsilon);
      point_set(&p, "steps", 10);
      point_runs(&p);
      const double B = point_real(&p, "output_at_init");
      const double D = point_real(&p, "realized_distance");
      assert_close(D * point_real(&p, "margin"), B + fmax(B, 1.0) - log(epsilon), 1e-12);
      assert_int_equal(point_integer(&p, "realized"), 1);
      assert_true(point_real(&p, "realized_loss") <= epsilon);
      assert_true(point_real(&p, "condition_ratio") > 1.0); /* far from met, and yet: */
      assert_int_equal(point_integer(&p, "conclusions"), 1);
      assert_close(point_real(&p, "local_ratio") * 2.0 * D, D, 1e-6); /* step 0 is the farthest */
      point_free(&p);
    }
  }
}

/* The bounds of the theorem by hand, from the table's own numbers. */
static void conditions_are_those_of_the_theorem(void **state) {
  (void)state;
  start_even(4, 10, 2, 2.0, 4, 0.3);
  point_set(&p, "steps", 50);
  point_set(&p, "step_size", 0.01);
  point_runs(&p);
  const double D = point_real(&p, "realized_distance");
  const double R = 2.0;
  const double B = 0.3 * sqrt(10.0) * 0.2 / 2.0 * 2.0 * sqrt(2.0) + 5.0 * D; /* alpha sqrt(T) ||utilde|| */
  const double kappa = sqrt(10.0 / 4.0) * R * R * R * (1.0 + 2.0 * R * R * B);
  const double G2 = 10.0 * R * R * (1.0 + R * R * R * R * B * B);
  assert_close(point_real(&p, "condition_ratio") / (kappa * D * D / 0.095), 1.0, 1e-9);
  assert_close(point_real(&p, "step_ratio") / (0.01 * (G2 / 4.0 + kappa)), 1.0, 1e-9);
  const double bound = 1.5 * point_real(&p, "realized_loss") + 0.875 * D * D / (0.01 * 50.0);
  assert_close(point_real(&p, "training_ratio") * bound, point_real(&p, "mean_loss"), 1e-12);
  assert_close(point_real(&p, "locality") * log(50.0), point_real(&p, "distance") * point_real(&p, "margin"), 1e-12);
  point_free(&p);
}

static void inseparable_samples_have_no_margin(void **state) {
  (void)state;
  start_even(4, 10, 2, 2.0, 4, 0.3);
  point_set(&p, "samples", 40);
  point_set(&p, "label_noise", 0.5);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "separable"), 0);
  assert_true(point_real(&p, "margin") == 0.0);
  assert_true(point_real(&p, "margin_upper") < 1e-5);
  assert_true(isnan(point_real(&p, "realized_loss")));
  assert_int_equal(point_integer(&p, "realized"), -1);
  assert_int_equal(point_integer(&p, "conclusions"), -1);
  point_free(&p);
}

static void theory_that_is_not_wanted_is_not_computed(void **state) {
  (void)state;
  start_even(4, 10, 2, 2.0, 4, 0.3);
  point_choose(&p, "theory", "none");
  point_runs(&p);
  assert_true(isnan(point_real(&p, "margin")));
  assert_true(point_real(&p, "margin_linear") > 0.0);
  assert_true(isnan(point_real(&p, "margin_end")));
  const double without = p.experiment->cost(p.values).flops;
  point_choose(&p, "theory", "ends");
  point_runs(&p);
  assert_close(point_real(&p, "margin_end"), point_real(&p, "margin"), 1e-12); /* no step was made */
  assert_close(point_real(&p, "ntk_least_end"), point_real(&p, "ntk_least"), 1e-12);
  assert_true(p.experiment->cost(p.values).flops > without);
  point_free(&p);
}

/* -lambda_min / loss at Gaussian initialisation falls as H^{-1/2}. */
static void negative_curvature_falls_with_the_root_of_heads(void **state) {
  (void)state;
  double ratio[3];
  for (int i = 0; i < 3; i++) {
    point_start(&p, "optimize");
    point_set(&p, "heads", 4 << (2 * i));
    point_set(&p, "tokens", 4);
    point_set(&p, "dim", 4);
    point_set(&p, "prototypes", 2);
    point_set(&p, "signal", 1.0);
    point_set(&p, "samples", 16);
    point_set(&p, "test_samples", 0);
    point_set(&p, "init_samples", 1);
    point_set(&p, "steps", 0);
    point_set(&p, "target_loss", 0.1);
    point_choose(&p, "init", "gaussian");
    point_set(&p, "init_scale", 1.0);
    point_choose(&p, "eigenvalues", "end");
    point_set(&p, "eigen_tolerance", 1e-4);
    point_choose(&p, "theory", "none");
    point_runs(&p);
    ratio[i] = point_real(&p, "curvature_ratio") * sqrt(4 << (2 * i));
    assert_true(point_real(&p, "weak_convexity") <= 1.0);
    point_free(&p);
  }
  assert_in_range((int64_t)(100.0 * ratio[1] / ratio[0]), 80, 125);
  assert_in_range((int64_t)(100.0 * ratio[2] / ratio[1]), 85, 118);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(margins_after_one_step_match_their_closed_forms),
      cmocka_unit_test(outputs_at_the_start_are_those_of_the_sum_of_signs),
      cmocka_unit_test(margins_do_not_depend_on_the_number_of_heads),
      cmocka_unit_test(at_zero_the_margin_is_that_of_u_alone),
      cmocka_unit_test(attention_that_is_learned_raises_the_margin_by_one_over_zeta),
      cmocka_unit_test(what_theory_promises_is_reached),
      cmocka_unit_test(conditions_are_those_of_the_theorem),
      cmocka_unit_test(inseparable_samples_have_no_margin),
      cmocka_unit_test(theory_that_is_not_wanted_is_not_computed),
      cmocka_unit_test(negative_curvature_falls_with_the_root_of_heads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
