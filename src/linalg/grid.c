/* Grids: a BLACS context on a communicator, and agreement of its ranks on what went wrong. */
#include "linalg/grid.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>

#include "linalg/scalapack.h"

void mhas_grid_shape(int ranks, int *rows, int *columns) {
  *rows = 1;
  for (int r = 2; r * r <= ranks; r++) {
    *rows = ranks % r == 0 ? r : *rows;
  }
  *columns = ranks / *rows;
}

/* The handle of the communicator is given back at once: BLACS renumbers handles as others are freed, so none may be
 * kept. The map wants ranks of that communicator, column-major. */
static void enter(mhas_grid *grid, int *map) {
  for (int row = 0; row < grid->rows; row++) {
    for (int column = 0; column < grid->columns; column++) {
      map[row + column * grid->rows] = row * grid->columns + column;
    }
  }
  const int handle = Csys2blacs_handle(grid->comm);
  grid->context = handle;
  Cblacs_gridmap(&grid->context, map, grid->rows, grid->rows, grid->columns);
  Cfree_blacs_system_handle(handle);
  int yes = 1;
  Cblacs_set(grid->context, BLACS_REPEATABLE_SUMS, &yes);
  Cblacs_set(grid->context, BLACS_COHERENT_SUMS, &yes);
}

mhas_code mhas_grid_create(MPI_Comm comm, int block, mhas_grid **grid, mhas_error *error) {
  *grid = NULL;
  int size = 0;
  int rank = 0;
  if (MPI_Comm_size(comm, &size) != MPI_SUCCESS || MPI_Comm_rank(comm, &rank) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the communicator of a team does not answer");
  }
  mhas_grid *made = NULL;
  int *map = NULL;
  mhas_grid outside = {.comm = comm}; /* for agreement while a rank may have no grid */
  mhas_code code = mhas_alloc(&made, 1, sizeof *made, "a grid of ranks", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&map, (size_t)size, sizeof *map, "the map of a grid of ranks", error);
  }
  code = mhas_grid_agree(&outside, code, error);
  if (code == MHAS_OK) {
    *made = (mhas_grid){.comm = comm, .context = -1, .block = block > 0 ? block : MHAS_GRID_BLOCK};
    mhas_grid_shape(size, &made->rows, &made->columns);
    enter(made, map);
    Cblacs_gridinfo(made->context, &made->rows, &made->columns, &made->row, &made->column);
    *grid = made;
    made = NULL;
  }
  mhas_free(map);
  mhas_free(made);
  return code;
}

void mhas_grid_destroy(mhas_grid *grid) {
  if (grid != NULL) {
    Cblacs_gridexit(grid->context);
    mhas_free(grid);
  }
}

void mhas_grid_watch(mhas_grid *grid, mhas_code (*proceed)(void *context, mhas_error *error), void *context) {
  grid->proceed = proceed;
  grid->proceed_context = context;
}

mhas_code mhas_grid_proceed(const mhas_grid *grid, mhas_error *error) {
  const mhas_code code = grid->proceed == NULL ? MHAS_OK : grid->proceed(grid->proceed_context, error);
  return mhas_grid_agree(grid, code, error);
}

mhas_code mhas_grid_agree(const mhas_grid *grid, mhas_code code, mhas_error *error) {
  int rank = 0;
  mhas_error unwanted = {.text = ""};
  mhas_error *words = error == NULL ? &unwanted : error;
  if (MPI_Comm_rank(grid->comm, &rank) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the communicator of a team does not answer");
  }
  const int mine = code == MHAS_OK ? INT_MAX : rank;
  int first = INT_MAX;
  if (MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, grid->comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  if (first == INT_MAX) {
    return MHAS_OK;
  }
  words->code = code; /* also where whoever failed left no words */
  if (MPI_Bcast(words, (int)sizeof *words, MPI_BYTE, first, grid->comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  return words->code;
}

mhas_code mhas_grid_sum(const mhas_grid *grid, int64_t *values, int count, mhas_error *error) {
  if (MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_SUM, grid->comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  }
  return MHAS_OK;
}

/* ---- what the other files share ---- */

int64_t mhas_dealt(int64_t count, int64_t block, int64_t at, int64_t places) {
  const int64_t whole = count / block; /* full blocks */
  const int64_t rest = whole % places; /* places before this one have a block more */
  const int64_t mine = whole / places * block;
  return mine + (at < rest ? block : at == rest ? count % block : 0);
}

mhas_code mhas_scalapack_info(const char *routine, int info, mhas_error *error) {
  if (info < 0) {
    return mhas_fail(error, MHAS_INTERNAL, "%s refused its argument %d", routine, -info);
  }
  return MHAS_OK;
}

mhas_code mhas_scalapack_work(double asked, double least, int *length, double **work, mhas_error *error) {
  const double padded = ceil(1.01 * fmax(1.0, fmax(asked, least)));
  if (!(padded < INT_MAX)) {
    return mhas_fail(error, MHAS_LIMIT,
                     "ScaLAPACK needs a workspace of %.3g numbers, beyond its 32-bit integers: a team of more ranks "
                     "would do",
                     padded);
  }
  *length = (int)padded;
  return mhas_alloc(work, (size_t)*length, sizeof(double), "the workspace of ScaLAPACK", error);
}
