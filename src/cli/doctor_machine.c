/* The doctor's look at the machines: BLAS, CPUs, memory. Each rank collects facts, rank 0 judges all of them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "mhasweep/linalg.h"

/* ---- facts of one rank ---- */

/* What the kernel says could be used without swapping; NaN if it does not say. */
static double memory_of_machine(void) {
  FILE *file = fopen("/proc/meminfo", "r");
  if (file == NULL) {
    return NAN;
  }
  double kib = NAN;
  char line[128];
  while (isnan(kib) && fgets(line, sizeof line, file) != NULL) {
    (void)sscanf(line, "MemAvailable: %lf", &kib); /* leaves kib alone on any other line */
  }
  (void)fclose(file);
  return kib * 1024.0;
}

static double number_in_file(const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) {
    return NAN;
  }
  double number = NAN;
  if (fscanf(file, "%lf", &number) != 1) { /* "max" for no limit */
    number = NAN;
  }
  (void)fclose(file);
  return number;
}

/* A container or a batch job may have less than the machine (cgroup 2, seen from inside). */
static double memory_available(void) {
  const double left = number_in_file("/sys/fs/cgroup/memory.max") - number_in_file("/sys/fs/cgroup/memory.current");
  return fmin(memory_of_machine(), left); /* fmin passes over a NaN */
}

mhas_code doctor_collect(doctor_facts *facts, mhas_error *error) {
  memset(facts, 0, sizeof *facts);
  if (gethostname(facts->host, sizeof facts->host - 1) != 0) {
    (void)snprintf(facts->host, sizeof facts->host, "unknown");
  }
  const char *better = mhas_blas_core_for_cpu();
  (void)snprintf(facts->core, sizeof facts->core, "%s", mhas_blas_core());
  (void)snprintf(facts->better, sizeof facts->better, "%s", better == NULL ? "" : better);
  facts->cpus_online = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (sched_getaffinity(0, sizeof facts->cpus, &facts->cpus) != 0) { /* more CPUs than the set has room for */
    for (int i = 0; i < facts->cpus_online && i < CPU_SETSIZE; i++) {
      CPU_SET(i, &facts->cpus);
    }
  }
  facts->blas_threads = mhas_blas_threads();
  facts->memory = memory_available();
  MHAS_TRY(cli_dgemm_error(&facts->dgemm_error, error));
  return cli_gemm_rate(false, 0.05, &facts->dgemm_rate, error);
}

/* ---- judgements on rank 0 ---- */

static bool first_of_host(const doctor_facts *facts, int rank) {
  for (int other = 0; other < rank; other++) {
    if (strcmp(facts[other].host, facts[rank].host) == 0) {
      return false;
    }
  }
  return true;
}

int doctor_hosts(const doctor *self, const doctor_facts *facts) {
  int hosts = 0;
  for (int rank = 0; rank < self->ranks; rank++) {
    hosts += first_of_host(facts, rank);
  }
  return hosts;
}

void doctor_judge_blas(doctor *self, const doctor_facts *facts) {
  const char *asked = getenv("OPENBLAS_CORETYPE");
  int slow = -1;
  int different = -1;
  for (int rank = 0; rank < self->ranks; rank++) {
    slow = slow < 0 && facts[rank].better[0] != '\0' ? rank : slow;
    different = different < 0 && strcmp(facts[rank].core, facts[0].core) != 0 ? rank : different;
  }
  const char *path = mhas_blas_path();
  if (strcmp(mhas_cblas_path(), path) != 0) {
    doctor_say(
        self, DOCTOR_FAIL, "BLAS",
        "cblas_dgemm comes from %s, dgemm from %s: results and speed are those of two libraries; link the second "
        "before the first",
        mhas_cblas_path(), path);
  }
  if (slow >= 0) {
    doctor_say(
        self, DOCTOR_WARN, "BLAS", "%s runs %s kernels, its CPU can run %s, which are several times faster: %s %s",
        facts[slow].host, facts[slow].core, facts[slow].better,
        asked != NULL ? "unset OPENBLAS_CORETYPE, or set it to" : "set OPENBLAS_CORETYPE to", facts[slow].better);
  } else if (different >= 0) {
    doctor_say(self, DOCTOR_WARN, "BLAS",
               "%s runs %s kernels, %s runs %s: the last digits of a point depend on where it runs; set "
               "OPENBLAS_CORETYPE to one that all machines have",
               facts[0].host, facts[0].core, facts[different].host, facts[different].core);
  } else if (strcmp(facts[0].core, "unknown") == 0) {
    doctor_say(self, DOCTOR_WARN, "BLAS", "%s is not OpenBLAS, so which kernels run is not known; see its speed below",
               path);
    return;
  } else {
    doctor_say(self, DOCTOR_OK, "BLAS", "%s kernels, right for this CPU (OPENBLAS_CORETYPE is %s)", facts[0].core,
               asked == NULL ? "not set" : asked);
  }
  doctor_say(self, DOCTOR_OK, "library", "dgemm comes from %s: %s", path, mhas_blas_library());
}

/* A second BLAS would be loaded beside ours, with kernels that nobody chose. */
void doctor_judge_scalapack(doctor *self) {
  const char *scalapack = mhas_scalapack_path();
  const char *blas = mhas_scalapack_blas_path();
  if (strcmp(blas, mhas_blas_path()) == 0) {
    doctor_say(self, DOCTOR_OK, "team", "pdgemm comes from %s, and takes dgemm from the same library as above",
               scalapack);
  } else if (strcmp(blas, "unknown") == 0) {
    doctor_say(self, DOCTOR_WARN, "team", "pdgemm comes from %s, which does not tell where it takes dgemm from",
               scalapack);
  } else {
    doctor_say(self, DOCTOR_WARN, "team",
               "pdgemm comes from %s, which takes dgemm from %s, not from the library above: teams may be slow, and "
               "their last digits differ; link OpenBLAS before ScaLAPACK",
               scalapack, blas);
  }
}

void doctor_judge_dgemm(doctor *self, const doctor_facts *facts) {
  double slowest = INFINITY;
  double fastest = 0.0;
  for (int rank = 0; rank < self->ranks; rank++) {
    if (!(facts[rank].dgemm_error < 4.0)) {
      doctor_say(self, DOCTOR_FAIL, "dgemm", "wrong results on %s (rank %d): use another BLAS library or kernels",
                 facts[rank].host, rank);
      return;
    }
    slowest = fmin(slowest, facts[rank].dgemm_rate);
    fastest = fmax(fastest, facts[rank].dgemm_rate);
  }
  if (slowest < 0.5 * fastest) {
    doctor_say(self, DOCTOR_WARN, "dgemm",
               "right, but between %.1f and %.1f GF/s a rank: some ranks share a core or run on slower machines",
               slowest * 1e-9, fastest * 1e-9);
  } else {
    doctor_say(self, DOCTOR_OK, "dgemm", "right, %.1f GF/s a rank", slowest * 1e-9);
  }
}

/* The ranks of one machine, taken together. */
typedef struct crew {
  int ranks;
  int threads; /* of the ranks that work: the master of several ranks sleeps */
  cpu_set_t cpus;
} crew;

static crew crew_of(const doctor *self, const doctor_facts *facts, int first) {
  crew all = {0};
  for (int rank = first; rank < self->ranks; rank++) {
    if (strcmp(facts[rank].host, facts[first].host) == 0) {
      all.ranks++;
      all.threads += rank == 0 && self->ranks > 1 ? 0 : facts[rank].blas_threads;
      CPU_OR(&all.cpus, &all.cpus, &facts[rank].cpus);
    }
  }
  return all;
}

void doctor_judge_cpus(doctor *self, const doctor_facts *facts) {
  for (int first = 0; first < self->ranks; first++) {
    if (!first_of_host(facts, first)) {
      continue;
    }
    const crew all = crew_of(self, facts, first);
    const int usable = CPU_COUNT(&all.cpus);
    const char *host = facts[first].host;
    if (all.threads > usable && usable < facts[first].cpus_online) {
      doctor_say(self, DOCTOR_WARN, "CPUs",
                 "%s: %d busy thread(s) are bound to %d of %d CPUs: start with mpirun --bind-to none, or ask the batch "
                 "system for more CPUs",
                 host, all.threads, usable, facts[first].cpus_online);
      return;
    }
    if (all.threads > usable) {
      doctor_say(self, DOCTOR_WARN, "CPUs",
                 "%s: %d busy threads (ranks x BLAS threads) on %d CPUs: start at most %d ranks there, and leave "
                 "OPENBLAS_NUM_THREADS and OMP_NUM_THREADS unset or 1",
                 host, all.threads, usable, usable + 1);
      return;
    }
  }
  const crew here = crew_of(self, facts, 0);
  const int usable = CPU_COUNT(&here.cpus);
  char hint[96] = "";
  if (self->ranks == 1 && usable > 1) {
    (void)snprintf(hint, sizeof hint, "; mpirun -n %d would use all of them", usable + 1);
  }
  doctor_say(self, DOCTOR_OK, "CPUs", "%d rank%s with %d BLAS thread%s each on %d usable CPU%s of %d%s", here.ranks,
             here.ranks == 1 ? "" : "s", facts[0].blas_threads, facts[0].blas_threads == 1 ? "" : "s", usable,
             usable == 1 ? "" : "s", facts[0].cpus_online, hint);
}

void doctor_judge_memory(doctor *self, const doctor_facts *facts) {
  double least = INFINITY;
  int where = -1;
  for (int first = 0; first < self->ranks; first++) {
    if (first_of_host(facts, first) && !isnan(facts[first].memory)) {
      const double share = facts[first].memory / crew_of(self, facts, first).ranks;
      where = share < least ? first : where;
      least = fmin(share, least);
    }
  }
  if (where < 0) {
    doctor_say(self, DOCTOR_WARN, "memory", "the system does not tell how much is free");
    return;
  }
  char human[MHAS_HUMAN_LENGTH];
  (void)mhas_human_bytes(least, human);
  if (least < 256.0 * 1024.0 * 1024.0) {
    doctor_say(self, DOCTOR_WARN, "memory", "%s: only %s a rank: start fewer ranks there", facts[where].host, human);
  } else {
    doctor_say(self, DOCTOR_OK, "memory", "%s a rank are free", human);
  }
}
