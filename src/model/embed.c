/* The inputs of a trained model's attention, in double. */
#include <cblas.h>

#include "mhasweep/model.h"
#include "model/positions.h"

void mhas_embed(const mhas_embedding *embedding, int64_t count, int64_t first_position, int64_t period, const double *x,
                double *out) {
  const int64_t d = embedding->dim;
  for (int64_t i = 0; i < count; i++) {
    for (int64_t j = 0; j < d; j++) {
      out[i * d + j] = embedding->bias[j];
    }
  }
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)count, (int)d, (int)d, 1.0, x, (int)d, embedding->weight,
              (int)d, 1.0, out, (int)d);
  for (int64_t i = 0; i < count; i++) {
    for (int64_t j = 0; j < d; j++) {
      out[i * d + j] += position_entry(embedding->position_base, d, first_position + i % period, j);
    }
  }
}
