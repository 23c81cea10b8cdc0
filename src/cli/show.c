/* mhasweep show: what is in a result file. Reads only, so it may look on while a sweep writes the file. */
#include "cli/show.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { OPTION_POINT, OPTION_FAILED, OPTION_ALL, OPTION_WATCH, OPTION_JSON, OPTION_COUNT };
enum { ROWS_ON_TERMINAL = 40 };

static const cli_option options[OPTION_COUNT] = {
    [OPTION_POINT] = {"point", 'p', "I", "everything about point I (0, 1, 2 ...), with its curves"},
    [OPTION_FAILED] = {"failed", 0, NULL, "only the failed points, with the reasons"},
    [OPTION_ALL] = {"all", 'a', NULL, "all rows of the table also on a terminal, where it ends after 40 otherwise"},
    [OPTION_WATCH] = {"watch", 'w', "[SECONDS]",
                      "look again every SECONDS (2 if not said), on a terminal, until every point has ended; Ctrl-C "
                      "ends it before"},
    [OPTION_JSON] = {"json", 0, NULL, "the same as JSON: facts of the file and a list of points"},
};

/* ---- the file ---- */

static mhas_code make_columns(show *self, mhas_error *error) {
  self->column_count = mhas_reader_variable_count(self->reader);
  MHAS_TRY(mhas_alloc(&self->columns, (size_t)self->column_count, sizeof *self->columns, "the columns", error));
  for (int i = 0; i < self->column_count; i++) {
    show_column *column = &self->columns[i];
    column->variable = i;
    column->facts = mhas_reader_variable(self->reader, i);
    if (column->facts->is_text) {
      MHAS_TRY(mhas_alloc(&column->texts, SHOW_BLOCK, sizeof *column->texts, column->facts->name, error));
    } else {
      MHAS_TRY(mhas_alloc(&column->numbers, SHOW_BLOCK, sizeof *column->numbers, column->facts->name, error));
    }
  }
  const int status = mhas_reader_find(self->reader, "status");
  const int reason = mhas_reader_find(self->reader, "error");
  if (status < 0 || reason < 0 || self->columns[status].numbers == NULL || self->columns[reason].texts == NULL) {
    return mhas_fail(error, MHAS_IO, "%s: not a result file of mhasweep: status and error are missing", self->path);
  }
  self->status = &self->columns[status];
  self->error = &self->columns[reason];
  return MHAS_OK;
}

mhas_code show_load_one(show *self, const show_column *column, int64_t first, int64_t count, mhas_error *error) {
  if (column->texts != NULL) {
    return mhas_reader_texts(self->reader, column->variable, first, count, SHOW_CELL, column->texts[0], error);
  }
  return mhas_reader_numbers(self->reader, column->variable, first, count, column->numbers, error);
}

mhas_code show_load(show *self, int64_t first, int64_t count, mhas_error *error) {
  for (int i = 0; i < self->column_count; i++) {
    MHAS_TRY(show_load_one(self, &self->columns[i], first, count, error));
  }
  return MHAS_OK;
}

/* Counts the points by status and adds up their times. */
static mhas_code count_points(show *self, mhas_error *error) {
  const int seconds = mhas_reader_find(self->reader, "seconds");
  double *times = seconds < 0 ? NULL : self->columns[seconds].numbers;
  double *status = self->status->numbers;
  for (int64_t first = 0; first < self->points; first += SHOW_BLOCK) {
    const int64_t count = self->points - first < SHOW_BLOCK ? self->points - first : SHOW_BLOCK;
    MHAS_TRY(mhas_reader_numbers(self->reader, self->status->variable, first, count, status, error));
    if (times != NULL) {
      MHAS_TRY(mhas_reader_numbers(self->reader, seconds, first, count, times, error));
    }
    for (int64_t i = 0; i < count; i++) {
      const double word = status[i];
      self->counts[word >= MHAS_PENDING && word <= MHAS_FAILED ? (int)word : MHAS_PENDING]++;
      if (times != NULL && isfinite(times[i])) {
        self->seconds += times[i];
        self->seconds_most = fmax(self->seconds_most, times[i]);
      }
    }
  }
  return MHAS_OK;
}

mhas_code show_open(const char *path, show *self, mhas_error *error) {
  *self = (show){.path = path};
  MHAS_TRY(mhas_reader_open(path, &self->reader, error));
  self->points = mhas_reader_points(self->reader);
  MHAS_TRY(make_columns(self, error));
  return count_points(self, error);
}

void show_close(show *self) {
  for (int i = 0; self->columns != NULL && i < self->column_count; i++) {
    mhas_free(self->columns[i].numbers);
    mhas_free(self->columns[i].texts);
  }
  mhas_free(self->columns);
  mhas_reader_close(self->reader);
}

/* ---- the summary ---- */

/* Each of these returns how many lines it printed. */
static int print_attribute(show *self, const char *title, const char *name) {
  const char *value = mhas_reader_attribute(self->reader, name);
  if (value[0] != '\0') {
    (void)printf("  %-10s %s\n", title, value);
  }
  return value[0] != '\0';
}

static void print_counts(const show *self) {
  static const char *const words[] = {"pending", "running", "done", "failed"};
  static const int order[] = {MHAS_DONE, MHAS_FAILED, MHAS_RUNNING, MHAS_PENDING};
  (void)printf("  %-10s %" PRId64 ":", "points", self->points);
  bool first = true;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    if (self->counts[order[i]] > 0) {
      (void)printf("%s %" PRId64 " %s", first ? "" : ",", self->counts[order[i]], words[order[i]]);
      first = false;
    }
  }
  (void)putchar('\n');
}

static int print_times(const show *self) {
  const int64_t ended = self->counts[MHAS_DONE] + self->counts[MHAS_FAILED];
  if (ended == 0) {
    return 0;
  }
  char all[MHAS_HUMAN_LENGTH];
  char each[MHAS_HUMAN_LENGTH];
  char most[MHAS_HUMAN_LENGTH];
  (void)printf("  %-10s %s of work, %s a point, the longest %s\n", "time", mhas_human_seconds(self->seconds, all),
               mhas_human_seconds(self->seconds / (double)ended, each), mhas_human_seconds(self->seconds_most, most));
  return 1;
}

/* The file and its title; on a narrow terminal the title stands below. Returns the lines taken. */
static int print_heading(const show *self) {
  enum { INDENT = 2 };
  const char *title = mhas_reader_attribute(self->reader, "title");
  if (!cli_on_terminal() || cli_text_width(self->path) + 2 + cli_text_width(title) <= cli_width()) {
    (void)printf("%s: %s\n", self->path, title);
    return 1;
  }
  (void)printf("%s:\n", self->path);
  cli_print_wrapped(title, INDENT, cli_width());
  return 2 + (INDENT + cli_text_width(title)) / cli_width();
}

int show_summary(show *self) {
  int lines = print_heading(self);
  lines += print_attribute(self, "experiment", "experiment");
  lines += print_attribute(self, "spec hash", "spec_hash");
  lines += print_attribute(self, "seed", "seed");
  lines += print_attribute(self, "created", "created");
  print_counts(self);
  return lines + 1 + print_times(self);
}

static void print_advice(const show *self, bool only_failed) {
  if (self->counts[MHAS_FAILED] > 0 && !only_failed) {
    (void)printf("\nmhasweep show %s --failed tells why points failed.\n", self->path);
  }
}

/* ---- the command ---- */

mhas_code show_page(show *self, bool only_failed, bool all, mhas_error *error) {
  const int64_t rows = only_failed ? self->counts[MHAS_FAILED] : self->points;
  (void)show_summary(self);
  if (rows == 0) {
    (void)printf("\n%s\n", only_failed ? "No point has failed." : "There are no points.");
    return MHAS_OK;
  }
  if (!only_failed) {
    MHAS_TRY(show_chart(self, NULL, error));
  }
  const bool brief = cli_on_terminal() && !all;
  const int64_t most = brief && rows > ROWS_ON_TERMINAL ? ROWS_ON_TERMINAL : rows;
  (void)putchar('\n');
  MHAS_TRY(show_table(self, only_failed ? MHAS_FAILED : SHOW_ALL, most, error));
  if (most < rows) {
    (void)printf("... and %" PRId64 " more (--all shows them)\n", rows - most);
  }
  print_advice(self, only_failed);
  return MHAS_OK;
}

static mhas_code watch(const cli_words *words, int *status, mhas_error *error) {
  double seconds = 2.0;
  bool interrupted = false;
  MHAS_TRY(cli_number(words, OPTION_WATCH, 0.1, &seconds, error));
  if (cli_has(words, OPTION_POINT) || cli_has(words, OPTION_FAILED) || cli_has(words, OPTION_JSON)) {
    return mhas_fail(error, MHAS_USAGE, "show: --watch looks at the whole file; it goes with --all only");
  }
  if (!cli_can_draw()) {
    return mhas_fail(error, MHAS_USAGE,
                     "show: --watch draws on a terminal, which this is not; in a script ask now and then, with --json");
  }
  MHAS_TRY(show_watch(words->operand, seconds, &interrupted, error));
  *status = interrupted ? CLI_OPEN : CLI_DONE;
  show self;
  mhas_code code = show_open(words->operand, &self, error);
  code = code == MHAS_OK ? show_page(&self, false, cli_has(words, OPTION_ALL), error) : code;
  show_close(&self);
  return code;
}

static mhas_code run(const cli_words *words, int *status, mhas_error *error) {
  int64_t point = -1;
  MHAS_TRY(cli_count(words, OPTION_POINT, &point, error));
  if (cli_has(words, OPTION_WATCH)) {
    return watch(words, status, error);
  }
  show self;
  mhas_code code = show_open(words->operand, &self, error);
  if (code == MHAS_OK && point >= self.points) {
    code = mhas_fail(error, MHAS_USAGE, "%s has no point %" PRId64 ": it has %" PRId64 ", counted from 0", self.path,
                     point, self.points);
  }
  if (code == MHAS_OK && cli_has(words, OPTION_JSON)) {
    code = show_json(&self, cli_has(words, OPTION_FAILED), point, error);
  } else if (code == MHAS_OK) {
    code = point >= 0 ? show_point(&self, point, error)
                      : show_page(&self, cli_has(words, OPTION_FAILED), cli_has(words, OPTION_ALL), error);
  }
  show_close(&self);
  return code;
}

const cli_command cli_show = {
    .name = "show",
    .operand = "FILE.h5",
    .summary = "what is in a result file: a summary and a table of its points",
    .description =
        "Tells what a result file holds, how many of its points are done, failed, running and pending, draws the main "
        "result over the axis with the most values in a line of bars (one for each value of a second axis, means over "
        "the rest), and prints a table of the points: the axes of the sweep, results and status; - for what is "
        "missing. On a terminal, results that do not fit beside each other are left out, and named. Dates are in UTC; "
        "--json and export have them in seconds since 1970. Works while a sweep writes the file; --watch follows it.",
    .options = options,
    .option_count = OPTION_COUNT,
    .examples =
        "  mhasweep show sweep.h5\n"
        "  mhasweep show sweep.h5 --failed\n"
        "  mhasweep show sweep.h5 --point 17\n"
        "  mhasweep show sweep.h5 --watch\n",
    .statuses =
        "   0  it was printed; with --watch: and every point has ended\n"
        "   1  the file cannot be read\n"
        "   2  the command line is wrong, or there is no such point\n"
        "  75  --watch was interrupted before every point had ended\n",
    .run = run,
};
