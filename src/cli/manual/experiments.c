/* mhasweep-experiments(7): what each number of each experiment means, from the experiments' own tables. */
#include "mhasweep/experiments.h"

#include <string.h>

#include "cli/manual/manual.h"

/* "NAME  facts" over a paragraph. */
static void add_entry(mhas_text *text, const char *name, const char *facts, const char *meaning) {
  mhas_text_append(text, ".TP\n");
  roff_literal(text, name, true);
  if (facts[0] != '\0') {
    mhas_text_append(text, "  ");
    roff_literal(text, facts, false);
  }
  mhas_text_append(text, "\n");
  roff_words(text, meaning);
}

static void add_parameters(mhas_text *text, const mhas_experiment *experiment) {
  mhas_text facts = {0};
  mhas_text_append(text, ".SS %s: parameters\n", experiment->name);
  for (int i = 0; i < experiment->parameter_count; i++) {
    facts.length = 0;
    cli_describe_parameter(&experiment->parameters[i], &facts);
    add_entry(text, experiment->parameters[i].name, mhas_text_string(&facts), experiment->parameters[i].meaning);
  }
  text->failed |= facts.failed;
  mhas_text_free(&facts);
}

static void add_results(mhas_text *text, const mhas_experiment *experiment) {
  char facts[128];
  mhas_text_append(text, ".SS %s: results\n", experiment->name);
  for (int i = 0; i < experiment->result_count; i++) {
    const mhas_result *result = &experiment->results[i];
    const bool pure = strcmp(result->unit, "1") == 0;
    (void)snprintf(facts, sizeof facts, pure ? "%s" : "%s [%s]", cli_type_name(result->type), result->unit);
    add_entry(text, result->name, facts, result->meaning);
  }
}

static void add_curves(mhas_text *text, const mhas_experiment *experiment) {
  if (experiment->curve_count == 0) {
    return;
  }
  mhas_text_append(text, ".SS %s: curves\n", experiment->name);
  for (int i = 0; i < experiment->curve_count; i++) {
    const mhas_curve *curve = &experiment->curves[i];
    add_entry(text, curve->name, strcmp(curve->unit, "1") == 0 ? "" : curve->unit, curve->meaning);
  }
}

static void add_experiment(mhas_text *text, const mhas_experiment *experiment) {
  mhas_text_append(text, ".SH ");
  for (const char *letter = experiment->name; *letter != '\0'; letter++) {
    mhas_text_append(text, "%c", *letter >= 'a' && *letter <= 'z' ? *letter - 'a' + 'A' : *letter);
  }
  mhas_text_append(text, "\n");
  roff_words(text, experiment->title);
  mhas_text_append(text, ".PP\n");
  roff_words(text, experiment->summary);
  if (experiment->searchable != NULL) {
    mhas_text_append(text, ".PP\nA search can look for the largest \\fB%s\\fR, see mhasweep\\-sweep(5).\n",
                     experiment->searchable->parameter);
  }
  add_parameters(text, experiment);
  add_results(text, experiment);
  add_curves(text, experiment);
}

void manual_experiments(mhas_text *text) {
  int count = 0;
  const mhas_experiment *const *experiments = mhas_experiments(&count);
  roff_title(text, "MHASWEEP\\-EXPERIMENTS", "7", "What each number means");
  mhas_text_append(text,
                   ".SH NAME\n"
                   "mhasweep\\-experiments \\- the experiments of mhasweep: every parameter, result and curve\n"
                   ".SH DESCRIPTION\n");
  roff_words(text,
             "A sweep file, see mhasweep-sweep(5), names one of these experiments and values of its parameters; what "
             "it does not name has the default. A default that begins with = is an expression over other parameters. "
             "Every parameter may be an axis of the sweep.\n\n"
             "In the result file each parameter and each result is a variable of its name over the dimension point; a "
             "result that a point does not have is NaN, or -1 if it is an integer or a flag. A curve NAME is the "
             "variable curve_NAME over point and record. `mhasweep experiments NAME' prints the same.");
  for (int i = 0; i < count; i++) {
    add_experiment(text, experiments[i]);
  }
  mhas_text_append(text, ".SH SEE ALSO\n.BR mhasweep (1),\n.BR mhasweep\\-sweep (5)\n");
}
