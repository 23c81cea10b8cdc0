#include "cli/cli.h"

mhas_code cli_read_sweep(const cli_words *words, int option_set, mhas_sweep **sweep, mhas_error *error) {
  mhas_text text = {0};
  mhas_text report = {0};
  const char **overrides = NULL;
  mhas_code code = mhas_text_read_file(words->operand, MHAS_SWEEP_BYTES_MOST, &text, error);
  if (code == MHAS_IO) {
    code = MHAS_USAGE; /* no sweep file, nothing to try again */
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&overrides, (size_t)words->given_count, sizeof *overrides, "the command line", error);
  }
  if (code == MHAS_OK) {
    const size_t count = cli_values(words, option_set, overrides);
    code = mhas_sweep_parse(words->operand, mhas_text_string(&text), text.length, overrides, count, sweep, &report);
    if (code != MHAS_OK) {
      (void)fputs(mhas_text_string(&report), stderr);
      (void)mhas_fail(error, code, "%s", report.length > 0 ? "" : "out of memory while reading the sweep file");
    }
  }
  mhas_free(overrides);
  mhas_text_free(&report);
  mhas_text_free(&text);
  return code;
}
