/* The mean-field MLP in single precision. */
#define REAL_IS_FLOAT 1
#include "model/meanfield_passes.h"
