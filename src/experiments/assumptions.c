/*
 * assumptions: does a data set meet what the theory of memorization asks of it?
 *
 * Source: Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers", ICLR 2024,
 * arXiv 2306.02010, sections 3 and 5: Assumption 1 (the queries have Kruskal rank at least n), Assumption 2 (every
 * context has rank n), the weaker one on e + mean(E), and general position (any d vectors are independent), which the
 * theory does without. A Kruskal rank cannot be computed in reasonable time: random subsets tell the share that is
 * independent, and a dependent subset proves a bound.
 */
#include <gsl/gsl_cdf.h>
#include <inttypes.h>
#include <math.h>

#include "experiments/all.h"
#include "experiments/checks.h"
#include "experiments/from_source.h"
#include "mhasweep/kruskal.h"

static const char *const tolerances[] = {"float32", "float64", NULL};
enum { FLOAT32, FLOAT64, TOLERANCES };

enum {
  P_DIM,
  P_CONTEXT,
  P_SAMPLES,
  P_CONTEXT_TYPE,
  P_DISTRIBUTION,
  P_ORDERS,
  P_TOLERANCE,
  P_CONFIDENCE,
  P_ANCHORS,
  P_SOURCE,
  P_COUNT = P_SOURCE + SOURCE_PARAMETER_COUNT
};

static const mhas_parameter parameters[P_COUNT] = {
    [P_DIM] = {"dim", MHAS_INTEGER, "1", "64", 1, 1 << 16, NULL, "dimension d of queries and context rows"},
    [P_CONTEXT] = {"context", MHAS_INTEGER, "1", "32", 1, 1 << 16, NULL, "rows n of a context; of files, the first n"},
    [P_SAMPLES] = {"samples", MHAS_INTEGER, "1", "2000", 1, 1 << 30, NULL, "samples T; of files, the first T"},
    [P_CONTEXT_TYPE] = SOURCE_CONTEXT_TYPE,
    [P_DISTRIBUTION] = SOURCE_DISTRIBUTION,
    [P_ORDERS] = {"orders", MHAS_INTEGER, "1", "5000", 1, 1 << 30, NULL,
                  "random orders of the queries; the first k of each are a random k-subset"},
    [P_TOLERANCE] = {"tolerance", MHAS_CHOICE, "1", "float32", 0, 0, tolerances,
                     "k vectors are independent if sigma_k > max(k, d) eps sigma_1, with this eps; float32 as in the "
                     "paper"},
    [P_CONFIDENCE] = {"confidence", MHAS_REAL, "1", "0.95", 0.5, 0.999999, NULL, "of the intervals around each share"},
    [P_ANCHORS] = {"anchors", MHAS_INTEGER, "1", "= min(samples, 10000)", 0, 1 << 30, NULL,
                   "queries from which small dependent subsets are searched; time grows with anchors x samples"},
    SOURCE_PARAMETERS(P_SOURCE),
};

enum {
  R_ASSUMPTION1,
  R_ASSUMPTION2,
  R_ASSUMPTION3,
  R_GENERAL_POSITION,
  R_KRUSKAL_99,
  R_KRUSKAL_UPPER,
  R_SOURCE_HASH,
  R_COUNT
};

static const mhas_result results[R_COUNT] = {
    [R_ASSUMPTION1] = {"assumption1", MHAS_REAL, "1",
                       "share of random n-subsets of the queries that are independent (n = context); missing with "
                       "fewer than n samples"},
    [R_ASSUMPTION2] = {"assumption2", MHAS_REAL, "1", "share of the contexts that have rank n"},
    [R_ASSUMPTION3] = {"assumption3", MHAS_REAL, "1", "as assumption1, for query + mean of its context's rows"},
    [R_GENERAL_POSITION] = {"general_position", MHAS_REAL, "1",
                            "share of random d-subsets of the queries that are independent; missing with fewer than d "
                            "samples"},
    [R_KRUSKAL_99] = {"kruskal_99", MHAS_INTEGER, "1",
                      "largest k of which at least 99 % of the random k-subsets are independent"},
    [R_KRUSKAL_UPPER] = {"kruskal_upper", MHAS_INTEGER, "1",
                         "the Kruskal rank of the queries is at most this: one less than the size of the smallest "
                         "dependent subset found (stored as certificate)"},
    [R_SOURCE_HASH] = {"source_hash", MHAS_INTEGER, "1", "hash of the file's shape and numbers; 0 without a file"},
};

enum { C_K, C_SHARE, C_SHARE_LOW, C_SHARE_HIGH, C_SHARE_FLOAT64, C_COUNT };

static const mhas_curve curves[C_COUNT] = {
    [C_K] = {"k", "1", "size of the subsets"},
    [C_SHARE] = {"share", "1", "share of the random k-subsets of the queries that are independent"},
    [C_SHARE_LOW] = {"share_low", "1", "lower end of its confidence interval (Wilson)"},
    [C_SHARE_HIGH] = {"share_high", "1", "upper end of its confidence interval (Wilson)"},
    [C_SHARE_FLOAT64] = {"share_float64", "1", "the share with tolerance: float64, whatever the tolerance"},
};

/* ---- sizes ------------------------------------------------------------------ */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static mhas_source_shape shape_of(const mhas_value *values) {
  const mhas_data_shape data = {
      .samples = values[P_SAMPLES].integer,
      .context = values[P_CONTEXT].integer,
      .dim = values[P_DIM].integer,
      .shared = values[P_CONTEXT_TYPE].integer == 1,
      .distribution = values[P_DISTRIBUTION].integer == 1 ? MHAS_GAUSSIAN : MHAS_UNIFORM,
  };
  return source_shape(&values[P_SOURCE], values[P_CONTEXT_TYPE].integer, &data);
}

/* The longest sequences that can be independent. */
static int64_t longest(const mhas_data_shape *data) { return smaller(data->samples, data->dim); }

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape shape = shape_of(values);
  const mhas_data_shape *data = &shape.data;
  MHAS_TRY(mhas_check_numbers("the queries (samples x dim)", (double)data->samples * (double)data->dim, error));
  MHAS_TRY(mhas_check_numbers("a context (context x dim)", (double)data->context * (double)data->dim, error));
  MHAS_TRY(mhas_check_numbers("the random orders (orders x samples)",
                              (double)values[P_ORDERS].integer * (double)data->samples, error));
  return mhas_source_check(&shape, error);
}

static mhas_code inspect(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape shape = shape_of(values);
  return mhas_source_inspect(&shape, error);
}

static double flops_of(const mhas_value *values) {
  const mhas_source_shape shape = shape_of(values);
  const mhas_data_shape *data = &shape.data;
  const double orders = (double)values[P_ORDERS].integer;
  const double contexts = (double)mhas_data_contexts_count(data);
  return mhas_source_flops(&shape) + contexts * mhas_prefix_flops(smaller(data->context, data->dim), data->dim) +
         orders * mhas_prefix_flops(longest(data), data->dim) +
         orders * mhas_prefix_flops(smaller(data->context, longest(data)), data->dim) +
         mhas_kruskal_search_flops(data->samples, data->dim, values[P_ANCHORS].integer);
}

/* Queries, their sums with the context's mean, a context, an order's factorization, and the search. */
static mhas_cost cost(const mhas_value *values) {
  const mhas_source_shape shape = shape_of(values);
  const mhas_data_shape *data = &shape.data;
  const double numbers = (2.0 * (double)data->samples + (double)data->context) * (double)data->dim;
  return (mhas_cost){
      .flops = flops_of(values),
      .bytes = sizeof(double) * numbers + mhas_source_bytes(&shape) + mhas_prefix_bytes(longest(data), data->dim) +
               mhas_kruskal_search_bytes(data->samples, data->dim),
      .records = longest(data),
      .spectrum = 0,
  };
}

static int arrays(const mhas_value *values, unsigned flags, mhas_array *out) {
  const int64_t T = values[P_SAMPLES].integer;
  const int64_t n = values[P_CONTEXT].integer;
  const int64_t d = values[P_DIM].integer;
  const bool shared = values[P_CONTEXT_TYPE].integer == 1;
  if ((flags & MHAS_STORE_DATA) == 0) {
    return 0;
  }
  out[0] = (mhas_array){"E", MHAS_STORE_DATA, shared ? 2 : 3, {shared ? n : T, shared ? d : n, d}, "contexts"};
  out[1] = (mhas_array){"e", MHAS_STORE_DATA, 2, {T, d}, "queries"};
  out[2] = (mhas_array){"certificate",
                        MHAS_STORE_DATA,
                        1,
                        {d + 1},
                        "queries of the dependent subset that proves kruskal_upper, ascending; then NaN"};
  return 3;
}

/* ---- one point ---------------------------------------------------------------- */

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
  const int64_t most = longest(&t->shape.data);
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
  const int64_t most = smaller(t->n, longest(&t->shape.data));
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

static mhas_code run(const mhas_task *task, mhas_row *row, mhas_error *error) {
  const mhas_value *values = task->point.values;
  testing t = {
      .task = task,
      .row = row,
      .shape = shape_of(values),
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
    row->flops = flops_of(values);
  }
  mhas_dependent_free(&t.smallest);
  mhas_source_close(t.source);
  mhas_free(t.sums);
  mhas_free(t.queries);
  return code;
}

const mhas_experiment mhas_experiment_assumptions = {
    .name = "assumptions",
    .title = "Kruskal rank of queries and rank of contexts",
    .summary =
        "Tests what the theory of memorization capacity assumes of its data: that any n queries are linearly "
        "independent, that every context has rank n, and what holds of query + mean of its context. One factorization "
        "of a random order of the queries tells of every k whether its first k are independent, so the curve over all "
        "k costs what one k costs otherwise. Small dependent subsets are searched for beside, and the smallest one "
        "proves an upper bound. Data are random, patches of images, or tokens of any model from a file.",
    .numerics = 1,
    .parameters = parameters,
    .parameter_count = P_COUNT,
    .results = results,
    .result_count = R_COUNT,
    .curves = curves,
    .curve_count = C_COUNT,
    .check = check,
    .inspect = inspect,
    .cost = cost,
    .arrays = arrays,
    .run = run,
};
