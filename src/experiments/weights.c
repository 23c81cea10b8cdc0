/* The attention weights of a probe, by one of three ways. */
#include "experiments/weights.h"

#include <math.h>

/* ---- constructed ------------------------------------------------------------- */

/* Head by head, each from the data of the samples that it owns, which are drawn here whatever T is. */
static mhas_code construct(const mhas_weights_wish *wish, const mhas_task *task, mhas_weights *weights,
                           mhas_error *error) {
  const mhas_features_shape *shape = &wish->shape;
  const mhas_random random = task->point.random;
  const int64_t most = mhas_construct_rank(shape);
  const int64_t size = shape->dim * shape->key_dim;
  double *E = NULL;
  double *e = NULL;
  mhas_source *source = NULL;
  mhas_code code = mhas_source_open(&wish->source, random, &source, error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&E, (size_t)((shape->shared ? 1 : most) * shape->context * shape->dim), sizeof *E,
                      "the contexts of a head's samples", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&e, (size_t)(most * shape->dim), sizeof *e, "the queries of a head's samples", error);
  }
  code = mhas_team_agree(&task->team, code, error);
  for (int64_t head = 0; code == MHAS_OK && head < shape->heads; head++) {
    int64_t first = 0;
    const int64_t count = mhas_construct_owned(shape, head, &first);
    code = mhas_source_read(source, first, count, E, e, error);
    if (code == MHAS_OK) {
      code = mhas_construct_head(shape, head, wish->saturation_gain, wish->peak, random, E, e,
                                 weights->W_Q + head * size, weights->W_K + head * size, error);
    }
    code = mhas_team_agree(&task->team, code, error);
    if (code == MHAS_OK) {
      code = task->proceed(task->context, error);
    }
    if (code != MHAS_OK && code != MHAS_STOPPED) {
      (void)mhas_error_context(error, "constructing head %lld", (long long)head);
    }
  }
  mhas_free(e);
  mhas_free(E);
  mhas_source_close(source);
  return code;
}

/* ---- trained ------------------------------------------------------------------ */

static mhas_code take_best(const mhas_training *training, mhas_weights *weights, mhas_error *error) {
  const int64_t d = training->recipe.model.dim;
  MHAS_TRY(mhas_alloc(&weights->embedding_numbers, (size_t)(d * d + d), sizeof(double), "the embedding", error));
  weights->embedding = (mhas_embedding){.dim = d,
                                        .position_base = training->recipe.model.position_base,
                                        .weight = weights->embedding_numbers,
                                        .bias = weights->embedding_numbers + d * d};
  mhas_model_get_best(training->model, MHAS_EMBEDDING, weights->embedding_numbers);
  mhas_model_get_best(training->model, MHAS_EMBEDDING_BIAS, weights->embedding_numbers + d * d);
  mhas_model_get_best(training->model, MHAS_W_QUERY, weights->W_Q);
  mhas_model_get_best(training->model, MHAS_W_KEY, weights->W_K);
  double *compose = weights->compose;
  for (mhas_slice slice = MHAS_PRE_BASE; slice < MHAS_SLICES; slice++) {
    const int64_t count = mhas_slice_count(&training->recipe.model, slice);
    if (count > 0) {
      mhas_model_get_best(training->model, slice, compose);
      compose += count;
    }
  }
  weights->accuracy = training->state.best_accuracy;
  weights->loss = training->state.best_loss;
  return MHAS_OK;
}

static mhas_code train(const mhas_weights_wish *wish, const mhas_task *task, mhas_weights *weights, mhas_error *error) {
  mhas_training training = {.recipe = wish->recipe, .task = task, .resumes = true};
  mhas_code code = mhas_training_run(&training, error);
  if (code == MHAS_OK) {
    code = mhas_team_agree(&task->team, take_best(&training, weights, error), error);
  }
  weights->flops = training.state.flops;
  mhas_training_free(&training);
  return code;
}

/* ---- all ------------------------------------------------------------------------ */

static mhas_code allocate(const mhas_features_shape *shape, mhas_weights *weights, mhas_error *error) {
  const size_t count = (size_t)(shape->heads * shape->dim) * (size_t)shape->key_dim;
  const int64_t mixings = mhas_variant_parameters(&shape->variant, shape->heads, shape->dim);
  MHAS_TRY(mhas_alloc(&weights->W_Q, count, sizeof(double), "W_Q", error));
  MHAS_TRY(mhas_alloc(&weights->W_K, count, sizeof(double), "W_K", error));
  return mhas_alloc(&weights->compose, (size_t)mixings, sizeof(double), "the mixings of heads", error);
}

mhas_code mhas_weights_make(const mhas_weights_wish *wish, const mhas_task *task, mhas_weights *weights,
                            mhas_error *error) {
  const mhas_features_shape *shape = &wish->shape;
  *weights = (mhas_weights){.accuracy = NAN, .loss = NAN};
  MHAS_TRY(mhas_team_agree(&task->team, allocate(shape, weights, error), error));
  switch (wish->kind) {
    case MHAS_WEIGHTS_RANDOM:
      mhas_variant_draw(&shape->variant, shape->heads, shape->dim, task->point.random, weights->compose);
      mhas_xavier_query_key(shape->heads, shape->dim, shape->key_dim, task->point.random, weights->W_Q, weights->W_K);
      break;
    case MHAS_WEIGHTS_CONSTRUCTED:
      MHAS_TRY(construct(wish, task, weights, error));
      weights->flops = mhas_construct_flops(shape);
      break;
    case MHAS_WEIGHTS_TRAINED: return train(wish, task, weights, error);
  }
  return MHAS_OK;
}

void mhas_weights_free(mhas_weights *weights) {
  mhas_free(weights->W_Q);
  mhas_free(weights->W_K);
  mhas_free(weights->compose);
  mhas_free(weights->embedding_numbers);
}

double mhas_weights_largest(const mhas_weights *weights, const mhas_features_shape *shape) {
  const int64_t count = shape->heads * shape->dim * shape->key_dim;
  double largest = 0.0;
  for (int64_t i = 0; i < count; i++) {
    largest = fmax(largest, fmax(fabs(weights->W_Q[i]), fabs(weights->W_K[i])));
  }
  return largest;
}

double mhas_weights_flops(const mhas_weights_wish *wish) {
  switch (wish->kind) {
    case MHAS_WEIGHTS_CONSTRUCTED: return mhas_construct_flops(&wish->shape);
    case MHAS_WEIGHTS_TRAINED: return mhas_recipe_flops(&wish->recipe);
    default: return 0.0;
  }
}

double mhas_weights_bytes(const mhas_weights_wish *wish) {
  switch (wish->kind) {
    case MHAS_WEIGHTS_CONSTRUCTED: return mhas_construct_bytes(&wish->shape);
    case MHAS_WEIGHTS_TRAINED: return mhas_recipe_bytes(&wish->recipe);
    default: return 0.0;
  }
}
