/*
 * Making the n-th allocation, or the n-th write, of the program fail. The product has no hook for it: the tests are
 * linked with a copy of it in which objcopy has renamed the allocating functions into those below. Functions that write
 * are defined here under the system's own names, and so stand before those for all code, HDF5's and MPI's too.
 */
#ifndef MHASWEEP_TESTS_INJECT_H
#define MHASWEEP_TESTS_INJECT_H

#include <stdbool.h>
#include <stddef.h>

/* From now on allocations are counted, and number `at` (from 0) fails; -1: none does. */
void inject_allocation(long at);
/* Counts no more. Returns how many there were; *failed: was one of them made to fail? */
long inject_allocations_seen(bool *failed);
/* Blocks that the program has and has not freed. */
long inject_blocks(void);

/* What the program calls in place of the functions of these names. */
void *inject_malloc(size_t size);
void *inject_calloc(size_t count, size_t size);
void *inject_realloc(void *block, size_t size);
void *inject_aligned_alloc(size_t alignment, size_t size);
char *inject_strdup(const char *text);
void inject_free(void *block);

/* The same of whatever changes a file below `folder`: writes, truncations, reservations, syncs, renames. `lasting`: all
 * from number `at` on fail, as on a full disk, else that one alone. Fails with `reason`, an errno. */
void inject_write(long at, bool lasting, int reason, const char *folder);
long inject_writes_seen(bool *failed);

#endif
