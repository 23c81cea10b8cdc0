#include "store/layout.h"

#include <stdio.h>
#include <string.h>

#include "store/hdf.h"

static const char *const status_words[] = {"pending", "running", "done", "failed", NULL};
static const char *const flag_words[] = {"false", "true", NULL};

static const store_column run_columns[STORE_RUN_COUNT] = {
    [STORE_RUN_STATUS] = {.name = STORE_STATUS,
                          .kind = STORE_INT8,
                          .meaning = "state of the point; only results of a done point count",
                          .words = status_words},
    [STORE_RUN_ERROR] = {.name = "error",
                         .kind = STORE_TEXT,
                         .text_length = MHAS_REASON_LENGTH,
                         .meaning = "why the point failed"},
    [STORE_RUN_ATTEMPTS] = {.name = "attempts", .kind = STORE_INT64, .meaning = "times that the point was started"},
    [STORE_RUN_STARTED] = {.name = "started",
                           .kind = STORE_FLOAT64,
                           .unit = "seconds since 1970-01-01T00:00:00Z", /* xarray makes a date of it */
                           .meaning = "when the last attempt that ended began",
                           .starts_missing = true},
    [STORE_RUN_SECONDS] = {.name = STORE_SECONDS,
                           .kind = STORE_FLOAT64,
                           .unit = "s",
                           .meaning = "wall time of the last attempt that ended",
                           .starts_missing = true},
    [STORE_RUN_RANKS] = {.name = "ranks",
                         .kind = STORE_INT64,
                         .meaning = "MPI ranks that worked on the point",
                         .starts_missing = true},
    [STORE_RUN_FIRST_RANK] = {.name = "first_rank",
                              .kind = STORE_INT64,
                              .meaning = "MPI rank that ran the point; of a team, its first one",
                              .starts_missing = true},
    [STORE_RUN_FLOPS] = {.name = "flops",
                         .kind = STORE_FLOAT64,
                         .meaning = "floating-point operations done",
                         .starts_missing = true},
    [STORE_RUN_HOSTNAME] = {.name = "hostname",
                            .kind = STORE_TEXT,
                            .text_length = MHAS_HOSTNAME_LENGTH,
                            .meaning = "machine that ran the point"},
};

static store_kind kind_of(mhas_type type) {
  switch (type) {
    case MHAS_REAL: return STORE_FLOAT64;
    case MHAS_INTEGER: return STORE_INT64;
    case MHAS_TEXT: return STORE_TEXT;
    default: return STORE_INT8;
  }
}

static size_t element_bytes(const store_column *column) {
  switch (column->kind) {
    case STORE_INT8: return 1;
    case STORE_FLOAT32: return 4;
    case STORE_TEXT: return column->text_length;
    default: return 8;
  }
}

/* Takes the column, filling in what most of them have in common. */
static mhas_code add(store_layout *layout, const char *prefix, const char *name, store_column column,
                     mhas_error *error) {
  const int length = snprintf(column.name, sizeof column.name, "%s%s", prefix, name);
  if (length < 0 || (size_t)length >= sizeof column.name) {
    return mhas_fail(error, MHAS_INTERNAL, "the name %s%s is longer than a variable's may be", prefix, name);
  }
  column.unit = column.unit == NULL ? "1" : column.unit;
  column.width = column.dimension == NULL ? 1 : column.width;
  if (!mhas_multiply((size_t)column.width, element_bytes(&column), &column.row_bytes)) {
    return mhas_fail(error, MHAS_LIMIT, "a row of %s is larger than can be addressed", column.name);
  }
  layout->columns[layout->count++] = column;
  return MHAS_OK;
}

static mhas_code add_parameters(const mhas_sweep *sweep, store_layout *layout, mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  for (int i = 0; i < experiment->parameter_count; i++) {
    const mhas_parameter *parameter = &experiment->parameters[i];
    const bool is_text = parameter->type == MHAS_TEXT;
    const store_column column = {.kind = kind_of(parameter->type),
                                 .text_length = is_text ? mhas_sweep_text_width(sweep, i) : 0,
                                 .unit = parameter->unit,
                                 .meaning = parameter->meaning,
                                 .role = STORE_ROLE_PARAMETER,
                                 .words = parameter->type == MHAS_FLAG ? flag_words : parameter->choices,
                                 .starts_missing = !is_text,
                                 .is_axis = mhas_sweep_is_axis(sweep, i)};
    MHAS_TRY(add(layout, "", parameter->name, column, error));
  }
  layout->replicate = layout->count;
  const store_column replicate = {.kind = STORE_INT64,
                                  .meaning = "repetition of the point with random numbers of its own",
                                  .role = STORE_ROLE_PARAMETER,
                                  .starts_missing = true,
                                  .is_axis = mhas_sweep_replicates(sweep) > 1};
  return add(layout, "", STORE_REPLICATE, replicate, error);
}

static mhas_code add_results(const mhas_experiment *experiment, store_layout *layout, mhas_error *error) {
  layout->first_result = layout->count;
  for (int i = 0; i < experiment->result_count; i++) {
    const mhas_result *result = &experiment->results[i];
    const store_column column = {.kind = kind_of(result->type),
                                 .unit = result->unit,
                                 .meaning = result->meaning,
                                 .role = STORE_ROLE_RESULT,
                                 .words = result->type == MHAS_FLAG ? flag_words : NULL,
                                 .starts_missing = true};
    MHAS_TRY(add(layout, "", result->name, column, error));
  }
  layout->first_run = layout->count;
  for (int i = 0; i < STORE_RUN_COUNT; i++) {
    store_column column = run_columns[i];
    column.role = STORE_ROLE_RUN;
    MHAS_TRY(add(layout, "", run_columns[i].name, column, error));
  }
  return MHAS_OK;
}

static mhas_code add_wide(const mhas_experiment *experiment, store_layout *layout, mhas_error *error) {
  layout->first_curve = layout->count;
  for (int i = 0; i < experiment->curve_count && layout->records > 0; i++) {
    const mhas_curve *curve = &experiment->curves[i];
    const store_column column = {.kind = STORE_FLOAT32,
                                 .dimension = STORE_RECORD,
                                 .width = layout->records,
                                 .unit = curve->unit,
                                 .meaning = curve->meaning,
                                 .role = STORE_ROLE_CURVE,
                                 .starts_missing = true};
    MHAS_TRY(add(layout, STORE_CURVE_PREFIX, curve->name, column, error));
  }
  layout->spectrum = layout->count;
  if (layout->singular_values > 0) {
    const store_column column = {.kind = STORE_FLOAT64,
                                 .dimension = STORE_K,
                                 .width = layout->singular_values,
                                 .meaning = "singular values, descending",
                                 .role = STORE_ROLE_SPECTRUM,
                                 .starts_missing = true};
    MHAS_TRY(add(layout, "", "spectrum", column, error));
  }
  return MHAS_OK;
}

mhas_code store_layout_create(const mhas_sweep *sweep, int64_t records, int64_t singular_values, store_layout *layout,
                              mhas_error *error) {
  const mhas_experiment *experiment = mhas_sweep_experiment(sweep);
  const int most =
      experiment->parameter_count + 1 + experiment->result_count + STORE_RUN_COUNT + experiment->curve_count + 1;
  *layout = (store_layout){.records = records, .singular_values = singular_values};
  MHAS_TRY(mhas_alloc(&layout->columns, (size_t)most, sizeof *layout->columns, "the list of variables", error));
  mhas_code code = add_parameters(sweep, layout, error);
  if (code == MHAS_OK) {
    code = add_results(experiment, layout, error);
  }
  if (code == MHAS_OK) {
    code = add_wide(experiment, layout, error);
  }
  if (code != MHAS_OK) {
    store_layout_free(layout);
  }
  return code;
}

void store_layout_free(store_layout *layout) {
  mhas_free(layout->columns);
  *layout = (store_layout){0};
}

hid_t store_memory_type(store_kind kind) {
  switch (kind) {
    case STORE_INT8: return H5T_NATIVE_INT8;
    case STORE_INT64: return H5T_NATIVE_INT64;
    case STORE_FLOAT32: return H5T_NATIVE_FLOAT;
    case STORE_FLOAT64: return H5T_NATIVE_DOUBLE;
    default: return H5I_INVALID_HID;
  }
}

hid_t store_file_type(const store_column *column) {
  switch (column->kind) {
    case STORE_INT8: return H5Tcopy(H5T_STD_I8LE);
    case STORE_INT64: return H5Tcopy(H5T_STD_I64LE);
    case STORE_FLOAT32: return H5Tcopy(H5T_IEEE_F32LE);
    case STORE_FLOAT64: return H5Tcopy(H5T_IEEE_F64LE);
    default: break;
  }
  const hid_t type = H5Tcopy(H5T_C_S1);
  if (type < 0 || H5Tset_size(type, column->text_length) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0 ||
      H5Tset_strpad(type, H5T_STR_NULLPAD) < 0) {
    store_release(type);
    return H5I_INVALID_HID;
  }
  return type;
}

const char *const *store_status_words(void) { return status_words; }

size_t store_utf8_cut(const char *text, size_t most) {
  size_t length = strnlen(text, most + 1);
  if (length <= most) {
    return length;
  }
  length = most;
  while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80) { /* never before a continuation byte */
    length--;
  }
  return length;
}
