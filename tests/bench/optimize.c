/*
 * Times one iteration of gradient descent on self-attention, and one product with its Hessian: used by optimize.sh.
 *
 *   bench_optimize HEADS TOKENS DIM SAMPLES [FOLDER]
 *
 * In FOLDER: float64 files of samples and labels (X, y), weights (U, W), a direction (VU, VW), and of what comes out of
 * them: the gradient and the product. Then both are timed, in CPU time, the best of several rounds; printed is one line
 * of JSON.
 */
#include <cblas.h>

#include "bench.h"
#include "mhasweep/linalg.h"
#include "mhasweep/selfattention.h"

enum { ROUNDS = 12 };
static const mhas_random seed = {.seed = 3};

static double *normals(mhas_stream stream, int64_t count, double deviation) {
  double *values = calloc((size_t)count, sizeof *values);
  demand(values != NULL, "memory");
  mhas_random_normal(seed, stream, 0, (size_t)count, values);
  for (int64_t i = 0; i < count; i++) {
    values[i] *= deviation;
  }
  return values;
}

/* The best rate of a large product: what the shares of peak refer to. */
static double gemm_peak(void) {
  enum { N = 768 };
  double *a = normals(MHAS_STREAM_SAMPLE, 3 * N * N, 1.0);
  double best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    const double start = cpu_seconds();
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1.0, a, N, a + N * N, N, 0.0, a + 2 * N * N, N);
    const double took = cpu_seconds() - start;
    best = took < best ? took : best;
  }
  free(a);
  return 2.0 * N * N * N / best;
}

int main(int argc, char **argv) {
  mhas_blas_setup(argv, true, &error);
  demand(argc >= 5, "HEADS TOKENS DIM SAMPLES [FOLDER]");
  const mhas_selfattention_shape shape = {
      .samples = atol(argv[4]), .tokens = atol(argv[2]), .dim = atol(argv[3]), .heads = atol(argv[1]), .copies = 1};
  const int64_t H = shape.heads;
  const int64_t u = mhas_selfattention_numbers_u(&shape, H);
  const int64_t numbers = mhas_selfattention_numbers(&shape, H);
  const int64_t size = shape.samples * shape.tokens * shape.dim;
  double *X = normals(MHAS_STREAM_CONTEXT, size, 0.5);
  double *y = normals(MHAS_STREAM_LABEL, shape.samples, 1.0);
  double *theta = normals(MHAS_STREAM_W_QUERY, numbers, 0.3);
  double *v = normals(MHAS_STREAM_W_KEY, numbers, 1.0);
  double *gradient = normals(MHAS_STREAM_SAMPLE, numbers, 1.0);
  double *product = normals(MHAS_STREAM_SAMPLE, numbers, 1.0);
  for (int64_t i = 0; i < shape.samples; i++) {
    y[i] = y[i] > 0.0 ? 1.0 : -1.0;
  }
  mhas_selfattention *model = NULL;
  demand(mhas_selfattention_create(&shape, MHAS_HESSIAN, X, y, MPI_COMM_NULL, &model, &error) == MHAS_OK, "model");
  mhas_selfattention_linearise(model, theta, NULL, &error);
  double gradient_best = 1e9;
  double product_best = 1e9;
  for (int round = 0; round < ROUNDS; round++) {
    const double start = cpu_seconds();
    mhas_selfattention_gradient(model, theta, -1, gradient, NULL, &error);
    cblas_daxpy((int)numbers, -1e-300, gradient, 1, theta, 1); /* a step, of a length that leaves theta as it is */
    const double middle = cpu_seconds();
    mhas_selfattention_hessian(model, v, product, &error);
    const double end = cpu_seconds();
    gradient_best = middle - start < gradient_best ? middle - start : gradient_best;
    product_best = end - middle < product_best ? end - middle : product_best;
  }
  if (argc > 5) {
    write_file(argv[5], "X", X, sizeof(double), size);
    write_file(argv[5], "y", y, sizeof(double), shape.samples);
    write_file(argv[5], "U", theta, sizeof(double), u);
    write_file(argv[5], "W", theta + u, sizeof(double), numbers - u);
    write_file(argv[5], "VU", v, sizeof(double), u);
    write_file(argv[5], "VW", v + u, sizeof(double), numbers - u);
    write_file(argv[5], "gradient", gradient, sizeof(double), numbers);
    write_file(argv[5], "product", product, sizeof(double), numbers);
  }
  printf(
      "{\"iteration\": %.9g, \"product\": %.9g, \"flops\": %.17g, \"product_flops\": %.17g, \"peak\": %.9g, "
      "\"blas\": \"%s\"}\n",
      gradient_best, product_best, mhas_selfattention_gradient_flops(&shape, H),
      mhas_selfattention_hessian_flops(&shape, H), gemm_peak(), mhas_blas_core());
  mhas_selfattention_destroy(model);
  free(X);
  free(y);
  free(theta);
  free(v);
  free(gradient);
  free(product);
  return 0;
}
