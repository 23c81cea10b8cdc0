/*
 * Synthetic samples: a context, a query and a label each.
 *
 * Everything is a pure function of (random, index), so any block of samples can be made alone, and the first T samples
 * are the same whatever T is. Letters: T samples, n context rows, d dim. Nothing here is collective.
 */
#ifndef MHASWEEP_DATA_H
#define MHASWEEP_DATA_H

#include "mhasweep/base.h"

typedef enum mhas_distribution {
  MHAS_UNIFORM, /* on [0, 1) */
  MHAS_GAUSSIAN /* standard normal */
} mhas_distribution;

typedef struct mhas_data_shape {
  int64_t samples; /* T */
  int64_t context; /* n */
  int64_t dim;     /* d */
  bool shared;     /* all samples have the same context */
  mhas_distribution distribution;
  int64_t classes; /* labels are classes 0 .. classes - 1; 0: numbers, uniform on [0, 1) */
} mhas_data_shape;

/* How many contexts there are: T, or 1 if they are shared. */
int64_t mhas_data_contexts_count(const mhas_data_shape *shape);

/* Contexts first .. first + count - 1 into E (count, n, d): element (t, i, j) is number (t n + i) d + j of its stream.
 */
void mhas_data_contexts(const mhas_data_shape *shape, mhas_random random, int64_t first, int64_t count, double *E);

/* Queries first .. first + count - 1 into e (count, d): element (t, j) is number t d + j of its stream. */
void mhas_data_queries(const mhas_data_shape *shape, mhas_random random, int64_t first, int64_t count, double *e);

/* Labels first .. first + count - 1 into y (count): label t is number t of its stream. A class is a whole number. */
void mhas_data_labels(const mhas_data_shape *shape, mhas_random random, int64_t first, int64_t count, double *y);

/* Of labels first .. first + count - 1 in y (count), each with chance `share` gives way to a new random label, which
 * may be the same again. */
void mhas_data_label_noise(const mhas_data_shape *shape, mhas_random random, double share, int64_t first, int64_t count,
                           double *y);

/* ---- a training set in memory ---- */

typedef enum mhas_precision { MHAS_FLOAT32, MHAS_FLOAT64 } mhas_precision;
size_t mhas_precision_size(mhas_precision precision); /* bytes of a number */

/* E and e in the precision of the arithmetic that uses them; shared contexts are held once. */
typedef struct mhas_samples {
  mhas_data_shape shape;
  mhas_precision precision;
  void *contexts; /* (T, n, d), or (1, n, d) if shared; float or double */
  void *queries;  /* (T, d) */
  double *labels; /* (T) */
} mhas_samples;

/* All zero, to be filled by the calls below. To be freed also after a failure. */
mhas_code mhas_samples_create(const mhas_data_shape *shape, mhas_precision precision, mhas_samples *samples,
                              mhas_error *error);
void mhas_samples_free(mhas_samples *samples);

/* Rounds `count` contexts or queries into place, from number `first` on; the layout is that of the struct. */
void mhas_samples_put_contexts(mhas_samples *samples, int64_t first, int64_t count, const double *E);
void mhas_samples_put_queries(mhas_samples *samples, int64_t first, int64_t count, const double *e);

/* All of them back, in double: E (T, n, d) or (1, n, d), e (T, d). */
void mhas_samples_get_contexts(const mhas_samples *samples, double *E);
void mhas_samples_get_queries(const mhas_samples *samples, double *e);

/* Draws synthetic samples first .. first + count - 1: mhas_samples_read (source.h) from a source of this shape. */
mhas_code mhas_samples_draw(mhas_samples *samples, mhas_random random, int64_t first, int64_t count, mhas_error *error);

#endif
