/*
 * A YAML text as a plain tree of scalars, lists and maps that know their places.
 *
 * libfyaml reads the text, event by event; what a sweep file has no use for (aliases, tags, several documents, deep
 * nesting) is refused here, so that the rest of the room sees only plain data.
 */
#ifndef MHASWEEP_SWEEP_TREE_H
#define MHASWEEP_SWEEP_TREE_H

#include "sweep/complaints.h"

/* Memory of many small pieces that are freed together. Start with {0}. */
typedef struct sweep_arena {
  struct sweep_arena_block *block;
} sweep_arena;

void *sweep_arena_take(sweep_arena *arena, size_t bytes); /* zeroed; NULL if memory ran out */
void sweep_arena_free(sweep_arena *arena);

typedef enum sweep_kind { SWEEP_SCALAR, SWEEP_LIST, SWEEP_MAP } sweep_kind;

typedef struct sweep_node sweep_node;
struct sweep_node {
  sweep_kind kind;
  bool quoted;  /* a scalar in quotes or a text block: words, whatever it looks like */
  bool refused; /* was complained about already: say nothing more */
  sweep_place place;
  const char *text; /* of a scalar, NUL-terminated; "" for the others */
  sweep_node *key;  /* if this is an entry of a map */
  sweep_node *first, *last, *next;
  int64_t count; /* of entries */
};

/*
 * Reads `length` bytes. NULL if that is not possible (complained about). Faults that leave the rest readable
 * (duplicate keys, tags ...) are complained about too, but the tree is there.
 */
sweep_node *sweep_tree_read(sweep_arena *arena, int source, const char *text, size_t length,
                            sweep_complaints *complaints);

/* The value of `key` in a map, NULL if there is none (or the node is no map, or NULL). */
sweep_node *sweep_node_find(const sweep_node *map, const char *key);

/* Puts `value` under `key` into a map, in place of an entry that may be there. False if memory ran out. */
bool sweep_node_put(sweep_arena *arena, sweep_node *map, const char *key, sweep_node *value);

/* Nothing, ~ or null stand there. */
bool sweep_node_is_null(const sweep_node *node);

/* What stands there, short enough for a message: 64, "64", a list, a map. */
typedef struct sweep_shown {
  char text[64];
} sweep_shown;
sweep_shown sweep_show(const sweep_node *node);

#endif
