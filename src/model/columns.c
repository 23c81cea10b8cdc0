/* Which of the compiled levels runs. */
#include "model/columns.h"

const columns_double *mhas_columns_double(lanes_level level) {
#if MHASWEEP_X86_LANES
  if (level != LANES_PLAIN) {
    return level == LANES_AVX2 ? &mhas_columns_avx2_double : &mhas_columns_avx512_double;
  }
#endif
  (void)level;
  return &mhas_columns_plain_double;
}
