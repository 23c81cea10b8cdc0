/* Teams: how many ranks a point needs, and how they come to one mind. */
#include <limits.h>
#include <string.h>

#include "mhasweep/experiments.h"

double mhas_experiment_bytes(const mhas_experiment *experiment, const mhas_value *values, int ranks) {
  if (ranks > 1 && experiment->team_bytes != NULL) {
    return experiment->team_bytes(values, ranks);
  }
  return mhas_experiment_cost(experiment, values).bytes / ranks;
}

int mhas_experiment_ranks(const mhas_experiment *experiment, const mhas_value *values, double most, double *bytes) {
  const int ranks_most = experiment->max_ranks > 1 ? experiment->max_ranks : 1;
  int ranks = 1;
  double needed = mhas_experiment_bytes(experiment, values, 1);
  while (needed > most && ranks < ranks_most) {
    ranks++;
    needed = mhas_experiment_bytes(experiment, values, ranks);
  }
  if (bytes != NULL) {
    *bytes = needed;
  }
  return needed > most ? 0 : ranks;
}

static mhas_code check(int result, mhas_error *error) {
  if (result == MPI_SUCCESS) {
    return MHAS_OK;
  }
  return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other (MPI error %d)", result);
}

mhas_code mhas_team_share(const mhas_team *team, void *data, size_t bytes, mhas_error *error) {
  const size_t most = 1 << 30; /* what an int can count */
  for (size_t at = 0; team->size > 1 && at < bytes; at += most) {
    const size_t some = bytes - at < most ? bytes - at : most;
    MHAS_TRY(check(MPI_Bcast((char *)data + at, (int)some, MPI_BYTE, 0, team->comm), error));
  }
  return MHAS_OK;
}

mhas_code mhas_team_agree(const mhas_team *team, mhas_code code, mhas_error *error) {
  if (team->size <= 1) {
    return code;
  }
  const int mine = code == MHAS_OK ? INT_MAX : team->rank;
  int first = INT_MAX;
  MHAS_TRY(check(MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, team->comm), error));
  if (first == INT_MAX) {
    return MHAS_OK;
  }
  mhas_error words = {.code = code, .text = ""};
  if (first == team->rank && error != NULL) {
    memcpy(words.text, error->text, sizeof words.text);
  }
  MHAS_TRY(check(MPI_Bcast(&words, (int)sizeof words, MPI_BYTE, first, team->comm), error));
  if (error != NULL) {
    *error = words;
  }
  return words.code;
}
