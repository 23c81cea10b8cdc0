#include "data/patches.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

static const double deviation = 0.02; /* of [CLS] and of random positions, as vision transformers start with */
static const double position_base = 10000.0;

struct mhas_patches {
  mhas_file *file;
  int64_t patch, across, n, d; /* across: patches side by side in an image */
  double *W;                   /* (patch^2, d) */
  double *start;               /* (n, d): positions, plus [CLS] in row 0 and the embedding's bias in the others */
  double *image;
  double *pixels; /* (n - 1, patch^2) */
};

int64_t mhas_patches_rows(const mhas_file *file, int64_t patch) {
  const int64_t *shape = mhas_file_shape(file);
  const bool divides = shape[1] % patch == 0 && shape[2] % patch == 0;
  return divides ? shape[1] / patch * (shape[2] / patch) + 1 : 0;
}

static void set_positions(mhas_patches *p, mhas_positions positions, mhas_random random) {
  if (positions == MHAS_POSITIONS_RANDOM) {
    mhas_random_normal(random, MHAS_STREAM_POSITIONS, 0, (size_t)(p->n * p->d), p->start);
    for (int64_t i = 0; i < p->n * p->d; i++) {
      p->start[i] *= deviation;
    }
    return;
  }
  for (int64_t i = 0; i < p->n; i++) {
    for (int64_t j = 0; j < p->d; j++) {
      const double angle = (double)i * pow(position_base, -(double)(j - j % 2) / (double)p->d);
      p->start[i * p->d + j] = j % 2 == 0 ? sin(angle) : cos(angle);
    }
  }
}

/* Weights and bias are uniform on +-1/sqrt(inputs), torch.nn.Linear's default. `row` is scratch of d numbers. */
static void set_weights(mhas_patches *p, mhas_random random, double *row) {
  const int64_t inputs = p->patch * p->patch;
  const double bound = 1.0 / (double)p->patch;
  mhas_random_uniform(random, MHAS_STREAM_PATCHES, 0, (size_t)(inputs * p->d), p->W);
  for (int64_t i = 0; i < inputs * p->d; i++) {
    p->W[i] = bound * (2.0 * p->W[i] - 1.0);
  }
  mhas_random_normal(random, MHAS_STREAM_CLS, 0, (size_t)p->d, row);
  for (int64_t j = 0; j < p->d; j++) {
    p->start[j] += deviation * row[j];
  }
  mhas_random_uniform(random, MHAS_STREAM_PATCHES_BIAS, 0, (size_t)p->d, row);
  for (int64_t i = 1; i < p->n; i++) {
    for (int64_t j = 0; j < p->d; j++) {
      p->start[i * p->d + j] += bound * (2.0 * row[j] - 1.0);
    }
  }
}

static mhas_code allocate(mhas_patches *p, mhas_error *error) {
  const int64_t *shape = mhas_file_shape(p->file);
  const int64_t inputs = p->patch * p->patch;
  MHAS_TRY(mhas_alloc(&p->W, (size_t)(inputs * p->d), sizeof(double), "the patches' embedding", error));
  MHAS_TRY(mhas_alloc(&p->start, (size_t)(p->n * p->d), sizeof(double), "the positions", error));
  MHAS_TRY(mhas_alloc(&p->image, (size_t)(shape[1] * shape[2]), sizeof(double), "an image", error));
  return mhas_alloc(&p->pixels, (size_t)(p->n * inputs), sizeof(double), "an image's patches", error);
}

mhas_code mhas_patches_create(mhas_file *file, int64_t patch, int64_t context, int64_t dim, mhas_positions positions,
                              mhas_random random, mhas_patches **patches, mhas_error *error) {
  mhas_patches *p = NULL;
  double *row = NULL;
  *patches = NULL;
  MHAS_TRY(mhas_alloc(&p, 1, sizeof *p, "the patches", error));
  *p = (mhas_patches){.file = file, .patch = patch, .across = mhas_file_shape(file)[2] / patch, .n = context, .d = dim};
  mhas_code code = allocate(p, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&row, (size_t)dim, sizeof *row, "a bias", error);
  }
  if (code == MHAS_OK) {
    set_positions(p, positions, random);
    set_weights(p, random, row);
    *patches = p;
  } else {
    mhas_patches_destroy(p);
  }
  mhas_free(row);
  return code;
}

void mhas_patches_destroy(mhas_patches *patches) {
  if (patches != NULL) {
    mhas_free(patches->W);
    mhas_free(patches->start);
    mhas_free(patches->image);
    mhas_free(patches->pixels);
    mhas_free(patches);
  }
}

mhas_code mhas_patches_embed(mhas_patches *p, int64_t t, double *E, mhas_error *error) {
  const int64_t width = mhas_file_shape(p->file)[2];
  const int64_t side = p->patch;
  MHAS_TRY(mhas_file_read(p->file, t, 1, p->image, error));
  for (int64_t i = 0; i + 1 < p->n; i++) { /* patch by patch, from bytes to [-1, 1] */
    const double *corner = p->image + i / p->across * side * width + i % p->across * side;
    for (int64_t k = 0; k < side * side; k++) {
      p->pixels[i * side * side + k] = corner[k / side * width + k % side] / 127.5 - 1.0;
    }
  }
  memcpy(E, p->start, (size_t)(p->n * p->d) * sizeof *E);
  if (p->n > 1) {
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)(p->n - 1), (int)p->d, (int)(side * side), 1.0,
                p->pixels, (int)(side * side), p->W, (int)p->d, 1.0, E + p->d, (int)p->d);
  }
  return MHAS_OK;
}
