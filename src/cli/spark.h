/* Small charts in a line of text. */
#ifndef MHASWEEP_CLI_SPARK_H
#define MHASWEEP_CLI_SPARK_H

#include "mhasweep/base.h"

/* What the lowest and the highest bar stand for; several charts can share it. Zeros: nothing seen yet. */
typedef struct spark_scale {
  double low, high;
  bool any, logarithmic; /* logarithmic: positive, over three decades or more */
} spark_scale;

void spark_scale_add(spark_scale *scale, double value); /* what is not finite is left aside */

/* One bar a value, each `times` wide; a blank for what is not finite. */
void spark_append(mhas_text *text, const double *values, int count, int times, const spark_scale *scale);

#endif
