/*
 * probe: how many samples can given attention and a linear readout memorize?
 *
 * Source: Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers", ICLR 2024,
 * arXiv 2306.02010. The features of sample t are the concatenated z_h(t) = E(t)^T softmax(E(t) W_K,h W_Q,h^T e(t)); Z
 * has one row per sample.
 */
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/from_source.h"
#include "experiments/probe_spread.h"
#include "experiments/variant.h"
#include "experiments/weights.h"
#include "mhasweep/linalg.h"
#include "mhasweep/model.h"

static const char *const label_kinds[] = {"regression", "classes", NULL};
static const char *const solvers[] = {"svd", "rrqr", "qp3", NULL};                    /* as mhas_probe_solver */
static const char *const weight_kinds[] = {"random", "constructed", "trained", NULL}; /* as mhas_weights_kind */

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
  P_VARIANT, /* the first of VARIANT_PARAMETERS */
  P_FIT_TOLERANCE = P_VARIANT + VARIANT_PARAMETERS,
  P_SOLVER,
  P_SATURATION_GAIN,
  P_PEAK,
  P_VALUE_DIM,
  P_OUT_DIM,
  P_ATTENTION_SAMPLES,
  P_RECIPE,                           /* the first of RECIPE_COUNT */
  P_SOURCE = P_RECIPE + RECIPE_COUNT, /* the first of SOURCE_PARAMETER_COUNT */
  P_COUNT = P_SOURCE + SOURCE_PARAMETER_COUNT
};

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
  R_KEY_DIM_USED,
  R_LARGEST_WEIGHT,
  R_RANK_PER_HEAD_MIN,
  R_ACCURACY,
  R_LOSS,
  R_COUNT
};

static const mhas_result results[R_COUNT] = {
    [R_RANK] = {"rank", MHAS_INTEGER, "1", "numerical rank of Z: singular values above max(T, H d) eps sigma_1"},
    [R_RANK_1E3] = {"rank_1e3", MHAS_INTEGER, "1", "singular values of Z above 1e-3 sigma_1"},
    [R_RANK_1E6] = {"rank_1e6", MHAS_INTEGER, "1", "singular values of Z above 1e-6 sigma_1"},
    [R_RANK_1E9] = {"rank_1e9", MHAS_INTEGER, "1", "singular values of Z above 1e-9 sigma_1"},
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

enum { C_HEAD, C_RANK_ADDED, C_COUNT };

static const mhas_curve curves[C_COUNT] = {
    [C_HEAD] = {"head", "1", "number of the head, from 1 (weights: constructed)"},
    [C_RANK_ADDED] = {"rank_added", "1",
                      "rank that the head adds to the features of the heads before it, on the samples that it and they "
                      "own: min(n, d_h) - 1 by the proof, one more for the first (weights: constructed)"},
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
      .key_dim = mhas_variant_key_dim(values + P_VARIANT, values[P_HEADS].integer, values[P_DIM].integer,
                                      values[P_KEY_DIM].integer),
      .context = values[P_CONTEXT].integer,
      .shared = values[P_CONTEXT_TYPE].integer == 1,
      .logit_scale = values[P_LOGIT_SCALE].real,
      .variant = mhas_variant_chosen(values + P_VARIANT),
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

static mhas_source_shape shape_of_source(const mhas_value *values) {
  const mhas_data_shape data = data_shape(values);
  return source_shape(&values[P_SOURCE], values[P_CONTEXT_TYPE].integer, &data);
}

static mhas_code inspect(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape source = shape_of_source(values);
  return mhas_source_inspect(&source, error);
}

static mhas_weights_wish wish_of(const mhas_value *values) {
  const mhas_features_shape shape = features_shape(values);
  const mhas_data_shape data = data_shape(values);
  const mhas_source_shape source = shape_of_source(values);
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

static bool is_constructed(const mhas_value *values) { return values[P_WEIGHTS].integer == MHAS_WEIGHTS_CONSTRUCTED; }

/* The numbers of the mixings of heads. */
static int64_t compose_count(const mhas_value *values) {
  const mhas_variant variant = mhas_variant_chosen(values + P_VARIANT);
  return mhas_variant_parameters(&variant, values[P_HEADS].integer, values[P_DIM].integer);
}

/* W_Q and W_K, the mixings, and the readout. */
static int64_t parameter_count(const mhas_value *values) {
  return 2 * width_of(values) * features_shape(values).key_dim + compose_count(values) +
         width_of(values) * output_count(values);
}

/* Samples whose attention maps are stored. */
static int64_t attention_samples(const mhas_value *values) {
  const int64_t wanted = values[P_ATTENTION_SAMPLES].integer;
  return wanted < values[P_SAMPLES].integer ? wanted : values[P_SAMPLES].integer;
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_features_shape shape = features_shape(values);
  const double samples = (double)values[P_SAMPLES].integer;
  mhas_code code = mhas_features_check(&shape, values[P_SAMPLES].integer, error);
  if (code != MHAS_OK) {
    return mhas_as_usage(error);
  }
  MHAS_TRY(mhas_variant_check(values + P_VARIANT, shape.heads, shape.dim, values[P_KEY_DIM].integer, error));
  if (is_constructed(values) && !mhas_variant_is_softmax(&shape.variant)) {
    return mhas_fail(error, MHAS_USAGE,
                     "the construction is for softmax attention: weights: constructed needs attention: softmax");
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
  const mhas_weights_wish wish = wish_of(values);
  return wish.kind == MHAS_WEIGHTS_TRAINED ? mhas_recipe_check(&wish.recipe, error)
                                           : mhas_source_check(&wish.source, error);
}

static mhas_probe_solver solver_of(const mhas_value *values) { return (mhas_probe_solver)values[P_SOLVER].integer; }

/* Of Z and the solve. */
static double flops_of(const mhas_value *values) {
  const mhas_features_shape shape = features_shape(values);
  const int64_t samples = values[P_SAMPLES].integer;
  const int64_t width = width_of(values);
  const int64_t outputs = output_count(values);
  const mhas_source_shape source = shape_of_source(values);
  if (solver_of(values) != MHAS_SOLVE_SVD) {
    return mhas_source_flops(&source) + mhas_probe_spread_flops(&shape, samples, outputs, solver_of(values));
  }
  return mhas_source_flops(&source) + mhas_features_flops(&shape, samples) +
         mhas_least_squares_flops(samples, width, outputs) + 2.0 * (double)samples * (double)width * (double)outputs;
}

/* Of each of so many ranks, with Z in blocks: weights and sources are on every one of them. */
static double spread_bytes(const mhas_value *values, int ranks) {
  const mhas_features_shape shape = features_shape(values);
  const double weights = 2.0 * (double)width_of(values) * (double)shape.key_dim + (double)compose_count(values);
  const mhas_weights_wish wish = wish_of(values);
  const double solve =
      mhas_probe_spread_bytes(&shape, values[P_SAMPLES].integer, output_count(values), solver_of(values), ranks);
  return mhas_source_bytes(&wish.source) + sizeof(double) * weights + fmax(solve, mhas_weights_bytes(&wish));
}

/* Z and the labels, the solver's copies, the weights, B, and a block of samples. */
static mhas_cost cost(const mhas_value *values) {
  const mhas_features_shape shape = features_shape(values);
  const int64_t samples = values[P_SAMPLES].integer;
  const int64_t width = width_of(values);
  const int64_t outputs = output_count(values);
  const int64_t block = mhas_features_block(&shape, samples);
  const double contexts = (shape.shared ? 1.0 : (double)block) * (double)shape.context * (double)shape.dim;
  const double numbers =
      (double)samples * ((double)width + (double)outputs) + 2.0 * (double)width * (double)shape.key_dim +
      (double)compose_count(values) + (double)width * (double)outputs + contexts + (double)block * (double)shape.dim +
      (double)mhas_features_scratch(&shape, block) + (double)samples + (double)spectrum_count(values);
  const mhas_weights_wish wish = wish_of(values);
  const double drawn = wish.kind == MHAS_WEIGHTS_TRAINED ? fmax(contexts, (double)(block * shape.dim)) : 0.0;
  const double solve = mhas_least_squares_bytes(samples, width, outputs);
  const double ranks = is_constructed(values) ? mhas_nested_ranks_bytes(samples, width) : 0.0;
  return (mhas_cost){
      .flops = mhas_weights_flops(&wish) + flops_of(values),
      .bytes = solver_of(values) == MHAS_SOLVE_SVD
                   ? mhas_source_bytes(&wish.source) + sizeof(double) * (numbers + drawn) +
                         fmax(fmax(solve, ranks), mhas_weights_bytes(&wish))
                   : spread_bytes(values, 1),
      .records = is_constructed(values) ? shape.heads : 0,
      .spectrum = spectrum_count(values),
      .parameters = (double)parameter_count(values),
  };
}

static int arrays(const mhas_value *values, unsigned flags, mhas_array *out) {
  const int64_t T = values[P_SAMPLES].integer;
  const int64_t H = values[P_HEADS].integer;
  const int64_t d = values[P_DIM].integer;
  const int64_t n = values[P_CONTEXT].integer;
  const mhas_variant variant = mhas_variant_chosen(values + P_VARIANT);
  const int64_t d_h = features_shape(values).key_dim;
  const bool shared = values[P_CONTEXT_TYPE].integer == 1;
  const mhas_array all[] = {
      {"E", MHAS_STORE_DATA, shared ? 2 : 3, {shared ? n : T, shared ? d : n, d}, "contexts"},
      {"e", MHAS_STORE_DATA, 2, {T, d}, "queries"},
      {"y", MHAS_STORE_DATA, 1, {T}, "labels"},
      {"W_Q", MHAS_STORE_WEIGHTS, 3, {H, d, d_h}, "query weights of each head"},
      {"W_K", MHAS_STORE_WEIGHTS, 3, {H, d, d_h}, "key weights of each head"},
      {"B", MHAS_STORE_WEIGHTS, 2, {H * d, output_count(values)}, "readout: the least-squares solution of Z B = Y"},
      {"Z", MHAS_STORE_Z, 2, {T, H * d}, "features: row t is z_1(t) .. z_H(t)"},
      mhas_attention_array(attention_samples(values), H, n),
  };
  int count = (flags & MHAS_STORE_WEIGHTS) != 0 ? mhas_variant_arrays(&variant, H, d, out) : 0;
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
  mhas_source *source;
  int64_t T, width, outputs;
  mhas_weights weights;
  double *maps;  /* (attention_samples, H, n): attention; NULL unless it is stored */
  double *Z;     /* (T, H d) */
  double *y;     /* (T) */
  double *Y;     /* (T, outputs): labels as they are fitted; then the errors Z B - Y */
  double *B;     /* (H d, outputs) */
  double *sigma; /* (min(T, H d)) */
} probe;

static mhas_code allocate(probe *p, mhas_error *error) {
  const size_t T = (size_t)p->T;
  const size_t width = (size_t)p->width;
  const size_t outputs = (size_t)p->outputs;
  if (p->row->keep != NULL && (p->task->store & MHAS_STORE_ATTENTION) != 0) {
    const size_t maps = (size_t)(attention_samples(p->task->point.values) * p->shape.heads * p->shape.context);
    MHAS_TRY(mhas_alloc(&p->maps, maps, sizeof(double), "the stored attention maps", error));
  }
  MHAS_TRY(mhas_alloc(&p->Z, T * width, sizeof(double), "Z (samples x heads dim)", error));
  MHAS_TRY(mhas_alloc(&p->y, T, sizeof(double), "the labels", error));
  MHAS_TRY(mhas_alloc(&p->Y, T * outputs, sizeof(double), "the labels (samples x outputs)", error));
  MHAS_TRY(mhas_alloc(&p->B, width * outputs, sizeof(double), "the readout (heads dim x outputs)", error));
  return mhas_alloc(&p->sigma, T < width ? T : width, sizeof(double), "the spectrum", error);
}

static void release(probe *p) {
  mhas_weights_free(&p->weights);
  mhas_free(p->maps);
  mhas_free(p->Z);
  mhas_free(p->y);
  mhas_free(p->Y);
  mhas_free(p->B);
  mhas_free(p->sigma);
  mhas_source_close(p->source);
}

/* Samples first .. first + count - 1 as the attention sees them: where there is an embedding, `drawn` takes what is
 * before it. */
static mhas_code see_contexts(const probe *p, int64_t first, int64_t count, double *drawn, double *E,
                              mhas_error *error) {
  MHAS_TRY(mhas_source_read(p->source, first, count, drawn == NULL ? E : drawn, NULL, error));
  if (drawn != NULL) {
    const int64_t contexts = p->shape.shared ? 1 : count;
    mhas_embed(&p->weights.embedding, contexts * p->shape.context, 1, p->shape.context, drawn, E);
  }
  return MHAS_OK;
}

static mhas_code see_queries(const probe *p, int64_t first, int64_t count, double *drawn, double *e,
                             mhas_error *error) {
  MHAS_TRY(mhas_source_read(p->source, first, count, NULL, drawn == NULL ? e : drawn, error));
  if (drawn != NULL) {
    mhas_embed(&p->weights.embedding, count, 0, 1, drawn, e);
  }
  return MHAS_OK;
}

/* Remembers the attention maps (count, H, n) of samples first .. first + count - 1, as far as they are stored. */
static void take_maps(probe *p, int64_t first, int64_t count, const double *attention) {
  const int64_t wanted = attention_samples(p->task->point.values) - first;
  const int64_t map = p->shape.heads * p->shape.context;
  if (p->maps != NULL && wanted > 0) {
    memcpy(p->maps + first * map, attention, (size_t)((wanted < count ? wanted : count) * map) * sizeof(double));
  }
}

/* Numbers of the data of a block before the embedding. */
static size_t drawn_count(const probe *p, int64_t block) {
  const int64_t contexts = p->shape.shared ? 1 : block;
  const int64_t rows = contexts * p->shape.context > block ? contexts * p->shape.context : block;
  return (size_t)(rows * p->shape.dim);
}

/* Rows first .. first + total - 1 of Z, block by block: the contexts of a block are drawn, used and forgotten. */
static mhas_code build_features(probe *p, int64_t first, int64_t total, double *Z, int64_t *saturated,
                                mhas_error *error) {
  const int64_t block = mhas_features_block(&p->shape, total);
  const int64_t contexts = p->shape.shared ? 1 : block;
  double *E = NULL;
  double *e = NULL;
  double *drawn = NULL;
  double *scratch = NULL;
  *saturated = 0;
  mhas_code code =
      mhas_alloc(&E, (size_t)(contexts * p->shape.context) * (size_t)p->shape.dim, sizeof *E, "the contexts", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&e, (size_t)(block * p->shape.dim), sizeof *e, "the queries", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&scratch, (size_t)mhas_features_scratch(&p->shape, block), sizeof *scratch,
                      "the features' scratch", error);
  }
  if (code == MHAS_OK && p->weights.embedding.weight != NULL) {
    code = mhas_alloc(&drawn, drawn_count(p, block), sizeof *drawn, "the data before the embedding", error);
  }
  if (code == MHAS_OK && p->shape.shared) {
    code = see_contexts(p, 0, 0, drawn, E, error);
  }
  for (int64_t t = 0; code == MHAS_OK && t < total; t += block) {
    const int64_t count = total - t < block ? total - t : block;
    code = p->shape.shared ? MHAS_OK : see_contexts(p, first + t, count, drawn, E, error);
    if (code == MHAS_OK) {
      code = see_queries(p, first + t, count, drawn, e, error);
    }
    if (code == MHAS_OK) {
      *saturated += mhas_features(&p->shape, count, E, e, p->weights.W_Q, p->weights.W_K, p->weights.compose, scratch,
                                  Z + t * p->width);
      take_maps(p, first + t, count, mhas_features_attention(scratch));
      code = p->task->proceed(p->task->context, error);
    }
  }
  mhas_free(E);
  mhas_free(e);
  mhas_free(drawn);
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

/* The rank that each head adds: of the leading block of the samples that heads 1 .. h own and of their features. */
static mhas_code fill_heads(const probe *p, mhas_error *error) {
  const int64_t H = p->shape.heads;
  int64_t *ends = NULL; /* of the samples, of the columns, and the ranks */
  MHAS_TRY(mhas_alloc(&ends, 3 * (size_t)H, sizeof *ends, "the ranks of the heads", error));
  for (int64_t h = 0; h < H; h++) {
    int64_t first = 0;
    const int64_t end = mhas_construct_owned(&p->shape, h, &first) + first;
    ends[h] = end < p->T ? end : p->T;
    ends[H + h] = (h + 1) * p->shape.dim;
  }
  const double rounding = mhas_rank_tolerance(p->T, p->width) * p->sigma[0];
  int64_t *ranks = ends + 2 * H;
  const mhas_code code = mhas_nested_ranks(p->T, p->width, p->Z, H, ends, ends + H, rounding, ranks, error);
  int64_t least = p->shape.dim;
  for (int64_t h = 0; code == MHAS_OK && h < H; h++) {
    const int64_t added = ranks[h] - (h == 0 ? 0 : ranks[h - 1]);
    const double record[C_COUNT] = {[C_HEAD] = (double)(h + 1), [C_RANK_ADDED] = (double)added};
    mhas_row_record(&mhas_experiment_probe, p->row, h, record);
    least = added < least ? added : least;
  }
  p->row->results[R_RANK_PER_HEAD_MIN].integer = code == MHAS_OK ? least : -1;
  mhas_free(ends);
  return code;
}

static void fill_theory(const probe *p, int64_t saturated) {
  mhas_value *result = p->row->results;
  const mhas_features_shape *s = &p->shape;
  if (s->variant.weighting != MHAS_LINEAR) {
    result[R_SATURATED].real = (double)saturated / ((double)p->T * (double)s->heads);
  }
  result[R_BOUND_LOWER].integer = mhas_bound_lower(s->heads, s->context, s->key_dim);
  result[R_BOUND_SHARED].integer = mhas_variant_bound_shared(&s->variant, s->heads, s->context, s->dim, s->key_dim);
  result[R_BOUND_WIDTH].integer = mhas_bound_width(s->heads, s->dim);
  result[R_PARAMETERS].integer = parameter_count(p->task->point.values);
  result[R_KEY_DIM_USED].integer = s->key_dim;
  result[R_LARGEST_WEIGHT].real = mhas_weights_largest(&p->weights, s);
  result[R_ACCURACY].real = p->weights.accuracy;
  result[R_LOSS].real = p->weights.loss;
  if (p->row->spectrum != NULL) {
    const int64_t least = spectrum_count(p->task->point.values);
    for (int64_t i = 0; i < least && i < p->row->spectrum_capacity; i++) {
      p->row->spectrum[i] = p->sigma[i];
    }
  }
  p->row->flops = p->weights.flops + flops_of(p->task->point.values);
}

/* Contexts and queries are drawn again: the same numbers, all at once this time. */
static mhas_code keep_data(const probe *p, mhas_error *error) {
  const int64_t contexts = mhas_data_contexts_count(&p->data);
  double *drawn = NULL;
  MHAS_TRY(mhas_alloc(&drawn, (size_t)(contexts * p->data.context * p->data.dim), sizeof *drawn, "the stored contexts",
                      error));
  mhas_code code = mhas_source_read(p->source, 0, p->data.shared ? 0 : contexts, drawn, NULL, error);
  if (code == MHAS_OK) {
    code = p->row->keep(p->row->keep_context, "E", drawn, error);
  }
  mhas_free(drawn);
  MHAS_TRY(code);
  MHAS_TRY(mhas_alloc(&drawn, (size_t)(p->T * p->data.dim), sizeof *drawn, "the stored queries", error));
  code = mhas_source_read(p->source, 0, p->T, NULL, drawn, error);
  if (code == MHAS_OK) {
    code = p->row->keep(p->row->keep_context, "e", drawn, error);
  }
  mhas_free(drawn);
  MHAS_TRY(code);
  return p->row->keep(p->row->keep_context, "y", p->y, error);
}

static mhas_code keep_compose(const probe *p, mhas_error *error) {
  mhas_array announced[MHAS_ARRAYS_MOST];
  const int count = mhas_variant_arrays(&p->shape.variant, p->shape.heads, p->shape.dim, announced);
  const double *values = p->weights.compose;
  for (int i = 0; i < count; i++) {
    MHAS_TRY(p->row->keep(p->row->keep_context, announced[i].name, values, error));
    int64_t length = 1;
    for (int k = 0; k < announced[i].rank; k++) {
      length *= announced[i].shape[k];
    }
    values += length;
  }
  return MHAS_OK;
}

static mhas_code keep(const probe *p, mhas_error *error) {
  const mhas_row *row = p->row;
  const unsigned store = row->keep == NULL ? 0 : p->task->store;
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(row->keep(row->keep_context, "W_Q", p->weights.W_Q, error));
    MHAS_TRY(row->keep(row->keep_context, "W_K", p->weights.W_K, error));
    MHAS_TRY(row->keep(row->keep_context, "B", p->B, error));
    MHAS_TRY(keep_compose(p, error));
  }
  if (p->maps != NULL) {
    MHAS_TRY(row->keep(row->keep_context, "attention", p->maps, error));
  }
  if ((store & MHAS_STORE_Z) != 0) {
    MHAS_TRY(row->keep(row->keep_context, "Z", p->Z, error));
  }
  return (store & MHAS_STORE_DATA) != 0 ? keep_data(p, error) : MHAS_OK;
}

static probe probe_of(const mhas_task *task, mhas_row *row) {
  const mhas_value *values = task->point.values;
  return (probe){
      .task = task,
      .row = row,
      .shape = features_shape(values),
      .data = data_shape(values),
      .T = values[P_SAMPLES].integer,
      .width = width_of(values),
      .outputs = output_count(values),
  };
}

/* The weights, and the source open. */
static mhas_code prepare(probe *p, const mhas_weights_wish *wish, mhas_error *error) {
  MHAS_TRY(mhas_weights_make(wish, p->task, &p->weights, error));
  return mhas_source_open(&wish->source, p->task->point.random, &p->source, error);
}

/* ---- Z spread over a team, or in blocks on one rank --------------------------------- */

/* The samples that Z is made of; `drawn` is for what is before an embedding. */
typedef struct spread_samples {
  const probe *p;
  double *drawn;
} spread_samples;

static mhas_code spread_contexts(void *context, int64_t first, int64_t count, double *E, mhas_error *error) {
  const spread_samples *s = context;
  return see_contexts(s->p, first, s->p->shape.shared ? 0 : count, s->drawn, E, error);
}

static mhas_code spread_queries(void *context, int64_t first, int64_t count, double *e, mhas_error *error) {
  const spread_samples *s = context;
  return see_queries(s->p, first, count, s->drawn, e, error);
}

/* `build_features` asks in the middle of what is collective. */
static mhas_code always_proceed(void *context, mhas_error *error) { return (void)context, (void)error, MHAS_OK; }

/* The maps of the first samples, for which every rank makes their features by itself. */
static mhas_code make_maps(probe *p, mhas_error *error) {
  const int64_t count = attention_samples(p->task->point.values);
  const size_t maps = (size_t)(count * p->shape.heads * p->shape.context);
  double *rows = NULL;
  int64_t unused = 0;
  MHAS_TRY(mhas_alloc(&p->maps, maps, sizeof(double), "the stored attention maps", error));
  MHAS_TRY(mhas_alloc(&rows, (size_t)(count * p->width), sizeof *rows, "the features of a few samples", error));
  mhas_task task = *p->task;
  task.proceed = always_proceed;
  probe local = *p;
  local.task = &task;
  const mhas_code code = build_features(&local, 0, count, rows, &unused, error);
  mhas_free(rows);
  return code;
}

/* What is stored, and what only one member may find no room for. */
static mhas_code prepare_spread(probe *p, const mhas_weights_wish *wish, double **drawn, mhas_error *error) {
  const unsigned store = p->row->keep == NULL ? 0 : p->task->store;
  const size_t T = (size_t)p->T;
  const size_t width = (size_t)p->width;
  MHAS_TRY(mhas_source_open(&wish->source, p->task->point.random, &p->source, error));
  if (p->weights.embedding.weight != NULL) {
    MHAS_TRY(mhas_alloc(drawn, drawn_count(p, mhas_features_block(&p->shape, p->T)), sizeof **drawn,
                        "the data before the embedding", error));
  }
  if (p->row->spectrum != NULL || solver_of(p->task->point.values) == MHAS_SOLVE_SVD) {
    MHAS_TRY(mhas_alloc(&p->sigma, T < width ? T : width, sizeof(double), "the spectrum", error));
  }
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(mhas_alloc(&p->B, width * (size_t)p->outputs, sizeof(double), "the stored readout", error));
  }
  if ((store & MHAS_STORE_DATA) != 0) {
    MHAS_TRY(mhas_alloc(&p->y, T, sizeof(double), "the stored labels", error));
    mhas_data_labels(&p->data, p->task->point.random, 0, p->T, p->y);
  }
  if ((store & MHAS_STORE_ATTENTION) != 0) {
    MHAS_TRY(make_maps(p, error));
  }
  if ((store & MHAS_STORE_Z) != 0 && p->task->team.size > 1) {
    return mhas_fail(error, MHAS_LIMIT,
                     "Z is spread over %d ranks and none has it whole: leave z out of `store`, or raise "
                     "limits.memory_per_rank",
                     p->task->team.size);
  }
  return (store & MHAS_STORE_Z) != 0 ? mhas_alloc(&p->Z, T * width, sizeof(double), "the stored Z", error) : MHAS_OK;
}

static mhas_code fit_spread(probe *p, double *drawn, int64_t *saturated, mhas_error *error) {
  const mhas_value *values = p->task->point.values;
  spread_samples source = {p, drawn};
  const mhas_features_samples samples = {p->T, spread_contexts, spread_queries, &source};
  mhas_spread_probe spread = {
      .task = p->task,
      .shape = p->shape,
      .data = p->data,
      .width = p->width,
      .outputs = p->outputs,
      .solver = solver_of(values),
      .fit_tolerance = values[P_FIT_TOLERANCE].real,
      .W_Q = p->weights.W_Q,
      .W_K = p->weights.W_K,
      .compose = p->weights.compose,
      .samples = &samples,
      .sigma = p->sigma,
      .B = p->B,
      .Z = p->Z,
  };
  MHAS_TRY(mhas_probe_spread(&spread, error));
  mhas_value *result = p->row->results;
  result[R_RANK].integer = spread.ranks[0];
  result[R_RANK_1E3].integer = spread.ranks[1];
  result[R_RANK_1E6].integer = spread.ranks[2];
  result[R_RANK_1E9].integer = spread.ranks[3];
  result[R_CONDITION].real = spread.condition;
  result[R_RESIDUAL].real = spread.residual;
  result[R_MEMORIZED].integer = spread.memorized;
  *saturated = spread.saturated;
  return MHAS_OK;
}

/* Each member makes all weights, the same on all. */
static mhas_code run_spread(const mhas_task *task, mhas_row *row, mhas_error *error) {
  const mhas_weights_wish wish = wish_of(task->point.values);
  probe p = probe_of(task, row);
  double *drawn = NULL;
  int64_t saturated = 0;
  mhas_code code = mhas_team_agree(&task->team, mhas_weights_make(&wish, task, &p.weights, error), error);
  if (code == MHAS_OK) {
    code = mhas_team_agree(&task->team, prepare_spread(&p, &wish, &drawn, error), error);
  }
  if (code == MHAS_OK) {
    code = fit_spread(&p, drawn, &saturated, error);
  }
  if (code == MHAS_OK) {
    fill_theory(&p, saturated);
    code = mhas_team_agree(&task->team, keep(&p, error), error);
  }
  mhas_free(drawn);
  release(&p);
  return code;
}

/* ---- Z whole on one rank ----------------------------------------------------------------- */

static mhas_code run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  if (task->team.size > 1 || solver_of(task->point.values) != MHAS_SOLVE_SVD) {
    return run_spread(task, row, error);
  }
  const mhas_weights_wish wish = wish_of(task->point.values);
  probe p = probe_of(task, row);
  int64_t saturated = 0;
  mhas_code code = prepare(&p, &wish, error);
  if (code == MHAS_OK) {
    code = allocate(&p, error);
  }
  if (code == MHAS_OK) {
    draw_labels(&p);
    code = build_features(&p, 0, p.T, p.Z, &saturated, error);
  }
  if (code == MHAS_OK) {
    code = fit(&p, error);
  }
  if (code == MHAS_OK && wish.kind == MHAS_WEIGHTS_CONSTRUCTED) {
    code = fill_heads(&p, error);
  }
  if (code == MHAS_OK) {
    fill_theory(&p, saturated);
    code = keep(&p, error);
  }
  release(&p);
  return code;
}

/* ---- a guess at the capacity ------------------------------------------------------ */

static mhas_code feature_rows(void *context, int64_t first, int64_t count, double *rows, mhas_error *error) {
  int64_t unused = 0;
  return build_features(context, first, count, rows, &unused, error);
}

/* Weights that are the same for every T make the rows of Z the same too: labels are fitted up to the first row that is
 * a combination of those before it. */
static mhas_code guess(const mhas_task *task, int result, int64_t *samples, double *flops, mhas_error *error) {
  const mhas_weights_wish wish = wish_of(task->point.values);
  *samples = 0;
  *flops = 0.0;
  if (wish.kind == MHAS_WEIGHTS_TRAINED || (result != R_RANK && result != R_MEMORIZED && result != R_RESIDUAL)) {
    return MHAS_OK;
  }
  probe p = probe_of(task, NULL);
  mhas_code code = prepare(&p, &wish, error);
  if (code == MHAS_OK) {
    code = mhas_independent_rows(p.T, p.width, feature_rows, &p, samples, flops, error);
  }
  *flops += p.weights.flops + mhas_features_flops(&p.shape, *samples);
  release(&p);
  return code;
}

static int64_t guess_most(const mhas_value *values) {
  return values[P_WEIGHTS].integer == MHAS_WEIGHTS_TRAINED ? 0 : width_of(values);
}

static const mhas_searchable searchable = {.parameter = "samples", .guess = guess, .guess_most = guess_most};

const mhas_experiment mhas_experiment_probe = {
    .name = "probe",
    .title = "rank and least squares of attention features",
    .summary =
        "Builds the feature matrix Z (samples x heads dim) of multi-head attention with query and key weights that are "
        "random, constructed by the proof of the theorem, or trained, measures its singular values and numerical rank, "
        "and fits random labels with the best linear readout. The "
        "bounds of the theory of memorization capacity stand beside the measured rank.",
    .numerics = 2,
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
    .max_ranks = 1024,
    .team_bytes = spread_bytes,
    .searchable = &searchable,
};
