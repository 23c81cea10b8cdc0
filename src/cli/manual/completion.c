/*
 * Tables for the completions of bash and zsh. What an option's value is follows from what it is called: words parted
 * by bars are the choices, *.h5 and *.yaml files of that kind, NAME=VALUE a parameter or setting.
 */
#include <string.h>

#include "cli/manual/manual.h"
#include "mhasweep/experiments.h"

static bool ends_with(const char *word, const char *end) {
  const size_t length = strlen(word);
  return length >= strlen(end) && strcmp(word + length - strlen(end), end) == 0;
}

/* One word for what a value or operand is: yaml, h5, file, set, experiment, the choices as "a|b", or "" for what only
 * the user knows. */
static const char *kind_of(const char *argument) {
  if (argument == NULL) {
    return "";
  }
  if (strchr(argument, '|') != NULL) {
    return argument;
  }
  if (ends_with(argument, ".h5")) {
    return "h5";
  }
  if (ends_with(argument, ".yaml")) {
    return "yaml";
  }
  if (strcmp(argument, "OUT") == 0) {
    return "file";
  }
  if (strcmp(argument, "NAME=VALUE") == 0) {
    return "set";
  }
  return strcmp(argument, "[NAME]") == 0 ? "experiment" : "";
}

static bool needs_value(const cli_option *option) { return option->argument != NULL && option->argument[0] != '['; }

static void add_settings(mhas_text *text) {
  size_t count = 0;
  const char *const *settings = mhas_sweep_settings(&count);
  mhas_text_append(text, "_mhasweep_settings='");
  for (size_t i = 0; i < count; i++) {
    mhas_text_append(text, "%s%s", i == 0 ? "" : " ", settings[i]);
  }
  mhas_text_append(text, "'\n");
}

/* ---- bash ---- */

/* The command's options, of which those that need a value end in an equals sign. */
static void add_bash_options(mhas_text *text, const cli_command *command) {
  mhas_text_append(text, "    %s) echo '", command->name);
  for (int i = 0; i <= command->option_count; i++) {
    const cli_option *option = cli_option_at(command, i);
    mhas_text_append(text, "%s--%s%s", i == 0 ? "" : " ", option->name, needs_value(option) ? "=" : "");
  }
  mhas_text_append(text, "' ;;\n");
}

static void add_bash_kinds(mhas_text *text, const cli_command *command) {
  for (int i = 0; i < command->option_count; i++) {
    const cli_option *option = cli_option_at(command, i);
    if (!needs_value(option)) {
      continue;
    }
    mhas_text_append(text, "    '%s --%s'", command->name, option->name);
    if (option->letter != 0) {
      mhas_text_append(text, " | '%s -%c'", command->name, option->letter);
    }
    mhas_text_append(text, ") echo '%s' ;;\n",
                     kind_of(option->argument)[0] == '\0' ? "other" : kind_of(option->argument));
  }
  if (command->operand != NULL) {
    mhas_text_append(text, "    '%s ') echo '%s' ;;\n", command->name, kind_of(command->operand));
  }
}

void manual_bash(mhas_text *text) {
  int count = 0;
  const cli_command *const *commands = cli_commands(&count);
  mhas_text_append(text,
                   "# Completion of mhasweep for bash, made at build time: source it, or install it where\n"
                   "# bash-completion looks (share/bash-completion/completions/mhasweep).\n"
                   "_mhasweep_commands='");
  for (int i = 0; i < count; i++) {
    mhas_text_append(text, "%s%s", i == 0 ? "" : " ", commands[i]->name);
  }
  mhas_text_append(text, "'\n");
  add_settings(text);
  mhas_text_append(text, "_mhasweep_options() { # COMMAND\n  case $1 in\n");
  for (int i = 0; i < count; i++) {
    add_bash_options(text, commands[i]);
  }
  mhas_text_append(text,
                   "  esac\n}\n_mhasweep_kind() { # COMMAND OPTION; no option: of its operand\n  case \"$1 $2\" in\n");
  for (int i = 0; i < count; i++) {
    add_bash_kinds(text, commands[i]);
  }
  mhas_text_append(text, "  esac\n}\n");
}

/* ---- zsh ---- */

/* As much of a meaning as says what it is, without what zsh or the quotes around would take for their own. */
static void add_brief(mhas_text *text, const char *meaning) {
  size_t length = strcspn(meaning, ";:(['\\");
  while (length > 0 && meaning[length - 1] == ' ') {
    length--;
  }
  mhas_text_append_bytes(text, meaning, length);
}

static void add_zsh_action(mhas_text *text, const char *argument) {
  const char *kind = kind_of(argument);
  if (strchr(kind, '|') != NULL) {
    mhas_text_append(text, "(");
    for (; *kind != '\0'; kind++) {
      mhas_text_append(text, "%c", *kind == '|' ? ' ' : *kind);
    }
    mhas_text_append(text, ")");
  } else if (strcmp(kind, "h5") == 0) {
    mhas_text_append(text, "_files -g \"*.h5\"");
  } else if (strcmp(kind, "yaml") == 0) {
    mhas_text_append(text, "_files -g \"*.(yaml|yml)\"");
  } else if (strcmp(kind, "file") == 0) {
    mhas_text_append(text, "_files");
  } else if (kind[0] != '\0') {
    mhas_text_append(text, "_mhasweep_%s", kind);
  }
}

/* -o FILE.h5, --output=FILE.h5 as '(-o --output)-o[...]:FILE.h5:...' and the same for the long one. */
static void add_zsh_option(mhas_text *text, const cli_option *option) {
  for (int form = option->letter == 0; form < 2; form++) {
    mhas_text_append(text, " \\\n        '");
    if (strcmp(kind_of(option->argument), "set") == 0 || ends_with(option->meaning, "may be repeated")) {
      mhas_text_append(text, "*");
    } else if (option->letter != 0) {
      mhas_text_append(text, "(-%c --%s)", option->letter, option->name);
    }
    if (form == 0) {
      mhas_text_append(text, "-%c[", option->letter);
    } else {
      mhas_text_append(text, "--%s%s[", option->name, needs_value(option) ? "=" : "");
    }
    add_brief(text, option->meaning);
    mhas_text_append(text, "]");
    if (needs_value(option)) {
      mhas_text_append(text, ":%s:", option->argument);
      add_zsh_action(text, option->argument);
    }
    mhas_text_append(text, "'");
  }
}

void manual_zsh(mhas_text *text) {
  int count = 0;
  const cli_command *const *commands = cli_commands(&count);
  mhas_text_append(text,
                   "#compdef mhasweep\n"
                   "# Completion of mhasweep for zsh, made at build time: put it into a folder of $fpath.\n"
                   "_mhasweep_commands() {\n  local -a commands=(");
  for (int i = 0; i < count; i++) {
    mhas_text_append(text, "\n    '%s:", commands[i]->name);
    add_brief(text, commands[i]->summary);
    mhas_text_append(text, "'");
  }
  mhas_text_append(text, "\n  )\n  _describe command commands\n}\n");
  add_settings(text);
  mhas_text_append(text, "_mhasweep_command() { # COMMAND\n  case $1 in\n");
  for (int i = 0; i < count; i++) {
    mhas_text_append(text, "    %s)\n      _arguments -s", commands[i]->name);
    for (int place = 0; place <= commands[i]->option_count; place++) {
      add_zsh_option(text, cli_option_at(commands[i], place));
    }
    if (commands[i]->operand != NULL) {
      mhas_text_append(text, " \\\n        '1:%.*s:", (int)strcspn(commands[i]->operand + 1, "]") + 1,
                       commands[i]->operand);
      add_zsh_action(text, commands[i]->operand);
      mhas_text_append(text, "'");
    }
    mhas_text_append(text, "\n      ;;\n");
  }
  mhas_text_append(text, "  esac\n}\n");
}
