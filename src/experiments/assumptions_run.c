/* A point of assumptions: its samples are read once, then random subsets of the queries are tested. */
#include <gsl/gsl_cdf.h>
#include <math.h>

#include "experiments/all.h"
#include "experiments/assumptions.h"
#include "mhasweep/kruskal.h"

typedef struct testing {
  const mhas_task *task;
  mhas_row *row;
  mhas_source_shape shape;
  mhas_source *source;
  int64_t T, n, d, orders;
  double tolerance[TOLERANCES];
  int chosen;      /* of them, for the results */
  double *queries; /* (T, d) */
  double *sums;    /* (T, d): query + mean of the context's rows */
  mhas_dependent smallest;
} testing;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static mhas_code proceed(const testing *t, mhas_error *error) { return t->task->proceed(t->task->context, error); }

/* sums[t] = queries[t] + mean of the rows of E (n, d) */
static void add_mean(testing *t, int64_t sample, const double *E) {
  double *sum = t->sums + sample * t->d;
  for (int64_t j = 0; j < t->d; j++) {
    double total = 0.0;
    for (int64_t i = 0; i < t->n; i++) {
      total += E[i * t->d + j];
    }
    sum[j] = t->queries[sample * t->d + j] + total / (double)t->n;
  }
}

/* Is a context of rank n? */
static mhas_code judge_context(testing *t, mhas_prefix *prefix, const double *E, int64_t *full, mhas_error *error) {
  if (t->n > t->d) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_prefix_factor(prefix, E, NULL, t->n, error));
  *full += mhas_prefix_independent(prefix, t->tolerance[t->chosen]) == t->n;
  return MHAS_OK;
}

/* Reads every sample once: queries, sums, and the ranks of the contexts. */
static mhas_code read_samples(testing *t, mhas_error *error) {
  const bool shared = t->shape.data.shared;
  int64_t full = 0;
  double *E = NULL;
  mhas_prefix *prefix = NULL;
  mhas_code code = mhas_alloc(&E, (size_t)(t->n * t->d), sizeof *E, "a context", error);
  if (code == MHAS_OK) {
    code = mhas_prefix_create(smaller(t->n, t->d), t->d, &prefix, error);
  }
  for (int64_t i = 0; code == MHAS_OK && i < t->T; i++) {
    code = proceed(t, error);
    if (code == MHAS_OK) {
      code = mhas_source_read(t->source, i, 1, shared && i > 0 ? NULL : E, t->queries + i * t->d, error);
    }
    if (code == MHAS_OK && !(shared && i > 0)) {
      code = judge_context(t, prefix, E, &full, error);
    }
    if (code == MHAS_OK) {
      add_mean(t, i, E);
    }
  }
  t->row->results[R_ASSUMPTION2].real = (double)full / (double)mhas_data_contexts_count(&t->shape.data);
  mhas_prefix_destroy(prefix);
  mhas_free(E);
  return code;
}

static mhas_vectors vectors_of(const testing *t, const double *X) {
  return (mhas_vectors){.count = t->T,
                        .dim = t->d,
                        .X = X,
                        .random = t->task->point.random,
                        .proceed = t->task->proceed,
                        .context = t->task->context};
}

/* The share of independent k-subsets: 0 if there cannot be any, missing if there is no such subset. */
static double share_at(const testing *t, const int64_t *independent, int64_t k) {
  if (k > t->T) {
    return NAN;
  }
  return k > t->d ? 0.0 : (double)independent[k] / (double)t->orders;
}

/* Wilson's interval (1927) of a share of `orders` draws: it keeps its level also near 0 and 1. */
static void record_share(const testing *t, int64_t k, double share, double share_float64, double z) {
  const double count = (double)t->orders;
  const double scale = 1.0 / (1.0 + z * z / count);
  const double centre = scale * (share + z * z / (2.0 * count));
  const double half = scale * z * sqrt(share * (1.0 - share) / count + z * z / (4.0 * count * count));
  const double values[C_COUNT] = {[C_K] = (double)k,
                                  [C_SHARE] = share,
                                  [C_SHARE_LOW] = share > 0.0 ? centre - half : 0.0, /* exactly, but for rounding */
                                  [C_SHARE_HIGH] = share < 1.0 ? centre + half : 1.0,
                                  [C_SHARE_FLOAT64] = share_float64};
  mhas_row_record(&mhas_experiment_assumptions, t->row, k - 1, values);
}

static void fill_curve(const testing *t, const int64_t *independent, int64_t most) {
  const double z = gsl_cdf_ugaussian_Pinv(0.5 + 0.5 * t->task->point.values[P_CONFIDENCE].real);
  const int64_t *chosen = independent + t->chosen * (most + 1);
  const int64_t *float64 = independent + FLOAT64 * (most + 1);
  mhas_value *result = t->row->results;
  result[R_KRUSKAL_99].integer = 0;
  for (int64_t k = 1; k <= most; k++) {
    const double share = share_at(t, chosen, k);
    record_share(t, k, share, share_at(t, float64, k), z);
    if (share >= 0.99) {
      result[R_KRUSKAL_99].integer = k; /* shares never rise with k */
    }
  }
  result[R_ASSUMPTION1].real = share_at(t, chosen, t->n);
  result[R_GENERAL_POSITION].real = share_at(t, chosen, t->d);
}

static mhas_code test_queries(testing *t, mhas_error *error) {
  const int64_t most = assumptions_longest(&t->shape.data);
  const double certify = t->tolerance[t->chosen];
  const mhas_vectors vectors = vectors_of(t, t->queries);
  int64_t *independent = NULL;
  MHAS_TRY(mhas_dependent_create(&vectors, &t->smallest, error));
  MHAS_TRY(mhas_kruskal_search(&vectors, t->task->point.values[P_ANCHORS].integer, certify, &t->smallest, error));
  MHAS_TRY(mhas_alloc(&independent, TOLERANCES * (size_t)(most + 1), sizeof *independent, "the shares", error));
  const mhas_code code = mhas_kruskal_orders(&vectors, most, t->orders, TOLERANCES, t->tolerance, independent, certify,
                                             &t->smallest, error);
  if (code == MHAS_OK) {
    fill_curve(t, independent, most);
    t->row->results[R_KRUSKAL_UPPER].integer = mhas_kruskal_upper(&vectors, &t->smallest);
  }
  mhas_free(independent);
  return code;
}

/* The same orders, as far as n. */
static mhas_code test_sums(testing *t, mhas_error *error) {
  const int64_t most = smaller(t->n, assumptions_longest(&t->shape.data));
  const mhas_vectors vectors = vectors_of(t, t->sums);
  int64_t *independent = NULL;
  MHAS_TRY(mhas_alloc(&independent, (size_t)(most + 1), sizeof *independent, "the shares", error));
  const mhas_code code =
      mhas_kruskal_orders(&vectors, most, t->orders, 1, &t->tolerance[t->chosen], independent, 0.0, NULL, error);
  if (code == MHAS_OK) {
    t->row->results[R_ASSUMPTION3].real = share_at(t, independent, t->n);
  }
  mhas_free(independent);
  return code;
}

static mhas_code keep_certificate(const testing *t, mhas_error *error) {
  double *rows = NULL;
  MHAS_TRY(mhas_alloc(&rows, (size_t)t->d + 1, sizeof *rows, "the certificate", error));
  for (int64_t i = 0; i <= t->d; i++) {
    rows[i] = i < t->smallest.count ? (double)t->smallest.rows[i] : NAN;
  }
  const mhas_code code = t->row->keep(t->row->keep_context, "certificate", rows, error);
  mhas_free(rows);
  return code;
}

static mhas_code keep(const testing *t, mhas_error *error) {
  const int64_t contexts = mhas_data_contexts_count(&t->shape.data);
  double *E = NULL;
  if (t->row->keep == NULL || (t->task->store & MHAS_STORE_DATA) == 0) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_alloc(&E, (size_t)(contexts * t->n * t->d), sizeof *E, "the stored contexts", error));
  mhas_code code = mhas_source_read(t->source, 0, t->shape.data.shared ? 0 : contexts, E, NULL, error);
  if (code == MHAS_OK) {
    code = t->row->keep(t->row->keep_context, "E", E, error);
  }
  mhas_free(E);
  MHAS_TRY(code);
  MHAS_TRY(t->row->keep(t->row->keep_context, "e", t->queries, error));
  return keep_certificate(t, error);
}

static mhas_code open_point(testing *t, mhas_error *error) {
  const size_t numbers = (size_t)t->T * (size_t)t->d;
  MHAS_TRY(mhas_alloc(&t->queries, numbers, sizeof(double), "the queries", error));
  MHAS_TRY(mhas_alloc(&t->sums, numbers, sizeof(double), "the queries with their contexts' means", error));
  MHAS_TRY(mhas_source_open(&t->shape, t->task->point.random, &t->source, error));
  return mhas_source_hash(t->source, &t->row->results[R_SOURCE_HASH].integer, error);
}

mhas_code assumptions_run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  const mhas_value *values = task->point.values;
  testing t = {
      .task = task,
      .row = row,
      .shape = assumptions_shape(values),
      .T = values[P_SAMPLES].integer,
      .n = values[P_CONTEXT].integer,
      .d = values[P_DIM].integer,
      .orders = values[P_ORDERS].integer,
      .chosen = (int)values[P_TOLERANCE].integer,
  };
  t.tolerance[FLOAT32] = mhas_tolerance_float32(t.d);
  t.tolerance[FLOAT64] = mhas_tolerance_float64(t.d);
  mhas_code code = open_point(&t, error);
  if (code == MHAS_OK) {
    code = read_samples(&t, error);
  }
  if (code == MHAS_OK) {
    code = test_queries(&t, error);
  }
  if (code == MHAS_OK) {
    code = test_sums(&t, error);
  }
  if (code == MHAS_OK) {
    code = keep(&t, error);
    row->flops = assumptions_flops(values);
  }
  mhas_dependent_free(&t.smallest);
  mhas_source_close(t.source);
  mhas_free(t.sums);
  mhas_free(t.queries);
  return code;
}
