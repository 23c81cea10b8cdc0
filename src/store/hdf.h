/* What every file of this room needs of HDF5: errors in words, attributes, closing. */
#ifndef MHASWEEP_STORE_HDF_H
#define MHASWEEP_STORE_HDF_H

#include <hdf5.h>

#include "mhasweep/base.h"

/* Keeps HDF5 from printing its error stack on stderr; to be called at the entry of whatever calls HDF5 first. */
void store_quiet(void);

/* MHAS_IO: "<path>: <what>: <the innermost useful message of HDF5>". No other HDF5 call but
 * store_release may come between the failure and this. */
mhas_code store_hdf5_error(mhas_error *error, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Closes an object of any kind but a file, leaving HDF5's error stack as it is; a negative id is fine. */
void store_release(hid_t id);

/* Properties for opening or creating a file by this process alone. File locks are off: the lock of lock.c keeps writers
 * apart, and a reader, say a notebook, shall never be in the way of a run. Negative on failure. */
hid_t store_serial_access(void);

/* Attributes; strings are of variable length and UTF-8, so that Python sees str. False on failure. */
bool store_write_text(hid_t object, const char *name, const char *text);
bool store_write_numbers(hid_t object, const char *name, hid_t file_type, hid_t memory_type, size_t count,
                         const void *numbers);

/* Appends the attribute, an integer in decimal; false if it is not there or of another kind, or if memory runs out,
 * which text->failed tells. */
bool store_read_text(hid_t object, const char *name, mhas_text *text);
bool store_read_integer(hid_t object, const char *name, int64_t *number);
bool store_read_real(hid_t object, const char *name, double *number);

/* Tells the disk to keep what was written to a file or folder. */
mhas_code store_sync(const char *path, mhas_error *error);

#endif
