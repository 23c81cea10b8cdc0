/* Which of the compiled levels runs. */
#include "model/lanes.h"

#include <stddef.h>

lanes_level mhas_lanes_level(void) {
#if MHASWEEP_X86_LANES
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return LANES_AVX512;
  }
  if (__builtin_cpu_supports("avx2")) {
    return LANES_AVX2;
  }
#endif
  return LANES_PLAIN;
}

const lanes_float *mhas_lanes_float(lanes_level level) {
#if MHASWEEP_X86_LANES
  if (level != LANES_PLAIN) {
    return level == LANES_AVX2 ? &mhas_lanes_avx2_float : &mhas_lanes_avx512_float;
  }
#endif
  (void)level;
  return &mhas_lanes_plain_float;
}

const lanes_double *mhas_lanes_double(lanes_level level) {
#if MHASWEEP_X86_LANES
  if (level != LANES_PLAIN) {
    return level == LANES_AVX2 ? &mhas_lanes_avx2_double : &mhas_lanes_avx512_double;
  }
#endif
  (void)level;
  return &mhas_lanes_plain_double;
}

const lanes_float *mhas_lanes_here_float(void) {
  static const lanes_float *here = NULL;
  if (here == NULL) {
    here = mhas_lanes_float(mhas_lanes_level());
  }
  return here;
}

const lanes_double *mhas_lanes_here_double(void) {
  static const lanes_double *here = NULL;
  if (here == NULL) {
    here = mhas_lanes_double(mhas_lanes_level());
  }
  return here;
}
