/* A program of the build alone: writes the manual pages and completions.
 *
 *   mhasweep_manual FOLDER SCRIPTS     into FOLDER; SCRIPTS is the folder of the parts of completions that need no
 * table
 */
#include <errno.h>
#include <string.h>

#include "cli/manual/manual.h"

enum { SCRIPT_BYTES_MOST = 1 << 20 };

static mhas_code write_text(const char *folder, const char *name, const mhas_text *text, mhas_error *error) {
  if (text->failed) {
    return mhas_fail(error, MHAS_NO_MEMORY, "out of memory while writing %s", name);
  }
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  bool written = file != NULL && fwrite(mhas_text_string(text), 1, text->length, file) == text->length;
  written = (file == NULL || fclose(file) == 0) && written;
  return written ? MHAS_OK : mhas_fail(error, MHAS_IO, "%s: %s", path, strerror(errno));
}

typedef struct document {
  const char *name;
  void (*make)(mhas_text *text);
  const char *scripts[2]; /* that follow the tables; NULL if there are none */
} document;

static const document documents[] = {
    {"mhasweep.1", manual_commands, {NULL}},
    {"mhasweep-experiments.7", manual_experiments, {NULL}},
    {"mhasweep.bash", manual_bash, {"completion_shared.sh", "completion_bash.sh"}},
    {"_mhasweep", manual_zsh, {"completion_shared.sh", "completion_zsh.sh"}},
};

static mhas_code write_document(const document *self, const char *folder, const char *scripts, mhas_error *error) {
  mhas_text text = {0};
  self->make(&text);
  mhas_code code = MHAS_OK;
  for (int i = 0; i < 2 && self->scripts[i] != NULL && code == MHAS_OK; i++) {
    char path[4096];
    mhas_text script = {0};
    (void)snprintf(path, sizeof path, "%s/%s", scripts, self->scripts[i]);
    code = mhas_text_read_file(path, SCRIPT_BYTES_MOST, &script, error);
    mhas_text_append_bytes(&text, mhas_text_string(&script), script.length);
    mhas_text_free(&script);
  }
  if (code == MHAS_OK) {
    code = write_text(folder, self->name, &text, error);
  }
  mhas_text_free(&text);
  return code;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    (void)fprintf(stderr, "usage: mhasweep_manual FOLDER SCRIPTS\n");
    return CLI_USAGE;
  }
  for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
    mhas_error error = {0};
    if (write_document(&documents[i], argv[1], argv[2], &error) != MHAS_OK) {
      (void)fprintf(stderr, "mhasweep_manual: %s\n", error.text);
      return CLI_BROKE;
    }
  }
  return CLI_DONE;
}
