/*
 * The master: hands out rows, hears how they ended, spreads a stop, takes note of ranks that are lost, and sleeps in
 * between.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "farm/roles.h"
#include "farm/run_words.h"
#include "farm/scheduler.h"

static const double LONGEST_NAP = 2e-3; /* a worker with nothing to do waits for so long at most */

static const double WATCH_SECONDS = 0.01;

enum { LOSSES_SAID = 20 }; /* lines about lost ranks; more of them say nothing new */

enum { TAGS = 1 << 14 }; /* of teams in the making: far more than are ever under way, and below what MPI allows */

typedef struct master {
  mhas_farm *farm;
  int workers;
  int losses_said;
  bool finishing;       /* nothing more goes out */
  int64_t teams;        /* named so far */
  int signals;          /* the most that any one rank has caught */
  mhas_stop_level told; /* what the workers know */
  double next_watch;    /* when to think of stopping again */
  mhas_error broken;    /* the first reason why the run is broken */
} master;

/* ---- to the workers ---- */

/* Sends without waiting for the worker to listen; `data` must stay until it has. */
static mhas_code send_order(master *self, int worker, int tag, const void *data, int64_t count, mhas_error *error) {
  MPI_Request *request = &self->farm->requests[worker * MHAS_ORDER_TAGS + tag];
  int narrow = 0;
  MHAS_TRY(mhas_narrow(count, "a chunk", &narrow, error));
  return mhas_mpi_check(MPI_Isend(data, narrow, MPI_INT64_T, worker + 1, tag, self->farm->comm, request),
                        "send an order", error);
}

static mhas_code send_to_all(master *self, int tag, mhas_error *error) {
  for (int worker = 0; worker < self->workers; worker++) {
    if (mhas_scheduler_has(self->farm->scheduler, worker)) {
      MHAS_TRY(send_order(self, worker, tag, NULL, 0, error));
    }
  }
  return MHAS_OK;
}

/* A letter to each member: so they are named to all of them in the same order, team after team. */
static mhas_code name_team(master *self, const mhas_order *order, mhas_error *error) {
  const int64_t length = MHAS_LETTER_HEAD + (int64_t)order->ranks;
  mhas_letter *letter = NULL;
  MHAS_TRY(mhas_alloc(&letter, (size_t)length, sizeof(int64_t), "a letter to a team", error));
  self->farm->letters[order->workers[0]] = letter;
  *letter = (mhas_letter){.row = order->rows[0], .tag = self->teams++ % TAGS, .ranks = order->ranks};
  for (int i = 0; i < order->ranks; i++) {
    letter->members[i] = order->workers[i] + 1;
  }
  for (int i = 0; i < order->ranks; i++) {
    MHAS_TRY(send_order(self, order->workers[i], MHAS_TAG_TEAM, letter, length, error));
  }
  return MHAS_OK;
}

/* All orders that can be given now. */
static mhas_code hand_out(master *self, mhas_error *error) {
  mhas_order order;
  while (!self->finishing && mhas_scheduler_next(self->farm->scheduler, mhas_now(), &order)) {
    self->farm->given[order.workers[0]] = order.count;
    MHAS_TRY(order.ranks > 1 ? name_team(self, &order, error)
                             : send_order(self, order.workers[0], MHAS_TAG_ROWS, order.rows, order.count, error));
  }
  return MHAS_OK;
}

/* ---- from the workers ---- */

static void hear_signals(master *self, int signals) {
  if (signals > self->signals) {
    self->signals = signals;
    self->next_watch = 0.0;
  }
}

static void break_run(master *self, const mhas_error *reason, int worker) {
  if (self->broken.code == MHAS_OK) {
    self->broken = *reason;
    (void)mhas_error_context(&self->broken, "rank %d", worker + 1);
  }
  mhas_scheduler_stop(self->farm->scheduler);
  self->next_watch = 0.0;
}

/* Who answers has its rows, as have its mates if none is lost, so this returns at once; it frees the requests. */
static mhas_code complete_order(master *self, int worker, mhas_error *error) {
  mhas_farm *farm = self->farm;
  mhas_letter *letter = farm->letters[worker];
  const int64_t ranks = letter == NULL ? 1 : letter->ranks;
  const int tag = letter == NULL ? MHAS_TAG_ROWS : MHAS_TAG_TEAM;
  for (int64_t i = 0; i < ranks; i++) {
    const int64_t member = letter == NULL ? worker : letter->members[i] - 1;
    MHAS_TRY(mhas_mpi_check(MPI_Wait(&farm->requests[member * MHAS_ORDER_TAGS + tag], MPI_STATUS_IGNORE),
                            "complete an order", error));
  }
  mhas_free(letter);
  farm->letters[worker] = NULL;
  return MHAS_OK;
}

/* With the outcome in farm->outcome. */
static mhas_code end_chunk(master *self, int worker, int64_t count, mhas_error *error) {
  mhas_farm *farm = self->farm;
  if (farm->letters[worker] == NULL || mhas_scheduler_has(farm->scheduler, worker)) {
    MHAS_TRY(complete_order(self, worker, error));
  }
  mhas_error nonsense;
  if (mhas_farm_end_chunk(farm, worker, count, farm->given[worker], &nonsense) != MHAS_OK) {
    break_run(self, &nonsense, worker);
  }
  return hand_out(self, error);
}

static mhas_code take_ended(master *self, int worker, int bytes, mhas_error *error) {
  mhas_farm *farm = self->farm;
  const int64_t count = farm->given[worker];
  if (bytes != (count + 3) / 4) {
    return mhas_fail(error, MHAS_MPI, "rank %d sent an answer of %d bytes for %" PRId64 " rows", worker + 1, bytes,
                     count);
  }
  MHAS_TRY(
      mhas_mpi_check(MPI_Recv(farm->packed, bytes, MPI_BYTE, worker + 1, MHAS_TAG_ENDED, farm->comm, MPI_STATUS_IGNORE),
                     "take an answer", error));
  mhas_unpack(farm->packed, count, farm->outcome);
  return end_chunk(self, worker, count, error);
}

static mhas_code take_broken(master *self, int worker, mhas_error *error) {
  mhas_error reason;
  MHAS_TRY(mhas_mpi_check(
      MPI_Recv(&reason, (int)sizeof reason, MPI_BYTE, worker + 1, MHAS_TAG_BROKEN, self->farm->comm, MPI_STATUS_IGNORE),
      "take an error", error));
  if (!mhas_scheduler_has(self->farm->scheduler, worker)) {
    return MHAS_OK; /* others have its rows, and may do better */
  }
  break_run(self, &reason, worker);
  memset(self->farm->outcome, MHAS_PENDING, (size_t)self->farm->given[worker]);
  return end_chunk(self, worker, self->farm->given[worker], error);
}

static mhas_code take_signals(master *self, int worker, mhas_error *error) {
  int signals = 0;
  MHAS_TRY(mhas_mpi_check(MPI_Recv(&signals, (int)sizeof signals, MPI_BYTE, worker + 1, MHAS_TAG_SIGNALS,
                                   self->farm->comm, MPI_STATUS_IGNORE),
                          "take a signal", error));
  hear_signals(self, signals);
  return MHAS_OK;
}

static mhas_code take_parted(master *self, int worker, mhas_error *error) {
  self->farm->parted[worker] = true;
  return mhas_mpi_check(MPI_Recv(NULL, 0, MPI_BYTE, worker + 1, MHAS_TAG_PARTED, self->farm->comm, MPI_STATUS_IGNORE),
                        "part", error);
}

/* One message, if there is one, in order of arrival. */
static mhas_code take_message(master *self, bool *there, mhas_error *error) {
  MPI_Status status;
  int flag = 0;
  int bytes = 0;
  MHAS_TRY(mhas_mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->farm->comm, &flag, &status),
                          "listen to the workers", error));
  *there = flag != 0;
  if (!*there) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes), "measure an answer", error));
  const int worker = status.MPI_SOURCE - 1;
  switch (status.MPI_TAG) {
    case MHAS_TAG_ENDED: return take_ended(self, worker, bytes, error);
    case MHAS_TAG_BROKEN: return take_broken(self, worker, error);
    case MHAS_TAG_SIGNALS: return take_signals(self, worker, error);
    case MHAS_TAG_PARTED: return take_parted(self, worker, error);
    default: return mhas_fail(error, MHAS_MPI, "rank %d sent a message with tag %d", status.MPI_SOURCE, status.MPI_TAG);
  }
}

/* ---- the loop ---- */

/* Finds out whether to stop, and tells the workers once for each level. */
static mhas_code spread_stop(master *self, double now, mhas_error *error) {
  mhas_scheduler *scheduler = self->farm->scheduler;
  mhas_farm_state state;
  mhas_scheduler_state(scheduler, now, &state);
  mhas_stop_level level = mhas_stopping_level(&self->farm->stopping, self->signals, now);
  if (level > MHAS_STOP_NONE) {
    mhas_scheduler_stop(scheduler);
  } else if (state.too_many_failures) {
    level = MHAS_STOP_DRAIN;
  }
  if (self->broken.code != MHAS_OK) {
    level = MHAS_STOP_ABANDON;
  }
  if (level <= self->told) {
    return MHAS_OK;
  }
  self->told = level;
  return send_to_all(self, level == MHAS_STOP_DRAIN ? MHAS_TAG_DRAIN : MHAS_TAG_ABANDON, error);
}

/* ---- ranks that are lost ---- */

static mhas_lifelines *lines_of(const mhas_farm *farm) { return farm->watch == NULL ? NULL : farm->watch->lines; }

static void say_loss(master *self, const mhas_loss *loss) {
  static const char *const reasons[] = {[MHAS_LOSS_DIED] = "has died",
                                        [MHAS_LOSS_SILENT] = "has not been heard of for too long (--worker-timeout)",
                                        [MHAS_LOSS_STALLED] = "hangs: its point is over its time and does not end",
                                        [MHAS_LOSS_TEAM] = "shared its point with a lost rank and is given up"};
  if (self->losses_said++ < LOSSES_SAID) {
    char rows[64] = "";
    if (loss->count > 0) {
      (void)snprintf(rows, sizeof rows, "; %" PRId64 " point%s to other ranks", loss->count,
                     loss->count == 1 ? " goes" : "s go");
    }
    mhas_say("rank %d %s%s", loss->worker + 1, reasons[loss->reason], rows);
  }
  if (loss->host_banned) {
    mhas_say("host %s keeps losing ranks: those that are left there get nothing more",
             mhas_lifelines_host_name(lines_of(self->farm), loss->worker));
  } else if (loss->banned) {
    mhas_say("rank %d keeps being lost: it gets nothing more", loss->worker + 1);
  }
}

/* What it had ended before it died need not be run again. */
static void recall_rows(master *self, const mhas_loss *loss) {
  mhas_farm *farm = self->farm;
  mhas_error reason;
  if (farm->work->recall == NULL || loss->count == 0) {
    return;
  }
  memset(farm->outcome, MHAS_PENDING, (size_t)loss->count);
  mhas_code code = farm->work->recall(farm->work->context, loss->rows, loss->count, farm->outcome, &reason);
  if (code == MHAS_OK) {
    code = mhas_scheduler_ended(farm->scheduler, loss->worker, mhas_now(), farm->outcome, loss->count, &reason);
  }
  if (code != MHAS_OK) {
    break_run(self, &reason, loss->worker);
  }
}

static void condemn_rows(master *self) {
  mhas_farm *farm = self->farm;
  mhas_error reason;
  int64_t row = 0;
  while (mhas_scheduler_condemned(farm->scheduler, &row)) {
    if (farm->work->condemn != NULL && farm->work->condemn(farm->work->context, row, &reason) != MHAS_OK) {
      break_run(self, &reason, -1);
    }
  }
}

static mhas_code watch_workers(master *self, double now, mhas_error *error) {
  mhas_farm *farm = self->farm;
  mhas_beat beat;
  mhas_loss loss;
  bool lost = false;
  mhas_lifelines *lines = lines_of(farm);
  if (lines == NULL) {
    return MHAS_OK;
  }
  while (mhas_lifelines_next(lines, now, &beat)) {
    if (beat.closed) {
      mhas_scheduler_died(farm->scheduler, beat.worker);
    } else {
      mhas_scheduler_heard(farm->scheduler, beat.worker, beat.moves, now);
    }
  }
  for (; mhas_scheduler_lost(farm->scheduler, now, &loss); lost = true) {
    say_loss(self, &loss);
    if (loss.end) {
      mhas_lifelines_end(lines, loss.worker);
    }
    if (loss.reason == MHAS_LOSS_DIED) {
      recall_rows(self, &loss);
    }
  }
  if (lost) {
    condemn_rows(self);
  }
  return hand_out(self, error); /* also to one that is back */
}

static mhas_code watch(master *self, mhas_error *error) {
  const double now = mhas_now();
  hear_signals(self, mhas_signals_count());
  if (now >= self->next_watch) {
    self->next_watch = now + WATCH_SECONDS;
    MHAS_TRY(watch_workers(self, now, error));
    MHAS_TRY(spread_stop(self, now, error));
  }
  mhas_farm_tell(self->farm, now, false);
  return MHAS_OK;
}

static bool all_parted(const master *self) {
  for (int worker = 0; worker < self->workers; worker++) {
    if (mhas_scheduler_has(self->farm->scheduler, worker) && !self->farm->parted[worker]) {
      return false;
    }
  }
  return true;
}

/* Takes a message or a nap. */
static mhas_code attend(master *self, mhas_nap *nap, mhas_error *error) {
  bool there = false;
  MHAS_TRY(take_message(self, &there, error));
  if (there) {
    mhas_nap_reset(nap);
  } else {
    mhas_nap_take(nap);
  }
  return MHAS_OK;
}

/* Lets all go that are there; one that comes back meanwhile, too. */
static mhas_code finish(master *self, mhas_nap *nap, mhas_error *error) {
  mhas_farm *farm = self->farm;
  self->finishing = true;
  while (!all_parted(self)) { /* words of late signals must not be left lying around */
    for (int worker = 0; worker < self->workers; worker++) {
      if (mhas_scheduler_has(farm->scheduler, worker) && !farm->dismissed[worker]) {
        farm->dismissed[worker] = true;
        MHAS_TRY(send_order(self, worker, MHAS_TAG_FINISH, NULL, 0, error));
      }
    }
    MHAS_TRY(attend(self, nap, error));
    MHAS_TRY(watch(self, error));
  }
  for (int i = 0; i < self->workers * MHAS_ORDER_TAGS; i++) {
    if (farm->parted[i / MHAS_ORDER_TAGS]) {
      MHAS_TRY(mhas_wait_asleep(&farm->requests[i], "complete an order", error));
    }
  }
  return MHAS_OK;
}

static mhas_code serve(master *self, mhas_error *error) {
  mhas_nap nap = {.most = LONGEST_NAP};
  MHAS_TRY(watch(self, error));
  MHAS_TRY(hand_out(self, error));
  while (self->farm->scheduler->running_count > 0) {
    MHAS_TRY(watch(self, error));
    MHAS_TRY(attend(self, &nap, error));
  }
  return finish(self, &nap, error);
}

/* How it ended, to all that are there. */
static mhas_code part(const master *self, const mhas_verdict *verdict, mhas_error *error) {
  mhas_farm *farm = self->farm;
  for (int worker = 0; worker < self->workers; worker++) {
    const bool there = mhas_scheduler_has(farm->scheduler, worker);
    if (farm->watch != NULL) {
      farm->watch->lost[worker] = !there;
    }
    if (there) {
      MPI_Request request = MPI_REQUEST_NULL;
      MHAS_TRY(mhas_mpi_check(
          MPI_Isend(verdict, (int)sizeof *verdict, MPI_BYTE, worker + 1, MHAS_TAG_VERDICT, farm->comm, &request),
          "tell how it ended", error));
      MHAS_TRY(mhas_wait_asleep(&request, "tell how it ended", error));
    }
  }
  return MHAS_OK;
}

static void introduce_workers(mhas_farm *farm) {
  const mhas_lifelines *lines = lines_of(farm);
  if (lines == NULL) {
    return;
  }
  mhas_scheduler_hosts(farm->scheduler, mhas_lifelines_hosts(lines));
  for (int worker = 0; worker < farm->size - 1; worker++) {
    if (!mhas_lifelines_has(lines, worker)) {
      mhas_scheduler_heard(farm->scheduler, worker, 0, INFINITY);
    }
  }
}

mhas_code mhas_farm_master(mhas_farm *farm, mhas_verdict *verdict, mhas_error *error) {
  master self = {.farm = farm, .workers = farm->size - 1, .broken.code = MHAS_OK};
  introduce_workers(farm);
  mhas_code code = serve(&self, error);
  const double now = mhas_now();
  mhas_scheduler_state(farm->scheduler, now, &verdict->state);
  verdict->state.hosts = lines_of(farm) == NULL ? 0 : mhas_lifelines_host_count(lines_of(farm));
  verdict->error = self.broken;
  mhas_farm_tell(farm, now, true);
  return code == MHAS_OK ? part(&self, verdict, error) : code;
}
