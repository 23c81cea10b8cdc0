/* What a sweep will take: by looking at every point, or at an even sample of them and the corners of the grid. */
#include <math.h>

#include "sweep/inside.h"

enum { EXACT_MOST = 1 << 20, SAMPLE_SIZE = 1 << 17, CORNER_BITS_MOST = 12 };

typedef struct tally {
  mhas_sweep *sweep;
  mhas_value *values;
  int64_t kept;
  double flops, flops_float32, array_bytes; /* sums over kept points */
  double flops_most, bytes_most;
  int ranks_most;
  bool too_large;
  int64_t records_most, spectrum_most;
  double parameters_least, parameters_most;
} tally;

/* ---- points ---- */

static double array_bytes(const mhas_sweep *sweep, const mhas_value *values) {
  mhas_array arrays[MHAS_ARRAYS_MOST];
  double bytes = 0.0;
  if (sweep->experiment->arrays == NULL) {
    return 0.0;
  }
  const int count = sweep->experiment->arrays(values, sweep->store, arrays);
  for (int i = 0; i < count; i++) {
    double numbers = 1.0;
    for (int k = 0; k < arrays[i].rank; k++) {
      numbers *= (double)arrays[i].shape[k];
    }
    bytes += 8.0 * numbers;
  }
  return bytes;
}

/* Looks at one point; `sum`: it stands for others too, otherwise only the maxima count. A point that cannot be run
 * costs nothing, but is a row. */
static void look(tally *t, int64_t index, bool sum) {
  mhas_sweep *sweep = t->sweep;
  int64_t replicate = 0;
  bool included = false;
  const mhas_code code = mhas_sweep_point(sweep, index, t->values, &replicate, &included, NULL);
  if (!included) {
    return;
  }
  t->kept += sum;
  if (code != MHAS_OK || sweep->experiment->cost == NULL) {
    return;
  }
  const mhas_cost cost = mhas_experiment_cost(sweep->experiment, t->values);
  if (sum) {
    t->flops += cost.flops;
    t->flops_float32 += cost.flops_float32;
    t->array_bytes += array_bytes(sweep, t->values);
  }
  t->flops_most = fmax(t->flops_most, cost.flops);
  t->bytes_most = fmax(t->bytes_most, cost.bytes);
  const int ranks = mhas_experiment_ranks(sweep->experiment, t->values, sweep->limits.memory_per_rank, NULL);
  t->ranks_most = ranks > t->ranks_most ? ranks : t->ranks_most;
  t->too_large = t->too_large || ranks == 0;
  t->parameters_least = fmin(t->parameters_least, cost.parameters);
  t->parameters_most = fmax(t->parameters_most, cost.parameters);
  t->records_most = cost.records > t->records_most ? cost.records : t->records_most;
  t->spectrum_most = cost.spectrum > t->spectrum_most ? cost.spectrum : t->spectrum_most;
}

/* Replicates cost the same; only `where` may tell them apart. Returns how many points each looked-at point stands for.
 */
static double look_at_all(tally *t) {
  mhas_sweep *sweep = t->sweep;
  const bool each = (sweep->where_needs >> SWEEP_REPLICATE & 1) != 0;
  const int64_t step = each ? 1 : sweep->replicates;
  const int64_t grid = mhas_sweep_grid_count(sweep);
  for (int64_t i = 0; i < grid; i += step) {
    look(t, i, true);
  }
  return (double)step;
}

/* One point at random from each of SAMPLE_SIZE equal stretches of the grid: even, yet never in step with an axis. */
static double look_at_sample(tally *t) {
  const int64_t grid = mhas_sweep_grid_count(t->sweep);
  const mhas_random random = {.seed = 0};
  for (int64_t i = 0; i < SAMPLE_SIZE; i++) {
    const int64_t first = (int64_t)((__int128)grid * i / SAMPLE_SIZE);
    const int64_t end = (int64_t)((__int128)grid * (i + 1) / SAMPLE_SIZE);
    int64_t within = 0;
    mhas_random_below(random, MHAS_STREAM_SAMPLE, (uint64_t)i, 1, (uint64_t)(end - first), &within);
    look(t, first + within, true);
  }
  return (double)grid / (double)SAMPLE_SIZE;
}

/* Costs mostly grow along the axes, so the largest point tends to be a corner. With many axes some share their end. */
static void look_at_corners(tally *t) {
  mhas_sweep *sweep = t->sweep;
  if (sweep->method != SWEEP_GRID) {
    return;
  }
  const int bits = sweep->digit_count < CORNER_BITS_MOST ? sweep->digit_count : CORNER_BITS_MOST;
  for (int corner = 0; corner < 1 << bits; corner++) {
    int64_t combination = 0;
    for (int d = 0; d < sweep->digit_count; d++) {
      const bool last = (corner >> d % CORNER_BITS_MOST & 1) != 0;
      combination = combination * sweep->digit[d].length + (last ? sweep->digit[d].length - 1 : 0);
    }
    look(t, combination * sweep->replicates, false);
  }
}

/* The number of points that `where` keeps, if the part of the grid that decides it is small enough to be walked; -1 if
 * not. */
static double count_kept(tally *t) {
  mhas_sweep *sweep = t->sweep;
  const double grid = (double)mhas_sweep_grid_count(sweep);
  int64_t kept = 0;
  if (sweep->where == NULL) {
    return grid;
  }
  const sweep_part part = sweep_part_of(sweep, sweep->where_needs, EXACT_MOST);
  for (int64_t i = 0; i < part.count; i++) {
    sweep_set_part(sweep, &part, i, t->values);
    sweep_evaluate(sweep, sweep->where_needs);
    kept += sweep_where_value(sweep) != 0.0;
  }
  return part.count < 0 ? -1.0 : (double)kept * (grid / (double)part.count);
}

/* ---- the file ---- */

static double bytes_of_type(mhas_type type) { return type == MHAS_INTEGER || type == MHAS_REAL ? 8.0 : 1.0; }

static double row_bytes(const mhas_sweep *sweep, const mhas_plan *plan) {
  const mhas_experiment *experiment = sweep->experiment;
  /* point, replicate, status, error, hostname, attempts, seconds, ranks, flops */
  double bytes = 8.0 + 8.0 + 1.0 + 256.0 + 64.0 + 4.0 + 8.0 + 4.0 + 8.0;
  for (int p = 0; p < experiment->parameter_count; p++) {
    const mhas_type type = experiment->parameters[p].type;
    bytes += type == MHAS_TEXT ? (double)mhas_sweep_text_width(sweep, p) : bytes_of_type(type);
  }
  for (int r = 0; r < experiment->result_count; r++) {
    bytes += bytes_of_type(experiment->results[r].type);
  }
  if ((sweep->store & MHAS_STORE_CURVES) != 0) {
    bytes += 4.0 * (double)experiment->curve_count * (double)plan->records_most;
  }
  if ((sweep->store & MHAS_STORE_SPECTRUM) != 0) {
    bytes += 8.0 * (double)plan->spectrum_most;
  }
  return bytes;
}

mhas_code mhas_sweep_plan(mhas_sweep *sweep, bool exact, mhas_plan *plan, mhas_error *error) {
  const double head = 65536.0; /* root attributes, names, meanings */
  tally t = {.sweep = sweep, .ranks_most = 1, .parameters_least = INFINITY};
  *plan = (mhas_plan){.grid = mhas_sweep_grid_count(sweep)};
  MHAS_TRY(mhas_alloc(&t.values, (size_t)sweep->experiment->parameter_count, sizeof *t.values, "a point", error));
  plan->exact = exact || plan->grid <= EXACT_MOST;
  double weight = 1.0; /* points that a looked-at point stands for */
  if (plan->exact) {
    weight = look_at_all(&t);
    plan->points = (double)t.kept * weight;
  } else {
    weight = look_at_sample(&t);
    look_at_corners(&t);
    const double counted = count_kept(&t);
    plan->points = counted >= 0.0 ? counted : (double)t.kept * weight;
    weight = t.kept > 0 ? plan->points / (double)t.kept : 0.0;
  }
  mhas_free(t.values);
  plan->flops = t.flops * weight;
  plan->flops_float32 = t.flops_float32 * weight;
  plan->flops_most = t.flops_most;
  plan->bytes_most = t.bytes_most;
  plan->ranks_most = t.ranks_most;
  plan->too_large = t.too_large;
  plan->records_most = t.records_most;
  plan->spectrum_most = t.spectrum_most;
  plan->parameters_least = isfinite(t.parameters_least) ? t.parameters_least : 0.0;
  plan->parameters_most = t.parameters_most;
  plan->file_bytes = head + plan->points * row_bytes(sweep, plan) + t.array_bytes * weight;
  return MHAS_OK;
}
