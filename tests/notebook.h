/* Points that are stopped and go on from checkpoints, which are kept in memory. */
#ifndef MHASWEEP_TESTS_NOTEBOOK_H
#define MHASWEEP_TESTS_NOTEBOOK_H

#include "point.h"

enum { NOTEBOOK_BLOCK = 1000 }; /* of what other ranks have, at a time */

/* A place for checkpoints that is the test's. */
typedef struct notebook {
  point *p;
  unsigned char *bytes;
  size_t length;
  int64_t writes;
  bool every; /* a checkpoint is always due */
  mhas_value results[POINT_RESULTS];
  float *curves;
} notebook;

static inline size_t notebook_curves_bytes(const point *p) {
  return (size_t)(p->experiment->curve_count * p->row.record_capacity) * sizeof(float);
}

/* The curves of a point, into `to`; a point without curves has no place for them. */
static inline void notebook_copy_curves(const point *p, float *to, const float *from) {
  if (notebook_curves_bytes(p) > 0) {
    memcpy(to, from, notebook_curves_bytes(p));
  }
}

static inline bool notebook_due(void *context) { return ((notebook *)context)->every; }

static inline mhas_code notebook_write(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover,
                                       mhas_error *error) {
  notebook *book = context;
  (void)error;
  book->length = 0;
  for (int i = 0; i < count; i++) {
    book->bytes = realloc(book->bytes, book->length + pieces[i].bytes);
    assert_non_null(book->bytes);
    if (pieces[i].data != NULL) {
      memcpy(book->bytes + book->length, pieces[i].data, pieces[i].bytes);
    }
    for (size_t at = 0; pieces[i].data == NULL && at < pieces[i].bytes; at += NOTEBOOK_BLOCK) {
      const size_t some = pieces[i].bytes - at < NOTEBOOK_BLOCK ? pieces[i].bytes - at : NOTEBOOK_BLOCK;
      assert_true(mover->fetch(mover->context, i, at, some, book->bytes + book->length + at));
    }
    book->length += pieces[i].bytes;
  }
  memcpy(book->results, book->p->results, sizeof book->results);
  book->curves = realloc(book->curves, notebook_curves_bytes(book->p) + 1);
  assert_non_null(book->curves);
  notebook_copy_curves(book->p, book->curves, book->p->curves);
  book->writes++;
  return MHAS_OK;
}

static inline mhas_code notebook_read(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover,
                                      bool *found, mhas_error *error) {
  notebook *book = context;
  (void)error;
  *found = book->writes > 0;
  size_t at = 0;
  for (int i = 0; i < count && *found; i++) {
    if (pieces[i].data != NULL) {
      memcpy(pieces[i].data, book->bytes + at, pieces[i].bytes);
    }
    for (size_t from = 0; pieces[i].data == NULL && from < pieces[i].bytes; from += NOTEBOOK_BLOCK) {
      const size_t some = pieces[i].bytes - from < NOTEBOOK_BLOCK ? pieces[i].bytes - from : NOTEBOOK_BLOCK;
      assert_true(mover->deliver(mover->context, i, from, some, book->bytes + at + from));
    }
    at += pieces[i].bytes;
  }
  if (*found) {
    assert_int_equal(at, book->length);
    memcpy(book->p->results, book->results, sizeof book->results);
    notebook_copy_curves(book->p, book->p->curves, book->curves);
  }
  return MHAS_OK;
}

/* Stopped again and again, after `rest` more questions each time. `dies`: without a word, so that it goes on from what
 * it kept on the way. Collective over the point's team, whose member 0 has the row that counts. */
static inline void assert_same_with_ends(point *p, int64_t rest, bool dies) {
  point_runs(p);
  mhas_value results[POINT_RESULTS];
  memcpy(results, p->results, sizeof results);
  const double flops = p->row.flops;
  float *curves = malloc(notebook_curves_bytes(p) + 1);
  assert_non_null(curves);
  notebook_copy_curves(p, curves, p->curves);
  notebook book = {.p = p, .every = dies};
  const mhas_checkpoints checkpoints = {notebook_due, notebook_write, notebook_read, &book};
  p->checkpoints = &checkpoints;
  p->stop_code = dies ? MHAS_LIMIT : MHAS_STOPPED;
  p->stop_at = rest;
  mhas_code code = p->stop_code;
  int64_t times = 0;
  for (; code == p->stop_code && times < 10000; times++) {
    code = point_run(p);
  }
  assert_int_equal(code, MHAS_OK);
  assert_true(times > 1);
  if (p->team.rank == 0) {
    assert_true(book.writes > 0);
    assert_memory_equal(results, p->results, (size_t)p->experiment->result_count * sizeof *results);
    assert_memory_equal(curves, p->curves, notebook_curves_bytes(p));
    assert_true(flops == p->row.flops);
  } else {
    assert_int_equal(book.writes, 0);
  }
  p->checkpoints = NULL;
  p->stop_at = -1;
  free(curves);
  free(book.bytes);
  free(book.curves);
}

static inline void assert_same_with_stops(point *p, int64_t rest) { assert_same_with_ends(p, rest, false); }

#endif
