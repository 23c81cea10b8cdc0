#include "sweep/values.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading numbers ---- */

static const char *skip_digits(const char *at) {
  while (isdigit((unsigned char)*at)) {
    at++;
  }
  return at;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? , *integer if there is neither point nor e. */
static bool is_decimal(const char *text, bool *integer) {
  const char *at = text + (*text == '-' || *text == '+');
  const char *after = skip_digits(at);
  const bool whole_part = after > at;
  *integer = whole_part && *after == '\0';
  if (*after == '.') {
    const char *fraction = after + 1;
    after = skip_digits(fraction);
    if (!whole_part && after == fraction) {
      return false;
    }
  } else if (!whole_part) {
    return false;
  }
  if (*after == 'e' || *after == 'E') {
    const char *exponent = after + 1;
    exponent += *exponent == '-' || *exponent == '+';
    after = skip_digits(exponent);
    if (after == exponent) {
      return false;
    }
  }
  return *after == '\0';
}

static bool read_special(const char *text, double *value) {
  const double sign = *text == '-' ? -1.0 : 1.0;
  const char *at = text + (*text == '-' || *text == '+');
  if (strcmp(at, ".inf") == 0 || strcmp(at, ".Inf") == 0 || strcmp(at, ".INF") == 0) {
    *value = sign * (double)INFINITY;
    return true;
  }
  if (strcmp(text, ".nan") == 0 || strcmp(text, ".NaN") == 0 || strcmp(text, ".NAN") == 0) {
    *value = (double)NAN;
    return true;
  }
  return false;
}

static bool read_based(const char *text, int64_t *integer) {
  const int base = strncmp(text, "0x", 2) == 0 ? 16 : strncmp(text, "0o", 2) == 0 ? 8 : 0;
  if (base == 0 || !isxdigit((unsigned char)text[2])) {
    return false;
  }
  char *end = NULL;
  errno = 0;
  *integer = strtoll(text + 2, &end, base);
  return *end == '\0' && errno == 0;
}

bool sweep_number_read(const char *text, sweep_number *number) {
  bool integer = false;
  *number = (sweep_number){.whole = false};
  if (read_based(text, &number->integer)) {
    number->whole = true;
    number->real = (double)number->integer;
    return true;
  }
  if (read_special(text, &number->real)) {
    return true;
  }
  if (!is_decimal(text, &integer)) {
    return false;
  }
  number->real = strtod(text, NULL);
  if (integer) {
    errno = 0;
    number->integer = strtoll(text, NULL, 10);
    number->whole = errno == 0;
  } else if (fabs(number->real) <= SWEEP_INTEGER_MOST && number->real == nearbyint(number->real)) {
    number->integer = (int64_t)number->real;
    number->whole = true;
  }
  return true;
}

/* ---- taking what a node says ---- */

bool sweep_number_take(sweep_complaints *complaints, const sweep_node *node, const char *what, sweep_number *number) {
  if (node->refused) {
    return false;
  }
  if (sweep_node_is_null(node)) {
    sweep_complain(complaints, node->place, "%s has no value; write a number", what);
    return false;
  }
  sweep_number inside;
  if (node->kind == SWEEP_SCALAR && node->quoted && sweep_number_read(node->text, &inside)) {
    sweep_complain(complaints, node->place, "%s takes a number, %s is a text; leave the quotes out", what,
                   sweep_show(node).text);
    return false;
  }
  if (node->kind != SWEEP_SCALAR || node->quoted || !sweep_number_read(node->text, number)) {
    sweep_complain(complaints, node->place, "%s takes a number, not %s", what, sweep_show(node).text);
    return false;
  }
  if (!isfinite(number->real)) {
    sweep_complain(complaints, node->place, "%s takes a finite number, not %s", what, sweep_show(node).text);
    return false;
  }
  return true;
}

bool sweep_integer_take(sweep_complaints *complaints, const sweep_node *node, const char *what, int64_t least,
                        int64_t most, int64_t *integer) {
  sweep_number number;
  if (!sweep_number_take(complaints, node, what, &number)) {
    return false;
  }
  if (!number.whole || number.integer < least || number.integer > most) {
    if (most == INT64_MAX) {
      sweep_complain(complaints, node->place, "%s takes a whole number from %" PRId64 " up, not %s", what, least,
                     sweep_show(node).text);
    } else {
      sweep_complain(complaints, node->place, "%s takes a whole number from %" PRId64 " to %" PRId64 ", not %s", what,
                     least, most, sweep_show(node).text);
    }
    return false;
  }
  *integer = number.integer;
  return true;
}

bool sweep_choice_take(sweep_complaints *complaints, const sweep_node *node, const char *what, const char *const *words,
                       size_t count, size_t *index) {
  if (node->refused) {
    return false;
  }
  if (node->kind != SWEEP_SCALAR || sweep_node_is_null(node)) {
    sweep_complain(complaints, node->place, "%s takes a word, not %s%s", what, sweep_show(node).text,
                   sweep_hint_for("", words, count).text);
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    if (strcmp(words[i], node->text) == 0) {
      *index = i;
      return true;
    }
  }
  sweep_complain(complaints, node->place, "%s cannot be %s%s", what, sweep_show(node).text,
                 sweep_hint_for(node->text, words, count).text);
  return false;
}

bool sweep_key_check(sweep_complaints *complaints, const sweep_node *key, const char *where, const char *const *keys,
                     size_t count) {
  if (key->refused) {
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    if (strcmp(keys[i], key->text) == 0) {
      return true;
    }
  }
  sweep_complain(complaints, key->place, "unknown key %s%s%s", sweep_show(key).text, where,
                 sweep_hint_for(key->text, keys, count).text);
  return false;
}

static bool take_flag(sweep_complaints *complaints, const sweep_node *node, const char *what, int64_t *flag) {
  if (node->refused) {
    return false;
  }
  if (node->kind == SWEEP_SCALAR && !node->quoted) {
    *flag = strcmp(node->text, "true") == 0 || strcmp(node->text, "True") == 0 || strcmp(node->text, "TRUE") == 0;
    if (*flag != 0 || strcmp(node->text, "false") == 0 || strcmp(node->text, "False") == 0 ||
        strcmp(node->text, "FALSE") == 0) {
      return true;
    }
  }
  sweep_complain(complaints, node->place, "%s takes true or false, not %s", what, sweep_show(node).text);
  return false;
}

static bool take_text(sweep_complaints *complaints, const sweep_node *node, const char *what, const char **text) {
  if (node->refused) {
    return false;
  }
  if (node->kind != SWEEP_SCALAR || sweep_node_is_null(node)) {
    sweep_complain(complaints, node->place, "%s takes a text, not %s", what, sweep_show(node).text);
    return false;
  }
  if (strlen(node->text) > MHAS_TEXT_MOST) {
    sweep_complain(complaints, node->place, "%s takes a text of at most %d bytes, not %zu", what, MHAS_TEXT_MOST,
                   strlen(node->text));
    return false;
  }
  for (const char *at = node->text; *at != '\0'; at++) {
    if ((unsigned char)*at < ' ' || *at == 0x7F) {
      sweep_complain(complaints, node->place, "%s takes a text on one line, without control characters", what);
      return false;
    }
  }
  *text = node->text;
  return true;
}

bool sweep_value_take(sweep_complaints *complaints, const sweep_node *node, const mhas_parameter *parameter,
                      mhas_value *value) {
  if (parameter->type == MHAS_CHOICE) {
    size_t index = 0;
    const bool good =
        sweep_choice_take(complaints, node, parameter->name, parameter->choices, sweep_choice_count(parameter), &index);
    value->integer = (int64_t)index;
    return good;
  }
  if (parameter->type == MHAS_FLAG) {
    return take_flag(complaints, node, parameter->name, &value->integer);
  }
  if (parameter->type == MHAS_TEXT) {
    return take_text(complaints, node, parameter->name, &value->text);
  }
  sweep_number number;
  if (!sweep_number_take(complaints, node, parameter->name, &number)) {
    return false;
  }
  const bool integer = parameter->type == MHAS_INTEGER;
  const bool whole_by_size = fabs(number.real) > SWEEP_INTEGER_MOST; /* too large for more than "out of range" */
  if (integer && !number.whole && !whole_by_size) {
    sweep_complain(complaints, node->place, "%s takes %s, not %s", parameter->name, sweep_describe(parameter).text,
                   sweep_show(node).text);
    return false;
  }
  if (!sweep_in_range(parameter, number.real)) {
    sweep_complain(complaints, node->place, "%s = %s is out of range; it takes %s", parameter->name,
                   sweep_show(node).text, sweep_describe(parameter).text);
    return false;
  }
  if (integer) {
    value->integer = number.integer;
  } else {
    value->real = number.real + 0.0; /* -0 becomes 0 */
  }
  return true;
}

/* ---- ranges and words ---- */

bool sweep_in_range(const mhas_parameter *parameter, double value) {
  return value >= parameter->least && value <= parameter->most &&
         (parameter->type != MHAS_INTEGER || fabs(value) <= SWEEP_INTEGER_MOST);
}

size_t sweep_choice_count(const mhas_parameter *parameter) {
  size_t count = 0;
  while (parameter->choices[count] != NULL) {
    count++;
  }
  return count;
}

/* 1e+12 rather than 1000000000000. */
static sweep_decimal short_bound(double bound) {
  sweep_decimal decimal;
  (void)snprintf(decimal.text, sizeof decimal.text, "%g", bound);
  return fabs(bound) >= 1e7 && strtod(decimal.text, NULL) == bound ? decimal : sweep_shortest(bound);
}

static void describe_number(const mhas_parameter *parameter, sweep_words *words) {
  const char *kind = parameter->type == MHAS_INTEGER ? "whole numbers" : "numbers";
  const sweep_decimal most = short_bound(parameter->most);
  if (parameter->least == DBL_TRUE_MIN) {
    (void)snprintf(words->text, sizeof words->text, "%s above 0, up to %s", kind, most.text);
  } else {
    (void)snprintf(words->text, sizeof words->text, "%s from %s to %s", kind, short_bound(parameter->least).text,
                   most.text);
  }
}

sweep_words sweep_describe(const mhas_parameter *parameter) {
  sweep_words words = {"true or false"};
  if (parameter->type == MHAS_CHOICE) {
    int used = snprintf(words.text, sizeof words.text, "one of: ");
    for (size_t i = 0; parameter->choices[i] != NULL && used >= 0 && (size_t)used < sizeof words.text; i++) {
      used += snprintf(words.text + used, sizeof words.text - (size_t)used, "%s%s", i == 0 ? "" : ", ",
                       parameter->choices[i]);
    }
  } else if (parameter->type == MHAS_TEXT) {
    (void)snprintf(words.text, sizeof words.text, "a text");
  } else if (parameter->type != MHAS_FLAG) {
    describe_number(parameter, &words);
  }
  return words;
}

double sweep_value_number(const mhas_parameter *parameter, mhas_value value) {
  switch (parameter->type) {
    case MHAS_REAL: return value.real;
    case MHAS_TEXT: return 0.0;
    default: return (double)value.integer;
  }
}

int sweep_value_compare(const mhas_parameter *parameter, mhas_value a, mhas_value b) {
  if (parameter->type == MHAS_TEXT) {
    return strcmp(a.text, b.text);
  }
  const double x = sweep_value_number(parameter, a);
  const double y = sweep_value_number(parameter, b);
  return (x > y) - (x < y);
}

/* ---- writing numbers ---- */

sweep_decimal sweep_shortest(double value) {
  sweep_decimal decimal;
  for (int digits = 15; digits <= 17; digits++) {
    (void)snprintf(decimal.text, sizeof decimal.text, "%.*g", digits, value);
    if (strtod(decimal.text, NULL) == value) {
      break;
    }
  }
  return decimal;
}

bool sweep_decimal_split(double value, int64_t *digits, int *decimals) {
  char text[64];
  int precision = 14;
  do {
    (void)snprintf(text, sizeof text, "%.*e", precision, value);
    precision++;
  } while (precision <= 16 && strtod(text, NULL) != value);
  /* d.ddd...e+-xx: the digits without the point, and where the point would be. */
  char mantissa[32];
  size_t count = 0;
  const char *at = text;
  for (; *at != 'e' && count < sizeof mantissa - 1; at++) {
    if (*at != '.') {
      mantissa[count++] = *at;
    }
  }
  mantissa[count] = '\0';
  const int sign = mantissa[0] == '-';
  *decimals = (int)count - sign - 1 - atoi(at + 1);
  *digits = strtoll(mantissa, NULL, 10);
  while (*digits != 0 && *digits % 10 == 0) {
    *digits /= 10;
    --*decimals;
  }
  while (*decimals < 0 && *digits != 0) {
    if (llabs(*digits) > (int64_t)(SWEEP_INTEGER_MOST / 10.0)) {
      return false;
    }
    *digits *= 10;
    ++*decimals;
  }
  *decimals = *digits == 0 ? 0 : *decimals;
  return *decimals <= 22 && llabs(*digits) <= (int64_t)SWEEP_INTEGER_MOST;
}

static void write_quoted(const char *words, mhas_text *text) {
  mhas_text_append(text, "\"");
  for (const char *at = words; *at != '\0'; at++) {
    mhas_text_append(text, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
  }
  mhas_text_append(text, "\"");
}

void mhas_value_format(const mhas_parameter *parameter, mhas_value value, mhas_text *text) {
  switch (parameter->type) {
    case MHAS_REAL: mhas_text_append(text, "%s", sweep_shortest(value.real).text); return;
    case MHAS_FLAG: mhas_text_append(text, "%s", value.integer != 0 ? "true" : "false"); return;
    case MHAS_CHOICE:
      if (value.integer >= 0 && value.integer < (int64_t)sweep_choice_count(parameter)) {
        mhas_text_append(text, "%s", parameter->choices[value.integer]);
        return;
      }
      break;
    case MHAS_TEXT: write_quoted(value.text, text); return;
    case MHAS_INTEGER: break;
  }
  mhas_text_append(text, "%" PRId64, value.integer);
}
