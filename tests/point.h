/*
 * One point of an experiment, for tests: every parameter at its default, then what the test says, then a run.
 * Defaults that are expressions have to be said.
 */
#ifndef MHASWEEP_TESTS_POINT_H
#define MHASWEEP_TESTS_POINT_H

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "mhasweep/experiments.h"

enum { POINT_PARAMETERS = 64, POINT_RESULTS = 96, POINT_ARRAYS = MHAS_ARRAYS_MOST };

typedef struct kept {
  char name[32];
  double *data;
  int64_t count;
} kept;

typedef struct point {
  const mhas_experiment *experiment;
  mhas_value values[POINT_PARAMETERS];
  bool is_set[POINT_PARAMETERS];
  mhas_random random;
  unsigned store;
  mhas_value results[POINT_RESULTS];
  float *curves;
  double *spectrum;
  mhas_row row;
  mhas_team team; /* that runs it; zeros: this rank alone */
  mhas_error error;
  /* what proceed answers from call number stop_at on (counted from 0); < 0: never stops */
  int64_t calls, stop_at;
  mhas_code stop_code;
  const mhas_checkpoints *checkpoints; /* NULL: none are kept */
  int keep_fails_at;                   /* the array, counted from 0, at which the store breaks; < 0: none */
  kept kept[POINT_ARRAYS];
  int kept_count;
} point;

static inline void point_start(point *p, const char *experiment) {
  *p = (point){
      .experiment = mhas_experiment_find(experiment), .random = {.seed = 42}, .stop_at = -1, .keep_fails_at = -1};
  assert_non_null(p->experiment);
  openblas_set_num_threads(1); /* as in a sweep */
  assert_in_range(p->experiment->parameter_count, 1, POINT_PARAMETERS);
  assert_in_range(p->experiment->result_count, 1, POINT_RESULTS);
  for (int i = 0; i < p->experiment->parameter_count; i++) {
    const mhas_parameter *parameter = &p->experiment->parameters[i];
    const char *text = parameter->fallback;
    p->is_set[i] = text[0] != '=';
    if (parameter->type == MHAS_REAL) {
      p->values[i].real = strtod(text, NULL);
    } else if (parameter->type == MHAS_TEXT) {
      p->values[i].text = text;
    } else if (parameter->type == MHAS_INTEGER) {
      p->values[i].integer = strtoll(text, NULL, 10);
    } else if (parameter->type == MHAS_FLAG) {
      p->values[i].integer = strcmp(text, "true") == 0;
    } else {
      while (parameter->choices[p->values[i].integer] != NULL &&
             strcmp(parameter->choices[p->values[i].integer], text) != 0) {
        p->values[i].integer++;
      }
      assert_non_null(parameter->choices[p->values[i].integer]);
    }
  }
}

static inline void point_set(point *p, const char *name, double value) {
  const int i = mhas_parameter_find(p->experiment, name);
  assert_true(i >= 0);
  if (p->experiment->parameters[i].type == MHAS_REAL) {
    p->values[i].real = value;
  } else {
    p->values[i].integer = (int64_t)value;
  }
  p->is_set[i] = true;
}

static inline void point_choose(point *p, const char *name, const char *word) {
  const int i = mhas_parameter_find(p->experiment, name);
  assert_true(i >= 0);
  int64_t choice = 0;
  while (p->experiment->parameters[i].choices[choice] != NULL &&
         strcmp(p->experiment->parameters[i].choices[choice], word) != 0) {
    choice++;
  }
  assert_non_null(p->experiment->parameters[i].choices[choice]);
  p->values[i].integer = choice;
}

static inline void point_write(point *p, const char *name, const char *text) {
  const int i = mhas_parameter_find(p->experiment, name);
  assert_true(i >= 0);
  p->values[i].text = text;
}

/* What member 0 says holds for all of a team. */
static inline mhas_code point_proceed(void *context, mhas_error *error) {
  point *p = context;
  mhas_code code = p->stop_at >= 0 && p->calls >= p->stop_at ? p->stop_code : MHAS_OK;
  p->calls++;
  assert_int_equal(mhas_team_share(&p->team, &code, sizeof code, error), MHAS_OK);
  return code == MHAS_OK ? MHAS_OK : mhas_fail(error, code, "told to stop");
}

/* Copies the array, whose size the experiment must have announced. */
static inline mhas_code point_keep(void *context, const char *name, const double *data, mhas_error *error) {
  point *p = context;
  if (p->kept_count == p->keep_fails_at) {
    return mhas_fail(error, MHAS_IO, "the disk is full");
  }
  mhas_array arrays[MHAS_ARRAYS_MOST];
  const int count = p->experiment->arrays(p->values, p->store, arrays);
  for (int i = 0; i < count; i++) {
    if (strcmp(arrays[i].name, name) == 0) {
      kept *k = &p->kept[p->kept_count++];
      (void)snprintf(k->name, sizeof k->name, "%s", name);
      k->count = 1;
      for (int j = 0; j < arrays[i].rank; j++) {
        k->count *= arrays[i].shape[j];
      }
      k->data = malloc((size_t)k->count * sizeof *k->data);
      assert_non_null(k->data);
      memcpy(k->data, data, (size_t)k->count * sizeof *k->data);
      return MHAS_OK;
    }
  }
  fail_msg("%s was never announced", name);
  return MHAS_INTERNAL;
}

static inline mhas_code point_check(point *p) {
  for (int i = 0; i < p->experiment->parameter_count; i++) {
    if (!p->is_set[i]) {
      fail_msg("the test has to set %s", p->experiment->parameters[i].name);
    }
  }
  return p->experiment->check(p->values, &p->error);
}

static inline void point_free(point *p) {
  for (int i = 0; i < p->kept_count; i++) {
    free(p->kept[i].data);
  }
  free(p->curves);
  free(p->spectrum);
  p->curves = NULL;
  p->spectrum = NULL;
  p->kept_count = 0;
}

/* Runs the point, collectively over its team; may be called again. The caller frees the point. */
static inline mhas_code point_run(point *p) {
  point_free(p);
  assert_int_equal(point_check(p), MHAS_OK);
  const mhas_cost cost = p->experiment->cost(p->values);
  p->row = (mhas_row){.results = p->results, .keep = point_keep, .keep_context = p};
  if ((p->store & MHAS_STORE_CURVES) != 0 && cost.records > 0) {
    p->row.record_capacity = cost.records;
    p->curves = malloc((size_t)(cost.records * p->experiment->curve_count) * sizeof *p->curves);
    assert_non_null(p->curves);
    p->row.curves = p->curves;
  }
  if ((p->store & MHAS_STORE_SPECTRUM) != 0 && cost.spectrum > 0) {
    p->row.spectrum_capacity = cost.spectrum;
    p->spectrum = malloc((size_t)cost.spectrum * sizeof *p->spectrum);
    assert_non_null(p->spectrum);
    p->row.spectrum = p->spectrum;
  }
  mhas_row_clear(p->experiment, &p->row);
  p->calls = 0;
  const mhas_task task = {.point = {.values = p->values, .random = p->random},
                          .store = p->store,
                          .team = p->team,
                          .proceed = point_proceed,
                          .context = p,
                          .checkpoints = p->checkpoints};
  return p->experiment->run(&task, &p->row, &p->error);
}

static inline void point_runs(point *p) {
  const mhas_code code = point_run(p);
  if (code != MHAS_OK) {
    fail_msg("%s", p->error.text);
  }
}

/* A stop and a limit in turn, at every stride-th of its calls of proceed, of which there are at least so many: the
 * point ends there with what it was told. */
static inline void point_ends_where_told(point *p, int64_t calls_least, int64_t stride) {
  static const mhas_code codes[] = {MHAS_STOPPED, MHAS_LIMIT};
  point_runs(p);
  const int64_t calls = p->calls;
  assert_true(calls >= calls_least);
  for (int64_t i = 0; i * stride < calls; i++) {
    p->stop_at = i * stride;
    p->stop_code = codes[i % 2];
    assert_int_equal(point_run(p), codes[i % 2]);
    assert_string_equal(p->error.text, "told to stop");
    assert_int_equal(p->calls, i * stride + 1);
  }
  p->stop_at = -1;
}

/* Of so many arrays each in turn cannot be stored: the point ends there. */
static inline void point_ends_where_the_store_breaks(point *p, int arrays) {
  for (int i = 0; i < arrays; i++) {
    p->keep_fails_at = i;
    assert_int_equal(point_run(p), MHAS_IO);
    assert_string_equal(p->error.text, "the disk is full");
    assert_int_equal(p->kept_count, i);
  }
  p->keep_fails_at = -1;
}

static inline int64_t point_integer(const point *p, const char *name) {
  const int i = mhas_result_find(p->experiment, name);
  assert_true(i >= 0);
  return p->results[i].integer;
}

static inline double point_real(const point *p, const char *name) {
  const int i = mhas_result_find(p->experiment, name);
  assert_true(i >= 0);
  return p->results[i].real;
}

static inline float point_curve(const point *p, int curve, int64_t record) {
  return p->curves[curve * p->row.record_capacity + record];
}

static inline const kept *point_kept(const point *p, const char *name) {
  for (int i = 0; i < p->kept_count; i++) {
    if (strcmp(p->kept[i].name, name) == 0) {
      return &p->kept[i];
    }
  }
  return NULL;
}

#endif
