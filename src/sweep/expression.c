#include "sweep/expression.h"

#include <math.h>
#include <muParserDLL.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep/lexer.h"

/* ---- what there is beside the names of the experiment ---- */

static double logic_not(double x) { return x == 0.0 ? 1.0 : 0.0; }
static double floor_of(double x) { return floor(x); }
static double ceil_of(double x) { return ceil(x); }
static double round_of(double x) { return round(x); }
static double remainder_of(double a, double b) { return fmod(a, b); }

static const char *const functions[] = {"abs",  "acos", "asin", "atan", "ceil",  "cos", "exp",  "floor", "log", "log10",
                                        "log2", "max",  "min",  "mod",  "round", "sin", "sqrt", "sum",   "tan", "tanh"};
enum { FUNCTION_COUNT = sizeof functions / sizeof *functions, NAMES_MOST = 256 };

static bool is_function(const char *name) {
  for (size_t i = 0; i < FUNCTION_COUNT; i++) {
    if (strcmp(functions[i], name) == 0) {
      return true;
    }
  }
  return false;
}

int sweep_word_id(const mhas_experiment *experiment, const char *word) {
  int id = 0;
  for (int p = 0; p < experiment->parameter_count; p++) {
    const char *const *choices = experiment->parameters[p].choices;
    for (size_t i = 0; choices != NULL && choices[i] != NULL; i++) {
      id++;
      if (strcmp(choices[i], word) == 0) {
        return id;
      }
    }
  }
  return 0;
}

/* ---- a reading in progress ---- */

typedef struct reading {
  sweep_complaints *complaints;
  const sweep_scope *scope;
  sweep_place place;
  const char *what;
  bool with_replicate;
  sweep_tokens tokens;
  mhas_text formula; /* for muParser */
  mhas_text text;    /* canonical */
  uint64_t uses;
} reading;

static bool refuse(reading *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(reading *r, const char *format, ...) {
  char reason[MHAS_ERROR_LENGTH / 2];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  sweep_complain(r->complaints, r->place, "the expression of %s: %s", r->what, reason);
  return false;
}

/* Token i + step, or one that is nothing. */
static const sweep_token *neighbour(const reading *r, size_t i, int step) {
  static const sweep_token none = {SWEEP_SIGN_TOKEN, ""};
  const bool inside = step < 0 ? i >= (size_t)-step : i + (size_t)step < r->tokens.count;
  return inside ? &r->tokens.list[i + (size_t)step] : &none;
}

static const mhas_parameter *choice_parameter(const reading *r, const sweep_token *token) {
  if (token->kind != SWEEP_NAME_TOKEN) {
    return NULL;
  }
  const int found = mhas_parameter_find(r->scope->experiment, token->text);
  const mhas_parameter *parameter = found < 0 ? NULL : &r->scope->experiment->parameters[found];
  return parameter != NULL && parameter->type == MHAS_CHOICE ? parameter : NULL;
}

/* The choice that token i is compared with by == or !=, NULL if it is with none. */
static const mhas_parameter *compared_choice(const reading *r, size_t i) {
  for (int side = -1; side <= 1; side += 2) {
    const sweep_token *sign = neighbour(r, i, side);
    const mhas_parameter *parameter = choice_parameter(r, neighbour(r, i, 2 * side));
    if (parameter != NULL && (sweep_token_is(sign, "==") || sweep_token_is(sign, "!="))) {
      return parameter;
    }
  }
  return NULL;
}

static bool has_word(const mhas_parameter *parameter, const char *word) {
  for (size_t i = 0; parameter->choices[i] != NULL; i++) {
    if (strcmp(parameter->choices[i], word) == 0) {
      return true;
    }
  }
  return false;
}

/* ---- names ---- */

static bool unknown_name(reading *r, const char *name) {
  const mhas_experiment *experiment = r->scope->experiment;
  const char *names[NAMES_MOST];
  size_t count = 0;
  for (int p = 0; p < experiment->parameter_count; p++) {
    const char *const *choices = experiment->parameters[p].choices;
    names[count++] = experiment->parameters[p].name;
    for (size_t i = 0; choices != NULL && choices[i] != NULL && count + FUNCTION_COUNT + 2 < NAMES_MOST; i++) {
      names[count++] = choices[i];
    }
  }
  for (size_t i = 0; i < FUNCTION_COUNT; i++) {
    names[count++] = functions[i];
  }
  return refuse(r, "unknown name %s%s", name, sweep_hint_for(name, names, count).text);
}

static bool put_word(reading *r, const char *word) {
  mhas_text_append(&r->formula, "%d ", sweep_word_id(r->scope->experiment, word));
  mhas_text_append(&r->text, "'%s' ", word);
  return true;
}

static bool put_plain(reading *r, const char *text) {
  mhas_text_append(&r->formula, "%s ", text);
  mhas_text_append(&r->text, "%s ", text);
  return true;
}

static bool put_function(reading *r, const char *name) {
  if (is_function(name)) {
    mhas_text_append(&r->formula, "%s", name); /* muParser wants the bracket right behind */
    mhas_text_append(&r->text, "%s ", name);
    return true;
  }
  if (strcmp(name, "not") == 0) {
    return refuse(r, "not is written !, as in !(a < b)");
  }
  return refuse(r, "unknown function %s%s", name, sweep_hint_for(name, functions, FUNCTION_COUNT).text);
}

static bool put_name(reading *r, size_t i) {
  const char *name = r->tokens.list[i].text;
  const mhas_parameter *choice = compared_choice(r, i);
  const int parameter = mhas_parameter_find(r->scope->experiment, name);
  if (sweep_token_is(neighbour(r, i, 1), "(")) {
    return put_function(r, name);
  }
  if (choice != NULL && has_word(choice, name)) {
    return put_word(r, name);
  }
  if (choice != NULL && choice_parameter(r, &r->tokens.list[i]) == NULL) {
    return refuse(r, "%s is never %s%s", choice->name, name,
                  sweep_hint_for(name, choice->choices, sweep_choice_count(choice)).text);
  }
  if (parameter >= 0 && r->scope->experiment->parameters[parameter].type == MHAS_TEXT) {
    return refuse(r, "%s is a text; expressions know numbers and words only", name);
  }
  if (parameter >= 0) {
    r->uses |= UINT64_C(1) << parameter;
    return put_plain(r, name);
  }
  if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0) {
    mhas_text_append(&r->formula, "%d ", name[0] == 't');
    mhas_text_append(&r->text, "%s ", name);
    return true;
  }
  if (strcmp(name, "replicate") == 0) {
    if (!r->with_replicate) {
      return refuse(r, "replicate can be used in where only: a parameter is the same for all replicates of a point");
    }
    r->uses |= UINT64_C(1) << SWEEP_REPLICATE;
    return put_plain(r, name);
  }
  if (sweep_word_id(r->scope->experiment, name) != 0) {
    return put_word(r, name);
  }
  if (strcmp(name, "not") == 0) {
    return refuse(r, "not is written !, as in !(a < b)");
  }
  if (is_function(name)) {
    return refuse(r, "%s is a function; write %s( ... )", name, name);
  }
  return unknown_name(r, name);
}

static bool put_quoted(reading *r, size_t i) {
  const char *word = r->tokens.list[i].text;
  const mhas_parameter *choice = compared_choice(r, i);
  if (choice != NULL && !has_word(choice, word)) {
    return refuse(r, "%s is never '%s'%s", choice->name, word,
                  sweep_hint_for(word, choice->choices, sweep_choice_count(choice)).text);
  }
  if (sweep_word_id(r->scope->experiment, word) == 0) {
    return refuse(r, "'%s' is no word of this experiment", word);
  }
  return put_word(r, word);
}

static bool put_number(reading *r, size_t i) {
  sweep_number number;
  const char *text = r->tokens.list[i].text;
  const mhas_parameter *choice = compared_choice(r, i);
  if (choice != NULL) {
    return refuse(r, "%s is never %s; it is %s", choice->name, text, sweep_describe(choice).text);
  }
  if (!sweep_number_read(text, &number)) {
    return refuse(r, "%s is no number", text);
  }
  mhas_text_append(&r->formula, "%.17g ", number.real);
  mhas_text_append(&r->text, "%s ", sweep_shortest(number.real).text);
  return true;
}

/* ---- shapes that would be taken in a way that surprises ---- */

static bool is_comparison(const sweep_token *token) {
  static const char *const comparisons[] = {"<", "<=", ">", ">=", "==", "!="};
  for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
    if (sweep_token_is(token, comparisons[i])) {
      return true;
    }
  }
  return false;
}

static bool ends_comparison(const sweep_token *token) {
  return sweep_token_is(token, "&&") || sweep_token_is(token, "||") || sweep_token_is(token, "?") ||
         sweep_token_is(token, ":") || sweep_token_is(token, ",");
}

static bool check_shape(reading *r) {
  bool compared[SWEEP_TOKENS_MOST + 1] = {false}; /* at each depth of brackets: has there been a comparison? */
  bool arguments[SWEEP_TOKENS_MOST + 1] = {false};
  size_t depth = 0;
  for (size_t i = 0; i < r->tokens.count; i++) {
    const sweep_token *token = &r->tokens.list[i];
    if (sweep_token_is(token, "(")) {
      depth++;
      compared[depth] = false;
      arguments[depth] = neighbour(r, i, -1)->kind == SWEEP_NAME_TOKEN;
    } else if (sweep_token_is(token, ")")) {
      if (depth == 0) {
        return refuse(r, "there is a ) without its (");
      }
      depth--;
    } else if (is_comparison(token)) {
      if (compared[depth]) {
        return refuse(r, "a < b < c does not compare all three; write a < b && b < c");
      }
      compared[depth] = true;
    } else if (ends_comparison(token)) {
      compared[depth] = false;
    }
    if (sweep_token_is(token, ",") && !arguments[depth]) {
      return refuse(r, "a comma stands outside of a function's brackets");
    }
  }
  return depth == 0 || refuse(r, "there is a ( without its )");
}

/* ---- muParser ---- */

/* Without a handler of its own, muParser's C interface would let the error out on its own ways. */
static void note_error(muParserHandle_t parser) { (void)parser; }

static bool complain_of_parser(reading *r, muParserHandle_t parser) {
  char token[SWEEP_TOKEN_LENGTH];
  (void)snprintf(token, sizeof token, "%s", mupGetErrorToken(parser));
  switch (mupGetErrorCode(parser)) { /* muParser's EErrorCodes, which its C header does not name */
    case 2: return refuse(r, "it ends too early");
    case 14: return refuse(r, "a function gets too many values");
    case 15: return refuse(r, "a function gets too few values");
    case 33: return refuse(r, "there is a ? without its :");
    case 37: return refuse(r, "it is too long");
    default:
      return token[0] == '\0' ? refuse(r, "it cannot be understood")
                              : refuse(r, "it cannot be understood at %s", token);
  }
}

static void define_names(muParserHandle_t parser, sweep_scope *scope) {
  for (int p = 0; p < scope->experiment->parameter_count; p++) {
    mupDefineVar(parser, scope->experiment->parameters[p].name, &scope->value[p]);
  }
  mupDefineVar(parser, "replicate", &scope->value[SWEEP_REPLICATE]);
  mupDefineFun1(parser, "floor", floor_of, 1);
  mupDefineFun1(parser, "ceil", ceil_of, 1);
  mupDefineFun1(parser, "round", round_of, 1);
  mupDefineFun2(parser, "mod", remainder_of, 1);
  mupDefineOprt(parser, "%", remainder_of, 6, muOPRT_ASCT_LEFT, 1); /* binds as * and / do */
  mupDefineInfixOprt(parser, "!", logic_not, 1);
}

static sweep_expression *compile(reading *r, sweep_scope *scope) {
  sweep_expression *expression = calloc(1, sizeof *expression);
  muParserHandle_t parser = mupCreate(muBASETYPE_FLOAT);
  char *text = strdup(mhas_text_string(&r->text));
  if (expression == NULL || parser == NULL || text == NULL || r->formula.failed || r->text.failed) {
    r->complaints->no_memory = true;
    goto failed;
  }
  mupSetErrorHandler(parser, note_error);
  define_names(parser, scope);
  mupSetExpr(parser, mhas_text_string(&r->formula));
  (void)mupEval(parser); /* the first evaluation is what reads the formula */
  if (mupError(parser)) {
    (void)complain_of_parser(r, parser);
    goto failed;
  }
  text[strlen(text) - 1] = '\0'; /* the space behind the last token */
  *expression = (sweep_expression){parser, text, r->uses, r->place};
  return expression;
failed:
  free(text);
  free(expression);
  if (parser != NULL) {
    mupRelease(parser);
  }
  return NULL;
}

static bool put_all(reading *r) {
  bool good = true;
  for (size_t i = 0; i < r->tokens.count; i++) {
    switch (r->tokens.list[i].kind) {
      case SWEEP_NUMBER_TOKEN: good = put_number(r, i) && good; break;
      case SWEEP_NAME_TOKEN: good = put_name(r, i) && good; break;
      case SWEEP_QUOTED_TOKEN: good = put_quoted(r, i) && good; break;
      case SWEEP_SIGN_TOKEN: good = put_plain(r, r->tokens.list[i].text) && good; break;
    }
  }
  return good;
}

sweep_expression *sweep_expression_create(sweep_complaints *complaints, sweep_scope *scope, const char *text,
                                          sweep_place place, const char *what, bool with_replicate) {
  sweep_expression *expression = NULL;
  char fault[128];
  reading *r = calloc(1, sizeof *r);
  if (r == NULL) {
    complaints->no_memory = true;
    return NULL;
  }
  r->complaints = complaints;
  r->scope = scope;
  r->place = place;
  r->what = what;
  r->with_replicate = with_replicate;
  if (!sweep_tokens_read(text, &r->tokens, fault, sizeof fault)) {
    (void)refuse(r, "%s", fault);
  } else if (r->tokens.count == 0) {
    (void)refuse(r, "nothing stands there");
  } else if (check_shape(r) && put_all(r)) {
    expression = compile(r, scope);
  }
  mhas_text_free(&r->formula);
  mhas_text_free(&r->text);
  free(r);
  return expression;
}

void sweep_expression_destroy(sweep_expression *expression) {
  if (expression != NULL) {
    mupRelease(expression->parser);
    free(expression->text);
    free(expression);
  }
}

double sweep_expression_value(const sweep_expression *expression) {
  const double value = mupEval(expression->parser);
  return mupError(expression->parser) ? (double)NAN : value;
}
