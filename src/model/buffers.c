/* How large the buffers of a model are. */
#include "model/parts.h"
#include "model/variant.h"

/* What variants and dropout have, in either order. */
static double variant_count(const mhas_model_shape *s, double batch, mhas_buffer buffer) {
  const double numbers = batch * (double)s->heads * (double)s->context;
  const bool pre = s->variant.compose[MHAS_PRE] != 0;
  const bool post = s->variant.compose[MHAS_POST] != 0;
  switch (buffer) {
    case SCORES: return pre ? numbers : 0.0;
    case WEIGHTS: return post ? numbers : 0.0;
    case D_SCORES: return pre || post ? numbers : 0.0;
    case MASK:
    case DROPPED: return s->disturbance.dropout > 0.0 ? numbers : 0.0;
    default: return 0.0;
  }
}

/* Embedded queries and contexts, layer by layer. */
static double embedded_count(const mhas_model_shape *s, double batch, mhas_buffer buffer) {
  switch (buffer) {
    case CONTEXTS:
    case KEYS:
    case D_KEYS: return (s->shared ? 1.0 : batch) * (double)s->context * (double)s->dim;
    case QUERIES:
    case X:
    case D_X: return batch * (double)s->dim;
    default: return 0.0;
  }
}

/* What the layer-by-layer order alone has; in the folded one they are empty. */
static double layered_count(const mhas_model_shape *s, double batch, mhas_buffer buffer) {
  const double H = (double)s->heads;
  const double d = (double)s->dim;
  switch (buffer) {
    case Q: return H * batch * (double)s->key_dim;
    case D_Q: return batch * (double)s->key_dim;
    case U:
    case D_U:
    case Z:
    case D_Z: return batch * H * d;
    case D_THETA: return batch * H * (double)s->context;
    default: return embedded_count(s, batch, buffer) + variant_count(s, batch, buffer);
  }
}

static double folded_count(const mhas_model_shape *s, mhas_order order, double batch, mhas_buffer buffer) {
  const double H = (double)s->heads;
  const double n = (double)s->context;
  const double d = (double)s->dim;
  const double r = (double)mhas_folded_rows(s);
  const double D = d + 1.0;
  const bool own = !s->shared;
  switch (buffer) {
    case CONTEXTS: return !own ? n * d : generates(&s->variant) ? batch * n * d : 0.0;
    case E1: return batch * D;
    case ROWS:
    case D_ROWS: return r * d;
    case INPUT:
    case D_INPUT: return D * d;
    case KEY_MAP:
    case D_KEY_MAP: return H * r * (double)s->key_dim;
    case QUERY_MAP:
    case D_QUERY_MAP: return D * H * (double)s->key_dim;
    case Q:
    case D_Q: return order.joined ? 0.0 : batch * H * (double)s->key_dim;
    case JOINED_MAP:
    case D_JOINED_MAP: return order.joined ? H * r * D : 0.0;
    case VALUE_MAP:
    case D_VALUE_MAP: return H * (double)s->value_dim * r;
    case SHIFT:
    case D_SHIFT: return H * (double)s->value_dim;
    case LOGITS: return batch * H * r;
    case ROW_VALUES: return own && order.value_first ? batch * H * n : 0.0;
    case MEANS: return order.value_first ? batch * H : 0.0;
    case Z: return own && !order.value_first ? batch * H * r : 0.0;
    case D_Z: return order.value_first ? 0.0 : batch * H * r;
    case TURNED_CONTEXT: return own ? n * d : 0.0;
    case D_THETA: return mhas_order_is_plain(s) ? 0.0 : batch * H * n;
    default: return variant_count(s, batch, buffer) + (generates(&s->variant) ? embedded_count(s, batch, buffer) : 0.0);
  }
}

double mhas_buffer_count(const mhas_model_shape *s, mhas_order order, const mhas_kernels *kernels, int64_t length,
                         int64_t batch, mhas_buffer buffer) {
  const double B = (double)batch;
  const double H = (double)s->heads;
  switch (buffer) {
    case PARAMETERS:
    case GRADIENT:
    case MOMENT1:
    case MOMENT2:
    case BEST: return (double)length;
    case POSITIONS: return ((double)s->context + 1.0) * (double)s->dim;
    case TARGETS: return B;
    case THETA: return B * H * (double)s->context;
    case VALUES:
    case D_VALUES: return B * H * (double)s->value_dim;
    case JOINED:
    case D_JOINED: return B * (double)s->out_dim;
    case OUTPUTS: return B * (double)mhas_model_outputs(s);
    case SUMS: return 2.0 * B;
    case COMPOSE: return kernels->compose_work(s, batch);
    case NOISE: return s->disturbance.noise > 0.0 ? B * (double)s->dim : 0.0;
    default: return order.folded ? folded_count(s, order, B, buffer) : layered_count(s, B, buffer);
  }
}
