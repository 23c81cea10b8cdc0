/* Attention variants as a sweep file names them: what probe and memorize share. */
#ifndef MHASWEEP_EXPERIMENTS_VARIANT_H
#define MHASWEEP_EXPERIMENTS_VARIANT_H

#include "mhasweep/experiments.h"
#include "mhasweep/model.h"

/* Where a table has the parameters of a variant, one behind the other. */
typedef enum variant_parameter {
  VARIANT_ATTENTION,
  VARIANT_COMPOSE_PRE,
  VARIANT_COMPOSE_POST,
  VARIANT_COMPOSE_RANK,
  VARIANT_COMPOSE_SCALE,
  VARIANT_MATCH_PARAMETERS,
  VARIANT_PARAMETERS
} variant_parameter;

extern const char *const mhas_attention_words[];
extern const char *const mhas_compose_words[]; /* in the order of the masks of mhas_branch */

/* Their rows in the table; `first` is the index of the first. */
#define VARIANT_TABLE(first)                                                                                           \
  [(first) +                                                                                                           \
      VARIANT_ATTENTION] = {"attention",                                                                               \
                            MHAS_CHOICE,                                                                               \
                            "1",                                                                                       \
                            "softmax",                                                                                 \
                            0,                                                                                         \
                            0,                                                                                         \
                            mhas_attention_words,                                                                      \
                            "weights on the context rows: softmax; linear: logits / n; hard: 1 at the "                \
                            "largest logit, so W_Q and W_K get no gradient; talking_heads: softmax between "           \
                            "two learned mixings of the heads (arXiv 2003.02436); dcmha: softmax between "             \
                            "two that depend on query and row (arXiv 2405.08553)"},                                    \
      [(first) + VARIANT_COMPOSE_PRE] = {"compose_pre",                                                                \
                                         MHAS_CHOICE,                                                                  \
                                         "1",                                                                          \
                                         "query_key",                                                                  \
                                         0,                                                                            \
                                         0,                                                                            \
                                         mhas_compose_words,                                                           \
                                         "dcmha: branches that mix the heads' logits: base is a learned matrix added " \
                                         "to the identity, query and key are generated"},                              \
      [(first) + VARIANT_COMPOSE_POST] = {"compose_post",                                                              \
                                          MHAS_CHOICE,                                                                 \
                                          "1",                                                                         \
                                          "query_key",                                                                 \
                                          0,                                                                           \
                                          0,                                                                           \
                                          mhas_compose_words,                                                          \
                                          "dcmha: branches that mix the heads' weights, behind the softmax"},          \
      [(first) + VARIANT_COMPOSE_RANK] = {"compose_rank",                                                              \
                                          MHAS_INTEGER,                                                                \
                                          "1",                                                                         \
                                          "2",                                                                         \
                                          1,                                                                           \
                                          256,                                                                         \
                                          NULL,                                                                        \
                                          "dcmha: rank R of the generated mixings, besides their diagonal"},           \
      [(first) + VARIANT_COMPOSE_SCALE] = {"compose_scale",                                                            \
                                           MHAS_REAL,                                                                  \
                                           "1",                                                                        \
                                           "1.0",                                                                      \
                                           0,                                                                          \
                                           1e12,                                                                       \
                                           NULL,                                                                       \
                                           "factor on the random mixings' initial size, which is the authors' (close " \
                                           "to the identity); 0 is the identity"},                                     \
      [(first) + VARIANT_MATCH_PARAMETERS] = {                                                                         \
          "match_parameters",                                                                                          \
          MHAS_FLAG,                                                                                                   \
          "1",                                                                                                         \
          "false",                                                                                                     \
          0,                                                                                                           \
          1,                                                                                                           \
          NULL,                                                                                                        \
          "take as many key dimensions from every head as the mixings have parameters: the total is that of softmax "  \
          "attention with this key_dim, as nearly as whole dimensions allow"}

/* The variant; `chosen` are its parameters' values. */
mhas_variant mhas_variant_chosen(const mhas_value chosen[VARIANT_PARAMETERS]);

/* The key dimensions in use: key_dim, or fewer to match parameters. May be 0 or less: mhas_variant_check. */
int64_t mhas_variant_key_dim(const mhas_value chosen[VARIANT_PARAMETERS], int64_t heads, int64_t dim, int64_t key_dim);

/* MHAS_USAGE if key_dim has too little to give, or a mixing is too large. */
mhas_code mhas_variant_check(const mhas_value chosen[VARIANT_PARAMETERS], int64_t heads, int64_t dim, int64_t key_dim,
                             mhas_error *error);

/* The arrays of the mixings (`store: weights`), and of the maps of `samples` samples (`store: attention`): as an
 * experiment's `arrays`. */
int mhas_variant_arrays(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_array *out);
mhas_array mhas_attention_array(int64_t samples, int64_t heads, int64_t context);

#endif
