/* Random orders: the share of independent subsets of every size, and what they show of dependent ones. */
#include <inttypes.h>
#include <string.h>

#include "linalg/dependent.h"

typedef struct orders {
  const mhas_vectors *vectors;
  int64_t most;
  mhas_prefix *prefix;
  int64_t *shuffled; /* [count]: 0, 1 ... between two orders */
  int64_t *swapped;  /* [most]: what the current order exchanged */
  uint64_t *words;   /* [most] */
  mhas_reducer reducer;
} orders;

static mhas_code allocate(orders *o, double certify, mhas_dependent *smallest, mhas_error *error) {
  const size_t count = (size_t)o->vectors->count;
  MHAS_TRY(mhas_prefix_create(o->most, o->vectors->dim, &o->prefix, error));
  MHAS_TRY(mhas_alloc(&o->shuffled, count, sizeof *o->shuffled, "an order of the vectors", error));
  MHAS_TRY(mhas_alloc(&o->swapped, (size_t)o->most, sizeof *o->swapped, "an order of the vectors", error));
  MHAS_TRY(mhas_alloc(&o->words, (size_t)o->most, sizeof *o->words, "an order of the vectors", error));
  for (size_t i = 0; i < count; i++) {
    o->shuffled[i] = (int64_t)i;
  }
  return smallest == NULL ? MHAS_OK : mhas_reducer_create(o->vectors, certify, smallest, &o->reducer, error);
}

static void release(orders *o) {
  mhas_prefix_destroy(o->prefix);
  mhas_free(o->shuffled);
  mhas_free(o->swapped);
  mhas_free(o->words);
  mhas_reducer_free(&o->reducer);
}

static void exchange(int64_t *list, int64_t i, int64_t j) {
  const int64_t kept = list[i];
  list[i] = list[j];
  list[j] = kept;
}

/* The first `most` of a shuffle (Fisher and Yates, from the front): words order count .. of the stream, so that a
 * longer beginning of the same order begins with this one. */
static void shuffle(orders *o, int64_t order) {
  const int64_t count = o->vectors->count;
  mhas_random_words(o->vectors->random, MHAS_STREAM_ORDER, (uint64_t)order * (uint64_t)count, (size_t)o->most,
                    o->words);
  for (int64_t i = 0; i < o->most; i++) {
    o->swapped[i] = i + (int64_t)(((unsigned __int128)o->words[i] * (uint64_t)(count - i)) >> 64);
    exchange(o->shuffled, i, o->swapped[i]);
  }
}

static void shuffle_back(orders *o) {
  for (int64_t i = o->most - 1; i >= 0; i--) {
    exchange(o->shuffled, i, o->swapped[i]);
  }
}

/* Adds one order to the counts of every tolerance. */
static mhas_code try_order(orders *o, int64_t order, int tolerance_count, const double *tolerances,
                           int64_t *independent, double certify, mhas_error *error) {
  shuffle(o, order);
  MHAS_TRY(mhas_prefix_factor(o->prefix, o->vectors->X, o->shuffled, o->most, error));
  for (int i = 0; i < tolerance_count; i++) {
    const int64_t length = mhas_prefix_independent(o->prefix, tolerances[i]);
    independent[i * (o->most + 1) + length]++; /* ended here; summed up later */
    if (o->reducer.smallest != NULL && tolerances[i] == certify && length < o->most) {
      MHAS_TRY(mhas_reducer_shrink(&o->reducer, o->shuffled, length, error));
    }
  }
  shuffle_back(o);
  return MHAS_OK;
}

mhas_code mhas_kruskal_orders(const mhas_vectors *vectors, int64_t most, int64_t count, int tolerance_count,
                              const double *tolerances, int64_t *independent, double certify, mhas_dependent *smallest,
                              mhas_error *error) {
  orders o = {.vectors = vectors, .most = most};
  memset(independent, 0, (size_t)tolerance_count * (size_t)(most + 1) * sizeof *independent);
  mhas_code code = allocate(&o, certify, smallest, error);
  for (int64_t order = 0; code == MHAS_OK && order < count; order++) {
    code = vectors->proceed(vectors->context, error);
    if (code == MHAS_OK) {
      code = try_order(&o, order, tolerance_count, tolerances, independent, certify, error);
    }
  }
  /* From "ended at k" to "independent up to k at least". */
  for (int i = 0; i < tolerance_count; i++) {
    for (int64_t k = most - 1; k >= 0; k--) {
      independent[i * (most + 1) + k] += independent[i * (most + 1) + k + 1];
    }
  }
  release(&o);
  return code;
}
