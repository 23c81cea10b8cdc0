/* The trained model's arrays and what they cost, from its sizes alone. */
#include "model/parts.h"
#include "model/variant.h"

int64_t mhas_model_outputs(const mhas_model_shape *shape) { return shape->classes > 0 ? shape->classes : 1; }

const char *mhas_slice_name(mhas_slice slice) {
  static const char *const names[MHAS_SLICES] = {
      "embedding",       "embedding_bias", "W_Q",          "W_K",          "W_V",           "W_O",
      "decoder",         "decoder_bias",   "pre_base",     "pre_query_in", "pre_query_out", "pre_query_gate",
      "pre_key_in",      "pre_key_out",    "pre_key_gate", "post_base",    "post_query_in", "post_query_out",
      "post_query_gate", "post_key_in",    "post_key_out", "post_key_gate"};
  return names[slice];
}

int mhas_slice_shape(const mhas_model_shape *shape, mhas_slice slice, int64_t sizes[MHAS_SLICE_RANK]) {
  const int64_t d = shape->dim;
  switch (slice) {
    case MHAS_EMBEDDING:
      sizes[0] = d;
      sizes[1] = d;
      return 2;
    case MHAS_EMBEDDING_BIAS: sizes[0] = d; return 1;
    case MHAS_W_QUERY:
    case MHAS_W_KEY:
      sizes[0] = shape->heads;
      sizes[1] = d;
      sizes[2] = shape->key_dim;
      return 3;
    case MHAS_W_VALUE:
      sizes[0] = shape->heads;
      sizes[1] = d;
      sizes[2] = shape->value_dim;
      return 3;
    case MHAS_W_OUT:
      sizes[0] = shape->heads * shape->value_dim;
      sizes[1] = shape->out_dim;
      return 2;
    case MHAS_DECODER:
      sizes[0] = shape->out_dim;
      sizes[1] = mhas_model_outputs(shape);
      return 2;
    case MHAS_DECODER_BIAS: sizes[0] = mhas_model_outputs(shape); return 1;
    default: return compose_slice_shape(&shape->variant, shape->heads, d, slice, sizes);
  }
}

int64_t mhas_slice_count(const mhas_model_shape *shape, mhas_slice slice) {
  int64_t sizes[MHAS_SLICE_RANK];
  const int rank = mhas_slice_shape(shape, slice, sizes);
  int64_t count = 1;
  for (int i = 0; i < rank; i++) {
    count *= sizes[i];
  }
  return count;
}

int64_t mhas_model_parameters(const mhas_model_shape *shape) {
  int64_t count = 0;
  for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
    count += mhas_slice_count(shape, slice);
  }
  return count;
}

double mhas_model_forward_flops(const mhas_model_shape *shape, int64_t batch, double count) {
  return mhas_order_forward_flops(shape, mhas_order_of(shape, batch), count);
}

double mhas_model_gradient_flops(const mhas_model_shape *shape, int64_t batch, double count) {
  return mhas_order_gradient_flops(shape, mhas_order_of(shape, batch), count);
}

/* Adam takes 13 a parameter. */
double mhas_model_update_flops(const mhas_model_shape *shape) { return 13.0 * (double)mhas_model_parameters(shape); }

mhas_code mhas_model_check(const mhas_model_shape *shape, int64_t batch, mhas_error *error) {
  int unused = 0;
  MHAS_TRY(mhas_narrow(batch * shape->context, "batch * context", &unused, error));
  MHAS_TRY(mhas_narrow(batch * shape->heads, "batch * heads", &unused, error));
  MHAS_TRY(mhas_narrow(shape->heads * shape->dim, "heads * dim", &unused, error));
  if (mhas_order_of(shape, batch).folded) {
    MHAS_TRY(mhas_narrow(shape->heads * mhas_folded_rows(shape), "heads * (dim + context)", &unused, error));
    MHAS_TRY(mhas_narrow(shape->heads * shape->key_dim, "heads * key_dim", &unused, error));
  }
  MHAS_TRY(compose_check(&shape->variant, shape->heads, error));
  return mhas_narrow(shape->heads * shape->value_dim, "heads * value_dim", &unused, error);
}
