/* Who watches when: the master itself while the farm works, a thread of rank 0 while all ranks do something together.
 */
#include "farm/watch.h"

#include <signal.h>
#include <unistd.h>

#include "farm/run_words.h"
#include "farm/talk.h"

static const double GATHER_SECONDS = 30.0; /* for all workers to connect to rank 0 */
static const double GLANCE_SECONDS = 0.05;
static const double LEAVE_SECONDS = 3.0; /* for the others to end */

/* ---- making it ---- */

static void say_missing(const mhas_watch *watch, int missing) {
  if (missing > 0) {
    mhas_say("warning: %d of %d ranks cannot be reached by TCP: if one of them dies, nobody will notice", missing,
             watch->workers);
  }
}

/* The address is empty if rank 0 cannot listen; the sweep can do without. */
static mhas_code tie(mhas_watch *watch, MPI_Comm comm, int rank, mhas_error *error) {
  mhas_lifeline_address address = {.count = 0};
  mhas_error reason = {.code = MHAS_OK};
  if (rank == 0 && mhas_lifelines_open(watch->workers, watch->silence, &watch->lines, &address, &reason) != MHAS_OK) {
    address.count = 0;
  }
  MHAS_TRY(mhas_share(comm, &address, (int)sizeof address, error));
  if (rank == 0) {
    int missing = watch->workers;
    if (address.count > 0) {
      mhas_lifelines_gather(watch->lines, GATHER_SECONDS, &missing);
    }
    say_missing(watch, missing);
  } else if (address.count > 0) {
    reason.code = mhas_lifeline_join(&address, rank - 1, watch->silence, &watch->line, &reason);
  }
  reason.code = reason.code == MHAS_IO ? MHAS_OK : reason.code;
  MHAS_TRY(mhas_agree(comm, &reason, error));
  if (reason.code != MHAS_OK) {
    *error = reason;
  }
  return reason.code;
}

mhas_code mhas_watch_create(MPI_Comm comm, double silence, mhas_watch **watch, mhas_error *error) {
  int rank = 0;
  int size = 0;
  *watch = NULL;
  MHAS_TRY(mhas_mpi_check(MPI_Comm_rank(comm, &rank), "count the ranks", error));
  MHAS_TRY(mhas_mpi_check(MPI_Comm_size(comm, &size), "count the ranks", error));
  MHAS_TRY(mhas_share(comm, &silence, (int)sizeof silence, error));
  if (size == 1 || silence <= 0.0) {
    return MHAS_OK;
  }
  mhas_watch *made = NULL;
  mhas_error reason = {.code = MHAS_OK};
  reason.code = mhas_alloc(&made, 1, sizeof *made, "the watch over the ranks", &reason);
  if (reason.code == MHAS_OK) {
    reason.code = mhas_alloc(&made->lost, (size_t)size, sizeof *made->lost, "the watch over the ranks", &reason);
  }
  MHAS_TRY(mhas_agree(comm, &reason, error));
  if (reason.code != MHAS_OK) {
    mhas_watch_destroy(made);
    *error = reason;
    return reason.code;
  }
  made->workers = size - 1;
  made->silence = silence;
  const mhas_code code = tie(made, comm, rank, error);
  if (code != MHAS_OK) {
    mhas_watch_destroy(made);
    return code;
  }
  *watch = made;
  return MHAS_OK;
}

/* ---- guarding ---- */

/* One that is lost now leaves all others waiting in a collective call, rank 0 too. */
static void end_all(mhas_watch *watch, int worker, const char *how) {
  mhas_say("rank %d %s while the ranks %s: all end here, and --resume goes on", worker + 1, how, watch->doing);
  for (int other = 0; other < watch->workers; other++) {
    mhas_lifelines_end(watch->lines, other);
  }
  mhas_sleep(GLANCE_SECONDS); /* so that they end by this word, not by the end of rank 0 */
  _exit(watch->status);
}

static void *stand_guard(void *context) {
  mhas_watch *watch = context;
  double *heard = NULL;
  double glanced = mhas_now();
  if (mhas_alloc(&heard, (size_t)watch->workers, sizeof *heard, "the guard", NULL) != MHAS_OK) {
    return NULL;
  }
  for (int worker = 0; worker < watch->workers; worker++) {
    heard[worker] = glanced;
  }
  while (!atomic_load(&watch->at_ease)) {
    const double now = mhas_now();
    const double gap = now - glanced; /* in which nobody was listened to */
    mhas_beat beat;
    glanced = now;
    while (mhas_lifelines_next(watch->lines, now, &beat)) {
      if (beat.closed) {
        end_all(watch, beat.worker, "has died");
      }
      heard[beat.worker] = now;
    }
    for (int worker = 0; worker < watch->workers; worker++) {
      heard[worker] += gap > 0.25 * watch->silence ? gap : 0.0;
      if (mhas_lifelines_has(watch->lines, worker) && now - heard[worker] > watch->silence) {
        end_all(watch, worker, "was not heard of for too long");
      }
    }
    mhas_sleep(GLANCE_SECONDS);
  }
  mhas_free(heard);
  return NULL;
}

void mhas_watch_guard(mhas_watch *watch, int status, const char *doing) {
  sigset_t all;
  sigset_t before;
  if (watch == NULL || watch->lines == NULL || watch->guarding) {
    return;
  }
  watch->status = status;
  watch->doing = doing;
  atomic_store(&watch->at_ease, false);
  (void)sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) == 0) { /* signals are for the main thread */
    watch->guarding = pthread_create(&watch->guard, NULL, stand_guard, watch) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
}

void mhas_watch_ease(mhas_watch *watch) {
  if (watch != NULL && watch->guarding) {
    atomic_store(&watch->at_ease, true);
    (void)pthread_join(watch->guard, NULL);
    watch->guarding = false;
  }
}

void mhas_watch_part(mhas_watch *watch, bool *hanging) {
  *hanging = false;
  if (watch->line != NULL) {
    mhas_lifeline_await(watch->line);
  }
  if (watch->lines != NULL) {
    *hanging = mhas_lifelines_close(watch->lines, watch->lost, LEAVE_SECONDS) > 0;
    watch->lines = NULL;
  }
}

void mhas_watch_destroy(mhas_watch *watch) {
  if (watch == NULL) {
    return;
  }
  mhas_watch_ease(watch);
  (void)mhas_lifelines_close(watch->lines, NULL, LEAVE_SECONDS);
  mhas_lifeline_leave(watch->line);
  mhas_free(watch->lost);
  mhas_free(watch);
}
