/* Workers that die, hang and come back: who gets their rows, and what counts once. By scripts and by random events. */
#include <string.h>

#include "schedule.h"

enum { ROWS_MOST = 4000, WORKERS_MOST = 16 };

static const mhas_schedule_options PATIENT = {.max_failures = 1000000, .silence = 60.0};

/* Rows of 1e9 flops: one an order. */
static mhas_scheduler *long_rows(int64_t count, int workers, const mhas_schedule_options *options) {
  static float flops[ROWS_MOST];
  for (int64_t i = 0; i < count; i++) {
    flops[i] = 1e9f;
  }
  return scheduler_from(0, flops, NULL, count, workers, options);
}

static void expect_order(mhas_scheduler *scheduler, double now, int worker, int64_t row) {
  mhas_order order;
  assert_true(mhas_scheduler_next(scheduler, now, &order));
  assert_int_equal(order.workers[0], worker);
  assert_int_equal(order.count, 1);
  assert_int_equal(order.rows[0], row);
}

static void expect_loss(mhas_scheduler *scheduler, double now, int worker, mhas_loss_reason reason, int64_t rows) {
  mhas_loss loss;
  assert_true(mhas_scheduler_lost(scheduler, now, &loss));
  assert_int_equal(loss.worker, worker);
  assert_int_equal(loss.reason, reason);
  assert_int_equal(loss.count, rows);
  assert_false(mhas_scheduler_has(scheduler, worker));
}

static void expect_no_loss(mhas_scheduler *scheduler, double now) {
  mhas_loss loss;
  assert_false(mhas_scheduler_lost(scheduler, now, &loss));
}

static mhas_farm_state state_of(const mhas_scheduler *scheduler) { return state_at(scheduler, 0.0); }

/* Asks as a master does, often; everybody but `mute` (-1: nobody) is heard of. */
static void pass(mhas_scheduler *scheduler, double from, double to, int workers, int mute) {
  for (double now = from; now <= to; now += 5.0) {
    for (int worker = 0; worker < workers; worker++) {
      if (worker != mute) {
        mhas_scheduler_heard(scheduler, worker, (uint64_t)now, now);
      }
    }
    if (now < to) {
      expect_no_loss(scheduler, now);
    }
  }
}

/* ---- one worker ---- */

static void the_row_of_a_dead_worker_goes_to_another(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(3, 2, &PATIENT);
  expect_order(scheduler, 1.0, 0, 0);
  expect_order(scheduler, 1.0, 1, 1);
  mhas_scheduler_died(scheduler, 1);
  expect_loss(scheduler, 2.0, 1, MHAS_LOSS_DIED, 1);
  expect_no_loss(scheduler, 2.0);
  expect_none(scheduler, 2.0);
  end_one(scheduler, 0, 3.0, MHAS_DONE);
  expect_order(scheduler, 3.0, 0, 1);
  end_one(scheduler, 0, 4.0, MHAS_DONE);
  expect_order(scheduler, 4.0, 0, 2);
  end_one(scheduler, 0, 5.0, MHAS_DONE);
  expect_none(scheduler, 5.0);
  const mhas_farm_state state = state_of(scheduler);
  assert_int_equal(state.done, 3);
  assert_int_equal(state.running, 0);
  assert_int_equal(state.lost, 1);
  assert_int_equal(state.busy, 0);
  mhas_scheduler_destroy(scheduler);
}

static void an_idle_worker_that_dies_gets_nothing_more(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(2, 2, &PATIENT);
  mhas_scheduler_died(scheduler, 0);
  expect_loss(scheduler, 1.0, 0, MHAS_LOSS_DIED, 0);
  expect_order(scheduler, 1.0, 1, 0);
  expect_none(scheduler, 1.0);
  mhas_scheduler_heard(scheduler, 0, 1, 2.0); /* a last word on its way */
  expect_none(scheduler, 2.0);
  mhas_scheduler_destroy(scheduler);
}

static void a_slow_worker_that_is_heard_of_is_never_lost(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(1, 2, &PATIENT);
  expect_order(scheduler, 1.0, 0, 0);
  pass(scheduler, 1.0, 100000.0, 2, -1);
  expect_no_loss(scheduler, 100000.0);
  mhas_scheduler_destroy(scheduler);
}

static void a_silent_worker_is_lost_at_the_deadline_and_not_before(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(2, 2, &PATIENT);
  expect_order(scheduler, 1.0, 0, 0);
  expect_order(scheduler, 1.0, 1, 1);
  pass(scheduler, 1.0, 61.0, 2, 1);
  expect_no_loss(scheduler, 61.0);
  expect_loss(scheduler, 61.1, 1, MHAS_LOSS_SILENT, 1);
  mhas_scheduler_destroy(scheduler);
}

static void a_master_that_was_held_up_blames_nobody(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(2, 2, &PATIENT);
  pass(scheduler, 1.0, 50.0, 2, -1);
  expect_no_loss(scheduler, 50.0);
  expect_no_loss(scheduler, 5000.0); /* it was stopped for more than an hour */
  pass(scheduler, 5000.0, 5055.0, 2, 1);
  expect_loss(scheduler, 5062.0, 1, MHAS_LOSS_SILENT, 0); /* from then on its silence is its own */
  mhas_scheduler_destroy(scheduler);
}

/* Worker 1 has row 1, is silent, and its row goes to worker 0. */
static mhas_scheduler *with_a_silent_worker(void) {
  mhas_scheduler *scheduler = long_rows(2, 2, &PATIENT);
  expect_order(scheduler, 1.0, 0, 0);
  expect_order(scheduler, 1.0, 1, 1);
  pass(scheduler, 1.0, 61.0, 2, 1);
  expect_loss(scheduler, 62.0, 1, MHAS_LOSS_SILENT, 1);
  end_one(scheduler, 0, 63.0, MHAS_DONE);
  return scheduler;
}

static void a_late_result_counts_if_it_is_the_first(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = with_a_silent_worker();
  end_one(scheduler, 1, 64.0, MHAS_DONE); /* before anybody else has begun */
  assert_int_equal(state_of(scheduler).done, 2);
  expect_none(scheduler, 64.0);
  assert_true(mhas_scheduler_has(scheduler, 1));
  mhas_scheduler_destroy(scheduler);

  scheduler = with_a_silent_worker();
  expect_order(scheduler, 63.0, 0, 1);
  end_one(scheduler, 1, 64.0, MHAS_DONE); /* while another runs it */
  assert_int_equal(state_of(scheduler).done, 2);
  end_one(scheduler, 0, 65.0, MHAS_DONE);
  const mhas_farm_state state = state_of(scheduler);
  assert_int_equal(state.done, 2);
  assert_int_equal(state.running, 0);
  assert_int_equal(state.lost, 0);
  mhas_scheduler_destroy(scheduler);
}

static void a_late_result_that_is_the_second_changes_nothing(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = with_a_silent_worker();
  expect_order(scheduler, 63.0, 0, 1);
  end_one(scheduler, 0, 64.0, MHAS_DONE);
  end_one(scheduler, 1, 65.0, MHAS_FAILED);
  const mhas_farm_state state = state_of(scheduler);
  assert_int_equal(state.done, 2);
  assert_int_equal(state.failed, 0);
  assert_true(mhas_scheduler_has(scheduler, 1));
  mhas_scheduler_destroy(scheduler);
}

static void who_wakes_up_gets_rows_again_once_it_has_answered(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(4, 2, &PATIENT);
  expect_order(scheduler, 1.0, 0, 0);
  expect_order(scheduler, 1.0, 1, 1);
  pass(scheduler, 1.0, 61.0, 2, 1);
  expect_loss(scheduler, 62.0, 1, MHAS_LOSS_SILENT, 1);
  mhas_scheduler_heard(scheduler, 1, 5, 63.0); /* awake, but still at its old row */
  expect_none(scheduler, 63.0);
  end_one(scheduler, 1, 64.0, MHAS_RUNNING); /* it has noticed, and leaves the row to others */
  expect_order(scheduler, 64.0, 1, 1);
  end_one(scheduler, 1, 65.0, MHAS_DONE);
  assert_int_equal(state_of(scheduler).done, 1);
  mhas_scheduler_destroy(scheduler);
}

static void an_idle_worker_that_was_silent_comes_back_with_a_word(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(1, 2, &PATIENT);
  pass(scheduler, 1.0, 61.0, 2, 0);
  expect_loss(scheduler, 62.0, 0, MHAS_LOSS_SILENT, 0);
  mhas_scheduler_heard(scheduler, 0, 1, 63.0);
  expect_order(scheduler, 63.0, 0, 0);
  mhas_scheduler_destroy(scheduler);
}

static void a_row_that_does_not_move_for_too_long_is_taken_away(void **unused) {
  (void)unused;
  const mhas_schedule_options options = {.max_failures = 10, .silence = 60.0, .stall = 300.0};
  mhas_scheduler *scheduler = long_rows(2, 2, &options);
  expect_no_loss(scheduler, 1.0);
  expect_order(scheduler, 1.0, 0, 0);
  expect_order(scheduler, 1.0, 1, 1);
  for (double now = 5.0; now < 301.0; now += 5.0) {
    mhas_scheduler_heard(scheduler, 0, (uint64_t)now, now);
    mhas_scheduler_heard(scheduler, 1, 7, now); /* there, but at the same place */
    expect_no_loss(scheduler, now);
  }
  mhas_scheduler_heard(scheduler, 0, 301, 306.0);
  mhas_scheduler_heard(scheduler, 1, 7, 306.0);
  expect_loss(scheduler, 306.0, 1, MHAS_LOSS_STALLED, 1);
  expect_no_loss(scheduler, 306.0);
  mhas_scheduler_destroy(scheduler);
}

/* ---- chunks, poison, bans ---- */

static void rows_of_a_lost_chunk_go_out_one_by_one(void **unused) {
  (void)unused;
  static float flops[100];
  mhas_scheduler *scheduler = scheduler_from(0, flops, NULL, 100, 2, &PATIENT);
  mhas_order order;
  assert_true(mhas_scheduler_next(scheduler, 1.0, &order));
  const int64_t count = order.count;
  assert_true(count > 1);
  mhas_scheduler_died(scheduler, 0);
  expect_loss(scheduler, 2.0, 0, MHAS_LOSS_DIED, count);
  bool seen[100] = {false};
  for (int64_t i = 0; i < count; i++) {
    assert_true(mhas_scheduler_next(scheduler, 2.0, &order));
    assert_int_equal(order.count, 1);
    assert_false(seen[order.rows[0]]);
    seen[order.rows[0]] = true;
    end_one(scheduler, 1, 2.0, MHAS_DONE);
  }
  assert_true(mhas_scheduler_next(scheduler, 2.0, &order));
  assert_false(seen[order.rows[0]]);
  assert_int_equal(state_of(scheduler).done, count);
  mhas_scheduler_destroy(scheduler);
}

static void what_a_dead_worker_had_finished_is_not_run_again(void **unused) {
  (void)unused;
  static float flops[64];
  mhas_scheduler *scheduler = scheduler_from(0, flops, NULL, 64, 2, &PATIENT);
  mhas_order order;
  mhas_error error;
  assert_true(mhas_scheduler_next(scheduler, 1.0, &order));
  assert_true(order.count >= 2);
  uint8_t outcome[64] = {MHAS_DONE, MHAS_FAILED}; /* as its file says; the rest is pending */
  mhas_scheduler_died(scheduler, 0);
  mhas_loss loss;
  assert_true(mhas_scheduler_lost(scheduler, 2.0, &loss));
  const int64_t first = loss.rows[0];
  assert_int_equal(mhas_scheduler_ended(scheduler, 0, 2.0, outcome, loss.count, &error), MHAS_OK);
  assert_int_equal(state_of(scheduler).done, 1);
  assert_int_equal(state_of(scheduler).failed, 1);
  for (int64_t i = 2; i < loss.count; i++) {
    assert_true(mhas_scheduler_next(scheduler, 2.0, &order));
    assert_true(order.rows[0] != first && order.rows[0] != loss.rows[1]);
    end_one(scheduler, 1, 2.0, MHAS_DONE);
  }
  assert_int_equal(mhas_scheduler_ended(scheduler, 0, 3.0, outcome, loss.count, &error), MHAS_OK); /* its own answer */
  assert_int_equal(state_of(scheduler).done, loss.count - 1);
  assert_false(mhas_scheduler_has(scheduler, 0));
  mhas_scheduler_destroy(scheduler);
}

static void a_row_that_kills_three_workers_has_failed(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(1, 5, &PATIENT);
  int64_t row = -1;
  for (int worker = 0; worker < 3; worker++) {
    assert_false(mhas_scheduler_condemned(scheduler, &row));
    expect_order(scheduler, 1.0 + worker, worker, 0);
    mhas_scheduler_died(scheduler, worker);
    expect_loss(scheduler, 1.5 + worker, worker, MHAS_LOSS_DIED, 1);
  }
  assert_true(mhas_scheduler_condemned(scheduler, &row));
  assert_int_equal(row, 0);
  assert_false(mhas_scheduler_condemned(scheduler, &row));
  expect_none(scheduler, 9.0);
  assert_int_equal(state_of(scheduler).failed, 1);
  mhas_scheduler_destroy(scheduler);
}

static void who_keeps_being_lost_gets_nothing_any_more(void **unused) {
  (void)unused;
  mhas_scheduler *scheduler = long_rows(8, 2, &PATIENT);
  double now = 1.0;
  for (int time = 0; time < 3; time++) {
    mhas_loss loss;
    pass(scheduler, now, now + 60.0, 2, 0);
    assert_true(mhas_scheduler_lost(scheduler, now + 61.0, &loss));
    assert_int_equal(loss.reason, MHAS_LOSS_SILENT);
    assert_int_equal(loss.banned, time == 2);
    now += 62.0;
    mhas_scheduler_heard(scheduler, 0, 1, now);
    assert_true(mhas_scheduler_has(scheduler, 0));
    expect_no_loss(scheduler, now);
  }
  expect_order(scheduler, now, 1, 0);
  expect_none(scheduler, now);
  mhas_scheduler_destroy(scheduler);
}

static void a_host_that_keeps_losing_workers_is_left_alone(void **unused) {
  (void)unused;
  const int hosts[] = {7, 7, 7, 7, 9};
  mhas_scheduler *scheduler = long_rows(8, 5, &PATIENT);
  mhas_loss loss;
  mhas_scheduler_hosts(scheduler, hosts);
  for (int worker = 0; worker < 3; worker++) {
    mhas_scheduler_died(scheduler, worker);
    assert_true(mhas_scheduler_lost(scheduler, 1.0, &loss));
    assert_int_equal(loss.worker, worker);
    assert_int_equal(loss.host_banned, worker == 2);
  }
  assert_true(mhas_scheduler_has(scheduler, 3)); /* there, but it gets nothing */
  expect_order(scheduler, 2.0, 4, 0);
  expect_none(scheduler, 2.0);
  mhas_scheduler_destroy(scheduler);

  scheduler = long_rows(8, 5, &PATIENT); /* with no other host, it has to do */
  for (int worker = 0; worker < 3; worker++) {
    mhas_scheduler_died(scheduler, worker);
    expect_loss(scheduler, 1.0, worker, MHAS_LOSS_DIED, 0);
  }
  expect_order(scheduler, 2.0, 3, 0);
  expect_order(scheduler, 2.0, 4, 1);
  mhas_scheduler_destroy(scheduler);
}

/* ---- teams ---- */

static void a_row_that_kills_three_workers_is_not_their_hosts_fault(void **unused) {
  (void)unused;
  const int hosts[] = {7, 7, 7, 7, 9};
  mhas_scheduler *scheduler = long_rows(1, 5, &PATIENT);
  mhas_loss loss;
  mhas_scheduler_hosts(scheduler, hosts);
  for (int worker = 0; worker < 3; worker++) {
    expect_order(scheduler, 1.0 + worker, worker, 0);
    mhas_scheduler_died(scheduler, worker);
    assert_true(mhas_scheduler_lost(scheduler, 1.5 + worker, &loss));
    assert_false(loss.host_banned);
  }
  assert_int_equal(state_of(scheduler).failed, 1);
  mhas_scheduler_died(scheduler, 3); /* the second on its own account */
  assert_true(mhas_scheduler_lost(scheduler, 9.0, &loss));
  assert_false(loss.host_banned);
  mhas_scheduler_destroy(scheduler);
}

static void the_mates_of_a_dead_worker_are_lost_with_it(void **unused) {
  (void)unused;
  const float flops[] = {1e9f, 1e9f};
  const int32_t ranks[] = {2, 2};
  mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, 2, 4, &PATIENT);
  expect_order(scheduler, 1.0, 0, 0);
  expect_order(scheduler, 1.0, 2, 1);
  mhas_scheduler_died(scheduler, 1); /* not the first of its team */
  expect_loss(scheduler, 2.0, 1, MHAS_LOSS_DIED, 0);
  expect_loss(scheduler, 2.0, 0, MHAS_LOSS_TEAM, 1);
  expect_no_loss(scheduler, 2.0);
  expect_none(scheduler, 2.0);
  end_one(scheduler, 2, 3.0, MHAS_DONE);
  expect_order(scheduler, 3.0, 2, 0);
  end_one(scheduler, 2, 4.0, MHAS_DONE);
  const mhas_farm_state state = state_of(scheduler);
  assert_int_equal(state.done, 2);
  assert_int_equal(state.lost, 2);
  assert_int_equal(state.stranded, 0);
  mhas_scheduler_destroy(scheduler);
}

static void a_team_that_cannot_be_formed_any_more_is_stranded(void **unused) {
  (void)unused;
  const float flops[] = {1e9f, 1e9f, 1e9f};
  const int32_t ranks[] = {3, 2, 1};
  for (int fixed = 0; fixed < 2; fixed++) {
    mhas_schedule_options options = PATIENT;
    options.static_teams = fixed == 1;
    mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, 3, 3, &options);
    expect_order(scheduler, 1.0, 0, 0);
    end_one(scheduler, 0, 1.5, MHAS_RUNNING); /* left, to be run again */
    mhas_scheduler_died(scheduler, 0);
    expect_loss(scheduler, 2.0, 0, MHAS_LOSS_DIED, 0);
    if (fixed == 0) {
      expect_order(scheduler, 2.0, 1, 1);
      end_one(scheduler, 1, 3.0, MHAS_DONE);
    }
    expect_order(scheduler, 3.0, 1, 2);
    end_one(scheduler, 1, 4.0, MHAS_DONE);
    expect_none(scheduler, 5.0);
    const mhas_farm_state state = state_of(scheduler);
    assert_int_equal(state.stranded, 1 + fixed); /* static teams of two are workers 0 and 1 only */
    assert_int_equal(state.widest, 3);
    mhas_scheduler_destroy(scheduler);
  }
}

/* ---- any schedule ---- */

/* What a worker does, as far as itself knows. */
typedef struct pretender {
  int64_t rows[ROWS_MOST];
  int64_t count;
  int ranks;
  int workers[WORKERS_MOST];
  enum { WORKS, SLEEPS, DEAD } state;
} pretender;

static pretender pretenders[WORKERS_MOST];
static int ended[ROWS_MOST]; /* how often its end was counted */

static void take_orders(mhas_scheduler *scheduler, double now) {
  mhas_order order;
  while (mhas_scheduler_next(scheduler, now, &order)) {
    pretender *first = &pretenders[order.workers[0]];
    assert_int_equal(first->count, 0);
    memcpy(first->rows, order.rows, (size_t)order.count * sizeof *order.rows);
    first->count = order.count;
    first->ranks = order.ranks;
    memcpy(first->workers, order.workers, (size_t)order.ranks * sizeof *order.workers);
    for (int i = 0; i < order.ranks; i++) {
      assert_int_not_equal(pretenders[order.workers[i]].state, DEAD);
    }
  }
}

/* One answers, if all of its team are well. */
static void some_end_one(mhas_scheduler *scheduler, int worker, double now) {
  pretender *self = &pretenders[worker];
  if (self->count == 0) {
    return;
  }
  for (int i = 0; i < self->ranks; i++) {
    if (pretenders[self->workers[i]].state != WORKS) {
      return;
    }
  }
  static uint8_t outcome[ROWS_MOST];
  mhas_error error;
  mhas_farm_state before;
  mhas_farm_state after;
  for (int64_t i = 0; i < self->count; i++) {
    outcome[i] = below(20) == 0 ? MHAS_RUNNING : below(10) == 0 ? MHAS_FAILED : MHAS_DONE;
  }
  mhas_scheduler_state(scheduler, now, &before);
  if (mhas_scheduler_ended(scheduler, worker, now, outcome, self->count, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  mhas_scheduler_state(scheduler, now, &after);
  int64_t fresh = 0;
  for (int64_t i = 0; i < self->count; i++) {
    if (outcome[i] != MHAS_RUNNING && ended[self->rows[i]] == 0) {
      ended[self->rows[i]] = 1;
      fresh++;
    }
  }
  assert_int_equal(after.done + after.failed - before.done - before.failed, fresh);
  self->count = 0;
}

static void notice_losses(mhas_scheduler *scheduler, double now) {
  mhas_loss loss;
  while (mhas_scheduler_lost(scheduler, now, &loss)) {
    if (loss.end) {
      pretenders[loss.worker].state = DEAD;
    }
  }
  int64_t row = 0;
  while (mhas_scheduler_condemned(scheduler, &row)) {
    assert_int_equal(ended[row], 0);
    ended[row] = 1;
  }
}

static void disturb(mhas_scheduler *scheduler, int workers, int *alive) {
  const int victim = below(workers);
  pretender *self = &pretenders[victim];
  switch (below(3)) {
    case 0:
      if (self->state != DEAD && *alive > 4 && below(6) == 0) {
        self->state = DEAD;
        mhas_scheduler_died(scheduler, victim);
      }
      break;
    case 1: self->state = self->state == WORKS ? SLEEPS : self->state; break;
    default: self->state = self->state == SLEEPS ? WORKS : self->state; break;
  }
  *alive = 0;
  for (int worker = 0; worker < workers; worker++) {
    *alive += pretenders[worker].state != DEAD;
  }
}

static void whoever_dies_or_sleeps_every_row_ends_once(void **unused) {
  (void)unused;
  static float flops[ROWS_MOST];
  static int32_t ranks[ROWS_MOST];
  for (int round = 0; round < 60; round++) {
    random_state = (uint64_t)round;
    const int workers = 6 + below(WORKERS_MOST - 6);
    const int count = 1 + below(300);
    for (int i = 0; i < count; i++) {
      flops[i] = (float)(below(4) == 0 ? 1e9 : 1e4) * (float)(1 + below(8));
      ranks[i] = below(8) == 0 ? 2 + below(2) : 1;
    }
    mhas_schedule_options options = {.max_failures = 1000000, .silence = 10.0, .losses_most = 2 + below(4)};
    options.static_teams = below(4) == 0;
    mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, count, workers, &options);
    memset(pretenders, 0, sizeof pretenders);
    memset(ended, 0, sizeof ended);
    int alive = workers;
    for (int step = 1; step < 20000; step++) {
      const double now = step;
      if (step < 2000) {
        disturb(scheduler, workers, &alive);
      }
      for (int worker = 0; worker < workers; worker++) {
        if (step >= 2000 && pretenders[worker].state == SLEEPS) {
          pretenders[worker].state = WORKS;
        }
        if (pretenders[worker].state == WORKS) {
          mhas_scheduler_heard(scheduler, worker, (uint64_t)step, now);
        }
      }
      notice_losses(scheduler, now);
      take_orders(scheduler, now);
      for (int worker = 0; worker < workers; worker++) {
        if (below(3) == 0) {
          some_end_one(scheduler, worker, now);
        }
      }
      const mhas_farm_state state = state_of(scheduler);
      if (state.done + state.failed == count) {
        break;
      }
    }
    const mhas_farm_state state = state_of(scheduler);
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
      sum += ended[i];
    }
    assert_int_equal(sum, state.done + state.failed);
    assert_int_equal(state.given_up, 0);
    mhas_order order;
    if (state.running == 0 && sum + state.stranded < count) { /* only if all workers are banned */
      assert_false(mhas_scheduler_next(scheduler, 1e6, &order));
    }
    mhas_scheduler_destroy(scheduler);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_row_of_a_dead_worker_goes_to_another),
      cmocka_unit_test(an_idle_worker_that_dies_gets_nothing_more),
      cmocka_unit_test(a_slow_worker_that_is_heard_of_is_never_lost),
      cmocka_unit_test(a_silent_worker_is_lost_at_the_deadline_and_not_before),
      cmocka_unit_test(a_master_that_was_held_up_blames_nobody),
      cmocka_unit_test(a_late_result_counts_if_it_is_the_first),
      cmocka_unit_test(a_late_result_that_is_the_second_changes_nothing),
      cmocka_unit_test(who_wakes_up_gets_rows_again_once_it_has_answered),
      cmocka_unit_test(an_idle_worker_that_was_silent_comes_back_with_a_word),
      cmocka_unit_test(a_row_that_does_not_move_for_too_long_is_taken_away),
      cmocka_unit_test(rows_of_a_lost_chunk_go_out_one_by_one),
      cmocka_unit_test(what_a_dead_worker_had_finished_is_not_run_again),
      cmocka_unit_test(a_row_that_kills_three_workers_has_failed),
      cmocka_unit_test(who_keeps_being_lost_gets_nothing_any_more),
      cmocka_unit_test(a_host_that_keeps_losing_workers_is_left_alone),
      cmocka_unit_test(a_row_that_kills_three_workers_is_not_their_hosts_fault),
      cmocka_unit_test(the_mates_of_a_dead_worker_are_lost_with_it),
      cmocka_unit_test(a_team_that_cannot_be_formed_any_more_is_stranded),
      cmocka_unit_test(whoever_dies_or_sleeps_every_row_ends_once),
  };
  return cmocka_run_group_tests_name("scheduler_losses", tests, NULL, NULL);
}
