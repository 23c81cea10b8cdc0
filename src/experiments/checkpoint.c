/* How a long run goes on where it was, alone or on a team. */
#include <limits.h>
#include <string.h>

#include "mhasweep/experiments.h"

/* ---- parts of other members ------------------------------------------------------ */

/*
 * Member 0 does all with the file, and the others do as it wishes until it lets them go. So it may stop anywhere, or
 * not begin, and nobody waits for what does not come.
 */
typedef enum wish_kind { LET_GO, TELL_SIZE, GIVE, TAKE } wish_kind;
typedef enum wish_place { KIND, PIECE, OFFSET, BYTES, WISH_LENGTH } wish_place;
enum { TAG_WISH = 1, TAG_PART = 2 };

enum { PIECES_MOST = (int)(sizeof(unsigned) * CHAR_BIT) }; /* on a team: mhas_task.parts has no more bits */

static bool is_part(const mhas_task *task, int piece) { return (task->parts >> piece & 1U) != 0; }

static bool send(const mhas_team *team, const void *data, int64_t bytes, int to, int tag) {
  return bytes <= INT_MAX && MPI_Send(data, (int)bytes, MPI_BYTE, to, tag, team->comm) == MPI_SUCCESS;
}

static bool receive(const mhas_team *team, void *data, int64_t bytes, int from, int tag) {
  return bytes <= INT_MAX &&
         MPI_Recv(data, (int)bytes, MPI_BYTE, from, tag, team->comm, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* On the other members. */
static bool obey(const mhas_team *team, const mhas_piece *pieces) {
  for (;;) {
    int64_t wish[WISH_LENGTH] = {LET_GO};
    if (!receive(team, wish, (int64_t)sizeof wish, 0, TAG_WISH)) {
      return false;
    }
    const mhas_piece *piece = &pieces[wish[PIECE]];
    char *place = (char *)piece->data + wish[OFFSET];
    const int64_t size = (int64_t)piece->bytes;
    bool done = false;
    switch ((wish_kind)wish[KIND]) {
      case LET_GO: return true;
      case TELL_SIZE: done = send(team, &size, (int64_t)sizeof size, 0, TAG_PART); break;
      case GIVE: done = send(team, place, wish[BYTES], 0, TAG_PART); break;
      case TAKE: done = receive(team, place, wish[BYTES], 0, TAG_PART); break;
    }
    if (!done) {
      return false;
    }
  }
}

/* Member 0's way through the parts of a piece. */
typedef struct carrier {
  const mhas_team *team;
  const mhas_piece *pieces; /* its own */
  int member;               /* whose part it is at, */
  int64_t at, left;         /* where in it, and how much is left of it */
} carrier;

static bool wish(const carrier *c, wish_kind kind, int piece, int64_t bytes) {
  const int64_t words[WISH_LENGTH] = {[KIND] = kind, [PIECE] = piece, [OFFSET] = c->at, [BYTES] = bytes};
  return send(c->team, words, (int64_t)sizeof words, c->member, TAG_WISH);
}

static bool go_to(carrier *c, int member, int piece) {
  c->member = member;
  c->at = 0;
  c->left = (int64_t)c->pieces[piece].bytes;
  return member == 0 || (member < c->team->size && wish(c, TELL_SIZE, piece, 0) &&
                         receive(c->team, &c->left, (int64_t)sizeof c->left, member, TAG_PART));
}

/* Some bytes of the part that it is at. */
static bool move_some(const carrier *c, wish_kind kind, int piece, int64_t bytes, char *block) {
  char *own = (char *)c->pieces[piece].data + c->at;
  if (c->member == 0) {
    memcpy(kind == GIVE ? block : own, kind == GIVE ? own : block, (size_t)bytes);
    return true;
  }
  return wish(c, kind, piece, bytes) && (kind == GIVE ? receive(c->team, block, bytes, c->member, TAG_PART)
                                                      : send(c->team, block, bytes, c->member, TAG_PART));
}

static bool move_block(carrier *c, wish_kind kind, int piece, size_t offset, size_t bytes, char *block) {
  bool moves = offset > 0 || go_to(c, 0, piece);
  for (int64_t done = 0; moves && done < (int64_t)bytes;) {
    while (moves && c->left == 0) {
      moves = go_to(c, c->member + 1, piece);
    }
    const int64_t rest = (int64_t)bytes - done;
    const int64_t some = rest < c->left ? rest : c->left;
    moves = moves && move_some(c, kind, piece, some, block + done);
    c->at += some;
    c->left -= some;
    done += some;
  }
  return moves;
}

static bool fetch(void *context, int piece, size_t offset, size_t bytes, void *block) {
  return move_block(context, GIVE, piece, offset, bytes, block);
}

static bool deliver(void *context, int piece, size_t offset, size_t bytes, void *block) {
  return move_block(context, TAKE, piece, offset, bytes, block);
}

static bool let_go(const mhas_team *team) {
  carrier c = {.team = team};
  bool done = true;
  for (c.member = 1; c.member < team->size; c.member++) {
    done = wish(&c, LET_GO, 0, 0) && done;
  }
  return done;
}

/* ---- a team ---------------------------------------------------------------------- */

/* The pieces as the file has them: parts are elsewhere, and as long as all members' are together. */
static mhas_code look_at_pieces(const mhas_task *task, const mhas_piece *pieces, int count,
                                mhas_piece whole[PIECES_MOST], mhas_error *error) {
  int64_t bytes[PIECES_MOST] = {0};
  int64_t all[PIECES_MOST] = {0};
  if (count > PIECES_MOST) {
    return mhas_fail(error, MHAS_INTERNAL, "a state of %d pieces on a team", count);
  }
  for (int i = 0; i < count; i++) {
    bytes[i] = (int64_t)pieces[i].bytes;
  }
  if (MPI_Reduce(bytes, all, count, MPI_INT64_T, MPI_SUM, 0, task->team.comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot put a checkpoint together");
  }
  for (int i = 0; i < count; i++) {
    whole[i] = is_part(task, i) ? (mhas_piece){NULL, (size_t)all[i]} : pieces[i];
  }
  return MHAS_OK;
}

/* Writes, or with `found` reads, what member 0 has and what the others let it have. */
static mhas_code use_file(const mhas_task *task, const mhas_piece *pieces, int count, bool *found, mhas_error *error) {
  const mhas_checkpoints *kept = task->checkpoints;
  const mhas_team *team = &task->team;
  carrier c = {.team = team, .pieces = pieces};
  const mhas_mover mover = {.fetch = fetch, .deliver = deliver, .context = &c};
  mhas_piece whole[PIECES_MOST];
  mhas_code code = MHAS_OK;
  bool heard = true;
  MHAS_TRY(look_at_pieces(task, pieces, count, whole, error));
  if (team->rank > 0) {
    heard = obey(team, pieces);
  } else {
    code = found == NULL ? kept->write(kept->context, whole, count, &mover, error)
                         : kept->read(kept->context, whole, count, &mover, found, error);
    heard = let_go(team);
  }
  if (!heard && code == MHAS_OK) {
    code = mhas_fail(error, MHAS_MPI, "the ranks of a team cannot put a checkpoint together");
  }
  return mhas_team_agree(team, code, error);
}

static mhas_code restore_together(const mhas_task *task, const mhas_piece *pieces, int count, bool *found,
                                  mhas_error *error) {
  MHAS_TRY(use_file(task, pieces, count, found, error));
  MHAS_TRY(mhas_team_share(&task->team, found, sizeof *found, error));
  for (int i = 0; *found && i < count; i++) {
    if (!is_part(task, i)) {
      MHAS_TRY(mhas_team_share(&task->team, pieces[i].data, pieces[i].bytes, error));
    }
  }
  return MHAS_OK;
}

/* ---- both ------------------------------------------------------------------------ */

static mhas_code keep(const mhas_task *task, const mhas_piece *pieces, int count, mhas_error *error) {
  const mhas_checkpoints *kept = task->checkpoints;
  return task->team.size > 1 ? use_file(task, pieces, count, NULL, error)
                             : kept->write(kept->context, pieces, count, NULL, error);
}

mhas_code mhas_task_restore(const mhas_task *task, const mhas_piece *pieces, int count, bool *found,
                            mhas_error *error) {
  const mhas_checkpoints *kept = task->checkpoints;
  *found = false;
  if (kept == NULL) {
    return MHAS_OK;
  }
  return task->team.size > 1 ? restore_together(task, pieces, count, found, error)
                             : kept->read(kept->context, pieces, count, NULL, found, error);
}

mhas_code mhas_task_proceed(const mhas_task *task, const mhas_piece *pieces, int count, mhas_error *error) {
  const mhas_checkpoints *kept = task->checkpoints;
  const mhas_code code = task->proceed(task->context, error);
  if (kept == NULL || (code != MHAS_STOPPED && (code != MHAS_OK || !kept->due(kept->context)))) {
    return code;
  }
  MHAS_TRY(keep(task, pieces, count, code == MHAS_OK ? error : NULL));
  return code;
}

void mhas_task_keep(const mhas_task *task, const mhas_piece *pieces, int count) {
  if (task->checkpoints != NULL) {
    (void)keep(task, pieces, count, NULL); /* the stop is what counts */
  }
}
