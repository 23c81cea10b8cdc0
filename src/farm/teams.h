/*
 * Communicators of teams: made when a team is named and freed when its row is done, or (static) split once at the
 * start, for a world in which MPI_Comm_create_group cannot be trusted. Private to the farm.
 */
#ifndef MHASWEEP_FARM_TEAMS_H
#define MHASWEEP_FARM_TEAMS_H

#include "mhasweep/experiments.h"

typedef struct mhas_teams {
  MPI_Comm farm; /* borrowed; its rank 0 is the master, in no team */
  int rank, size;
  MPI_Group everyone;
  /* Static teams: */
  int kinds;
  int *sizes;       /* [kinds], ascending */
  MPI_Comm *blocks; /* [kinds]: this rank's team of each size; MPI_COMM_NULL if it is in none */
} mhas_teams;

/* To be freed also after a failure; not collective. */
mhas_code mhas_teams_prepare(MPI_Comm farm, mhas_teams *teams, mhas_error *error);
/* Static teams, of all sizes that these rows want and the world has. Rank 0's, before the split. */
void mhas_teams_want(mhas_teams *teams, const int32_t *ranks, int64_t count);
/* Collective over the farm, as is the freeing. */
mhas_code mhas_teams_split(mhas_teams *teams, mhas_error *error);
mhas_code mhas_teams_free(mhas_teams *teams, mhas_error *error);

/* What the master writes to each member of a team. Two members of two teams hear of them in the same order, and each
 * takes one letter after the other, so no two teams can wait for each other. */
typedef struct mhas_letter {
  int64_t row;
  int64_t tag;       /* tells this team's making from others under way */
  int64_t ranks;     /* how many members */
  int64_t members[]; /* farm ranks, ascending */
} mhas_letter;
enum { MHAS_LETTER_HEAD = 3 }; /* int64s before the members */

/* Collective over the members. In a static team they are workers that were split off together. */
mhas_code mhas_team_form(const mhas_teams *teams, const mhas_letter *letter, mhas_team *team, mhas_error *error);
mhas_code mhas_team_part(const mhas_teams *teams, mhas_team *team, mhas_error *error);

#endif
