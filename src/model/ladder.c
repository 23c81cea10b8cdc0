/* The landscape of the reduced loss: its critical values, and the way out of a saddle; derived in meanfield.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/lapack.h"
#include "mhasweep/meanfield.h"
#include "model/meanfield_algebra.h"

/* ---- rungs ----------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a;
  const double y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Half the sums over all subsets of at least `least` eigenvalues. */
static int64_t fill_rungs(int64_t least, mhas_ladder *ladder) {
  const int64_t k0 = ladder->true_features;
  int64_t count = 0;
  for (int64_t subset = 0; subset < (int64_t)1 << k0; subset++) {
    double sum = 0.0;
    if (__builtin_popcountll((unsigned long long)subset) < least) {
      continue;
    }
    for (int64_t j = 0; j < k0; j++) {
      sum += (subset >> j & 1) != 0 ? ladder->eigenvalues[j] : 0.0;
    }
    ladder->rungs[count++] = 0.5 * sum;
  }
  return count;
}

mhas_code mhas_ladder_create(int64_t features, int64_t true_features, const double *S0, mhas_ladder *ladder,
                             mhas_error *error) {
  const int64_t k0 = true_features;
  double *work = NULL;
  *ladder = (mhas_ladder){.true_features = k0};
  if (k0 < 1 || k0 > MHAS_LADDER_MOST) {
    return mhas_fail(error, MHAS_LIMIT, "the ladder of critical values has 2^k0 rungs: at most %d true features",
                     MHAS_LADDER_MOST);
  }
  MHAS_TRY(mhas_alloc(&ladder->eigenvalues, (size_t)k0, sizeof(double), "the ladder", error));
  MHAS_TRY(mhas_alloc(&ladder->rungs, (size_t)1 << k0, sizeof(double), "the ladder", error));
  MHAS_TRY(mhas_alloc(&work, (size_t)(small_eigen_work(k0)), sizeof *work, "the ladder", error));
  const mhas_code code = mhas_small_eigen("S0 = E[f f^T]", k0, S0, ladder->eigenvalues, work, work + k0 * k0, error);
  mhas_free(work);
  MHAS_TRY(code);
  for (int64_t j = 0; j < k0; j++) {
    ladder->eigenvalues[j] = fmax(ladder->eigenvalues[j], 0.0); /* but for rounding they are not negative */
  }
  ladder->count = fill_rungs(k0 > features ? k0 - features : 0, ladder);
  qsort(ladder->rungs, (size_t)ladder->count, sizeof(double), ascending);
  ladder->floor = ladder->rungs[0];
  const double beyond = ladder->floor + 1e-12 * ladder->eigenvalues[k0 - 1]; /* equal eigenvalues make equal rungs */
  int64_t next = 1;
  while (next < ladder->count - 1 && ladder->rungs[next] <= beyond) {
    next++;
  }
  ladder->lowest = ladder->rungs[next < ladder->count ? next : 0];
  return MHAS_OK;
}

void mhas_ladder_free(mhas_ladder *ladder) {
  mhas_free(ladder->eigenvalues);
  mhas_free(ladder->rungs);
  *ladder = (mhas_ladder){0};
}

double mhas_ladder_nearest(const mhas_ladder *ladder, double loss) {
  int64_t low = 0;
  int64_t high = ladder->count - 1;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    *(ladder->rungs[middle] <= loss ? &low : &high) = middle;
  }
  return loss - ladder->rungs[low] <= ladder->rungs[high] - loss ? ladder->rungs[low] : ladder->rungs[high];
}

double mhas_ladder_distance(const mhas_ladder *ladder, double loss, double rung) {
  return fabs(loss - rung) / (rung > 0.0 ? rung : ladder->lowest);
}

/* ---- the way out of a saddle ------------------------------------------------------- */

typedef struct looking {
  int64_t k, k0, least, lost; /* least = min(k, k0); lost: directions of R */
  double *B, *sigma;          /* B turned, then spent; singular values of B, descending */
  double *right, *left;       /* rows: right (k, k) and left (k0, k0) singular vectors of B */
  double *Res, *seen, *values, *work;
} looking;

static int64_t svd_work(int64_t k, int64_t k0) {
  const int64_t most = k > k0 ? k : k0;
  return 8 * most + 64 * most;
}

/* Row-major a (rows x columns) is column-major a^T: what LAPACK calls left is right here. Vectors come as rows of
 * `right`; those of `left` as columns, and are turned. */
static mhas_code decompose(looking *l, const double *a, bool vectors, double *sigma, mhas_error *error) {
  const int k = (int)l->k;
  const int k0 = (int)l->k0;
  const int lwork = (int)svd_work(k, k0);
  const char *job = vectors ? "A" : "N";
  int info = 0;
  memcpy(l->B, a, (size_t)(l->k * l->k0) * sizeof *a);
  dgesvd_(job, job, &k, &k0, l->B, &k, sigma, l->right, &k, l->left, &k0, l->work, &lwork, &info, 1, 1);
  if (info != 0) {
    return mhas_fail(error, MHAS_NUMERIC, "the singular values of B were not found (DGESVD: %d)", info);
  }
  return MHAS_OK;
}

/* Entry j of left singular vector i: LAPACK's V^T (k0 x k0) is column-major. */
static double left_entry(const looking *l, int64_t i, int64_t j) { return l->left[j * l->k0 + i]; }

/* Res = S0 - B S B^T; seen = what of it is outside the range of the first `kept` left singular vectors. */
static void see_residual(looking *l, const mhas_moments *m, int64_t kept) {
  const int64_t k = l->k;
  const int64_t k0 = l->k0;
  double *BS = l->B;
  double *out = l->work; /* (k0, k0): I - sum of projectors */
  double *half = l->values;
  small_multiply(AS_IS, AS_IS, k0, k, k, 1.0, m->B, m->S, 0.0, BS);
  memcpy(l->Res, m->S0, (size_t)(k0 * k0) * sizeof *l->Res);
  small_multiply(AS_IS, TURNED, k0, k0, k, -1.0, BS, m->B, 1.0, l->Res);
  for (int64_t i = 0; i < k0; i++) {
    for (int64_t j = 0; j < k0; j++) {
      double inside = 0.0;
      for (int64_t s = 0; s < kept; s++) {
        inside += left_entry(l, s, i) * left_entry(l, s, j);
      }
      out[i * k0 + j] = (i == j) - inside;
    }
  }
  small_multiply(AS_IS, AS_IS, k0, k0, k0, 1.0, out, l->Res, 0.0, half);
  small_multiply(AS_IS, AS_IS, k0, k0, k0, 1.0, half, out, 0.0, l->seen);
}

/* R = sum over the lost directions of v w^T, and -tr(R^T S^-1 R Res^2). `seen` has eigenvectors as rows by now. */
static double curvature_of(looking *l, const mhas_moments *m, int64_t kept, double *R) {
  const int64_t k = l->k;
  const int64_t k0 = l->k0;
  memset(R, 0, (size_t)(k * k0) * sizeof *R);
  for (int64_t s = 0; s < l->lost; s++) {
    const double *v = l->right + (kept + s) * k;
    const double *w = l->seen + (k0 - 1 - s) * k0;
    for (int64_t i = 0; i < k; i++) {
      for (int64_t j = 0; j < k0; j++) {
        R[i * k0 + j] += v[i] * w[j];
      }
    }
  }
  double *through = l->B;  /* (k, k0) = R Res */
  double *back = l->right; /* (k, k0) = S^-1 R Res; spent */
  small_multiply(AS_IS, AS_IS, k, k0, k0, 1.0, R, l->Res, 0.0, through);
  small_multiply(AS_IS, AS_IS, k, k0, k, 1.0, m->S_inverse, through, 0.0, back);
  return -small_inner(k * k0, through, back);
}

static void copy_out(int64_t count, const double *from, double *to) {
  if (to != NULL) {
    memcpy(to, from, (size_t)count * sizeof *to);
  }
}

static mhas_code look_around(looking *l, const mhas_moments *m, double tolerance, mhas_landscape *look, double *R,
                             mhas_error *error) {
  MHAS_TRY(decompose(l, m->C, false, l->sigma, error));
  look->rank_cross = 0;
  for (int64_t i = 0; i < l->least; i++) {
    look->rank_cross += l->sigma[i] > tolerance * l->sigma[0];
  }
  look->sigma_min_cross = l->sigma[l->least - 1];
  copy_out(l->least, l->sigma, look->sigma_cross);
  MHAS_TRY(decompose(l, m->B, true, l->sigma, error));
  look->sigma_min_b = l->sigma[l->least - 1];
  copy_out(l->least, l->sigma, look->sigma_b);
  l->lost = look->rank_cross < l->least ? l->least - look->rank_cross : 1;
  const int64_t kept = l->least - l->lost;
  see_residual(l, m, kept);
  const double loss = 0.5 * small_trace(l->k0, l->Res);
  look->curvature_bound = -4.0 * loss * loss / ((double)l->k * small_trace(l->k, m->S));
  MHAS_TRY(mhas_small_eigen("E[zeta zeta^T]", l->k0, l->seen, l->values, l->seen, l->work, error));
  look->curvature = curvature_of(l, m, kept, R);
  if (m->rank < l->k) {
    look->curvature = NAN;
  }
  return MHAS_OK;
}

mhas_code mhas_landscape_look(const mhas_moments *m, double tolerance, mhas_landscape *look, mhas_error *error) {
  const int64_t k = m->features;
  const int64_t k0 = m->true_features;
  const int64_t most = k > k0 ? k : k0;
  const int64_t square = most * most;
  const int64_t work = svd_work(k, k0) + square;
  double *all = NULL;
  MHAS_TRY(mhas_alloc(&all, (size_t)(7 * square + most + work), sizeof *all, "the landscape", error));
  looking l = {.k = k, .k0 = k0, .least = k < k0 ? k : k0};
  double *R = all;
  l.B = all + square;
  l.right = all + 2 * square;
  l.left = all + 3 * square;
  l.Res = all + 4 * square;
  l.seen = all + 5 * square;
  l.values = all + 6 * square;
  l.sigma = all + 7 * square;
  l.work = l.sigma + most;
  const mhas_code code = look_around(&l, m, tolerance, look, look->R != NULL ? look->R : R, error);
  mhas_free(all);
  return code;
}
