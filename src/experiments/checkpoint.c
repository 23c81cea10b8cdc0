/* How a long run goes on where it was. */
#include "mhasweep/experiments.h"

mhas_code mhas_task_restore(const mhas_task *task, const mhas_piece *pieces, int count, bool *found,
                            mhas_error *error) {
  const mhas_checkpoints *kept = task->checkpoints;
  *found = false;
  return kept == NULL ? MHAS_OK : kept->read(kept->context, pieces, count, found, error);
}

mhas_code mhas_task_proceed(const mhas_task *task, const mhas_piece *pieces, int count, mhas_error *error) {
  const mhas_checkpoints *kept = task->checkpoints;
  const mhas_code code = task->proceed(task->context, error);
  if (kept == NULL || (code != MHAS_STOPPED && (code != MHAS_OK || !kept->due(kept->context)))) {
    return code;
  }
  MHAS_TRY(kept->write(kept->context, pieces, count, code == MHAS_OK ? error : NULL));
  return code;
}

void mhas_task_keep(const mhas_task *task, const mhas_piece *pieces, int count) {
  const mhas_checkpoints *kept = task->checkpoints;
  if (kept != NULL) {
    (void)kept->write(kept->context, pieces, count, NULL); /* the stop is what counts */
  }
}
