/* Where a run of icl stands: eigenvalues of the integral Hessian, records of the curves, and the results. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "experiments/all.h"
#include "experiments/icl_run.h"

/* ---- the integral Hessian ------------------------------------------------------- */

typedef struct hessian {
  icl *run;
  int64_t products;
} hessian;

static mhas_code multiply_hessian(void *context, const double *x, double *y, mhas_error *error) {
  hessian *h = context;
  MHAS_TRY(h->run->task->proceed(h->run->task->context, error));
  h->products++;
  icl_side_product(&h->run->test, x, y);
  return MHAS_OK;
}

static mhas_code agree_on_team(void *context, mhas_code code, mhas_error *error) {
  const hessian *h = context;
  return mhas_team_agree(&h->run->task->team, code, error);
}

mhas_code icl_lambda(icl *run, mhas_end end, double tolerance, double *lambda, mhas_error *error) {
  enum { PRODUCTS_MOST = 500 };
  hessian context = {.run = run};
  mhas_eigen found = {NAN, NAN};
  const mhas_eigen_problem problem = {.size = run->numbers,
                                      .comm = MPI_COMM_NULL,
                                      .product = multiply_hessian,
                                      .context = &context,
                                      .agree = agree_on_team,
                                      .random = run->random,
                                      .tolerance = tolerance,
                                      .products_most = PRODUCTS_MOST};
  int64_t products = 0;
  MHAS_TRY(icl_side_forward(&run->test, run->theta, error));
  const mhas_code code = mhas_eigen_ends(&problem, end, 1, &found, NULL, &products, error);
  run->state.flops += (double)context.products * icl_product_flops(run->values);
  *lambda = code == MHAS_OK ? found.value : NAN;
  return code == MHAS_NUMERIC ? MHAS_OK : code;
}

/* ---- records -------------------------------------------------------------------- */

double icl_velocity_norm(const icl *run, const double *g) {
  return cblas_dnrm2((int)run->numbers, g, 1) / sqrt((double)run->test.M);
}

mhas_code icl_look(icl *run, mhas_landscape *look, mhas_error *error) {
  icl_side *test = &run->test;
  MHAS_TRY(icl_side_forward(test, run->theta, error));
  icl_side_gradient(test, run->has_attention ? run->W : NULL, run->g);
  run->state.flops += icl_test_flops(run->values);
  const mhas_code code = mhas_landscape_look(&test->moments, run->values[P_RANK_TOLERANCE].real, look, error);
  return mhas_team_agree(&run->task->team, code, error);
}

static double barron_norm(const icl *run) {
  const icl_side *t = &run->test;
  return mhas_barron_norm(t->M, t->k, t->d, run->theta, run->theta + t->M * t->k, 0.0, NULL, NULL);
}

/* What sigma_min_b cannot be below where no saddle is left, with k0 = k. */
static double sigma_bound(const icl *run) {
  const double r = run->ladder.eigenvalues[0];
  const double above = r - 2.0 * run->test.loss;
  const double most = run->test.moments.eigenvalues[run->k - 1];
  return run->k0 == run->k && above > 0.0 ? sqrt(above / most) : 0.0;
}

static void fill_record(icl *run, const mhas_landscape *look, double norm, double lambda) {
  const icl_state *s = &run->state;
  const icl_side *t = &run->test;
  const double rung = mhas_ladder_nearest(&run->ladder, t->loss);
  const double values[C_COUNT] = {
      [C_STEP] = (double)s->step,
      [C_LOSS] = t->loss,
      [C_LOSS_ATTENTION] = t->loss_attention,
      [C_GRADIENT_NORM] = norm,
      [C_SIGMA_MIN_B] = look->sigma_min_b,
      [C_SIGMA_BOUND] = sigma_bound(run),
      [C_RANK_CROSS] = (double)look->rank_cross,
      [C_SIGMA_MIN_CROSS] = look->sigma_min_cross,
      [C_EIGEN_MIN] = t->moments.eigenvalues[0],
      [C_EIGEN_MAX] = t->moments.eigenvalues[run->k - 1],
      [C_CONDITION] = t->moments.condition,
      [C_NEAREST_RUNG] = rung,
      [C_RUNG_DISTANCE] = mhas_ladder_distance(&run->ladder, t->loss, rung),
      [C_CURVATURE] = look->curvature,
      [C_CURVATURE_BOUND] = look->curvature_bound,
      [C_LAMBDA_MIN] = lambda,
      [C_ATTENTION_GAP] = run->gaps[s->records],
      [C_BARRON_NORM] = barron_norm(run),
      [C_JUMPS] = (double)s->jumps,
  };
  mhas_row_record(&mhas_experiment_icl, run->row, s->records, values);
}

mhas_code icl_record(icl *run, mhas_error *error) {
  icl_state *s = &run->state;
  icl_side *test = &run->test;
  const int64_t every = run->values[P_LAMBDA_EVERY].integer;
  double *spectra = run->spectra + s->records * icl_spectra(run->values);
  mhas_landscape look = {.sigma_b = spectra + run->k, .sigma_cross = spectra + run->k + icl_least(run->values)};
  double lambda = NAN;
  MHAS_TRY(icl_look(run, &look, error));
  memcpy(spectra, test->moments.eigenvalues, (size_t)run->k * sizeof *spectra);
  const double norm = icl_velocity_norm(run, run->g);
  if (!isfinite(test->loss_attention) || !isfinite(norm)) {
    const bool loss = !isfinite(test->loss_attention);
    return icl_diverged(run, s->step, loss ? "loss" : "the gradient", loss ? test->loss_attention : norm, error);
  }
  run->losses[s->records] = test->loss;
  run->gaps[s->records] = run->has_attention ? mhas_joint_gap(&test->moments, run->W) : 0.0;
  const double gap = fabs(log(test->loss_attention / test->loss));
  if (s->step * 10 >= run->values[P_STEPS].integer && isfinite(gap)) {
    s->timescale_gap = fmax(s->timescale_gap, gap);
  }
  if (run->samples_prompts) {
    icl_observe(run, s->step, test->loss_attention, norm);
  }
  if (every > 0 && s->records % every == 0) {
    MHAS_TRY(icl_lambda(run, MHAS_SMALLEST, ICL_LAMBDA_TOLERANCE, &lambda, error));
    MHAS_TRY(icl_look(run, &look, error));
  }
  fill_record(run, &look, norm, lambda);
  s->records++;
  return MHAS_OK;
}

/* ---- results -------------------------------------------------------------------- */

static int64_t step_of_record(const icl *run, int64_t record) {
  const int64_t step = record * run->values[P_LOG_EVERY].integer;
  const int64_t steps = run->values[P_STEPS].integer;
  return step < steps ? step : steps;
}

/* -d log(loss - floor) / d log t between a third of the time and its end. */
static double exponent_of(const icl *run) {
  const int64_t last = run->state.records - 1;
  int64_t third = 0;
  while (third < last && 3 * step_of_record(run, third) < step_of_record(run, last)) {
    third++;
  }
  const double early = run->losses[third] - run->ladder.floor;
  const double late = run->losses[last] - run->ladder.floor;
  const double time = log((double)step_of_record(run, last) / (double)step_of_record(run, third));
  return early > 0.0 && late > 0.0 && time > 0.0 ? log(early / late) / time : NAN;
}

static double stationary_loss(const icl *run) {
  double sum = 0.0;
  int64_t count = 0;
  for (int64_t i = 0; i < run->state.records; i++) {
    if (4 * step_of_record(run, i) >= 3 * run->values[P_STEPS].integer) {
      sum += run->losses[i];
      count++;
    }
  }
  return sum / (double)count;
}

/* The decay of attention_gap over the last half of the steps, by step of W, and what the linear flow of W should have:
 * modes decay by 1 - rate lambda_i(A) lambda_j(S). */
static mhas_code fill_attention_rates(icl *run, mhas_value *result, mhas_error *error) {
  const mhas_moments *m = &run->test.moments;
  const int64_t last = run->state.records - 1;
  int64_t half = 0;
  double smallest = 0.0;
  double largest = 0.0;
  if (!run->has_attention || run->values[P_STEP_SIZE].real != 0.0) {
    return MHAS_OK;
  }
  while (half < last && 2 * step_of_record(run, half) < step_of_record(run, last)) {
    half++;
  }
  const double steps =
      (double)(step_of_record(run, last) - step_of_record(run, half)) * run->values[P_ATTENTION_STEP_RATIO].real;
  result[R_ATTENTION_RATE].real = log(run->gaps[half] / run->gaps[last]) / steps;
  MHAS_TRY(mhas_joint_ends(m, &smallest, &largest, error));
  const double share = smallest * m->eigenvalues[0] / (largest * m->eigenvalues[run->k - 1]);
  result[R_ATTENTION_RATE_THEORY].real = -log1p(-run->values[P_ATTENTION_STEP_SIZE].real * share);
  return MHAS_OK;
}

static void fill_losses(const icl *run, const mhas_landscape *look, mhas_value *result) {
  const icl_side *t = &run->test;
  const mhas_ladder *ladder = &run->ladder;
  const double rung = mhas_ladder_nearest(ladder, t->loss);
  const double span = ladder->lowest - ladder->floor;
  result[R_LOSS].real = t->loss;
  result[R_LOSS_ATTENTION].real = t->loss_attention;
  result[R_LOSS_FLOOR].real = ladder->floor;
  result[R_NEAREST_RUNG].real = rung;
  result[R_RUNG_DISTANCE].real = mhas_ladder_distance(ladder, t->loss, rung);
  result[R_LOWEST_RUNG].real = ladder->lowest;
  result[R_SUCCESS].integer = t->loss_attention < ladder->floor + 0.5 * span;
  result[R_STALLED].integer = fabs(t->loss_attention - ladder->lowest) < 0.1 * span;
  result[R_LOSS_START].real = run->state.loss_start;
  result[R_LOSS_STATIONARY].real = stationary_loss(run);
  result[R_EXPONENT].real = exponent_of(run);
  result[R_SIGMA_MIN_B].real = look->sigma_min_b;
  result[R_RANK_CROSS].integer = look->rank_cross;
  result[R_CONDITION].real = t->moments.condition;
  result[R_BARRON_NORM].real = barron_norm(run);
}

static void fill_dynamics(const icl *run, mhas_value *result) {
  const icl_state *s = &run->state;
  const double step_size = run->values[P_STEP_SIZE].real;
  result[R_ESCAPE_STEP].integer = s->escape_step;
  result[R_STIFFNESS].real = s->stiffness;
  result[R_STIFF].integer = s->stiffness > 2.0;
  result[R_JUMPS].integer = s->jumps;
  result[R_LOSS_SADDLE].real = s->loss_saddle;
  result[R_LAMBDA_SADDLE].real = s->lambda_saddle;
  result[R_CURVATURE].real = s->curvature;
  result[R_CURVATURE_BOUND].real = s->curvature_bound;
  if (s->lambda_saddle < 0.0 && step_size > 0.0) {
    result[R_ESCAPE_SLOPE].real = log(10.0) / log1p(step_size * -s->lambda_saddle);
  }
  result[R_PLATEAUS].integer = s->plateaus;
  if (s->plateaus > 0) {
    const double loss = s->plateau_found[0][2];
    result[R_PLATEAU_LOSS].real = loss;
    result[R_PLATEAU_DISTANCE].real = mhas_ladder_distance(&run->ladder, loss, mhas_ladder_nearest(&run->ladder, loss));
  }
  result[R_TIMESCALE_GAP].real = run->has_attention ? s->timescale_gap : NAN;
}

/* Of finite prompts, where S and Q have an inverse. */
static mhas_code fill_finite(icl *run, mhas_value *result, mhas_error *error) {
  icl_side *t = &run->test;
  const int64_t n = run->values[P_FINITE_TOKENS].integer;
  const mhas_code code =
      mhas_finite_loss(&t->moments, t->N, t->h, t->F, n, &result[R_LOSS_FINITE].real, run->g_W, error);
  if (code != MHAS_OK) {
    return code == MHAS_NUMERIC ? MHAS_OK : code;
  }
  return run->values[P_FINITE_DRAWS].integer > 0
             ? icl_finite_sampled(run, n, run->g_W, &result[R_LOSS_FINITE_SAMPLED].real, error)
             : MHAS_OK;
}

static mhas_code keep_one(const icl *run, const char *name, const double *data, mhas_error *error) {
  return run->row->keep(run->row->keep_context, name, data, error);
}

static mhas_code keep_marks(icl *run, mhas_error *error) {
  const icl_state *s = &run->state;
  double plateaus[ICL_PLATEAUS][3];
  double jumps[ICL_JUMPS];
  for (int i = 0; i < ICL_PLATEAUS; i++) {
    for (int j = 0; j < 3; j++) {
      plateaus[i][j] = i < s->plateaus ? s->plateau_found[i][j] : NAN;
    }
  }
  for (int i = 0; i < ICL_JUMPS; i++) {
    jumps[i] = i < s->jumps ? (double)s->jump_steps[i] : NAN;
  }
  MHAS_TRY(keep_one(run, "eigenvalues", run->ladder.eigenvalues, error));
  MHAS_TRY(keep_one(run, "plateaus", plateaus[0], error));
  return keep_one(run, "jumps", jumps, error);
}

/* `width` columns of the spectra of all records, from number `first` on. */
static mhas_code keep_spectra(const icl *run, const char *name, int64_t first, int64_t width, mhas_error *error) {
  const int64_t records = icl_records(run->values);
  const int64_t stride = icl_spectra(run->values);
  double *columns = NULL;
  MHAS_TRY(mhas_alloc(&columns, (size_t)(records * width), sizeof *columns, "the stored spectra", error));
  for (int64_t i = 0; i < records; i++) {
    memcpy(columns + i * width, run->spectra + i * stride + first, (size_t)width * sizeof *columns);
  }
  const mhas_code code = keep_one(run, name, columns, error);
  mhas_free(columns);
  return code;
}

static mhas_code keep(icl *run, mhas_error *error) {
  const icl_side *t = &run->test;
  const unsigned store = run->row->keep == NULL ? 0 : run->task->store;
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(keep_one(run, "a", run->theta, error));
    MHAS_TRY(keep_one(run, "w", run->theta + t->M * t->k, error));
    MHAS_TRY(keep_one(run, "W", run->has_attention ? run->W : t->moments.S_inverse, error));
    MHAS_TRY(keep_one(run, "teacher_a", run->teacher.a, error));
    MHAS_TRY(keep_one(run, "teacher_w", run->teacher.w, error));
    MHAS_TRY(keep_one(run, "teacher_offset", run->teacher.offset, error));
  }
  if ((store & MHAS_STORE_DATA) == 0) {
    return MHAS_OK;
  }
  MHAS_TRY(keep_one(run, "X", t->X, error));
  MHAS_TRY(keep_one(run, "F", t->F, error));
  MHAS_TRY(keep_spectra(run, "S_eigenvalues", 0, t->k, error));
  MHAS_TRY(keep_spectra(run, "B_singular_values", t->k, icl_least(run->values), error));
  MHAS_TRY(keep_spectra(run, "cross_singular_values", t->k + icl_least(run->values), icl_least(run->values), error));
  return keep_marks(run, error);
}

/* Eigenvalues first: they take `test` to L(mu) at theta. What uses other tokens comes last. */
mhas_code icl_conclude(icl *run, mhas_error *error) {
  mhas_value *result = run->row->results;
  mhas_landscape look = {0};
  icl_close_plateau(run, run->state.step);
  MHAS_TRY(icl_lambda(run, MHAS_SMALLEST, ICL_LAMBDA_TOLERANCE, &result[R_LAMBDA_MIN].real, error));
  if (run->values[P_DENSE_SPECTRUM].integer != 0) {
    MHAS_TRY(icl_dense_spectrum(run, &result[R_LAMBDA_MIN_DENSE].real, error));
  }
  MHAS_TRY(icl_look(run, &look, error));
  fill_losses(run, &look, result);
  fill_dynamics(run, result);
  MHAS_TRY(fill_attention_rates(run, result, error));
  MHAS_TRY(fill_finite(run, result, error));
  MHAS_TRY(keep(run, error));
  return icl_new_tasks(run, &result[R_ICL_ERROR].real, &result[R_PROJECTION_ERROR].real, error);
}
