/* The arrays of the experiment optimize that are stored. */
#include <string.h>

#include "experiments/optimize.h"

int64_t mhas_optimize_maps(const mhas_value *values) {
  const int64_t wanted = values[P_ATTENTION_SAMPLES].integer;
  return wanted < values[P_SAMPLES].integer ? wanted : values[P_SAMPLES].integer;
}

/* ---- what is announced --------------------------------------------------------------- */

static int announce_weights(const mhas_value *values, mhas_array *out) {
  const int64_t H = values[P_HEADS].integer;
  const int64_t T = values[P_TOKENS].integer;
  const int64_t d = values[P_DIM].integer;
  const int64_t d_k = values[P_KEY_DIM].integer;
  int count = 0;
  out[count++] = (mhas_array){"U", MHAS_STORE_WEIGHTS, 3, {H, T, d}, "U after the last step"};
  out[count++] = (mhas_array){"U_0", MHAS_STORE_WEIGHTS, 3, {H, T, d}, "U before the first step"};
  if (d_k == 0) {
    out[count++] = (mhas_array){"W", MHAS_STORE_WEIGHTS, 3, {H, d, d}, "W after the last step"};
    out[count++] = (mhas_array){"W_0", MHAS_STORE_WEIGHTS, 3, {H, d, d}, "W before the first step"};
    return count;
  }
  out[count++] = (mhas_array){"W_Q", MHAS_STORE_WEIGHTS, 3, {H, d, d_k}, "W_Q after the last step"};
  out[count++] = (mhas_array){"W_Q_0", MHAS_STORE_WEIGHTS, 3, {H, d, d_k}, "W_Q before the first step"};
  out[count++] = (mhas_array){"W_K", MHAS_STORE_WEIGHTS, 3, {H, d, d_k}, "W_K after the last step"};
  out[count++] = (mhas_array){"W_K_0", MHAS_STORE_WEIGHTS, 3, {H, d, d_k}, "W_K before the first step"};
  return count;
}

static int announce_data(const mhas_value *values, mhas_array *out) {
  const int64_t n = values[P_SAMPLES].integer;
  const int64_t n_test = values[P_TEST_SAMPLES].integer;
  const int64_t T = values[P_TOKENS].integer;
  const int64_t d = values[P_DIM].integer;
  int count = 0;
  out[count++] = (mhas_array){"X", MHAS_STORE_DATA, 3, {n, T, d}, "training samples"};
  out[count++] = (mhas_array){"y", MHAS_STORE_DATA, 1, {n}, "their labels, as trained on"};
  if (values[P_DATA].integer == OPTIMIZE_DM1) {
    out[count++] = (mhas_array){"relevant", MHAS_STORE_DATA, 2, {n, T}, "1 for their relevant tokens"};
  }
  if (n_test > 0) {
    out[count++] = (mhas_array){"X_test", MHAS_STORE_DATA, 3, {n_test, T, d}, "test samples"};
    out[count++] = (mhas_array){"y_test", MHAS_STORE_DATA, 1, {n_test}, "their labels"};
  }
  return count;
}

int mhas_optimize_arrays(const mhas_value *values, unsigned flags, mhas_array *arrays) {
  const int64_t T = values[P_TOKENS].integer;
  int count = 0;
  if ((flags & MHAS_STORE_WEIGHTS) != 0) {
    count += announce_weights(values, arrays + count);
  }
  if ((flags & MHAS_STORE_DATA) != 0) {
    count += announce_data(values, arrays + count);
  }
  if ((flags & MHAS_STORE_ATTENTION) != 0) {
    arrays[count++] = (mhas_array){"attention",
                                   MHAS_STORE_ATTENTION,
                                   4,
                                   {mhas_optimize_maps(values), values[P_HEADS].integer, T, T},
                                   "attention maps of the first training samples after the last step: (sample, head, "
                                   "query, token)"};
  }
  return count;
}

/* ---- heads from all ranks ---------------------------------------------------------------- */

/* A head's `count` numbers go from where they are to `out` of member 0; each head stands for `copies`. */
static mhas_code gather(const optimize *run, int64_t numbers, const double *mine, double *out, mhas_error *error) {
  const mhas_team *team = &run->task->team;
  int count = 0;
  MHAS_TRY(mhas_narrow(numbers, "numbers of a head", &count, error));
  for (int rank = 0; rank < (team->size > 1 ? team->size : 1); rank++) {
    int64_t first = 0;
    const int64_t heads = mhas_selfattention_heads(&run->shape, rank, team->size > 1 ? team->size : 1, &first);
    for (int64_t h = 0; h < heads; h++) {
      double *place = out == NULL ? NULL : out + (first + h) * run->shape.copies * numbers;
      int result = MPI_SUCCESS;
      if (rank == 0 && team->rank == 0) {
        memcpy(place, mine + h * numbers, (size_t)numbers * sizeof *place);
      } else if (team->rank == 0) {
        result = MPI_Recv(place, count, MPI_DOUBLE, rank, 0, team->comm, MPI_STATUS_IGNORE);
      } else if (team->rank == rank) {
        result = MPI_Send(mine + h * numbers, count, MPI_DOUBLE, 0, 0, team->comm);
      }
      if (result != MPI_SUCCESS) {
        return mhas_fail(error, MHAS_MPI, "the ranks of a team cannot put their heads together");
      }
      for (int64_t copy = 1; copy < run->shape.copies && place != NULL; copy++) {
        memcpy(place + copy * numbers, place, (size_t)numbers * sizeof *place);
      }
    }
  }
  return MHAS_OK;
}

/* Member 0 alone has a place for what is put together. */
static mhas_code make_place(const optimize *run, int64_t numbers, double **place, mhas_error *error) {
  *place = NULL;
  const mhas_code code = run->task->team.rank > 0
                             ? MHAS_OK
                             : mhas_alloc(place, (size_t)numbers, sizeof **place, "an array to be stored", error);
  return mhas_team_agree(&run->task->team, code, error);
}

static mhas_code hand_over(const optimize *run, const char *name, const double *data, mhas_error *error) {
  const mhas_code code = run->task->team.rank > 0 ? MHAS_OK : run->row->keep(run->row->keep_context, name, data, error);
  return mhas_team_agree(&run->task->team, code, error);
}

static mhas_code keep_heads(const optimize *run, const char *name, int64_t numbers, const double *mine,
                            mhas_error *error) {
  double *all = NULL;
  MHAS_TRY(make_place(run, run->shape.heads * run->shape.copies * numbers, &all, error));
  mhas_code code = gather(run, numbers, mine, all, error);
  if (code == MHAS_OK) {
    code = hand_over(run, name, all, error);
  }
  mhas_free(all);
  return code;
}

static mhas_code keep_weights(const optimize *run, mhas_error *error) {
  const int64_t d = run->shape.dim;
  const int64_t d_k = run->shape.key_dim;
  const int64_t u = run->shape.tokens * d;
  const int64_t W = run->heads * u;
  MHAS_TRY(keep_heads(run, "U", u, run->theta, error));
  MHAS_TRY(keep_heads(run, "U_0", u, run->theta0, error));
  if (d_k == 0) {
    MHAS_TRY(keep_heads(run, "W", d * d, run->theta + W, error));
    return keep_heads(run, "W_0", d * d, run->theta0 + W, error);
  }
  const int64_t W_K = W + run->heads * d * d_k;
  MHAS_TRY(keep_heads(run, "W_Q", d * d_k, run->theta + W, error));
  MHAS_TRY(keep_heads(run, "W_Q_0", d * d_k, run->theta0 + W, error));
  MHAS_TRY(keep_heads(run, "W_K", d * d_k, run->theta + W_K, error));
  return keep_heads(run, "W_K_0", d * d_k, run->theta0 + W_K, error);
}

static mhas_code keep_data(const optimize *run, mhas_error *error) {
  MHAS_TRY(hand_over(run, "X", run->train.X, error));
  MHAS_TRY(hand_over(run, "y", run->train.y, error));
  if (run->train.relevant != NULL) {
    MHAS_TRY(hand_over(run, "relevant", run->train.relevant, error));
  }
  if (run->test.samples > 0) {
    MHAS_TRY(hand_over(run, "X_test", run->test.X, error));
    MHAS_TRY(hand_over(run, "y_test", run->test.y, error));
  }
  return MHAS_OK;
}

static mhas_code fill_maps(const optimize *run, int64_t samples, double *mine, double *all, mhas_error *error) {
  const int64_t map = run->shape.tokens * run->shape.tokens;
  const int64_t heads = run->shape.heads * run->shape.copies;
  for (int64_t i = 0; i < samples; i++) {
    mhas_selfattention_maps(run->model, run->theta, i, 1, mine);
    MHAS_TRY(gather(run, map, mine, all == NULL ? NULL : all + i * heads * map, error));
  }
  return MHAS_OK;
}

static mhas_code keep_attention(const optimize *run, mhas_error *error) {
  const int64_t samples = mhas_optimize_maps(run->task->point.values);
  const int64_t map = run->shape.tokens * run->shape.tokens;
  double *all = NULL;
  double *mine = NULL;
  MHAS_TRY(make_place(run, samples * run->shape.heads * run->shape.copies * map, &all, error));
  mhas_code code = mhas_team_agree(
      &run->task->team,
      mhas_alloc(&mine, (size_t)(run->heads * map), sizeof *mine, "the attention maps of a sample", error), error);
  if (code == MHAS_OK) {
    code = fill_maps(run, samples, mine, all, error);
  }
  if (code == MHAS_OK) {
    code = hand_over(run, "attention", all, error);
  }
  mhas_free(mine);
  mhas_free(all);
  return code;
}

/* Whether there is a keeper may differ between members: it is member 0's that counts. */
mhas_code mhas_optimize_keep(optimize *run, mhas_error *error) {
  unsigned store = run->row->keep == NULL ? 0 : run->task->store;
  MHAS_TRY(mhas_team_share(&run->task->team, &store, sizeof store, error));
  if ((store & MHAS_STORE_WEIGHTS) != 0) {
    MHAS_TRY(keep_weights(run, error));
  }
  if ((store & MHAS_STORE_DATA) != 0) {
    MHAS_TRY(keep_data(run, error));
  }
  return (store & MHAS_STORE_ATTENTION) != 0 ? keep_attention(run, error) : MHAS_OK;
}
