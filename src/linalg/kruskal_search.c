/* Small dependent subsets, looked for where they hide. */
#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linalg/dependent.h"
#include "linalg/lapack.h"

typedef struct search {
  const mhas_vectors *vectors;
  int64_t count, dim, anchors;
  mhas_reducer reducer;
} search;

static mhas_code proceed(const search *s, mhas_error *error) { return s->vectors->proceed(s->vectors->context, error); }

/* Is there reason to look for subsets of so many? */
static bool wanted(const search *s, int64_t size) {
  const mhas_dependent *smallest = s->reducer.smallest;
  return s->count >= size && (smallest->count == 0 || smallest->count > size);
}

/* ---- one: zero vectors ---- */

static void find_zero(search *s) {
  for (int64_t i = 0; i < s->count; i++) {
    const double *x = s->vectors->X + i * s->dim;
    if (cblas_dnrm2((int)s->dim, x, 1) == 0.0) {
      s->reducer.smallest->rows[0] = i;
      s->reducer.smallest->count = 1;
      return;
    }
  }
}

/* ---- two: parallel vectors ---- */

typedef struct place {
  double at; /* on a line or circle */
  int64_t vector;
} place;

static int by_place(const void *left, const void *right) {
  const place *a = left;
  const place *b = right;
  return a->at != b->at ? (a->at > b->at) - (a->at < b->at) : (a->vector > b->vector) - (a->vector < b->vector);
}

/* (count, columns) of inner products with standard normal directions. */
static mhas_code project(const search *s, int columns, double *out, mhas_error *error) {
  double *directions = NULL;
  MHAS_TRY(mhas_alloc(&directions, (size_t)(columns * s->dim), sizeof *directions, "directions", error));
  mhas_random_normal(s->vectors->random, MHAS_STREAM_PROJECTION, 0, (size_t)(columns * s->dim), directions);
  for (int64_t i = 0; i < s->count; i++) {
    for (int c = 0; c < columns; c++) {
      out[i * columns + c] = cblas_ddot((int)s->dim, s->reducer.unit + i * s->dim, 1, directions + c * s->dim, 1);
    }
  }
  mhas_free(directions);
  return MHAS_OK;
}

/* The distance of a from b or -b, whichever is nearer. */
static double line_distance(const double *a, const double *b, int64_t dim) {
  double plus = 0.0;
  double minus = 0.0;
  for (int64_t j = 0; j < dim; j++) {
    plus += (a[j] - b[j]) * (a[j] - b[j]);
    minus += (a[j] + b[j]) * (a[j] + b[j]);
  }
  return sqrt(fmin(plus, minus));
}

/* Parallel vectors of length one fall onto the same place of a random line, up to its direction. Two at distance x have
 * sigma_2 / sigma_1 of about x / 2. */
static mhas_code find_pair(search *s, mhas_error *error) {
  const double *unit = s->reducer.unit;
  double *line = NULL;
  place *places = NULL;
  mhas_code code = mhas_alloc(&line, (size_t)s->count, sizeof *line, "the vectors on a line", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&places, (size_t)s->count, sizeof *places, "the vectors on a line", error);
  }
  if (code == MHAS_OK) {
    code = project(s, 1, line, error);
  }
  for (int64_t i = 0; code == MHAS_OK && i < s->count; i++) {
    places[i] = (place){fabs(line[i]), i};
  }
  if (code == MHAS_OK) {
    qsort(places, (size_t)s->count, sizeof *places, by_place);
  }
  const double apart = 2.0 * s->reducer.tolerance;
  const double reach = apart * 4.0 * sqrt((double)s->dim);
  for (int64_t i = 0; code == MHAS_OK && i < s->count && wanted(s, 2); i++) {
    for (int64_t j = i + 1; code == MHAS_OK && j < s->count && places[j].at - places[i].at <= reach; j++) {
      const int64_t pair[2] = {places[i].vector, places[j].vector};
      if (line_distance(unit + pair[0] * s->dim, unit + pair[1] * s->dim, s->dim) <= apart) {
        code = mhas_reducer_offer(&s->reducer, pair, 2, error);
        break;
      }
    }
    if (code == MHAS_OK && i % 256 == 0) {
      code = proceed(s, error);
    }
  }
  mhas_free(places);
  mhas_free(line);
  return code;
}

/* ---- three in a plane ---- */

/*
 * In three random coordinates, vectors of one plane stay in a plane. Seen from one of them, the anchor, the other two
 * then lie in the same direction; so the directions of all later vectors are sorted, and equal neighbours looked at.
 */
typedef struct planes {
  double *points; /* (count, 3) */
  place *seen, *sorted;
  int64_t *starts; /* of the buckets */
  int64_t buckets;
} planes;

/* Two directions orthogonal to p: unit vectors if p is one. */
static void span_across(const double p[3], double u[3], double v[3]) {
  int axis = 0;
  for (int c = 1; c < 3; c++) {
    axis = fabs(p[c]) < fabs(p[axis]) ? c : axis;
  }
  const int next = (axis + 1) % 3;
  const int last = (axis + 2) % 3;
  const double length = hypot(p[next], p[last]);
  u[axis] = 0.0;
  u[next] = -p[last] / length;
  u[last] = p[next] / length;
  v[0] = p[1] * u[2] - p[2] * u[1];
  v[1] = p[2] * u[0] - p[0] * u[2];
  v[2] = p[0] * u[1] - p[1] * u[0];
  const double scale = 1.0 / sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
  for (int c = 0; c < 3; c++) {
    v[c] *= scale;
  }
}

/* A number in [0, 2) that grows with the angle of the line through (x, y) and the origin. */
static double turn_of(double x, double y) {
  if (y < 0.0 || (y == 0.0 && x < 0.0)) {
    x = -x;
    y = -y;
  }
  const double sum = fabs(x) + y;
  if (sum == 0.0) {
    return 0.0;
  }
  return x >= 0.0 ? y / sum : 1.0 - x / sum;
}

/* Sorts by buckets of equal width, then mends the order inside them. */
static void sort_seen(planes *p, int64_t count) {
  const double scale = (double)p->buckets / 2.0;
  memset(p->starts, 0, (size_t)(p->buckets + 1) * sizeof *p->starts);
  for (int64_t i = 0; i < count; i++) {
    p->starts[(int64_t)(p->seen[i].at * scale) + 1]++;
  }
  for (int64_t b = 0; b < p->buckets; b++) {
    p->starts[b + 1] += p->starts[b];
  }
  for (int64_t i = 0; i < count; i++) {
    p->sorted[p->starts[(int64_t)(p->seen[i].at * scale)]++] = p->seen[i];
  }
  for (int64_t i = 1; i < count; i++) {
    const place moving = p->sorted[i];
    int64_t j = i;
    for (; j > 0 && p->sorted[j - 1].at > moving.at; j--) {
      p->sorted[j] = p->sorted[j - 1];
    }
    p->sorted[j] = moving;
  }
}

/* Squared length of c without its parts along a and b, all of length one. */
static double residual(const double *a, const double *b, const double *c, int64_t dim) {
  const double ab = cblas_ddot((int)dim, a, 1, b, 1);
  const double ac = cblas_ddot((int)dim, a, 1, c, 1);
  const double bc = cblas_ddot((int)dim, b, 1, c, 1);
  const double across = 1.0 - ab * ab;
  const double beta = across > 0.0 ? (bc - ab * ac) / across : 0.0;
  const double alpha = ac - beta * ab;
  double sum = 0.0;
  for (int64_t j = 0; j < dim; j++) {
    const double rest = c[j] - alpha * a[j] - beta * b[j];
    sum += rest * rest;
  }
  return sum;
}

static mhas_code try_triple(search *s, int64_t a, int64_t b, int64_t c, mhas_error *error) {
  const double *unit = s->reducer.unit;
  const double near = 64.0 * s->reducer.tolerance;
  if (residual(unit + a * s->dim, unit + b * s->dim, unit + c * s->dim, s->dim) > near * near) {
    return MHAS_OK;
  }
  const int64_t rows[3] = {a, b, c};
  return mhas_reducer_offer(&s->reducer, rows, 3, error);
}

static mhas_code look_from(search *s, planes *p, int64_t anchor, double width, mhas_error *error) {
  double u[3];
  double v[3];
  const double *from = p->points + 3 * anchor;
  const int64_t count = s->count - anchor - 1;
  span_across(from, u, v);
  for (int64_t i = 0; i < count; i++) {
    const double *point = from + 3 * (i + 1);
    const double x = u[0] * point[0] + u[1] * point[1] + u[2] * point[2];
    const double y = v[0] * point[0] + v[1] * point[1] + v[2] * point[2];
    p->seen[i] = (place){fmin(turn_of(x, y), 2.0 - DBL_EPSILON), anchor + 1 + i};
  }
  sort_seen(p, count);
  for (int64_t i = 0; i < count && wanted(s, 3); i++) {
    for (int64_t step = 1; step < count; step++) { /* around the circle */
      const place *other = &p->sorted[(i + step) % count];
      const double beyond = i + step < count ? 0.0 : 2.0;
      if (other->at + beyond - p->sorted[i].at > width) {
        break;
      }
      MHAS_TRY(try_triple(s, anchor, p->sorted[i].vector, other->vector, error));
    }
  }
  return MHAS_OK;
}

static mhas_code find_triple(search *s, mhas_error *error) {
  /* Rounding of the vectors moves directions by about so much; wider would only cost time. */
  const double width = fmin(fmax(s->reducer.tolerance, 1e-12), 1e-5);
  planes p = {.buckets = s->count};
  mhas_code code = mhas_alloc(&p.points, 3 * (size_t)s->count, sizeof *p.points, "the vectors in space", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&p.seen, (size_t)s->count, sizeof *p.seen, "directions", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&p.sorted, (size_t)s->count, sizeof *p.sorted, "directions", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&p.starts, (size_t)s->count + 1, sizeof *p.starts, "directions", error);
  }
  if (code == MHAS_OK) {
    code = project(s, 3, p.points, error);
  }
  for (int64_t anchor = 0; code == MHAS_OK && anchor < s->anchors && anchor + 2 < s->count && wanted(s, 3); anchor++) {
    code = proceed(s, error);
    if (code == MHAS_OK) {
      code = look_from(s, &p, anchor, width, error);
    }
  }
  mhas_free(p.starts);
  mhas_free(p.sorted);
  mhas_free(p.seen);
  mhas_free(p.points);
  return code;
}

/* ---- more: neighbourhoods ---- */

enum { NEIGHBOURS_MOST = 40, ANCHORS_AT_ONCE = 64 };

/* white (count, dim): the vectors in coordinates in which their second moments are one (up to a ridge that keeps
 * directions without vectors harmless), at length one. Linear maps keep dependence; this one makes the vectors spread
 * evenly, so that members of a small common subspace are nearer to each other than chance. */
static mhas_code whiten(const search *s, double *white, mhas_error *error) {
  const int dim = (int)s->dim;
  int info = 0;
  double *moments = NULL;
  MHAS_TRY(mhas_alloc(&moments, (size_t)(s->dim * s->dim), sizeof *moments, "second moments", error));
  cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, dim, dim, (int)s->count, 1.0, s->reducer.unit, dim,
              s->reducer.unit, dim, 0.0, moments, dim);
  const double ridge = 1e-10 * (double)s->count;
  for (int64_t j = 0; j < s->dim; j++) {
    moments[j * s->dim + j] += ridge;
  }
  dpotrf_("U", &dim, moments, &dim, &info, 1); /* as row-major: the lower factor L */
  if (info != 0) {
    mhas_free(moments);
    return mhas_fail(error, MHAS_NUMERIC, "the second moments of the vectors are not positive (DPOTRF, info %d)", info);
  }
  memcpy(white, s->reducer.unit, (size_t)(s->count * s->dim) * sizeof *white);
  cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)s->count, dim, 1.0, moments, dim,
              white, dim);
  mhas_free(moments);
  for (int64_t i = 0; i < s->count; i++) {
    const double length = cblas_dnrm2(dim, white + i * s->dim, 1);
    cblas_dscal(dim, length > 0.0 ? 1.0 / length : 0.0, white + i * s->dim, 1);
  }
  return MHAS_OK;
}

/* The anchor, then the `most` vectors of largest |cosine|, descending, into order. */
static void sort_neighbours(const search *s, int64_t anchor, const double *cosines, int64_t most, int64_t *order) {
  double near[NEIGHBOURS_MOST + 1];
  int64_t count = 0;
  order[0] = anchor;
  for (int64_t i = 0; i < s->count; i++) {
    const double cosine = fabs(cosines[i]);
    if (i == anchor || (count == most && cosine <= near[count - 1])) {
      continue;
    }
    int64_t at = count < most ? count++ : count - 1;
    for (; at > 0 && near[at - 1] < cosine; at--) {
      near[at] = near[at - 1];
      order[at + 1] = order[at];
    }
    near[at] = cosine;
    order[at + 1] = i;
  }
}

static mhas_code look_around(search *s, int64_t anchor, const double *cosines, mhas_error *error) {
  int64_t order[NEIGHBOURS_MOST + 1];
  const mhas_dependent *smallest = s->reducer.smallest;
  int64_t most = s->dim - 1 < NEIGHBOURS_MOST ? s->dim - 1 : NEIGHBOURS_MOST;
  most = most < s->count - 1 ? most : s->count - 1;
  if (smallest->count > 0 && most > smallest->count - 2) {
    most = smallest->count - 2; /* larger subsets would be no news */
  }
  if (most < 1) {
    return MHAS_OK;
  }
  sort_neighbours(s, anchor, cosines, most, order);
  MHAS_TRY(mhas_prefix_factor(s->reducer.prefix, s->reducer.unit, order, most + 1, error));
  const int64_t independent = mhas_prefix_independent(s->reducer.prefix, s->reducer.tolerance);
  return independent > most ? MHAS_OK : mhas_reducer_shrink(&s->reducer, order, independent, error);
}

static mhas_code find_among_neighbours(search *s, mhas_error *error) {
  double *white = NULL;
  double *cosines = NULL;
  mhas_code code = mhas_alloc(&white, (size_t)(s->count * s->dim), sizeof *white, "the whitened vectors", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&cosines, ANCHORS_AT_ONCE * (size_t)s->count, sizeof *cosines, "cosines", error);
  }
  if (code == MHAS_OK) {
    code = whiten(s, white, error);
  }
  for (int64_t first = 0; code == MHAS_OK && first < s->anchors && wanted(s, 4); first += ANCHORS_AT_ONCE) {
    const int64_t rows = s->anchors - first < ANCHORS_AT_ONCE ? s->anchors - first : ANCHORS_AT_ONCE;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)s->count, (int)s->dim, 1.0,
                white + first * s->dim, (int)s->dim, white, (int)s->dim, 0.0, cosines, (int)s->count);
    for (int64_t i = 0; code == MHAS_OK && i < rows; i++) {
      code = look_around(s, first + i, cosines + i * s->count, error);
    }
    if (code == MHAS_OK) {
      code = proceed(s, error);
    }
  }
  mhas_free(cosines);
  mhas_free(white);
  return code;
}

/* ---- all of it ---- */

mhas_code mhas_kruskal_search(const mhas_vectors *vectors, int64_t anchors, double tolerance, mhas_dependent *smallest,
                              mhas_error *error) {
  int narrow = 0;
  search s = {.vectors = vectors,
              .count = vectors->count,
              .dim = vectors->dim,
              .anchors = anchors < vectors->count ? anchors : vectors->count};
  MHAS_TRY(mhas_narrow(vectors->count, "the number of vectors", &narrow, error));
  mhas_code code = mhas_reducer_create(vectors, tolerance, smallest, &s.reducer, error);
  if (code == MHAS_OK) {
    find_zero(&s);
  }
  if (code == MHAS_OK && wanted(&s, 2) && s.dim > 1) {
    code = find_pair(&s, error);
  }
  if (code == MHAS_OK && wanted(&s, 3) && s.dim > 2) {
    code = find_triple(&s, error);
  }
  if (code == MHAS_OK && wanted(&s, 4) && s.dim > 3) {
    code = find_among_neighbours(&s, error);
  }
  mhas_reducer_free(&s.reducer);
  return code;
}

/* Directions of all later vectors from each anchor; cosines of all vectors with it; its neighbours' factorization. */
double mhas_kruskal_search_flops(int64_t count, int64_t dim, int64_t anchors) {
  const double most = fmin((double)dim, NEIGHBOURS_MOST);
  return (double)anchors * ((double)count * (2.0 * (double)dim + 40.0) + mhas_prefix_flops((int64_t)most, dim));
}

double mhas_kruskal_search_bytes(int64_t count, int64_t dim) {
  return sizeof(double) *
         ((double)count * (2.0 * (double)dim + ANCHORS_AT_ONCE + 8.0) + 4.0 * (double)dim * (double)dim);
}
