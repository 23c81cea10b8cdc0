/* Images as tokens: [CLS] and one row per patch, embedded by random weights, with positions. */
#ifndef MHASWEEP_DATA_PATCHES_H
#define MHASWEEP_DATA_PATCHES_H

#include "data/file.h"
#include "mhasweep/source.h"

typedef struct mhas_patches mhas_patches;

/* Rows that an image of the file gives: its patches and [CLS]. 0 if the patch does not divide the image. */
int64_t mhas_patches_rows(const mhas_file *file, int64_t patch);

/* The first `context` of those rows. The caller destroys *patches; the file stays the cache's. */
mhas_code mhas_patches_create(mhas_file *file, int64_t patch, int64_t context, int64_t dim, mhas_positions positions,
                              mhas_random random, mhas_patches **patches, mhas_error *error);
void mhas_patches_destroy(mhas_patches *patches); /* NULL is fine */

/* E (n, d) of image t; its row 0 is [CLS]. */
mhas_code mhas_patches_embed(mhas_patches *patches, int64_t t, double *E, mhas_error *error);

#endif
