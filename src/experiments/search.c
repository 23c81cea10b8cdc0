/* Searching for the largest value of a parameter for which a condition on a result holds. See experiments.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mhasweep/experiments.h"

const char *const mhas_relation_signs[MHAS_RELATIONS] = {
    [MHAS_AT_LEAST] = ">=", [MHAS_ABOVE] = ">", [MHAS_AT_MOST] = "<=", [MHAS_BELOW] = "<", [MHAS_EQUAL] = "=="};

enum { PARAMETERS_MOST = 128 }; /* of an experiment that can be searched */

/* ---- the experiment that searches ---------------------------------------------- */

/* In one piece with what it points to. */
typedef struct searching {
  mhas_experiment experiment; /* first, so that a pointer to it is one to all */
  mhas_search search;
  mhas_parameter *parameters;
  mhas_result *results;
  mhas_curve *curves;
  char meaning[512], trial_name[64];
} searching;

static mhas_code allocate(searching *s, const mhas_experiment *base, mhas_error *error) {
  MHAS_TRY(mhas_alloc(&s->parameters, (size_t)base->parameter_count, sizeof *s->parameters, "the parameters", error));
  MHAS_TRY(mhas_alloc(&s->results, (size_t)base->result_count + 1, sizeof *s->results, "the results", error));
  return mhas_alloc(&s->curves, (size_t)base->curve_count + 2, sizeof *s->curves, "the curves", error);
}

static void extend_tables(searching *s, const mhas_experiment *base) {
  mhas_parameter *searched = &s->parameters[s->search.parameter];
  memcpy(s->parameters, base->parameters, (size_t)base->parameter_count * sizeof *s->parameters);
  memcpy(s->results, base->results, (size_t)base->result_count * sizeof *s->results);
  if (base->curve_count > 0) {
    memcpy(s->curves, base->curves, (size_t)base->curve_count * sizeof *s->curves);
  }
  (void)snprintf(s->meaning, sizeof s->meaning, "%s: the most that the search may try; capacity is what it found",
                 searched->meaning);
  (void)snprintf(s->trial_name, sizeof s->trial_name, "trial_%s", searched->name);
  searched->meaning = s->meaning;
  s->results[base->result_count] = (mhas_result){
      "capacity", MHAS_INTEGER, "1",
      "largest value of the searched parameter for which the condition of the search holds; -1 if it holds for none"};
  s->curves[base->curve_count] = (mhas_curve){s->trial_name, "1", "value that a trial of the search tried"};
  s->curves[base->curve_count + 1] = (mhas_curve){"trial_value", "1", "what the result of the condition was then"};
}

mhas_code mhas_searching_create(const mhas_experiment *base, const mhas_search *search, mhas_experiment **made,
                                mhas_error *error) {
  searching *s = NULL;
  *made = NULL;
  if (base->parameter_count > PARAMETERS_MOST) {
    return mhas_fail(error, MHAS_INTERNAL, "%s has too many parameters to be searched", base->name);
  }
  MHAS_TRY(mhas_alloc(&s, 1, sizeof *s, "the search", error));
  const mhas_code code = allocate(s, base, error);
  if (code != MHAS_OK) {
    mhas_searching_destroy(&s->experiment);
    return code;
  }
  s->search = *search;
  extend_tables(s, base);
  s->experiment = *base;
  s->experiment.base = base;
  s->experiment.search = &s->search;
  s->experiment.parameters = s->parameters;
  s->experiment.results = s->results;
  s->experiment.result_count = base->result_count + 1;
  s->experiment.curves = s->curves;
  s->experiment.curve_count = base->curve_count + 2;
  s->experiment.arrays = NULL;
  s->experiment.max_ranks = 1; /* a guess looks at all of Z */
  *made = &s->experiment;
  return MHAS_OK;
}

void mhas_searching_destroy(mhas_experiment *made) {
  searching *s = (searching *)(void *)made;
  if (s == NULL) {
    return;
  }
  mhas_free(s->parameters);
  mhas_free(s->results);
  mhas_free(s->curves);
  mhas_free(s);
}

/* ---- cost -------------------------------------------------------------------------- */

/* Doublings until `span` is passed, at least 0. */
static int64_t doublings(double span) { return span > 1.0 ? (int64_t)ceil(log2(span)) : 0; }

static int64_t bisections(const mhas_search *search) {
  return doublings((double)(search->to - search->from + 1) / (double)search->tolerance) + 1;
}

/* Two around a guess, then doubling, then bisection. */
static int64_t trials_most(const mhas_search *search) {
  return 2 + 1 + doublings((double)search->to / (double)search->from) + 1 + bisections(search);
}

/*
 * Without a guess: trials that double cost no more than two of the largest, and each bisection no more than one. With
 * one: the work of guessing is about that of a trial, and two trials settle it.
 */
mhas_cost mhas_experiment_cost(const mhas_experiment *experiment, const mhas_value *values) {
  const mhas_search *search = experiment->search;
  if (search == NULL) {
    return experiment->cost(values);
  }
  const mhas_searchable *searchable = experiment->base->searchable;
  const int64_t guess = searchable->guess_most == NULL ? 0 : searchable->guess_most(values);
  mhas_value likely[PARAMETERS_MOST];
  memcpy(likely, values, (size_t)experiment->parameter_count * sizeof *likely);
  double trials = 2.0 + (double)bisections(search);
  if (guess > 0) {
    trials = 3.0;
    likely[search->parameter].integer = guess < search->to ? guess + 1 : search->to;
  }
  mhas_cost cost = experiment->base->cost(likely);
  cost.flops *= trials;
  cost.flops_float32 *= trials;
  cost.records = cost.records > trials_most(search) ? cost.records : trials_most(search);
  return cost;
}

/* ---- one point ------------------------------------------------------------------------ */

enum { TRIALS_MOST = 160 }; /* more than 64-bit doublings and bisections can take */

/* What a checkpoint needs beside the row: the search is played again from it, without its trials. */
typedef struct memory {
  int64_t guessed, guess;
  int64_t count;
  int64_t sizes[TRIALS_MOST];
  double values[TRIALS_MOST];
} memory;

typedef struct hunt {
  const mhas_experiment *experiment; /* the one that searches */
  const mhas_search *search;
  const mhas_task *task;
  mhas_row *row;      /* of the point: holds what the best trial gave */
  mhas_row trial;     /* of the trial that runs */
  mhas_value *values; /* its values */
  int64_t trials;
  int64_t holds; /* the largest value known to hold; from - 1 if none is */
  int64_t fails; /* the smallest known not to; to + 1 if none is */
  memory known;
  int64_t replayed; /* of the trials that are known */
} hunt;

static mhas_piece piece_of(hunt *h) { return (mhas_piece){&h->known, sizeof h->known}; }

/* The task for a part of the point: the checkpoints are the search's own. */
static mhas_task part_of(const hunt *h) {
  mhas_task task = *h->task;
  task.checkpoints = NULL;
  return task;
}

static mhas_code prepare(hunt *h, mhas_error *error) {
  const mhas_experiment *base = h->experiment->base;
  MHAS_TRY(mhas_alloc(&h->values, (size_t)base->parameter_count, sizeof *h->values, "a trial's values", error));
  MHAS_TRY(mhas_alloc(&h->trial.results, (size_t)base->result_count, sizeof(mhas_value), "a trial's results", error));
  if (h->row->curves != NULL && base->curve_count > 0) {
    h->trial.record_capacity = h->row->record_capacity;
    MHAS_TRY(mhas_alloc(&h->trial.curves, (size_t)base->curve_count * (size_t)h->row->record_capacity, sizeof(float),
                        "a trial's curves", error));
  }
  if (h->row->spectrum != NULL) {
    h->trial.spectrum_capacity = h->row->spectrum_capacity;
    MHAS_TRY(
        mhas_alloc(&h->trial.spectrum, (size_t)h->row->spectrum_capacity, sizeof(double), "a trial's spectrum", error));
  }
  return MHAS_OK;
}

static void release(hunt *h) {
  mhas_free(h->values);
  mhas_free(h->trial.results);
  mhas_free(h->trial.curves);
  mhas_free(h->trial.spectrum);
}

/* The row takes over what the trial gave. */
static void adopt(const hunt *h) {
  const mhas_experiment *base = h->experiment->base;
  memcpy(h->row->results, h->trial.results, (size_t)base->result_count * sizeof(mhas_value));
  if (h->trial.curves != NULL) {
    memcpy(h->row->curves, h->trial.curves,
           (size_t)base->curve_count * (size_t)h->row->record_capacity * sizeof(float));
  }
  if (h->trial.spectrum != NULL) {
    memcpy(h->row->spectrum, h->trial.spectrum, (size_t)h->row->spectrum_capacity * sizeof(double));
  }
}

static void record(hunt *h, int64_t size, double value) {
  const int first = h->experiment->base->curve_count;
  if (h->row->curves != NULL && h->trials < h->row->record_capacity) {
    h->row->curves[first * h->row->record_capacity + h->trials] = (float)size;
    h->row->curves[(first + 1) * h->row->record_capacity + h->trials] = (float)value;
  }
  h->trials++;
}

static bool condition(const mhas_search *search, int64_t size, double value) {
  const double bound = search->bound_is_parameter ? (double)size : search->bound;
  switch (search->relation) {
    case MHAS_AT_LEAST: return value >= bound;
    case MHAS_ABOVE: return value > bound;
    case MHAS_AT_MOST: return value <= bound;
    case MHAS_BELOW: return value < bound;
    case MHAS_EQUAL: return value == bound;
  }
  return false;
}

/* The result that the condition is about, as a number. */
static mhas_code measure(const hunt *h, double *value, mhas_error *error) {
  const mhas_result *result = &h->experiment->results[h->search->result];
  const mhas_value found = h->trial.results[h->search->result];
  const bool missing = result->type == MHAS_REAL ? isnan(found.real) : found.integer < 0;
  *value = result->type == MHAS_REAL ? found.real : (double)found.integer;
  if (missing) {
    return mhas_fail(error, MHAS_NUMERIC, "the search cannot go on: %s has no value with these parameters",
                     result->name);
  }
  return MHAS_OK;
}

static mhas_code run_trial(hunt *h, int64_t size, double *value, mhas_error *error) {
  const mhas_experiment *base = h->experiment->base;
  mhas_row_clear(base, &h->trial);
  MHAS_TRY(h->task->at(h->task->at_context, size, h->values, error));
  mhas_task task = part_of(h);
  task.point.values = h->values;
  const mhas_code code = base->run(&task, &h->trial, error);
  if (code == MHAS_STOPPED) {
    const mhas_piece piece = piece_of(h);
    mhas_task_keep(h->task, &piece, 1);
    return code;
  }
  h->row->flops += h->trial.flops;
  MHAS_TRY(code);
  return measure(h, value, error);
}

/* A trial that an earlier run of this point has made, and whose part in the row is there. */
static bool replay(hunt *h, int64_t size) {
  const memory *known = &h->known;
  if (h->replayed == known->count || known->sizes[h->replayed] != size) {
    return false;
  }
  const bool holds = condition(h->search, size, known->values[h->replayed]);
  *(holds ? &h->holds : &h->fails) = size;
  h->replayed++;
  h->trials++;
  return true;
}

static mhas_code remember(hunt *h, int64_t size, double value, mhas_error *error) {
  memory *known = &h->known;
  if (h->task->checkpoints == NULL || known->count == TRIALS_MOST) {
    return MHAS_OK;
  }
  known->sizes[known->count] = size;
  known->values[known->count++] = value;
  h->replayed = known->count;
  const mhas_piece piece = piece_of(h);
  return mhas_task_proceed(h->task, &piece, 1, error);
}

/* Tries one value and moves the bracket. The row keeps the largest that holds, and until there is one the smallest. */
static mhas_code try_size(hunt *h, int64_t size, mhas_error *error) {
  double value = NAN;
  if (replay(h, size)) {
    return MHAS_OK;
  }
  const mhas_code code = run_trial(h, size, &value, error);
  if (code == MHAS_STOPPED) {
    return code;
  }
  if (code != MHAS_OK) {
    return mhas_error_context(error, "trial with %s = %" PRId64, h->experiment->parameters[h->search->parameter].name,
                              size);
  }
  record(h, size, value);
  if (condition(h->search, size, value)) {
    adopt(h);
    h->holds = size;
  } else {
    if (h->holds < h->search->from) {
      adopt(h);
    }
    h->fails = size;
  }
  return remember(h, size, value, error);
}

static mhas_code try_guess(hunt *h, mhas_error *error) {
  const mhas_search *search = h->search;
  const mhas_searchable *searchable = h->experiment->base->searchable;
  if (searchable->guess == NULL) {
    return MHAS_OK;
  }
  if (h->known.guessed == 0) {
    const mhas_task task = part_of(h);
    double flops = 0.0;
    MHAS_TRY(searchable->guess(&task, search->result, &h->known.guess, &flops, error));
    h->row->flops += flops;
    h->known.guessed = 1;
  }
  int64_t guess = h->known.guess;
  if (guess < search->from) {
    return MHAS_OK;
  }
  guess = guess < search->to ? guess : search->to;
  MHAS_TRY(try_size(h, guess, error));
  if (h->holds != guess || guess == search->to) {
    return MHAS_OK;
  }
  return try_size(h, guess < search->to - search->tolerance ? guess + search->tolerance : search->to, error);
}

static mhas_code hunt_down(hunt *h, mhas_error *error) {
  const mhas_search *search = h->search;
  MHAS_TRY(try_guess(h, error));
  if (h->holds < search->from && h->fails > search->from) {
    MHAS_TRY(try_size(h, search->from, error));
  }
  if (h->holds < search->from) {
    return MHAS_OK;
  }
  while (h->fails > search->to && h->holds < search->to) {
    MHAS_TRY(try_size(h, h->holds < search->to / 2 ? 2 * h->holds : search->to, error));
  }
  while (h->fails - h->holds > search->tolerance) {
    MHAS_TRY(try_size(h, h->holds + (h->fails - h->holds) / 2, error));
  }
  return MHAS_OK;
}

mhas_code mhas_experiment_run(const mhas_experiment *experiment, const mhas_task *task, mhas_row *row,
                              mhas_error *error) {
  const mhas_search *search = experiment->search;
  if (search == NULL) {
    return experiment->run(task, row, error);
  }
  hunt h = {.experiment = experiment,
            .search = search,
            .task = task,
            .row = row,
            .holds = search->from - 1,
            .fails = search->to + 1};
  mhas_code code = prepare(&h, error);
  if (code == MHAS_OK) {
    const mhas_piece piece = piece_of(&h);
    bool found = false;
    code = mhas_task_restore(task, &piece, 1, &found, error);
  }
  if (code == MHAS_OK) {
    code = hunt_down(&h, error);
  }
  if (code == MHAS_OK) {
    row->results[experiment->result_count - 1].integer = h.holds < search->from ? -1 : h.holds;
  }
  release(&h);
  return code;
}
