/* Everything in a sweep file but its parameters, zip, where and search. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep/inside.h"

static const char *const top_keys[] = {"experiment", "seed",   "parameters", "zip",    "where",
                                       "replicates", "sample", "store",      "limits", "search"};
static const char *const sample_keys[] = {"method", "count"};
static const char *const limit_keys[] = {"seconds_per_point", "memory_per_rank", "max_failures"};
const char *const sweep_method_names[] = {"sobol", "random", "lhs"};
const char *const sweep_store_names[] = {"curves", "spectrum", "weights", "data", "z", "attention"};
enum { TOP_KEYS = sizeof top_keys / sizeof *top_keys, EXPERIMENTS_MOST = 64 };

static size_t experiment_names(const char *names[EXPERIMENTS_MOST]) {
  int count = 0;
  const mhas_experiment *const *experiments = mhas_experiments(&count);
  for (int i = 0; i < count && i < EXPERIMENTS_MOST; i++) {
    names[i] = experiments[i]->name;
  }
  return (size_t)count;
}

static void read_experiment(sweep_reader *reader) {
  const char *names[EXPERIMENTS_MOST];
  const size_t count = experiment_names(names);
  const sweep_node *node = sweep_node_find(reader->root, "experiment");
  size_t index = 0;
  if (node == NULL) {
    sweep_complain(reader->complaints, reader->root->place, "experiment is missing%s",
                   sweep_hint_for("", names, count).text);
  } else if (sweep_choice_take(reader->complaints, node, "experiment", names, count, &index)) {
    reader->sweep->experiment = mhas_experiment_find(names[index]);
  }
}

static void read_seed(sweep_reader *reader) {
  const sweep_node *node = sweep_node_find(reader->root, "seed");
  sweep_number number;
  if (node == NULL || !sweep_number_take(reader->complaints, node, "seed", &number)) {
    return;
  }
  if (number.whole && number.integer >= 0) {
    reader->sweep->seed = (uint64_t)number.integer;
    return;
  }
  /* Beyond 2^63 the number is only exact as it is written. */
  char *end = NULL;
  errno = 0;
  reader->sweep->seed = strtoull(node->text, &end, 10);
  if (!(number.real > 0.0) || *end != '\0' || errno != 0) {
    sweep_complain(reader->complaints, node->place, "seed takes a whole number from 0 to 18446744073709551615, not %s",
                   sweep_show(node).text);
  }
}

static void read_replicates(sweep_reader *reader) {
  const sweep_node *node = sweep_node_find(reader->root, "replicates");
  if (node != NULL) {
    (void)sweep_integer_take(reader->complaints, node, "replicates", 1, UINT32_MAX, &reader->sweep->replicates);
  }
}

static void read_store(sweep_reader *reader) {
  const sweep_node *node = sweep_node_find(reader->root, "store");
  reader->sweep->store = MHAS_STORE_CURVES;
  if (node == NULL || node->refused) {
    return;
  }
  if (node->kind != SWEEP_LIST) {
    sweep_complain(reader->complaints, node->place, "store takes a list such as [curves, spectrum], not %s",
                   sweep_show(node).text);
    return;
  }
  reader->sweep->store = 0;
  for (const sweep_node *word = node->first; word != NULL; word = word->next) {
    size_t index = 0;
    if (!sweep_choice_take(reader->complaints, word, "store", sweep_store_names, SWEEP_STORE_NAMES, &index)) {
      continue;
    }
    if ((reader->sweep->store & 1U << index) != 0) {
      sweep_complain(reader->complaints, word->place, "store names %s twice", sweep_store_names[index]);
    }
    reader->sweep->store |= 1U << index;
  }
}

const sweep_node *sweep_map_take(sweep_reader *reader, const char *name, const char *const *keys, size_t count,
                                 const char *example) {
  const sweep_node *node = sweep_node_find(reader->root, name);
  if (node == NULL || node->refused) {
    return NULL;
  }
  if (node->kind != SWEEP_MAP) {
    sweep_complain(reader->complaints, node->place, "%s takes a map such as %s, not %s", name, example,
                   sweep_show(node).text);
    return NULL;
  }
  char where[64];
  (void)snprintf(where, sizeof where, " in %s", name);
  for (const sweep_node *entry = node->first; entry != NULL; entry = entry->next) {
    (void)sweep_key_check(reader->complaints, entry->key, where, keys, count);
  }
  return node;
}

static void read_sample(sweep_reader *reader) {
  const char *example = "{method: sobol, count: 500}";
  const sweep_node *map =
      sweep_map_take(reader, "sample", sample_keys, sizeof sample_keys / sizeof *sample_keys, example);
  if (map == NULL) {
    return;
  }
  const sweep_node *method = sweep_node_find(map, "method");
  const sweep_node *count = sweep_node_find(map, "count");
  if (method == NULL || count == NULL) {
    sweep_complain(reader->complaints, map->place, "sample has no %s; write %s", method == NULL ? "method" : "count",
                   example);
  }
  size_t index = 0;
  if (method != NULL &&
      sweep_choice_take(reader->complaints, method, "sample.method", sweep_method_names, SWEEP_METHOD_NAMES, &index)) {
    reader->sweep->method = (sweep_method)(SWEEP_SOBOL + index);
  }
  if (count != NULL) {
    (void)sweep_integer_take(reader->complaints, count, "sample.count", 1, SWEEP_GRID_MOST,
                             &reader->sweep->sample_count);
  }
}

/* "2GiB" -> 2, "GiB". */
static bool split_unit(const char *text, sweep_number *number, const char **unit) {
  char digits[32];
  const size_t length = strspn(text, "0123456789.");
  if (length >= sizeof digits) {
    return false;
  }
  memcpy(digits, text, length);
  digits[length] = '\0';
  *unit = text + length + strspn(text + length, " ");
  return sweep_number_read(digits, number);
}

/* 2GiB, 500 MB, 1048576. */
static bool read_bytes(const char *text, double *bytes) {
  static const struct {
    const char *name;
    double bytes;
  } units[] = {{"B", 1.0},   {"kB", 1e3},     {"KB", 1e3},        {"MB", 1e6},           {"GB", 1e9},
               {"TB", 1e12}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
  sweep_number number;
  const char *unit = NULL;
  double factor = 1.0;
  if (!sweep_number_read(text, &number)) {
    factor = 0.0;
    if (!split_unit(text, &number, &unit)) {
      return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
      factor = strcmp(units[i].name, unit) == 0 ? units[i].bytes : factor;
    }
  }
  *bytes = number.real * factor;
  return *bytes > 0.0 && isfinite(*bytes);
}

static void read_limits(sweep_reader *reader) {
  mhas_limits *limits = &reader->sweep->limits;
  const sweep_node *map = sweep_map_take(reader, "limits", limit_keys, sizeof limit_keys / sizeof *limit_keys,
                                         "{seconds_per_point: 3600, memory_per_rank: 2GiB, max_failures: 100}");
  const sweep_node *seconds = sweep_node_find(map, "seconds_per_point");
  const sweep_node *memory = sweep_node_find(map, "memory_per_rank");
  const sweep_node *failures = sweep_node_find(map, "max_failures");
  sweep_number number;
  if (seconds != NULL && sweep_number_take(reader->complaints, seconds, "limits.seconds_per_point", &number)) {
    limits->seconds_per_point = number.real;
    if (!(number.real > 0.0)) {
      sweep_complain(reader->complaints, seconds->place, "limits.seconds_per_point must be above 0, not %s",
                     sweep_show(seconds).text);
    }
  }
  if (memory != NULL && !memory->refused &&
      (memory->kind != SWEEP_SCALAR || !read_bytes(memory->text, &limits->memory_per_rank))) {
    sweep_complain(reader->complaints, memory->place,
                   "limits.memory_per_rank takes bytes such as 2GiB, 500MB or 1048576, not %s",
                   sweep_show(memory).text);
  }
  if (failures != NULL) {
    (void)sweep_integer_take(reader->complaints, failures, "limits.max_failures", 0, INT64_MAX, &limits->max_failures);
  }
}

/* Unknown keys; a parameter that was written at the top gets its own sentence. */
static void check_top_keys(sweep_reader *reader) {
  for (const sweep_node *entry = reader->root->first; entry != NULL; entry = entry->next) {
    const mhas_experiment *experiment = reader->sweep->experiment;
    if (experiment != NULL && mhas_parameter_find(experiment, entry->key->text) >= 0) {
      sweep_complain(reader->complaints, entry->key->place,
                     "%s is a parameter; it belongs under parameters:", entry->key->text);
    } else {
      (void)sweep_key_check(reader->complaints, entry->key, "", top_keys, TOP_KEYS);
    }
  }
}

void sweep_read_settings(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  sweep->replicates = 1;
  sweep->limits = (mhas_limits){(double)INFINITY, (double)INFINITY, INT64_MAX};
  read_experiment(reader);
  check_top_keys(reader);
  read_seed(reader);
  read_replicates(reader);
  read_store(reader);
  read_sample(reader);
  read_limits(reader);
  sweep_read_search(reader);
}
