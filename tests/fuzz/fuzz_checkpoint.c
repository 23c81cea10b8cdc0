/*
 * Checkpoints: any bytes, or a whole checkpoint that the input overwrites from some place on and cuts or extends, with
 * its sum put right again or not. It is read whole, or refused in words and no piece is touched.
 */
#include <zlib.h>

#include "fuzz_hdf5.h"
#include "mhasweep/checkpoint.h"

enum { PIECES = 3, FILE_MOST = 4096, UNTOUCHED = 0xA5 };

static const mhas_checkpoint_key key = {.spec_hash = "0123456789abcdef", .numerics = 2, .point = 7, .ranks = 1};
static uint8_t step[8], weights[100], none[1];
static const mhas_piece pieces[PIECES] = {{step, sizeof step}, {none, 0}, {weights, sizeof weights}};

/* A whole checkpoint, once written. */
static size_t whole(uint8_t *out) {
  static uint8_t kept[FILE_MOST];
  static size_t size;
  if (size == 0) {
    mhas_error error = {.text = ""};
    char path[160];
    (void)snprintf(path, sizeof path, "%s.whole", fuzz_file(kept, 0));
    memset(weights, 3, sizeof weights);
    FUZZ_REQUIRE(mhas_checkpoint_write(path, &key, pieces, PIECES, NULL, &error) == MHAS_OK);
    FILE *file = fopen(path, "rb");
    FUZZ_REQUIRE(file != NULL);
    size = fread(kept, 1, sizeof kept, file);
    FUZZ_REQUIRE(fclose(file) == 0 && unlink(path) == 0);
  }
  memcpy(out, kept, size);
  return size;
}

/* What the input makes of it; returns the size. */
static size_t change(fuzz_input *in, uint8_t *out) {
  size_t size = whole(out);
  const bool sum_again = (fuzz_byte(in) & 1) != 0;
  const uint8_t cut = fuzz_byte(in);
  size = (cut & 1) == 0 ? size : (cut & 2) != 0 ? size + cut : size - cut;
  memset(out + size, 0, 256);
  size_t at = (fuzz_byte(in) + 256u * fuzz_byte(in)) % size;
  for (; in->left > 0 && at < size; at++) {
    out[at] = fuzz_byte(in);
  }
  if (sum_again) {
    const uint32_t sum = (uint32_t)crc32_z(0, out, size - sizeof sum);
    memcpy(out + size - sizeof sum, &sum, sizeof sum);
  }
  return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t bytes[FILE_MOST];
  fuzz_input in = {.data = data, .left = size};
  const bool raw = fuzz_byte(&in) % 4 == 0;
  const size_t length = raw ? 0 : change(&in, bytes);
  const char *path = raw ? fuzz_file(in.data, in.left) : fuzz_file(bytes, length);
  mhas_error why = {.text = ""};
  bool found = false;
  memset(step, UNTOUCHED, sizeof step);
  memset(weights, UNTOUCHED, sizeof weights);
  const mhas_code code = mhas_checkpoint_read(path, &key, pieces, PIECES, NULL, &found, &why);
  FUZZ_REQUIRE(found ? code == MHAS_OK : code == MHAS_IO && why.text[0] != '\0');
  for (size_t i = 0; !found && i < sizeof weights; i++) {
    FUZZ_REQUIRE(weights[i] == UNTOUCHED && step[i % sizeof step] == UNTOUCHED);
  }
  if (found && !raw) {
    FUZZ_REQUIRE(memcmp(weights, bytes + length - sizeof weights - sizeof(uint32_t), sizeof weights) == 0);
  }
  return 0;
}
