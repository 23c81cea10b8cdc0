#include "experiments/from_source.h"

enum { CONTEXT_BAG = 2 };

const char *const source_context_types[] = {"own", "shared", "bag", NULL};
const char *const source_distributions[] = {"uniform", "gaussian", NULL};
const char *const source_kinds[] = {"synthetic", "patches", "tokens", NULL};
const char *const source_stages[] = {"embedding", "attention", "transformer", NULL};
const char *const source_positions[] = {"random", "sinusoidal", NULL};

/* The words above are in the order of the enums. */
mhas_source_shape source_shape(const mhas_value *first, int64_t context_type, const mhas_data_shape *data) {
  return (mhas_source_shape){
      .data = *data,
      .kind = (mhas_source_kind)first[SOURCE_KIND].integer,
      .bag = context_type == CONTEXT_BAG ? first[SOURCE_BAG].integer : 0,
      .stage = (mhas_source_stage)first[SOURCE_STAGE].integer,
      .path = first[SOURCE_PATH].text,
      .patch = first[SOURCE_PATCH].integer,
      .positions = (mhas_positions)first[SOURCE_POSITIONS].integer,
  };
}
