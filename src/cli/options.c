/* The words of a command line, understood by the command's own table, and the help made from the same table. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { OPTIONS_MOST = 16, LONG_BASE = 256 }; /* getopt's codes of long options begin beyond the letters */

static const cli_option help_option = {"help", 'h', NULL, "this text"};

const cli_option *cli_option_at(const cli_command *command, int place) {
  return place < command->option_count ? &command->options[place] : &help_option;
}

static int argument_of(const cli_option *option) {
  if (option->argument == NULL) {
    return no_argument;
  }
  return option->argument[0] == '[' ? optional_argument : required_argument;
}

static bool is_number(const char *word) {
  char *end = NULL;
  (void)strtod(word, &end);
  return end != word && *end == '\0';
}

/* A value that may be missing, as getopt knows it, belongs to the same word (--watch=5). A number in the next word is
 * taken for it too: no file is called so by chance. */
static const char *value_of(const cli_option *option, char **words, int count) {
  if (optarg == NULL && argument_of(option) == optional_argument && optind < count && is_number(words[optind])) {
    return words[optind++];
  }
  return optarg;
}

/* The table in getopt's words: `longs` and `letters` for the command's options and, after them, --help. */
static void describe(const cli_command *command, struct option *longs, char *letters) {
  *letters++ = ':'; /* a missing value is told apart from an unknown option */
  for (int i = 0; i <= command->option_count; i++) {
    const cli_option *option = cli_option_at(command, i);
    const int argument = argument_of(option);
    longs[i] = (struct option){option->name, argument, NULL, LONG_BASE + i};
    if (option->letter != 0) {
      *letters++ = option->letter;
      for (int colons = argument; colons > 0; colons--) { /* getopt: one for a value, two for one that may be missing */
        *letters++ = ':';
      }
    }
  }
  longs[command->option_count + 1] = (struct option){0};
  *letters = '\0';
}

/* Place of the option that getopt's code stands for; -1 if there is none. */
static int place_of(const cli_command *command, int code) {
  if (code >= LONG_BASE) {
    return code - LONG_BASE;
  }
  for (int i = 0; i <= command->option_count; i++) {
    if (cli_option_at(command, i)->letter == code) {
      return i;
    }
  }
  return -1;
}

static mhas_code unknown_option(const cli_command *command, const char *word, mhas_error *error) {
  const char *names[OPTIONS_MOST + 1];
  for (int i = 0; i <= command->option_count; i++) {
    names[i] = cli_option_at(command, i)->name;
  }
  char name[64];
  (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
  const char *nearest = mhas_nearest_name(name, names, (size_t)command->option_count + 1);
  if (nearest != NULL) {
    return mhas_fail(error, MHAS_USAGE, "%s: unknown option --%s; did you mean --%s?", command->name, name, nearest);
  }
  return mhas_fail(error, MHAS_USAGE, "%s: unknown option --%s; mhasweep %s --help lists them", command->name, name,
                   command->name);
}

/* What was wrong with the word that getopt refused. */
static mhas_code refuse(const cli_command *command, int code, const char *word, mhas_error *error) {
  if (code == ':') {
    const cli_option *option = cli_option_at(command, place_of(command, optopt));
    return mhas_fail(error, MHAS_USAGE, "%s: --%s needs a value: --%s %s", command->name, option->name, option->name,
                     option->argument);
  }
  if (optopt >= LONG_BASE) {
    const char *name = cli_option_at(command, place_of(command, optopt))->name;
    return mhas_fail(error, MHAS_USAGE, "%s: --%s takes no value", command->name, name);
  }
  if (optopt != 0) {
    return mhas_fail(error, MHAS_USAGE, "%s: unknown option -%c; mhasweep %s --help lists them", command->name, optopt,
                     command->name);
  }
  return unknown_option(command, word, error);
}

static mhas_code take_operands(const cli_command *command, char **words, int count, cli_words *out, mhas_error *error) {
  const int most = command->operand != NULL;
  const int least = most == 1 && command->operand[0] != '[';
  if (count > most) {
    return mhas_fail(error, MHAS_USAGE, "%s: unexpected word %s; %s", command->name, words[most],
                     most == 0 ? "it takes options only" : "it takes one at a time");
  }
  if (count < least) {
    return mhas_fail(error, MHAS_USAGE, "%s: needs %s: mhasweep %s %s", command->name, command->operand, command->name,
                     command->operand);
  }
  out->operand = count == 1 ? words[0] : NULL;
  return MHAS_OK;
}

mhas_code cli_parse(const cli_command *command, int argc, char **argv, cli_words *words, mhas_error *error) {
  *words = (cli_words){.command = command, .argv = argv};
  MHAS_TRY(mhas_alloc(&words->given, (size_t)argc, sizeof *words->given, "the command line", error));
  /* getopt moves options before operands, in a copy: a restart needs the words as they came. */
  char **copy = NULL;
  MHAS_TRY(mhas_alloc(&copy, (size_t)argc, sizeof *copy, "the command line", error));
  memcpy(copy, argv + 1, (size_t)(argc - 1) * sizeof *copy);

  struct option longs[OPTIONS_MOST + 2];
  char letters[3 * OPTIONS_MOST + 4];
  describe(command, longs, letters);
  mhas_code code = MHAS_OK;
  int found = 0;
  opterr = 0;
  while (code == MHAS_OK && (found = getopt_long(argc - 1, copy, letters, longs, NULL)) != -1) {
    const int place = place_of(command, found);
    if (found == '?' || found == ':') {
      code = refuse(command, found, copy[optind - 1], error);
    } else if (cli_option_at(command, place) == &help_option) {
      words->help = true;
    } else {
      const char *value = value_of(cli_option_at(command, place), copy, argc - 1);
      words->given[words->given_count++] = (struct cli_given){place, value};
    }
  }
  if (code == MHAS_OK && !words->help) {
    code = take_operands(command, copy + optind, argc - 1 - optind, words, error);
  }
  mhas_free(copy);
  return code;
}

bool cli_has(const cli_words *words, int option) {
  for (int i = 0; i < words->given_count; i++) {
    if (words->given[i].option == option) {
      return true;
    }
  }
  return false;
}

size_t cli_values(const cli_words *words, int option, const char **values) {
  size_t count = 0;
  for (int i = 0; i < words->given_count; i++) {
    if (words->given[i].option == option) {
      values[count++] = words->given[i].value;
    }
  }
  return count;
}

const char *cli_value(const cli_words *words, int option) {
  const char *value = NULL;
  for (int i = 0; i < words->given_count; i++) {
    if (words->given[i].option == option) {
      value = words->given[i].value;
    }
  }
  return value;
}

mhas_code cli_count(const cli_words *words, int option, int64_t *number, mhas_error *error) {
  const char *word = cli_value(words, option);
  if (word == NULL) {
    return MHAS_OK;
  }
  char *end = NULL;
  errno = 0;
  const long long value = strtoll(word, &end, 10);
  if (end == word || *end != '\0' || errno != 0 || value < 0) {
    return mhas_fail(error, MHAS_USAGE, "%s: --%s %s: not a whole number from 0 on", words->command->name,
                     words->command->options[option].name, word);
  }
  *number = value;
  return MHAS_OK;
}

mhas_code cli_number(const cli_words *words, int option, double least, double *number, mhas_error *error) {
  const char *word = cli_value(words, option);
  if (word == NULL) {
    return MHAS_OK;
  }
  char *end = NULL;
  const double value = strtod(word, &end);
  if (end == word || *end != '\0' || !isfinite(value) || value < least) {
    return mhas_fail(error, MHAS_USAGE, "%s: --%s %s: not a number from %g on", words->command->name,
                     words->command->options[option].name, word, least);
  }
  *number = value;
  return MHAS_OK;
}

mhas_code cli_teams(const cli_words *words, int option, bool *fixed, mhas_error *error) {
  const char *word = cli_value(words, option);
  if (word == NULL) {
    return MHAS_OK;
  }
  *fixed = strcmp(word, "static") == 0;
  if (!*fixed && strcmp(word, "dynamic") != 0) {
    return mhas_fail(error, MHAS_USAGE, "%s: --%s %s: it is dynamic or static", words->command->name,
                     words->command->options[option].name, word);
  }
  return MHAS_OK;
}

int cli_launcher_rank(void) {
  static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *word = getenv(variables[i]);
    if (word != NULL) {
      return atoi(word);
    }
  }
  return 0;
}

void cli_report_status(int status) {
  const char *path = getenv("MHASWEEP_STATUS_FILE");
  if (path == NULL || *path == '\0' || cli_launcher_rank() != 0) {
    return;
  }
  FILE *file = fopen(path, "w");
  if (file == NULL || fprintf(file, "%d\n", status) < 0) {
    (void)fprintf(stderr, "mhasweep: warning: %s (MHASWEEP_STATUS_FILE) cannot be written: %s\n", path,
                  strerror(errno));
  }
  if (file != NULL) {
    (void)fclose(file);
  }
}

/* ---- help ---- */

mhas_code cli_print_help(const cli_command *command, mhas_error *error) {
  const int width = cli_width();
  (void)printf("Usage: mhasweep %s%s%s%s\n\n", command->name, command->operand == NULL ? "" : " ",
               command->operand == NULL ? "" : command->operand, command->option_count == 0 ? "" : " [OPTION]...");
  cli_print_wrapped(command->description, 0, width);
  (void)printf("\nOptions:\n");
  cli_table table = {.columns = 2};
  for (int i = 0; i <= command->option_count; i++) {
    const cli_option *option = cli_option_at(command, i);
    char letter[8] = "    ";
    if (option->letter != 0) {
      (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
    }
    cli_table_cell(&table, "%s--%s%s%s", letter, option->name, option->argument == NULL ? "" : " ",
                   option->argument == NULL ? "" : option->argument);
    cli_table_cell(&table, "%s", option->meaning);
  }
  MHAS_TRY(cli_table_print(&table, 2, error));
  (void)printf("\nExamples:\n%s\nExit status:\n%s", command->examples, command->statuses);
  return MHAS_OK;
}
