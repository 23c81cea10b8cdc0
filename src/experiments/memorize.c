/*
 * memorize: how many random labels does a trained attention layer memorize?
 *
 * The model and the recipe of Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in
 * Transformers", ICLR 2024, arXiv 2306.02010, and of its public code; every constant of the recipe is a parameter whose
 * default is the paper's value.
 */
#include <float.h>
#include <math.h>

#include "experiments/all.h"

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

/* Placeholder for the room's author. */
const mhas_experiment mhas_experiment_memorize = {
    .name = "memorize",
    .title = "training a one-layer attention model on random labels",
    .summary =
        "Trains the model of the memorization paper (linear embedding, sinusoidal positions, one attention layer for "
        "one "
        "query, linear decoder) with its recipe (Adam, warm-up and cosine, best model kept, early stop) on random data "
        "and "
        "reports how much of it is memorized.",
    .numerics = 1,
    .parameters = parameters,
    .parameter_count = P_COUNT,
    .results = results,
    .result_count = R_COUNT,
    .curves = curves,
    .curve_count = C_COUNT,
};
