/*
 * overfit: when does attention fit noisy labels and classify well for all that?
 *
 * One head with fixed values, f(X) = nu^T X^T softmax(X W^T p), nu = (mu_+ - mu_-) / (||mu_+ - mu_-|| ||mu||), trained
 * from p = 0. Tokens are standard normal; the first of a sample carries its signal mu_y, the second rho times it, the
 * third rho times the other one. With much signal for the dimension, flipped labels are not fitted; with less, they are
 * fitted by attending to noise, while new samples are still classified by their signal, which may come later.
 * An experiment of its own, not an objective of optimize: model, data, training and results have nothing in common.
 *
 * Source: Sakamoto and Sato, "Benign Overfitting in Token Selection of Attention Mechanism", ICML 2025, arXiv
 * 2409.17625, and its public code (keitaroskmt/benign-attention, main.py).
 */
#include "experiments/overfit.h"

#include <float.h>
#include <inttypes.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/selection.h"

static const char *const weight_kinds[] = {"identity", "random", NULL};
static const char *const trained_kinds[] = {"token", "both", NULL};

static const mhas_parameter parameters[P_COUNT] = {
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "20", 1, 1 << 20, NULL, "training samples n (2409.17625: 20)"},
    [P_TEST_SAMPLES] = {"test_samples", MHAS_INTEGER, "1", "1000", 0, 1 << 20, NULL,
                        "test samples, without label noise (2409.17625: 1000); 0: no test"},
    [P_TOKENS] = {"tokens", MHAS_INTEGER, "1", "8", 3, 1 << 12, NULL, "tokens T of a sample (2409.17625: 8)"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "2000", 2, 1 << 20, NULL, "dimension d (2409.17625: 2000)"},
    [P_SIGNAL] = {"signal", MHAS_REAL, "1", "20.0", DBL_TRUE_MIN, 1e6, NULL,
                  "||mu|| of both signals, which are orthogonal (2409.17625: 20); the signal-to-noise ratio is "
                  "||mu|| / sqrt(d)"},
    [P_WEAK] = {"weak", MHAS_REAL, "1", "0.1", 0, 1e3, NULL,
                "rho: the share of the signal in the second token, and of the opposite one in the third (2409.17625: "
                "0.1)"},
    [P_LABEL_NOISE] = {"label_noise", MHAS_REAL, "1", "0.2", 0, 1, NULL,
                       "share of the training labels that are flipped, rounded up to whole samples (2409.17625: 0.2)"},
    [P_WEIGHTS] = {"weights", MHAS_CHOICE, "1", "identity", 0, 0, weight_kinds,
                   "W before the first step: identity (2409.17625's code); random: normal of variance 2 / d (Kaiming)"},
    [P_TRAINED] = {"trained", MHAS_CHOICE, "1", "token", 0, 0, trained_kinds,
                   "token: p alone (2409.17625's code); both: p and W"},
    [P_STEP_SIZE] = {"step_size", MHAS_REAL, "1", "0.005", DBL_TRUE_MIN, 1e12, NULL,
                     "of gradient descent on all samples (2409.17625: 0.005)"},
    [P_STEPS] = {"steps", MHAS_INTEGER, "1", "1000", 1, 1 << 30, NULL, "steps (2409.17625: 1000)"},
    [P_LOG_EVERY] = {"log_every", MHAS_INTEGER, "1", "= ceil(steps / 100)", 1, 1 << 30, NULL,
                     "steps from one entry of the curves to the next"},
    [P_ERROR_LOW] = {"error_low", MHAS_REAL, "1", "0.05", 0, 1, NULL, "test error up to which a model generalizes"},
};

static const mhas_result results[R_COUNT] = {
    [R_TEST_ERROR] = {"test_error", MHAS_REAL, "1", "share of the test samples that is classified wrong"},
    [R_TRAIN_ERROR] = {"train_error", MHAS_REAL, "1",
                       "share of the training samples that is not classified by its label"},
    [R_ERROR_FLIPPED] = {"error_flipped", MHAS_REAL, "1",
                         "the same of those whose labels were flipped; 0: all are memorized"},
    [R_ERROR_CLEAN] = {"error_clean", MHAS_REAL, "1", "the same of those whose labels were not flipped"},
    [R_BENIGN] = {"benign", MHAS_FLAG, "1", "no training error, and a test error of at most error_low"},
    [R_FIT_STEP] = {"fit_step", MHAS_INTEGER, "1", "the first logged step from which on there is no training error"},
    [R_GENERALIZE_STEP] = {"generalize_step", MHAS_INTEGER, "1",
                           "the first logged step from which on the test error is at most error_low"},
    [R_DELAY] = {"delay", MHAS_REAL, "1", "generalize_step - fit_step, where there are both"},
    [R_SNR] = {"snr", MHAS_REAL, "1", "||mu|| / sqrt(d)"},
    [R_TRAIN_LOSS] = {"train_loss", MHAS_REAL, "1", "mean logistic loss of the training samples after the last step"},
    [R_TEST_LOSS] = {"test_loss", MHAS_REAL, "1", "mean logistic loss of the test samples"},
    [R_ATTENTION_CLEAN] = {"attention_clean", MHAS_REAL, "1",
                           "mean weight of the first token, which has the signal, over samples that were not flipped"},
    [R_ATTENTION_FLIPPED] = {"attention_flipped", MHAS_REAL, "1", "the same over samples that were flipped"},
    [R_ALIGNMENT_PLUS] = {"alignment_plus", MHAS_REAL, "1", "cosine between W^T p and mu_+"},
    [R_ALIGNMENT_MINUS] = {"alignment_minus", MHAS_REAL, "1", "cosine between W^T p and mu_-"},
};

static const mhas_curve curves[C_COUNT] = {
    [C_STEP] = {"step", "1", "steps done"},
    [C_TRAIN_LOSS] = {"train_loss", "1", "mean logistic loss of the training samples"},
    [C_TRAIN_ERROR] = {"train_error", "1", "share of them that is not classified by its label"},
    [C_TEST_LOSS] = {"test_loss", "1", "mean logistic loss of the test samples"},
    [C_TEST_ERROR] = {"test_error", "1", "share of the test samples that is classified wrong"},
    [C_ATTENTION_CLEAN] = {"attention_clean", "1", "mean weight of the signal over samples with their own labels"},
    [C_ATTENTION_FLIPPED] = {"attention_flipped", "1", "mean weight of the signal over samples with flipped labels"},
};

/* ---- checks and costs --------------------------------------------------------------------------- */

bool overfit_has_weights(const mhas_value *values) {
  return values[P_WEIGHTS].integer == WEIGHTS_RANDOM || values[P_TRAINED].integer == TRAINED_BOTH;
}

static double numbers_of(const mhas_value *values, int samples) {
  return (double)values[samples].integer * (double)values[P_TOKENS].integer * (double)values[P_DIM].integer;
}

double overfit_flops(const mhas_value *values, double steps, double records) {
  const double d = (double)values[P_DIM].integer;
  const double weights =
      overfit_has_weights(values) ? (values[P_TRAINED].integer == TRAINED_BOTH ? 6.0 : 4.0) * d * d : 0.0;
  return (steps + 1.0) * (4.0 * numbers_of(values, P_SAMPLES) + weights) +
         records * 2.0 * numbers_of(values, P_TEST_SAMPLES);
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const double d = (double)values[P_DIM].integer;
  MHAS_TRY(mhas_check_numbers("training samples", numbers_of(values, P_SAMPLES), error));
  MHAS_TRY(mhas_check_numbers("test samples", numbers_of(values, P_TEST_SAMPLES), error));
  MHAS_TRY(mhas_check_numbers("weights", overfit_has_weights(values) ? d * d : d, error));
  const int64_t most = INT32_MAX / values[P_TOKENS].integer;
  if (values[P_SAMPLES].integer > most || values[P_TEST_SAMPLES].integer > most) {
    return mhas_fail(error, MHAS_USAGE, "tokens = %" PRId64 " allows %" PRId64 " samples at most",
                     values[P_TOKENS].integer, most);
  }
  return MHAS_OK;
}

static mhas_cost cost(const mhas_value *values) {
  const double d = (double)values[P_DIM].integer;
  const double samples = (double)(values[P_SAMPLES].integer + values[P_TEST_SAMPLES].integer);
  const int64_t records = mhas_selection_records(values[P_STEPS].integer, values[P_LOG_EVERY].integer);
  return (mhas_cost){.flops = overfit_flops(values, (double)values[P_STEPS].integer, (double)records),
                     .bytes = sizeof(double) * (samples * (double)values[P_TOKENS].integer * (d + 4.0) + 4.0 * d +
                                                (overfit_has_weights(values) ? d * d : 0.0)),
                     .records = records,
                     .parameters = d + (values[P_TRAINED].integer == TRAINED_BOTH ? d * d : 0.0)};
}

const mhas_experiment mhas_experiment_overfit = {
    .name = "overfit",
    .title = "attention that fits noisy labels and classifies well for all that, over the signal-to-noise ratio",
    .summary =
        "Trains the query of one attention head with fixed values on samples with a signal in one token and some "
        "flipped labels, and tells whether the flipped ones are fitted, whether new samples are classified right, and "
        "when either came.",
    .numerics = 1,
    .parameters = parameters,
    .parameter_count = P_COUNT,
    .results = results,
    .result_count = R_COUNT,
    .curves = curves,
    .curve_count = C_COUNT,
    .check = check,
    .cost = cost,
    .run = overfit_run,
};
