/* An older file from which rows may be taken: is it of use, and which rows does it have? */
#include "store/reuse.h"

#include <inttypes.h>
#include <string.h>

#include "store/hdf.h"
#include "store/layout.h"
#include "store/lines.h"
#include "store/open.h"

static mhas_code out_of_memory(mhas_error *error) {
  return mhas_fail(error, MHAS_NO_MEMORY, "out of memory: an older file");
}

/* ---- is it of use? ---- */

static bool line_of(const char *text, const char *key, store_line *line) {
  const store_line wanted = {.key = key, .key_length = strlen(key)};
  return store_find_line(text, &wanted, line);
}

/* A line of the canonical texts that has to be the same. Refuses if it is not. */
static bool check_line(mhas_reuse *reuse, const char *theirs, const char *ours, const char *key, const char *what) {
  static const char none[] = "none";
  store_line old = {.value = none, .value_length = sizeof none - 1}; /* what older files do not know of */
  store_line now = old;
  (void)line_of(theirs, key, &old);
  (void)line_of(ours, key, &now);
  if (store_same_value(&old, &now)) {
    return true;
  }
  mhas_text_append(&reuse->refusal, "%s is %.*s in it, %.*s here", what, (int)old.value_length, old.value,
                   (int)now.value_length, now.value);
  return false;
}

/* Trials of a search are at other values than the point's own: what is an expression has to be the same one. */
static bool check_expressions(mhas_reuse *reuse, const char *theirs, const char *ours) {
  static const char prefix[] = "parameters.";
  const char *const texts[2] = {theirs, ours};
  for (int side = 0; side < 2; side++) {
    store_line one;
    store_line other = {0};
    for (const char *rest = texts[side]; store_next_line(&rest, &one);) {
      const bool expression = one.value_length > 3 && memcmp(one.value, "\"= ", 3) == 0 &&
                              one.key_length >= sizeof prefix && memcmp(one.key, prefix, sizeof prefix - 1) == 0;
      if (expression && (!store_find_line(texts[1 - side], &one, &other) || !store_same_value(&one, &other))) {
        mhas_text_append(&reuse->refusal, "it is a search in which %.*s is given by another expression",
                         (int)(one.key_length - sizeof prefix + 1), one.key + sizeof prefix - 1);
        return false;
      }
    }
  }
  return true;
}

static void check_meaning(mhas_reuse *reuse, const char *theirs) {
  const char *ours = mhas_sweep_canonical(reuse->sweep);
  if (check_line(reuse, theirs, ours, "numerics", "the numerics version of the experiment") &&
      check_line(reuse, theirs, ours, "seed", "the seed") && check_line(reuse, theirs, ours, "search", "the search") &&
      mhas_sweep_experiment(reuse->sweep)->search != NULL) {
    (void)check_expressions(reuse, theirs, ours);
  }
}

/* A parameter that is no longer known may have had any influence. */
static herr_t visit_variable(hid_t file, const char *name, const H5L_info_t *facts, void *context) {
  (void)facts;
  mhas_reuse *reuse = context;
  mhas_text role = {0};
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT); /* a group is none */
  const bool unknown = dataset >= 0 && store_read_text(dataset, "role", &role) &&
                       strcmp(mhas_text_string(&role), STORE_ROLE_PARAMETER) == 0 &&
                       strcmp(name, STORE_REPLICATE) != 0 &&
                       mhas_parameter_find(mhas_sweep_experiment(reuse->sweep), name) < 0;
  if (unknown) {
    mhas_text_append(&reuse->refusal, "it has a parameter %s, which the experiment does not know", name);
  }
  reuse->refusal.failed = reuse->refusal.failed || role.failed;
  store_release(dataset);
  mhas_text_free(&role);
  return unknown || reuse->refusal.failed ? 1 : 0;
}

static mhas_code read_experiment(mhas_reuse *reuse, mhas_error *error) {
  const char *expected = mhas_sweep_experiment(reuse->sweep)->name;
  int64_t schema = 0;
  (void)store_read_integer(reuse->file, STORE_ATTRIBUTE_SCHEMA, &schema);
  if (schema > STORE_SCHEMA) {
    return mhas_fail(error, MHAS_USAGE, "%s: was written by a newer mhasweep (layout %" PRId64 ", this one knows %d)",
                     reuse->path, schema, STORE_SCHEMA);
  }
  mhas_text name = {0};
  mhas_text canonical = {0};
  mhas_code code = MHAS_OK;
  const bool read = store_read_text(reuse->file, STORE_ATTRIBUTE_EXPERIMENT, &name) &&
                    store_read_text(reuse->file, STORE_ATTRIBUTE_CANONICAL, &canonical);
  if (name.failed || canonical.failed) {
    code = out_of_memory(error);
  } else if (!read) {
    code = mhas_fail(error, MHAS_USAGE, "%s: is damaged: it does not say of which sweep it is", reuse->path);
  } else if (strcmp(mhas_text_string(&name), expected) != 0) {
    code = mhas_fail(error, MHAS_USAGE, "%s: holds the experiment %s, the sweep is of %s", reuse->path,
                     mhas_text_string(&name), expected);
  } else {
    check_meaning(reuse, mhas_text_string(&canonical));
  }
  mhas_text_free(&canonical);
  mhas_text_free(&name);
  return code;
}

/* The file's sweep as it is understood today; *older is NULL if it is not understood any more. */
static mhas_code parse_older(const mhas_reuse *reuse, mhas_sweep **older, mhas_error *error) {
  enum { OVERRIDES_MOST = 256 };
  const char *words[OVERRIDES_MOST];
  size_t count = 0;
  mhas_text spec = {0};
  mhas_text overrides = {0};
  mhas_text report = {0};
  mhas_code code = MHAS_OK;
  *older = NULL;
  if (store_read_text(reuse->file, "spec", &spec) && store_read_text(reuse->file, "spec_overrides", &overrides)) {
    char *rest = NULL;
    for (char *word = strtok_r(overrides.data, "\n", &rest); word != NULL && count < OVERRIDES_MOST;
         word = strtok_r(NULL, "\n", &rest)) {
      words[count++] = word;
    }
    code = mhas_sweep_parse(reuse->path, mhas_text_string(&spec), spec.length, words, count, older, &report);
  }
  if (spec.failed || overrides.failed || code == MHAS_NO_MEMORY) {
    code = out_of_memory(error);
  } else {
    code = MHAS_OK; /* what is wrong with it matters only if it is needed */
  }
  mhas_text_free(&report);
  mhas_text_free(&overrides);
  mhas_text_free(&spec);
  return code;
}

static mhas_code read_run(mhas_reuse *reuse, const char *name, hid_t type, void *out, mhas_error *error) {
  store_dataset dataset;
  MHAS_TRY(store_open_dataset(reuse->file, reuse->path, name, &dataset, error));
  mhas_code code = MHAS_OK;
  if (dataset.rank != 1 || dataset.shape[0] != (hsize_t)reuse->points ||
      H5Dread(dataset.id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0) {
    code = store_hdf5_error(error, reuse->path, "the variable %s cannot be read", name);
  }
  store_release(dataset.id);
  return code;
}

static mhas_code read_rows(mhas_reuse *reuse, mhas_error *error) {
  MHAS_TRY(store_read_points(reuse->file, reuse->path, &reuse->points, error));
  MHAS_TRY(store_read_length(reuse->file, reuse->path, STORE_RECORD, &reuse->records, error));
  MHAS_TRY(store_read_length(reuse->file, reuse->path, STORE_K, &reuse->singular_values, error));
  const size_t count = (size_t)reuse->points;
  MHAS_TRY(mhas_alloc(&reuse->status, count, sizeof *reuse->status, "the status of all points", error));
  MHAS_TRY(mhas_alloc(&reuse->ranks, count, sizeof *reuse->ranks, "the ranks of all points", error));
  MHAS_TRY(store_read_status(reuse->file, reuse->path, reuse->points, reuse->status, error));
  return read_run(reuse, "ranks", H5T_NATIVE_INT64, reuse->ranks, error);
}

mhas_code store_reuse_refuse(mhas_reuse *reuse, mhas_code code, const mhas_error *why, mhas_error *error) {
  if (code == MHAS_USAGE) {
    mhas_text_append(&reuse->refusal, "%s", why->text);
    return MHAS_OK;
  }
  if (code != MHAS_OK && error != NULL) {
    *error = *why;
  }
  return code;
}

static mhas_code make_index(mhas_reuse *reuse, mhas_error *error) {
  hsize_t place = 0;
  if (H5Literate(reuse->file, H5_INDEX_NAME, H5_ITER_INC, &place, visit_variable, reuse) < 0) {
    return store_hdf5_error(error, reuse->path, "the list of variables cannot be read");
  }
  if (reuse->refusal.length > 0 || reuse->refusal.failed) {
    return MHAS_OK;
  }
  mhas_error why = {.text = ""};
  mhas_sweep *older = NULL;
  MHAS_TRY(parse_older(reuse, &older, error));
  const mhas_code code = store_index_create(reuse->file, reuse->path, mhas_sweep_experiment(reuse->sweep), older,
                                            reuse->status, reuse->points, &reuse->index, &why);
  mhas_sweep_destroy(older);
  return store_reuse_refuse(reuse, code, &why, error);
}

static mhas_code open_older(mhas_reuse *reuse, mhas_error *error) {
  MHAS_TRY(store_open_serial(reuse->path, &reuse->file, error));
  MHAS_TRY(read_experiment(reuse, error));
  if (reuse->refusal.length > 0) {
    return MHAS_OK;
  }
  MHAS_TRY(read_rows(reuse, error));
  MHAS_TRY(make_index(reuse, error));
  return MHAS_OK;
}

mhas_code mhas_reuse_open(const char *path, mhas_sweep *sweep, mhas_reuse **reuse, mhas_error *error) {
  *reuse = NULL;
  mhas_reuse *made = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "an older file", error));
  made->sweep = sweep;
  made->file = H5I_INVALID_HID;
  mhas_code code = mhas_alloc(&made->path, strlen(path) + 1, 1, "a file name", error);
  if (code == MHAS_OK) {
    memcpy(made->path, path, strlen(path));
    code = open_older(made, error);
  }
  if (code == MHAS_OK && made->refusal.failed) {
    code = out_of_memory(error);
  }
  if (code == MHAS_OK) {
    *reuse = made;
    return MHAS_OK;
  }
  mhas_reuse_close(made);
  if (code == MHAS_IO) { /* it is the user who named the file */
    code = MHAS_USAGE;
    if (error != NULL) {
      error->code = code;
    }
  }
  return code;
}

void mhas_reuse_close(mhas_reuse *reuse) {
  if (reuse == NULL) {
    return;
  }
  store_index_destroy(reuse->index);
  mhas_free(reuse->status);
  mhas_free(reuse->ranks);
  mhas_text_free(&reuse->refusal);
  if (reuse->file >= 0) {
    (void)H5Fclose(reuse->file); /* only read from */
  }
  mhas_free(reuse->path);
  mhas_free(reuse);
}

const char *mhas_reuse_refusal(const mhas_reuse *reuse) { return mhas_text_string(&reuse->refusal); }
