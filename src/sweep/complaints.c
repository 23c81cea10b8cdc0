#include "sweep/complaints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_MOST = 10000, SHOWN_MOST = 100, LISTED_MOST = 12, NAME_MOST = 64 };

static bool make_room(sweep_complaints *complaints) {
  if (complaints->count < complaints->capacity) {
    return true;
  }
  const size_t capacity = complaints->capacity == 0 ? 16 : complaints->capacity * 2;
  sweep_complaint *list = realloc(complaints->list, capacity * sizeof *list);
  if (list == NULL) {
    complaints->no_memory = true;
    return false;
  }
  complaints->list = list;
  complaints->capacity = capacity;
  return true;
}

void sweep_complain(sweep_complaints *complaints, sweep_place place, const char *format, ...) {
  complaints->total++;
  if (complaints->count == KEPT_MOST || !make_room(complaints)) {
    return;
  }
  char text[MHAS_ERROR_LENGTH];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *c = text; *c != '\0'; c++) {
    *c = (unsigned char)*c < ' ' ? ' ' : *c; /* a complaint is one line */
  }
  char *copy = strdup(text);
  if (copy == NULL) {
    complaints->no_memory = true;
    return;
  }
  complaints->list[complaints->count] = (sweep_complaint){place, complaints->count, copy};
  complaints->count++;
}

static int by_place(const void *left, const void *right) {
  const sweep_complaint *a = left;
  const sweep_complaint *b = right;
  if (a->place.source != b->place.source) {
    return a->place.source < b->place.source ? -1 : 1;
  }
  if (a->place.line != b->place.line) {
    return a->place.line < b->place.line ? -1 : 1;
  }
  if (a->place.column != b->place.column) {
    return a->place.column < b->place.column ? -1 : 1;
  }
  return a->order < b->order ? -1 : 1;
}

void sweep_complaints_report(sweep_complaints *complaints, mhas_text *report) {
  if (complaints->count > 0) {
    qsort(complaints->list, complaints->count, sizeof *complaints->list, by_place);
  }
  const size_t shown = complaints->count < SHOWN_MOST ? complaints->count : SHOWN_MOST;
  for (size_t i = 0; i < shown; i++) {
    const sweep_complaint *complaint = &complaints->list[i];
    if (complaint->place.source == 0) {
      mhas_text_append(report, "%s:%d:%d: %s\n", complaints->name, complaint->place.line, complaint->place.column,
                       complaint->text);
    } else {
      mhas_text_append(report, "--set %.200s: %s\n", complaints->overrides[complaint->place.source - 1],
                       complaint->text);
    }
  }
  if (complaints->total > shown) {
    mhas_text_append(report, "%s: ... and %zu more\n", complaints->name, complaints->total - shown);
  }
  if (complaints->no_memory) {
    mhas_text_append(report, "%s: out of memory while reading\n", complaints->name);
  }
}

void sweep_complaints_free(sweep_complaints *complaints) {
  for (size_t i = 0; i < complaints->count; i++) {
    free(complaints->list[i].text);
  }
  free(complaints->list);
  *complaints = (sweep_complaints){0};
}

sweep_hint sweep_hint_for(const char *word, const char *const *names, size_t count) {
  sweep_hint hint = {""};
  const bool comparable = word[0] != '\0' && strlen(word) < NAME_MOST;
  const char *nearest = comparable ? mhas_nearest_name(word, names, count) : NULL;
  if (nearest != NULL) {
    (void)snprintf(hint.text, sizeof hint.text, "; did you mean %s?", nearest);
    return hint;
  }
  if (count > LISTED_MOST) {
    return hint;
  }
  size_t used = 0;
  for (size_t i = 0; i < count && used < sizeof hint.text; i++) {
    const char *before = i > 0 ? ", " : count == 1 ? "; it can only be " : "; it is one of: ";
    const int length = snprintf(hint.text + used, sizeof hint.text - used, "%s%s", before, names[i]);
    used += length > 0 ? (size_t)length : 0;
  }
  return hint;
}
