/* mhasweep simulate: how a sweep would run on so many ranks, by the scheduler that would run it. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "cli/cli.h"
#include "mhasweep/farm.h"
#include "mhasweep/linalg.h"

enum {
  OPTION_RANKS,
  OPTION_SET,
  OPTION_RATE,
  OPTION_OVERHEAD,
  OPTION_MESSAGE,
  OPTION_NOISE,
  OPTION_TEAMS,
  OPTION_JSON,
  OPTION_COUNT
};

static const cli_option options[OPTION_COUNT] = {
    [OPTION_RANKS] = {"ranks", 'n', "N", "ranks in all: one hands out the work, unless it is alone; needed"},
    [OPTION_SET] = {"set", 0, "NAME=VALUE",
                    "override a parameter or a setting of the sweep file; VALUE is YAML; may be repeated"},
    [OPTION_RATE] = {"rate", 0, "OPS",
                     "operations per second of a rank, e.g. 2e10; default: that of matrix products in the sweep's "
                     "precisions, measured here, as in mhasweep plan"},
    [OPTION_OVERHEAD] = {"overhead", 0, "SECONDS", "what a point takes beside its operations; default 3e-5"},
    [OPTION_MESSAGE] = {"message", 0, "SECONDS", "what one message takes of the master's time; default 1e-5"},
    [OPTION_NOISE] = {"noise", 0, "SIGMA",
                      "points take longer or shorter than their estimate, by a log-normal factor of mean 1 with this "
                      "sigma, drawn from the sweep's seed; default 0"},
    [OPTION_TEAMS] = {"teams", 0, "dynamic|static", "as in mhasweep run"},
    [OPTION_JSON] = {"json", 0, NULL, "the answer as JSON"},
};

enum { RANKS_MOST = 1000000 };
static const int64_t points_most = 100000000; /* each takes some 40 bytes */

typedef struct simulated {
  const char *path;
  int64_t ranks;
  double rate;
  mhas_simulation_options options;
  mhas_simulation result;
} simulated;

static double utilisation(const simulated *self) {
  const double offered = self->result.makespan * self->options.workers;
  return offered > 0.0 ? self->result.work / offered : 1.0;
}

static double messages_per_second(const simulated *self) {
  const mhas_simulation *result = &self->result;
  return result->makespan > 0.0 ? (double)result->messages / result->makespan : 0.0;
}

static double master_share(const simulated *self) {
  return self->result.makespan > 0.0 ? self->result.master / self->result.makespan : 0.0;
}

/* ---- out ---- */

static void print_for_people(const simulated *self) {
  const mhas_simulation *result = &self->result;
  char human[MHAS_HUMAN_LENGTH];
  (void)printf("%s: %" PRId64 " points on %" PRId64 " rank%s (%d at work), %s operations per second each\n", self->path,
               result->rows, self->ranks, self->ranks == 1 ? "" : "s", self->options.workers,
               mhas_human_count(self->rate, human));
  (void)printf("  makespan     %s\n", mhas_human_seconds(result->makespan, human));
  (void)printf("  bound        %s: %s\n", mhas_human_seconds(result->bound, human),
               result->longest < result->bound ? "the work, shared evenly" : "the longest point");
  (void)printf("  utilisation  %.2f %% of the ranks at work\n", 100.0 * utilisation(self));
  (void)printf("  master       %.1f messages per second, busy %.2f %% of the time\n", messages_per_second(self),
               100.0 * master_share(self));
  if (result->teams > 0) {
    (void)printf("  teams        %" PRId64 " points on several ranks\n", result->teams);
  }
  if (result->stranded > 0) {
    (void)printf("  left         %" PRId64 " points need up to %d ranks at work and are not run\n", result->stranded,
                 result->widest);
  }
}

static mhas_code print_json(const simulated *self, mhas_error *error) {
  const mhas_simulation *result = &self->result;
  bool failed = false;
  json_t *object = json_object();
  cli_json_put(object, "spec", json_string(self->path), &failed);
  cli_json_put(object, "ranks", json_integer(self->ranks), &failed);
  cli_json_put(object, "workers", json_integer(self->options.workers), &failed);
  cli_json_put(object, "points", json_integer(result->rows), &failed);
  cli_json_put(object, "team_points", json_integer(result->teams), &failed);
  cli_json_put(object, "left_points", json_integer(result->stranded), &failed);
  cli_json_put(object, "left_widest", json_integer(result->widest), &failed);
  cli_json_put(object, "flops_per_second", cli_json_number(self->rate), &failed);
  cli_json_put(object, "makespan", cli_json_number(result->makespan), &failed);
  cli_json_put(object, "bound", cli_json_number(result->bound), &failed);
  cli_json_put(object, "longest", cli_json_number(result->longest), &failed);
  cli_json_put(object, "work", cli_json_number(result->work), &failed);
  cli_json_put(object, "utilisation", cli_json_number(utilisation(self)), &failed);
  cli_json_put(object, "messages", json_integer(result->messages), &failed);
  cli_json_put(object, "messages_per_second", cli_json_number(messages_per_second(self)), &failed);
  cli_json_put(object, "master_busy", cli_json_number(master_share(self)), &failed);
  return cli_json_print(object, failed, error);
}

/* ---- in ---- */

static mhas_code read_options(const cli_words *words, simulated *self, mhas_error *error) {
  if (!cli_has(words, OPTION_RANKS)) {
    return mhas_fail(error, MHAS_USAGE, "simulate: needs --ranks N: mhasweep simulate %s --ranks 100", words->operand);
  }
  MHAS_TRY(cli_count(words, OPTION_RANKS, &self->ranks, error));
  if (self->ranks < 1 || self->ranks > RANKS_MOST) {
    return mhas_fail(error, MHAS_USAGE, "simulate: --ranks %s: from 1 to %d", cli_value(words, OPTION_RANKS),
                     RANKS_MOST);
  }
  mhas_simulation_options *made = &self->options;
  *made = (mhas_simulation_options){.workers = self->ranks == 1 ? 1 : (int)self->ranks - 1,
                                    .schedule = {.max_failures = INT64_MAX},
                                    .seconds_per_row = 3e-5,
                                    .seconds_per_message = 1e-5};
  MHAS_TRY(cli_number(words, OPTION_RATE, 1.0, &self->rate, error));
  MHAS_TRY(cli_number(words, OPTION_OVERHEAD, 0.0, &made->seconds_per_row, error));
  MHAS_TRY(cli_number(words, OPTION_MESSAGE, 0.0, &made->seconds_per_message, error));
  MHAS_TRY(cli_number(words, OPTION_NOISE, 0.0, &made->noise, error));
  return cli_teams(words, OPTION_TEAMS, &made->schedule.static_teams, error);
}

static mhas_code simulate(const cli_words *words, simulated *self, mhas_sweep *sweep, mhas_error *error) {
  if (mhas_sweep_grid_count(sweep) > points_most) {
    return mhas_fail(error, MHAS_USAGE,
                     "%s: %" PRId64 " points; simulate keeps all of them in memory, at most %" PRId64, words->operand,
                     mhas_sweep_grid_count(sweep), points_most);
  }
  if (!cli_has(words, OPTION_RATE)) {
    mhas_plan plan;
    MHAS_TRY(mhas_sweep_plan(sweep, false, &plan, error));
    MHAS_TRY(cli_sweep_rate(&plan, &self->rate, error));
  }
  self->options.seconds_per_flop = 1.0 / self->rate;
  self->options.seed = mhas_sweep_seed(sweep);
  MHAS_TRY(mhas_simulate_sweep(sweep, &self->options, &self->result, error));
  if (cli_has(words, OPTION_JSON)) {
    return print_json(self, error);
  }
  print_for_people(self);
  return MHAS_OK;
}

static mhas_code run(const cli_words *words, int *status, mhas_error *error) {
  (void)status;
  simulated self = {.path = words->operand};
  mhas_sweep *sweep = NULL;
  MHAS_TRY(read_options(words, &self, error));
  if (!cli_has(words, OPTION_RATE)) {
    (void)mhas_blas_setup(words->argv, true, error); /* slow kernels make a slow estimate */
  }
  MHAS_TRY(cli_read_sweep(words, OPTION_SET, &sweep, error));
  const mhas_code code = simulate(words, &self, sweep, error);
  mhas_sweep_destroy(sweep);
  return code;
}

const cli_command cli_simulate = {
    .name = "simulate",
    .operand = "SPEC.yaml",
    .summary = "how a sweep would run on so many ranks: makespan, utilisation, load of the master",
    .description =
        "Runs the scheduler of mhasweep run against ranks that only pretend to work, for each point as long as its "
        "operations take at the given rate. So one sees before a job is sent how many ranks a sweep can use, what its "
        "longest points cost the others in waiting, and whether rank 0 keeps up. Up to 10^5 ranks and 10^7 points take "
        "seconds.\n\n"
        "The bound is the time that no order of the points can beat: all work shared evenly, or the longest point. A "
        "team of r ranks is taken to be r times as fast as one. The rate of matrix products is the best that a rank "
        "can do; the rate of points like yours is their `flops` by their `seconds` in a result file.",
    .options = options,
    .option_count = OPTION_COUNT,
    .examples =
        "  mhasweep simulate sweep.yaml --ranks 129\n"
        "  mhasweep simulate sweep.yaml --ranks 10001 --rate 8e9 --noise 0.3\n"
        "  mhasweep simulate sweep.yaml --ranks 65 --set limits.memory_per_rank=2GiB --json\n",
    .statuses =
        "  0  simulated\n"
        "  1  out of memory, or the answer could not be written\n"
        "  2  the command line or the sweep file is wrong\n",
    .run = run,
};
