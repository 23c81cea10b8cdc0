/* The parts of `mhasweep plan`: what a sweep would take, for people and for machines. */
#ifndef MHASWEEP_CLI_PLAN_H
#define MHASWEEP_CLI_PLAN_H

#include "cli/cli.h"
#include "mhasweep/sweep.h"

typedef struct plan_estimate {
  const char *path;
  mhas_sweep *sweep;
  mhas_plan plan;
  double rate;         /* operations per second of one core of this machine in the sweep's precisions, measured */
  int cpus;            /* that this process may use */
  int workers;         /* that they can feed and the sweep can use */
  double workers_most; /* beyond which the costliest point alone decides how long it takes */
  double seconds;      /* from start to end with `workers` */
} plan_estimate;

mhas_code plan_print(const plan_estimate *estimate, mhas_error *error);
mhas_code plan_print_json(const plan_estimate *estimate, mhas_error *error);

#endif
