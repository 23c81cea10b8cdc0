/* Printing on stdout: for people (wrapped texts, tables) and for machines (JSON). */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"

enum { HEIGHT_DEFAULT = 24, WIDTH_DEFAULT = 100, WIDTH_LEAST = 40, WRAP_LEAST = 20 };

mhas_code cli_flush(mhas_error *error) {
  errno = 0;
  const bool flushed = fflush(stdout) == 0;
  if (flushed && !ferror(stdout)) {
    return MHAS_OK;
  }
  /* A write that failed earlier has left its mark, but not its reason: one more byte, where something is missing
   * already, brings it up again. */
  if (flushed) {
    (void)!write(STDOUT_FILENO, "\n", 1);
  }
  if (errno == EPIPE) {
    return mhas_fail(error, MHAS_IO, "%s", "");
  }
  return mhas_fail(error, MHAS_IO, "cannot write to standard output: %s",
                   errno != 0 ? strerror(errno) : "a part of it is missing");
}

/* mpirun gives its ranks terminals of their own and passes on what they print, wherever that goes. */
bool cli_on_terminal(void) { return isatty(STDOUT_FILENO) && getenv("OMPI_COMM_WORLD_SIZE") == NULL; }

int cli_width(void) {
  struct winsize size;
  if (cli_on_terminal() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col < WIDTH_LEAST ? WIDTH_LEAST : size.ws_col;
  }
  return WIDTH_DEFAULT;
}

int cli_height(void) {
  struct winsize size;
  const bool known = cli_on_terminal() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return known ? size.ws_row : HEIGHT_DEFAULT;
}

bool cli_can_draw(void) {
  const char *terminal = getenv("TERM");
  return cli_on_terminal() && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

bool cli_colour(void) {
  const char *refused = getenv("NO_COLOR");
  return cli_can_draw() && (refused == NULL || refused[0] == '\0');
}

/* ---- wrapped text ---- */

int cli_text_width(const char *text) {
  int width = 0;
  for (; *text != '\0'; text++) {
    width += ((unsigned char)*text & 0xC0) != 0x80; /* not a continuation byte of UTF-8 */
  }
  return width;
}

/* Prints words, beginning in column `column`; further lines begin in column `indent`. */
static void print_words(const char *text, int column, int indent, int width) {
  bool first = true;
  while (*text != '\0') {
    const size_t blanks = strspn(text, " \n");
    if (blanks > 1 && text[0] == '\n' && text[1] == '\n') {
      (void)printf("\n\n%*s", indent, "");
      column = indent;
      first = true;
    }
    text += blanks;
    const size_t length = strcspn(text, " \n");
    if (length == 0) {
      break;
    }
    int columns = 0;
    for (size_t i = 0; i < length; i++) {
      columns += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    if (!first && column + 1 + columns > width) {
      (void)printf("\n%*s", indent, "");
      column = indent;
      first = true;
    }
    (void)printf("%s%.*s", first ? "" : " ", (int)length, text);
    column += columns + !first;
    first = false;
    text += length;
  }
  (void)putchar('\n');
}

void cli_print_wrapped(const char *text, int indent, int width) {
  (void)printf("%*s", indent, "");
  print_words(text, indent, indent, width);
}

void cli_print_hanging(const char *text, int column, int width) { print_words(text, column, column, width); }

/* ---- tables ---- */

void cli_table_cell(cli_table *table, const char *format, ...) {
  char cell[1024];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(cell, sizeof cell, format, arguments);
  va_end(arguments);
  mhas_text_append_bytes(&table->cells, cell, strlen(cell) + 1);
}

static void print_cell(const char *text, int width, bool right, bool last) {
  const int padding = width - cli_text_width(text);
  if (right) {
    (void)printf("%*s%s", padding, "", text);
  } else {
    (void)printf("%s%*s", text, last ? 0 : padding, "");
  }
}

static void print_rows(const cli_table *table, const int *widths, int indent) {
  const int columns = table->columns;
  const char *end = table->cells.data + table->cells.length;
  int before_last = indent;
  for (int i = 0; i + 1 < columns; i++) {
    before_last += widths[i] + 2;
  }
  const int width = cli_width() > before_last + WRAP_LEAST ? cli_width() : INT_MAX; /* too narrow to be read: no wrap */
  int column = 0;
  for (const char *cell = table->cells.data; cell < end; cell += strlen(cell) + 1) {
    const bool last = column + 1 == columns;
    (void)printf("%*s", column == 0 ? indent : 2, "");
    if (last && !table->right[column]) {
      print_words(cell, before_last, before_last, width);
    } else {
      print_cell(cell, widths[column], table->right[column], last);
      (void)(last ? putchar('\n') : 0);
    }
    column = last ? 0 : column + 1;
  }
}

mhas_code cli_table_print(cli_table *table, int indent, mhas_error *error) {
  if (table->cells.failed) {
    mhas_text_free(&table->cells);
    return mhas_fail(error, MHAS_NO_MEMORY, "out of memory while making a table");
  }
  int widths[CLI_COLUMNS_MOST] = {0};
  int column = 0;
  const char *end = table->cells.data + table->cells.length;
  for (const char *cell = table->cells.data; cell < end; cell += strlen(cell) + 1) {
    const int width = cli_text_width(cell);
    widths[column] = width > widths[column] ? width : widths[column];
    column = (column + 1) % table->columns;
  }
  if (table->cells.length > 0) {
    print_rows(table, widths, indent);
  }
  mhas_text_free(&table->cells);
  return MHAS_OK;
}

/* ---- JSON ---- */

void cli_json_put(json_t *object, const char *key, json_t *value, bool *failed) {
  if (json_object_set_new(object, key, value) != 0) { /* frees the value, takes a NULL for a failure */
    *failed = true;
  }
}

json_t *cli_json_number(double number) {
  if (!isfinite(number)) {
    return json_null();
  }
  /* Beyond 2^53 not every whole number is a double, and the digits would promise too much. */
  if (number == floor(number) && fabs(number) <= 0x1p53) {
    return json_integer((json_int_t)number);
  }
  return json_real(number);
}

mhas_code cli_json_print(json_t *document, bool failed, mhas_error *error) {
  mhas_code code = MHAS_OK;
  if (document == NULL || failed) {
    code = mhas_fail(error, MHAS_NO_MEMORY, "out of memory while making JSON");
  } else if (json_dumpf(document, stdout, JSON_INDENT(2)) != 0) {
    code = ferror(stdout) ? cli_flush(error) : mhas_fail(error, MHAS_NO_MEMORY, "out of memory while writing JSON");
  } else {
    (void)putchar('\n');
  }
  json_decref(document);
  return code;
}
