#include <stdlib.h>
#include <string.h>

#include "sweep/tree.h"

enum { BLOCK_BYTES = 1 << 16, PIECE_ALIGNMENT = 16 };

struct sweep_arena_block {
  struct sweep_arena_block *before;
  size_t used, size;
  _Alignas(PIECE_ALIGNMENT) unsigned char bytes[];
};

void *sweep_arena_take(sweep_arena *arena, size_t bytes) {
  const size_t asked = (bytes + PIECE_ALIGNMENT - 1) / PIECE_ALIGNMENT * PIECE_ALIGNMENT;
  struct sweep_arena_block *block = arena->block;
  if (block == NULL || asked > block->size - block->used) {
    const size_t size = asked > BLOCK_BYTES ? asked : BLOCK_BYTES;
    block = malloc(sizeof *block + size);
    if (block == NULL) {
      return NULL;
    }
    block->before = arena->block;
    block->used = 0;
    block->size = size;
    arena->block = block;
  }
  void *piece = block->bytes + block->used;
  block->used += asked;
  return memset(piece, 0, asked);
}

void sweep_arena_free(sweep_arena *arena) {
  while (arena->block != NULL) {
    struct sweep_arena_block *before = arena->block->before;
    free(arena->block);
    arena->block = before;
  }
}
