/* The attention weights of a probe: drawn, constructed by the proof, or trained. */
#ifndef MHASWEEP_EXPERIMENTS_WEIGHTS_H
#define MHASWEEP_EXPERIMENTS_WEIGHTS_H

#include "experiments/training.h"

typedef enum mhas_weights_kind {
  MHAS_WEIGHTS_RANDOM,
  MHAS_WEIGHTS_CONSTRUCTED,
  MHAS_WEIGHTS_TRAINED
} mhas_weights_kind;

/* What to make. */
typedef struct mhas_weights_wish {
  mhas_weights_kind kind;
  mhas_features_shape shape;
  mhas_source_shape source;     /* of the data */
  double saturation_gain, peak; /* constructed */
  mhas_recipe recipe;           /* trained */
} mhas_weights_wish;

/* Zero before they are made; to be freed also after a failure. */
typedef struct mhas_weights {
  double *W_Q, *W_K;         /* (H, d, d_h) */
  double *compose;           /* the mixings' arrays, one behind the other (model.h, mhas_variant_draw) */
  mhas_embedding embedding;  /* before the attention of the best model; weight NULL unless trained */
  double *embedding_numbers; /* weight and bias of it */
  double accuracy, loss;     /* of the best model; NaN unless trained */
  double flops;              /* done for them */
} mhas_weights;

/* Collective over the task's team, with the same code on all: each member makes all weights. */
mhas_code mhas_weights_make(const mhas_weights_wish *wish, const mhas_task *task, mhas_weights *weights,
                            mhas_error *error);
void mhas_weights_free(mhas_weights *weights);

/* The largest absolute entry of W_Q and W_K. */
double mhas_weights_largest(const mhas_weights *weights, const mhas_features_shape *shape);

/* Expected work, and the bytes in use while they are made (beside the weights themselves). */
double mhas_weights_flops(const mhas_weights_wish *wish);
double mhas_weights_bytes(const mhas_weights_wish *wish);

#endif
