/* The mean-field MLP in double precision. */
#define REAL_IS_FLOAT 0
#include "model/meanfield_passes.h"
