/* The page of one point, for people. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "cli/show.h"
#include "cli/spark.h"

enum { RECORDS_SHOWN = 10 };

static mhas_code print_role(const show *self, int role, const char *title, mhas_error *error) {
  (void)printf("\n%s:\n", title);
  cli_table table = {.columns = 3, .right = {false, true, false}};
  char cell[SHOW_CELL];
  for (int i = 0; i < self->column_count; i++) {
    const show_column *column = &self->columns[i];
    if ((int)column->facts->role != role || column == self->error) {
      continue;
    }
    show_cell(column, 0, cell);
    const char *unit = column->facts->unit;
    const bool pure =
        unit == NULL || unit[0] == '\0' || strcmp(unit, "1") == 0 || strcmp(cell, "-") == 0 || show_is_date(column);
    cli_table_cell(&table, "%s", column->facts->name);
    cli_table_cell(&table, pure ? "%s" : "%s %s", cell, unit);
    cli_table_cell(&table, "%s", column->facts->meaning == NULL ? "" : column->facts->meaning);
  }
  return cli_table_print(&table, 2, error);
}

/* Entries that are there: up to the last one that has a number in any curve. */
static int64_t records_used(const float *curves, int curve_count, int64_t capacity) {
  int64_t used = 0;
  for (int curve = 0; curve < curve_count; curve++) {
    for (int64_t i = used; i < capacity; i++) {
      used = isnan(curves[curve * capacity + i]) ? used : i + 1;
    }
  }
  return used;
}

/* A curve as a line of bars, means of as many records as a bar stands for, and its first and last value. Nothing if it
 * has none. */
static mhas_code draw_curve(const char *name, int name_width, const float *curve, int64_t used, mhas_error *error) {
  enum { BARS_LEAST = 8, BARS_MOST = 48 };
  double bars[BARS_MOST];
  spark_scale scale = {0};
  int64_t first = 0;
  while (first < used && isnan(curve[first])) {
    first++;
  }
  while (used > first && isnan(curve[used - 1])) {
    used--;
  }
  if (first == used) {
    return MHAS_OK;
  }
  const int room = cli_width() - name_width - (int)strlen("      from -1.2345e-05 to -1.2345e-05");
  const int most = room < BARS_LEAST ? BARS_LEAST : room < BARS_MOST ? room : BARS_MOST;
  const int count = used - first < most ? (int)(used - first) : most;
  for (int bar = 0; bar < count; bar++) {
    const int64_t begin = first + (used - first) * bar / count;
    const int64_t end = first + (used - first) * (bar + 1) / count;
    bars[bar] = 0.0;
    for (int64_t i = begin; i < end; i++) {
      bars[bar] += (double)curve[i] / (double)(end - begin);
    }
    spark_scale_add(&scale, bars[bar]);
  }
  mhas_text line = {0};
  spark_append(&line, bars, count, 1, &scale);
  const bool failed = line.failed;
  if (!failed) {
    (void)printf("  %-*s  %s  from %.5g to %.5g\n", name_width, name, mhas_text_string(&line), (double)curve[first],
                 (double)curve[used - 1]);
  }
  mhas_text_free(&line);
  return failed ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory while drawing") : MHAS_OK;
}

static mhas_code draw_curves(const show *self, const float *curves, int curve_count, int64_t capacity, int64_t used,
                             mhas_error *error) {
  int width = 0;
  for (int curve = 0; curve < curve_count; curve++) {
    const int name_width = cli_text_width(mhas_reader_curve_name(self->reader, curve));
    width = name_width > width ? name_width : width;
  }
  for (int curve = 0; curve < curve_count; curve++) {
    MHAS_TRY(draw_curve(mhas_reader_curve_name(self->reader, curve), width, curves + curve * capacity, used, error));
  }
  return MHAS_OK;
}

static void print_value(float value, int width) {
  if (isnan(value)) {
    (void)printf("%*s", width, "-");
  } else {
    (void)printf("%*.7g", width, (double)value);
  }
}

static bool has_values(const float *curve, int64_t used) {
  int64_t i = 0;
  while (i < used && isnan(curve[i])) {
    i++;
  }
  return i < used;
}

static int width_of(const show *self, int curve) {
  enum { GAP = 2, LEAST = 14 }; /* -1.234567e-05, and a blank */
  const int width = GAP + cli_text_width(mhas_reader_curve_name(self->reader, curve));
  return width > LEAST ? width : LEAST;
}

/* Those of curves begin .. end - 1 that have a value beside each other, behind the first one, which is the step. */
static void print_records(const show *self, const float *curves, int begin, int end, int64_t first, int64_t used) {
  const int64_t capacity = mhas_reader_records(self->reader);
  (void)printf("%*s", width_of(self, 0), mhas_reader_curve_name(self->reader, 0));
  for (int curve = begin; curve < end; curve++) {
    if (has_values(curves + curve * capacity, used)) {
      (void)printf("%*s", width_of(self, curve), mhas_reader_curve_name(self->reader, curve));
    }
  }
  (void)putchar('\n');
  for (int64_t i = first; i < used; i++) {
    print_value(curves[i], width_of(self, 0));
    for (int curve = begin; curve < end; curve++) {
      if (has_values(curves + curve * capacity, used)) {
        print_value(curves[curve * capacity + i], width_of(self, curve));
      }
    }
    (void)putchar('\n');
  }
}

/* As many curves beside each other as there is room for; on a terminal the others below. */
static void print_last_records(const show *self, const float *curves, int curve_count, int64_t first, int64_t used) {
  const int64_t capacity = mhas_reader_records(self->reader);
  const int room = cli_on_terminal() ? cli_width() : INT_MAX;
  int begin = 1;
  do {
    int end = begin;
    for (int width = width_of(self, 0); end < curve_count; end++) {
      width += has_values(curves + end * capacity, used) ? width_of(self, end) : 0;
      if (width > room && end > begin) {
        break;
      }
    }
    (void)printf("%s", begin > 1 ? "\n" : "");
    print_records(self, curves, begin, end, first, used);
    begin = end;
  } while (begin < curve_count);
}

static mhas_code print_curves(const show *self, const float *curves, int curve_count, int64_t capacity,
                              mhas_error *error) {
  const int64_t used = records_used(curves, curve_count, capacity);
  const int64_t first = used > RECORDS_SHOWN ? used - RECORDS_SHOWN : 0;
  if (used == 0) {
    return MHAS_OK;
  }
  (void)printf("\nCurves, %" PRId64 " records:\n", used);
  MHAS_TRY(draw_curves(self, curves, curve_count, capacity, used, error));
  (void)printf("\n%s:\n", first > 0 ? "The last of them" : "All of them");
  print_last_records(self, curves, curve_count, first, used);
  return MHAS_OK;
}

static mhas_code read_and_print_curves(show *self, int64_t point, mhas_error *error) {
  const int curve_count = mhas_reader_curve_count(self->reader);
  const int64_t capacity = mhas_reader_records(self->reader);
  if (curve_count == 0 || capacity == 0) {
    return MHAS_OK;
  }
  float *curves = NULL;
  MHAS_TRY(mhas_alloc(&curves, (size_t)curve_count * (size_t)capacity, sizeof *curves, "the curves", error));
  mhas_code code = MHAS_OK;
  for (int curve = 0; curve < curve_count && code == MHAS_OK; curve++) {
    code = mhas_reader_curve(self->reader, curve, point, curves + curve * capacity, error);
  }
  if (code == MHAS_OK) {
    code = print_curves(self, curves, curve_count, capacity, error);
  }
  mhas_free(curves);
  return code;
}

mhas_code show_point(show *self, int64_t point, mhas_error *error) {
  MHAS_TRY(show_load(self, point, 1, error));
  char cell[SHOW_CELL];
  show_cell(self->status, 0, cell);
  (void)printf("%s: point %" PRId64 ", %s\n", self->path, point, cell);
  if (self->error->texts[0][0] != '\0') {
    show_cell(self->error, 0, cell);
    (void)printf("\nReason: %s\n", cell);
  }
  MHAS_TRY(print_role(self, MHAS_ROLE_PARAMETER, "Parameters", error));
  MHAS_TRY(print_role(self, MHAS_ROLE_RESULT, "Results", error));
  MHAS_TRY(print_role(self, MHAS_ROLE_RUN, "Run", error));
  return read_and_print_curves(self, point, error);
}
