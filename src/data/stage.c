#include "data/stage.h"

#include <cblas.h>
#include <math.h>

enum { MLP_FACTOR = 4 };
static const double norm_epsilon = 1e-5; /* torch.nn.LayerNorm's default */

struct mhas_layer {
  mhas_source_stage stage;
  int64_t n, d;
  double *W_Q, *W_K, *W_V, *W_O; /* (d, d) */
  double *W_1, *W_2;             /* (d, 4 d), (4 d, d); transformer only */
  double *keys, *values;         /* (n, d): of the context attended to */
  double *normed, *queries;      /* (rows, d), where rows covers the context too */
  double *theta;                 /* (rows, n) */
  double *hidden;                /* (rows, 4 d); transformer only */
};

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- making ---- */

/* Uniform on +-sqrt(6 / (inputs + outputs)) (Glorot and Bengio 2010). */
static mhas_code draw(int64_t inputs, int64_t outputs, mhas_random random, mhas_stream stream, double **W,
                      mhas_error *error) {
  const double bound = sqrt(6.0 / (double)(inputs + outputs));
  MHAS_TRY(mhas_alloc(W, (size_t)(inputs * outputs), sizeof **W, "the weights of the random layer", error));
  mhas_random_uniform(random, stream, 0, (size_t)(inputs * outputs), *W);
  for (int64_t i = 0; i < inputs * outputs; i++) {
    (*W)[i] = bound * (2.0 * (*W)[i] - 1.0);
  }
  return MHAS_OK;
}

static mhas_code draw_weights(mhas_layer *layer, mhas_random random, mhas_error *error) {
  const int64_t d = layer->d;
  MHAS_TRY(draw(d, d, random, MHAS_STREAM_STAGE_QUERY, &layer->W_Q, error));
  MHAS_TRY(draw(d, d, random, MHAS_STREAM_STAGE_KEY, &layer->W_K, error));
  MHAS_TRY(draw(d, d, random, MHAS_STREAM_STAGE_VALUE, &layer->W_V, error));
  MHAS_TRY(draw(d, d, random, MHAS_STREAM_STAGE_OUT, &layer->W_O, error));
  if (layer->stage == MHAS_STAGE_TRANSFORMER) {
    MHAS_TRY(draw(d, MLP_FACTOR * d, random, MHAS_STREAM_STAGE_MLP_IN, &layer->W_1, error));
    MHAS_TRY(draw(MLP_FACTOR * d, d, random, MHAS_STREAM_STAGE_MLP_OUT, &layer->W_2, error));
  }
  return MHAS_OK;
}

static mhas_code take_scratch(mhas_layer *layer, int64_t rows, mhas_error *error) {
  const size_t n = (size_t)layer->n;
  const size_t d = (size_t)layer->d;
  const size_t most = (size_t)larger(rows, layer->n);
  const char *what = "the scratch of the random layer";
  MHAS_TRY(mhas_alloc(&layer->keys, n * d, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&layer->values, n * d, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&layer->normed, most * d, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&layer->queries, most * d, sizeof(double), what, error));
  MHAS_TRY(mhas_alloc(&layer->theta, (size_t)rows * n, sizeof(double), what, error));
  if (layer->stage == MHAS_STAGE_TRANSFORMER) {
    MHAS_TRY(mhas_alloc(&layer->hidden, (size_t)rows * d * MLP_FACTOR, sizeof(double), what, error));
  }
  return MHAS_OK;
}

mhas_code mhas_layer_create(mhas_source_stage stage, int64_t context, int64_t dim, int64_t rows, mhas_random random,
                            mhas_layer **layer, mhas_error *error) {
  mhas_layer *made = NULL;
  *layer = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "a layer", error));
  *made = (mhas_layer){.stage = stage, .n = context, .d = dim};
  mhas_code code = draw_weights(made, random, error);
  if (code == MHAS_OK) {
    code = take_scratch(made, rows, error);
  }
  if (code != MHAS_OK) {
    mhas_layer_destroy(made);
    return code;
  }
  *layer = made;
  return MHAS_OK;
}

void mhas_layer_destroy(mhas_layer *layer) {
  if (layer == NULL) {
    return;
  }
  double *const arrays[] = {layer->W_Q,  layer->W_K,    layer->W_V,    layer->W_O,     layer->W_1,   layer->W_2,
                            layer->keys, layer->values, layer->normed, layer->queries, layer->theta, layer->hidden};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    mhas_free(arrays[i]);
  }
  mhas_free(layer);
}

/* ---- passing through ---- */

/* out (rows, d) = x with every row at mean 0 and variance 1. */
static void normalise(int64_t rows, int64_t d, const double *x, double *out) {
  for (int64_t r = 0; r < rows; r++) {
    const double *row = x + r * d;
    double mean = 0.0;
    double variance = 0.0;
    for (int64_t j = 0; j < d; j++) {
      mean += row[j];
    }
    mean /= (double)d;
    for (int64_t j = 0; j < d; j++) {
      variance += (row[j] - mean) * (row[j] - mean);
    }
    const double factor = 1.0 / sqrt(variance / (double)d + norm_epsilon);
    for (int64_t j = 0; j < d; j++) {
      out[r * d + j] = factor * (row[j] - mean);
    }
  }
}

/* c (m, n) = alpha a (m, k) b (k, n) + beta c */
static void multiply(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double beta, double *c) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)k, 1.0, a, (int)k, b, (int)n, beta, c,
              (int)n);
}

static void softmax(int64_t rows, int64_t n, double *theta) {
  for (int64_t r = 0; r < rows; r++) {
    double *row = theta + r * n;
    double most = row[0];
    double sum = 0.0;
    for (int64_t i = 1; i < n; i++) {
      most = fmax(most, row[i]);
    }
    for (int64_t i = 0; i < n; i++) {
      row[i] = exp(row[i] - most);
      sum += row[i];
    }
    for (int64_t i = 0; i < n; i++) {
      row[i] /= sum;
    }
  }
}

void mhas_layer_attend_to(mhas_layer *layer, const double *E) {
  normalise(layer->n, layer->d, E, layer->normed);
  multiply(layer->n, layer->d, layer->d, layer->normed, layer->W_K, 0.0, layer->keys);
  multiply(layer->n, layer->d, layer->d, layer->normed, layer->W_V, 0.0, layer->values);
}

void mhas_layer_pass(mhas_layer *layer, int64_t count, double *x) {
  const int64_t n = layer->n;
  const int64_t d = layer->d;
  normalise(count, d, x, layer->normed);
  multiply(count, d, d, layer->normed, layer->W_Q, 0.0, layer->queries);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)count, (int)n, (int)d, 1.0 / sqrt((double)d),
              layer->queries, (int)d, layer->keys, (int)d, 0.0, layer->theta, (int)n);
  softmax(count, n, layer->theta);
  multiply(count, d, n, layer->theta, layer->values, 0.0, layer->normed);
  multiply(count, d, d, layer->normed, layer->W_O, 1.0, x);
  if (layer->stage != MHAS_STAGE_TRANSFORMER) {
    return;
  }
  normalise(count, d, x, layer->normed);
  multiply(count, MLP_FACTOR * d, d, layer->normed, layer->W_1, 0.0, layer->hidden);
  for (int64_t i = 0; i < count * MLP_FACTOR * d; i++) { /* GELU (Hendrycks and Gimpel 2016), not its approximation */
    layer->hidden[i] *= 0.5 * (1.0 + erf(layer->hidden[i] * M_SQRT1_2));
  }
  multiply(count, d, MLP_FACTOR * d, layer->hidden, layer->W_2, 1.0, x);
}

/* ---- what it takes ---- */

double mhas_layer_bytes(mhas_source_stage stage, int64_t context, int64_t dim, int64_t rows) {
  const double n = (double)context;
  const double d = (double)dim;
  const double most = fmax((double)rows, n);
  const double mlp = stage == MHAS_STAGE_TRANSFORMER ? MLP_FACTOR * d * (2.0 * d + (double)rows) : 0.0;
  return sizeof(double) * (4.0 * d * d + 2.0 * n * d + 2.0 * most * d + (double)rows * n + mlp);
}

double mhas_layer_flops(mhas_source_stage stage, int64_t context, int64_t dim) {
  const double n = (double)context;
  const double d = (double)dim;
  const double mlp = stage == MHAS_STAGE_TRANSFORMER ? 4.0 * MLP_FACTOR * (n + 1.0) * d * d : 0.0;
  return 4.0 * n * d * d + (n + 1.0) * (4.0 * d * d + 4.0 * n * d) + mlp;
}
