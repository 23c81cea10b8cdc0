/*
 * The main result over the main axis, as lines of bars: one line for each value of a second axis, means over the rest.
 *
 * The main axis is the numeric one with the most values; the second the one with the most values that still fit. The
 * result is the capacity of a search, else the experiment's first that has values.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/show.h"
#include "cli/spark.h"

enum { BARS_MOST = 60, BAR_TIMES = 3, LINES_MOST = 8, KNOWN_MOST = 1024, INDENT = 2, GAP = 2 };

/* The values that an axis has in the rows, ascending. */
typedef struct known {
  const show_column *column;
  double *values; /* [KNOWN_MOST] */
  int count;
  bool more; /* than KNOWN_MOST: only the range counts then */
  double low, high;
} known;

typedef struct chart {
  show *file;
  const show_column *result;
  known *axes;
  int axis_count;
  known *main, *second; /* two of them; second may be NULL */
  int bars, lines, caption_lines;
  double sums[LINES_MOST][BARS_MOST];
  int64_t counts[LINES_MOST][BARS_MOST];
} chart;

/* ---- the axes ---- */

static bool is_numeric(const show_column *column) {
  return column->numbers != NULL && (column->facts->type == MHAS_INTEGER || column->facts->type == MHAS_REAL);
}

static bool is_replicate(const show_column *column) { return strcmp(column->facts->name, "replicate") == 0; }

/* Puts a value where it belongs; nothing if it is there. */
static void learn(known *axis, double value) {
  if (!isfinite(value)) {
    return;
  }
  axis->low = axis->count == 0 ? value : fmin(axis->low, value);
  axis->high = axis->count == 0 ? value : fmax(axis->high, value);
  int place = axis->count;
  while (place > 0 && axis->values[place - 1] > value) {
    place--;
  }
  if (place > 0 && axis->values[place - 1] == value) {
    return;
  }
  if (axis->count == KNOWN_MOST) {
    axis->more = true;
    return;
  }
  memmove(axis->values + place + 1, axis->values + place, (size_t)(axis->count - place) * sizeof *axis->values);
  axis->values[place] = value;
  axis->count++;
}

static mhas_code find_axes(chart *self, mhas_error *error) {
  show *file = self->file;
  MHAS_TRY(mhas_alloc(&self->axes, (size_t)file->column_count, sizeof *self->axes, "the axes", error));
  for (int i = 0; i < file->column_count; i++) {
    const show_column *column = &file->columns[i];
    if (!column->facts->is_axis || column->numbers == NULL) {
      continue;
    }
    known *axis = &self->axes[self->axis_count++];
    axis->column = column;
    MHAS_TRY(mhas_alloc(&axis->values, KNOWN_MOST, sizeof *axis->values, "the values of an axis", error));
  }
  for (int64_t first = 0; first < file->points; first += SHOW_BLOCK) {
    const int64_t count = file->points - first < SHOW_BLOCK ? file->points - first : SHOW_BLOCK;
    for (int i = 0; i < self->axis_count; i++) {
      MHAS_TRY(show_load_one(file, self->axes[i].column, first, count, error));
      for (int64_t row = 0; row < count; row++) {
        learn(&self->axes[i], self->axes[i].column->numbers[row]);
      }
    }
  }
  return MHAS_OK;
}

static void choose_axes(chart *self) {
  for (int i = 0; i < self->axis_count; i++) {
    known *axis = &self->axes[i];
    if (is_numeric(axis->column) && !is_replicate(axis->column) && axis->count > 1 &&
        (self->main == NULL || axis->count > self->main->count)) {
      self->main = axis;
    }
  }
  for (int i = 0; i < self->axis_count; i++) {
    known *axis = &self->axes[i];
    if (axis != self->main && !is_replicate(axis->column) && axis->count > 1 && axis->count <= LINES_MOST &&
        (self->second == NULL || axis->count > self->second->count)) {
      self->second = axis;
    }
  }
}

/* ---- the result ---- */

/* *found: some point has a value. */
static mhas_code has_values(show *file, const show_column *column, bool *found, mhas_error *error) {
  *found = false;
  for (int64_t first = 0; first < file->points && !*found; first += SHOW_BLOCK) {
    const int64_t count = file->points - first < SHOW_BLOCK ? file->points - first : SHOW_BLOCK;
    MHAS_TRY(show_load_one(file, column, first, count, error));
    for (int64_t row = 0; row < count && !*found; row++) {
      *found = isfinite(column->numbers[row]);
    }
  }
  return MHAS_OK;
}

static mhas_code choose_result(chart *self, mhas_error *error) {
  show *file = self->file;
  bool found = false;
  const int capacity = mhas_reader_find(file->reader, "capacity");
  for (int i = capacity < 0 ? 0 : capacity; i < file->column_count && !found; i++) {
    if (file->columns[i].facts->role == MHAS_ROLE_RESULT && file->columns[i].numbers != NULL) {
      MHAS_TRY(has_values(file, &file->columns[i], &found, error));
      self->result = found ? &file->columns[i] : NULL;
    }
  }
  return MHAS_OK;
}

/* ---- the means ---- */

static int place_in(const known *axis, double value) {
  int place = 0;
  while (place < axis->count && axis->values[place] != value) {
    place++;
  }
  return place;
}

/* Each value has a bar; more values than bars share them by their size. */
static int bar_of(const chart *self, double value) {
  if (!self->main->more && self->main->count <= self->bars) {
    return place_in(self->main, value);
  }
  const double share = (value - self->main->low) / (self->main->high - self->main->low);
  const int bar = (int)(share * self->bars);
  return bar < self->bars ? bar : self->bars - 1;
}

static void add_row(chart *self, int64_t row) {
  const double value = self->result->numbers[row];
  const double x = self->main->column->numbers[row];
  const int line = self->second == NULL ? 0 : place_in(self->second, self->second->column->numbers[row]);
  if (isfinite(value) && isfinite(x) && line < self->lines) {
    const int bar = bar_of(self, x);
    self->sums[line][bar] += value;
    self->counts[line][bar]++;
  }
}

static mhas_code add_rows(chart *self, mhas_error *error) {
  show *file = self->file;
  const show_column *const needed[] = {file->status, self->result, self->main->column,
                                       self->second == NULL ? file->status : self->second->column};
  for (int64_t first = 0; first < file->points; first += SHOW_BLOCK) {
    const int64_t count = file->points - first < SHOW_BLOCK ? file->points - first : SHOW_BLOCK;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
      MHAS_TRY(show_load_one(file, needed[i], first, count, error));
    }
    for (int64_t row = 0; row < count; row++) {
      if (file->status->numbers[row] == MHAS_DONE) {
        add_row(self, row);
      }
    }
  }
  return MHAS_OK;
}

/* ---- on paper ---- */

static void format_value(const show_column *column, double value, char cell[SHOW_CELL]) {
  if (value >= 0 && value < column->facts->word_count) {
    (void)snprintf(cell, SHOW_CELL, "%s", column->facts->words[(int)value]);
  } else {
    (void)snprintf(cell, SHOW_CELL, "%.5g", value);
  }
}

/* "accuracy over heads 1 to 16, mean over replicate; bars from 0.11 to 1" */
static mhas_code print_caption(chart *self, const spark_scale *scale, mhas_error *error) {
  char from[SHOW_CELL];
  char to[SHOW_CELL];
  mhas_text text = {0};
  format_value(self->main->column, self->main->low, from);
  format_value(self->main->column, self->main->high, to);
  mhas_text_append(&text, "%s over %s %s to %s", self->result->facts->name, self->main->column->facts->name, from, to);
  bool first = true;
  for (int i = 0; i < self->axis_count; i++) {
    const known *axis = &self->axes[i];
    if (axis != self->main && axis != self->second && axis->count > 1) {
      mhas_text_append(&text, "%s%s", first ? ", mean over " : " and ", axis->column->facts->name);
      first = false;
    }
  }
  if (scale->low < scale->high) {
    mhas_text_append(&text, "; bars from %.5g to %.5g%s", scale->low, scale->high,
                     scale->logarithmic ? ", logarithmic" : "");
  } else {
    mhas_text_append(&text, "; %.5g everywhere", scale->low);
  }
  self->caption_lines = 1 + (int)text.length / cli_width();
  const bool failed = text.failed;
  if (!failed) {
    cli_print_wrapped(mhas_text_string(&text), 0, cli_width());
  }
  mhas_text_free(&text);
  return failed ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory while drawing") : MHAS_OK;
}

/* What a line stands for; the axis is named on the first. */
static void label_of(const chart *self, int line, char cell[SHOW_CELL]) {
  char value[SHOW_CELL];
  cell[0] = '\0';
  if (self->second != NULL) {
    const char *name = self->second->column->facts->name;
    format_value(self->second->column, self->second->values[line], value);
    (void)snprintf(cell, SHOW_CELL, "%.60s %.60s", line == 0 ? name : "", value);
  }
}

static int label_width(const chart *self) {
  char label[SHOW_CELL];
  int most = 0;
  for (int line = 0; line < self->lines; line++) {
    label_of(self, line, label);
    const int width = cli_text_width(label);
    most = width > most ? width : most;
  }
  return most;
}

static mhas_code print_lines(chart *self, int room, mhas_error *error) {
  double means[LINES_MOST][BARS_MOST];
  spark_scale scale = {0};
  for (int line = 0; line < self->lines; line++) {
    for (int bar = 0; bar < self->bars; bar++) {
      const int64_t count = self->counts[line][bar];
      means[line][bar] = count == 0 ? (double)NAN : self->sums[line][bar] / (double)count;
      spark_scale_add(&scale, means[line][bar]);
    }
  }
  MHAS_TRY(print_caption(self, &scale, error));
  const int times = room / self->bars < BAR_TIMES ? room / self->bars : BAR_TIMES;
  const int width = label_width(self);
  char label[SHOW_CELL];
  mhas_text bars = {0};
  for (int line = 0; line < self->lines; line++) {
    label_of(self, line, label);
    bars.length = 0;
    spark_append(&bars, means[line], self->bars, times, &scale);
    (void)printf("%*s%*s%s%s%s\n", INDENT, "", width - cli_text_width(label), "", label, width > 0 ? "  " : "",
                 mhas_text_string(&bars));
  }
  const bool failed = bars.failed;
  mhas_text_free(&bars);
  return failed ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory while drawing") : MHAS_OK;
}

static mhas_code draw(chart *self, mhas_error *error) {
  MHAS_TRY(find_axes(self, error));
  choose_axes(self);
  MHAS_TRY(choose_result(self, error));
  if (self->main == NULL || self->result == NULL) {
    return MHAS_OK;
  }
  self->lines = self->second == NULL ? 1 : self->second->count;
  const int room = cli_width() - INDENT - label_width(self) - GAP;
  const int most = room < 1 ? 1 : room < BARS_MOST ? room : BARS_MOST;
  self->bars = self->main->more || self->main->count > most ? most : self->main->count;
  MHAS_TRY(add_rows(self, error));
  (void)putchar('\n');
  return print_lines(self, room, error);
}

mhas_code show_chart(show *file, int *lines, mhas_error *error) {
  chart *self = NULL;
  MHAS_TRY(mhas_alloc(&self, 1, sizeof *self, "a chart", error));
  self->file = file;
  const mhas_code code = file->counts[MHAS_DONE] > 0 ? draw(self, error) : MHAS_OK;
  if (lines != NULL) {
    *lines = self->bars == 0 ? 0 : 1 + self->caption_lines + self->lines;
  }
  for (int i = 0; i < self->axis_count; i++) {
    mhas_free(self->axes[i].values);
  }
  mhas_free(self->axes);
  mhas_free(self);
  return code;
}
