/*
 * What rows take: seconds = per_flop * flops + per_row * rows, learned from chunks that ended. Pure.
 */
#ifndef MHASWEEP_FARM_PACE_H
#define MHASWEEP_FARM_PACE_H

#include <stdint.h>

enum { MHAS_PACE_KINDS = 64, MHAS_PACE_MEMORY = 32 };

/* What is remembered of the rows of one octave of cost: sums over its last chunks, some MHAS_PACE_MEMORY of them. */
typedef struct mhas_pace_kind {
  double chunks, flops, rows, seconds;
} mhas_pace_kind;

typedef struct mhas_pace {
  double per_flop, per_row; /* seconds; a guess while nothing is learned */
  int64_t learned;          /* chunks so far */
  mhas_pace_kind kinds[MHAS_PACE_KINDS];
} mhas_pace;

void mhas_pace_start(mhas_pace *pace);
void mhas_pace_learn(mhas_pace *pace, double flops, double rows, double seconds);
double mhas_pace_seconds(const mhas_pace *pace, double flops, double rows);

#endif
