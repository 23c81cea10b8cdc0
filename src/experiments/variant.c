#include "experiments/variant.h"

#include <inttypes.h>

#include "experiments/checks.h"

enum { SOFTMAX, LINEAR, HARD, TALKING_HEADS, DCMHA };
const char *const mhas_attention_words[] = {"softmax", "linear", "hard", "talking_heads", "dcmha", NULL};
const char *const mhas_compose_words[] = {"none",     "base",      "query", "base_query", "key",
                                          "base_key", "query_key", "all",   NULL};

mhas_variant mhas_variant_chosen(const mhas_value chosen[VARIANT_PARAMETERS]) {
  static const mhas_weighting weightings[] = {[SOFTMAX] = MHAS_SOFTMAX,
                                              [LINEAR] = MHAS_LINEAR,
                                              [HARD] = MHAS_HARD,
                                              [TALKING_HEADS] = MHAS_SOFTMAX,
                                              [DCMHA] = MHAS_SOFTMAX};
  const int64_t attention = chosen[VARIANT_ATTENTION].integer;
  mhas_variant variant = {.weighting = weightings[attention]};
  if (attention == TALKING_HEADS) {
    variant.compose[MHAS_PRE] = MHAS_BRANCH_BASE;
    variant.compose[MHAS_POST] = MHAS_BRANCH_BASE;
  } else if (attention == DCMHA) {
    variant.compose[MHAS_PRE] = (unsigned)chosen[VARIANT_COMPOSE_PRE].integer;
    variant.compose[MHAS_POST] = (unsigned)chosen[VARIANT_COMPOSE_POST].integer;
  }
  variant.rank = chosen[VARIANT_COMPOSE_RANK].integer;
  variant.scale = chosen[VARIANT_COMPOSE_SCALE].real;
  return variant;
}

/* A key dimension of every head is 2 H d numbers, in W_Q and W_K. */
int64_t mhas_variant_key_dim(const mhas_value chosen[VARIANT_PARAMETERS], int64_t heads, int64_t dim, int64_t key_dim) {
  if (chosen[VARIANT_MATCH_PARAMETERS].integer == 0) {
    return key_dim;
  }
  const mhas_variant variant = mhas_variant_chosen(chosen);
  const int64_t one = 2 * heads * dim;
  return key_dim - (mhas_variant_parameters(&variant, heads, dim) + one / 2) / one;
}

mhas_code mhas_variant_check(const mhas_value chosen[VARIANT_PARAMETERS], int64_t heads, int64_t dim, int64_t key_dim,
                             mhas_error *error) {
  const mhas_variant variant = mhas_variant_chosen(chosen);
  const int64_t count = mhas_variant_parameters(&variant, heads, dim);
  const int64_t left = mhas_variant_key_dim(chosen, heads, dim, key_dim);
  MHAS_TRY(mhas_check_numbers("the composing weights", (double)count, error));
  if (left < 1) {
    return mhas_fail(error, MHAS_USAGE,
                     "match_parameters: the mixings' %" PRId64 " parameters are as many as %" PRId64
                     " key dimensions of %" PRId64 " heads, and key_dim is %" PRId64 ": take at least %" PRId64,
                     count, key_dim - left, heads, key_dim, key_dim - left + 1);
  }
  return MHAS_OK;
}

int mhas_variant_arrays(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_array *out) {
  static const char *const meanings[] = {
      "heads' mixing, added to the identity (out: columns)",
      "from the query to the hidden layer of its mixing",
      "from that hidden layer to R rows of w_1, then R of w_2",
      "from the query to its gate",
      "from a context row to the hidden layer of its mixing",
      "from that hidden layer to R rows of w_1, then R of w_2",
      "from a context row to its gate",
  };
  enum { PARTS = sizeof meanings / sizeof *meanings };
  const mhas_model_shape shape = {.heads = heads, .dim = dim, .variant = *variant};
  int count = 0;
  for (mhas_slice slice = MHAS_PRE_BASE; slice < MHAS_SLICES; slice++) {
    mhas_array array = {mhas_slice_name(slice), MHAS_STORE_WEIGHTS, 0, {0}, meanings[(slice - MHAS_PRE_BASE) % PARTS]};
    array.rank = mhas_slice_shape(&shape, slice, array.shape);
    if (mhas_slice_count(&shape, slice) > 0) {
      out[count++] = array;
    }
  }
  return count;
}

mhas_array mhas_attention_array(int64_t samples, int64_t heads, int64_t context) {
  return (mhas_array){"attention",
                      MHAS_STORE_ATTENTION,
                      3,
                      {samples, heads, context},
                      "weights of each head on the context rows, of the first samples"};
}
