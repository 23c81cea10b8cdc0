/* The trained model in double precision. */
#define REAL_IS_FLOAT 0
#include "model/passes.h"
