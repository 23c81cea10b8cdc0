/* The plan on paper. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "cli/plan.h"

enum { VALUES_SHOWN = 8, VALUES_IN_JSON = 1000, LABEL_WIDTH = 9 };

/* A labelled line, wrapped under itself. */
static void __attribute__((format(printf, 2, 3))) line(const char *label, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  (void)printf("  %-*s ", LABEL_WIDTH, label);
  cli_print_hanging(text, LABEL_WIDTH + 3, cli_width());
}

/* ---- axes ---- */

/* The first values, and the last; of a range that a sampler draws from, its ends. */
static void append_values(const plan_estimate *self, int parameter, mhas_text *text) {
  const mhas_parameter *table = &mhas_sweep_experiment(self->sweep)->parameters[parameter];
  const int64_t length = mhas_sweep_axis_length(self->sweep, parameter);
  const bool cut = length > VALUES_SHOWN;
  for (int64_t i = 0; i < (cut ? VALUES_SHOWN - 2 : length); i++) {
    mhas_text_append(text, i == 0 ? "" : ", ");
    mhas_value_format(table, mhas_sweep_axis_value(self->sweep, parameter, i), text);
  }
  if (cut) {
    mhas_text_append(text, " ... ");
    mhas_value_format(table, mhas_sweep_axis_value(self->sweep, parameter, length - 1), text);
  }
  if (length == 0) {
    mhas_text_append(text, "drawn from ");
    mhas_value_format(table, mhas_sweep_axis_value(self->sweep, parameter, 0), text);
    mhas_text_append(text, " to ");
    mhas_value_format(table, mhas_sweep_axis_value(self->sweep, parameter, 1), text);
  }
}

static mhas_code print_axes(const plan_estimate *self, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(self->sweep);
  cli_table table = {.columns = 3, .right = {false, true, false}};
  mhas_text values = {0};
  for (int i = 0; i < experiment->parameter_count; i++) {
    if (!mhas_sweep_is_axis(self->sweep, i)) {
      continue;
    }
    const int64_t length = mhas_sweep_axis_length(self->sweep, i);
    values.length = 0;
    append_values(self, i, &values);
    cli_table_cell(&table, "%s", experiment->parameters[i].name);
    if (length > 0) {
      cli_table_cell(&table, "%" PRId64, length);
    } else {
      cli_table_cell(&table, "any");
    }
    cli_table_cell(&table, "%s", mhas_text_string(&values));
  }
  if (mhas_sweep_replicates(self->sweep) > 1) {
    cli_table_cell(&table, "replicate");
    cli_table_cell(&table, "%" PRId64, mhas_sweep_replicates(self->sweep));
    cli_table_cell(&table, "0 .. %" PRId64, mhas_sweep_replicates(self->sweep) - 1);
  }
  table.cells.failed |= values.failed;
  mhas_text_free(&values);
  if (table.cells.length > 0) {
    (void)printf("  axes\n");
  }
  return cli_table_print(&table, 4, error);
}

/* ---- the lines ---- */

static const char *about(const plan_estimate *self) { return self->plan.exact ? "" : "about "; }

static void print_points(const plan_estimate *self) {
  const mhas_plan *plan = &self->plan;
  const double left_out = (double)plan->grid - plan->points;
  if (left_out > 0.0) {
    line("points", "%s%.0f of %" PRId64 "; where leaves out %s%.0f", about(self), plan->points, plan->grid, about(self),
         left_out);
  } else {
    line("points", "%.0f", plan->points);
  }
}

static void print_search(const plan_estimate *self) {
  const mhas_experiment *experiment = mhas_sweep_experiment(self->sweep);
  const mhas_search *search = experiment->search;
  if (search == NULL) {
    return;
  }
  mhas_text condition = {0};
  mhas_search_format(experiment, &condition);
  line("search",
       "each point finds the largest %s from %" PRId64 " to %" PRId64 " with %s; work and time below are upper bounds",
       experiment->parameters[search->parameter].name, search->from, search->to, mhas_text_string(&condition));
  mhas_text_free(&condition);
}

static json_t *search_json(const plan_estimate *self, bool *failed) {
  const mhas_experiment *experiment = mhas_sweep_experiment(self->sweep);
  const mhas_search *search = experiment->search;
  if (search == NULL) {
    return json_null();
  }
  mhas_text condition = {0};
  json_t *object = json_object();
  mhas_search_format(experiment, &condition);
  cli_json_put(object, "parameter", json_string(experiment->parameters[search->parameter].name), failed);
  cli_json_put(object, "until", json_string(mhas_text_string(&condition)), failed);
  cli_json_put(object, "from", json_integer(search->from), failed);
  cli_json_put(object, "to", json_integer(search->to), failed);
  cli_json_put(object, "tolerance", json_integer(search->tolerance), failed);
  *failed |= condition.failed;
  mhas_text_free(&condition);
  return object;
}

static void print_work(const plan_estimate *self) {
  char all[MHAS_HUMAN_LENGTH];
  char most[MHAS_HUMAN_LENGTH];
  line("work", "%s%sFLOP in all, the costliest point %sFLOP", about(self), mhas_human_count(self->plan.flops, all),
       mhas_human_count(self->plan.flops_most, most));
}

static void print_model(const plan_estimate *self) {
  const mhas_plan *plan = &self->plan;
  if (plan->parameters_most == 0.0) {
    return;
  }
  if (plan->parameters_least == plan->parameters_most) {
    line("model", "%s%.0f parameters in every point", about(self), plan->parameters_most);
  } else {
    line("model", "%s%.0f to %.0f parameters", about(self), plan->parameters_least, plan->parameters_most);
  }
}

static void print_memory(const plan_estimate *self) {
  const double limit = mhas_sweep_limits(self->sweep)->memory_per_rank;
  char most[MHAS_HUMAN_LENGTH];
  char allowed[MHAS_HUMAN_LENGTH];
  (void)mhas_human_bytes(self->plan.bytes_most, most);
  if (!isfinite(limit)) {
    line("memory", "the largest point takes about %s; limits.memory_per_rank is not set", most);
    return;
  }
  (void)mhas_human_bytes(limit, allowed);
  if (self->plan.bytes_most <= limit) {
    line("memory", "the largest point takes about %s, within limits.memory_per_rank, %s", most, allowed);
  } else if (self->plan.too_large) {
    line("memory", "the largest point takes about %s, MORE than limits.memory_per_rank, %s: it will fail", most,
         allowed);
  } else {
    line("memory",
         "the largest point takes about %s, more than limits.memory_per_rank, %s: such points are shared by up to %d "
         "ranks, so start at least %d",
         most, allowed, self->plan.ranks_most, self->plan.ranks_most + 1);
  }
}

static const char *precision_of(const mhas_plan *plan) {
  if (plan->flops_float32 == 0.0) {
    return "double";
  }
  return plan->flops_float32 < plan->flops ? "single and double" : "single";
}

static void print_time(const plan_estimate *self) {
  char human[MHAS_HUMAN_LENGTH];
  const double seconds = self->plan.flops / self->rate;
  const double hours = seconds / 3600.0;
  const int decimals = hours < 1.0 ? 4 : hours < 100.0 ? 1 : 0;
  line("time",
       "about %.*f core-hours (%s on one core): an estimate, by the %.1f GF/s of matrix products in %s precision "
       "measured "
       "here",
       decimals, hours, mhas_human_seconds(seconds, human), self->rate * 1e-9, precision_of(&self->plan));
}

static void print_ranks(const plan_estimate *self) {
  char launcher[32] = "";
  char human[MHAS_HUMAN_LENGTH];
  if (self->workers > 1) {
    (void)snprintf(launcher, sizeof launcher, "mpirun -n %d ", self->workers + 1);
  }
  line("ranks",
       "%smhasweep run %s: about %s on the %d CPU%s here; more than %.0f workers (ranks beside the master) "
       "would not be faster",
       launcher, self->path, mhas_human_seconds(self->seconds, human), self->cpus, self->cpus == 1 ? "" : "s",
       self->workers_most);
}

mhas_code plan_print(const plan_estimate *self, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(self->sweep);
  (void)printf("%s: %s, %s\n", self->path, experiment->name, experiment->title);
  print_points(self);
  MHAS_TRY(print_axes(self, error));
  if (self->plan.points < 0.5) {
    (void)printf("No point is left to run.\n");
    return MHAS_OK;
  }
  print_search(self);
  print_work(self);
  print_model(self);
  print_memory(self);
  char human[MHAS_HUMAN_LENGTH];
  line("file", "about %s", mhas_human_bytes(self->plan.file_bytes, human));
  print_time(self);
  print_ranks(self);
  return MHAS_OK;
}

/* ---- JSON ---- */

static json_t *value_json(const mhas_parameter *parameter, mhas_value value) {
  switch (parameter->type) {
    case MHAS_INTEGER: return json_integer(value.integer);
    case MHAS_REAL: return json_real(value.real);
    case MHAS_CHOICE: return json_string(parameter->choices[value.integer]);
    case MHAS_FLAG: return json_boolean(value.integer != 0);
    case MHAS_TEXT: return json_string(value.text);
  }
  return NULL;
}

static json_t *axis_json(const plan_estimate *self, int parameter, bool *failed) {
  const mhas_parameter *table = &mhas_sweep_experiment(self->sweep)->parameters[parameter];
  const int64_t length = mhas_sweep_axis_length(self->sweep, parameter);
  json_t *object = json_object();
  cli_json_put(object, "name", json_string(table->name), failed);
  if (length == 0) {
    cli_json_put(object, "from", value_json(table, mhas_sweep_axis_value(self->sweep, parameter, 0)), failed);
    cli_json_put(object, "to", value_json(table, mhas_sweep_axis_value(self->sweep, parameter, 1)), failed);
    return object;
  }
  cli_json_put(object, "count", json_integer(length), failed);
  json_t *values = json_array();
  for (int64_t i = 0; i < length && i < VALUES_IN_JSON; i++) {
    const mhas_value value = mhas_sweep_axis_value(self->sweep, parameter, i);
    *failed |= json_array_append_new(values, value_json(table, value)) != 0;
  }
  cli_json_put(object, "values", values, failed);
  return object;
}

mhas_code plan_print_json(const plan_estimate *self, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(self->sweep);
  const mhas_plan *plan = &self->plan;
  bool failed = false;
  json_t *axes = json_array();
  for (int i = 0; i < experiment->parameter_count; i++) {
    if (mhas_sweep_is_axis(self->sweep, i)) {
      failed |= json_array_append_new(axes, axis_json(self, i, &failed)) != 0;
    }
  }
  json_t *object = json_object();
  cli_json_put(object, "spec", json_string(self->path), &failed);
  cli_json_put(object, "spec_hash", json_string(mhas_sweep_hash(self->sweep)), &failed);
  cli_json_put(object, "experiment", json_string(experiment->name), &failed);
  cli_json_put(object, "grid", json_integer(plan->grid), &failed);
  cli_json_put(object, "points", cli_json_number(plan->points), &failed);
  cli_json_put(object, "exact", json_boolean(plan->exact), &failed);
  cli_json_put(object, "axes", axes, &failed);
  cli_json_put(object, "replicates", json_integer(mhas_sweep_replicates(self->sweep)), &failed);
  cli_json_put(object, "search", search_json(self, &failed), &failed);
  cli_json_put(object, "flops", cli_json_number(plan->flops), &failed);
  cli_json_put(object, "flops_float32", cli_json_number(plan->flops_float32), &failed);
  cli_json_put(object, "flops_most", cli_json_number(plan->flops_most), &failed);
  cli_json_put(object, "parameters_least", cli_json_number(plan->parameters_least), &failed);
  cli_json_put(object, "parameters_most", cli_json_number(plan->parameters_most), &failed);
  cli_json_put(object, "bytes_most", cli_json_number(plan->bytes_most), &failed);
  cli_json_put(object, "ranks_most", json_integer(plan->ranks_most), &failed);
  cli_json_put(object, "too_large", json_boolean(plan->too_large), &failed);
  cli_json_put(object, "memory_per_rank", cli_json_number(mhas_sweep_limits(self->sweep)->memory_per_rank), &failed);
  cli_json_put(object, "file_bytes", cli_json_number(plan->file_bytes), &failed);
  cli_json_put(object, "flops_per_second", cli_json_number(self->rate), &failed);
  cli_json_put(object, "core_hours", cli_json_number(plan->flops / self->rate / 3600.0), &failed);
  cli_json_put(object, "cpus", json_integer(self->cpus), &failed);
  cli_json_put(object, "ranks", json_integer(self->workers == 1 ? 1 : self->workers + 1), &failed);
  cli_json_put(object, "seconds", cli_json_number(self->seconds), &failed);
  cli_json_put(object, "workers_most", cli_json_number(self->workers_most), &failed);
  return cli_json_print(object, failed, error);
}
