/* Connections by which ranks know of each other's death. The test is rank 0; its children are the workers. */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "farm/lifeline.h"

#include <cmocka.h>

enum { WORKERS = 3, LEFT_WELL = 7, NEVER_JOINED = 8 };
static const double SILENCE = 20.0; /* long for a loaded machine: no test waits for it */
static const double PATIENCE = 60.0;

static mhas_lifelines *lines;
static mhas_lifeline_address address;
static pid_t children[WORKERS];

/* A worker's main thread: stuck for ever, or until it is told by SIGUSR1 to leave. */
static void play_worker(int worker) {
  mhas_lifeline *line = NULL;
  mhas_error error;
  sigset_t wait;
  int number = 0;
  (void)sigemptyset(&wait);
  (void)sigaddset(&wait, SIGUSR1);
  (void)sigaddset(&wait, SIGUSR2);
  (void)sigprocmask(SIG_BLOCK, &wait, NULL);
  if (mhas_lifeline_join(&address, worker, SILENCE, &line, &error) != MHAS_OK) {
    _exit(NEVER_JOINED);
  }
  for (;;) {
    (void)sigwait(&wait, &number);
    if (number == SIGUSR1) {
      mhas_lifeline_leave(line);
      _exit(LEFT_WELL);
    }
    mhas_lifeline_move(line);
  }
}

static int gather(void **state) {
  (void)state;
  mhas_error error;
  if (mhas_lifelines_open(WORKERS, SILENCE, &lines, &address, &error) != MHAS_OK) {
    return -1;
  }
  for (int worker = 0; worker < WORKERS; worker++) {
    children[worker] = fork();
    if (children[worker] == 0) {
      play_worker(worker);
    }
  }
  int missing = -1;
  mhas_lifelines_gather(lines, PATIENCE, &missing);
  return missing;
}

static int part(void **state) {
  (void)state;
  const bool all[WORKERS] = {true, true, true};
  const int left = mhas_lifelines_close(lines, all, PATIENCE);
  for (int worker = 0; worker < WORKERS; worker++) {
    (void)waitpid(children[worker], NULL, 0);
  }
  return left;
}

static int status_of(int worker) {
  int status = 0;
  assert_int_equal(waitpid(children[worker], &status, 0), children[worker]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The next event of this kind. */
static mhas_beat wait_for(bool closed) {
  const double until = mhas_now() + PATIENCE;
  mhas_beat beat = {.worker = -1};
  while (mhas_now() < until) {
    while (mhas_lifelines_next(lines, mhas_now(), &beat)) {
      if (beat.closed == closed) {
        return beat;
      }
    }
    mhas_sleep(0.01);
  }
  fail_msg("nothing came in %g s", PATIENCE);
  return beat;
}

static void all_beat_whatever_their_main_thread_is_at(void **state) {
  (void)state;
  bool heard[WORKERS] = {false};
  for (int count = 0; count < WORKERS;) {
    const mhas_beat beat = wait_for(false);
    assert_in_range(beat.worker, 0, WORKERS - 1);
    count += !heard[beat.worker];
    heard[beat.worker] = true;
  }
}

static void beats_tell_how_far_the_row_is(void **state) {
  (void)state;
  assert_int_equal(kill(children[1], SIGUSR2), 0);
  for (mhas_beat beat = wait_for(false); beat.worker != 1 || beat.moves == 0;) {
    beat = wait_for(false);
  }
}

static void a_killed_worker_is_known_at_once(void **state) {
  (void)state;
  assert_int_equal(kill(children[2], SIGKILL), 0);
  assert_int_equal(wait_for(true).worker, 2);
  assert_false(mhas_lifelines_has(lines, 2));
  assert_true(mhas_lifelines_has(lines, 1));
}

static void one_that_is_stopped_is_silent_and_no_other(void **state) {
  (void)state;
  assert_int_equal(kill(children[0], SIGSTOP), 0);
  int status = 0;
  assert_int_equal(waitpid(children[0], &status, WUNTRACED), children[0]);
  mhas_beat beat;
  while (mhas_lifelines_next(lines, mhas_now(), &beat)) { /* what came before */
  }
  for (int count = 0; count < 6;) {
    beat = wait_for(false);
    assert_int_not_equal(beat.worker, 0);
    count++;
  }
  assert_int_equal(kill(children[0], SIGCONT), 0);
  while (wait_for(false).worker != 0) {
  }
}

static void who_is_told_to_end_ends_with_its_main_thread_stuck(void **state) {
  (void)state;
  mhas_lifelines_end(lines, 1);
  assert_int_equal(wait_for(true).worker, 1);
  assert_int_equal(status_of(1), 0);
}

static void who_leaves_is_not_taken_for_dead(void **state) {
  (void)state;
  assert_int_equal(kill(children[0], SIGUSR1), 0);
  assert_int_equal(status_of(0), LEFT_WELL);
  mhas_beat beat;
  while (mhas_lifelines_has(lines, 0)) {
    if (mhas_lifelines_next(lines, mhas_now(), &beat)) {
      assert_false(beat.closed);
    }
  }
}

static void who_is_let_go_lives_on(void **state) {
  (void)state;
  assert_int_equal(mhas_lifelines_close(lines, NULL, 0.0), 0);
  lines = NULL;
  for (int worker = 0; worker < WORKERS; worker++) {
    assert_int_equal(waitpid(children[worker], NULL, WNOHANG), 0);
    assert_int_equal(kill(children[worker], SIGUSR1), 0);
    assert_int_equal(status_of(worker), LEFT_WELL);
  }
}

/* All processes of another world hold one end of a pipe; its other end tells when the last of them is gone. */
static void all_end_when_rank_0_dies(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t master = fork();
  if (master == 0) {
    _exit(gather(NULL) == 0 ? 0 : 1); /* without a word to its workers */
  }
  (void)close(ends[1]);
  int status = -1;
  assert_int_equal(waitpid(master, &status, 0), master);
  assert_int_equal(status, 0);
  struct pollfd last = {.fd = ends[0], .events = POLLIN};
  char byte = 0;
  assert_int_equal(poll(&last, 1, (int)(1e3 * PATIENCE)), 1);
  assert_int_equal(read(ends[0], &byte, 1), 0);
  (void)close(ends[0]);
}

static void a_stranger_is_sent_away(void **state) {
  (void)state;
  mhas_error error;
  mhas_lifelines *other = NULL;
  mhas_lifeline_address there;
  assert_int_equal(mhas_lifelines_open(1, SILENCE, &other, &there, &error), MHAS_OK);
  const pid_t child = fork();
  if (child == 0) {
    mhas_lifeline *line = NULL;
    there.token[3] ^= 1;
    _exit(mhas_lifeline_join(&there, 0, SILENCE, &line, &error) == MHAS_IO ? 0 : 1);
  }
  int missing = 0;
  mhas_lifelines_gather(other, 1.0, &missing);
  assert_int_equal(missing, 1);
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(mhas_lifelines_close(other, NULL, 0.0), 0);
}

static void where_nobody_listens_nobody_is_reached(void **state) {
  (void)state;
  mhas_error error;
  mhas_lifeline *line = NULL;
  const mhas_lifeline_address nowhere = {
      .host = "nowhere", .port = 1, .count = 1, .addresses = {{AF_INET, {127, 0, 0, 1}}}};
  assert_int_equal(mhas_lifeline_join(&nowhere, 0, SILENCE, &line, &error), MHAS_IO);
  assert_non_null(strstr(error.text, "nowhere"));
  assert_null(line);
}

int main(void) {
  (void)signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(all_beat_whatever_their_main_thread_is_at, gather, part),
      cmocka_unit_test_setup_teardown(beats_tell_how_far_the_row_is, gather, part),
      cmocka_unit_test_setup_teardown(a_killed_worker_is_known_at_once, gather, part),
      cmocka_unit_test_setup_teardown(one_that_is_stopped_is_silent_and_no_other, gather, part),
      cmocka_unit_test_setup_teardown(who_is_told_to_end_ends_with_its_main_thread_stuck, gather, part),
      cmocka_unit_test_setup_teardown(who_leaves_is_not_taken_for_dead, gather, part),
      cmocka_unit_test_setup(who_is_let_go_lives_on, gather),
      cmocka_unit_test(all_end_when_rank_0_dies),
      cmocka_unit_test(a_stranger_is_sent_away),
      cmocka_unit_test(where_nobody_listens_nobody_is_reached),
  };
  return cmocka_run_group_tests_name("lifeline", tests, NULL, NULL);
}
