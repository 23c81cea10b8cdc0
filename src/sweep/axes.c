/* What a sweep says of its axes to those who describe it. */
#include <string.h>

#include "sweep/inside.h"

static bool is_continuous(const sweep_definition *definition) {
  return definition->form == SWEEP_RANGE && definition->range.continuous;
}

int64_t mhas_sweep_axis_length(const mhas_sweep *sweep, int parameter) {
  const sweep_definition *definition = &sweep->definition[parameter];
  return is_continuous(definition) ? 0 : definition->count;
}

mhas_value mhas_sweep_axis_value(const mhas_sweep *sweep, int parameter, int64_t index) {
  const sweep_definition *definition = &sweep->definition[parameter];
  if (!is_continuous(definition)) {
    return sweep_definition_value(definition, index);
  }
  const double end = index == 0 ? definition->range.from : definition->range.to;
  return definition->range.type == MHAS_REAL ? (mhas_value){.real = end} : (mhas_value){.integer = (int64_t)end};
}

size_t mhas_sweep_text_width(const mhas_sweep *sweep, int parameter) {
  size_t longest = 1;
  for (int64_t i = 0; i < mhas_sweep_axis_length(sweep, parameter); i++) {
    const size_t length = strlen(mhas_sweep_axis_value(sweep, parameter, i).text);
    longest = length > longest ? length : longest;
  }
  return longest;
}

bool mhas_sweep_is_derived(const mhas_sweep *sweep, int parameter) {
  return sweep->definition[parameter].form == SWEEP_EXPRESSION && sweep_digits_of(sweep, sweep->needs[parameter]) != 0;
}
