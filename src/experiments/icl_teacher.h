/* Tokens and their true features: what the experiment icl learns from. */
#ifndef MHASWEEP_EXPERIMENTS_ICL_TEACHER_H
#define MHASWEEP_EXPERIMENTS_ICL_TEACHER_H

#include "experiments/icl.h"

/* f(x) = (1/M0) sum_i a_i sigmoid(w_i . x) - offset: every teacher is a mean-field MLP. Zero before it is made. */
typedef struct icl_teacher {
  int64_t neurons, features, dim, inputs; /* M0, k0, d, d and the bias */
  bool mirrored;                          /* token 2i + 1 is token 2i with x_d of the other sign */
  mhas_random random;
  double *a, *w, *offset; /* (M0, k0), (M0, inputs), (k0) */
} icl_teacher;

mhas_code icl_teacher_create(const mhas_value *values, mhas_random random, icl_teacher *teacher, mhas_error *error);
void icl_teacher_free(icl_teacher *teacher);

/* X (count, inputs): tokens first .. first + count - 1 of a stream; both even where tokens are mirrored. */
void icl_teacher_tokens(const icl_teacher *teacher, mhas_stream stream, int64_t first, int64_t count, double *X);

/* F (N, k0) of tokens X, by a work space of that shape (icl_teacher_shape). */
void icl_teacher_features(const icl_teacher *teacher, mhas_meanfield *mlp, int64_t tokens, const double *X, double *F);

#endif
