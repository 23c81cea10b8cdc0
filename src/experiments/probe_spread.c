#include "experiments/probe_spread.h"

#include <inttypes.h>
#include <math.h>

#include "mhasweep/linalg.h"

enum { READ_ROWS = 256 }; /* of the errors, at a time */

static int64_t least_of(const mhas_spread_probe *probe) {
  return probe->data.samples < probe->width ? probe->data.samples : probe->width;
}

/* ---- what it takes ---- */

double mhas_probe_spread_bytes(const mhas_features_shape *shape, int64_t samples, int64_t outputs,
                               mhas_probe_solver solver, int ranks) {
  const int64_t width = shape->heads * shape->dim;
  const int64_t block = mhas_features_block(shape, samples);
  const double least = (double)(samples < width ? samples : width);
  const double contexts = (shape->shared ? 1.0 : (double)block) * (double)shape->context * (double)shape->dim;
  const double making = contexts + (double)block * (double)shape->dim + (double)mhas_features_tile_scratch(shape);
  const double errors = READ_ROWS * (double)outputs;
  const double svd = solver == MHAS_SOLVE_SVD ? least + 10.0 * (double)(samples + width) : 0.0;
  return mhas_qr_bytes(samples, width, outputs, ranks) + sizeof(double) * (making + errors + svd);
}

/* Singular values without vectors are a reduction to bidiagonal form, some (8/3) n^3 for n x n; pivots one by one take
 * the time of three times the operations, but not more operations. Loose ranks of a slow decay are in doubt all over R:
 * an LQ factorization and the singular values of it. */
double mhas_probe_spread_flops(const mhas_features_shape *shape, int64_t samples, int64_t outputs,
                               mhas_probe_solver solver, bool loose_ranks) {
  const int64_t width = shape->heads * shape->dim;
  const double large = (double)(samples > width ? samples : width);
  const double least = (double)(samples < width ? samples : width);
  double svd = 0.0;
  if (solver == MHAS_SOLVE_SVD) {
    svd = 4.0 * least * least * (large - least / 3.0);
  } else if (loose_ranks) {
    svd = 2.0 * least * least * ((double)width - least / 3.0) + 8.0 / 3.0 * least * least * least;
  }
  return 2.0 * mhas_features_flops(shape, samples) + mhas_qr_flops(samples, width, outputs, 1) + svd;
}

/* ---- matrices ---- */

typedef struct labels {
  const mhas_data_shape *data;
  mhas_random random;
} labels;

/* Labels as they are fitted: one number, or a one-hot row. */
static mhas_code fill_labels(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns, double *block,
                             int64_t stride, mhas_error *error) {
  (void)error;
  const labels *drawn = context;
  for (int64_t i = 0; i < rows; i++) {
    double y = 0.0;
    mhas_data_labels(drawn->data, drawn->random, row + i, 1, &y);
    for (int64_t j = 0; j < columns; j++) {
      block[i + j * stride] = drawn->data->classes == 0 ? y : (double)((int64_t)y == column + j);
    }
  }
  return MHAS_OK;
}

typedef struct matrices {
  mhas_grid *grid;
  mhas_cyclic Z, Y, X;
  mhas_qr *qr;
} matrices;

static mhas_code make_Z(mhas_spread_probe *probe, matrices *m, mhas_error *error) {
  return mhas_features_cyclic(&probe->shape, probe->samples, probe->W_Q, probe->W_K, probe->compose, &m->Z,
                              &probe->saturated, error);
}

static mhas_code make_Y(const mhas_spread_probe *probe, matrices *m, mhas_error *error) {
  labels drawn = {&probe->data, probe->task->point.random};
  return mhas_cyclic_fill(&m->Y, fill_labels, &drawn, error);
}

static mhas_code create(mhas_spread_probe *probe, matrices *m, mhas_error *error) {
  const mhas_task *task = probe->task;
  const int64_t samples = probe->data.samples;
  MHAS_TRY(mhas_cyclic_check(samples, probe->width, task->team.size, 0, "Z (samples x heads dim)", error));
  MHAS_TRY(mhas_grid_create(task->team.comm, 0, &m->grid, error));
  mhas_grid_watch(m->grid, task->proceed, task->context);
  MHAS_TRY(mhas_cyclic_create(m->grid, samples, probe->width, "Z (samples x heads dim)", &m->Z, error));
  MHAS_TRY(mhas_cyclic_create(m->grid, samples, probe->outputs, "the labels (samples x outputs)", &m->Y, error));
  return mhas_cyclic_create(m->grid, probe->width, probe->outputs, "the readout (heads dim x outputs)", &m->X, error);
}

/* ---- rank ---- */

static void tolerances_of(const mhas_spread_probe *probe, double *tolerances) {
  tolerances[0] = mhas_rank_tolerance(probe->data.samples, probe->width);
  tolerances[1] = 1e-3;
  tolerances[2] = 1e-6;
  tolerances[3] = 1e-9;
}

/* From all singular values; Z is destroyed. */
static mhas_code rank_by_values(mhas_spread_probe *probe, matrices *m, mhas_error *error) {
  double tolerances[MHAS_PROBE_RANKS];
  tolerances_of(probe, tolerances);
  MHAS_TRY(mhas_cyclic_singular_values(&m->Z, probe->sigma, error));
  for (int i = 0; i < MHAS_PROBE_RANKS && probe->solver == MHAS_SOLVE_SVD; i++) {
    const bool asked = i == 0 || probe->loose_ranks;
    probe->ranks[i] = asked ? mhas_numerical_rank(probe->sigma, least_of(probe), tolerances[i]) : -1;
  }
  const int64_t rank = probe->ranks[0];
  probe->condition = rank > 0 ? probe->sigma[0] / probe->sigma[rank - 1] : NAN;
  return MHAS_OK;
}

static mhas_code factor(mhas_spread_probe *probe, matrices *m, mhas_error *error) {
  double tolerances[MHAS_PROBE_RANKS];
  tolerances_of(probe, tolerances);
  const double least = fmin(tolerances[0], tolerances[3]);
  const mhas_qr_method method = probe->solver == MHAS_SOLVE_QP3 ? MHAS_QR_PIVOTED : MHAS_QR_RANDOMIZED;
  MHAS_TRY(mhas_qr_create(method, &m->Z, least, probe->task->point.random, &m->qr, error));
  if (probe->solver == MHAS_SOLVE_SVD) {
    return MHAS_OK;
  }
  const int asked = probe->loose_ranks ? MHAS_PROBE_RANKS : 1;
  for (int i = 0; i < MHAS_PROBE_RANKS; i++) {
    probe->ranks[i] = -1;
  }
  MHAS_TRY(mhas_qr_ranks(m->qr, tolerances, asked, probe->ranks, error));
  const int64_t rank = probe->ranks[0];
  const bool known = rank > 0 && rank <= mhas_qr_steps(m->qr);
  probe->condition = known ? mhas_qr_largest(m->qr) / mhas_qr_diagonal(m->qr)[rank - 1] : NAN;
  return MHAS_OK;
}

/* ---- fit ---- */

/* R takes part in the solution, so Z and the labels are made anew to see how good it is. */
static mhas_code solve(mhas_spread_probe *probe, matrices *m, mhas_error *error) {
  const int64_t steps = mhas_qr_steps(m->qr);
  const int64_t rank = probe->ranks[0] < steps ? probe->ranks[0] : steps;
  double wanted = 0.0;
  double errors = 0.0;
  MHAS_TRY(make_Y(probe, m, error));
  MHAS_TRY(mhas_cyclic_norm(&m->Y, &wanted, error));
  MHAS_TRY(mhas_qr_solve(m->qr, rank, &m->Y, &m->X, error));
  mhas_qr_destroy(m->qr);
  m->qr = NULL;
  MHAS_TRY(make_Z(probe, m, error));
  MHAS_TRY(make_Y(probe, m, error));
  MHAS_TRY(mhas_cyclic_residual(&m->Z, &m->X, &m->Y, NULL, error));
  MHAS_TRY(mhas_cyclic_norm(&m->Y, &errors, error));
  probe->residual = wanted > 0.0 ? errors / wanted : errors;
  return MHAS_OK;
}

/* The class whose output is largest, where outputs are errors plus the one-hot label. */
static bool is_fitted_class(const double *errors, int64_t outputs, int64_t label) {
  int64_t best = 0;
  double most = -INFINITY;
  for (int64_t c = 0; c < outputs; c++) {
    const double output = errors[c] + (c == label ? 1.0 : 0.0);
    if (output > most) {
      most = output;
      best = c;
    }
  }
  return best == label;
}

static double largest_label(const mhas_spread_probe *probe) {
  double largest = 0.0;
  for (int64_t t = 0; t < probe->data.samples; t++) {
    double y = 0.0;
    mhas_data_labels(&probe->data, probe->task->point.random, t, 1, &y);
    largest = fmax(largest, fabs(y));
  }
  return largest;
}

/* Looks at all errors, a band of rows at a time. `band` has room for one. */
static mhas_code look_at_errors(mhas_spread_probe *probe, const matrices *m, double *band, mhas_error *error) {
  const int64_t samples = probe->data.samples;
  const double allowed = probe->fit_tolerance * largest_label(probe);
  probe->memorized = true;
  for (int64_t first = 0; first < samples; first += READ_ROWS) {
    const int64_t rows = samples - first < READ_ROWS ? samples - first : READ_ROWS;
    MHAS_TRY(mhas_cyclic_read(&m->Y, first, rows, 0, probe->outputs, band, error));
    for (int64_t i = 0; i < rows; i++) {
      const double *errors = band + i * probe->outputs;
      double y = 0.0;
      mhas_data_labels(&probe->data, probe->task->point.random, first + i, 1, &y);
      const bool fitted =
          probe->data.classes > 0 ? is_fitted_class(errors, probe->outputs, (int64_t)y) : fabs(errors[0]) <= allowed;
      probe->memorized = probe->memorized && fitted;
    }
  }
  return MHAS_OK;
}

static mhas_code check_fit(mhas_spread_probe *probe, const matrices *m, mhas_error *error) {
  double *band = NULL;
  mhas_code code =
      mhas_alloc(&band, (size_t)(READ_ROWS * probe->outputs), sizeof *band, "the errors of the fit", error);
  code = mhas_grid_agree(m->grid, code, error);
  if (code == MHAS_OK) {
    code = look_at_errors(probe, m, band, error);
  }
  mhas_free(band);
  return code;
}

static mhas_code steps_of(mhas_spread_probe *probe, matrices *m, mhas_error *error) {
  MHAS_TRY(create(probe, m, error));
  MHAS_TRY(make_Z(probe, m, error));
  if (probe->solver == MHAS_SOLVE_SVD) {
    MHAS_TRY(rank_by_values(probe, m, error));
    MHAS_TRY(make_Z(probe, m, error));
  }
  MHAS_TRY(factor(probe, m, error));
  MHAS_TRY(solve(probe, m, error));
  MHAS_TRY(check_fit(probe, m, error));
  if (probe->B != NULL) {
    MHAS_TRY(mhas_cyclic_read(&m->X, 0, probe->width, 0, probe->outputs, probe->B, error));
  }
  if (probe->Z != NULL) {
    MHAS_TRY(mhas_cyclic_read(&m->Z, 0, probe->data.samples, 0, probe->width, probe->Z, error));
  }
  if (probe->solver != MHAS_SOLVE_SVD && probe->sigma != NULL) {
    MHAS_TRY(rank_by_values(probe, m, error));
  }
  return MHAS_OK;
}

mhas_code mhas_probe_spread(mhas_spread_probe *probe, mhas_error *error) {
  matrices m = {.grid = NULL};
  if (probe->task->team.size < 1) {
    return mhas_fail(error, MHAS_INTERNAL, "Z can only be spread over ranks of MPI");
  }
  const mhas_code code = steps_of(probe, &m, error);
  mhas_qr_destroy(m.qr);
  mhas_cyclic_free(&m.Z);
  mhas_cyclic_free(&m.Y);
  mhas_cyclic_free(&m.X);
  mhas_grid_destroy(m.grid);
  return code;
}
