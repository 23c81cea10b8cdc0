#include "farm/stopping.h"

/* timeout(1) and launchers often send a signal both to the process and to its group: that is one wish, not two. */
static const double ONE_WISH_SECONDS = 1.0;

mhas_stop_level mhas_stopping_level(mhas_stopping *stopping, int signals, double now) {
  if (stopping->ends > 0.0 && now >= stopping->ends) {
    return MHAS_STOP_ABANDON; /* the rest of the time is for keeping what is done */
  }
  if (signals == 0) {
    return MHAS_STOP_NONE;
  }
  if (!stopping->signalled) {
    stopping->signalled = true;
    stopping->since = now;
  }
  const double waited = now - stopping->since;
  if (waited < ONE_WISH_SECONDS && signals > stopping->first_wave) {
    stopping->first_wave = signals;
  }
  return signals > stopping->first_wave || waited >= stopping->grace_seconds ? MHAS_STOP_ABANDON : MHAS_STOP_DRAIN;
}
