#include "experiments/icl_side.h"

mhas_code icl_side_create(const mhas_value *values, int64_t tokens, icl_side *side, mhas_error *error) {
  const mhas_meanfield_shape shape = icl_shape(values, tokens);
  const mhas_meanfield_shape teacher = icl_teacher_shape(values, tokens);
  *side = (icl_side){
      .N = tokens, .M = shape.neurons, .d = shape.dim, .k = shape.features, .k0 = teacher.features, .loss = 0.0};
  side->moments.features = side->k;
  side->moments.true_features = side->k0;
  side->moments.ridge = values[P_RIDGE].real;
  side->moments.cut_off = values[P_CUT_OFF].real;
  const struct {
    double **array;
    int64_t width;
  } arrays[] = {{&side->X, side->d}, {&side->F, side->k0}, {&side->h, side->k},
                {&side->q, side->k}, {&side->u, side->k},  {&side->zeta, side->k0}};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    MHAS_TRY(mhas_alloc(arrays[i].array, (size_t)(tokens * arrays[i].width), sizeof(double), "the tokens", error));
  }
  MHAS_TRY(mhas_moments_create(&side->moments, error));
  MHAS_TRY(mhas_meanfield_create(&teacher, MHAS_FLOAT64, &side->teaching, error));
  return mhas_meanfield_create(&shape, icl_precision(values), &side->mlp, error);
}

void icl_side_free(icl_side *side) {
  mhas_meanfield_destroy(side->mlp);
  mhas_meanfield_destroy(side->teaching);
  mhas_moments_free(&side->moments);
  mhas_free(side->X);
  mhas_free(side->F);
  mhas_free(side->h);
  mhas_free(side->q);
  mhas_free(side->u);
  mhas_free(side->zeta);
  *side = (icl_side){0};
}

void icl_side_draw(icl_side *side, const icl_teacher *teacher, mhas_stream stream, int64_t first) {
  icl_teacher_tokens(teacher, stream, first, side->N, side->X);
  icl_teacher_features(teacher, side->teaching, side->N, side->X, side->F);
}

mhas_code icl_side_forward(icl_side *side, const double *theta, mhas_error *error) {
  mhas_meanfield_forward(side->mlp, theta, theta + side->M * side->k, side->X, side->h);
  MHAS_TRY(mhas_moments_take(&side->moments, side->N, side->h, side->F, error));
  side->loss = mhas_reduced_loss(&side->moments, side->N, side->h, side->F, side->zeta, side->q);
  side->loss_attention = side->loss;
  return MHAS_OK;
}

void icl_side_gradient(icl_side *side, const double *W, double *g) {
  if (W != NULL) {
    side->loss_attention = mhas_joint_loss(&side->moments, side->N, side->h, side->F, W, side->zeta, side->q, NULL);
  }
  mhas_meanfield_backward(side->mlp, side->q, g, g + side->M * side->k);
}

void icl_side_product(icl_side *side, const double *v, double *product) {
  mhas_meanfield_tangent(side->mlp, v, v + side->M * side->k, side->u);
  mhas_reduced_hessian(&side->moments, side->N, side->h, side->zeta, side->u, side->q);
  mhas_meanfield_backward(side->mlp, side->q, product, product + side->M * side->k);
}
