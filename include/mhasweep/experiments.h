/*
 * What an experiment is: a table of parameters, a table of results, and a function that runs one point.
 *
 * An experiment knows nothing of MPI scheduling, of the sweep file or of the result file: it is handed a point and
 * fills a row. Its tables are the only place where names, types, units, ranges, defaults and meanings stand; validation
 * of sweep files, `mhasweep experiments`, the variables of the result file and their attributes are all made from them.
 *
 * To add an experiment: one file in src/experiments that defines a mhas_experiment, and its line in registry.c.
 */
#ifndef MHASWEEP_EXPERIMENTS_H
#define MHASWEEP_EXPERIMENTS_H

#include <mpi.h>

#include "mhasweep/base.h"

/* ---- tables ------------------------------------------------------------ */

typedef enum mhas_type {
  MHAS_INTEGER,
  MHAS_REAL,
  MHAS_CHOICE, /* one of a list of words; its value is the word's place in the list */
  MHAS_FLAG,   /* true or false; 1 or 0 */
  MHAS_TEXT    /* any words, such as the path of a file; for parameters only */
} mhas_type;

enum { MHAS_TEXT_MOST = 255 }; /* bytes of a MHAS_TEXT */

/* A value of any type: `real` for MHAS_REAL, `text` for MHAS_TEXT, `integer` for all others. */
typedef union mhas_value {
  int64_t integer;
  double real;
  const char *text; /* NUL-terminated UTF-8 without control characters; lives as long as the sweep */
} mhas_value;

typedef struct mhas_parameter {
  const char *name;
  mhas_type type;
  const char *unit;     /* "1" for a pure number */
  const char *fallback; /* default as it would stand in a sweep file; "= ..." is an expression over other parameters */
  double least, most;   /* closed range of numbers; DBL_TRUE_MIN as `least` means greater than zero */
  const char *const *choices; /* MHAS_CHOICE: the words, NULL-terminated */
  const char *meaning;        /* one line, with the source where there is one */
} mhas_parameter;

typedef struct mhas_result {
  const char *name;
  mhas_type type; /* MHAS_REAL (missing: NaN), MHAS_INTEGER or MHAS_FLAG (missing: -1) */
  const char *unit;
  const char *meaning;
} mhas_result;

/* A quantity recorded along a run, e.g. at every evaluation of a training: curve_<name> (point, record) in the file. */
typedef struct mhas_curve {
  const char *name;
  const char *unit;
  const char *meaning;
} mhas_curve;

/* The optional outputs a sweep file can ask for (`store:`). */
typedef enum mhas_store_flag {
  MHAS_STORE_CURVES = 1,
  MHAS_STORE_SPECTRUM = 2,
  MHAS_STORE_WEIGHTS = 4,
  MHAS_STORE_DATA = 8,
  MHAS_STORE_Z = 16,
  MHAS_STORE_ATTENTION = 32,
  MHAS_STORE_ARRAYS = MHAS_STORE_WEIGHTS | MHAS_STORE_DATA | MHAS_STORE_Z | MHAS_STORE_ATTENTION
} mhas_store_flag;

/* ---- one point --------------------------------------------------------- */

typedef struct mhas_point {
  const mhas_value *values; /* [parameter_count], in the order of the experiment's table, checked against its ranges */
  mhas_random random;       /* the sweep's seed and this point's replicate */
} mhas_point;

/* What a point is expected to take; estimates may be rough, but never depend on anything but the point. */
typedef struct mhas_cost {
  double flops;         /* floating-point operations */
  double flops_float32; /* those of them that are done in single precision */
  double bytes;         /* peak memory */
  int64_t records;      /* the most entries that its curves can get */
  int64_t spectrum;     /* the number of its singular values; 0 if it has none */
  double parameters;    /* trainable numbers of its model; 0 if it has none */
} mhas_cost;

/* An array of `store: weights | data | z | attention`, doubles in C order. */
enum { MHAS_ARRAY_RANK = 4, MHAS_ARRAYS_MOST = 48 };
typedef struct mhas_array {
  const char *name; /* E, e, y, W_Q, W_K, W_V, W_O, Z, attention ... */
  mhas_store_flag flag;
  int rank;
  int64_t shape[MHAS_ARRAY_RANK];
  const char *meaning;
} mhas_array;

/* What a run fills in. All buffers belong to the caller and start as missing (NaN, -1). */
typedef struct mhas_row {
  mhas_value *results; /* [result_count] */
  float *curves;       /* [curve_count][record_capacity]; NULL unless curves are stored */
  int64_t record_capacity;
  double *spectrum; /* [spectrum_capacity], descending; NULL unless the spectrum is stored */
  int64_t spectrum_capacity;
  double flops; /* operations really done; 0 until set */
  /* Takes one of the arrays that experiment->arrays announced; may be NULL when none is stored. */
  mhas_code (*keep)(void *keep_context, const char *name, const double *data, mhas_error *error);
  void *keep_context;
} mhas_row;

/*
 * The ranks that run a point together. Zeros: this rank alone, without MPI; in a sweep a single rank has MPI_COMM_SELF.
 * The communicator is there for this point only.
 */
typedef struct mhas_team {
  MPI_Comm comm;
  int rank, size;
} mhas_team;

/* Collective: MHAS_OK if every member says so; else the code and the words of the first one that does not, on all. What
 * one member alone can run into (no memory, a NaN in its part) has to pass through here before the next collective
 * call, or the others would wait for ever. */
mhas_code mhas_team_agree(const mhas_team *team, mhas_code code, mhas_error *error);

/* Collective: `bytes` bytes from member 0 to all. */
mhas_code mhas_team_share(const mhas_team *team, void *data, size_t bytes, mhas_error *error);

/*
 * Where a long run keeps its state, so that it can go on where it was, bit-identically. The row belongs to the state
 * and is kept beside the pieces. An experiment does not call these: see mhas_task_restore and mhas_task_proceed.
 */
typedef struct mhas_checkpoints {
  /* Whether it is time to write one; quick, and not collective: between two calls of task->proceed it answers the same
   * on all members of a team. */
  bool (*due)(void *context);
  /* Member 0 alone is asked for these two, with `mover` for what other members have (NULL without a team). */
  mhas_code (*write)(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, mhas_error *error);
  /* *found: this very point has a checkpoint with pieces of these sizes, and they and the row were filled from it. */
  mhas_code (*read)(void *context, const mhas_piece *pieces, int count, const mhas_mover *mover, bool *found,
                    mhas_error *error);
  void *context;
} mhas_checkpoints;

typedef struct mhas_task {
  mhas_point point;
  unsigned store; /* mhas_store_flag bits that are wanted */
  mhas_team team;
  /*
   * To be asked at least about once a second (it costs some 50 ns between its real checks). MHAS_OK: go on; else return
   * the code at once: MHAS_STOPPED (the point will be run again some day) or MHAS_LIMIT (it has passed its time).
   * Collective over a team of several: all members ask at the same place and get the same answer, which is member 0's.
   */
  mhas_code (*proceed)(void *context, mhas_error *error);
  void *context;
  const mhas_checkpoints *checkpoints; /* NULL (on all members): none are kept, as in a trial of a search */
  /* Bits of the pieces (1 << number) of which each member has a part of its own, whatever its size; an experiment sets
   * them in a copy of its task. All other pieces are the same on all members. */
  unsigned parts;
  /*
   * Only for a search: the point's values with the searched parameter at `size`, and with it all that is an expression
   * of it. MHAS_USAGE if one of them cannot take its value then.
   */
  mhas_code (*at)(void *at_context, int64_t size, mhas_value *values, mhas_error *error);
  void *at_context;
} mhas_task;

/*
 * States on a team. Restoring, proceeding and keeping are collective, with the same answer on all members. What is the
 * same on all is written by member 0, and read by it for all. Of task->parts the file has all members' parts in the
 * order of the members, which pass through member 0 block by block, so that it never holds them whole; each gets its
 * own back. The row that is kept is member 0's. Those of the others are thrown away in the end and stay as they are:
 * nothing may be decided by what is in a row. A checkpoint is good for any team of the same size, on whatever ranks.
 */

/* The state of an earlier, interrupted run of this point into `pieces` and into the row, if there is one; to be asked
 * before the first step, with the pieces that mhas_task_proceed will be given. */
mhas_code mhas_task_restore(const mhas_task *task, const mhas_piece *pieces, int count, bool *found, mhas_error *error);

/* task->proceed for a run whose state is `pieces` just now: it keeps a checkpoint where one is due and where the run is
 * stopped. To be asked between steps, where the pieces and the row are of one mind. */
mhas_code mhas_task_proceed(const mhas_task *task, const mhas_piece *pieces, int count, mhas_error *error);

/* Keeps a checkpoint now: for a run that was stopped where the pieces and the row still are of one mind. */
void mhas_task_keep(const mhas_task *task, const mhas_piece *pieces, int count);

/* ---- searches ---------------------------------------------------------- */

/*
 * What an experiment knows about a search for the largest value of one of its parameters, an integer that counts what
 * gets harder the more there is of it.
 */
typedef struct mhas_searchable {
  const char *parameter;
  /*
   * A guess at the answer of the search with `result` in its condition, from less work than trials take; 0 if there is
   * none to be had. It need not be right: trials at it and beyond it decide. `flops`: operations done. May be NULL.
   */
  mhas_code (*guess)(const mhas_task *task, int result, int64_t *guess, double *flops, mhas_error *error);
  /* The largest guess that can come, for the cost; 0 if `guess` has none for these values. */
  int64_t (*guess_most)(const mhas_value *values);
} mhas_searchable;

typedef enum mhas_relation { MHAS_AT_LEAST, MHAS_ABOVE, MHAS_AT_MOST, MHAS_BELOW, MHAS_EQUAL } mhas_relation;
enum { MHAS_RELATIONS = 5 };
extern const char *const mhas_relation_signs[MHAS_RELATIONS]; /* >=, > ... */

/* The search of a sweep: the largest value of a parameter, from .. to, for which a result keeps a condition. */
typedef struct mhas_search {
  int parameter, result;
  mhas_relation relation;
  bool bound_is_parameter; /* the result is compared with the searched parameter */
  double bound;            /* else with this */
  int64_t from, to;
  int64_t tolerance; /* the answer may be less than the largest by tolerance - 1 */
} mhas_search;

typedef struct mhas_experiment mhas_experiment;
struct mhas_experiment {
  const char *name;
  const char *title;   /* one line */
  const char *summary; /* a paragraph */
  int numerics;        /* raise when the same point would give different numbers */

  const mhas_parameter *parameters;
  int parameter_count;
  const mhas_result *results;
  int result_count;
  const mhas_curve *curves;
  int curve_count;

  /* Rules that involve several parameters. NULL if there are none. Fails with MHAS_USAGE and the reason. */
  mhas_code (*check)(const mhas_value *values, mhas_error *error);
  /* Looks through the files that the point reads, from end to end. Rank 0 calls it for every point before a result
   * file is made, so it has to be quick where it has looked already. NULL if there are none. Fails with MHAS_USAGE and
   * the reason. */
  mhas_code (*inspect)(const mhas_value *values, mhas_error *error);
  mhas_cost (*cost)(const mhas_value *values);
  /* The arrays of this point for the wanted flags: fills at most MHAS_ARRAYS_MOST, returns how many. NULL if it has
   * none. */
  int (*arrays)(const mhas_value *values, unsigned flags, mhas_array *arrays);
  /*
   * Runs one point. MHAS_OK: the row is filled. MHAS_NUMERIC, MHAS_LIMIT, MHAS_NO_MEMORY: the point failed, error->text
   * says why. MHAS_STOPPED: nothing of the row counts. Anything else breaks the sweep. Deterministic: the same point
   * gives the same bits, on teams of the same size.
   *
   * Collective over the task's team. Member 0's row is the one that counts; the others have rows of their own, which
   * are thrown away, but for the code: it must be the same on all, see mhas_team_agree. What was collective when a
   * member returned must have been so for all.
   */
  mhas_code (*run)(const mhas_task *task, mhas_row *row, mhas_error *error);

  /* The most ranks that can share a point; 0 is 1. */
  int max_ranks;

  /* Peak memory of each of `ranks` ranks that share a point, for 2 <= ranks <= max_ranks; NULL: cost's bytes by ranks.
   */
  double (*team_bytes)(const mhas_value *values, int ranks);
  const mhas_searchable *searchable; /* NULL: there is nothing to search for */

  /* Set by mhas_searching_create only. */
  const mhas_experiment *base;
  const mhas_search *search;
};

/* What a point costs, and one point run: also where the experiment is one that searches. */
mhas_cost mhas_experiment_cost(const mhas_experiment *experiment, const mhas_value *values);
mhas_code mhas_experiment_run(const mhas_experiment *experiment, const mhas_task *task, mhas_row *row,
                              mhas_error *error);

/*
 * `base` as an experiment whose every point is a search: its parameters, and its results and curves at the value that
 * was found (at the smallest if none holds), with the result `capacity` and the curves `trial_<parameter>` and
 * `trial_value`, one entry for each trial in the order in which they were made. It keeps no arrays.
 *
 * Found by bracketing (doubling from the smallest value) and bisection, or around a guess of the experiment's. The
 * condition is taken to hold for all smaller values where it holds for one: what is found is a value that holds, such
 * that one at most `tolerance` above it does not. The caller destroys *made; `base` outlives it.
 */
mhas_code mhas_searching_create(const mhas_experiment *base, const mhas_search *search, mhas_experiment **made,
                                mhas_error *error);
void mhas_searching_destroy(mhas_experiment *made); /* NULL is fine */

/* All experiments, in the order users should meet them; *count of them. */
const mhas_experiment *const *mhas_experiments(int *count);
const mhas_experiment *mhas_experiment_find(const char *name); /* NULL if there is none */

/* Peak memory of each of `ranks` ranks that share this point, 1 <= ranks <= max_ranks. */
double mhas_experiment_bytes(const mhas_experiment *experiment, const mhas_value *values, int ranks);

/*
 * The least number of ranks that can share this point with no more than `most` bytes on each; 0 if even max_ranks are
 * too few. It depends on nothing else, so that sums run in the same order in every world. *bytes: needed by each of
 * them, or by each of max_ranks if those are too few; may be NULL.
 */
int mhas_experiment_ranks(const mhas_experiment *experiment, const mhas_value *values, double most, double *bytes);

/* Index of a parameter or a result by name, -1 if there is none. */
int mhas_parameter_find(const mhas_experiment *experiment, const char *name);
int mhas_result_find(const mhas_experiment *experiment, const char *name);

/* Sets every buffer of a row to missing. */
void mhas_row_clear(const mhas_experiment *experiment, mhas_row *row);

/* Puts one entry into every curve of the row; `values` in the order of the experiment's curves. Nothing if curves are
 * not stored. */
void mhas_row_record(const mhas_experiment *experiment, mhas_row *row, int64_t record, const double *values);

#endif
