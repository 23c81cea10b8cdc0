/*
 * Reading a result file, whichever variables it has: everything is told by the file, nothing by this program's tables.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/hdf.h"
#include "store/layout.h"
#include "store/open.h"

/* A variable over `point`, and the strings that it points to. */
typedef struct variable {
  mhas_variable shown;
  hid_t dataset;
  bool has_missing;
  double missing;
  mhas_text name, unit, meaning, meanings;
  const char **words;
} variable;

typedef struct curve {
  mhas_text name;
  hid_t dataset;
} curve;

typedef struct attribute {
  mhas_text name, text;
} attribute;

struct mhas_reader {
  char *path;
  hid_t file;
  int64_t points, records;
  variable *variables;
  int variable_count;
  curve *curves;
  int curve_count;
  attribute *attributes; /* of the file as a whole */
  int attribute_count;
};

/* One more zeroed element at the end of an array; NULL if memory runs out. */
static void *grow(void *array_pointer, int *count, size_t size) {
  void **array = array_pointer;
  void *grown = realloc(*array, ((size_t)*count + 1) * size);
  if (grown == NULL) {
    return NULL;
  }
  *array = grown;
  void *added = (char *)grown + (size_t)*count * size;
  memset(added, 0, size);
  ++*count;
  return added;
}

/* ---- variables ---- */

static mhas_code out_of_memory(mhas_error *error) {
  return mhas_fail(error, MHAS_NO_MEMORY, "out of memory: the list of variables");
}

/* "pending running done" to words; the blanks of `meanings` become ends. */
static bool split_words(variable *v) {
  char *save = NULL;
  for (char *word = strtok_r(v->meanings.data, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
    const char **added = grow((void *)&v->words, &v->shown.word_count, sizeof *v->words);
    if (added == NULL) {
      return false;
    }
    *added = word;
  }
  v->shown.words = v->words;
  return true;
}

static bool take_type(variable *v) {
  const hid_t type = H5Dget_type(v->dataset);
  const H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
  const bool is_fixed_text = class == H5T_STRING && H5Tis_variable_str(type) == 0;
  store_release(type);
  v->shown.is_text = is_fixed_text;
  if (class == H5T_FLOAT) {
    v->shown.type = MHAS_REAL;
  } else if (v->shown.word_count > 0) {
    v->shown.type = strcmp(v->words[0], "false") == 0 && v->shown.word_count == 2 ? MHAS_FLAG : MHAS_CHOICE;
  } else {
    v->shown.type = MHAS_INTEGER;
  }
  return class == H5T_FLOAT || class == H5T_INTEGER || is_fixed_text;
}

static void free_variable(variable *v) {
  store_release(v->dataset);
  mhas_text_free(&v->name);
  mhas_text_free(&v->unit);
  mhas_text_free(&v->meaning);
  mhas_text_free(&v->meanings);
  free(v->words);
}

/* Takes over the dataset. */
static mhas_code take_variable(const char *path, variable *v, hid_t dataset, const char *name, const char *role,
                               mhas_error *error) {
  v->dataset = dataset;
  mhas_text_append(&v->name, "%s", name);
  (void)store_read_text(dataset, "units", &v->unit);
  (void)store_read_text(dataset, "long_name", &v->meaning);
  if (store_read_text(dataset, "flag_meanings", &v->meanings) && !split_words(v)) {
    return out_of_memory(error);
  }
  int64_t is_axis = 0;
  v->shown.is_axis = store_read_integer(dataset, "is_axis", &is_axis) && is_axis != 0;
  v->shown.role = strcmp(role, STORE_ROLE_PARAMETER) == 0 ? MHAS_ROLE_PARAMETER
                  : strcmp(role, STORE_ROLE_RESULT) == 0  ? MHAS_ROLE_RESULT
                                                          : MHAS_ROLE_RUN;
  v->has_missing = store_read_real(dataset, "_FillValue", &v->missing);
  v->shown.name = mhas_text_string(&v->name);
  v->shown.unit = mhas_text_string(&v->unit);
  v->shown.meaning = mhas_text_string(&v->meaning);
  if (v->name.failed || v->unit.failed || v->meaning.failed || v->meanings.failed) {
    return out_of_memory(error);
  }
  if (!take_type(v)) {
    return mhas_fail(error, MHAS_IO, "%s: the variable %s is of a kind that cannot be shown", path, name);
  }
  return MHAS_OK;
}

/* ---- opening ---- */

typedef struct scan {
  mhas_reader *reader;
  mhas_error *error;
  mhas_code code;
} scan;

static mhas_code add_variable(mhas_reader *reader, const char *name, const char *role, store_dataset dataset,
                              mhas_error *error) {
  variable *added = grow(&reader->variables, &reader->variable_count, sizeof *added);
  if (added == NULL) {
    store_release(dataset.id);
    return out_of_memory(error);
  }
  return take_variable(reader->path, added, dataset.id, name, role, error);
}

static mhas_code add_curve(mhas_reader *reader, const char *name, store_dataset dataset, mhas_error *error) {
  const size_t prefix = sizeof STORE_CURVE_PREFIX - 1;
  curve *added = grow(&reader->curves, &reader->curve_count, sizeof *added);
  if (added == NULL) {
    store_release(dataset.id);
    return out_of_memory(error);
  }
  added->dataset = dataset.id;
  mhas_text_append(&added->name, "%s", strncmp(name, STORE_CURVE_PREFIX, prefix) == 0 ? name + prefix : name);
  reader->records = (int64_t)dataset.shape[1];
  return added->name.failed ? out_of_memory(error) : MHAS_OK;
}

/* What has a role and runs over the points is ours; all else is passed over. */
static mhas_code add_object(mhas_reader *reader, const char *name, mhas_error *error) {
  H5O_info_t facts;
  if (H5Oget_info_by_name2(reader->file, name, &facts, H5O_INFO_BASIC, H5P_DEFAULT) < 0) {
    return store_hdf5_error(error, reader->path, "%s cannot be read", name);
  }
  if (facts.type != H5O_TYPE_DATASET) {
    return MHAS_OK;
  }
  store_dataset dataset;
  MHAS_TRY(store_open_dataset(reader->file, reader->path, name, &dataset, error));
  mhas_text role = {0};
  const bool ours =
      store_read_text(dataset.id, "role", &role) && dataset.rank >= 1 && dataset.shape[0] == (hsize_t)reader->points;
  mhas_code code = MHAS_OK;
  if (role.failed) {
    store_release(dataset.id);
    code = out_of_memory(error);
  } else if (ours && dataset.rank == 1) {
    code = add_variable(reader, name, mhas_text_string(&role), dataset, error);
  } else if (ours && strcmp(mhas_text_string(&role), STORE_ROLE_CURVE) == 0 &&
             (reader->curve_count == 0 || (hsize_t)reader->records == dataset.shape[1])) {
    code = add_curve(reader, name, dataset, error);
  } else {
    store_release(dataset.id);
  }
  mhas_text_free(&role);
  return code;
}

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *facts, void *context) {
  (void)group;
  (void)facts;
  scan *s = context;
  s->code = add_object(s->reader, name, s->error);
  return s->code == MHAS_OK ? 0 : 1;
}

static mhas_code scan_file(mhas_reader *reader, mhas_error *error) {
  MHAS_TRY(store_read_points(reader->file, reader->path, &reader->points, error));
  scan s = {.reader = reader, .error = error, .code = MHAS_OK};
  hsize_t place = 0;
  herr_t status = H5Literate(reader->file, H5_INDEX_CRT_ORDER, H5_ITER_INC, &place, visit_link, &s);
  if (status < 0 && reader->variable_count == 0 && reader->curve_count == 0) { /* h5repack may drop that order */
    place = 0;
    status = H5Literate(reader->file, H5_INDEX_NAME, H5_ITER_INC, &place, visit_link, &s);
  }
  return status < 0 ? store_hdf5_error(error, reader->path, "the list of variables cannot be read") : s.code;
}

static herr_t visit_attribute(hid_t file, const char *name, const H5A_info_t *facts, void *context) {
  (void)facts;
  scan *s = context;
  attribute *added = grow(&s->reader->attributes, &s->reader->attribute_count, sizeof *added);
  if (added != NULL) {
    mhas_text_append(&added->name, "%s", name);
    (void)store_read_text(file, name, &added->text); /* what is no text stays empty */
  }
  if (added == NULL || added->name.failed || added->text.failed) {
    s->code = out_of_memory(s->error);
    return 1;
  }
  return 0;
}

static mhas_code scan_attributes(mhas_reader *reader, mhas_error *error) {
  scan s = {.reader = reader, .error = error, .code = MHAS_OK};
  hsize_t place = 0;
  const herr_t status = H5Aiterate2(reader->file, H5_INDEX_NAME, H5_ITER_NATIVE, &place, visit_attribute, &s);
  return status < 0 ? store_hdf5_error(error, reader->path, "the attributes of the file cannot be read") : s.code;
}

mhas_code mhas_reader_open(const char *path, mhas_reader **reader, mhas_error *error) {
  *reader = NULL;
  mhas_reader *opened = NULL;
  MHAS_TRY(mhas_alloc(&opened, 1, sizeof *opened, "the result file", error));
  opened->file = H5I_INVALID_HID;
  mhas_code code = mhas_alloc(&opened->path, strlen(path) + 1, 1, "a file name", error);
  if (code == MHAS_OK) {
    memcpy(opened->path, path, strlen(path));
    code = store_open_serial(path, &opened->file, error);
  }
  if (code == MHAS_OK) {
    code = scan_attributes(opened, error);
  }
  if (code == MHAS_OK) {
    code = scan_file(opened, error);
  }
  if (code != MHAS_OK) {
    mhas_reader_close(opened);
    return code;
  }
  *reader = opened;
  return MHAS_OK;
}

void mhas_reader_close(mhas_reader *reader) {
  if (reader == NULL) {
    return;
  }
  for (int i = 0; i < reader->variable_count; i++) {
    free_variable(&reader->variables[i]);
  }
  for (int i = 0; i < reader->curve_count; i++) {
    store_release(reader->curves[i].dataset);
    mhas_text_free(&reader->curves[i].name);
  }
  for (int i = 0; i < reader->attribute_count; i++) {
    mhas_text_free(&reader->attributes[i].name);
    mhas_text_free(&reader->attributes[i].text);
  }
  free(reader->variables);
  free(reader->curves);
  free(reader->attributes);
  if (reader->file >= 0) {
    (void)H5Fclose(reader->file); /* only read from: nothing can be lost */
  }
  mhas_free(reader->path);
  mhas_free(reader);
}

/* ---- what there is ---- */

int64_t mhas_reader_points(const mhas_reader *reader) { return reader->points; }

int mhas_reader_variable_count(const mhas_reader *reader) { return reader->variable_count; }

const mhas_variable *mhas_reader_variable(const mhas_reader *reader, int number) {
  return &reader->variables[number].shown;
}

int mhas_reader_find(const mhas_reader *reader, const char *name) {
  for (int i = 0; i < reader->variable_count; i++) {
    if (strcmp(reader->variables[i].shown.name, name) == 0) {
      return i;
    }
  }
  return -1;
}

const char *mhas_reader_attribute(mhas_reader *reader, const char *name) {
  for (int i = 0; i < reader->attribute_count; i++) {
    if (strcmp(mhas_text_string(&reader->attributes[i].name), name) == 0) {
      return mhas_text_string(&reader->attributes[i].text);
    }
  }
  return "";
}

/* ---- values ---- */

static mhas_code check_range(const mhas_reader *reader, int64_t first, int64_t count, mhas_error *error) {
  if (first < 0 || count < 0 || first > reader->points || count > reader->points - first) {
    return mhas_fail(error, MHAS_USAGE, "%s: there is no point %" PRId64 "; they are numbered 0 to %" PRId64,
                     reader->path, first < 0 || first >= reader->points ? first : reader->points, reader->points - 1);
  }
  return MHAS_OK;
}

/* Rows first .. first + count - 1, all of their `width` elements. */
static bool read_rows(const mhas_reader *reader, hid_t dataset, int rank, hid_t type, int64_t first, int64_t count,
                      void *out) {
  const hsize_t width = (hsize_t)reader->records;
  const hsize_t whole[2] = {(hsize_t)reader->points, width};
  const hsize_t start[2] = {(hsize_t)first, 0};
  const hsize_t extent[2] = {(hsize_t)count, width};
  const hid_t memory = H5Screate_simple(rank, extent, NULL);
  const hid_t space = H5Screate_simple(rank, whole, NULL);
  const bool read = memory >= 0 && space >= 0 &&
                    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, extent, NULL) >= 0 &&
                    H5Dread(dataset, type, memory, space, H5P_DEFAULT, out) >= 0;
  store_release(space);
  store_release(memory);
  return read;
}

mhas_code mhas_reader_numbers(mhas_reader *reader, int number, int64_t first, int64_t count, double *out,
                              mhas_error *error) {
  const variable *v = &reader->variables[number];
  MHAS_TRY(check_range(reader, first, count, error));
  if (v->shown.is_text) {
    return mhas_fail(error, MHAS_INTERNAL, "%s: the variable %s has no numbers", reader->path, v->shown.name);
  }
  if (!read_rows(reader, v->dataset, 1, H5T_NATIVE_DOUBLE, first, count, out)) {
    return store_hdf5_error(error, reader->path, "the variable %s cannot be read", v->shown.name);
  }
  for (int64_t i = 0; i < count && v->has_missing; i++) {
    out[i] = out[i] == v->missing ? NAN : out[i];
  }
  return MHAS_OK;
}

mhas_code mhas_reader_texts(mhas_reader *reader, int number, int64_t first, int64_t count, size_t width, char *out,
                            mhas_error *error) {
  const variable *v = &reader->variables[number];
  MHAS_TRY(check_range(reader, first, count, error));
  if (!v->shown.is_text || width == 0) {
    return mhas_fail(error, MHAS_INTERNAL, "%s: the variable %s has no texts", reader->path, v->shown.name);
  }
  const hid_t stored = H5Dget_type(v->dataset);
  const hid_t type = stored < 0 ? H5I_INVALID_HID : H5Tcopy(stored); /* the same character set */
  mhas_code code = MHAS_OK;
  if (type < 0 || H5Tset_size(type, width) < 0 || H5Tset_strpad(type, H5T_STR_NULLTERM) < 0 ||
      !read_rows(reader, v->dataset, 1, type, first, count, out)) {
    code = store_hdf5_error(error, reader->path, "the variable %s cannot be read", v->shown.name);
  }
  store_release(type);
  store_release(stored);
  return code;
}

int mhas_reader_curve_count(const mhas_reader *reader) { return reader->curve_count; }

const char *mhas_reader_curve_name(const mhas_reader *reader, int number) {
  return mhas_text_string(&reader->curves[number].name);
}

int64_t mhas_reader_records(const mhas_reader *reader) { return reader->records; }

mhas_code mhas_reader_curve(mhas_reader *reader, int number, int64_t point, float *out, mhas_error *error) {
  MHAS_TRY(check_range(reader, point, 1, error));
  if (!read_rows(reader, reader->curves[number].dataset, 2, H5T_NATIVE_FLOAT, point, 1, out)) {
    return store_hdf5_error(error, reader->path, "the curve %s cannot be read", mhas_reader_curve_name(reader, number));
  }
  return MHAS_OK;
}
