/*
 * probe: how many samples can random attention and a linear readout memorize?
 *
 * Source: Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers", ICLR 2024,
 * arXiv 2306.02010. The features of sample t are the concatenated z_h(t) = E(t)^T softmax(E(t) W_K,h W_Q,h^T e(t)); Z
 * has one row per sample.
 */
#include <cblas.h>
#include <float.h>
#include <math.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "mhasweep/linalg.h"
#include "mhasweep/model.h"

static const char *const context_types[] = {"own", "shared", NULL};
static const char *const distributions[] = {"uniform", "gaussian", NULL};
static const char *const label_kinds[] = {"regression", "classes", NULL};
static const char *const weight_kinds[] = {"random", NULL};

enum {
  P_HEADS,
  P_DIM,
  P_KEY_DIM,
  P_CONTEXT,
  P_SAMPLES,
  P_CONTEXT_TYPE,
  P_DISTRIBUTION,
  P_LABELS,
  P_CLASSES,
  P_WEIGHTS,
  P_LOGIT_SCALE,
  P_FIT_TOLERANCE,
  P_COUNT
};

static const mhas_parameter parameters[P_COUNT] = {
    [P_HEADS] = {"heads", MHAS_INTEGER, "1", "8", 1, 1 << 20, NULL, "attention heads H"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "64", 1, 1 << 20, NULL, "dimension d of queries and context rows"},
    [P_KEY_DIM] = {"key_dim", MHAS_INTEGER, "1", "= dim", 1, 1 << 20, NULL, "dimension d_h of keys in each head"},
    [P_CONTEXT] = {"context", MHAS_INTEGER, "1", "32", 1, 1 << 20, NULL, "rows n of a context"},
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "= heads * (context - 1) + 1", 1, 1 << 30, NULL, "samples T"},
    [P_CONTEXT_TYPE] = {"context_type", MHAS_CHOICE, "1", "own", 0, 0, context_types,
                        "own: every sample has a context of its own; shared: all have the same one"},
    [P_DISTRIBUTION] = {"distribution", MHAS_CHOICE, "1", "uniform", 0, 0, distributions,
                        "of the entries of contexts and queries: uniform on [0, 1) or standard normal"},
    [P_LABELS] = {"labels", MHAS_CHOICE, "1", "regression", 0, 0, label_kinds,
                  "what is fitted: one uniform number per sample, or a random class as a one-hot vector"},
    [P_CLASSES] = {"classes", MHAS_INTEGER, "1", "100", 2, 1 << 20, NULL, "number of classes (labels: classes)"},
    [P_WEIGHTS] = {"weights", MHAS_CHOICE, "1", "random", 0, 0, weight_kinds,
                   "W_Q and W_K: random is Xavier-uniform per head, times logit_scale"},
    [P_LOGIT_SCALE] = {"logit_scale", MHAS_REAL, "1", "1.0", DBL_TRUE_MIN, 1e12, NULL,
                       "factor on the attention logits e^T W_Q W_K^T E / sqrt(dim)"},
    [P_FIT_TOLERANCE] = {"fit_tolerance", MHAS_REAL, "1", "1.0e-6", DBL_TRUE_MIN, 1, NULL,
                         "regression: a sample is memorized if its error is at most this times the largest label"},
};

enum {
  R_RANK,
  R_RANK_1E3,
  R_RANK_1E6,
  R_RANK_1E9,
  R_CONDITION,
  R_RESIDUAL,
  R_MEMORIZED,
  R_SATURATED,
  R_BOUND_LOWER,
  R_BOUND_SHARED,
  R_BOUND_WIDTH,
  R_PARAMETERS,
  R_COUNT
};

static const mhas_result results[R_COUNT] = {
    [R_RANK] = {"rank", MHAS_INTEGER, "1", "numerical rank of Z: singular values above max(T, H d) eps sigma_1"},
    [R_RANK_1E3] = {"rank_1e3", MHAS_INTEGER, "1", "singular values of Z above 1e-3 sigma_1"},
    [R_RANK_1E6] = {"rank_1e6", MHAS_INTEGER, "1", "singular values of Z above 1e-6 sigma_1"},
    [R_RANK_1E9] = {"rank_1e9", MHAS_INTEGER, "1", "singular values of Z above 1e-9 sigma_1"},
    [R_CONDITION] = {"condition", MHAS_REAL, "1", "sigma_1 / sigma_r of Z, r = rank"},
    [R_RESIDUAL] = {"residual", MHAS_REAL, "1", "||Z B - Y|| / ||Y|| (Frobenius) of the minimum-norm least-squares B"},
    [R_MEMORIZED] = {"memorized", MHAS_FLAG, "1",
                     "all T samples are fitted: by largest output (classes) or within fit_tolerance (regression)"},
    [R_SATURATED] = {"saturated", MHAS_REAL, "1",
                     "share of (sample, head) whose largest attention weight is above 0.99"},
    [R_BOUND_LOWER] = {"bound_lower", MHAS_INTEGER, "1",
                       "H (min(n, d_h) - 1) + 1, the theorem's lower bound (arXiv 2306.02010)"},
    [R_BOUND_SHARED] = {"bound_shared", MHAS_INTEGER, "1",
                        "H (n - 1) + 1, the rank of Z that a shared context cannot pass (derived)"},
    [R_BOUND_WIDTH] = {"bound_width", MHAS_INTEGER, "1", "H d, the number of columns of Z"},
    [R_PARAMETERS] = {"parameters", MHAS_INTEGER, "1", "trainable numbers: 2 H d d_h of attention and H d per output"},
};

/* ---- sizes ------------------------------------------------------------------ */

static bool is_classes(const mhas_value *values) { return values[P_LABELS].integer == 1; }

/* Columns of what is fitted: one-hot classes, or one number. */
static int64_t output_count(const mhas_value *values) { return is_classes(values) ? values[P_CLASSES].integer : 1; }

static int64_t width_of(const mhas_value *values) { return values[P_HEADS].integer * values[P_DIM].integer; }

static int64_t spectrum_count(const mhas_value *values) {
  const int64_t width = width_of(values);
  return values[P_SAMPLES].integer < width ? values[P_SAMPLES].integer : width;
}

static mhas_features_shape features_shape(const mhas_value *values) {
  return (mhas_features_shape){
      .heads = values[P_HEADS].integer,
      .dim = values[P_DIM].integer,
      .key_dim = values[P_KEY_DIM].integer,
      .context = values[P_CONTEXT].integer,
      .shared = values[P_CONTEXT_TYPE].integer == 1,
      .logit_scale = values[P_LOGIT_SCALE].real,
  };
}

static mhas_data_shape data_shape(const mhas_value *values) {
  return (mhas_data_shape){
      .samples = values[P_SAMPLES].integer,
      .context = values[P_CONTEXT].integer,
      .dim = values[P_DIM].integer,
      .shared = values[P_CONTEXT_TYPE].integer == 1,
      .distribution = values[P_DISTRIBUTION].integer == 1 ? MHAS_GAUSSIAN : MHAS_UNIFORM,
      .classes = is_classes(values) ? values[P_CLASSES].integer : 0,
  };
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_features_shape shape = features_shape(values);
  const double samples = (double)values[P_SAMPLES].integer;
  mhas_code code = mhas_features_check(&shape, values[P_SAMPLES].integer, error);
  if (code != MHAS_OK) {
    return mhas_as_usage(error);
  }
  const struct {
    const char *what;
    double numbers;
  } arrays[] = {
      {"Z (samples x heads dim)", samples * (double)width_of(values)},
      {"the contexts (samples x context x dim)",
       (shape.shared ? 1.0 : samples) * (double)shape.context * (double)shape.dim},
      {"the labels (samples x outputs)", samples * (double)output_count(values)},
      {"W_Q (heads x dim x key_dim)", (double)width_of(values) * (double)shape.key_dim},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    MHAS_TRY(mhas_check_numbers(arrays[i].what, arrays[i].numbers, error));
  }
  return MHAS_OK;
}

static double flops_of(const mhas_value *values) {
  const mhas_features_shape shape = features_shape(values);
  const int64_t samples = values[P_SAMPLES].integer;
  const int64_t width = width_of(values);
  const int64_t outputs = output_count(values);
  return mhas_features_flops(&shape, samples) + mhas_least_squares_flops(samples, width, outputs) +
         2.0 * (double)samples * (double)width * (double)outputs;
}

/* Z and the labels, the solver's copies, the weights, B, and a block of samples. */
static mhas_cost cost(const mhas_value *values) {
  const mhas_features_shape shape = features_shape(values);
  const int64_t samples = values[P_SAMPLES].integer;
  const int64_t width = width_of(values);
  const int64_t outputs = output_count(values);
  const int64_t block = mhas_features_block(&shape);
  const double contexts = (shape.shared ? 1.0 : (double)block) * (double)shape.context * (double)shape.dim;
  const double numbers = (double)samples * ((double)width + (double)outputs) +
                         2.0 * (double)width * (double)shape.key_dim + (double)width * (double)outputs + contexts +
                         (double)block * (double)shape.dim + (double)mhas_features_scratch(&shape) + (double)samples +
                         (double)spectrum_count(values);
  return (mhas_cost){
      .flops = flops_of(values),
      .bytes = sizeof(double) * numbers + mhas_least_squares_bytes(samples, width, outputs),
      .records = 0,
      .spectrum = spectrum_count(values),
  };
}

static int arrays(const mhas_value *values, unsigned flags, mhas_array *out) {
  const int64_t T = values[P_SAMPLES].integer;
  const int64_t H = values[P_HEADS].integer;
  const int64_t d = values[P_DIM].integer;
  const int64_t n = values[P_CONTEXT].integer;
  const int64_t d_h = values[P_KEY_DIM].integer;
  const bool shared = values[P_CONTEXT_TYPE].integer == 1;
  const mhas_array all[] = {
      {"E", MHAS_STORE_DATA, shared ? 2 : 3, {shared ? n : T, shared ? d : n, d}, "contexts"},
      {"e", MHAS_STORE_DATA, 2, {T, d}, "queries"},
      {"y", MHAS_STORE_DATA, 1, {T}, "labels"},
      {"W_Q", MHAS_STORE_WEIGHTS, 3, {H, d, d_h}, "query weights of each head"},
      {"W_K", MHAS_STORE_WEIGHTS, 3, {H, d, d_h}, "key weights of each head"},
      {"B", MHAS_STORE_WEIGHTS, 2, {H * d, output_count(values)}, "readout: the least-squares solution of Z B = Y"},
      {"Z", MHAS_STORE_Z, 2, {T, H * d}, "features: row t is z_1(t) .. z_H(t)"},
  };
  int count = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if ((all[i].flag & flags) != 0) {
      out[count++] = all[i];
    }
  }
  return count;
}

/* ---- one point ---------------------------------------------------------------- */

typedef struct probe {
  const mhas_task *task;
  mhas_row *row;
  mhas_features_shape shape;
  mhas_data_shape data;
  int64_t T, width, outputs;
  double *W_Q, *W_K; /* (H, d, d_h) */
  double *Z;         /* (T, H d) */
  double *y;         /* (T) */
  double *Y;         /* (T, outputs): labels as they are fitted; then the errors Z B - Y */
  double *B;         /* (H d, outputs) */
  double *sigma;     /* (min(T, H d)) */
} probe;

static mhas_code allocate(probe *p, mhas_error *error) {
  const size_t weights = (size_t)p->width * (size_t)p->shape.key_dim;
  const size_t T = (size_t)p->T;
  const size_t width = (size_t)p->width;
  const size_t outputs = (size_t)p->outputs;
  MHAS_TRY(mhas_alloc(&p->W_Q, weights, sizeof(double), "W_Q", error));
  MHAS_TRY(mhas_alloc(&p->W_K, weights, sizeof(double), "W_K", error));
  MHAS_TRY(mhas_alloc(&p->Z, T * width, sizeof(double), "Z (samples x heads dim)", error));
  MHAS_TRY(mhas_alloc(&p->y, T, sizeof(double), "the labels", error));
  MHAS_TRY(mhas_alloc(&p->Y, T * outputs, sizeof(double), "the labels (samples x outputs)", error));
  MHAS_TRY(mhas_alloc(&p->B, width * outputs, sizeof(double), "the readout (heads dim x outputs)", error));
  return mhas_alloc(&p->sigma, T < width ? T : width, sizeof(double), "the spectrum", error);
}

static void release(probe *p) {
  mhas_free(p->W_Q);
  mhas_free(p->W_K);
  mhas_free(p->Z);
  mhas_free(p->y);
  mhas_free(p->Y);
  mhas_free(p->B);
  mhas_free(p->sigma);
}

/* Z, block by block: the contexts of a block are drawn, used and forgotten. */
static mhas_code build_features(probe *p, int64_t *saturated, mhas_error *error) {
  const mhas_random random = p->task->point.random;
  const int64_t block = mhas_features_block(&p->shape);
  const int64_t contexts = p->shape.shared ? 1 : block;
  double *E = NULL;
  double *e = NULL;
  double *scratch = NULL;
  *saturated = 0;
  mhas_code code =
      mhas_alloc(&E, (size_t)(contexts * p->shape.context) * (size_t)p->shape.dim, sizeof *E, "the contexts", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&e, (size_t)(block * p->shape.dim), sizeof *e, "the queries", error);
  }
  if (code == MHAS_OK) {
    code =
        mhas_alloc(&scratch, (size_t)mhas_features_scratch(&p->shape), sizeof *scratch, "the features' scratch", error);
  }
  if (code == MHAS_OK && p->shape.shared) {
    mhas_data_contexts(&p->data, random, 0, 1, E);
  }
  for (int64_t t = 0; code == MHAS_OK && t < p->T; t += block) {
    const int64_t count = p->T - t < block ? p->T - t : block;
    if (!p->shape.shared) {
      mhas_data_contexts(&p->data, random, t, count, E);
    }
    mhas_data_queries(&p->data, random, t, count, e);
    *saturated += mhas_features(&p->shape, count, E, e, p->W_Q, p->W_K, scratch, p->Z + t * p->width);
    code = p->task->proceed(p->task->context, error);
  }
  mhas_free(E);
  mhas_free(e);
  mhas_free(scratch);
  return code;
}

static void draw_labels(probe *p) {
  mhas_data_labels(&p->data, p->task->point.random, 0, p->T, p->y);
  for (int64_t t = 0; t < p->T; t++) {
    if (p->data.classes > 0) {
      p->Y[t * p->outputs + (int64_t)p->y[t]] = 1.0;
    } else {
      p->Y[t] = p->y[t];
    }
  }
}

/* The class whose output is largest, where the outputs of sample t are errors plus the one-hot label. */
static int64_t fitted_class(const probe *p, int64_t t) {
  int64_t best = 0;
  double most = -INFINITY;
  for (int64_t c = 0; c < p->outputs; c++) {
    const double output = p->Y[t * p->outputs + c] + (c == (int64_t)p->y[t] ? 1.0 : 0.0);
    if (output > most) {
      most = output;
      best = c;
    }
  }
  return best;
}

static bool all_memorized(const probe *p, double tolerance) {
  double largest = 0.0;
  for (int64_t t = 0; t < p->T; t++) {
    largest = fmax(largest, fabs(p->y[t]));
  }
  for (int64_t t = 0; t < p->T; t++) {
    const bool fitted =
        p->data.classes > 0 ? fitted_class(p, t) == (int64_t)p->y[t] : fabs(p->Y[t]) <= tolerance * largest;
    if (!fitted) {
      return false;
    }
  }
  return true;
}

static double frobenius(const double *values, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) {
    sum += values[i] * values[i];
  }
  return sqrt(sum);
}

/* Fits the labels, computes the errors anew from Z, and fills in what is known then. */
static mhas_code fit(probe *p, mhas_error *error) {
  const mhas_value *values = p->task->point.values;
  mhas_value *result = p->row->results;
  const int64_t least = spectrum_count(values);
  const double tolerance = mhas_rank_tolerance(p->T, p->width);
  MHAS_TRY(mhas_least_squares(p->T, p->width, p->outputs, p->Z, p->Y, tolerance, p->B, p->sigma, error));

  const int64_t rank = mhas_numerical_rank(p->sigma, least, tolerance);
  result[R_RANK].integer = rank;
  result[R_RANK_1E3].integer = mhas_numerical_rank(p->sigma, least, 1e-3);
  result[R_RANK_1E6].integer = mhas_numerical_rank(p->sigma, least, 1e-6);
  result[R_RANK_1E9].integer = mhas_numerical_rank(p->sigma, least, 1e-9);
  result[R_CONDITION].real = rank > 0 ? p->sigma[0] / p->sigma[rank - 1] : NAN;

  const double labels = frobenius(p->Y, p->T * p->outputs);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)p->T, (int)p->outputs, (int)p->width, 1.0, p->Z,
              (int)p->width, p->B, (int)p->outputs, -1.0, p->Y, (int)p->outputs);
  const double errors = frobenius(p->Y, p->T * p->outputs);
  result[R_RESIDUAL].real = labels > 0.0 ? errors / labels : errors;
  result[R_MEMORIZED].integer = all_memorized(p, values[P_FIT_TOLERANCE].real);
  return MHAS_OK;
}

static void fill_theory(const probe *p, int64_t saturated) {
  mhas_value *result = p->row->results;
  const mhas_features_shape *s = &p->shape;
  result[R_SATURATED].real = (double)saturated / ((double)p->T * (double)s->heads);
  result[R_BOUND_LOWER].integer = mhas_bound_lower(s->heads, s->context, s->key_dim);
  result[R_BOUND_SHARED].integer = mhas_bound_shared(s->heads, s->context);
  result[R_BOUND_WIDTH].integer = mhas_bound_width(s->heads, s->dim);
  result[R_PARAMETERS].integer = 2 * p->width * s->key_dim + p->width * p->outputs;
  if (p->row->spectrum != NULL) {
    const int64_t least = spectrum_count(p->task->point.values);
    for (int64_t i = 0; i < least && i < p->row->spectrum_capacity; i++) {
      p->row->spectrum[i] = p->sigma[i];
    }
  }
  p->row->flops = flops_of(p->task->point.values);
}

/* Contexts and queries are drawn again: the same numbers, all at once this time. */
static mhas_code keep_data(const probe *p, mhas_error *error) {
  const mhas_random random = p->task->point.random;
  const int64_t contexts = mhas_data_contexts_count(&p->data);
  double *drawn = NULL;
  MHAS_TRY(mhas_alloc(&drawn, (size_t)(contexts * p->data.context * p->data.dim), sizeof *drawn, "the stored contexts",
                      error));
  mhas_data_contexts(&p->data, random, 0, contexts, drawn);
  mhas_code code = p->row->keep(p->row->keep_context, "E", drawn, error);
  mhas_free(drawn);
  MHAS_TRY(code);
  MHAS_TRY(mhas_alloc(&drawn, (size_t)(p->T * p->data.dim), sizeof *drawn, "the stored queries", error));
  mhas_data_queries(&p->data, random, 0, p->T, drawn);
  code = p->row->keep(p->row->keep_context, "e", drawn, error);
  mhas_free(drawn);
  MHAS_TRY(code);
  return p->row->keep(p->row->keep_context, "y", p->y, error);
}

static mhas_code keep(const probe *p, mhas_error *error) {
  const mhas_row *row = p->row;
  const unsigned store = row->keep == NULL ? 0 : p->task->store;
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(row->keep(row->keep_context, "W_Q", p->W_Q, error));
    MHAS_TRY(row->keep(row->keep_context, "W_K", p->W_K, error));
    MHAS_TRY(row->keep(row->keep_context, "B", p->B, error));
  }
  if ((store & MHAS_STORE_Z) != 0) {
    MHAS_TRY(row->keep(row->keep_context, "Z", p->Z, error));
  }
  return (store & MHAS_STORE_DATA) != 0 ? keep_data(p, error) : MHAS_OK;
}

static mhas_code run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  const mhas_value *values = task->point.values;
  probe p = {
      .task = task,
      .row = row,
      .shape = features_shape(values),
      .data = data_shape(values),
      .T = values[P_SAMPLES].integer,
      .width = width_of(values),
      .outputs = output_count(values),
  };
  int64_t saturated = 0;
  mhas_code code = allocate(&p, error);
  if (code != MHAS_OK) {
    goto done;
  }
  mhas_xavier_query_key(p.shape.heads, p.shape.dim, p.shape.key_dim, task->point.random, p.W_Q, p.W_K);
  draw_labels(&p);
  code = build_features(&p, &saturated, error);
  if (code == MHAS_OK) {
    code = fit(&p, error);
  }
  if (code == MHAS_OK) {
    fill_theory(&p, saturated);
    code = keep(&p, error);
  }
done:
  release(&p);
  return code;
}

const mhas_experiment mhas_experiment_probe = {
    .name = "probe",
    .title = "rank and least squares of random attention features",
    .summary =
        "Builds the feature matrix Z (samples x heads dim) of multi-head attention with random query and key weights, "
        "measures its singular values and numerical rank, and fits random labels with the best linear readout. The "
        "bounds of the theory of memorization capacity stand beside the measured rank.",
    .numerics = 1,
    .parameters = parameters,
    .parameter_count = P_COUNT,
    .results = results,
    .result_count = R_COUNT,
    .check = check,
    .cost = cost,
    .arrays = arrays,
    .run = run,
};
