/* What the tests of sweep files share: reading one from a string, with the report on failure. */
#ifndef MHASWEEP_TEST_SWEEP_HELPERS_H
#define MHASWEEP_TEST_SWEEP_HELPERS_H

/* cmocka.h needs the four before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mhasweep/sweep.h"

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Reads `text` with at most one --set word (NULL: none); the caller destroys the sweep. */
static inline mhas_sweep *sweep_from(const char *text, const char *override) {
  mhas_sweep *sweep = NULL;
  mhas_text report = {0};
  const mhas_code code =
      mhas_sweep_parse("test.yaml", text, strlen(text), &override, override != NULL, &sweep, &report);
  if (code != MHAS_OK) {
    print_error("%s", mhas_text_string(&report));
  }
  assert_int_equal(code, MHAS_OK);
  assert_string_equal(mhas_text_string(&report), "");
  assert_non_null(sweep);
  mhas_text_free(&report);
  return sweep;
}

/* Asserts that `text` is refused with exactly this report. */
static inline void assert_refused(const char *text, const char *override, const char *expected) {
  mhas_sweep *sweep = NULL;
  mhas_text report = {0};
  const mhas_code code =
      mhas_sweep_parse("test.yaml", text, strlen(text), &override, override != NULL, &sweep, &report);
  assert_string_equal(mhas_text_string(&report), expected);
  assert_int_equal(code, MHAS_USAGE);
  assert_null(sweep);
  mhas_text_free(&report);
}

enum { PARAMETERS_MOST = 64 };

/* One point's parameter as text, as it would stand in a sweep file; in a buffer that the next calls reuse. */
static inline const char *value_at(mhas_sweep *sweep, int64_t index, const char *name) {
  static char buffers[16][64];
  static int next;
  mhas_value values[PARAMETERS_MOST];
  int64_t replicate = 0;
  bool included = false;
  mhas_error error;
  assert_int_equal(mhas_sweep_point(sweep, index, values, &replicate, &included, &error), MHAS_OK);
  const int parameter = mhas_parameter_find(mhas_sweep_experiment(sweep), name);
  assert_true(parameter >= 0);
  mhas_text text = {0};
  mhas_value_format(&mhas_sweep_experiment(sweep)->parameters[parameter], values[parameter], &text);
  char *buffer = buffers[next++ % 16];
  (void)snprintf(buffer, sizeof buffers[0], "%s", mhas_text_string(&text));
  mhas_text_free(&text);
  return buffer;
}

/* The values of one parameter over the whole grid, separated by spaces. */
static inline void assert_values(mhas_sweep *sweep, const char *name, const char *expected) {
  mhas_text text = {0};
  for (int64_t i = 0; i < mhas_sweep_grid_count(sweep); i++) {
    mhas_text_append(&text, "%s%s", i == 0 ? "" : " ", value_at(sweep, i, name));
  }
  assert_string_equal(mhas_text_string(&text), expected);
  mhas_text_free(&text);
}

/* The same for a sweep of the experiment `memorize` whose parameters are given as YAML, e.g. "heads: [1, 2]". */
static inline void assert_range(const char *line, const char *name, const char *expected) {
  char text[512];
  (void)snprintf(text, sizeof text, "experiment: memorize\nparameters:\n  %s\n", line);
  mhas_sweep *sweep = sweep_from(text, NULL);
  assert_values(sweep, name, expected);
  mhas_sweep_destroy(sweep);
}

#endif
