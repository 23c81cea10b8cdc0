/* A point of overfit: its samples, its training and what is measured. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "experiments/all.h"
#include "experiments/overfit.h"
#include "experiments/selection.h"

typedef struct token_set {
  double *X; /* (n, T, d) */
  mhas_selection head;
} token_set;

typedef struct fitting {
  const mhas_task *task;
  mhas_row *row;
  int T, d;
  token_set train, test;
  double *flipped;    /* (n): 1 where the label was flipped */
  double *p, *W;      /* (d), (d, d); W is NULL while it is the identity */
  double *query;      /* (d): W^T p */
  double *pull;       /* (d): the loss's derivatives by the query */
  double *p_gradient; /* (d) */
  struct {
    int64_t step, records;
    int64_t fit_step, generalize_step; /* -1: there is none so far */
  } progress;
} fitting;

static mhas_code create_set(const fitting *f, int64_t samples, bool trained, token_set *set, mhas_error *error) {
  MHAS_TRY(mhas_selection_create(samples, f->T, trained, &set->head, error));
  return mhas_alloc(&set->X, (size_t)(samples * f->T) * (size_t)f->d, sizeof(double), "the tokens", error);
}

static mhas_code create(fitting *f, mhas_error *error) {
  const mhas_value *values = f->task->point.values;
  f->T = (int)values[P_TOKENS].integer;
  f->d = (int)values[P_DIM].integer;
  const size_t d = (size_t)f->d;
  f->progress.fit_step = f->progress.generalize_step = -1;
  MHAS_TRY(create_set(f, values[P_SAMPLES].integer, true, &f->train, error));
  MHAS_TRY(create_set(f, values[P_TEST_SAMPLES].integer, false, &f->test, error));
  MHAS_TRY(mhas_alloc(&f->flipped, (size_t)values[P_SAMPLES].integer, sizeof(double), "flipped labels", error));
  MHAS_TRY(mhas_alloc(&f->p, d, sizeof(double), "the query", error));
  MHAS_TRY(mhas_alloc(&f->query, d, sizeof(double), "the query", error));
  MHAS_TRY(mhas_alloc(&f->pull, d, sizeof(double), "the gradient", error));
  MHAS_TRY(mhas_alloc(&f->p_gradient, d, sizeof(double), "the gradient", error));
  return overfit_has_weights(values) ? mhas_alloc(&f->W, d * d, sizeof(double), "the weights", error) : MHAS_OK;
}

static void destroy(fitting *f) {
  mhas_selection_free(&f->train.head);
  mhas_selection_free(&f->test.head);
  mhas_free(f->train.X);
  mhas_free(f->test.X);
  mhas_free(f->flipped);
  mhas_free(f->p);
  mhas_free(f->W);
  mhas_free(f->query);
  mhas_free(f->pull);
  mhas_free(f->p_gradient);
}

/* Samples first .. of the streams; mu_+ = ||mu|| e_1, mu_- = ||mu|| e_2, so that scores are (x_1 - x_2) / (sqrt(2)
 * ||mu||). */
static void draw_set(const fitting *f, int64_t first, token_set *set) {
  const mhas_random random = f->task->point.random;
  const double signal = f->task->point.values[P_SIGNAL].real;
  const double weak = f->task->point.values[P_WEAK].real;
  const int64_t numbers = (int64_t)f->T * f->d;
  for (int64_t i = 0; i < set->head.samples; i++) {
    double *x = set->X + i * numbers;
    int64_t minus = 0;
    mhas_random_below(random, MHAS_STREAM_TOKEN_LABEL, (uint64_t)(first + i), 1, 2, &minus);
    mhas_random_normal(random, MHAS_STREAM_TOKEN, (uint64_t)(first + i) * (uint64_t)numbers, (size_t)numbers, x);
    set->head.y[i] = minus == 0 ? 1.0 : -1.0;
    x[minus] += signal;
    x[f->d + minus] += weak * signal;
    x[2 * f->d + 1 - minus] += weak * signal;
    for (int64_t t = 0; t < f->T; t++) {
      set->head.scores[i * f->T + t] = (x[t * f->d] - x[t * f->d + 1]) / (sqrt(2.0) * signal);
    }
  }
}

static mhas_code flip_labels(fitting *f, mhas_error *error) {
  const int64_t n = f->train.head.samples;
  const int64_t count = (int64_t)ceil(f->task->point.values[P_LABEL_NOISE].real * (double)n - 1e-9);
  int64_t *order = NULL;
  MHAS_TRY(mhas_alloc(&order, (size_t)n, sizeof *order, "an order of samples", error));
  mhas_random_permutation(f->task->point.random, MHAS_STREAM_TOKEN_FLIP, 0, (size_t)n, order);
  for (int64_t k = 0; k < count; k++) {
    f->flipped[order[k]] = 1.0;
    f->train.head.y[order[k]] *= -1.0;
  }
  mhas_free(order);
  return MHAS_OK;
}

static mhas_code draw(fitting *f, mhas_error *error) {
  const int64_t test_from = (int64_t)1 << 32;
  draw_set(f, 0, &f->train);
  draw_set(f, test_from, &f->test);
  for (int64_t i = 0; i < (int64_t)f->d && f->W != NULL; i++) {
    double *row = f->W + i * f->d;
    if (f->task->point.values[P_WEIGHTS].integer == WEIGHTS_IDENTITY) {
      row[i] = 1.0;
      continue;
    }
    mhas_random_normal(f->task->point.random, MHAS_STREAM_TOKEN_WEIGHT, (uint64_t)(i * f->d), (size_t)f->d, row);
    cblas_dscal(f->d, sqrt(2.0 / f->d), row, 1);
  }
  return flip_labels(f, error);
}

/* ---- training ----------------------------------------------------------------------------- */

static void turn_query(fitting *f) {
  if (f->W == NULL) {
    memcpy(f->query, f->p, (size_t)f->d * sizeof *f->p);
  } else {
    cblas_dgemv(CblasRowMajor, CblasTrans, f->d, f->d, 1.0, f->W, f->d, f->p, 1, 0.0, f->query, 1);
  }
}

static mhas_selection_loss evaluate(const fitting *f, token_set *set) {
  if (set->head.samples == 0) {
    return (mhas_selection_loss){NAN, NAN};
  }
  cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)set->head.samples * f->T, f->d, 1.0, set->X, f->d, f->query, 1, 0.0,
              set->head.logits, 1);
  return mhas_selection_evaluate(&set->head);
}

/* With g the derivatives by W^T p: those by p are W g, those by W are p g^T. */
static void descend(fitting *f) {
  const mhas_value *values = f->task->point.values;
  const double step = values[P_STEP_SIZE].real;
  cblas_dgemv(CblasRowMajor, CblasTrans, (int)f->train.head.samples * f->T, f->d, 1.0, f->train.X, f->d,
              f->train.head.slopes, 1, 0.0, f->pull, 1);
  if (f->W == NULL) {
    cblas_daxpy(f->d, -step, f->pull, 1, f->p, 1);
    return;
  }
  cblas_dgemv(CblasRowMajor, CblasNoTrans, f->d, f->d, 1.0, f->W, f->d, f->pull, 1, 0.0, f->p_gradient, 1);
  if (values[P_TRAINED].integer == TRAINED_BOTH) {
    cblas_dger(CblasRowMajor, f->d, f->d, -step, f->p, 1, f->pull, 1, f->W, f->d);
  }
  cblas_daxpy(f->d, -step, f->p_gradient, 1, f->p, 1);
}

/* ---- what is measured ------------------------------------------------------------------------ */

/* Of training samples that were flipped (1) or not (0): NaN if there are none. */
typedef struct group {
  double error, attention;
} group;

static group measure_group(const fitting *f, double flipped) {
  const mhas_selection *head = &f->train.head;
  group sum = {0};
  double count = 0.0;
  for (int64_t i = 0; i < head->samples; i++) {
    if (f->flipped[i] == flipped) {
      count += 1.0;
      sum.error += head->y[i] * head->outputs[i] > 0.0 ? 0.0 : 1.0;
      sum.attention += head->weights[i * f->T];
    }
  }
  return count > 0.0 ? (group){sum.error / count, sum.attention / count} : (group){NAN, NAN};
}

/* From which step on a condition holds: keeps the first, forgets it when the condition fails. */
static int64_t holds_from(int64_t since, bool holds, int64_t step) { return !holds ? -1 : since >= 0 ? since : step; }

static void fill_results(const fitting *f, const double *now, const group *clean, const group *flipped) {
  const mhas_value *values = f->task->point.values;
  mhas_value *result = f->row->results;
  const int64_t fit = f->progress.fit_step;
  const int64_t generalize = f->progress.generalize_step;
  const double length = cblas_dnrm2(f->d, f->query, 1);
  result[R_SNR].real = values[P_SIGNAL].real / sqrt(f->d);
  result[R_TRAIN_LOSS].real = now[C_TRAIN_LOSS];
  result[R_TRAIN_ERROR].real = now[C_TRAIN_ERROR];
  result[R_ERROR_CLEAN].real = clean->error;
  result[R_ERROR_FLIPPED].real = flipped->error;
  result[R_TEST_LOSS].real = now[C_TEST_LOSS];
  result[R_TEST_ERROR].real = now[C_TEST_ERROR];
  if (f->test.head.samples > 0) {
    result[R_BENIGN].integer = fit >= 0 && generalize >= 0;
  }
  result[R_FIT_STEP].integer = fit;
  result[R_GENERALIZE_STEP].integer = generalize;
  result[R_DELAY].real = fit >= 0 && generalize >= 0 ? (double)(generalize - fit) : NAN;
  result[R_ATTENTION_CLEAN].real = clean->attention;
  result[R_ATTENTION_FLIPPED].real = flipped->attention;
  result[R_ALIGNMENT_PLUS].real = f->query[0] / length;
  result[R_ALIGNMENT_MINUS].real = f->query[1] / length;
}

static void measure(fitting *f, mhas_selection_loss train) {
  const int64_t step = f->progress.step;
  const mhas_selection_loss test = evaluate(f, &f->test);
  const group clean = measure_group(f, 0.0);
  const group flipped = measure_group(f, 1.0);
  const double now[C_COUNT] = {[C_STEP] = (double)step,
                               [C_TRAIN_LOSS] = train.loss,
                               [C_TRAIN_ERROR] = train.error,
                               [C_TEST_LOSS] = test.loss,
                               [C_TEST_ERROR] = test.error,
                               [C_ATTENTION_CLEAN] = clean.attention,
                               [C_ATTENTION_FLIPPED] = flipped.attention};
  f->progress.fit_step = holds_from(f->progress.fit_step, train.error == 0.0, step);
  f->progress.generalize_step =
      holds_from(f->progress.generalize_step, test.error <= f->task->point.values[P_ERROR_LOW].real, step);
  mhas_row_record(&mhas_experiment_overfit, f->row, f->progress.records++, now);
  if (step == f->task->point.values[P_STEPS].integer) {
    fill_results(f, now, &clean, &flipped);
  }
}

static mhas_code train(fitting *f, mhas_error *error) {
  const mhas_value *values = f->task->point.values;
  const int64_t steps = values[P_STEPS].integer;
  const size_t d = (size_t)f->d;
  const mhas_piece pieces[] = {
      {&f->progress, sizeof f->progress}, {f->p, d * sizeof *f->p}, {f->W, d * d * sizeof *f->W}};
  const int count = f->W == NULL ? 2 : 3;
  bool found = false;
  MHAS_TRY(mhas_task_restore(f->task, pieces, count, &found, error));
  for (;; f->progress.step++) {
    MHAS_TRY(mhas_task_proceed(f->task, pieces, count, error));
    turn_query(f);
    const mhas_selection_loss loss = evaluate(f, &f->train);
    MHAS_TRY(mhas_selection_check_loss(loss.loss, f->progress.step, values[P_STEP_SIZE].real, error));
    if (mhas_selection_is_logged(f->progress.step, steps, values[P_LOG_EVERY].integer)) {
      measure(f, loss);
    }
    if (f->progress.step == steps) {
      return MHAS_OK;
    }
    descend(f);
  }
}

mhas_code overfit_run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  fitting f = {.task = task, .row = row};
  mhas_code code = create(&f, error);
  if (code == MHAS_OK) {
    code = draw(&f, error);
  }
  if (code == MHAS_OK) {
    code = train(&f, error);
  }
  row->flops = overfit_flops(task->point.values, (double)f.progress.step, (double)f.progress.records);
  destroy(&f);
  return code;
}
