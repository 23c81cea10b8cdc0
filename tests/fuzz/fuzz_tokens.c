/*
 * Files of tokens (.npy, HDF5) and of images (IDX, gzipped or not): any bytes are refused in words, or what the header
 * promises can be read. The first byte of the input says which it is; of HDF5 the rest says what is in the dataset.
 */
#include "data/file.h"
#include "fuzz_hdf5.h"

enum { NUMBERS_MOST = 1 << 16 };

static void read_samples(mhas_file *file, mhas_error *error) {
  const int64_t *shape = mhas_file_shape(file);
  const double sample = (double)shape[1] * (double)shape[2];
  FUZZ_REQUIRE(shape[0] >= 1 && shape[1] >= 1 && shape[2] >= 1);
  if (sample > NUMBERS_MOST) {
    return;
  }
  double *out = calloc((size_t)sample + 1, sizeof *out);
  FUZZ_REQUIRE(out != NULL);
  const int64_t places[] = {0, shape[0] - 1};
  for (int i = 0; i < 2; i++) {
    error->text[0] = '\0';
    FUZZ_REQUIRE(mhas_file_read(file, places[i], 1, out, error) == MHAS_OK || error->text[0] != '\0');
  }
  free(out);
}

/* A file with a dataset `tokens` of any kind. */
static const char *make_hdf5(fuzz_input *in) {
  const char *path = fuzz_file((const uint8_t *)"", 0);
  (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  FUZZ_REQUIRE(file >= 0);
  fuzz_dataset(in, file, fuzz_byte(in) == 0xFF ? "other" : "tokens", 3);
  FUZZ_REQUIRE(H5Fclose(file) >= 0);
  return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const unsigned char hdf5_magic[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
  enum { TOKENS, IMAGES, TOKENS_HDF5, KINDS };
  fuzz_input in = {.data = data, .left = size};
  mhas_error error = {.text = ""};
  mhas_file *file = NULL;
  int64_t hash = 0;
  const int kind = fuzz_byte(&in) % KINDS;
  if (kind != TOKENS_HDF5 && in.left >= sizeof hdf5_magic && memcmp(in.data, hdf5_magic, sizeof hdf5_magic) == 0) {
    return 0;
  }
  const char *path = kind == TOKENS_HDF5 ? make_hdf5(&in) : fuzz_file(in.data, in.left);
  const mhas_code code = mhas_file_open(kind == IMAGES ? MHAS_FILE_IMAGES : MHAS_FILE_TOKENS, path, &file, &error);
  FUZZ_REQUIRE(code == MHAS_OK || error.text[0] != '\0');
  if (code == MHAS_OK) {
    read_samples(file, &error);
    const mhas_code scanned = mhas_file_scan(file, &hash, &error);
    FUZZ_REQUIRE(scanned == MHAS_OK ? hash > 0 : error.text[0] != '\0');
  }
  mhas_files_close();
  return 0;
}
