/*
 * Expressions of a sweep file: "= heads * (context - 1) + 1", or a `where`.
 *
 * muParser reads and evaluates them. Before that, the words are looked up here: names of parameters (with a
 * did-you-mean), words of choices (with or without quotes), `and` and `or`, and what muParser would take in a way that
 * surprises (a = b assigns, a < b < c compares a truth value, a, b forgets a) is refused.
 */
#ifndef MHASWEEP_SWEEP_EXPRESSION_H
#define MHASWEEP_SWEEP_EXPRESSION_H

#include "sweep/values.h"

/* Bits of parameters and of digits fit one word. */
enum { SWEEP_PARAMETERS_MOST = 62, SWEEP_REPLICATE = 63 };

/* The values of the parameters as expressions see them (a choice: its word's id), and the replicate. */
typedef struct sweep_scope {
  const mhas_experiment *experiment;
  double value[SWEEP_REPLICATE + 1];
} sweep_scope;

typedef struct sweep_expression {
  void *parser;
  char *text;    /* in one way of writing it, e.g. "heads * ( context - 1 ) + 1" */
  uint64_t uses; /* bit i: parameter i; bit SWEEP_REPLICATE: the replicate */
  sweep_place place;
} sweep_expression;

/* `text` without its leading =; `what` is its name in complaints. NULL if it cannot be read (complained about). The
 * scope must outlive the expression. */
sweep_expression *sweep_expression_create(sweep_complaints *complaints, sweep_scope *scope, const char *text,
                                          sweep_place place, const char *what, bool with_replicate);
void sweep_expression_destroy(sweep_expression *expression); /* NULL is fine */

/* NaN if it has no value. */
double sweep_expression_value(const sweep_expression *expression);

/* What stands for a word of any choice in expressions: equal words have equal numbers. 0 if there is no such word. */
int sweep_word_id(const mhas_experiment *experiment, const char *word);

#endif
