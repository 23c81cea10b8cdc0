/* The sizes of a point of icl, and what it costs. */
#include "experiments/icl.h"

/* ---- sizes ------------------------------------------------------------------ */

int64_t icl_inputs(const mhas_value *values) { return values[P_DIM].integer + values[P_BIAS].integer; }

int64_t icl_step_tokens(const mhas_value *values) {
  return values[P_SAMPLING].integer == SAMPLING_PROMPTS
             ? values[P_PROMPT_BATCH].integer * (values[P_TOKENS].integer + values[P_QUERIES].integer)
             : values[P_TOKENS].integer;
}

int64_t icl_test_tokens(const mhas_value *values) {
  return values[values[P_SAMPLING].integer == SAMPLING_POOL ? P_TOKENS : P_TEST_TOKENS].integer;
}

/* Beside those of features that are not sigmoids of one direction, the odd one of task: symmetric. */
int64_t icl_teacher_neurons(const mhas_value *values) {
  const bool odd = values[P_TASK].integer == TASK_SYMMETRIC;
  const int64_t single = values[P_TRUE_FEATURES].integer - odd;
  return (values[P_TEACHER].integer == 0 ? single : values[P_TEACHER_NEURONS].integer) + odd;
}

int64_t icl_numbers(const mhas_value *values) {
  return values[P_NEURONS].integer * (values[P_FEATURES].integer + icl_inputs(values));
}

int64_t icl_records(const mhas_value *values) {
  const int64_t steps = values[P_STEPS].integer;
  const int64_t every = values[P_LOG_EVERY].integer;
  return 1 + steps / every + (steps % every != 0);
}

int64_t icl_least(const mhas_value *values) {
  const int64_t k = values[P_FEATURES].integer;
  const int64_t k0 = values[P_TRUE_FEATURES].integer;
  return k < k0 ? k : k0;
}

int64_t icl_spectra(const mhas_value *values) { return values[P_FEATURES].integer + 2 * icl_least(values); }

mhas_precision icl_precision(const mhas_value *values) {
  return values[P_PRECISION].integer == 0 ? MHAS_FLOAT32 : MHAS_FLOAT64;
}

mhas_meanfield_shape icl_shape(const mhas_value *values, int64_t tokens) {
  return (mhas_meanfield_shape){.tokens = tokens,
                                .neurons = values[P_NEURONS].integer,
                                .dim = icl_inputs(values),
                                .features = values[P_FEATURES].integer,
                                .neuron = (mhas_neuron)values[P_ACTIVATION].integer};
}

mhas_meanfield_shape icl_teacher_shape(const mhas_value *values, int64_t tokens) {
  return (mhas_meanfield_shape){.tokens = tokens,
                                .neurons = icl_teacher_neurons(values),
                                .dim = icl_inputs(values),
                                .features = values[P_TRUE_FEATURES].integer,
                                .neuron = MHAS_SIGMOID};
}

/* ---- cost --------------------------------------------------------------------- */

double icl_step_flops(const mhas_value *values) {
  const mhas_meanfield_shape shape = icl_shape(values, icl_step_tokens(values));
  const mhas_meanfield_shape teacher = icl_teacher_shape(values, icl_step_tokens(values));
  const bool draws = values[P_SAMPLING].integer != SAMPLING_POOL;
  const double drawn = 60.0 * (double)shape.tokens * (double)shape.dim; /* a normal number counts as 60 */
  return mhas_meanfield_forward_flops(&shape) + mhas_meanfield_backward_flops(&shape) +
         (draws ? mhas_meanfield_forward_flops(&teacher) + drawn : 0.0) + 4.0 * (double)icl_numbers(values);
}

double icl_test_flops(const mhas_value *values) {
  const mhas_meanfield_shape shape = icl_shape(values, icl_test_tokens(values));
  return mhas_meanfield_forward_flops(&shape) + mhas_meanfield_backward_flops(&shape);
}

double icl_product_flops(const mhas_value *values) {
  const mhas_meanfield_shape shape = icl_shape(values, icl_test_tokens(values));
  return mhas_meanfield_tangent_flops(&shape) + mhas_meanfield_backward_flops(&shape);
}

static double dense_order(const mhas_value *values) {
  return values[P_DENSE_SPECTRUM].integer != 0 ? (double)icl_numbers(values) : 0.0;
}

static double flops_of(const mhas_value *values) {
  enum { LANCZOS = 60, LANCZOS_RUNS = 4 }; /* products for an eigenvalue, roughly; start (two ends), saddle, end */
  const double records = (double)icl_records(values);
  const double order = dense_order(values);
  const double looks = values[P_LAMBDA_EVERY].integer > 0 ? records / (double)values[P_LAMBDA_EVERY].integer : 0.0;
  return (double)values[P_STEPS].integer * icl_step_flops(values) + (records + 1.0) * icl_test_flops(values) +
         ((LANCZOS_RUNS + looks) * LANCZOS + order) * icl_product_flops(values) + 4.0 / 3.0 * order * order * order +
         (double)values[P_FINITE_DRAWS].integer * (double)values[P_FINITE_TOKENS].integer * 8.0 *
             (double)values[P_FEATURES].integer;
}

/* One set of tokens with all that is known of it. */
static double side_bytes(const mhas_value *values, int64_t tokens) {
  const mhas_meanfield_shape shape = icl_shape(values, tokens);
  const mhas_meanfield_shape teacher = icl_teacher_shape(values, tokens);
  return mhas_meanfield_bytes(&shape, icl_precision(values)) + mhas_meanfield_bytes(&teacher, MHAS_FLOAT64) +
         sizeof(double) * (double)tokens * (double)(shape.dim + 3 * shape.features + 2 * teacher.features);
}

/* Without the dense matrix: neurons, gradients and Lanczos vectors, tokens, records, the ladder, new tasks. */
static double fixed_bytes(const mhas_value *values) {
  enum { VECTORS = 40, NEW_TASK_ARRAYS = 4 };
  const bool pool = values[P_SAMPLING].integer == SAMPLING_POOL;
  const double tests = (double)icl_test_tokens(values);
  const double numbers = VECTORS * (double)icl_numbers(values) + (double)(1 << values[P_TRUE_FEATURES].integer) +
                         (2.0 + 2.0 * (double)icl_spectra(values)) * (double)icl_records(values) +
                         NEW_TASK_ARRAYS * tests * (double)values[P_TEST_TASKS].integer;
  return sizeof(double) * numbers + side_bytes(values, icl_test_tokens(values)) +
         (pool ? 0.0 : side_bytes(values, icl_step_tokens(values)));
}

/* The matrix and LAPACK's copy of it; on a team also a block of its rows. */
double icl_team_bytes(const mhas_value *values, int ranks) {
  enum { BLOCK = 64 };
  const double order = dense_order(values);
  return fixed_bytes(values) + sizeof(double) * (2.0 * order * order / ranks + (ranks > 1 ? BLOCK * order : 0.0));
}

mhas_cost icl_cost(const mhas_value *values) {
  const int64_t k = values[P_FEATURES].integer;
  return (mhas_cost){
      .flops = flops_of(values),
      .bytes = icl_team_bytes(values, 1),
      .records = icl_records(values),
      .spectrum = (int64_t)dense_order(values),
      .parameters = (double)(icl_numbers(values) + (values[P_MODEL].integer == MODEL_ATTENTION ? k * k : 0)),
  };
}
