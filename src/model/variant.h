/* What the composing arrays of a variant look like and cost, from their sizes alone. H heads, n context, d dim. */
#ifndef MHASWEEP_MODEL_VARIANT_H
#define MHASWEEP_MODEL_VARIANT_H

#include "mhasweep/model.h"

/* A stage's arrays in the order of mhas_slice, counted from its first. */
enum { PART_BASE, PART_QUERY_IN, PART_QUERY_OUT, PART_QUERY_GATE, PART_KEY_IN, PART_KEY_OUT, PART_KEY_GATE, PARTS };

bool composes(const mhas_variant *variant); /* in any stage */
bool composes_with(const mhas_variant *variant, mhas_branch branch);
bool generates(const mhas_variant *variant); /* composes with coefficients made from queries or context rows */

/* 2 R H: the width of what is generated for a query or a context row. */
int64_t compose_width(const mhas_variant *variant, int64_t heads);

/* As mhas_slice_shape, for the slices from MHAS_PRE_BASE on; sizes are 0 where the branch is off. */
int compose_slice_shape(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_slice slice,
                        int64_t sizes[MHAS_SLICE_RANK]);
int64_t compose_slice_count(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_slice slice);

/* Initial values number first .. first + count - 1 of a slice. */
void compose_draw(const mhas_variant *variant, int64_t heads, int64_t dim, mhas_random random, mhas_slice slice,
                  int64_t first, int64_t count, double *values);

/* Of the forward pass over `count` queries and `rows` context rows; the backward pass takes twice as many. */
double compose_flops(const mhas_variant *variant, int64_t heads, int64_t context, int64_t dim, double count,
                     double rows);

mhas_code compose_check(const mhas_variant *variant, int64_t heads, mhas_error *error);

#endif
