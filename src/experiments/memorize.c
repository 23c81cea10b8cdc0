/*
 * memorize: how many random labels does a trained attention layer memorize?
 *
 * The model and the recipe of Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in
 * Transformers", ICLR 2024, arXiv 2306.02010, and of its public code; every constant of the recipe is a parameter whose
 * default is the paper's value.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/from_source.h"
#include "mhasweep/model.h"

static const char *const label_kinds[] = {"classes", "regression", NULL};
static const char *const precisions[] = {"float32", "float64", NULL};

enum {
  P_HEADS,
  P_DIM,
  P_KEY_DIM,
  P_VALUE_DIM,
  P_OUT_DIM,
  P_CONTEXT,
  P_SAMPLES,
  P_CONTEXT_TYPE,
  P_DISTRIBUTION,
  P_LABELS,
  P_CLASSES,
  P_LOGIT_SCALE,
  P_POSITION_BASE,
  P_BATCH,
  P_EPOCHS,
  P_MIN_STEPS,
  P_STEPS,
  P_LR,
  P_WARMUP,
  P_WARMUP_START,
  P_LR_END,
  P_BETA1,
  P_BETA2,
  P_EPSILON,
  P_EVAL_EVERY,
  P_EARLY_STOP,
  P_PRECISION,
  P_SOURCE,
  P_COUNT = P_SOURCE + SOURCE_PARAMETER_COUNT
};

static const mhas_parameter parameters[P_COUNT] = {
    [P_HEADS] = {"heads", MHAS_INTEGER, "1", "20", 1, 1 << 16, NULL, "attention heads H"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "64", 1, 1 << 16, NULL,
               "dimension d of queries, context rows and the embedding"},
    [P_KEY_DIM] = {"key_dim", MHAS_INTEGER, "1", "= dim", 1, 1 << 16, NULL, "dimension d_h of keys in each head"},
    [P_VALUE_DIM] = {"value_dim", MHAS_INTEGER, "1", "1", 1, 1 << 16, NULL, "dimension d_v of values in each head"},
    [P_OUT_DIM] = {"out_dim", MHAS_INTEGER, "1", "= dim", 1, 1 << 16, NULL,
                   "outputs d_o of the attention layer, before the decoder"},
    [P_CONTEXT] = {"context", MHAS_INTEGER, "1", "32", 1, 1 << 16, NULL, "rows n of a context"},
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "10000", 1, 1 << 30, NULL, "samples T, all of them trained on"},
    [P_CONTEXT_TYPE] = SOURCE_CONTEXT_TYPE,
    [P_DISTRIBUTION] = SOURCE_DISTRIBUTION,
    [P_LABELS] = {"labels", MHAS_CHOICE, "1", "classes", 0, 0, label_kinds,
                  "classes: random classes, cross-entropy; regression: uniform numbers on [0, 1), mean squared error"},
    [P_CLASSES] = {"classes", MHAS_INTEGER, "1", "100", 2, 1 << 20, NULL, "number of classes (labels: classes)"},
    [P_LOGIT_SCALE] = {"logit_scale", MHAS_REAL, "1", "1.0", DBL_TRUE_MIN, 1e12, NULL,
                       "factor on the attention logits, which are divided by sqrt(dim)"},
    [P_POSITION_BASE] = {"position_base", MHAS_REAL, "1", "10000", 1, 1e12, NULL, "base of the sinusoidal positions"},
    [P_BATCH] = {"batch", MHAS_INTEGER, "1", "256", 1, 1 << 30, NULL, "samples in a step"},
    [P_EPOCHS] = {"epochs", MHAS_INTEGER, "1", "500", 1, 1 << 30, NULL,
                  "passes over the samples that steps is made for"},
    [P_MIN_STEPS] = {"min_steps", MHAS_INTEGER, "1", "50000", 1, 1LL << 40, NULL, "least number of steps"},
    [P_STEPS] = {"steps", MHAS_INTEGER, "1", "= max(floor(epochs * samples / batch), min_steps)", 1, 1LL << 40, NULL,
                 "training steps"},
    [P_LR] = {"lr", MHAS_REAL, "1", "1.0e-3", DBL_TRUE_MIN, 1e12, NULL, "learning rate at the end of the warm-up"},
    [P_WARMUP] = {"warmup", MHAS_REAL, "1", "0.05", 0, 1, NULL,
                  "share of the steps in which the learning rate rises linearly"},
    [P_WARMUP_START] = {"warmup_start", MHAS_REAL, "1", "0.01", DBL_TRUE_MIN, 1, NULL,
                        "learning rate at the first step, as a share of lr"},
    [P_LR_END] = {"lr_end", MHAS_REAL, "1", "0.0", 0, 1, NULL,
                  "learning rate at the end of the cosine, as a share of lr"},
    [P_BETA1] = {"beta1", MHAS_REAL, "1", "0.9", 0, 0.999999, NULL, "Adam: decay of the first moment"},
    [P_BETA2] = {"beta2", MHAS_REAL, "1", "0.999", 0, 0.99999999, NULL, "Adam: decay of the second moment"},
    [P_EPSILON] = {"epsilon", MHAS_REAL, "1", "1.0e-8", DBL_TRUE_MIN, 1, NULL,
                   "Adam: added to the root of the second moment"},
    [P_EVAL_EVERY] = {"eval_every", MHAS_INTEGER, "1", "500", 1, 1LL << 40, NULL,
                      "steps between evaluations on all samples"},
    [P_EARLY_STOP] = {"early_stop", MHAS_FLAG, "1", "true", 0, 1, NULL,
                      "stop as soon as every sample is classified right"},
    [P_PRECISION] = {"precision", MHAS_CHOICE, "1", "float32", 0, 0, precisions, "of the arithmetic"},
    SOURCE_PARAMETERS(P_SOURCE),
};

enum {
  R_ACCURACY,
  R_LOSS,
  R_BEST_STEP,
  R_STEPS_RUN,
  R_BOUND_LOWER,
  R_BOUND_SHARED,
  R_BOUND_WIDTH,
  R_PARAMETERS,
  R_COUNT
};

static const mhas_result results[R_COUNT] = {
    [R_ACCURACY] = {"accuracy", MHAS_REAL, "1",
                    "share of the samples that the best model classifies right (labels: classes)"},
    [R_LOSS] = {"loss", MHAS_REAL, "1", "mean loss of the best model over all samples: cross-entropy or squared error"},
    [R_BEST_STEP] = {"best_step", MHAS_INTEGER, "1", "step after which the best model stood"},
    [R_STEPS_RUN] = {"steps_run", MHAS_INTEGER, "1", "steps done; fewer than steps after an early stop"},
    [R_BOUND_LOWER] = {"bound_lower", MHAS_INTEGER, "1",
                       "H (min(n, d_h) - 1) + 1, the theorem's lower bound (arXiv 2306.02010)"},
    [R_BOUND_SHARED] = {"bound_shared", MHAS_INTEGER, "1",
                        "H (n - 1) + 1, the rank of Z that a shared context cannot pass (derived)"},
    [R_BOUND_WIDTH] = {"bound_width", MHAS_INTEGER, "1", "H d, the number of features"},
    [R_PARAMETERS] = {"parameters", MHAS_INTEGER, "1", "trainable numbers of the model"},
};

enum { C_STEP, C_LOSS, C_ACCURACY, C_COUNT };

static const mhas_curve curves[C_COUNT] = {
    [C_STEP] = {"step", "1", "training steps done"},
    [C_LOSS] = {"loss", "1", "mean loss over all samples"},
    [C_ACCURACY] = {"accuracy", "1", "share of all samples classified right"},
};

/* ---- sizes ------------------------------------------------------------------ */

static bool is_classes(const mhas_value *values) { return values[P_LABELS].integer == 0; }
static bool is_shared(const mhas_value *values) { return values[P_CONTEXT_TYPE].integer == 1; }

static mhas_precision precision_of(const mhas_value *values) {
  return values[P_PRECISION].integer == 0 ? MHAS_FLOAT32 : MHAS_FLOAT64;
}

static mhas_model_shape model_shape(const mhas_value *values) {
  return (mhas_model_shape){
      .heads = values[P_HEADS].integer,
      .dim = values[P_DIM].integer,
      .key_dim = values[P_KEY_DIM].integer,
      .value_dim = values[P_VALUE_DIM].integer,
      .out_dim = values[P_OUT_DIM].integer,
      .context = values[P_CONTEXT].integer,
      .shared = is_shared(values),
      .classes = is_classes(values) ? values[P_CLASSES].integer : 0,
      .logit_scale = values[P_LOGIT_SCALE].real,
      .position_base = values[P_POSITION_BASE].real,
  };
}

static mhas_data_shape data_shape(const mhas_value *values) {
  return (mhas_data_shape){
      .samples = values[P_SAMPLES].integer,
      .context = values[P_CONTEXT].integer,
      .dim = values[P_DIM].integer,
      .shared = is_shared(values),
      .distribution = values[P_DISTRIBUTION].integer == 1 ? MHAS_GAUSSIAN : MHAS_UNIFORM,
      .classes = is_classes(values) ? values[P_CLASSES].integer : 0,
  };
}

/* Samples in a step: a batch cannot be larger than the data. */
static int64_t batch_of(const mhas_value *values) {
  const int64_t batch = values[P_BATCH].integer;
  return batch < values[P_SAMPLES].integer ? batch : values[P_SAMPLES].integer;
}

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* Every eval_every steps, and at the end. */
static int64_t evaluations(const mhas_value *values) {
  return divide_up(values[P_STEPS].integer, values[P_EVAL_EVERY].integer);
}

static mhas_source_shape shape_of_source(const mhas_value *values) {
  const mhas_data_shape data = data_shape(values);
  return source_shape(&values[P_SOURCE], values[P_CONTEXT_TYPE].integer, &data);
}

static mhas_code inspect(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape source = shape_of_source(values);
  return mhas_source_inspect(&source, error);
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape source = shape_of_source(values);
  const mhas_model_shape shape = model_shape(values);
  const mhas_data_shape data = data_shape(values);
  if (mhas_model_check(&shape, batch_of(values), error) != MHAS_OK) {
    return mhas_as_usage(error);
  }
  const double batch = (double)batch_of(values);
  const struct {
    const char *what;
    double numbers;
  } arrays[] = {
      {"the contexts (samples x context x dim)",
       (data.shared ? 1.0 : (double)data.samples) * (double)data.context * (double)data.dim},
      {"the queries (samples x dim)", (double)data.samples * (double)data.dim},
      {"the parameters", (double)shape.heads * (double)shape.dim * (double)shape.key_dim},
      {"the parameters", (double)shape.heads * (double)shape.value_dim * (double)shape.out_dim},
      {"the keys (batch x heads x key_dim)", batch * (double)shape.heads * (double)shape.key_dim},
      {"the attention (batch x heads x context)", batch * (double)shape.heads * (double)shape.context},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    MHAS_TRY(mhas_check_numbers(arrays[i].what, arrays[i].numbers, error));
  }
  return mhas_source_check(&source, error);
}

/* An epoch's last batch may be short, so a step has samples / steps-per-epoch of them on average. */
static mhas_cost cost(const mhas_value *values) {
  const mhas_source_shape source = shape_of_source(values);
  const mhas_model_shape shape = model_shape(values);
  const mhas_data_shape data = data_shape(values);
  const double steps = (double)values[P_STEPS].integer;
  const double samples = (double)data.samples;
  const double in_step = samples / (double)divide_up(data.samples, batch_of(values));
  const double contexts = (data.shared ? 1.0 : samples) * (double)data.context * (double)data.dim;
  const double size = (double)mhas_precision_size(precision_of(values));
  return (mhas_cost){
      .flops = mhas_source_flops(&source) +
               steps * (mhas_model_gradient_flops(&shape, in_step) + mhas_model_update_flops(&shape)) +
               (double)evaluations(values) * mhas_model_forward_flops(&shape, samples),
      .bytes = mhas_source_bytes(&source) + mhas_model_bytes(&shape, precision_of(values), batch_of(values)) +
               size * (contexts + samples * (double)data.dim) + (sizeof(double) + sizeof(int64_t)) * samples,
      .records = evaluations(values),
      .spectrum = 0,
  };
}

static const char *slice_meaning(mhas_slice slice) {
  static const char *const meanings[MHAS_SLICES] = {
      [MHAS_EMBEDDING] = "embedding weights of the best model: x -> x W + b",
      [MHAS_EMBEDDING_BIAS] = "embedding bias of the best model",
      [MHAS_W_QUERY] = "query weights of each head of the best model",
      [MHAS_W_KEY] = "key weights of each head of the best model",
      [MHAS_W_VALUE] = "value weights of each head of the best model",
      [MHAS_W_OUT] = "output weights of the best model's attention",
      [MHAS_DECODER] = "decoder weights of the best model: x -> x W + b",
      [MHAS_DECODER_BIAS] = "decoder bias of the best model",
  };
  return meanings[slice];
}

static int arrays(const mhas_value *values, unsigned flags, mhas_array *out) {
  const mhas_model_shape shape = model_shape(values);
  const int64_t T = values[P_SAMPLES].integer;
  const int64_t n = shape.context;
  const int64_t d = shape.dim;
  int count = 0;
  if ((flags & MHAS_STORE_WEIGHTS) != 0) {
    for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
      mhas_array array = {mhas_slice_name(slice), MHAS_STORE_WEIGHTS, 0, {0}, slice_meaning(slice)};
      array.rank = mhas_slice_shape(&shape, slice, array.shape);
      out[count++] = array;
    }
  }
  if ((flags & MHAS_STORE_DATA) != 0) {
    const bool shared = shape.shared;
    out[count++] = (mhas_array){
        "E", MHAS_STORE_DATA, shared ? 2 : 3, {shared ? n : T, shared ? d : n, d}, "contexts, as rounded for training"};
    out[count++] = (mhas_array){"e", MHAS_STORE_DATA, 2, {T, d}, "queries, as rounded for training"};
    out[count++] = (mhas_array){"y", MHAS_STORE_DATA, 1, {T}, "labels"};
  }
  return count;
}

/* ---- one point ---------------------------------------------------------------- */

typedef struct training {
  const mhas_task *task;
  mhas_row *row;
  mhas_model_shape shape;
  mhas_samples samples;
  mhas_schedule schedule;
  mhas_adam adam;
  mhas_model *model;
  int64_t *order; /* (T): this epoch's permutation of the samples */
  int64_t T, batch, eval_every, records;
  double best_loss, best_accuracy;
  int64_t best_step, steps_run;
} training;

static mhas_code proceed(const training *t, mhas_error *error) { return t->task->proceed(t->task->context, error); }

static mhas_code diverged(const training *t, int64_t step, double loss, mhas_error *error) {
  return mhas_fail(error, MHAS_NUMERIC, "diverged at step %" PRId64 ": loss is %s (lr %g)", step,
                   isnan(loss) ? "nan" : "infinite", t->schedule.lr);
}

/* The score over all samples, batch by batch. */
static mhas_code evaluate(training *t, double *loss, double *accuracy, mhas_error *error) {
  double sum = 0.0;
  int64_t right = 0;
  for (int64_t first = 0; first < t->T; first += t->batch) {
    const int64_t count = t->T - first < t->batch ? t->T - first : t->batch;
    MHAS_TRY(proceed(t, error));
    const mhas_score score = mhas_model_score(t->model, &t->samples, first, count);
    sum += score.loss;
    right += score.right;
  }
  t->row->flops += mhas_model_forward_flops(&t->shape, (double)t->T);
  *loss = sum / (double)t->T;
  *accuracy = t->shape.classes > 0 ? (double)right / (double)t->T : NAN;
  return MHAS_OK;
}

/* Evaluates the model as it is after `step` steps, records it, and keeps it if its loss is the least so far. */
static mhas_code judge(training *t, int64_t step, double *accuracy, mhas_error *error) {
  double loss = NAN;
  MHAS_TRY(evaluate(t, &loss, accuracy, error));
  if (!isfinite(loss)) {
    return diverged(t, step, loss, error);
  }
  const double values[C_COUNT] = {[C_STEP] = (double)step, [C_LOSS] = loss, [C_ACCURACY] = *accuracy};
  mhas_row_record(&mhas_experiment_memorize, t->row, t->records++, values);
  if (loss < t->best_loss) {
    t->best_loss = loss;
    t->best_accuracy = *accuracy;
    t->best_step = step;
    mhas_model_keep_best(t->model);
  }
  return MHAS_OK;
}

/* One step on the next batch of the epoch's order; the epoch's last batch may be short. */
static mhas_code train_step(training *t, int64_t step, mhas_error *error) {
  const int64_t steps_in_epoch = divide_up(t->T, t->batch);
  const int64_t first = step % steps_in_epoch * t->batch;
  const int64_t count = t->T - first < t->batch ? t->T - first : t->batch;
  if (first == 0) {
    mhas_random_permutation(t->task->point.random, MHAS_STREAM_SHUFFLE, (uint64_t)(step / steps_in_epoch), (size_t)t->T,
                            t->order);
  }
  const double loss = mhas_model_gradient(t->model, &t->samples, t->order + first, count);
  if (!isfinite(loss)) {
    return diverged(t, step + 1, loss, error);
  }
  mhas_model_update(t->model, &t->adam, mhas_schedule_lr(&t->schedule, step));
  t->row->flops += mhas_model_gradient_flops(&t->shape, (double)count) + mhas_model_update_flops(&t->shape);
  return MHAS_OK;
}

static mhas_code train(training *t, mhas_error *error) {
  const bool early_stop = t->task->point.values[P_EARLY_STOP].integer != 0;
  const int64_t steps = t->schedule.steps;
  bool memorized = false;
  while (t->steps_run < steps && !memorized) {
    MHAS_TRY(proceed(t, error));
    MHAS_TRY(train_step(t, t->steps_run, error));
    const int64_t step = ++t->steps_run;
    if (step % t->eval_every == 0 || step == steps) {
      double accuracy = NAN;
      MHAS_TRY(judge(t, step, &accuracy, error));
      memorized = early_stop && accuracy == 1.0; /* never so in regression, where it is NaN */
    }
  }
  return MHAS_OK;
}

static mhas_code keep_weights(const training *t, mhas_error *error) {
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    double *values = NULL;
    MHAS_TRY(
        mhas_alloc(&values, (size_t)mhas_slice_count(&t->shape, slice), sizeof *values, "the stored weights", error));
    mhas_model_get_best(t->model, slice, values);
    const mhas_code code = t->row->keep(t->row->keep_context, mhas_slice_name(slice), values, error);
    mhas_free(values);
    MHAS_TRY(code);
  }
  return MHAS_OK;
}

static mhas_code keep_data(const training *t, mhas_error *error) {
  const mhas_data_shape *shape = &t->samples.shape;
  const int64_t contexts = mhas_data_contexts_count(shape) * shape->context * shape->dim;
  double *values = NULL;
  MHAS_TRY(mhas_alloc(&values, (size_t)contexts, sizeof *values, "the stored contexts", error));
  mhas_samples_get_contexts(&t->samples, values);
  mhas_code code = t->row->keep(t->row->keep_context, "E", values, error);
  mhas_free(values);
  MHAS_TRY(code);
  MHAS_TRY(mhas_alloc(&values, (size_t)(shape->samples * shape->dim), sizeof *values, "the stored queries", error));
  mhas_samples_get_queries(&t->samples, values);
  code = t->row->keep(t->row->keep_context, "e", values, error);
  mhas_free(values);
  MHAS_TRY(code);
  return t->row->keep(t->row->keep_context, "y", t->samples.labels, error);
}

static mhas_code keep(const training *t, mhas_error *error) {
  const unsigned store = t->row->keep == NULL ? 0 : t->task->store;
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(keep_weights(t, error));
  }
  return (store & MHAS_STORE_DATA) != 0 ? keep_data(t, error) : MHAS_OK;
}

static void fill_results(const training *t) {
  mhas_value *result = t->row->results;
  const mhas_model_shape *s = &t->shape;
  result[R_ACCURACY].real = t->best_accuracy;
  result[R_LOSS].real = t->best_loss;
  result[R_BEST_STEP].integer = t->best_step;
  result[R_STEPS_RUN].integer = t->steps_run;
  result[R_BOUND_LOWER].integer = mhas_bound_lower(s->heads, s->context, s->key_dim);
  result[R_BOUND_SHARED].integer = mhas_bound_shared(s->heads, s->context);
  result[R_BOUND_WIDTH].integer = mhas_bound_width(s->heads, s->dim);
  result[R_PARAMETERS].integer = mhas_model_parameters(s);
}

static mhas_code read_samples(training *t, mhas_error *error) {
  const mhas_source_shape shape = shape_of_source(t->task->point.values);
  mhas_source *source = NULL;
  mhas_code code = mhas_source_open(&shape, t->task->point.random, &source, error);
  for (int64_t first = 0; code == MHAS_OK && first < t->T; first += t->batch) {
    const int64_t count = t->T - first < t->batch ? t->T - first : t->batch;
    code = proceed(t, error);
    if (code == MHAS_OK) {
      code = mhas_samples_read(&t->samples, source, first, count, error);
    }
  }
  mhas_source_close(source);
  return code;
}

static mhas_code prepare(training *t, mhas_error *error) {
  const mhas_value *values = t->task->point.values;
  const mhas_data_shape data = data_shape(values);
  MHAS_TRY(mhas_samples_create(&data, precision_of(values), &t->samples, error));
  MHAS_TRY(mhas_alloc(&t->order, (size_t)t->T, sizeof *t->order, "the order of the samples", error));
  MHAS_TRY(mhas_model_create(&t->shape, precision_of(values), t->batch, &t->model, error));
  mhas_model_initialise(t->model, t->task->point.random);
  return read_samples(t, error);
}

static mhas_code run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  const mhas_value *values = task->point.values;
  training t = {
      .task = task,
      .row = row,
      .shape = model_shape(values),
      .schedule = {.lr = values[P_LR].real,
                   .warmup = values[P_WARMUP].real,
                   .warmup_start = values[P_WARMUP_START].real,
                   .lr_end = values[P_LR_END].real,
                   .steps = values[P_STEPS].integer},
      .adam = {values[P_BETA1].real, values[P_BETA2].real, values[P_EPSILON].real},
      .T = values[P_SAMPLES].integer,
      .batch = batch_of(values),
      .eval_every = values[P_EVAL_EVERY].integer,
      .best_loss = INFINITY,
  };
  mhas_code code = prepare(&t, error);
  if (code == MHAS_OK) {
    code = train(&t, error);
  }
  if (code == MHAS_OK) {
    fill_results(&t);
    code = keep(&t, error);
  }
  mhas_model_destroy(t.model);
  mhas_samples_free(&t.samples);
  mhas_free(t.order);
  return code;
}

const mhas_experiment mhas_experiment_memorize = {
    .name = "memorize",
    .title = "training a one-layer attention model on random labels",
    .summary =
        "Trains the model of the memorization paper (linear embedding, sinusoidal positions, one attention layer for "
        "one "
        "query, linear decoder) with its recipe (Adam, warm-up and cosine, best model kept, early stop) on random data "
        "and reports how much of it is memorized.",
    .numerics = 1,
    .parameters = parameters,
    .parameter_count = P_COUNT,
    .results = results,
    .result_count = R_COUNT,
    .curves = curves,
    .curve_count = C_COUNT,
    .check = check,
    .inspect = inspect,
    .cost = cost,
    .arrays = arrays,
    .run = run,
};
