/*
 * optimize: does gradient descent on multi-head self-attention train and generalize as theory says?
 *
 * Model, data and initialisation of Deora, Ghaderi, Taheri, Thrampoulidis, "On the Optimization and Generalization of
 * Multi-head Attention", TMLR 2024, arXiv 2310.12680; no code by its authors is public. Bounds and closed forms are
 * derived for this program, in the style of the paper: constants are their own.
 */
#include "experiments/optimize.h"

#include <float.h>
#include <math.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/from_source.h"

/* Words in the order of the enums of optimize.h. */
static const char *const data_kinds[] = {"dm1", "planted", "patches", "tokens", NULL};
static const char *const mixings[] = {"random", "even", NULL};
static const char *const inits[] = {"zero", "one_step", "gaussian", "planted", NULL};
static const char *const step_rules[] = {"constant", "sqrt_heads", "normalised", "polyak", NULL};
static const char *const eigenvalue_times[] = {"never", "end", "logged", NULL};
static const char *const theory_times[] = {"none", "init", "ends", NULL};

static const mhas_parameter parameters[P_COUNT] = {
    [P_HEADS] = {"heads", MHAS_INTEGER, "1", "8", 1, 1 << 20, NULL, "attention heads H"},
    [P_TOKENS] = {"tokens", MHAS_INTEGER, "1", "10", 1, 1 << 16, NULL, "tokens T of a sample"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "20", 1, 1 << 16, NULL, "dimension d of a token"},
    [P_KEY_DIM] = {"key_dim", MHAS_INTEGER, "1", "0", 0, 1 << 16, NULL,
                   "0: W_h is trained as it is, as in the paper; else W_h = W_Q W_K^T / sqrt(key_dim), and both are; "
                   "W_K is drawn then whatever init says, for from zero nothing would move"},
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "100", 1, 1 << 30, NULL, "training samples n"},
    [P_TEST_SAMPLES] = {"test_samples", MHAS_INTEGER, "1", "300", 0, 1 << 30, NULL,
                        "test samples, without label noise; 0: no test"},
    [P_DATA] = {"data", MHAS_CHOICE, "1", "dm1", 0, 0, data_kinds,
                "dm1: the paper's tokenized mixture; planted: Gaussian tokens, labels of a planted model; patches: of "
                "the images of an IDX file, behind a [CLS] row; tokens: of an .npy or HDF5 file"},
    [P_RELEVANT] = {"relevant", MHAS_REAL, "1", "0.1", DBL_TRUE_MIN, 1, NULL,
                    "share zeta of the tokens that carry the label (data: dm1); zeta T is rounded, to at least 1"},
    [P_SIGNAL] = {"signal", MHAS_REAL, "1", "2.0", DBL_TRUE_MIN, 1e6, NULL,
                  "norm S of the relevant tokens and of the prototypes (data: dm1), and root of the mean square of "
                  "that of Gaussian tokens (data: planted)"},
    [P_PROTOTYPES] = {"prototypes", MHAS_INTEGER, "1", "4", 1, 1 << 16, NULL,
                      "prototypes M of the irrelevant tokens (data: dm1); 2 + M <= dim"},
    [P_NOISE] = {"noise", MHAS_REAL, "1", "0.1", 0, 1e6, NULL,
                 "deviation sigma of the normal numbers added to the irrelevant tokens (data: dm1)"},
    [P_MIXING] = {"mixing", MHAS_CHOICE, "1", "random", 0, 0, mixings,
                  "labels and prototypes (data: dm1): drawn, or dealt out in turns, as closed forms suppose"},
    [P_PLANTED_HEADS] = {"planted_heads", MHAS_INTEGER, "1", "1", 1, 1 << 20, NULL,
                         "heads of the planted model (data: planted)"},
    [P_PLANTED_LOGIT] = {"planted_logit", MHAS_REAL, "1", "3.0", 0, 1e6, NULL,
                         "deviation of the planted model's logits (data: planted)"},
    [P_PLANTED_MARGIN] = {"planted_margin", MHAS_REAL, "1", "0.0", 0, 1e6, NULL,
                          "the least |Phi| of the planted model on a sample (data: planted)"},
    [P_LABEL_NOISE] = {"label_noise", MHAS_REAL, "1", "0.0", 0, 1, NULL,
                       "chance of each training label to be flipped, and of those that init: one_step takes"},
    [P_PATH] = {"path", MHAS_TEXT, "1", "", 0, 0, NULL,
                "of the file (data: patches | tokens), from the folder where the sweep is run"},
    [P_LABELS_PATH] = {"labels_path", MHAS_TEXT, "1", "", 0, 0, NULL,
                       "of the file of its labels (data: patches | tokens): one number a sample, as IDX, .npy, or HDF5 "
                       "with a dataset `labels`"},
    [P_PATCH] = {"patch", MHAS_INTEGER, "1", "7", 1, 1 << 12, NULL, "side of a patch (data: patches), in pixels"},
    [P_POSITIONS] = {"positions", MHAS_CHOICE, "1", "random", 0, 0, source_positions,
                     "of the rows (data: patches): normal, of deviation 0.02; or sinusoidal"},
    [P_CLASS_PLUS] = {"class_plus", MHAS_INTEGER, "1", "1", -(1 << 30), 1 << 30, NULL,
                      "the label that becomes +1 (data: patches | tokens)"},
    [P_CLASS_MINUS] = {"class_minus", MHAS_INTEGER, "1", "0", -(1 << 30), 1 << 30, NULL,
                       "the label that becomes -1 (data: patches | tokens); samples with others are left out"},
    [P_INIT] =
        {"init", MHAS_CHOICE, "1", "one_step", 0, 0, inits,
         "zero; one_step: a step of random sign from zero on fresh samples, as in the paper; gaussian: U_h of "
         "norm init_scale, W_h normal of deviation init_scale / d; planted: the planted model, or dm1's optimum"},
    [P_INIT_SCALE] = {"init_scale", MHAS_REAL, "1", "0.3", DBL_TRUE_MIN, 1e6, NULL,
                      "alpha: length of the step (init: one_step), scale of the weights (gaussian), norm of each U_h "
                      "(planted in dm1)"},
    [P_INIT_SAMPLES] = {"init_samples", MHAS_INTEGER, "1", "= samples", 1, 1 << 30, NULL,
                        "fresh samples n_1 of the step (init: one_step)"},
    [P_INIT_LOGIT] = {"init_logit", MHAS_REAL, "1", "5.0", 0, 1e6, NULL,
                      "logit on relevant tokens (init: planted in dm1)"},
    [P_RANDOM_SIGNS] = {"random_signs", MHAS_FLAG, "1", "true", 0, 1, NULL,
                        "each head's step has a random sign (init: one_step); false: all the same"},
    [P_COLLAPSE] = {"collapse", MHAS_FLAG, "1", "true", 0, 1, NULL,
                    "heads that start equal stay so, and are computed once for all (init: zero, or one_step without "
                    "random signs); false: each by itself, with the same results to rounding"},
    [P_STEP_RULE] = {"step_rule", MHAS_CHOICE, "1", "constant", 0, 0, step_rules,
                     "step_size eta times the gradient; eta sqrt(H); eta / ||gradient||; eta loss / ||gradient||^2"},
    [P_STEP_SIZE] = {"step_size", MHAS_REAL, "1", "1.0", DBL_TRUE_MIN, 1e12, NULL,
                     "eta of step_rule; a training loss of 1e6 counts as diverged"},
    [P_STEPS] = {"steps", MHAS_INTEGER, "1", "200", 0, 1 << 30, NULL, "steps K of gradient descent"},
    [P_LOG_EVERY] = {"log_every", MHAS_INTEGER, "1", "0", 0, 1 << 30, NULL,
                     "steps from one entry of the curves to the next; 0: log_points of them"},
    [P_LOG_POINTS] = {"log_points", MHAS_INTEGER, "1", "20", 1, 1 << 20, NULL,
                      "entries of the curves (log_every: 0), evenly spaced in log(step); fewer where steps coincide; "
                      "and one for step 0"},
    [P_EIGENVALUES] = {"eigenvalues", MHAS_CHOICE, "1", "never", 0, 0, eigenvalue_times,
                       "of the loss's Hessian: when to compute the outermost ones"},
    [P_EIGEN_TOLERANCE] = {"eigen_tolerance", MHAS_REAL, "1", "1e-8", 1e-15, 0.1, NULL,
                           "tolerance of an eigenvalue, relative to the largest"},
    [P_EIGEN_PRODUCTS] = {"eigen_products", MHAS_INTEGER, "1", "5000", 1, 1 << 30, NULL,
                          "Hessian products for one eigenvalue, at most"},
    [P_STABILITY_SAMPLES] = {"stability_samples", MHAS_INTEGER, "1", "0", 0, 1 << 30, NULL,
                             "samples that are left out in turn, a training each; all if there are no more"},
    [P_THEORY] = {"theory", MHAS_CHOICE, "1", "init", 0, 0, theory_times,
                  "when the tangent kernel, margins and what follows from them are computed"},
    [P_TARGET_LOSS] = {"target_loss", MHAS_REAL, "1", "= 1 / max(steps, 2)", DBL_TRUE_MIN, 0.99, NULL,
                       "epsilon of realizability: the loss that theta_0 + lambda theta_star is to have"},
    [P_ATTENTION_SAMPLES] = {"attention_samples", MHAS_INTEGER, "1", "16", 1, 1 << 30, NULL,
                             "samples whose attention maps are stored (store: [attention])"},
};

static const mhas_result results[R_COUNT] = {
    [R_TRAIN_LOSS] = {"train_loss", MHAS_REAL, "1", "mean logistic loss of the training samples after the last step"},
    [R_TRAIN_ERROR] = {"train_error", MHAS_REAL, "1",
                       "share of them that is classified wrong, by the labels trained on"},
    [R_TRAIN_ERROR_CLEAN] = {"train_error_clean", MHAS_REAL, "1", "the same by the labels before label_noise"},
    [R_TEST_LOSS] = {"test_loss", MHAS_REAL, "1", "mean logistic loss of the test samples"},
    [R_TEST_ERROR] = {"test_error", MHAS_REAL, "1", "share of the test samples that is classified wrong"},
    [R_GAP] = {"gap", MHAS_REAL, "1", "test_loss - train_loss"},
    [R_MEAN_LOSS] = {"mean_loss", MHAS_REAL, "1", "(1/K) sum over k = 1 .. K of the training loss after step k"},
    [R_LOSS_SUM] = {"loss_sum", MHAS_REAL, "1", "sum over k < K of the training loss before step k + 1"},
    [R_MONOTONE] = {"monotone", MHAS_FLAG, "1", "the training loss never rose"},
    [R_STEPS_RUN] = {"steps_run", MHAS_INTEGER, "1", "steps done"},
    [R_PARAMETERS] = {"parameters", MHAS_INTEGER, "1", "trainable numbers of the model"},
    [R_DISTANCE] = {"distance", MHAS_REAL, "1", "||theta_K - theta_0||"},
    [R_GRADIENT_NORM] = {"gradient_norm", MHAS_REAL, "1", "||gradient|| after the last step"},
    [R_ATTENTION_MASS] = {"attention_mass", MHAS_REAL, "1",
                          "attention on the relevant tokens of the training samples (data: dm1), mean over samples, "
                          "heads and queries"},
    [R_HEAD_SPREAD] =
        {"head_spread", MHAS_REAL, "1",
         "root of the mean over heads of ||theta_h - mean theta||^2 by that of ||theta_h||^2; 0: all equal"},
    [R_OUTPUT_AT_INIT] = {"output_at_init", MHAS_REAL, "1", "B_Phi: the largest |Phi| of a training sample at theta_0"},
    [R_SELF_BOUND] = {"self_bound", MHAS_REAL, "1",
                      "the largest ||gradient|| / (b1 loss) of a logged step; at most 1 (derived; key_dim: 0)"},
    [R_LAMBDA_MIN] = {"lambda_min", MHAS_REAL, "1", "smallest eigenvalue of the loss's Hessian after the last step"},
    [R_LAMBDA_MIN_RESIDUAL] = {"lambda_min_residual", MHAS_REAL, "1",
                               "||Hessian v - lambda_min v||: an eigenvalue is that near"},
    [R_LAMBDA_BLOCKS] = {"lambda_blocks", MHAS_REAL, "1",
                         "smallest eigenvalue of the Hessian's part that is block-diagonal over heads, block by block: "
                         "a lower bound of lambda_min"},
    [R_LAMBDA_MAX] = {"lambda_max", MHAS_REAL, "1", "largest eigenvalue of the Hessian after the last step"},
    [R_LAMBDA_MAX_RESIDUAL] = {"lambda_max_residual", MHAS_REAL, "1", "||Hessian v - lambda_max v||"},
    [R_WEAK_CONVEXITY] = {"weak_convexity", MHAS_REAL, "1",
                          "the largest -lambda_min / (kappa loss) of a logged step; at most 1 (derived; key_dim: 0)"},
    [R_CURVATURE_RATIO] = {"curvature_ratio", MHAS_REAL, "1", "the largest -lambda_min / loss of a logged step"},
    [R_SMOOTHNESS] = {"smoothness", MHAS_REAL, "1",
                      "the largest lambda_max / (b1^2 / 4 + kappa min(1, loss)) of a logged step; at most 1 (derived; "
                      "key_dim: 0)"},
    [R_STABILITY] = {"stability", MHAS_REAL, "1",
                     "mean over samples left out of the distance of theta_K from that of the training without it"},
    [R_STABILITY_BOUND] = {"stability_bound", MHAS_REAL, "1",
                           "(eta G / n) sum over k < K of the training loss, G the largest b1 of a logged step: bounds "
                           "stability up to a factor e^c (derived; constant steps, key_dim: 0)"},
    [R_STABILITY_WORST] = {"stability_worst", MHAS_REAL, "1",
                           "the largest distance by (eta G / n) sum of the losses of the sample left out"},
    [R_OUTPUT_DEVIATION] = {"output_deviation", MHAS_REAL, "1",
                            "alpha T max_i |<xbar_i, utilde>|: what output_at_init is of the order of with random "
                            "signs, and sqrt(H) times as large without (derived; init: one_step)"},
    [R_SEPARABLE] = {"separable", MHAS_FLAG, "1",
                     "margin is above rounding; else there is no theta_star, and what it takes is left out"},
    [R_MARGIN] = {"margin", MHAS_REAL, "1",
                  "margin gamma of the tangent features at theta_0, ||theta_star|| = 1: certified from below"},
    [R_MARGIN_UPPER] = {"margin_upper", MHAS_REAL, "1", "the same, certified from above"},
    [R_MARGIN_U] = {"margin_u", MHAS_REAL, "1", "margin of U's tangent features alone, from below"},
    [R_MARGIN_W] = {"margin_w", MHAS_REAL, "1", "margin of W's tangent features alone, from below"},
    [R_MARGIN_LINEAR] = {"margin_linear", MHAS_REAL, "1",
                         "gamma_lin = m S sqrt(T / 2), m the attention on relevant tokens: zeta, or with init: planted "
                         "zeta / (zeta + (1 - zeta) exp(-init_logit)); margin_u without noise (derived; data: dm1)"},
    [R_MARGIN_ATTENTION] = {"margin_attention", MHAS_REAL, "1",
                            "gamma_attn = alpha T zeta^2 (1 - zeta) S^4 / (2 sqrt(2 (M + 1))): margin of the paper's "
                            "direction in W without noise (derived; data: dm1; init: zero, one_step)"},
    [R_MARGIN_W_CLOSED] = {"margin_w_closed", MHAS_REAL, "1",
                           "closed form of margin_w without noise; margin is sqrt(margin_linear^2 + margin_w_closed^2) "
                           "(derived; mixing: even, the irrelevant tokens a multiple of prototypes)"},
    [R_DIRECTION_U] = {"direction_u", MHAS_REAL, "1",
                       "margin of the paper's direction in U (data: dm1; init: one_step): margin_linear without noise"},
    [R_DIRECTION_W] = {"direction_w", MHAS_REAL, "1",
                       "margin of the paper's direction in W: margin_attention without noise"},
    [R_NTK_LEAST] = {"ntk_least", MHAS_REAL, "1", "smallest eigenvalue of the tangent kernel's Gram matrix at theta_0"},
    [R_REALIZED] = {"realized", MHAS_FLAG, "1",
                    "realized_loss is at most target_loss, as realizability says (derived)"},
    [R_REALIZED_LOSS] = {"realized_loss", MHAS_REAL, "1", "loss at theta = theta_0 + D theta_star"},
    [R_REALIZED_DISTANCE] = {"realized_distance", MHAS_REAL, "1",
                             "D = lambda = (B_Phi + max(B_Phi, 1) + log(1 / target_loss)) / margin (derived)"},
    [R_CONDITION_RATIO] = {"condition_ratio", MHAS_REAL, "1",
                           "kappa D^2 / 0.095 of the training theorem (derived): at most 1 where it applies"},
    [R_STEP_RATIO] = {"step_ratio", MHAS_REAL, "1",
                      "step by the largest that the training theorem (derived) allows: at most 1 where it applies"},
    [R_MARGIN_END] = {"margin_end", MHAS_REAL, "1", "margin at theta_K, from below (theory: ends)"},
    [R_MARGIN_END_UPPER] = {"margin_end_upper", MHAS_REAL, "1", "margin at theta_K, from above (theory: ends)"},
    [R_NTK_LEAST_END] = {"ntk_least_end", MHAS_REAL, "1", "ntk_least at theta_K (theory: ends)"},
    [R_CONDITION_MEASURED] = {"condition_measured", MHAS_REAL, "1",
                              "condition_ratio with curvature_ratio, as measured along the path, for kappa (derived)"},
    [R_TRAINING_RATIO] = {"training_ratio", MHAS_REAL, "1",
                          "mean_loss by 1.5 realized_loss + 0.875 D^2 / (eta K): the theorem says at most 1 (derived)"},
    [R_LOCAL_RATIO] = {"local_ratio", MHAS_REAL, "1",
                       "the largest ||theta_k - theta|| of a logged step by 2 D: the theorem says at most 1 (derived)"},
    [R_CONCLUSIONS] =
        {"conclusions", MHAS_FLAG, "1",
         "monotone, training_ratio <= 1 and local_ratio <= 1, whether the theorem's conditions are met or "
         "not"},
    [R_LOCALITY] = {"locality", MHAS_REAL, "1", "distance margin / log K: of order 1 (derived)"},
    [R_GAP_BOUND] = {"gap_bound", MHAS_REAL, "1", "2 G stability: bounds the expected gap (derived)"},
    [R_GAP_BOUND_LOSSES] = {"gap_bound_losses", MHAS_REAL, "1",
                            "(2 eta G^2 / n) loss_sum: bounds it up to a factor e^c (derived)"},
};

static const mhas_curve curves[C_COUNT] = {
    [C_STEP] = {"step", "1", "steps done"},
    [C_TRAIN_LOSS] = {"train_loss", "1", "mean logistic loss of the training samples"},
    [C_TEST_LOSS] = {"test_loss", "1", "mean logistic loss of the test samples"},
    [C_TRAIN_ERROR] = {"train_error", "1", "share of the training samples that is classified wrong"},
    [C_TEST_ERROR] = {"test_error", "1", "share of the test samples that is classified wrong"},
    [C_DISTANCE] = {"distance", "1", "||theta_k - theta_0||"},
    [C_GRADIENT_NORM] = {"gradient_norm", "1", "||gradient||"},
    [C_GRADIENT_RATIO] = {"gradient_ratio", "1", "||gradient|| / (b1 loss)"},
    [C_LAMBDA_MIN] = {"lambda_min", "1", "smallest eigenvalue of the loss's Hessian"},
    [C_LAMBDA_MAX] = {"lambda_max", "1", "largest eigenvalue of the loss's Hessian"},
    [C_LAMBDA_BLOCKS] = {"lambda_blocks", "1", "smallest eigenvalue of its block-diagonal part"},
    [C_CURVATURE_RATIO] = {"curvature_ratio", "1", "-lambda_min / (kappa loss)"},
    [C_ATTENTION_MASS] = {"attention_mass", "1", "attention on the relevant tokens"},
    [C_HEAD_SPREAD] = {"head_spread", "1", "spread of the heads, relative to their size"},
};

/* ---- rules ------------------------------------------------------------------------ */

static mhas_code check_planted_init(const mhas_value *values, mhas_error *error) {
  const int64_t H = values[P_HEADS].integer;
  const int64_t planted = values[P_PLANTED_HEADS].integer;
  if (values[P_DATA].integer >= OPTIMIZE_PATCHES) {
    return mhas_fail(error, MHAS_USAGE, "init: planted needs data that something is planted in: dm1 or planted");
  }
  if (values[P_KEY_DIM].integer > 0) {
    return mhas_fail(error, MHAS_USAGE, "init: planted is for W as a matrix of its own: key_dim: 0");
  }
  if (values[P_DATA].integer == OPTIMIZE_PLANTED && H % planted != 0) {
    return mhas_fail(error, MHAS_USAGE,
                     "init: planted, and heads = %lld is no multiple of planted_heads = %lld: the model cannot be the "
                     "planted one",
                     (long long)H, (long long)planted);
  }
  return MHAS_OK;
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_selfattention_shape shape = mhas_optimize_shape(values, values[P_SAMPLES].integer);
  const double T = (double)shape.tokens;
  const double d = (double)shape.dim;
  const int64_t M = values[P_PROTOTYPES].integer;
  if (mhas_selfattention_check(&shape, error) != MHAS_OK) {
    return mhas_as_usage(error);
  }
  MHAS_TRY(mhas_check_numbers("samples", (double)shape.samples * T * d, error));
  MHAS_TRY(mhas_check_numbers("test_samples", (double)values[P_TEST_SAMPLES].integer * T * d, error));
  MHAS_TRY(
      mhas_check_numbers("weights", (double)shape.heads * (T * d + d * fmax(d, 2.0 * (double)shape.key_dim)), error));
  if (values[P_DATA].integer == OPTIMIZE_DM1 && 2 + M > shape.dim) {
    return mhas_fail(error, MHAS_USAGE,
                     "prototypes = %lld and two signals cannot be orthogonal in dim = %lld; dim has to be %lld or more",
                     (long long)M, (long long)shape.dim, (long long)(M + 2));
  }
  if (values[P_INIT].integer == OPTIMIZE_INIT_PLANTED) {
    MHAS_TRY(check_planted_init(values, error));
  }
  return mhas_optimize_check_files(values, error);
}

enum { RANKS_MOST = 256 }; /* of a point; there are never more than heads */

static const mhas_searchable searchable = {.parameter = "samples"};

const mhas_experiment mhas_experiment_optimize = {
    .name = "optimize",
    .title = "gradient descent on multi-head self-attention, against the theory of its optimization",
    .summary =
        "Trains one layer of multi-head self-attention with a scalar output by full-batch gradient descent on the "
        "logistic loss, on a tokenized mixture, a planted model or a file's tokens, and measures what the theory of "
        "its "
        "optimization and generalization speaks of: losses, curvature, distances, stability, margins.",
    .numerics = 1,
    .parameters = parameters,
    .parameter_count = P_COUNT,
    .results = results,
    .result_count = R_COUNT,
    .curves = curves,
    .curve_count = C_COUNT,
    .check = check,
    .inspect = mhas_optimize_inspect_files,
    .cost = mhas_optimize_cost,
    .arrays = mhas_optimize_arrays,
    .run = mhas_optimize_run,
    .max_ranks = RANKS_MOST,
    .team_bytes = mhas_optimize_team_bytes,
    .searchable = &searchable,
};
