/* A result file followed on a terminal while a sweep writes it. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>

#include "cli/show.h"

enum { BAR_CELLS = 40, ROWS_LEAST = 1 };

/* A screen of its own, so that what stood there comes back; no cursor; long lines are cut and not wrapped. */
static const char enter_screen[] = "\033[?1049h\033[?25l\033[?7l";
static const char leave_screen[] = "\033[?7h\033[?25h\033[?1049l";
static const char clear_screen[] = "\033[H\033[2J";

static int64_t ended(const show *self) { return self->counts[MHAS_DONE] + self->counts[MHAS_FAILED]; }

static void print_bar(const show *self) {
  const double share = self->points == 0 ? 1.0 : (double)ended(self) / (double)self->points;
  (void)printf("\n  [");
  for (int i = 0; i < BAR_CELLS; i++) {
    (void)putchar(i + 0.5 < share * BAR_CELLS ? '#' : '.');
  }
  (void)printf("] %d%% %" PRId64 "/%" PRId64 "\n", (int)(100.0 * share), ended(self), self->points);
}

/* The points that run now, as many as there is room for. */
static mhas_code print_running(show *self, int room, mhas_error *error) {
  const int64_t running = self->counts[MHAS_RUNNING];
  const int64_t rows = running < room ? running : room;
  if (rows < ROWS_LEAST) {
    return MHAS_OK;
  }
  (void)putchar('\n');
  MHAS_TRY(show_table(self, MHAS_RUNNING, rows, error));
  if (rows < running) {
    (void)printf("... and %" PRId64 " more\n", running - rows);
  }
  return MHAS_OK;
}

static mhas_code print_frame(show *self, double seconds, mhas_error *error) {
  enum { BAR_LINES = 2, TABLE_LINES = 4, FOOTER_LINES = 2 };
  (void)fputs(clear_screen, stdout);
  int lines = show_summary(self) + BAR_LINES;
  print_bar(self);
  int chart_lines = 0;
  MHAS_TRY(show_chart(self, &chart_lines, error));
  lines += chart_lines + TABLE_LINES + FOOTER_LINES;
  MHAS_TRY(print_running(self, cli_height() - lines, error));
  (void)printf("\n%severy %g s; Ctrl-C ends this, not the sweep",
               mhas_store_is_written(self->path) == MHAS_NOT_WRITTEN
                   ? "No run is seen to write it: mhasweep run ... --resume goes on. "
                   : "",
               seconds);
  return cli_flush(error);
}

/* Waits; true if a signal came. In slices, since the signal may have gone to a thread of BLAS. */
static bool wait_or_end(double seconds) {
  const double end = mhas_now() + seconds;
  for (double left = seconds; left > 0.0 && mhas_signals_count() == 0; left = end - mhas_now()) {
    mhas_sleep(fmin(left, 0.05));
  }
  return mhas_signals_count() > 0;
}

static mhas_code look(const char *path, double seconds, bool *finished, mhas_error *error) {
  show self;
  mhas_code code = show_open(path, &self, error);
  if (code == MHAS_OK) {
    *finished = ended(&self) == self.points;
    code = *finished ? MHAS_OK : print_frame(&self, seconds, error);
  }
  show_close(&self);
  return code;
}

mhas_code show_watch(const char *path, double seconds, bool *interrupted, mhas_error *error) {
  MHAS_TRY(mhas_signals_catch(error));
  (void)fputs(enter_screen, stdout);
  bool finished = false;
  *interrupted = false;
  mhas_code code = look(path, seconds, &finished, error);
  while (code == MHAS_OK && !finished && !*interrupted) {
    *interrupted = wait_or_end(seconds);
    code = *interrupted ? MHAS_OK : look(path, seconds, &finished, error);
  }
  (void)fputs(leave_screen, stdout);
  (void)fflush(stdout);
  (void)signal(SIGINT, SIG_DFL); /* what follows can be interrupted as ever */
  (void)signal(SIGTERM, SIG_DFL);
  return code;
}
