/* Self-attention with one output: its sizes, its samples and workspaces. */
#include "model/selfattention.h"

#include <string.h>

/* ---- sizes ---------------------------------------------------------------------- */

mhas_code mhas_selfattention_check(const mhas_selfattention_shape *shape, mhas_error *error) {
  const double widest = shape->dim > shape->tokens ? (double)shape->dim : (double)shape->tokens;
  size_t numbers = 0;
  if (!mhas_multiply((size_t)shape->heads, (size_t)widest, &numbers)) {
    numbers = SIZE_MAX;
  }
  if (numbers > INT32_MAX) {
    return mhas_fail(error, MHAS_LIMIT,
                     "heads times tokens or dim is %.3g, more than the 2147483647 that BLAS can count",
                     (double)shape->heads * widest);
  }
  return MHAS_OK;
}

int64_t mhas_selfattention_heads(const mhas_selfattention_shape *shape, int rank, int ranks, int64_t *first) {
  *first = shape->heads * rank / ranks;
  return shape->heads * (rank + 1) / ranks - *first;
}

int64_t mhas_selfattention_numbers_u(const mhas_selfattention_shape *shape, int64_t heads) {
  return heads * shape->tokens * shape->dim;
}

int64_t mhas_selfattention_numbers_w(const mhas_selfattention_shape *shape, int64_t heads) {
  return heads * shape->dim * (shape->key_dim > 0 ? 2 * shape->key_dim : shape->dim);
}

int64_t mhas_selfattention_numbers(const mhas_selfattention_shape *shape, int64_t heads) {
  return mhas_selfattention_numbers_u(shape, heads) + mhas_selfattention_numbers_w(shape, heads);
}

/* Of one head and one sample: softmax counts as 5 operations for each weight, an entry of M as 4. */
double mhas_selfattention_outputs_flops(const mhas_selfattention_shape *shape, int64_t heads) {
  const double T = (double)shape->tokens;
  const double d = (double)shape->dim;
  const double made = 2.0 * d * d * (double)shape->key_dim;
  return (double)heads * ((double)shape->samples * (2.0 * T * d * d + 4.0 * T * T * d + 7.0 * T * T) + made);
}

double mhas_selfattention_gradient_flops(const mhas_selfattention_shape *shape, int64_t heads) {
  const double T = (double)shape->tokens;
  const double d = (double)shape->dim;
  const double back = 2.0 * T * d * d + 4.0 * T * T * d + 3.0 * T * T;
  const double made = 4.0 * d * d * (double)shape->key_dim;
  return mhas_selfattention_outputs_flops(shape, heads) + (double)heads * ((double)shape->samples * back + made);
}

double mhas_selfattention_linearise_flops(const mhas_selfattention_shape *shape, int64_t heads) {
  return shape->key_dim > 0
             ? mhas_selfattention_outputs_flops(shape, heads) + mhas_selfattention_gradient_flops(shape, heads)
             : mhas_selfattention_outputs_flops(shape, heads);
}

double mhas_selfattention_hessian_flops(const mhas_selfattention_shape *shape, int64_t heads) {
  const double T = (double)shape->tokens;
  const double d = (double)shape->dim;
  const double made = 12.0 * d * d * (double)shape->key_dim;
  return (double)heads * ((double)shape->samples * (4.0 * T * d * d + 8.0 * T * T * d + 18.0 * T * T) + made);
}

/* Samples of a tile: what stays in the cache, but rows enough for products to be worth it. */
static int64_t tile_of(const mhas_selfattention_shape *shape, int ranks) {
  const double cache = 512.0 * 1024.0;
  const double heads = (double)shape->heads / ranks;
  const double T = (double)shape->tokens;
  const double rows_most = cache / (sizeof(double) * 2.0 * heads * T);
  const double rows = fmin(fmax(rows_most, 64.0), 512.0);
  const int64_t tile = (int64_t)(rows / T);
  return tile < 1 ? 1 : tile < shape->samples ? tile : shape->samples;
}

/* A team talks as seldom as its memory allows. */
static int64_t round_of(const mhas_selfattention_shape *shape, int ranks) {
  const double memory = 256.0 * 1024.0 * 1024.0;
  const double T = (double)shape->tokens;
  const int64_t tile = tile_of(shape, ranks);
  const double tiles = memory / (sizeof(double) * 2.0 * T * T * (double)shape->heads / ranks * (double)tile);
  const int64_t all = (shape->samples + tile - 1) / tile;
  return ranks == 1 || tiles < 1.0 ? tile : tile * (tiles < (double)all ? (int64_t)tiles : all);
}

/* The arrays of a model: how many numbers each has. */
typedef struct part {
  size_t offset; /* of its pointer in the struct */
  double count;
  const char *what;
} part;
enum { PARTS_MOST = 16 };

#define PART(name, numbers, words) \
  (part) { offsetof(mhas_selfattention, name), (numbers), (words) }

static int parts_of(const mhas_selfattention_shape *shape, mhas_selfattention_use use, int64_t heads, int ranks,
                    part *parts) {
  const double n = (double)shape->samples;
  const double T = (double)shape->tokens;
  const double d = (double)shape->dim;
  const double C = (double)heads * T;
  const double Hdd = (double)heads * d * d;
  const double b = (double)tile_of(shape, ranks);
  const double round = (double)round_of(shape, ranks);
  int count = 0;
  parts[count++] = PART(XT, n * d * T, "the samples, turned");
  parts[count++] = PART(A, round * T * C, "attention weights");
  parts[count++] = PART(G, round * T * C, "products of tokens with U");
  parts[count++] = PART(PN, b * T * d, "products of tokens with W");
  parts[count++] = PART(sums, n, "outputs");
  if (ranks > 1) {
    parts[count++] = PART(gather, round * ranks, "the outputs of other ranks' heads");
  }
  if (use != MHAS_OUTPUTS) {
    parts[count++] = PART(cX, b * T * d, "weighed tokens");
  }
  if (shape->key_dim > 0) {
    parts[count++] = PART(W, Hdd, "products of W_Q and W_K");
    parts[count++] = PART(d_W, Hdd, "their gradients");
  }
  if (use == MHAS_HESSIAN) {
    parts[count++] = PART(kept_A, n * T * C, "attention weights for Hessian products");
    parts[count++] = PART(kept_G, n * T * C, "products with U for Hessian products");
    parts[count++] = PART(slope, n, "slopes of the loss");
    parts[count++] = PART(bend, n, "curvatures of the loss");
    if (shape->key_dim > 0) {
      parts[count++] = PART(kept_theta, (double)mhas_selfattention_numbers(shape, heads), "weights");
      parts[count++] = PART(kept_d_W, Hdd, "gradients for Hessian products");
      parts[count++] = PART(v_W, Hdd, "directions of W");
    }
  }
  return count;
}

double mhas_selfattention_bytes(const mhas_selfattention_shape *shape, mhas_selfattention_use use, int ranks) {
  part parts[PARTS_MOST];
  const int64_t heads = (shape->heads + ranks - 1) / ranks;
  const int count = parts_of(shape, use, heads, ranks, parts);
  double numbers = 0.0;
  for (int i = 0; i < count; i++) {
    numbers += parts[i].count;
  }
  return sizeof(double) * numbers;
}

/* ---- making one ------------------------------------------------------------------- */

static double **pointer_of(mhas_selfattention *m, const part *p) { return (double **)(void *)((char *)m + p->offset); }

static mhas_code allocate(mhas_selfattention *m, mhas_error *error) {
  part parts[PARTS_MOST];
  const int count = parts_of(&m->shape, m->use, m->heads, m->ranks, parts);
  for (int i = 0; i < count; i++) {
    if (parts[i].count >= 0x1p60) {
      return mhas_fail(error, MHAS_NO_MEMORY, "%s: %.3g numbers are more than a machine has", parts[i].what,
                       parts[i].count);
    }
    MHAS_TRY(mhas_alloc(pointer_of(m, &parts[i]), (size_t)parts[i].count, sizeof(double), parts[i].what, error));
  }
  return MHAS_OK;
}

static mhas_code find_team(mhas_selfattention *m, mhas_error *error) {
  m->ranks = 1;
  if (m->comm != MPI_COMM_NULL &&
      (MPI_Comm_rank(m->comm, &m->rank) != MPI_SUCCESS || MPI_Comm_size(m->comm, &m->ranks) != MPI_SUCCESS)) {
    return mhas_fail(error, MHAS_MPI, "the team that shares the heads cannot be asked for its ranks");
  }
  if (m->ranks > m->shape.heads) {
    return mhas_fail(error, MHAS_INTERNAL, "%d ranks for %lld heads", m->ranks, (long long)m->shape.heads);
  }
  return MHAS_OK;
}

static mhas_code prepare(mhas_selfattention *m, mhas_error *error) {
  const int64_t T = m->shape.tokens;
  const int64_t d = m->shape.dim;
  MHAS_TRY(mhas_selfattention_check(&m->shape, error));
  MHAS_TRY(find_team(m, error));
  int64_t first = 0;
  m->heads = mhas_selfattention_heads(&m->shape, m->rank, m->ranks, &first);
  m->columns = m->heads * T;
  m->tile = tile_of(&m->shape, m->ranks);
  m->round = round_of(&m->shape, m->ranks);
  const double H = (double)m->shape.heads * (double)m->shape.copies;
  m->root = 1.0 / sqrt(H);
  m->factor = (double)m->shape.copies / sqrt(H);
  m->loops = mhas_columns_double(mhas_lanes_level());
  const int64_t short_tile = m->shape.samples % m->tile;
  for (int last = 0; last < 2; last++) {
    const int64_t rows = T * (last == 1 && short_tile > 0 ? short_tile : m->tile);
    m->to_P[last] = product_of(false, AS_IS, d, rows, d, d, rows, rows);
    m->to_S[last] = product_of(false, TURNED, T, T, d, rows, rows, m->columns);
    m->to_d_W[last] = product_of(true, TURNED, d, d, rows, d, d, d);
  }
  m->to_N = product_of(false, AS_IS, T, d, T, m->columns, d, d);
  return allocate(m, error);
}

void mhas_selfattention_show(mhas_selfattention *model, const double *X) {
  const lanes_double *lanes = mhas_lanes_double(mhas_lanes_level());
  const int64_t T = model->shape.tokens;
  const int64_t d = model->shape.dim;
  model->X = X;
  for (int64_t first = 0; first < model->shape.samples; first += model->tile) {
    const int64_t left = model->shape.samples - first;
    const int64_t rows = T * (left < model->tile ? left : model->tile);
    lanes->turn(rows, d, X + first * T * d, model->XT + first * T * d);
  }
}

mhas_code mhas_selfattention_create(const mhas_selfattention_shape *shape, mhas_selfattention_use use, const double *X,
                                    const double *y, MPI_Comm comm, mhas_selfattention **model, mhas_error *error) {
  mhas_selfattention *m = NULL;
  *model = NULL;
  MHAS_TRY(mhas_alloc(&m, 1, sizeof *m, "a self-attention model", error));
  m->shape = *shape;
  m->use = use;
  m->comm = comm;
  m->y = y;
  const mhas_code code = prepare(m, error);
  if (code != MHAS_OK) {
    mhas_selfattention_destroy(m);
    return code;
  }
  mhas_selfattention_show(m, X);
  *model = m;
  return MHAS_OK;
}

void mhas_selfattention_destroy(mhas_selfattention *model) {
  if (model == NULL) {
    return;
  }
  part parts[PARTS_MOST];
  const int ranks = model->ranks > 0 ? model->ranks : 1;
  const int count = parts_of(&model->shape, model->use, model->heads, ranks, parts);
  for (int i = 0; i < count; i++) {
    mhas_free(*pointer_of(model, &parts[i]));
  }
  mhas_free(model);
}

/* ---- the team ---------------------------------------------------------------------- */

mhas_code selfattention_sum(const mhas_selfattention *m, double *values, int64_t count, mhas_error *error) {
  if (m->ranks == 1) {
    return MHAS_OK;
  }
  /* Gathered and added here rather than reduced by MPI, which may add in the order that suits the network. */
  if (MPI_Allgather(values, (int)count, MPI_DOUBLE, m->gather, (int)count, MPI_DOUBLE, m->comm) != MPI_SUCCESS) {
    return mhas_fail(error, MHAS_MPI, "the ranks that share the heads cannot add up their outputs");
  }
  memcpy(values, m->gather, (size_t)count * sizeof *values);
  for (int rank = 1; rank < m->ranks; rank++) {
    for (int64_t i = 0; i < count; i++) {
      values[i] += m->gather[rank * count + i];
    }
  }
  return MHAS_OK;
}
