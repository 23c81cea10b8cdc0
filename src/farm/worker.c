/*
 * A worker: waits asleep for rows, runs them, alone or in a team, and answers. While it runs it listens now and then
 * for a stop.
 */
#include "farm/roles.h"

static const double LONGEST_NAP = 5e-3;

typedef struct worker {
  mhas_farm *farm;
  mhas_farm_control control;
  int signals;       /* that the master knows of */
  mhas_error broken; /* talking failed while the work ran */
} worker;

static mhas_code send_to_master(worker *self, const void *data, int64_t bytes, int tag, mhas_error *error) {
  int count = 0;
  MHAS_TRY(mhas_narrow(bytes, "a message to the master", &count, error));
  return mhas_mpi_check(MPI_Send(data, count, MPI_BYTE, 0, tag, self->farm->comm), "answer the master", error);
}

static mhas_code report_signals(worker *self, mhas_error *error) {
  const int signals = mhas_signals_count();
  if (signals == self->signals) {
    return MHAS_OK;
  }
  self->signals = signals;
  return send_to_master(self, &signals, (int64_t)sizeof signals, MHAS_TAG_SIGNALS, error);
}

/* Is there a message from the master? */
static mhas_code probe(worker *self, bool *there, MPI_Status *status, mhas_error *error) {
  int flag = 0;
  MHAS_TRY(mhas_mpi_check(MPI_Iprobe(0, MPI_ANY_TAG, self->farm->comm, &flag, status), "listen to the master", error));
  *there = flag != 0;
  return MHAS_OK;
}

/* Takes a message that is not rows. */
static mhas_code take_word(worker *self, int tag, bool *finish, mhas_error *error) {
  MHAS_TRY(mhas_mpi_check(MPI_Recv(NULL, 0, MPI_BYTE, 0, tag, self->farm->comm, MPI_STATUS_IGNORE), "hear the master",
                          error));
  switch (tag) {
    case MHAS_TAG_ABANDON: self->control.abandoning = true; /* fall through */
    case MHAS_TAG_DRAIN: self->control.draining = true; return MHAS_OK;
    case MHAS_TAG_FINISH: *finish = true; return MHAS_OK;
    default: return mhas_fail(error, MHAS_MPI, "a worker got an order with tag %d", tag);
  }
}

static mhas_code listen(worker *self, mhas_error *error) {
  MHAS_TRY(report_signals(self, error));
  for (;;) {
    bool there = false;
    MPI_Status status;
    MHAS_TRY(probe(self, &there, &status, error));
    if (!there) {
      return MHAS_OK;
    }
    bool finish = false;
    if (status.MPI_TAG == MHAS_TAG_ROWS || status.MPI_TAG == MHAS_TAG_TEAM) {
      return mhas_fail(error, MHAS_MPI, "a worker got rows while it had some");
    }
    MHAS_TRY(take_word(self, status.MPI_TAG, &finish, error));
    if (finish) {
      return mhas_fail(error, MHAS_MPI, "a worker was told to finish while it had rows");
    }
  }
}

static void worker_look(mhas_farm_control *control, double now) {
  (void)now;
  worker *self = control->role;
  if (self->farm->watch != NULL && self->farm->watch->line != NULL) {
    mhas_lifeline_move(self->farm->watch->line);
  }
  if (self->broken.code == MHAS_OK) {
    self->broken.code = listen(self, &self->broken);
  }
  if (self->broken.code != MHAS_OK) {
    control->draining = control->abandoning = true;
  }
}

/* What became of rows, to the master. */
static mhas_code answer(worker *self, int64_t count, const mhas_error *reason, mhas_error *error) {
  /* The master must know of a signal before it hears that rows were left. */
  MHAS_TRY(report_signals(self, error));
  if (reason->code != MHAS_OK) {
    return send_to_master(self, reason, (int64_t)sizeof *reason, MHAS_TAG_BROKEN, error);
  }
  const int64_t bytes = mhas_pack(self->farm->outcome, count, self->farm->packed);
  return send_to_master(self, self->farm->packed, bytes, MHAS_TAG_ENDED, error);
}

static mhas_code run_chunk(worker *self, const MPI_Status *status, mhas_error *error) {
  mhas_farm *farm = self->farm;
  int count = 0;
  MHAS_TRY(mhas_mpi_check(MPI_Get_count(status, MPI_INT64_T, &count), "measure an order", error));
  if (count < 1 || count > farm->chunk_most) {
    return mhas_fail(error, MHAS_MPI, "a worker got an order of %d rows", count);
  }
  MHAS_TRY(mhas_mpi_check(MPI_Recv(farm->rows, count, MPI_INT64_T, 0, MHAS_TAG_ROWS, farm->comm, MPI_STATUS_IGNORE),
                          "get rows", error));
  const mhas_team alone = {.comm = MPI_COMM_SELF, .rank = 0, .size = 1};
  mhas_error reason = {.code = MHAS_OK};
  reason.code = mhas_farm_work_on(farm, &alone, farm->rows, count, &self->control, &reason);
  if (self->broken.code != MHAS_OK) {
    return mhas_fail(error, self->broken.code, "%s", self->broken.text);
  }
  return answer(self, count, &reason, error);
}

static mhas_code take_letter(worker *self, const MPI_Status *status, mhas_error *error) {
  mhas_farm *farm = self->farm;
  mhas_letter *letter = farm->letter;
  int length = 0;
  MHAS_TRY(mhas_mpi_check(MPI_Get_count(status, MPI_INT64_T, &length), "measure a letter", error));
  if (length <= MHAS_LETTER_HEAD || length > MHAS_LETTER_HEAD + farm->size - 1) {
    return mhas_fail(error, MHAS_MPI, "a worker got a letter of %d numbers", length);
  }
  MHAS_TRY(mhas_mpi_check(MPI_Recv(letter, length, MPI_INT64_T, 0, MHAS_TAG_TEAM, farm->comm, MPI_STATUS_IGNORE),
                          "get a letter", error));
  if (letter->ranks != length - MHAS_LETTER_HEAD) {
    return mhas_fail(error, MHAS_MPI, "a worker got a letter of %d numbers to %d ranks", length, (int)letter->ranks);
  }
  return MHAS_OK;
}

/* The team is at one about what broke the run, if anything did; its first member answers for it. */
static mhas_code run_in_team(worker *self, const MPI_Status *status, mhas_error *error) {
  mhas_farm *farm = self->farm;
  mhas_team team;
  MHAS_TRY(take_letter(self, status, error));
  MHAS_TRY(mhas_team_form(&farm->teams, farm->letter, &team, error));
  mhas_error reason = {.code = MHAS_OK};
  reason.code = mhas_farm_work_on(farm, &team, &farm->letter->row, 1, &self->control, &reason);
  if (self->broken.code != MHAS_OK) {
    return mhas_fail(error, self->broken.code, "%s", self->broken.text);
  }
  reason.code = mhas_team_agree(&team, reason.code, &reason);
  MHAS_TRY(mhas_team_part(&farm->teams, &team, error));
  return team.rank == 0 ? answer(self, 1, &reason, error) : MHAS_OK;
}

/* Parts from the master, and hears how all ended. Words of a stop that is over may come first. */
static mhas_code part(worker *self, mhas_verdict *verdict, mhas_error *error) {
  mhas_nap nap = {.most = LONGEST_NAP};
  MHAS_TRY(send_to_master(self, NULL, 0, MHAS_TAG_PARTED, error));
  for (;;) {
    bool there = false;
    bool finish = false;
    MPI_Status status;
    MHAS_TRY(probe(self, &there, &status, error));
    if (!there) {
      mhas_nap_take(&nap);
    } else if (status.MPI_TAG == MHAS_TAG_VERDICT) {
      return mhas_mpi_check(
          MPI_Recv(verdict, (int)sizeof *verdict, MPI_BYTE, 0, MHAS_TAG_VERDICT, self->farm->comm, MPI_STATUS_IGNORE),
          "hear how it ended", error);
    } else {
      MHAS_TRY(take_word(self, status.MPI_TAG, &finish, error));
    }
  }
}

mhas_code mhas_farm_worker(mhas_farm *farm, mhas_verdict *verdict, mhas_error *error) {
  worker self = {.farm = farm, .control.look = worker_look, .broken.code = MHAS_OK};
  self.control.role = &self;
  mhas_nap nap = {.most = LONGEST_NAP};
  bool finish = false;
  while (!finish) {
    MHAS_TRY(report_signals(&self, error));
    bool there = false;
    MPI_Status status;
    MHAS_TRY(probe(&self, &there, &status, error));
    if (!there) {
      mhas_nap_take(&nap);
      continue;
    }
    mhas_nap_reset(&nap);
    if (status.MPI_TAG == MHAS_TAG_ROWS) {
      MHAS_TRY(run_chunk(&self, &status, error));
    } else if (status.MPI_TAG == MHAS_TAG_TEAM) {
      MHAS_TRY(run_in_team(&self, &status, error));
    } else {
      MHAS_TRY(take_word(&self, status.MPI_TAG, &finish, error));
    }
  }
  return part(&self, verdict, error);
}
