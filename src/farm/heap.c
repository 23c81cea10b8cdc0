#include "farm/heap.h"

mhas_code mhas_heap_create(int64_t capacity, mhas_heap *heap, mhas_error *error) {
  *heap = (mhas_heap){.capacity = capacity};
  return mhas_alloc(&heap->items, (size_t)capacity, sizeof *heap->items, "a queue of events", error);
}

void mhas_heap_free(mhas_heap *heap) {
  mhas_free(heap->items);
  *heap = (mhas_heap){0};
}

static bool before(mhas_timed a, mhas_timed b) { return a.time < b.time || (a.time == b.time && a.thing < b.thing); }

void mhas_heap_push(mhas_heap *heap, mhas_timed item) {
  int64_t place = heap->count++;
  while (place > 0 && before(item, heap->items[(place - 1) / 2])) {
    heap->items[place] = heap->items[(place - 1) / 2];
    place = (place - 1) / 2;
  }
  heap->items[place] = item;
}

mhas_timed mhas_heap_pop(mhas_heap *heap) {
  const mhas_timed first = heap->items[0];
  const mhas_timed last = heap->items[--heap->count];
  int64_t place = 0;
  for (;;) {
    int64_t child = 2 * place + 1;
    if (child + 1 < heap->count && before(heap->items[child + 1], heap->items[child])) {
      child++;
    }
    if (child >= heap->count || !before(heap->items[child], last)) {
      break;
    }
    heap->items[place] = heap->items[child];
    place = child;
  }
  heap->items[place] = last; /* beyond the end if it was the only one: nobody looks there */
  return first;
}
