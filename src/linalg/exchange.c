/* Columns of a block-cyclic matrix change places, many at a time: one message between any two ranks of a grid row. */
#include <string.h>

#include "linalg/qr.h"

static int owner(const mhas_exchange *x, int64_t column) {
  return (int)(column / x->a->grid->block % x->a->grid->columns);
}

static int64_t tall(const mhas_exchange *x) { return x->a->local_rows + x->extra; }

/* Plays the exchanges on paper; only places whose column changes are kept. */
static void plan_moves(mhas_exchange *x, int64_t from, int count, const int64_t *pivots) {
  int64_t known = 0;
  for (int k = 0; k < count; k++) {
    x->moves[known++] = (mhas_move){.place = from + k, .source = from + k};
  }
  for (int k = 0; k < count; k++) {
    if (pivots[k] >= from + count) {
      x->moves[known++] = (mhas_move){.place = pivots[k], .source = pivots[k]};
    }
  }
  for (int k = 0; k < count; k++) {
    int64_t at = k;
    while (x->moves[at].source != pivots[k]) {
      at++;
    }
    x->moves[at].source = x->moves[k].source;
    x->moves[k].source = pivots[k];
  }
  x->count = 0;
  for (int64_t k = 0; k < known; k++) {
    if (x->moves[k].place != x->moves[k].source) {
      x->moves[x->count++] = x->moves[k];
    }
  }
}

/* Copies the columns that leave for grid column `partner` behind `at`; returns how many. */
static int64_t pack(const mhas_exchange *x, int partner, double *at) {
  const int me = x->a->grid->column;
  int64_t count = 0;
  for (int64_t k = 0; k < x->count; k++) {
    if (owner(x, x->moves[k].source) == me && owner(x, x->moves[k].place) == partner) {
      const int64_t local = mhas_cyclic_columns_before(x->a, x->moves[k].source);
      double *to = at + count * tall(x);
      memcpy(to, x->a->local + local * x->a->stride, (size_t)x->a->local_rows * sizeof *to);
      memcpy(to + x->a->local_rows, x->y + local * x->extra, (size_t)x->extra * sizeof *to);
      count++;
    }
  }
  return count;
}

static int64_t arrivals(const mhas_exchange *x, int partner) {
  const int me = x->a->grid->column;
  int64_t count = 0;
  for (int64_t k = 0; k < x->count; k++) {
    count += owner(x, x->moves[k].place) == me && owner(x, x->moves[k].source) == partner;
  }
  return count;
}

static void unpack(const mhas_exchange *x, int partner, const double *at) {
  const int me = x->a->grid->column;
  for (int64_t k = 0; k < x->count; k++) {
    if (owner(x, x->moves[k].place) == me && owner(x, x->moves[k].source) == partner) {
      const int64_t local = mhas_cyclic_columns_before(x->a, x->moves[k].place);
      memcpy(x->a->local + local * x->a->stride, at, (size_t)x->a->local_rows * sizeof *at);
      memcpy(x->y + local * x->extra, at + x->a->local_rows, (size_t)x->extra * sizeof *at);
      at += tall(x);
    }
  }
}

/* Everything that leaves is packed before anything arrives. */
static bool carry_out(mhas_exchange *x) {
  const mhas_grid *grid = x->a->grid;
  enum { TAG = 4711 };
  int waiting = 0;
  bool fine = true;
  double *out = x->out;
  double *in = x->in;
  for (int partner = 0; partner < grid->columns; partner++) {
    const int64_t leaving = pack(x, partner, out) * tall(x);
    const int64_t coming = arrivals(x, partner) * tall(x);
    if (partner == grid->column) {
      memcpy(in, out, (size_t)leaving * sizeof *in);
    } else {
      const int rank = grid->row * grid->columns + partner;
      fine = fine && (coming == 0 || MPI_Irecv(in, (int)coming, MPI_DOUBLE, rank, TAG, grid->comm,
                                               &x->requests[waiting++]) == MPI_SUCCESS);
      fine = fine && (leaving == 0 || MPI_Isend(out, (int)leaving, MPI_DOUBLE, rank, TAG, grid->comm,
                                                &x->requests[waiting++]) == MPI_SUCCESS);
    }
    out += leaving;
    in += coming;
  }
  fine = fine && MPI_Waitall(waiting, x->requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS;
  in = x->in;
  for (int partner = 0; fine && partner < grid->columns; partner++) {
    unpack(x, partner, in);
    in += arrivals(x, partner) * tall(x);
  }
  return fine;
}

mhas_code mhas_exchange_create(mhas_cyclic *a, double *y, int64_t extra, mhas_exchange *x, mhas_error *error) {
  const size_t most = 2 * (size_t)a->grid->block;
  *x = (mhas_exchange){.a = a, .y = y, .extra = a->grid->row == 0 ? extra : 0};
  mhas_code code = mhas_alloc(&x->moves, most, sizeof *x->moves, "the exchange of columns", error);
  if (code == MHAS_OK) {
    code =
        mhas_alloc(&x->requests, 2 * (size_t)a->grid->columns, sizeof *x->requests, "the exchange of columns", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&x->out, most * (size_t)tall(x), sizeof *x->out, "columns that leave", error);
  }
  if (code == MHAS_OK) {
    code = mhas_alloc(&x->in, most * (size_t)tall(x), sizeof *x->in, "columns that arrive", error);
  }
  return mhas_grid_agree(a->grid, code, error);
}

void mhas_exchange_free(mhas_exchange *x) {
  mhas_free(x->out);
  mhas_free(x->in);
  mhas_free(x->requests);
  mhas_free(x->moves);
}

mhas_code mhas_exchange_columns(mhas_exchange *x, int64_t from, int count, const int64_t *pivots, int64_t *columns,
                                mhas_error *error) {
  plan_moves(x, from, count, pivots);
  for (int64_t k = 0; k < x->count; k++) {
    x->moves[k].column = columns[x->moves[k].source];
  }
  for (int64_t k = 0; k < x->count; k++) {
    columns[x->moves[k].place] = x->moves[k].column;
  }
  const mhas_code code =
      carry_out(x) ? MHAS_OK : mhas_fail(error, MHAS_MPI, "the ranks of a team cannot talk to each other");
  return mhas_grid_agree(x->a->grid, code, error);
}
