/*
 * mhas_farm_run: the ranks gather, each plays its role, all learn how it ended.
 */
#include <string.h>

#include "farm/roles.h"
#include "farm/scheduler.h"

static const double LOOK_SECONDS = 0.05; /* between two real looks of a running work */
static const double PROGRESS_SECONDS = 0.1;

/* ---- what the work may ask ---- */

static void look_around(mhas_farm_control *control) {
  const double now = mhas_now();
  if (now >= control->next_look) {
    control->next_look = now + LOOK_SECONDS;
    control->look(control, now);
  }
}

bool mhas_farm_stopping(mhas_farm_control *control) {
  look_around(control);
  return control->draining;
}

bool mhas_farm_lapsed(const mhas_farm_control *control) {
  return control->line != NULL && mhas_lifeline_lapses(control->line) > control->lapses;
}

bool mhas_farm_give_up(mhas_farm_control *control) {
  look_around(control);
  return control->abandoning;
}

/* ---- shared by the roles ---- */

mhas_code mhas_farm_work_on(mhas_farm *farm, const mhas_team *team, const int64_t *rows, int64_t count,
                            mhas_farm_control *control, mhas_error *error) {
  memset(farm->outcome, MHAS_PENDING, (size_t)count);
  control->line = farm->watch == NULL ? NULL : farm->watch->line;
  control->lapses = control->line == NULL ? 0 : mhas_lifeline_lapses(control->line);
  MHAS_TRY(farm->work->run(farm->work->context, team, rows, count, control, farm->outcome, error));
  for (int64_t i = 0; i < count; i++) {
    if (farm->outcome[i] > MHAS_FAILED) {
      return mhas_fail(error, MHAS_INTERNAL, "row %lld ended with status %d", (long long)rows[i], farm->outcome[i]);
    }
  }
  return MHAS_OK;
}

mhas_code mhas_farm_end_chunk(mhas_farm *farm, int worker, int64_t count, int64_t given, mhas_error *reason) {
  const double now = mhas_now();
  const mhas_code code = mhas_scheduler_ended(farm->scheduler, worker, now, farm->outcome, count, reason);
  if (code != MHAS_OK) {
    mhas_scheduler_stop(farm->scheduler);
    memset(farm->outcome, MHAS_PENDING, (size_t)given);
    (void)mhas_scheduler_ended(farm->scheduler, worker, now, farm->outcome, given, NULL); /* it has given them */
  }
  return code;
}

void mhas_farm_tell(mhas_farm *farm, double now, bool last) {
  if (farm->options->progress != NULL && (last || now >= farm->next_progress)) {
    farm->next_progress = now + PROGRESS_SECONDS;
    mhas_farm_state state;
    mhas_scheduler_state(farm->scheduler, now, &state);
    farm->options->progress(farm->options->progress_context, &state, last);
  }
}

/* ---- running ---- */

static mhas_code gather(MPI_Comm comm, mhas_farm *farm, mhas_error *error) {
  static const char doing[] = "gather the ranks";
  MPI_Request request = MPI_REQUEST_NULL;
  MHAS_TRY(mhas_mpi_check(MPI_Comm_idup(comm, &farm->comm, &request), doing, error));
  MHAS_TRY(mhas_wait_asleep(&request, doing, error));
  MHAS_TRY(mhas_mpi_check(MPI_Comm_set_errhandler(farm->comm, MPI_ERRORS_RETURN), doing, error));
  MHAS_TRY(mhas_mpi_check(MPI_Comm_rank(farm->comm, &farm->rank), doing, error));
  return mhas_mpi_check(MPI_Comm_size(farm->comm, &farm->size), doing, error);
}

/* Rank 0's part of what is to be done. */
typedef struct assignment {
  const int64_t *rows;
  const float *flops;
  const int32_t *ranks;
  int64_t count;
} assignment;

/* What can fail on one rank alone, before any work goes out. */
static mhas_code prepare(mhas_farm *farm, const assignment *todo, mhas_error *error) {
  const size_t most = (size_t)farm->chunk_most;
  MHAS_TRY(mhas_teams_prepare(farm->comm, &farm->teams, error));
  const int workers = farm->size == 1 ? 1 : farm->size - 1;
  MHAS_TRY(mhas_alloc(&farm->packed, most, sizeof *farm->packed, "a chunk's outcome", error));
  MHAS_TRY(mhas_alloc(&farm->outcome, most, sizeof *farm->outcome, "a chunk's outcome", error));
  if (farm->rank != 0) {
    MHAS_TRY(mhas_alloc(&farm->letter, (size_t)(MHAS_LETTER_HEAD + workers), sizeof(int64_t), "a letter", error));
    return mhas_alloc(&farm->rows, most, sizeof *farm->rows, "a chunk's rows", error);
  }
  MHAS_TRY(mhas_alloc(&farm->dismissed, (size_t)workers, sizeof(bool), "the master's workers", error));
  MHAS_TRY(mhas_alloc(&farm->parted, (size_t)workers, sizeof(bool), "the master's workers", error));
  const size_t sends = (size_t)workers * MHAS_ORDER_TAGS;
  MHAS_TRY(mhas_alloc(&farm->given, (size_t)workers, sizeof *farm->given, "the master's workers", error));
  MHAS_TRY(mhas_alloc(&farm->letters, (size_t)workers, sizeof *farm->letters, "the master's letters", error));
  MHAS_TRY(mhas_alloc(&farm->requests, sends, sizeof *farm->requests, "the master's messages", error));
  for (size_t i = 0; i < sends; i++) {
    farm->requests[i] = MPI_REQUEST_NULL;
  }
  const mhas_schedule_options *schedule = &farm->options->schedule;
  if (schedule->static_teams) {
    mhas_teams_want(&farm->teams, todo->ranks, todo->count);
  }
  return mhas_scheduler_create(todo->rows, todo->flops, todo->ranks, todo->count, workers, schedule, &farm->scheduler,
                               error);
}

static mhas_code play(mhas_farm *farm, mhas_verdict *verdict, mhas_error *error) {
  if (farm->size == 1) {
    mhas_farm_loner(farm, verdict);
    return MHAS_OK;
  }
  return farm->rank == 0 ? mhas_farm_master(farm, verdict, error) : mhas_farm_worker(farm, verdict, error);
}

/* Fails only if the ranks cannot talk; all else is in the verdict, the same on all of them. */
static mhas_code run_together(mhas_farm *farm, const assignment *todo, mhas_verdict *verdict, mhas_error *error) {
  MHAS_TRY(mhas_share(farm->comm, &farm->chunk_most, (int)sizeof farm->chunk_most, error));
  verdict->error.code = prepare(farm, todo, &verdict->error);
  MHAS_TRY(mhas_agree(farm->comm, &verdict->error, error));
  if (verdict->error.code == MHAS_OK) {
    MHAS_TRY(mhas_teams_split(&farm->teams, error));
    mhas_watch_ease(farm->watch); /* from here on the master sees to losses itself */
    MHAS_TRY(play(farm, verdict, error));
  }
  if (verdict->state.lost > 0) {
    return MHAS_OK; /* who is lost would be waited for */
  }
  mhas_watch_guard(farm->watch, 1, "part");
  MHAS_TRY(mhas_teams_free(&farm->teams, error));
  const mhas_code code = mhas_mpi_check(MPI_Comm_free(&farm->comm), "part the ranks", error);
  mhas_watch_ease(farm->watch);
  return code;
}

mhas_code mhas_farm_run(MPI_Comm comm, const int64_t *rows, const float *flops, const int32_t *ranks, int64_t count,
                        const mhas_farm_work *work, mhas_watch *watch, const mhas_farm_options *options,
                        mhas_farm_state *state, mhas_error *error) {
  mhas_farm farm = {.work = work, .watch = watch};
  mhas_verdict verdict;
  memset(&verdict, 0, sizeof verdict);
  memset(state, 0, sizeof *state);
  MHAS_TRY(gather(comm, &farm, error));
  if (farm.rank == 0) {
    farm.options = options;
    farm.stopping.grace_seconds = options->grace_seconds;
    farm.stopping.ends = options->schedule.ends;
    farm.chunk_most = mhas_schedule_defaults(&options->schedule).chunk_most;
  }
  const assignment todo = {rows, flops, ranks, count};
  mhas_code code = run_together(&farm, &todo, &verdict, error);
  if (code == MHAS_OK) {
    *state = verdict.state;
    code = verdict.error.code;
    if (code != MHAS_OK && error != NULL) {
      *error = verdict.error;
    }
  }
  if (verdict.state.lost > 0) {
    return code; /* messages to lost ranks may still be under way, and read what would be freed; the program ends soon
                  */
  }
  mhas_scheduler_destroy(farm.scheduler);
  mhas_free(farm.packed);
  mhas_free(farm.outcome);
  mhas_free(farm.rows);
  mhas_free(farm.letter);
  mhas_free(farm.given);
  mhas_free(farm.letters);
  mhas_free(farm.requests);
  mhas_free(farm.dismissed);
  mhas_free(farm.parted);
  return code;
}
