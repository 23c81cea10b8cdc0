/*
 * Eigenvalues of a large matrix that is only known by its products: ARPACK.
 *
 * ARPACK is asked about A - s I for the smallest and A + s I for the largest, with s somewhat above an estimate of the
 * norm of A. That leaves the vectors and the order alone and does three things: values that are wanted are never near
 * zero, so that ARPACK's tolerance, relative to the value, is relative to the norm (a value in a cluster at zero would
 * never converge); the image of a random vector is never zero; and where the vectors so far turn out to span an
 * invariant subspace, the image of any random vector leads out of it. ARPACK asks for such an image and takes a vector
 * from a generator of its own, which remembers all earlier searches of the process: ours is put in its place.
 */
#include <cblas.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "linalg/arpack.h"
#include "linalg/eigen_search.h"

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

int64_t mhas_eigen_basis(int count) { return count > BASIS_LEAST / 2 - 8 ? 2 * count + 16 : BASIS_LEAST; }

static mhas_code lanczos_create(const eigen_search *s, lanczos *l) {
  const int64_t padded = s->problem->size > 0 ? s->problem->size : 1;
  *l = (lanczos){.which = s->end == MHAS_SMALLEST ? "SA" : "LA",
                 .nev = s->count,
                 .ncv = (int)mhas_eigen_basis(s->count),
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

/* x = number `draw` of the normal vectors of this stream. */
static void draw_vector(const eigen_search *s, mhas_stream stream, int64_t draw, double *x) {
  mhas_random_normal(s->problem->random, stream, (uint64_t)(draw * s->total + s->first), (size_t)s->problem->size, x);
}

/* The first vector into l->residual, and the shift from two steps of the power method with it. A shift of 0 says that
 * the matrix is zero. */
static mhas_code choose_shift(eigen_search *s, lanczos *l) {
  double *x = l->work;
  double *y = l->work + l->n;
  double square = 0.0;
  draw_vector(s, MHAS_STREAM_EIGEN_START, 0, l->residual);
  memcpy(x, l->residual, (size_t)s->problem->size * sizeof *x);
  for (int step = 0; step < 2; step++) {
    MHAS_TRY(mhas_eigen_dot(s, x, x, &square));
    if (!(square > 0.0)) {
      return MHAS_OK;
    }
    cblas_dscal(l->n, 1.0 / sqrt(square), x, 1);
    MHAS_TRY(mhas_eigen_multiply(s, x, y));
    memcpy(x, y, (size_t)s->problem->size * sizeof *x);
  }
  MHAS_TRY(mhas_eigen_dot(s, y, y, &square));
  l->shift = (s->end == MHAS_SMALLEST ? -1.4 : 1.4) * sqrt(square);
  return MHAS_OK;
}

static void ask(const eigen_search *s, lanczos *l, int *request, int *info) {
  if (s->alone) {
    dsaupd_(request, "I", &l->n, l->which, &l->nev, &l->tolerance, l->residual, &l->ncv, l->basis, &l->n, l->settings,
            l->places, l->work, l->work_small, &l->work_length, info, 1, 2);
  } else {
    pdsaupd_(&l->comm, request, "I", &l->n, l->which, &l->nev, &l->tolerance, l->residual, &l->ncv, l->basis, &l->n,
             l->settings, l->places, l->work, l->work_small, &l->work_length, info, 1, 2);
  }
}

/* Values into l->values, vectors in place of the basis. */
static void collect(const eigen_search *s, lanczos *l, int *info) {
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
static mhas_code iterate(eigen_search *s, lanczos *l) {
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
    MHAS_TRY(mhas_eigen_multiply(s, x, y));
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
static void take_vectors(const eigen_search *s, const lanczos *l) {
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

mhas_code mhas_eigen_lanczos(eigen_search *s) {
  lanczos l;
  mhas_code code = mhas_eigen_agree(s, lanczos_create(s, &l));
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
