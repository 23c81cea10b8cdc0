/* Points of the experiment optimize: its trainings, its data, its measurements, and what it refuses. */
#include "mhasweep/selfattention.h"
#include "notebook.h"
#include "point.h"

/* Small and quick; `init` and `data` are said by the tests. */
static point small_point(void) {
  point p;
  point_start(&p, "optimize");
  point_set(&p, "heads", 4);
  point_set(&p, "tokens", 5);
  point_set(&p, "dim", 7);
  point_set(&p, "samples", 12);
  point_set(&p, "test_samples", 9);
  point_set(&p, "init_samples", 12);
  point_set(&p, "relevant", 0.4);
  point_set(&p, "prototypes", 3);
  point_set(&p, "steps", 20);
  point_set(&p, "target_loss", 0.05);
  point_choose(&p, "theory", "none");
  return p;
}

static double *arrays_of(const point *p, const char *name) {
  const kept *k = point_kept(p, name);
  if (k == NULL) {
    fail_msg("%s was not stored", name);
  }
  return k->data;
}

/* theta as the model has it, from the stored U and W. */
static double *theta_of(const point *p, const char *U, const char *W) {
  const kept *u = point_kept(p, U);
  const kept *w = point_kept(p, W);
  assert_non_null(u);
  assert_non_null(w);
  double *theta = malloc((size_t)(u->count + w->count) * sizeof *theta);
  assert_non_null(theta);
  memcpy(theta, u->data, (size_t)u->count * sizeof *theta);
  memcpy(theta + u->count, w->data, (size_t)w->count * sizeof *theta);
  return theta;
}

static mhas_selfattention_shape shape_of(const point *p, int64_t heads) {
  const mhas_value *values = p->values;
  return (mhas_selfattention_shape){.samples = values[mhas_parameter_find(p->experiment, "samples")].integer,
                                    .tokens = values[mhas_parameter_find(p->experiment, "tokens")].integer,
                                    .dim = values[mhas_parameter_find(p->experiment, "dim")].integer,
                                    .heads = heads,
                                    .copies = 1};
}

/* K plain steps of the lengths eta_U and eta_W from theta, in place; `left_out` as in the gradient. */
static void descend(const point *p, int64_t heads, int64_t K, double eta_U, double eta_W, int64_t left_out,
                    double *theta) {
  const mhas_selfattention_shape shape = shape_of(p, heads);
  const int64_t u = mhas_selfattention_numbers_u(&shape, heads);
  const int64_t numbers = mhas_selfattention_numbers(&shape, heads);
  double *gradient = malloc((size_t)numbers * sizeof *gradient);
  mhas_selfattention *model = NULL;
  assert_int_equal(mhas_selfattention_create(&shape, MHAS_GRADIENT, arrays_of(p, "X"), arrays_of(p, "y"), MPI_COMM_NULL,
                                             &model, NULL),
                   MHAS_OK);
  for (int64_t k = 0; k < K; k++) {
    assert_int_equal(mhas_selfattention_gradient(model, theta, left_out, gradient, NULL, NULL), MHAS_OK);
    for (int64_t i = 0; i < numbers; i++) {
      theta[i] -= (i < u ? eta_U : eta_W) * gradient[i];
    }
  }
  mhas_selfattention_destroy(model);
  free(gradient);
}

static double distance(int64_t count, const double *a, const double *b) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return sqrt(sum);
}

/* ---- training --------------------------------------------------------------------------- */

static void a_training_is_plain_gradient_descent(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_CURVES;
  point_choose(&p, "init", "gaussian");
  point_set(&p, "step_size", 0.7);
  point_runs(&p);
  double *theta = theta_of(&p, "U_0", "W_0");
  double *end = theta_of(&p, "U", "W");
  const int64_t numbers = 4 * (5 * 7 + 7 * 7);
  const double moved = distance(numbers, theta, end);
  descend(&p, 4, 20, 0.7, 0.7, -1, theta);
  assert_memory_equal(theta, end, (size_t)numbers * sizeof *theta);
  assert_close(point_real(&p, "distance"), moved, 1e-14);
  assert_int_equal(point_integer(&p, "steps_run"), 20);
  assert_int_equal(point_integer(&p, "parameters"), numbers);
  free(theta);
  free(end);
  point_free(&p);
}

static void losses_fall_and_are_summed_up(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_CURVES;
  point_set(&p, "log_every", 1);
  point_runs(&p);
  assert_int_equal(p.row.record_capacity, 21);
  double sum = 0.0;
  for (int64_t k = 0; k <= 20; k++) {
    assert_true(point_curve(&p, 0, k) == (float)k);
    sum += k < 20 ? (double)point_curve(&p, 1, k) : 0.0;
  }
  assert_close(point_real(&p, "loss_sum"), sum, 1e-6);
  assert_close(point_real(&p, "mean_loss") * 20.0, sum - (double)point_curve(&p, 1, 0) + (double)point_curve(&p, 1, 20),
               1e-6);
  assert_int_equal(point_integer(&p, "monotone"), 1);
  assert_true(point_real(&p, "train_loss") < 0.5);
  assert_close(point_real(&p, "gap"), point_real(&p, "test_loss") - point_real(&p, "train_loss"), 1e-16);
  assert_true(point_real(&p, "self_bound") > 0.0);
  assert_true(point_real(&p, "self_bound") <= 1.0);
  assert_true(isnan(point_real(&p, "lambda_min"))); /* not asked for */
  assert_true(isnan(point_real(&p, "stability")));
  assert_true(p.row.flops > 0.0);
  assert_true(p.row.flops <= p.experiment->cost(p.values).flops);
  point_free(&p);
}

static void the_rules_of_steps_are_what_they_say(void **state) {
  (void)state;
  point p = small_point();
  point_set(&p, "steps", 1);
  point_set(&p, "step_size", 0.25);
  point_choose(&p, "init", "gaussian");
  p.store = MHAS_STORE_CURVES;
  point_runs(&p);
  const double norm = (double)point_curve(&p, 6, 0);
  const double loss = (double)point_curve(&p, 1, 0);
  assert_close(point_real(&p, "distance"), 0.25 * norm, 1e-7);
  point_choose(&p, "step_rule", "sqrt_heads");
  point_runs(&p);
  assert_close(point_real(&p, "distance"), 0.25 * 2.0 * norm, 1e-7);
  point_choose(&p, "step_rule", "normalised");
  point_runs(&p);
  assert_close(point_real(&p, "distance"), 0.25, 1e-14);
  point_choose(&p, "step_rule", "polyak");
  point_runs(&p);
  assert_close(point_real(&p, "distance"), 0.25 * loss / norm, 1e-7);
  point_free(&p);
}

static void a_step_too_large_is_a_failed_point(void **state) {
  (void)state;
  point p = small_point();
  point_set(&p, "step_size", 1e10);
  assert_int_equal(point_run(&p), MHAS_NUMERIC);
  assert_non_null(strstr(p.error.text, "diverged at step 1:"));
  assert_non_null(strstr(p.error.text, "step_size 1e+10"));
  point_set(&p, "step_size", 1e300);
  assert_int_equal(point_run(&p), MHAS_NUMERIC);
  assert_non_null(strstr(p.error.text, "diverged at step"));
  point_free(&p);
}

static void no_steps_measure_the_start(void **state) {
  (void)state;
  point p = small_point();
  point_set(&p, "steps", 0);
  point_choose(&p, "init", "zero");
  point_set(&p, "stability_samples", 2);
  point_runs(&p);
  assert_close(point_real(&p, "train_loss"), log(2.0), 1e-15);
  assert_close(point_real(&p, "distance"), 0.0, 0.0);
  assert_close(point_real(&p, "stability"), 0.0, 0.0);
  assert_close(point_real(&p, "output_at_init"), 0.0, 0.0);
  assert_close(point_real(&p, "attention_mass"), 0.4, 1e-15);
  point_free(&p);
}

/* ---- heads that are equal ------------------------------------------------------------------ */

/* With V = sqrt(H) U the model is a single head (V, W) with steps eta and eta / H. */
static void heads_from_zero_are_a_single_head_with_two_steps(void **state) {
  (void)state;
  enum { H = 64 };
  point p = small_point();
  point_set(&p, "heads", H);
  point_set(&p, "steps", 200);
  point_choose(&p, "init", "zero");
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
  for (int collapse = 0; collapse < 2; collapse++) {
    double one[5 * 7 + 7 * 7] = {0};
    point_set(&p, "collapse", collapse);
    point_runs(&p);
    descend(&p, 1, 200, 1.0, 1.0 / H, -1, one);
    const double *U = arrays_of(&p, "U");
    const double *W = arrays_of(&p, "W");
    for (int64_t h = 0; h < H; h++) {
      for (int64_t i = 0; i < 35; i++) {
        assert_close(sqrt(H) * U[h * 35 + i], one[i], 1e-13);
      }
      for (int64_t i = 0; i < 49; i++) {
        assert_close(W[h * 49 + i], one[35 + i], 1e-13);
      }
    }
    assert_close(point_real(&p, "head_spread"), 0.0, collapse == 1 ? 0.0 : 1e-13);
    assert_int_equal(point_integer(&p, "parameters"), H * 84);
  }
  point_free(&p);
}

static void heads_held_once_give_the_same_results(void **state) {
  (void)state;
  static const char *const same[] = {
      "train_loss", "test_loss",     "distance",  "gradient_norm", "attention_mass", "self_bound",     "lambda_min",
      "lambda_max", "lambda_blocks", "stability", "smoothness",    "weak_convexity", "stability_bound"};
  point all = small_point();
  point_choose(&all, "init", "one_step");
  point_set(&all, "random_signs", 0);
  point_choose(&all, "eigenvalues", "end");
  point_set(&all, "stability_samples", 3);
  point once = all;
  point_set(&all, "collapse", 0);
  point_runs(&all);
  point_runs(&once);
  assert_true(once.experiment->cost(once.values).flops < 0.3 * all.experiment->cost(all.values).flops);
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    assert_close(point_real(&once, same[i]), point_real(&all, same[i]), 1e-9);
  }
  point_free(&all);
  point_free(&once);
}

static void random_signs_and_keys_keep_heads_apart(void **state) {
  (void)state;
  point p = small_point();
  point_choose(&p, "init", "one_step");
  point_runs(&p);
  assert_true(point_real(&p, "head_spread") > 0.01);
  point_choose(&p, "init", "zero");
  point_set(&p, "key_dim", 3);
  point_runs(&p);
  assert_true(point_real(&p, "head_spread") > 0.01);    /* W_K is drawn for each */
  assert_true(point_real(&p, "attention_mass") > 0.41); /* and W_Q moved */
  assert_true(isnan(point_real(&p, "self_bound")));     /* a bound for another model */
  point_free(&p);
}

/* ---- data ------------------------------------------------------------------------------------ */

static void the_mixture_is_made_of_orthogonal_vectors(void **state) {
  (void)state;
  enum { n = 12, T = 5, d = 7, RELEVANT = 2 };
  point p = small_point();
  point_set(&p, "noise", 0);
  point_set(&p, "signal", 3);
  p.store = MHAS_STORE_DATA;
  point_runs(&p);
  const double *X = arrays_of(&p, "X");
  const double *y = arrays_of(&p, "y");
  const double *relevant = arrays_of(&p, "relevant");
  for (int64_t i = 0; i < n; i++) {
    double count = 0.0;
    for (int64_t t = 0; t < T; t++) {
      const double *x = X + (i * T + t) * d;
      double square = 0.0;
      for (int64_t j = 0; j < d; j++) {
        square += x[j] * x[j];
      }
      assert_close(square, 9.0, 1e-13);
      count += relevant[i * T + t];
      for (int64_t other = 0; other < n * T; other++) { /* every two tokens are equal or orthogonal */
        double product = 0.0;
        for (int64_t j = 0; j < d; j++) {
          product += x[j] * X[other * d + j];
        }
        const bool signals = relevant[i * T + t] == 1.0 && relevant[other] == 1.0;
        assert_true(fabs(product) < 1e-13 || fabs(product - 9.0) < 1e-13);
        if (signals) {
          assert_close(product, y[i] == y[other / T] ? 9.0 : 0.0, 1e-13);
        }
      }
    }
    assert_close(count, RELEVANT, 0.0);
  }
  point_free(&p);
}

/* Phi = (sum alpha_h / sqrt(H)) T zeta^2 S^2 / 2 on every sample, of even mixtures without noise. */
static void a_step_from_zero_has_the_closed_form(void **state) {
  (void)state;
  point p = small_point();
  point_set(&p, "noise", 0);
  point_choose(&p, "mixing", "even");
  point_set(&p, "random_signs", 0);
  point_set(&p, "init_scale", 0.3);
  point_set(&p, "steps", 0);
  point_runs(&p);
  assert_close(point_real(&p, "output_at_init"), 0.3 * 4.0 / 2.0 * 5.0 * 0.16 * 4.0 / 2.0, 1e-13);
  point_free(&p);
}

static void the_optimum_attends_as_its_closed_form_says(void **state) {
  (void)state;
  point p = small_point();
  point_set(&p, "noise", 0);
  point_choose(&p, "init", "planted");
  point_set(&p, "steps", 0);
  for (double logit = 0.0; logit < 9.0; logit += 2.5) {
    point_set(&p, "init_logit", logit);
    point_runs(&p);
    /* irrelevant queries see relevant tokens alone; as all queries do */
    assert_close(point_real(&p, "attention_mass"), 0.4 / (0.4 + 0.6 * exp(-logit)), 1e-13);
    assert_close(point_real(&p, "train_error"), 0.0, 0.0);
  }
  point_free(&p);
}

static void planted_labels_are_those_of_the_planted_model(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_DATA;
  point_choose(&p, "data", "planted");
  point_choose(&p, "init", "planted");
  point_set(&p, "planted_heads", 2);
  point_set(&p, "planted_margin", 0.2);
  point_set(&p, "steps", 0);
  point_runs(&p);
  assert_close(point_real(&p, "train_error"), 0.0, 0.0);
  assert_close(point_real(&p, "test_error"), 0.0, 0.0);
  assert_true(point_real(&p, "train_loss") <= log1p(exp(-0.2)));
  assert_true(isnan(point_real(&p, "attention_mass")));
  const double loss = point_real(&p, "train_loss");
  point_set(&p, "heads", 2); /* the planted model with its own number of heads */
  point_runs(&p);
  assert_close(point_real(&p, "train_loss"), loss, 1e-14);
  point_set(&p, "planted_margin", 1000);
  assert_int_equal(point_run(&p), MHAS_NUMERIC);
  assert_non_null(strstr(p.error.text, "planted_margin = 1000"));
  point_free(&p);
}

static void label_noise_is_for_training_alone(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_DATA;
  point_set(&p, "samples", 400);
  point_set(&p, "init_samples", 50);
  point_set(&p, "steps", 2);
  point_runs(&p);
  double y[400];
  memcpy(y, arrays_of(&p, "y"), sizeof y);
  point_free(&p);
  point_set(&p, "label_noise", 0.25);
  point_runs(&p);
  int flipped = 0;
  for (int i = 0; i < 400; i++) {
    flipped += arrays_of(&p, "y")[i] != y[i];
  }
  assert_in_range(flipped, 70, 130);
  assert_close(point_real(&p, "train_error"), (double)flipped / 400.0, 1e-15); /* two steps learn the clean ones */
  assert_close(point_real(&p, "train_error_clean"), 0.0, 0.0);
  assert_close(point_real(&p, "test_error"), 0.0, 0.0);
  point_free(&p);
}

static void fewer_samples_are_the_first_of_more(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_DATA;
  point_choose(&p, "init", "zero");
  point_runs(&p);
  double few[12 * 35];
  double test[9 * 35];
  memcpy(few, arrays_of(&p, "X"), sizeof few);
  memcpy(test, arrays_of(&p, "X_test"), sizeof test);
  assert_memory_not_equal(few, test, sizeof test);
  point_set(&p, "samples", 20);
  point_runs(&p);
  assert_memory_equal(few, arrays_of(&p, "X"), sizeof few);
  assert_memory_equal(test, arrays_of(&p, "X_test"), sizeof test);
  point_free(&p);
}

/* ---- eigenvalues and stability ------------------------------------------------------------------ */

static void eigenvalues_keep_their_order_and_their_bounds(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_CURVES;
  point_choose(&p, "init", "gaussian");
  point_choose(&p, "eigenvalues", "logged");
  point_set(&p, "log_every", 5);
  point_runs(&p);
  assert_int_equal(p.row.record_capacity, 5);
  for (int64_t k = 0; k < 5; k++) {
    assert_true(point_curve(&p, 8, k) < 0.0F);
    assert_true(point_curve(&p, 9, k) > 0.0F);
    assert_true(point_curve(&p, 10, k) <= point_curve(&p, 8, k) * 0.999999F);
  }
  assert_true(point_real(&p, "lambda_min_residual") < 1e-8);
  assert_true(point_real(&p, "lambda_max_residual") < 1e-8);
  assert_true(point_real(&p, "lambda_blocks") <= point_real(&p, "lambda_min") + 1e-12);
  assert_true(point_real(&p, "weak_convexity") > 0.0 && point_real(&p, "weak_convexity") <= 1.0);
  assert_true(point_real(&p, "smoothness") > 0.0 && point_real(&p, "smoothness") <= 1.0);
  assert_true(point_real(&p, "curvature_ratio") >= -point_real(&p, "lambda_min") / point_real(&p, "train_loss"));
  point_set(&p, "eigen_products", 3);
  point_set(&p, "dim", 30); /* so that products alone are used */
  assert_int_equal(point_run(&p), MHAS_NUMERIC);
  point_free(&p);
}

static void stability_is_the_distance_to_trainings_without_a_sample(void **state) {
  (void)state;
  point p = small_point();
  point_choose(&p, "init", "gaussian");
  point_set(&p, "step_size", 0.5);
  point_set(&p, "stability_samples", 100); /* all 12 */
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA;
  point_runs(&p);
  const int64_t numbers = 4 * 84;
  double *end = theta_of(&p, "U", "W");
  double sum = 0.0;
  for (int64_t i = 0; i < 12; i++) {
    double *theta = theta_of(&p, "U_0", "W_0");
    descend(&p, 4, 20, 0.5, 0.5, i, theta);
    sum += distance(numbers, theta, end);
    free(theta);
  }
  assert_close(point_real(&p, "stability"), sum / 12.0, 1e-14);
  assert_true(point_real(&p, "stability") <= point_real(&p, "stability_bound"));
  assert_true(point_real(&p, "stability_worst") > 0.0 && point_real(&p, "stability_worst") <= 1.0);
  point_set(&p, "stability_samples", 5); /* some of them */
  point_runs(&p);
  assert_true(fabs(point_real(&p, "stability") - sum / 12.0) > 1e-9);
  assert_close(point_real(&p, "stability"), sum / 12.0, sum / 12.0);
  point_choose(&p, "step_rule", "normalised"); /* the bound is for steps of one size */
  point_set(&p, "step_size", 0.01);
  point_runs(&p);
  assert_true(isnan(point_real(&p, "stability_bound")));
  assert_true(point_real(&p, "stability") > 0.0);
  free(end);
  point_free(&p);
}

/* ---- going on ------------------------------------------------------------------------------------- */

static void an_interrupted_run_goes_on_with_the_same_bits(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_CURVES;
  point_set(&p, "stability_samples", 3);
  assert_same_with_stops(&p, 3);
  point_choose(&p, "theory", "ends"); /* whose work is done anew each time */
  assert_same_with_stops(&p, 17);
  point_choose(&p, "theory", "none");
  point_set(&p, "step_size", 30); /* losses that rise and fall */
  assert_same_with_stops(&p, 7);
  point_free(&p);
}

static void a_run_stopped_in_the_middle_of_eigenvalues_goes_on_too(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_CURVES;
  point_choose(&p, "eigenvalues", "logged");
  point_set(&p, "log_every", 10);
  point_runs(&p);
  const int64_t most = p.calls / 2;
  assert_true(most > 50);
  assert_same_with_stops(&p, most);
  p.stop_at = most;
  p.stop_code = MHAS_LIMIT;
  assert_int_equal(point_run(&p), MHAS_LIMIT);
  point_free(&p);
}

/* ---- what is refused ---------------------------------------------------------------------------------- */

static void assert_refused(point *p, const char *words) {
  assert_int_equal(point_check(p), MHAS_USAGE);
  if (strstr(p->error.text, words) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", p->error.text, words);
  }
}

static void impossible_points_are_refused_in_words(void **state) {
  (void)state;
  point p = small_point();
  point_set(&p, "prototypes", 6);
  assert_refused(&p, "dim has to be 8 or more");
  p = small_point();
  point_choose(&p, "init", "planted");
  point_set(&p, "key_dim", 2);
  assert_refused(&p, "key_dim: 0");
  p = small_point();
  point_choose(&p, "init", "planted");
  point_choose(&p, "data", "planted");
  point_set(&p, "planted_heads", 3);
  assert_refused(&p, "no multiple of planted_heads = 3");
  p = small_point();
  point_choose(&p, "init", "planted");
  point_choose(&p, "data", "tokens");
  assert_refused(&p, "dm1 or planted");
  p = small_point();
  point_set(&p, "heads", 1 << 20);
  point_set(&p, "tokens", 1 << 16);
  assert_refused(&p, "BLAS");
  p = small_point();
  point_set(&p, "samples", 1 << 30);
  point_set(&p, "tokens", 1 << 10);
  point_set(&p, "dim", 1 << 10);
  assert_refused(&p, "samples");
}

static void a_store_that_breaks_breaks_the_run(void **state) {
  (void)state;
  point p = small_point();
  p.store = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_ATTENTION;
  point_runs(&p);
  const int arrays = p.kept_count;
  assert_int_equal(arrays, 4 + 5 + 1);
  point_ends_where_the_store_breaks(&p, arrays);
  point_free(&p);
}

/* ---- costs ------------------------------------------------------------------------------------------------ */

static void logged_steps_are_as_many_as_announced(void **state) {
  (void)state;
  static const int64_t steps[] = {0, 1, 2, 3, 7, 50, 100, 333};
  static const int64_t entries[] = {1, 2, 5, 20, 64, 500};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    for (size_t j = 0; j < sizeof entries / sizeof *entries; j++) {
      point p = small_point();
      p.store = MHAS_STORE_CURVES;
      point_set(&p, "samples", 2);
      point_set(&p, "steps", (double)steps[i]);
      point_set(&p, j % 2 == 0 ? "log_points" : "log_every", (double)entries[j]);
      point_runs(&p);
      float last = -1.0F;
      for (int64_t k = 0; k < p.row.record_capacity && !isnan(point_curve(&p, 0, k)); k++) {
        assert_true(point_curve(&p, 0, k) > last);
        last = point_curve(&p, 0, k);
      }
      assert_true(last == (float)steps[i]); /* the last one has a place */
      point_free(&p);
    }
  }
}

static void a_team_needs_less_memory_each(void **state) {
  (void)state;
  point p = small_point();
  point_set(&p, "heads", 64);
  point_set(&p, "dim", 40);
  point_choose(&p, "eigenvalues", "end");
  double bytes = 0.0;
  const double alone = p.experiment->cost(p.values).bytes;
  assert_int_equal(mhas_experiment_ranks(p.experiment, p.values, alone, &bytes), 1);
  const int ranks = mhas_experiment_ranks(p.experiment, p.values, alone / 4.0, &bytes);
  assert_in_range(ranks, 4, 10);
  assert_true(bytes <= alone / 4.0);
  point_choose(&p, "init", "zero"); /* one head for all: nothing to split */
  assert_int_equal(mhas_experiment_ranks(p.experiment, p.values, 1000.0, &bytes), 0);
  point_free(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_training_is_plain_gradient_descent),
      cmocka_unit_test(losses_fall_and_are_summed_up),
      cmocka_unit_test(the_rules_of_steps_are_what_they_say),
      cmocka_unit_test(a_step_too_large_is_a_failed_point),
      cmocka_unit_test(no_steps_measure_the_start),
      cmocka_unit_test(heads_from_zero_are_a_single_head_with_two_steps),
      cmocka_unit_test(heads_held_once_give_the_same_results),
      cmocka_unit_test(random_signs_and_keys_keep_heads_apart),
      cmocka_unit_test(the_mixture_is_made_of_orthogonal_vectors),
      cmocka_unit_test(a_step_from_zero_has_the_closed_form),
      cmocka_unit_test(the_optimum_attends_as_its_closed_form_says),
      cmocka_unit_test(planted_labels_are_those_of_the_planted_model),
      cmocka_unit_test(label_noise_is_for_training_alone),
      cmocka_unit_test(fewer_samples_are_the_first_of_more),
      cmocka_unit_test(eigenvalues_keep_their_order_and_their_bounds),
      cmocka_unit_test(stability_is_the_distance_to_trainings_without_a_sample),
      cmocka_unit_test(an_interrupted_run_goes_on_with_the_same_bits),
      cmocka_unit_test(a_run_stopped_in_the_middle_of_eigenvalues_goes_on_too),
      cmocka_unit_test(impossible_points_are_refused_in_words),
      cmocka_unit_test(a_store_that_breaks_breaks_the_run),
      cmocka_unit_test(logged_steps_are_as_many_as_announced),
      cmocka_unit_test(a_team_needs_less_memory_each),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
