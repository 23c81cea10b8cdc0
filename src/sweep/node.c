#include <stdio.h>
#include <string.h>

#include "sweep/tree.h"

sweep_node *sweep_node_find(const sweep_node *map, const char *key) {
  if (map == NULL || map->kind != SWEEP_MAP) {
    return NULL;
  }
  for (sweep_node *entry = map->first; entry != NULL; entry = entry->next) {
    if (strcmp(entry->key->text, key) == 0) {
      return entry;
    }
  }
  return NULL;
}

bool sweep_node_put(sweep_arena *arena, sweep_node *map, const char *key, sweep_node *value) {
  sweep_node *name = sweep_arena_take(arena, sizeof *name);
  char *text = sweep_arena_take(arena, strlen(key) + 1);
  if (name == NULL || text == NULL) {
    return false;
  }
  *name = (sweep_node){.kind = SWEEP_SCALAR, .place = value->place, .text = strcpy(text, key)};
  value->key = name;
  sweep_node *before = NULL;
  for (sweep_node *entry = map->first; entry != NULL; before = entry, entry = entry->next) {
    if (strcmp(entry->key->text, key) == 0) {
      value->next = entry->next;
      *(before == NULL ? &map->first : &before->next) = value;
      map->last = map->last == entry ? value : map->last;
      return true;
    }
  }
  value->next = NULL;
  *(map->last == NULL ? &map->first : &map->last->next) = value;
  map->last = value;
  map->count++;
  return true;
}

bool sweep_node_is_null(const sweep_node *node) {
  static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
  if (node->kind != SWEEP_SCALAR || node->quoted) {
    return false;
  }
  for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++) {
    if (strcmp(node->text, nulls[i]) == 0) {
      return true;
    }
  }
  return false;
}

sweep_shown sweep_show(const sweep_node *node) {
  sweep_shown shown = {""};
  if (node->kind != SWEEP_SCALAR) {
    (void)snprintf(shown.text, sizeof shown.text, "%s", node->kind == SWEEP_LIST ? "a list" : "a map");
    return shown;
  }
  if (sweep_node_is_null(node)) {
    (void)snprintf(shown.text, sizeof shown.text, "%s", node->text[0] == '\0' ? "nothing" : node->text);
    return shown;
  }
  enum { MOST = 40 };
  size_t length = strlen(node->text);
  const bool cut = length > MOST;
  if (cut) {
    length = MOST;
    while (length > 0 && ((unsigned char)node->text[length] & 0xC0) == 0x80) {
      length--; /* not in the middle of a UTF-8 character */
    }
  }
  const char *quote = node->quoted ? "\"" : "";
  (void)snprintf(shown.text, sizeof shown.text, "%s%.*s%s%s", quote, (int)length, node->text, cut ? "..." : "", quote);
  return shown;
}
