/* The sizes of a point of optimize, and what it costs. */
#include <math.h>

#include "experiments/optimize.h"

/* ---- sizes ------------------------------------------------------------------------ */

/* Heads that start equal stay equal: their gradients are. W_K is drawn for each. */
static bool heads_collapse(const mhas_value *values) {
  const int64_t init = values[P_INIT].integer;
  const bool equal = init == OPTIMIZE_ZERO || (init == OPTIMIZE_ONE_STEP && values[P_RANDOM_SIGNS].integer == 0);
  return values[P_COLLAPSE].integer != 0 && values[P_KEY_DIM].integer == 0 && equal;
}

mhas_selfattention_shape mhas_optimize_shape(const mhas_value *values, int64_t samples) {
  const int64_t H = values[P_HEADS].integer;
  const bool once = heads_collapse(values);
  return (mhas_selfattention_shape){.samples = samples,
                                    .tokens = values[P_TOKENS].integer,
                                    .dim = values[P_DIM].integer,
                                    .heads = once ? 1 : H,
                                    .copies = once ? H : 1,
                                    .key_dim = values[P_KEY_DIM].integer};
}

int64_t mhas_optimize_relevant(const mhas_value *values) {
  const int64_t relevant = llround(values[P_RELEVANT].real * (double)values[P_TOKENS].integer);
  return relevant > 1 ? relevant : 1;
}

double mhas_optimize_step_size(const mhas_value *values) {
  const double eta = values[P_STEP_SIZE].real;
  return values[P_STEP_RULE].integer == OPTIMIZE_SQRT_HEADS ? eta * sqrt((double)values[P_HEADS].integer) : eta;
}

/* Of log_points entries, number i = 1, 2 ... is after step K^(i / log_points), rounded, and not before step i. */
static int64_t logged_step(const mhas_value *values, int64_t i) {
  const double K = (double)values[P_STEPS].integer;
  const int64_t step = llround(pow(K, (double)i / (double)values[P_LOG_POINTS].integer));
  return step > i ? step : i;
}

bool mhas_optimize_is_logged(const mhas_value *values, int64_t step) {
  const int64_t K = values[P_STEPS].integer;
  const int64_t every = values[P_LOG_EVERY].integer;
  const int64_t points = values[P_LOG_POINTS].integer;
  if (step == 0 || step == K || (every > 0 && step % every == 0)) {
    return true;
  }
  if (every > 0) {
    return false;
  }
  int64_t low = 0; /* logged steps do not descend: the last number whose step is not beyond this one */
  int64_t high = points < step ? points : step;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (logged_step(values, middle) <= step) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low > 0 && logged_step(values, low) == step;
}

int64_t mhas_optimize_records(const mhas_value *values) {
  const int64_t K = values[P_STEPS].integer;
  const int64_t every = values[P_LOG_EVERY].integer;
  if (every > 0) {
    return 1 + K / every + (K % every != 0);
  }
  return 1 + (values[P_LOG_POINTS].integer < K ? values[P_LOG_POINTS].integer : K);
}

int64_t mhas_optimize_left_out(const mhas_value *values) {
  const int64_t wanted = values[P_STABILITY_SAMPLES].integer;
  return wanted < values[P_SAMPLES].integer ? wanted : values[P_SAMPLES].integer;
}

/* ---- cost ------------------------------------------------------------------------- */

static bool asks_eigenvalues(const mhas_value *values) { return values[P_EIGENVALUES].integer != OPTIMIZE_NEVER; }

/* Eigenvalues take some 100 products for each of three, blocks included. */
static double eigen_flops(const mhas_value *values, const mhas_selfattention_shape *shape) {
  const double times = values[P_EIGENVALUES].integer == OPTIMIZE_LOGGED ? (double)mhas_optimize_records(values)
                       : asks_eigenvalues(values)                       ? 1.0
                                                                        : 0.0;
  return times * 300.0 * mhas_selfattention_hessian_flops(shape, shape->heads);
}

static double flops_of(const mhas_value *values) {
  const mhas_selfattention_shape shape = mhas_optimize_shape(values, values[P_SAMPLES].integer);
  const mhas_selfattention_shape tested = mhas_optimize_shape(values, values[P_TEST_SAMPLES].integer);
  const double K = (double)values[P_STEPS].integer;
  const double trainings = K + 1.0 + K * (double)mhas_optimize_left_out(values);
  const double measured =
      mhas_selfattention_outputs_flops(&tested, shape.heads) + mhas_selfattention_outputs_flops(&shape, shape.heads);
  return trainings * mhas_selfattention_gradient_flops(&shape, shape.heads) +
         (double)mhas_optimize_records(values) * measured + eigen_flops(values, &shape) +
         mhas_optimize_theory_flops(values);
}

/* The samples are on all ranks, the heads are not. */
double mhas_optimize_team_bytes(const mhas_value *values, int ranks) {
  enum { LANCZOS_VECTORS = 45 };
  const mhas_selfattention_shape shape = mhas_optimize_shape(values, values[P_SAMPLES].integer);
  const mhas_selfattention_shape tested = mhas_optimize_shape(values, values[P_TEST_SAMPLES].integer);
  const int used = shape.heads < ranks ? (int)shape.heads : ranks;
  const double numbers = (double)mhas_selfattention_numbers(&shape, (shape.heads + used - 1) / used);
  const double vectors =
      3.0 + (mhas_optimize_left_out(values) > 0 ? 1.0 : 0.0) + (asks_eigenvalues(values) ? LANCZOS_VECTORS : 0.0);
  const double sample = (double)shape.tokens * (double)shape.dim + (double)shape.tokens + 5.0;
  const double head = 2.0 * (double)mhas_selfattention_numbers(&shape, 1);
  return mhas_selfattention_bytes(&shape, asks_eigenvalues(values) ? MHAS_HESSIAN : MHAS_GRADIENT, used) +
         (tested.samples > 0 ? mhas_selfattention_bytes(&tested, MHAS_OUTPUTS, used) : 0.0) +
         sizeof(double) * (vectors * numbers + head + sample * ((double)shape.samples + (double)tested.samples)) +
         mhas_optimize_theory_bytes(values, used);
}

mhas_cost mhas_optimize_cost(const mhas_value *values) {
  const mhas_selfattention_shape shape = mhas_optimize_shape(values, values[P_SAMPLES].integer);
  return (mhas_cost){
      .flops = flops_of(values),
      .bytes = mhas_optimize_team_bytes(values, 1),
      .records = mhas_optimize_records(values),
      .spectrum = 0,
      .parameters = (double)shape.copies * (double)mhas_selfattention_numbers(&shape, shape.heads),
  };
}
