/* A result file as JSON. The list of points is written row by row, so that it need not fit into memory. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show.h"

static json_t *facts_json(show *self, bool *failed) {
  static const char *const attributes[] = {"title",        "experiment", "spec_hash",        "seed",
                                           "created",      "git_commit", "mpi_library",      "mpi_size",
                                           "blas_library", "blas_core",  "mhasweep_version", "hdf5_version",
                                           "slurm_job_id"};
  json_t *object = json_object();
  cli_json_put(object, "file", json_string(self->path), failed);
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
    cli_json_put(object, attributes[i], json_string(mhas_reader_attribute(self->reader, attributes[i])), failed);
  }
  json_t *counts = json_object();
  cli_json_put(counts, "total", json_integer(self->points), failed);
  cli_json_put(counts, "done", json_integer(self->counts[MHAS_DONE]), failed);
  cli_json_put(counts, "failed", json_integer(self->counts[MHAS_FAILED]), failed);
  cli_json_put(counts, "running", json_integer(self->counts[MHAS_RUNNING]), failed);
  cli_json_put(counts, "pending", json_integer(self->counts[MHAS_PENDING]), failed);
  cli_json_put(object, "counts", counts, failed);
  cli_json_put(object, "seconds", json_real(self->seconds), failed);
  return object;
}

static json_t *value_json(const show_column *column, int64_t row) {
  if (column->texts != NULL) {
    return json_string(column->texts[row]);
  }
  const double number = column->numbers[row];
  const mhas_variable *facts = column->facts;
  if (isnan(number)) {
    return json_null();
  }
  if (facts->type == MHAS_FLAG) {
    return json_boolean(number != 0.0);
  }
  if (number >= 0 && number < facts->word_count) {
    return json_string(facts->words[(int)number]);
  }
  return facts->type == MHAS_REAL ? json_real(number) : json_integer((json_int_t)number);
}

static json_t *curve_json(show *self, int curve, int64_t point, float *values, bool *failed, mhas_error *error) {
  const int64_t capacity = mhas_reader_records(self->reader);
  if (mhas_reader_curve(self->reader, curve, point, values, error) != MHAS_OK) {
    return NULL;
  }
  int64_t used = capacity;
  while (used > 0 && isnan(values[used - 1])) {
    used--;
  }
  json_t *list = json_array();
  for (int64_t i = 0; i < used; i++) {
    *failed |= json_array_append_new(list, cli_json_number(values[i])) != 0;
  }
  return list;
}

static mhas_code add_curves(show *self, int64_t point, json_t *object, bool *failed, mhas_error *error) {
  float *values = NULL;
  MHAS_TRY(mhas_alloc(&values, (size_t)mhas_reader_records(self->reader), sizeof *values, "a curve", error));
  json_t *curves = json_object();
  mhas_code code = MHAS_OK;
  for (int i = 0; i < mhas_reader_curve_count(self->reader) && code == MHAS_OK; i++) {
    json_t *list = curve_json(self, i, point, values, failed, error);
    code = list == NULL ? error->code : MHAS_OK;
    if (list != NULL) {
      cli_json_put(curves, mhas_reader_curve_name(self->reader, i), list, failed);
    }
  }
  cli_json_put(object, "curves", curves, failed);
  mhas_free(values);
  return code;
}

/* One element of the list, on a line of its own. */
static mhas_code print_element(show *self, int64_t point, int64_t row, bool first, bool with_curves,
                               mhas_error *error) {
  bool failed = false;
  mhas_code code = MHAS_OK;
  json_t *object = json_object();
  cli_json_put(object, "point", json_integer(point), &failed);
  for (int i = 0; i < self->column_count; i++) {
    cli_json_put(object, self->columns[i].facts->name, value_json(&self->columns[i], row), &failed);
  }
  if (with_curves) {
    code = add_curves(self, point, object, &failed, error);
  }
  if (code == MHAS_OK) {
    (void)printf("%s\n    ", first ? "" : ",");
    failed |= json_dumpf(object, stdout, JSON_COMPACT) != 0 && !ferror(stdout);
  }
  json_decref(object);
  return failed ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory while making JSON") : code;
}

static mhas_code print_all(show *self, bool only_failed, mhas_error *error) {
  bool empty = true;
  for (int64_t first = 0; first < self->points && !ferror(stdout); first += SHOW_BLOCK) {
    const int64_t count = self->points - first < SHOW_BLOCK ? self->points - first : SHOW_BLOCK;
    MHAS_TRY(show_load(self, first, count, error));
    for (int64_t row = 0; row < count; row++) {
      if (!only_failed || self->status->numbers[row] == MHAS_FAILED) {
        MHAS_TRY(print_element(self, first + row, row, empty, false, error));
        empty = false;
      }
    }
  }
  return MHAS_OK;
}

/* The object is left open, for the list. */
static mhas_code print_facts(show *self, mhas_error *error) {
  bool failed = false;
  json_t *facts = facts_json(self, &failed);
  char *text = failed ? NULL : json_dumps(facts, JSON_INDENT(2));
  json_decref(facts);
  if (text == NULL) {
    return mhas_fail(error, MHAS_NO_MEMORY, "out of memory while making JSON");
  }
  (void)printf("%.*s,\n  \"points\": [", (int)(strlen(text) - strlen("\n}")), text);
  free(text);
  return MHAS_OK;
}

mhas_code show_json(show *self, bool only_failed, int64_t point, mhas_error *error) {
  MHAS_TRY(print_facts(self, error));
  if (point >= 0) {
    MHAS_TRY(show_load(self, point, 1, error));
    MHAS_TRY(print_element(self, point, 0, true, true, error));
  } else {
    MHAS_TRY(print_all(self, only_failed, error));
  }
  (void)printf("\n  ]\n}\n");
  return MHAS_OK;
}
