/*
 * Sweep files with their expressions: any bytes are refused in words or understood, and what is understood can be
 * enumerated and planned. Behind a NUL byte comes a word of --set.
 */
#include "fuzz.h"
#include "mhasweep/sweep.h"

enum { POINTS_MOST = 200 };

/* The first points of the grid, the last one, and that they are what they were when asked for again. */
static void look_at_points(mhas_sweep *sweep) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  const int64_t grid = mhas_sweep_grid_count(sweep);
  mhas_value *values = calloc((size_t)experiment->parameter_count, sizeof *values);
  mhas_value *again = calloc((size_t)experiment->parameter_count, sizeof *again);
  FUZZ_REQUIRE(values != NULL && again != NULL);
  for (int64_t i = 0; i < grid && i < POINTS_MOST; i++) {
    const int64_t index = i == POINTS_MOST - 1 ? grid - 1 : i;
    mhas_error error = {.text = ""};
    int64_t replicate = 0;
    bool included = false;
    const mhas_code code = mhas_sweep_point(sweep, index, values, &replicate, &included, &error);
    FUZZ_REQUIRE(code == MHAS_OK || error.text[0] != '\0');
    FUZZ_REQUIRE(mhas_sweep_point(sweep, index, again, &replicate, &included, &error) == code);
    for (int p = 0; code == MHAS_OK && p < experiment->parameter_count; p++) {
      if (experiment->parameters[p].type == MHAS_REAL) {
        FUZZ_REQUIRE(values[p].real == again[p].real);
        FUZZ_REQUIRE(values[p].real >= experiment->parameters[p].least);
        FUZZ_REQUIRE(values[p].real <= experiment->parameters[p].most);
      }
    }
  }
  free(values);
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *end = memchr(data, '\0', size);
  const size_t length = end == NULL ? size : (size_t)(end - data);
  char *override = end == NULL ? NULL : strndup((const char *)end + 1, size - length - 1);
  const char *const overrides[] = {override};
  mhas_sweep *sweep = NULL;
  mhas_text report = {0};
  const mhas_code code =
      mhas_sweep_parse("fuzz.yaml", (const char *)data, length, overrides, override == NULL ? 0 : 1, &sweep, &report);
  FUZZ_REQUIRE(code == MHAS_OK ? sweep != NULL : report.length > 0);
  if (code == MHAS_OK) {
    mhas_plan plan;
    mhas_error error = {.text = ""};
    FUZZ_REQUIRE(mhas_sweep_canonical(sweep)[0] != '\0');
    look_at_points(sweep);
    if (mhas_sweep_grid_count(sweep) <= POINTS_MOST) {
      const mhas_code planned = mhas_sweep_plan(sweep, true, &plan, &error);
      FUZZ_REQUIRE(planned == MHAS_OK || error.text[0] != '\0');
    }
  }
  mhas_sweep_destroy(sweep);
  mhas_text_free(&report);
  free(override);
  return 0;
}
