/* The digits of the grid, and the values that they give to a point. */
#include <gsl/gsl_qrng.h>
#include <stdlib.h>
#include <string.h>

#include "sweep/inside.h"

/* ---- layout ---- */

static bool is_digit(const sweep_definition *definition) {
  return definition->count > 1 || (definition->form == SWEEP_RANGE && definition->range.continuous);
}

/* An axis stands at its place in the table, a zip group at that of its first member. */
static void add_digits(mhas_sweep *sweep) {
  int digit_of_group[SWEEP_PARAMETERS_MOST];
  for (int g = 0; g < SWEEP_PARAMETERS_MOST; g++) {
    digit_of_group[g] = -1;
  }
  for (int p = 0; p < sweep->experiment->parameter_count; p++) {
    const sweep_definition *definition = &sweep->definition[p];
    if (!is_digit(definition)) {
      continue;
    }
    int d = definition->group >= 0 ? digit_of_group[definition->group] : -1;
    if (d < 0) {
      d = sweep->digit_count++;
      sweep->digit[d].length = definition->range.continuous ? 0 : definition->count;
    }
    if (definition->group >= 0) {
      digit_of_group[definition->group] = d;
    }
    sweep->digit[d].member[sweep->digit[d].member_count++] = p;
  }
}

static void set_fixed(mhas_sweep *sweep) {
  for (int p = 0; p < sweep->experiment->parameter_count; p++) {
    const sweep_definition *definition = &sweep->definition[p];
    if (definition->form != SWEEP_EXPRESSION && !is_digit(definition)) {
      sweep_set(sweep, p, sweep_definition_value(definition, 0), sweep->fixed);
    }
  }
}

static sweep_place parameters_place(const sweep_reader *reader) {
  const sweep_node *node = sweep_node_find(reader->root, "parameters");
  return node != NULL ? node->key->place : reader->root->place;
}

static void count_points(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  double count = sweep->method != SWEEP_GRID ? (double)sweep->sample_count : 1.0;
  int64_t exact = sweep->method != SWEEP_GRID ? sweep->sample_count : 1;
  for (int d = 0; d < sweep->digit_count && sweep->method == SWEEP_GRID; d++) {
    count *= (double)sweep->digit[d].length;
    exact = count <= (double)SWEEP_GRID_MOST ? exact * sweep->digit[d].length : exact;
  }
  count *= (double)sweep->replicates;
  if (count > (double)SWEEP_GRID_MOST) {
    char human[MHAS_HUMAN_LENGTH];
    sweep_complain(reader->complaints, parameters_place(reader),
                   "the grid has %s points, the most is 2^40 (1.1 T); use fewer values, or sample: {method: sobol, "
                   "count: N}",
                   mhas_human_count(count, human));
    return;
  }
  sweep->combinations = exact;
}

/* A sampler needs something to sample, and memory for a number per point and axis. */
static void check_sample(sweep_reader *reader) {
  enum { NUMBERS_MOST = 1 << 27 };
  mhas_sweep *sweep = reader->sweep;
  const sweep_node *node = sweep_node_find(reader->root, "sample");
  if (sweep->digit_count == 0) {
    sweep_complain(reader->complaints, node->place, "sample has nothing to draw from; give a parameter several values");
  } else if (sweep->sample_count > NUMBERS_MOST / sweep->digit_count) {
    sweep_complain(reader->complaints, node->place, "sample.count is at most %d with %d axes",
                   NUMBERS_MOST / sweep->digit_count, sweep->digit_count);
  } else if (sweep->method == SWEEP_SOBOL && sweep->digit_count > (int)gsl_qrng_sobol->max_dimension) {
    sweep_complain(reader->complaints, node->place, "sobol reaches %u axes, here are %d; use lhs or random",
                   gsl_qrng_sobol->max_dimension, sweep->digit_count);
  }
}

void sweep_lay_out_grid(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  const size_t count = (size_t)sweep->experiment->parameter_count;
  sweep->digit = calloc(count + 1, sizeof *sweep->digit);
  sweep->fixed = calloc(count + 1, sizeof *sweep->fixed);
  if (sweep->digit == NULL || sweep->fixed == NULL) {
    reader->complaints->no_memory = true;
    return;
  }
  add_digits(sweep);
  set_fixed(sweep);
  count_points(reader);
  if (sweep->method != SWEEP_GRID) {
    check_sample(reader);
  }
}

/* ---- values ---- */

mhas_value sweep_definition_value(const sweep_definition *definition, int64_t index) {
  switch (definition->form) {
    case SWEEP_VALUES: return definition->list[index];
    case SWEEP_RANGE:
      return definition->range.from == definition->range.to ? sweep_range_at(&definition->range, 0.0)
                                                            : sweep_range_value(&definition->range, index);
    case SWEEP_FIXED:
    case SWEEP_EXPRESSION: break;
  }
  return definition->value;
}

void sweep_set(mhas_sweep *sweep, int parameter, mhas_value value, mhas_value *values) {
  const mhas_parameter *entry = &sweep->experiment->parameters[parameter];
  values[parameter] = value;
  sweep->scope.value[parameter] = entry->type == MHAS_CHOICE
                                      ? (double)sweep_word_id(sweep->experiment, entry->choices[value.integer])
                                      : sweep_value_number(entry, value);
}

void sweep_set_digit(mhas_sweep *sweep, int digit, int64_t index, mhas_value *values) {
  const sweep_digit *entry = &sweep->digit[digit];
  for (int m = 0; m < entry->member_count; m++) {
    const int p = entry->member[m];
    sweep_set(sweep, p, sweep_definition_value(&sweep->definition[p], index), values);
  }
}

static void set_from_sample(mhas_sweep *sweep, int64_t combination, mhas_value *values) {
  const double *u = sweep->sample + combination * sweep->digit_count;
  for (int d = 0; d < sweep->digit_count; d++) {
    const sweep_digit *digit = &sweep->digit[d];
    if (digit->length == 0) {
      const int p = digit->member[0];
      sweep_set(sweep, p, sweep_range_at(&sweep->definition[p].range, u[d]), values);
    } else {
      const int64_t index = (int64_t)(u[d] * (double)digit->length);
      sweep_set_digit(sweep, d, index < digit->length ? index : digit->length - 1, values);
    }
  }
}

void sweep_set_combination(mhas_sweep *sweep, int64_t combination, mhas_value *values) {
  memcpy(values, sweep->fixed, (size_t)sweep->experiment->parameter_count * sizeof *values);
  if (sweep->method != SWEEP_GRID) {
    set_from_sample(sweep, combination, values);
    return;
  }
  for (int d = sweep->digit_count - 1; d >= 0; d--) {
    const int64_t rest = combination / sweep->digit[d].length;
    sweep_set_digit(sweep, d, combination - rest * sweep->digit[d].length, values);
    combination = rest;
  }
}

void sweep_set_replicate(mhas_sweep *sweep, int64_t replicate) {
  sweep->scope.value[SWEEP_REPLICATE] = (double)replicate;
}

/* ---- parts of the grid ---- */

uint64_t sweep_digits_of(const mhas_sweep *sweep, uint64_t parameters) {
  uint64_t digits = 0;
  for (int d = 0; d < sweep->digit_count; d++) {
    for (int m = 0; m < sweep->digit[d].member_count; m++) {
      digits |= (parameters >> sweep->digit[d].member[m] & 1) << d;
    }
  }
  return digits;
}

sweep_part sweep_part_of(const mhas_sweep *sweep, uint64_t needs, int64_t most) {
  sweep_part part = {.digits = sweep_digits_of(sweep, needs), .replicate = (needs >> SWEEP_REPLICATE & 1) != 0};
  double count = part.replicate ? (double)sweep->replicates : 1.0;
  if (sweep->method != SWEEP_GRID) {
    count *= (double)sweep->sample_count;
  }
  for (int d = 0; d < sweep->digit_count && sweep->method == SWEEP_GRID; d++) {
    count *= (part.digits >> d & 1) != 0 ? (double)sweep->digit[d].length : 1.0;
  }
  part.count = count <= (double)most ? (int64_t)count : -1;
  return part;
}

void sweep_set_part(mhas_sweep *sweep, const sweep_part *part, int64_t index, mhas_value *values) {
  if (part->replicate) {
    sweep_set_replicate(sweep, index % sweep->replicates);
    index /= sweep->replicates;
  }
  if (sweep->method != SWEEP_GRID) {
    sweep_set_combination(sweep, index, values);
    return;
  }
  memcpy(values, sweep->fixed, (size_t)sweep->experiment->parameter_count * sizeof *values);
  for (int d = sweep->digit_count - 1; d >= 0; d--) {
    const bool runs = (part->digits >> d & 1) != 0;
    sweep_set_digit(sweep, d, runs ? index % sweep->digit[d].length : 0, values);
    index = runs ? index / sweep->digit[d].length : index;
  }
}
