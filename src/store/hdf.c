#include "store/hdf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- errors ---- */

void store_quiet(void) { (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL); }

enum { REASON_LENGTH = 256 };

/* Takes the first message that says something; of a failed system call only what the system said. */
static herr_t take_reason(unsigned depth, const H5E_error2_t *entry, void *context) {
  (void)depth;
  static const char mark[] = "error message = '";
  char *reason = context;
  if (reason[0] != '\0' || entry->desc == NULL || entry->desc[0] == '\0') {
    return 0;
  }
  const char *said = strstr(entry->desc, mark);
  const char *start = said == NULL ? entry->desc : said + sizeof mark - 1;
  const size_t length = said == NULL ? strlen(start) : strcspn(start, "'");
  (void)snprintf(reason, REASON_LENGTH, "%.*s", (int)(length < REASON_LENGTH ? length : REASON_LENGTH - 1), start);
  return 0;
}

mhas_code store_hdf5_error(mhas_error *error, const char *path, const char *format, ...) {
  char reason[REASON_LENGTH] = "";
  (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_reason, reason);
  char what[MHAS_ERROR_LENGTH];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return mhas_fail(error, MHAS_IO, "%s: %s%s%s", path, what, reason[0] == '\0' ? "" : ": ", reason);
}

/* ---- objects ---- */

void store_release(hid_t id) {
  if (id < 0) {
    return;
  }
  /* Any call clears HDF5's error stack: one that is waiting to be reported is put aside. */
  const hid_t waiting = H5Eget_num(H5E_DEFAULT) > 0 ? H5Eget_current_stack() : H5I_INVALID_HID;
  (void)H5Idec_ref(id);
  if (waiting >= 0) {
    (void)H5Eset_current_stack(waiting);
  }
}

hid_t store_serial_access(void) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  /* The earliest format has no "open for writing" mark that a killed process would leave behind. Without the sieve
   * buffer a write fails where it is asked for, not when a dataset is closed. */
  if (access < 0 || H5Pset_file_locking(access, false, true) < 0 || H5Pset_sieve_buf_size(access, 0) < 0 ||
      H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0 ||
      H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18) < 0) {
    store_release(access);
    return H5I_INVALID_HID;
  }
  return access;
}

mhas_code store_sync(const char *path, mhas_error *error) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  /* Some file systems cannot sync a folder and say EINVAL: there is nothing more that could be done. */
  if (file < 0 || (fsync(file) != 0 && errno != EINVAL)) {
    const int reason = errno;
    if (file >= 0) {
      (void)close(file);
    }
    return mhas_fail(error, MHAS_IO, "%s: cannot be brought to the disk: %s", path, strerror(reason));
  }
  (void)close(file);
  return MHAS_OK;
}

/* ---- attributes ---- */

static hid_t text_type(void) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  if (type < 0 || H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0) {
    store_release(type);
    return H5I_INVALID_HID;
  }
  return type;
}

bool store_write_text(hid_t object, const char *name, const char *text) {
  const hid_t type = text_type();
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute =
      type < 0 || space < 0 ? H5I_INVALID_HID : H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  const bool written = attribute >= 0 && H5Awrite(attribute, type, &text) >= 0;
  store_release(attribute);
  store_release(space);
  store_release(type);
  return written;
}

bool store_write_numbers(hid_t object, const char *name, hid_t file_type, hid_t memory_type, size_t count,
                         const void *numbers) {
  const hsize_t shape = count;
  const hid_t space = H5Screate_simple(1, &shape, NULL);
  const hid_t attribute =
      space < 0 ? H5I_INVALID_HID : H5Acreate2(object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
  const bool written = attribute >= 0 && H5Awrite(attribute, memory_type, numbers) >= 0;
  store_release(attribute);
  store_release(space);
  return written;
}

/* An attribute of one element; *type is that of the file. Both are to be released. */
static hid_t open_single(hid_t object, const char *name, hid_t *type) {
  *type = H5I_INVALID_HID;
  if (H5Aexists(object, name) <= 0) {
    return H5I_INVALID_HID;
  }
  const hid_t attribute = H5Aopen(object, name, H5P_DEFAULT);
  const hid_t space = attribute < 0 ? H5I_INVALID_HID : H5Aget_space(attribute);
  const bool single = space >= 0 && H5Sget_simple_extent_npoints(space) == 1;
  store_release(space);
  if (single) {
    *type = H5Aget_type(attribute);
  }
  if (!single || *type < 0) {
    store_release(attribute);
    return H5I_INVALID_HID;
  }
  return attribute;
}

/* Strings of variable length come as a pointer of HDF5's, those of fixed length into a buffer of ours. */
static bool append_string(hid_t attribute, hid_t type, mhas_text *text) {
  if (H5Tis_variable_str(type) > 0) {
    char *string = NULL;
    if (H5Aread(attribute, type, &string) < 0) {
      return false;
    }
    mhas_text_append_bytes(text, string == NULL ? "" : string, string == NULL ? 0 : strlen(string));
    (void)H5free_memory(string);
    return !text->failed;
  }
  char *string = NULL;
  const size_t size = H5Tget_size(type);
  if (mhas_alloc(&string, size + 1, 1, "an attribute", NULL) != MHAS_OK) {
    text->failed = true;
    return false;
  }
  const bool read = H5Aread(attribute, type, string) >= 0;
  if (read) {
    mhas_text_append_bytes(text, string, strlen(string));
  }
  mhas_free(string);
  return read && !text->failed;
}

bool store_read_text(hid_t object, const char *name, mhas_text *text) {
  hid_t type = H5I_INVALID_HID;
  const hid_t attribute = open_single(object, name, &type);
  bool read = false;
  if (attribute >= 0 && H5Tget_class(type) == H5T_STRING) {
    read = append_string(attribute, type, text);
  } else if (attribute >= 0 && H5Tget_class(type) == H5T_INTEGER) {
    int64_t number = 0;
    uint64_t whole = 0;
    if (H5Tget_sign(type) == H5T_SGN_NONE) {
      read = H5Aread(attribute, H5T_NATIVE_UINT64, &whole) >= 0;
      mhas_text_append(text, "%" PRIu64, whole);
    } else {
      read = H5Aread(attribute, H5T_NATIVE_INT64, &number) >= 0;
      mhas_text_append(text, "%" PRId64, number);
    }
  }
  store_release(attribute);
  store_release(type);
  return read;
}

static bool read_number(hid_t object, const char *name, hid_t memory_type, void *number) {
  hid_t type = H5I_INVALID_HID;
  const hid_t attribute = open_single(object, name, &type);
  const H5T_class_t class = attribute < 0 ? H5T_NO_CLASS : H5Tget_class(type);
  const bool read = (class == H5T_INTEGER || class == H5T_FLOAT) && H5Aread(attribute, memory_type, number) >= 0;
  store_release(attribute);
  store_release(type);
  return read;
}

bool store_read_integer(hid_t object, const char *name, int64_t *number) {
  return read_number(object, name, H5T_NATIVE_INT64, number);
}

bool store_read_real(hid_t object, const char *name, double *number) {
  return read_number(object, name, H5T_NATIVE_DOUBLE, number);
}
