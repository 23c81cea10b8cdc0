/* One point of the experiment optimize: gradient descent, and what it goes through before and after. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "experiments/optimize.h"

/* ---- the team -------------------------------------------------------------------- */

MPI_Comm mhas_optimize_comm(const mhas_task *task) { return task->team.size > 1 ? task->team.comm : MPI_COMM_NULL; }

/* The ranks' numbers, put together by each rank in the order of the ranks. */
static mhas_code combine(const optimize *run, double *values, int64_t count, bool largest, mhas_error *error) {
  enum { GATHERED = 4096 };
  const mhas_team *team = &run->task->team;
  const int64_t at_once = team->size > 1 ? GATHERED / team->size : count;
  double gathered[GATHERED];
  for (int64_t first = 0; first < count && team->size > 1; first += at_once) {
    const int some = count - first < at_once ? (int)(count - first) : (int)at_once;
    if (MPI_Allgather(values + first, some, MPI_DOUBLE, gathered, some, MPI_DOUBLE, team->comm) != MPI_SUCCESS) {
      return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot put their parts together");
    }
    for (int i = 0; i < some; i++) {
      double all = gathered[i];
      for (int rank = 1; rank < team->size; rank++) {
        const double theirs = gathered[rank * some + i];
        all = largest ? fmax(all, theirs) : all + theirs;
      }
      values[first + i] = all;
    }
  }
  return MHAS_OK;
}

mhas_code mhas_optimize_sum(const optimize *run, double *values, int64_t count, mhas_error *error) {
  return combine(run, values, count, false, error);
}

mhas_code mhas_optimize_most(const optimize *run, double *values, int64_t count, mhas_error *error) {
  return combine(run, values, count, true, error);
}

mhas_code mhas_optimize_norm(const optimize *run, const double *a, const double *b, double *norm, mhas_error *error) {
  double squares = 0.0;
  for (int64_t i = 0; i < run->numbers; i++) {
    const double difference = b == NULL ? a[i] : a[i] - b[i];
    squares += difference * difference;
  }
  MHAS_TRY(mhas_optimize_sum(run, &squares, 1, error));
  *norm = sqrt((double)run->shape.copies * squares);
  return MHAS_OK;
}

/* ---- making a run ------------------------------------------------------------------ */

static mhas_code allocate(optimize *run, mhas_error *error) {
  const size_t numbers = (size_t)run->numbers;
  const size_t n = (size_t)run->shape.samples;
  MHAS_TRY(mhas_alloc(&run->theta0, numbers, sizeof(double), "the first weights", error));
  MHAS_TRY(mhas_alloc(&run->theta, numbers, sizeof(double), "the weights", error));
  MHAS_TRY(mhas_alloc(&run->gradient, numbers, sizeof(double), "the gradient", error));
  MHAS_TRY(mhas_alloc(&run->Phi, n, sizeof(double), "the outputs", error));
  MHAS_TRY(mhas_alloc(&run->Phi_test, (size_t)run->test.samples, sizeof(double), "the test outputs", error));
  const int64_t head = mhas_selfattention_numbers(&run->shape, 1);
  MHAS_TRY(mhas_alloc(&run->head, (size_t)(2 * head), sizeof(double), "a head", error));
  if (mhas_optimize_left_out(run->task->point.values) > 0) {
    MHAS_TRY(mhas_alloc(&run->own_loss, n, sizeof(double), "the samples' losses", error));
    MHAS_TRY(mhas_alloc(&run->left, numbers, sizeof(double), "the weights without a sample", error));
  }
  return MHAS_OK;
}

/* What samples are drawn from. */
static mhas_code make_laws(optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  const mhas_random random = run->task->point.random;
  switch (values[P_DATA].integer) {
    case OPTIMIZE_DM1: return mhas_mixture_draw(values, random, &run->mixture, error);
    case OPTIMIZE_PLANTED: return mhas_planted_draw(values, random, &run->planted, error);
    default: return MHAS_OK;
  }
}

static mhas_code make_samples(optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  const mhas_maker maker = {run->task, &run->mixture, &run->planted};
  MHAS_TRY(mhas_labelled_make(&maker, MHAS_SET_TRAIN, values[P_SAMPLES].integer, &run->train, error));
  return mhas_labelled_make(&maker, MHAS_SET_TEST, values[P_TEST_SAMPLES].integer, &run->test, error);
}

static mhas_code make_models(optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  const mhas_selfattention_use use = values[P_EIGENVALUES].integer == OPTIMIZE_NEVER ? MHAS_GRADIENT : MHAS_HESSIAN;
  const mhas_selfattention_shape tested = mhas_optimize_shape(values, values[P_TEST_SAMPLES].integer);
  MHAS_TRY(mhas_selfattention_create(&run->shape, use, run->train.X, run->train.y, mhas_optimize_comm(run->task),
                                     &run->model, error));
  if (tested.samples > 0) {
    MHAS_TRY(mhas_selfattention_create(&tested, MHAS_OUTPUTS, run->test.X, run->test.y, mhas_optimize_comm(run->task),
                                       &run->tester, error));
  }
  return MHAS_OK;
}

/* Making samples is collective, so between two lots of them members come to one mind about what each does alone. */
static mhas_code prepare(optimize *run, mhas_error *error) {
  const mhas_team *team = &run->task->team;
  MHAS_TRY(mhas_team_agree(team, make_laws(run, error), error));
  MHAS_TRY(make_samples(run, error));
  mhas_code code = allocate(run, error);
  if (code == MHAS_OK) {
    code = make_models(run, error);
  }
  MHAS_TRY(mhas_team_agree(team, code, error));
  MHAS_TRY(mhas_team_agree(team, mhas_optimize_initialise(run, error), error));
  memcpy(run->theta, run->theta0, (size_t)run->numbers * sizeof *run->theta);
  run->radius = mhas_selfattention_radius(&run->shape, run->train.X);
  return MHAS_OK;
}

static void release(optimize *run) {
  mhas_selfattention_destroy(run->model);
  mhas_selfattention_destroy(run->tester);
  mhas_mixture_free(&run->mixture);
  mhas_planted_free(&run->planted);
  mhas_labelled_free(&run->train);
  mhas_labelled_free(&run->test);
  mhas_free(run->theta0);
  mhas_free(run->theta);
  mhas_free(run->gradient);
  mhas_free(run->Phi);
  mhas_free(run->Phi_test);
  mhas_free(run->head);
  mhas_free(run->own_loss);
  mhas_free(run->left);
  mhas_free(run->target);
}

/* ---- gradient descent ----------------------------------------------------------------- */

enum { PROGRESS, THETA, LEFT, OWN_LOSS };
enum { PARTS = 1U << THETA | 1U << LEFT }; /* a member has those of its heads */

int mhas_optimize_pieces(optimize *run, mhas_piece pieces[OPTIMIZE_PIECES]) {
  const size_t numbers = (size_t)run->numbers * sizeof(double);
  pieces[PROGRESS] = (mhas_piece){&run->progress, sizeof run->progress};
  pieces[THETA] = (mhas_piece){run->theta, numbers};
  if (run->left == NULL) {
    return LEFT;
  }
  pieces[LEFT] = (mhas_piece){run->left, numbers};
  pieces[OWN_LOSS] = (mhas_piece){run->own_loss, (size_t)run->shape.samples * sizeof(double)};
  return OPTIMIZE_PIECES;
}

mhas_code mhas_optimize_check_loss(const optimize *run, int64_t step, double loss, mhas_error *error) {
  if (isfinite(loss) && loss < OPTIMIZE_DIVERGED) {
    return MHAS_OK;
  }
  return mhas_fail(error, MHAS_NUMERIC, "diverged at step %" PRId64 ": the training loss is %.3g (step_size %g)", step,
                   loss, run->task->point.values[P_STEP_SIZE].real);
}

mhas_code mhas_optimize_descend(const optimize *run, double loss, const double *gradient, double *theta,
                                mhas_error *error) {
  const int64_t rule = run->task->point.values[P_STEP_RULE].integer;
  double length = mhas_optimize_step_size(run->task->point.values);
  if (rule == OPTIMIZE_NORMALISED || rule == OPTIMIZE_POLYAK) {
    double norm = 0.0;
    MHAS_TRY(mhas_optimize_norm(run, gradient, NULL, &norm, error));
    const double divisor = rule == OPTIMIZE_NORMALISED ? norm : norm * norm;
    length = divisor > 0.0 ? length * (rule == OPTIMIZE_POLYAK ? loss : 1.0) / divisor : 0.0;
  }
  for (int64_t i = 0; i < run->numbers; i++) {
    theta[i] -= length * gradient[i];
  }
  return MHAS_OK;
}

/* Takes what the evaluation at theta_step tells into progress. */
static void remember(optimize *run, double loss) {
  optimize_progress *p = &run->progress;
  const bool last = p->step == run->task->point.values[P_STEPS].integer;
  if (p->step > 0) {
    p->loss_sum_from_1 += loss;
    p->loss_rise = p->step == 1 || loss - p->loss > p->loss_rise ? loss - p->loss : p->loss_rise;
  }
  p->loss = loss;
  for (int64_t i = 0; i < run->shape.samples && !last && run->own_loss != NULL; i++) {
    run->own_loss[i] += mhas_logistic_of(1, run->Phi + i, run->train.y + i).loss;
  }
  p->loss_sum += last ? 0.0 : loss;
  p->flops += mhas_selfattention_gradient_flops(&run->shape, run->shape.heads);
}

static void fill_sums(const optimize *run, mhas_value *result) {
  const optimize_progress *p = &run->progress;
  result[R_MEAN_LOSS].real = p->step > 0 ? p->loss_sum_from_1 / (double)p->step : NAN;
  result[R_LOSS_SUM].real = p->loss_sum;
  result[R_MONOTONE].integer = p->step == 0 || p->loss_rise <= 0.0;
  result[R_STEPS_RUN].integer = p->step;
}

/* Evaluates the model, and takes the next step if it is not the last one. */
static mhas_code advance(optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  optimize_progress *p = &run->progress;
  MHAS_TRY(mhas_selfattention_gradient(run->model, run->theta, -1, run->gradient, run->Phi, error));
  const double loss = mhas_logistic_of(run->shape.samples, run->Phi, run->train.y).loss;
  MHAS_TRY(mhas_optimize_check_loss(run, p->step, loss, error));
  if (mhas_optimize_is_logged(values, p->step)) {
    MHAS_TRY(mhas_optimize_measure(run, error));
  }
  remember(run, loss);
  if (p->step < values[P_STEPS].integer) {
    MHAS_TRY(mhas_optimize_descend(run, loss, run->gradient, run->theta, error));
    p->step++;
    return MHAS_OK;
  }
  p->trained = 1;
  fill_sums(run, run->row->results);
  return MHAS_OK;
}

/* A measurement that was stopped is made anew, so the state is that of before. */
static mhas_code train(optimize *run, mhas_error *error) {
  mhas_piece pieces[OPTIMIZE_PIECES];
  const int count = mhas_optimize_pieces(run, pieces);
  while (run->progress.trained == 0) {
    MHAS_TRY(mhas_task_proceed(run->task, pieces, count, error));
    const double flops = run->progress.flops;
    const mhas_code code = advance(run, error);
    if (code == MHAS_STOPPED) {
      run->progress.flops = flops;
      MHAS_TRY(mhas_task_proceed(run->task, pieces, count, error));
    }
    MHAS_TRY(code);
  }
  return MHAS_OK;
}

/* ---- the point -------------------------------------------------------------------------- */

static mhas_code start(optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  const mhas_team *team = &run->task->team;
  run->shape = mhas_optimize_shape(values, values[P_SAMPLES].integer);
  run->heads = mhas_selfattention_heads(&run->shape, team->rank, team->size > 1 ? team->size : 1, &run->first_head);
  run->numbers = mhas_selfattention_numbers(&run->shape, run->heads);
  run->test.samples = values[P_TEST_SAMPLES].integer;
  MHAS_TRY(prepare(run, error));
  MHAS_TRY(mhas_selfattention_outputs(run->model, run->theta, run->Phi, error));
  double largest = 0.0;
  for (int64_t i = 0; i < run->shape.samples; i++) {
    largest = fmax(largest, fabs(run->Phi[i]));
  }
  run->row->results[R_OUTPUT_AT_INIT].real = largest;
  return mhas_optimize_theory_at_init(run, error);
}

static mhas_code go_on(optimize *run, mhas_error *error) {
  mhas_piece pieces[OPTIMIZE_PIECES];
  const int count = mhas_optimize_pieces(run, pieces);
  bool found = false;
  MHAS_TRY(mhas_task_restore(run->task, pieces, count, &found, error));
  MHAS_TRY(train(run, error));
  MHAS_TRY(mhas_optimize_stability(run, error));
  MHAS_TRY(mhas_selfattention_outputs(run->model, run->theta, run->Phi, error));
  MHAS_TRY(mhas_optimize_theory_at_end(run, error));
  return mhas_optimize_keep(run, error);
}

mhas_code mhas_optimize_run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  mhas_task own = *task;
  own.parts = PARTS;
  optimize run = {.task = &own, .row = row};
  mhas_code code = start(&run, error);
  if (code == MHAS_OK) {
    code = go_on(&run, error);
  }
  row->flops = run.progress.flops;
  release(&run);
  return code;
}
