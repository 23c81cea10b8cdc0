/*
 * overfit: when does attention fit noisy labels and classify well for all that?
 *
 * One head with fixed values, f(X) = nu^T X^T softmax(X W^T p), nu = (mu_+ - mu_-) / (||mu_+ - mu_-|| ||mu||), trained
 * from p = 0. Tokens are standard normal; the first of a sample carries its signal mu_y, the second rho times it, the
 * third rho times the other one. With much signal for the dimension, flipped labels are not fitted; with less, they are
 * fitted by attending to noise, while new samples are still classified by their signal, which may come later.
 * An experiment of its own, not an objective of optimize: model, data, training and results have nothing in common.
 *
 * Source: Sakamoto and Sato, "Benign Overfitting in Token Selection of Attention Mechanism", ICML 2025, arXiv
 * 2409.17625, and its public code (keitaroskmt/benign-attention, main.py).
 */
#include <cblas.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/selection.h"

enum {
  P_SAMPLES,
  P_TEST_SAMPLES,
  P_TOKENS,
  P_DIM,
  P_SIGNAL,
  P_WEAK,
  P_LABEL_NOISE,
  P_WEIGHTS,
  P_TRAINED,
  P_STEP_SIZE,
  P_STEPS,
  P_LOG_EVERY,
  P_ERROR_LOW,
  P_COUNT
};
enum { WEIGHTS_IDENTITY, WEIGHTS_RANDOM };
enum { TRAINED_TOKEN, TRAINED_BOTH };

static const char *const weight_kinds[] = {"identity", "random", NULL};
static const char *const trained_kinds[] = {"token", "both", NULL};

static const mhas_parameter parameters[P_COUNT] = {
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "20", 1, 1 << 20, NULL, "training samples n (2409.17625: 20)"},
    [P_TEST_SAMPLES] = {"test_samples", MHAS_INTEGER, "1", "1000", 0, 1 << 20, NULL,
                        "test samples, without label noise (2409.17625: 1000); 0: no test"},
    [P_TOKENS] = {"tokens", MHAS_INTEGER, "1", "8", 3, 1 << 12, NULL, "tokens T of a sample (2409.17625: 8)"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "2000", 2, 1 << 20, NULL, "dimension d (2409.17625: 2000)"},
    [P_SIGNAL] = {"signal", MHAS_REAL, "1", "20.0", DBL_TRUE_MIN, 1e6, NULL,
                  "||mu|| of both signals, which are orthogonal (2409.17625: 20); the signal-to-noise ratio is "
                  "||mu|| / sqrt(d)"},
    [P_WEAK] = {"weak", MHAS_REAL, "1", "0.1", 0, 1e3, NULL,
                "rho: the share of the signal in the second token, and of the opposite one in the third (2409.17625: "
                "0.1)"},
    [P_LABEL_NOISE] = {"label_noise", MHAS_REAL, "1", "0.2", 0, 1, NULL,
                       "share of the training labels that are flipped, rounded up to whole samples (2409.17625: 0.2)"},
    [P_WEIGHTS] = {"weights", MHAS_CHOICE, "1", "identity", 0, 0, weight_kinds,
                   "W before the first step: identity (2409.17625's code); random: normal of variance 2 / d (Kaiming)"},
    [P_TRAINED] = {"trained", MHAS_CHOICE, "1", "token", 0, 0, trained_kinds,
                   "token: p alone (2409.17625's code); both: p and W"},
    [P_STEP_SIZE] = {"step_size", MHAS_REAL, "1", "0.005", DBL_TRUE_MIN, 1e12, NULL,
                     "of gradient descent on all samples (2409.17625: 0.005)"},
    [P_STEPS] = {"steps", MHAS_INTEGER, "1", "1000", 1, 1 << 30, NULL, "steps (2409.17625: 1000)"},
    [P_LOG_EVERY] = {"log_every", MHAS_INTEGER, "1", "= ceil(steps / 100)", 1, 1 << 30, NULL,
                     "steps from one entry of the curves to the next"},
    [P_ERROR_LOW] = {"error_low", MHAS_REAL, "1", "0.05", 0, 1, NULL, "test error up to which a model generalizes"},
};

enum {
  R_SNR,
  R_TRAIN_LOSS,
  R_TRAIN_ERROR,
  R_ERROR_CLEAN,
  R_ERROR_FLIPPED,
  R_TEST_LOSS,
  R_TEST_ERROR,
  R_BENIGN,
  R_FIT_STEP,
  R_GENERALIZE_STEP,
  R_DELAY,
  R_ATTENTION_CLEAN,
  R_ATTENTION_FLIPPED,
  R_ALIGNMENT_PLUS,
  R_ALIGNMENT_MINUS,
  R_COUNT
};

static const mhas_result results[R_COUNT] = {
    [R_SNR] = {"snr", MHAS_REAL, "1", "||mu|| / sqrt(d)"},
    [R_TRAIN_LOSS] = {"train_loss", MHAS_REAL, "1", "mean logistic loss of the training samples after the last step"},
    [R_TRAIN_ERROR] = {"train_error", MHAS_REAL, "1", "share of them that is not classified by its label"},
    [R_ERROR_CLEAN] = {"error_clean", MHAS_REAL, "1", "the same of those whose labels were not flipped"},
    [R_ERROR_FLIPPED] = {"error_flipped", MHAS_REAL, "1", "the same of those that were: 0: all are memorized"},
    [R_TEST_LOSS] = {"test_loss", MHAS_REAL, "1", "mean logistic loss of the test samples"},
    [R_TEST_ERROR] = {"test_error", MHAS_REAL, "1", "share of the test samples that is classified wrong"},
    [R_BENIGN] = {"benign", MHAS_FLAG, "1", "no training error, and a test error of at most error_low"},
    [R_FIT_STEP] = {"fit_step", MHAS_INTEGER, "1", "the first logged step from which on there is no training error"},
    [R_GENERALIZE_STEP] = {"generalize_step", MHAS_INTEGER, "1",
                           "the first logged step from which on the test error is at most error_low"},
    [R_DELAY] = {"delay", MHAS_REAL, "1", "generalize_step - fit_step, where there are both"},
    [R_ATTENTION_CLEAN] = {"attention_clean", MHAS_REAL, "1",
                           "mean weight of the first token, which has the signal, over samples that were not flipped"},
    [R_ATTENTION_FLIPPED] = {"attention_flipped", MHAS_REAL, "1", "the same over samples that were flipped"},
    [R_ALIGNMENT_PLUS] = {"alignment_plus", MHAS_REAL, "1", "cosine between W^T p and mu_+"},
    [R_ALIGNMENT_MINUS] = {"alignment_minus", MHAS_REAL, "1", "cosine between W^T p and mu_-"},
};

enum {
  C_STEP,
  C_TRAIN_LOSS,
  C_TRAIN_ERROR,
  C_TEST_LOSS,
  C_TEST_ERROR,
  C_ATTENTION_CLEAN,
  C_ATTENTION_FLIPPED,
  C_COUNT
};

static const mhas_curve curves[C_COUNT] = {
    [C_STEP] = {"step", "1", "steps done"},
    [C_TRAIN_LOSS] = {"train_loss", "1", "mean logistic loss of the training samples"},
    [C_TRAIN_ERROR] = {"train_error", "1", "share of them that is not classified by its label"},
    [C_TEST_LOSS] = {"test_loss", "1", "mean logistic loss of the test samples"},
    [C_TEST_ERROR] = {"test_error", "1", "share of the test samples that is classified wrong"},
    [C_ATTENTION_CLEAN] = {"attention_clean", "1", "mean weight of the signal over samples with their own labels"},
    [C_ATTENTION_FLIPPED] = {"attention_flipped", "1", "mean weight of the signal over samples with flipped labels"},
};

/* ---- a point while it runs --------------------------------------------------------------- */

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

static bool has_weights(const mhas_value *values) {
  return values[P_WEIGHTS].integer == WEIGHTS_RANDOM || values[P_TRAINED].integer == TRAINED_BOTH;
}

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
  return has_weights(values) ? mhas_alloc(&f->W, d * d, sizeof(double), "the weights", error) : MHAS_OK;
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
    if (!isfinite(loss.loss)) {
      return mhas_fail(error, MHAS_NUMERIC, "diverged at step %" PRId64 ": the training loss is %.3g (step_size %g)",
                       f->progress.step, loss.loss, values[P_STEP_SIZE].real);
    }
    if (mhas_selection_is_logged(f->progress.step, steps, values[P_LOG_EVERY].integer)) {
      measure(f, loss);
    }
    if (f->progress.step == steps) {
      return MHAS_OK;
    }
    descend(f);
  }
}

/* ---- checks and costs --------------------------------------------------------------------------- */

static double numbers_of(const mhas_value *values, int samples) {
  return (double)values[samples].integer * (double)values[P_TOKENS].integer * (double)values[P_DIM].integer;
}

static double flops(const mhas_value *values, double steps, double records) {
  const double d = (double)values[P_DIM].integer;
  const double weights = has_weights(values) ? (values[P_TRAINED].integer == TRAINED_BOTH ? 6.0 : 4.0) * d * d : 0.0;
  return (steps + 1.0) * (4.0 * numbers_of(values, P_SAMPLES) + weights) +
         records * 2.0 * numbers_of(values, P_TEST_SAMPLES);
}

static mhas_code run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  fitting f = {.task = task, .row = row};
  mhas_code code = create(&f, error);
  if (code == MHAS_OK) {
    code = draw(&f, error);
  }
  if (code == MHAS_OK) {
    code = train(&f, error);
  }
  row->flops = flops(task->point.values, (double)f.progress.step, (double)f.progress.records);
  destroy(&f);
  return code;
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const double d = (double)values[P_DIM].integer;
  MHAS_TRY(mhas_check_numbers("training samples", numbers_of(values, P_SAMPLES), error));
  MHAS_TRY(mhas_check_numbers("test samples", numbers_of(values, P_TEST_SAMPLES), error));
  MHAS_TRY(mhas_check_numbers("weights", has_weights(values) ? d * d : d, error));
  const int64_t most = INT32_MAX / values[P_TOKENS].integer;
  if (values[P_SAMPLES].integer > most || values[P_TEST_SAMPLES].integer > most) {
    return mhas_fail(error, MHAS_USAGE, "tokens = %" PRId64 " allows %" PRId64 " samples at most",
                     values[P_TOKENS].integer, most);
  }
  return MHAS_OK;
}

static mhas_cost cost(const mhas_value *values) {
  const double d = (double)values[P_DIM].integer;
  const double samples = (double)(values[P_SAMPLES].integer + values[P_TEST_SAMPLES].integer);
  const int64_t records = mhas_selection_records(values[P_STEPS].integer, values[P_LOG_EVERY].integer);
  return (mhas_cost){.flops = flops(values, (double)values[P_STEPS].integer, (double)records),
                     .bytes = sizeof(double) * (samples * (double)values[P_TOKENS].integer * (d + 4.0) + 4.0 * d +
                                                (has_weights(values) ? d * d : 0.0)),
                     .records = records,
                     .parameters = d + (values[P_TRAINED].integer == TRAINED_BOTH ? d * d : 0.0)};
}

const mhas_experiment mhas_experiment_overfit = {
    .name = "overfit",
    .title = "attention that fits noisy labels and classifies well for all that, over the signal-to-noise ratio",
    .summary =
        "Trains the query of one attention head with fixed values on samples with a signal in one token and some "
        "flipped labels, and tells whether the flipped ones are fitted, whether new samples are classified right, and "
        "when either came.",
    .numerics = 1,
    .parameters = parameters,
    .parameter_count = P_COUNT,
    .results = results,
    .result_count = R_COUNT,
    .curves = curves,
    .curve_count = C_COUNT,
    .check = check,
    .cost = cost,
    .run = run,
};
