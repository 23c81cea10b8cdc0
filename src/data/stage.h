/* A random attention layer or transformer block that samples pass through before anything is asked of them. */
#ifndef MHASWEEP_DATA_STAGE_H
#define MHASWEEP_DATA_STAGE_H

#include "mhasweep/source.h"

typedef struct mhas_layer mhas_layer;

/* Its weights (Xavier-uniform, no biases) and scratch for `rows` rows at once. The caller destroys *layer. */
mhas_code mhas_layer_create(mhas_source_stage stage, int64_t context, int64_t dim, int64_t rows, mhas_random random,
                            mhas_layer **layer, mhas_error *error);
void mhas_layer_destroy(mhas_layer *layer); /* NULL is fine */

/* Takes the context E (n, d) to attend to. */
void mhas_layer_attend_to(mhas_layer *layer, const double *E);

/* Sends x (count, d) through, in place; count <= rows. A row's bits may depend on which others are beside it. */
void mhas_layer_pass(mhas_layer *layer, int64_t count, double *x);

double mhas_layer_bytes(mhas_source_stage stage, int64_t context, int64_t dim, int64_t rows);
double mhas_layer_flops(mhas_source_stage stage, int64_t context, int64_t dim); /* a context, and all of its rows */

#endif
