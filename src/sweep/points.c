/* From the number of a point to its values. */
#include <inttypes.h>
#include <math.h>

#include "sweep/inside.h"

/* An expression for whole numbers may miss one by rounding only. */
static double snap(double value) {
  const double whole = nearbyint(value);
  return fabs(value - whole) <= 1e-9 * fmax(1.0, fabs(whole)) ? whole : value;
}

void sweep_evaluate(mhas_sweep *sweep, uint64_t needed) {
  for (int i = 0; i < sweep->order_count; i++) {
    const int p = sweep->order[i];
    if ((needed >> p & 1) != 0) {
      const double value = sweep_expression_value(sweep->definition[p].expression);
      sweep->scope.value[p] = sweep->experiment->parameters[p].type == MHAS_REAL ? value + 0.0 : snap(value);
    }
  }
}

double sweep_where_value(const mhas_sweep *sweep) {
  return sweep->where == NULL ? 1.0 : sweep_expression_value(sweep->where);
}

/* The place of the choice's word that expressions know by this number; -1 if there is none. */
static int64_t choice_of(const mhas_sweep *sweep, const mhas_parameter *parameter, double number) {
  for (int64_t i = 0; parameter->choices[i] != NULL; i++) {
    if ((double)sweep_word_id(sweep->experiment, parameter->choices[i]) == number) {
      return i;
    }
  }
  return -1;
}

bool sweep_settle(const mhas_sweep *sweep, int parameter, mhas_value *value, mhas_error *reason) {
  const mhas_parameter *entry = &sweep->experiment->parameters[parameter];
  const double number = sweep->scope.value[parameter];
  bool good = isfinite(number);
  const char *advice = good ? "" : "; is something divided by zero?";
  if (good && entry->type == MHAS_REAL) {
    value->real = number;
    good = sweep_in_range(entry, number);
  } else if (good && entry->type == MHAS_CHOICE) {
    value->integer = choice_of(sweep, entry, number);
    good = value->integer >= 0;
  } else if (good) {
    const bool whole = number == nearbyint(number);
    advice = whole ? "" : "; use floor, ceil or round";
    good = whole && (entry->type == MHAS_FLAG ? number == 0.0 || number == 1.0 : sweep_in_range(entry, number));
    value->integer = good ? (int64_t)number : 0;
  }
  if (!good) {
    (void)mhas_fail(reason, MHAS_USAGE, "it takes %s%s", sweep_describe(entry).text, advice);
  }
  return good;
}

bool sweep_keeps(mhas_sweep *sweep, int64_t index, mhas_value *values) {
  sweep_set_combination(sweep, index / sweep->replicates, values);
  sweep_set_replicate(sweep, index % sweep->replicates);
  sweep_evaluate(sweep, sweep->where_needs);
  return sweep_where_value(sweep) != 0.0; /* NaN is not 0 */
}

static mhas_code settle_all(mhas_sweep *sweep, mhas_value *values, mhas_error *error) {
  for (int i = 0; i < sweep->order_count; i++) {
    const int p = sweep->order[i];
    if (!sweep_settle(sweep, p, &values[p], error)) {
      return mhas_error_context(error, "%s = %s", sweep->experiment->parameters[p].name,
                                sweep_shortest(sweep->scope.value[p]).text);
    }
  }
  return sweep->experiment->check == NULL ? MHAS_OK : sweep->experiment->check(values, error);
}

mhas_code mhas_sweep_point(mhas_sweep *sweep, int64_t index, mhas_value *values, int64_t *replicate, bool *included,
                           mhas_error *error) {
  if (index < 0 || index >= mhas_sweep_grid_count(sweep)) {
    return mhas_fail(error, MHAS_INTERNAL, "point %" PRId64 " of a grid of %" PRId64, index,
                     mhas_sweep_grid_count(sweep));
  }
  const int64_t combination = index / sweep->replicates;
  *replicate = index - combination * sweep->replicates;
  *included = true;
  sweep_set_combination(sweep, combination, values);
  sweep_set_replicate(sweep, *replicate);
  sweep_evaluate(sweep, UINT64_MAX);
  const double kept = sweep_where_value(sweep);
  if (isnan(kept)) {
    return mhas_fail(error, MHAS_USAGE, "where is neither true nor false at this point: it is not a number");
  }
  *included = kept != 0.0;
  return *included ? settle_all(sweep, values, error) : MHAS_OK;
}

mhas_code mhas_sweep_point_at(mhas_sweep *sweep, int64_t index, int64_t size, mhas_value *values, mhas_error *error) {
  const int64_t combination = index / sweep->replicates;
  sweep_set_combination(sweep, combination, values);
  sweep_set_replicate(sweep, index - combination * sweep->replicates);
  sweep_set(sweep, sweep->experiment->search->parameter, (mhas_value){.integer = size}, values);
  sweep_evaluate(sweep, UINT64_MAX);
  const mhas_code code = settle_all(sweep, values, error);
  /* The scope's fixed values are set once, when the grid is laid out. */
  mhas_value *fixed = sweep->fixed;
  sweep_set(sweep, sweep->experiment->search->parameter, fixed[sweep->experiment->search->parameter], fixed);
  return code;
}
