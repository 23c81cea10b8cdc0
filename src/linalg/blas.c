/*
 * Which BLAS kernels run, and the restart with better ones.
 *
 * OpenBLAS picks its kernels once, when the library is loaded, from a table of CPU models; a CPU that is newer than the
 * table gets kernels of 2004 (Prescott, SSE3), 5 to 9 times slower than it could run. OPENBLAS_CORETYPE overrides the
 * choice, but is read at load time too, so the program sets it and starts itself anew.
 *
 * OpenBLAS's own functions are looked up at run time: with another BLAS under the program they are simply not there.
 */
#include "linalg/blas.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "mhasweep/linalg.h"

/* Only their addresses are wanted here, so their real types (the first and last are Fortran's) do not matter. They also
 * make sure that the libraries are linked and so can be asked. */
void dgemm_(void);
void cblas_dgemm(void);
void pdgemm_(void);

static const char core_variable[] = "OPENBLAS_CORETYPE";

/* ---- the decision ---- */

mhas_simd mhas_blas_core_simd(const char *core) {
  static const struct {
    const char *core;
    mhas_simd simd;
  } known[] = {
      {"Katmai", MHAS_SIMD_SSE},        {"Coppermine", MHAS_SIMD_SSE},
      {"Northwood", MHAS_SIMD_SSE},     {"Prescott", MHAS_SIMD_SSE},
      {"Banias", MHAS_SIMD_SSE},        {"Atom", MHAS_SIMD_SSE},
      {"Core2", MHAS_SIMD_SSE},         {"Penryn", MHAS_SIMD_SSE},
      {"Dunnington", MHAS_SIMD_SSE},    {"Nehalem", MHAS_SIMD_SSE},
      {"Athlon", MHAS_SIMD_SSE},        {"Opteron", MHAS_SIMD_SSE},
      {"Opteron_SSE3", MHAS_SIMD_SSE},  {"Barcelona", MHAS_SIMD_SSE},
      {"Nano", MHAS_SIMD_SSE},          {"Bobcat", MHAS_SIMD_SSE},
      {"Sandybridge", MHAS_SIMD_AVX},   {"Bulldozer", MHAS_SIMD_AVX},
      {"Piledriver", MHAS_SIMD_AVX},    {"Steamroller", MHAS_SIMD_AVX},
      {"Excavator", MHAS_SIMD_AVX2},    {"Haswell", MHAS_SIMD_AVX2},
      {"Zen", MHAS_SIMD_AVX2},          {"SkylakeX", MHAS_SIMD_AVX512},
      {"Cooperlake", MHAS_SIMD_AVX512}, {"Sapphirerapids", MHAS_SIMD_AVX512},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcasecmp(core, known[i].core) == 0) {
      return known[i].simd;
    }
  }
  return MHAS_SIMD_UNKNOWN;
}

const char *mhas_blas_advice(const char *core, mhas_simd cpu) {
  const mhas_simd used = mhas_blas_core_simd(core);
  if (used == MHAS_SIMD_UNKNOWN || used >= cpu) {
    return NULL;
  }
  switch (cpu) {
    case MHAS_SIMD_AVX: return "Sandybridge";
    case MHAS_SIMD_AVX2: return "Haswell";
    case MHAS_SIMD_AVX512: return "SkylakeX";
    default: return NULL;
  }
}

/* ---- the machine ---- */

static mhas_simd cpu_simd(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return MHAS_SIMD_AVX512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return MHAS_SIMD_AVX2;
  }
  return __builtin_cpu_supports("avx") ? MHAS_SIMD_AVX : MHAS_SIMD_SSE;
#else
  return MHAS_SIMD_UNKNOWN;
#endif
}

/* Puts the address of a function of the loaded libraries into *function (a function pointer); false if there is none.
 * ISO C has no cast from an object pointer to a function pointer, hence the copy. */
static bool look_up(const char *name, void *function) {
  void *address = dlsym(RTLD_DEFAULT, name);
  memcpy(function, &address, sizeof address);
  return address != NULL;
}

const char *mhas_blas_core(void) {
  char *(*get_corename)(void) = NULL;
  return look_up("openblas_get_corename", &get_corename) ? get_corename() : "unknown";
}

const char *mhas_blas_core_for_cpu(void) { return mhas_blas_advice(mhas_blas_core(), cpu_simd()); }

/* ISO C has no cast from a function pointer to an object pointer either. */
static const char *library_of(void (*function)(void)) {
  void *address = NULL;
  memcpy(&address, &function, sizeof address);
  Dl_info info;
  return dladdr(address, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "unknown";
}

const char *mhas_blas_path(void) { return library_of(dgemm_); }

const char *mhas_cblas_path(void) { return library_of(cblas_dgemm); }

const char *mhas_scalapack_path(void) { return library_of(pdgemm_); }

/* PBLAS (of the reference ScaLAPACK) keeps a table of what it calls for doubles, some sixty addresses with dgemm_ among
 * them: what its own references were bound to, which need not be what this program's are bound to. */
const char *mhas_scalapack_blas_path(void) {
  enum { ADDRESSES = 55 };
  void *const *(*get_table)(void) = NULL;
  if (!look_up("PB_Cdtypeset", &get_table)) {
    return "unknown";
  }
  void *const *table = get_table();
  for (int i = 0; i < ADDRESSES; i++) {
    Dl_info info;
    if (dladdr(table[i], &info) != 0 && info.dli_sname != NULL && strcmp(info.dli_sname, "dgemm_") == 0) {
      return info.dli_fname;
    }
  }
  return "unknown";
}

const char *mhas_blas_library(void) {
  char *(*get_config)(void) = NULL;
  return look_up("openblas_get_config", &get_config) ? get_config() : mhas_blas_path();
}

int mhas_blas_threads(void) {
  int (*get_num_threads)(void) = NULL;
  return look_up("openblas_get_num_threads", &get_num_threads) ? get_num_threads() : 1;
}

/* ---- the set-up ---- */

static void one_thread_unless_asked(void) {
  void (*set_num_threads)(int) = NULL;
  if (getenv("OPENBLAS_NUM_THREADS") == NULL && getenv("OMP_NUM_THREADS") == NULL &&
      look_up("openblas_set_num_threads", &set_num_threads)) {
    set_num_threads(1);
  }
}

mhas_code mhas_blas_setup(char **argv, bool quiet, mhas_error *error) {
  const char *better = mhas_blas_core_for_cpu();
  /* A variable that is set, to whatever, is the user's wish, or this is the restarted program. */
  if (better == NULL || getenv(core_variable) != NULL) {
    one_thread_unless_asked();
    return MHAS_OK;
  }
  if (!quiet) {
    (void)fprintf(stderr, "mhasweep: OpenBLAS chose %s kernels on a CPU that can run %s; restarted with %s=%s\n",
                  mhas_blas_core(), better, core_variable, better);
  }
  int reason = 0;
  if (setenv(core_variable, better, 1) != 0) {
    reason = errno;
  } else {
    (void)execv("/proc/self/exe", argv);
    reason = errno;
    (void)unsetenv(core_variable);
  }
  one_thread_unless_asked();
  return mhas_fail(error, MHAS_INTERNAL, "cannot restart with %s=%s (%s): set it before starting", core_variable,
                   better, strerror(reason));
}
