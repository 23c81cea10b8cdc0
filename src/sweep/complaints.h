/* The errors of a sweep file: collected while it is read, told all at once in the order of their places. */
#ifndef MHASWEEP_SWEEP_COMPLAINTS_H
#define MHASWEEP_SWEEP_COMPLAINTS_H

#include "mhasweep/base.h"

/* Where something was written: line and column (from 1) of the file, or one of the --set words. */
typedef struct sweep_place {
  int source; /* 0: the file; n: the n-th --set word */
  int line, column;
} sweep_place;

typedef struct sweep_complaint {
  sweep_place place;
  size_t order; /* of arrival, for complaints about one place */
  char *text;
} sweep_complaint;

typedef struct sweep_complaints {
  const char *name; /* of the file */
  const char *const *overrides;
  sweep_complaint *list;
  size_t count, capacity;
  size_t total;   /* also those that were not kept */
  bool no_memory; /* an allocation failed somewhere in the reading: the report is not complete */
} sweep_complaints;

void sweep_complain(sweep_complaints *complaints, sweep_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One line each, sorted; "... and N more" after the first hundred. */
void sweep_complaints_report(sweep_complaints *complaints, mhas_text *report);
void sweep_complaints_free(sweep_complaints *complaints);

/* "; did you mean X?" if a name is near, else "; it is one of: ..." (or nothing if there are too many to list). */
typedef struct sweep_hint {
  char text[512];
} sweep_hint;
sweep_hint sweep_hint_for(const char *word, const char *const *names, size_t count);

#endif
