/* `search` of a sweep file: read, and written in one way of writing it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sweep/inside.h"

static const char *const search_keys[] = {"parameter", "until", "from", "to", "tolerance"};
static const char *const example = "{parameter: samples, until: \"accuracy >= 0.999\", from: 1, to: 100000}";
enum { SEARCH_KEYS = sizeof search_keys / sizeof *search_keys, RESULTS_MOST = 128, WORD_LENGTH = 64 };

/* ---- reading ---- */

static bool take_parameter(sweep_reader *reader, const sweep_node *node, mhas_search *search) {
  const mhas_experiment *experiment = reader->sweep->experiment;
  const char *names[SWEEP_PARAMETERS_MOST];
  size_t index = 0;
  for (int p = 0; p < experiment->parameter_count && p < SWEEP_PARAMETERS_MOST; p++) {
    names[p] = experiment->parameters[p].name;
  }
  if (!sweep_choice_take(reader->complaints, node, "search.parameter", names, (size_t)experiment->parameter_count,
                         &index)) {
    return false;
  }
  search->parameter = (int)index;
  if (strcmp(experiment->searchable->parameter, names[index]) != 0) {
    sweep_complain(reader->complaints, node->place, "%s cannot be searched for; %s can", names[index],
                   experiment->searchable->parameter);
    return false;
  }
  return true;
}

/* Copies the characters of a set that come next, behind blanks; returns what follows them. */
static const char *next_word(const char *at, const char *set, char word[WORD_LENGTH]) {
  at += strspn(at, " ");
  const size_t length = strspn(at, set);
  (void)snprintf(word, WORD_LENGTH, "%.*s", (int)(length < WORD_LENGTH ? length : WORD_LENGTH - 1), at);
  return at + length;
}

static bool take_result(sweep_reader *reader, const sweep_node *node, const char *word, mhas_search *search) {
  const mhas_experiment *experiment = reader->sweep->experiment;
  const char *names[RESULTS_MOST];
  size_t count = 0;
  for (int r = 0; r < experiment->result_count && r < RESULTS_MOST; r++) {
    names[count++] = experiment->results[r].name;
  }
  search->result = mhas_result_find(experiment, word);
  if (search->result < 0) {
    sweep_complain(reader->complaints, node->place, "search.until: %s has no result %s%s", experiment->name, word,
                   sweep_hint_for(word, names, count).text);
  }
  return search->result >= 0;
}

static bool take_relation(const char *sign, mhas_search *search) {
  for (int i = 0; i < MHAS_RELATIONS; i++) {
    if (strcmp(mhas_relation_signs[i], sign) == 0) {
      search->relation = (mhas_relation)i;
      return true;
    }
  }
  return false;
}

/* What the result is compared with: a number, true or false, or the searched parameter. */
static bool take_bound(const mhas_experiment *experiment, const char *text, mhas_search *search) {
  sweep_number number;
  if (sweep_number_read(text, &number)) {
    search->bound = number.real + 0.0;
    return number.real == number.real;
  }
  search->bound = strcmp(text, "true") == 0 ? 1.0 : 0.0;
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
    return experiment->results[search->result].type == MHAS_FLAG;
  }
  search->bound_is_parameter = strcmp(text, experiment->searchable->parameter) == 0;
  return search->bound_is_parameter;
}

/* RESULT SIGN BOUND, apart; false if one of them is not there. */
static bool split_condition(const char *text, char name[WORD_LENGTH], char sign[WORD_LENGTH], char bound[WORD_LENGTH]) {
  static const char *const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  const char *rest = next_word(text, letters, name);
  rest = next_word(rest, "<>=!~", sign);
  rest = next_word(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.", bound);
  return name[0] != '\0' && sign[0] != '\0' && bound[0] != '\0' && rest[strspn(rest, " ")] == '\0';
}

static bool take_condition(sweep_reader *reader, const sweep_node *node, mhas_search *search) {
  const mhas_experiment *experiment = reader->sweep->experiment;
  char name[WORD_LENGTH];
  char sign[WORD_LENGTH];
  char bound[WORD_LENGTH];
  if (node->refused) {
    return false;
  }
  if (node->kind != SWEEP_SCALAR || !split_condition(node->text, name, sign, bound)) {
    sweep_complain(reader->complaints, node->place,
                   "search.until takes RESULT SIGN NUMBER such as \"accuracy >= 0.999\", not %s",
                   sweep_show(node).text);
    return false;
  }
  if (!take_result(reader, node, name, search)) {
    return false;
  }
  if (!take_relation(sign, search)) {
    sweep_complain(reader->complaints, node->place, "search.until compares by >=, >, <=, < or ==, not by %s", sign);
    return false;
  }
  if (!take_bound(experiment, bound, search)) {
    sweep_complain(reader->complaints, node->place, "search.until compares %s with a number%s or with %s, not with %s",
                   name, experiment->results[search->result].type == MHAS_FLAG ? ", true, false" : "",
                   experiment->searchable->parameter, bound);
    return false;
  }
  return true;
}

/* A whole number that the parameter can take. */
static bool take_size(sweep_reader *reader, const sweep_node *map, const char *key, const mhas_search *search,
                      int64_t *size) {
  const mhas_parameter *parameter = &reader->sweep->experiment->parameters[search->parameter];
  const sweep_node *node = sweep_node_find(map, key);
  char what[32];
  (void)snprintf(what, sizeof what, "search.%s", key);
  return node == NULL ||
         sweep_integer_take(reader->complaints, node, what, (int64_t)parameter->least, (int64_t)parameter->most, size);
}

static bool take_sizes(sweep_reader *reader, const sweep_node *map, mhas_search *search) {
  const mhas_parameter *parameter = &reader->sweep->experiment->parameters[search->parameter];
  const sweep_node *tolerance = sweep_node_find(map, "tolerance");
  search->from = (int64_t)parameter->least;
  search->to = (int64_t)parameter->most;
  search->tolerance = 1;
  bool good = take_size(reader, map, "from", search, &search->from);
  good = take_size(reader, map, "to", search, &search->to) && good;
  good = (tolerance == NULL || sweep_integer_take(reader->complaints, tolerance, "search.tolerance", 1,
                                                  (int64_t)parameter->most, &search->tolerance)) &&
         good;
  if (good && search->from > search->to) {
    sweep_complain(reader->complaints, sweep_node_find(map, "to")->place,
                   "search.to = %" PRId64 " is below search.from = %" PRId64, search->to, search->from);
    good = false;
  }
  return good;
}

/* What does not go together with a search. */
static bool check_others(sweep_reader *reader, const mhas_search *search) {
  const mhas_sweep *sweep = reader->sweep;
  const char *name = sweep->experiment->parameters[search->parameter].name;
  const sweep_node *given = sweep_node_find(sweep_node_find(reader->root, "parameters"), name);
  const sweep_node *store = sweep_node_find(reader->root, "store");
  if (given != NULL) {
    sweep_complain(reader->complaints, given->key != NULL ? given->key->place : given->place,
                   "%s is what the search varies; take it out of parameters, or take out search", name);
  }
  if ((sweep->store & (MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_Z)) != 0) {
    sweep_complain(reader->complaints, store->place,
                   "a search keeps no weights, data or z; store them in a sweep with %s at the capacity found", name);
    return false;
  }
  return given == NULL;
}

void sweep_read_search(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  const sweep_node *map = sweep_map_take(reader, "search", search_keys, SEARCH_KEYS, example);
  mhas_search search = {.parameter = -1};
  mhas_error error;
  if (map == NULL || sweep->experiment == NULL) {
    return;
  }
  if (sweep->experiment->searchable == NULL) {
    sweep_complain(reader->complaints, map->place, "%s has nothing that can be searched for", sweep->experiment->name);
    return;
  }
  const sweep_node *parameter = sweep_node_find(map, "parameter");
  const sweep_node *until = sweep_node_find(map, "until");
  const sweep_node *to = sweep_node_find(map, "to");
  if (parameter == NULL || until == NULL || to == NULL) {
    sweep_complain(reader->complaints, map->place, "search has no %s; write %s",
                   parameter == NULL ? "parameter"
                   : until == NULL   ? "until"
                                     : "to",
                   example);
  }
  bool good = until != NULL && take_condition(reader, until, &search);
  if (parameter != NULL && take_parameter(reader, parameter, &search)) {
    good = take_sizes(reader, map, &search) && good;
    good = check_others(reader, &search) && good && to != NULL;
  } else {
    good = false;
  }
  if (good) {
    if (mhas_searching_create(sweep->experiment, &search, &sweep->searching, &error) != MHAS_OK) {
      reader->complaints->no_memory = true;
      return;
    }
    sweep->experiment = sweep->searching;
    sweep->search_place = to->place;
  }
}

/* ---- writing ---- */

void mhas_search_format(const mhas_experiment *experiment, mhas_text *text) {
  const mhas_search *search = experiment->search;
  const mhas_result *result = &experiment->results[search->result];
  mhas_text_append(text, "%s %s ", result->name, mhas_relation_signs[search->relation]);
  if (search->bound_is_parameter) {
    mhas_text_append(text, "%s", experiment->parameters[search->parameter].name);
  } else {
    mhas_text_append(text, "%s", sweep_shortest(search->bound).text);
  }
}

void sweep_write_search(const mhas_sweep *sweep, mhas_text *text) {
  const mhas_search *search = sweep->experiment->search;
  if (search == NULL) {
    mhas_text_append(text, "none");
    return;
  }
  mhas_text_append(text, "{parameter: %s, until: \"", sweep->experiment->parameters[search->parameter].name);
  mhas_search_format(sweep->experiment, text);
  mhas_text_append(text, "\", from: %" PRId64 ", to: %" PRId64 ", tolerance: %" PRId64 "}", search->from, search->to,
                   search->tolerance);
}
