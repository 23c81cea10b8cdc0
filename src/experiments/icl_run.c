/* How a point of icl runs: its start, its steps, and how it goes on where it was. */
#include "experiments/icl_run.h"

#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the start --------------------------------------------------------------- */

static mhas_code allocate(icl *run, mhas_error *error) {
  const size_t numbers = (size_t)run->numbers;
  const size_t square = (size_t)(run->k * run->k);
  const size_t records = (size_t)icl_records(run->values);
  const size_t prompts = run->samples_prompts ? (size_t)run->values[P_PROMPT_BATCH].integer : 0;
  const size_t labels = run->samples_prompts ? (size_t)icl_step_tokens(run->values) : 0;
  MHAS_TRY(mhas_alloc(&run->theta, numbers, sizeof(double), "the neurons", error));
  MHAS_TRY(mhas_alloc(&run->g, numbers, sizeof(double), "the gradient", error));
  MHAS_TRY(mhas_alloc(&run->noise, numbers, sizeof(double), "the perturbation", error));
  MHAS_TRY(mhas_alloc(&run->W, square, sizeof(double), "the attention", error));
  MHAS_TRY(mhas_alloc(&run->g_W, square, sizeof(double), "the attention", error));
  MHAS_TRY(mhas_alloc(&run->losses, records, sizeof(double), "the records", error));
  MHAS_TRY(mhas_alloc(&run->spectra, records * (size_t)icl_spectra(run->values), sizeof(double), "the records", error));
  MHAS_TRY(mhas_alloc(&run->gaps, records, sizeof(double), "the records", error));
  MHAS_TRY(mhas_alloc(&run->tasks, prompts * (size_t)run->k0, sizeof(double), "the tasks", error));
  return mhas_alloc(&run->labels, labels, sizeof(double), "the labels", error);
}

/* What does not change while the point runs. */
static mhas_code prepare(icl *run, mhas_error *error) {
  const mhas_value *values = run->values;
  const bool pool = values[P_SAMPLING].integer == SAMPLING_POOL;
  MHAS_TRY(allocate(run, error));
  MHAS_TRY(icl_teacher_create(values, run->random, &run->teacher, error));
  MHAS_TRY(icl_side_create(values, icl_test_tokens(values), &run->test, error));
  run->train = &run->test;
  if (!pool) {
    MHAS_TRY(icl_side_create(values, icl_step_tokens(values), &run->drawn, error));
    run->train = &run->drawn;
  }
  icl_side_draw(&run->test, &run->teacher, MHAS_STREAM_ICL_TEST_TOKENS, 0);
  return MHAS_OK;
}

/* theta of the initial law, confined as the task wants it. */
static void draw_start(icl *run) {
  const int64_t M = run->test.M;
  const int64_t d = run->test.d;
  double *w = run->theta + M * run->k;
  icl_draw_neurons(run, MHAS_STREAM_ICL_A, MHAS_STREAM_ICL_W, 0, 0, M);
  for (int64_t i = 0; i < M; i++) {
    if (run->values[P_TASK].integer == TASK_RANK_DEFICIENT) {
      run->theta[i * run->k + run->k - 1] = 0.0;
    }
    if (run->values[P_TASK].integer == TASK_SYMMETRIC) {
      w[i * d + run->teacher.dim - 1] = 0.0;
    }
  }
}

static mhas_code begin(icl *run, mhas_error *error) {
  const int64_t k = run->k;
  double lowest = NAN;
  double highest = NAN;
  icl_state *s = &run->state;
  *s = (icl_state){.gradient = INFINITY,
                   .loss = INFINITY,
                   .loss_saddle = NAN,
                   .lambda_saddle = NAN,
                   .curvature = NAN,
                   .curvature_bound = NAN,
                   .origin = -1,
                   .escape_step = -1,
                   .plateau_from = -1};
  draw_start(run);
  MHAS_TRY(icl_side_forward(&run->test, run->theta, error));
  for (int64_t i = 0; i < k * k; i++) {
    const double small = i % (k + 1) == 0 ? run->values[P_ATTENTION_SCALE].real : 0.0;
    run->W[i] = run->values[P_ATTENTION_START].integer == ATTENTION_SMALL ? small : run->test.moments.S_inverse[i];
  }
  s->loss_start = run->test.loss;
  MHAS_TRY(icl_lambda(run, MHAS_SMALLEST, 1e-2, &lowest, error));
  MHAS_TRY(icl_lambda(run, MHAS_LARGEST, 1e-2, &highest, error));
  s->stiffness = run->values[P_STEP_SIZE].real * fmax(fabs(lowest), fabs(highest));
  return icl_record(run, error);
}

/* ---- a step -------------------------------------------------------------------- */

/* Says also why, where the start told so. */
mhas_code icl_diverged(const icl *run, int64_t step, const char *what, double value, mhas_error *error) {
  const icl_state *s = &run->state;
  const char *word = isnan(value) ? "nan" : "infinite";
  if (s->stiffness > 2.0) {
    return mhas_fail(error, MHAS_NUMERIC,
                     "diverged at step %" PRId64
                     ": %s is %s; the start is stiff (step_size x largest curvature = %.3g, "
                     "above 2): take a smaller step_size (%g) or a larger init_scale (%g)",
                     step, what, word, s->stiffness, run->values[P_STEP_SIZE].real, run->values[P_INIT_SCALE].real);
  }
  return mhas_fail(error, MHAS_NUMERIC, "diverged at step %" PRId64 ": %s is %s (step_size %g)", s->step + 1, what,
                   word, run->values[P_STEP_SIZE].real);
}

static void draw_tokens(icl *run) {
  const int64_t N = icl_step_tokens(run->values);
  const int64_t batch = run->values[P_PROMPT_BATCH].integer;
  const int64_t different = run->values[P_PROMPTS].integer;
  if (!run->samples_prompts) {
    icl_side_draw(&run->drawn, &run->teacher, MHAS_STREAM_ICL_TOKENS, run->state.step * N);
    return;
  }
  for (int64_t p = 0; p < batch; p++) {
    const int64_t number = (run->state.step * batch + p) % different;
    const int64_t each = N / batch;
    icl_teacher_tokens(&run->teacher, MHAS_STREAM_ICL_TOKENS, number * each, each,
                       run->drawn.X + p * each * run->drawn.d);
  }
  icl_teacher_features(&run->teacher, run->drawn.teaching, N, run->drawn.X, run->drawn.F);
  icl_prompts_label(run);
}

/* Steps of W that belong to this step of mu: attention_step_ratio in the mean. */
static int64_t attention_steps(const icl *run) {
  const double ratio = run->values[P_ATTENTION_STEP_RATIO].real;
  return (int64_t)(floor((double)(run->state.step + 1) * ratio) - floor((double)run->state.step * ratio));
}

static mhas_code train_attention(icl *run, mhas_error *error) {
  const mhas_moments *m = &run->train->moments;
  const int count = (int)(run->k * run->k);
  double smallest = 0.0;
  double largest = 0.0;
  MHAS_TRY(mhas_joint_ends(m, &smallest, &largest, error));
  const double scale = largest * m->eigenvalues[run->k - 1];
  const double rate = scale > 0.0 ? run->values[P_ATTENTION_STEP_SIZE].real / scale : 0.0;
  for (int64_t i = attention_steps(run); i > 0; i--) {
    if (run->samples_prompts) {
      (void)icl_prompts_loss(run, run->W, run->train->q, run->g_W);
    } else {
      mhas_joint_gradient(m, run->W, run->g_W);
    }
    cblas_daxpy(count, -rate, run->g_W, 1, run->W, 1);
  }
  return MHAS_OK;
}

/* run->g: the gradient of what this model descends; returns its loss. */
static double differentiate(icl *run) {
  icl_side *train = run->train;
  double loss = 0.0;
  if (run->samples_prompts) {
    loss = icl_prompts_loss(run, run->has_attention ? run->W : train->moments.S_inverse, train->q, NULL);
    icl_side_gradient(train, NULL, run->g);
  } else {
    icl_side_gradient(train, run->has_attention ? run->W : NULL, run->g);
    loss = train->loss_attention;
  }
  const double penalty = run->values[P_BARRON_PENALTY].real;
  if (penalty > 0.0) {
    const int64_t a_count = train->M * train->k;
    (void)mhas_barron_norm(train->M, train->k, train->d, run->theta, run->theta + a_count, penalty, run->g,
                           run->g + a_count);
  }
  return loss;
}

/* Neurons do not see x_d yet. Exact arithmetic would keep that up by itself. */
static void settle(icl *run) {
  const mhas_value *values = run->values;
  const int64_t d = run->test.d;
  double *w = run->theta + run->test.M * run->k;
  if (values[P_TASK].integer != TASK_SYMMETRIC || values[P_SETTLE].integer == 0 ||
      run->state.step >= values[P_PERTURB_FIRST].integer) {
    return;
  }
  for (int64_t i = 0; i < run->test.M; i++) {
    w[i * d + run->teacher.dim - 1] = 0.0;
  }
}

static mhas_code take_step(icl *run, mhas_error *error) {
  icl_state *s = &run->state;
  MHAS_TRY(icl_jump_if_due(run, error));
  if (run->train == &run->drawn) {
    draw_tokens(run);
  }
  if (icl_side_forward(run->train, run->theta, error) != MHAS_OK) {
    return icl_diverged(run, s->step + 1, "the MLP's output", NAN, error);
  }
  if (run->has_attention) {
    MHAS_TRY(train_attention(run, error));
  }
  const double loss = differentiate(run);
  const double norm = icl_velocity_norm(run, run->g);
  if (!isfinite(loss) || !isfinite(norm)) {
    return icl_diverged(run, s->step + 1, isfinite(loss) ? "the gradient" : "loss", isfinite(loss) ? norm : loss,
                        error);
  }
  if (!run->samples_prompts) {
    icl_observe(run, s->step, loss, norm);
  }
  cblas_daxpy((int)run->numbers, -run->values[P_STEP_SIZE].real, run->g, 1, run->theta, 1);
  icl_redraw(run);
  settle(run);
  s->step++;
  s->flops += icl_step_flops(run->values);
  return MHAS_OK;
}

/* ---- the run --------------------------------------------------------------------- */

static mhas_code train(icl *run, mhas_error *error) {
  icl_state *s = &run->state;
  const int64_t steps = run->values[P_STEPS].integer;
  const size_t records = (size_t)icl_records(run->values);
  const mhas_piece pieces[] = {{s, sizeof *s},
                               {run->theta, (size_t)run->numbers * sizeof(double)},
                               {run->W, (size_t)(run->k * run->k) * sizeof(double)},
                               {run->losses, records * sizeof(double)},
                               {run->gaps, records * sizeof(double)},
                               {run->spectra, records * (size_t)icl_spectra(run->values) * sizeof(double)}};
  enum { PIECES = sizeof pieces / sizeof *pieces };
  bool found = false;
  MHAS_TRY(mhas_task_restore(run->task, pieces, PIECES, &found, error));
  MHAS_TRY(icl_side_forward(&run->test, run->theta, error));
  const mhas_code code = mhas_ladder_create(run->k, run->k0, run->test.moments.S0, &run->ladder, error);
  MHAS_TRY(mhas_team_agree(&run->task->team, code, error));
  if (!found) {
    MHAS_TRY(begin(run, error));
  }
  while (s->step < steps) {
    MHAS_TRY(mhas_task_proceed(run->task, pieces, PIECES, error));
    MHAS_TRY(take_step(run, error));
    if (s->step % run->values[P_LOG_EVERY].integer == 0 || s->step == steps) {
      MHAS_TRY(icl_record(run, error));
    }
  }
  return MHAS_OK;
}

static void release(icl *run) {
  double *const arrays[] = {run->theta,  run->g,    run->noise,   run->W,     run->g_W,
                            run->losses, run->gaps, run->spectra, run->tasks, run->labels};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    mhas_free(arrays[i]);
  }
  icl_side_free(&run->test);
  icl_side_free(&run->drawn);
  icl_teacher_free(&run->teacher);
  mhas_ladder_free(&run->ladder);
}

/* On a team all members train, each for itself and all alike; only the dense spectrum is shared out. */
mhas_code icl_run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  const mhas_value *values = task->point.values;
  icl run = {.task = task,
             .row = row,
             .values = values,
             .random = task->point.random,
             .k = values[P_FEATURES].integer,
             .k0 = values[P_TRUE_FEATURES].integer,
             .numbers = icl_numbers(values),
             .has_attention = values[P_MODEL].integer == MODEL_ATTENTION,
             .is_modified = values[P_MODEL].integer == MODEL_MODIFIED,
             .samples_prompts = values[P_SAMPLING].integer == SAMPLING_PROMPTS};
  mhas_code code = mhas_team_agree(&task->team, prepare(&run, error), error);
  if (code == MHAS_OK) {
    code = train(&run, error);
  }
  if (code == MHAS_OK) {
    code = mhas_team_agree(&task->team, icl_conclude(&run, error), error);
  }
  row->flops = run.state.flops;
  release(&run);
  return code;
}
