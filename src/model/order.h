/*
 * In what order the products of the trained model are best formed: counted per shape, never measured, so that it is the
 * same everywhere.
 */
#ifndef MHASWEEP_MODEL_ORDER_H
#define MHASWEEP_MODEL_ORDER_H

#include "mhasweep/model.h"

typedef struct mhas_order {
  bool folded;      /* the embedding is folded into the weights (folded.h); else layer by layer (network.h) */
  bool joined;      /* folded: W_K W_Q^T is formed, once for all samples */
  bool value_first; /* folded: context rows have values before they are weighed; one number each, so d_v = 1 */
} mhas_order;

/* The order with the least operations in a training step of `batch` samples. */
mhas_order mhas_order_of(const mhas_model_shape *shape, int64_t batch);

/* Softmax without dropout: weights sum to one, and do not change if all logits of a query change by the same. */
bool mhas_order_is_plain(const mhas_model_shape *shape);

/* As mhas_model_forward_flops and mhas_model_gradient_flops, for a given order. */
double mhas_order_forward_flops(const mhas_model_shape *shape, mhas_order order, double count);
double mhas_order_gradient_flops(const mhas_model_shape *shape, mhas_order order, double count);

/* Rows of the folded maps: the d rows of the embedding and the n positions, or the n rows of a shared context. */
static inline int64_t mhas_folded_rows(const mhas_model_shape *shape) {
  return shape->shared ? shape->context : shape->dim + shape->context;
}

/* mhas_model_create with an order of the caller's choice. */
mhas_code mhas_model_create_ordered(const mhas_model_shape *shape, mhas_order order, mhas_precision precision,
                                    int64_t batch, mhas_model **model, mhas_error *error);

#endif
