/* The inside of a mhas_model: its buffers, and the kernels that work on them in one precision or the other. */
#ifndef MHASWEEP_MODEL_PARTS_H
#define MHASWEEP_MODEL_PARTS_H

#include "mhasweep/model.h"
#include "model/order.h"
#include "model/small.h"

/* Arrays of float or double. B: batch; N: context rows at work, B n or (shared) n. */
typedef enum mhas_buffer {
  /* as long as the parameter vector */
  PARAMETERS,
  GRADIENT,
  MOMENT1,
  MOMENT2,
  BEST,
  POSITIONS, /* (n + 1, d) */
  /* the batch, gathered */
  CONTEXTS, /* (N, d) */
  QUERIES,  /* (B, d) */
  TARGETS,  /* (B), regression */
  /* activations and their gradients */
  KEYS,     /* (N, d): embedded contexts */
  D_KEYS,   /* (N, d) */
  X,        /* (B, d): embedded queries */
  D_X,      /* (B, d) */
  Q,        /* (H, B, d_h) */
  D_Q,      /* (B, d_h): of one head at a time */
  U,        /* (B, H, d) */
  D_U,      /* (B, H, d) */
  THETA,    /* (B, H, n): attention */
  D_THETA,  /* (B, H, n) */
  Z,        /* (B, H, d): features */
  D_Z,      /* (B, H, d) */
  VALUES,   /* (B, H, d_v) */
  D_VALUES, /* (B, H, d_v) */
  JOINED,   /* (B, d_o) */
  D_JOINED, /* (B, d_o) */
  OUTPUTS,  /* (B, C): outputs, then what the loss makes of them, then their gradient */
  SUMS,     /* (2, B): scratch of the loss */
  /* of variants; empty where they are not used */
  SCORES,   /* (B, H, n): logits before they are composed */
  WEIGHTS,  /* (B, H, n): weights before they are composed */
  D_SCORES, /* (B, H, n) */
  COMPOSE,  /* the coefficients of composing and their gradients */
  MASK,     /* (B, H, n): dropout's factors on THETA */
  DROPPED,  /* (B, H, n): THETA times MASK */
  NOISE,    /* (B, d): added to QUERIES */
  /* of the folded order (fold.h): r rows, D = d + 1; empty in the other, which has what is only its own */
  E1,             /* (B, D): queries, and a one */
  ROWS,           /* (r, d) */
  D_ROWS,         /* (r, d) */
  INPUT,          /* (D, d) */
  D_INPUT,        /* (D, d) */
  KEY_MAP,        /* (H, r, d_h) */
  D_KEY_MAP,      /* (H, r, d_h) */
  QUERY_MAP,      /* (D, H, d_h) */
  D_QUERY_MAP,    /* (D, H, d_h) */
  JOINED_MAP,     /* (H, r, D) */
  D_JOINED_MAP,   /* (H, r, D) */
  VALUE_MAP,      /* (H, d_v, r) */
  D_VALUE_MAP,    /* (H, d_v, r) */
  SHIFT,          /* (H, d_v) */
  D_SHIFT,        /* (H, d_v) */
  LOGITS,         /* (B, H, r), then their gradient */
  ROW_VALUES,     /* (B, H, n): values of context rows, before they are weighed */
  MEANS,          /* (B, H): weighted means of ROW_VALUES */
  TURNED_CONTEXT, /* (d, n): of one sample */
  BUFFERS
} mhas_buffer;

typedef enum mhas_product {
  TO_KEY_MAP,
  TO_QUERY_MAP,
  TO_D_W_KEY,
  TO_D_W_QUERY,
  TO_D_KEY_MAP,
  TO_D_QUERY_MAP,
  ONTO_ROWS,
  VALUES_OF_ROWS,
  OVER_ROWS,
  INTO_ROWS,
  INTO_VALUE_MAP,
  PRODUCTS
} mhas_product;

/* One set per precision. `count` samples are at work. */
typedef struct mhas_kernels {
  void (*prepare)(mhas_model *model); /* a new model: what is the same in all its passes */
  double (*compose_work)(const mhas_model_shape *shape, int64_t batch); /* numbers in COMPOSE */
  /* Gathers the picked samples and runs the model up to OUTPUTS. */
  void (*forward)(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int64_t count);
  /* After forward: the summed loss, and how many outputs are right. */
  double (*loss)(mhas_model *model, int64_t count, int64_t *right);
  /* After loss: sets GRADIENT to that of the mean loss. */
  void (*backward)(mhas_model *model, int64_t count);
  void (*update)(mhas_model *model, const mhas_adam *adam, double lr);
  void (*decay)(mhas_model *model, double factor);
  void (*shrink)(mhas_model *model, double step);
  /* MASK and NOISE of a training step. */
  void (*disturb)(mhas_model *model, mhas_random random, int64_t step);
  void (*read)(const void *buffer, int64_t first, int64_t count, double *out);
  void (*write)(void *buffer, int64_t first, int64_t count, const double *values);
} mhas_kernels;

extern const mhas_kernels mhas_kernels_float;
extern const mhas_kernels mhas_kernels_double;

struct mhas_model {
  mhas_model_shape shape;
  mhas_precision precision;
  int64_t batch;
  mhas_order order;
  const mhas_kernels *kernels;
  const void *lanes; /* lanes_float or lanes_double */
  product product[PRODUCTS];
  bool folded;                 /* the folded maps are those of the parameters */
  const void *contexts;        /* those of the samples at work, in the folded order with own contexts */
  const int64_t *picked;       /* which of them */
  int64_t offset[MHAS_SLICES]; /* of each slice in the parameter vector, in numbers; multiples of a cache line */
  int64_t length;              /* of the parameter vector, padding (always zero) included */
  int64_t updates;             /* steps of Adam so far */
  bool disturb_next;           /* MASK and NOISE are drawn, for the next gradient */
  bool disturbed;              /* they are in use by this pass */
  void *buffer[BUFFERS];
  int64_t *classes; /* (B): the batch's labels, classification */
  int64_t *picks;   /* (B): scratch of mhas_model_score */
};

/* The numbers in a buffer, as a double: it may be more than can be allocated. `length` is of the parameter vector. */
double mhas_buffer_count(const mhas_model_shape *shape, mhas_order order, const mhas_kernels *kernels, int64_t length,
                         int64_t batch, mhas_buffer buffer);

#endif
