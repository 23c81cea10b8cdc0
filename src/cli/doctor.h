/* The parts of `mhasweep doctor`: what is looked at, and the lines in which it is told. */
#ifndef MHASWEEP_CLI_DOCTOR_H
#define MHASWEEP_CLI_DOCTOR_H

#include <mpi.h>
#include <sched.h>

#include "cli/cli.h"

typedef enum doctor_verdict { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL } doctor_verdict;

/* The state of the examination, on every rank. */
typedef struct doctor {
  MPI_Comm comm;
  int rank, ranks;
  bool silent; /* rank 0 speaks for all */
  bool failed; /* a check failed; what rank 0 has here counts */
} doctor;

/* One line: verdict, what was looked at, what was found and, if it is not right, what to do. */
void doctor_say(doctor *self, doctor_verdict verdict, const char *subject, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* What one rank knows of its machine. Gathered as plain bytes: all ranks run the same program. */
typedef struct doctor_facts {
  char host[64];
  char core[32];   /* BLAS kernels in use */
  char better[32]; /* that the CPU could run; "" if those in use are right */
  cpu_set_t cpus;  /* that this rank may use */
  int cpus_online; /* that the machine has */
  int blas_threads;
  double dgemm_rate;  /* operations per second */
  double dgemm_error; /* in units of rounding */
  double memory;      /* bytes that are free to use on this machine */
} doctor_facts;

mhas_code doctor_collect(doctor_facts *facts, mhas_error *error);

/* Judgements over the facts of all ranks; on rank 0. */
void doctor_judge_blas(doctor *self, const doctor_facts *facts);
void doctor_judge_dgemm(doctor *self, const doctor_facts *facts);
void doctor_judge_cpus(doctor *self, const doctor_facts *facts);
void doctor_judge_memory(doctor *self, const doctor_facts *facts);
void doctor_judge_scalapack(doctor *self);
int doctor_hosts(const doctor *self, const doctor_facts *facts); /* how many machines there are */

/* Looks at the current folder as a place for results. Collective. */
void doctor_check_folder(doctor *self, int hosts);

#endif
