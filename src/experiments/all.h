/* The experiments, each defined in the file of its name. Only the registry needs them by symbol. */
#ifndef MHASWEEP_EXPERIMENTS_ALL_H
#define MHASWEEP_EXPERIMENTS_ALL_H

#include "mhasweep/experiments.h"

extern const mhas_experiment mhas_experiment_probe;
extern const mhas_experiment mhas_experiment_memorize;
extern const mhas_experiment mhas_experiment_assumptions;
extern const mhas_experiment mhas_experiment_optimize;
extern const mhas_experiment mhas_experiment_select;
extern const mhas_experiment mhas_experiment_overfit;
extern const mhas_experiment mhas_experiment_icl;

#endif
