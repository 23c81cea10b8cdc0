/* Labels that are wrong on purpose. */
#include "mhasweep/data.h"

void mhas_data_label_noise(const mhas_data_shape *shape, mhas_random random, double share, int64_t first, int64_t count,
                           double *y) {
  for (int64_t i = 0; i < count; i++) {
    const uint64_t t = (uint64_t)(first + i);
    double chance = 1.0;
    int64_t label = 0;
    mhas_random_uniform(random, MHAS_STREAM_LABEL_NOISE, t, 1, &chance);
    if (chance >= share) {
      continue;
    }
    if (shape->classes > 0) {
      mhas_random_below(random, MHAS_STREAM_LABEL_INSTEAD, t, 1, (uint64_t)shape->classes, &label);
      y[i] = (double)label;
    } else {
      mhas_random_uniform(random, MHAS_STREAM_LABEL_INSTEAD, t, 1, &y[i]);
    }
  }
}
