/*
 * One attention head whose values are fixed: f_i = sum_t A_it gamma_it, A = softmax(a) over the tokens t of sample i,
 * loss (1/n) sum_i log(1 + exp(-y_i f_i)). All that training can do is to select tokens. Shared by the experiments that
 * look at which it selects.
 */
#ifndef MHASWEEP_EXPERIMENTS_SELECTION_H
#define MHASWEEP_EXPERIMENTS_SELECTION_H

#include "mhasweep/base.h"

typedef struct mhas_selection {
  int64_t samples, tokens; /* n, T */
  double *scores;          /* gamma (n, T): what the head makes of each token */
  double *y;               /* (n): -1 or 1 */
  double *logits;          /* a (n, T) */
  double *weights;         /* A (n, T) */
  double *outputs;         /* f (n) */
  double *slopes;          /* (n, T): the loss's derivatives by the logits; NULL if there is no training */
} mhas_selection;

/* Zeros. To be freed also after a failure. */
mhas_code mhas_selection_create(int64_t samples, int64_t tokens, bool trained, mhas_selection *selection,
                                mhas_error *error);
void mhas_selection_free(mhas_selection *selection);

/* Weights, outputs and slopes from the logits; the mean loss and the share with y f <= 0. */
typedef struct mhas_selection_loss {
  double loss, error;
} mhas_selection_loss;
mhas_selection_loss mhas_selection_evaluate(mhas_selection *selection);

/* MHAS_NUMERIC: "diverged at step ...", if the loss is no number to go on with. */
mhas_code mhas_selection_check_loss(double loss, int64_t step, double step_size, mhas_error *error);

/* The token of the largest weight of sample i, the first if several are. */
int64_t mhas_selection_of(const mhas_selection *selection, int64_t i);

/* Whether a step is logged: the first, the last and every log_every-th; and how many there are. */
bool mhas_selection_is_logged(int64_t step, int64_t steps, int64_t log_every);
int64_t mhas_selection_records(int64_t steps, int64_t log_every);

#endif
