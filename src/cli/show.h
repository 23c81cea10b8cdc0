/* The parts of `mhasweep show`: the variables of a result file as columns, read in blocks of rows. */
#ifndef MHASWEEP_CLI_SHOW_H
#define MHASWEEP_CLI_SHOW_H

#include "cli/cli.h"
#include "mhasweep/store.h"

enum { SHOW_BLOCK = 1024, SHOW_CELL = MHAS_REASON_LENGTH + 1 };

/* One variable; numbers or texts of the rows of a block, whichever it has. */
typedef struct show_column {
  int variable;
  const mhas_variable *facts;
  double *numbers;          /* [SHOW_BLOCK] */
  char (*texts)[SHOW_CELL]; /* [SHOW_BLOCK] */
  int width;                /* of its title and its widest cell so far */
  int before, after;        /* of numbers, up to the decimal point and from there on */
  bool present;             /* some cell so far has a value */
} show_column;

typedef struct show {
  const char *path;
  mhas_reader *reader;
  int64_t points;
  int64_t counts[4]; /* of points, by mhas_status */
  double seconds;    /* of work in all ended points */
  double seconds_most;
  show_column *columns; /* every variable of the file, in its order */
  int column_count;
  show_column *status, *error; /* two of them */
} show;

/* Opens the file and counts its points. The caller closes it, also after a failure. */
mhas_code show_open(const char *path, show *self, mhas_error *error);
void show_close(show *self);

/* Reads rows first .. first + count - 1 (at most SHOW_BLOCK) of all columns; row `first` is row 0 of the block. */
mhas_code show_load(show *self, int64_t first, int64_t count, mhas_error *error);

/* The same of one column. */
mhas_code show_load_one(show *self, const show_column *column, int64_t first, int64_t count, mhas_error *error);

bool show_is_date(const show_column *column); /* counts seconds since 1970 */

/* A cell for people: numbers short, words for choices, dates by the calendar, "-" for what is missing. */
void show_cell(const show_column *column, int64_t row, char cell[SHOW_CELL]);

/* The table of points, at most `most` rows of it: of all, or only of those with one mhas_status; of failed ones with
 * their reasons. */
enum { SHOW_ALL = -1 };
mhas_code show_table(show *self, int only, int64_t most, mhas_error *error);

/* The main result over the main axis in lines of bars; nothing if there is none to be drawn. *lines: printed; may be
 * NULL. */
mhas_code show_chart(show *self, int *lines, mhas_error *error);

/* The page of --watch, again and again, until every point has ended or the user has had enough: then *interrupted. */
mhas_code show_watch(const char *path, double seconds, bool *interrupted, mhas_error *error);

/* What stands above the table: what the file is, and how far it is. Returns how many lines that took. */
int show_summary(show *self);

/* What `mhasweep show` prints of a whole file. `all`: also on a terminal every row of the table. */
mhas_code show_page(show *self, bool only_failed, bool all, mhas_error *error);

/* Everything about one point, with its curves. */
mhas_code show_point(show *self, int64_t point, mhas_error *error);

/* All of it as one JSON object: facts of the file and a list of points (all; the failed ones; or, if point >= 0, one
 * with its curves). */
mhas_code show_json(show *self, bool only_failed, int64_t point, mhas_error *error);

#endif
