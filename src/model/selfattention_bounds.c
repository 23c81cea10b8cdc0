/* The logistic loss, and bounds of derivatives of self-attention with one output. */
#include "model/selfattention.h"

mhas_logistic mhas_logistic_of(int64_t count, const double *Phi, const double *y) {
  mhas_logistic sum = {0};
  for (int64_t i = 0; i < count; i++) {
    const double z = y[i] * Phi[i];
    sum.loss += (z < 0.0 ? -z : 0.0) + log1p(exp(-fabs(z)));
    sum.slope += 1.0 / (1.0 + exp(z));
    sum.error += z > 0.0 ? 0.0 : 1.0;
  }
  const double n = (double)count;
  return (mhas_logistic){.loss = sum.loss / n, .slope = sum.slope / n, .error = sum.error / n};
}

mhas_selfattention_bounds mhas_selfattention_bound(const mhas_selfattention_shape *shape, double R, double B) {
  const double T = (double)shape->tokens;
  const double H = (double)shape->heads * (double)shape->copies;
  return (mhas_selfattention_bounds){.b1 = sqrt(T) * R * sqrt(1.0 + R * R * R * R * B * B),
                                     .kappa = sqrt(T / H) * R * R * R * (1.0 + 2.0 * R * R * B)};
}

static double largest_row(int64_t rows, int64_t columns, const double *a) {
  double largest = 0.0;
  for (int64_t i = 0; i < rows; i++) {
    const double norm = cblas_dnrm2((int)columns, a + i * columns, 1);
    largest = norm > largest ? norm : largest;
  }
  return largest;
}

double mhas_selfattention_radius(const mhas_selfattention_shape *shape, const double *X) {
  return largest_row(shape->samples * shape->tokens, shape->dim, X);
}

double mhas_selfattention_largest_u(const mhas_selfattention_shape *shape, int64_t heads, const double *theta) {
  double largest = 0.0;
  for (int64_t h = 0; h < heads; h++) {
    const int64_t numbers = shape->tokens * shape->dim;
    double sum = 0.0;
    for (int64_t i = 0; i < numbers; i++) {
      const double u = theta[h * numbers + i];
      sum += u * u;
    }
    largest = sum > largest ? sum : largest;
  }
  return sqrt(largest);
}
