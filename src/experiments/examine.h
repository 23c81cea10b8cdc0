/* What is asked of a trained model besides its score on what it was trained on. */
#ifndef MHASWEEP_EXPERIMENTS_EXAMINE_H
#define MHASWEEP_EXPERIMENTS_EXAMINE_H

#include "experiments/training.h"

typedef struct mhas_examination {
  const mhas_task *task;
  mhas_model *model;
  mhas_samples *samples;
  mhas_model_shape shape;
  int64_t batch;
  double *clean_labels; /* (T): the labels before noise; NULL if there is none */
  double prune;         /* share of the parameters; 0: not asked */
  int bits;             /* 0: not asked */
} mhas_examination;

/* NaN where it was not asked, or is not known in regression. */
typedef struct mhas_examined {
  double accuracy_clean;
  double accuracy_pruned, loss_pruned;
  double accuracy_quantized, loss_quantized;
} mhas_examined;

/* How often the model meets all samples. */
int mhas_examine_passes(double label_noise, double prune, int64_t bits);

/* Examines the best parameters; afterwards the model's are those that were examined last. */
mhas_code mhas_examine(const mhas_examination *x, mhas_examined *found, mhas_error *error);

/* Gives the row the attention maps of the best parameters on the first `count` samples. */
mhas_code mhas_examine_attention(const mhas_examination *x, int64_t count, const mhas_row *row, mhas_error *error);

#endif
