/*
 * A sweep file, understood: which points there are, which values each has, what it will cost.
 *
 * Points of the full grid are numbered by mixed radix: the axes in the order of the experiment's table (not of the
 * file), the last one fastest, replicates faster still. Any point is computed from its number; nothing is stored per
 * point. Nothing here is collective; a mhas_sweep must not be used from two threads at once.
 */
#ifndef MHASWEEP_SWEEP_H
#define MHASWEEP_SWEEP_H

#include "mhasweep/experiments.h"

typedef struct mhas_sweep mhas_sweep;

typedef struct mhas_limits {
  double seconds_per_point; /* infinity if not set */
  double memory_per_rank;   /* bytes; infinity if not set */
  int64_t max_failures;     /* INT64_MAX if not set */
} mhas_limits;

enum { MHAS_SWEEP_BYTES_MOST = 4 << 20 }; /* of a sweep file's text */

/*
 * Reads a sweep file's text. `name` is what messages call the file. `overrides` are the NAME=VALUE words of --set: NAME
 * is a parameter or a setting (seed, replicates, where, limits.seconds_per_point ...), VALUE is YAML. MHAS_USAGE:
 * `report` has every error, one line each, as name:line:col: what, and what would be right (--set NAME: ... for
 * overrides). The caller owns *sweep (mhas_sweep_destroy) and `report`.
 */
mhas_code mhas_sweep_parse(const char *name, const char *text, size_t length, const char *const *overrides,
                           size_t override_count, mhas_sweep **sweep, mhas_text *report);
void mhas_sweep_destroy(mhas_sweep *sweep); /* NULL is fine */

/* What an override can set beside parameters: seed, limits.seconds_per_point ...; *count names. */
const char *const *mhas_sweep_settings(size_t *count);

/* Everything below stays owned by the sweep. */
const mhas_experiment *mhas_sweep_experiment(const mhas_sweep *sweep); /* with a `search`, one that searches */
const char *mhas_sweep_text(const mhas_sweep *sweep);                  /* the YAML as it was read */
const char *mhas_sweep_overrides(const mhas_sweep *sweep);             /* the --set words, a line each */
uint64_t mhas_sweep_seed(const mhas_sweep *sweep);
unsigned mhas_sweep_store(const mhas_sweep *sweep); /* mhas_store_flag bits */
const mhas_limits *mhas_sweep_limits(const mhas_sweep *sweep);
int64_t mhas_sweep_replicates(const mhas_sweep *sweep);
bool mhas_sweep_is_axis(const mhas_sweep *sweep,
                        int parameter); /* takes more than one value by itself (not a mere expression) */

/* The values of an axis: how many, and which. A length of 0 means that a sampler draws from a continuous range; then
 * values 0 and 1 are its ends. */
int64_t mhas_sweep_axis_length(const mhas_sweep *sweep, int parameter);
mhas_value mhas_sweep_axis_value(const mhas_sweep *sweep, int parameter, int64_t index);
/* Bytes of the longest among the values of a MHAS_TEXT, at least 1. */
size_t mhas_sweep_text_width(const mhas_sweep *sweep, int parameter);
/* Is it given by an expression over at least one axis? */
bool mhas_sweep_is_derived(const mhas_sweep *sweep, int parameter);

/* The meaning of the sweep (experiment, numerics version, seed, values, where, sample, store: what decides the rows),
 * as sorted "key = value" lines, free of comments, key order and notation; and its 64-bit FNV-1a hash as 16 hex digits.
 */
const char *mhas_sweep_canonical(const mhas_sweep *sweep);
const char *mhas_sweep_hash(const mhas_sweep *sweep);

/* Points of the full grid, replicates counted, `where` not applied; at most 2^40. */
int64_t mhas_sweep_grid_count(const mhas_sweep *sweep);

/*
 * The values of grid point `index` (parameter_count of them) and its replicate; *included says whether `where` keeps
 * it. MHAS_USAGE if an expression gives this point a value that its parameter cannot take, or the experiment's check
 * refuses it.
 */
mhas_code mhas_sweep_point(mhas_sweep *sweep, int64_t index, mhas_value *values, int64_t *replicate, bool *included,
                           mhas_error *error);

/*
 * For a sweep whose experiment searches: the values of grid point `index`, which is one, with `size` for the searched
 * parameter (mhas_sweep_point gives it the most that the search may try). MHAS_USAGE as there.
 */
mhas_code mhas_sweep_point_at(mhas_sweep *sweep, int64_t index, int64_t size, mhas_value *values, mhas_error *error);

/* Writes the condition of a search, e.g. accuracy >= 0.999. */
void mhas_search_format(const mhas_experiment *searching, mhas_text *text);

/* ---- rows: the points that `where` keeps, numbered 0, 1, 2 ... in grid order ---- */

typedef struct mhas_rows mhas_rows;

/* Takes a bit of memory per grid point if there is a `where`, none otherwise. */
mhas_code mhas_rows_create(mhas_sweep *sweep, mhas_rows **rows, mhas_error *error);
void mhas_rows_destroy(mhas_rows *rows);
int64_t mhas_rows_count(const mhas_rows *rows);
int64_t mhas_rows_grid_index(const mhas_rows *rows, int64_t row);

/* ---- plan: what the whole sweep will take ---- */

typedef struct mhas_plan {
  int64_t grid;         /* points before `where` */
  double points;        /* after it */
  bool exact;           /* false: points, flops and maxima come from an even sample of a large grid */
  double flops;         /* sum over points */
  double flops_float32; /* those of them that are done in single precision */
  double flops_most;    /* of the costliest point */
  double bytes_most;    /* memory of the largest point, on one rank */
  int ranks_most;       /* by limits.memory_per_rank: the most ranks that share a point; 1 if none is shared */
  bool too_large;       /* a point does not fit that limit whatever the number of ranks */
  int64_t records_most; /* longest curves */
  int64_t spectrum_most;
  double parameters_least, parameters_most; /* of the smallest and the largest model; 0 if there are none */
  double file_bytes;                        /* estimated size of the result file */
} mhas_plan;

/* Exact up to about a million points (or with exact = true, always); otherwise within a second from an even sample. */
mhas_code mhas_sweep_plan(mhas_sweep *sweep, bool exact, mhas_plan *plan, mhas_error *error);

/* Writes a value as it would stand in a sweep file, e.g. 64, 0.001, shared, true. */
void mhas_value_format(const mhas_parameter *parameter, mhas_value value, mhas_text *text);

#endif
