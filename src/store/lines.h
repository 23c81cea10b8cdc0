/* The "key = value" lines in which a file keeps the meaning of its sweep (mhas_sweep_canonical). */
#ifndef MHASWEEP_STORE_LINES_H
#define MHASWEEP_STORE_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Parts of a text that is somebody else's; not NUL-terminated. */
typedef struct store_line {
  const char *key, *value;
  size_t key_length, value_length;
} store_line;

/* Takes the next line off *text; false at the end. */
bool store_next_line(const char **text, store_line *out);

/* The line of `text` with the same key as `wanted`; false if there is none. */
bool store_find_line(const char *text, const store_line *wanted, store_line *out);

/* Do two lines say the same? */
bool store_same_value(const store_line *one, const store_line *other);

#endif
