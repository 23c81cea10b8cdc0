/*
 * A world of one rank: it works itself, chunk by chunk by the same scheduler, and looks around while it works.
 */
#include <string.h>

#include "farm/roles.h"

static void loner_look(mhas_farm_control *control, double now) {
  mhas_farm *farm = control->role;
  mhas_farm_state state;
  const mhas_stop_level level = mhas_stopping_level(&farm->stopping, mhas_signals_count(), now);
  if (level > MHAS_STOP_NONE) {
    mhas_scheduler_stop(farm->scheduler);
  }
  mhas_scheduler_state(farm->scheduler, now, &state);
  control->draining = state.stopping || state.too_many_failures;
  control->abandoning = level == MHAS_STOP_ABANDON;
  mhas_farm_tell(farm, now, false);
}

void mhas_farm_loner(mhas_farm *farm, mhas_verdict *verdict) {
  const mhas_team alone = {.comm = MPI_COMM_SELF, .rank = 0, .size = 1};
  mhas_farm_control control = {.look = loner_look, .role = farm};
  mhas_code code = MHAS_OK;
  while (code == MHAS_OK) {
    loner_look(&control, mhas_now());
    mhas_order order;
    if (!mhas_scheduler_next(farm->scheduler, mhas_now(), &order)) {
      break;
    }
    code = mhas_farm_work_on(farm, &alone, order.rows, order.count, &control, &verdict->error);
    if (code != MHAS_OK) {
      mhas_scheduler_stop(farm->scheduler);
      memset(farm->outcome, MHAS_PENDING, (size_t)order.count);
    }
    mhas_error nonsense;
    if (mhas_farm_end_chunk(farm, 0, order.count, order.count, &nonsense) != MHAS_OK) {
      code = nonsense.code;
      verdict->error = nonsense;
    }
  }
  verdict->error.code = code;
  const double now = mhas_now();
  mhas_scheduler_state(farm->scheduler, now, &verdict->state);
  mhas_farm_tell(farm, now, true);
}
