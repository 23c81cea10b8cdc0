/* The parameters that say where contexts and queries come from, the same in every experiment that has them. */
#ifndef MHASWEEP_EXPERIMENTS_FROM_SOURCE_H
#define MHASWEEP_EXPERIMENTS_FROM_SOURCE_H

#include "mhasweep/experiments.h"
#include "mhasweep/source.h"

/* Places behind that of the first. */
enum { SOURCE_KIND, SOURCE_STAGE, SOURCE_PATH, SOURCE_PATCH, SOURCE_POSITIONS, SOURCE_BAG, SOURCE_PARAMETER_COUNT };

extern const char *const source_context_types[]; /* own, shared, bag: the choices of context_type */
extern const char *const source_distributions[]; /* uniform, gaussian */
extern const char *const source_kinds[];
extern const char *const source_stages[];
extern const char *const source_positions[];

#define SOURCE_CONTEXT_TYPE                                                                                 \
  {                                                                                                         \
    "context_type", MHAS_CHOICE, "1", "own", 0, 0, source_context_types,                                    \
        "own: every sample has a context of its own; shared: all have the same one; bag: every sample has " \
        "distinct rows of one bag of vectors (source: synthetic)"                                           \
  }

#define SOURCE_DISTRIBUTION                                                                                \
  {                                                                                                        \
    "distribution", MHAS_CHOICE, "1", "uniform", 0, 0, source_distributions,                               \
        "of the entries of contexts and queries (source: synthetic): uniform on [0, 1) or standard normal" \
  }

/* For the table, from place `first` on. */
#define SOURCE_PARAMETERS(first)                                                                                       \
  [(first) +                                                                                                           \
      SOURCE_KIND] = {"source",                                                                                        \
                      MHAS_CHOICE,                                                                                     \
                      "1",                                                                                             \
                      "synthetic",                                                                                     \
                      0,                                                                                               \
                      0,                                                                                               \
                      source_kinds,                                                                                    \
                      "of contexts and queries: random numbers; patches of the images of an IDX file, with a "         \
                      "[CLS] row that is also the query; tokens of an .npy or HDF5 file, the query first"},            \
      [(first) + SOURCE_STAGE] = {"stage",                                                                             \
                                  MHAS_CHOICE,                                                                         \
                                  "1",                                                                                 \
                                  "embedding",                                                                         \
                                  0,                                                                                   \
                                  0,                                                                                   \
                                  source_stages,                                                                       \
                                  "what they have passed: nothing; a random attention layer with skip; a random "      \
                                  "transformer block (one head, LN first)"},                                           \
      [(first) +                                                                                                       \
          SOURCE_PATH] = {"path", MHAS_TEXT,                                                                           \
                          "1",    "",                                                                                  \
                          0,      0,                                                                                   \
                          NULL,   "of the file (source: patches | tokens), from the folder where the sweep is run"},   \
      [(first) + SOURCE_PATCH] = {"patch", MHAS_INTEGER, "1",  "4",                                                    \
                                  1,       1 << 12,      NULL, "side of a patch (source: patches), in pixels"},        \
      [(first) + SOURCE_POSITIONS] = {"positions",                                                                     \
                                      MHAS_CHOICE,                                                                     \
                                      "1",                                                                             \
                                      "random",                                                                        \
                                      0,                                                                               \
                                      0,                                                                               \
                                      source_positions,                                                                \
                                      "of the rows (source: patches): normal, of deviation 0.02, as learned ones are " \
                                      "initialised; or sinusoidal"},                                                   \
      [(first) +                                                                                                       \
          SOURCE_BAG] = {"bag", MHAS_INTEGER, "1", "500", 1, 1 << 20, NULL, "vectors in the bag (context_type: bag)"}

/* The shape of the source; `first` points to the value of the first of its parameters, `context_type` is that choice's
 * value. */
mhas_source_shape source_shape(const mhas_value *first, int64_t context_type, const mhas_data_shape *data);

#endif
