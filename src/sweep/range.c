#include "sweep/range.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const char *const range_keys[] = {"from", "to", "step", "count", "scale"};
static const char *const scales[] = {"linear", "log"};

/* ---- values ---- */

/* Puts a value that is within rounding of a short decimal (at most 6 digits) onto it: 0.001, not
 * 0.0010000000000000002. */
static double to_nice_decimal(double value) {
  const int decimals = 5 - (int)floor(log10(value));
  if (decimals < -15 || decimals > 22) {
    return value;
  }
  const double power = pow(10.0, abs(decimals)); /* exact up to 10^22 */
  const double digits = nearbyint(decimals >= 0 ? value * power : value / power);
  const double nice = decimals >= 0 ? digits / power : digits * power;
  return fabs(nice - value) <= 1e-13 * value ? nice : value;
}

static double log_value(const sweep_range *range, int64_t index) {
  if (index == 0) {
    return range->from;
  }
  if (index == range->count - 1) {
    return range->to;
  }
  const double exponent = (double)index / (double)(range->count - 1);
  return to_nice_decimal(range->from * pow(range->to / range->from, exponent));
}

static double linear_value(const sweep_range *range, int64_t index) {
  if (range->unit != 0) {
    return (double)(range->start + index * range->stride) / (double)range->unit;
  }
  if (!range->by_step && index == range->count - 1) {
    return range->to;
  }
  const double value = range->from + (double)index * range->step;
  return value < range->to - 1e-9 * range->step ? value : range->to;
}

mhas_value sweep_range_value(const sweep_range *range, int64_t index) {
  if (range->type == MHAS_REAL) {
    return (mhas_value){.real = range->logarithmic ? log_value(range, index) : linear_value(range, index)};
  }
  if (range->logarithmic) {
    return (mhas_value){.integer = llround(log_value(range, index))};
  }
  return (mhas_value){.integer = range->start + index * range->stride};
}

mhas_value sweep_range_at(const sweep_range *range, double u) {
  const bool integer = range->type == MHAS_INTEGER;
  const double from = integer ? range->from - 0.5 : range->from;
  const double to = integer ? range->to + 0.5 : range->to;
  double value = range->logarithmic ? from * pow(to / from, u) : from + u * (to - from);
  value = integer ? round(value) : value;
  value = value < range->from ? range->from : value > range->to ? range->to : value;
  return integer ? (mhas_value){.integer = (int64_t)value} : (mhas_value){.real = value};
}

/* ---- linear ranges ---- */

static bool too_many(sweep_complaints *complaints, const sweep_node *map, const mhas_parameter *parameter) {
  sweep_complain(complaints, map->place, "the range of %s has more than 2^40 values; a sweep has at most 2^40 points",
                 parameter->name);
  return false;
}

static bool integer_steps(sweep_complaints *complaints, const sweep_node *map, const mhas_parameter *parameter,
                          sweep_range *range) {
  const int64_t from = (int64_t)range->from;
  const int64_t length = (int64_t)range->to - from; /* both are at most 2^53 in size */
  range->start = from;
  range->unit = 1;
  if (range->by_step) {
    range->stride = (int64_t)range->step;
    range->count = length / range->stride + 1;
    return range->count <= SWEEP_GRID_MOST || too_many(complaints, map, parameter);
  }
  if (range->count > 1 && (length % (range->count - 1) != 0 || length == 0)) {
    sweep_complain(complaints, map->place,
                   "%s takes whole numbers, and %" PRId64 " evenly spaced values from %" PRId64 " to %" PRId64
                   " are not; use step, or another count",
                   parameter->name, range->count, from, from + length);
    return false;
  }
  range->stride = range->count > 1 ? length / (range->count - 1) : 0;
  range->step = (double)range->stride;
  return true;
}

/* The three numbers of a range as integers over one power of ten; false if they are too long. */
static bool common_decimals(const double number[3], int64_t digits[3], int64_t *unit) {
  int decimals[3];
  int most = 0;
  for (int i = 0; i < 3; i++) {
    if (!sweep_decimal_split(number[i], &digits[i], &decimals[i])) {
      return false;
    }
    most = decimals[i] > most ? decimals[i] : most;
  }
  if (most > 15) {
    return false;
  }
  *unit = 1;
  for (int k = 0; k < most; k++) {
    *unit *= 10;
  }
  for (int i = 0; i < 3; i++) {
    for (int k = decimals[i]; k < most; k++) {
      if (llabs(digits[i]) > (int64_t)(SWEEP_INTEGER_MOST / 10.0)) {
        return false;
      }
      digits[i] *= 10;
    }
  }
  return true;
}

static bool scale_exactly(int64_t *number, int64_t factor) {
  const int64_t most = (int64_t)SWEEP_INTEGER_MOST;
  return !__builtin_mul_overflow(*number, factor, number) && llabs(*number) <= most;
}

static bool real_steps(sweep_complaints *complaints, const sweep_node *map, const mhas_parameter *parameter,
                       sweep_range *range) {
  const double numbers[3] = {range->from, range->to, range->by_step ? range->step : 0.0};
  int64_t digits[3] = {0};
  int64_t unit = 0;
  bool exact = common_decimals(numbers, digits, &unit);
  if (range->by_step) {
    const double intervals = (range->to - range->from) / range->step;
    if (!(intervals < (double)SWEEP_GRID_MOST)) {
      return too_many(complaints, map, parameter);
    }
    range->count = exact ? (digits[1] - digits[0]) / digits[2] + 1 : (int64_t)floor(intervals + 1e-9) + 1;
    range->start = digits[0];
    range->stride = digits[2];
  } else {
    const int64_t intervals = range->count > 1 ? range->count - 1 : 1;
    range->step = (range->to - range->from) / (double)intervals;
    int64_t last = exact ? digits[1] : 0;
    exact = exact && scale_exactly(&digits[0], intervals) && scale_exactly(&last, intervals) &&
            scale_exactly(&unit, intervals);
    range->start = digits[0];
    range->stride = exact ? (last - digits[0]) / intervals : 0;
  }
  range->unit = exact ? unit : 0;
  return true;
}

/* ---- checks of finished ranges ---- */

/* Values grow with the index, so neighbours tell. Steps of a log range grow too: once they exceed one, no two rounded
 * values can be equal. */
static bool check_distinct(sweep_complaints *complaints, const sweep_node *map, const sweep_range *range) {
  bool equal = false;
  if (range->type == MHAS_INTEGER && range->logarithmic) {
    for (int64_t i = 1; i < range->count && !equal; i++) {
      equal = sweep_range_value(range, i).integer == sweep_range_value(range, i - 1).integer;
      if (log_value(range, i) - log_value(range, i - 1) > 1.0) {
        break;
      }
    }
  } else if (range->type == MHAS_REAL && range->count > 1) {
    const int64_t last = range->count - 1;
    equal = !(sweep_range_value(range, 0).real < sweep_range_value(range, 1).real &&
              sweep_range_value(range, last - 1).real < sweep_range_value(range, last).real);
  }
  if (equal) {
    sweep_complain(complaints, map->place,
                   "%" PRId64 " values from %s to %s are not all different%s; use a smaller count", range->count,
                   sweep_shortest(range->from).text, sweep_shortest(range->to).text,
                   range->type == MHAS_INTEGER ? " when rounded to whole numbers" : "");
  }
  return !equal;
}

static bool check_ends(sweep_complaints *complaints, const sweep_node *map, const mhas_parameter *parameter,
                       const sweep_range *range) {
  if (range->from > range->to) {
    sweep_complain(complaints, map->place, "the range of %s runs backwards; write {from: %s, to: %s ...}",
                   parameter->name, sweep_shortest(range->to).text, sweep_shortest(range->from).text);
    return false;
  }
  if (range->logarithmic && range->from <= 0.0) {
    sweep_complain(complaints, sweep_node_find(map, "from")->place, "a log range begins above 0, not at %s",
                   sweep_shortest(range->from).text);
    return false;
  }
  if (!range->by_step && !range->continuous && range->count == 1 && range->from != range->to) {
    sweep_complain(complaints, sweep_node_find(map, "count")->place,
                   "count 1 cannot reach both %s and %s; use a larger count, or one plain value",
                   sweep_shortest(range->from).text, sweep_shortest(range->to).text);
    return false;
  }
  return true;
}

/* ---- taking the map apart ---- */

static bool take_end(sweep_complaints *complaints, const sweep_node *map, const char *key,
                     const mhas_parameter *parameter, double *end) {
  const sweep_node *node = sweep_node_find(map, key);
  mhas_value value = {.integer = 0};
  if (node == NULL) {
    sweep_complain(complaints, map->place,
                   "the range of %s has no %s; write {from: A, to: B, step: C} or {from: A, to: B, count: N}",
                   parameter->name, key);
    return false;
  }
  if (!sweep_value_take(complaints, node, parameter, &value)) {
    return false;
  }
  *end = sweep_value_number(parameter, value);
  return true;
}

static bool take_step(sweep_complaints *complaints, const sweep_node *node, const mhas_parameter *parameter,
                      double *step) {
  sweep_number number;
  if (!sweep_number_take(complaints, node, "step", &number)) {
    return false;
  }
  if (!(number.real > 0.0)) {
    sweep_complain(complaints, node->place, "step must be above 0, not %s", sweep_show(node).text);
    return false;
  }
  if (parameter->type == MHAS_INTEGER && (!number.whole || number.real > SWEEP_INTEGER_MOST)) {
    sweep_complain(complaints, node->place, "%s takes whole numbers, so its step is one too, not %s", parameter->name,
                   sweep_show(node).text);
    return false;
  }
  *step = number.real;
  return true;
}

static bool check_keys(sweep_complaints *complaints, const sweep_node *map) {
  bool good = true;
  for (const sweep_node *entry = map->first; entry != NULL; entry = entry->next) {
    const size_t count = sizeof range_keys / sizeof *range_keys;
    good = sweep_key_check(complaints, entry->key, " in a range", range_keys, count) && good;
  }
  return good;
}

static bool take_scale(sweep_complaints *complaints, const sweep_node *map, bool *logarithmic) {
  const sweep_node *node = sweep_node_find(map, "scale");
  size_t scale = 0;
  if (node != NULL && !sweep_choice_take(complaints, node, "scale", scales, sizeof scales / sizeof *scales, &scale)) {
    return false;
  }
  *logarithmic = scale == 1;
  return true;
}

bool sweep_range_take(sweep_complaints *complaints, const sweep_node *map, const mhas_parameter *parameter,
                      sweep_range *range) {
  const sweep_node *step = sweep_node_find(map, "step");
  const sweep_node *count = sweep_node_find(map, "count");
  *range = (sweep_range){.type = parameter->type, .count = 1};
  bool good = check_keys(complaints, map);
  good = take_end(complaints, map, "from", parameter, &range->from) && good;
  good = take_end(complaints, map, "to", parameter, &range->to) && good;
  good = take_scale(complaints, map, &range->logarithmic) && good;
  if (step != NULL && count != NULL) {
    sweep_complain(complaints, map->place, "the range of %s has step and count; give one of them", parameter->name);
    return false;
  }
  if (step != NULL && range->logarithmic) {
    sweep_complain(complaints, map->place, "a log range takes count, not step");
    return false;
  }
  range->by_step = step != NULL;
  range->continuous = step == NULL && count == NULL;
  good = (step == NULL || take_step(complaints, step, parameter, &range->step)) && good;
  good = (count == NULL || sweep_integer_take(complaints, count, "count", 1, SWEEP_GRID_MOST, &range->count)) && good;
  if (!good || !check_ends(complaints, map, parameter, range)) {
    return false;
  }
  if (range->continuous) {
    range->continuous = range->from != range->to;
    range->start = range->from == range->to && range->type == MHAS_INTEGER ? (int64_t)range->from : 0;
    return true;
  }
  if (!range->logarithmic && !(range->type == MHAS_INTEGER ? integer_steps(complaints, map, parameter, range)
                                                           : real_steps(complaints, map, parameter, range))) {
    return false;
  }
  return check_distinct(complaints, map, range);
}

void sweep_range_write(const sweep_range *range, mhas_text *text) {
  mhas_text_append(text, "{from: %s, to: %s", sweep_shortest(range->from).text, sweep_shortest(range->to).text);
  if (range->by_step) {
    mhas_text_append(text, ", step: %s", sweep_shortest(range->step).text);
  } else if (!range->continuous) {
    mhas_text_append(text, ", count: %" PRId64, range->count);
  }
  mhas_text_append(text, "%s}", range->logarithmic ? ", scale: log" : "");
}
