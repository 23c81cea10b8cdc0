/*
 * One live line on a terminal, else a line now and then. The clock is the state's `elapsed`.
 */
#include "farm/progress.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>

static const double LIVE_SECONDS = 0.2;
static const double LOG_SECONDS = 30.0;
enum { WIDTH_FALLBACK = 80, BAR_MOST = 40, BAR_LEAST = 8, BAR_FRAME = 3 /* brackets, blank */ };

struct mhas_progress {
  FILE *stream;
  bool terminal;
  int width;    /* 0: ask the stream */
  double next;  /* elapsed seconds of the next line */
  size_t drawn; /* characters of the live line that stands there */
};

mhas_code mhas_progress_create_on(FILE *stream, bool terminal, int width, mhas_progress **progress, mhas_error *error) {
  MHAS_TRY(mhas_alloc(progress, 1, sizeof **progress, "the progress display", error));
  **progress =
      (mhas_progress){.stream = stream, .terminal = terminal, .width = width, .next = terminal ? 0.0 : LOG_SECONDS};
  return MHAS_OK;
}

mhas_code mhas_progress_create(bool terminal, mhas_progress **progress, mhas_error *error) {
  return mhas_progress_create_on(stderr, terminal, 0, progress, error);
}

void mhas_progress_destroy(mhas_progress *progress) { mhas_free(progress); }

/* ---- words ---- */

enum { PART_COUNT, PART_FAILED, PART_RATE, PART_BUSY, PART_ETA, PARTS, PART_LENGTH = 96 };

typedef struct parts {
  char text[PARTS][PART_LENGTH]; /* "" if there is nothing to say */
} parts;

static int64_t ended(const mhas_farm_state *state) { return state->done + state->failed; }

static double share(const mhas_farm_state *state) {
  return state->total == 0 ? 1.0 : (double)ended(state) / (double)state->total;
}

static void say_rate(double rate, char out[PART_LENGTH]) {
  char human[MHAS_HUMAN_LENGTH];
  if (rate >= 100.0) {
    (void)snprintf(out, PART_LENGTH, "%s points/s", mhas_human_count(rate, human));
  } else if (rate >= 0.1) {
    (void)snprintf(out, PART_LENGTH, "%.1f points/s", rate);
  } else if (rate > 0.0) {
    (void)snprintf(out, PART_LENGTH, "%s a point", mhas_human_seconds(1.0 / rate, human));
  }
}

static void say_end(const mhas_farm_state *state, char out[PART_LENGTH]) {
  char human[MHAS_HUMAN_LENGTH];
  if (state->stopping || state->too_many_failures) {
    (void)snprintf(out, PART_LENGTH, "stopping, %" PRId64 " still running", state->running);
  } else if (isfinite(state->eta)) {
    (void)snprintf(out, PART_LENGTH, "%s left", mhas_human_seconds(state->eta, human));
  }
}

static parts say(const mhas_farm_state *state) {
  parts said = {0};
  (void)snprintf(said.text[PART_COUNT], PART_LENGTH, "%d%% %" PRId64 "/%" PRId64, (int)(100.0 * share(state)),
                 ended(state), state->total);
  if (state->failed > 0) {
    (void)snprintf(said.text[PART_FAILED], PART_LENGTH, "%" PRId64 " failed", state->failed);
  }
  if (state->workers > 1) {
    (void)snprintf(said.text[PART_BUSY], PART_LENGTH, "%d/%d busy", state->busy, state->workers);
  }
  say_rate(state->rows_per_second, said.text[PART_RATE]);
  say_end(state, said.text[PART_ETA]);
  return said;
}

static void join(const parts *said, mhas_text *text) {
  for (int i = 0; i < PARTS; i++) {
    if (said->text[i][0] != '\0') {
      mhas_text_append(text, "%s%s", i == 0 ? "" : ", ", said->text[i]);
    }
  }
}

static size_t joined_length(const parts *said) {
  size_t length = 0;
  for (int i = 0; i < PARTS; i++) {
    const size_t part = strlen(said->text[i]);
    length += part == 0 ? 0 : part + (i == 0 ? 0 : 2);
  }
  return length;
}

static void append_bar(mhas_text *text, double filled, size_t cells) {
  mhas_text_append(text, "[");
  for (size_t i = 0; i < cells; i++) {
    mhas_text_append(text, (double)i + 0.5 < filled * (double)cells ? "#" : ".");
  }
  mhas_text_append(text, "] ");
}

void mhas_progress_live(mhas_text *text, const mhas_farm_state *state, int width) {
  static const int dropped[] = {PART_BUSY, PART_RATE, PART_ETA, PART_FAILED}; /* in this order, if there is no room */
  parts said = say(state);
  const size_t room = width > 1 ? (size_t)width - 1 : 0; /* the last column would wrap on some terminals */
  for (size_t i = 0; i < sizeof dropped / sizeof *dropped && joined_length(&said) > room; i++) {
    said.text[dropped[i]][0] = '\0';
  }
  const size_t words = joined_length(&said);
  if (words > room) {
    said.text[PART_COUNT][room] = '\0';
  }
  if (words + BAR_FRAME + BAR_LEAST <= room) {
    const size_t cells = room - words - BAR_FRAME;
    append_bar(text, share(state), cells < BAR_MOST ? cells : BAR_MOST);
  }
  join(&said, text);
}

void mhas_progress_log(mhas_text *text, const mhas_farm_state *state) {
  char human[MHAS_HUMAN_LENGTH];
  const parts said = say(state);
  mhas_text_append(text, "after %s: ", mhas_human_seconds(state->elapsed, human));
  join(&said, text);
}

void mhas_progress_closing(mhas_text *text, const mhas_farm_state *state) {
  char human[MHAS_HUMAN_LENGTH];
  const int64_t untouched = state->total - ended(state) - state->given_up - state->stranded;
  mhas_text_append(text, "%" PRId64 " of %" PRId64 " points done", state->done, state->total);
  if (state->failed > 0) {
    mhas_text_append(text, ", %" PRId64 " failed", state->failed);
  }
  if (state->given_up > 0) {
    mhas_text_append(text, ", %" PRId64 " interrupted", state->given_up);
  }
  if (untouched > 0) {
    mhas_text_append(text, ", %" PRId64 " not started", untouched);
  }
  if (state->stranded > 0) {
    mhas_text_append(text, ", %" PRId64 " in need of more ranks", state->stranded);
  }
  mhas_text_append(text, " in %s", mhas_human_seconds(state->elapsed, human));
  if (state->too_many_failures) {
    mhas_text_append(text, "; stopped early: more failures than allowed");
  } else if (untouched > 0 || state->given_up > 0) {
    mhas_text_append(text, "; stopped early");
  }
}

/* ---- drawing ---- */

static int width_of(const mhas_progress *progress) {
  struct winsize size;
  if (progress->width > 0) {
    return progress->width;
  }
  const bool known = ioctl(fileno(progress->stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : WIDTH_FALLBACK;
}

/* Over the line that stands there; blanks hide what is left of a longer one, and no escape codes are needed. */
static void draw_over(mhas_progress *progress, mhas_text *text, const mhas_text *line) {
  mhas_text_append(text, "\r%s", mhas_text_string(line));
  for (size_t i = line->length; i < progress->drawn; i++) {
    mhas_text_append(text, " ");
  }
  progress->drawn = line->length;
}

static void add_line(mhas_progress *progress, mhas_text *text, const mhas_farm_state *state, bool last) {
  mhas_text line = {0};
  if (last) {
    mhas_progress_closing(&line, state);
  } else if (progress->terminal) {
    mhas_progress_live(&line, state, width_of(progress));
  } else {
    mhas_progress_log(&line, state);
  }
  if (progress->terminal) {
    draw_over(progress, text, &line);
  } else {
    mhas_text_append_bytes(text, mhas_text_string(&line), line.length);
  }
  if (last || !progress->terminal) {
    mhas_text_append(text, "\n");
    progress->drawn = 0;
  }
  mhas_text_free(&line);
}

void mhas_progress_show(void *context, const mhas_farm_state *state, bool last) {
  mhas_progress *progress = context;
  if (!last && state->elapsed < progress->next) {
    return;
  }
  progress->next = state->elapsed + (progress->terminal ? LIVE_SECONDS : LOG_SECONDS);
  /* One write a line, so that it does not mix with other ranks' words. What cannot be shown is not worth an error. */
  mhas_text text = {0};
  add_line(progress, &text, state, last);
  (void)fwrite(mhas_text_string(&text), 1, text.length, progress->stream);
  (void)fflush(progress->stream);
  mhas_text_free(&text);
}
