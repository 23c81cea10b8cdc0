/* What a run says on stderr. Rank 0 only, unless said otherwise. */
#ifndef MHASWEEP_FARM_RUN_WORDS_H
#define MHASWEEP_FARM_RUN_WORDS_H

#include "mhasweep/farm.h"

/* "mhasweep: " and the message, as one line. */
void mhas_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How many points of an existing file stand at each status. */
typedef struct mhas_tally {
  int64_t pending, running, done, failed;
} mhas_tally;
mhas_code mhas_tally_file(const char *path, mhas_tally *tally, mhas_error *error);

/* Collective: what runs where, and a warning if ranks share cores or a rank has fewer cores than BLAS threads. */
mhas_code mhas_say_banner(MPI_Comm comm, const mhas_sweep *sweep, int64_t rows, int64_t rows_in_file, const char *path,
                          bool quiet, mhas_error *error);

/* The reasons of the first few failed points. */
void mhas_say_failures(const char *path, int64_t most);

#endif
