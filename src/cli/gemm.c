/* How fast, and whether right, the BLAS under this program multiplies: for the estimates of plan and simulate and
 * doctor's check. */
#include <cblas.h>
#include <float.h>
#include <math.h>

#include "cli/cli.h"

/* 128: three matrices take 384 KiB, the share of one core in any cache of today. 61: no multiple of a vector's length,
 * so that the kernels' edges work too. */
enum { RATE_SIZE = 128, CHECK_SIZE = 61 };

static const double rate_seconds = 0.05; /* for a sweep's rate: longer would not be a better estimate */

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

static void multiply_float32(int n, float *matrices) {
  const int size = n * n;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0F, matrices, n, matrices + size, n, 0.0F,
              matrices + 2 * size, n);
}

/* Operations per second with whichever of the two is not NULL: the best of batches that are long against the clock's
 * resolution, short against a time slice. */
static double best_rate(double *matrices, float *floats, double seconds) {
  const int batch = 8;
  const double start = mhas_now();
  double fastest = INFINITY;
  for (double now = start; now - start < seconds;) {
    for (int i = 0; i < batch; i++) {
      if (floats != NULL) {
        multiply_float32(RATE_SIZE, floats);
      } else {
        multiply(RATE_SIZE, matrices);
      }
    }
    const double then = now;
    now = mhas_now();
    fastest = fmin(fastest, now - then);
  }
  return batch * 2.0 * RATE_SIZE * RATE_SIZE * RATE_SIZE / fmax(fastest, 1e-9);
}

mhas_code cli_gemm_rate(bool float32, double seconds, double *rate, mhas_error *error) {
  const size_t count = (size_t)3 * RATE_SIZE * RATE_SIZE;
  double *matrices = NULL;
  float *floats = NULL;
  mhas_code code = three_matrices(RATE_SIZE, &matrices, error);
  if (code == MHAS_OK && float32) {
    code = mhas_alloc(&floats, count, sizeof *floats, "a test of sgemm", error);
  }
  for (size_t i = 0; floats != NULL && i < count; i++) {
    floats[i] = (float)matrices[i];
  }
  if (code == MHAS_OK) {
    *rate = best_rate(matrices, floats, seconds);
  }
  mhas_free(floats);
  mhas_free(matrices);
  return code;
}

mhas_code cli_sweep_rate(const mhas_plan *plan, double *rate, mhas_error *error) {
  const double share = plan->flops > 0.0 ? plan->flops_float32 / plan->flops : 0.0;
  double rate_float64 = INFINITY;
  double rate_float32 = INFINITY;
  if (share < 1.0) {
    MHAS_TRY(cli_gemm_rate(false, rate_seconds, &rate_float64, error));
  }
  if (share > 0.0) {
    MHAS_TRY(cli_gemm_rate(true, rate_seconds, &rate_float32, error));
  }
  *rate = 1.0 / (share / rate_float32 + (1.0 - share) / rate_float64);
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
