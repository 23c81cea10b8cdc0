#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mhasweep/base.h"

enum { ALIGNMENT = 64 };

bool mhas_multiply(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }

mhas_code mhas_alloc(void *memory, size_t count, size_t size, const char *what, mhas_error *error) {
  void **slot = memory;
  *slot = NULL;
  size_t bytes = 0;
  if (!mhas_multiply(count, size, &bytes) || bytes > SIZE_MAX - ALIGNMENT) {
    return mhas_fail(error, MHAS_NO_MEMORY,
                     "out of memory: %s of %zu elements of %zu bytes is more than can be addressed", what, count, size);
  }
  /* aligned_alloc wants a multiple of the alignment, and an empty array still wants a pointer. */
  const size_t padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  const size_t asked = padded == 0 ? ALIGNMENT : padded;
  void *block = aligned_alloc(ALIGNMENT, asked);
  if (block == NULL) {
    char human[MHAS_HUMAN_LENGTH];
    return mhas_fail(error, MHAS_NO_MEMORY, "out of memory: %s needs %s", what, mhas_human_bytes((double)bytes, human));
  }
  memset(block, 0, asked);
  *slot = block;
  return MHAS_OK;
}

void mhas_free(void *memory) { free(memory); }

mhas_code mhas_narrow(int64_t count, const char *what, int *narrow, mhas_error *error) {
  if (count < 0 || count > INT_MAX) {
    return mhas_fail(error, MHAS_LIMIT, "%s is %" PRId64 ", beyond the 32-bit integers of BLAS and MPI", what, count);
  }
  *narrow = (int)count;
  return MHAS_OK;
}
