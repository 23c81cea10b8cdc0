/* Runs that are stopped again and again, and have to end as if they had not been. */
#ifndef MHASWEEP_TESTS_STOPS_H
#define MHASWEEP_TESTS_STOPS_H

#include "point.h"

typedef struct notebook {
  point *p;
  unsigned char *bytes;
  size_t length;
  int64_t writes;
  bool every; /* a checkpoint is always due */
  mhas_value results[POINT_RESULTS];
  float *curves;
} notebook;

static inline size_t curves_bytes(const point *p) {
  return (size_t)(p->experiment->curve_count * p->row.record_capacity) * sizeof(float);
}

static inline bool due(void *context) { return ((notebook *)context)->every; }

static inline mhas_code write_down(void *context, const mhas_piece *pieces, int count, mhas_error *error) {
  notebook *book = context;
  (void)error;
  book->length = 0;
  for (int i = 0; i < count; i++) {
    book->bytes = realloc(book->bytes, book->length + pieces[i].bytes);
    assert_non_null(book->bytes);
    memcpy(book->bytes + book->length, pieces[i].data, pieces[i].bytes);
    book->length += pieces[i].bytes;
  }
  memcpy(book->results, book->p->results, sizeof book->results);
  book->curves = realloc(book->curves, curves_bytes(book->p));
  memcpy(book->curves, book->p->curves, curves_bytes(book->p));
  book->writes++;
  return MHAS_OK;
}

static inline mhas_code read_up(void *context, const mhas_piece *pieces, int count, bool *found, mhas_error *error) {
  notebook *book = context;
  (void)error;
  *found = book->writes > 0;
  size_t at = 0;
  for (int i = 0; i < count && *found; i++) {
    memcpy(pieces[i].data, book->bytes + at, pieces[i].bytes);
    at += pieces[i].bytes;
  }
  if (*found) {
    assert_int_equal(at, book->length);
    memcpy(book->p->results, book->results, sizeof book->results);
    memcpy(book->p->curves, book->curves, curves_bytes(book->p));
  }
  return MHAS_OK;
}

/* Stopped again and again, after `rest` more questions each time. */
static inline void assert_same_with_stops(point *p, int64_t rest) {
  point_runs(p);
  mhas_value results[POINT_RESULTS];
  memcpy(results, p->results, sizeof results);
  const double flops = p->row.flops;
  float *curves = malloc(curves_bytes(p));
  assert_non_null(curves);
  memcpy(curves, p->curves, curves_bytes(p));
  notebook book = {.p = p};
  const mhas_checkpoints checkpoints = {due, write_down, read_up, &book};
  p->checkpoints = &checkpoints;
  p->stop_code = MHAS_STOPPED;
  p->stop_at = rest;
  mhas_code code = MHAS_STOPPED;
  for (int64_t times = 0; code == MHAS_STOPPED && times < 10000; times++) {
    code = point_run(p);
  }
  assert_int_equal(code, MHAS_OK);
  assert_true(book.writes > 0);
  assert_memory_equal(results, p->results, (size_t)p->experiment->result_count * sizeof *results);
  assert_memory_equal(curves, p->curves, curves_bytes(p));
  assert_true(flops == p->row.flops);
  p->checkpoints = NULL;
  p->stop_at = -1;
  free(curves);
  free(book.bytes);
  free(book.curves);
}

#endif
