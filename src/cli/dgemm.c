/* How fast, and whether right, the BLAS under this program multiplies: for plan's estimate and doctor's check. */
#include <cblas.h>
#include <float.h>
#include <math.h>

#include "cli/cli.h"

/* 128: three matrices take 384 KiB, the share of one core in any cache of today. 61: no multiple of a vector's length,
 * so that the kernels' edges work too. */
enum { RATE_SIZE = 128, CHECK_SIZE = 61 };

/* Three n x n matrices, one after the other; the first two filled with uniform numbers below 1. */
static mhas_code three_matrices(size_t n, double **matrices, mhas_error *error) {
  MHAS_TRY(mhas_alloc(matrices, 3 * n * n, sizeof **matrices, "a test of dgemm", error));
  mhas_random_uniform((mhas_random){0}, MHAS_STREAM_SAMPLE, 0, 2 * n * n, *matrices);
  return MHAS_OK;
}

static void multiply(int n, double *matrices) {
  const int size = n * n;
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0, matrices, n, matrices + size, n, 0.0,
              matrices + 2 * size, n);
}

mhas_code cli_dgemm_rate(double seconds, double *rate, mhas_error *error) {
  double *matrices = NULL;
  MHAS_TRY(three_matrices(RATE_SIZE, &matrices, error));
  const int batch = 8; /* long against the clock's resolution, short against a time slice */
  const double flops = batch * 2.0 * RATE_SIZE * RATE_SIZE * RATE_SIZE;
  const double start = mhas_now();
  double fastest = INFINITY;
  for (double now = start; now - start < seconds;) {
    for (int i = 0; i < batch; i++) {
      multiply(RATE_SIZE, matrices);
    }
    const double then = now;
    now = mhas_now();
    fastest = fmin(fastest, now - then);
  }
  mhas_free(matrices);
  *rate = flops / fmax(fastest, 1e-9);
  return MHAS_OK;
}

mhas_code cli_dgemm_error(double *units, mhas_error *error) {
  enum { n = CHECK_SIZE };
  double *matrices = NULL;
  MHAS_TRY(three_matrices(n, &matrices, error));
  multiply(n, matrices);
  const double *a = matrices;
  const double *b = a + n * n;
  const double *c = b + n * n;
  double largest = 0.0;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) {
      double sum = 0.0;
      for (int k = 0; k < n; k++) {
        sum += a[i * n + k] * b[k * n + j];
      }
      const double off = fabs(c[i * n + j] - sum);
      largest = off <= largest ? largest : off; /* a NaN is taken over */
    }
  }
  mhas_free(matrices);
  *units = largest / (n * DBL_EPSILON);
  return MHAS_OK;
}
