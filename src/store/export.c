/* All points of a result file as text: CSV (RFC 4180) or JSON lines, block by block. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mhasweep/store.h"

enum { BLOCK = 512, TEXT_WIDTH = MHAS_REASON_LENGTH + 1 };

typedef struct exporter {
  mhas_reader *reader;
  mhas_export_format format;
  FILE *file;
  int variables;
  double **numbers; /* [variables][BLOCK]; NULL for texts */
  char **texts;     /* [variables][BLOCK][TEXT_WIDTH]; NULL for numbers */
  float *curve;
  mhas_text line; /* that is being put together */
} exporter;

/* ---- values ---- */

/* The shortest of the usual notations that gives the same number back. */
static void append_real(mhas_text *line, double number) {
  char digits[40];
  for (int precision = 15; precision <= 17; precision++) {
    (void)snprintf(digits, sizeof digits, "%.*g", precision, number);
    if (strtod(digits, NULL) == number) {
      break;
    }
  }
  mhas_text_append(line, "%s", digits);
}

static void append_float(mhas_text *line, float number) {
  char digits[40];
  for (int precision = 6; precision <= 9; precision++) {
    (void)snprintf(digits, sizeof digits, "%.*g", precision, (double)number);
    if (strtof(digits, NULL) == number) {
      break;
    }
  }
  mhas_text_append(line, "%s", digits);
}

static const char *word_of(const mhas_variable *variable, double number) {
  return number >= 0.0 && number < (double)variable->word_count ? variable->words[(int)number] : NULL;
}

/* ---- CSV ---- */

static void append_csv_text(mhas_text *line, const char *text) {
  if (text[strcspn(text, ",\"\r\n")] == '\0') {
    mhas_text_append(line, "%s", text);
    return;
  }
  mhas_text_append(line, "\"");
  for (const char *c = text; *c != '\0'; c++) {
    mhas_text_append(line, "%s%c", *c == '"' ? "\"" : "", *c); /* a quote is doubled */
  }
  mhas_text_append(line, "\"");
}

static void append_csv_number(mhas_text *line, const mhas_variable *variable, double number) {
  const char *word = word_of(variable, number);
  if (isnan(number)) {
    return;
  }
  if (word != NULL) {
    append_csv_text(line, word);
  } else if (variable->type == MHAS_REAL) {
    append_real(line, number);
  } else {
    mhas_text_append(line, "%.0f", number);
  }
}

static void csv_header(exporter *e) {
  mhas_text_append(&e->line, "point");
  for (int i = 0; i < e->variables; i++) {
    mhas_text_append(&e->line, ",");
    append_csv_text(&e->line, mhas_reader_variable(e->reader, i)->name);
  }
  mhas_text_append(&e->line, "\n");
}

static void csv_point(exporter *e, int64_t point, int64_t place) {
  mhas_text_append(&e->line, "%" PRId64, point);
  for (int i = 0; i < e->variables; i++) {
    mhas_text_append(&e->line, ",");
    if (e->texts[i] != NULL) {
      append_csv_text(&e->line, e->texts[i] + place * TEXT_WIDTH);
    } else {
      append_csv_number(&e->line, mhas_reader_variable(e->reader, i), e->numbers[i][place]);
    }
  }
  mhas_text_append(&e->line, "\n");
}

/* ---- JSON lines: jansson for strings; it knows no shortest numbers ---- */

static int append_chunk(const char *bytes, size_t length, void *line) {
  mhas_text_append_bytes(line, bytes, length);
  return 0;
}

static void append_json_text(mhas_text *line, const char *text) {
  json_t *string = json_string(text);
  if (string == NULL) { /* not UTF-8: as much as is ASCII */
    mhas_text_append(line, "\"");
    for (const char *c = text; *c != '\0'; c++) {
      mhas_text_append(line, "%c", *c >= ' ' && *c <= '~' && *c != '"' && *c != '\\' ? *c : '?');
    }
    mhas_text_append(line, "\"");
    return;
  }
  if (json_dump_callback(string, append_chunk, line, JSON_ENCODE_ANY) != 0) {
    line->failed = true;
  }
  json_decref(string);
}

static void append_json_number(mhas_text *line, const mhas_variable *variable, double number) {
  const char *word = word_of(variable, number);
  if (!isfinite(number)) { /* JSON has neither NaN nor infinity */
    mhas_text_append(line, "null");
  } else if (word != NULL && variable->type == MHAS_FLAG) {
    mhas_text_append(line, "%s", word);
  } else if (word != NULL) {
    append_json_text(line, word);
  } else if (variable->type == MHAS_REAL) {
    append_real(line, number);
  } else {
    mhas_text_append(line, "%.0f", number);
  }
}

/* The records that this point has: up to the last that any curve has a number in. */
static mhas_code count_records(exporter *e, int64_t point, int64_t *records, mhas_error *error) {
  *records = 0;
  for (int i = 0; i < mhas_reader_curve_count(e->reader); i++) {
    MHAS_TRY(mhas_reader_curve(e->reader, i, point, e->curve, error));
    for (int64_t j = mhas_reader_records(e->reader); j > *records; j--) {
      if (!isnan(e->curve[j - 1])) {
        *records = j;
      }
    }
  }
  return MHAS_OK;
}

static mhas_code append_json_curves(exporter *e, int64_t point, mhas_error *error) {
  int64_t records = 0;
  MHAS_TRY(count_records(e, point, &records, error));
  for (int i = 0; i < mhas_reader_curve_count(e->reader); i++) {
    MHAS_TRY(mhas_reader_curve(e->reader, i, point, e->curve, error));
    mhas_text_append(&e->line, ", \"curve_%s\": [", mhas_reader_curve_name(e->reader, i));
    for (int64_t j = 0; j < records; j++) {
      mhas_text_append(&e->line, "%s", j == 0 ? "" : ", ");
      if (isfinite(e->curve[j])) {
        append_float(&e->line, e->curve[j]);
      } else {
        mhas_text_append(&e->line, "null");
      }
    }
    mhas_text_append(&e->line, "]");
  }
  return MHAS_OK;
}

static mhas_code json_point(exporter *e, int64_t point, int64_t place, mhas_error *error) {
  mhas_text_append(&e->line, "{\"point\": %" PRId64, point);
  for (int i = 0; i < e->variables; i++) {
    const mhas_variable *variable = mhas_reader_variable(e->reader, i);
    mhas_text_append(&e->line, ", ");
    append_json_text(&e->line, variable->name);
    mhas_text_append(&e->line, ": ");
    if (e->texts[i] != NULL) {
      append_json_text(&e->line, e->texts[i] + place * TEXT_WIDTH);
    } else {
      append_json_number(&e->line, variable, e->numbers[i][place]);
    }
  }
  MHAS_TRY(append_json_curves(e, point, error));
  mhas_text_append(&e->line, "}\n");
  return MHAS_OK;
}

/* ---- the whole ---- */

static mhas_code prepare(exporter *e, mhas_error *error) {
  const size_t count = (size_t)e->variables;
  MHAS_TRY(mhas_alloc(&e->numbers, count, sizeof *e->numbers, "a list of variables", error));
  MHAS_TRY(mhas_alloc(&e->texts, count, sizeof *e->texts, "a list of variables", error));
  MHAS_TRY(mhas_alloc(&e->curve, (size_t)mhas_reader_records(e->reader), sizeof *e->curve, "a curve", error));
  for (int i = 0; i < e->variables; i++) {
    if (mhas_reader_variable(e->reader, i)->is_text) {
      MHAS_TRY(mhas_alloc(&e->texts[i], BLOCK, TEXT_WIDTH, "a block of texts", error));
    } else {
      MHAS_TRY(mhas_alloc(&e->numbers[i], BLOCK, sizeof(double), "a block of numbers", error));
    }
  }
  return MHAS_OK;
}

static mhas_code read_block(exporter *e, int64_t first, int64_t count, mhas_error *error) {
  for (int i = 0; i < e->variables; i++) {
    if (e->texts[i] != NULL) {
      MHAS_TRY(mhas_reader_texts(e->reader, i, first, count, TEXT_WIDTH, e->texts[i], error));
    } else {
      MHAS_TRY(mhas_reader_numbers(e->reader, i, first, count, e->numbers[i], error));
    }
  }
  return MHAS_OK;
}

/* Sends the line out and starts the next. */
static mhas_code put_line(exporter *e, mhas_error *error) {
  if (e->line.failed) {
    return mhas_fail(error, MHAS_NO_MEMORY, "out of memory: a line of the export");
  }
  if (fwrite(e->line.data, 1, e->line.length, e->file) != e->line.length) {
    return mhas_fail(error, MHAS_IO, "the export cannot be written: %s", strerror(errno));
  }
  e->line.length = 0;
  return MHAS_OK;
}

static mhas_code export_all(exporter *e, mhas_error *error) {
  const bool csv = e->format == MHAS_EXPORT_CSV;
  MHAS_TRY(prepare(e, error));
  if (csv) {
    csv_header(e);
    MHAS_TRY(put_line(e, error));
  }
  const int64_t points = mhas_reader_points(e->reader);
  for (int64_t first = 0; first < points; first += BLOCK) {
    const int64_t count = points - first < BLOCK ? points - first : BLOCK;
    MHAS_TRY(read_block(e, first, count, error));
    for (int64_t i = 0; i < count; i++) {
      if (csv) {
        csv_point(e, first + i, i);
      } else {
        MHAS_TRY(json_point(e, first + i, i, error));
      }
      MHAS_TRY(put_line(e, error));
    }
  }
  if (fflush(e->file) != 0) {
    return mhas_fail(error, MHAS_IO, "the export cannot be written: %s", strerror(errno));
  }
  return MHAS_OK;
}

mhas_code mhas_export(mhas_reader *reader, mhas_export_format format, void *file, mhas_error *error) {
  exporter e = {.reader = reader, .format = format, .file = file, .variables = mhas_reader_variable_count(reader)};
  const mhas_code code = export_all(&e, error);
  for (int i = 0; i < e.variables; i++) {
    mhas_free(e.numbers == NULL ? NULL : e.numbers[i]);
    mhas_free(e.texts == NULL ? NULL : e.texts[i]);
  }
  mhas_free(e.numbers);
  mhas_free(e.texts);
  mhas_free(e.curve);
  mhas_text_free(&e.line);
  return code;
}
