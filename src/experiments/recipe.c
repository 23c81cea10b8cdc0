/* The recipe of a training: its entries read, checked and counted. */
#include "experiments/recipe.h"

#include "experiments/checks.h"

const char *const mhas_precision_names[] = {"float32", "float64", NULL};

mhas_recipe mhas_recipe_read(const mhas_value *entries, const mhas_model_shape *model,
                             const mhas_source_shape *source) {
  const mhas_data_shape *data = &source->data;
  const int64_t batch = entries[RECIPE_BATCH].integer;
  mhas_recipe recipe = {
      .model = *model,
      .data = *data,
      .source = *source,
      .precision = entries[RECIPE_PRECISION].integer == 0 ? MHAS_FLOAT32 : MHAS_FLOAT64,
      .batch = batch < data->samples ? batch : data->samples,
      .eval_every = entries[RECIPE_EVAL_EVERY].integer,
      .early_stop = entries[RECIPE_EARLY_STOP].integer != 0,
      .schedule = {.lr = entries[RECIPE_LR].real,
                   .warmup = entries[RECIPE_WARMUP].real,
                   .warmup_start = entries[RECIPE_WARMUP_START].real,
                   .lr_end = entries[RECIPE_LR_END].real,
                   .steps = entries[RECIPE_STEPS].integer},
      .adam = {entries[RECIPE_BETA1].real, entries[RECIPE_BETA2].real, entries[RECIPE_EPSILON].real},
      .weight_decay = entries[RECIPE_WEIGHT_DECAY].real,
      .l1 = entries[RECIPE_L1].real,
      .label_noise = entries[RECIPE_LABEL_NOISE].real,
  };
  recipe.model.position_base = entries[RECIPE_POSITION_BASE].real;
  recipe.model.disturbance =
      (mhas_disturbance){.dropout = entries[RECIPE_DROPOUT].real, .noise = entries[RECIPE_INPUT_NOISE].real};
  return recipe;
}

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/* Every eval_every steps, and at the end. */
int64_t mhas_recipe_evaluations(const mhas_recipe *recipe) {
  return divide_up(recipe->schedule.steps, recipe->eval_every);
}

mhas_code mhas_recipe_check(const mhas_recipe *recipe, mhas_error *error) {
  const mhas_model_shape *shape = &recipe->model;
  const mhas_data_shape *data = &recipe->data;
  if (mhas_model_check(shape, recipe->batch, error) != MHAS_OK) {
    return mhas_as_usage(error);
  }
  const double batch = (double)recipe->batch;
  const struct {
    const char *what;
    double numbers;
  } arrays[] = {
      {"the contexts (samples x context x dim)",
       (data->shared ? 1.0 : (double)data->samples) * (double)data->context * (double)data->dim},
      {"the queries (samples x dim)", (double)data->samples * (double)data->dim},
      {"the parameters", (double)shape->heads * (double)shape->dim * (double)shape->key_dim},
      {"the parameters", (double)shape->heads * (double)shape->value_dim * (double)shape->out_dim},
      {"the keys (batch x heads x key_dim)", batch * (double)shape->heads * (double)shape->key_dim},
      {"the attention (batch x heads x context)", batch * (double)shape->heads * (double)shape->context},
      {"the model's arrays", mhas_model_bytes(shape, MHAS_FLOAT32, recipe->batch) / sizeof(float)},
  };
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    MHAS_TRY(mhas_check_numbers(arrays[i].what, arrays[i].numbers, error));
  }
  return mhas_source_check(&recipe->source, error);
}

double mhas_recipe_update_flops(const mhas_recipe *recipe) {
  const int more = (recipe->weight_decay > 0.0) + (recipe->l1 > 0.0);
  return mhas_model_update_flops(&recipe->model) + more * (double)mhas_model_parameters(&recipe->model);
}

/* An epoch's last batch may be short, so a step has samples / steps-per-epoch of them on average. */
double mhas_recipe_flops(const mhas_recipe *recipe) {
  const double steps = (double)recipe->schedule.steps;
  const double samples = (double)recipe->data.samples;
  const double in_step = samples / (double)divide_up(recipe->data.samples, recipe->batch);
  return mhas_source_flops(&recipe->source) +
         steps *
             (mhas_model_gradient_flops(&recipe->model, recipe->batch, in_step) + mhas_recipe_update_flops(recipe)) +
         (double)mhas_recipe_evaluations(recipe) * mhas_model_forward_flops(&recipe->model, recipe->batch, samples);
}

double mhas_recipe_bytes(const mhas_recipe *recipe) {
  const mhas_data_shape *data = &recipe->data;
  const double samples = (double)data->samples;
  const double contexts = (data->shared ? 1.0 : samples) * (double)data->context * (double)data->dim;
  const double size = (double)mhas_precision_size(recipe->precision);
  return mhas_source_bytes(&recipe->source) + mhas_model_bytes(&recipe->model, recipe->precision, recipe->batch) +
         size * (contexts + samples * (double)data->dim) +
         (sizeof(double) * (recipe->label_noise > 0.0 ? 2.0 : 1.0) + sizeof(int64_t)) * samples;
}
