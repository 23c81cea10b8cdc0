/*
 * Result files: a whole one, in which the input changes, replaces and removes variables and attributes. Whatever comes
 * of it is shown and exported, resumed or reused (the first byte says which), or refused in words.
 */
#include "fuzz_hdf5.h"
#include "mhasweep/store.h"
#include "store/hdf.h"

static const char spec[] =
    "experiment: memorize\nparameters: {heads: [1, 2], samples: 64, steps: 100}\nreplicates: 2\n";
enum { POINTS = 4, RECORDS = 3 };

static const char *const names[] = {"point",        "record",     "status",   "error",     "attempts",     "seconds",
                                    "ranks",        "flops",      "hostname", "heads",     "replicate",    "lr",
                                    "context_type", "early_stop", "accuracy", "loss",      "best_step",    "curve_loss",
                                    "curve_step",   "spectrum",   "stored",   "something", "stored/0/W_O", "k"};
static const char *const attributes[] = {
    "schema_version", "experiment",  "spec_hash",  "spec_canonical", "spec",  "spec_overrides", "role",
    "flag_meanings",  "flag_values", "_FillValue", "is_axis",        "units", "long_name",      "created"};
static const char *const roles[] = {"parameter", "result", "run", "curve", "spectrum"};
#define PICK(list, byte) list[(byte) % (sizeof list / sizeof *list)]

static mhas_sweep *sweep;
static mhas_rows *rows;

/* The bytes of a file in which all rows are pending, and of one in which all are done. */
typedef struct image {
  uint8_t *bytes;
  size_t size;
} image;
static image fresh, whole;

static void create(const char *path) {
  mhas_error error = {.text = ""};
  const mhas_plan plan = {.exact = true, .records_most = RECORDS};
  const mhas_provenance provenance = {.version = "1", .git_commit = "2", .mpi_size = 1};
  (void)unlink(path);
  if (mhas_store_create(path, sweep, rows, &plan, &provenance, &error) != MHAS_OK) {
    (void)fprintf(stderr, "%s\n", error.text);
    abort();
  }
}

static image read_back(const char *path) {
  enum { BYTES_MOST = 1 << 22 };
  image read = {.bytes = malloc(BYTES_MOST)};
  FILE *file = fopen(path, "rb");
  FUZZ_REQUIRE(file != NULL && read.bytes != NULL);
  read.size = fread(read.bytes, 1, BYTES_MOST, file);
  (void)fclose(file);
  return read;
}

static void write_out(const char *path, const image *written) {
  FILE *file = fopen(path, "wb");
  FUZZ_REQUIRE(file != NULL && fwrite(written->bytes, 1, written->size, file) == written->size);
  FUZZ_REQUIRE(fclose(file) == 0);
}

/* A sweep, and a whole file of it in which all rows are done. */
static void start(void) {
  mhas_text report = {0};
  mhas_error error = {.text = ""};
  FUZZ_REQUIRE(mhas_sweep_parse("fuzz", spec, sizeof spec - 1, NULL, 0, &sweep, &report) == MHAS_OK);
  FUZZ_REQUIRE(mhas_rows_create(sweep, &rows, &error) == MHAS_OK);
  const char *path = fuzz_file((const uint8_t *)"", 0);
  char made[160];
  (void)snprintf(made, sizeof made, "%s.new", path);
  create(made);
  fresh = read_back(made);
  const hid_t file = H5Fopen(made, H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t status = H5Dopen2(file, "status", H5P_DEFAULT);
  const hid_t ranks = H5Dopen2(file, "ranks", H5P_DEFAULT);
  const int8_t done[POINTS] = {MHAS_DONE, MHAS_DONE, MHAS_DONE, MHAS_DONE};
  const int64_t ones[POINTS] = {1, 1, 1, 1};
  FUZZ_REQUIRE(H5Dwrite(status, H5T_NATIVE_INT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, done) >= 0);
  FUZZ_REQUIRE(H5Dwrite(ranks, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, ones) >= 0);
  const hid_t seconds = H5Dopen2(file, "seconds", H5P_DEFAULT);
  const double halves[POINTS] = {0.5, 0.5, 0.5, 0.5};
  FUZZ_REQUIRE(H5Dwrite(seconds, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, halves) >= 0);
  (void)H5Dclose(seconds);
  (void)H5Dclose(ranks);
  (void)H5Dclose(status);
  (void)H5Fclose(file);
  whole = read_back(made);
  (void)unlink(made);
}

/* ---- changing it ---- */

static void change_attribute(fuzz_input *in, hid_t object) {
  const char *name = PICK(attributes, fuzz_byte(in));
  const uint8_t how = fuzz_byte(in);
  (void)H5Adelete(object, name);
  if (how % 4 == 0) {
    return;
  }
  if (how % 4 == 1) {
    (void)store_write_text(object, "role", PICK(roles, fuzz_byte(in)));
    return;
  }
  if (how % 4 == 2) {
    char text[256];
    fuzz_string(in, text, sizeof text);
    (void)store_write_text(object, name, text);
    return;
  }
  const hid_t type = fuzz_type(in);
  const hid_t space = fuzz_space(in, 1);
  const hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  if (attribute >= 0) {
    fuzz_fill(in, attribute, type, space, true);
    (void)H5Aclose(attribute);
  }
  (void)H5Sclose(space);
  (void)H5Tclose(type);
}

static void change_data(fuzz_input *in, hid_t file, const char *name) {
  const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  if (dataset < 0) {
    return;
  }
  const hid_t type = H5Dget_type(dataset);
  const hid_t space = H5Dget_space(dataset);
  fuzz_fill(in, dataset, type, space, false);
  (void)H5Sclose(space);
  (void)H5Tclose(type);
  (void)H5Dclose(dataset);
}

static void change(fuzz_input *in, hid_t file) {
  const uint8_t how = fuzz_byte(in);
  const char *name = PICK(names, fuzz_byte(in));
  hid_t object = H5I_INVALID_HID;
  switch (how % 6) {
    case 0: (void)H5Ldelete(file, name, H5P_DEFAULT); break;
    case 1: fuzz_dataset(in, file, name, POINTS); break;
    case 2: change_data(in, file, name); break;
    case 3: change_attribute(in, file); break;
    case 4:
      object = H5Oopen(file, name, H5P_DEFAULT);
      if (object >= 0) {
        change_attribute(in, object);
        (void)H5Oclose(object);
      }
      break;
    default:
      (void)H5Ldelete(file, name, H5P_DEFAULT);
      object = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      if (object >= 0) {
        (void)H5Gclose(object);
      }
  }
}

/* ---- what users do with it ---- */

static void show_and_export(const char *path) {
  static FILE *nowhere;
  mhas_error error = {.text = ""};
  mhas_reader *reader = NULL;
  nowhere = nowhere == NULL ? fopen("/dev/null", "w") : nowhere;
  const mhas_code code = mhas_reader_open(path, &reader, &error);
  FUZZ_REQUIRE(code == MHAS_OK || error.text[0] != '\0');
  if (code == MHAS_OK) {
    FUZZ_REQUIRE(mhas_export(reader, MHAS_EXPORT_CSV, nowhere, &error) == MHAS_OK || error.text[0] != '\0');
    FUZZ_REQUIRE(mhas_export(reader, MHAS_EXPORT_JSONL, nowhere, &error) == MHAS_OK || error.text[0] != '\0');
    (void)mhas_reader_attribute(reader, "title");
  }
  mhas_reader_close(reader);
}

static void reuse(const char *path) {
  char into[160];
  mhas_error error = {.text = ""};
  mhas_reuse *older = NULL;
  const mhas_code code = mhas_reuse_open(path, sweep, &older, &error);
  FUZZ_REQUIRE(code == MHAS_OK || (code == MHAS_USAGE && error.text[0] != '\0'));
  if (code == MHAS_OK && mhas_reuse_refusal(older)[0] == '\0') {
    uint8_t status[POINTS] = {0};
    mhas_reuse_count count;
    (void)snprintf(into, sizeof into, "%s.new", path);
    write_out(into, &fresh);
    const mhas_code taken = mhas_reuse_take(older, into, rows, status, &count, &error);
    FUZZ_REQUIRE(taken == MHAS_OK || error.text[0] != '\0');
    FUZZ_REQUIRE(count.taken >= 0 && count.taken <= POINTS);
    (void)unlink(into);
  }
  mhas_reuse_close(older);
}

static void resume(const char *path) {
  mhas_error error = {.text = ""};
  uint8_t *status = NULL;
  const mhas_code code = mhas_store_resume(path, sweep, POINTS, true, &status, &error);
  FUZZ_REQUIRE(code == MHAS_OK ? status != NULL : error.text[0] != '\0');
  for (int i = 0; code == MHAS_OK && i < POINTS; i++) {
    FUZZ_REQUIRE(status[i] == MHAS_PENDING || status[i] == MHAS_DONE);
  }
  mhas_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { CHANGES_MOST = 8 };
  if (whole.bytes == NULL) {
    store_quiet();
    start();
  }
  fuzz_input in = {.data = data, .left = size};
  const uint8_t act = fuzz_byte(&in);
  const char *path = fuzz_file(whole.bytes, whole.size);
  const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  FUZZ_REQUIRE(file >= 0);
  for (int i = 0; i < CHANGES_MOST && in.left > 0; i++) {
    change(&in, file);
  }
  FUZZ_REQUIRE(H5Fclose(file) >= 0);
  switch (act % 3) {
    case 0: show_and_export(path); break;
    case 1: reuse(path); break;
    default: resume(path);
  }
  return 0;
}
