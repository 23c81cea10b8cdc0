/* Counting the operations of each order. A product of m x k and k x n takes 2 m n k; a softmax about 5 an entry, as do
 * the masks of dropout; Adam 13 a parameter. */
#include "model/order.h"

#include "model/variant.h"

/* ---- both orders ---- */

/* Of the attention and of the loss. Linear and hard weights are an operation an entry. */
static double softmax_flops(const mhas_model_shape *s, double count) {
  const double entry = s->variant.weighting == MHAS_SOFTMAX ? 5.0 : 1.0;
  return count * (entry * (double)s->heads * (double)s->context + 5.0 * (double)mhas_model_outputs(s));
}

/* Forward, behind the values. */
static double out_flops(const mhas_model_shape *s, double count) {
  const double o = (double)s->out_dim;
  return count * (2.0 * (double)s->heads * (double)s->value_dim * o + 2.0 * o * (double)mhas_model_outputs(s));
}

/* ---- layer by layer ---- */

static double context_rows(const mhas_model_shape *s, double count) {
  return (double)s->context * (s->shared ? 1.0 : count);
}

static double composed_flops(const mhas_model_shape *s, double count) {
  return compose_flops(&s->variant, s->heads, s->context, s->dim, count, context_rows(s, count));
}

/* Products that the backward pass repeats twice: once for the weights or keys, once for the activations. */
static double inner_flops(const mhas_model_shape *s, double count) {
  const double H = (double)s->heads;
  const double d = (double)s->dim;
  return count * (4.0 * H * d * (double)s->key_dim + 4.0 * H * d * (double)s->context +
                  2.0 * H * d * (double)s->value_dim) +
         out_flops(s, count) + composed_flops(s, count);
}

/* The embedding; its inputs need no gradient. */
static double embedding_flops(const mhas_model_shape *s, double count) {
  return 2.0 * (count + context_rows(s, count)) * (double)s->dim * (double)s->dim;
}

/* ---- folded; the names of the parts are those of folded.h ---- */

typedef struct sizes {
  double H, d, k, v, n, r, D; /* r rows of the folded maps, D = d + 1 */
  double learned; /* those that a parameter is behind: not the positions, unless the bias is added to them */
} sizes;

static sizes sizes_of(const mhas_model_shape *s) {
  return (sizes){.H = (double)s->heads,
                 .d = (double)s->dim,
                 .k = (double)s->key_dim,
                 .v = (double)s->value_dim,
                 .n = (double)s->context,
                 .r = (double)mhas_folded_rows(s),
                 .D = (double)s->dim + 1.0,
                 .learned = (double)(s->shared                ? s->context
                                     : mhas_order_is_plain(s) ? s->dim
                                                              : s->dim + s->context)};
}

/* The maps, from the parameters: once for all samples. */
static double fold_flops(const mhas_model_shape *s, mhas_order order) {
  const sizes z = sizes_of(s);
  const double embedded = s->shared ? z.n * z.d * z.d : 0.0;
  const double maps = z.H * (z.r * z.d * z.k + z.D * z.d * z.k + z.r * z.d * z.v);
  return 2.0 * (embedded + maps + (order.joined ? z.H * z.r * z.D * z.k : 0.0));
}

/* The gradients of the parameters, from those of the maps. */
static double unfold_flops(const mhas_model_shape *s, mhas_order order) {
  const sizes z = sizes_of(s);
  const double embedded = s->shared ? z.n * z.d * z.d : 0.0;
  const double keys = z.H * z.d * z.k * (z.r + z.learned);
  const double queries = 2.0 * z.H * z.d * z.k * z.D;
  const double values = z.H * z.d * z.v * (z.r + z.learned);
  return 2.0 * (embedded + keys + queries + values + (order.joined ? 2.0 * z.H * z.r * z.D * z.k : 0.0));
}

/* Of one sample; `own` counts what needs its own context. */
static double sample_forward_flops(const mhas_model_shape *s, mhas_order order) {
  const sizes z = sizes_of(s);
  const double own = s->shared ? 0.0 : z.n * z.d;
  const double query = order.joined ? z.r * z.D : z.k * (z.D + z.r);
  const double value = order.value_first ? own + z.n : own + z.r * z.v;
  return 2.0 * z.H * (query + own + value);
}

static double sample_backward_flops(const mhas_model_shape *s, mhas_order order) {
  const sizes z = sizes_of(s);
  const double own = s->shared ? 0.0 : z.n * z.d;
  const double query = order.joined ? z.r * z.D : z.k * (z.D + 2.0 * z.r);
  const double value = order.value_first ? own + 2.0 * z.n : own + 2.0 * z.r * z.v;
  return 2.0 * z.H * (query + own + value);
}

/* Composing is the same in both orders, but has to embed queries and rows where it generates coefficients from them. */
static double folded_forward_flops(const mhas_model_shape *s, mhas_order order, double count) {
  return fold_flops(s, order) + count * sample_forward_flops(s, order) + out_flops(s, count) +
         composed_flops(s, count) + (generates(&s->variant) ? embedding_flops(s, count) : 0.0);
}

static double folded_backward_flops(const mhas_model_shape *s, mhas_order order, double count) {
  return unfold_flops(s, order) + count * sample_backward_flops(s, order) + 2.0 * out_flops(s, count) +
         2.0 * composed_flops(s, count) + (generates(&s->variant) ? embedding_flops(s, count) : 0.0);
}

/* ---- any ---- */

double mhas_order_forward_flops(const mhas_model_shape *shape, mhas_order order, double count) {
  const double products = order.folded ? folded_forward_flops(shape, order, count)
                                       : inner_flops(shape, count) + embedding_flops(shape, count);
  return products + softmax_flops(shape, count);
}

static double disturbance_flops(const mhas_model_shape *s, double count) {
  const double dropout = s->disturbance.dropout > 0.0 ? 5.0 * (double)s->heads * (double)s->context : 0.0;
  return count * (dropout + (s->disturbance.noise > 0.0 ? 5.0 * (double)s->dim : 0.0));
}

double mhas_order_gradient_flops(const mhas_model_shape *shape, mhas_order order, double count) {
  const double backward = order.folded ? folded_backward_flops(shape, order, count)
                                       : 2.0 * inner_flops(shape, count) + embedding_flops(shape, count);
  return mhas_order_forward_flops(shape, order, count) + backward + softmax_flops(shape, count) +
         disturbance_flops(shape, count);
}

bool mhas_order_is_plain(const mhas_model_shape *shape) {
  return mhas_variant_is_softmax(&shape->variant) && shape->disturbance.dropout == 0.0;
}

mhas_order mhas_order_of(const mhas_model_shape *shape, int64_t batch) {
  mhas_order best = {0};
  double least = mhas_order_gradient_flops(shape, best, (double)batch);
  for (int i = 0; i < 4; i++) {
    const mhas_order order = {.folded = true, .joined = i % 2 != 0, .value_first = i / 2 == 0};
    const double flops = mhas_order_gradient_flops(shape, order, (double)batch);
    if ((!order.value_first || shape->value_dim == 1) && flops < least) {
      best = order;
      least = flops;
    }
  }
  return best;
}
