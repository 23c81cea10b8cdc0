/*
 * The choice of BLAS kernels and the restart.
 *
 * The program under test decides by what OpenBLAS says of itself. Here OpenBLAS's voice is replaced: this file defines
 * openblas_get_corename, which the executable's own symbols let win over the library's, so that "an old table of CPU
 * models" can be played on any machine. The restart is watched from outside: the test executes itself with the word
 * "restart".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "linalg/blas.h"
#include "mhasweep/linalg.h"

#include <cmocka.h>

char *openblas_get_corename(void);

/* Falls back as OpenBLAS does, and obeys OPENBLAS_CORETYPE as it does. */
__attribute__((visibility("default"))) char *openblas_get_corename(void) {
  static char fallback[] = "Prescott";
  char *asked = getenv("OPENBLAS_CORETYPE");
  return asked != NULL ? asked : fallback;
}

/* ---- the decision ---- */

static void advice_is_given_only_to_kernels_below_the_cpu(void **state) {
  (void)state;
  static const struct {
    const char *core;
    mhas_simd cpu;
    const char *advice;
  } cases[] = {
      {"Prescott", MHAS_SIMD_AVX512, "SkylakeX"}, {"Prescott", MHAS_SIMD_AVX2, "Haswell"},
      {"Prescott", MHAS_SIMD_AVX, "Sandybridge"}, {"Prescott", MHAS_SIMD_SSE, NULL},
      {"Nehalem", MHAS_SIMD_AVX2, "Haswell"},     {"Sandybridge", MHAS_SIMD_AVX2, "Haswell"},
      {"Sandybridge", MHAS_SIMD_AVX, NULL},       {"Piledriver", MHAS_SIMD_AVX, NULL},
      {"Haswell", MHAS_SIMD_AVX512, "SkylakeX"},  {"Haswell", MHAS_SIMD_AVX2, NULL},
      {"Zen", MHAS_SIMD_AVX512, "SkylakeX"},      {"Zen", MHAS_SIMD_AVX2, NULL},
      {"Excavator", MHAS_SIMD_AVX2, NULL},        {"SkylakeX", MHAS_SIMD_AVX512, NULL},
      {"Cooperlake", MHAS_SIMD_AVX512, NULL},     {"SapphireRapids", MHAS_SIMD_AVX512, NULL},
      {"SKYLAKEX", MHAS_SIMD_AVX512, NULL},       {"haswell", MHAS_SIMD_AVX512, "SkylakeX"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *advice = mhas_blas_advice(cases[i].core, cases[i].cpu);
    if (cases[i].advice == NULL) {
      assert_null(advice);
    } else {
      assert_non_null(advice);
      assert_string_equal(advice, cases[i].advice);
    }
  }
}

static void kernels_above_the_cpu_are_left_alone(void **state) {
  (void)state;
  assert_null(mhas_blas_advice("SkylakeX", MHAS_SIMD_SSE));
  assert_null(mhas_blas_advice("Haswell", MHAS_SIMD_AVX));
}

static void nothing_is_advised_where_nothing_is_known(void **state) {
  (void)state;
  assert_null(mhas_blas_advice("unknown", MHAS_SIMD_AVX512));
  assert_null(mhas_blas_advice("Quantum9", MHAS_SIMD_AVX512));
  assert_null(mhas_blas_advice("", MHAS_SIMD_AVX512));
  assert_null(mhas_blas_advice("Prescott", MHAS_SIMD_UNKNOWN));
}

static void every_advice_names_kernels_that_need_no_further_advice(void **state) {
  (void)state;
  for (mhas_simd cpu = MHAS_SIMD_AVX; cpu <= MHAS_SIMD_AVX512; cpu++) {
    const char *advice = mhas_blas_advice("Prescott", cpu);
    assert_non_null(advice);
    assert_int_equal(mhas_blas_core_simd(advice), cpu);
    assert_null(mhas_blas_advice(advice, cpu));
  }
}

/* ---- what the library says of itself ---- */

static void the_library_of_dgemm_has_a_path_and_a_description(void **state) {
  (void)state;
  assert_int_equal(access(mhas_blas_path(), R_OK), 0);
  assert_true(strlen(mhas_blas_library()) > 0);
}

static void scalapack_multiplies_with_the_same_blas_as_this_program(void **state) {
  (void)state;
  assert_int_equal(access(mhas_scalapack_path(), R_OK), 0);
  assert_non_null(strstr(mhas_scalapack_path(), "scalapack"));
  assert_string_equal(mhas_scalapack_blas_path(), mhas_blas_path());
  assert_string_equal(mhas_cblas_path(), mhas_blas_path());
}

static void one_thread_unless_the_user_says_otherwise(void **state) {
  (void)state;
  char *argv[] = {"unused", NULL};
  mhas_error error = {0};
  assert_int_equal(setenv("OPENBLAS_CORETYPE", "Haswell", 1), 0);
  assert_int_equal(unsetenv("OMP_NUM_THREADS"), 0);

  assert_int_equal(setenv("OPENBLAS_NUM_THREADS", "2", 1), 0);
  const int before = mhas_blas_threads();
  assert_int_equal(mhas_blas_setup(argv, true, &error), MHAS_OK);
  assert_int_equal(mhas_blas_threads(), before);

  assert_int_equal(unsetenv("OPENBLAS_NUM_THREADS"), 0);
  assert_int_equal(mhas_blas_setup(argv, true, &error), MHAS_OK);
  assert_int_equal(mhas_blas_threads(), 1);
  assert_int_equal(unsetenv("OPENBLAS_CORETYPE"), 0);
}

/* ---- the restart, seen from outside ---- */

static const char *self;

/* The child's side: sets BLAS up as the program does, then tells what it found. */
static int restarted(char **argv) {
  mhas_error error = {0};
  const mhas_code code = mhas_blas_setup(argv, strcmp(argv[2], "quiet") == 0, &error);
  const char *asked = getenv("OPENBLAS_CORETYPE");
  (void)printf("code %d, asked %s, argument %s\n", (int)code, asked == NULL ? "nothing" : asked, argv[3]);
  return 0;
}

/* Runs this program with the word "restart" and the variable as given (NULL: unset); what it says on both streams. */
static void watch(const char *core_type, const char *quiet, char *out, size_t size) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    (void)(core_type == NULL ? unsetenv("OPENBLAS_CORETYPE") : setenv("OPENBLAS_CORETYPE", core_type, 1));
    (void)dup2(ends[1], STDOUT_FILENO);
    (void)dup2(ends[1], STDERR_FILENO);
    (void)close(ends[0]);
    (void)execl(self, self, "restart", quiet, "a word", (char *)NULL);
    _exit(127);
  }
  (void)close(ends[1]);
  size_t used = 0;
  ssize_t got = 0;
  while (used + 1 < size && (got = read(ends[0], out + used, size - 1 - used)) > 0) {
    used += (size_t)got;
  }
  out[used] = '\0';
  (void)close(ends[0]);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void a_fallback_restarts_the_program_once_with_its_arguments(void **state) {
  (void)state;
  assert_int_equal(unsetenv("OPENBLAS_CORETYPE"), 0);
  const char *better = mhas_blas_core_for_cpu();
  if (better == NULL) {
    skip(); /* a CPU that has nothing better to run */
  }
  char expected[512];
  char out[512];
  (void)snprintf(expected, sizeof expected,
                 "mhasweep: OpenBLAS chose Prescott kernels on a CPU that can run %s; restarted with "
                 "OPENBLAS_CORETYPE=%s\ncode 0, asked %s, argument a word\n",
                 better, better, better);
  watch(NULL, "loud", out, sizeof out);
  assert_string_equal(out, expected);

  (void)snprintf(expected, sizeof expected, "code 0, asked %s, argument a word\n", better);
  watch(NULL, "quiet", out, sizeof out);
  assert_string_equal(out, expected);
}

static void the_user_s_own_choice_wins_also_a_bad_one(void **state) {
  (void)state;
  char out[512];
  watch("Prescott", "loud", out, sizeof out);
  assert_string_equal(out, "code 0, asked Prescott, argument a word\n");
  watch("", "loud", out, sizeof out);
  assert_string_equal(out, "code 0, asked , argument a word\n");
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "restart") == 0) {
    return restarted(argv);
  }
  self = argv[0];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(advice_is_given_only_to_kernels_below_the_cpu),
      cmocka_unit_test(kernels_above_the_cpu_are_left_alone),
      cmocka_unit_test(nothing_is_advised_where_nothing_is_known),
      cmocka_unit_test(every_advice_names_kernels_that_need_no_further_advice),
      cmocka_unit_test(the_library_of_dgemm_has_a_path_and_a_description),
      cmocka_unit_test(scalapack_multiplies_with_the_same_blas_as_this_program),
      cmocka_unit_test(one_thread_unless_the_user_says_otherwise),
      cmocka_unit_test(a_fallback_restarts_the_program_once_with_its_arguments),
      cmocka_unit_test(the_user_s_own_choice_wins_also_a_bad_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
