/*
 * Checkpoint files: the state of one long point, kept beside the result file so that an interrupted point goes on where
 * it was, bit-identically. Which bytes make up a state is the experiment's business (mhas_task_restore).
 *
 * RESULTS.h5.POINT.checkpoint appears complete or not at all (a temporary file, fsync, rename, fsync of the folder) and
 * says for which sweep and point it is; a checksum tells a torn one. It is never needed: a run that finds none begins
 * the point anew, so users may delete such files at any time. Nothing here is collective or prints.
 */
#ifndef MHASWEEP_CHECKPOINT_H
#define MHASWEEP_CHECKPOINT_H

#include "mhasweep/base.h"

/* What a state belongs to. All of it must be equal for a checkpoint to be used. */
typedef struct mhas_checkpoint_key {
  const char *spec_hash; /* mhas_sweep_hash: 16 hex digits; longer ones are cut to MHAS_CHECKPOINT_HASH */
  int64_t numerics;      /* the experiment's */
  int64_t point;         /* the row of the result file */
  int64_t ranks;         /* that share the point: on a team of another size its numbers have other bits */
} mhas_checkpoint_key;

enum { MHAS_CHECKPOINT_HASH = 32, MHAS_CHECKPOINT_PIECES_MOST = 64 };

/* The name of a point's checkpoint. The caller frees *path with mhas_free. */
mhas_code mhas_checkpoint_path(const char *results, int64_t point, char **path, mhas_error *error);

/* Puts the pieces into the file at `path`, in place of an earlier checkpoint. MHAS_IO leaves that one as it was.
 * `mover` may be NULL if all pieces are here; those that are not take a block of memory at a time. */
mhas_code mhas_checkpoint_write(const char *path, const mhas_checkpoint_key *key, const mhas_piece *pieces, int count,
                                const mhas_mover *mover, mhas_error *error);

/*
 * Fills the pieces from the file at `path`, if it is a whole checkpoint with this key and pieces of these sizes; *found
 * says so, and while it is false no piece has been touched. MHAS_OK also if there is no file; MHAS_IO if there is one
 * that is torn, foreign or unreadable: *why it cannot be used. It reads any file whatever is in it, in constant memory.
 */
mhas_code mhas_checkpoint_read(const char *path, const mhas_checkpoint_key *key, const mhas_piece *pieces, int count,
                               const mhas_mover *mover, bool *found, mhas_error *why);

/* Removes the checkpoint of a point whose row is complete in the result file, after bringing that file to the disk: a
 * power cut must not cost both. MHAS_OK also if there is none. */
mhas_code mhas_checkpoint_retire(const char *path, const char *results, mhas_error *error);

/*
 * Removes what no run will need: checkpoints beside `results` of rows for which `wanted` is false, and what interrupted
 * writes left behind. For the only run on that file. Never fails: a file that stays costs space, not results.
 */
void mhas_checkpoint_tidy(const char *results, bool (*wanted)(void *context, int64_t point), void *context);

#endif
