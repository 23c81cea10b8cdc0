/* The table of points, for people. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "cli/show.h"

enum { GAP = 2 };

bool show_is_date(const show_column *column) {
  const char *unit = column->facts->unit;
  return column->numbers != NULL && unit != NULL && strcmp(unit, "seconds since 1970-01-01T00:00:00Z") == 0;
}

/* ISO 8601, UTC, to the second. False: no time that a calendar has. */
static bool write_date(double number, char cell[SHOW_CELL]) {
  struct tm parts;
  const bool in_range = fabs(number) < 1e12;
  const time_t seconds = in_range ? (time_t)floor(number) : 0;
  return in_range && gmtime_r(&seconds, &parts) != NULL && strftime(cell, SHOW_CELL, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0;
}

void show_cell(const show_column *column, int64_t row, char cell[SHOW_CELL]) {
  if (column->texts != NULL) {
    const char *text = column->texts[row];
    (void)snprintf(cell, SHOW_CELL, "%s", text[0] == '\0' ? "-" : text);
    for (char *byte = cell; *byte != '\0'; byte++) {
      *byte = (unsigned char)*byte < ' ' || *byte == 0x7F ? ' ' : *byte; /* no steering of the terminal by a file */
    }
    return;
  }
  const double number = column->numbers[row];
  const mhas_variable *facts = column->facts;
  if (isnan(number)) {
    (void)snprintf(cell, SHOW_CELL, "-");
  } else if (show_is_date(column) && write_date(number, cell)) {
    return;
  } else if (number >= 0 && number < facts->word_count) {
    (void)snprintf(cell, SHOW_CELL, "%s", facts->words[(int)number]);
  } else {
    (void)snprintf(cell, SHOW_CELL, facts->type == MHAS_REAL ? "%.5g" : "%.0f", number);
  }
}

/* ---- which columns ---- */

/* The name, and the unit where it is not a pure number. */
static void title_of(const show_column *column, char title[SHOW_CELL]) {
  const char *unit = column->facts->unit;
  const bool pure = unit == NULL || unit[0] == '\0' || strcmp(unit, "1") == 0;
  (void)snprintf(title, SHOW_CELL, pure ? "%s" : "%s [%s]", column->facts->name, unit);
}

/* Axes and results, then the status; of failed points the reason, and no results. */
static bool belongs(const show *self, const show_column *column, int only) {
  const bool only_failed = only == MHAS_FAILED;
  if (column == self->status) {
    return !only_failed;
  }
  if (column == self->error) {
    return only_failed;
  }
  return column->facts->is_axis || (column->facts->role == MHAS_ROLE_RESULT && !only_failed);
}

/* A choice of columns, in the order they are printed. */
typedef struct layout {
  show_column **columns;
  int count;
  int point_width;
} layout;

static void choose(show *self, int only, layout *out) {
  show_column *last = only == MHAS_FAILED ? self->error : self->status;
  for (int i = 0; i < self->column_count; i++) {
    if (&self->columns[i] != last && belongs(self, &self->columns[i], only)) {
      out->columns[out->count++] = &self->columns[i];
    }
  }
  out->columns[out->count++] = last;
}

/* Leaves out results (they stand behind the axes), the last first, until a row fits the terminal; tells which. */
static mhas_code fit(layout *out, mhas_text *left_out, mhas_error *error) {
  int width = out->point_width;
  for (int i = 0; i < out->count; i++) {
    width += GAP + out->columns[i]->width;
  }
  const int last = out->count - 1;
  int kept = last;
  while (kept > 0 && width > cli_width() && out->columns[kept - 1]->facts->role == MHAS_ROLE_RESULT) {
    kept--;
    width -= GAP + out->columns[kept]->width;
  }
  for (int i = kept; i < last; i++) {
    mhas_text_append(left_out, "%s%s", i == kept ? "" : ", ", out->columns[i]->facts->name);
  }
  if (kept < last) {
    mhas_text_append(left_out, ": see --point, --json or export)");
  }
  out->columns[kept] = out->columns[last];
  out->count = kept + 1;
  return left_out->failed ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory while making a table") : MHAS_OK;
}

/* ---- rows ---- */

typedef void row_action(const layout *chosen, int64_t point, int64_t row);

/* Goes over the first `most` points that are wanted. */
static mhas_code for_each_row(show *self, const layout *chosen, int only, int64_t most, row_action *action,
                              mhas_error *error) {
  int64_t seen = 0;
  for (int64_t first = 0; first < self->points && seen < most && !ferror(stdout); first += SHOW_BLOCK) {
    const int64_t count = self->points - first < SHOW_BLOCK ? self->points - first : SHOW_BLOCK;
    MHAS_TRY(show_load(self, first, count, error));
    for (int64_t row = 0; row < count && seen < most; row++) {
      if (only == SHOW_ALL || self->status->numbers[row] == only) {
        action(chosen, first + row, row);
        seen++;
      }
    }
  }
  return MHAS_OK;
}

/* Real numbers stand with their decimal points below each other. */
static bool has_points(const show_column *column) {
  return column->numbers != NULL && column->facts->type == MHAS_REAL && column->facts->word_count == 0;
}

static int length_before(const char *number) { return (int)strcspn(number, ".e"); }

static int larger(int a, int b) { return a > b ? a : b; }

static void widen(const layout *chosen, int64_t point, int64_t row) {
  (void)point;
  char cell[SHOW_CELL];
  for (int i = 0; i < chosen->count; i++) {
    show_column *column = chosen->columns[i];
    show_cell(column, row, cell);
    column->present = column->present || strcmp(cell, "-") != 0;
    if (has_points(column)) {
      column->before = larger(column->before, length_before(cell));
      column->after = larger(column->after, (int)strlen(cell) - length_before(cell));
      column->width = larger(column->width, column->before + column->after);
    } else {
      column->width = larger(column->width, cli_text_width(cell));
    }
  }
}

static void print_number(const show_column *column, const char *cell) {
  const int behind = has_points(column) ? column->after - ((int)strlen(cell) - length_before(cell)) : 0;
  (void)printf("%*s%s%*s", GAP + column->width - behind - cli_text_width(cell), "", cell, behind, "");
}

static const char *status_colour(double status) {
  if (status == MHAS_DONE) {
    return "\033[32m";
  }
  return status == MHAS_FAILED ? "\033[31m" : "\033[33m";
}

/* Numbers to the right; words of the last column (status, reason) to the left, with nothing behind them. */
static void print_row(const layout *chosen, int64_t point, int64_t row) {
  char cell[SHOW_CELL];
  (void)printf("%*" PRId64, chosen->point_width, point);
  for (int i = 0; i + 1 < chosen->count; i++) {
    show_cell(chosen->columns[i], row, cell);
    print_number(chosen->columns[i], cell);
  }
  const show_column *last = chosen->columns[chosen->count - 1];
  show_cell(last, row, cell);
  if (last->numbers != NULL && cli_colour()) {
    (void)printf("%*s%s%s\033[0m\n", GAP, "", status_colour(last->numbers[row]), cell);
  } else {
    (void)printf("%*s%s\n", GAP, "", cell);
  }
}

static void print_titles(const layout *chosen) {
  char title[SHOW_CELL];
  (void)printf("%s%*s", cli_colour() ? "\033[1m" : "", chosen->point_width, "point");
  for (int i = 0; i < chosen->count; i++) {
    title_of(chosen->columns[i], title);
    const bool last = i + 1 == chosen->count;
    (void)printf("%*s%s", last ? GAP : GAP + chosen->columns[i]->width - cli_text_width(title), "", title);
  }
  (void)printf("%s\n", cli_colour() ? "\033[0m" : "");
}

static void start_widths(const show *self, layout *chosen) {
  char text[SHOW_CELL];
  chosen->point_width = snprintf(text, sizeof text, "%" PRId64, self->points - 1);
  chosen->point_width = chosen->point_width < (int)strlen("point") ? (int)strlen("point") : chosen->point_width;
  for (int i = 0; i < chosen->count; i++) {
    title_of(chosen->columns[i], text);
    chosen->columns[i]->width = cli_text_width(text);
    chosen->columns[i]->before = 0;
    chosen->columns[i]->after = 0;
  }
}

/* Leaves out results that no point of the table has: what was not asked for, or nothing at all before a point is done.
 */
static void drop_missing(layout *chosen) {
  int kept = 0;
  for (int i = 0; i < chosen->count; i++) {
    if (chosen->columns[i]->present || chosen->columns[i]->facts->role != MHAS_ROLE_RESULT) {
      chosen->columns[kept++] = chosen->columns[i];
    }
  }
  chosen->count = kept;
}

/* Twice over the file: once for the widths, once to print, so that no table has to fit into memory. */
mhas_code show_table(show *self, int only, int64_t most, mhas_error *error) {
  layout chosen = {0};
  mhas_text left_out = {0};
  MHAS_TRY(mhas_alloc(&chosen.columns, (size_t)self->column_count, sizeof *chosen.columns, "the columns", error));
  choose(self, only, &chosen);
  start_widths(self, &chosen);
  mhas_code code = for_each_row(self, &chosen, only, most, widen, error);
  drop_missing(&chosen);
  if (code == MHAS_OK && cli_on_terminal()) {
    code = fit(&chosen, &left_out, error);
  }
  if (code == MHAS_OK) {
    print_titles(&chosen);
    code = for_each_row(self, &chosen, only, most, print_row, error);
  }
  if (code == MHAS_OK && left_out.length > 0) {
    (void)printf("(no room for ");
    cli_print_hanging(mhas_text_string(&left_out), (int)strlen("(no room for "), cli_width());
  }
  mhas_text_free(&left_out);
  mhas_free(chosen.columns);
  return code;
}
