/*
 * Do expressions give values that their parameters can take, everywhere `where` looks?
 *
 * Looked at before anything runs, as long as the part of the grid that decides a value is small enough to be walked;
 * beyond, mhas_sweep_point says it of each point.
 */
#include <math.h>

#include "sweep/inside.h"

enum { PART_MOST = 1 << 16 };

/* "heads = 1, context = 0": the parameters of these digits. */
static void write_place(const mhas_sweep *sweep, uint64_t digits, const mhas_value *values, mhas_text *text) {
  const char *before = " at ";
  for (int d = 0; d < sweep->digit_count; d++) {
    for (int m = 0; (digits >> d & 1) != 0 && m < sweep->digit[d].member_count; m++) {
      const int p = sweep->digit[d].member[m];
      mhas_text_append(text, "%s%s = ", before, sweep->experiment->parameters[p].name);
      mhas_value_format(&sweep->experiment->parameters[p], values[p], text);
      before = ", ";
    }
  }
}

/* Where to point for a parameter: at its own line, or for a default at the first given one that it depends on. */
static sweep_place place_for(const sweep_reader *reader, int parameter) {
  const mhas_sweep *sweep = reader->sweep;
  const sweep_node *experiment = sweep_node_find(reader->root, "experiment");
  if (sweep->definition[parameter].given) {
    return sweep->definition[parameter].place;
  }
  for (int p = 0; p < sweep->experiment->parameter_count; p++) {
    if ((sweep->needs[parameter] >> p & 1) != 0 && sweep->definition[p].given) {
      return sweep->definition[p].place;
    }
  }
  return experiment->place;
}

/* Returns whether all is well. */
static bool verify_parameter(sweep_reader *reader, int parameter, mhas_value *values) {
  mhas_sweep *sweep = reader->sweep;
  const uint64_t needs = sweep->needs[parameter] | sweep->where_needs;
  const sweep_part part = sweep_part_of(sweep, needs, PART_MOST);
  for (int64_t i = 0; i < part.count; i++) {
    mhas_error reason;
    mhas_value value;
    sweep_set_part(sweep, &part, i, values);
    sweep_evaluate(sweep, needs);
    if (sweep_where_value(sweep) == 0.0 || sweep_settle(sweep, parameter, &value, &reason)) {
      continue;
    }
    mhas_text at = {0};
    write_place(sweep, sweep_digits_of(sweep, sweep->needs[parameter]), values, &at);
    sweep_complain(reader->complaints, place_for(reader, parameter), "%s = %s%s: %s%s",
                   sweep->experiment->parameters[parameter].name, sweep_shortest(sweep->scope.value[parameter]).text,
                   mhas_text_string(&at), reason.text,
                   sweep->definition[parameter].given ? "" : " (its value here comes from the default expression)");
    mhas_text_free(&at);
    return false;
  }
  return true;
}

static void verify_where(sweep_reader *reader, mhas_value *values) {
  mhas_sweep *sweep = reader->sweep;
  const sweep_part part = sweep_part_of(sweep, sweep->where_needs, PART_MOST);
  for (int64_t i = 0; i < part.count; i++) {
    sweep_set_part(sweep, &part, i, values);
    sweep_evaluate(sweep, sweep->where_needs);
    if (isnan(sweep_where_value(sweep))) {
      mhas_text at = {0};
      write_place(sweep, part.digits, values, &at);
      sweep_complain(reader->complaints, sweep->where->place, "where is neither true nor false%s: it is not a number",
                     mhas_text_string(&at));
      mhas_text_free(&at);
      return;
    }
  }
}

/* The experiment's own rules may look at every parameter. */
static void verify_check(sweep_reader *reader, mhas_value *values) {
  mhas_sweep *sweep = reader->sweep;
  const uint64_t all = ~(UINT64_C(1) << SWEEP_REPLICATE) | sweep->where_needs;
  const sweep_part part = sweep_part_of(sweep, all, PART_MOST);
  const sweep_node *parameters = sweep_node_find(reader->root, "parameters");
  for (int64_t i = 0; i < part.count; i++) {
    mhas_error reason = {.text = ""};
    sweep_set_part(sweep, &part, i, values);
    sweep_evaluate(sweep, UINT64_MAX);
    bool settled = sweep_where_value(sweep) != 0.0;
    for (int e = 0; e < sweep->order_count && settled; e++) {
      settled = sweep_settle(sweep, sweep->order[e], &values[sweep->order[e]], &reason);
    }
    if (settled && sweep->experiment->check(values, &reason) != MHAS_OK) {
      mhas_text at = {0};
      write_place(sweep, part.digits, values, &at);
      sweep_complain(reader->complaints, parameters != NULL ? parameters->key->place : reader->root->place, "%s%s",
                     reason.text, mhas_text_string(&at));
      mhas_text_free(&at);
      return;
    }
  }
}

void sweep_verify(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  mhas_error error;
  mhas_value *values = NULL;
  if (mhas_alloc(&values, (size_t)sweep->experiment->parameter_count, sizeof *values, "a point", &error) != MHAS_OK) {
    reader->complaints->no_memory = true;
    return;
  }
  uint64_t faulty = 0; /* what depends on these would only say the same again */
  for (int i = 0; i < sweep->order_count; i++) {
    const int p = sweep->order[i];
    if ((sweep->needs[p] & faulty) == 0 && !verify_parameter(reader, p, values)) {
      faulty |= UINT64_C(1) << p;
    }
  }
  if (sweep->where != NULL) {
    verify_where(reader, values);
  }
  if (sweep->experiment->check != NULL) {
    verify_check(reader, values);
  }
  mhas_free(values);
}
