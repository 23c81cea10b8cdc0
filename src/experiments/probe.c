/*
 * probe: how many samples can given attention and a linear readout memorize?
 *
 * Source: Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers", ICLR 2024,
 * arXiv 2306.02010. The features of sample t are the concatenated z_h(t) = E(t)^T softmax(E(t) W_K,h W_Q,h^T e(t)); Z
 * has one row per sample.
 */
#include "experiments/probe.h"

#include <float.h>
#include <math.h>

#include "experiments/all.h"
#include "experiments/checks.h"

static const char *const label_kinds[] = {"regression", "classes", NULL};
static const char *const solvers[] = {"svd", "rrqr", "qp3", NULL};                    /* as mhas_probe_solver */
static const char *const weight_kinds[] = {"random", "constructed", "trained", NULL}; /* as mhas_weights_kind */

#define TRAINED " (weights: trained)"

static const mhas_parameter parameters[P_COUNT] = {
    [P_HEADS] = {"heads", MHAS_INTEGER, "1", "8", 1, 1 << 20, NULL, "attention heads H"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "64", 1, 1 << 20, NULL, "dimension d of queries and context rows"},
    [P_KEY_DIM] = {"key_dim", MHAS_INTEGER, "1", "= dim", 1, 1 << 20, NULL, "dimension d_h of keys in each head"},
    [P_CONTEXT] = {"context", MHAS_INTEGER, "1", "32", 1, 1 << 20, NULL, "rows n of a context"},
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "= heads * (context - 1) + 1", 1, 1 << 30, NULL, "samples T"},
    [P_CONTEXT_TYPE] = SOURCE_CONTEXT_TYPE,
    [P_DISTRIBUTION] = SOURCE_DISTRIBUTION,
    [P_LABELS] = {"labels", MHAS_CHOICE, "1", "regression", 0, 0, label_kinds,
                  "what is fitted: one uniform number per sample, or a random class as a one-hot vector"},
    [P_CLASSES] = {"classes", MHAS_INTEGER, "1", "100", 2, 1 << 20, NULL, "number of classes (labels: classes)"},
    [P_WEIGHTS] =
        {"weights", MHAS_CHOICE, "1", "random", 0, 0, weight_kinds,
         "W_Q and W_K: random is Xavier-uniform per head; constructed is the proof of the theorem, head by head; "
         "trained is the best model of memorize's recipe, whose embedding and positions the data pass first"},
    [P_LOGIT_SCALE] = {"logit_scale", MHAS_REAL, "1", "1.0", DBL_TRUE_MIN, 1e12, NULL,
                       "factor on the attention logits e^T W_Q W_K^T E / sqrt(dim)"},
    VARIANT_TABLE(P_VARIANT),
    [P_FIT_TOLERANCE] = {"fit_tolerance", MHAS_REAL, "1", "1.0e-6", DBL_TRUE_MIN, 1, NULL,
                         "regression: a sample is memorized if its error is at most this times the largest label"},
    [P_SOLVER] =
        {"solver", MHAS_CHOICE, "1", "svd", 0, 0, solvers,
         "how the rank of Z is found. svd: from all singular values; rrqr: randomized rank-revealing QR, at the "
         "speed of QR, for large Z; qp3: QR with pivots column by column, a slow reference"},
    [P_LOOSE_RANKS] =
        {"loose_ranks", MHAS_FLAG, "1", "true", 0, 0, NULL,
         "rank_1e3, rank_1e6 and rank_1e9 too, exactly; with rrqr and qp3 and a slow decay of the singular values they "
         "take several times as long as the rank itself; false: they are missing"},
    [P_SATURATION_GAIN] = {"saturation_gain", MHAS_REAL, "1", "1.0e4", DBL_TRUE_MIN, 1e12, NULL,
                           "factor c by which a head saturates on samples of earlier heads (weights: constructed)"},
    [P_PEAK] = {"peak", MHAS_REAL, "1", "3.0", 0, 100, NULL,
                "logarithm by which a head favours one context row of a sample of its own (weights: constructed)"},
    [P_ATTENTION_SAMPLES] = {"attention_samples", MHAS_INTEGER, "1", "16", 1, 1 << 30, NULL,
                             "samples whose attention maps are stored (store: [attention])"},
    [P_VALUE_DIM] = RECIPE_VALUE_DIM(TRAINED),
    [P_OUT_DIM] = RECIPE_OUT_DIM(TRAINED),
    RECIPE_PARAMETERS(P_RECIPE, TRAINED),
    SOURCE_PARAMETERS(P_SOURCE),
};

static const mhas_result results[R_COUNT] = {
    [R_RANK] = {"rank", MHAS_INTEGER, "1", "numerical rank of Z: singular values above max(T, H d) eps sigma_1"},
    [R_RANK_1E3] = {"rank_1e3", MHAS_INTEGER, "1", "singular values of Z above 1e-3 sigma_1 (loose_ranks)"},
    [R_RANK_1E6] = {"rank_1e6", MHAS_INTEGER, "1", "singular values of Z above 1e-6 sigma_1 (loose_ranks)"},
    [R_RANK_1E9] = {"rank_1e9", MHAS_INTEGER, "1", "singular values of Z above 1e-9 sigma_1 (loose_ranks)"},
    [R_CONDITION] = {"condition", MHAS_REAL, "1",
                     "sigma_1 / sigma_r of Z, r = rank; rrqr and qp3: estimated, sigma_r by |R_rr|"},
    [R_RESIDUAL] = {"residual", MHAS_REAL, "1", "||Z B - Y|| / ||Y|| (Frobenius) of the minimum-norm least-squares B"},
    [R_MEMORIZED] = {"memorized", MHAS_FLAG, "1",
                     "all T samples are fitted: by largest output (classes) or within fit_tolerance (regression)"},
    [R_SATURATED] = {"saturated", MHAS_REAL, "1",
                     "share of (sample, head) whose largest attention weight, before any mixing of weights, is above "
                     "0.99; missing for linear attention"},
    [R_BOUND_LOWER] = {"bound_lower", MHAS_INTEGER, "1",
                       "H (min(n, d_h) - 1) + 1, the theorem's lower bound for softmax (arXiv 2306.02010)"},
    [R_BOUND_SHARED] = {"bound_shared", MHAS_INTEGER, "1",
                        "the rank of Z that a shared context cannot pass (derived): H (n - 1) + 1; H n if queries mix "
                        "the weights; min(d, H min(n, d_h)) for linear attention"},
    [R_BOUND_WIDTH] = {"bound_width", MHAS_INTEGER, "1", "H d, the number of columns of Z"},
    [R_PARAMETERS] = {"parameters", MHAS_INTEGER, "1",
                      "trainable numbers: 2 H d d_h of attention, those of its mixings, and H d per output"},
    [R_KEY_DIM_USED] = {"key_dim_used", MHAS_INTEGER, "1", "key_dim, or what match_parameters makes of it"},
    [R_LARGEST_WEIGHT] = {"largest_weight", MHAS_REAL, "1", "largest absolute entry of W_Q and W_K"},
    [R_RANK_PER_HEAD_MIN] = {"rank_per_head_min", MHAS_INTEGER, "1",
                             "least of rank_added over the heads (weights: constructed, solver: svd, one rank)"},
    [R_ACCURACY] = {"accuracy", MHAS_REAL, "1",
                    "share of the samples that the trained model classifies right (weights: trained, labels: classes)"},
    [R_LOSS] = {"loss", MHAS_REAL, "1", "mean loss of the trained model over all samples (weights: trained)"},
};

static const mhas_curve curves[C_COUNT] = {
    [C_HEAD] = {"head", "1", "number of the head, from 1 (weights: constructed)"},
    [C_RANK_ADDED] = {"rank_added", "1",
                      "rank that the head adds to the features of the heads before it, on the samples that it and they "
                      "own: min(n, d_h) - 1 by the proof, one more for the first (weights: constructed)"},
};

/* ---- sizes ------------------------------------------------------------------ */

bool probe_is_classes(const mhas_value *values) { return values[P_LABELS].integer == 1; }

/* Columns of what is fitted: one-hot classes, or one number. */
int64_t probe_output_count(const mhas_value *values) {
  return probe_is_classes(values) ? values[P_CLASSES].integer : 1;
}

int64_t probe_width(const mhas_value *values) { return values[P_HEADS].integer * values[P_DIM].integer; }

int64_t probe_spectrum_count(const mhas_value *values) {
  const int64_t width = probe_width(values);
  return values[P_SAMPLES].integer < width ? values[P_SAMPLES].integer : width;
}

mhas_features_shape probe_features_shape(const mhas_value *values) {
  return (mhas_features_shape){
      .heads = values[P_HEADS].integer,
      .dim = values[P_DIM].integer,
      .key_dim = mhas_variant_key_dim(values + P_VARIANT, values[P_HEADS].integer, values[P_DIM].integer,
                                      values[P_KEY_DIM].integer),
      .context = values[P_CONTEXT].integer,
      .shared = values[P_CONTEXT_TYPE].integer == 1,
      .logit_scale = values[P_LOGIT_SCALE].real,
      .variant = mhas_variant_chosen(values + P_VARIANT),
  };
}

mhas_data_shape probe_data_shape(const mhas_value *values) {
  return (mhas_data_shape){
      .samples = values[P_SAMPLES].integer,
      .context = values[P_CONTEXT].integer,
      .dim = values[P_DIM].integer,
      .shared = values[P_CONTEXT_TYPE].integer == 1,
      .distribution = values[P_DISTRIBUTION].integer == 1 ? MHAS_GAUSSIAN : MHAS_UNIFORM,
      .classes = probe_is_classes(values) ? values[P_CLASSES].integer : 0,
  };
}

mhas_source_shape probe_source(const mhas_value *values) {
  const mhas_data_shape data = probe_data_shape(values);
  return source_shape(&values[P_SOURCE], values[P_CONTEXT_TYPE].integer, &data);
}

static mhas_code inspect(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape source = probe_source(values);
  return mhas_source_inspect(&source, error);
}

mhas_weights_wish probe_wish(const mhas_value *values) {
  const mhas_features_shape shape = probe_features_shape(values);
  const mhas_data_shape data = probe_data_shape(values);
  const mhas_source_shape source = probe_source(values);
  const mhas_model_shape model = {.heads = shape.heads,
                                  .dim = shape.dim,
                                  .key_dim = shape.key_dim,
                                  .value_dim = values[P_VALUE_DIM].integer,
                                  .out_dim = values[P_OUT_DIM].integer,
                                  .context = shape.context,
                                  .shared = shape.shared,
                                  .classes = data.classes,
                                  .logit_scale = shape.logit_scale,
                                  .variant = shape.variant};
  return (mhas_weights_wish){.kind = (mhas_weights_kind)values[P_WEIGHTS].integer,
                             .shape = shape,
                             .source = source,
                             .saturation_gain = values[P_SATURATION_GAIN].real,
                             .peak = values[P_PEAK].real,
                             .recipe = mhas_recipe_read(values + P_RECIPE, &model, &source)};
}

bool probe_is_constructed(const mhas_value *values) { return values[P_WEIGHTS].integer == MHAS_WEIGHTS_CONSTRUCTED; }

/* The numbers of the mixings of heads. */
int64_t probe_compose_count(const mhas_value *values) {
  const mhas_variant variant = mhas_variant_chosen(values + P_VARIANT);
  return mhas_variant_parameters(&variant, values[P_HEADS].integer, values[P_DIM].integer);
}

/* W_Q and W_K, the mixings, and the readout. */
int64_t probe_parameter_count(const mhas_value *values) {
  return 2 * probe_width(values) * probe_features_shape(values).key_dim + probe_compose_count(values) +
         probe_width(values) * probe_output_count(values);
}

/* Samples whose attention maps are stored. */
int64_t probe_attention_samples(const mhas_value *values) {
  const int64_t wanted = values[P_ATTENTION_SAMPLES].integer;
  return wanted < values[P_SAMPLES].integer ? wanted : values[P_SAMPLES].integer;
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_features_shape shape = probe_features_shape(values);
  const double samples = (double)values[P_SAMPLES].integer;
  mhas_code code = mhas_features_check(&shape, values[P_SAMPLES].integer, error);
  if (code != MHAS_OK) {
    return mhas_as_usage(error);
  }
  MHAS_TRY(mhas_variant_check(values + P_VARIANT, shape.heads, shape.dim, values[P_KEY_DIM].integer, error));
  if (probe_is_constructed(values) && !mhas_variant_is_softmax(&shape.variant)) {
    return mhas_fail(error, MHAS_USAGE,
                     "the construction is for softmax attention: weights: constructed needs attention: softmax");
  }
  const struct {
    const char *what;
    double numbers;
  } arrays[] = {
      {"Z (samples x heads dim)", samples * (double)probe_width(values)},
      {"the contexts (samples x context x dim)",
       (shape.shared ? 1.0 : samples) * (double)shape.context * (double)shape.dim},
      {"the labels (samples x outputs)", samples * (double)probe_output_count(values)},
      {"W_Q (heads x dim x key_dim)", (double)probe_width(values) * (double)shape.key_dim},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    MHAS_TRY(mhas_check_numbers(arrays[i].what, arrays[i].numbers, error));
  }
  const mhas_weights_wish wish = probe_wish(values);
  return wish.kind == MHAS_WEIGHTS_TRAINED ? mhas_recipe_check(&wish.recipe, error)
                                           : mhas_source_check(&wish.source, error);
}

mhas_probe_solver probe_solver(const mhas_value *values) { return (mhas_probe_solver)values[P_SOLVER].integer; }

/* Of Z and the solve. */
double probe_flops(const mhas_value *values) {
  const mhas_features_shape shape = probe_features_shape(values);
  const int64_t samples = values[P_SAMPLES].integer;
  const int64_t width = probe_width(values);
  const int64_t outputs = probe_output_count(values);
  const mhas_source_shape source = probe_source(values);
  if (probe_solver(values) != MHAS_SOLVE_SVD) {
    return mhas_source_flops(&source) +
           mhas_probe_spread_flops(&shape, samples, outputs, probe_solver(values), values[P_LOOSE_RANKS].integer != 0);
  }
  return mhas_source_flops(&source) + mhas_features_flops(&shape, samples) +
         mhas_least_squares_flops(samples, width, outputs) + 2.0 * (double)samples * (double)width * (double)outputs;
}

/* Of each of so many ranks, with Z in blocks: weights and sources are on every one of them. */
static double spread_bytes(const mhas_value *values, int ranks) {
  const mhas_features_shape shape = probe_features_shape(values);
  const double weights =
      2.0 * (double)probe_width(values) * (double)shape.key_dim + (double)probe_compose_count(values);
  const mhas_weights_wish wish = probe_wish(values);
  const double solve = mhas_probe_spread_bytes(&shape, values[P_SAMPLES].integer, probe_output_count(values),
                                               probe_solver(values), ranks);
  return mhas_source_bytes(&wish.source) + sizeof(double) * weights + fmax(solve, mhas_weights_bytes(&wish));
}

/* Z and the labels, the solver's copies, the weights, B, and a block of samples. */
static mhas_cost cost(const mhas_value *values) {
  const mhas_features_shape shape = probe_features_shape(values);
  const int64_t samples = values[P_SAMPLES].integer;
  const int64_t width = probe_width(values);
  const int64_t outputs = probe_output_count(values);
  const int64_t block = mhas_features_block(&shape, samples);
  const double contexts = (shape.shared ? 1.0 : (double)block) * (double)shape.context * (double)shape.dim;
  const double numbers = (double)samples * ((double)width + (double)outputs) +
                         2.0 * (double)width * (double)shape.key_dim + (double)probe_compose_count(values) +
                         (double)width * (double)outputs + contexts + (double)block * (double)shape.dim +
                         (double)mhas_features_scratch(&shape, block) + (double)samples +
                         (double)probe_spectrum_count(values);
  const mhas_weights_wish wish = probe_wish(values);
  const double drawn = wish.kind == MHAS_WEIGHTS_TRAINED ? fmax(contexts, (double)(block * shape.dim)) : 0.0;
  const double solve = mhas_least_squares_bytes(samples, width, outputs);
  const bool float32 = wish.kind == MHAS_WEIGHTS_TRAINED && wish.recipe.precision == MHAS_FLOAT32;
  const double ranks = probe_is_constructed(values) ? mhas_nested_ranks_bytes(samples, width) : 0.0;
  return (mhas_cost){
      .flops = mhas_weights_flops(&wish) + probe_flops(values),
      .flops_float32 = float32 ? mhas_weights_flops(&wish) : 0.0,
      .bytes = probe_solver(values) == MHAS_SOLVE_SVD
                   ? mhas_source_bytes(&wish.source) + sizeof(double) * (numbers + drawn) +
                         fmax(fmax(solve, ranks), mhas_weights_bytes(&wish))
                   : spread_bytes(values, 1),
      .records = probe_is_constructed(values) ? shape.heads : 0,
      .spectrum = probe_spectrum_count(values),
      .parameters = (double)probe_parameter_count(values),
  };
}

static int arrays(const mhas_value *values, unsigned flags, mhas_array *out) {
  const int64_t T = values[P_SAMPLES].integer;
  const int64_t H = values[P_HEADS].integer;
  const int64_t d = values[P_DIM].integer;
  const int64_t n = values[P_CONTEXT].integer;
  const mhas_variant variant = mhas_variant_chosen(values + P_VARIANT);
  const int64_t d_h = probe_features_shape(values).key_dim;
  const bool shared = values[P_CONTEXT_TYPE].integer == 1;
  const mhas_array all[] = {
      {"E", MHAS_STORE_DATA, shared ? 2 : 3, {shared ? n : T, shared ? d : n, d}, "contexts"},
      {"e", MHAS_STORE_DATA, 2, {T, d}, "queries"},
      {"y", MHAS_STORE_DATA, 1, {T}, "labels"},
      {"W_Q", MHAS_STORE_WEIGHTS, 3, {H, d, d_h}, "query weights of each head"},
      {"W_K", MHAS_STORE_WEIGHTS, 3, {H, d, d_h}, "key weights of each head"},
      {"B",
       MHAS_STORE_WEIGHTS,
       2,
       {H * d, probe_output_count(values)},
       "readout: the least-squares solution of Z B = Y"},
      {"Z", MHAS_STORE_Z, 2, {T, H * d}, "features: row t is z_1(t) .. z_H(t)"},
      mhas_attention_array(probe_attention_samples(values), H, n),
  };
  int count = (flags & MHAS_STORE_WEIGHTS) != 0 ? mhas_variant_arrays(&variant, H, d, out) : 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if ((all[i].flag & flags) != 0) {
      out[count++] = all[i];
    }
  }
  return count;
}

static const mhas_searchable searchable = {
    .parameter = "samples", .guess = probe_guess, .guess_most = probe_guess_most};

const mhas_experiment mhas_experiment_probe = {
    .name = "probe",
    .title = "rank and least squares of attention features",
    .summary =
        "Builds the feature matrix Z (samples x heads dim) of multi-head attention with query and key weights that are "
        "random, constructed by the proof of the theorem, or trained, measures its singular values and numerical rank, "
        "and fits random labels with the best linear readout. The "
        "bounds of the theory of memorization capacity stand beside the measured rank.",
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
    .run = probe_run,
    .max_ranks = 1024,
    .team_bytes = spread_bytes,
    .searchable = &searchable,
};
