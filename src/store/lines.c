#include "store/lines.h"

#include <string.h>

bool store_next_line(const char **text, store_line *out) {
  while (**text == '\n') {
    (*text)++;
  }
  if (**text == '\0') {
    return false;
  }
  const char *start = *text;
  const size_t length = strcspn(start, "\n");
  const char *equals = memmem(start, length, " = ", 3);
  *text = start + length;
  *out = (store_line){.key = start, .key_length = length, .value = start + length};
  if (equals != NULL) {
    out->key_length = (size_t)(equals - start);
    out->value = equals + 3;
    out->value_length = length - out->key_length - 3;
  }
  return true;
}

bool store_find_line(const char *text, const store_line *wanted, store_line *out) {
  while (store_next_line(&text, out)) {
    if (out->key_length == wanted->key_length && memcmp(out->key, wanted->key, wanted->key_length) == 0) {
      return true;
    }
  }
  return false;
}

bool store_same_value(const store_line *one, const store_line *other) {
  return one->value_length == other->value_length && memcmp(one->value, other->value, one->value_length) == 0;
}
