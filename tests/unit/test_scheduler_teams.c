/* Rows for teams: who gets them and when, what is done meanwhile, by scripts of events and by random mixes. */
#include <string.h>

#include "schedule.h"

/* ---- helpers ---- */

enum { ROWS_MOST = 600, WORKERS_MOST = 24 };

/* The next order must be for this one row and these workers: first .. first + ranks - 1. */
static void expect_order(mhas_scheduler *scheduler, double now, int64_t row, int first, int ranks) {
  mhas_order order;
  assert_true(mhas_scheduler_next(scheduler, now, &order));
  assert_int_equal(order.count, 1);
  assert_int_equal(order.rows[0], row);
  assert_int_equal(order.ranks, ranks);
  for (int i = 0; i < ranks; i++) {
    assert_int_equal(order.workers[i], first + i);
  }
}

/* Nothing but one row at a time, so that tests can tell who gets what. */
static const mhas_schedule_options single = {.chunk_most = 1, .max_failures = INT64_MAX};
static const mhas_schedule_options single_static = {.chunk_most = 1, .max_failures = INT64_MAX, .static_teams = true};

/* ---- who goes first ---- */

static void the_widest_go_first_and_then_the_costliest(void **unused) {
  (void)unused;
  const float flops[] = {1e10f, 9e9f, 1e9f, 2e9f, 3e9f};
  const int32_t ranks[] = {1, 2, 3, 2, 3};
  mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, 5, 4, &single);
  expect_order(scheduler, 0.0, 4, 0, 3);
  expect_order(scheduler, 0.0, 0, 3, 1); /* the worker that the next team will not need */
  expect_none(scheduler, 0.0);
  assert_int_equal(state_at(scheduler, 0.0).busy, 4);
  end_one(scheduler, 0, 1.0, MHAS_DONE);
  expect_order(scheduler, 1.0, 2, 0, 3);
  end_one(scheduler, 0, 2.0, MHAS_DONE);
  expect_order(scheduler, 2.0, 1, 0, 2);
  end_one(scheduler, 3, 3.0, MHAS_DONE);
  expect_order(scheduler, 3.0, 3, 2, 2);
  end_one(scheduler, 2, 4.0, MHAS_DONE);
  end_one(scheduler, 0, 5.0, MHAS_DONE);
  expect_none(scheduler, 5.0);
  assert_int_equal(state_at(scheduler, 5.0).done, 5);
  mhas_scheduler_destroy(scheduler);
}

static void many_teams_run_side_by_side(void **unused) {
  (void)unused;
  const float flops[] = {1e9f, 1e9f, 1e9f, 1e9f, 1e9f};
  const int32_t ranks[] = {2, 2, 2, 2, 2};
  mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, 5, 8, NULL);
  for (int team = 0; team < 4; team++) {
    expect_order(scheduler, 0.0, team, 2 * team, 2);
  }
  expect_none(scheduler, 0.0);
  end_one(scheduler, 4, 1.0, MHAS_DONE);
  expect_order(scheduler, 1.0, 4, 4, 2);
  mhas_scheduler_destroy(scheduler);
}

static void members_need_not_be_neighbours_unless_teams_are_static(void **unused) {
  (void)unused;
  const float flops[] = {1e9f, 1e9f, 9e8f, 8e8f, 7e8f, 6e8f};
  const int32_t ranks[] = {3, 2, 1, 1, 1, 1};
  for (int fixed = 0; fixed < 2; fixed++) {
    mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, 6, 4, fixed ? &single_static : &single);
    expect_order(scheduler, 0.0, 0, 0, 3);
    expect_order(scheduler, 0.0, 2, 3, 1);
    end_one(scheduler, 0, 1.0, MHAS_DONE);
    expect_order(scheduler, 1.0, 1, 0, 2);
    expect_order(scheduler, 1.0, 3, 2, 1);
    mhas_scheduler_destroy(scheduler);
  }
  /* Workers 1 and 2 are idle: one team of two, but not one of those that were split off. */
  const int32_t more[] = {2, 2, 2};
  for (int fixed = 0; fixed < 2; fixed++) {
    mhas_scheduler *scheduler = scheduler_from(0, flops, more, 3, 5, fixed ? &single_static : &single);
    expect_order(scheduler, 0.0, 0, 0, 2);
    expect_order(scheduler, 0.0, 1, 2, 2);
    expect_none(scheduler, 0.0); /* worker 4 alone is no team */
    end_one(scheduler, 2, 1.0, MHAS_DONE);
    expect_order(scheduler, 1.0, 2, 2, 2);
    mhas_scheduler_destroy(scheduler);
  }
}

/* ---- what is done while a team waits ---- */

/* Four workers: a team of 3 beside a single row of 10 s; then teams of 2, of which the second one has to wait for that
 * row to end. By the guess of the pace, 1e9 operations take 1 s. */
static mhas_scheduler *waiting_team(double *now) {
  enum { BEFORE = 4, SMALL = 40, ROWS = BEFORE + SMALL };
  static float flops[ROWS];
  static int32_t ranks[ROWS];
  const float first[BEFORE] = {6e9f, 10e9f, 40e9f, 38e9f};
  const int32_t wanted[BEFORE] = {3, 1, 2, 2};
  for (int i = 0; i < ROWS; i++) {
    flops[i] = i < BEFORE ? first[i] : 1e9f;
    ranks[i] = i < BEFORE ? wanted[i] : 1;
  }
  mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, ROWS, 4, &single);
  expect_order(scheduler, 0.0, 0, 0, 3);
  expect_order(scheduler, 0.0, 1, 3, 1);
  end_one(scheduler, 0, 2.0, MHAS_DONE);
  expect_order(scheduler, 2.0, 2, 0, 2); /* for 20 s */
  *now = 2.0;
  return scheduler; /* worker 2 is idle; row 3 waits for it and for 3, until about 10 s */
}

static void small_rows_fill_the_time_that_a_team_waits_and_no_more(void **unused) {
  (void)unused;
  double now = 0.0;
  mhas_scheduler *scheduler = waiting_team(&now);
  int filled = 0;
  mhas_order order;
  while (mhas_scheduler_next(scheduler, now, &order)) {
    assert_int_equal(order.ranks, 1);
    assert_int_equal(order.workers[0], 2);
    assert_true(order.rows[0] >= 4);
    now += 1.0;
    end_one(scheduler, 2, now, MHAS_DONE);
    filled++;
  }
  assert_in_range(filled, 6, 8);
  assert_true(now <= 10.01);
  end_one(scheduler, 3, 10.0, MHAS_DONE);
  expect_order(scheduler, 10.0, 3, 2, 2);
  mhas_scheduler_destroy(scheduler);
}

static void a_team_does_not_starve_when_estimates_are_wrong(void **unused) {
  (void)unused;
  double now = 0.0;
  mhas_scheduler *scheduler = waiting_team(&now);
  mhas_order order;
  while (mhas_scheduler_next(scheduler, now, &order)) {
    end_one(scheduler, 2, now += 1.0, MHAS_DONE);
  }
  for (now = 10.0; now < 1000.0; now += 1.0) { /* what was to take 10 s takes 1000 s */
    expect_none(scheduler, now);
  }
  end_one(scheduler, 3, now, MHAS_DONE);
  expect_order(scheduler, now, 3, 2, 2);
  mhas_scheduler_destroy(scheduler);
}

static void a_long_row_may_start_where_the_team_needs_it_not(void **unused) {
  (void)unused;
  const float flops[] = {3e9f, 3e9f, 1e12f};
  const int32_t ranks[] = {3, 3, 1};
  mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, 3, 4, &single);
  expect_order(scheduler, 0.0, 0, 0, 3);
  expect_order(scheduler, 0.0, 2, 3, 1); /* long beyond the end of the first team, but nobody waits for it */
  end_one(scheduler, 0, 1.0, MHAS_DONE);
  expect_order(scheduler, 1.0, 1, 0, 3);
  mhas_scheduler_destroy(scheduler);
}

/* ---- ends that are none ---- */

static void rows_wider_than_the_world_stay_and_all_others_run(void **unused) {
  (void)unused;
  const float flops[] = {1e9f, 1e9f, 1e9f, 1e9f};
  const int32_t ranks[] = {4, 1, 9, 2};
  mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, 4, 3, &single);
  mhas_order order;
  double now = 0.0;
  while (mhas_scheduler_next(scheduler, now, &order)) {
    end_one(scheduler, order.workers[0], now += 1.0, MHAS_DONE);
  }
  const mhas_farm_state state = state_at(scheduler, now);
  assert_int_equal(state.done, 2);
  assert_int_equal(state.stranded, 2);
  assert_int_equal(state.widest, 9);
  assert_int_equal(state.total, 4);
  assert_true(state.eta == 0.0);
  mhas_scheduler_destroy(scheduler);
}

static void a_stop_leaves_waiting_teams_alone(void **unused) {
  (void)unused;
  double now = 0.0;
  mhas_scheduler *scheduler = waiting_team(&now);
  mhas_scheduler_stop(scheduler);
  expect_none(scheduler, now);
  end_one(scheduler, 0, 3.0, MHAS_PENDING);
  end_one(scheduler, 3, 3.0, MHAS_FAILED);
  expect_none(scheduler, 3.0);
  const mhas_farm_state state = state_at(scheduler, 3.0);
  assert_int_equal(state.busy, 0);
  assert_int_equal(state.given_up, 1);
  assert_int_equal(state.done, 1);
  assert_int_equal(state.failed, 1);
  mhas_scheduler_destroy(scheduler);
}

static void only_the_first_member_can_answer(void **unused) {
  (void)unused;
  const float flops[] = {1e9f};
  const int32_t ranks[] = {3};
  mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, 1, 3, NULL);
  expect_order(scheduler, 0.0, 0, 0, 3);
  const uint8_t outcome[2] = {MHAS_DONE, MHAS_DONE};
  mhas_error error;
  assert_int_equal(mhas_scheduler_ended(scheduler, 1, 1.0, outcome, 1, &error), MHAS_INTERNAL);
  assert_int_equal(mhas_scheduler_ended(scheduler, 0, 1.0, outcome, 2, &error), MHAS_INTERNAL);
  assert_int_equal(state_at(scheduler, 1.0).busy, 3);
  end_one(scheduler, 0, 1.0, MHAS_DONE);
  assert_int_equal(state_at(scheduler, 1.0).busy, 0);
  mhas_scheduler_destroy(scheduler);
}

static void eta_counts_every_member_of_a_team(void **unused) {
  (void)unused;
  enum { ROWS = 41 };
  float flops[ROWS];
  int32_t ranks[ROWS];
  for (int i = 0; i < ROWS; i++) {
    flops[i] = 2e9f;
    ranks[i] = 2;
  }
  mhas_scheduler *scheduler = scheduler_from(0, flops, ranks, ROWS, 4, NULL);
  mhas_order order;
  assert_true(mhas_scheduler_next(scheduler, 0.0, &order));
  assert_true(isnan(state_at(scheduler, 0.0).eta));
  end_one(scheduler, 0, 5.0, MHAS_DONE); /* 5 s a row, 40 of them, two at a time */
  assert_true(fabs(state_at(scheduler, 5.0).eta - 100.0) < 2.0);
  mhas_scheduler_destroy(scheduler);
}

/* ---- random mixes ---- */

typedef struct mix {
  int rows, workers;
  float flops[ROWS_MOST];
  int32_t ranks[ROWS_MOST];
  int handed[ROWS_MOST];
  double until[WORKERS_MOST]; /* of an order, by its first worker; 0 if it has none */
  int64_t count[WORKERS_MOST];
  int team[WORKERS_MOST][WORKERS_MOST];
  int team_size[WORKERS_MOST];
  bool busy[WORKERS_MOST];
  mhas_schedule_options options;
} mix;

static mix make_mix(uint64_t seed, bool fixed) {
  random_state = seed;
  mix m = {.rows = below(ROWS_MOST), .workers = 1 + below(WORKERS_MOST)};
  m.options = (mhas_schedule_options){
      .chunk_seconds = 0.01 + uniform(), .chunk_most = 1 + below(64), .max_failures = INT64_MAX, .static_teams = fixed};
  const double wide_share = uniform() * uniform();
  const int widest = 2 + below(m.workers + 3); /* some beyond the world */
  const double spread = 4.0 * uniform();
  for (int i = 0; i < m.rows; i++) {
    m.flops[i] = (float)(1e9 * exp(spread * normal() - 0.5 * spread * spread));
    m.ranks[i] = uniform() < wide_share ? 1 + below(widest) : 1;
  }
  return m;
}

static void take_order(mix *m, const mhas_order *order, double now) {
  const int leader = order->workers[0];
  assert_true(order->count >= 1 && order->count <= m->options.chunk_most);
  assert_true(order->ranks == 1 || order->count == 1);
  double seconds = 0.0;
  for (int64_t i = 0; i < order->count; i++) {
    assert_int_equal(m->handed[order->rows[i]]++, 0);
    assert_int_equal(m->ranks[order->rows[i]], order->ranks);
    seconds += 1e-9 * (double)m->flops[order->rows[i]] / order->ranks * exp(normal()); /* estimates are bad */
  }
  for (int i = 0; i < order->ranks; i++) {
    const int worker = order->workers[i];
    assert_in_range(worker, 0, m->workers - 1);
    assert_false(m->busy[worker]);
    assert_true(i == 0 || worker > order->workers[i - 1]);
    assert_true(!m->options.static_teams ||
                (order->workers[0] % order->ranks == 0 && worker == order->workers[0] + i) || order->ranks == 1);
    m->busy[worker] = true;
    m->team[leader][i] = worker;
  }
  m->team_size[leader] = order->ranks;
  m->count[leader] = order->count;
  m->until[leader] = now + seconds + 1e-6;
}

static int soonest(const mix *m) {
  int first = -1;
  for (int worker = 0; worker < m->workers; worker++) {
    if (m->until[worker] > 0.0 && (first < 0 || m->until[worker] < m->until[first])) {
      first = worker;
    }
  }
  return first;
}

static void end_order(mix *m, mhas_scheduler *scheduler, int leader) {
  uint8_t outcome[64];
  for (int i = 0; i < m->count[leader]; i++) {
    static const uint8_t kinds[] = {MHAS_DONE, MHAS_DONE, MHAS_DONE, MHAS_FAILED, MHAS_PENDING};
    outcome[i] = kinds[below(5)];
  }
  mhas_error error;
  assert_int_equal(mhas_scheduler_ended(scheduler, leader, m->until[leader], outcome, m->count[leader], &error),
                   MHAS_OK);
  m->until[leader] = 0.0;
  for (int i = 0; i < m->team_size[leader]; i++) {
    m->busy[m->team[leader][i]] = false;
  }
}

/* Until nothing runs any more: then every row has run once, whatever the mix and however wrong the estimates. */
static void play_mix(uint64_t seed, bool fixed) {
  static mix m;
  m = make_mix(seed, fixed);
  mhas_scheduler *scheduler = scheduler_from(0, m.flops, m.ranks, m.rows, m.workers, &m.options);
  double now = 0.0;
  int leader = 0;
  do {
    mhas_order order;
    while (mhas_scheduler_next(scheduler, now, &order)) {
      take_order(&m, &order, now);
    }
    int busy = 0;
    for (int worker = 0; worker < m.workers; worker++) {
      busy += m.busy[worker];
    }
    const mhas_farm_state state = state_at(scheduler, now);
    assert_int_equal(state.busy, busy);
    assert_true(isnan(state.eta) || state.eta >= 0.0);
    leader = soonest(&m);
    if (leader >= 0) {
      now = m.until[leader];
      end_order(&m, scheduler, leader);
    }
  } while (leader >= 0);
  const mhas_farm_state state = state_at(scheduler, now);
  int stranded = 0;
  for (int i = 0; i < m.rows; i++) {
    assert_int_equal(m.handed[i], m.ranks[i] <= m.workers);
    stranded += m.ranks[i] > m.workers;
  }
  assert_int_equal(state.stranded, stranded);
  assert_int_equal(state.done + state.failed + state.given_up, m.rows - stranded);
  assert_int_equal(state.running, 0);
  mhas_scheduler_destroy(scheduler);
}

static void random_mixes_end_with_every_row_run_once(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 1000; seed++) {
    play_mix(seed, false);
  }
}

static void random_mixes_end_with_static_teams_too(void **unused) {
  (void)unused;
  for (uint64_t seed = 1; seed <= 1000; seed++) {
    play_mix(seed, true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_widest_go_first_and_then_the_costliest),
      cmocka_unit_test(many_teams_run_side_by_side),
      cmocka_unit_test(members_need_not_be_neighbours_unless_teams_are_static),
      cmocka_unit_test(small_rows_fill_the_time_that_a_team_waits_and_no_more),
      cmocka_unit_test(a_team_does_not_starve_when_estimates_are_wrong),
      cmocka_unit_test(a_long_row_may_start_where_the_team_needs_it_not),
      cmocka_unit_test(rows_wider_than_the_world_stay_and_all_others_run),
      cmocka_unit_test(a_stop_leaves_waiting_teams_alone),
      cmocka_unit_test(only_the_first_member_can_answer),
      cmocka_unit_test(eta_counts_every_member_of_a_team),
      cmocka_unit_test(random_mixes_end_with_every_row_run_once),
      cmocka_unit_test(random_mixes_end_with_static_teams_too),
  };
  return cmocka_run_group_tests_name("scheduler of teams", tests, NULL, NULL);
}
