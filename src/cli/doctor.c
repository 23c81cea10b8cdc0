/* mhasweep doctor: what this machine and build can do, and what is wrong with it; one line a check. */
#include "cli/doctor.h"

#include <hdf5.h>
#include <string.h>
#include <time.h>

#include "mhasweep/farm.h"
#include "mhasweep/linalg.h"

void doctor_say(doctor *self, doctor_verdict verdict, const char *subject, const char *format, ...) {
  static const char *const names[] = {"ok", "warn", "FAIL"};
  static const char *const colours[] = {"\033[32m", "\033[33m", "\033[31m"};
  self->failed |= verdict == DOCTOR_FAIL;
  if (self->silent) {
    return;
  }
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const bool colour = cli_colour();
  (void)printf("%s%-4s%s  %-8s  ", colour ? colours[verdict] : "", names[verdict], colour ? "\033[0m" : "", subject);
  cli_print_hanging(text, 16, cli_width());
}

static void check_build(doctor *self) {
  char build[128];
  (void)snprintf(build, sizeof build, "mhasweep %s (git %s)", mhas_version(), mhas_git_commit());
#if !defined(__OPTIMIZE__)
  doctor_say(self, DOCTOR_WARN, "build", "%s, without optimisation: configure with cmake --preset release", build);
#elif defined(__SANITIZE_ADDRESS__)
  doctor_say(self, DOCTOR_WARN, "build", "%s, with sanitizers, so slow: configure with cmake --preset release", build);
#else
  doctor_say(self, DOCTOR_OK, "build", "%s, compiler %s", build, __VERSION__);
#endif
}

static void check_mpi(doctor *self, int hosts) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (MPI_Get_library_version(library, &length) != MPI_SUCCESS) {
    doctor_say(self, DOCTOR_FAIL, "MPI", "the library does not tell its version");
    return;
  }
  library[strcspn(library, ",\n")] = '\0'; /* "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\n..." */
  for (char *tab = strchr(library, '\t'); tab != NULL; tab = strchr(tab, '\t')) {
    *tab = ' ';
  }
  mhas_error error = {0};
  if (mhas_world_check(self->ranks, &error) != MHAS_OK) {
    doctor_say(self, DOCTOR_FAIL, "MPI", "%s: %s", library, error.text);
    return;
  }
  doctor_say(self, DOCTOR_OK, "MPI", "%s, a world of %d rank%s on %d machine%s", library, self->ranks,
             self->ranks == 1 ? "" : "s", hosts, hosts == 1 ? "" : "s");
}

static void check_hdf5(doctor *self) {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) {
    doctor_say(self, DOCTOR_FAIL, "HDF5", "the library does not tell its version");
  } else if (major != H5_VERS_MAJOR || minor != H5_VERS_MINOR || release != H5_VERS_RELEASE) {
    doctor_say(self, DOCTOR_FAIL, "HDF5",
               "built for %d.%d.%d, but runs with %u.%u.%u: rebuild, or mend LD_LIBRARY_PATH", H5_VERS_MAJOR,
               H5_VERS_MINOR, H5_VERS_RELEASE, major, minor, release);
  } else {
    doctor_say(self, DOCTOR_OK, "HDF5", "%u.%u.%u with the MPI-IO driver", major, minor, release);
  }
}

/* Every point is timed, and a training asks for the time at every step: a slow clock would show. */
static void check_timer(doctor *self) {
  enum { calls = 2000 };
  const double start = mhas_now();
  double last = start;
  for (int i = 0; i < calls; i++) {
    last = mhas_now();
  }
  const double each = (last - start) / calls;
  struct timespec resolution = {0};
  (void)clock_getres(CLOCK_MONOTONIC, &resolution); /* cannot fail for this clock */
  const bool slow = each > 2e-6;
  doctor_say(self, slow ? DOCTOR_WARN : DOCTOR_OK, "timer", "resolution %ld ns, a look costs %.0f ns%s",
             resolution.tv_nsec, each * 1e9,
             slow ? ": slow; see /sys/devices/system/clocksource/clocksource0/current_clocksource, tsc is fast" : "");
}

/* All checks, in the order of what depends on what. Collective. */
static mhas_code examine(doctor *self, mhas_error *error) {
  doctor_facts mine;
  MHAS_TRY(doctor_collect(&mine, error));
  doctor_facts *facts = NULL;
  MHAS_TRY(mhas_alloc(&facts, (size_t)self->ranks, sizeof *facts, "the facts of all ranks", error));
  if (MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, facts, (int)sizeof mine, MPI_BYTE, 0, self->comm) != MPI_SUCCESS) {
    mhas_free(facts);
    return mhas_fail(error, MHAS_MPI, "the ranks cannot talk to each other");
  }
  int hosts = 1;
  check_build(self);
  if (self->rank == 0) {
    hosts = doctor_hosts(self, facts);
    doctor_judge_blas(self, facts);
    doctor_judge_scalapack(self);
    doctor_judge_dgemm(self, facts);
    doctor_judge_cpus(self, facts);
    doctor_judge_memory(self, facts);
  }
  mhas_free(facts);
  check_timer(self);
  check_mpi(self, hosts);
  check_hdf5(self);
  doctor_check_folder(self, hosts);
  return MHAS_OK;
}

static mhas_code run(const cli_words *words, int *status, mhas_error *error) {
  const bool silent = cli_launcher_rank() != 0; /* MPI_Init may change what the launcher said */
  if (mhas_blas_setup(words->argv, silent, error) != MHAS_OK && !silent) {
    (void)fprintf(stderr, "mhasweep: warning: slow BLAS kernels: %s\n", error->text);
  }
  if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "MPI_Init failed");
  }
  doctor self = {.comm = MPI_COMM_WORLD};
  (void)MPI_Comm_rank(self.comm, &self.rank);
  (void)MPI_Comm_size(self.comm, &self.ranks);
  /* Copies that each think they are alone are all of rank 0. */
  self.silent = self.rank != 0 || (self.ranks == 1 && silent);
  mhas_code code = examine(&self, error);
  int failed = self.failed;
  if (code == MHAS_OK && MPI_Bcast(&failed, 1, MPI_INT, 0, self.comm) != MPI_SUCCESS) {
    code = mhas_fail(error, MHAS_MPI, "the ranks cannot talk to each other");
  }
  *status = failed ? CLI_BROKE : CLI_DONE;
  if (MPI_Finalize() != MPI_SUCCESS && code == MHAS_OK) {
    code = mhas_fail(error, MHAS_MPI, "MPI_Finalize failed");
  }
  return code;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .summary = "what this machine and build can do, and what is wrong with it",
    .description =
        "One line a check: ok, warn (it works, but not well) or FAIL, and what to do. Looks at the build, the BLAS "
        "kernels and whether they multiply right, CPUs and binding, memory, the clock, MPI, HDF5, and at the current "
        "folder as a place for results: it writes a small file there, as a sweep would, and removes it. Under mpirun "
        "or srun it looks at all ranks.",
    .examples =
        "  mhasweep doctor\n"
        "  mpirun -n 4 mhasweep doctor\n",
    .statuses =
        "  0  nothing failed\n"
        "  1  something failed\n"
        "  2  the command line is wrong\n",
    .under_mpi = true,
    .run = run,
};
