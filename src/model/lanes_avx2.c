/* The loops of lanes.h and columns.h at level "avx2"; CMakeLists.txt has the compiler's options for it. */
#include <math.h>
#include <stddef.h>

#include "model/columns.h"

#define LANES_LEVEL avx2
#define LANES_FLOAT 1
#include "model/lanes_body.h"
#undef LANES_FLOAT
#define LANES_FLOAT 0
/* clang-format off */
#include "model/lanes_body.h"
#include "model/columns_body.h" /* uses what is in the former */
/* clang-format on */
