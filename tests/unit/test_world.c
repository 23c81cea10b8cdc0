/* N copies that each think they are alone are refused; a process that is alone is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mhasweep/farm.h"

#include <cmocka.h>

#if defined(MPICH_NAME)
#define OWN_SIZE "PMI_SIZE"
#define OWN_MPIRUN "MPICH's mpirun"
#define SRUN "srun --mpi=pmi2"
#else
#define OWN_SIZE "OMPI_COMM_WORLD_SIZE"
#define OWN_MPIRUN "Open MPI's mpirun"
#define SRUN "srun --mpi=pmix"
#endif

static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",      "PMIX_SIZE",
                                        "MPI_LOCALNRANKS",      "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS",
                                        "SLURM_NTASKS",         "SLURM_JOB_ID"};

static int clear_environment(void **unused) {
  (void)unused;
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    (void)unsetenv(variables[i]);
  }
  return 0;
}

static void set(const char *name, const char *value) { assert_int_equal(setenv(name, value, 1), 0); }

static void check_refused(const char *copies, const char *remedy) {
  mhas_error error;
  assert_int_equal(mhas_world_check(1, &error), MHAS_MPI);
  assert_non_null(strstr(error.text, copies));
  assert_non_null(strstr(error.text, "alone"));
  assert_non_null(strstr(error.text, remedy));
  assert_true(strlen(error.text) < sizeof error.text - 1); /* not cut short */
}

static void check_accepted(int world_size) {
  mhas_error error;
  assert_int_equal(mhas_world_check(world_size, &error), MHAS_OK);
}

static void a_plain_process_is_fine(void **unused) {
  (void)unused;
  check_accepted(1);
}

static void a_plain_process_inside_an_allocation_is_fine(void **unused) {
  (void)unused;
  set("SLURM_JOB_ID", "17");
  set("SLURM_NTASKS", "64");
  check_accepted(1);
}

static void another_mpis_launcher_is_found_out(void **unused) {
  (void)unused;
  static const char *const launchers[] = {"PMI_SIZE", "PMIX_SIZE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_SIZE"};
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    (void)clear_environment(NULL);
    set(launchers[i], "12");
    check_refused("12 copies", "mpirun");
    check_accepted(12);
    set(launchers[i], "1");
    check_accepted(1);
  }
}

static void srun_that_speaks_otherwise_is_found_out(void **unused) {
  (void)unused;
  set("SLURM_STEP_ID", "0");
  set("SLURM_NTASKS", "8");
  check_refused("8 copies", SRUN);
  set("SLURM_STEP_NUM_TASKS", "4");
  check_refused("4 copies", SRUN);
  set("PMIX_SIZE", "4"); /* SLURM's plugins set such variables, too */
  check_refused("4 copies", SRUN);
  check_accepted(4);
}

static void a_step_of_one_task_is_fine_in_a_large_job(void **unused) {
  (void)unused;
  set("SLURM_STEP_ID", "4294967290"); /* an interactive step */
  set("SLURM_NTASKS", "8");
  set("SLURM_STEP_NUM_TASKS", "1");
  check_accepted(1);
}

static void under_mpirun_inside_a_step_mpirun_decides(void **unused) {
  (void)unused;
  set("SLURM_STEP_ID", "3");
  set("SLURM_STEP_NUM_TASKS", "2");
  set(OWN_SIZE, "1");
  check_accepted(1);
  set(OWN_SIZE, "6");
  check_accepted(6);
  check_refused("6 copies", OWN_MPIRUN);
}

static void values_that_are_no_counts_are_not_there(void **unused) {
  (void)unused;
  static const char *const values[] = {"", "many", "4x", "-3", "0"};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    set("PMI_SIZE", values[i]);
    check_accepted(1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_plain_process_is_fine, clear_environment),
      cmocka_unit_test_setup(a_plain_process_inside_an_allocation_is_fine, clear_environment),
      cmocka_unit_test_setup(another_mpis_launcher_is_found_out, clear_environment),
      cmocka_unit_test_setup(srun_that_speaks_otherwise_is_found_out, clear_environment),
      cmocka_unit_test_setup(a_step_of_one_task_is_fine_in_a_large_job, clear_environment),
      cmocka_unit_test_setup(under_mpirun_inside_a_step_mpirun_decides, clear_environment),
      cmocka_unit_test_setup(values_that_are_no_counts_are_not_there, clear_environment),
  };
  return cmocka_run_group_tests_name("world", tests, NULL, NULL);
}
