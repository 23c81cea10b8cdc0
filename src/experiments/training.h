/* A training by a recipe: samples drawn, a model initialised and trained, its best state kept. */
#ifndef MHASWEEP_EXPERIMENTS_TRAINING_H
#define MHASWEEP_EXPERIMENTS_TRAINING_H

#include "experiments/recipe.h"

/* Takes what an evaluation found; called once per evaluation, `record` = 0, 1, 2 ... */
typedef void mhas_training_listener(void *context, int64_t record, int64_t step, double loss, double accuracy);

/* How far it is: with the model's pieces and the row, all that a checkpoint needs. */
typedef struct mhas_training_state {
  int64_t steps_run, steps_judged; /* the last evaluation was after so many steps */
  int64_t records;
  double best_loss, best_accuracy; /* of the best model over all samples; the accuracy is NaN in regression */
  int64_t best_step;
  int64_t memorized; /* 1: early_stop has ended it */
  double flops;      /* operations done */
} mhas_training_state;

/* Zero before the run; to be freed after it, also after a failure. */
typedef struct mhas_training {
  mhas_recipe recipe;
  const mhas_task *task;
  bool resumes; /* it keeps the point's checkpoints and goes on from one: for one training in a point alone */
  mhas_training_listener *listener; /* may be NULL */
  void *listener_context;
  mhas_samples samples;
  mhas_model *model;
  int64_t *order;       /* (T): this epoch's permutation of the samples */
  double *clean_labels; /* (T): before label_noise; NULL without it */
  mhas_training_state state;
} mhas_training;

/* MHAS_NUMERIC if it diverges. `recipe`, `task`, `resumes` and the listener are set by the caller. Collective over the
 * task's team, with the same code on all: each member trains, and all alike. */
mhas_code mhas_training_run(mhas_training *training, mhas_error *error);
/* Keeps a checkpoint of a training that has ended, for who is stopped after it. Only its best model may be of use then.
 */
void mhas_training_keep(mhas_training *training);
void mhas_training_free(mhas_training *training);

/* The score of the model as it is on all samples, batch by batch: mean loss, and the share that is right (NaN in
 * regression). */
mhas_code mhas_score_all(const mhas_task *task, mhas_model *model, const mhas_samples *samples, int64_t batch,
                         double *loss, double *accuracy, mhas_error *error);

#endif
