/* The inside of the scheduler. Private to the farm. */
#ifndef MHASWEEP_FARM_SCHEDULER_H
#define MHASWEEP_FARM_SCHEDULER_H

#include "farm/heap.h"
#include "farm/pace.h"
#include "farm/queue.h"
#include "mhasweep/farm.h"

/* The options with the defaults in place of zeros; NULL for all of them. */
mhas_schedule_options mhas_schedule_defaults(const mhas_schedule_options *options);

/* A row that is handed out again. */
typedef struct mhas_again {
  struct mhas_again *next;
  int64_t row;
  float flops;
  int32_t ranks;
  int losses; /* of orders that it was in */
  enum { MHAS_AGAIN_WAITS, MHAS_AGAIN_RUNS, MHAS_AGAIN_ENDED } state;
  bool condemned; /* ended for its losses, and nobody was told yet */
} mhas_again;

/* Is the worker there? */
typedef struct mhas_presence {
  enum { MHAS_PRESENT, MHAS_SILENT, MHAS_GONE } state;
  bool died, doomed; /* will be found lost: by itself, with its team */
  bool banned;       /* gets nothing any more */
  int losses;        /* how often it was */
  int64_t suspect;   /* the row that it was lost with last, + 1; 0: none, or one of several */
  int host;
  double heard, moved; /* when it was heard of, and when its row moved */
  uint64_t moves;
  /* Lost: what it may still answer to. */
  const int64_t *rows;
  int64_t count;
} mhas_presence;

/* What a worker runs, kept by the first one of its order. */
typedef struct mhas_assignment {
  const int64_t *rows;
  int64_t count;     /* 0: idle, or not the first one */
  double flops;      /* of the chunk */
  double since;      /* when it was handed out */
  int ranks;         /* that share it */
  int place;         /* in the list of those that run */
  mhas_again *again; /* the row, if it was handed out before */
} mhas_assignment;

/* How the next team comes together. */
typedef struct mhas_gathering {
  bool planned;
  double until; /* when enough workers are expected to be idle */
  int spare;    /* workers that will be idle by then beyond those that the team needs */
  int first;    /* static teams: its first worker */
} mhas_gathering;

enum { MHAS_SNAPSHOTS = 20 }; /* of the count of ended rows, for the rate */

typedef struct mhas_snapshot {
  double time;
  int64_t ended;
} mhas_snapshot;

struct mhas_scheduler {
  mhas_schedule_options options;
  int64_t count;
  mhas_queue queue;

  int worker_count;
  mhas_assignment *assignments; /* [workers] */
  int *mates;                   /* [workers]: the next one of the same order, or -1 */
  int *running;                 /* the first workers of the orders under way */
  int running_count;
  uint64_t *idle; /* a bit for each worker */
  int idle_count;
  int idle_from; /* no worker below it is idle; idle itself, or not looked at since it was */
  int *members;  /* [workers]: of the last order */
  int *leaders;  /* [workers]: the first one of its order */

  mhas_presence *presence; /* [workers] */
  int present;             /* those that are there and not banned */
  double checked;          /* when silence was last measured */
  mhas_again *again;       /* rows that went out more than once, or will */
  int64_t again_waiting;

  mhas_gathering gathering; /* for the next wide row */
  mhas_heap soonest;        /* scratch */

  int64_t done, failed, given_up, rows_running;
  bool stopped;
  bool too_late; /* when the last order was asked for, rows were left that there was no time for */

  mhas_pace pace;      /* of rows on one rank */
  mhas_pace team_pace; /* of rows on teams: operations are those of one member */
  bool started;        /* the first event sets the clock */
  double start;
  mhas_snapshot snapshots[MHAS_SNAPSHOTS];
  int64_t snapshot_count;
};

/* Expected seconds of a chunk, and of what is left of one that runs. */
double mhas_schedule_seconds(const mhas_scheduler *scheduler, double flops, double rows, int ranks);
double mhas_schedule_rest(const mhas_scheduler *scheduler, const mhas_assignment *assignment, double now);

/* Nothing more is to be handed out. */
bool mhas_schedule_closed(const mhas_scheduler *scheduler);

/* Takes a worker out of the idle ones, or puts it back if it may get rows. */
void mhas_schedule_set_busy(mhas_scheduler *scheduler, int worker);
void mhas_schedule_set_idle(mhas_scheduler *scheduler, int worker);
/* The workers of an order are free. */
void mhas_schedule_release(mhas_scheduler *scheduler, int leader);

/* ---- losses ---- */

/* A row goes back to be handed out once more; it counts as given up if there is no memory for that. */
void mhas_again_add(mhas_scheduler *scheduler, int64_t row, float flops, int ranks, int losses);
/* The costliest of the waiting rows for one rank (or, wide, for a team that can be formed) of up to so many seconds. */
mhas_again *mhas_again_find(const mhas_scheduler *scheduler, bool wide, double most);
/* What a worker that is not there has done after all. */
mhas_code mhas_late_answer(mhas_scheduler *scheduler, int worker, const uint8_t *outcome, int64_t count,
                           mhas_error *error);

/* ---- teams ---- */

/* Are there enough workers left for such a team? */
bool mhas_team_possible(const mhas_scheduler *scheduler, int ranks);

bool mhas_schedule_is_idle(const mhas_scheduler *scheduler, int worker);
/* The lowest idle worker from `from` on; -1 if there is none. */
int mhas_schedule_idle_from(mhas_scheduler *scheduler, int from);

/* Puts idle workers for a team into scheduler->members, if there are enough. */
bool mhas_team_find(mhas_scheduler *scheduler, int ranks);
/* Works out when there will be, and who is free until then. */
void mhas_team_plan(mhas_scheduler *scheduler, int ranks, double now);
/* An idle worker that may have one-rank rows of *room seconds meanwhile; -1 if none may. */
int mhas_team_leaves(mhas_scheduler *scheduler, int ranks, double now, double *room);

#endif
