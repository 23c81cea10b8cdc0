/* Losses of mean-field features, and what a change of the features does to them; the formulas are in meanfield.h. */
#include <math.h>
#include <string.h>

#include "mhasweep/meanfield.h"
#include "model/meanfield_algebra.h"

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Work: three matrices of k and k0 numbers a side, and what eigenvalues need. */
static int64_t side(const mhas_moments *m) { return larger(m->features, m->true_features); }
static double *matrix(const mhas_moments *m, int number) { return m->work + number * side(m) * side(m); }
enum { MATRICES = 5 };

mhas_code mhas_moments_create(mhas_moments *m, mhas_error *error) {
  const size_t k = (size_t)m->features;
  const size_t k0 = (size_t)m->true_features;
  const size_t work = (size_t)(MATRICES * side(m) * side(m) + small_eigen_work(side(m)));
  MHAS_TRY(mhas_alloc(&m->S, k * k, sizeof(double), "moments", error));
  MHAS_TRY(mhas_alloc(&m->A, k * k, sizeof(double), "moments", error));
  MHAS_TRY(mhas_alloc(&m->S_inverse, k * k, sizeof(double), "moments", error));
  MHAS_TRY(mhas_alloc(&m->C, k0 * k, sizeof(double), "moments", error));
  MHAS_TRY(mhas_alloc(&m->B, k0 * k, sizeof(double), "moments", error));
  MHAS_TRY(mhas_alloc(&m->S0, k0 * k0, sizeof(double), "moments", error));
  MHAS_TRY(mhas_alloc(&m->eigenvalues, k, sizeof(double), "moments", error));
  return mhas_alloc(&m->work, work, sizeof(double), "moments", error);
}

void mhas_moments_free(mhas_moments *m) {
  double **const all[] = {&m->S, &m->A, &m->S_inverse, &m->C, &m->B, &m->S0, &m->eigenvalues, &m->work};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    mhas_free(*all[i]);
    *all[i] = NULL;
  }
}

mhas_code mhas_moments_take(mhas_moments *m, int64_t tokens, const double *h, const double *F, mhas_error *error) {
  const int64_t k = m->features;
  const int64_t k0 = m->true_features;
  const double share = 1.0 / (double)tokens;
  small_multiply(TURNED, AS_IS, k, k, tokens, share, h, h, 0.0, m->S);
  small_multiply(TURNED, AS_IS, k0, k, tokens, share, F, h, 0.0, m->C);
  small_multiply(TURNED, AS_IS, k0, k0, tokens, share, F, F, 0.0, m->S0);
  small_multiply(TURNED, AS_IS, k, k, k0, 1.0, m->C, m->C, 0.0, m->A);
  const double shift = m->ridge * small_trace(k, m->S) / (double)k;
  MHAS_TRY(mhas_small_inverse("S = E[h h^T]", k, m->S, shift, m->cut_off, m->S_inverse, m->eigenvalues, &m->rank,
                              matrix(m, MATRICES), error));
  small_multiply(AS_IS, AS_IS, k0, k, k, 1.0, m->C, m->S_inverse, 0.0, m->B);
  m->condition = m->eigenvalues[0] > 0.0 ? m->eigenvalues[k - 1] / m->eigenvalues[0] : INFINITY;
  return MHAS_OK;
}

/* zeta = F - h G^T, G (k0, k); returns half its mean square. */
static double residual(const mhas_moments *m, int64_t tokens, const double *h, const double *F, const double *G,
                       double *zeta) {
  const int64_t count = tokens * m->true_features;
  memcpy(zeta, F, (size_t)count * sizeof *zeta);
  small_multiply(AS_IS, TURNED, tokens, m->true_features, m->features, -1.0, h, G, 1.0, zeta);
  return 0.5 * small_inner(count, zeta, zeta) / (double)tokens;
}

double mhas_reduced_loss(const mhas_moments *m, int64_t tokens, const double *h, const double *F, double *zeta,
                         double *q) {
  const double loss = residual(m, tokens, h, F, m->B, zeta);
  if (q != NULL) {
    small_multiply(AS_IS, AS_IS, tokens, m->features, m->true_features, -1.0, zeta, m->B, 0.0, q);
  }
  return loss;
}

void mhas_reduced_hessian(const mhas_moments *m, int64_t tokens, const double *h, const double *zeta, const double *u,
                          double *q) {
  const int64_t k = m->features;
  const int64_t k0 = m->true_features;
  const double share = 1.0 / (double)tokens;
  double *square = matrix(m, 0); /* (k, k) */
  double *Mx = matrix(m, 1);     /* (k0, k) */
  double *Cm = matrix(m, 2);     /* (k0, k) = Mx S^-1 */
  small_multiply(TURNED, AS_IS, k, k, tokens, share, u, h, 0.0, square);
  small_multiply(TURNED, AS_IS, k0, k, tokens, share, zeta, u, 0.0, Mx);
  small_multiply(AS_IS, AS_IS, k0, k, k, -1.0, m->B, square, 1.0, Mx);
  small_multiply(AS_IS, AS_IS, k0, k, k, 1.0, Mx, m->S_inverse, 0.0, Cm);
  small_multiply(TURNED, AS_IS, k, k, k0, 1.0, m->B, m->B, 0.0, square);
  small_multiply(AS_IS, AS_IS, tokens, k, k, 1.0, u, square, 0.0, q);
  small_multiply(AS_IS, AS_IS, tokens, k, k0, -1.0, zeta, Cm, 1.0, q);
  small_multiply(TURNED, AS_IS, k, k, k0, 1.0, Cm, m->B, 0.0, square);
  small_multiply(AS_IS, AS_IS, tokens, k, k, 1.0, h, square, 1.0, q);
}

/* ---- with an attention of its own ------------------------------------------------ */

void mhas_joint_gradient(const mhas_moments *m, const double *W, double *g_W) {
  const int64_t k = m->features;
  double *WS = matrix(m, 0);
  small_multiply(AS_IS, AS_IS, k, k, k, 1.0, W, m->S, 0.0, WS);
  for (int64_t i = 0; i < k; i++) {
    WS[i * k + i] -= 1.0;
  }
  small_multiply(AS_IS, AS_IS, k, k, k, 1.0, m->A, WS, 0.0, g_W);
}

/* q: h appears in the prediction, C W h, and once more in C. */
double mhas_joint_loss(const mhas_moments *m, int64_t tokens, const double *h, const double *F, const double *W,
                       double *zeta, double *q, double *g_W) {
  const int64_t k = m->features;
  const int64_t k0 = m->true_features;
  double *CW = matrix(m, 0); /* (k0, k) */
  double *Z = matrix(m, 1);  /* (k, k0) = E[h zeta^T] */
  double *WZ = matrix(m, 2); /* (k, k0) */
  small_multiply(AS_IS, AS_IS, k0, k, k, 1.0, m->C, W, 0.0, CW);
  const double loss = residual(m, tokens, h, F, CW, zeta);
  if (q != NULL) {
    small_multiply(TURNED, AS_IS, k, k0, tokens, 1.0 / (double)tokens, h, zeta, 0.0, Z);
    small_multiply(AS_IS, AS_IS, k, k0, k, 1.0, W, Z, 0.0, WZ);
    small_multiply(AS_IS, AS_IS, tokens, k, k0, -1.0, zeta, CW, 0.0, q);
    small_multiply(AS_IS, TURNED, tokens, k, k0, -1.0, F, WZ, 1.0, q);
  }
  if (g_W != NULL) {
    mhas_joint_gradient(m, W, g_W);
  }
  return loss;
}

double mhas_joint_gap(const mhas_moments *m, const double *W) {
  const int64_t count = m->true_features * m->features;
  double *gap = matrix(m, 0);
  memcpy(gap, m->B, (size_t)count * sizeof *gap);
  small_multiply(AS_IS, AS_IS, m->true_features, m->features, m->features, 1.0, m->C, W, -1.0, gap);
  return sqrt(small_inner(count, gap, gap));
}

mhas_code mhas_joint_ends(const mhas_moments *m, double *smallest, double *largest, mhas_error *error) {
  double *values = matrix(m, 1);
  MHAS_TRY(mhas_small_eigen("A = C^T C", m->features, m->A, values, matrix(m, 0), matrix(m, MATRICES), error));
  *smallest = values[0];
  *largest = values[m->features - 1];
  return MHAS_OK;
}

/* ---- finite prompts ---------------------------------------------------------------- */

/* sum (k, k) = (1 - 1/n) A + E[|f|^2 h h^T] / n */
static void finite_quadratic(const mhas_moments *m, int64_t tokens, const double *h, const double *F, int64_t n,
                             double *sum) {
  const int64_t k = m->features;
  for (int64_t i = 0; i < k * k; i++) {
    sum[i] = (1.0 - 1.0 / (double)n) * m->A[i];
  }
  for (int64_t t = 0; t < tokens; t++) {
    const double *f = F + t * m->true_features;
    const double *row = h + t * k;
    const double weight = small_inner(m->true_features, f, f) / ((double)tokens * (double)n);
    for (int64_t i = 0; i < k; i++) {
      for (int64_t j = 0; j < k; j++) {
        sum[i * k + j] += weight * row[i] * row[j];
      }
    }
  }
}

mhas_code mhas_finite_loss(const mhas_moments *m, int64_t tokens, const double *h, const double *F, int64_t n,
                           double *loss, double *W, mhas_error *error) {
  const int64_t k = m->features;
  double *Q = matrix(m, 0);
  double *inverse = matrix(m, 1);
  double *values = matrix(m, 2);
  double *product = matrix(m, 3);
  double *best = matrix(m, 4);
  int64_t rank = 0;
  finite_quadratic(m, tokens, h, F, n, Q);
  MHAS_TRY(
      mhas_small_inverse("Q = (1 - 1/n) A + T/n", k, Q, 0.0, 0.0, inverse, values, &rank, matrix(m, MATRICES), error));
  if (m->rank < k || rank < k) {
    return mhas_fail(error, MHAS_NUMERIC, "%s is singular: there is no single best W for finite prompts",
                     m->rank < k ? "S = E[h h^T]" : "Q = (1 - 1/n) A + T/n");
  }
  small_multiply(AS_IS, AS_IS, k, k, k, 1.0, inverse, m->A, 0.0, product);
  small_multiply(AS_IS, AS_IS, k, k, k, 1.0, product, m->S_inverse, 0.0, best);
  *loss = 0.5 * small_trace(m->true_features, m->S0) - 0.5 * small_inner(k * k, m->A, best); /* tr(A W), A symmetric */
  if (W != NULL) {
    memcpy(W, best, (size_t)(k * k) * sizeof *W);
  }
  return MHAS_OK;
}

/* ---- the penalty ---------------------------------------------------------------------- */

static double length_of(int64_t count, const double *x) { return sqrt(small_inner(count, x, x)); }

/* At 0 the subgradient 0 is taken. */
static void add_direction(int64_t count, const double *x, double length, double factor, double *g) {
  for (int64_t j = 0; g != NULL && length > 0.0 && j < count; j++) {
    g[j] += factor * x[j] / length;
  }
}

double mhas_barron_norm(int64_t neurons, int64_t features, int64_t dim, const double *a, const double *w, double factor,
                        double *g_a, double *g_w) {
  double sum = 0.0;
  for (int64_t i = 0; i < neurons; i++) {
    const double a_length = length_of(features, a + i * features);
    const double w_length = length_of(dim, w + i * dim);
    sum += a_length * w_length;
    add_direction(features, a + i * features, a_length, factor * w_length, g_a == NULL ? NULL : g_a + i * features);
    add_direction(dim, w + i * dim, w_length, factor * a_length, g_w == NULL ? NULL : g_w + i * dim);
  }
  return sum / (double)neurons;
}
