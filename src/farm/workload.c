#include "farm/workload.h"

#include <math.h>

/* The least that a rank would need, if so few ranks shared the point. */
static double bytes_with(const mhas_experiment *experiment, const mhas_value *values, int workers) {
  double least = INFINITY;
  for (int ranks = 1; ranks <= workers && ranks <= experiment->max_ranks; ranks++) {
    least = fmin(least, mhas_experiment_bytes(experiment, values, ranks));
  }
  return least;
}

static void add_row(mhas_workload *work, mhas_sweep *sweep, int64_t row, const mhas_value *values, int workers) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  float flops = 0.0F; /* a point that is wrong fails at once, and so does one that is too large */
  int ranks = 1;
  if (values != NULL) {
    ranks = mhas_experiment_ranks(experiment, values, mhas_sweep_limits(sweep)->memory_per_rank, NULL);
    flops = ranks == 0 ? 0.0F : (float)mhas_experiment_cost(experiment, values).flops;
  }
  if (ranks > workers) {
    work->bytes_to_fit = fmax(work->bytes_to_fit, bytes_with(experiment, values, workers));
  }
  work->rows[work->count] = row;
  work->flops[work->count] = flops;
  work->ranks[work->count] = ranks == 0 ? 1 : ranks;
  work->count++;
}

mhas_code mhas_workload_list(mhas_sweep *sweep, const mhas_rows *rows, const uint8_t *status, int64_t most, int workers,
                             mhas_workload *work, mhas_error *error) {
  *work = (mhas_workload){0};
  const size_t count = (size_t)mhas_rows_count(rows);
  const size_t parameters = (size_t)mhas_sweep_experiment(sweep)->parameter_count;
  mhas_value *values = NULL;
  mhas_code code = mhas_alloc(&work->rows, count, sizeof *work->rows, "the list of points to run", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&work->flops, count, sizeof *work->flops, "the costs of the points", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&work->ranks, count, sizeof *work->ranks, "the teams of the points", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&values, parameters, sizeof *values, "a point's values", error);
  }
  for (int64_t row = 0; code == MHAS_OK && row < (int64_t)count; row++) {
    if (status != NULL && status[row] != MHAS_PENDING) {
      continue;
    }
    if (most >= 0 && work->count == most) {
      work->cut = true;
      break;
    }
    int64_t replicate = 0;
    bool included = false;
    const mhas_code known =
        mhas_sweep_point(sweep, mhas_rows_grid_index(rows, row), values, &replicate, &included, NULL);
    add_row(work, sweep, row, known == MHAS_OK ? values : NULL, workers);
  }
  mhas_free(values);
  return code;
}

void mhas_workload_free(mhas_workload *work) {
  mhas_free(work->rows);
  mhas_free(work->flops);
  mhas_free(work->ranks);
  *work = (mhas_workload){0};
}
