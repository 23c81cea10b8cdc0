/*
 * probe: how many samples can random attention and a linear readout memorize?
 *
 * Source: Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers", ICLR 2024,
 * arXiv 2306.02010. The features of sample t are the concatenated z_h(t) = E(t)^T softmax(E(t) W_K,h W_Q,h^T e(t)); Z
 * has one row per sample.
 */
#include <float.h>
#include <math.h>

#include "experiments/all.h"

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

/* Placeholder for the room's author. */
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
};
