/*
 * What the farm's roles share: the master (rank 0 of many), the workers (all others), the loner (the only rank).
 *
 * A chunk is one message each way: the rows to a worker, a status each back. A row for a team is a letter to each
 * member, and one answer of the first. Between them a worker may hear of a stop, and the master of a signal. Once a
 * rank is lost, only such messages between two ranks are sure to come to an end: nothing collective is done any more.
 * Private to the farm.
 */
#ifndef MHASWEEP_FARM_ROLES_H
#define MHASWEEP_FARM_ROLES_H

#include "farm/stopping.h"
#include "farm/talk.h"
#include "farm/teams.h"
#include "farm/watch.h"
#include "mhasweep/farm.h"

/* To a worker. */
enum {
  MHAS_TAG_ROWS,    /* int64 each: run these */
  MHAS_TAG_TEAM,    /* a mhas_letter: form a team and run its row */
  MHAS_TAG_DRAIN,   /* empty: start no further row */
  MHAS_TAG_ABANDON, /* empty: leave the running row too */
  MHAS_TAG_FINISH,  /* empty: the farm is done */
  MHAS_TAG_VERDICT, /* a mhas_verdict: how it ended, after all have answered to FINISH */
  MHAS_ORDER_TAGS
};

/* To the master. */
enum {
  MHAS_TAG_ENDED = MHAS_ORDER_TAGS, /* bytes: the mhas_status of each row of the chunk, packed */
  MHAS_TAG_BROKEN,                  /* a mhas_error: the run is broken */
  MHAS_TAG_SIGNALS,                 /* int: how many signals this rank has caught so far */
  MHAS_TAG_PARTED                   /* empty: the answer to FINISH, after which nothing more will come */
};

typedef struct mhas_farm {
  MPI_Comm comm; /* ours alone; its errors return */
  int rank, size;
  const mhas_farm_work *work;
  int64_t chunk_most;
  mhas_watch *watch; /* NULL: nobody is watched */
  mhas_teams teams;
  uint8_t *outcome;    /* [chunk_most] */
  uint8_t *packed;     /* [chunk_most] of an answer on its way */
  int64_t *rows;       /* [chunk_most]; a worker's */
  mhas_letter *letter; /* of at most `workers` members; a worker's */

  /* The master's and the loner's. */
  const mhas_farm_options *options;
  mhas_scheduler *scheduler;
  mhas_stopping stopping;
  double next_progress;

  /* The master's alone. */
  int64_t *given;        /* [workers]: rows of the chunk that each one has or answers for */
  mhas_letter **letters; /* [workers]: what went to the members of the team for which each one answers, or NULL */
  MPI_Request *requests; /* [workers][MHAS_ORDER_TAGS]: sends under way */
  bool *dismissed;       /* [workers]: told to finish */
  bool *parted;          /* [workers]: that have answered to it */
} mhas_farm;

struct mhas_farm_control {
  double next_look;
  bool draining, abandoning; /* abandoning implies draining */
  void (*look)(mhas_farm_control *control, double now);
  const mhas_lifeline *line; /* NULL: nobody thinks this rank dead */
  int lapses;                /* of it, when the rows came */
  void *role;
};

/* How it ended, the same on every rank. error.code is MHAS_OK unless the run is broken. */
typedef struct mhas_verdict {
  mhas_farm_state state;
  mhas_error error;
} mhas_verdict;

/* Four outcomes a byte, so that an answer is small enough to be sent at once: one that the sender has to be asked for
 * would never be complete if it died meanwhile. The number of bytes. */
static inline int64_t mhas_pack(const uint8_t *outcome, int64_t count, uint8_t *packed) {
  for (int64_t i = 0; i < count; i++) {
    const uint8_t bits = (uint8_t)(outcome[i] << (2 * (i % 4)));
    packed[i / 4] = (uint8_t)(i % 4 == 0 ? bits : packed[i / 4] | bits);
  }
  return (count + 3) / 4;
}

static inline void mhas_unpack(const uint8_t *packed, int64_t count, uint8_t *outcome) {
  for (int64_t i = 0; i < count; i++) {
    outcome[i] = packed[i / 4] >> (2 * (i % 4)) & 3U;
  }
}

/* Each returns only what went wrong between the ranks; the rest is in the verdict. */
mhas_code mhas_farm_master(mhas_farm *farm, mhas_verdict *verdict, mhas_error *error);
mhas_code mhas_farm_worker(mhas_farm *farm, mhas_verdict *verdict, mhas_error *error);
void mhas_farm_loner(mhas_farm *farm, mhas_verdict *verdict);

/* Runs a chunk into farm->outcome, whatever does not get there being pending. */
mhas_code mhas_farm_work_on(mhas_farm *farm, const mhas_team *team, const int64_t *rows, int64_t count,
                            mhas_farm_control *control, mhas_error *error);

/*
 * Tells the scheduler of the `count` outcomes in farm->outcome of a worker that was given `given` rows. If they make no
 * sense, the rows stay pending, nothing more goes out, and the reason is returned.
 */
mhas_code mhas_farm_end_chunk(mhas_farm *farm, int worker, int64_t count, int64_t given, mhas_error *reason);

/* Tells the caller of the farm how far it is, if it is time to. */
void mhas_farm_tell(mhas_farm *farm, double now, bool last);

#endif
