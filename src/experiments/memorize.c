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
#include <string.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/examine.h"
#include "experiments/variant.h"
#include "mhasweep/model.h"

static const char *const context_types[] = {"own", "shared", NULL};
static const char *const distributions[] = {"uniform", "gaussian", NULL};
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
  P_VARIANT, /* the first of VARIANT_PARAMETERS */
  P_BATCH = P_VARIANT + VARIANT_PARAMETERS,
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
  P_WEIGHT_DECAY,
  P_L1,
  P_DROPOUT,
  P_INPUT_NOISE,
  P_LABEL_NOISE,
  P_EVAL_EVERY,
  P_EARLY_STOP,
  P_PRECISION,
  P_PRUNE,
  P_BITS,
  P_ATTENTION_SAMPLES,
  P_COUNT
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
    [P_CONTEXT_TYPE] = {"context_type", MHAS_CHOICE, "1", "own", 0, 0, context_types,
                        "own: every sample has a context of its own; shared: all have the same one"},
    [P_DISTRIBUTION] = {"distribution", MHAS_CHOICE, "1", "uniform", 0, 0, distributions,
                        "of the entries of contexts and queries: uniform on [0, 1) or standard normal"},
    [P_LABELS] = {"labels", MHAS_CHOICE, "1", "classes", 0, 0, label_kinds,
                  "classes: random classes, cross-entropy; regression: uniform numbers on [0, 1), mean squared error"},
    [P_CLASSES] = {"classes", MHAS_INTEGER, "1", "100", 2, 1 << 20, NULL, "number of classes (labels: classes)"},
    [P_LOGIT_SCALE] = {"logit_scale", MHAS_REAL, "1", "1.0", DBL_TRUE_MIN, 1e12, NULL,
                       "factor on the attention logits, which are divided by sqrt(dim)"},
    [P_POSITION_BASE] = {"position_base", MHAS_REAL, "1", "10000", 1, 1e12, NULL, "base of the sinusoidal positions"},
    VARIANT_TABLE(P_VARIANT),
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
    [P_WEIGHT_DECAY] = {"weight_decay", MHAS_REAL, "1", "0.0", 0, 1e6, NULL,
                        "decoupled decay of every parameter as in AdamW: times 1 - learning rate * weight_decay, each "
                        "step"},
    [P_L1] = {"l1", MHAS_REAL, "1", "0.0", 0, 1e6, NULL,
              "decoupled L1 penalty: behind every update each parameter goes learning rate * l1 nearer to zero, and "
              "stops there"},
    [P_DROPOUT] = {"dropout", MHAS_REAL, "1", "0.0", 0, 0.99, NULL,
                   "share of the attention weights set to 0 in a training step; the others grow by 1 / (1 - dropout)"},
    [P_INPUT_NOISE] = {"input_noise", MHAS_REAL, "1", "0.0", 0, 1e6, NULL,
                       "standard deviation of the normal numbers added to the queries, new in every training step"},
    [P_LABEL_NOISE] = {"label_noise", MHAS_REAL, "1", "0.0", 0, 1, NULL,
                       "share of the labels that random ones replace, once, before training"},
    [P_EVAL_EVERY] = {"eval_every", MHAS_INTEGER, "1", "500", 1, 1LL << 40, NULL,
                      "steps between evaluations on all samples"},
    [P_EARLY_STOP] = {"early_stop", MHAS_FLAG, "1", "true", 0, 1, NULL,
                      "stop as soon as every sample is classified right"},
    [P_PRECISION] = {"precision", MHAS_CHOICE, "1", "float32", 0, 0, precisions, "of the arithmetic"},
    [P_PRUNE] = {"prune", MHAS_REAL, "1", "0.0", 0, 1, NULL,
                 "share of the best model's parameters, the smallest of all, that accuracy_pruned sets to zero; 0: not "
                 "asked"},
    [P_BITS] = {"bits", MHAS_INTEGER, "1", "0", 0, 32, NULL,
                "bits of each of the best model's parameters in accuracy_quantized: 2^bits - 1 evenly spaced values, "
                "symmetric, for each array; 0: not asked"},
    [P_ATTENTION_SAMPLES] = {"attention_samples", MHAS_INTEGER, "1", "16", 1, 1 << 30, NULL,
                             "samples whose attention maps are stored (store: [attention])"},
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
  R_KEY_DIM_USED,
  R_ACCURACY_CLEAN,
  R_ACCURACY_PRUNED,
  R_LOSS_PRUNED,
  R_ACCURACY_QUANTIZED,
  R_LOSS_QUANTIZED,
  R_COUNT
};

static const mhas_result results[R_COUNT] = {
    [R_ACCURACY] = {"accuracy", MHAS_REAL, "1",
                    "share of the samples that the best model classifies right (labels: classes), by the labels it was "
                    "trained on"},
    [R_LOSS] = {"loss", MHAS_REAL, "1", "mean loss of the best model over all samples: cross-entropy or squared error"},
    [R_BEST_STEP] = {"best_step", MHAS_INTEGER, "1", "step after which the best model stood"},
    [R_STEPS_RUN] = {"steps_run", MHAS_INTEGER, "1", "steps done; fewer than steps after an early stop"},
    [R_BOUND_LOWER] = {"bound_lower", MHAS_INTEGER, "1",
                       "H (min(n, d_h) - 1) + 1, the theorem's lower bound for softmax (arXiv 2306.02010)"},
    [R_BOUND_SHARED] = {"bound_shared", MHAS_INTEGER, "1",
                        "the rank of Z that a shared context cannot pass (derived): H (n - 1) + 1; H n if queries mix "
                        "the weights; min(d, H min(n, d_h)) for linear attention"},
    [R_BOUND_WIDTH] = {"bound_width", MHAS_INTEGER, "1", "H d, the number of features"},
    [R_PARAMETERS] = {"parameters", MHAS_INTEGER, "1", "trainable numbers of the model"},
    [R_KEY_DIM_USED] = {"key_dim_used", MHAS_INTEGER, "1", "key_dim, or what match_parameters makes of it"},
    [R_ACCURACY_CLEAN] = {"accuracy_clean", MHAS_REAL, "1", "accuracy by the labels before label_noise"},
    [R_ACCURACY_PRUNED] = {"accuracy_pruned", MHAS_REAL, "1", "accuracy after pruning (prune > 0)"},
    [R_LOSS_PRUNED] = {"loss_pruned", MHAS_REAL, "1", "loss after pruning (prune > 0)"},
    [R_ACCURACY_QUANTIZED] = {"accuracy_quantized", MHAS_REAL, "1", "accuracy after rounding to bits (bits > 0)"},
    [R_LOSS_QUANTIZED] = {"loss_quantized", MHAS_REAL, "1", "loss after rounding to bits (bits > 0)"},
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
      .key_dim = mhas_variant_key_dim(values + P_VARIANT, values[P_HEADS].integer, values[P_DIM].integer,
                                      values[P_KEY_DIM].integer),
      .value_dim = values[P_VALUE_DIM].integer,
      .out_dim = values[P_OUT_DIM].integer,
      .context = values[P_CONTEXT].integer,
      .shared = is_shared(values),
      .classes = is_classes(values) ? values[P_CLASSES].integer : 0,
      .logit_scale = values[P_LOGIT_SCALE].real,
      .position_base = values[P_POSITION_BASE].real,
      .variant = mhas_variant_chosen(values + P_VARIANT),
      .disturbance = {.dropout = values[P_DROPOUT].real, .noise = values[P_INPUT_NOISE].real},
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

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_model_shape shape = model_shape(values);
  const mhas_data_shape data = data_shape(values);
  if (mhas_model_check(&shape, batch_of(values), error) != MHAS_OK) {
    return mhas_as_usage(error);
  }
  if (values[P_BITS].integer == 1) {
    return mhas_fail(error, MHAS_USAGE, "bits: 1 bit leaves no value but zero; take 2 or more, or 0 to leave it out");
  }
  MHAS_TRY(mhas_variant_check(values + P_VARIANT, shape.heads, shape.dim, values[P_KEY_DIM].integer, error));
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
      {"the model's arrays", mhas_model_bytes(&shape, MHAS_FLOAT32, batch_of(values)) / sizeof(float)},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    MHAS_TRY(mhas_check_numbers(arrays[i].what, arrays[i].numbers, error));
  }
  return MHAS_OK;
}

/* Operations of a step besides the gradient. */
static double update_flops(const mhas_value *values, const mhas_model_shape *shape) {
  const int more = (values[P_WEIGHT_DECAY].real > 0.0) + (values[P_L1].real > 0.0);
  return mhas_model_update_flops(shape) + more * (double)mhas_model_parameters(shape);
}

/* Samples whose attention maps are stored. */
static int64_t attention_samples(const mhas_value *values) {
  const int64_t wanted = values[P_ATTENTION_SAMPLES].integer;
  return wanted < values[P_SAMPLES].integer ? wanted : values[P_SAMPLES].integer;
}

static int extra_passes(const mhas_value *values) {
  return mhas_examine_passes(values[P_LABEL_NOISE].real, values[P_PRUNE].real, values[P_BITS].integer);
}

/* Bytes of what comes after training: clean labels, two copies of the model to prune, the attention maps. */
static double extra_bytes(const mhas_value *values, const mhas_model_shape *shape) {
  const bool compressed = values[P_PRUNE].real > 0.0 || values[P_BITS].integer > 0;
  const double numbers = (values[P_LABEL_NOISE].real > 0.0 ? (double)values[P_SAMPLES].integer : 0.0) +
                         (compressed ? 2.0 * (double)mhas_model_parameters(shape) : 0.0);
  return sizeof(double) * numbers;
}

/* An epoch's last batch may be short, so a step has samples / steps-per-epoch of them on average. */
static mhas_cost cost(const mhas_value *values) {
  const mhas_model_shape shape = model_shape(values);
  const mhas_data_shape data = data_shape(values);
  const double steps = (double)values[P_STEPS].integer;
  const double samples = (double)data.samples;
  const double in_step = samples / (double)divide_up(data.samples, batch_of(values));
  const double contexts = (data.shared ? 1.0 : samples) * (double)data.context * (double)data.dim;
  const double size = (double)mhas_precision_size(precision_of(values));
  return (mhas_cost){
      .flops = steps * (mhas_model_gradient_flops(&shape, in_step) + update_flops(values, &shape)) +
               (double)(evaluations(values) + extra_passes(values)) * mhas_model_forward_flops(&shape, samples),
      .bytes = mhas_model_bytes(&shape, precision_of(values), batch_of(values)) +
               size * (contexts + samples * (double)data.dim) + (sizeof(double) + sizeof(int64_t)) * samples +
               extra_bytes(values, &shape),
      .records = evaluations(values),
      .spectrum = 0,
      .parameters = (double)mhas_model_parameters(&shape),
  };
}

static const char *slice_meaning(mhas_slice slice) {
  static const char *const meanings[MHAS_PRE_BASE] = {
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
    for (mhas_slice slice = 0; slice < MHAS_PRE_BASE; slice++) {
      mhas_array array = {mhas_slice_name(slice), MHAS_STORE_WEIGHTS, 0, {0}, slice_meaning(slice)};
      array.rank = mhas_slice_shape(&shape, slice, array.shape);
      out[count++] = array;
    }
    count += mhas_variant_arrays(&shape.variant, shape.heads, d, out + count);
  }
  if ((flags & MHAS_STORE_ATTENTION) != 0) {
    out[count++] = mhas_attention_array(attention_samples(values), shape.heads, n);
  }
  if ((flags & MHAS_STORE_DATA) != 0) {
    const bool shared = shape.shared;
    out[count++] = (mhas_array){
        "E", MHAS_STORE_DATA, shared ? 2 : 3, {shared ? n : T, shared ? d : n, d}, "contexts, as rounded for training"};
    out[count++] = (mhas_array){"e", MHAS_STORE_DATA, 2, {T, d}, "queries, as rounded for training"};
    out[count++] = (mhas_array){"y", MHAS_STORE_DATA, 1, {T}, "labels, as trained on"};
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
  int64_t *order;       /* (T): this epoch's permutation of the samples */
  double *clean_labels; /* (T): before label_noise; NULL without it */
  int64_t T, batch, eval_every, records;
  double best_loss, best_accuracy;
  int64_t best_step, steps_run;
} training;

static mhas_code proceed(const training *t, mhas_error *error) { return t->task->proceed(t->task->context, error); }

static mhas_code diverged(const training *t, int64_t step, double loss, mhas_error *error) {
  return mhas_fail(error, MHAS_NUMERIC, "diverged at step %" PRId64 ": loss is %s (lr %g)", step,
                   isnan(loss) ? "nan" : "infinite", t->schedule.lr);
}

static mhas_examination examination_of(training *t) {
  const mhas_value *values = t->task->point.values;
  return (mhas_examination){.task = t->task,
                            .model = t->model,
                            .samples = &t->samples,
                            .shape = t->shape,
                            .batch = t->batch,
                            .clean_labels = t->clean_labels,
                            .prune = values[P_PRUNE].real,
                            .bits = (int)values[P_BITS].integer};
}

/* Evaluates the model as it is after `step` steps, records it, and keeps it if its loss is the least so far. */
static mhas_code judge(training *t, int64_t step, double *accuracy, mhas_error *error) {
  const mhas_examination all = examination_of(t);
  double loss = NAN;
  MHAS_TRY(mhas_examine_score(&all, &loss, accuracy, error));
  t->row->flops += mhas_model_forward_flops(&t->shape, (double)t->T);
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
  mhas_model_disturb(t->model, t->task->point.random, step);
  const double loss = mhas_model_gradient(t->model, &t->samples, t->order + first, count);
  if (!isfinite(loss)) {
    return diverged(t, step + 1, loss, error);
  }
  const mhas_value *values = t->task->point.values;
  const double lr = mhas_schedule_lr(&t->schedule, step);
  if (values[P_WEIGHT_DECAY].real > 0.0) {
    mhas_model_decay(t->model, lr, values[P_WEIGHT_DECAY].real);
  }
  mhas_model_update(t->model, &t->adam, lr);
  if (values[P_L1].real > 0.0) {
    mhas_model_shrink(t->model, lr, values[P_L1].real);
  }
  t->row->flops += mhas_model_gradient_flops(&t->shape, (double)count) + update_flops(values, &t->shape);
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
    if (mhas_slice_count(&t->shape, slice) == 0) {
      continue;
    }
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

static mhas_code keep(training *t, mhas_error *error) {
  const unsigned store = t->row->keep == NULL ? 0 : t->task->store;
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(keep_weights(t, error));
  }
  if ((store & MHAS_STORE_ATTENTION) != 0) {
    const mhas_examination first = examination_of(t);
    MHAS_TRY(mhas_examine_attention(&first, attention_samples(t->task->point.values), t->row, error));
  }
  return (store & MHAS_STORE_DATA) != 0 ? keep_data(t, error) : MHAS_OK;
}

/* What is asked of the best model after training. */
static mhas_code examine(training *t, mhas_error *error) {
  mhas_value *result = t->row->results;
  const mhas_examination all = examination_of(t);
  mhas_examined found;
  MHAS_TRY(mhas_examine(&all, &found, error));
  result[R_ACCURACY_CLEAN].real = t->clean_labels != NULL ? found.accuracy_clean : t->best_accuracy;
  result[R_ACCURACY_PRUNED].real = found.accuracy_pruned;
  result[R_LOSS_PRUNED].real = found.loss_pruned;
  result[R_ACCURACY_QUANTIZED].real = found.accuracy_quantized;
  result[R_LOSS_QUANTIZED].real = found.loss_quantized;
  const int passes = extra_passes(t->task->point.values);
  t->row->flops += passes * mhas_model_forward_flops(&t->shape, (double)t->T);
  return MHAS_OK;
}

static void fill_results(const training *t) {
  mhas_value *result = t->row->results;
  const mhas_model_shape *s = &t->shape;
  result[R_ACCURACY].real = t->best_accuracy;
  result[R_LOSS].real = t->best_loss;
  result[R_BEST_STEP].integer = t->best_step;
  result[R_STEPS_RUN].integer = t->steps_run;
  result[R_BOUND_LOWER].integer = mhas_bound_lower(s->heads, s->context, s->key_dim);
  result[R_BOUND_SHARED].integer = mhas_variant_bound_shared(&s->variant, s->heads, s->context, s->dim, s->key_dim);
  result[R_BOUND_WIDTH].integer = mhas_bound_width(s->heads, s->dim);
  result[R_PARAMETERS].integer = mhas_model_parameters(s);
  result[R_KEY_DIM_USED].integer = s->key_dim;
}

/* Makes some labels wrong, and remembers what they were. */
static mhas_code disturb_labels(training *t, double share, mhas_error *error) {
  if (share == 0.0) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_alloc(&t->clean_labels, (size_t)t->T, sizeof *t->clean_labels, "the labels before noise", error));
  memcpy(t->clean_labels, t->samples.labels, (size_t)t->T * sizeof *t->clean_labels);
  mhas_data_label_noise(&t->samples.shape, t->task->point.random, share, 0, t->T, t->samples.labels);
  return MHAS_OK;
}

static mhas_code prepare(training *t, mhas_error *error) {
  const mhas_value *values = t->task->point.values;
  const mhas_data_shape data = data_shape(values);
  MHAS_TRY(mhas_samples_create(&data, precision_of(values), &t->samples, error));
  MHAS_TRY(mhas_alloc(&t->order, (size_t)t->T, sizeof *t->order, "the order of the samples", error));
  MHAS_TRY(mhas_model_create(&t->shape, precision_of(values), t->batch, &t->model, error));
  mhas_model_initialise(t->model, t->task->point.random);
  for (int64_t first = 0; first < t->T; first += t->batch) {
    const int64_t count = t->T - first < t->batch ? t->T - first : t->batch;
    MHAS_TRY(proceed(t, error));
    MHAS_TRY(mhas_samples_draw(&t->samples, t->task->point.random, first, count, error));
  }
  return disturb_labels(t, values[P_LABEL_NOISE].real, error);
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
    code = examine(&t, error);
  }
  if (code == MHAS_OK) {
    code = keep(&t, error);
  }
  mhas_model_destroy(t.model);
  mhas_samples_free(&t.samples);
  mhas_free(t.order);
  mhas_free(t.clean_labels);
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
    .cost = cost,
    .arrays = arrays,
    .run = run,
};
