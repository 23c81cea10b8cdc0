/*
 * Work for the farm that only pretends, and the checks that every test of the farm makes.
 */
#ifndef MHASWEEP_TESTS_FAKE_WORK_H
#define MHASWEEP_TESTS_FAKE_WORK_H

#include <math.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "mhasweep/farm.h"

#include <cmocka.h>

enum { FAKE_ROWS_MOST = 200000 };

/* How a row runs: its status, or an error of the run. */
typedef struct fake fake;
typedef mhas_code (*fake_row)(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error);

struct fake {
  fake_row run_row;
  int64_t rows;                 /* 0 .. rows - 1 */
  float flops;                  /* of each row, times 1 .. 4 */
  int (*ranks_of)(int64_t row); /* NULL: one each */
  const mhas_team *team;        /* of the row that runs */
  mhas_farm_options options;    /* of rank 0 */
  mhas_watch *watch;
  int64_t entered;               /* rows that started here */
  uint8_t runs[FAKE_ROWS_MOST];  /* times that each row was begun here */
  uint8_t ended[FAKE_ROWS_MOST]; /* times that each row was done or failed here */

  int rank, size;
  mhas_code code;
  mhas_error error;
  mhas_farm_state state;
};

static inline mhas_code fake_run(void *context, const mhas_team *team, const int64_t *rows, int64_t count,
                                 mhas_farm_control *control, uint8_t *outcome, mhas_error *error) {
  fake *work = context;
  work->team = team;
  assert_int_equal(team->size, work->ranks_of == NULL ? 1 : work->ranks_of(rows[0]));
  for (int64_t i = 0; i < count; i++) {
    bool stopping = mhas_farm_stopping(control);
    MHAS_TRY(mhas_team_share(team, &stopping, (int)sizeof stopping, error));
    if (stopping) {
      break;
    }
    work->entered++;
    const uint8_t counts = team->rank == 0 ? 1 : 0;
    work->runs[rows[i]] = (uint8_t)(work->runs[rows[i]] + counts);
    MHAS_TRY(work->run_row(work, rows[i], control, &outcome[i], error));
    if (outcome[i] == MHAS_DONE || outcome[i] == MHAS_FAILED) {
      work->ended[rows[i]] = (uint8_t)(work->ended[rows[i]] + counts);
    }
  }
  return MHAS_OK;
}

/* A fresh fake; the one there is serves all tests of a program, since it is large. */
static inline fake *fake_new(fake_row run_row, int64_t rows) {
  static fake work;
  memset(&work, 0, sizeof work);
  work.run_row = run_row;
  work.rows = rows;
  work.flops = 1e3f;
  work.options.schedule.max_failures = INT64_MAX;
  work.options.grace_seconds = INFINITY;
  assert_int_equal(MPI_Comm_rank(MPI_COMM_WORLD, &work.rank), MPI_SUCCESS);
  assert_int_equal(MPI_Comm_size(MPI_COMM_WORLD, &work.size), MPI_SUCCESS);
  return &work;
}

static inline int fake_workers(const fake *work) { return work->size == 1 ? 1 : work->size - 1; }

/* Runs the farm, and checks that every rank ended with the same code, words and state. */
static inline void fake_farm(fake *work) {
  static int64_t rows[FAKE_ROWS_MOST];
  static float flops[FAKE_ROWS_MOST];
  static int32_t ranks[FAKE_ROWS_MOST];
  const bool master = work->rank == 0;
  for (int64_t i = 0; i < work->rows; i++) {
    rows[i] = i;
    flops[i] = work->flops * (float)(1 + i % 4);
    ranks[i] = work->ranks_of == NULL ? 1 : work->ranks_of(i);
  }
  const mhas_farm_work farm_work = {.context = work, .run = fake_run};
  work->code = mhas_farm_run(MPI_COMM_WORLD, master ? rows : NULL, master ? flops : NULL,
                             master && work->ranks_of != NULL ? ranks : NULL, master ? work->rows : -1, &farm_work,
                             work->watch, master ? &work->options : NULL, &work->state, &work->error);
  struct {
    mhas_code code;
    char text[MHAS_ERROR_LENGTH];
    mhas_farm_state state;
  } first;
  memset(&first, 0, sizeof first);
  first.code = work->code;
  memcpy(&first.state, &work->state, sizeof first.state); /* the bytes between its members too */
  if (work->code != MHAS_OK) {
    memcpy(first.text, work->error.text, sizeof first.text);
  }
  assert_int_equal(MPI_Bcast(&first, (int)sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD), MPI_SUCCESS);
  assert_int_equal(work->code, first.code);
  assert_true(work->code == MHAS_OK || strcmp(work->error.text, first.text) == 0);
  assert_memory_equal(&work->state, &first.state, sizeof first.state);
}

/* No row was begun twice on all ranks together, and as many ended as the state says. */
static inline void check_each_row_at_most_once(fake *work) {
  static uint8_t runs[FAKE_ROWS_MOST];
  static uint8_t ended[FAKE_ROWS_MOST];
  const int count = (int)work->rows;
  assert_int_equal(MPI_Allreduce(work->runs, runs, count, MPI_UINT8_T, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  assert_int_equal(MPI_Allreduce(work->ended, ended, count, MPI_UINT8_T, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  int64_t all_ended = 0;
  for (int i = 0; i < count; i++) {
    assert_in_range(runs[i], 0, 1);
    all_ended += ended[i];
  }
  if (work->code == MHAS_OK) {
    assert_int_equal(work->state.done + work->state.failed, all_ended);
  }
  assert_int_equal(work->state.total, work->rows);
  assert_int_equal(work->state.running, 0);
  assert_int_equal(work->state.busy, 0);
  assert_int_equal(work->state.workers, fake_workers(work));
}

static inline void check_each_row_exactly_once(fake *work) {
  check_each_row_at_most_once(work);
  assert_int_equal(work->code, MHAS_OK);
  assert_int_equal(work->state.done + work->state.failed + work->state.stranded, work->rows);
  assert_int_equal(work->state.given_up, 0);
  assert_false(work->state.stopping);
}

static inline int fake_main(const char *name, int (*farm_tests)(void)) {
  mhas_error error;
  if (MPI_Init(NULL, NULL) != MPI_SUCCESS || mhas_signals_catch(&error) != MHAS_OK) {
    (void)fprintf(stderr, "%s: cannot start\n", name);
    return 1;
  }
  const int failures = farm_tests();
  return MPI_Finalize() == MPI_SUCCESS && failures == 0 ? 0 : 1;
}

#endif
