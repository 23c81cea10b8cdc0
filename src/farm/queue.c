#include "farm/queue.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKET_SHIFT = 21 }; /* drops all but 2 bits of the mantissa */

/* ---- sorting ---- */

static float sane_flops(float flops) {
  if (!(flops > 0.0f)) { /* NaN too */
    return 0.0f;
  }
  return flops > FLT_MAX ? FLT_MAX : flops;
}

/* Rises with the cost. The bits of positive floats are ordered as the floats are. */
static uint32_t raw_bucket(float flops) {
  uint32_t bits = 0;
  memcpy(&bits, &flops, sizeof bits);
  return bits >> BUCKET_SHIFT;
}

static uint32_t bucket_of(const mhas_queue *queue, float flops) {
  const uint32_t bucket = raw_bucket(flops);
  return bucket < queue->bottom ? queue->bottom : bucket;
}

/* By ranks, then by cost, descending; then by row. */
static int compare_wide(const void *left, const void *right) {
  const mhas_wide_row *a = left;
  const mhas_wide_row *b = right;
  if (a->ranks != b->ranks) {
    return a->ranks > b->ranks ? -1 : 1;
  }
  if (a->flops != b->flops) {
    return a->flops > b->flops ? -1 : 1;
  }
  return (a->row > b->row) - (a->row < b->row);
}

typedef enum place { FOR_ONE, FOR_TEAM, NOWHERE } place;

static place place_of(const int32_t *ranks, int64_t i, int ranks_most) {
  if (ranks == NULL || ranks[i] <= 1) {
    return FOR_ONE;
  }
  return ranks[i] <= ranks_most ? FOR_TEAM : NOWHERE;
}

/* Sizes of the parts, the buckets' in end[]. */
static void count_rows(mhas_queue *queue, const float *flops, const int32_t *ranks, int64_t count, int ranks_most) {
  for (int64_t i = 0; i < count; i++) {
    switch (place_of(ranks, i, ranks_most)) {
      case FOR_ONE:
        queue->left++;
        queue->end[bucket_of(queue, sane_flops(flops[i]))]++;
        break;
      case FOR_TEAM: queue->wide_count++; break;
      case NOWHERE:
        queue->stranded++;
        queue->widest = ranks[i] > queue->widest ? ranks[i] : queue->widest;
        break;
    }
  }
}

/* A stable counting sort, the costliest bucket first. */
static void sort_rows(mhas_queue *queue, const int64_t *rows, const float *flops, const int32_t *ranks, int64_t count,
                      int ranks_most) {
  int64_t start = 0;
  for (int bucket = MHAS_QUEUE_BUCKETS - 1; bucket >= 0; bucket--) {
    const int64_t size = queue->end[bucket];
    queue->next[bucket] = queue->end[bucket] = start;
    start += size;
  }
  int64_t wide = 0;
  for (int64_t i = 0; i < count; i++) {
    const float cost = sane_flops(flops[i]);
    switch (place_of(ranks, i, ranks_most)) {
      case FOR_ONE: {
        const int64_t at = queue->end[bucket_of(queue, cost)]++;
        queue->rows[at] = rows[i];
        queue->flops[at] = cost;
        queue->flops_left += (double)cost;
        break;
      }
      case FOR_TEAM:
        queue->wide[wide++] = (mhas_wide_row){rows[i], cost, ranks[i], false};
        queue->wide_flops_left += (double)cost;
        queue->wide_ranks_left += ranks[i];
        break;
      case NOWHERE: break;
    }
  }
  queue->wide_left = wide;
  qsort(queue->wide, (size_t)queue->wide_count, sizeof *queue->wide, compare_wide);
}

mhas_code mhas_queue_create(const int64_t *rows, const float *flops, const int32_t *ranks, int64_t count,
                            int ranks_most, double small_flops, mhas_queue *queue, mhas_error *error) {
  *queue = (mhas_queue){.top = MHAS_QUEUE_BUCKETS - 1, .bottom = raw_bucket(sane_flops((float)small_flops))};
  count_rows(queue, flops, ranks, count, ranks_most);
  mhas_code code = mhas_alloc(&queue->rows, (size_t)queue->left, sizeof *queue->rows, "the queue's rows", error);
  if (code == MHAS_OK) {
    code = mhas_alloc(&queue->flops, (size_t)queue->left, sizeof *queue->flops, "the queue's costs", error);
  }
  if (code == MHAS_OK) {
    code =
        mhas_alloc(&queue->wide, (size_t)queue->wide_count, sizeof *queue->wide, "the queue's rows for teams", error);
  }
  if (code != MHAS_OK) {
    mhas_queue_free(queue);
    return code;
  }
  sort_rows(queue, rows, flops, ranks, count, ranks_most);
  return MHAS_OK;
}

void mhas_queue_free(mhas_queue *queue) {
  mhas_free(queue->rows);
  mhas_free(queue->flops);
  mhas_free(queue->wide);
  *queue = (mhas_queue){0};
}

/* ---- taking ---- */

mhas_wide_row *mhas_queue_wide(const mhas_queue *queue, const mhas_wide_row *last) {
  int64_t i = last == NULL ? queue->wide_next : last - queue->wide + 1;
  while (i < queue->wide_count && queue->wide[i].taken) {
    i++;
  }
  return i < queue->wide_count ? &queue->wide[i] : NULL;
}

void mhas_queue_take_wide(mhas_queue *queue, mhas_wide_row *wide) {
  wide->taken = true;
  queue->wide_left--;
  queue->wide_flops_left = queue->wide_left == 0 ? 0.0 : fmax(queue->wide_flops_left - (double)wide->flops, 0.0);
  queue->wide_ranks_left -= wide->ranks;
  while (queue->wide_next < queue->wide_count && queue->wide[queue->wide_next].taken) {
    queue->wide_next++;
  }
}

/* The highest bucket whose first row fits; -1 if there is none. */
static int find_bucket(mhas_queue *queue, const mhas_pace *pace, double room) {
  while (queue->top > 0 && queue->next[queue->top] == queue->end[queue->top]) {
    queue->top--;
  }
  for (int bucket = queue->top; bucket >= 0; bucket--) {
    const int64_t first = queue->next[bucket];
    if (first < queue->end[bucket] && mhas_pace_seconds(pace, (double)queue->flops[first], 1.0) <= room) {
      return bucket;
    }
  }
  return -1;
}

/* One bucket a chunk, so that its rows ascend. */
const int64_t *mhas_queue_take(mhas_queue *queue, const mhas_pace *pace, int64_t most, double aim, double room,
                               int64_t *count, double *flops) {
  *count = 0;
  *flops = 0.0;
  const int bucket = queue->left == 0 ? -1 : find_bucket(queue, pace, room);
  if (bucket < 0) {
    return NULL;
  }
  const int64_t first = queue->next[bucket];
  int64_t taken = 0;
  while (taken < most && first + taken < queue->end[bucket]) {
    const double more = *flops + (double)queue->flops[first + taken];
    if (taken > 0 && mhas_pace_seconds(pace, more, (double)(taken + 1)) > fmin(aim, room)) {
      break;
    }
    *flops = more;
    taken++;
  }
  queue->next[bucket] += taken;
  queue->left -= taken;
  queue->flops_left = queue->left == 0 ? 0.0 : fmax(queue->flops_left - *flops, 0.0);
  *count = taken;
  return queue->rows + first;
}

double mhas_queue_costliest(const mhas_queue *queue) {
  for (int bucket = queue->top; queue->left > 0 && bucket >= 0; bucket--) {
    if (queue->next[bucket] < queue->end[bucket]) {
      return (double)queue->flops[queue->next[bucket]];
    }
  }
  return 0.0;
}

double mhas_queue_flops(const mhas_queue *queue, const int64_t *row) { return (double)queue->flops[row - queue->rows]; }
