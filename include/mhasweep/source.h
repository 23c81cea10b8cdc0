/*
 * Where contexts and queries come from: random numbers, patches of images, or a file of tokens; as they are, or behind
 * a random attention layer.
 *
 * The reader of any block of samples need not know which. Letters: T samples, n context rows, d dim. Nothing here is
 * collective; files are opened once per process and kept open.
 *
 * Patches and stages follow section 5 of Mahdavi, Liao, Thrampoulidis (ICLR 2024, arXiv 2306.02010), which tests its
 * assumptions on the tokens of a vision transformer: embedded, behind a random attention layer, behind a random block.
 */
#ifndef MHASWEEP_SOURCE_H
#define MHASWEEP_SOURCE_H

#include "mhasweep/data.h"

typedef enum mhas_source_kind {
  MHAS_SYNTHETIC, /* as in data.h, or contexts from a bag */
  MHAS_PATCHES,   /* of the images of an IDX file, embedded: the context is [CLS] and the patches, the query [CLS] */
  MHAS_TOKENS     /* of an .npy or HDF5 file (T, n + 1, d): row 0 is the query, the others are the context */
} mhas_source_kind;

typedef enum mhas_source_stage {
  MHAS_STAGE_EMBEDDING,  /* as they come */
  MHAS_STAGE_ATTENTION,  /* x + W_O attention(LN x): one head, d_h = d, keys and values from the context */
  MHAS_STAGE_TRANSFORMER /* then x + W_2 GELU(W_1 LN x), 4 d wide */
} mhas_source_stage;

typedef enum mhas_positions {
  MHAS_POSITIONS_RANDOM,    /* normal, of deviation 0.02, as learned ones are initialised */
  MHAS_POSITIONS_SINUSOIDAL /* of base 10000 */
} mhas_positions;

typedef struct mhas_source_shape {
  mhas_data_shape data; /* T, n, d ...; the distribution is of synthetic ones only */
  mhas_source_kind kind;
  int64_t bag; /* synthetic: contexts are n distinct rows of as many vectors; 0: they are not */
  mhas_source_stage stage;
  const char *path; /* of the file */
  int64_t patch;    /* side of a patch, in pixels */
  mhas_positions positions;
} mhas_source_shape;

/* Can there be such a source? Looks at most at a file's header. MHAS_USAGE, in a sentence, if not. */
mhas_code mhas_source_check(const mhas_source_shape *shape, mhas_error *error);

/* Reads the file, if there is one, from end to end. MHAS_USAGE if it is damaged or has numbers that are not finite. */
mhas_code mhas_source_inspect(const mhas_source_shape *shape, mhas_error *error);

/* Memory that an open source takes, and operations for all samples: a stage costs some. */
double mhas_source_bytes(const mhas_source_shape *shape);
double mhas_source_flops(const mhas_source_shape *shape);

typedef struct mhas_source mhas_source;

/* The caller closes *source. `random` decides data and weights. */
mhas_code mhas_source_open(const mhas_source_shape *shape, mhas_random random, mhas_source **source, mhas_error *error);
void mhas_source_close(mhas_source *source); /* NULL is fine */

/*
 * Samples first .. first + count - 1: contexts into E (count, n, d), or the one that all share (also with a count of 0)
 * into E (n, d); queries into e (count, d). Either may be NULL. Any block has the same bits whichever blocks were asked
 * for before. MHAS_IO or MHAS_NUMERIC if a file turns out to be bad.
 */
mhas_code mhas_source_read(mhas_source *source, int64_t first, int64_t count, double *E, double *e, mhas_error *error);

/* Labels are random whatever the source: of samples first .. first + count - 1 into y (count). */
void mhas_source_labels(const mhas_source *source, int64_t first, int64_t count, double *y);

/* Reads samples first .. first + count - 1 into place; a shared context comes with the first of all. */
mhas_code mhas_samples_read(mhas_samples *samples, mhas_source *source, int64_t first, int64_t count,
                            mhas_error *error);

/* A hash of the file's shape and numbers, below 2^53; 0 without a file. */
mhas_code mhas_source_hash(mhas_source *source, int64_t *hash, mhas_error *error);

#endif
