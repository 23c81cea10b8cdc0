/*
 * assumptions: does a data set meet what the theory of memorization asks of it?
 *
 * Source: Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers", ICLR 2024,
 * arXiv 2306.02010, sections 3 and 5: Assumption 1 (the queries have Kruskal rank at least n), Assumption 2 (every
 * context has rank n), the weaker one on e + mean(E), and general position (any d vectors are independent), which the
 * theory does without. A Kruskal rank cannot be computed in reasonable time: random subsets tell the share that is
 * independent, and a dependent subset proves a bound.
 */
#include "experiments/assumptions.h"

#include "experiments/all.h"
#include "experiments/checks.h"
#include "mhasweep/kruskal.h"

static const char *const tolerances[] = {"float32", "float64", NULL};
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

static const mhas_curve curves[C_COUNT] = {
    [C_K] = {"k", "1", "size of the subsets"},
    [C_SHARE] = {"share", "1", "share of the random k-subsets of the queries that are independent"},
    [C_SHARE_LOW] = {"share_low", "1", "lower end of its confidence interval (Wilson)"},
    [C_SHARE_HIGH] = {"share_high", "1", "upper end of its confidence interval (Wilson)"},
    [C_SHARE_FLOAT64] = {"share_float64", "1", "the share with tolerance: float64, whatever the tolerance"},
};

/* ---- sizes ------------------------------------------------------------------ */

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

mhas_source_shape assumptions_shape(const mhas_value *values) {
  const mhas_data_shape data = {
      .samples = values[P_SAMPLES].integer,
      .context = values[P_CONTEXT].integer,
      .dim = values[P_DIM].integer,
      .shared = values[P_CONTEXT_TYPE].integer == 1,
      .distribution = values[P_DISTRIBUTION].integer == 1 ? MHAS_GAUSSIAN : MHAS_UNIFORM,
  };
  return source_shape(&values[P_SOURCE], values[P_CONTEXT_TYPE].integer, &data);
}

int64_t assumptions_longest(const mhas_data_shape *data) { return smaller(data->samples, data->dim); }

static mhas_code check(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape shape = assumptions_shape(values);
  const mhas_data_shape *data = &shape.data;
  MHAS_TRY(mhas_check_numbers("the queries (samples x dim)", (double)data->samples * (double)data->dim, error));
  MHAS_TRY(mhas_check_numbers("a context (context x dim)", (double)data->context * (double)data->dim, error));
  MHAS_TRY(mhas_check_numbers("the random orders (orders x samples)",
                              (double)values[P_ORDERS].integer * (double)data->samples, error));
  return mhas_source_check(&shape, error);
}

static mhas_code inspect(const mhas_value *values, mhas_error *error) {
  const mhas_source_shape shape = assumptions_shape(values);
  return mhas_source_inspect(&shape, error);
}

double assumptions_flops(const mhas_value *values) {
  const mhas_source_shape shape = assumptions_shape(values);
  const mhas_data_shape *data = &shape.data;
  const double orders = (double)values[P_ORDERS].integer;
  const double contexts = (double)mhas_data_contexts_count(data);
  return mhas_source_flops(&shape) + contexts * mhas_prefix_flops(smaller(data->context, data->dim), data->dim) +
         orders * mhas_prefix_flops(assumptions_longest(data), data->dim) +
         orders * mhas_prefix_flops(smaller(data->context, assumptions_longest(data)), data->dim) +
         mhas_kruskal_search_flops(data->samples, data->dim, values[P_ANCHORS].integer);
}

/* Queries, their sums with the context's mean, a context, an order's factorization, and the search. */
static mhas_cost cost(const mhas_value *values) {
  const mhas_source_shape shape = assumptions_shape(values);
  const mhas_data_shape *data = &shape.data;
  const double numbers = (2.0 * (double)data->samples + (double)data->context) * (double)data->dim;
  return (mhas_cost){
      .flops = assumptions_flops(values),
      .bytes = sizeof(double) * numbers + mhas_source_bytes(&shape) +
               mhas_prefix_bytes(assumptions_longest(data), data->dim) +
               mhas_kruskal_search_bytes(data->samples, data->dim),
      .records = assumptions_longest(data),
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
    .run = assumptions_run,
};
