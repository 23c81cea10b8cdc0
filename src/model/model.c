/* The trained model as its users see it: memory, initial values, and dispatch to the kernels of its precision. */
#include <math.h>
#include <string.h>

#include "model/parts.h"
#include "model/variant.h"

/* ---- memory ---------------------------------------------------------------- */

/* Offsets of the slices; each starts on a cache line, so that its kernels meet the same alignment on every machine. */
static int64_t lay_out(const mhas_model_shape *shape, int64_t offset[MHAS_SLICES]) {
  enum { LINE = 16 }; /* floats in a cache line */
  int64_t length = 0;
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    offset[slice] = length;
    length += (mhas_slice_count(shape, slice) + LINE - 1) / LINE * LINE;
  }
  return length;
}

static const mhas_kernels *kernels_of(mhas_precision precision) {
  return precision == MHAS_FLOAT32 ? &mhas_kernels_float : &mhas_kernels_double;
}

double mhas_model_bytes(const mhas_model_shape *shape, mhas_precision precision, int64_t batch) {
  int64_t offset[MHAS_SLICES];
  const int64_t length = lay_out(shape, offset);
  const mhas_order order = mhas_order_of(shape, batch);
  double numbers = 0.0;
  for (mhas_buffer buffer = 0; buffer < BUFFERS; buffer++) {
    numbers += mhas_buffer_count(shape, order, kernels_of(precision), length, batch, buffer);
  }
  return numbers * (double)mhas_precision_size(precision) + 2.0 * sizeof(int64_t) * (double)batch;
}

static mhas_code allocate(mhas_model *model, mhas_error *error) {
  const size_t size = mhas_precision_size(model->precision);
  for (mhas_buffer buffer = 0; buffer < BUFFERS; buffer++) {
    const double count =
        mhas_buffer_count(&model->shape, model->order, model->kernels, model->length, model->batch, buffer);
    if (count > 0x1p52) { /* beyond exact doubles, and beyond any memory */
      return mhas_fail(error, MHAS_NO_MEMORY, "out of memory: the model needs an array of %.3g numbers", count);
    }
    MHAS_TRY(mhas_alloc(&model->buffer[buffer], (size_t)count, size, "the model", error));
  }
  MHAS_TRY(mhas_alloc(&model->classes, (size_t)model->batch, sizeof(int64_t), "the model", error));
  return mhas_alloc(&model->picks, (size_t)model->batch, sizeof(int64_t), "the model", error);
}

mhas_code mhas_model_create(const mhas_model_shape *shape, mhas_precision precision, int64_t batch, mhas_model **model,
                            mhas_error *error) {
  return mhas_model_create_ordered(shape, mhas_order_of(shape, batch), precision, batch, model, error);
}

mhas_code mhas_model_create_ordered(const mhas_model_shape *shape, mhas_order order, mhas_precision precision,
                                    int64_t batch, mhas_model **model, mhas_error *error) {
  *model = NULL;
  MHAS_TRY(mhas_model_check(shape, batch, error));
  mhas_model *made = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "the model", error));
  made->shape = *shape;
  made->precision = precision;
  made->batch = batch;
  made->order = order;
  made->kernels = kernels_of(precision);
  made->length = lay_out(shape, made->offset);
  const mhas_code code = allocate(made, error);
  if (code != MHAS_OK) {
    mhas_model_destroy(made);
    return code;
  }
  made->kernels->prepare(made);
  *model = made;
  return MHAS_OK;
}

void mhas_model_destroy(mhas_model *model) {
  if (model == NULL) {
    return;
  }
  for (mhas_buffer buffer = 0; buffer < BUFFERS; buffer++) {
    mhas_free(model->buffer[buffer]);
  }
  mhas_free(model->classes);
  mhas_free(model->picks);
  mhas_free(model);
}

/* ---- parameters --------------------------------------------------------------- */

/* On +-bound. */
static void draw_uniform(mhas_random random, mhas_stream stream, double bound, int64_t first, int64_t count,
                         double *values) {
  mhas_random_uniform(random, stream, (uint64_t)first, (size_t)count, values);
  for (int64_t i = 0; i < count; i++) {
    values[i] = (2.0 * values[i] - 1.0) * bound;
  }
}

void mhas_model_initialise(mhas_model *model, mhas_random random) {
  model->folded = false;
  const mhas_model_shape *s = &model->shape;
  const double d = (double)s->dim;
  const double value_rows = (double)s->heads * (double)s->value_dim;
  const double key_bound = sqrt(6.0 / (d + (double)s->key_dim));
  const double linear_bound = 1.0 / sqrt(d);
  const double decoder_bound = 1.0 / sqrt((double)s->out_dim);
  const struct {
    mhas_stream stream;
    double bound;
  } plan[MHAS_PRE_BASE] = {
      [MHAS_EMBEDDING] = {MHAS_STREAM_EMBEDDING, linear_bound},
      [MHAS_EMBEDDING_BIAS] = {MHAS_STREAM_EMBEDDING_BIAS, linear_bound},
      [MHAS_W_QUERY] = {MHAS_STREAM_W_QUERY, key_bound},
      [MHAS_W_KEY] = {MHAS_STREAM_W_KEY, key_bound},
      [MHAS_W_VALUE] = {MHAS_STREAM_W_VALUE, sqrt(6.0 / (d + (double)s->value_dim))},
      [MHAS_W_OUT] = {MHAS_STREAM_W_OUT, sqrt(6.0 / (value_rows + (double)s->out_dim))},
      [MHAS_DECODER] = {MHAS_STREAM_DECODER, decoder_bound},
      [MHAS_DECODER_BIAS] = {MHAS_STREAM_DECODER_BIAS, decoder_bound},
  };
  enum { BLOCK = 512 };
  double block[BLOCK];
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    const int64_t total = mhas_slice_count(s, slice);
    for (int64_t at = 0; at < total; at += BLOCK) {
      const int64_t count = total - at < BLOCK ? total - at : BLOCK;
      if (slice >= MHAS_PRE_BASE) {
        compose_draw(&s->variant, s->heads, s->dim, random, slice, at, count, block);
      } else {
        draw_uniform(random, plan[slice].stream, plan[slice].bound, at, count, block);
      }
      model->kernels->write(model->buffer[PARAMETERS], model->offset[slice] + at, count, block);
    }
  }
}

static void read_slice(const mhas_model *model, mhas_buffer vector, mhas_slice slice, double *values) {
  model->kernels->read(model->buffer[vector], model->offset[slice], mhas_slice_count(&model->shape, slice), values);
}

void mhas_model_set(mhas_model *model, mhas_slice slice, const double *values) {
  const int64_t count = mhas_slice_count(&model->shape, slice);
  model->folded = false;
  model->kernels->write(model->buffer[PARAMETERS], model->offset[slice], count, values);
}

void mhas_model_get(const mhas_model *model, mhas_slice slice, double *values) {
  read_slice(model, PARAMETERS, slice, values);
}

void mhas_model_get_best(const mhas_model *model, mhas_slice slice, double *values) {
  read_slice(model, BEST, slice, values);
}

void mhas_model_get_gradient(const mhas_model *model, mhas_slice slice, double *values) {
  read_slice(model, GRADIENT, slice, values);
}

void mhas_model_keep_best(mhas_model *model) {
  memcpy(model->buffer[BEST], model->buffer[PARAMETERS], (size_t)model->length * mhas_precision_size(model->precision));
}

void mhas_model_load_best(mhas_model *model) {
  model->folded = false;
  memcpy(model->buffer[PARAMETERS], model->buffer[BEST], (size_t)model->length * mhas_precision_size(model->precision));
}

void mhas_model_pieces(mhas_model *model, mhas_piece pieces[MHAS_MODEL_PIECES]) {
  const mhas_buffer vectors[MHAS_MODEL_PIECES - 1] = {PARAMETERS, MOMENT1, MOMENT2, BEST};
  for (int i = 0; i < MHAS_MODEL_PIECES - 1; i++) {
    pieces[i] = (mhas_piece){model->buffer[vectors[i]], (size_t)model->length * mhas_precision_size(model->precision)};
  }
  pieces[MHAS_MODEL_PIECES - 1] = (mhas_piece){&model->updates, sizeof model->updates};
}

/* ---- passes -------------------------------------------------------------------- */

void mhas_model_forward(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count,
                        double *outputs) {
  model->kernels->forward(model, samples, picks, count);
  model->kernels->read(model->buffer[OUTPUTS], 0, count * mhas_model_outputs(&model->shape), outputs);
}

double mhas_model_gradient(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count) {
  int64_t right = 0;
  model->disturbed = model->disturb_next;
  model->disturb_next = false;
  model->kernels->forward(model, samples, picks, count);
  const double loss = model->kernels->loss(model, count, &right);
  model->kernels->backward(model, count);
  model->disturbed = false;
  return loss / (double)count;
}

static void forward_block(mhas_model *model, const mhas_samples *samples, int64_t first, int64_t count) {
  for (int64_t b = 0; b < count; b++) {
    model->picks[b] = first + b;
  }
  model->kernels->forward(model, samples, model->picks, count);
}

void mhas_model_attention(mhas_model *model, const mhas_samples *samples, int64_t first, int64_t count, double *maps) {
  forward_block(model, samples, first, count);
  model->kernels->read(model->buffer[THETA], 0, count * model->shape.heads * model->shape.context, maps);
}

mhas_score mhas_model_score(mhas_model *model, const mhas_samples *samples, int64_t first, int64_t count) {
  mhas_score score = {0};
  forward_block(model, samples, first, count);
  score.loss = model->kernels->loss(model, count, &score.right);
  return score;
}

void mhas_model_update(mhas_model *model, const mhas_adam *adam, double lr) {
  model->updates++;
  model->folded = false;
  model->kernels->update(model, adam, lr);
}

void mhas_model_disturb(mhas_model *model, mhas_random random, int64_t step) {
  const mhas_disturbance *disturbance = &model->shape.disturbance;
  if (disturbance->dropout > 0.0 || disturbance->noise > 0.0) {
    model->kernels->disturb(model, random, step);
    model->disturb_next = true;
  }
}

void mhas_model_decay(mhas_model *model, double lr, double decay) {
  model->folded = false;
  model->kernels->decay(model, 1.0 - lr * decay);
}

void mhas_model_shrink(mhas_model *model, double lr, double l1) {
  model->folded = false;
  model->kernels->shrink(model, lr * l1);
}
