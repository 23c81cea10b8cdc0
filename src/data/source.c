#include "mhasweep/source.h"

#include <inttypes.h>
#include <string.h>

#include "data/file.h"
#include "data/patches.h"
#include "data/stage.h"

struct mhas_source {
  mhas_source_shape shape;
  mhas_random random;
  mhas_file *file;       /* NULL if synthetic; the cache's */
  mhas_patches *patches; /* of images */
  mhas_layer *layer;     /* NULL at the embedding */
  int64_t *bag;          /* a shuffle of the bag's vectors */
  double *tokens;        /* (n', d): a sample of a file of tokens, whole */
  double *context;       /* (n, d): of one sample */
  bool attends;          /* the layer attends to the one context of all samples already */
};

/* ---- checking ---- */

static mhas_file_kind file_kind(const mhas_source_shape *shape) {
  return shape->kind == MHAS_PATCHES ? MHAS_FILE_IMAGES : MHAS_FILE_TOKENS;
}

static mhas_code open_file(const mhas_source_shape *shape, mhas_file **file, mhas_error *error) {
  if (shape->path[0] == '\0') {
    return mhas_fail(error, MHAS_IO, "source: %s reads a file; say which with path",
                     shape->kind == MHAS_PATCHES ? "patches" : "tokens");
  }
  return mhas_file_open(file_kind(shape), shape->path, file, error);
}

/* A file that cannot be used is a mistake of who named it, as long as nothing was computed. */
static mhas_code users_fault(mhas_code code, mhas_error *error) {
  if (code != MHAS_IO && code != MHAS_NUMERIC) {
    return code;
  }
  if (error != NULL) {
    error->code = MHAS_USAGE;
  }
  return MHAS_USAGE;
}

static mhas_code check_synthetic(const mhas_source_shape *shape, mhas_error *error) {
  if (shape->bag > 0 && shape->bag < shape->data.context) {
    return mhas_fail(error, MHAS_USAGE,
                     "a context of %" PRId64 " distinct rows cannot be drawn from a bag of %" PRId64 " vectors",
                     shape->data.context, shape->bag);
  }
  return MHAS_OK;
}

static mhas_code check_patches(const mhas_source_shape *shape, const mhas_file *file, mhas_error *error) {
  const int64_t *found = mhas_file_shape(file);
  const int64_t rows = mhas_patches_rows(file, shape->patch);
  if (rows == 0) {
    return mhas_fail(error, MHAS_USAGE,
                     "%s: a patch of %" PRId64 " pixels does not divide images of %" PRId64 " x %" PRId64, shape->path,
                     shape->patch, found[1], found[2]);
  }
  if (shape->data.context > rows) {
    return mhas_fail(error, MHAS_USAGE,
                     "%s: context = %" PRId64 ", and an image of %" PRId64 " x %" PRId64 " gives %" PRId64
                     " rows with patch = %" PRId64 ": its patches and [CLS]",
                     shape->path, shape->data.context, found[1], found[2], rows, shape->patch);
  }
  return MHAS_OK;
}

static mhas_code check_tokens(const mhas_source_shape *shape, const mhas_file *file, mhas_error *error) {
  const int64_t *found = mhas_file_shape(file);
  if (shape->data.dim != found[2]) {
    return mhas_fail(error, MHAS_USAGE, "%s: dim = %" PRId64 ", and its tokens have dim = %" PRId64, shape->path,
                     shape->data.dim, found[2]);
  }
  if (shape->data.context > found[1] - 1) {
    return mhas_fail(error, MHAS_USAGE,
                     "%s: context = %" PRId64 ", and its samples have the query and %" PRId64 " rows of context",
                     shape->path, shape->data.context, found[1] - 1);
  }
  return MHAS_OK;
}

mhas_code mhas_source_check(const mhas_source_shape *shape, mhas_error *error) {
  mhas_file *file = NULL;
  if (shape->kind == MHAS_SYNTHETIC) {
    return check_synthetic(shape, error);
  }
  if (shape->bag > 0) {
    return mhas_fail(error, MHAS_USAGE, "context_type: bag is for source: synthetic; a file has its own contexts");
  }
  const mhas_code code = open_file(shape, &file, error);
  if (code != MHAS_OK) {
    return users_fault(code, error);
  }
  if (shape->data.samples > mhas_file_shape(file)[0]) {
    return mhas_fail(error, MHAS_USAGE, "%s: samples = %" PRId64 ", and it holds %" PRId64, shape->path,
                     shape->data.samples, mhas_file_shape(file)[0]);
  }
  return shape->kind == MHAS_PATCHES ? check_patches(shape, file, error) : check_tokens(shape, file, error);
}

mhas_code mhas_source_inspect(const mhas_source_shape *shape, mhas_error *error) {
  mhas_file *file = NULL;
  int64_t hash = 0;
  MHAS_TRY(mhas_source_check(shape, error));
  if (shape->kind == MHAS_SYNTHETIC) {
    return MHAS_OK;
  }
  MHAS_TRY(open_file(shape, &file, error));
  return users_fault(mhas_file_scan(file, &hash, error), error);
}

/* ---- opening ---- */

static mhas_code allocate(mhas_source *source, mhas_error *error) {
  const mhas_data_shape *data = &source->shape.data;
  MHAS_TRY(mhas_alloc(&source->context, (size_t)(data->context * data->dim), sizeof(double), "a context", error));
  if (source->shape.bag > 0) {
    MHAS_TRY(mhas_alloc(&source->bag, (size_t)source->shape.bag, sizeof *source->bag, "the bag", error));
  }
  if (source->shape.kind == MHAS_TOKENS) {
    const int64_t *found = mhas_file_shape(source->file);
    MHAS_TRY(mhas_alloc(&source->tokens, (size_t)(found[1] * found[2]), sizeof(double), "a sample's tokens", error));
  }
  return MHAS_OK;
}

static mhas_code prepare(mhas_source *source, mhas_error *error) {
  const mhas_source_shape *shape = &source->shape;
  const mhas_data_shape *data = &shape->data;
  if (shape->kind != MHAS_SYNTHETIC) {
    MHAS_TRY(open_file(shape, &source->file, error));
  }
  MHAS_TRY(allocate(source, error));
  if (shape->kind == MHAS_PATCHES) {
    MHAS_TRY(mhas_patches_create(source->file, shape->patch, data->context, data->dim, shape->positions, source->random,
                                 &source->patches, error));
  }
  return shape->stage == MHAS_STAGE_EMBEDDING ? MHAS_OK
                                              : mhas_layer_create(shape->stage, data->context, data->dim, data->context,
                                                                  source->random, &source->layer, error);
}

mhas_code mhas_source_open(const mhas_source_shape *shape, mhas_random random, mhas_source **source,
                           mhas_error *error) {
  mhas_source *made = NULL;
  *source = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "a source", error));
  *made = (mhas_source){.shape = *shape, .random = random};
  const mhas_code code = prepare(made, error);
  if (code != MHAS_OK) {
    mhas_source_close(made);
    return code;
  }
  *source = made;
  return MHAS_OK;
}

void mhas_source_close(mhas_source *source) {
  if (source != NULL) {
    mhas_patches_destroy(source->patches);
    mhas_layer_destroy(source->layer);
    mhas_free(source->bag);
    mhas_free(source->tokens);
    mhas_free(source->context);
    mhas_free(source);
  }
}

/* ---- samples as they come ---- */

/* n distinct vectors of the bag, in random order: the beginning of a shuffle (Fisher and Yates). */
static void draw_from_bag(mhas_source *source, int64_t t, double *E) {
  const mhas_data_shape *data = &source->shape.data;
  const int64_t size = source->shape.bag;
  const mhas_data_shape vectors = {.samples = size, .context = 1, .dim = data->dim, .distribution = data->distribution};
  for (int64_t i = 0; i < size; i++) {
    source->bag[i] = i;
  }
  for (int64_t i = 0; i < data->context; i++) {
    int64_t step = 0;
    mhas_random_below(source->random, MHAS_STREAM_BAG, (uint64_t)(t * data->context + i), 1, (uint64_t)(size - i),
                      &step);
    const int64_t picked = source->bag[i + step];
    source->bag[i + step] = source->bag[i];
    source->bag[i] = picked;
    mhas_data_contexts(&vectors, source->random, picked, 1, E + i * data->dim);
  }
}

/* Context and query of sample t; either may be NULL. With a shared synthetic context, that one. */
static mhas_code read_raw(mhas_source *source, int64_t t, double *E, double *e, mhas_error *error) {
  const mhas_data_shape *data = &source->shape.data;
  const size_t context = (size_t)(data->context * data->dim) * sizeof(double);
  const size_t row = (size_t)data->dim * sizeof(double);
  switch (source->shape.kind) {
    case MHAS_SYNTHETIC:
      if (E != NULL && source->shape.bag > 0) {
        draw_from_bag(source, t, E);
      } else if (E != NULL) {
        mhas_data_contexts(data, source->random, data->shared ? 0 : t, 1, E);
      }
      if (e != NULL) {
        mhas_data_queries(data, source->random, t, 1, e);
      }
      return MHAS_OK;
    case MHAS_PATCHES:
      MHAS_TRY(mhas_patches_embed(source->patches, t, source->context, error));
      if (E != NULL && E != source->context) {
        memcpy(E, source->context, context);
      }
      if (e != NULL) {
        memcpy(e, source->context, row);
      }
      return MHAS_OK;
    case MHAS_TOKENS:
      MHAS_TRY(mhas_file_read(source->file, t, 1, source->tokens, error));
      if (E != NULL) {
        memcpy(E, source->tokens + data->dim, context);
      }
      if (e != NULL) {
        memcpy(e, source->tokens, row);
      }
      return MHAS_OK;
  }
  return mhas_fail(error, MHAS_INTERNAL, "a source of no known kind");
}

/* ---- and behind the layer ---- */

/* Queries and contexts pass apart, and one sample at a time, so that bits do not depend on the block asked for. */
static mhas_code read_sample(mhas_source *source, int64_t t, double *E, double *e, mhas_error *error) {
  const mhas_data_shape *data = &source->shape.data;
  if (source->layer == NULL) {
    return read_raw(source, t, E, e, error);
  }
  const bool same = source->attends && E == NULL;
  MHAS_TRY(read_raw(source, t, same ? NULL : source->context, e, error));
  if (!same) {
    mhas_layer_attend_to(source->layer, source->context);
    source->attends = data->shared && source->shape.kind == MHAS_SYNTHETIC;
  }
  if (e != NULL) {
    mhas_layer_pass(source->layer, 1, e);
  }
  if (E != NULL) {
    memcpy(E, source->context, (size_t)(data->context * data->dim) * sizeof *E);
    mhas_layer_pass(source->layer, data->context, E);
  }
  return MHAS_OK;
}

mhas_code mhas_source_read(mhas_source *source, int64_t first, int64_t count, double *E, double *e, mhas_error *error) {
  const mhas_data_shape *data = &source->shape.data;
  const int64_t size = data->context * data->dim;
  if (E != NULL && data->shared) {
    MHAS_TRY(read_sample(source, 0, E, NULL, error));
    E = NULL;
  }
  for (int64_t i = 0; i < count; i++) {
    MHAS_TRY(
        read_sample(source, first + i, E == NULL ? NULL : E + i * size, e == NULL ? NULL : e + i * data->dim, error));
  }
  return MHAS_OK;
}

void mhas_source_labels(const mhas_source *source, int64_t first, int64_t count, double *y) {
  mhas_data_labels(&source->shape.data, source->random, first, count, y);
}

/* ---- facts ---- */

mhas_code mhas_source_hash(mhas_source *source, int64_t *hash, mhas_error *error) {
  *hash = 0;
  return source->file == NULL ? MHAS_OK : mhas_file_scan(source->file, hash, error);
}

double mhas_source_bytes(const mhas_source_shape *shape) {
  const mhas_data_shape *data = &shape->data;
  const double patch = (double)shape->patch * (double)shape->patch;
  double bytes = sizeof(double) * ((double)data->context * (double)data->dim + (double)shape->bag);
  mhas_file *file = NULL;
  if (shape->stage != MHAS_STAGE_EMBEDDING) {
    bytes += mhas_layer_bytes(shape->stage, data->context, data->dim, data->context);
  }
  if (shape->kind != MHAS_SYNTHETIC && open_file(shape, &file, NULL) == MHAS_OK) {
    bytes +=
        mhas_file_bytes(file) + sizeof(double) * (double)mhas_file_shape(file)[1] * (double)mhas_file_shape(file)[2];
  }
  if (shape->kind == MHAS_PATCHES) {
    bytes += sizeof(double) * (patch + (double)data->context) * ((double)data->dim + patch);
  }
  return bytes;
}

double mhas_source_flops(const mhas_source_shape *shape) {
  const mhas_data_shape *data = &shape->data;
  const double samples = (double)data->samples;
  double flops = 0.0;
  if (shape->kind == MHAS_PATCHES) {
    flops += 2.0 * samples * (double)(data->context * data->dim) * (double)(shape->patch * shape->patch);
  }
  if (shape->stage != MHAS_STAGE_EMBEDDING) {
    flops += samples * mhas_layer_flops(shape->stage, data->context, data->dim);
  }
  return flops;
}
