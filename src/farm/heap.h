/* What comes next: a binary heap of things by their time. Pure. Private to the farm. */
#ifndef MHASWEEP_FARM_HEAP_H
#define MHASWEEP_FARM_HEAP_H

#include "mhasweep/base.h"

typedef struct mhas_timed {
  double time;
  int thing;
} mhas_timed;

/* Things of equal time come in the order of their numbers, so that what follows from them is the same every time. */
typedef struct mhas_heap {
  mhas_timed *items; /* the earliest first */
  int64_t count, capacity;
} mhas_heap;

mhas_code mhas_heap_create(int64_t capacity, mhas_heap *heap, mhas_error *error);
void mhas_heap_free(mhas_heap *heap);

void mhas_heap_push(mhas_heap *heap, mhas_timed item); /* there must be room */
mhas_timed mhas_heap_pop(mhas_heap *heap);             /* the earliest; there must be one */

#endif
