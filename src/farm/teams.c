#include "farm/teams.h"

#include "farm/talk.h"

/* ---- before any team ---- */

mhas_code mhas_teams_prepare(MPI_Comm farm, mhas_teams *teams, mhas_error *error) {
  static const char doing[] = "prepare teams";
  *teams = (mhas_teams){.farm = farm, .everyone = MPI_GROUP_NULL};
  MHAS_TRY(mhas_mpi_check(MPI_Comm_rank(farm, &teams->rank), doing, error));
  MHAS_TRY(mhas_mpi_check(MPI_Comm_size(farm, &teams->size), doing, error));
  MHAS_TRY(mhas_mpi_check(MPI_Comm_group(farm, &teams->everyone), doing, error));
  MHAS_TRY(mhas_alloc(&teams->sizes, (size_t)teams->size, sizeof *teams->sizes, "the sizes of teams", error));
  MHAS_TRY(mhas_alloc(&teams->blocks, (size_t)teams->size, sizeof(MPI_Comm), "the teams", error));
  for (int kind = 0; kind < teams->size; kind++) {
    teams->blocks[kind] = MPI_COMM_NULL;
  }
  return MHAS_OK;
}

void mhas_teams_want(mhas_teams *teams, const int32_t *ranks, int64_t count) {
  for (int64_t i = 0; ranks != NULL && i < count; i++) {
    if (ranks[i] > 1 && ranks[i] < teams->size) {
      teams->sizes[ranks[i]] = 1;
    }
  }
  for (int size = 2; size < teams->size; size++) {
    if (teams->sizes[size] != 0) {
      teams->sizes[teams->kinds++] = size; /* behind where the loop looks */
    }
  }
}

/* Workers k r .. k r + r - 1 for each size r, as the scheduler names them with static_teams. */
static mhas_code split(mhas_teams *teams, int kind, mhas_error *error) {
  static const char doing[] = "split off teams";
  const int size = teams->sizes[kind];
  const int block = teams->rank == 0 ? 0 : (teams->rank - 1) / size;
  const bool inside = teams->rank > 0 && (block + 1) * size < teams->size;
  MPI_Comm *made = &teams->blocks[kind];
  MHAS_TRY(
      mhas_mpi_check(MPI_Comm_split(teams->farm, inside ? block : MPI_UNDEFINED, teams->rank, made), doing, error));
  return inside ? mhas_mpi_check(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), doing, error) : MHAS_OK;
}

mhas_code mhas_teams_split(mhas_teams *teams, mhas_error *error) {
  int kinds = teams->kinds;
  MHAS_TRY(mhas_share(teams->farm, &kinds, (int)sizeof kinds, error));
  if (kinds > 0) {
    MHAS_TRY(mhas_share(teams->farm, teams->sizes, teams->size * (int)sizeof *teams->sizes, error));
  }
  for (teams->kinds = 0; teams->kinds < kinds; teams->kinds++) {
    MHAS_TRY(split(teams, teams->kinds, error));
  }
  return MHAS_OK;
}

mhas_code mhas_teams_free(mhas_teams *teams, mhas_error *error) {
  mhas_code code = MHAS_OK;
  for (int kind = 0; teams->blocks != NULL && kind < teams->kinds; kind++) {
    if (code == MHAS_OK && teams->blocks[kind] != MPI_COMM_NULL) {
      code = mhas_mpi_check(MPI_Comm_free(&teams->blocks[kind]), "free a team", error);
    }
  }
  if (code == MHAS_OK && teams->everyone != MPI_GROUP_NULL) {
    code = mhas_mpi_check(MPI_Group_free(&teams->everyone), "free a team", error);
  }
  mhas_free(teams->sizes);
  mhas_free(teams->blocks);
  *teams = (mhas_teams){.everyone = MPI_GROUP_NULL};
  return code;
}

/* ---- one team ---- */

static mhas_code find_block(const mhas_teams *teams, int ranks, MPI_Comm *comm, mhas_error *error) {
  for (int kind = 0; kind < teams->kinds; kind++) {
    if (teams->sizes[kind] == ranks && teams->blocks[kind] != MPI_COMM_NULL) {
      *comm = teams->blocks[kind];
      return MHAS_OK;
    }
  }
  return mhas_fail(error, MHAS_INTERNAL, "there is no static team of %d ranks here", ranks);
}

static mhas_code make_group(const mhas_teams *teams, const mhas_letter *letter, MPI_Group *group, mhas_error *error) {
  int *members = NULL;
  MHAS_TRY(mhas_alloc(&members, (size_t)letter->ranks, sizeof *members, "the members of a team", error));
  for (int64_t i = 0; i < letter->ranks; i++) {
    members[i] = (int)letter->members[i];
  }
  const int result = MPI_Group_incl(teams->everyone, (int)letter->ranks, members, group);
  mhas_free(members);
  return mhas_mpi_check(result, "form a team", error);
}

static mhas_code make_comm(const mhas_teams *teams, const mhas_letter *letter, MPI_Comm *comm, mhas_error *error) {
  MPI_Group group = MPI_GROUP_NULL;
  MHAS_TRY(make_group(teams, letter, &group, error));
  const int result = MPI_Comm_create_group(teams->farm, group, (int)letter->tag, comm);
  const int freed = MPI_Group_free(&group);
  MHAS_TRY(mhas_mpi_check(result == MPI_SUCCESS ? freed : result, "form a team", error));
  return mhas_mpi_check(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "form a team", error);
}

mhas_code mhas_team_form(const mhas_teams *teams, const mhas_letter *letter, mhas_team *team, mhas_error *error) {
  *team = (mhas_team){.comm = MPI_COMM_NULL};
  if (teams->kinds > 0) {
    MHAS_TRY(find_block(teams, (int)letter->ranks, &team->comm, error));
  } else {
    MHAS_TRY(make_comm(teams, letter, &team->comm, error));
  }
  MHAS_TRY(mhas_mpi_check(MPI_Comm_rank(team->comm, &team->rank), "form a team", error));
  return mhas_mpi_check(MPI_Comm_size(team->comm, &team->size), "form a team", error);
}

mhas_code mhas_team_part(const mhas_teams *teams, mhas_team *team, mhas_error *error) {
  if (teams->kinds > 0) {
    return MHAS_OK; /* for the next row that needs so many */
  }
  return mhas_mpi_check(MPI_Comm_free(&team->comm), "free a team", error);
}
