#include "model/variant.h"

#include <math.h>

bool composes(const mhas_variant *variant) {
  return variant->compose[MHAS_PRE] != 0 || variant->compose[MHAS_POST] != 0;
}

bool composes_with(const mhas_variant *variant, mhas_branch branch) {
  return ((variant->compose[MHAS_PRE] | variant->compose[MHAS_POST]) & (unsigned)branch) != 0;
}

bool generates(const mhas_variant *variant) {
  return composes_with(variant, MHAS_BRANCH_QUERY) || composes_with(variant, MHAS_BRANCH_KEY);
}

bool mhas_variant_is_softmax(const mhas_variant *variant) {
  return variant->weighting == MHAS_SOFTMAX && !composes(variant);
}

int64_t mhas_variant_bound_shared(const mhas_variant *variant, int64_t heads, int64_t context, int64_t dim,
                                  int64_t key_dim) {
  const bool post = (variant->compose[MHAS_POST] & MHAS_BRANCH_QUERY) != 0;
  const bool pre = (variant->compose[MHAS_PRE] & MHAS_BRANCH_QUERY) != 0;
  if (variant->weighting != MHAS_LINEAR) {
    return post ? heads * context : mhas_bound_shared(heads, context);
  }
  if (post || pre) {
    return heads * context;
  }
  const int64_t reached = heads * (context < key_dim ? context : key_dim);
  return dim < reached ? dim : reached;
}

/* ---- sizes ------------------------------------------------------------------ */

int64_t compose_width(const mhas_variant *variant, int64_t heads) { return 2 * variant->rank * heads; }

static int stage_of(mhas_slice slice) { return (int)(slice - MHAS_PRE_BASE) / PARTS; }
static int part_of(mhas_slice slice) { return (int)(slice - MHAS_PRE_BASE) % PARTS; }

static mhas_branch branch_of(int part) {
  return part == PART_BASE ? MHAS_BRANCH_BASE : part < PART_KEY_IN ? MHAS_BRANCH_QUERY : MHAS_BRANCH_KEY;
}

int compose_slice_shape(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_slice slice,
                        int64_t sizes[MHAS_SLICE_RANK]) {
  const int part = part_of(slice);
  const bool on = (variant->compose[stage_of(slice)] & (unsigned)branch_of(part)) != 0;
  const int64_t H = on ? heads : 0;
  const int64_t width = on ? compose_width(variant, heads) : 0;
  switch (part) {
    case PART_QUERY_IN:
    case PART_KEY_IN:
      sizes[0] = dim;
      sizes[1] = width;
      return 2;
    case PART_QUERY_OUT:
    case PART_KEY_OUT:
      sizes[0] = width;
      sizes[1] = 2 * variant->rank;
      sizes[2] = H;
      return 3;
    default:
      sizes[0] = part == PART_BASE ? H : dim;
      sizes[1] = H;
      return 2;
  }
}

int64_t compose_slice_count(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_slice slice) {
  int64_t sizes[MHAS_SLICE_RANK] = {0};
  const int rank = compose_slice_shape(variant, heads, dim, slice, sizes);
  return sizes[0] * sizes[1] * (rank == 3 ? sizes[2] : 1);
}

int64_t mhas_variant_parameters(const mhas_variant *variant, int64_t heads, int64_t dim) {
  int64_t count = 0;
  for (mhas_slice slice = MHAS_PRE_BASE; slice < MHAS_SLICES; slice++) {
    count += compose_slice_count(variant, heads, dim, slice);
  }
  return count;
}

/* ---- initial values ------------------------------------------------------------ */

/* Those of the authors' training code (arXiv 2405.08553), where composing starts near the identity. */
static double deviation(const mhas_variant *variant, int64_t heads, int64_t dim, int part) {
  const double H = (double)heads;
  const double d = (double)dim;
  const double width = (double)compose_width(variant, heads);
  switch (part) {
    case PART_BASE: return 0.1 * variant->scale / sqrt(H);
    case PART_QUERY_IN:
    case PART_KEY_IN: return sqrt(2.0 / (d + width));
    case PART_QUERY_OUT:
    case PART_KEY_OUT: return 0.02 * variant->scale / (sqrt(width) * (H + (double)variant->rank));
    default: return 0.005 * variant->scale * sqrt(2.0 / (d + H));
  }
}

void compose_draw(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_random random, mhas_slice slice,
                  int64_t first, int64_t count, double *values) {
  const mhas_stream stream = (mhas_stream)(MHAS_STREAM_COMPOSE + (int)(slice - MHAS_PRE_BASE));
  const double sigma = deviation(variant, heads, dim, part_of(slice));
  mhas_random_normal(random, stream, (uint64_t)first, (size_t)count, values);
  for (int64_t i = 0; i < count; i++) {
    values[i] *= sigma;
  }
}

void mhas_variant_draw(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_random random, double *compose) {
  for (mhas_slice slice = MHAS_PRE_BASE; slice < MHAS_SLICES; slice++) {
    const int64_t count = compose_slice_count(variant, heads, dim, slice);
    compose_draw(variant, heads, dim, random, slice, 0, count, compose);
    compose += count;
  }
}

/* ---- costs ----------------------------------------------------------------------- */

/* Three products, and about 10 operations for each GELU and tanh. */
static double generation_flops(const mhas_variant *variant, double H, double d) {
  const double width = 2.0 * (double)variant->rank * H;
  return 2.0 * (d * width + width * width + d * H) + 10.0 * (width + H);
}

double compose_flops(const mhas_variant *variant, int64_t heads, int64_t context, int64_t dim, double count,
                     double rows) {
  const double H = (double)heads;
  const double generation = generation_flops(variant, H, (double)dim);
  const double dynamic = (8.0 * (double)variant->rank + 2.0) * H; /* of one branch, for one query and context row */
  double flops = 0.0;
  for (int stage = 0; stage < MHAS_STAGES; stage++) {
    const unsigned branches = variant->compose[stage];
    const double pairs = count * (double)context;
    flops += (branches & MHAS_BRANCH_BASE) != 0 ? pairs * 2.0 * H * H : 0.0;
    flops += (branches & MHAS_BRANCH_QUERY) != 0 ? count * generation + pairs * dynamic : 0.0;
    flops += (branches & MHAS_BRANCH_KEY) != 0 ? rows * generation + pairs * dynamic : 0.0;
  }
  return flops;
}

mhas_code compose_check(const mhas_variant *variant, int64_t heads, mhas_error *error) {
  int unused = 0;
  if (!composes(variant)) {
    return MHAS_OK;
  }
  return mhas_narrow(compose_width(variant, heads), "2 * compose_rank * heads", &unused, error);
}
