/* The trained model in single precision. */
#define REAL_IS_FLOAT 1
#include "model/passes.h"
