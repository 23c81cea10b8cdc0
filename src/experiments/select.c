/*
 * select: does attention that is trained by gradient descent turn to the max-margin separator of tokens?
 *
 * Cross-attention with one head, f(X, z) = v^T X^T softmax(X W z), v fixed: as W grows, its direction tends to that of
 * the hard support vector machine that separates the selected tokens from the others,
 *   W_mm = argmin ||W||_F  such that  (x_i,alpha_i - x_it)^T W z_i >= 1 for all i and all t != alpha_i.
 * An experiment of its own, not an objective of optimize: model, data, training and results have nothing in common.
 *
 * Source: Tarzanagh, Li, Thrampoulidis, Oymak, "Transformers as Support Vector Machines", arXiv 2308.16898, and the
 * public code of it (umich-sota/TF-as-SVM, local_converge), which defaults are taken from; step rules: Vasudeva, Deora,
 * Thrampoulidis, "Implicit Bias and Fast Convergence Rates for Self-attention", arXiv 2402.05738.
 */
#include <cblas.h>
#include <float.h>
#include <math.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/selection.h"
#include "experiments/separator.h"

enum { P_SAMPLES, P_TOKENS, P_DIM, P_INIT, P_STEP_RULE, P_STEP_SIZE, P_STEPS, P_LOG_EVERY, P_COUNT };
enum { INIT_UNIFORM, INIT_ZERO };
enum { RULE_NORMALISED, RULE_CONSTANT, RULE_POLYAK };

static const char *const inits[] = {"uniform", "zero", NULL};
static const char *const step_rules[] = {"normalised", "constant", "polyak", NULL};

static const mhas_parameter parameters[P_COUNT] = {
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "6", 1, 1 << 16, NULL, "samples n (2308.16898's code: 6)"},
    [P_TOKENS] = {"tokens", MHAS_INTEGER, "1", "8", 2, 1 << 16, NULL, "tokens T of a sample (2308.16898's code: 8)"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "10", 1, 1 << 12, NULL,
               "dimension d; tokens, queries and the head are normal and of length 1 (2308.16898's code: 10)"},
    [P_INIT] = {"init", MHAS_CHOICE, "1", "uniform", 0, 0, inits,
                "W uniform on +-1/sqrt(d), as torch.nn.Linear is (2308.16898's code); or zero"},
    [P_STEP_RULE] =
        {"step_rule", MHAS_CHOICE, "1", "normalised", 0, 0, step_rules,
         "eta / ||gradient|| (2308.16898's code); eta; eta (loss - infimum) / ||gradient||^2 (2402.05738), the "
         "infimum being the loss with all weight on the best tokens"},
    [P_STEP_SIZE] = {"step_size", MHAS_REAL, "1", "0.1", DBL_TRUE_MIN, 1e12, NULL,
                     "eta of step_rule (2308.16898's code: 0.1)"},
    [P_STEPS] = {"steps", MHAS_INTEGER, "1", "2000", 1, 1 << 30, NULL,
                 "steps of gradient descent (2308.16898's code: 2000)"},
    [P_LOG_EVERY] = {"log_every", MHAS_INTEGER, "1", "= ceil(steps / 100)", 1, 1 << 30, NULL,
                     "steps from one entry of the curves to the next"},
};

enum {
  R_CORRELATION,
  R_MISALIGNMENT,
  R_SOFTMAX_LEAST,
  R_OPTIMAL_SHARE,
  R_CORRELATION_OPTIMAL,
  R_SOFTMAX_MEAN,
  R_TRAIN_LOSS,
  R_SEPARABLE,
  R_MARGIN,
  R_MARGIN_OPTIMAL,
  R_NORM,
  R_COUNT
};

static const mhas_result results[R_COUNT] = {
    [R_CORRELATION] = {"correlation", MHAS_REAL, "1",
                       "<W, W_mm> / (||W|| ||W_mm||), W_mm for the tokens that are selected in the end"},
    [R_MISALIGNMENT] = {"misalignment", MHAS_REAL, "1", "1 - correlation, without loss of digits"},
    [R_SOFTMAX_LEAST] = {"softmax_least", MHAS_REAL, "1", "least over samples of the largest attention weight"},
    [R_OPTIMAL_SHARE] = {"optimal_share", MHAS_REAL, "1", "share of samples whose selected token is the best"},
    [R_CORRELATION_OPTIMAL] = {"correlation_optimal", MHAS_REAL, "1",
                               "correlation of W with W_mm for the tokens of the best scores y_i v^T x_it"},
    [R_SOFTMAX_MEAN] = {"softmax_mean", MHAS_REAL, "1", "mean over samples of the largest attention weight"},
    [R_TRAIN_LOSS] = {"train_loss", MHAS_REAL, "1", "mean logistic loss after the last step"},
    [R_SEPARABLE] = {"separable", MHAS_FLAG, "1", "some W separates the selected tokens from the others"},
    [R_MARGIN] = {"margin", MHAS_REAL, "1", "1 / ||W_mm|| for the selected tokens; 0: not separable"},
    [R_MARGIN_OPTIMAL] = {"margin_optimal", MHAS_REAL, "1", "1 / ||W_mm|| for the best tokens"},
    [R_NORM] = {"norm", MHAS_REAL, "1", "||W||_F after the last step"},
};

enum { C_STEP, C_TRAIN_LOSS, C_CORRELATION, C_MISALIGNMENT, C_SOFTMAX_LEAST, C_SOFTMAX_MEAN, C_NORM, C_COUNT };

static const mhas_curve curves[C_COUNT] = {
    [C_STEP] = {"step", "1", "steps done"},
    [C_TRAIN_LOSS] = {"train_loss", "1", "mean logistic loss"},
    [C_CORRELATION] = {"correlation", "1", "of W with W_mm for the tokens that are selected at that step"},
    [C_MISALIGNMENT] = {"misalignment", "1", "1 - correlation"},
    [C_SOFTMAX_LEAST] = {"softmax_least", "1", "least over samples of the largest attention weight"},
    [C_SOFTMAX_MEAN] = {"softmax_mean", "1", "mean over samples of the largest attention weight"},
    [C_NORM] = {"norm", "1", "||W||_F"},
};

/* ---- a point while it runs ------------------------------------------------------------ */

typedef struct separation {
  const mhas_task *task;
  mhas_row *row;
  int n, T, d;
  double *X, *Z;           /* tokens (n, T, d), queries (n, d) */
  mhas_selection head;     /* the scores are v^T x_it */
  double *W, *gradient;    /* (d, d) */
  double *turned, *pulled; /* (n, d): W z_i, and sum_t slope_it x_it */
  double infimum;          /* of the loss: all weight on the best tokens */
  mhas_separator separator;
  struct {
    int64_t step, records;
  } progress;
} separation;

static mhas_code create(separation *s, mhas_error *error) {
  const mhas_value *values = s->task->point.values;
  MHAS_TRY(mhas_narrow(values[P_SAMPLES].integer, "samples", &s->n, error));
  MHAS_TRY(mhas_narrow(values[P_TOKENS].integer, "tokens", &s->T, error));
  MHAS_TRY(mhas_narrow(values[P_DIM].integer, "dim", &s->d, error));
  const size_t n = (size_t)s->n;
  const size_t d = (size_t)s->d;
  MHAS_TRY(mhas_selection_create(s->n, s->T, true, &s->head, error));
  MHAS_TRY(mhas_alloc(&s->X, n * (size_t)s->T * d, sizeof(double), "the tokens", error));
  MHAS_TRY(mhas_alloc(&s->Z, n * d, sizeof(double), "the queries", error));
  MHAS_TRY(mhas_alloc(&s->W, d * d, sizeof(double), "the weights", error));
  MHAS_TRY(mhas_alloc(&s->gradient, d * d, sizeof(double), "the gradient", error));
  MHAS_TRY(mhas_alloc(&s->turned, n * d, sizeof(double), "the turned queries", error));
  MHAS_TRY(mhas_alloc(&s->pulled, n * d, sizeof(double), "the gradient's factors", error));
  return mhas_separator_create(s->n, s->T, s->d, s->X, s->Z, &s->separator, error);
}

static void destroy(separation *s) {
  mhas_selection_free(&s->head);
  mhas_free(s->X);
  mhas_free(s->Z);
  mhas_free(s->W);
  mhas_free(s->gradient);
  mhas_free(s->turned);
  mhas_free(s->pulled);
  mhas_separator_free(&s->separator);
}

/* Normal vectors of length 1. */
static void draw_units(const separation *s, mhas_stream stream, int64_t count, double *x) {
  mhas_random_normal(s->task->point.random, stream, 0, (size_t)(count * s->d), x);
  for (int64_t i = 0; i < count; i++) {
    cblas_dscal(s->d, 1.0 / cblas_dnrm2(s->d, x + i * s->d, 1), x + i * s->d, 1);
  }
}

static int64_t best_token(const separation *s, int64_t i) {
  int64_t best = 0;
  for (int64_t t = 1; t < s->T; t++) {
    const double *scores = s->head.scores + i * s->T;
    best = s->head.y[i] * scores[t] > s->head.y[i] * scores[best] ? t : best;
  }
  return best;
}

static void draw(separation *s) {
  const mhas_random random = s->task->point.random;
  double *v = s->turned; /* not needed yet; it has room for d numbers, as n >= 1 */
  draw_units(s, MHAS_STREAM_TOKEN, (int64_t)s->n * s->T, s->X);
  draw_units(s, MHAS_STREAM_TOKEN_QUERY, s->n, s->Z);
  draw_units(s, MHAS_STREAM_TOKEN_HEAD, 1, v);
  cblas_dgemv(CblasRowMajor, CblasNoTrans, s->n * s->T, s->d, 1.0, s->X, s->d, v, 1, 0.0, s->head.scores, 1);
  for (int64_t i = 0; i < s->n; i++) {
    int64_t minus = 0;
    mhas_random_below(random, MHAS_STREAM_TOKEN_LABEL, (uint64_t)i, 1, 2, &minus);
    s->head.y[i] = minus == 0 ? 1.0 : -1.0;
    s->infimum += log1p(exp(-s->head.y[i] * s->head.scores[i * s->T + best_token(s, i)])) / s->n;
  }
  if (s->task->point.values[P_INIT].integer == INIT_UNIFORM) {
    mhas_random_uniform(random, MHAS_STREAM_TOKEN_WEIGHT, 0, (size_t)s->d * (size_t)s->d, s->W);
    for (int64_t i = 0; i < (int64_t)s->d * s->d; i++) {
      s->W[i] = (2.0 * s->W[i] - 1.0) / sqrt(s->d);
    }
  }
}

/* ---- training ----------------------------------------------------------------------------- */

static double evaluate(separation *s) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s->n, s->d, s->d, 1.0, s->Z, s->d, s->W, s->d, 0.0, s->turned,
              s->d);
  for (int64_t i = 0; i < s->n; i++) {
    cblas_dgemv(CblasRowMajor, CblasNoTrans, s->T, s->d, 1.0, s->X + i * s->T * s->d, s->d, s->turned + i * s->d, 1,
                0.0, s->head.logits + i * s->T, 1);
  }
  return mhas_selection_evaluate(&s->head).loss;
}

static void descend(separation *s, double loss) {
  const mhas_value *values = s->task->point.values;
  const int numbers = s->d * s->d;
  for (int64_t i = 0; i < s->n; i++) {
    cblas_dgemv(CblasRowMajor, CblasTrans, s->T, s->d, 1.0, s->X + i * s->T * s->d, s->d, s->head.slopes + i * s->T, 1,
                0.0, s->pulled + i * s->d, 1);
  }
  cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, s->d, s->d, s->n, 1.0, s->pulled, s->d, s->Z, s->d, 0.0,
              s->gradient, s->d);
  const double norm = cblas_dnrm2(numbers, s->gradient, 1);
  const int64_t rule = values[P_STEP_RULE].integer;
  const double divisor = rule == RULE_NORMALISED ? norm : rule == RULE_POLYAK ? norm * norm / (loss - s->infimum) : 1.0;
  if (divisor > 0.0) {
    cblas_daxpy(numbers, -values[P_STEP_SIZE].real / divisor, s->gradient, 1, s->W, 1);
  }
}

/* ---- what is measured ----------------------------------------------------------------------------- */

static void measure_softmax(const separation *s, double *least, double *mean) {
  *least = 1.0;
  *mean = 0.0;
  for (int64_t i = 0; i < s->n; i++) {
    const double top = s->head.weights[i * s->T + mhas_selection_of(&s->head, i)];
    *least = fmin(*least, top);
    *mean += top / s->n;
  }
}

static mhas_code fill_results(separation *s, int64_t *tokens, const double *now, mhas_error *error) {
  mhas_value *result = s->row->results;
  result[R_TRAIN_LOSS].real = now[C_TRAIN_LOSS];
  result[R_CORRELATION].real = now[C_CORRELATION];
  result[R_MISALIGNMENT].real = now[C_MISALIGNMENT];
  result[R_SOFTMAX_LEAST].real = now[C_SOFTMAX_LEAST];
  result[R_SOFTMAX_MEAN].real = now[C_SOFTMAX_MEAN];
  result[R_NORM].real = now[C_NORM];
  result[R_MARGIN].real = s->separator.margin;
  result[R_SEPARABLE].integer = s->separator.margin > 0.0;
  int64_t same = 0;
  for (int64_t i = 0; i < s->n; i++) {
    same += tokens[i] == best_token(s, i);
    tokens[i] = best_token(s, i);
  }
  MHAS_TRY(mhas_separator_find(&s->separator, tokens, error));
  result[R_OPTIMAL_SHARE].real = (double)same / s->n;
  result[R_CORRELATION_OPTIMAL].real = 1.0 - mhas_separator_misalignment(&s->separator, s->W);
  result[R_MARGIN_OPTIMAL].real = s->separator.margin;
  return MHAS_OK;
}

static mhas_code measure(separation *s, double loss, int64_t *tokens, mhas_error *error) {
  double now[C_COUNT] = {
      [C_STEP] = (double)s->progress.step, [C_TRAIN_LOSS] = loss, [C_NORM] = cblas_dnrm2(s->d * s->d, s->W, 1)};
  for (int64_t i = 0; i < s->n; i++) {
    tokens[i] = mhas_selection_of(&s->head, i);
  }
  MHAS_TRY(mhas_separator_find(&s->separator, tokens, error));
  now[C_MISALIGNMENT] = mhas_separator_misalignment(&s->separator, s->W);
  now[C_CORRELATION] = 1.0 - now[C_MISALIGNMENT];
  measure_softmax(s, &now[C_SOFTMAX_LEAST], &now[C_SOFTMAX_MEAN]);
  mhas_row_record(&mhas_experiment_select, s->row, s->progress.records++, now);
  return s->progress.step == s->task->point.values[P_STEPS].integer ? fill_results(s, tokens, now, error) : MHAS_OK;
}

static mhas_code train(separation *s, int64_t *tokens, mhas_error *error) {
  const mhas_value *values = s->task->point.values;
  const int64_t steps = values[P_STEPS].integer;
  const mhas_piece pieces[] = {{&s->progress, sizeof s->progress}, {s->W, (size_t)s->d * (size_t)s->d * sizeof *s->W}};
  bool found = false;
  MHAS_TRY(mhas_task_restore(s->task, pieces, 2, &found, error));
  for (;; s->progress.step++) {
    MHAS_TRY(mhas_task_proceed(s->task, pieces, 2, error));
    const double loss = evaluate(s);
    MHAS_TRY(mhas_selection_check_loss(loss, s->progress.step, values[P_STEP_SIZE].real, error));
    if (mhas_selection_is_logged(s->progress.step, steps, values[P_LOG_EVERY].integer)) {
      MHAS_TRY(measure(s, loss, tokens, error));
    }
    if (s->progress.step == steps) {
      return MHAS_OK;
    }
    descend(s, loss);
  }
}

static double step_flops(const mhas_value *values) {
  const double n = (double)values[P_SAMPLES].integer;
  const double T = (double)values[P_TOKENS].integer;
  const double d = (double)values[P_DIM].integer;
  return n * (4.0 * d * d + 4.0 * T * d + 10.0 * T) + 4.0 * d * d;
}

static mhas_code run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  separation s = {.task = task, .row = row};
  int64_t *tokens = NULL;
  mhas_code code = create(&s, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&tokens, (size_t)s.n, sizeof *tokens, "the selected tokens", error);
  }
  if (code == MHAS_OK) {
    draw(&s);
    code = train(&s, tokens, error);
  }
  row->flops = step_flops(task->point.values) * (double)(s.progress.step + 1);
  mhas_free(tokens);
  destroy(&s);
  return code;
}

/* ---- checks and costs ------------------------------------------------------------------------------- */

static double corners_of(const mhas_value *values) {
  return (double)values[P_SAMPLES].integer * (double)(values[P_TOKENS].integer - 1);
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const double corners = corners_of(values);
  MHAS_TRY(mhas_check_numbers("pairs of tokens", corners * corners, error));
  return mhas_check_numbers("tokens", corners * (double)values[P_DIM].integer, error);
}

/* Besides training, a support vector machine now and then. */
static mhas_cost cost(const mhas_value *values) {
  const double corners = corners_of(values);
  const double n = (double)values[P_SAMPLES].integer;
  const double d = (double)values[P_DIM].integer;
  return (mhas_cost){
      .flops = step_flops(values) * (double)values[P_STEPS].integer + 4.0 * corners * corners * (corners + d),
      .bytes =
          sizeof(double) * (2.0 * corners * corners + 2.0 * corners * d + 3.0 * d * d + 4.0 * n * d + 9.0 * corners),
      .records = mhas_selection_records(values[P_STEPS].integer, values[P_LOG_EVERY].integer),
      .parameters = d * d};
}

const mhas_experiment mhas_experiment_select = {
    .name = "select",
    .title = "which tokens attention selects, and whether its weights turn to their max-margin separator",
    .summary =
        "Trains the weights of one attention head with fixed values by gradient descent, and compares their direction "
        "with the hard support vector machine that separates the tokens it selects from the others.",
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
