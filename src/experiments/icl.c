/*
 * icl: how does an MLP under linear attention learn features in context, where does its training stall, and what do
 * birth-death and perturbation do about it?
 *
 * Source: Kim, Suzuki, "Transformers Learn Nonlinear Features In Context: Nonconvex Mean-field Dynamics on the
 * Attention Landscape", ICML 2024, arXiv 2402.01258. The mathematics and what of it is derived here stand in
 * meanfield.h. The paper's learning rates, teacher, initial law and schedule of perturbations are not public: the
 * defaults are ours. Perturbation by the integral Hessian: Kawata et al. and Yamamoto, Kim, Suzuki, arXiv 2509.16974.
 */
#include "experiments/icl.h"

#include <float.h>
#include <inttypes.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/recipe.h"

static const char *const models[] = {"attention", "static", "modified", NULL};
static const char *const teachers[] = {"single_index", "random_network", "mean_field", NULL};
static const char *const activations[] = {"sigmoid", "tanh", "relu", NULL};
static const char *const perturbations[] = {"none", "isotropic", "hessian", NULL};
static const char *const tasks[] = {"standard", "rank_deficient", "symmetric", NULL};
static const char *const samplings[] = {"fresh", "pool", "prompts", NULL};
static const char *const triggers[] = {"gradient", "periodic", "once", NULL};
static const char *const attention_starts[] = {"small", "optimal", NULL};

static const mhas_parameter parameters[P_COUNT] = {
    [P_MODEL] =
        {"model", MHAS_CHOICE, "1", "static", 0, 0, models,
         "attention: features mu and attention W descend L_TF together; static: mu descends L(mu) = min_W L_TF; "
         "modified: static with birth_death and perturbation, which the others do without"},
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "20", 1, 1 << 16, NULL, "dimension d of tokens, which are N(0, I_d)"},
    [P_FEATURES] = {"features", MHAS_INTEGER, "1", "5", 1, 64, NULL, "outputs k of the MLP"},
    [P_TRUE_FEATURES] = {"true_features", MHAS_INTEGER, "1", "= features", 1, 20, NULL,
                         "features k0 of the teacher; more than k: misspecified"},
    [P_NEURONS] = {"neurons", MHAS_INTEGER, "1", "500", 1, 1 << 20, NULL, "neurons M of the MLP"},
    [P_TOKENS] = {"tokens", MHAS_INTEGER, "1", "1000", 1, 1 << 24, NULL,
                  "tokens N of a step (fresh), of the pool (pool), or pairs n in a prompt (prompts)"},
    [P_PROMPTS] = {"prompts", MHAS_INTEGER, "1", "10000", 1, 1LL << 40, NULL,
                   "different prompts there are (sampling: prompts), met in order and then again; else only for the "
                   "default of steps"},
    [P_STEP_SIZE] = {"step_size", MHAS_REAL, "1", "1.0", 0, 1e12, NULL,
                     "time of a step of the mean-field flow: what a particle moves by its velocity, M times the plain "
                     "gradient; 0: mu stays as it starts"},
    [P_ATTENTION_STEP_RATIO] = {"attention_step_ratio", MHAS_REAL, "1", "5.0", 0, 1e6, NULL,
                                "steps of W for each step of mu (model: attention)"},
    [P_TEACHER] = {"teacher", MHAS_CHOICE, "1", "single_index", 0, 0, teachers,
                   "single_index: sigmoid(teacher_gain u_j x), u_j orthonormal; random_network: (sigmoid(W x) - 1/2) A "
                   "/ sqrt(teacher_neurons); mean_field: sigmoid(W x) A / sqrt(teacher_neurons); A, W of N(0, 1)"},
    [P_INIT_SCALE] = {"init_scale", MHAS_REAL, "1", "5.0", DBL_TRUE_MIN, 1e12, NULL,
                      "the initial law is a of N(0, init_scale^2), w of N(0, 1); the smaller, the stiffer: between 1 "
                      "and sqrt(neurons) is sensible"},
    [P_ACTIVATION] = {"activation", MHAS_CHOICE, "1", "sigmoid", 0, 0, activations,
                      "of the MLP's neurons; the teacher's are sigmoids"},
    [P_BIRTH_DEATH] = {"birth_death", MHAS_REAL, "1", "1.0e-4", 0, 1e12, NULL,
                       "rate gamma at which each neuron is redrawn from the initial law, per unit of time: with "
                       "probability gamma step_size in a step (model: modified)"},
    [P_PERTURBATION] = {"perturbation", MHAS_CHOICE, "1", "hessian", 0, 0, perturbations,
                        "noise of a jump: isotropic, or hessian: a Gaussian process with the squared integral Hessian "
                        "as covariance (model: modified)"},
    [P_PERTURBATION_SIZE] = {"perturbation_size", MHAS_REAL, "1", "0.01", 0, 1e6, NULL,
                             "root mean square eta of what a jump adds to the numbers of a neuron"},
    [P_PERTURB_EVERY] = {"perturb_every", MHAS_INTEGER, "1", "100", 1, 1LL << 40, NULL,
                         "least number of steps between jumps; the period with trigger: periodic"},
    [P_TASK] =
        {"task", MHAS_CHOICE, "1", "standard", 0, 0, tasks,
         "standard; rank_deficient: the start has a_k = 0 for all neurons; symmetric: the last feature is odd in "
         "x_d, tokens come in pairs mirrored in x_d, and the start does not see x_d: a saddle"},
    [P_STEPS] = {"steps", MHAS_INTEGER, "1", "= floor((prompts - 1) / prompt_batch) + 1", 1, 1LL << 40, NULL,
                 "steps of mu"},
    [P_SAMPLING] =
        {"sampling", MHAS_CHOICE, "1", "fresh", 0, 0, samplings,
         "fresh: new tokens in every step, all tasks v at once; pool: the same tokens in every step; prompts: "
         "sampled prompts, each with a task v of its own, and queries"},
    [P_PROMPT_BATCH] = {"prompt_batch", MHAS_INTEGER, "1", "1", 1, 1 << 20, NULL,
                        "prompts in a step (sampling: prompts)"},
    [P_QUERIES] = {"queries", MHAS_INTEGER, "1", "1", 1, 1 << 20, NULL, "queries to each prompt (sampling: prompts)"},
    [P_BIAS] = {"bias", MHAS_FLAG, "1", "false", 0, 1, NULL, "neurons see a constant 1 behind the token"},
    [P_PRECISION] = {"precision", MHAS_CHOICE, "1", "float64", 0, 0, mhas_precision_names,
                     "of the work on tokens x neurons; the weights and the k x k algebra are float64"},
    [P_TEACHER_GAIN] = {"teacher_gain", MHAS_REAL, "1", "2.0", -1e6, 1e6, NULL,
                        "slope of the teacher's sigmoids (teacher: single_index; the odd feature of task: symmetric)"},
    [P_TEACHER_NEURONS] = {"teacher_neurons", MHAS_INTEGER, "1", "= teacher == mean_field ? 500 : 20", 1, 1 << 20, NULL,
                           "neurons of the teacher (random_network, mean_field)"},
    [P_TRIGGER] = {"trigger", MHAS_CHOICE, "1", "gradient", 0, 0, triggers,
                   "when a jump comes. gradient: perturb_every steps behind the last one and where the gradient is at "
                   "most perturb_gradient; periodic: every perturb_every steps; once: at perturb_first"},
    [P_PERTURB_FIRST] = {"perturb_first", MHAS_INTEGER, "1", "0", 0, 1LL << 40, NULL,
                         "no jump before so many steps; an escape without jumps is counted from here"},
    [P_SETTLE] = {"settle", MHAS_FLAG, "1", "true", 0, 1, NULL,
                  "task: symmetric: what the neurons come to see of x_d, by rounding, is taken away until "
                  "perturb_first, so that they settle on the saddle"},
    [P_PERTURB_GRADIENT] =
        {"perturb_gradient", MHAS_REAL, "1", "0.01", 0, 1e12, NULL,
         "trigger: gradient: where the norm of the velocity in L2(mu) is at most this (sampling: prompts: as the last "
         "record saw it, on the test tokens)"},
    [P_PERTURB_DECREASE] = {"perturb_decrease", MHAS_REAL, "1", "0.0", 0, 1e12, NULL,
                            "trigger: gradient: no more jumps where the last one has not lowered the loss by so much "
                            "when the next is due; 0: they go on"},
    [P_ATTENTION_STEP_SIZE] =
        {"attention_step_size", MHAS_REAL, "1", "= sampling == prompts ? 0.05 : 1", DBL_TRUE_MIN, 2, NULL,
         "step of W, by its largest stable one over 2: 1 / (largest eigenvalue of A x that of S)"},
    [P_ATTENTION_START] = {"attention_start", MHAS_CHOICE, "1", "small", 0, 0, attention_starts,
                           "W at the start. small: attention_scale times the identity; optimal: the inverse of S"},
    [P_ATTENTION_SCALE] = {"attention_scale", MHAS_REAL, "1", "0.01", 0, 1e12, NULL, "for attention_start: small"},
    [P_RIDGE] = {"ridge", MHAS_REAL, "1", "0.0", 0, 1e6, NULL,
                 "added to the diagonal of S = E[h h^T] before it is inverted, by its mean eigenvalue"},
    [P_CUT_OFF] = {"cut_off", MHAS_REAL, "1", "1.0e-13", 0, 1, NULL,
                   "eigenvalues of S up to this, by the largest, count as zero: a pseudo-inverse leaves them out"},
    [P_RANK_TOLERANCE] = {"rank_tolerance", MHAS_REAL, "1", "1.0e-6", 0, 1, NULL,
                          "singular values up to this, by the largest, count as zero in rank_cross"},
    [P_BARRON_PENALTY] = {"barron_penalty", MHAS_REAL, "1", "0.0", 0, 1e12, NULL,
                          "factor of the penalty (1/M) sum |a_i| |w_i| on the loss"},
    [P_LOG_EVERY] = {"log_every", MHAS_INTEGER, "1", "= max(floor(steps / 200), 1)", 1, 1LL << 40, NULL,
                     "steps between the records of the curves, which begin at step 0 and end at the last step"},
    [P_LAMBDA_EVERY] = {"lambda_every", MHAS_INTEGER, "1", "0", 0, 1LL << 40, NULL,
                        "records between values of the curve lambda_min, each some 50 gradients' work; 0: none"},
    [P_PLATEAU_GRADIENT] =
        {"plateau_gradient", MHAS_REAL, "1", "0.01", 0, 1e12, NULL,
         "a plateau is where the norm of the velocity in L2(mu) is at most this (sampling: prompts: at records) ..."},
    [P_PLATEAU_STEPS] = {"plateau_steps", MHAS_INTEGER, "1", "100", 1, 1LL << 40, NULL,
                         "... for so many steps or more"},
    [P_ESCAPE_LEVEL] = {"escape_level", MHAS_REAL, "1", "0.5", DBL_TRUE_MIN, 1, NULL,
                        "a saddle is left where the loss is below this share of the loss on it"},
    [P_TEST_TOKENS] = {"test_tokens", MHAS_INTEGER, "1", "= max(tokens, 1000)", 1, 1 << 24, NULL,
                       "fixed tokens on which losses, spectra and rungs are evaluated (with sampling: pool, the pool "
                       "is), and as many others for new tasks"},
    [P_TEST_TASKS] = {"test_tasks", MHAS_INTEGER, "1", "16", 1, 1 << 16, NULL, "new tasks g, each of unit norm"},
    [P_TASK_SHIFT] = {"task_shift", MHAS_REAL, "1", "0.5", 0, 1, NULL,
                      "share of a new task's norm that comes from a random network instead of the teacher's features"},
    [P_FINITE_TOKENS] = {"finite_tokens", MHAS_INTEGER, "1", "= tokens", 1, 1 << 24, NULL,
                         "length n of the prompt in loss_finite"},
    [P_FINITE_DRAWS] = {"finite_draws", MHAS_INTEGER, "1", "0", 0, 1 << 30, NULL,
                        "random prompts in loss_finite_sampled; 0: not asked"},
    [P_DENSE_SPECTRUM] = {"dense_spectrum", MHAS_FLAG, "1", "false", 0, 1, NULL,
                          "compute all eigenvalues of the integral Hessian at the end (store: spectrum keeps them): a "
                          "square matrix of order neurons x (features + dim)"},
};

static const mhas_result results[R_COUNT] = {
    [R_LOSS] = {"loss", MHAS_REAL, "1", "L(mu) = min_W L_TF at the end, on the test tokens"},
    [R_LOSS_ATTENTION] = {"loss_attention", MHAS_REAL, "1", "L_TF(mu, W) at the end; without a W of its own, L(mu)"},
    [R_LOSS_FLOOR] = {"loss_floor", MHAS_REAL, "1",
                      "what no model of k features can go below: half the sum of the k0 - k smallest eigenvalues of S0 "
                      "(Eckart and Young 1936)"},
    [R_NEAREST_RUNG] = {"nearest_rung", MHAS_REAL, "1",
                        "the critical value next to loss: half a sum of at least k0 - k eigenvalues of S0 (derived)"},
    [R_RUNG_DISTANCE] = {"rung_distance", MHAS_REAL, "1",
                         "|loss - nearest_rung| by nearest_rung, or by lowest_rung if that is 0"},
    [R_SIGMA_MIN_B] = {"sigma_min_b", MHAS_REAL, "1", "smallest singular value of B = Sigma_mu0,mu S^-1"},
    [R_RANK_CROSS] = {"rank_cross", MHAS_INTEGER, "1", "numerical rank of Sigma_mu,mu0 = E[h f^T]"},
    [R_CONDITION] = {"condition", MHAS_REAL, "1", "condition number of S = E[h h^T]; infinite if it is singular"},
    [R_LAMBDA_MIN] = {"lambda_min", MHAS_REAL, "1",
                      "smallest eigenvalue of the integral Hessian at the end, to 1e-4 of the largest; missing if 500 "
                      "products do not tell"},
    [R_ESCAPE_STEP] =
        {"escape_step", MHAS_INTEGER, "1",
         "steps from the first jump (without jumps: from perturb_first) to a loss below escape_level times "
         "the loss there; -1: never"},
    [R_BARRON_NORM] = {"barron_norm", MHAS_REAL, "1", "(1/M) sum |a_i| |w_i|: no less than the Barron norm of h"},
    [R_ICL_ERROR] = {"icl_error", MHAS_REAL, "1", "mean over new tasks g of E|g(x) - E[g h^T] W h(x)|^2, other tokens"},
    [R_PROJECTION_ERROR] =
        {"projection_error", MHAS_REAL, "1",
         "mean over new tasks g of min_v E|g - v^T f|^2: the theorem bounds icl_error by this plus the "
         "loss, up to a constant"},
    [R_EXPONENT] = {"exponent", MHAS_REAL, "1",
                    "p of loss - loss_floor = t^-p over the last two thirds of the time; theory: 1 or more"},
    [R_LOSS_START] = {"loss_start", MHAS_REAL, "1", "loss at step 0"},
    [R_LOSS_STATIONARY] = {"loss_stationary", MHAS_REAL, "1", "mean loss of the records in the last quarter"},
    [R_LOWEST_RUNG] = {"lowest_rung", MHAS_REAL, "1",
                       "the lowest critical value above loss_floor, which is r/2 if k0 <= k, r the smallest eigenvalue "
                       "of S0"},
    [R_SUCCESS] = {"success", MHAS_FLAG, "1", "loss_attention is below the middle of loss_floor and lowest_rung"},
    [R_STALLED] = {"stalled", MHAS_FLAG, "1",
                   "loss_attention is within a tenth of lowest_rung - loss_floor of lowest_rung"},
    [R_STIFFNESS] = {"stiffness", MHAS_REAL, "1",
                     "step_size times the largest |eigenvalue| of the integral Hessian at the start"},
    [R_STIFF] = {"stiff", MHAS_FLAG, "1",
                 "stiffness is above 2: the first steps do not follow the flow; take a smaller step_size or a larger "
                 "init_scale"},
    [R_JUMPS] = {"jumps", MHAS_INTEGER, "1", "perturbations done"},
    [R_LOSS_SADDLE] = {"loss_saddle", MHAS_REAL, "1", "loss where the escape is counted from"},
    [R_LAMBDA_SADDLE] = {"lambda_saddle", MHAS_REAL, "1", "smallest eigenvalue of the integral Hessian there"},
    [R_ESCAPE_SLOPE] =
        {"escape_slope", MHAS_REAL, "1",
         "steps that an escape takes longer for each factor of 10 off perturbation_size, by theory: ln 10 "
         "/ ln(1 + step_size |lambda_saddle|)"},
    [R_PLATEAUS] = {"plateaus", MHAS_INTEGER, "1", "plateaus met"},
    [R_PLATEAU_LOSS] = {"plateau_loss", MHAS_REAL, "1", "loss on the first of them, where the gradient is least"},
    [R_PLATEAU_DISTANCE] = {"plateau_distance", MHAS_REAL, "1", "its distance from the nearest rung, as rung_distance"},
    [R_CURVATURE] = {"curvature", MHAS_REAL, "1",
                     "second derivative of the loss along the homotopy that leaves the saddle there (derived)"},
    [R_CURVATURE_BOUND] = {"curvature_bound", MHAS_REAL, "1",
                           "-4 loss^2 / (k tr S): no saddle has a larger curvature (derived; the paper has R_1^2 for "
                           "tr S)"},
    [R_TIMESCALE_GAP] = {"timescale_gap", MHAS_REAL, "1",
                         "largest |log(L_TF / L(mu))| of all records behind the first tenth of the steps"},
    [R_ATTENTION_RATE] = {"attention_rate", MHAS_REAL, "1",
                          "decay of |C W - C S^-1| per step of W over the last half of the steps (step_size: 0)"},
    [R_ATTENTION_RATE_THEORY] = {"attention_rate_theory", MHAS_REAL, "1",
                                 "-ln(1 - attention_step_size x smallest eigenvalues of A and S by the largest ones)"},
    [R_LOSS_FINITE] = {"loss_finite", MHAS_REAL, "1",
                       "least loss over W with finite_tokens tokens in the prompt, in closed form (derived)"},
    [R_LOSS_FINITE_SAMPLED] = {"loss_finite_sampled", MHAS_REAL, "1",
                               "the same by finite_draws random prompts (of the test tokens) at the best W"},
    [R_LAMBDA_MIN_DENSE] = {"lambda_min_dense", MHAS_REAL, "1", "lambda_min from all eigenvalues (dense_spectrum)"},
};

static const mhas_curve curves[C_COUNT] = {
    [C_STEP] = {"step", "1", "steps of mu done"},
    [C_LOSS] = {"loss", "1", "L(mu) on the test tokens"},
    [C_LOSS_ATTENTION] = {"loss_attention", "1", "L_TF(mu, W); without a W of its own, L(mu)"},
    [C_GRADIENT_NORM] = {"gradient_norm", "1", "norm of the velocity in L2(mu), on the test tokens"},
    [C_SIGMA_MIN_B] = {"sigma_min_b", "1", "smallest singular value of B"},
    [C_SIGMA_BOUND] =
        {"sigma_bound", "1",
         "sqrt((r - 2 loss) / largest eigenvalue of S): sigma_min_b cannot be below it (derived); 0 where "
         "loss is above r/2 or k0 is not k"},
    [C_RANK_CROSS] = {"rank_cross", "1", "numerical rank of Sigma_mu,mu0"},
    [C_SIGMA_MIN_CROSS] = {"sigma_min_cross", "1", "smallest singular value of Sigma_mu,mu0"},
    [C_EIGEN_MIN] = {"eigen_min", "1", "smallest eigenvalue of S"},
    [C_EIGEN_MAX] = {"eigen_max", "1", "largest eigenvalue of S"},
    [C_CONDITION] = {"condition", "1", "condition number of S"},
    [C_NEAREST_RUNG] = {"nearest_rung", "1", "critical value next to loss"},
    [C_RUNG_DISTANCE] = {"rung_distance", "1", "relative distance from it, as the result of that name"},
    [C_CURVATURE] = {"curvature", "1", "curvature of the loss along the homotopy (derived)"},
    [C_CURVATURE_BOUND] = {"curvature_bound", "1", "-4 loss^2 / (k tr S) (derived)"},
    [C_LAMBDA_MIN] = {"lambda_min", "1", "smallest eigenvalue of the integral Hessian, where lambda_every asks for it"},
    [C_ATTENTION_GAP] = {"attention_gap", "1", "|C W - C S^-1| (Frobenius); 0 without a W of its own"},
    [C_BARRON_NORM] = {"barron_norm", "1", "(1/M) sum |a_i| |w_i|"},
    [C_JUMPS] = {"jumps", "1", "perturbations done"},
};

/* ---- rules -------------------------------------------------------------------- */

static mhas_code check_task(const mhas_value *values, mhas_error *error) {
  const int64_t d = values[P_DIM].integer;
  const int64_t k0 = values[P_TRUE_FEATURES].integer;
  if (values[P_TEACHER].integer == 0 && k0 > d) {
    return mhas_fail(error, MHAS_USAGE,
                     "true_features: %" PRId64 " orthonormal directions do not fit into dim = %" PRId64
                     "; take fewer, or another teacher",
                     k0, d);
  }
  if (values[P_TASK].integer == TASK_RANK_DEFICIENT && values[P_FEATURES].integer < 2) {
    return mhas_fail(error, MHAS_USAGE, "task: rank_deficient needs features >= 2");
  }
  if (values[P_TASK].integer == TASK_SYMMETRIC) {
    if (d < 2) {
      return mhas_fail(error, MHAS_USAGE, "task: symmetric needs dim >= 2");
    }
    if (icl_step_tokens(values) % 2 != 0 || icl_test_tokens(values) % 2 != 0) {
      return mhas_fail(error, MHAS_USAGE,
                       "task: symmetric takes tokens in pairs: those of a step (%" PRId64
                       ") and the test tokens (%" PRId64 ") must be even numbers",
                       icl_step_tokens(values), icl_test_tokens(values));
    }
  }
  return MHAS_OK;
}

static mhas_code check_shape(const mhas_meanfield_shape *shape, mhas_error *error) {
  return mhas_meanfield_check(shape, error) == MHAS_OK ? MHAS_OK : mhas_as_usage(error);
}

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const double share = values[P_BIRTH_DEATH].real * values[P_STEP_SIZE].real;
  enum { DENSE_MOST = 46340 }; /* its square fits 32 bits */
  MHAS_TRY(check_task(values, error));
  if (values[P_MODEL].integer == MODEL_MODIFIED && share > 1.0) {
    return mhas_fail(error, MHAS_USAGE,
                     "birth_death x step_size is %g: a neuron cannot be redrawn with a probability above 1", share);
  }
  if (values[P_DENSE_SPECTRUM].integer != 0 && icl_numbers(values) > DENSE_MOST) {
    return mhas_fail(error, MHAS_USAGE,
                     "dense_spectrum: a matrix of order %" PRId64
                     " (neurons x (features + dim)) is too large; at most %d",
                     icl_numbers(values), DENSE_MOST);
  }
  MHAS_TRY(mhas_check_numbers("the records (steps / log_every)", (double)icl_records(values) * C_COUNT, error));
  const int64_t tokens[] = {icl_step_tokens(values), icl_test_tokens(values)};
  for (int i = 0; i < 2; i++) {
    const mhas_meanfield_shape shape = icl_shape(values, tokens[i]);
    const mhas_meanfield_shape teacher = icl_teacher_shape(values, tokens[i]);
    MHAS_TRY(check_shape(&shape, error));
    MHAS_TRY(check_shape(&teacher, error));
  }
  return MHAS_OK;
}

static int arrays(const mhas_value *values, unsigned flags, mhas_array *out) {
  const int64_t M = values[P_NEURONS].integer;
  const int64_t k = values[P_FEATURES].integer;
  const int64_t k0 = values[P_TRUE_FEATURES].integer;
  const int64_t d = icl_inputs(values);
  const int64_t N = icl_test_tokens(values);
  const int64_t teacher = icl_teacher_neurons(values);
  int count = 0;
  if ((flags & MHAS_STORE_WEIGHTS) != 0) {
    const mhas_store_flag flag = MHAS_STORE_WEIGHTS;
    out[count++] =
        (mhas_array){"a", flag, 2, {M, k}, "output weights of the neurons: h(x) = (1/M) sum a_i sigma(w_i x)"};
    out[count++] = (mhas_array){"w", flag, 2, {M, d}, "input weights of the neurons"};
    out[count++] = (mhas_array){"W", flag, 2, {k, k}, "attention; of a model without one, the inverse of S"};
    out[count++] = (mhas_array){"teacher_a", flag, 2, {teacher, k0}, "output weights of the teacher"};
    out[count++] = (mhas_array){"teacher_w", flag, 2, {teacher, d}, "input weights of the teacher"};
    out[count++] = (mhas_array){"teacher_offset", flag, 1, {k0}, "what is taken from the teacher's outputs"};
  }
  if ((flags & MHAS_STORE_DATA) != 0) {
    const mhas_store_flag flag = MHAS_STORE_DATA;
    out[count++] = (mhas_array){"X", flag, 2, {N, d}, "test tokens"};
    out[count++] = (mhas_array){"F", flag, 2, {N, k0}, "true features of the test tokens"};
    const int64_t records = icl_records(values);
    const int64_t least = icl_least(values);
    out[count++] = (mhas_array){"S_eigenvalues", flag, 2, {records, k}, "of S = E[h h^T] at each record, ascending"};
    out[count++] = (mhas_array){"B_singular_values", flag, 2, {records, least}, "of B at each record, descending"};
    out[count++] =
        (mhas_array){"cross_singular_values", flag, 2, {records, least}, "of E[f h^T] at each record, descending"};
    out[count++] = (mhas_array){"eigenvalues", flag, 1, {k0}, "eigenvalues of S0 = E[f f^T], ascending"};
    out[count++] = (mhas_array){
        "plateaus", flag, 2, {ICL_PLATEAUS, 3}, "first step, last step, loss at the least gradient; then NaN"};
    out[count++] = (mhas_array){"jumps", flag, 1, {ICL_JUMPS}, "steps of the first perturbations; then NaN"};
  }
  return count;
}

const mhas_experiment mhas_experiment_icl = {
    .name = "icl",
    .title = "in-context learning of nonlinear features by mean-field dynamics",
    .summary =
        "Trains an MLP under linear attention in the mean-field limit's time (arXiv 2402.01258): features and "
        "attention "
        "together, features alone (attention at its optimum), or features with birth-death and perturbation; reports "
        "where the loss stands on the ladder of critical values, how saddles are left, and what is learned in context.",
    .numerics = 2,
    .parameters = parameters,
    .parameter_count = P_COUNT,
    .results = results,
    .result_count = R_COUNT,
    .curves = curves,
    .curve_count = C_COUNT,
    .check = check,
    .cost = icl_cost,
    .arrays = arrays,
    .run = icl_run,
    .max_ranks = 64,
    .team_bytes = icl_team_bytes,
};
