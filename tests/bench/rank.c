/*
 * How long rank and least squares of large matrices take, beside the routines that people use today. One line a
 * measurement: name, size, seconds, GF/s by the operations of the textbook, of the fastest of some rounds. Under
 * mpirun, all ranks are one team; the routines of LAPACK need one rank.
 *
 *   bench_rank SIZE ROUNDS NAME...
 *
 * The name "core" tells which BLAS kernels run.
 */
#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "linalg/lapack.h"
#include "linalg/scalapack.h"
#include "mhasweep/linalg.h"
#include "mhasweep/model.h"

/* Of LAPACK; for comparison only. */
void dgelsy_(const int *m, const int *n, const int *nrhs, double *a, const int *lda, double *b, const int *ldb,
             int *jpvt, const double *rcond, int *rank, double *work, const int *lwork, int *info);

enum { OUTPUTS = 100, DIM = 64 };

static const mhas_random seed = {.seed = 1};

typedef struct bench {
  mhas_grid *grid;
  int rank, ranks;
  int64_t size;
  int rounds;
  mhas_cyclic a, b, c; /* c: a result of PDGEMM */
  mhas_error error;
} bench;

static void demand(bench *s, mhas_code code) {
  if (code != MHAS_OK) {
    (void)fprintf(stderr, "bench_rank: %s\n", s->error.text);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static double now(void) {
  (void)MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime();
}

/* ---- matrices ---- */

static mhas_code fill_gaussian(void *context, int64_t row, int64_t rows, int64_t column, int64_t columns, double *block,
                               int64_t stride, mhas_error *error) {
  (void)error;
  for (int64_t j = 0; j < columns; j++) {
    const uint64_t first = ((uint64_t)(column + j) << 24) + (uint64_t)row;
    mhas_random_normal(*(const mhas_random *)context, MHAS_STREAM_SAMPLE, first, (size_t)rows, block + j * stride);
  }
  return MHAS_OK;
}

static void make(bench *s, int64_t columns, uint64_t which, mhas_cyclic *a) {
  mhas_random random = {.seed = which};
  if (a->local == NULL) {
    demand(s, mhas_cyclic_create(s->grid, s->size, columns, "a matrix", a, &s->error));
  }
  demand(s, mhas_cyclic_fill(a, fill_gaussian, &random, &s->error));
}

static mhas_code draw_contexts(void *context, int64_t first, int64_t count, double *E, mhas_error *error) {
  (void)error;
  mhas_data_contexts(context, seed, first, count, E);
  return MHAS_OK;
}

static mhas_code draw_queries(void *context, int64_t first, int64_t count, double *e, mhas_error *error) {
  (void)error;
  mhas_data_queries(context, seed, first, count, e);
  return MHAS_OK;
}

/* Features of as many heads as make as many columns as samples; contexts are shared by all or each sample's own. */
static void make_features(bench *s, bool shared, mhas_cyclic *Z) {
  const mhas_features_shape shape = {
      .heads = s->size / DIM, .dim = DIM, .key_dim = DIM, .context = DIM, .shared = shared, .logit_scale = 1.0};
  mhas_data_shape data = {
      .samples = s->size, .context = DIM, .dim = DIM, .shared = shared, .distribution = MHAS_GAUSSIAN};
  const mhas_features_samples samples = {s->size, draw_contexts, draw_queries, &data};
  const size_t weights = (size_t)(shape.heads * DIM * DIM);
  double *W_Q = NULL;
  double *W_K = NULL;
  int64_t saturated = 0;
  demand(s, mhas_alloc(&W_Q, weights, sizeof *W_Q, "W_Q", &s->error));
  demand(s, mhas_alloc(&W_K, weights, sizeof *W_K, "W_K", &s->error));
  mhas_xavier_query_key(shape.heads, DIM, DIM, seed, W_Q, W_K);
  if (Z->local == NULL) {
    demand(s, mhas_cyclic_create(s->grid, s->size, shape.heads * DIM, "Z", Z, &s->error));
  }
  demand(s, mhas_features_cyclic(&shape, &samples, W_Q, W_K, NULL, Z, &saturated, &s->error));
  mhas_free(W_Q);
  mhas_free(W_K);
}

/* ---- what is measured: each returns its seconds ---- */

static double work_of_qr(const bench *s) { return 4.0 / 3.0 * pow((double)s->size, 3.0); }

static double run_gemm(bench *s) {
  make(s, s->size, 1, &s->a);
  make(s, s->size, 2, &s->b);
  make(s, s->size, 3, &s->c);
  const int n = (int)s->size;
  const int one = 1;
  const double plus = 1.0;
  const double zero = 0.0;
  const double start = now();
  pdgemm_("N", "N", &n, &n, &n, &plus, s->a.local, &one, &one, s->a.descriptor, s->b.local, &one, &one, s->b.descriptor,
          &zero, s->c.local, &one, &one, s->c.descriptor);
  return now() - start;
}

static double run_scalapack_qr(bench *s, bool pivots) {
  make(s, s->size, 1, &s->a);
  const int n = (int)s->size;
  const int one = 1;
  const int block = s->a.descriptor[4];
  const int length = block * (int)(s->a.local_rows + s->a.local_columns + 4 * block) + 3 * n;
  int info = 0;
  int *order = NULL;
  double *tau = NULL;
  double *work = NULL;
  demand(s, mhas_alloc(&order, (size_t)n, sizeof *order, "pivots", &s->error));
  demand(s, mhas_alloc(&tau, (size_t)n, sizeof *tau, "factors", &s->error));
  demand(s, mhas_alloc(&work, (size_t)length, sizeof *work, "a workspace", &s->error));
  const double start = now();
  if (pivots) {
    pdgeqpf_(&n, &n, s->a.local, &one, &one, s->a.descriptor, order, tau, work, &length, &info);
  } else {
    pdgeqrf_(&n, &n, s->a.local, &one, &one, s->a.descriptor, tau, work, &length, &info);
  }
  const double seconds = now() - start;
  mhas_free(order);
  mhas_free(tau);
  mhas_free(work);
  return info == 0 ? seconds : NAN;
}

static double run_qrf(bench *s) { return run_scalapack_qr(s, false); }
static double run_qpf(bench *s) { return run_scalapack_qr(s, true); }

static double run_ours(bench *s, bool solve) {
  make(s, s->size, 1, &s->a);
  const double tolerance = mhas_rank_tolerance(s->size, s->size);
  mhas_cyclic x = {0};
  mhas_cyclic y = {0};
  mhas_qr *qr = NULL;
  int64_t rank = 0;
  make(s, OUTPUTS, 4, &x);
  make(s, OUTPUTS, 5, &y);
  const double start = now();
  demand(s, mhas_qr_create(MHAS_QR_RANDOMIZED, &s->a, tolerance, seed, &qr, &s->error));
  demand(s, mhas_qr_ranks(qr, &tolerance, 1, &rank, &s->error));
  if (solve) {
    demand(s, mhas_qr_solve(qr, rank, &y, &x, &s->error));
  }
  const double seconds = now() - start;
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&x);
  mhas_cyclic_free(&y);
  return rank == s->size ? seconds : NAN;
}

static double run_rrqr(bench *s) { return run_ours(s, false); }
static double run_squares(bench *s) { return run_ours(s, true); }

static double run_svd(bench *s) {
  make(s, s->size, 1, &s->a);
  double *sigma = NULL;
  demand(s, mhas_alloc(&sigma, (size_t)s->size, sizeof *sigma, "singular values", &s->error));
  const double start = now();
  demand(s, mhas_cyclic_singular_values(&s->a, sigma, &s->error));
  const double seconds = now() - start;
  mhas_free(sigma);
  return seconds;
}

/* LAPACK on one rank, with all the memory that it could wish for. */
static double run_lapack(bench *s, const char *name) {
  if (s->ranks != 1) {
    return NAN;
  }
  make(s, s->size, 1, &s->a);
  mhas_cyclic y = {0};
  make(s, OUTPUTS, 5, &y);
  const int n = (int)s->size;
  const int outputs = OUTPUTS;
  const int length = 400 * n;
  const double tolerance = mhas_rank_tolerance(n, n);
  double *work = NULL;
  double *tau = NULL;
  int *integers = NULL;
  int rank = 0;
  int info = 0;
  demand(s, mhas_alloc(&work, (size_t)length, sizeof *work, "a workspace", &s->error));
  demand(s, mhas_alloc(&tau, (size_t)n, sizeof *tau, "factors", &s->error));
  demand(s, mhas_alloc(&integers, 64 * (size_t)n, sizeof *integers, "a workspace", &s->error));
  const double start = now();
  if (strcmp(name, "dgelsd") == 0) {
    dgelsd_(&n, &n, &outputs, s->a.local, &n, y.local, &n, tau, &tolerance, &rank, work, &length, integers, &info);
  } else if (strcmp(name, "dgelsy") == 0) {
    dgelsy_(&n, &n, &outputs, s->a.local, &n, y.local, &n, integers, &tolerance, &rank, work, &length, &info);
  } else if (strcmp(name, "dgeqp3") == 0) {
    dgeqp3_(&n, &n, s->a.local, &n, integers, tau, work, &length, &info);
  } else {
    dgeqrf_(&n, &n, s->a.local, &n, tau, work, &length, &info);
  }
  const double seconds = now() - start;
  mhas_free(work);
  mhas_free(tau);
  mhas_free(integers);
  mhas_cyclic_free(&y);
  return info == 0 ? seconds : NAN;
}

static double run_dgelsd(bench *s) { return run_lapack(s, "dgelsd"); }
static double run_dgelsy(bench *s) { return run_lapack(s, "dgelsy"); }
static double run_dgeqp3(bench *s) { return run_lapack(s, "dgeqp3"); }
static double run_dgeqrf(bench *s) { return run_lapack(s, "dgeqrf"); }

/* ---- a whole point: Z made, its rank, its fit, and what memory that took ---- */

static void report_memory(const bench *s) {
  struct rusage usage;
  (void)getrusage(RUSAGE_SELF, &usage);
  const double mine = 1024.0 * (double)usage.ru_maxrss;
  double all = 0.0;
  (void)MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  const double matrix = sizeof(double) * (double)s->a.rows * (double)s->a.columns;
  if (s->rank == 0) {
    (void)printf("peak memory of all ranks %.0f MiB, %.2f times the matrix\n", all / 1048576.0, all / matrix);
  }
}

static double run_features(bench *s, bool shared) {
  const double tolerance = mhas_rank_tolerance(s->size, s->size);
  mhas_cyclic x = {0};
  mhas_cyclic y = {0};
  mhas_qr *qr = NULL;
  int64_t rank = 0;
  double backward = 0.0;
  double at[5];
  at[0] = now();
  make_features(s, shared, &s->a);
  demand(s, mhas_cyclic_create(s->grid, s->a.columns, OUTPUTS, "solutions", &x, &s->error));
  make(s, OUTPUTS, 5, &y);
  at[1] = now();
  demand(s, mhas_qr_create(MHAS_QR_RANDOMIZED, &s->a, tolerance, seed, &qr, &s->error));
  demand(s, mhas_qr_ranks(qr, &tolerance, 1, &rank, &s->error));
  at[2] = now();
  demand(s, mhas_qr_solve(qr, rank, &y, &x, &s->error));
  mhas_qr_destroy(qr);
  at[3] = now();
  make_features(s, shared, &s->a);
  make(s, OUTPUTS, 5, &y);
  demand(s, mhas_cyclic_residual(&s->a, &x, &y, &backward, &s->error));
  at[4] = now();
  if (s->rank == 0) {
    if (shared) {
      (void)printf("the theory says rank %" PRId64 "\n", mhas_bound_shared(s->size / DIM, DIM));
    }
    (void)printf("Z in %.1f s, rank %" PRId64 " in %.1f s, %d right-hand sides in %.1f s, residual %.1e in %.1f s\n",
                 at[1] - at[0], rank, at[2] - at[1], (int)OUTPUTS, at[3] - at[2], backward, at[4] - at[3]);
  }
  report_memory(s);
  mhas_cyclic_free(&x);
  mhas_cyclic_free(&y);
  return at[4] - at[0];
}

static double run_own(bench *s) { return run_features(s, false); }
static double run_shared(bench *s) { return run_features(s, true); }

/* ---- main ---- */

static const struct measurement {
  const char *name;
  double (*run)(bench *s);
  bool gemm;
} measurements[] = {
    {"pdgemm", run_gemm, true},    {"pdgeqrf", run_qrf, false},      {"pdgeqpf", run_qpf, false},
    {"rank", run_rrqr, false},     {"rank+fit", run_squares, false}, {"pdgesvd", run_svd, false},
    {"dgelsd", run_dgelsd, false}, {"dgelsy", run_dgelsy, false},    {"dgeqp3", run_dgeqp3, false},
    {"dgeqrf", run_dgeqrf, false}, {"own", run_own, false},          {"shared", run_shared, false},
};

static const struct measurement *find(const char *name) {
  for (size_t i = 0; i < sizeof measurements / sizeof *measurements; i++) {
    if (strcmp(measurements[i].name, name) == 0) {
      return &measurements[i];
    }
  }
  (void)fprintf(stderr, "bench_rank: nothing is called %s\n", name);
  (void)MPI_Abort(MPI_COMM_WORLD, 2);
  return NULL;
}

/* Round by round, so that a noisy minute does not fall on one of them alone. */
static void measure(bench *s, int count, char **names) {
  double fastest[sizeof measurements / sizeof *measurements];
  for (size_t i = 0; i < sizeof fastest / sizeof *fastest; i++) {
    fastest[i] = INFINITY;
  }
  for (int round = 0; round < s->rounds; round++) {
    for (int i = 0; i < count; i++) {
      const struct measurement *m = find(names[i]);
      const double seconds = m->run(s);
      double *best = &fastest[m - measurements];
      *best = isnan(seconds) ? NAN : fmin(*best, seconds);
    }
  }
  for (int i = 0; i < count && s->rank == 0; i++) {
    const struct measurement *m = find(names[i]);
    const double work = m->gemm ? 1.5 * work_of_qr(s) : work_of_qr(s);
    const double seconds = fastest[m - measurements];
    (void)printf("%-9s %6" PRId64 " %9.3f s %7.1f GF/s\n", m->name, s->size, seconds, work / seconds * 1e-9);
  }
}

int main(int argc, char **argv) {
  bench s = {.rank = -1};
  (void)mhas_blas_setup(argv, true, &s.error); /* slow kernels are slow for all that is compared */
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
    return 1;
  }
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
  (void)MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
  s.size = argc > 3 ? atoll(argv[1]) : 0;
  s.rounds = argc > 3 ? atoi(argv[2]) : 0;
  if (s.size < 1 || s.rounds < 1) {
    (void)fprintf(stderr, "usage: bench_rank SIZE ROUNDS NAME...\n");
    (void)MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const char *block = getenv("BLOCK"); /* rows and columns of a block */
  demand(&s, mhas_grid_create(MPI_COMM_WORLD, block == NULL ? 0 : atoi(block), &s.grid, &s.error));
  if (strcmp(argv[3], "core") == 0) {
    (void)printf("%s\n", mhas_blas_core());
  } else {
    measure(&s, argc - 3, argv + 3);
  }
  mhas_cyclic_free(&s.a);
  mhas_cyclic_free(&s.b);
  mhas_cyclic_free(&s.c);
  mhas_grid_destroy(s.grid);
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
