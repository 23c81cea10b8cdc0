/* mhasweep export: all points of a result file as CSV or JSON lines. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "mhasweep/store.h"

enum { OPTION_FORMAT, OPTION_OUTPUT, OPTION_COUNT };

static const cli_option options[OPTION_COUNT] = {
    [OPTION_FORMAT] = {"format", 'f', "csv|jsonl",
                       "csv (the default: a header, then a line a point; missing is empty) or jsonl (an object a "
                       "point; missing is null; curves are lists)"},
    [OPTION_OUTPUT] = {"output", 'o', "OUT", "a new file to write; without it, to standard output"},
};

static mhas_code format_of(const cli_words *words, mhas_export_format *format, mhas_error *error) {
  static const char *const names[] = {[MHAS_EXPORT_CSV] = "csv", [MHAS_EXPORT_JSONL] = "jsonl"};
  const char *word = cli_value(words, OPTION_FORMAT);
  *format = MHAS_EXPORT_CSV;
  if (word == NULL || strcmp(word, names[MHAS_EXPORT_CSV]) == 0) {
    return MHAS_OK;
  }
  if (strcmp(word, names[MHAS_EXPORT_JSONL]) == 0) {
    *format = MHAS_EXPORT_JSONL;
    return MHAS_OK;
  }
  return mhas_fail(error, MHAS_USAGE, "export: there is no format %s; there are csv and jsonl", word);
}

/* The file is made only if it is new, and taken away again if it could not be filled. */
static mhas_code export_to_file(mhas_reader *reader, mhas_export_format format, const char *path, mhas_error *error) {
  const int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0 && errno == EEXIST) {
    return mhas_fail(error, MHAS_USAGE, "%s exists and is not overwritten: remove it, or give -o another name", path);
  }
  FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");
  if (file == NULL) {
    const int reason = errno;
    if (descriptor >= 0) {
      (void)close(descriptor);
      (void)unlink(path);
    }
    return mhas_fail(error, MHAS_IO, "%s: %s", path, strerror(reason));
  }
  mhas_code code = mhas_export(reader, format, file, error);
  errno = 0;
  const bool failed_before = ferror(file) != 0;
  if ((fclose(file) != 0 || failed_before) && code == MHAS_OK) {
    code = mhas_fail(error, MHAS_IO, "%s: %s", path, errno != 0 ? strerror(errno) : "not everything could be written");
  }
  if (code != MHAS_OK) {
    (void)unlink(path);
  }
  return code;
}

static mhas_code run(const cli_words *words, int *status, mhas_error *error) {
  (void)status;
  mhas_export_format format = MHAS_EXPORT_CSV;
  MHAS_TRY(format_of(words, &format, error));
  mhas_reader *reader = NULL;
  MHAS_TRY(mhas_reader_open(words->operand, &reader, error));
  const char *path = cli_value(words, OPTION_OUTPUT);
  mhas_code code =
      path != NULL ? export_to_file(reader, format, path, error) : mhas_export(reader, format, stdout, error);
  if (path == NULL && ferror(stdout)) {
    code = cli_flush(error); /* knows about readers that have gone away */
  }
  mhas_reader_close(reader);
  return code;
}

const cli_command cli_export = {
    .name = "export",
    .operand = "FILE.h5",
    .summary = "the points of a result file as CSV or JSON lines",
    .description =
        "Writes every point of a result file with its parameters, results, status, reason of failure and provenance. "
        "Works while a sweep writes the file.",
    .options = options,
    .option_count = OPTION_COUNT,
    .examples =
        "  mhasweep export sweep.h5 > sweep.csv\n"
        "  mhasweep export sweep.h5 --format jsonl -o sweep.jsonl\n",
    .statuses =
        "  0  everything was written\n"
        "  1  the file cannot be read, or the output not be written\n"
        "  2  the command line is wrong, or OUT exists\n",
    .run = run,
};
