/* The choice of BLAS kernels, apart from asking the machine: for blas.c and its test. */
#ifndef MHASWEEP_LINALG_BLAS_H
#define MHASWEEP_LINALG_BLAS_H

/* What the widest vector instructions are that kernels are written for. */
typedef enum mhas_simd {
  MHAS_SIMD_UNKNOWN = -1,
  MHAS_SIMD_SSE = 0,
  MHAS_SIMD_AVX,
  MHAS_SIMD_AVX2,  /* with FMA */
  MHAS_SIMD_AVX512 /* F, CD, BW, DQ and VL */
} mhas_simd;

/* What OpenBLAS's kernels of that name are written for; MHAS_SIMD_UNKNOWN for a name this program does not know. */
mhas_simd mhas_blas_core_simd(const char *core);

/* The core to ask OpenBLAS for when it runs `core` on a CPU with `cpu`; NULL if it should be left alone. */
const char *mhas_blas_advice(const char *core, mhas_simd cpu);

#endif
