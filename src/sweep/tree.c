#include "sweep/tree.h"

#include <libfyaml.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MOST = 16 };

/* A tree that grows by events. */
typedef struct builder {
  sweep_arena *arena;
  sweep_complaints *complaints;
  int source;
  sweep_node *root;
  sweep_node *open[DEPTH_MOST]; /* lists and maps that have not ended */
  sweep_node *key[DEPTH_MOST];  /* the key that waits for its value, in each open map */
  int depth;
  int documents;
} builder;

/* ---- before libfyaml: is it text at all? ---- */

/* Bytes of the UTF-8 character at `at`, 0 if there is none (RFC 3629: no overlong forms, no surrogates). */
static size_t utf8_length(const unsigned char *at, size_t left) {
  const unsigned char lead = at[0];
  const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length > left) {
    return 0;
  }
  for (size_t i = 1; i < length; i++) {
    if ((at[i] & 0xC0) != 0x80) {
      return 0;
    }
  }
  if ((lead == 0xE0 && at[1] < 0xA0) || (lead == 0xED && at[1] > 0x9F) || (lead == 0xF0 && at[1] < 0x90) ||
      (lead == 0xF4 && at[1] > 0x8F)) {
    return 0;
  }
  return length;
}

static bool check_text(const builder *b, const char *text, size_t length) {
  const unsigned char *bytes = (const unsigned char *)text;
  sweep_place place = {b->source, 1, 1};
  for (size_t i = 0; i < length;) {
    const unsigned char byte = bytes[i];
    const size_t step = utf8_length(bytes + i, length - i);
    if (step == 0) {
      sweep_complain(b->complaints, place, "byte 0x%02X is not UTF-8 text; a sweep file is YAML in UTF-8", byte);
      return false;
    }
    if ((byte < ' ' && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F) {
      sweep_complain(b->complaints, place, "byte 0x%02X has no place in a text; is this a binary file?", byte);
      return false;
    }
    place.column++;
    if (byte == '\n') {
      place.line++;
      place.column = 1;
    }
    i += step;
  }
  return true;
}

/* ---- from events to nodes ---- */

static sweep_place place_of(const builder *b, const struct fy_mark *mark) {
  if (mark != NULL) {
    return (sweep_place){b->source, mark->line + 1, mark->column + 1};
  }
  /* An empty value has no place of its own: take its key's, or its list's. */
  const int top = b->depth - 1;
  if (top >= 0) {
    return b->key[top] != NULL ? b->key[top]->place : b->open[top]->place;
  }
  return (sweep_place){b->source, 1, 1};
}

static sweep_node *new_node(builder *b, sweep_kind kind, sweep_place place) {
  sweep_node *node = sweep_arena_take(b->arena, sizeof *node);
  if (node == NULL) {
    b->complaints->no_memory = true;
    return NULL;
  }
  node->kind = kind;
  node->place = place;
  node->text = "";
  return node;
}

/* Hangs a finished or just opened node where it belongs. */
static void attach(builder *b, sweep_node *node) {
  if (b->depth == 0) {
    b->root = node;
    return;
  }
  const int top = b->depth - 1;
  sweep_node *parent = b->open[top];
  if (parent->kind == SWEEP_MAP) {
    if (b->key[top] == NULL) {
      if (node->kind != SWEEP_SCALAR) {
        sweep_complain(b->complaints, node->place, "a key must be a word, this is %s", sweep_show(node).text);
        node->refused = true;
      }
      b->key[top] = node;
      return;
    }
    node->key = b->key[top];
    node->refused = node->refused || node->key->refused;
    b->key[top] = NULL;
  }
  *(parent->last == NULL ? &parent->first : &parent->last->next) = node;
  parent->last = node;
  parent->count++;
}

static void refuse_extras(const builder *b, sweep_node *node, const struct fy_token *anchor,
                          const struct fy_token *tag) {
  if (anchor != NULL) {
    sweep_complain(b->complaints, node->place, "anchors and aliases are not used in sweep files; write the value out");
    node->refused = true;
  } else if (tag != NULL) {
    sweep_complain(b->complaints, node->place, "tags (!...) are not used in sweep files; write the plain value");
    node->refused = true;
  }
}

static bool add_scalar(builder *b, struct fy_event *event) {
  sweep_node *node = new_node(b, SWEEP_SCALAR, place_of(b, fy_event_start_mark(event)));
  if (node == NULL) {
    return false;
  }
  size_t length = 0;
  const char *text = event->scalar.value == NULL ? NULL : fy_token_get_text(event->scalar.value, &length);
  if (text != NULL && length > 0) {
    char *copy = sweep_arena_take(b->arena, length + 1);
    if (copy == NULL) {
      b->complaints->no_memory = true;
      return false;
    }
    node->text = memcpy(copy, text, length);
  }
  if (event->scalar.value != NULL) {
    const enum fy_scalar_style style = fy_scalar_token_get_style(event->scalar.value);
    node->quoted = style != FYSS_PLAIN;
    node->place.column -= style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED; /* libfyaml points behind it */
  }
  refuse_extras(b, node, event->scalar.anchor, event->scalar.tag);
  if (strlen(node->text) != length) {
    sweep_complain(b->complaints, node->place, "a zero byte (\\0) has no place in a text");
    node->refused = true;
  }
  attach(b, node);
  return true;
}

static bool open_node(builder *b, sweep_kind kind, struct fy_event *event) {
  sweep_node *node = new_node(b, kind, place_of(b, fy_event_start_mark(event)));
  if (node == NULL) {
    return false;
  }
  if (b->depth == DEPTH_MOST) {
    sweep_complain(b->complaints, node->place, "nested more than %d levels deep; a sweep file needs 3", DEPTH_MOST);
    return false;
  }
  const bool list = kind == SWEEP_LIST;
  refuse_extras(b, node, list ? event->sequence_start.anchor : event->mapping_start.anchor,
                list ? event->sequence_start.tag : event->mapping_start.tag);
  attach(b, node);
  b->open[b->depth] = node;
  b->key[b->depth] = NULL;
  b->depth++;
  return true;
}

static int by_key(const void *left, const void *right) {
  const sweep_node *a = (*(sweep_node *const *)left)->key;
  const sweep_node *b = (*(sweep_node *const *)right)->key;
  const int order = strcmp(a->text, b->text);
  if (order != 0) {
    return order;
  }
  if (a->place.line != b->place.line) {
    return a->place.line < b->place.line ? -1 : 1;
  }
  return a->place.column < b->place.column ? -1 : a->place.column > b->place.column;
}

static bool check_duplicate_keys(const builder *b, const sweep_node *map) {
  if (map->count < 2) {
    return true;
  }
  sweep_node **entries = malloc((size_t)map->count * sizeof *entries);
  if (entries == NULL) {
    b->complaints->no_memory = true;
    return false;
  }
  int64_t count = 0;
  for (sweep_node *entry = map->first; entry != NULL; entry = entry->next) {
    entries[count++] = entry;
  }
  qsort(entries, (size_t)count, sizeof(sweep_node *), by_key);
  for (int64_t i = 1; i < count; i++) {
    if (strcmp(entries[i]->key->text, entries[i - 1]->key->text) == 0 && !entries[i]->key->refused) {
      sweep_complain(b->complaints, entries[i]->key->place, "%s is given twice (first in line %d); keep one",
                     sweep_show(entries[i]->key).text, entries[i - 1]->key->place.line);
    }
  }
  free(entries);
  return true;
}

static bool take_event(builder *b, struct fy_event *event) {
  switch (event->type) {
    case FYET_DOCUMENT_START:
      b->documents++;
      if (b->documents > 1) {
        sweep_complain(b->complaints, place_of(b, fy_event_start_mark(event)),
                       "a second YAML document starts here; a sweep file is one document");
        return false;
      }
      return true;
    case FYET_SCALAR: return add_scalar(b, event);
    case FYET_ALIAS: {
      sweep_node *node = new_node(b, SWEEP_SCALAR, place_of(b, fy_event_start_mark(event)));
      if (node == NULL) {
        return false;
      }
      refuse_extras(b, node, event->alias.anchor, NULL);
      attach(b, node);
      return true;
    }
    case FYET_SEQUENCE_START: return open_node(b, SWEEP_LIST, event);
    case FYET_MAPPING_START: return open_node(b, SWEEP_MAP, event);
    case FYET_SEQUENCE_END: b->depth--; return true;
    case FYET_MAPPING_END: b->depth--; return check_duplicate_keys(b, b->open[b->depth]);
    default: return true;
  }
}

/* ---- libfyaml ---- */

/* Diagnostics are collected by libfyaml; what it would print on its own goes nowhere. */
static void discard(struct fy_diag *diag, void *user, const char *buffer, size_t length) {
  (void)diag;
  (void)user;
  (void)buffer;
  (void)length;
}

static void complain_of_syntax(const builder *b, struct fy_diag *diag) {
  void *at = NULL;
  const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &at);
  if (error == NULL) {
    sweep_complain(b->complaints, (sweep_place){b->source, 1, 1}, "this is not YAML that can be read");
    return;
  }
  const sweep_place place = {b->source, error->line > 0 ? error->line : 1, error->column > 0 ? error->column : 1};
  const char *advice = strstr(error->msg, "tab") != NULL    ? "; indent with spaces"
                       : strstr(error->msg, "flow") != NULL ? "; are all brackets [ ] { } closed, on indented lines?"
                       : strstr(error->msg, "nested") != NULL || strstr(error->msg, "plain") != NULL
                           ? "; texts with : # @ and the like need quotes"
                           : "";
  sweep_complain(b->complaints, place, "not valid YAML: %s%s", error->msg, advice);
}

static bool run_parser(builder *b, struct fy_parser *parser, struct fy_diag *diag) {
  struct fy_event *event = NULL;
  while ((event = fy_parser_parse(parser)) != NULL) {
    const bool good = take_event(b, event);
    fy_parser_event_free(parser, event);
    if (!good) {
      return false;
    }
  }
  if (fy_parser_get_stream_error(parser) || fy_diag_got_error(diag)) {
    complain_of_syntax(b, diag);
    return false;
  }
  return true;
}

static void complain_of_nothing(const builder *b) {
  sweep_complain(
      b->complaints, (sweep_place){b->source, 1, 1},
      b->source == 0 ? "the file is empty; a sweep file begins with experiment: NAME" : "no value; write NAME=VALUE");
}

sweep_node *sweep_tree_read(sweep_arena *arena, int source, const char *text, size_t length,
                            sweep_complaints *complaints) {
  builder b = {.arena = arena, .complaints = complaints, .source = source};
  sweep_node *root = NULL;
  struct fy_parser *parser = NULL;
  if (!check_text(&b, text, length)) {
    return NULL;
  }
  if (length == 0) {
    complain_of_nothing(&b);
    return NULL;
  }
  struct fy_diag_cfg diag_options;
  fy_diag_cfg_default(&diag_options);
  diag_options.fp = NULL;
  diag_options.output_fn = discard;
  diag_options.colorize = false;
  struct fy_diag *diag = fy_diag_create(&diag_options);
  if (diag == NULL) {
    complaints->no_memory = true;
    return NULL;
  }
  fy_diag_set_collect_errors(diag, true);
  const struct fy_parse_cfg options = {.search_path = "", .flags = FYPCF_DEFAULT_PARSE, .diag = diag};
  parser = fy_parser_create(&options);
  if (parser == NULL || fy_parser_set_string(parser, text, length) != 0) {
    complaints->no_memory = true;
    goto done;
  }
  if (!run_parser(&b, parser, diag)) {
    goto done;
  }
  if (b.root == NULL) {
    complain_of_nothing(&b);
  }
  root = b.root;
done:
  if (parser != NULL) {
    fy_parser_destroy(parser);
  }
  fy_diag_destroy(diag);
  return root;
}
