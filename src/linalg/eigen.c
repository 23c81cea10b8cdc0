/*
 * A few eigenvalues at one end of the spectrum of a symmetric matrix that is only known by its products.
 *
 * ARPACK is asked about A - s I for the smallest and A + s I for the largest, with s somewhat above an estimate of the
 * norm of A. That leaves the vectors and the order alone and does three things: values that are wanted are never near
 * zero, so that ARPACK's tolerance, relative to the value, is relative to the norm (a value in a cluster at zero would
 * never converge); the image of a random vector is never zero; and where the vectors so far turn out to span an
 * invariant subspace, the image of any random vector leads out of it. ARPACK asks for such an image and takes a vector
 * from a generator of its own, which remembers all earlier searches of the process: ours is put in its place.
 */
#include "mhasweep/eigen.h"

#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "linalg/arpack.h"
#include "linalg/dense.h"
#include "linalg/lapack.h"

typedef struct search {
  const mhas_eigen_problem *problem;
  mhas_end end;
  int count;
  bool alone;           /* one rank: ARPACK instead of PARPACK, whose sums have other bits */
  int64_t total, first; /* rows of the matrix; the first of this rank's */
  int64_t products;
  double *vectors; /* (count, size) */
  mhas_error *error;
} search;

/* ---- what ranks do together ------------------------------------------------------- */

static mhas_code sum_over_ranks(const search *s, double *values, int count) {
  if (!s->alone && MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_DOUBLE, MPI_SUM, s->problem->comm) != MPI_SUCCESS) {
    return mhas_fail(s->error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  return MHAS_OK;
}

/* The largest of all ranks' codes, on all. A rank that had no error of its own says that another had. */
static mhas_code agree(const search *s, mhas_code code) {
  int worst = (int)code;
  if (!s->alone && MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, s->problem->comm) != MPI_SUCCESS) {
    return mhas_fail(s->error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  if (code == MHAS_OK && worst != MHAS_OK) {
    return mhas_fail(s->error, (mhas_code)worst, "another rank of the team could not go on with its eigenvectors");
  }
  return (mhas_code)worst;
}

/* The product of two spread vectors. */
static mhas_code dot(const search *s, const double *x, const double *y, double *product) {
  *product = 0.0;
  for (int64_t i = 0; i < s->problem->size; i++) {
    *product += x[i] * y[i];
  }
  return sum_over_ranks(s, product, 1);
}

static mhas_code locate(search *s) {
  int ranks = 1;
  int64_t ends = s->problem->size;
  s->total = s->problem->size;
  s->alone =
      s->problem->comm == MPI_COMM_NULL || (MPI_Comm_size(s->problem->comm, &ranks) == MPI_SUCCESS && ranks == 1);
  if (!s->alone && (MPI_Scan(MPI_IN_PLACE, &ends, 1, MPI_INT64_T, MPI_SUM, s->problem->comm) != MPI_SUCCESS ||
                    MPI_Allreduce(MPI_IN_PLACE, &s->total, 1, MPI_INT64_T, MPI_SUM, s->problem->comm) != MPI_SUCCESS)) {
    return mhas_fail(s->error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  s->first = ends - s->problem->size;
  return MHAS_OK;
}

/* ---- products ----------------------------------------------------------------------- */

/* y = A x; x (size), y (size). */
static mhas_code multiply(search *s, const double *x, double *y) {
  const mhas_eigen_problem *p = s->problem;
  if (s->products >= p->products_most) {
    return mhas_fail(s->error, MHAS_NUMERIC,
                     "%" PRId64 " products with the matrix (%" PRId64
                     " rows) were not enough for %d eigenvalue%s to "
                     "%g of the largest",
                     s->products, s->total, s->count, s->count == 1 ? "" : "s", p->tolerance);
  }
  s->products++;
  MHAS_TRY(p->product(p->context, x, y, s->error));
  double broken = 0.0;
  for (int64_t i = 0; i < p->size; i++) {
    broken += isfinite(y[i]) ? 0.0 : 1.0;
  }
  MHAS_TRY(sum_over_ranks(s, &broken, 1));
  if (broken > 0.0) {
    return mhas_fail(s->error, MHAS_NUMERIC, "a product with the matrix has %.0f entries that are not finite", broken);
  }
  return MHAS_OK;
}

/* x = number `draw` of the normal vectors of this stream. */
static void draw_vector(const search *s, mhas_stream stream, int64_t draw, double *x) {
  mhas_random_normal(s->problem->random, stream, (uint64_t)(draw * s->total + s->first), (size_t)s->problem->size, x);
}

/* ---- small matrices: made whole, and LAPACK --------------------------------------- */

/* a (total, total) from its products with the unit vectors, on every rank. */
static mhas_code make_whole(search *s, double *a, double *x) {
  const int64_t size = s->problem->size;
  for (int64_t j = 0; j < s->total; j++) {
    memset(x, 0, (size_t)size * sizeof *x);
    if (j >= s->first && j < s->first + size) {
      x[j - s->first] = 1.0;
    }
    MHAS_TRY(multiply(s, x, a + j * s->total + s->first));
  }
  int entries = 0;
  MHAS_TRY(mhas_narrow(s->total * s->total, "the entries of a small matrix", &entries, s->error));
  MHAS_TRY(sum_over_ranks(s, a, entries));
  for (int64_t i = 0; i < s->total; i++) {
    for (int64_t j = 0; j < i; j++) {
      a[i * s->total + j] = a[j * s->total + i] = 0.5 * (a[i * s->total + j] + a[j * s->total + i]);
    }
  }
  return MHAS_OK;
}

/* The eigenvalues of a into w, ascending, and its eigenvectors in place of it. */
static mhas_code decompose(const search *s, double *a, double *w) {
  const int n = (int)s->total;
  double asked = 0.0;
  int length = -1;
  int info = 0;
  dsyev_("V", "L", &n, a, &n, w, &asked, &length, &info, 1, 1);
  double *work = NULL;
  MHAS_TRY(mhas_lapack_workspace(asked, &length, &work, s->error));
  dsyev_("V", "L", &n, a, &n, w, work, &length, &info, 1, 1);
  mhas_free(work);
  return info == 0 ? MHAS_OK
                   : mhas_fail(s->error, MHAS_NUMERIC, "the eigenvalues did not converge (DSYEV, info %d)", info);
}

static mhas_code solve_whole(search *s) {
  const int64_t n = s->total;
  const int64_t size = s->problem->size;
  double *a = NULL; /* and the eigenvalues behind it */
  double *x = NULL;
  mhas_code code = mhas_alloc(&a, (size_t)(n * n + n), sizeof *a, "a small matrix", s->error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&x, (size_t)size, sizeof *x, "a vector", s->error);
  }
  code = agree(s, code);
  if (code == MHAS_OK) {
    code = make_whole(s, a, x);
  }
  if (code == MHAS_OK) {
    code = agree(s, decompose(s, a, a + n * n));
  }
  for (int64_t k = 0; code == MHAS_OK && k < s->count; k++) {
    const int64_t from = s->end == MHAS_SMALLEST ? k : n - 1 - k;
    memcpy(s->vectors + k * size, a + from * n + s->first, (size_t)size * sizeof *a);
  }
  mhas_free(a);
  mhas_free(x);
  return code;
}

/* ---- large ones: ARPACK ------------------------------------------------------------- */

typedef struct lanczos {
  MPI_Fint comm;
  const char *which;
  int n; /* of this rank's part, padded to 1 with a zero that stays zero: PARPACK wants something on every rank */
  int nev, ncv, work_length;
  double tolerance, shift;
  double *residual, *basis, *work, *work_small, *values;
  int *select;
  int settings[11], places[11];
} lanczos;

enum { BASIS_LEAST = 40 };

static int64_t basis_for(int count) { return count > BASIS_LEAST / 2 - 8 ? 2 * count + 16 : BASIS_LEAST; }

static mhas_code lanczos_create(const search *s, lanczos *l) {
  const int64_t padded = s->problem->size > 0 ? s->problem->size : 1;
  *l = (lanczos){.which = s->end == MHAS_SMALLEST ? "SA" : "LA",
                 .nev = s->count,
                 .ncv = (int)basis_for(s->count),
                 .tolerance = s->problem->tolerance,
                 .settings = {[0] = 1, [2] = INT32_MAX, [3] = 1, [6] = 1}};
  l->comm = s->alone ? 0 : MPI_Comm_c2f(s->problem->comm);
  l->work_length = l->ncv * (l->ncv + 8);
  MHAS_TRY(mhas_narrow(3 * padded, "the numbers in a rank's part of three vectors", &l->n, s->error));
  l->n = (int)padded;
  MHAS_TRY(mhas_alloc(&l->residual, (size_t)padded, sizeof(double), "a vector", s->error));
  MHAS_TRY(mhas_alloc(&l->basis, (size_t)(padded * l->ncv), sizeof(double), "the basis of Lanczos vectors", s->error));
  MHAS_TRY(mhas_alloc(&l->work, (size_t)(3 * padded), sizeof(double), "three vectors", s->error));
  MHAS_TRY(mhas_alloc(&l->work_small, (size_t)l->work_length, sizeof(double), "the workspace of ARPACK", s->error));
  MHAS_TRY(mhas_alloc(&l->values, (size_t)l->ncv, sizeof(double), "eigenvalues", s->error));
  return mhas_alloc(&l->select, (size_t)l->ncv, sizeof(int), "the workspace of ARPACK", s->error);
}

static void lanczos_free(lanczos *l) {
  mhas_free(l->residual);
  mhas_free(l->basis);
  mhas_free(l->work);
  mhas_free(l->work_small);
  mhas_free(l->values);
  mhas_free(l->select);
}

/* The first vector into l->residual, and the shift from two steps of the power method with it. A shift of 0 says that
 * the matrix is zero. */
static mhas_code choose_shift(search *s, lanczos *l) {
  double *x = l->work;
  double *y = l->work + l->n;
  double square = 0.0;
  draw_vector(s, MHAS_STREAM_EIGEN_START, 0, l->residual);
  memcpy(x, l->residual, (size_t)s->problem->size * sizeof *x);
  for (int step = 0; step < 2; step++) {
    MHAS_TRY(dot(s, x, x, &square));
    if (!(square > 0.0)) {
      return MHAS_OK;
    }
    cblas_dscal(l->n, 1.0 / sqrt(square), x, 1);
    MHAS_TRY(multiply(s, x, y));
    memcpy(x, y, (size_t)s->problem->size * sizeof *x);
  }
  MHAS_TRY(dot(s, y, y, &square));
  l->shift = (s->end == MHAS_SMALLEST ? -1.4 : 1.4) * sqrt(square);
  return MHAS_OK;
}

static void ask(const search *s, lanczos *l, int *request, int *info) {
  if (s->alone) {
    dsaupd_(request, "I", &l->n, l->which, &l->nev, &l->tolerance, l->residual, &l->ncv, l->basis, &l->n, l->settings,
            l->places, l->work, l->work_small, &l->work_length, info, 1, 2);
  } else {
    pdsaupd_(&l->comm, request, "I", &l->n, l->which, &l->nev, &l->tolerance, l->residual, &l->ncv, l->basis, &l->n,
             l->settings, l->places, l->work, l->work_small, &l->work_length, info, 1, 2);
  }
}

/* Values into l->values, vectors in place of the basis. */
static void collect(const search *s, lanczos *l, int *info) {
  const int yes = 1;
  const double unused = 0.0;
  if (s->alone) {
    dseupd_(&yes, "A", l->select, l->values, l->basis, &l->n, &unused, "I", &l->n, l->which, &l->nev, &l->tolerance,
            l->residual, &l->ncv, l->basis, &l->n, l->settings, l->places, l->work, l->work_small, &l->work_length,
            info, 1, 1, 2);
  } else {
    pdseupd_(&l->comm, &yes, "A", l->select, l->values, l->basis, &l->n, &unused, "I", &l->n, l->which, &l->nev,
             &l->tolerance, l->residual, &l->ncv, l->basis, &l->n, l->settings, l->places, l->work, l->work_small,
             &l->work_length, info, 1, 1, 2);
  }
}

/* Answers ARPACK until it has what it wants. */
static mhas_code iterate(search *s, lanczos *l) {
  enum { FIRST = -1, PRODUCT = 1 };
  int request = 0;
  int info = 1; /* the first vector is in l->residual */
  for (int64_t starts = 0;;) {
    ask(s, l, &request, &info);
    if (request != FIRST && request != PRODUCT) {
      break;
    }
    double *x = l->work + l->places[0] - 1;
    double *y = l->work + l->places[1] - 1;
    if (request == FIRST && starts++ > 0) {
      draw_vector(s, MHAS_STREAM_EIGEN_RESTART, starts, x);
    }
    MHAS_TRY(multiply(s, x, y));
    cblas_daxpy((int)s->problem->size, l->shift, x, 1, y, 1);
  }
  if (info == 0) {
    collect(s, l, &info);
  }
  if (info != 0 || l->settings[4] < s->count) {
    return mhas_fail(s->error, MHAS_NUMERIC,
                     "the eigenvalues did not converge (ARPACK, info %d, %d of %d found after %" PRId64 " products)",
                     info, l->settings[4], s->count, s->products);
  }
  return MHAS_OK;
}

/* The outermost of the vectors that were found; unit vectors if the matrix is zero. */
static void take_vectors(const search *s, const lanczos *l) {
  const int64_t size = s->problem->size;
  for (int64_t k = 0; k < s->count; k++) {
    double *out = s->vectors + k * size;
    if (l->shift == 0.0) {
      for (int64_t i = 0; i < size; i++) {
        out[i] = s->first + i == k ? 1.0 : 0.0;
      }
    } else {
      const int64_t from = s->end == MHAS_SMALLEST ? k : l->settings[4] - 1 - k;
      memcpy(out, l->basis + from * l->n, (size_t)size * sizeof *out);
    }
  }
}

static mhas_code solve_lanczos(search *s) {
  lanczos l;
  mhas_code code = agree(s, lanczos_create(s, &l));
  if (code == MHAS_OK) {
    code = choose_shift(s, &l);
  }
  if (code == MHAS_OK && l.shift != 0.0) {
    code = iterate(s, &l);
  }
  if (code == MHAS_OK) {
    take_vectors(s, &l);
  }
  lanczos_free(&l);
  return code;
}

/* ---- both ------------------------------------------------------------------------------ */

static mhas_code scale_to_unit(const search *s, double *v, double *length) {
  double square = 0.0;
  MHAS_TRY(dot(s, v, v, &square));
  *length = sqrt(square);
  for (int64_t i = 0; i < s->problem->size; i++) {
    v[i] /= *length;
  }
  return MHAS_OK;
}

/* Makes vector k a unit vector at right angles to those before it. ARPACK's nearly are, but for the last digits, or
 * more than those where rounding is all that a Lanczos step leaves (a multiple of the unit matrix). */
static mhas_code straighten(search *s, int k) {
  const int64_t size = s->problem->size;
  double *v = s->vectors + k * size;
  double length = 0.0;
  MHAS_TRY(scale_to_unit(s, v, &length));
  for (int j = 0; j < k; j++) {
    double part = 0.0;
    MHAS_TRY(dot(s, v, s->vectors + j * size, &part));
    cblas_daxpy((int)size, -part, s->vectors + j * size, 1, v, 1);
  }
  MHAS_TRY(scale_to_unit(s, v, &length));
  return length > 0.5 ? MHAS_OK : mhas_fail(s->error, MHAS_NUMERIC, "an eigenvector was found twice, lost to rounding");
}

/* value = v^T A v and ||A v - value v|| for the unit vector v. y is scratch. */
static mhas_code examine(search *s, const double *v, double *y, mhas_eigen *found) {
  double square = 0.0;
  MHAS_TRY(multiply(s, v, y));
  MHAS_TRY(dot(s, v, y, &found->value));
  for (int64_t i = 0; i < s->problem->size; i++) {
    y[i] -= found->value * v[i];
  }
  MHAS_TRY(dot(s, y, y, &square));
  found->residual = sqrt(square);
  return MHAS_OK;
}

/* Rounding may have changed the order of values that are next to each other. */
static void sort(const search *s, mhas_eigen *found) {
  const int64_t size = s->problem->size;
  const double sign = s->end == MHAS_SMALLEST ? 1.0 : -1.0;
  for (int i = 1; i < s->count; i++) {
    for (int k = i; k > 0 && sign * found[k].value < sign * found[k - 1].value; k--) {
      const mhas_eigen other = found[k];
      found[k] = found[k - 1];
      found[k - 1] = other;
      cblas_dswap((int)size, s->vectors + k * size, 1, s->vectors + (k - 1) * size, 1);
    }
  }
}

static mhas_code solve(search *s, mhas_eigen *found) {
  const int64_t size = s->problem->size;
  double *y = NULL;
  MHAS_TRY(agree(s, mhas_alloc(&y, (size_t)size, sizeof *y, "a vector", s->error)));
  const bool small = s->total <= 2 * basis_for(s->count);
  mhas_code code = small ? solve_whole(s) : solve_lanczos(s);
  for (int k = 0; code == MHAS_OK && k < s->count; k++) {
    code = straighten(s, k);
    if (code == MHAS_OK) {
      code = examine(s, s->vectors + k * size, y, &found[k]);
    }
  }
  if (code == MHAS_OK) {
    sort(s, found);
  }
  mhas_free(y);
  return code;
}

mhas_code mhas_eigen_ends(const mhas_eigen_problem *problem, mhas_end end, int count, mhas_eigen *found,
                          double *vectors, int64_t *products, mhas_error *error) {
  search s = {.problem = problem, .end = end, .count = count, .vectors = vectors, .error = error};
  *products = 0;
  MHAS_TRY(locate(&s));
  if (count < 1 || count > s.total || !(problem->tolerance > 0.0)) {
    return mhas_fail(error, MHAS_INTERNAL, "%d eigenvalues of %" PRId64 " to a tolerance of %g were asked for", count,
                     s.total, problem->tolerance);
  }
  double *own = NULL;
  if (vectors == NULL) {
    const size_t numbers = (size_t)count * (size_t)problem->size;
    MHAS_TRY(agree(&s, mhas_alloc(&own, numbers, sizeof *own, "eigenvectors", error)));
    s.vectors = own;
  }
  const mhas_code code = solve(&s, found);
  *products = s.products;
  mhas_free(own);
  return code;
}
