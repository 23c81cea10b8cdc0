/* Sinusoidal positions (Vaswani et al. 2017, section 3.5): sin on even columns, cos on odd ones. */
#ifndef MHASWEEP_MODEL_POSITIONS_H
#define MHASWEEP_MODEL_POSITIONS_H

#include <math.h>
#include <stdint.h>

/* Column j of position i. */
static inline double position_entry(double base, int64_t d, int64_t i, int64_t j) {
  const double angle = (double)i * exp((double)(j - j % 2) * (-log(base) / (double)d));
  return j % 2 == 0 ? sin(angle) : cos(angle);
}

#endif
