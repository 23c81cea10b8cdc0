/* Rows for teams of ranks: mixed with others, with members that fail, with signals, in worlds of any size. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_work.h"
#include "mhasweep/linalg.h"

/* ---- helpers ---- */

static int mixed(int64_t row) { return row % 5 == 0 ? 1 + (int)(row / 5 % 5) : 1; } /* 1 .. 5 */
static int two(int64_t row) { return (void)row, 2; }
static int all_workers(int64_t row) {
  int size = 0;
  assert_int_equal(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_SUCCESS);
  return (void)row, size == 1 ? 1 : size - 1;
}

static int64_t wider_than_world(const fake *work) {
  int64_t stranded = 0;
  for (int64_t row = 0; row < work->rows; row++) {
    stranded += work->ranks_of(row) > fake_workers(work);
  }
  return stranded;
}

/* Counts signals from 0 again, once no rank may still be in an earlier farm. */
static int forget_signals(void **unused) {
  (void)unused;
  mhas_error error;
  return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && mhas_signals_catch(&error) == MHAS_OK ? 0 : -1;
}

/* ---- ways to run a row ---- */

static double sum_of_rows; /* on each rank, of what its teams came to */

/* A sum over the members: so all of them must be there, and in the same row. */
static mhas_code summing(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error) {
  (void)control, (void)error;
  mhas_sleep(1e-6 * (double)((row * 7919) % 700));
  double part[2] = {(double)row, 1.0 / (1.0 + work->team->rank)};
  double sum[2] = {0.0, 0.0};
  assert_int_equal(MPI_Allreduce(part, sum, 2, MPI_DOUBLE, MPI_SUM, work->team->comm), MPI_SUCCESS);
  assert_true(sum[0] == (double)row * work->team->size);
  sum_of_rows += work->team->rank == 0 ? sum[1] * (double)row : 0.0;
  *status = MHAS_DONE;
  return MHAS_OK;
}

/* The last member of every team fails, as does every seventh row of one rank. */
static mhas_code failing_member(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                                mhas_error *error) {
  (void)control, (void)error;
  mhas_error reason = {.text = ""};
  mhas_code code = MHAS_OK;
  if (work->team->size > 1 ? work->team->rank == work->team->size - 1 : row % 7 == 3) {
    code = mhas_fail(&reason, MHAS_NUMERIC, "member %d has a NaN", work->team->rank);
  }
  code = mhas_team_agree(work->team, code, &reason);
  assert_int_equal(code == MHAS_OK, work->team->size == 1 && row % 7 != 3);
  if (code != MHAS_OK) {
    char expected[64];
    (void)snprintf(expected, sizeof expected, "member %d has a NaN", work->team->size - 1);
    assert_string_equal(reason.text, expected);
  }
  *status = code == MHAS_OK ? MHAS_DONE : MHAS_FAILED;
  return MHAS_OK;
}

/* The run breaks on a member that does not answer for its team (or on the only one). */
static mhas_code broken_member(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                               mhas_error *error) {
  (void)control;
  *status = MHAS_DONE;
  const bool mine = work->team->rank == work->team->size - 1;
  return row == 7 && mine ? mhas_fail(error, MHAS_IO, "row 7: member %d: no disk", work->team->rank) : MHAS_OK;
}

/* Goes on until member 0 is told to stop; all leave at the same step. The last rank of the world raises a signal. */
static bool endless_grace;
static mhas_code until_stopped(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status,
                               mhas_error *error) {
  (void)row;
  int64_t steps = 0;
  bool stop = false;
  if (work->rank == work->size - 1 && work->entered == 1) {
    assert_int_equal(raise(SIGUSR1), 0);
  }
  while (!stop) {
    mhas_sleep(1e-3);
    stop = endless_grace ? mhas_farm_stopping(control) : mhas_farm_give_up(control);
    MHAS_TRY(mhas_team_share(work->team, &stop, (int)sizeof stop, error));
    steps++;
  }
  int64_t most = 0;
  assert_int_equal(MPI_Allreduce(&steps, &most, 1, MPI_INT64_T, MPI_MAX, work->team->comm), MPI_SUCCESS);
  assert_int_equal(steps, most);
  *status = endless_grace ? MHAS_DONE : MHAS_PENDING;
  return MHAS_OK;
}

static mhas_code at_once(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error) {
  (void)work, (void)row, (void)control, (void)error;
  *status = MHAS_DONE;
  return MHAS_OK;
}

/* ---- tests ---- */

static double total_of(fake_row run_row, bool fixed) {
  fake *work = fake_new(run_row, 400);
  work->ranks_of = mixed;
  work->flops = 1e8f;
  work->options.schedule.static_teams = fixed;
  sum_of_rows = 0.0;
  fake_farm(work);
  check_each_row_exactly_once(work);
  assert_int_equal(work->state.stranded, wider_than_world(work));
  assert_int_equal(work->state.widest, fake_workers(work) >= 5 ? 0 : 5);
  double total = 0.0;
  assert_int_equal(MPI_Allreduce(&sum_of_rows, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  return total;
}

static void mixed_rows_run_exactly_once_each_with_its_number_of_ranks(void **unused) {
  (void)unused;
  double expected = 0.0;
  const double total = total_of(summing, false);
  int size = 0;
  assert_int_equal(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_SUCCESS);
  for (int64_t row = 0; row < 400; row++) {
    const int ranks = mixed(row);
    for (int i = 0; i < ranks && ranks <= (size == 1 ? 1 : size - 1); i++) {
      expected += (double)row / (1.0 + i);
    }
  }
  assert_true(fabs(total - expected) < 1e-9 * expected);
}

static void static_teams_come_to_the_same(void **unused) {
  (void)unused;
  const double fixed = total_of(summing, true);
  assert_true(fabs(fixed - total_of(summing, false)) < 1e-9 * fixed);
}

static void a_member_that_fails_fails_the_row_and_all_live_on(void **unused) {
  (void)unused;
  fake *work = fake_new(failing_member, 300);
  work->ranks_of = mixed;
  fake_farm(work);
  check_each_row_exactly_once(work);
  int64_t failed = 0;
  for (int64_t row = 0; row < 300; row++) {
    const int ranks = mixed(row);
    failed += ranks <= fake_workers(work) && (ranks > 1 || row % 7 == 3);
  }
  assert_int_equal(work->state.failed, failed);
}

static void what_breaks_the_run_on_any_member_ends_it_everywhere(void **unused) {
  (void)unused;
  fake *work = fake_new(broken_member, 50);
  work->ranks_of = all_workers;
  work->flops = 1e10f;
  fake_farm(work);
  assert_int_equal(work->code, MHAS_IO);
  char expected[64];
  (void)snprintf(expected, sizeof expected, "row 7: member %d: no disk", fake_workers(work) - 1);
  assert_non_null(strstr(work->error.text, expected));
  assert_true(work->state.done < 50);
}

static void check_stopped(fake *work) {
  assert_int_equal(work->code, MHAS_OK);
  assert_true(work->state.stopping);
  check_each_row_at_most_once(work);
}

static void a_signal_on_any_member_lets_the_team_finish_together(void **unused) {
  (void)unused;
  fake *work = fake_new(until_stopped, 30);
  work->ranks_of = all_workers;
  work->flops = 1e10f;
  endless_grace = true;
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->state.done, 1);
}

static void a_team_gives_up_together_after_the_grace(void **unused) {
  (void)unused;
  fake *work = fake_new(until_stopped, 30);
  work->ranks_of = all_workers;
  work->flops = 1e10f;
  work->options.grace_seconds = 0.1;
  endless_grace = false;
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->state.done, 0);
  assert_int_equal(work->state.given_up, 1);
}

static void teams_beside_single_rows_stop_as_well(void **unused) {
  (void)unused;
  fake *work = fake_new(until_stopped, 500);
  work->ranks_of = mixed;
  work->flops = 1e10f;
  work->options.grace_seconds = 0.0;
  endless_grace = false;
  fake_farm(work);
  check_stopped(work);
  assert_int_equal(work->state.done, 0);
}

static void rows_for_more_ranks_than_there_are_stay(void **unused) {
  (void)unused;
  fake *work = fake_new(at_once, 20);
  work->ranks_of = two;
  fake_farm(work);
  assert_int_equal(work->code, MHAS_OK);
  const bool enough = fake_workers(work) >= 2;
  assert_int_equal(work->state.done, enough ? 20 : 0);
  assert_int_equal(work->state.stranded, enough ? 0 : 20);
  assert_int_equal(work->state.widest, enough ? 0 : 2);
  check_each_row_exactly_once(work);
}

/* As a row with block-cyclic matrices does, but for these. */
static mhas_code with_grid(fake *work, int64_t row, mhas_farm_control *control, uint8_t *status, mhas_error *error) {
  (void)row, (void)control;
  mhas_grid *grid = NULL;
  MHAS_TRY(mhas_grid_create(work->team->comm, 0, &grid, error));
  mhas_grid_destroy(grid);
  *status = MHAS_DONE;
  return MHAS_OK;
}

/* Resident memory of this process in KiB. */
static long resident(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
  assert_int_equal(fclose(file), 0);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* The sanitizer keeps freed memory for a while; that nothing is lost for good is its own check. */
#ifdef __SANITIZE_ADDRESS__
static const long growth_most = 1 << 19;
#else
static const long growth_most = 1 << 12; /* KiB */
#endif

/* MHASWEEP_TEST_TEAMS=20000 makes it a measurement (tests/bench/teams.sh). */
static void teams_come_and_go_without_growth(void **unused) {
  (void)unused;
  const char *wanted = getenv("MHASWEEP_TEST_TEAMS");
  const int64_t teams = wanted == NULL ? 1000 : atoll(wanted);
  assert_in_range(teams, 1, FAKE_ROWS_MOST);
  long before = 0;
  double seconds = 0.0;
  for (int round = 0; round < 2; round++) { /* the first one warms up */
    fake *work = fake_new(with_grid, round == 0 ? teams / 4 : teams);
    work->ranks_of = two;
    before = resident();
    seconds = mhas_now();
    fake_farm(work);
    check_each_row_exactly_once(work);
    seconds = mhas_now() - seconds;
  }
  const long grown = resident() - before;
  int rank = 0;
  int size = 0;
  assert_int_equal(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
  assert_int_equal(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_SUCCESS);
  if (rank == size - 1 && size >= 3) {
    print_message("%lld teams of 2 with a grid on %d ranks: %.0f us each, memory of rank %d grew by %ld KiB\n",
                  (long long)teams, size, 1e6 * seconds / (double)teams, rank, grown);
  }
  assert_true(grown < growth_most);
}

static int farm_tests(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mixed_rows_run_exactly_once_each_with_its_number_of_ranks),
      cmocka_unit_test(static_teams_come_to_the_same),
      cmocka_unit_test(a_member_that_fails_fails_the_row_and_all_live_on),
      cmocka_unit_test(what_breaks_the_run_on_any_member_ends_it_everywhere),
      cmocka_unit_test_setup(a_signal_on_any_member_lets_the_team_finish_together, forget_signals),
      cmocka_unit_test_setup(a_team_gives_up_together_after_the_grace, forget_signals),
      cmocka_unit_test_setup(teams_beside_single_rows_stop_as_well, forget_signals),
      cmocka_unit_test_setup(rows_for_more_ranks_than_there_are_stay, forget_signals),
      cmocka_unit_test(teams_come_and_go_without_growth),
  };
  return cmocka_run_group_tests_name("farm of teams", tests, NULL, NULL);
}

int main(void) { return fake_main("farm of teams", farm_tests); }
