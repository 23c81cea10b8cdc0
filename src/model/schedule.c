/* The learning rate of a step. */
#include <math.h>

#include "mhasweep/model.h"

/* torch.optim.lr_scheduler: LinearLR(start_factor = warmup_start, total_iters = w) up to step w, then
 * CosineAnnealingLR(T_max = steps - w, eta_min = lr_end lr), both in closed form. */
double mhas_schedule_lr(const mhas_schedule *schedule, int64_t step) {
  const double warm = floor((double)schedule->steps * schedule->warmup);
  const double at = (double)step;
  if (at < warm) {
    return schedule->lr * (schedule->warmup_start + (1.0 - schedule->warmup_start) * at / warm);
  }
  const double pi = 3.14159265358979323846;
  const double phase = (at - warm) / ((double)schedule->steps - warm);
  const double least = schedule->lr * schedule->lr_end;
  return least + (schedule->lr - least) * (1.0 + cos(pi * phase)) / 2.0;
}
