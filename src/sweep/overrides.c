/* --set NAME=VALUE: each word is put into the tree of the file, as if it stood there. */
#include <string.h>

#include "sweep/inside.h"

static const char *const settings[] = {"experiment",
                                       "seed",
                                       "replicates",
                                       "zip",
                                       "where",
                                       "sample",
                                       "sample.method",
                                       "sample.count",
                                       "store",
                                       "limits.seconds_per_point",
                                       "limits.memory_per_rank",
                                       "limits.max_failures",
                                       "search",
                                       "search.parameter",
                                       "search.until",
                                       "search.from",
                                       "search.to",
                                       "search.tolerance"};
enum { SETTING_COUNT = sizeof settings / sizeof *settings, NAMES_MOST = 128 };

const char *const *mhas_sweep_settings(size_t *count) {
  *count = SETTING_COUNT;
  return settings;
}

/* The map under `key`, made if there is none. NULL if something else stands there or memory ran out. */
static sweep_node *map_under(sweep_reader *reader, const char *key, sweep_place place) {
  sweep_node *map = sweep_node_find(reader->root, key);
  if (map == NULL) {
    map = sweep_arena_take(reader->arena, sizeof *map);
    if (map == NULL) {
      reader->complaints->no_memory = true;
      return NULL;
    }
    *map = (sweep_node){.kind = SWEEP_MAP, .place = place, .text = ""};
    if (!sweep_node_put(reader->arena, reader->root, key, map)) {
      reader->complaints->no_memory = true;
    }
  }
  if (sweep_node_is_null(map)) {
    map->kind = SWEEP_MAP; /* "parameters:" and nothing below it */
    map->text = "";
  }
  return map->kind == SWEEP_MAP ? map : NULL; /* what is no map will be complained about where it stands */
}

static void complain_of_name(sweep_reader *reader, sweep_place place, const char *name,
                             const mhas_experiment *experiment) {
  const char *names[NAMES_MOST];
  size_t count = 0;
  for (int p = 0; experiment != NULL && p < experiment->parameter_count; p++) {
    names[count++] = experiment->parameters[p].name;
  }
  for (size_t i = 0; i < SETTING_COUNT; i++) {
    names[count++] = settings[i];
  }
  sweep_complain(reader->complaints, place, "there is no parameter or setting %s%s", name,
                 sweep_hint_for(name, names, count).text);
}

/* The experiment as the file or an earlier word names it. */
static const mhas_experiment *named_experiment(const sweep_reader *reader) {
  const sweep_node *node = sweep_node_find(reader->root, "experiment");
  return node == NULL || node->kind != SWEEP_SCALAR ? NULL : mhas_experiment_find(node->text);
}

static void put_value(sweep_reader *reader, const char *name, sweep_node *value) {
  const mhas_experiment *experiment = named_experiment(reader);
  const char *dot = strchr(name, '.');
  bool setting = false;
  for (size_t i = 0; i < SETTING_COUNT; i++) {
    setting = setting || strcmp(settings[i], name) == 0;
  }
  sweep_node *map = reader->root;
  const char *key = name;
  if (setting && dot != NULL) {
    static const char *const maps[] = {"sample", "limits", "search"};
    size_t i = 0;
    while (strncmp(name, maps[i], (size_t)(dot - name)) != 0) { /* every setting with a dot begins with one of them */
      i++;
    }
    map = map_under(reader, maps[i], value->place);
    key = dot + 1;
  } else if (!setting) {
    /* Without a known experiment every name passes: the experiment is complained about, which is the cause. */
    if (experiment != NULL && mhas_parameter_find(experiment, name) < 0) {
      complain_of_name(reader, value->place, name, experiment);
      return;
    }
    map = map_under(reader, "parameters", value->place);
  }
  if (map != NULL && !sweep_node_put(reader->arena, map, key, value)) {
    reader->complaints->no_memory = true;
  }
}

void sweep_read_overrides(sweep_reader *reader, const char *const *overrides, size_t count) {
  /* The experiment first, since it decides which parameters there are. */
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < count; i++) {
      const char *word = overrides[i];
      const char *equals = strchr(word, '=');
      const sweep_place place = {(int)i + 1, 1, 1};
      const bool experiment = strncmp(word, "experiment=", strlen("experiment=")) == 0;
      if (experiment != (pass == 0)) {
        continue;
      }
      const size_t length = equals == NULL ? 0 : (size_t)(equals - word);
      char *name = sweep_arena_take(reader->arena, length + 1);
      if (name == NULL) {
        reader->complaints->no_memory = true;
        return;
      }
      memcpy(name, word, length);
      if (length == 0) {
        sweep_complain(reader->complaints, place, "write NAME=VALUE");
        continue;
      }
      sweep_node *value =
          sweep_tree_read(reader->arena, (int)i + 1, equals + 1, strlen(equals + 1), reader->complaints);
      if (value != NULL) {
        put_value(reader, name, value);
      }
    }
  }
}
