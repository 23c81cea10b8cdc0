/* mhasweep: which command, what it said, which exit status. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static mhas_code unknown_command(const char *word, mhas_error *error) {
  enum { NAMES_MOST = 32 };
  const char *names[NAMES_MOST] = {"--help", "--version"};
  size_t known = 2;
  int count = 0;
  const cli_command *const *commands = cli_commands(&count);
  for (int i = 0; i < count && known < NAMES_MOST; i++) {
    names[known++] = commands[i]->name;
  }
  const char *kind = word[0] == '-' ? "option" : "command";
  const char *nearest = mhas_nearest_name(word, names, known);
  if (nearest != NULL) {
    return mhas_fail(error, MHAS_USAGE, "unknown %s %s; did you mean %s?", kind, word, nearest);
  }
  return mhas_fail(error, MHAS_USAGE, "unknown %s %s; mhasweep --help lists the commands", kind, word);
}

static mhas_code run_command(const cli_command *command, int argc, char **argv, int *status, mhas_error *error) {
  cli_words words = {0};
  mhas_code code = cli_parse(command, argc, argv, &words, error);
  if (code == MHAS_OK && words.help) {
    code = cli_print_help(command, error);
  } else if (code == MHAS_OK) {
    code = command->run(&words, status, error);
  }
  mhas_free(words.given);
  return code;
}

static mhas_code dispatch(int argc, char **argv, const cli_command **command, int *status, mhas_error *error) {
  if (argc < 2) {
    return mhas_fail(error, MHAS_USAGE, "no command; mhasweep --help lists them");
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    cli_print_overview();
    return MHAS_OK;
  }
  if (strcmp(argv[1], "--version") == 0) {
    (void)printf("mhasweep %s (git %s)\n", mhas_version(), mhas_git_commit());
    return MHAS_OK;
  }
  *command = cli_command_find(argv[1]);
  return *command == NULL ? unknown_command(argv[1], error) : run_command(*command, argc, argv, status, error);
}

/* A closed standard stream would hand its number to the next file that is opened, and messages would be written into
 * results. So each gets a descriptor on which reading, or writing, is an error. */
static void occupy_standard_streams(void) {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
    if (fcntl(stream, F_GETFD) == -1) {
      (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

int main(int argc, char **argv) {
  occupy_standard_streams();
  const cli_command *command = NULL;
  int status = CLI_DONE;
  mhas_error error = {0};
  mhas_code code = dispatch(argc, argv, &command, &status, &error);
  if (code == MHAS_OK) {
    code = cli_flush(&error);
  } else {
    (void)fflush(stdout); /* the message below comes after what was said before, wherever both go */
  }
  if (code != MHAS_OK) {
    const bool said_elsewhere = (command == NULL || command->under_mpi) && cli_launcher_rank() != 0;
    if (error.text[0] != '\0' && !said_elsewhere) {
      (void)fprintf(stderr, "mhasweep: %s\n", error.text);
    }
    status = code == MHAS_USAGE ? CLI_USAGE : CLI_BROKE;
  }
  if (command == &cli_run) {
    cli_report_status(status);
  }
  return status;
}
