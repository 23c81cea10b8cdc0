/*
 * memorize: how many random labels does a trained attention layer memorize?
 *
 * The model and the recipe of Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in
 * Transformers", ICLR 2024, arXiv 2306.02010, and of its public code; every constant of the recipe is a parameter whose
 * default is the paper's value.
 */
#include <float.h>

#include "experiments/all.h"
#include "experiments/examine.h"
#include "experiments/from_source.h"
#include "experiments/training.h"
#include "experiments/variant.h"

static const char *const label_kinds[] = {"classes", "regression", NULL};

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
  P_VARIANT,                                 /* the first of VARIANT_PARAMETERS */
  P_RECIPE = P_VARIANT + VARIANT_PARAMETERS, /* the first of RECIPE_COUNT */
  P_PRUNE = P_RECIPE + RECIPE_COUNT,
  P_BITS,
  P_ATTENTION_SAMPLES,
  P_SOURCE, /* the first of SOURCE_PARAMETER_COUNT */
  P_COUNT = P_SOURCE + SOURCE_PARAMETER_COUNT
};

static const mhas_parameter parameters[P_COUNT] = {
    [P_HEADS] = {"heads", MHAS_INTEGER, "1", "20", 1, 1 << 16, NULL, "attention heads H"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "64", 1, 1 << 16, NULL,
               "dimension d of queries, context rows and the embedding"},
    [P_KEY_DIM] = {"key_dim", MHAS_INTEGER, "1", "= dim", 1, 1 << 16, NULL, "dimension d_h of keys in each head"},
    [P_VALUE_DIM] = RECIPE_VALUE_DIM(""),
    [P_OUT_DIM] = RECIPE_OUT_DIM(""),
    [P_CONTEXT] = {"context", MHAS_INTEGER, "1", "32", 1, 1 << 16, NULL, "rows n of a context"},
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "10000", 1, 1 << 30, NULL, "samples T, all of them trained on"},
    [P_CONTEXT_TYPE] = SOURCE_CONTEXT_TYPE,
    [P_DISTRIBUTION] = SOURCE_DISTRIBUTION,
    [P_LABELS] = {"labels", MHAS_CHOICE, "1", "classes", 0, 0, label_kinds,
                  "classes: random classes, cross-entropy; regression: uniform numbers on [0, 1), mean squared error"},
    [P_CLASSES] = {"classes", MHAS_INTEGER, "1", "100", 2, 1 << 20, NULL, "number of classes (labels: classes)"},
    [P_LOGIT_SCALE] = {"logit_scale", MHAS_REAL, "1", "1.0", DBL_TRUE_MIN, 1e12, NULL,
                       "factor on the attention logits, which are divided by sqrt(dim)"},
    VARIANT_TABLE(P_VARIANT),
    RECIPE_PARAMETERS(P_RECIPE, ""),
    [P_PRUNE] = {"prune", MHAS_REAL, "1", "0.0", 0, 1, NULL,
                 "share of the best model's parameters, the smallest of all, that accuracy_pruned sets to zero; 0: not "
                 "asked"},
    [P_BITS] = {"bits", MHAS_INTEGER, "1", "0", 0, 32, NULL,
                "bits of each of the best model's parameters in accuracy_quantized: 2^bits - 1 evenly spaced values, "
                "symmetric, for each array; 0: not asked"},
    [P_ATTENTION_SAMPLES] = {"attention_samples", MHAS_INTEGER, "1", "16", 1, 1 << 30, NULL,
                             "samples whose attention maps are stored (store: [attention])"},
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
      .variant = mhas_variant_chosen(values + P_VARIANT),
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

static mhas_source_shape shape_of_source(const mhas_value *values) {
  const mhas_data_shape data = data_shape(values);
  return source_shape(&values[P_SOURCE], values[P_CONTEXT_TYPE].integer, &data);
}

static mhas_code inspect(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape source = shape_of_source(values);
  return mhas_source_inspect(&source, error);
}

static mhas_recipe recipe_of(const mhas_value *values) {
  const mhas_model_shape model = model_shape(values);
  const mhas_source_shape source = shape_of_source(values);
  return mhas_recipe_read(values + P_RECIPE, &model, &source);
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_recipe recipe = recipe_of(values);
  if (values[P_BITS].integer == 1) {
    return mhas_fail(error, MHAS_USAGE, "bits: 1 bit leaves no value but zero; take 2 or more, or 0 to leave it out");
  }
  MHAS_TRY(
      mhas_variant_check(values + P_VARIANT, recipe.model.heads, recipe.model.dim, values[P_KEY_DIM].integer, error));
  return mhas_recipe_check(&recipe, error);
}

/* Samples whose attention maps are stored. */
static int64_t attention_samples(const mhas_value *values) {
  const int64_t wanted = values[P_ATTENTION_SAMPLES].integer;
  return wanted < values[P_SAMPLES].integer ? wanted : values[P_SAMPLES].integer;
}

static int extra_passes(const mhas_value *values, const mhas_recipe *recipe) {
  return mhas_examine_passes(recipe->label_noise, values[P_PRUNE].real, values[P_BITS].integer);
}

/* What comes after training takes passes over the samples and two copies of the model to prune. */
static mhas_cost cost(const mhas_value *values) {
  const mhas_recipe recipe = recipe_of(values);
  const bool compressed = values[P_PRUNE].real > 0.0 || values[P_BITS].integer > 0;
  const double parameters_count = (double)mhas_model_parameters(&recipe.model);
  const double flops = mhas_recipe_flops(&recipe) +
                       extra_passes(values, &recipe) *
                           mhas_model_forward_flops(&recipe.model, recipe.batch, (double)recipe.data.samples);
  return (mhas_cost){
      .flops = flops,
      .flops_float32 = recipe.precision == MHAS_FLOAT32 ? flops : 0.0,
      .bytes = mhas_recipe_bytes(&recipe) + (compressed ? 2.0 * sizeof(double) * parameters_count : 0.0),
      .records = mhas_recipe_evaluations(&recipe),
      .spectrum = 0,
      .parameters = parameters_count,
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

static void record(void *context, int64_t number, int64_t step, double loss, double accuracy) {
  mhas_row *row = context;
  const double values[C_COUNT] = {[C_STEP] = (double)step, [C_LOSS] = loss, [C_ACCURACY] = accuracy};
  mhas_row_record(&mhas_experiment_memorize, row, number, values);
}

static mhas_code keep_weights(const mhas_training *t, const mhas_row *row, mhas_error *error) {
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    if (mhas_slice_count(&t->recipe.model, slice) == 0) {
      continue;
    }
    double *values = NULL;
    MHAS_TRY(mhas_alloc(&values, (size_t)mhas_slice_count(&t->recipe.model, slice), sizeof *values,
                        "the stored weights", error));
    mhas_model_get_best(t->model, slice, values);
    const mhas_code code = row->keep(row->keep_context, mhas_slice_name(slice), values, error);
    mhas_free(values);
    MHAS_TRY(code);
  }
  return MHAS_OK;
}

static mhas_code keep_data(const mhas_training *t, const mhas_row *row, mhas_error *error) {
  const mhas_data_shape *shape = &t->samples.shape;
  const int64_t contexts = mhas_data_contexts_count(shape) * shape->context * shape->dim;
  double *values = NULL;
  MHAS_TRY(mhas_alloc(&values, (size_t)contexts, sizeof *values, "the stored contexts", error));
  mhas_samples_get_contexts(&t->samples, values);
  mhas_code code = row->keep(row->keep_context, "E", values, error);
  mhas_free(values);
  MHAS_TRY(code);
  MHAS_TRY(mhas_alloc(&values, (size_t)(shape->samples * shape->dim), sizeof *values, "the stored queries", error));
  mhas_samples_get_queries(&t->samples, values);
  code = row->keep(row->keep_context, "e", values, error);
  mhas_free(values);
  MHAS_TRY(code);
  return row->keep(row->keep_context, "y", t->samples.labels, error);
}

static mhas_examination examination_of(mhas_training *t) {
  const mhas_value *values = t->task->point.values;
  return (mhas_examination){.task = t->task,
                            .model = t->model,
                            .samples = &t->samples,
                            .shape = t->recipe.model,
                            .batch = t->recipe.batch,
                            .clean_labels = t->clean_labels,
                            .prune = values[P_PRUNE].real,
                            .bits = (int)values[P_BITS].integer};
}

static mhas_code keep(mhas_training *t, const mhas_row *row, mhas_error *error) {
  const unsigned store = row->keep == NULL ? 0 : t->task->store;
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(keep_weights(t, row, error));
  }
  if ((store & MHAS_STORE_ATTENTION) != 0) {
    const mhas_examination first = examination_of(t);
    MHAS_TRY(mhas_examine_attention(&first, attention_samples(t->task->point.values), row, error));
  }
  return (store & MHAS_STORE_DATA) != 0 ? keep_data(t, row, error) : MHAS_OK;
}

/* What is asked of the best model after training. */
static mhas_code examine(mhas_training *t, mhas_value *result, mhas_error *error) {
  const mhas_examination all = examination_of(t);
  mhas_examined found;
  MHAS_TRY(mhas_examine(&all, &found, error));
  result[R_ACCURACY_CLEAN].real = t->clean_labels != NULL ? found.accuracy_clean : t->state.best_accuracy;
  result[R_ACCURACY_PRUNED].real = found.accuracy_pruned;
  result[R_LOSS_PRUNED].real = found.loss_pruned;
  result[R_ACCURACY_QUANTIZED].real = found.accuracy_quantized;
  result[R_LOSS_QUANTIZED].real = found.loss_quantized;
  t->state.flops += extra_passes(t->task->point.values, &t->recipe) *
                    mhas_model_forward_flops(&t->recipe.model, t->recipe.batch, (double)t->recipe.data.samples);
  return MHAS_OK;
}

static void fill_results(const mhas_training *t, mhas_value *result) {
  const mhas_model_shape *s = &t->recipe.model;
  result[R_ACCURACY].real = t->state.best_accuracy;
  result[R_LOSS].real = t->state.best_loss;
  result[R_BEST_STEP].integer = t->state.best_step;
  result[R_STEPS_RUN].integer = t->state.steps_run;
  result[R_BOUND_LOWER].integer = mhas_bound_lower(s->heads, s->context, s->key_dim);
  result[R_BOUND_SHARED].integer = mhas_variant_bound_shared(&s->variant, s->heads, s->context, s->dim, s->key_dim);
  result[R_BOUND_WIDTH].integer = mhas_bound_width(s->heads, s->dim);
  result[R_PARAMETERS].integer = mhas_model_parameters(s);
  result[R_KEY_DIM_USED].integer = s->key_dim;
}

static mhas_code run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  mhas_training t = {.recipe = recipe_of(task->point.values),
                     .task = task,
                     .resumes = true,
                     .listener = record,
                     .listener_context = row};
  mhas_code code = mhas_training_run(&t, error);
  if (code == MHAS_OK) {
    fill_results(&t, row->results);
    code = examine(&t, row->results, error);
    if (code == MHAS_STOPPED) {
      mhas_training_keep(&t);
    }
  }
  if (code == MHAS_OK) {
    code = keep(&t, row, error);
  }
  row->flops = t.state.flops;
  mhas_training_free(&t);
  return code;
}

static const mhas_searchable searchable = {.parameter = "samples"};

const mhas_experiment mhas_experiment_memorize = {
    .name = "memorize",
    .title = "training a one-layer attention model on random labels",
    .summary =
        "Trains the model of the memorization paper (linear embedding, sinusoidal positions, one attention layer for "
        "one "
        "query, linear decoder) with its recipe (Adam, warm-up and cosine, best model kept, early stop) on random data "
        "and reports how much of it is memorized.",
    .numerics = 3,
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
    .searchable = &searchable,
};
