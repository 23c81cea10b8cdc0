/*
 * Workers that are lost: who is there, what becomes of the rows of one that is not, and what it may still answer.
 */
#include <inttypes.h>

#include "farm/scheduler.h"

enum { LOSSES_OF_WORKER = 3, LOSSES_OF_HOST = 3 }; /* after so many of them it gets nothing any more */

/* ---- rows that go out again ---- */

void mhas_again_add(mhas_scheduler *scheduler, int64_t row, float flops, int ranks, int losses) {
  mhas_again *made = NULL;
  if (mhas_alloc(&made, 1, sizeof *made, "a row to hand out again", NULL) != MHAS_OK) {
    scheduler->given_up++;
    return;
  }
  *made = (mhas_again){.next = scheduler->again, .row = row, .flops = flops, .ranks = ranks, .losses = losses};
  scheduler->again = made;
  scheduler->again_waiting++;
}

mhas_again *mhas_again_find(const mhas_scheduler *scheduler, bool wide, double most) {
  mhas_again *best = NULL;
  for (mhas_again *row = scheduler->again_waiting > 0 ? scheduler->again : NULL; row != NULL; row = row->next) {
    if (row->state == MHAS_AGAIN_WAITS && (row->ranks > 1) == wide &&
        (best == NULL || row->ranks > best->ranks || (row->ranks == best->ranks && row->flops > best->flops)) &&
        (!wide || mhas_team_possible(scheduler, row->ranks)) &&
        mhas_schedule_seconds(scheduler, (double)row->flops, 1.0, row->ranks) <= most) {
      best = row;
    }
  }
  return best;
}

static mhas_again *find_row(const mhas_scheduler *scheduler, int64_t number) {
  mhas_again *row = scheduler->again;
  while (row != NULL && row->row != number) {
    row = row->next;
  }
  return row;
}

/* A row that has failed since ranks were lost with it: it was not their fault, nor their hosts'. */
static void forgive(mhas_scheduler *scheduler, int64_t row) {
  for (int worker = 0; worker < scheduler->worker_count; worker++) {
    mhas_presence *presence = &scheduler->presence[worker];
    if (presence->suspect == row + 1) {
      presence->suspect = 0;
      presence->losses--;
    }
  }
}

/* It waits once more, unless too many were lost with it. */
static void put_back(mhas_scheduler *scheduler, mhas_again *row) {
  if (row->state == MHAS_AGAIN_ENDED) {
    return; /* a late answer has ended it meanwhile */
  }
  row->losses++;
  if (row->losses < scheduler->options.losses_most) {
    row->state = MHAS_AGAIN_WAITS;
    scheduler->again_waiting++;
  } else {
    row->state = MHAS_AGAIN_ENDED;
    row->condemned = true;
    scheduler->failed++;
    forgive(scheduler, row->row);
  }
}

bool mhas_scheduler_condemned(mhas_scheduler *scheduler, int64_t *row) {
  for (mhas_again *again = scheduler->again; again != NULL; again = again->next) {
    if (again->condemned) {
      again->condemned = false;
      *row = again->row;
      return true;
    }
  }
  return false;
}

/* ---- who is there ---- */

bool mhas_scheduler_has(const mhas_scheduler *scheduler, int worker) {
  return scheduler->presence[worker].state == MHAS_PRESENT;
}

void mhas_scheduler_hosts(mhas_scheduler *scheduler, const int *hosts) {
  for (int worker = 0; worker < scheduler->worker_count; worker++) {
    scheduler->presence[worker].host = hosts[worker];
  }
}

static void ban(mhas_scheduler *scheduler, int worker) {
  mhas_presence *presence = &scheduler->presence[worker];
  if (presence->banned) {
    return;
  }
  presence->banned = true;
  if (presence->state == MHAS_PRESENT) {
    scheduler->present--;
    if (mhas_schedule_is_idle(scheduler, worker)) {
      mhas_schedule_set_busy(scheduler, worker);
    }
  }
}

/* A host that keeps losing workers, while others are there that do not. True: from now on it gets nothing any more. */
static bool judge_host(mhas_scheduler *scheduler, int host) {
  int losses = 0;
  bool others = false;
  bool condemned = false;
  for (int worker = 0; worker < scheduler->worker_count; worker++) {
    const mhas_presence *presence = &scheduler->presence[worker];
    losses += presence->host == host ? presence->losses : 0;
    others |= presence->host != host && presence->state == MHAS_PRESENT && !presence->banned;
  }
  for (int worker = 0; others && losses >= LOSSES_OF_HOST && worker < scheduler->worker_count; worker++) {
    const mhas_presence *presence = &scheduler->presence[worker];
    if (presence->host == host) {
      condemned |= !presence->banned && presence->state != MHAS_GONE;
      ban(scheduler, worker);
    }
  }
  return condemned;
}

static void come_back(mhas_scheduler *scheduler, int worker) {
  mhas_presence *presence = &scheduler->presence[worker];
  presence->state = MHAS_PRESENT;
  if (!presence->banned) {
    scheduler->present++;
    mhas_schedule_set_idle(scheduler, worker);
  }
}

void mhas_scheduler_heard(mhas_scheduler *scheduler, int worker, uint64_t moves, double now) {
  mhas_presence *presence = &scheduler->presence[worker];
  presence->heard = now;
  if (moves != presence->moves || presence->moved == 0.0) {
    presence->moves = moves;
    presence->moved = now;
  }
  if (presence->state == MHAS_SILENT && presence->count == 0) { /* else it comes back with its answer */
    come_back(scheduler, worker);
  }
}

void mhas_scheduler_died(mhas_scheduler *scheduler, int worker) {
  mhas_presence *presence = &scheduler->presence[worker];
  presence->died = presence->state != MHAS_GONE;
}

/* ---- losing one ---- */

/* The rows of an order go back; its first worker may still answer. */
static void take_back(mhas_scheduler *scheduler, int leader) {
  const mhas_assignment order = scheduler->assignments[leader];
  mhas_presence *first = &scheduler->presence[leader];
  first->rows = order.rows;
  first->count = order.count;
  for (int worker = leader; worker >= 0; worker = scheduler->mates[worker]) {
    scheduler->presence[worker].doomed |= order.ranks > 1;
  }
  if (order.again != NULL) {
    put_back(scheduler, order.again);
  } else {
    for (int64_t i = 0; i < order.count; i++) {
      const double flops = order.ranks > 1 ? order.flops : mhas_queue_flops(&scheduler->queue, &order.rows[i]);
      mhas_again_add(scheduler, order.rows[i], (float)flops, order.ranks, 1);
    }
  }
  mhas_schedule_release(scheduler, leader);
  scheduler->gathering.planned = false;
}

static void lose(mhas_scheduler *scheduler, int worker, mhas_loss_reason reason, mhas_loss *loss) {
  mhas_presence *presence = &scheduler->presence[worker];
  const bool idle = mhas_schedule_is_idle(scheduler, worker);
  const int leader = scheduler->leaders[worker];
  const bool was_there = presence->state == MHAS_PRESENT;
  presence->state = reason == MHAS_LOSS_DIED || reason == MHAS_LOSS_TEAM ? MHAS_GONE : MHAS_SILENT;
  *loss = (mhas_loss){.worker = worker, .reason = reason, .end = reason == MHAS_LOSS_TEAM};
  presence->died = false;
  if (was_there) {
    scheduler->present -= !presence->banned;
    presence->losses += reason != MHAS_LOSS_TEAM;
    if (idle) {
      mhas_schedule_set_busy(scheduler, worker);
    } else if (leader >= 0) {
      const mhas_assignment *order = &scheduler->assignments[leader];
      loss->end = order->ranks > 1;
      presence->suspect = order->count == 1 ? order->rows[0] + 1 : 0;
      take_back(scheduler, leader);
    }
  }
  presence->doomed = false;
  if (loss->end) {
    presence->state = MHAS_GONE;
  }
  loss->rows = presence->rows;
  loss->count = presence->count;
  scheduler->gathering.planned = false;
  loss->banned = presence->losses >= LOSSES_OF_WORKER && !presence->banned;
  presence->banned |= loss->banned;
  loss->host_banned = judge_host(scheduler, presence->host);
}

/* Time in which nobody measured is nobody's silence. */
static void excuse(mhas_scheduler *scheduler, double now) {
  const double gap = now - scheduler->checked;
  const bool first = scheduler->checked == 0.0;
  for (int worker = 0; worker < scheduler->worker_count; worker++) {
    mhas_presence *presence = &scheduler->presence[worker];
    if (first) {
      presence->heard = presence->heard > now ? presence->heard : now; /* one that cannot be watched stays so */
      presence->moved = now;
    } else if (gap > 0.25 * scheduler->options.silence) {
      presence->heard += gap;
      presence->moved += gap;
    }
  }
  scheduler->checked = now;
}

static bool is_stalled(const mhas_scheduler *scheduler, int worker, double now) {
  const int leader = scheduler->leaders[worker];
  return scheduler->options.stall > 0.0 && leader == worker && scheduler->assignments[leader].count > 0 &&
         now - scheduler->assignments[leader].since > scheduler->options.stall &&
         now - scheduler->presence[worker].moved > scheduler->options.stall;
}

bool mhas_scheduler_lost(mhas_scheduler *scheduler, double now, mhas_loss *loss) {
  if (scheduler->options.silence > 0.0) {
    excuse(scheduler, now);
  }
  for (int worker = 0; worker < scheduler->worker_count; worker++) {
    const mhas_presence *presence = &scheduler->presence[worker];
    if (presence->state == MHAS_GONE) {
      continue;
    }
    if (presence->died) {
      lose(scheduler, worker, MHAS_LOSS_DIED, loss);
      return true;
    }
    if (presence->doomed) {
      lose(scheduler, worker, MHAS_LOSS_TEAM, loss);
      return true;
    }
    if (presence->state == MHAS_PRESENT && scheduler->options.silence > 0.0) {
      if (now - presence->heard > scheduler->options.silence) {
        lose(scheduler, worker, MHAS_LOSS_SILENT, loss);
        return true;
      }
      if (is_stalled(scheduler, worker, now)) {
        lose(scheduler, worker, MHAS_LOSS_STALLED, loss);
        return true;
      }
    }
  }
  return false;
}

/* ---- answers after all ---- */

mhas_code mhas_late_answer(mhas_scheduler *scheduler, int worker, const uint8_t *outcome, int64_t count,
                           mhas_error *error) {
  mhas_presence *presence = &scheduler->presence[worker];
  if (presence->count == 0) {
    return MHAS_OK; /* all that it did is known already */
  }
  if (presence->count != count) {
    return mhas_fail(error, MHAS_INTERNAL, "worker %d has ended %" PRId64 " rows, but had %" PRId64, worker, count,
                     presence->count);
  }
  for (int64_t i = 0; i < count; i++) {
    mhas_again *row = find_row(scheduler, presence->rows[i]);
    if ((outcome[i] != MHAS_DONE && outcome[i] != MHAS_FAILED) || row == NULL || row->state == MHAS_AGAIN_ENDED) {
      continue;
    }
    scheduler->again_waiting -= row->state == MHAS_AGAIN_WAITS;
    row->state = MHAS_AGAIN_ENDED;
    scheduler->done += outcome[i] == MHAS_DONE;
    scheduler->failed += outcome[i] == MHAS_FAILED;
  }
  presence->count = 0;
  if (presence->state == MHAS_SILENT) {
    come_back(scheduler, worker);
  }
  return MHAS_OK;
}
