/*
 * Single values: from the words of a YAML scalar to a checked mhas_value, and back.
 *
 * Numbers are read by YAML 1.2's core schema (42, 0x2a, 0o52, 1.5, 1e-3, .5, .inf, .nan), in the C locale, which this
 * program never leaves.
 */
#ifndef MHASWEEP_SWEEP_VALUES_H
#define MHASWEEP_SWEEP_VALUES_H

#include "mhasweep/sweep.h"
#include "sweep/tree.h"

/* Beyond this a double cannot hold every integer, so expressions could not be exact. */
#define SWEEP_INTEGER_MOST 9007199254740992.0 /* 2^53 */

typedef struct sweep_number {
  bool whole; /* `integer` holds the value exactly */
  int64_t integer;
  double real;
} sweep_number;

/* False if the text is no number. */
bool sweep_number_read(const char *text, sweep_number *number);

/* A plain (unquoted) number? Else complains with `what` in front. */
bool sweep_number_take(sweep_complaints *complaints, const sweep_node *node, const char *what, sweep_number *number);

/* A whole number of least .. most? Else complains with `what` in front. */
bool sweep_integer_take(sweep_complaints *complaints, const sweep_node *node, const char *what, int64_t least,
                        int64_t most, int64_t *integer);

/* One of the words? Else complains, with a did-you-mean; *index is its place. */
bool sweep_choice_take(sweep_complaints *complaints, const sweep_node *node, const char *what, const char *const *words,
                       size_t count, size_t *index);

/* A key of a map: one of the keys? Else complains; `where` is "" or such as " in a range". */
bool sweep_key_check(sweep_complaints *complaints, const sweep_node *key, const char *where, const char *const *keys,
                     size_t count);

/* A value of this parameter, checked against its type and range. A text stays the node's. */
bool sweep_value_take(sweep_complaints *complaints, const sweep_node *node, const mhas_parameter *parameter,
                      mhas_value *value);

/* Whether a number lies in the parameter's range. */
bool sweep_in_range(const mhas_parameter *parameter, double value);

/* "whole numbers from 1 to 64", "numbers above 0, up to 1e+12", "one of: own, shared", "true or false". */
typedef struct sweep_words {
  char text[256];
} sweep_words;
sweep_words sweep_describe(const mhas_parameter *parameter);

size_t sweep_choice_count(const mhas_parameter *parameter);

/* A value as a double: a choice's place, a flag's 0 or 1; 0 for texts, with which nothing can be computed. */
double sweep_value_number(const mhas_parameter *parameter, mhas_value value);

/* The order of two values, as strcmp tells it. */
int sweep_value_compare(const mhas_parameter *parameter, mhas_value a, mhas_value b);

/* The shortest decimal that reads back as the same double. */
typedef struct sweep_decimal {
  char text[32];
} sweep_decimal;
sweep_decimal sweep_shortest(double value);

/* value = digits / 10^decimals exactly in decimal notation, if both are small enough for exact arithmetic. */
bool sweep_decimal_split(double value, int64_t *digits, int *decimals);

#endif
