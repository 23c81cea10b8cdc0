/* The parameters of a sweep file and the defaults of those it does not name; zip; where. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sweep/inside.h"

/* ---- one parameter ---- */

static bool is_expression(const sweep_node *node) {
  return node->kind == SWEEP_SCALAR && node->text[0] == '=' && !node->refused;
}

static bool read_list(sweep_reader *reader, const sweep_node *node, const mhas_parameter *parameter,
                      sweep_definition *definition) {
  bool good = true;
  if (node->first == NULL) {
    sweep_complain(reader->complaints, node->place, "%s has an empty list; give it at least one value",
                   parameter->name);
    return false;
  }
  definition->list = calloc((size_t)node->count, sizeof *definition->list);
  if (definition->list == NULL) {
    reader->complaints->no_memory = true;
    return false;
  }
  definition->form = SWEEP_VALUES;
  for (const sweep_node *entry = node->first; entry != NULL; entry = entry->next) {
    if (is_expression(entry)) {
      sweep_complain(reader->complaints, entry->place, "an expression stands alone, as %s: \"= ...\", not in a list",
                     parameter->name);
      good = false;
      continue;
    }
    good = sweep_value_take(reader->complaints, entry, parameter, &definition->list[definition->count]) && good;
    definition->count++;
  }
  return good;
}

static bool read_range(sweep_reader *reader, const sweep_node *node, const mhas_parameter *parameter,
                       sweep_definition *definition) {
  if (parameter->type != MHAS_INTEGER && parameter->type != MHAS_REAL) {
    sweep_complain(reader->complaints, node->place, "%s takes %s; words have no ranges, write a list", parameter->name,
                   sweep_describe(parameter).text);
    return false;
  }
  definition->form = SWEEP_RANGE;
  if (!sweep_range_take(reader->complaints, node, parameter, &definition->range)) {
    return false;
  }
  definition->count = definition->range.count;
  if (definition->range.continuous && sweep_node_find(reader->root, "sample") == NULL) {
    sweep_complain(reader->complaints, node->place,
                   "the range of %s has neither step nor count; give one, or draw from it with sample: {method: "
                   "sobol, count: N}",
                   parameter->name);
    return false;
  }
  return true;
}

static bool read_definition(sweep_reader *reader, const sweep_node *node, int index) {
  const mhas_parameter *parameter = &reader->sweep->experiment->parameters[index];
  sweep_definition *definition = &reader->sweep->definition[index];
  definition->place = node->place;
  if (node->refused) {
    return false;
  }
  if (is_expression(node) && parameter->type == MHAS_TEXT) {
    sweep_complain(reader->complaints, node->place, "%s takes a text, which no expression gives", parameter->name);
    return false;
  }
  if (is_expression(node)) {
    definition->form = SWEEP_EXPRESSION;
    definition->count = 1;
    definition->expression = sweep_expression_create(reader->complaints, &reader->sweep->scope, node->text + 1,
                                                     node->place, parameter->name, false);
    return definition->expression != NULL;
  }
  if (node->kind == SWEEP_LIST) {
    return read_list(reader, node, parameter, definition);
  }
  if (node->kind == SWEEP_MAP) {
    return read_range(reader, node, parameter, definition);
  }
  definition->form = SWEEP_FIXED;
  definition->count = 1;
  return sweep_value_take(reader->complaints, node, parameter, &definition->value);
}

/* The default of the experiment's table, read as if it stood in the file. */
static bool read_default(sweep_reader *reader, int index) {
  const mhas_parameter *parameter = &reader->sweep->experiment->parameters[index];
  sweep_node node = {.kind = SWEEP_SCALAR,
                     .quoted = parameter->type == MHAS_TEXT, /* "" is a text */
                     .place = reader->root->place,
                     .text = parameter->fallback};
  return read_definition(reader, &node, index);
}

/* The searched parameter stands at the most that the search may try. */
static void read_searched(sweep_reader *reader, const mhas_search *search) {
  reader->sweep->definition[search->parameter] = (sweep_definition){.form = SWEEP_FIXED,
                                                                    .place = reader->sweep->search_place,
                                                                    .given = true,
                                                                    .good = true,
                                                                    .value = {.integer = search->to},
                                                                    .count = 1,
                                                                    .group = -1};
}

/* ---- all of them ---- */

static void complain_of_name(sweep_reader *reader, const sweep_node *key) {
  static const char *const elsewhere[] = {"experiment", "seed",  "zip",    "where", "replicates",
                                          "sample",     "store", "limits", "search"};
  const mhas_experiment *experiment = reader->sweep->experiment;
  const char *names[SWEEP_PARAMETERS_MOST];
  if (key->refused) {
    return;
  }
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
    if (strcmp(elsewhere[i], key->text) == 0) {
      sweep_complain(reader->complaints, key->place, "%s is no parameter; it belongs at the top of the file",
                     key->text);
      return;
    }
  }
  for (int p = 0; p < experiment->parameter_count; p++) {
    names[p] = experiment->parameters[p].name;
  }
  sweep_complain(reader->complaints, key->place, "%s has no parameter %s%s", experiment->name, sweep_show(key).text,
                 sweep_hint_for(key->text, names, (size_t)experiment->parameter_count).text);
}

void sweep_read_parameters(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  const sweep_node *map = sweep_node_find(reader->root, "parameters");
  sweep->definition = calloc((size_t)sweep->experiment->parameter_count + 1, sizeof *sweep->definition);
  if (sweep->definition == NULL) {
    reader->complaints->no_memory = true;
    return;
  }
  if (map != NULL && map->kind != SWEEP_MAP && !map->refused && !sweep_node_is_null(map)) {
    sweep_complain(reader->complaints, map->place, "parameters takes lines such as heads: [1, 2, 4], not %s",
                   sweep_show(map).text);
  }
  for (int p = 0; p < sweep->experiment->parameter_count; p++) {
    sweep_definition *definition = &sweep->definition[p];
    const sweep_node *node = sweep_node_find(map, sweep->experiment->parameters[p].name);
    if (sweep->experiment->search != NULL && sweep->experiment->search->parameter == p) {
      read_searched(reader, sweep->experiment->search);
      continue;
    }
    definition->group = -1;
    definition->given = node != NULL;
    definition->good = node != NULL ? read_definition(reader, node, p) : read_default(reader, p);
  }
  const bool named = map != NULL && map->kind == SWEEP_MAP;
  for (const sweep_node *node = named ? map->first : NULL; node != NULL; node = node->next) {
    if (mhas_parameter_find(sweep->experiment, node->key->text) < 0) {
      complain_of_name(reader, node->key);
    }
  }
}

/* ---- zip and repeated values ---- */

/* A value and its place in the list, so that a list can be sorted and its repetitions named. */
typedef struct ranked {
  const sweep_definition *const *members;
  const mhas_parameter *const *parameters;
  int member_count;
  int64_t index;
} ranked;

static int by_values(const void *left, const void *right) {
  const ranked *a = left;
  const ranked *b = right;
  for (int m = 0; m < a->member_count; m++) {
    const mhas_parameter *parameter = a->parameters[m];
    const int order = sweep_value_compare(parameter, sweep_definition_value(a->members[m], a->index),
                                          sweep_definition_value(b->members[m], b->index));
    if (order != 0) {
      return order;
    }
  }
  return 0;
}

static void complain_of_repetition(sweep_reader *reader, const ranked *twice, sweep_place place) {
  mhas_text text = {0};
  for (int m = 0; m < twice->member_count; m++) {
    mhas_text_append(&text, "%s%s = ", m == 0 ? "" : ", ", twice->parameters[m]->name);
    mhas_value_format(twice->parameters[m], sweep_definition_value(twice->members[m], twice->index), &text);
  }
  sweep_complain(reader->complaints, place, "%s comes twice; keep one (replicates: N repeats points)",
                 mhas_text_string(&text));
  mhas_text_free(&text);
}

/* The values of one axis, or the combinations of a zip group, must differ. */
static void check_repetition(sweep_reader *reader, const int *members, int member_count, sweep_place place) {
  const sweep_definition *definitions[SWEEP_PARAMETERS_MOST];
  const mhas_parameter *parameters[SWEEP_PARAMETERS_MOST];
  bool lists = false; /* ranges never repeat a value */
  for (int m = 0; m < member_count; m++) {
    definitions[m] = &reader->sweep->definition[members[m]];
    parameters[m] = &reader->sweep->experiment->parameters[members[m]];
    lists = lists || definitions[m]->form == SWEEP_VALUES;
    if (definitions[m]->form == SWEEP_RANGE) {
      return;
    }
  }
  if (!lists) {
    return;
  }
  const int64_t count = definitions[0]->count;
  ranked *list = malloc((size_t)count * sizeof *list);
  if (list == NULL) {
    reader->complaints->no_memory = true;
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    list[i] = (ranked){definitions, parameters, member_count, i};
  }
  qsort(list, (size_t)count, sizeof *list, by_values);
  for (int64_t i = 1; i < count; i++) {
    if (by_values(&list[i - 1], &list[i]) == 0) {
      complain_of_repetition(reader, &list[i], place);
      break;
    }
  }
  free(list);
}

/* One name of a zip group: is it an axis that may be in it? */
static bool take_member(sweep_reader *reader, const sweep_node *word, int group, int *parameter) {
  const mhas_experiment *experiment = reader->sweep->experiment;
  const char *names[SWEEP_PARAMETERS_MOST];
  size_t index = 0;
  for (int p = 0; p < experiment->parameter_count; p++) {
    names[p] = experiment->parameters[p].name;
  }
  if (!sweep_choice_take(reader->complaints, word, "a name in zip", names, (size_t)experiment->parameter_count,
                         &index)) {
    return false;
  }
  sweep_definition *definition = &reader->sweep->definition[index];
  *parameter = (int)index;
  if (definition->group >= 0) {
    sweep_complain(reader->complaints, word->place, "zip names %s twice", word->text);
    return false;
  }
  definition->group = group;
  if (!definition->good) {
    return false;
  }
  if (definition->form == SWEEP_EXPRESSION || definition->form == SWEEP_FIXED) {
    sweep_complain(reader->complaints, word->place, "%s is %s and cannot advance with others; give it a list or range",
                   word->text, definition->form == SWEEP_FIXED ? "one fixed value" : "given by an expression");
    return false;
  }
  if (definition->range.continuous) {
    sweep_complain(reader->complaints, word->place, "the range of %s needs a step or count to advance with others",
                   word->text);
    return false;
  }
  return true;
}

static void take_group(sweep_reader *reader, const sweep_node *list, int group) {
  int members[SWEEP_PARAMETERS_MOST];
  int count = 0;
  bool good = true;
  if (list->kind != SWEEP_LIST || list->count < 2) {
    sweep_complain(reader->complaints, list->place, "a group of zip is a list of at least two names, not %s",
                   list->kind == SWEEP_LIST ? "fewer" : sweep_show(list).text);
    return;
  }
  for (const sweep_node *word = list->first; word != NULL; word = word->next) {
    int parameter = -1;
    if (!take_member(reader, word, group, &parameter)) {
      good = false;
      continue;
    }
    const sweep_definition *first = &reader->sweep->definition[count > 0 ? members[0] : parameter];
    const sweep_definition *definition = &reader->sweep->definition[parameter];
    if (definition->count != first->count) {
      sweep_complain(reader->complaints, word->place,
                     "%s has %" PRId64 " values, %s has %" PRId64 "; axes that advance together need equally many",
                     list->first->text, first->count, word->text, definition->count);
      good = false;
    }
    members[count++] = parameter; /* each name at most once, so there are never too many */
  }
  if (good) {
    check_repetition(reader, members, count, list->place);
  }
}

void sweep_read_zip(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  const sweep_node *zip = sweep_node_find(reader->root, "zip");
  if (zip != NULL && !zip->refused) {
    const bool flat = zip->kind == SWEEP_LIST && zip->first != NULL && zip->first->kind == SWEEP_SCALAR;
    if (zip->kind != SWEEP_LIST || flat) {
      sweep_complain(reader->complaints, zip->place, "zip takes a list of lists such as [[heads, key_dim]], not %s",
                     flat ? "a list of words" : sweep_show(zip).text);
    } else {
      for (const sweep_node *list = zip->first; list != NULL; list = list->next) {
        take_group(reader, list, sweep->group_count);
        sweep->group_count++;
      }
    }
  }
  for (int p = 0; p < sweep->experiment->parameter_count; p++) {
    if (sweep->definition[p].good && sweep->definition[p].group < 0) {
      check_repetition(reader, &p, 1, sweep->definition[p].place);
    }
  }
}

void sweep_read_where(sweep_reader *reader) {
  const sweep_node *node = sweep_node_find(reader->root, "where");
  if (node == NULL || node->refused) {
    return;
  }
  if (node->kind != SWEEP_SCALAR || sweep_node_is_null(node)) {
    sweep_complain(reader->complaints, node->place,
                   "where takes an expression in quotes, such as \"key_dim <= dim\", not %s", sweep_show(node).text);
    return;
  }
  reader->sweep->where =
      sweep_expression_create(reader->complaints, &reader->sweep->scope, node->text, node->place, "where", true);
}
