/*
 * A hash table over the rows of an older file. Each parameter of a row is one 64-bit word; of those that are the same
 * in all rows, which most are, only that one word is kept.
 */
#include "store/index.h"

#include <string.h>

#include "store/hdf.h"
#include "store/layout.h"
#include "store/open.h"

enum { BLOCK = 4096, TEXT_BYTES = MHAS_TEXT_MOST + 1 };

typedef struct key {
  int64_t *words; /* [points]; NULL: `only` is the word of all rows */
  int64_t only;
  char (*texts)[TEXT_BYTES]; /* of a MHAS_TEXT: those that occur; a word is a place among them */
  int64_t text_count, text_room;
} key;

struct store_index {
  const mhas_experiment *experiment;
  key *keys; /* of the parameters, then of the replicate */
  int count;
  int64_t *slots; /* [mask + 1] row + 1; 0: free */
  uint64_t mask;
};

/* ---- a value as a word ---- */

enum { NO_WORD = -1 }; /* of a choice or a text that does not occur; equal to none that does */

static int64_t word_of_real(double real) {
  int64_t word = 0;
  real = real == 0.0 ? 0.0 : real; /* -0 */
  memcpy(&word, &real, sizeof word);
  return word;
}

static int64_t find_text(const key *k, const char *text, int64_t guess) {
  if (guess >= 0 && guess < k->text_count && strcmp(k->texts[guess], text) == 0) {
    return guess;
  }
  for (int64_t i = 0; i < k->text_count; i++) {
    if (strcmp(k->texts[i], text) == 0) {
      return i;
    }
  }
  return NO_WORD;
}

static int64_t word_of(const store_index *index, int place, mhas_value value) {
  switch (index->experiment->parameters[place].type) {
    case MHAS_REAL: return word_of_real(value.real);
    case MHAS_TEXT: return find_text(&index->keys[place], value.text, 0);
    default: return value.integer;
  }
}

static mhas_code add_text(key *k, const char *text, int64_t *word, mhas_error *error) {
  *word = find_text(k, text, *word);
  if (*word != NO_WORD) {
    return MHAS_OK;
  }
  if (k->text_count == k->text_room) {
    const int64_t room = 2 * k->text_room + 16;
    char(*more)[TEXT_BYTES] = NULL;
    MHAS_TRY(mhas_alloc(&more, (size_t)room, sizeof *more, "the texts among the parameters", error));
    if (k->texts != NULL) {
      memcpy(more, k->texts, (size_t)k->text_count * sizeof *more);
    }
    mhas_free(k->texts);
    k->texts = more;
    k->text_room = room;
  }
  (void)strncpy(k->texts[k->text_count], text, TEXT_BYTES - 1);
  *word = k->text_count++;
  return MHAS_OK;
}

/* ---- the words of a column ---- */

/* The places of the file's words of a choice among the words of today. */
static mhas_code map_choices(hid_t dataset, const char *path, const mhas_parameter *parameter, int64_t map[INT8_MAX],
                             mhas_error *error) {
  static const char *const flags[] = {"false", "true", NULL};
  const char *const *words = parameter->type == MHAS_FLAG ? flags : parameter->choices;
  for (int i = 0; i < INT8_MAX; i++) {
    map[i] = NO_WORD;
  }
  mhas_text meanings = {0};
  if (!store_read_text(dataset, "flag_meanings", &meanings)) {
    const bool no_memory = meanings.failed;
    mhas_text_free(&meanings);
    return no_memory ? mhas_fail(error, MHAS_NO_MEMORY, "out of memory: the words of %s", parameter->name)
                     : mhas_fail(error, MHAS_IO, "%s: is damaged: the words of %s are missing", path, parameter->name);
  }
  char *rest = NULL;
  int place = 0;
  for (char *word = strtok_r(meanings.data, " ", &rest); word != NULL && place < INT8_MAX;
       word = strtok_r(NULL, " ", &rest), place++) {
    for (int i = 0; words[i] != NULL; i++) {
      map[place] = strcmp(words[i], word) == 0 ? i : map[place];
    }
  }
  mhas_text_free(&meanings);
  return MHAS_OK;
}

static mhas_code read_numbers(hid_t dataset, const char *path, const mhas_parameter *parameter, int64_t points,
                              int64_t *words, mhas_error *error) {
  const bool is_real = parameter->type == MHAS_REAL;
  if (H5Dread(dataset, is_real ? H5T_NATIVE_DOUBLE : H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, words) < 0) {
    return store_hdf5_error(error, path, "the parameter %s cannot be read", parameter->name);
  }
  if (is_real) {
    for (int64_t i = 0; i < points; i++) {
      double real = 0.0;
      memcpy(&real, &words[i], sizeof real);
      words[i] = word_of_real(real);
    }
  }
  if (parameter->type == MHAS_CHOICE || parameter->type == MHAS_FLAG) {
    int64_t map[INT8_MAX];
    MHAS_TRY(map_choices(dataset, path, parameter, map, error));
    for (int64_t i = 0; i < points; i++) {
      words[i] = words[i] >= 0 && words[i] < INT8_MAX ? map[words[i]] : NO_WORD;
    }
  }
  return MHAS_OK;
}

/* `count` texts from row `first` on, each NUL-terminated in TEXT_BYTES. */
static bool read_text_block(hid_t dataset, hid_t type, int64_t first, int64_t count, int64_t points, char *out) {
  const hsize_t start = (hsize_t)first;
  const hsize_t extent = (hsize_t)count;
  const hsize_t whole = (hsize_t)points;
  const hid_t memory = H5Screate_simple(1, &extent, NULL);
  const hid_t space = H5Screate_simple(1, &whole, NULL);
  const bool read = memory >= 0 && space >= 0 &&
                    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &extent, NULL) >= 0 &&
                    H5Dread(dataset, type, memory, space, H5P_DEFAULT, out) >= 0;
  store_release(space);
  store_release(memory);
  return read;
}

static mhas_code read_texts(hid_t dataset, const char *path, const char *name, key *k, int64_t points, int64_t *words,
                            mhas_error *error) {
  char *block = NULL;
  MHAS_TRY(mhas_alloc(&block, BLOCK, TEXT_BYTES, "a block of texts", error));
  const hid_t stored = H5Dget_type(dataset);
  const hid_t type = stored < 0 ? H5I_INVALID_HID : H5Tcopy(stored); /* the same character set */
  const bool usable = type >= 0 && H5Tis_variable_str(type) == 0 && H5Tset_size(type, TEXT_BYTES) >= 0 &&
                      H5Tset_strpad(type, H5T_STR_NULLTERM) >= 0;
  mhas_code code = MHAS_OK;
  int64_t word = 0;
  for (int64_t first = 0; first < points && code == MHAS_OK; first += BLOCK) {
    const int64_t count = points - first < BLOCK ? points - first : BLOCK;
    if (!usable || !read_text_block(dataset, type, first, count, points, block)) {
      code = store_hdf5_error(error, path, "the parameter %s cannot be read", name);
    }
    for (int64_t i = 0; i < count && code == MHAS_OK; i++) {
      code = add_text(k, block + i * TEXT_BYTES, &word, error);
      words[first + i] = word;
    }
  }
  store_release(type);
  store_release(stored);
  mhas_free(block);
  return code;
}

static bool has_class(hid_t dataset, mhas_type type) {
  const hid_t stored = H5Dget_type(dataset);
  const H5T_class_t class = stored < 0 ? H5T_NO_CLASS : H5Tget_class(stored);
  store_release(stored);
  return class == (type == MHAS_REAL ? H5T_FLOAT : type == MHAS_TEXT ? H5T_STRING : H5T_INTEGER);
}

static mhas_code read_column(hid_t file, const char *path, const mhas_parameter *parameter, key *k, int64_t points,
                             int64_t *words, mhas_error *error) {
  store_dataset dataset;
  MHAS_TRY(store_open_dataset(file, path, parameter->name, &dataset, error));
  mhas_code code = MHAS_OK;
  if (dataset.rank != 1 || dataset.shape[0] != (hsize_t)points || !has_class(dataset.id, parameter->type)) {
    code = mhas_fail(error, MHAS_USAGE, "its parameter %s is of another kind than today's", parameter->name);
  } else if (parameter->type == MHAS_TEXT) {
    code = read_texts(dataset.id, path, parameter->name, k, points, words, error);
  } else {
    code = read_numbers(dataset.id, path, parameter, points, words, error);
  }
  store_release(dataset.id);
  return code;
}

/* What a parameter that the file does not have was: as the file's sweep says today. */
static mhas_code recompute_column(const store_index *index, int place, mhas_sweep *older, int64_t points,
                                  int64_t *words, mhas_error *error) {
  const mhas_parameter *parameter = &index->experiment->parameters[place];
  mhas_rows *rows = NULL;
  mhas_value *values = NULL;
  mhas_code code = older == NULL ? MHAS_USAGE : mhas_rows_create(older, &rows, error);
  if (code == MHAS_NO_MEMORY) {
    return code;
  }
  if (code != MHAS_OK || mhas_rows_count(rows) != points) {
    mhas_rows_destroy(rows);
    return mhas_fail(error, MHAS_USAGE, "it has no parameter %s", parameter->name);
  }
  code = mhas_alloc(&values, (size_t)index->experiment->parameter_count, sizeof *values, "a point", error);
  int64_t word = 0;
  for (int64_t i = 0; i < points && code == MHAS_OK; i++) {
    int64_t replicate = 0;
    bool included = true;
    words[i] = NO_WORD;
    if (mhas_sweep_point(older, mhas_rows_grid_index(rows, i), values, &replicate, &included, NULL) != MHAS_OK) {
      continue; /* a point that failed */
    }
    if (parameter->type == MHAS_TEXT) {
      code = add_text(&index->keys[place], values[place].text, &word, error);
    }
    words[i] = parameter->type == MHAS_TEXT ? word : word_of(index, place, values[place]);
  }
  mhas_free(values);
  mhas_rows_destroy(rows);
  return code;
}

/* ---- the table ---- */

static bool is_constant(const int64_t *words, int64_t points) {
  for (int64_t i = 1; i < points; i++) {
    if (words[i] != words[0]) {
      return false;
    }
  }
  return true;
}

static mhas_code add_key(store_index *index, hid_t file, const char *path, int place, mhas_sweep *older, int64_t points,
                         mhas_error *error) {
  static const mhas_parameter replicate = {.name = STORE_REPLICATE, .type = MHAS_INTEGER};
  const bool is_replicate = place == index->experiment->parameter_count;
  const mhas_parameter *parameter = is_replicate ? &replicate : &index->experiment->parameters[place];
  key *k = &index->keys[place];
  MHAS_TRY(mhas_alloc(&k->words, (size_t)points, sizeof *k->words, "the parameters of an older file", error));
  if (H5Lexists(file, parameter->name, H5P_DEFAULT) > 0) {
    MHAS_TRY(read_column(file, path, parameter, k, points, k->words, error));
  } else if (is_replicate) {
    return mhas_fail(error, MHAS_IO, "%s: is damaged: it has no %s", path, STORE_REPLICATE);
  } else {
    MHAS_TRY(recompute_column(index, place, older, points, k->words, error));
  }
  if (is_constant(k->words, points)) {
    k->only = points == 0 ? 0 : k->words[0];
    mhas_free(k->words);
    k->words = NULL;
  }
  return MHAS_OK;
}

static uint64_t mix(uint64_t hash, int64_t word) {
  hash = (hash ^ (uint64_t)word) * UINT64_C(0x9E3779B97F4A7C15); /* as in splitmix64 */
  hash = (hash ^ hash >> 32) * UINT64_C(0xD6E8FEB86659FD93);
  return hash ^ hash >> 32;
}

static uint64_t hash_row(const store_index *index, int64_t row) {
  uint64_t hash = 0;
  for (int i = 0; i < index->count; i++) {
    hash = index->keys[i].words == NULL ? hash : mix(hash, index->keys[i].words[row]);
  }
  return hash;
}

/* Sampled points may repeat; then one of them is enough, and the table stays quick. */
static bool same_rows(const store_index *index, int64_t one, int64_t other) {
  for (int i = 0; i < index->count; i++) {
    const int64_t *words = index->keys[i].words;
    if (words != NULL && words[one] != words[other]) {
      return false;
    }
  }
  return true;
}

static mhas_code fill_table(store_index *index, const uint8_t *status, int64_t points, mhas_error *error) {
  uint64_t size = 16;
  while (size < 2 * (uint64_t)points) {
    size *= 2;
  }
  MHAS_TRY(mhas_alloc(&index->slots, size, sizeof *index->slots, "the index of an older file", error));
  index->mask = size - 1;
  for (int64_t row = 0; row < points; row++) {
    if (status[row] != MHAS_DONE) {
      continue;
    }
    uint64_t slot = hash_row(index, row) & index->mask;
    while (index->slots[slot] != 0 && !same_rows(index, index->slots[slot] - 1, row)) {
      slot = (slot + 1) & index->mask;
    }
    index->slots[slot] = row + 1;
  }
  return MHAS_OK;
}

mhas_code store_index_create(hid_t file, const char *path, const mhas_experiment *experiment, mhas_sweep *older,
                             const uint8_t *status, int64_t points, store_index **index, mhas_error *error) {
  *index = NULL;
  store_index *made = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "the index of an older file", error));
  made->experiment = experiment;
  made->count = experiment->parameter_count + 1;
  mhas_code code = mhas_alloc(&made->keys, (size_t)made->count, sizeof *made->keys, "a list of parameters", error);
  for (int i = 0; code == MHAS_OK && i < made->count; i++) {
    code = add_key(made, file, path, i, older, points, error);
  }
  if (code == MHAS_OK) {
    code = fill_table(made, status, points, error);
  }
  if (code != MHAS_OK) {
    store_index_destroy(made);
    return code;
  }
  *index = made;
  return MHAS_OK;
}

void store_index_destroy(store_index *index) {
  if (index == NULL) {
    return;
  }
  for (int i = 0; index->keys != NULL && i < index->count; i++) {
    mhas_free(index->keys[i].words);
    mhas_free(index->keys[i].texts);
  }
  mhas_free(index->keys);
  mhas_free(index->slots);
  mhas_free(index);
}

int64_t store_index_find(const store_index *index, const mhas_value *values, int64_t replicate) {
  enum { KEYS_MOST = 64 }; /* more than a sweep can have parameters, and the replicate */
  int64_t words[KEYS_MOST];
  uint64_t hash = 0;
  for (int i = 0; i < index->count; i++) {
    words[i] = i == index->count - 1 ? replicate : word_of(index, i, values[i]);
    if (index->keys[i].words != NULL) {
      hash = mix(hash, words[i]);
    } else if (index->keys[i].only != words[i]) {
      return -1;
    }
  }
  for (uint64_t slot = hash & index->mask; index->slots[slot] != 0; slot = (slot + 1) & index->mask) {
    const int64_t row = index->slots[slot] - 1;
    bool same = true;
    for (int i = 0; same && i < index->count; i++) {
      same = index->keys[i].words == NULL || index->keys[i].words[row] == words[i];
    }
    if (same) {
      return row;
    }
  }
  return -1;
}
