/* Private to the farm: what the scheduler makes of its options. */
#ifndef MHASWEEP_FARM_SCHEDULER_H
#define MHASWEEP_FARM_SCHEDULER_H

#include "mhasweep/farm.h"

/* The options with the defaults in place of zeros; NULL for all of them. */
mhas_schedule_options mhas_schedule_defaults(const mhas_schedule_options *options);

#endif
