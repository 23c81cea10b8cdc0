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

/* ---- variants of attention ---- */

/* How the logits of a head become weights on the n context rows. */
typedef enum mhas_weighting {
  MHAS_SOFTMAX, /* sums to 1 over the rows */
  MHAS_LINEAR,  /* the logits, divided by n */
  MHAS_HARD     /* 1 at the largest logit (the first, if several are), else 0; so W_Q and W_K have no gradient */
} mhas_weighting;

/*
 * Composing mixes the H numbers (logits or weights) a of every query and context row: a becomes
 *   a (I + B)  +  ((a w_q1) w_q2 + a * g_q)  +  ((a w_k1) w_k2 + a * g_k)
 * of which a variant has any of three branches. B (H, H) is learned. w_q1 (H, R), w_q2 (R, H) and the gate g_q (H) are
 * made from the attention's query input x; w_k1, w_k2 and g_k in the same way from the context row:
 *   (w_1; w_2) = GELU(x W_in) W_out,  w_1 then divided by its root mean square over the heads;  g = tanh(x W_gate).
 * Of the logits it is done before the weighting (pre), of the weights behind it (post). GELU is the tanh form, and the
 * mean square gets 1e-6 added. The base branch alone, pre and post, is talking heads.
 * Sources: Xiao et al., "Improving Transformers with Dynamically Composable Multi-Head Attention", ICML 2024, arXiv
 * 2405.08553; Shazeer et al., "Talking-Heads Attention", 2020, arXiv 2003.02436.
 */
typedef enum mhas_branch { MHAS_BRANCH_BASE = 1, MHAS_BRANCH_QUERY = 2, MHAS_BRANCH_KEY = 4 } mhas_branch;
typedef enum mhas_stage { MHAS_PRE, MHAS_POST, MHAS_STAGES } mhas_stage;

/* All zero: softmax attention. */
typedef struct mhas_variant {
  mhas_weighting weighting;
  unsigned compose[MHAS_STAGES]; /* mhas_branch bits */
  int64_t rank;                  /* R; at least 1 where a query or key branch is on */
  double scale; /* factor on the initial B, W_out and W_gate; at 0 composing starts as the identity, exactly */
} mhas_variant;

/* Whether it is softmax attention without composing. */
bool mhas_variant_is_softmax(const mhas_variant *variant);

/* The numbers of all composing arrays together, and their initial values: W_in normal with variance 2 / (d + 2 R H),
 * W_out of standard deviation 0.02 scale / (sqrt(2 R H) (H + R)), W_gate of 0.005 scale sqrt(2 / (d + H)), B of 0.1
 * scale / sqrt(H), as the authors of DCMHA have them. */
int64_t mhas_variant_parameters(const mhas_variant *variant, int64_t heads, int64_t dim);
void mhas_variant_draw(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_random random, double *compose);

/*
 * The rank of Z that a shared context cannot pass (derived). Weights that sum to 1 over the rows, as softmax and hard
 * ones do: H (n - 1) + 1. A mixing that is the same for all samples, as the base branch is and, the context being
 * shared, that of the keys, is a linear map of the weights and leaves that bound; weights that queries mix: H n. Linear
 * weights that queries do not mix are linear in the query: min(d, H min(n, d_h)).
 */
int64_t mhas_variant_bound_shared(const mhas_variant *variant, int64_t heads, int64_t context, int64_t dim,
                                  int64_t key_dim);

/* ---- features: attention with given W_Q and W_K, nothing trained ---- */

typedef struct mhas_features_shape {
  int64_t heads, dim, key_dim, context;
  bool shared;        /* all samples have the same context */
  double logit_scale; /* factor on the logits, which are divided by sqrt(d) */
  mhas_variant variant;
} mhas_features_shape;

/*
 * How many samples mhas_features is best given at once, and the doubles of scratch it needs for them. Calls for a part
 * of the samples are to start at multiples of that: then an entry of Z has the same bits whatever T is and whoever
 * computes it, and whatever H is, if heads are not composed.
 */
int64_t mhas_features_block(const mhas_features_shape *shape, int64_t samples);
int64_t mhas_features_scratch(const mhas_features_shape *shape, int64_t block);

/*
 * Z (count, H d): row t is z_1(t) .. z_H(t) with z_h = E^T theta_h, theta_h = softmax(E u_h), u_h = W_K,h (W_Q,h^T e)
 * (section 2 of the paper), or what the variant makes of the logits. E is (count, n, d), or (n, d) if shared; e (count,
 * d); W_Q and W_K (H, d, d_h); compose the arrays of mhas_variant_draw, one behind the other in the order of
 * mhas_slice, not read if there are none. Every size has to fit BLAS's int (mhas_features_check). Returns how many of
 * the count H heads are saturated: their largest attention weight, before any composing of weights, is above 0.99.
 */
int64_t mhas_features(const mhas_features_shape *shape, int64_t count, const double *E, const double *e,
                      const double *W_Q, const double *W_K, const double *compose, double *scratch, double *Z);
/* The weights on the context rows (count, H, n) of the last call; they live in its scratch. */
const double *mhas_features_attention(const double *scratch);

/*
 * What that is made of: features and attention of at most mhas_features_block samples and of at most G =
 * mhas_features_tile_heads heads, the first of which is a multiple of G; W_Q and W_K start with it. What is beyond
 * count and heads means nothing.
 */
typedef struct mhas_features_part {
  const double *z;         /* (count, G, d); both live in the scratch */
  const double *attention; /* (count, G, n) */
  int64_t saturated;
} mhas_features_part;

int64_t mhas_features_tile_heads(const mhas_features_shape *shape);
int64_t mhas_features_tile_scratch(const mhas_features_shape *shape);
mhas_features_part mhas_features_tile(const mhas_features_shape *shape, int64_t count, int64_t heads, const double *E,
                                      const double *e, const double *W_Q, const double *W_K, const double *compose,
                                      double *scratch);

/* Where the samples of a Z that is made in place come from: any of them, any time, on any rank. */
typedef struct mhas_features_samples {
  int64_t count; /* T */
  /* Contexts first .. first + count - 1 into E; the shared one, if it is. */
  mhas_code (*contexts)(void *context, int64_t first, int64_t count, double *E, mhas_error *error);
  mhas_code (*queries)(void *context, int64_t first, int64_t count, double *e, mhas_error *error);
  void *context;
} mhas_features_samples;

/*
 * Z (T x H d) spread over a grid: every rank makes its own entries, the same bits as mhas_features makes. Weights are
 * as for mhas_features, on every rank. *saturated is counted over all ranks. Collective over Z's grid, whose watch is
 * asked now and then.
 */
mhas_code mhas_features_cyclic(const mhas_features_shape *shape, const mhas_features_samples *samples,
                               const double *W_Q, const double *W_K, const double *compose, mhas_cyclic *Z,
                               int64_t *saturated, mhas_error *error);
mhas_code mhas_features_check(const mhas_features_shape *shape, int64_t samples, mhas_error *error);
double mhas_features_flops(const mhas_features_shape *shape, int64_t samples);

/* W_Q and W_K (H, d, d_h), uniform on +-sqrt(6 / (d + d_h)) (Xavier, per head); the first heads are the same for any H.
 */
void mhas_xavier_query_key(int64_t heads, int64_t dim, int64_t key_dim, mhas_random random, double *W_Q, double *W_K);

/*
 * Weights by the proof of the theorem instead of chance: for each head, W_K W_Q^T is made so that its features add
 * r - 1 to the rank of Z on samples of the head's own, r for the first one; r = min(n, d_h, d). They depend on the data
 * of the first H (r - 1) + 1 samples only. saturation_gain is the factor c of the proof (its limit is infinity); peak
 * is the logarithm by which an owned sample's attention favours one row of its context.
 */
int64_t mhas_construct_rank(const mhas_features_shape *shape); /* r */
/* How many samples a head owns, and the first of them. */
int64_t mhas_construct_owned(const mhas_features_shape *shape, int64_t head, int64_t *first);
/* W_Q and W_K (d, d_h) of one head from the data of its own samples: E (count, n, d), or (n, d) if shared; e (count,
 * d).
 */
mhas_code mhas_construct_head(const mhas_features_shape *shape, int64_t head, double saturation_gain, double peak,
                              mhas_random random, const double *E, const double *e, double *W_Q, double *W_K,
                              mhas_error *error);
double mhas_construct_flops(const mhas_features_shape *shape); /* of all heads */
double mhas_construct_bytes(const mhas_features_shape *shape); /* allocated meanwhile, with a head's data */

/* What stands before the attention of the trained model below: x -> x weight + bias + position. */
typedef struct mhas_embedding {
  int64_t dim;
  double position_base;
  const double *weight; /* (d, d) */
  const double *bias;   /* (d) */
} mhas_embedding;

/* out (count, d) = the embedded rows of x (count, d); row i is at position first_position + i mod period. count and d
 * have to fit BLAS's int. */
void mhas_embed(const mhas_embedding *embedding, int64_t count, int64_t first_position, int64_t period, const double *x,
                double *out);

/* The columns of theory beside every measurement (arXiv 2306.02010): H (min(n, d_h) - 1) + 1; H (n - 1) + 1; H d. */
int64_t mhas_bound_lower(int64_t heads, int64_t context, int64_t key_dim);
int64_t mhas_bound_shared(int64_t heads, int64_t context);
int64_t mhas_bound_width(int64_t heads, int64_t dim);

/* ---- the trained model ---- */

/* What is drawn anew for every training step; all zero: nothing. */
typedef struct mhas_disturbance {
  double dropout; /* share of the weights on context rows set to 0; the others grow by 1 / (1 - dropout) */
  double noise;   /* standard deviation of the normal numbers added to the queries */
} mhas_disturbance;

/*
 * Query and context rows are embedded (linear, with bias) and get sinusoidal positions, the query that of row 0; H
 * heads attend from the query to the n context rows; W_O joins the heads' values; a linear decoder with bias follows.
 * No skip connection, no normalisation, no other bias. Composing is fed with the embedded query and rows.
 */
typedef struct mhas_model_shape {
  int64_t heads, dim, key_dim, value_dim, out_dim, context;
  bool shared;          /* all samples have the same context */
  int64_t classes;      /* C; 0: regression, one output */
  double logit_scale;   /* factor on the logits, which are divided by sqrt(d) */
  double position_base; /* 10000 in the paper */
  mhas_variant variant;
  mhas_disturbance disturbance;
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
  /* composing of logits; arrays of branches that are off are empty */
  MHAS_PRE_BASE,       /* (H, H) */
  MHAS_PRE_QUERY_IN,   /* (d, 2 R H) */
  MHAS_PRE_QUERY_OUT,  /* (2 R H, 2 R, H): R rows of w_1, R rows of w_2 */
  MHAS_PRE_QUERY_GATE, /* (d, H) */
  MHAS_PRE_KEY_IN,     /* (d, 2 R H) */
  MHAS_PRE_KEY_OUT,    /* (2 R H, 2 R, H) */
  MHAS_PRE_KEY_GATE,   /* (d, H) */
  /* composing of weights */
  MHAS_POST_BASE,
  MHAS_POST_QUERY_IN,
  MHAS_POST_QUERY_OUT,
  MHAS_POST_QUERY_GATE,
  MHAS_POST_KEY_IN,
  MHAS_POST_KEY_OUT,
  MHAS_POST_KEY_GATE,
  MHAS_SLICES
} mhas_slice;

enum { MHAS_SLICE_RANK = 3 };
/* embedding, embedding_bias, W_Q, W_K, W_V, W_O, decoder, decoder_bias, pre_base, pre_query_in ... post_key_gate */
const char *mhas_slice_name(mhas_slice slice);
int mhas_slice_shape(const mhas_model_shape *shape, mhas_slice slice, int64_t sizes[MHAS_SLICE_RANK]); /* its rank */
int64_t mhas_slice_count(const mhas_model_shape *shape, mhas_slice slice);
int64_t mhas_model_parameters(const mhas_model_shape *shape);

/* Floating-point operations on `count` samples: the forward pass; forward and backward; and one update by Adam. They
 * are those of the order of products that is cheapest for a step of `batch` samples, the one that a model made for that
 * batch takes; what it needs once for all samples is counted once. */
double mhas_model_forward_flops(const mhas_model_shape *shape, int64_t batch, double count);
double mhas_model_gradient_flops(const mhas_model_shape *shape, int64_t batch, double count);
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
 * decoder and their biases (torch.nn.Linear's default); composing as mhas_variant_draw. */
void mhas_model_initialise(mhas_model *model, mhas_random random);

/* One slice of the parameters, in double; of the best ones; of the gradient. */
void mhas_model_set(mhas_model *model, mhas_slice slice, const double *values);
void mhas_model_get(const mhas_model *model, mhas_slice slice, double *values);
void mhas_model_get_best(const mhas_model *model, mhas_slice slice, double *values);
void mhas_model_get_gradient(const mhas_model *model, mhas_slice slice, double *values);

/*
 * In all of these the samples have the model's n, d, sharing and precision, `picks` names `count` <= batch of them, and
 * the loss is a mean over them: of cross-entropy, or of squared errors. Between calls the parameters change by the
 * calls of this header alone.
 */

/* The outputs (count, C), in double. */
void mhas_model_forward(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count,
                        double *outputs);

/* Computes the gradient of the loss with respect to every parameter, and returns the loss. */
double mhas_model_gradient(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count);

/* The weights on the context rows (count, H, n) for samples first .. first + count - 1, count <= batch. */
void mhas_model_attention(mhas_model *model, const mhas_samples *samples, int64_t first, int64_t count, double *maps);

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

/* Draws the disturbance of training step `step` (a pure function of it). It acts on the next gradient and on nothing
 * else. Does nothing for a shape without disturbance. */
void mhas_model_disturb(mhas_model *model, mhas_random random, int64_t step);

/* Decoupled decay, as AdamW does before its update: every parameter w becomes w (1 - lr decay). */
void mhas_model_decay(mhas_model *model, double lr, double decay);

/* The proximal step of an L1 penalty, for behind an update: every parameter goes lr l1 nearer to zero and stops there.
 */
void mhas_model_shrink(mhas_model *model, double lr, double l1);

/* Remembers the parameters as the best so far; makes them the parameters again. */
void mhas_model_keep_best(mhas_model *model);
void mhas_model_load_best(mhas_model *model);

/* What a training changes of a model, for a checkpoint: parameters, moments, number of updates, best parameters. They
 * stay where they are for the model's life, and are to be written only before its first pass. */
enum { MHAS_MODEL_PIECES = 5 };
void mhas_model_pieces(mhas_model *model, mhas_piece pieces[MHAS_MODEL_PIECES]);

/* ---- compression ---- */

/* Sets the floor(share P) parameters of least magnitude, of all P together, to zero; of equal ones the first. */
mhas_code mhas_model_prune(mhas_model *model, double share, mhas_error *error);

/* Rounds every parameter to the nearest of the 2^bits - 1 multiples k s, |k| <= 2^(bits-1) - 1, where its array's
 * largest magnitude is the last multiple. bits >= 2. */
mhas_code mhas_model_quantize(mhas_model *model, int bits, mhas_error *error);

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
