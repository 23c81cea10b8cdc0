/* Samples from files: patches of images or tokens, with a label each, of which two kinds are taken. */
#include <inttypes.h>
#include <string.h>

#include "data/file.h"
#include "experiments/checks.h"
#include "experiments/optimize.h"
#include "mhasweep/source.h"

static bool from_file(const mhas_value *values) { return values[P_DATA].integer >= OPTIMIZE_PATCHES; }

/* Of tokens, the query is the first one, and the context has the others; of patches, [CLS] is in the context too. */
static mhas_source_shape source_of(const mhas_value *values, int64_t samples) {
  const bool patches = values[P_DATA].integer == OPTIMIZE_PATCHES;
  return (mhas_source_shape){
      .data = {.samples = samples,
               .context = values[P_TOKENS].integer - (patches ? 0 : 1),
               .dim = values[P_DIM].integer},
      .kind = patches ? MHAS_PATCHES : MHAS_TOKENS,
      .stage = MHAS_STAGE_EMBEDDING,
      .path = values[P_PATH].text,
      .patch = values[P_PATCH].integer,
      .positions = (mhas_positions)values[P_POSITIONS].integer,
  };
}

/* ---- labels ------------------------------------------------------------------------- */

static mhas_code open_labels(const mhas_value *values, mhas_file **file, mhas_error *error) {
  const char *path = values[P_LABELS_PATH].text;
  if (path[0] == '\0') {
    return mhas_fail(error, MHAS_USAGE, "data: patches and tokens need labels; say in which file with labels_path");
  }
  return mhas_file_open(MHAS_FILE_LABELS, path, file, error);
}

/* The samples of either class that come before this one in the order of the sets. */
static int64_t before_set(const mhas_value *values, mhas_set set) {
  const int64_t n = values[P_SAMPLES].integer;
  return set == MHAS_SET_TRAIN ? 0 : set == MHAS_SET_TEST ? n : n + values[P_TEST_SAMPLES].integer;
}

/* How many samples of either class all sets need. */
static int64_t samples_needed(const mhas_value *values) {
  const bool fresh = values[P_INIT].integer == OPTIMIZE_ONE_STEP;
  return before_set(values, MHAS_SET_INIT) + (fresh ? values[P_INIT_SAMPLES].integer : 0);
}

/* All of the file's labels; the caller frees them. */
static mhas_code read_labels(const mhas_value *values, double **labels, int64_t *count, mhas_error *error) {
  mhas_file *file = NULL;
  MHAS_TRY(open_labels(values, &file, error));
  *count = mhas_file_shape(file)[0];
  MHAS_TRY(mhas_alloc(labels, (size_t)*count, sizeof **labels, "the labels of a file", error));
  return mhas_file_read(file, 0, *count, *labels, error);
}

/* 1 or -1; 0 for a label of neither class. */
static double side(const mhas_value *values, double label) {
  return label == (double)values[P_CLASS_PLUS].integer    ? 1.0
         : label == (double)values[P_CLASS_MINUS].integer ? -1.0
                                                          : 0.0;
}

/* ---- checks --------------------------------------------------------------------------- */

static mhas_code users_fault(mhas_code code, mhas_error *error) {
  return code == MHAS_IO || code == MHAS_NUMERIC ? mhas_as_usage(error) : code;
}

mhas_code mhas_optimize_check_files(const mhas_value *values, mhas_error *error) {
  mhas_file *labels = NULL;
  mhas_file *samples = NULL;
  if (!from_file(values)) {
    return MHAS_OK;
  }
  if (values[P_TOKENS].integer < 2) {
    return mhas_fail(error, MHAS_USAGE, "tokens = 1: samples of a file have at least 2, their query and one more");
  }
  if (values[P_CLASS_PLUS].integer == values[P_CLASS_MINUS].integer) {
    return mhas_fail(error, MHAS_USAGE, "class_plus and class_minus are both %" PRId64, values[P_CLASS_PLUS].integer);
  }
  const mhas_source_shape source = source_of(values, samples_needed(values));
  MHAS_TRY(mhas_source_check(&source, error));
  MHAS_TRY(users_fault(open_labels(values, &labels, error), error));
  const mhas_file_kind kind = source.kind == MHAS_PATCHES ? MHAS_FILE_IMAGES : MHAS_FILE_TOKENS;
  MHAS_TRY(users_fault(mhas_file_open(kind, source.path, &samples, error), error));
  if (mhas_file_shape(labels)[0] != mhas_file_shape(samples)[0]) {
    return mhas_fail(error, MHAS_USAGE, "%s holds %" PRId64 " labels, and %s %" PRId64 " samples",
                     values[P_LABELS_PATH].text, mhas_file_shape(labels)[0], source.path, mhas_file_shape(samples)[0]);
  }
  return MHAS_OK;
}

mhas_code mhas_optimize_inspect_files(const mhas_value *values, mhas_error *error) {
  double *labels = NULL;
  int64_t count = 0;
  if (!from_file(values)) {
    return MHAS_OK;
  }
  const mhas_source_shape source = source_of(values, samples_needed(values));
  MHAS_TRY(mhas_source_inspect(&source, error));
  mhas_code code = users_fault(read_labels(values, &labels, &count, error), error);
  int64_t found = 0;
  for (int64_t i = 0; i < count && code == MHAS_OK; i++) {
    found += side(values, labels[i]) != 0.0;
  }
  mhas_free(labels);
  if (code == MHAS_OK && found < samples_needed(values)) {
    return mhas_fail(error, MHAS_USAGE,
                     "%s: %" PRId64 " samples have the labels %" PRId64 " or %" PRId64 ", and %" PRId64
                     " are needed for training, test and initialisation",
                     values[P_LABELS_PATH].text, found, values[P_CLASS_PLUS].integer, values[P_CLASS_MINUS].integer,
                     samples_needed(values));
  }
  return code;
}

/* ---- samples ---------------------------------------------------------------------------- */

static mhas_code read_sample(mhas_source *source, const mhas_value *values, int64_t t, double *x, mhas_error *error) {
  if (values[P_DATA].integer == OPTIMIZE_PATCHES) {
    return mhas_source_read(source, t, 1, x, NULL, error);
  }
  return mhas_source_read(source, t, 1, x + values[P_DIM].integer, x, error);
}

/* Picks those of the two classes in the order of the file, behind those of the sets before. */
static mhas_code pick(const mhas_maker *maker, mhas_set set, mhas_source *source, const double *labels, int64_t count,
                      mhas_labelled *made, mhas_error *error) {
  const mhas_value *values = maker->task->point.values;
  const int64_t numbers = values[P_TOKENS].integer * values[P_DIM].integer;
  int64_t i = -before_set(values, set);
  for (int64_t t = 0; t < count && i < made->samples; t++) {
    const double y = side(values, labels[t]);
    if (y != 0.0 && i >= 0) {
      MHAS_TRY(read_sample(source, values, t, made->X + i * numbers, error));
      made->clean[i] = y;
    }
    i += y != 0.0;
  }
  return i == made->samples
             ? MHAS_OK
             : mhas_fail(error, MHAS_IO, "%s: it has too few samples of the two classes", values[P_LABELS_PATH].text);
}

mhas_code mhas_file_samples(const mhas_maker *maker, mhas_set set, mhas_labelled *made, mhas_error *error) {
  const mhas_value *values = maker->task->point.values;
  const mhas_source_shape shape = source_of(values, samples_needed(values));
  mhas_source *source = NULL;
  double *labels = NULL;
  int64_t count = 0;
  mhas_code code = read_labels(values, &labels, &count, error);
  if (code == MHAS_OK) {
    code = mhas_source_open(&shape, maker->task->point.random, &source, error);
  }
  if (code == MHAS_OK) {
    code = pick(maker, set, source, labels, count, made, error);
  }
  mhas_source_close(source);
  mhas_free(labels);
  return code;
}
