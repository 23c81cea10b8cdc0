/*
 * The farm: rank 0 hands rows to the other ranks, the costliest first, small ones in chunks, and keeps count.
 *
 * Three layers, each usable without the next: the scheduler (pure: events in, orders out), the farm (MPI around it,
 * running whatever work it is given), and the run (a sweep from its file to its exit status).
 */
#ifndef MHASWEEP_FARM_H
#define MHASWEEP_FARM_H

#include <mpi.h>

#include "mhasweep/store.h"

/* ---- scheduler: who runs what next. No MPI, no clock of its own ---- */

/*
 * Rows that need a team of ranks go out first, those for most ranks before others, then the costliest; one-rank rows
 * fill what is left, the costliest first, small ones in chunks. Where the next team finds too few idle workers, the
 * scheduler works out when there will be enough, by what the running rows are expected to take, and until then lets
 * idle workers have only one-rank rows that end by that time (and others only on workers that the team will not need).
 * That time stays as it is until the team starts; after it idle workers wait. So a team waits for no more than the rows
 * that were running, and there is always an order while everybody is idle and something is left to do.
 */
typedef struct mhas_scheduler mhas_scheduler;

typedef struct mhas_schedule_options {
  double chunk_seconds; /* aim of a chunk's length; default 0.25, more with many workers, for the master's sake */
  int64_t chunk_most;   /* rows in a chunk at the most; default 4096 */
  int64_t max_failures; /* stop handing out after more than these */
  bool static_teams;    /* teams of r are only workers k r .. k r + r - 1, k = 0, 1, 2 ... */
  /* When all work has to be over, on the clock of the events; 0: never. A row starts only if it ends by then, by what
   * rows took so far; while nothing is known of any, it may start, so that one that takes longer than all the time
   * there is gets on too, from checkpoint to checkpoint. */
  double ends;
  double silence;  /* a worker not heard of for so many seconds is lost; 0: none ever is */
  double stall;    /* as is one whose row has not moved for so long, though it is there; 0: none */
  int losses_most; /* a row with which so many workers were lost has failed; default 3 */
} mhas_schedule_options;

/* `rows` (count of them, ascending) are to be run; flops[i] is the estimated cost of rows[i], ranks[i] how many workers
 * have to share it (ranks NULL: one each). All are copied. Rows for more workers than there are stay where they are
 * (`stranded` in the state). Workers are numbered 0 .. workers - 1. options: NULL, or seconds and rows of 0, mean the
 * defaults. The caller destroys *scheduler. */
mhas_code mhas_scheduler_create(const int64_t *rows, const float *flops, const int32_t *ranks, int64_t count,
                                int workers, const mhas_schedule_options *options, mhas_scheduler **scheduler,
                                mhas_error *error);
void mhas_scheduler_destroy(mhas_scheduler *scheduler);

/* These workers, idle before, shall run these rows. */
typedef struct mhas_order {
  const int *workers;  /* [ranks], ascending; the first one answers for them all. Until the next order is asked for */
  const int64_t *rows; /* [count], ascending; for the life of the scheduler */
  int64_t count;       /* 1 if ranks > 1 */
  int ranks;
} mhas_order;

/* The next order that can be given; false: none until another event. At first all workers are idle. */
bool mhas_scheduler_next(mhas_scheduler *scheduler, double now, mhas_order *order);

/*
 * Event: the workers of an order are idle again, of which `worker` is the first; outcome[i] is the mhas_status of its
 * i-th row (pending: given up, not to be handed out again in this run; running: left, to be handed out again). A worker
 * that was lost may answer too: what it did counts where nobody else has ended the row yet, and if it was only silent,
 * it is one of the workers again.
 */
mhas_code mhas_scheduler_ended(mhas_scheduler *scheduler, int worker, double now, const uint8_t *outcome, int64_t count,
                               mhas_error *error);

/* Event: no more rows shall be handed out (a signal). */
void mhas_scheduler_stop(mhas_scheduler *scheduler);

/*
 * ---- workers that are lost ----
 *
 * The rows of a lost worker go to others, one at a time, so that one that kills whoever runs it is found out. Members
 * of its team cannot be freed from what they do together and are lost with it. One that was lost three times, or is on
 * a host whose workers were lost three times (while there are others), gets nothing any more; losses with a row that
 * has failed for that are the row's alone.
 */

/* Workers run on these hosts, [workers] numbers; without it, all on one. */
void mhas_scheduler_hosts(mhas_scheduler *scheduler, const int *hosts);

/* Event: a sign of life. `moves` counts what its row does, in any unit. At infinity: it cannot be watched, and is never
 * silent. */
void mhas_scheduler_heard(mhas_scheduler *scheduler, int worker, uint64_t moves, double now);

/* Event: its process has ended. */
void mhas_scheduler_died(mhas_scheduler *scheduler, int worker);

typedef enum mhas_loss_reason {
  MHAS_LOSS_DIED,
  MHAS_LOSS_SILENT,
  MHAS_LOSS_STALLED,
  MHAS_LOSS_TEAM /* a member of its team is lost */
} mhas_loss_reason;

typedef struct mhas_loss {
  int worker;
  mhas_loss_reason reason;
  const int64_t *rows; /* [count] that it had, or answered for; they go to others */
  int64_t count;
  bool end;         /* its process is to be ended, as it waits for others of its team that are lost too */
  bool banned;      /* from now on it gets nothing any more, should it come back */
  bool host_banned; /* nor do the others on its host */
} mhas_loss;

/* The next worker that is lost by now; false: no more of them. To be asked often: silence is measured from question to
 * question, so that a master which was itself held up blames nobody. */
bool mhas_scheduler_lost(mhas_scheduler *scheduler, double now, mhas_loss *loss);

/* The next row that has failed since it was lost too often; false: no more of them. */
bool mhas_scheduler_condemned(mhas_scheduler *scheduler, int64_t *row);

/* Whether this worker is there: never lost, or back again. */
bool mhas_scheduler_has(const mhas_scheduler *scheduler, int worker);

typedef struct mhas_farm_state {
  int64_t total;        /* rows in this run */
  int64_t done, failed; /* ended */
  int64_t given_up;     /* handed out, interrupted */
  int64_t running;      /* handed out, not ended */
  int64_t stranded;     /* not to be handed out: they need more workers than there are (any more) */
  int widest;           /* the most workers that one of those needs; 0 if there are none */
  int busy, workers;
  int lost;               /* of them: not there any more */
  int hosts;              /* that all ranks run on, at the end; 0 if they were not watched */
  double elapsed;         /* seconds since the first order */
  double rows_per_second; /* over the last while */
  double eta;             /* seconds to the end by estimated cost; NaN while unknown */
  bool stopping;          /* a stop was asked for */
  bool too_many_failures; /* max_failures was passed */
  bool out_of_time;       /* the end has come, or nothing that is left would be over by then */
} mhas_farm_state;
void mhas_scheduler_state(const mhas_scheduler *scheduler, double now, mhas_farm_state *state);

/* ---- simulation: the same scheduler, driven by workers that only pretend ---- */

typedef struct mhas_simulation_options {
  int workers;
  mhas_schedule_options schedule;
  double seconds_per_flop;    /* of one rank; a team of r takes 1 / r of it */
  double seconds_per_row;     /* whatever the row costs */
  double seconds_per_message; /* of the master's time: it takes and sends one after the other */
  double noise;               /* sigma of the log-normal factor (mean 1) on each row, unknown to the scheduler */
  uint64_t seed;              /* of the noise */
} mhas_simulation_options;

typedef struct mhas_simulation {
  int64_t rows; /* that ran: all but the stranded ones */
  int64_t stranded;
  int widest;       /* as in mhas_farm_state */
  int64_t teams;    /* rows that ran on teams */
  int64_t messages; /* to and from the master */
  double makespan;  /* seconds from the first order to the last answer */
  double work;      /* rank-seconds */
  double longest;   /* seconds of the longest row */
  double bound;     /* no schedule is shorter: work shared evenly, or the longest row */
  double master;    /* seconds that the master was at work */
} mhas_simulation;

/* Runs rows 0 .. count - 1 of these costs on so many ranks each (NULL: one). One event takes O(log workers), and one
 * that leaves a team waiting O(orders under way). */
mhas_code mhas_simulate(const float *flops, const int32_t *ranks, int64_t count, const mhas_simulation_options *options,
                        mhas_simulation *result, mhas_error *error);

/* The same with all points of a sweep, at the costs and on the teams that a run would take for them. */
mhas_code mhas_simulate_sweep(mhas_sweep *sweep, const mhas_simulation_options *options, mhas_simulation *result,
                              mhas_error *error);

/* ---- watch: which ranks still live ---- */

/*
 * TCP connections from rank 0 to all others, beside MPI, which cannot tell. A rank whose process ends is known at once,
 * one that gives no sign of life for `silence` seconds is taken for dead. A rank other than 0 ends by itself (_exit,
 * status 1) when rank 0 has died or is not heard of for four times as long, whatever it is at.
 */
typedef struct mhas_watch mhas_watch;

/* Collective. *watch is NULL if there is nobody to watch, or silence (rank 0's) is 0. Ranks that cannot be reached are
 * not watched, which is said on stderr. */
mhas_code mhas_watch_create(MPI_Comm comm, double silence, mhas_watch **watch, mhas_error *error);

/*
 * From here on until mhas_watch_ease, a rank that is lost ends the program (_exit, with this status on rank 0), since
 * the others wait for it in something collective: what they are `doing` ("open the file"). Of rank 0; nothing
 * elsewhere.
 */
void mhas_watch_guard(mhas_watch *watch, int status, const char *doing);
void mhas_watch_ease(mhas_watch *watch);

/*
 * After a farm that has lost ranks. Rank 0 lets the others go and has those that are lost end; *hanging: some do not.
 * Another rank waits for that word.
 */
void mhas_watch_part(mhas_watch *watch, bool *hanging);

void mhas_watch_destroy(mhas_watch *watch); /* not collective; NULL is fine */

/* ---- farm: MPI around the scheduler ---- */

typedef struct mhas_farm_control mhas_farm_control;

/*
 * For the work while it runs, cheap enough (some 50 ns) for every training step. They also drive the progress display
 * and hear the master's messages, so one of them is to be asked at least once a second.
 */
bool mhas_farm_stopping(mhas_farm_control *control); /* no further row of the chunk shall start: the rest is pending */
bool mhas_farm_give_up(mhas_farm_control *control);  /* the running row shall be left as well, and is pending too */
/* This process has stood still for so long, since it got its rows, that others may have been given them: it must not
 * call one failed for what only happened to itself. */
bool mhas_farm_lapsed(const mhas_farm_control *control);

typedef struct mhas_farm_work {
  void *context;
  /* The master's: what became of rows of a worker that has died, as far as the results tell: done, failed or pending
   * into outcome[]. May be NULL. */
  mhas_code (*recall)(void *context, const int64_t *rows, int64_t count, uint8_t *outcome, mhas_error *error);
  /* The master's: this row has failed since too many workers were lost with it. May be NULL. */
  mhas_code (*condemn)(void *context, int64_t row, mhas_error *error);
  /*
   * Runs these rows and puts each one's mhas_status into outcome[]. A row that fails is not an error; an error means
   * that the run is broken (say, the disk is full) and ends it on every rank.
   *
   * Rows for one rank: on this rank alone, not collective. A row for more: `count` is 1, collective over the team, of
   * which member 0's outcome counts, and any member's error. What a member is told by the functions above may differ
   * from what others are told at the time: a decision that all have to take is to be shared (mhas_team_share).
   */
  mhas_code (*run)(void *context, const mhas_team *team, const int64_t *rows, int64_t count, mhas_farm_control *control,
                   uint8_t *outcome, mhas_error *error);
} mhas_farm_work;

typedef struct mhas_farm_options {
  mhas_schedule_options schedule;
  /* After the first signal that any rank catches, running rows may finish for so long; a second one, a second or more
   * later, ends the wait. */
  double grace_seconds;
  /* Called on rank 0 now and then (about ten times a second). NULL for silence. */
  void (*progress)(void *context, const mhas_farm_state *state, bool last);
  void *progress_context;
} mhas_farm_options;

/*
 * Collective over comm. Rank 0 passes the rows, their costs, how many ranks each needs (NULL: one) and the options
 * (ignored elsewhere) and is the master, in no team; if it is alone it works itself, as the one worker. Every rank
 * passes the work. On return every rank knows the final *state and the same code and text: MHAS_OK also when rows
 * failed or a signal stopped the farm, else why the run is broken. Signals must have been caught (mhas_signals_catch);
 * one that came before the farm started stops it too.
 *
 * With a watch (NULL: none), ranks that die or hang are lost, and the farm goes on without them if the launcher lets
 * the others live. A guard that stands when it is called stands until the master watches by itself. *state then tells
 * how many are `lost`, and nothing collective must be called any more: the program should end by _exit.
 *
 * MHAS_MPI: the ranks cannot talk, so this one may be alone in knowing it, and others may wait for ever: the caller
 * should end the program (MPI_Abort).
 */
mhas_code mhas_farm_run(MPI_Comm comm, const int64_t *rows, const float *flops, const int32_t *ranks, int64_t count,
                        const mhas_farm_work *work, mhas_watch *watch, const mhas_farm_options *options,
                        mhas_farm_state *state, mhas_error *error);

/* Progress for people on stderr: one live line on a terminal, else a line about every 30 s. */
typedef struct mhas_progress mhas_progress;
mhas_code mhas_progress_create(bool terminal, mhas_progress **progress, mhas_error *error);
void mhas_progress_show(void *progress, const mhas_farm_state *state, bool last); /* a mhas_farm_options.progress */
void mhas_progress_destroy(mhas_progress *progress);

/* "90s", "30m", "1h30m", "2d", or as SLURM writes them "30:00", "1:30:00", "1-12:00:00"; false if it is none of them.
 */
bool mhas_duration_read(const char *text, double *seconds);

/* Refuses a world that is not what the launcher started (N copies that each think they are alone). */
mhas_code mhas_world_check(int world_size, mhas_error *error);

/* ---- run: a sweep from its file to its end ---- */

typedef struct mhas_run_options {
  const char *spec_path;
  const char *output_path; /* NULL: the sweep file's name with .h5 */
  const char *const *overrides;
  size_t override_count;
  const char *const *reuse; /* older result files to take rows from */
  size_t reuse_count;
  bool resume, retry_failed, quiet;
  bool static_teams;       /* split off at the start, not made for each row that needs one */
  int64_t limit;           /* rows to run at most; < 0: all */
  double time_limit;       /* seconds from the call on that this run may take; INFINITY: what SLURM says, or no limit */
  double worker_timeout;   /* seconds without a sign of life after which a rank is lost; 0: none is watched */
  double checkpoint_every; /* seconds between checkpoints of a long point; 0: only when it is stopped */
} mhas_run_options;

/* How the program has to end. */
typedef enum mhas_leave {
  MHAS_LEAVE_TOGETHER, /* by MPI_Finalize */
  MHAS_LEAVE_ALONE,    /* by _exit: ranks are lost or HDF5 is stuck, and MPI_Finalize would not end well */
  MHAS_LEAVE_ABORT /* by MPI_Abort: others may wait for ever or hang, or the launcher's daemons on other hosts would */
} mhas_leave;

/* Collective over comm (MPI must be initialised). Prints its own messages; returns the exit status of the command (0,
 * 1, 2, 3 or 75). */
int mhas_run(MPI_Comm comm, const mhas_run_options *options, mhas_leave *leave);

#endif
