/*
 * The rows that wait to be run: those for one rank by their cost, and those for teams, widest first. Pure.
 */
#ifndef MHASWEEP_FARM_QUEUE_H
#define MHASWEEP_FARM_QUEUE_H

#include "farm/pace.h"
#include "mhasweep/base.h"

enum { MHAS_QUEUE_BUCKETS = 1024 }; /* sign-less exponent (8 bits) and the first 2 bits of the mantissa of a float */

typedef struct mhas_wide_row {
  int64_t row;
  float flops;
  int32_t ranks;
  bool taken;
} mhas_wide_row;

typedef struct mhas_queue {
  /* For one rank: quarter octave by quarter octave of cost, rows ascending within one. Handing out moves a bucket's
   * `next`, so no row can go out twice or be forgotten. */
  int64_t *rows;
  float *flops;
  int64_t next[MHAS_QUEUE_BUCKETS], end[MHAS_QUEUE_BUCKETS];
  int top;           /* no bucket above it has rows left */
  uint32_t bottom;   /* buckets up to this one are one */
  int64_t left;      /* rows */
  double flops_left; /* of them */

  /* For teams: by ranks, then by cost, both descending. */
  mhas_wide_row *wide;
  int64_t wide_count, wide_next; /* those before the next one are taken */
  int64_t wide_left;
  double wide_flops_left, wide_ranks_left; /* sums over those that wait */

  int64_t stranded; /* rows that need more ranks than there ever are: they are not in the queue */
  int widest;       /* the most ranks that one of those needs */
} mhas_queue;

/* ranks: NULL if no row wants a team. small_flops: rows below such a cost need no order among them. */
mhas_code mhas_queue_create(const int64_t *rows, const float *flops, const int32_t *ranks, int64_t count,
                            int ranks_most, double small_flops, mhas_queue *queue, mhas_error *error);
void mhas_queue_free(mhas_queue *queue);

/* The rows that wait for a team, one after the other: the first one behind `last` (NULL: of all); NULL at the end. They
 * stay the queue's for good. */
mhas_wide_row *mhas_queue_wide(const mhas_queue *queue, const mhas_wide_row *last);
void mhas_queue_take_wide(mhas_queue *queue, mhas_wide_row *wide);

/*
 * Takes rows for one rank: the costliest one that takes no longer than `room` seconds by this pace, and after it rows
 * of its bucket, up to `most` rows and the lesser of `aim` and `room` seconds. Returns *count of them, ascending, and
 * their cost; NULL if none fits. They stay the queue's for good.
 */
const int64_t *mhas_queue_take(mhas_queue *queue, const mhas_pace *pace, int64_t most, double aim, double room,
                               int64_t *count, double *flops);

/* The cost of the costliest row for one rank; 0 if there is none. */
double mhas_queue_costliest(const mhas_queue *queue);

/* The cost of a row of those that were taken, by its address in what mhas_queue_take returned. */
double mhas_queue_flops(const mhas_queue *queue, const int64_t *row);

#endif
