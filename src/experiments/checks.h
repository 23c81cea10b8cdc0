/* What the experiments' check functions share. */
#ifndef MHASWEEP_EXPERIMENTS_CHECKS_H
#define MHASWEEP_EXPERIMENTS_CHECKS_H

#include "mhasweep/base.h"

/* A size that a lower room refuses is a mistake of the sweep file: keeps the words, makes the code MHAS_USAGE. */
mhas_code mhas_as_usage(mhas_error *error);

/* MHAS_USAGE if an array of so many numbers is beyond what any machine can address. */
mhas_code mhas_check_numbers(const char *what, double numbers, mhas_error *error);

#endif
