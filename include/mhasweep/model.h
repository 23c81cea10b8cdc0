/*
 * Multi-head attention of one query per sample: its features, and the model that is trained on them.
 *
 * Letters: T samples, n context rows, d dim, H heads, d_h key_dim, d_v value_dim, d_o out_dim, C outputs. All arrays
 * are row-major in the order their shape is written. Nothing here is collective, unless it says so. The same calls give
 * the same bits, as long as BLAS runs the same kernels on the same number of threads.
 *
 * Source: Mahdavi, Liao, Thrampoulidis, "Memorization Capacity of Multi-Head Attention in Transformers", ICLR 2024,
 * arXiv 2306.02010.
 */
#ifndef MHASWEEP_MODEL_H
#define MHASWEEP_MODEL_H

#include "mhasweep/data.h"
#include "mhasweep/linalg.h"

/* ---- features: attention with given W_Q and W_K, nothing trained ---- */

typedef struct mhas_features_shape {
  int64_t heads, dim, key_dim, context;
  bool shared;        /* all samples have the same context */
  double logit_scale; /* factor on the logits, which are divided by sqrt(d) */
} mhas_features_shape;

/*
 * How many samples mhas_features is best given at once, and the doubles of scratch it needs. Calls for a part of the
 * samples are to start at multiples of that: then an entry of Z has the same bits whatever T and H are, and whoever
 * computes it.
 */
int64_t mhas_features_block(const mhas_features_shape *shape);
int64_t mhas_features_scratch(const mhas_features_shape *shape);

/*
 * Z (count, H d): row t is z_1(t) .. z_H(t) with z_h = E^T theta_h, theta_h = softmax(E u_h), u_h = W_K,h (W_Q,h^T e)
 * (section 2 of the paper). E is (count, n, d), or (n, d) if shared; e (count, d); W_Q and W_K (H, d, d_h). Every size
 * has to fit BLAS's int (mhas_features_check). Returns how many of the count H heads are saturated: their largest
 * attention weight is above 0.99.
 */
int64_t mhas_features(const mhas_features_shape *shape, int64_t count, const double *E, const double *e,
                      const double *W_Q, const double *W_K, double *scratch, double *Z);

/*
 * What that is made of: z (block, G, d), in the scratch, of at most a block of samples and `heads` <= G =
 * MHAS_FEATURES_TILE_HEADS heads, the first of which is a multiple of G; W_Q and W_K start with it. What is beyond
 * count and heads means nothing. Adds to *saturated.
 */
enum { MHAS_FEATURES_TILE_HEADS = 8 };
const double *mhas_features_tile(const mhas_features_shape *shape, int64_t count, int64_t heads, const double *E,
                                 const double *e, const double *W_Q, const double *W_K, double *scratch,
                                 int64_t *saturated);

/*
 * Z of T samples that are drawn as `data` says, spread over a grid: every rank makes its own entries, the same bits as
 * mhas_features makes. Z has T rows and H d columns; W_Q and W_K (H, d, d_h) are on every rank. *saturated is counted
 * over all ranks. Collective over Z's grid, which is asked now and then whether to proceed.
 */
mhas_code mhas_features_cyclic(const mhas_features_shape *shape, const mhas_data_shape *data, mhas_random random,
                               const double *W_Q, const double *W_K, mhas_cyclic *Z, int64_t *saturated,
                               mhas_error *error);
mhas_code mhas_features_check(const mhas_features_shape *shape, int64_t samples, mhas_error *error);
double mhas_features_flops(const mhas_features_shape *shape, int64_t samples);

/* W_Q and W_K (H, d, d_h), uniform on +-sqrt(6 / (d + d_h)) (Xavier, per head); the first heads are the same for any H.
 */
void mhas_xavier_query_key(int64_t heads, int64_t dim, int64_t key_dim, mhas_random random, double *W_Q, double *W_K);

/* The columns of theory beside every measurement (arXiv 2306.02010): H (min(n, d_h) - 1) + 1; H (n - 1) + 1; H d. */
int64_t mhas_bound_lower(int64_t heads, int64_t context, int64_t key_dim);
int64_t mhas_bound_shared(int64_t heads, int64_t context);
int64_t mhas_bound_width(int64_t heads, int64_t dim);

/* ---- the trained model ---- */

/*
 * Query and context rows are embedded (linear, with bias) and get sinusoidal positions, the query that of row 0; H
 * heads attend from the query to the n context rows; W_O joins the heads' values; a linear decoder with bias follows.
 * No skip connection, no normalisation, no other bias.
 */
typedef struct mhas_model_shape {
  int64_t heads, dim, key_dim, value_dim, out_dim, context;
  bool shared;          /* all samples have the same context */
  int64_t classes;      /* C; 0: regression, one output */
  double logit_scale;   /* factor on the logits, which are divided by sqrt(d) */
  double position_base; /* 10000 in the paper */
} mhas_model_shape;

int64_t mhas_model_outputs(const mhas_model_shape *shape); /* C: the classes, or 1 */

/* The parameter arrays, in the order in which they stand in the parameter vector. */
typedef enum mhas_slice {
  MHAS_EMBEDDING,      /* (d, d): x -> x W + b */
  MHAS_EMBEDDING_BIAS, /* (d) */
  MHAS_W_QUERY,        /* (H, d, d_h) */
  MHAS_W_KEY,          /* (H, d, d_h) */
  MHAS_W_VALUE,        /* (H, d, d_v) */
  MHAS_W_OUT,          /* (H d_v, d_o) */
  MHAS_DECODER,        /* (d_o, C) */
  MHAS_DECODER_BIAS,   /* (C) */
  MHAS_SLICES
} mhas_slice;

enum { MHAS_SLICE_RANK = 3 };
const char *mhas_slice_name(
    mhas_slice slice); /* embedding, embedding_bias, W_Q, W_K, W_V, W_O, decoder, decoder_bias */
int mhas_slice_shape(const mhas_model_shape *shape, mhas_slice slice, int64_t sizes[MHAS_SLICE_RANK]); /* its rank */
int64_t mhas_slice_count(const mhas_model_shape *shape, mhas_slice slice);
int64_t mhas_model_parameters(const mhas_model_shape *shape);

/* Floating-point operations on `count` samples: the forward pass; forward and backward; and one update by Adam. */
double mhas_model_forward_flops(const mhas_model_shape *shape, double count);
double mhas_model_gradient_flops(const mhas_model_shape *shape, double count);
double mhas_model_update_flops(const mhas_model_shape *shape);

/* Parameters, gradient, Adam's moments, the best parameters so far, and a workspace for `batch` samples. */
typedef struct mhas_model mhas_model;

double mhas_model_bytes(const mhas_model_shape *shape, mhas_precision precision, int64_t batch);

/* MHAS_LIMIT if a size of this model with `batch` samples is beyond BLAS's 32-bit integers. */
mhas_code mhas_model_check(const mhas_model_shape *shape, int64_t batch, mhas_error *error);

/* All parameters are zero. No call below allocates. The caller destroys *model. */
mhas_code mhas_model_create(const mhas_model_shape *shape, mhas_precision precision, int64_t batch, mhas_model **model,
                            mhas_error *error);
void mhas_model_destroy(mhas_model *model); /* NULL is fine */

/* Xavier-uniform per head for W_Q, W_K, W_V and for W_O as a whole; uniform on +-1/sqrt(inputs) for embedding and
 * decoder and their biases (torch.nn.Linear's default). */
void mhas_model_initialise(mhas_model *model, mhas_random random);

/* One slice of the parameters, in double; of the best ones; of the gradient. */
void mhas_model_set(mhas_model *model, mhas_slice slice, const double *values);
void mhas_model_get(const mhas_model *model, mhas_slice slice, double *values);
void mhas_model_get_best(const mhas_model *model, mhas_slice slice, double *values);
void mhas_model_get_gradient(const mhas_model *model, mhas_slice slice, double *values);

/*
 * In all of these the samples have the model's n, d, sharing and precision, `picks` names `count` <= batch of them, and
 * the loss is a mean over them: of cross-entropy, or of squared errors.
 */

/* The outputs (count, C), in double. */
void mhas_model_forward(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count,
                        double *outputs);

/* Computes the gradient of the loss with respect to every parameter, and returns the loss. */
double mhas_model_gradient(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count);

/* Sums over samples, so that callers can add up blocks. */
typedef struct mhas_score {
  double loss;
  int64_t right; /* samples whose largest output (the first, if several are) is their class; 0 in regression */
} mhas_score;

/* The score on samples first .. first + count - 1, count <= batch. */
mhas_score mhas_model_score(mhas_model *model, const mhas_samples *samples, int64_t first, int64_t count);

/* ---- training ---- */

/* Adam as torch.optim.Adam has it, without weight decay (Kingma and Ba 2015, arXiv 1412.6980). */
typedef struct mhas_adam {
  double beta1, beta2, epsilon;
} mhas_adam;

/* Moves the parameters along the last gradient; the number of updates so far corrects Adam's bias. */
void mhas_model_update(mhas_model *model, const mhas_adam *adam, double lr);

/* Remembers the parameters as the best so far. */
void mhas_model_keep_best(mhas_model *model);

/* torch's SequentialLR of LinearLR and CosineAnnealingLR. */
typedef struct mhas_schedule {
  double lr;           /* at the end of the warm-up */
  double warmup;       /* share of the steps: floor(steps warmup) of them */
  double warmup_start; /* learning rate of the first step, as a share of lr */
  double lr_end;       /* learning rate at the end, as a share of lr */
  int64_t steps;
} mhas_schedule;

double mhas_schedule_lr(const mhas_schedule *schedule, int64_t step); /* step = 0 .. steps - 1 */

#endif
