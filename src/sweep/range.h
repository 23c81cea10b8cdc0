/* Ranges of a sweep file, {from, to, step | count, scale}: value i is computed from i, never stored. */
#ifndef MHASWEEP_SWEEP_RANGE_H
#define MHASWEEP_SWEEP_RANGE_H

#include "sweep/values.h"

#define SWEEP_GRID_MOST (INT64_C(1) << 40)

typedef struct sweep_range {
  mhas_type type; /* MHAS_INTEGER or MHAS_REAL */
  bool logarithmic;
  bool continuous; /* neither step nor count: for samplers only */
  bool by_step;
  double from, to, step; /* step: as written, or between neighbours of a linear range */
  int64_t count;         /* 1 if continuous */
  /* Value i of a linear range is (start + i stride) / unit, exactly what a decimal calculation gives; unit 0: the
   * numbers are too long for that, and from + i step has to do. */
  int64_t start, stride, unit;
} sweep_range;

/* Understands the map; complains and returns false if it cannot be a range of this parameter. */
bool sweep_range_take(sweep_complaints *complaints, const sweep_node *map, const mhas_parameter *parameter,
                      sweep_range *range);

mhas_value sweep_range_value(const sweep_range *range, int64_t index);

/* The value at u, 0 <= u < 1, between from and to; integers are rounded so that each has its fair share. */
mhas_value sweep_range_at(const sweep_range *range, double u);

/* The range's definition in one way of writing it. */
void sweep_range_write(const sweep_range *range, mhas_text *text);

#endif
