/* The two ways to lock a result file; mhas_store_lock picks one. */
#ifndef MHASWEEP_STORE_LOCK_H
#define MHASWEEP_STORE_LOCK_H

#include "mhasweep/base.h"

#define STORE_LOCK_SUFFIX ".lock"

/* Locks the file `lock_path` on behalf of the result file `path`. MHAS_IO if another run holds it. */
mhas_code store_lock_file(const char *path, const char *lock_path, bool create, int *lock, mhas_error *error);

/* Locks a file beside `path`, which mhas_store_unlock removes. */
mhas_code store_lock_beside(const char *path, int *lock, mhas_error *error);

#endif
