/*
 * The recipe of a training: its parameters as they stand in an experiment's table, and what they mean.
 *
 * Experiments that train the memorization paper's model share these entries. They take RECIPE_COUNT places of a table,
 * from a place of the experiment's choice on; value_dim and out_dim stand where the experiment has its sizes.
 *
 * Source: Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers", ICLR 2024,
 * arXiv 2306.02010, and its public code; every constant of the recipe is a parameter whose default is the paper's.
 */
#ifndef MHASWEEP_EXPERIMENTS_RECIPE_H
#define MHASWEEP_EXPERIMENTS_RECIPE_H

#include <float.h>

#include "mhasweep/experiments.h"
#include "mhasweep/model.h"
#include "mhasweep/source.h"

/* ---- entries of a parameter table ---- */

enum {
  RECIPE_POSITION_BASE,
  RECIPE_BATCH,
  RECIPE_EPOCHS,
  RECIPE_MIN_STEPS,
  RECIPE_STEPS,
  RECIPE_LR,
  RECIPE_WARMUP,
  RECIPE_WARMUP_START,
  RECIPE_LR_END,
  RECIPE_BETA1,
  RECIPE_BETA2,
  RECIPE_EPSILON,
  RECIPE_WEIGHT_DECAY,
  RECIPE_L1,
  RECIPE_DROPOUT,
  RECIPE_INPUT_NOISE,
  RECIPE_LABEL_NOISE,
  RECIPE_EVAL_EVERY,
  RECIPE_EARLY_STOP,
  RECIPE_PRECISION,
  RECIPE_COUNT
};

extern const char *const mhas_precision_names[];

/* `when` ends every meaning: "" or the condition under which the entry counts, as a string literal. */
/* clang-format off */
#define RECIPE_VALUE_DIM(when) {"value_dim", MHAS_INTEGER, "1", "1", 1, 1 << 16, NULL, \
  "dimension d_v of values in each head" when}
#define RECIPE_OUT_DIM(when) {"out_dim", MHAS_INTEGER, "1", "= dim", 1, 1 << 16, NULL, \
  "outputs d_o of the attention layer, before the decoder" when}
#define RECIPE_PARAMETERS(base, when) \
  [(base) + RECIPE_POSITION_BASE] = {"position_base", MHAS_REAL, "1", "10000", 1, 1e12, NULL, \
    "base of the sinusoidal positions" when}, \
  [(base) + RECIPE_BATCH] = {"batch", MHAS_INTEGER, "1", "256", 1, 1 << 30, NULL, "samples in a step" when}, \
  [(base) + RECIPE_EPOCHS] = {"epochs", MHAS_INTEGER, "1", "500", 1, 1 << 30, NULL, \
    "passes over the samples that steps is made for" when}, \
  [(base) + RECIPE_MIN_STEPS] = {"min_steps", MHAS_INTEGER, "1", "50000", 1, 1LL << 40, NULL, \
    "least number of steps" when}, \
  [(base) + RECIPE_STEPS] = {"steps", MHAS_INTEGER, "1", "= max(floor(epochs * samples / batch), min_steps)", \
    1, 1LL << 40, NULL, "training steps" when}, \
  [(base) + RECIPE_LR] = {"lr", MHAS_REAL, "1", "1.0e-3", DBL_TRUE_MIN, 1e12, NULL, \
    "learning rate at the end of the warm-up" when}, \
  [(base) + RECIPE_WARMUP] = {"warmup", MHAS_REAL, "1", "0.05", 0, 1, NULL, \
    "share of the steps in which the learning rate rises linearly" when}, \
  [(base) + RECIPE_WARMUP_START] = {"warmup_start", MHAS_REAL, "1", "0.01", DBL_TRUE_MIN, 1, NULL, \
    "learning rate at the first step, as a share of lr" when}, \
  [(base) + RECIPE_LR_END] = {"lr_end", MHAS_REAL, "1", "0.0", 0, 1, NULL, \
    "learning rate at the end of the cosine, as a share of lr" when}, \
  [(base) + RECIPE_BETA1] = {"beta1", MHAS_REAL, "1", "0.9", 0, 0.999999, NULL, \
    "Adam: decay of the first moment" when}, \
  [(base) + RECIPE_BETA2] = {"beta2", MHAS_REAL, "1", "0.999", 0, 0.99999999, NULL, \
    "Adam: decay of the second moment" when}, \
  [(base) + RECIPE_EPSILON] = {"epsilon", MHAS_REAL, "1", "1.0e-8", DBL_TRUE_MIN, 1, NULL, \
    "Adam: added to the root of the second moment" when}, \
  [(base) + RECIPE_WEIGHT_DECAY] = {"weight_decay", MHAS_REAL, "1", "0.0", 0, 1e6, NULL, \
    "decoupled decay of every parameter as in AdamW: times 1 - learning rate * weight_decay, each step" when}, \
  [(base) + RECIPE_L1] = {"l1", MHAS_REAL, "1", "0.0", 0, 1e6, NULL, \
    "decoupled L1 penalty: behind every update each parameter goes learning rate * l1 nearer to zero, and stops " \
    "there" when}, \
  [(base) + RECIPE_DROPOUT] = {"dropout", MHAS_REAL, "1", "0.0", 0, 0.99, NULL, \
    "share of the attention weights set to 0 in a training step; the others grow by 1 / (1 - dropout)" when}, \
  [(base) + RECIPE_INPUT_NOISE] = {"input_noise", MHAS_REAL, "1", "0.0", 0, 1e6, NULL, \
    "standard deviation of the normal numbers added to the queries, new in every training step" when}, \
  [(base) + RECIPE_LABEL_NOISE] = {"label_noise", MHAS_REAL, "1", "0.0", 0, 1, NULL, \
    "share of the labels that random ones replace, once, before training" when}, \
  [(base) + RECIPE_EVAL_EVERY] = {"eval_every", MHAS_INTEGER, "1", "500", 1, 1LL << 40, NULL, \
    "steps between evaluations on all samples" when}, \
  [(base) + RECIPE_EARLY_STOP] = {"early_stop", MHAS_FLAG, "1", "true", 0, 1, NULL, \
    "stop as soon as every sample is classified right" when}, \
  [(base) + RECIPE_PRECISION] = {"precision", MHAS_CHOICE, "1", "float32", 0, 0, mhas_precision_names, \
    "of the arithmetic" when}
/* clang-format on */

/* ---- what they mean ---- */

typedef struct mhas_recipe {
  mhas_model_shape model;
  mhas_data_shape data;
  mhas_source_shape source; /* of that data */
  mhas_precision precision;
  int64_t batch; /* samples in a step: no more than there are */
  int64_t eval_every;
  bool early_stop;
  mhas_schedule schedule;
  mhas_adam adam;
  double weight_decay, l1;
  double label_noise; /* share of the labels */
} mhas_recipe;

/* The recipe of `entries`, RECIPE_COUNT values in the order above, for a model and data; the model's position_base and
 * disturbance are among the entries. */
mhas_recipe mhas_recipe_read(const mhas_value *entries, const mhas_model_shape *model, const mhas_source_shape *source);

mhas_code mhas_recipe_check(const mhas_recipe *recipe, mhas_error *error); /* as an experiment's check */
int64_t mhas_recipe_evaluations(const mhas_recipe *recipe);
/* Of a step besides the gradient, and of all steps and evaluations. */
double mhas_recipe_update_flops(const mhas_recipe *recipe);
double mhas_recipe_flops(const mhas_recipe *recipe);
double mhas_recipe_bytes(const mhas_recipe *recipe);

#endif
