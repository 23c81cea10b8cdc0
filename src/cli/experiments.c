/* mhasweep experiments: the tables of the experiments, for people and for machines. */
#include "mhasweep/experiments.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { OPTION_JSON, OPTION_COUNT };

static const cli_option options[OPTION_COUNT] = {
    [OPTION_JSON] = {"json", 0, NULL, "everything, as JSON: one object with NAME, else a list of all"},
};

const char *cli_type_name(mhas_type type) {
  switch (type) {
    case MHAS_INTEGER: return "integer";
    case MHAS_REAL: return "real";
    case MHAS_CHOICE: return "choice";
    case MHAS_FLAG: return "flag";
    case MHAS_TEXT: return "text";
  }
  return "";
}

/* ---- for people ---- */

/* "1" is how a pure number is marked in files; people expect nothing there. */
static const char *unit_or_dash(const char *unit) { return strcmp(unit, "1") == 0 ? "-" : unit; }

static void add_titles(cli_table *table, const char *const *titles) {
  for (int i = 0; i < table->columns; i++) {
    cli_table_cell(table, "%s", titles[i]);
  }
}

static void append_range(const mhas_parameter *parameter, mhas_text *text) {
  switch (parameter->type) {
    case MHAS_INTEGER:
      mhas_text_append(text, "%" PRId64 " .. %" PRId64, (int64_t)parameter->least, (int64_t)parameter->most);
      return;
    case MHAS_REAL:
      if (parameter->least == DBL_TRUE_MIN) {
        mhas_text_append(text, "> 0 .. %.15g", parameter->most);
      } else {
        mhas_text_append(text, "%.15g .. %.15g", parameter->least, parameter->most);
      }
      return;
    case MHAS_FLAG: mhas_text_append(text, "true | false"); return;
    case MHAS_TEXT: mhas_text_append(text, "at most %d bytes", MHAS_TEXT_MOST); return;
    case MHAS_CHOICE:
      for (int i = 0; parameter->choices[i] != NULL; i++) {
        mhas_text_append(text, "%s%s", i == 0 ? "" : " | ", parameter->choices[i]);
      }
      return;
  }
}

void cli_describe_parameter(const mhas_parameter *parameter, mhas_text *text) {
  mhas_text_append(text, "%s", cli_type_name(parameter->type));
  if (strcmp(parameter->unit, "1") != 0) {
    mhas_text_append(text, " [%s]", parameter->unit);
  }
  mhas_text_append(text, ", ");
  append_range(parameter, text);
  mhas_text_append(text, ", default %s", parameter->fallback[0] == '\0' ? "\"\"" : parameter->fallback);
}

/* A table of six columns would leave no room for the meaning, so each parameter has it under its facts. */
static mhas_code print_parameters(const mhas_experiment *experiment, mhas_error *error) {
  (void)printf("\nParameters (any of them may be an axis of the sweep; \"= ...\" is an expression):\n");
  int width = 0;
  for (int i = 0; i < experiment->parameter_count; i++) {
    const int name_width = (int)strlen(experiment->parameters[i].name);
    width = name_width > width ? name_width : width;
  }
  mhas_text facts = {0};
  for (int i = 0; i < experiment->parameter_count; i++) {
    const mhas_parameter *parameter = &experiment->parameters[i];
    facts.length = 0;
    cli_describe_parameter(parameter, &facts);
    (void)printf("  %-*s  ", width, parameter->name);
    cli_print_hanging(mhas_text_string(&facts), width + 4, cli_width());
    cli_print_wrapped(parameter->meaning, width + 4, cli_width());
  }
  const bool failed = facts.failed;
  mhas_text_free(&facts);
  return failed ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory while describing the parameters") : MHAS_OK;
}

static mhas_code print_results(const mhas_experiment *experiment, mhas_error *error) {
  (void)printf("\nResults:\n");
  cli_table table = {.columns = 4};
  add_titles(&table, (const char *const[]){"name", "type", "unit", "meaning"});
  for (int i = 0; i < experiment->result_count; i++) {
    const mhas_result *result = &experiment->results[i];
    cli_table_cell(&table, "%s", result->name);
    cli_table_cell(&table, "%s", cli_type_name(result->type));
    cli_table_cell(&table, "%s", unit_or_dash(result->unit));
    cli_table_cell(&table, "%s", result->meaning);
  }
  return cli_table_print(&table, 2, error);
}

static mhas_code print_curves(const mhas_experiment *experiment, mhas_error *error) {
  if (experiment->curve_count == 0) {
    return MHAS_OK;
  }
  (void)printf("\nCurves (store: [curves]; curve_NAME in the result file):\n");
  cli_table table = {.columns = 3};
  add_titles(&table, (const char *const[]){"name", "unit", "meaning"});
  for (int i = 0; i < experiment->curve_count; i++) {
    cli_table_cell(&table, "%s", experiment->curves[i].name);
    cli_table_cell(&table, "%s", unit_or_dash(experiment->curves[i].unit));
    cli_table_cell(&table, "%s", experiment->curves[i].meaning);
  }
  return cli_table_print(&table, 2, error);
}

static void print_search(const mhas_experiment *experiment) {
  if (experiment->searchable == NULL) {
    return;
  }
  const char *name = experiment->searchable->parameter;
  mhas_text text = {0};
  mhas_text_append(&text,
                   "the largest %s for which a result keeps a condition can be searched for (search: {parameter: %s, "
                   "until: \"RESULT >= NUMBER\", to: N}); that adds the result capacity and the curves trial_%s and "
                   "trial_value",
                   name, name, name);
  (void)printf("\nSearch:\n");
  cli_print_wrapped(mhas_text_string(&text), 2, cli_width());
  mhas_text_free(&text);
}

static mhas_code print_one(const mhas_experiment *experiment, mhas_error *error) {
  (void)printf("%s: %s\n\n", experiment->name, experiment->title);
  cli_print_wrapped(experiment->summary, 0, cli_width());
  MHAS_TRY(print_parameters(experiment, error));
  MHAS_TRY(print_results(experiment, error));
  MHAS_TRY(print_curves(experiment, error));
  print_search(experiment);
  return MHAS_OK;
}

static mhas_code print_list(const mhas_experiment *const *experiments, int count, mhas_error *error) {
  cli_table table = {.columns = 2};
  for (int i = 0; i < count; i++) {
    cli_table_cell(&table, "%s", experiments[i]->name);
    cli_table_cell(&table, "%s", experiments[i]->title);
  }
  MHAS_TRY(cli_table_print(&table, 0, error));
  (void)printf("\nmhasweep experiments NAME lists the parameters and results of one.\n");
  return MHAS_OK;
}

/* ---- for machines ---- */

/* A default in its own type; an expression ("= ...") stays a text. */
static json_t *default_json(const mhas_parameter *parameter) {
  const char *word = parameter->fallback;
  if (word[0] == '=' || parameter->type == MHAS_CHOICE || parameter->type == MHAS_TEXT) {
    return json_string(word);
  }
  if (parameter->type == MHAS_FLAG) {
    return json_boolean(strcmp(word, "true") == 0);
  }
  return parameter->type == MHAS_INTEGER ? json_integer(strtoll(word, NULL, 10)) : json_real(strtod(word, NULL));
}

static json_t *choices_json(const mhas_parameter *parameter, bool *failed) {
  json_t *list = json_array();
  for (int i = 0; parameter->choices[i] != NULL; i++) {
    *failed |= json_array_append_new(list, json_string(parameter->choices[i])) != 0;
  }
  return list;
}

static json_t *parameter_json(const mhas_parameter *parameter, bool *failed) {
  json_t *object = json_object();
  cli_json_put(object, "name", json_string(parameter->name), failed);
  cli_json_put(object, "type", json_string(cli_type_name(parameter->type)), failed);
  cli_json_put(object, "unit", json_string(parameter->unit), failed);
  cli_json_put(object, "default", default_json(parameter), failed);
  if (parameter->type == MHAS_CHOICE) {
    cli_json_put(object, "choices", choices_json(parameter, failed), failed);
  } else if (parameter->type == MHAS_INTEGER || parameter->type == MHAS_REAL) {
    const bool open = parameter->least == DBL_TRUE_MIN;
    cli_json_put(object, open ? "greater_than" : "least", cli_json_number(open ? 0.0 : parameter->least), failed);
    cli_json_put(object, "most", cli_json_number(parameter->most), failed);
  }
  cli_json_put(object, "meaning", json_string(parameter->meaning), failed);
  return object;
}

static json_t *result_json(const mhas_result *result, bool *failed) {
  json_t *object = json_object();
  cli_json_put(object, "name", json_string(result->name), failed);
  cli_json_put(object, "type", json_string(cli_type_name(result->type)), failed);
  cli_json_put(object, "unit", json_string(result->unit), failed);
  cli_json_put(object, "meaning", json_string(result->meaning), failed);
  return object;
}

static json_t *curve_json(const mhas_curve *curve, bool *failed) {
  json_t *object = json_object();
  cli_json_put(object, "name", json_string(curve->name), failed);
  cli_json_put(object, "unit", json_string(curve->unit), failed);
  cli_json_put(object, "meaning", json_string(curve->meaning), failed);
  return object;
}

static json_t *experiment_json(const mhas_experiment *experiment, bool *failed) {
  json_t *object = json_object();
  cli_json_put(object, "name", json_string(experiment->name), failed);
  cli_json_put(object, "title", json_string(experiment->title), failed);
  cli_json_put(object, "summary", json_string(experiment->summary), failed);
  cli_json_put(object, "numerics", json_integer(experiment->numerics), failed);
  json_t *parameters = json_array();
  for (int i = 0; i < experiment->parameter_count; i++) {
    *failed |= json_array_append_new(parameters, parameter_json(&experiment->parameters[i], failed)) != 0;
  }
  cli_json_put(object, "parameters", parameters, failed);
  json_t *results = json_array();
  for (int i = 0; i < experiment->result_count; i++) {
    *failed |= json_array_append_new(results, result_json(&experiment->results[i], failed)) != 0;
  }
  cli_json_put(object, "results", results, failed);
  json_t *curves = json_array();
  for (int i = 0; i < experiment->curve_count; i++) {
    *failed |= json_array_append_new(curves, curve_json(&experiment->curves[i], failed)) != 0;
  }
  cli_json_put(object, "curves", curves, failed);
  cli_json_put(object, "searchable",
               experiment->searchable == NULL ? json_null() : json_string(experiment->searchable->parameter), failed);
  return object;
}

/* ---- the command ---- */

static mhas_code unknown_experiment(const mhas_experiment *const *experiments, int count, const char *word,
                                    mhas_error *error) {
  mhas_text list = {0};
  const char **names = NULL;
  MHAS_TRY(mhas_alloc(&names, (size_t)count, sizeof *names, "the names of the experiments", error));
  for (int i = 0; i < count; i++) {
    names[i] = experiments[i]->name;
    mhas_text_append(&list, "%s%s", i == 0 ? "" : ", ", names[i]);
  }
  const char *nearest = mhas_nearest_name(word, names, (size_t)count);
  const mhas_code code =
      nearest != NULL
          ? mhas_fail(error, MHAS_USAGE, "there is no experiment %s; did you mean %s?", word, nearest)
          : mhas_fail(error, MHAS_USAGE, "there is no experiment %s; there are %s", word, mhas_text_string(&list));
  mhas_text_free(&list);
  mhas_free(names);
  return code;
}

static mhas_code run(const cli_words *words, int *status, mhas_error *error) {
  (void)status;
  int count = 0;
  const mhas_experiment *const *experiments = mhas_experiments(&count);
  const mhas_experiment *one = words->operand == NULL ? NULL : mhas_experiment_find(words->operand);
  if (words->operand != NULL && one == NULL) {
    return unknown_experiment(experiments, count, words->operand, error);
  }
  if (!cli_has(words, OPTION_JSON)) {
    return one != NULL ? print_one(one, error) : print_list(experiments, count, error);
  }
  bool failed = false;
  if (one != NULL) {
    json_t *object = experiment_json(one, &failed);
    return cli_json_print(object, failed, error);
  }
  json_t *list = json_array();
  for (int i = 0; i < count; i++) {
    failed |= json_array_append_new(list, experiment_json(experiments[i], &failed)) != 0;
  }
  return cli_json_print(list, failed, error);
}

const cli_command cli_experiments = {
    .name = "experiments",
    .operand = "[NAME]",
    .summary = "the experiments, their parameters and results",
    .description =
        "Lists the experiments that a sweep file can name. With NAME: the parameters of that experiment (type, unit, "
        "range, default, meaning), its results and its curves.",
    .options = options,
    .option_count = OPTION_COUNT,
    .examples =
        "  mhasweep experiments\n"
        "  mhasweep experiments memorize\n"
        "  mhasweep experiments probe --json\n",
    .statuses =
        "  0  it was printed\n"
        "  1  it could not be written\n"
        "  2  there is no such experiment, or the command line is wrong\n",
    .run = run,
};
