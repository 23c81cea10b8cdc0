#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mhasweep/base.h"

/* Room for `more` bytes and the NUL behind what is there. */
static bool reserve(mhas_text *text, size_t more) {
  if (text->failed || more > SIZE_MAX / 4 - text->length) {
    text->failed = true;
    return false;
  }
  const size_t needed = text->length + more + 1;
  if (needed <= text->capacity) {
    return true;
  }
  const size_t capacity = needed < 128 ? 256 : needed * 2;
  char *data = realloc(text->data, capacity);
  if (data == NULL) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->capacity = capacity;
  return true;
}

void mhas_text_append_bytes(mhas_text *text, const char *bytes, size_t length) {
  if (!reserve(text, length)) {
    return;
  }
  if (length > 0) {
    memcpy(text->data + text->length, bytes, length);
  }
  text->length += length;
  text->data[text->length] = '\0';
}

void mhas_text_append(mhas_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length < 0 || !reserve(text, (size_t)length)) {
    text->failed = true;
    return;
  }
  va_start(arguments, format);
  (void)vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
  va_end(arguments);
  text->length += (size_t)length;
}

const char *mhas_text_string(const mhas_text *text) { return text->data == NULL ? "" : text->data; }

void mhas_text_free(mhas_text *text) {
  free(text->data);
  *text = (mhas_text){0};
}

static mhas_code read_stream(const char *path, FILE *file, size_t most, mhas_text *text, mhas_error *error) {
  struct stat facts;
  char human[MHAS_HUMAN_LENGTH];
  char limit[MHAS_HUMAN_LENGTH];
  if (fstat(fileno(file), &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return mhas_fail(error, MHAS_IO, "%s: is a folder, not a file", path);
  }
  /* The size of a pipe is not known beforehand, so the limit is watched while reading too. */
  if (S_ISREG(facts.st_mode) && (size_t)facts.st_size > most) {
    return mhas_fail(error, MHAS_IO, "%s: %s long, the most is %s", path,
                     mhas_human_bytes((double)facts.st_size, human), mhas_human_bytes((double)most, limit));
  }
  char block[1 << 16];
  size_t got = 0;
  while ((got = fread(block, 1, sizeof block, file)) > 0) {
    if (got > most - text->length) {
      return mhas_fail(error, MHAS_IO, "%s: longer than %s, the most that is read", path,
                       mhas_human_bytes((double)most, limit));
    }
    mhas_text_append_bytes(text, block, got);
    if (text->failed) {
      return mhas_fail(error, MHAS_NO_MEMORY, "%s: out of memory while reading", path);
    }
  }
  if (ferror(file)) {
    return mhas_fail(error, MHAS_IO, "%s: %s", path, strerror(errno));
  }
  return MHAS_OK;
}

mhas_code mhas_text_read_file(const char *path, size_t most, mhas_text *text, mhas_error *error) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return mhas_fail(error, MHAS_IO, "%s: %s", path, strerror(errno));
  }
  const mhas_code code = read_stream(path, file, most, text, error);
  (void)fclose(file); /* only read from: nothing can be lost */
  return code;
}

enum { NAME_MOST = 64 };

/* Edits (insert, delete, replace, swap neighbours) that turn a into b. */
static size_t edit_distance(const char *a, const char *b) {
  const size_t m = strlen(a);
  const size_t n = strlen(b);
  if (m >= NAME_MOST || n >= NAME_MOST) {
    return NAME_MOST;
  }
  size_t rows[3][NAME_MOST];
  size_t *before = rows[0];
  size_t *last = rows[1];
  size_t *now = rows[2];
  for (size_t j = 0; j <= n; j++) {
    last[j] = j;
    before[j] = j;
  }
  for (size_t i = 1; i <= m; i++) {
    now[0] = i;
    for (size_t j = 1; j <= n; j++) {
      size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
      best = last[j] + 1 < best ? last[j] + 1 : best;
      best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best) {
        best = before[j - 2] + 1;
      }
      now[j] = best;
    }
    size_t *oldest = before;
    before = last;
    last = now;
    now = oldest;
  }
  return last[n];
}

const char *mhas_nearest_name(const char *word, const char *const *names, size_t count) {
  const size_t length = strlen(word);
  if (length >= NAME_MOST) {
    return NULL;
  }
  const char *nearest = NULL;
  size_t beyond = length < 4 ? 2 : length / 3 + 2; /* about one slip in three letters is forgiven */
  for (size_t i = 0; i < count; i++) {
    const size_t distance = edit_distance(word, names[i]);
    if (distance < beyond) {
      beyond = distance;
      nearest = names[i];
    }
  }
  return nearest;
}

static char *human(double value, double base, const char *const *units, int unit_count, char *out) {
  int unit = 0;
  while (unit + 1 < unit_count && fabs(value) >= base * 0.9995) {
    value /= base;
    unit++;
  }
  const int decimals = unit == 0 || fabs(value) >= 99.95 ? 0 : 1;
  (void)snprintf(out, MHAS_HUMAN_LENGTH, "%.*f%s%s", decimals, value, units[unit][0] == '\0' ? "" : " ", units[unit]);
  return out;
}

char *mhas_human_bytes(double bytes, char *out) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return human(bytes, 1024.0, units, (int)(sizeof units / sizeof *units), out);
}

char *mhas_human_count(double count, char *out) {
  static const char *const units[] = {"", "k", "M", "G", "T", "P", "E", "Z", "Y"};
  return human(count, 1000.0, units, (int)(sizeof units / sizeof *units), out);
}

char *mhas_human_seconds(double seconds, char *out) {
  if (!isfinite(seconds)) {
    (void)snprintf(out, MHAS_HUMAN_LENGTH, "unknown");
  } else if (seconds < 1e-3) {
    (void)snprintf(out, MHAS_HUMAN_LENGTH, "%.0f us", seconds * 1e6);
  } else if (seconds < 1.0) {
    (void)snprintf(out, MHAS_HUMAN_LENGTH, "%.0f ms", seconds * 1e3);
  } else if (seconds < 59.95) {
    (void)snprintf(out, MHAS_HUMAN_LENGTH, "%.1f s", seconds);
  } else if (seconds < 3599.5) {
    const long whole = lround(seconds);
    (void)snprintf(out, MHAS_HUMAN_LENGTH, "%ld min %02ld s", whole / 60, whole % 60);
  } else if (seconds < 48.0 * 3600.0) {
    const long minutes = lround(seconds / 60.0);
    (void)snprintf(out, MHAS_HUMAN_LENGTH, "%ld h %02ld min", minutes / 60, minutes % 60);
  } else {
    (void)snprintf(out, MHAS_HUMAN_LENGTH, "%.1f days", seconds / 86400.0);
  }
  return out;
}
