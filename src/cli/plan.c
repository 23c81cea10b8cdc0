/* mhasweep plan: what a sweep would take, before anything runs. */
#include "cli/plan.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <unistd.h>

#include "mhasweep/linalg.h"

enum { OPTION_SET, OPTION_LIST, OPTION_JSON, OPTION_COUNT };

static const cli_option options[OPTION_COUNT] = {
    [OPTION_SET] = {"set", 0, "NAME=VALUE",
                    "override a parameter or a setting of the sweep file; VALUE is YAML; may be repeated"},
    [OPTION_LIST] = {"list", 0, NULL,
                     "print every point instead: its number in the result file and the parameters that vary, "
                     "separated by tabs"},
    [OPTION_JSON] = {"json", 0, NULL, "the plan as JSON"},
};

/* ---- the list of points ---- */

static bool varies(const mhas_sweep *sweep, int parameter) {
  return mhas_sweep_is_axis(sweep, parameter) || mhas_sweep_is_derived(sweep, parameter);
}

static void print_list_titles(const mhas_sweep *sweep) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  (void)printf("point");
  for (int i = 0; i < experiment->parameter_count; i++) {
    if (varies(sweep, i)) {
      (void)printf("\t%s", experiment->parameters[i].name);
    }
  }
  (void)printf("\treplicate\n");
}

/* One line; `text` is scratch, kept from line to line. */
static mhas_code print_point(const mhas_sweep *sweep, int64_t row, const mhas_value *values, int64_t replicate,
                             mhas_text *text, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  text->length = 0;
  mhas_text_append(text, "%" PRId64, row);
  for (int i = 0; i < experiment->parameter_count; i++) {
    if (varies(sweep, i)) {
      mhas_text_append(text, "\t");
      mhas_value_format(&experiment->parameters[i], values[i], text);
    }
  }
  mhas_text_append(text, "\t%" PRId64 "\n", replicate);
  if (text->failed) {
    return mhas_fail(error, MHAS_NO_MEMORY, "out of memory while listing the points");
  }
  (void)fwrite(text->data, 1, text->length, stdout);
  return MHAS_OK;
}

/* Point after point, in constant memory; ends early when nobody reads any more. */
static mhas_code print_list(mhas_sweep *sweep, mhas_error *error) {
  const int count = mhas_sweep_experiment(sweep)->parameter_count;
  mhas_value *values = NULL;
  MHAS_TRY(mhas_alloc(&values, (size_t)count, sizeof *values, "a point", error));
  mhas_text text = {0};
  mhas_code code = MHAS_OK;
  int64_t row = 0;
  print_list_titles(sweep);
  for (int64_t i = 0; i < mhas_sweep_grid_count(sweep) && code == MHAS_OK && !ferror(stdout); i++) {
    int64_t replicate = 0;
    bool included = false;
    code = mhas_sweep_point(sweep, i, values, &replicate, &included, error);
    if (code == MHAS_OK && included) {
      code = print_point(sweep, row++, values, replicate, &text, error);
    }
  }
  mhas_text_free(&text);
  mhas_free(values);
  return code;
}

/* ---- the estimate ---- */

static int usable_cpus(void) {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
    return CPU_COUNT(&cpus);
  }
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : (int)online;
}

static mhas_code make_estimate(plan_estimate *self, mhas_error *error) {
  const mhas_plan *plan = &self->plan;
  MHAS_TRY(mhas_sweep_plan(self->sweep, false, &self->plan, error));
  MHAS_TRY(cli_sweep_rate(plan, &self->rate, error));
  self->cpus = usable_cpus();
  const double useful = plan->flops_most > 0.0 ? ceil(plan->flops / plan->flops_most) : plan->points;
  self->workers_most = fmax(1.0, fmin(useful, plan->points));
  self->workers = (int)fmin(self->cpus, self->workers_most);
  self->seconds = fmax(plan->flops / self->workers, plan->flops_most) / self->rate;
  return MHAS_OK;
}

static mhas_code run(const cli_words *words, int *status, mhas_error *error) {
  (void)status;
  const bool list = cli_has(words, OPTION_LIST);
  const bool json = cli_has(words, OPTION_JSON);
  if (list && json) {
    return mhas_fail(error, MHAS_USAGE, "plan: --list and --json are two different answers: give one of them");
  }
  if (!list) {
    (void)mhas_blas_setup(words->argv, true, error); /* slow kernels make a slow estimate, not a wrong plan */
  }
  plan_estimate estimate = {.path = words->operand};
  MHAS_TRY(cli_read_sweep(words, OPTION_SET, &estimate.sweep, error));
  mhas_code code = MHAS_OK;
  if (list) {
    code = print_list(estimate.sweep, error);
  } else {
    code = make_estimate(&estimate, error);
    if (code == MHAS_OK) {
      code = json ? plan_print_json(&estimate, error) : plan_print(&estimate, error);
    }
  }
  mhas_sweep_destroy(estimate.sweep);
  return code;
}

const cli_command cli_plan = {
    .name = "plan",
    .operand = "SPEC.yaml",
    .summary = "what a sweep would take: points, operations, memory, file size, time",
    .description =
        "Checks a sweep file and tells, without running anything, which points it has, how many operations and how "
        "much memory they take, how large the result file will be, and about how long it will run. The time is an "
        "estimate: operations counted, divided by the speed of matrix products measured on this machine; small models "
        "run at a fraction of that speed. Grids of more than about a million points are estimated from a sample.",
    .options = options,
    .option_count = OPTION_COUNT,
    .examples =
        "  mhasweep plan sweep.yaml\n"
        "  mhasweep plan sweep.yaml --set replicates=20\n"
        "  mhasweep plan sweep.yaml --list | head\n",
    .statuses =
        "  0  the sweep file is right\n"
        "  1  the plan could not be made or written\n"
        "  2  the command line or the sweep file is wrong\n",
    .run = run,
};
