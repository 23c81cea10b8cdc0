/* One point of the probe with Z whole on one rank; and the capacity that one factorization guesses. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "experiments/all.h"
#include "experiments/probe.h"
#include "mhasweep/linalg.h"

static mhas_code allocate(probe *p, mhas_error *error) {
  const size_t T = (size_t)p->T;
  const size_t width = (size_t)p->width;
  const size_t outputs = (size_t)p->outputs;
  if (p->row->keep != NULL && (p->task->store & MHAS_STORE_ATTENTION) != 0) {
    const size_t maps = (size_t)(probe_attention_samples(p->task->point.values) * p->shape.heads * p->shape.context);
    MHAS_TRY(mhas_alloc(&p->maps, maps, sizeof(double), "the stored attention maps", error));
  }
  MHAS_TRY(mhas_alloc(&p->Z, T * width, sizeof(double), "Z (samples x heads dim)", error));
  MHAS_TRY(mhas_alloc(&p->y, T, sizeof(double), "the labels", error));
  MHAS_TRY(mhas_alloc(&p->Y, T * outputs, sizeof(double), "the labels (samples x outputs)", error));
  MHAS_TRY(mhas_alloc(&p->B, width * outputs, sizeof(double), "the readout (heads dim x outputs)", error));
  return mhas_alloc(&p->sigma, T < width ? T : width, sizeof(double), "the spectrum", error);
}

void probe_release(probe *p) {
  mhas_weights_free(&p->weights);
  mhas_free(p->maps);
  mhas_free(p->Z);
  mhas_free(p->y);
  mhas_free(p->Y);
  mhas_free(p->B);
  mhas_free(p->sigma);
  mhas_source_close(p->source);
}

/* Samples first .. first + count - 1 as the attention sees them: where there is an embedding, `drawn` takes what is
 * before it. */
mhas_code probe_see_contexts(const probe *p, int64_t first, int64_t count, double *drawn, double *E,
                             mhas_error *error) {
  MHAS_TRY(mhas_source_read(p->source, first, count, drawn == NULL ? E : drawn, NULL, error));
  if (drawn != NULL) {
    const int64_t contexts = p->shape.shared ? 1 : count;
    mhas_embed(&p->weights.embedding, contexts * p->shape.context, 1, p->shape.context, drawn, E);
  }
  return MHAS_OK;
}

mhas_code probe_see_queries(const probe *p, int64_t first, int64_t count, double *drawn, double *e, mhas_error *error) {
  MHAS_TRY(mhas_source_read(p->source, first, count, NULL, drawn == NULL ? e : drawn, error));
  if (drawn != NULL) {
    mhas_embed(&p->weights.embedding, count, 0, 1, drawn, e);
  }
  return MHAS_OK;
}

/* Remembers the attention maps (count, H, n) of samples first .. first + count - 1, as far as they are stored. */
static void take_maps(probe *p, int64_t first, int64_t count, const double *attention) {
  const int64_t wanted = probe_attention_samples(p->task->point.values) - first;
  const int64_t map = p->shape.heads * p->shape.context;
  if (p->maps != NULL && wanted > 0) {
    memcpy(p->maps + first * map, attention, (size_t)((wanted < count ? wanted : count) * map) * sizeof(double));
  }
}

/* Numbers of the data of a block before the embedding. */
size_t probe_drawn_count(const probe *p, int64_t block) {
  const int64_t contexts = p->shape.shared ? 1 : block;
  const int64_t rows = contexts * p->shape.context > block ? contexts * p->shape.context : block;
  return (size_t)(rows * p->shape.dim);
}

/* Rows first .. first + total - 1 of Z, block by block: the contexts of a block are drawn, used and forgotten. */
mhas_code probe_build_features(probe *p, int64_t first, int64_t total, double *Z, int64_t *saturated,
                               mhas_error *error) {
  const int64_t block = mhas_features_block(&p->shape, total);
  const int64_t contexts = p->shape.shared ? 1 : block;
  double *E = NULL;
  double *e = NULL;
  double *drawn = NULL;
  double *scratch = NULL;
  *saturated = 0;
  mhas_code code =
      mhas_alloc(&E, (size_t)(contexts * p->shape.context) * (size_t)p->shape.dim, sizeof *E, "the contexts", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&e, (size_t)(block * p->shape.dim), sizeof *e, "the queries", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&scratch, (size_t)mhas_features_scratch(&p->shape, block), sizeof *scratch,
                      "the features' scratch", error);
  }
  if (code == MHAS_OK && p->weights.embedding.weight != NULL) {
    code = mhas_alloc(&drawn, probe_drawn_count(p, block), sizeof *drawn, "the data before the embedding", error);
  }
  if (code == MHAS_OK && p->shape.shared) {
    code = probe_see_contexts(p, 0, 0, drawn, E, error);
  }
  for (int64_t t = 0; code == MHAS_OK && t < total; t += block) {
    const int64_t count = total - t < block ? total - t : block;
    code = p->shape.shared ? MHAS_OK : probe_see_contexts(p, first + t, count, drawn, E, error);
    if (code == MHAS_OK) {
      code = probe_see_queries(p, first + t, count, drawn, e, error);
    }
    if (code == MHAS_OK) {
      *saturated += mhas_features(&p->shape, count, E, e, p->weights.W_Q, p->weights.W_K, p->weights.compose, scratch,
                                  Z + t * p->width);
      take_maps(p, first + t, count, mhas_features_attention(scratch));
      code = p->task->proceed(p->task->context, error);
    }
  }
  mhas_free(E);
  mhas_free(e);
  mhas_free(drawn);
  mhas_free(scratch);
  return code;
}

static void draw_labels(probe *p) {
  mhas_data_labels(&p->data, p->task->point.random, 0, p->T, p->y);
  for (int64_t t = 0; t < p->T; t++) {
    if (p->data.classes > 0) {
      p->Y[t * p->outputs + (int64_t)p->y[t]] = 1.0;
    } else {
      p->Y[t] = p->y[t];
    }
  }
}

/* The class whose output is largest, where the outputs of sample t are errors plus the one-hot label. */
static int64_t fitted_class(const probe *p, int64_t t) {
  int64_t best = 0;
  double most = -INFINITY;
  for (int64_t c = 0; c < p->outputs; c++) {
    const double output = p->Y[t * p->outputs + c] + (c == (int64_t)p->y[t] ? 1.0 : 0.0);
    if (output > most) {
      most = output;
      best = c;
    }
  }
  return best;
}

static bool all_memorized(const probe *p, double tolerance) {
  double largest = 0.0;
  for (int64_t t = 0; t < p->T; t++) {
    largest = fmax(largest, fabs(p->y[t]));
  }
  for (int64_t t = 0; t < p->T; t++) {
    const bool fitted =
        p->data.classes > 0 ? fitted_class(p, t) == (int64_t)p->y[t] : fabs(p->Y[t]) <= tolerance * largest;
    if (!fitted) {
      return false;
    }
  }
  return true;
}

static double frobenius(const double *values, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) {
    sum += values[i] * values[i];
  }
  return sqrt(sum);
}

/* Fits the labels, computes the errors anew from Z, and fills in what is known then. */
static mhas_code fit(probe *p, mhas_error *error) {
  const mhas_value *values = p->task->point.values;
  mhas_value *result = p->row->results;
  const int64_t least = probe_spectrum_count(values);
  const double tolerance = mhas_rank_tolerance(p->T, p->width);
  MHAS_TRY(mhas_least_squares(p->T, p->width, p->outputs, p->Z, p->Y, tolerance, p->B, p->sigma, error));

  const int64_t rank = mhas_numerical_rank(p->sigma, least, tolerance);
  result[R_RANK].integer = rank;
  if (values[P_LOOSE_RANKS].integer != 0) {
    result[R_RANK_1E3].integer = mhas_numerical_rank(p->sigma, least, 1e-3);
    result[R_RANK_1E6].integer = mhas_numerical_rank(p->sigma, least, 1e-6);
    result[R_RANK_1E9].integer = mhas_numerical_rank(p->sigma, least, 1e-9);
  }
  result[R_CONDITION].real = rank > 0 ? p->sigma[0] / p->sigma[rank - 1] : NAN;

  const double labels = frobenius(p->Y, p->T * p->outputs);
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)p->T, (int)p->outputs, (int)p->width, 1.0, p->Z,
              (int)p->width, p->B, (int)p->outputs, -1.0, p->Y, (int)p->outputs);
  const double errors = frobenius(p->Y, p->T * p->outputs);
  result[R_RESIDUAL].real = labels > 0.0 ? errors / labels : errors;
  result[R_MEMORIZED].integer = all_memorized(p, values[P_FIT_TOLERANCE].real);
  return MHAS_OK;
}

/* The rank that each head adds: of the leading block of the samples that heads 1 .. h own and of their features. */
static mhas_code fill_heads(const probe *p, mhas_error *error) {
  const int64_t H = p->shape.heads;
  int64_t *ends = NULL; /* of the samples, of the columns, and the ranks */
  MHAS_TRY(mhas_alloc(&ends, 3 * (size_t)H, sizeof *ends, "the ranks of the heads", error));
  for (int64_t h = 0; h < H; h++) {
    int64_t first = 0;
    const int64_t end = mhas_construct_owned(&p->shape, h, &first) + first;
    ends[h] = end < p->T ? end : p->T;
    ends[H + h] = (h + 1) * p->shape.dim;
  }
  const double rounding = mhas_rank_tolerance(p->T, p->width) * p->sigma[0];
  int64_t *ranks = ends + 2 * H;
  const mhas_code code = mhas_nested_ranks(p->T, p->width, p->Z, H, ends, ends + H, rounding, ranks, error);
  int64_t least = p->shape.dim;
  for (int64_t h = 0; code == MHAS_OK && h < H; h++) {
    const int64_t added = ranks[h] - (h == 0 ? 0 : ranks[h - 1]);
    const double record[C_COUNT] = {[C_HEAD] = (double)(h + 1), [C_RANK_ADDED] = (double)added};
    mhas_row_record(&mhas_experiment_probe, p->row, h, record);
    least = added < least ? added : least;
  }
  p->row->results[R_RANK_PER_HEAD_MIN].integer = code == MHAS_OK ? least : -1;
  mhas_free(ends);
  return code;
}

void probe_fill_theory(const probe *p, int64_t saturated) {
  mhas_value *result = p->row->results;
  const mhas_features_shape *s = &p->shape;
  if (s->variant.weighting != MHAS_LINEAR) {
    result[R_SATURATED].real = (double)saturated / ((double)p->T * (double)s->heads);
  }
  result[R_BOUND_LOWER].integer = mhas_bound_lower(s->heads, s->context, s->key_dim);
  result[R_BOUND_SHARED].integer = mhas_variant_bound_shared(&s->variant, s->heads, s->context, s->dim, s->key_dim);
  result[R_BOUND_WIDTH].integer = mhas_bound_width(s->heads, s->dim);
  result[R_PARAMETERS].integer = probe_parameter_count(p->task->point.values);
  result[R_KEY_DIM_USED].integer = s->key_dim;
  result[R_LARGEST_WEIGHT].real = mhas_weights_largest(&p->weights, s);
  result[R_ACCURACY].real = p->weights.accuracy;
  result[R_LOSS].real = p->weights.loss;
  if (p->row->spectrum != NULL) {
    const int64_t least = probe_spectrum_count(p->task->point.values);
    for (int64_t i = 0; i < least && i < p->row->spectrum_capacity; i++) {
      p->row->spectrum[i] = p->sigma[i];
    }
  }
  p->row->flops = p->weights.flops + probe_flops(p->task->point.values);
}

/* Contexts and queries are drawn again: the same numbers, all at once this time. */
static mhas_code keep_data(const probe *p, mhas_error *error) {
  const int64_t contexts = mhas_data_contexts_count(&p->data);
  double *drawn = NULL;
  MHAS_TRY(mhas_alloc(&drawn, (size_t)(contexts * p->data.context * p->data.dim), sizeof *drawn, "the stored contexts",
                      error));
  mhas_code code = mhas_source_read(p->source, 0, p->data.shared ? 0 : contexts, drawn, NULL, error);
  if (code == MHAS_OK) {
    code = p->row->keep(p->row->keep_context, "E", drawn, error);
  }
  mhas_free(drawn);
  MHAS_TRY(code);
  MHAS_TRY(mhas_alloc(&drawn, (size_t)(p->T * p->data.dim), sizeof *drawn, "the stored queries", error));
  code = mhas_source_read(p->source, 0, p->T, NULL, drawn, error);
  if (code == MHAS_OK) {
    code = p->row->keep(p->row->keep_context, "e", drawn, error);
  }
  mhas_free(drawn);
  MHAS_TRY(code);
  return p->row->keep(p->row->keep_context, "y", p->y, error);
}

static mhas_code keep_compose(const probe *p, mhas_error *error) {
  mhas_array announced[MHAS_ARRAYS_MOST];
  const int count = mhas_variant_arrays(&p->shape.variant, p->shape.heads, p->shape.dim, announced);
  const double *values = p->weights.compose;
  for (int i = 0; i < count; i++) {
    MHAS_TRY(p->row->keep(p->row->keep_context, announced[i].name, values, error));
    int64_t length = 1;
    for (int k = 0; k < announced[i].rank; k++) {
      length *= announced[i].shape[k];
    }
    values += length;
  }
  return MHAS_OK;
}

mhas_code probe_keep(const probe *p, mhas_error *error) {
  const mhas_row *row = p->row;
  const unsigned store = row->keep == NULL ? 0 : p->task->store;
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(row->keep(row->keep_context, "W_Q", p->weights.W_Q, error));
    MHAS_TRY(row->keep(row->keep_context, "W_K", p->weights.W_K, error));
    MHAS_TRY(row->keep(row->keep_context, "B", p->B, error));
    MHAS_TRY(keep_compose(p, error));
  }
  if (p->maps != NULL) {
    MHAS_TRY(row->keep(row->keep_context, "attention", p->maps, error));
  }
  if ((store & MHAS_STORE_Z) != 0) {
    MHAS_TRY(row->keep(row->keep_context, "Z", p->Z, error));
  }
  return (store & MHAS_STORE_DATA) != 0 ? keep_data(p, error) : MHAS_OK;
}

probe probe_start(const mhas_task *task, mhas_row *row) {
  const mhas_value *values = task->point.values;
  return (probe){
      .task = task,
      .row = row,
      .shape = probe_features_shape(values),
      .data = probe_data_shape(values),
      .T = values[P_SAMPLES].integer,
      .width = probe_width(values),
      .outputs = probe_output_count(values),
  };
}

/* The weights, and the source open. */
static mhas_code prepare(probe *p, const mhas_weights_wish *wish, mhas_error *error) {
  MHAS_TRY(mhas_weights_make(wish, p->task, &p->weights, error));
  return mhas_source_open(&wish->source, p->task->point.random, &p->source, error);
}

/* ---- Z whole on one rank ----------------------------------------------------------------- */

mhas_code probe_run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  if (task->team.size > 1 || probe_solver(task->point.values) != MHAS_SOLVE_SVD) {
    return probe_run_on_team(task, row, error);
  }
  const mhas_weights_wish wish = probe_wish(task->point.values);
  probe p = probe_start(task, row);
  int64_t saturated = 0;
  mhas_code code = prepare(&p, &wish, error);
  if (code == MHAS_OK) {
    code = allocate(&p, error);
  }
  if (code == MHAS_OK) {
    draw_labels(&p);
    code = probe_build_features(&p, 0, p.T, p.Z, &saturated, error);
  }
  if (code == MHAS_OK) {
    code = fit(&p, error);
  }
  if (code == MHAS_OK && wish.kind == MHAS_WEIGHTS_CONSTRUCTED) {
    code = fill_heads(&p, error);
  }
  if (code == MHAS_OK) {
    probe_fill_theory(&p, saturated);
    code = probe_keep(&p, error);
  }
  probe_release(&p);
  return code;
}

/* ---- a guess at the capacity ------------------------------------------------------ */

static mhas_code feature_rows(void *context, int64_t first, int64_t count, double *rows, mhas_error *error) {
  int64_t unused = 0;
  return probe_build_features(context, first, count, rows, &unused, error);
}

/* Weights that are the same for every T make the rows of Z the same too: labels are fitted up to the first row that is
 * a combination of those before it. */
mhas_code probe_guess(const mhas_task *task, int result, int64_t *samples, double *flops, mhas_error *error) {
  const mhas_weights_wish wish = probe_wish(task->point.values);
  *samples = 0;
  *flops = 0.0;
  if (wish.kind == MHAS_WEIGHTS_TRAINED || (result != R_RANK && result != R_MEMORIZED && result != R_RESIDUAL)) {
    return MHAS_OK;
  }
  probe p = probe_start(task, NULL);
  mhas_code code = prepare(&p, &wish, error);
  if (code == MHAS_OK) {
    code = mhas_independent_rows(p.T, p.width, feature_rows, &p, samples, flops, error);
  }
  *flops += p.weights.flops + mhas_features_flops(&p.shape, *samples);
  probe_release(&p);
  return code;
}

int64_t probe_guess_most(const mhas_value *values) {
  return values[P_WEIGHTS].integer == MHAS_WEIGHTS_TRAINED ? 0 : probe_width(values);
}
