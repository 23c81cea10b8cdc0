/* A sweep from its text to its end: the steps of reading, in order, and the small questions afterwards. */
#include <stdlib.h>
#include <string.h>

#include "sweep/inside.h"

/* ---- reading ---- */

static bool fill_in(mhas_sweep *sweep, const char *text, size_t length, const char *const *overrides,
                    size_t override_count) {
  mhas_text_append_bytes(&sweep->text, text, length);
  for (size_t i = 0; i < override_count; i++) {
    mhas_text_append(&sweep->overrides, "%s%s", i == 0 ? "" : "\n", overrides[i]);
  }
  return !sweep->text.failed && !sweep->overrides.failed;
}

static bool read_tree(sweep_reader *reader, const char *text, size_t length) {
  reader->root = sweep_tree_read(reader->arena, 0, text, length, reader->complaints);
  if (reader->root == NULL || reader->root->refused) {
    return false;
  }
  if (reader->root->kind != SWEEP_MAP) {
    sweep_complain(reader->complaints, reader->root->place, "a sweep file is lines such as experiment: probe, not %s",
                   sweep_show(reader->root).text);
    return false;
  }
  return true;
}

static bool is_clean(const sweep_reader *reader) {
  return reader->complaints->total == 0 && !reader->complaints->no_memory;
}

static void read_meaning(sweep_reader *reader) {
  mhas_sweep *sweep = reader->sweep;
  sweep_read_settings(reader);
  if (sweep->experiment == NULL) {
    return;
  }
  if (sweep->experiment->parameter_count > SWEEP_PARAMETERS_MOST) {
    sweep_complain(reader->complaints, reader->root->place, "%s has more than %d parameters", sweep->experiment->name,
                   SWEEP_PARAMETERS_MOST);
    return;
  }
  sweep->scope.experiment = sweep->experiment;
  sweep_read_parameters(reader);
  if (sweep->definition == NULL) {
    return;
  }
  sweep_read_zip(reader);
  sweep_read_where(reader);
  sweep_order_expressions(reader);
}

/* What needs a file without faults. */
static mhas_code build(sweep_reader *reader, mhas_error *error) {
  sweep_lay_out_grid(reader);
  if (is_clean(reader)) {
    MHAS_TRY(sweep_draw_sample(reader->sweep, error));
    sweep_verify(reader);
  }
  if (is_clean(reader) && !sweep_write_canonical(reader->sweep)) {
    reader->complaints->no_memory = true;
  }
  return MHAS_OK;
}

mhas_code mhas_sweep_parse(const char *name, const char *text, size_t length, const char *const *overrides,
                           size_t override_count, mhas_sweep **sweep, mhas_text *report) {
  sweep_complaints complaints = {.name = name, .overrides = overrides};
  mhas_error error = {.code = MHAS_OK, .text = ""};
  mhas_code code = MHAS_OK;
  *sweep = NULL;
  sweep_reader reader = {.complaints = &complaints, .sweep = calloc(1, sizeof *reader.sweep)};
  reader.arena = reader.sweep == NULL ? NULL : &reader.sweep->arena;
  if (reader.sweep == NULL || !fill_in(reader.sweep, text, length, overrides, override_count)) {
    complaints.no_memory = true;
  } else if (length > MHAS_SWEEP_BYTES_MOST) {
    sweep_complain(&complaints, (sweep_place){0, 1, 1}, "the file is longer than %d MiB, the most for a sweep file",
                   MHAS_SWEEP_BYTES_MOST >> 20);
  } else if (read_tree(&reader, text, length)) {
    sweep_read_overrides(&reader, overrides, override_count);
    read_meaning(&reader);
    code = is_clean(&reader) ? build(&reader, &error) : MHAS_OK;
  }
  if (code != MHAS_OK) {
    mhas_text_append(report, "%s: %s\n", name, error.text);
  }
  sweep_complaints_report(&complaints, report);
  code = code != MHAS_OK ? code : complaints.no_memory ? MHAS_NO_MEMORY : complaints.total > 0 ? MHAS_USAGE : MHAS_OK;
  if (code == MHAS_OK) {
    *sweep = reader.sweep;
  } else {
    mhas_sweep_destroy(reader.sweep);
  }
  sweep_complaints_free(&complaints);
  return code;
}

void mhas_sweep_destroy(mhas_sweep *sweep) {
  if (sweep == NULL) {
    return;
  }
  for (int p = 0; sweep->definition != NULL && p < sweep->experiment->parameter_count; p++) {
    free(sweep->definition[p].list);
    sweep_expression_destroy(sweep->definition[p].expression);
  }
  free(sweep->definition);
  sweep_expression_destroy(sweep->where);
  free(sweep->digit);
  free(sweep->fixed);
  mhas_free(sweep->sample);
  mhas_text_free(&sweep->text);
  mhas_text_free(&sweep->overrides);
  mhas_text_free(&sweep->canonical);
  mhas_searching_destroy(sweep->searching);
  sweep_arena_free(&sweep->arena);
  free(sweep);
}

/* ---- questions ---- */

const mhas_experiment *mhas_sweep_experiment(const mhas_sweep *sweep) { return sweep->experiment; }
const char *mhas_sweep_text(const mhas_sweep *sweep) { return mhas_text_string(&sweep->text); }
const char *mhas_sweep_overrides(const mhas_sweep *sweep) { return mhas_text_string(&sweep->overrides); }
uint64_t mhas_sweep_seed(const mhas_sweep *sweep) { return sweep->seed; }
unsigned mhas_sweep_store(const mhas_sweep *sweep) { return sweep->store; }
const mhas_limits *mhas_sweep_limits(const mhas_sweep *sweep) { return &sweep->limits; }
int64_t mhas_sweep_replicates(const mhas_sweep *sweep) { return sweep->replicates; }
const char *mhas_sweep_canonical(const mhas_sweep *sweep) { return mhas_text_string(&sweep->canonical); }
const char *mhas_sweep_hash(const mhas_sweep *sweep) { return sweep->hash; }

bool mhas_sweep_is_axis(const mhas_sweep *sweep, int parameter) {
  return sweep_digits_of(sweep, UINT64_C(1) << parameter) != 0;
}

int64_t mhas_sweep_grid_count(const mhas_sweep *sweep) { return sweep->combinations * sweep->replicates; }
