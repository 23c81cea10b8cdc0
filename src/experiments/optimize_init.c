/* Where gradient descent starts. */
#include <math.h>
#include <string.h>

#include "experiments/optimize.h"

double mhas_optimize_sign(const mhas_task *task, int64_t head) {
  int64_t minus = 0;
  if (task->point.values[P_RANDOM_SIGNS].integer != 0) {
    mhas_random_below(task->point.random, MHAS_STREAM_INIT_SIGN, (uint64_t)head, 1, 2, &minus);
  }
  return minus == 0 ? 1.0 : -1.0;
}

static double *W_of(const optimize *run) { return run->theta0 + mhas_selfattention_numbers_u(&run->shape, run->heads); }

/* Normal numbers for this rank's heads, of arrays with `numbers` a head. */
static void draw(const optimize *run, mhas_stream stream, int64_t numbers, double deviation, double *out) {
  const int64_t count = run->heads * numbers;
  mhas_random_normal(run->task->point.random, stream, (uint64_t)(run->first_head * numbers), (size_t)count, out);
  for (int64_t i = 0; i < count; i++) {
    out[i] *= deviation;
  }
}

/* W_Q and W_K whose product by sqrt(d_k) has entries of deviation `scale` / d; or W_K alone, and W = 0. */
static void draw_keys(const optimize *run, double scale, bool queries) {
  const int64_t numbers = run->shape.dim * run->shape.key_dim;
  const double deviation = sqrt(scale / (double)run->shape.dim);
  const int64_t all = run->shape.heads * numbers;
  const int64_t first = run->first_head * numbers;
  const int64_t count = run->heads * numbers;
  double *W_Q = W_of(run);
  double *W_K = W_Q + count;
  if (queries) {
    draw(run, MHAS_STREAM_INIT_W, numbers, deviation, W_Q);
  }
  mhas_random_normal(run->task->point.random, MHAS_STREAM_INIT_W, (uint64_t)(all + first), (size_t)count, W_K);
  for (int64_t i = 0; i < count; i++) {
    W_K[i] *= deviation;
  }
}

/* Section 3.1 of the paper's model of initialisation: at zero the gradient of every U_h is 1_T times the mean token, so
 * a step of length alpha_h on samples of its own makes U_h = alpha_h 1_T u^T, u = mean of y xbar, and leaves W at 0. */
static mhas_code step_from_zero(optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  const int64_t T = run->shape.tokens;
  const int64_t d = run->shape.dim;
  const mhas_maker maker = {run->task, &run->mixture, &run->planted};
  mhas_labelled fresh = {0};
  double *u = NULL;
  mhas_code code = mhas_labelled_make(&maker, MHAS_SET_INIT, values[P_INIT_SAMPLES].integer, &fresh, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&u, (size_t)d, sizeof *u, "the mean token", error);
  }
  if (code == MHAS_OK) {
    for (int64_t row = 0; row < fresh.samples * T; row++) {
      for (int64_t j = 0; j < d; j++) {
        u[j] += fresh.y[row / T] * fresh.X[row * d + j];
      }
    }
    for (int64_t row = 0; row < run->heads * T; row++) {
      const double alpha = mhas_optimize_sign(run->task, run->first_head + row / T) * values[P_INIT_SCALE].real;
      for (int64_t j = 0; j < d; j++) {
        run->theta0[row * d + j] = alpha * (u[j] / ((double)fresh.samples * (double)T));
      }
    }
  }
  mhas_free(u);
  mhas_labelled_free(&fresh);
  return code;
}

static void gaussian(optimize *run) {
  const double scale = run->task->point.values[P_INIT_SCALE].real;
  const int64_t numbers = run->shape.tokens * run->shape.dim;
  draw(run, MHAS_STREAM_INIT_U, numbers, 1.0, run->theta0);
  for (int64_t h = 0; h < run->heads; h++) {
    double *U = run->theta0 + h * numbers;
    double squares = 0.0;
    for (int64_t i = 0; i < numbers; i++) {
      squares += U[i] * U[i];
    }
    for (int64_t i = 0; i < numbers; i++) {
      U[i] *= scale / sqrt(squares);
    }
  }
  if (run->shape.key_dim > 0) {
    draw_keys(run, scale, true);
  } else {
    draw(run, MHAS_STREAM_INIT_W, run->shape.dim * run->shape.dim, scale / (double)run->shape.dim, W_of(run));
  }
}

/* The planted model, each of its heads as often as it takes: H of them give the same Phi with U by sqrt(H_planted / H).
 */
static void planted_model(optimize *run) {
  const int64_t u = run->shape.tokens * run->shape.dim;
  const int64_t w = run->shape.dim * run->shape.dim;
  const int64_t planted = run->planted.shape.heads;
  const double share = sqrt((double)planted / (double)run->shape.heads);
  for (int64_t h = 0; h < run->heads; h++) {
    const int64_t from = (run->first_head + h) % planted;
    for (int64_t i = 0; i < u; i++) {
      run->theta0[h * u + i] = share * run->planted.theta[from * u + i];
    }
    memcpy(W_of(run) + h * w, run->planted.theta + planted * u + from * w, (size_t)w * sizeof(double));
  }
}

/* W (d, d) += factor a b^T */
static void add_outer(int64_t d, double factor, const double *a, const double *b, double *W) {
  for (int64_t i = 0; i < d; i++) {
    for (int64_t j = 0; j < d; j++) {
      W[i * d + j] += factor * a[i] * b[j];
    }
  }
}

/*
 * dm1's optimum, the same for all heads: U_h = init_scale 1_T u^T / sqrt(T), u = (mu_+ - mu_-) / (sqrt(2) S), and
 * W_h = c (mu_+ mu_+^T + mu_- mu_-^T + sum_l nu_l (mu_+ + mu_-)^T): every query has the logit c S^4 on relevant tokens,
 * and 0 on the others.
 */
static void optimum(optimize *run) {
  const mhas_value *values = run->task->point.values;
  const int64_t T = run->shape.tokens;
  const int64_t d = run->shape.dim;
  const double S = values[P_SIGNAL].real;
  const double c = values[P_INIT_LOGIT].real / (S * S * S * S);
  const double *mu = run->mixture.mu;
  const double length = values[P_INIT_SCALE].real / (sqrt(2.0 * (double)T) * S);
  for (int64_t i = 0; i < run->heads * T * d; i++) {
    run->theta0[i] = length * (mu[i % d] - mu[d + i % d]);
  }
  for (int64_t h = 0; h < run->heads; h++) {
    double *W = W_of(run) + h * d * d;
    for (int sign = 0; sign < 2; sign++) {
      add_outer(d, c, mu + sign * d, mu + sign * d, W);
      for (int64_t l = 0; l < values[P_PROTOTYPES].integer; l++) {
        add_outer(d, c, run->mixture.nu + l * d, mu + sign * d, W);
      }
    }
  }
}

mhas_code mhas_optimize_initialise(optimize *run, mhas_error *error) {
  const mhas_value *values = run->task->point.values;
  switch (values[P_INIT].integer) {
    case OPTIMIZE_GAUSSIAN: gaussian(run); return MHAS_OK;
    case OPTIMIZE_INIT_PLANTED:
      if (values[P_DATA].integer == OPTIMIZE_PLANTED) {
        planted_model(run);
      } else {
        optimum(run);
      }
      return MHAS_OK;
    default:
      if (run->shape.key_dim > 0) {
        draw_keys(run, 1.0, false);
      }
      return values[P_INIT].integer == OPTIMIZE_ONE_STEP ? step_from_zero(run, error) : MHAS_OK;
  }
}
