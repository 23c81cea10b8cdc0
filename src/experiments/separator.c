/* The max-margin separator of selected tokens, by the least norm in the hull of their differences from the others. */
#include "experiments/separator.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "mhasweep/eigen.h"

mhas_code mhas_separator_create(int n, int T, int d, const double *X, const double *Z, mhas_separator *separator,
                                mhas_error *error) {
  *separator = (mhas_separator){.n = n, .T = T, .d = d, .X = X, .Z = Z};
  MHAS_TRY(mhas_narrow((int64_t)n * (T - 1), "pairs of tokens", &separator->corners, error));
  const size_t corners = (size_t)separator->corners;
  MHAS_TRY(mhas_alloc(&separator->selected, (size_t)n, sizeof(int64_t), "the selected tokens", error));
  MHAS_TRY(mhas_alloc(&separator->apart, corners * (size_t)d, sizeof(double), "the differences of tokens", error));
  MHAS_TRY(mhas_alloc(&separator->kernel, corners * corners, sizeof(double), "their Gram matrix", error));
  MHAS_TRY(mhas_alloc(&separator->q, corners, sizeof(double), "their weights", error));
  MHAS_TRY(mhas_alloc(&separator->W_mm, (size_t)d * (size_t)d, sizeof(double), "the separator", error));
  separator->selected[0] = -1;
  return MHAS_OK;
}

void mhas_separator_free(mhas_separator *separator) {
  mhas_free(separator->selected);
  mhas_free(separator->apart);
  mhas_free(separator->kernel);
  mhas_free(separator->q);
  mhas_free(separator->W_mm);
  *separator = (mhas_separator){0};
}

/* <(x_i,a - x_it) z_i^T, (x_j,b - x_js) z_j^T> = <differences> <z_i, z_j>. */
static void make_kernel(mhas_separator *s) {
  double *apart = s->apart;
  for (int64_t i = 0; i < s->n; i++) {
    const double *x = s->X + i * s->T * s->d;
    for (int64_t t = 0; t < s->T; t++) {
      for (int64_t k = 0; k < s->d && t != s->selected[i]; k++) {
        *apart++ = x[s->selected[i] * s->d + k] - x[t * s->d + k];
      }
    }
  }
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, s->corners, s->corners, s->d, 1.0, s->apart, s->d, s->apart,
              s->d, 0.0, s->kernel, s->corners);
  for (int64_t i = 0; i < s->n; i++) {
    for (int64_t j = 0; j < s->n; j++) {
      const double factor = cblas_ddot(s->d, s->Z + i * s->d, 1, s->Z + j * s->d, 1);
      for (int64_t t = 0; t < s->T - 1; t++) {
        cblas_dscal(s->T - 1, factor, s->kernel + (i * (s->T - 1) + t) * s->corners + j * (s->T - 1), 1);
      }
    }
  }
}

static mhas_code separate(mhas_separator *s, mhas_error *error) {
  mhas_margin margin;
  make_kernel(s);
  double largest = 0.0;
  for (int64_t c = 0; c < s->corners; c++) {
    largest = fmax(largest, s->kernel[c * s->corners + c]);
  }
  MHAS_TRY(mhas_least_norm(s->corners, s->kernel, 1e-10, s->q, &margin, error));
  s->margin = margin.lower > sqrt(s->corners * DBL_EPSILON * largest) ? margin.lower : 0.0;
  memset(s->W_mm, 0, (size_t)s->d * (size_t)s->d * sizeof *s->W_mm);
  for (int64_t c = 0; c < s->corners && s->margin > 0.0; c++) {
    cblas_dger(CblasRowMajor, s->d, s->d, s->q[c] / margin.upper, s->apart + c * s->d, 1, s->Z + c / (s->T - 1) * s->d,
               1, s->W_mm, s->d);
  }
  return MHAS_OK;
}

mhas_code mhas_separator_find(mhas_separator *s, const int64_t *tokens, mhas_error *error) {
  const size_t bytes = (size_t)s->n * sizeof *tokens;
  if (memcmp(tokens, s->selected, bytes) == 0) {
    return MHAS_OK;
  }
  memcpy(s->selected, tokens, bytes);
  return separate(s, error);
}

double mhas_separator_misalignment(const mhas_separator *s, const double *W) {
  const int numbers = s->d * s->d;
  const double norm = cblas_dnrm2(numbers, W, 1);
  double squares = 0.0;
  for (int64_t i = 0; i < numbers; i++) {
    const double difference = W[i] / norm - s->W_mm[i];
    squares += difference * difference;
  }
  return s->margin > 0.0 && norm > 0.0 ? squares / 2.0 : NAN;
}
