/* A training by a recipe; see recipe.h for its source. */
#include "experiments/training.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static mhas_code proceed(const mhas_training *t, mhas_error *error) {
  return t->task->proceed(t->task->context, error);
}

static mhas_code diverged(const mhas_training *t, int64_t step, double loss, mhas_error *error) {
  return mhas_fail(error, MHAS_NUMERIC, "diverged at step %" PRId64 ": loss is %s (lr %g)", step,
                   isnan(loss) ? "nan" : "infinite", t->recipe.schedule.lr);
}

/* Samples in the batch that begins at `first`: the last may be short. */
static int64_t batch_from(const mhas_training *t, int64_t first) {
  const int64_t left = t->recipe.data.samples - first;
  return left < t->recipe.batch ? left : t->recipe.batch;
}

static int64_t steps_per_epoch(const mhas_training *t) {
  return t->recipe.data.samples / t->recipe.batch + (t->recipe.data.samples % t->recipe.batch != 0);
}

mhas_code mhas_score_all(const mhas_task *task, mhas_model *model, const mhas_samples *samples, int64_t batch,
                         double *loss, double *accuracy, mhas_error *error) {
  const int64_t T = samples->shape.samples;
  double sum = 0.0;
  int64_t right = 0;
  for (int64_t first = 0; first < T; first += batch) {
    const int64_t count = T - first < batch ? T - first : batch;
    MHAS_TRY(task->proceed(task->context, error));
    const mhas_score score = mhas_model_score(model, samples, first, count);
    sum += score.loss;
    right += score.right;
  }
  *loss = sum / (double)T;
  *accuracy = samples->shape.classes > 0 ? (double)right / (double)T : NAN;
  return MHAS_OK;
}

/* Evaluates the model as it is after `step` steps, records it, and keeps it if its loss is the least so far. */
static mhas_code judge(mhas_training *t, mhas_error *error) {
  mhas_training_state *state = &t->state;
  const int64_t step = state->steps_run;
  double loss = NAN;
  double accuracy = NAN;
  MHAS_TRY(mhas_score_all(t->task, t->model, &t->samples, t->recipe.batch, &loss, &accuracy, error));
  state->flops += mhas_model_forward_flops(&t->recipe.model, t->recipe.batch, (double)t->recipe.data.samples);
  if (!isfinite(loss)) {
    return diverged(t, step, loss, error);
  }
  if (t->listener != NULL) {
    t->listener(t->listener_context, state->records++, step, loss, accuracy);
  }
  if (loss < state->best_loss) {
    state->best_loss = loss;
    state->best_accuracy = accuracy;
    state->best_step = step;
    mhas_model_keep_best(t->model);
  }
  state->steps_judged = step;
  state->memorized = t->recipe.early_stop && accuracy == 1.0; /* never so in regression, where it is NaN */
  return MHAS_OK;
}

/* The order of the samples in the epoch of this step. */
static void shuffle(mhas_training *t, int64_t step) {
  mhas_random_permutation(t->task->point.random, MHAS_STREAM_SHUFFLE, (uint64_t)(step / steps_per_epoch(t)),
                          (size_t)t->recipe.data.samples, t->order);
}

/* One step on the next batch of the epoch's order. */
static mhas_code train_step(mhas_training *t, int64_t step, mhas_error *error) {
  const int64_t first = step % steps_per_epoch(t) * t->recipe.batch;
  const int64_t count = batch_from(t, first);
  if (first == 0) {
    shuffle(t, step);
  }
  mhas_model_disturb(t->model, t->task->point.random, step);
  const double loss = mhas_model_gradient(t->model, &t->samples, t->order + first, count);
  if (!isfinite(loss)) {
    return diverged(t, step + 1, loss, error);
  }
  const double lr = mhas_schedule_lr(&t->recipe.schedule, step);
  if (t->recipe.weight_decay > 0.0) {
    mhas_model_decay(t->model, lr, t->recipe.weight_decay);
  }
  mhas_model_update(t->model, &t->recipe.adam, lr);
  if (t->recipe.l1 > 0.0) {
    mhas_model_shrink(t->model, lr, t->recipe.l1);
  }
  t->state.flops += mhas_model_gradient_flops(&t->recipe.model, t->recipe.batch, (double)count) +
                    mhas_recipe_update_flops(&t->recipe);
  return MHAS_OK;
}

enum { PIECES = 1 + MHAS_MODEL_PIECES };

static void pieces_of(mhas_training *t, mhas_piece pieces[PIECES]) {
  pieces[0] = (mhas_piece){&t->state, sizeof t->state};
  mhas_model_pieces(t->model, pieces + 1);
}

static bool is_to_be_judged(const mhas_training *t) {
  const int64_t step = t->state.steps_run;
  return step > t->state.steps_judged && (step % t->recipe.eval_every == 0 || step == t->recipe.schedule.steps);
}

/* The next step or evaluation. */
static mhas_code advance(mhas_training *t, mhas_error *error) {
  if (is_to_be_judged(t)) {
    return judge(t, error);
  }
  MHAS_TRY(train_step(t, t->state.steps_run, error));
  t->state.steps_run++;
  return MHAS_OK;
}

static mhas_code train(mhas_training *t, mhas_error *error) {
  const mhas_task *task = t->task;
  mhas_piece pieces[PIECES];
  bool found = false;
  pieces_of(t, pieces);
  if (t->resumes) {
    MHAS_TRY(mhas_task_restore(task, pieces, PIECES, &found, error));
  }
  if (found) {
    shuffle(t, t->state.steps_run);
  }
  while ((t->state.steps_run < t->recipe.schedule.steps && t->state.memorized == 0) || is_to_be_judged(t)) {
    if (!is_to_be_judged(t)) { /* an evaluation asks by itself */
      MHAS_TRY(t->resumes ? mhas_task_proceed(task, pieces, PIECES, error) : proceed(t, error));
    }
    const mhas_code code = advance(t, error);
    if (code == MHAS_STOPPED) {
      mhas_training_keep(t);
    }
    MHAS_TRY(code);
  }
  return MHAS_OK;
}

/* Makes some labels wrong, and remembers what they were. */
static void disturb_labels(mhas_training *t) {
  const int64_t T = t->recipe.data.samples;
  if (t->clean_labels != NULL) {
    memcpy(t->clean_labels, t->samples.labels, (size_t)T * sizeof *t->clean_labels);
    mhas_data_label_noise(&t->samples.shape, t->task->point.random, t->recipe.label_noise, 0, T, t->samples.labels);
  }
}

/* A member of a team that cannot read goes on asking with the others. */
static mhas_code read_samples(mhas_training *t, mhas_source *source, mhas_error *error) {
  mhas_code code = MHAS_OK;
  for (int64_t first = 0; first < t->recipe.data.samples; first += t->recipe.batch) {
    MHAS_TRY(proceed(t, error));
    if (code == MHAS_OK) {
      code = mhas_samples_read(&t->samples, source, first, batch_from(t, first), error);
    }
  }
  return mhas_team_agree(&t->task->team, code, error);
}

static mhas_code allocate(mhas_training *t, mhas_error *error) {
  const size_t T = (size_t)t->recipe.data.samples;
  MHAS_TRY(mhas_samples_create(&t->recipe.data, t->recipe.precision, &t->samples, error));
  MHAS_TRY(mhas_alloc(&t->order, T, sizeof *t->order, "the order of the samples", error));
  if (t->recipe.label_noise > 0.0) {
    MHAS_TRY(mhas_alloc(&t->clean_labels, T, sizeof *t->clean_labels, "the labels before noise", error));
  }
  return mhas_model_create(&t->recipe.model, t->recipe.precision, t->recipe.batch, &t->model, error);
}

static mhas_code prepare(mhas_training *t, mhas_error *error) {
  mhas_source *source = NULL;
  mhas_code code = allocate(t, error);
  if (code == MHAS_OK) {
    code = mhas_source_open(&t->recipe.source, t->task->point.random, &source, error);
  }
  code = mhas_team_agree(&t->task->team, code, error);
  if (code == MHAS_OK) {
    mhas_model_initialise(t->model, t->task->point.random);
    code = read_samples(t, source, error);
  }
  mhas_source_close(source);
  if (code == MHAS_OK) {
    disturb_labels(t);
  }
  return code;
}

mhas_code mhas_training_run(mhas_training *training, mhas_error *error) {
  training->state.best_loss = INFINITY;
  MHAS_TRY(prepare(training, error));
  return train(training, error);
}

void mhas_training_keep(mhas_training *training) {
  mhas_piece pieces[PIECES];
  if (training->resumes) {
    pieces_of(training, pieces);
    mhas_task_keep(training->task, pieces, PIECES);
  }
}

void mhas_training_free(mhas_training *training) {
  mhas_model_destroy(training->model);
  mhas_samples_free(&training->samples);
  mhas_free(training->order);
  mhas_free(training->clean_labels);
}
