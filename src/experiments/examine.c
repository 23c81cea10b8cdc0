#include "experiments/examine.h"

#include <math.h>

int mhas_examine_passes(double label_noise, double prune, int64_t bits) {
  return (label_noise > 0.0) + (prune > 0.0) + (bits > 0);
}

static mhas_code score(const mhas_examination *x, const mhas_samples *samples, double *loss, double *accuracy,
                       mhas_error *error) {
  return mhas_score_all(x->task, x->model, samples, x->batch, loss, accuracy, error);
}

mhas_code mhas_examine(const mhas_examination *x, mhas_examined *found, mhas_error *error) {
  double unused = NAN;
  *found = (mhas_examined){NAN, NAN, NAN, NAN, NAN};
  if (x->clean_labels != NULL) {
    mhas_samples samples = *x->samples;
    samples.labels = x->clean_labels;
    mhas_model_load_best(x->model);
    MHAS_TRY(score(x, &samples, &unused, &found->accuracy_clean, error));
  }
  if (x->prune > 0.0) {
    mhas_model_load_best(x->model);
    MHAS_TRY(mhas_model_prune(x->model, x->prune, error));
    MHAS_TRY(score(x, x->samples, &found->loss_pruned, &found->accuracy_pruned, error));
  }
  if (x->bits > 0) {
    mhas_model_load_best(x->model);
    MHAS_TRY(mhas_model_quantize(x->model, x->bits, error));
    MHAS_TRY(score(x, x->samples, &found->loss_quantized, &found->accuracy_quantized, error));
  }
  return MHAS_OK;
}

mhas_code mhas_examine_attention(const mhas_examination *x, int64_t count, const mhas_row *row, mhas_error *error) {
  const int64_t map = x->shape.heads * x->shape.context;
  double *maps = NULL;
  MHAS_TRY(mhas_alloc(&maps, (size_t)(count * map), sizeof *maps, "the stored attention maps", error));
  mhas_model_load_best(x->model);
  for (int64_t first = 0; first < count; first += x->batch) {
    const int64_t block = count - first < x->batch ? count - first : x->batch;
    mhas_model_attention(x->model, x->samples, first, block, maps + first * map);
  }
  const mhas_code code = row->keep(row->keep_context, "attention", maps, error);
  mhas_free(maps);
  return code;
}
