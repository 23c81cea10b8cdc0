/* icl: what theory says of its runs, how they end, go on, and what is refused. */
#include "notebook.h"

/* Sanitizers would end the program where an allocation is refused; the tests want to see it refused. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static int curve_of(const point *p, const char *name) {
  for (int i = 0; i < p->experiment->curve_count; i++) {
    if (strcmp(p->experiment->curves[i].name, name) == 0) {
      return i;
    }
  }
  fail_msg("no curve %s", name);
  return -1;
}

static double curve(const point *p, const char *name, int64_t record) {
  return (double)point_curve(p, curve_of(p, name), record);
}

enum { SMALL_M = 20, SMALL_N = 60 };

/* Small and quick: d = 5, k = k0 = 2, on a pool. */
static point small(const char *model) {
  point p;
  point_start(&p, "icl");
  point_choose(&p, "model", model);
  point_choose(&p, "sampling", "pool");
  p.is_set[mhas_parameter_find(p.experiment, "sampling")] = true;
  point_set(&p, "dim", 5);
  point_set(&p, "features", 2);
  point_set(&p, "true_features", 2);
  point_set(&p, "neurons", SMALL_M);
  point_set(&p, "tokens", SMALL_N);
  point_set(&p, "test_tokens", SMALL_N);
  point_set(&p, "finite_tokens", 50);
  point_set(&p, "teacher_neurons", 20);
  point_set(&p, "attention_step_size", 1.0);
  point_set(&p, "steps", 60);
  point_set(&p, "log_every", 10);
  p.store = MHAS_STORE_CURVES;
  return p;
}

static int64_t records(const point *p) { return p->experiment->cost(p->values).records; }

/* ---- what is recorded ------------------------------------------------------------------- */

static void records_begin_before_the_first_step_and_end_behind_the_last(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "steps", 25);
  assert_int_equal(records(&p), 4);
  point_runs(&p);
  const double steps[] = {0, 10, 20, 25};
  for (int i = 0; i < 4; i++) {
    assert_close(curve(&p, "step", i), steps[i], 0.0);
  }
  assert_close(curve(&p, "loss", 0), point_real(&p, "loss_start"), 1e-7);
  assert_close(curve(&p, "loss", 3), point_real(&p, "loss"), 1e-7);
  assert_close(curve(&p, "sigma_min_b", 3), point_real(&p, "sigma_min_b"), 1e-6);
  assert_true(isnan(curve(&p, "lambda_min", 1)));
  point_set(&p, "lambda_every", 2);
  point_runs(&p);
  assert_false(isnan(curve(&p, "lambda_min", 0)));
  assert_true(isnan(curve(&p, "lambda_min", 1)));
  assert_false(isnan(curve(&p, "lambda_min", 2)));
  point_set(&p, "steps", 20);
  assert_int_equal(records(&p), 3);
  point_free(&p);
}

static void the_same_point_gives_the_same_bits_whatever_is_logged(void **state) {
  (void)state;
  static const char *const samplings[] = {"pool", "fresh", "prompts"};
  static const char *const models[] = {"attention", "static", "modified"};
  for (int i = 0; i < 9; i += 2) { /* every model and every way at least once */
    point p = small(models[i % 3]);
    point_choose(&p, "sampling", samplings[i / 3]);
    point_set(&p, "attention_step_size", 0.05);
    point_set(&p, "step_size", 0.05);
    point_set(&p, "neurons", 6);
    point_set(&p, "steps", 40);
    point_set(&p, "perturb_gradient", 10);
    point_set(&p, "perturb_every", 10);
    point_set(&p, "birth_death", 0.1);
    point_set(&p, "queries", 20);
    point_runs(&p);
    const double loss = point_real(&p, "loss");
    const double icl_error = point_real(&p, "icl_error");
    point_set(&p, "log_every", 40);
    point_set(&p, "lambda_every", 1);
    point_runs(&p);
    if (strcmp(samplings[i / 3], "prompts") != 0) { /* there the trigger sees the records */
      assert_true(point_real(&p, "loss") == loss && point_real(&p, "icl_error") == icl_error);
    }
    p.random.replicate = 1;
    point_runs(&p);
    assert_true(point_real(&p, "loss") != loss);
    point_free(&p);
  }
}

static void training_lowers_the_loss_by_every_way_of_sampling(void **state) {
  (void)state;
  static const char *const samplings[] = {"pool", "fresh", "prompts"};
  static const char *const models[] = {"attention", "static"};
  for (int i = 0; i < 6; i++) {
    point p = small(models[i % 2]);
    point_choose(&p, "sampling", samplings[i / 2]);
    point_set(&p, "step_size", 0.2);
    point_set(&p, "steps", 300);
    point_set(&p, "queries", 100);
    point_set(&p, "attention_step_size", i / 2 == 2 ? 0.05 : 1.0);
    point_set(&p, "attention_step_ratio", 20);
    point_runs(&p);
    assert_true(point_real(&p, "loss") < 0.25 * point_real(&p, "loss_start"));
    assert_true(point_real(&p, "loss_attention") >= point_real(&p, "loss") * (1.0 - 1e-9));
    assert_true(point_real(&p, "loss") >= point_real(&p, "loss_floor"));
    point_free(&p);
  }
}

/* ---- theory ------------------------------------------------------------------------------- */

/* The smaller of the misspecified case: two features more than the model has. */
static void a_misspecified_model_ends_at_its_floor_and_never_below(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "features", 2);
  point_set(&p, "true_features", 4);
  point_set(&p, "step_size", 2.0);
  point_set(&p, "steps", 2500);
  point_set(&p, "log_every", 50);
  point_runs(&p);
  const double floor = point_real(&p, "loss_floor");
  assert_true(floor > 0.0);
  for (int64_t i = 0; i < records(&p); i++) {
    assert_true(curve(&p, "loss", i) >= floor * (1.0 - 1e-6)); /* curves are stored in float */
  }
  assert_true(point_real(&p, "loss") >= floor);
  assert_true(point_real(&p, "loss") <= 1.01 * floor);
  assert_close(point_real(&p, "nearest_rung"), floor, 1e-12);
  point_free(&p);
}

static point at_saddle(const char *perturbation, double size) {
  point p = small("modified");
  point_choose(&p, "task", "symmetric");
  point_choose(&p, "trigger", "once");
  point_choose(&p, "perturbation", perturbation);
  point_set(&p, "neurons", 40);
  point_set(&p, "tokens", 120);
  point_set(&p, "birth_death", 0);
  point_set(&p, "perturb_first", 300);
  point_set(&p, "perturbation_size", size);
  point_set(&p, "step_size", 0.2);
  point_set(&p, "steps", 600);
  point_set(&p, "log_every", 100);
  return p;
}

static void escapes_from_the_symmetric_saddle_take_the_steps_that_its_curvature_says(void **state) {
  (void)state;
  static const char *const noises[] = {"isotropic", "hessian"};
  for (int i = 0; i < 2; i++) {
    point near_saddle = at_saddle(noises[i], 1e-6);
    point far = at_saddle(noises[i], 1e-2);
    point_runs(&near_saddle);
    point_runs(&far);
    const double slope =
        (double)(point_integer(&near_saddle, "escape_step") - point_integer(&far, "escape_step")) / 4.0;
    assert_true(point_integer(&far, "escape_step") > 0);
    assert_true(point_real(&far, "lambda_saddle") < -0.1);
    assert_true(fabs(slope / point_real(&far, "escape_slope") - 1.0) < 0.05);
    assert_int_equal(point_integer(&far, "jumps"), 1);
    assert_true(point_real(&far, "curvature") <= point_real(&far, "curvature_bound"));
    point_free(&near_saddle);
    point_free(&far);
  }
}

static void without_noise_the_saddle_is_not_left_until_rounding_does_it(void **state) {
  (void)state;
  point p = at_saddle("none", 1.0);
  point_set(&p, "steps", 350);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "escape_step"), -1);
  assert_int_equal(point_integer(&p, "rank_cross"), 1);
  assert_int_equal(point_integer(&p, "success"), 0);
  assert_true(point_real(&p, "loss") > point_real(&p, "lowest_rung"));
  point_set(&p, "steps", 1200);
  point_runs(&p);
  const double decades = (double)point_integer(&p, "escape_step") / point_real(&p, "escape_slope");
  assert_true(decades > 12.0 && decades < 25.0); /* from some eps = 1e-16 and less */
  point_free(&p);
}

/* A lost output stays lost by gradients and by noise that the pseudo-inverse lets through, but not by others. */
static void a_rank_deficient_start_is_left_by_isotropic_noise_ridge_or_birth_only(void **state) {
  (void)state;
  static const struct {
    const char *perturbation;
    double birth_death, ridge;
    bool left;
  } ways[] = {{"none", 0.0, 0.0, false},
              {"hessian", 0.0, 0.0, false},
              {"isotropic", 0.0, 0.0, true},
              {"hessian", 0.0, 1e-6, true},
              {"none", 0.01, 0.0, true}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    point p = small("modified");
    point_choose(&p, "task", "rank_deficient");
    point_choose(&p, "perturbation", ways[i].perturbation);
    point_choose(&p, "trigger", "periodic");
    point_set(&p, "birth_death", ways[i].birth_death);
    point_set(&p, "ridge", ways[i].ridge);
    point_set(&p, "perturb_first", 20);
    point_set(&p, "perturb_every", 100);
    point_set(&p, "steps", 500);
    point_set(&p, "step_size", 0.2);
    point_runs(&p);
    assert_int_equal(point_integer(&p, "rank_cross"), ways[i].left ? 2 : 1);
    assert_int_equal(isfinite(point_real(&p, "condition")), ways[i].left);
    assert_int_equal(isnan(point_real(&p, "loss_finite")), !ways[i].left);
    assert_int_equal(point_integer(&p, "jumps"), strcmp(ways[i].perturbation, "none") == 0 ? 0 : 5);
    point_free(&p);
  }
}

static void attention_at_fixed_features_decays_at_the_predicted_rate(void **state) {
  (void)state;
  point p = small("attention");
  point_set(&p, "step_size", 0);
  point_choose(&p, "activation", "tanh");
  point_set(&p, "attention_step_ratio", 2);
  point_set(&p, "steps", 80);
  point_runs(&p);
  assert_true(curve(&p, "loss", 6) == curve(&p, "loss", 0)); /* mu stays */
  assert_true(point_real(&p, "attention_rate") > 0.0);
  assert_true(fabs(point_real(&p, "attention_rate") / point_real(&p, "attention_rate_theory") - 1.0) < 0.05);
  point_free(&p);
}

static void fast_attention_follows_the_static_model(void **state) {
  (void)state;
  point p = small("attention");
  point s = small("static");
  point_set(&p, "step_size", 0.2);
  point_set(&s, "step_size", 0.2);
  point_choose(&p, "attention_start", "optimal");
  point_set(&p, "attention_step_ratio", 1000);
  point_runs(&p);
  point_runs(&s);
  assert_true(fabs(log(point_real(&p, "loss_attention") / point_real(&s, "loss"))) < 0.05);
  assert_true(point_real(&p, "timescale_gap") < 0.05);
  assert_true(isnan(point_real(&s, "timescale_gap")));
  assert_true(point_real(&s, "loss_attention") == point_real(&s, "loss"));
  point_free(&p);
  point_free(&s);
}

static void slow_attention_takes_a_step_each_few_of_the_features(void **state) {
  (void)state;
  point p = small("attention");
  point_set(&p, "step_size", 0);
  point_set(&p, "attention_step_ratio", 0.25);
  point_set(&p, "steps", 9);
  point_set(&p, "log_every", 1);
  point_runs(&p);
  for (int64_t i = 1; i <= 9; i++) {
    const bool moved = curve(&p, "attention_gap", i) != curve(&p, "attention_gap", i - 1);
    assert_int_equal(moved, i % 4 == 0);
  }
  point_free(&p);
}

static void prompts_of_finite_length_cost_what_the_closed_form_says(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "step_size", 0.1);
  point_set(&p, "finite_tokens", 20);
  point_set(&p, "finite_draws", 1500);
  point_runs(&p);
  const double closed = point_real(&p, "loss_finite");
  const double limit = point_real(&p, "loss");
  assert_true(closed > limit);
  assert_true(fabs(point_real(&p, "loss_finite_sampled") - closed) < 0.05 * (closed - limit));
  point_set(&p, "finite_draws", 0);
  point_runs(&p);
  assert_true(isnan(point_real(&p, "loss_finite_sampled")));
  point_free(&p);
}

static void new_tasks_within_the_features_are_learned_and_others_up_to_their_projection(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "step_size", 0.5);
  point_set(&p, "steps", 600);
  point_set(&p, "task_shift", 0);
  point_runs(&p);
  assert_true(point_real(&p, "projection_error") < 1e-12);
  assert_true(point_real(&p, "icl_error") < 0.1);
  const double within = point_real(&p, "icl_error");
  point_set(&p, "task_shift", 1);
  point_runs(&p);
  assert_true(point_real(&p, "projection_error") > 0.1);
  assert_true(point_real(&p, "icl_error") > within);
  assert_true(point_real(&p, "icl_error") < 2.0 * (point_real(&p, "projection_error") + within));
  point_free(&p);
}

static void lanczos_and_all_eigenvalues_agree(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "neurons", 12);
  point_set(&p, "steps", 3);
  point_set(&p, "step_size", 0.1);
  point_set(&p, "dense_spectrum", 1);
  p.store = MHAS_STORE_SPECTRUM;
  point_runs(&p);
  assert_int_equal(p.row.spectrum_capacity, 12 * (2 + 5));
  assert_true(point_real(&p, "lambda_min_dense") < 0.0);
  assert_close(point_real(&p, "lambda_min") / point_real(&p, "lambda_min_dense"), 1.0, 1e-3);
  for (int64_t i = 1; i < p.row.spectrum_capacity; i++) {
    assert_true(p.spectrum[i] <= p.spectrum[i - 1]);
  }
  assert_close(p.spectrum[p.row.spectrum_capacity - 1], point_real(&p, "lambda_min_dense"), 0.0);
  point_set(&p, "dense_spectrum", 0);
  point_runs(&p);
  assert_true(isnan(point_real(&p, "lambda_min_dense")));
  point_free(&p);
}

/* ---- the modified dynamics ------------------------------------------------------------------ */

static void jumps_come_when_they_are_due(void **state) {
  (void)state;
  static const struct {
    const char *trigger;
    double first, gradient, decrease;
    int64_t jumps;
  } cases[] = {{"periodic", 0, 0, 0, 6}, {"periodic", 25, 0, 0, 4},
               {"once", 30, 0, 0, 1},    {"gradient", 0, 100, 0, 6}, /* not before a gradient has been seen */
               {"gradient", 0, 0, 0, 0}, {"gradient", 0, 100, 1e6, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    point p = small("modified");
    point_choose(&p, "trigger", cases[i].trigger);
    point_set(&p, "perturb_first", cases[i].first);
    point_set(&p, "perturb_every", 10);
    point_set(&p, "perturb_gradient", cases[i].gradient);
    point_set(&p, "perturb_decrease", cases[i].decrease);
    point_set(&p, "step_size", 0.05);
    p.store |= MHAS_STORE_DATA;
    point_runs(&p);
    assert_int_equal(point_integer(&p, "jumps"), cases[i].jumps);
    const double *steps = point_kept(&p, "jumps")->data;
    assert_true(isnan(steps[cases[i].jumps]));
    if (strcmp(cases[i].trigger, "periodic") == 0) {
      assert_close(steps[1], cases[i].first + 10, 0.0);
    }
    point_free(&p);
  }
}

static void a_jump_has_the_size_that_was_asked_for(void **state) {
  (void)state;
  static const char *const noises[] = {"isotropic", "hessian"};
  for (int i = 0; i < 2; i++) {
    point still = small("static");
    point p = small("modified");
    point_choose(&p, "trigger", "once");
    point_choose(&p, "perturbation", noises[i]);
    point_set(&p, "perturbation_size", 0.125);
    point_set(&p, "step_size", 0);
    point_set(&still, "step_size", 0);
    p.store = still.store = MHAS_STORE_WEIGHTS;
    point_runs(&p);
    point_runs(&still);
    double squares = 0.0;
    for (int which = 0; which < 2; which++) {
      const char *name = which == 0 ? "a" : "w";
      const kept *moved = point_kept(&p, name);
      for (int64_t j = 0; j < moved->count; j++) {
        const double by = moved->data[j] - point_kept(&still, name)->data[j];
        squares += by * by;
      }
    }
    assert_close(sqrt(squares / (SMALL_M * 7)), 0.125, 1e-12);
    point_free(&p);
    point_free(&still);
  }
}

static void neurons_are_redrawn_at_the_rate_asked_for_from_the_whole_initial_law(void **state) {
  (void)state;
  point p = small("modified");
  point still = small("modified");
  point_choose(&p, "task", "symmetric");
  point_choose(&still, "task", "symmetric");
  point_choose(&p, "perturbation", "none");
  point_choose(&still, "perturbation", "none");
  point_set(&p, "neurons", 400);
  point_set(&still, "neurons", 400);
  point_set(&p, "step_size", 1e-9);
  point_set(&still, "step_size", 1e-9);
  point_set(&p, "birth_death", 1e7); /* a hundredth in a step */
  point_set(&still, "birth_death", 0);
  point_set(&p, "steps", 10);
  point_set(&still, "steps", 10);
  p.store = still.store = MHAS_STORE_WEIGHTS;
  point_runs(&p);
  point_runs(&still);
  int64_t redrawn = 0;
  double squares = 0.0;
  for (int64_t i = 0; i < 400; i++) {
    const double last = point_kept(&p, "w")->data[i * 5 + 4];
    redrawn += fabs(last) > 1e-6; /* the start does not see x_d */
    squares += last * last;
  }
  assert_true(fabs((double)redrawn - 400.0 * (1.0 - pow(0.99, 10))) < 4.0 * sqrt(38.0));
  assert_close(squares / (double)redrawn, 1.0, 0.8);
  for (int64_t i = 0; i < 400; i++) {
    assert_true(fabs(point_kept(&still, "w")->data[i * 5 + 4]) < 1e-12);
  }
  point_free(&p);
  point_free(&still);
}

static void more_birth_and_death_leaves_a_larger_loss(void **state) {
  (void)state;
  double loss[3];
  for (int i = 0; i < 3; i++) {
    point p = small("modified");
    point_choose(&p, "perturbation", "none");
    point_set(&p, "birth_death", 0.002 * pow(10.0, i - 1));
    point_set(&p, "step_size", 0.5);
    point_set(&p, "steps", 600);
    point_runs(&p);
    loss[i] = point_real(&p, "loss_stationary");
    point_free(&p);
  }
  assert_true(loss[0] < loss[1] && loss[1] < loss[2]);
}

static void the_penalty_lowers_the_norm(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "step_size", 0.1);
  point_runs(&p);
  const double free_norm = point_real(&p, "barron_norm");
  point_set(&p, "barron_penalty", 0.05);
  point_runs(&p);
  assert_true(point_real(&p, "barron_norm") < 0.95 * free_norm);
  point_free(&p);
}

static void plateaus_are_found_where_the_gradient_is_small(void **state) {
  (void)state;
  point p = at_saddle("isotropic", 1e-6);
  point_set(&p, "plateau_gradient", 0.05);
  point_set(&p, "plateau_steps", 20);
  p.store |= MHAS_STORE_DATA;
  point_runs(&p);
  assert_true(point_integer(&p, "plateaus") >= 1);
  const double *found = point_kept(&p, "plateaus")->data;
  assert_true(found[1] - found[0] >= 20.0);
  assert_close(found[2], point_real(&p, "plateau_loss"), 0.0);
  assert_true(point_real(&p, "plateau_loss") > point_real(&p, "lowest_rung"));
  point_set(&p, "plateau_gradient", 0);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "plateaus"), 0);
  assert_true(isnan(point_real(&p, "plateau_loss")));
  point_free(&p);
}

/* ---- precision, teachers, arrays ---------------------------------------------------------------- */

static void single_precision_ends_near_double(void **state) {
  (void)state;
  double loss[2];
  for (int i = 0; i < 2; i++) {
    point p = small("static");
    point_choose(&p, "precision", i == 0 ? "float32" : "float64");
    point_set(&p, "step_size", 0.1);
    point_runs(&p);
    loss[i] = point_real(&p, "loss");
    point_free(&p);
  }
  assert_true(loss[0] != loss[1]);
  assert_close(loss[0] / loss[1], 1.0, 1e-3);
}

static double sigmoid(double z) { return 1.0 / (1.0 + exp(-z)); }

/* Stored features, from the stored teacher and tokens. */
static void teachers_are_what_is_stored_of_them(void **state) {
  (void)state;
  static const char *const teachers[] = {"single_index", "random_network", "mean_field"};
  for (int i = 0; i < 6; i++) {
    point p = small("static");
    const bool odd = i >= 3;
    point_choose(&p, "teacher", teachers[i % 3]);
    point_choose(&p, "task", odd ? "symmetric" : "standard");
    point_set(&p, "bias", i == 1);
    point_set(&p, "steps", 1);
    p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
    point_runs(&p);
    const int64_t d = 5 + (i == 1);
    const int64_t M0 = point_kept(&p, "teacher_a")->count / 2;
    const double *a = point_kept(&p, "teacher_a")->data;
    const double *w = point_kept(&p, "teacher_w")->data;
    const double *X = point_kept(&p, "X")->data;
    const double *F = point_kept(&p, "F")->data;
    assert_int_equal(M0, (i % 3 == 0 ? 2 - odd : 20) + odd);
    for (int64_t n = 0; n < SMALL_N; n++) {
      for (int64_t j = 0; j < 2; j++) {
        double f = -point_kept(&p, "teacher_offset")->data[j];
        for (int64_t m = 0; m < M0; m++) {
          f += a[m * 2 + j] * sigmoid(cblas_ddot((int)d, w + m * d, 1, X + n * d, 1)) / (double)M0;
        }
        assert_close(F[n * 2 + j], f, 1e-12);
      }
      if (i == 1) {
        assert_close(X[n * d + 5], 1.0, 0.0);
      }
      if (odd && n % 2 == 1) { /* mirrored: the last feature changes its sign, the others stay */
        assert_close(X[n * d + 4], -X[(n - 1) * d + 4], 0.0);
        assert_close(F[n * 2 + 1], -F[(n - 1) * 2 + 1], 1e-14);
        assert_close(F[n * 2], F[(n - 1) * 2], 0.0);
      }
    }
    if (i == 0) { /* orthonormal but for the gain of 2 */
      assert_close(cblas_ddot(5, w, 1, w + 5, 1), 0.0, 1e-14);
      assert_close(cblas_dnrm2(5, w, 1), 2.0, 1e-14);
    }
    point_free(&p);
  }
}

static void everything_announced_is_stored(void **state) {
  (void)state;
  point p = small("attention");
  mhas_array arrays[MHAS_ARRAYS_MOST];
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
  point_set(&p, "true_features", 3);
  point_runs(&p);
  assert_int_equal(p.kept_count, p.experiment->arrays(p.values, p.store, arrays));
  assert_int_equal(point_kept(&p, "B_singular_values")->count, 2 * records(&p));
  assert_close(point_kept(&p, "B_singular_values")->data[2 * records(&p) - 1], point_real(&p, "sigma_min_b"), 0.0);
  const double *S = point_kept(&p, "S_eigenvalues")->data + 2 * (records(&p) - 1);
  assert_close(S[1] / S[0], point_real(&p, "condition"), 0.0);
  p.store = MHAS_STORE_CURVES;
  assert_int_equal(p.experiment->arrays(p.values, p.store, arrays), 0);
  point_runs(&p);
  assert_int_equal(p.kept_count, 0);
  point_free(&p);
}

/* ---- stops and failures --------------------------------------------------------------------------- */

static void an_interrupted_run_goes_on_with_the_same_bits(void **state) {
  (void)state;
  static const char *const models[] = {"attention", "static", "modified"};
  static const char *const samplings[] = {"pool", "fresh", "prompts"};
  for (int i = 0; i < 9; i += 2) { /* every model and every way at least once */
    point p = small(models[i % 3]);
    point_choose(&p, "sampling", samplings[i / 3]);
    point_choose(&p, "trigger", "periodic");
    point_set(&p, "neurons", 6);
    point_set(&p, "tokens", 30);
    point_set(&p, "test_tokens", 30);
    point_set(&p, "perturb_every", 15);
    point_set(&p, "birth_death", 1.0);
    point_set(&p, "step_size", 0.02);
    point_set(&p, "attention_step_size", 0.05);
    point_set(&p, "steps", 1);
    point_runs(&p);
    const int64_t asked = p.calls; /* by one step and all around it, mostly by eigenvalues */
    point_set(&p, "steps", 400);
    assert_same_with_stops(&p, asked + 150);
    point_free(&p);
  }
}

static void divergence_fails_the_point_and_names_a_stiff_start(void **state) {
  (void)state;
  point p = small("attention");
  point_choose(&p, "sampling", "prompts");
  point_set(&p, "step_size", 10);
  point_set(&p, "attention_step_size", 2);
  assert_int_equal(point_run(&p), MHAS_NUMERIC);
  assert_non_null(strstr(p.error.text, "diverged at step"));
  assert_non_null(strstr(p.error.text, "the start is stiff"));
  point_set(&p, "step_size", 1e-3);
  assert_int_equal(point_run(&p), MHAS_NUMERIC);
  assert_non_null(strstr(p.error.text, "diverged at step"));
  assert_null(strstr(p.error.text, "stiff"));
  point_free(&p);
}

static void a_start_is_stiff_by_its_step_size_and_its_scale(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "steps", 1);
  point_set(&p, "step_size", 1e-3);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "stiff"), 0);
  const double mild = point_real(&p, "stiffness");
  point_set(&p, "step_size", 10);
  point_runs(&p);
  assert_int_equal(point_integer(&p, "stiff"), 1);
  assert_close(point_real(&p, "stiffness") / mild, 1e4, 1e-6);
  point_set(&p, "init_scale", 0.05);
  point_runs(&p);
  assert_true(point_real(&p, "stiffness") > 1e3 * mild);
  point_free(&p);
}

static void a_point_that_is_told_to_stop_stops_wherever_it_is(void **state) {
  (void)state;
  point p = small("modified");
  point_set(&p, "neurons", 10);
  point_set(&p, "steps", 20);
  point_set(&p, "finite_draws", 5);
  point_set(&p, "dense_spectrum", 1);
  point_runs(&p);
  const int64_t calls = p.calls;
  point_ends_where_told(&p, 101, 1 + calls / 12);
  p.stop_code = MHAS_LIMIT;
  p.stop_at = calls - 1;
  assert_int_equal(point_run(&p), MHAS_LIMIT);
  point_free(&p);
}

static void a_store_that_breaks_breaks_the_run(void **state) {
  (void)state;
  point p = small("static");
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
  mhas_array arrays[MHAS_ARRAYS_MOST];
  const int count = p.experiment->arrays(p.values, p.store, arrays);
  point_ends_where_the_store_breaks(&p, count);
  point_free(&p);
}

static void too_large_a_point_says_that_memory_is_short(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "steps", 5e11);
  point_set(&p, "log_every", 1);
  p.store = 0;
  assert_int_equal(point_run(&p), MHAS_NO_MEMORY);
  point_free(&p);
}

static void assert_refused(point *p, const char *words) {
  assert_int_equal(point_check(p), MHAS_USAGE);
  if (strstr(p->error.text, words) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", p->error.text, words);
  }
  point_free(p);
}

static void impossible_points_are_refused_in_words(void **state) {
  (void)state;
  point p = small("static");
  point_set(&p, "true_features", 6);
  assert_refused(&p, "true_features: 6 orthonormal directions do not fit into dim = 5");
  p = small("static");
  point_choose(&p, "task", "rank_deficient");
  point_set(&p, "features", 1);
  assert_refused(&p, "features >= 2");
  p = small("static");
  point_choose(&p, "task", "symmetric");
  point_set(&p, "true_features", 1);
  point_set(&p, "dim", 1);
  assert_refused(&p, "dim >= 2");
  p = small("static");
  point_choose(&p, "task", "symmetric");
  point_set(&p, "tokens", SMALL_N + 1);
  assert_refused(&p, "even");
  p = small("modified");
  point_set(&p, "birth_death", 3);
  assert_refused(&p, "birth_death x step_size is 3");
  p = small("static");
  point_set(&p, "birth_death", 3); /* has none */
  assert_int_equal(point_check(&p), MHAS_OK);
  point_set(&p, "dense_spectrum", 1);
  point_set(&p, "neurons", 10000);
  assert_refused(&p, "dense_spectrum: a matrix of order 70000");
  p = small("static");
  point_choose(&p, "sampling", "prompts");
  point_set(&p, "prompt_batch", 1 << 20);
  point_set(&p, "tokens", 1 << 24);
  assert_refused(&p, "tokens");
  p = small("static");
  point_set(&p, "steps", 1e12);
  point_set(&p, "log_every", 1);
  assert_refused(&p, "the records (steps / log_every)");
}

static void costs_follow_the_point(void **state) {
  (void)state;
  point p = small("static");
  const mhas_cost plain = p.experiment->cost(p.values);
  assert_int_equal(plain.spectrum, 0);
  assert_close(plain.parameters, SMALL_M * 7, 0.0);
  point_choose(&p, "model", "attention");
  assert_close(p.experiment->cost(p.values).parameters, SMALL_M * 7 + 4, 0.0);
  point_set(&p, "dense_spectrum", 1);
  const mhas_cost dense = p.experiment->cost(p.values);
  assert_int_equal(dense.spectrum, SMALL_M * 7);
  assert_true(dense.flops > plain.flops && dense.bytes > plain.bytes);
  assert_true(p.experiment->team_bytes(p.values, 4) < p.experiment->team_bytes(p.values, 2));
  point_set(&p, "dense_spectrum", 0);
  point_set(&p, "steps", 600);
  point_runs(&p);
  assert_true(p.row.flops > 0.2 * p.experiment->cost(p.values).flops);
  assert_true(p.row.flops < 5.0 * p.experiment->cost(p.values).flops);
  point_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_begin_before_the_first_step_and_end_behind_the_last),
      cmocka_unit_test(the_same_point_gives_the_same_bits_whatever_is_logged),
      cmocka_unit_test(training_lowers_the_loss_by_every_way_of_sampling),
      cmocka_unit_test(a_misspecified_model_ends_at_its_floor_and_never_below),
      cmocka_unit_test(escapes_from_the_symmetric_saddle_take_the_steps_that_its_curvature_says),
      cmocka_unit_test(without_noise_the_saddle_is_not_left_until_rounding_does_it),
      cmocka_unit_test(a_rank_deficient_start_is_left_by_isotropic_noise_ridge_or_birth_only),
      cmocka_unit_test(attention_at_fixed_features_decays_at_the_predicted_rate),
      cmocka_unit_test(fast_attention_follows_the_static_model),
      cmocka_unit_test(slow_attention_takes_a_step_each_few_of_the_features),
      cmocka_unit_test(prompts_of_finite_length_cost_what_the_closed_form_says),
      cmocka_unit_test(new_tasks_within_the_features_are_learned_and_others_up_to_their_projection),
      cmocka_unit_test(lanczos_and_all_eigenvalues_agree),
      cmocka_unit_test(jumps_come_when_they_are_due),
      cmocka_unit_test(a_jump_has_the_size_that_was_asked_for),
      cmocka_unit_test(neurons_are_redrawn_at_the_rate_asked_for_from_the_whole_initial_law),
      cmocka_unit_test(more_birth_and_death_leaves_a_larger_loss),
      cmocka_unit_test(the_penalty_lowers_the_norm),
      cmocka_unit_test(plateaus_are_found_where_the_gradient_is_small),
      cmocka_unit_test(single_precision_ends_near_double),
      cmocka_unit_test(teachers_are_what_is_stored_of_them),
      cmocka_unit_test(everything_announced_is_stored),
      cmocka_unit_test(an_interrupted_run_goes_on_with_the_same_bits),
      cmocka_unit_test(divergence_fails_the_point_and_names_a_stiff_start),
      cmocka_unit_test(a_start_is_stiff_by_its_step_size_and_its_scale),
      cmocka_unit_test(a_point_that_is_told_to_stop_stops_wherever_it_is),
      cmocka_unit_test(a_store_that_breaks_breaks_the_run),
      cmocka_unit_test(too_large_a_point_says_that_memory_is_short),
      cmocka_unit_test(impossible_points_are_refused_in_words),
      cmocka_unit_test(costs_follow_the_point),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
