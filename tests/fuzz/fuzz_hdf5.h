/*
 * Well-formed HDF5 files with contents that nobody expects, made from the bytes of an input. (Files that are not well
 * formed crash HDF5 itself within seconds, release 1.10.8 at least, and there is nothing in this project to fix then.)
 */
#ifndef MHASWEEP_TESTS_FUZZ_HDF5_H
#define MHASWEEP_TESTS_FUZZ_HDF5_H

#include <hdf5.h>
#include <stdbool.h>

#include "fuzz.h"

/* An input from its front. Behind its end come zeros. */
typedef struct fuzz_input {
  const uint8_t *data;
  size_t left;
} fuzz_input;

static inline uint8_t fuzz_byte(fuzz_input *in) {
  if (in->left == 0) {
    return 0;
  }
  in->left--;
  return *in->data++;
}

/* The next bytes, up to `most`, as a string of the caller's. */
static inline void fuzz_string(fuzz_input *in, char *out, size_t most) {
  size_t length = fuzz_byte(in);
  length = length < most - 1 ? length : most - 1;
  length = length < in->left ? length : in->left;
  memcpy(out, in->data, length);
  out[length] = '\0';
  in->data += length;
  in->left -= length;
}

/* A type of any kind; to be closed. */
static inline hid_t fuzz_type(fuzz_input *in) {
  const uint8_t choice = fuzz_byte(in);
  hid_t type = H5I_INVALID_HID;
  switch (choice % 10) {
    case 0: return H5Tcopy(H5T_STD_I8LE);
    case 1: return H5Tcopy(H5T_STD_I64LE);
    case 2: return H5Tcopy(H5T_STD_U64BE);
    case 3: return H5Tcopy(H5T_IEEE_F32LE);
    case 4: return H5Tcopy(H5T_IEEE_F64BE);
    case 5:
    case 6:
      type = H5Tcopy(H5T_C_S1);
      (void)H5Tset_size(type, (size_t)fuzz_byte(in) + 1);
      (void)H5Tset_strpad(type, choice % 10 == 5 ? H5T_STR_NULLPAD : H5T_STR_SPACEPAD);
      return type;
    case 7:
      type = H5Tcopy(H5T_C_S1);
      (void)H5Tset_size(type, H5T_VARIABLE);
      return type;
    case 8: return H5Tvlen_create(H5T_NATIVE_INT);
    default: return H5Tcreate(H5T_OPAQUE, (size_t)fuzz_byte(in) + 1);
  }
}

/* Scalar, or up to three dimensions; `usual` is a likely extent. To be closed. */
static inline hid_t fuzz_space(fuzz_input *in, hsize_t usual) {
  hsize_t shape[3];
  const int rank = fuzz_byte(in) % 4;
  for (int i = 0; i < rank; i++) {
    const uint8_t extent = fuzz_byte(in);
    shape[i] = extent < 128 ? usual : (hsize_t)extent % 16;
  }
  return rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, shape, NULL);
}

static inline bool fuzz_is_flat(hid_t type) {
  return H5Tdetect_class(type, H5T_VLEN) == 0 && H5Tis_variable_str(type) <= 0;
}

/* Puts the next bytes into a dataset or an attribute, as they would lie in the file. */
static inline void fuzz_fill(fuzz_input *in, hid_t object, hid_t type, hid_t space, bool is_attribute) {
  const hssize_t elements = H5Sget_simple_extent_npoints(space);
  const size_t size = H5Tget_size(type);
  if (elements <= 0) {
    return;
  }
  if (!fuzz_is_flat(type)) {
    char text[64];
    char *string = text;
    fuzz_string(in, text, sizeof text);
    if (elements == 1 && H5Tis_variable_str(type) > 0) {
      (void)(is_attribute ? H5Awrite(object, type, &string)
                          : H5Dwrite(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &string));
    }
    return;
  }
  uint8_t *bytes = calloc((size_t)elements, size);
  FUZZ_REQUIRE(bytes != NULL);
  for (size_t i = 0; i < (size_t)elements * size && in->left > 0; i++) {
    bytes[i] = fuzz_byte(in);
  }
  (void)(is_attribute ? H5Awrite(object, type, bytes) : H5Dwrite(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes));
  free(bytes);
}

/* Puts a dataset in place of what has its name. */
static inline void fuzz_dataset(fuzz_input *in, hid_t file, const char *name, hsize_t usual) {
  const hid_t type = fuzz_type(in);
  const hid_t space = fuzz_space(in, usual);
  (void)H5Ldelete(file, name, H5P_DEFAULT);
  const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (dataset >= 0) {
    fuzz_fill(in, dataset, type, space, false);
    (void)H5Dclose(dataset);
  }
  (void)H5Sclose(space);
  (void)H5Tclose(type);
}

#endif
