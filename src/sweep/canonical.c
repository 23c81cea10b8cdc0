/* The meaning of a sweep in one way of writing it, and the hash of that. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweep/inside.h"

static void write_definition(const mhas_sweep *sweep, int parameter, mhas_text *text) {
  const sweep_definition *definition = &sweep->definition[parameter];
  const mhas_parameter *entry = &sweep->experiment->parameters[parameter];
  if (definition->form == SWEEP_EXPRESSION) {
    mhas_text_append(text, "\"= %s\"", definition->expression->text);
  } else if (definition->form == SWEEP_RANGE && (definition->count > 1 || definition->range.continuous)) {
    sweep_range_write(&definition->range, text);
  } else if (definition->count == 1) { /* [4] and {from: 4, to: 4} say no more than 4 */
    mhas_value_format(entry, sweep_definition_value(definition, 0), text);
  } else {
    for (int64_t i = 0; i < definition->count; i++) {
      mhas_text_append(text, "%s", i == 0 ? "[" : ", ");
      mhas_value_format(entry, definition->list[i], text);
    }
    mhas_text_append(text, "]");
  }
}

static void write_zip(const mhas_sweep *sweep, mhas_text *text) {
  const char *between = "";
  mhas_text_append(text, "[");
  for (int d = 0; d < sweep->digit_count; d++) {
    const sweep_digit *digit = &sweep->digit[d];
    for (int m = 0; m < digit->member_count && digit->member_count > 1; m++) {
      mhas_text_append(text, "%s%s", m == 0 ? between : ", ", m == 0 ? "[" : "");
      mhas_text_append(text, "%s", sweep->experiment->parameters[digit->member[m]].name);
    }
    if (digit->member_count > 1) {
      mhas_text_append(text, "]");
      between = ", ";
    }
  }
  mhas_text_append(text, "]");
}

static void write_store(const mhas_sweep *sweep, mhas_text *text) {
  const char *before = "[";
  for (size_t i = 0; i < SWEEP_STORE_NAMES; i++) {
    if ((sweep->store >> i & 1U) != 0) {
      mhas_text_append(text, "%s%s", before, sweep_store_names[i]);
      before = ", ";
    }
  }
  mhas_text_append(text, sweep->store == 0 ? "[]" : "]");
}

static int by_text(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

/* The lines of `text` in alphabetical order into `sorted`. */
static bool sort_lines(mhas_text *text, mhas_text *sorted) {
  size_t count = 0;
  for (size_t i = 0; i < text->length; i++) {
    count += text->data[i] == '\n';
  }
  char **lines = calloc(count + 1, sizeof *lines);
  if (lines == NULL) {
    return false;
  }
  char *rest = text->data;
  for (size_t i = 0; i < count; i++) {
    lines[i] = rest;
    rest = strchr(rest, '\n');
    *rest++ = '\0';
  }
  qsort(lines, count, sizeof(char *), by_text);
  for (size_t i = 0; i < count; i++) {
    mhas_text_append(sorted, "%s\n", lines[i]);
  }
  free(lines);
  return !sorted->failed;
}

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const char *text) {
  uint64_t hash = UINT64_C(14695981039346656037);
  for (; *text != '\0'; text++) {
    hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
  }
  return hash;
}

bool sweep_write_canonical(mhas_sweep *sweep) {
  mhas_text text = {0};
  mhas_text_append(&text, "experiment = %s\nnumerics = %d\nseed = %" PRIu64 "\nreplicates = %" PRId64 "\n",
                   sweep->experiment->name, sweep->experiment->numerics, sweep->seed, sweep->replicates);
  mhas_text_append(&text, "where = %s\n", sweep->where == NULL ? "true" : sweep->where->text);
  mhas_text_append(&text, "sample = ");
  if (sweep->method == SWEEP_GRID) {
    mhas_text_append(&text, "none\n");
  } else {
    mhas_text_append(&text, "{method: %s, count: %" PRId64 "}\n", sweep_method_names[sweep->method - SWEEP_SOBOL],
                     sweep->sample_count);
  }
  for (int p = 0; p < sweep->experiment->parameter_count; p++) {
    mhas_text_append(&text, "parameters.%s = ", sweep->experiment->parameters[p].name);
    write_definition(sweep, p, &text);
    mhas_text_append(&text, "\n");
  }
  mhas_text_append(&text, "search = ");
  sweep_write_search(sweep, &text);
  mhas_text_append(&text, "\nstore = ");
  write_store(sweep, &text);
  mhas_text_append(&text, "\nzip = ");
  write_zip(sweep, &text);
  mhas_text_append(&text, "\n");
  const bool good = !text.failed && sort_lines(&text, &sweep->canonical);
  mhas_text_free(&text);
  if (good) {
    (void)snprintf(sweep->hash, sizeof sweep->hash, "%016" PRIx64, hash_of(mhas_text_string(&sweep->canonical)));
  }
  return good;
}
