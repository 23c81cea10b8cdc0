/* Runs the points of a sweep one after the other, without MPI's launcher, and prints a result of each: what a program
 * of somebody else does that links the installed library. */
#include <inttypes.h>
#include <mhasweep/base.h>
#include <mhasweep/sweep.h>
#include <stdio.h>
#include <string.h>

enum { PARAMETERS_MOST = 128, RESULTS_MOST = 128 };

static const char text[] =
    "experiment: probe\n"
    "seed: 7\n"
    "parameters: {heads: [1, 2, 3], context: 4, dim: 8, samples: 30, context_type: shared}\n";

static mhas_code go_on(void *context, mhas_error *error) {
  (void)context;
  (void)error;
  return MHAS_OK;
}

/* Prints heads and rank of one point. */
static mhas_code run_point(mhas_sweep *sweep, int64_t index, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  mhas_value values[PARAMETERS_MOST];
  mhas_value results[RESULTS_MOST];
  int64_t replicate = 0;
  bool included = false;
  MHAS_TRY(mhas_sweep_point(sweep, index, values, &replicate, &included, error));
  const mhas_task task = {.point = {.values = values, .random = {mhas_sweep_seed(sweep), (uint32_t)replicate}},
                          .proceed = go_on};
  mhas_row row = {.results = results};
  mhas_row_clear(experiment, &row);
  MHAS_TRY(mhas_experiment_run(experiment, &task, &row, error));
  (void)printf("heads %" PRId64 " rank %" PRId64 "\n", values[mhas_parameter_find(experiment, "heads")].integer,
               results[mhas_result_find(experiment, "rank")].integer);
  return MHAS_OK;
}

int main(void) {
  mhas_error error = {0};
  mhas_sweep *sweep = NULL;
  mhas_text report = {0};
  mhas_code code = mhas_sweep_parse("consumer", text, strlen(text), NULL, 0, &sweep, &report);
  for (int64_t i = 0; code == MHAS_OK && i < mhas_sweep_grid_count(sweep); i++) {
    code = run_point(sweep, i, &error);
  }
  if (code != MHAS_OK) {
    (void)fprintf(stderr, "consumer: %s%s\n", mhas_text_string(&report), error.text);
  }
  mhas_text_free(&report);
  mhas_sweep_destroy(sweep);
  return code == MHAS_OK ? 0 : 1;
}
