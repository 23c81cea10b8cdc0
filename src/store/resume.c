/* Opening an existing file for going on: is it the same sweep, and what is left to do? */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "store/driver.h"
#include "store/hdf.h"
#include "store/layout.h"
#include "store/lines.h"
#include "store/open.h"

/* ---- is it the same sweep? ---- */

static void append_value(mhas_text *text, const store_line *shown) {
  enum { VALUE_MOST = 60 };
  if (shown == NULL) {
    mhas_text_append(text, "not set");
    return;
  }
  const bool cut = shown->value_length > VALUE_MOST;
  const size_t length = cut ? store_utf8_cut(shown->value, VALUE_MOST) : shown->value_length;
  mhas_text_append(text, "%.*s%s", (int)length, shown->value, cut ? " ..." : "");
}

enum { DIFFERENCES_MOST = 4 };

typedef struct differences {
  mhas_text text;
  int count;
} differences;

static void add_difference(differences *found, const store_line *theirs, const store_line *ours) {
  const store_line *named = theirs != NULL ? theirs : ours;
  if (found->count++ < DIFFERENCES_MOST) {
    mhas_text_append(&found->text, "%s%.*s (", found->count == 1 ? "" : "; ",
                     (int)store_utf8_cut(named->key, named->key_length < 40 ? named->key_length : 40), named->key);
    append_value(&found->text, theirs);
    mhas_text_append(&found->text, " in the file, ");
    append_value(&found->text, ours);
    mhas_text_append(&found->text, " now)");
  }
}

static bool is_experiment(const store_line *candidate) {
  static const char key[] = STORE_ATTRIBUTE_EXPERIMENT;
  return candidate->key_length == sizeof key - 1 && memcmp(candidate->key, key, sizeof key - 1) == 0;
}

static void compare(const char *theirs, const char *ours, differences *found) {
  store_line one;
  store_line other;
  for (const char *rest = theirs; store_next_line(&rest, &one);) {
    const bool there = store_find_line(ours, &one, &other);
    if (!there || !store_same_value(&one, &other)) {
      add_difference(found, &one, there ? &other : NULL);
      if (is_experiment(&one)) { /* everything else differs too, and says nothing */
        return;
      }
    }
  }
  for (const char *rest = ours; store_next_line(&rest, &one);) {
    if (!store_find_line(theirs, &one, &other)) {
      add_difference(found, NULL, &one);
    }
  }
}

static mhas_code check_same_sweep(hid_t file, const char *path, const mhas_sweep *sweep, mhas_error *error) {
  mhas_text hash = {0};
  mhas_text canonical = {0};
  differences found = {0};
  mhas_code code = MHAS_OK;
  const bool read = store_read_text(file, STORE_ATTRIBUTE_HASH, &hash) &&
                    store_read_text(file, STORE_ATTRIBUTE_CANONICAL, &canonical);
  if (hash.failed || canonical.failed) {
    code = mhas_fail(error, MHAS_NO_MEMORY, "out of memory: the sweep of %s", path);
  } else if (!read) {
    code = mhas_fail(error, MHAS_IO, "%s: is damaged: it does not say of which sweep it is", path);
  } else if (strcmp(mhas_text_string(&hash), mhas_sweep_hash(sweep)) != 0) {
    compare(mhas_text_string(&canonical), mhas_sweep_canonical(sweep), &found);
    if (found.count > DIFFERENCES_MOST) {
      mhas_text_append(&found.text, "; and %d more", found.count - DIFFERENCES_MOST);
    }
    code =
        mhas_fail(error, MHAS_USAGE,
                  "%s: holds another sweep, so it cannot be resumed with this one: %s; write to another file with -o",
                  path, found.count == 0 ? "their hashes differ" : mhas_text_string(&found.text));
  }
  mhas_text_free(&found.text);
  mhas_text_free(&canonical);
  mhas_text_free(&hash);
  return code;
}

static mhas_code check_resumable(hid_t file, const char *path, const mhas_sweep *sweep, int64_t row_count,
                                 mhas_error *error) {
  int64_t schema = 0;
  if (!store_read_integer(file, STORE_ATTRIBUTE_SCHEMA, &schema) || schema != STORE_SCHEMA) {
    return mhas_fail(error, MHAS_USAGE,
                     "%s: was written by %s mhasweep (layout %" PRId64
                     ", this one writes %d): resume it with that, or "
                     "take its points into a new file with --reuse",
                     path, schema > STORE_SCHEMA ? "a newer" : "an older", schema, STORE_SCHEMA);
  }
  MHAS_TRY(check_same_sweep(file, path, sweep, error));
  int64_t points = 0;
  MHAS_TRY(store_read_points(file, path, &points, error));
  if (points != row_count) {
    return mhas_fail(error, MHAS_USAGE,
                     "%s: has %" PRId64 " points, the sweep has %" PRId64 "; write to another file with -o", path,
                     points, row_count);
  }
  return MHAS_OK;
}

/* ---- what is left to do? ---- */

static mhas_code read_column(hid_t file, const char *path, const char *name, hid_t type, int64_t count, void *out,
                             mhas_error *error) {
  store_dataset dataset;
  MHAS_TRY(store_open_dataset(file, path, name, &dataset, error));
  mhas_code code = MHAS_OK;
  if (dataset.rank != 1 || dataset.shape[0] != (hsize_t)count ||
      H5Dread(dataset.id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0) {
    code = store_hdf5_error(error, path, "the variable %s cannot be read", name);
  }
  store_release(dataset.id);
  return code;
}

mhas_code store_read_status(hid_t file, const char *path, int64_t count, uint8_t *status, mhas_error *error) {
  double *seconds = NULL;
  MHAS_TRY(read_column(file, path, STORE_STATUS, H5T_NATIVE_UINT8, count, status, error));
  MHAS_TRY(mhas_alloc(&seconds, (size_t)count, sizeof *seconds, "the times of all points", error));
  mhas_code code = read_column(file, path, STORE_SECONDS, H5T_NATIVE_DOUBLE, count, seconds, error);
  for (int64_t i = 0; i < count && code == MHAS_OK; i++) {
    if (status[i] > MHAS_FAILED) {
      code = mhas_fail(error, MHAS_IO, "%s: is damaged: point %" PRId64 " has the status %d", path, i, status[i]);
    } else if (isnan(seconds[i]) && status[i] != MHAS_PENDING) {
      status[i] = MHAS_RUNNING; /* what it says of its end reached the disk, its data did not */
    }
  }
  mhas_free(seconds);
  return code;
}

/* Counts the rows that it sets back. */
static int64_t set_back(uint8_t *status, int64_t count, bool retry_failed) {
  int64_t changed = 0;
  for (int64_t i = 0; i < count; i++) {
    if (status[i] == MHAS_RUNNING || (status[i] == MHAS_FAILED && retry_failed)) {
      status[i] = MHAS_PENDING;
      changed++;
    }
  }
  return changed;
}

static mhas_code update_status(hid_t file, const char *path, int64_t count, bool retry_failed, uint8_t *status,
                               mhas_error *error) {
  MHAS_TRY(store_read_status(file, path, count, status, error));
  if (set_back(status, count, retry_failed) == 0) {
    return MHAS_OK;
  }
  const hid_t dataset = H5Dopen2(file, STORE_STATUS, H5P_DEFAULT);
  mhas_code code = MHAS_OK;
  if (dataset < 0 || H5Dwrite(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, status) < 0) {
    code = store_hdf5_error(error, path, "the status of the points cannot be written");
  }
  store_release(dataset);
  return code;
}

mhas_code mhas_store_resume(const char *path, const mhas_sweep *sweep, int64_t row_count, bool retry_failed,
                            uint8_t **status, mhas_error *error) {
  *status = NULL;
  hid_t file = H5I_INVALID_HID;
  int failure = 0;
  MHAS_TRY(store_open_writable(path, &file, &failure, error));
  uint8_t *found = NULL;
  mhas_code code = check_resumable(file, path, sweep, row_count, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&found, (size_t)row_count, sizeof *found, "the status of all points", error);
  }
  if (code == MHAS_OK) {
    code = update_status(file, path, row_count, retry_failed, found, error);
  }
  code = store_driver_close(file, path, &failure, code, error);
  if (code == MHAS_OK) {
    code = store_sync(path, error);
  }
  if (code != MHAS_OK) {
    mhas_free(found);
    return code;
  }
  *status = found;
  return MHAS_OK;
}
