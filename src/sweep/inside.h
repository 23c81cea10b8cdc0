/* What a mhas_sweep is inside, for the files of this room. */
#ifndef MHASWEEP_SWEEP_INSIDE_H
#define MHASWEEP_SWEEP_INSIDE_H

#include "mhasweep/sweep.h"
#include "sweep/expression.h"
#include "sweep/range.h"

/* How a parameter gets its values. */
typedef enum sweep_form { SWEEP_FIXED, SWEEP_VALUES, SWEEP_RANGE, SWEEP_EXPRESSION } sweep_form;

typedef struct sweep_definition {
  sweep_form form;
  sweep_place place; /* in the sweep file; of a default: of nothing */
  bool given;        /* by the user; else it is the default */
  bool good;         /* could be read */
  mhas_value value;  /* SWEEP_FIXED */
  mhas_value *list;  /* SWEEP_VALUES */
  int64_t count;     /* values: 1 if fixed, by expression, or continuous */
  sweep_range range; /* SWEEP_RANGE */
  sweep_expression *expression;
  int group; /* of zip; -1: none */
} sweep_definition;

/* One digit of the grid's mixed radix: an axis, or the axes of a zip group, which advance together. */
typedef struct sweep_digit {
  int64_t length; /* at least 2; 0: continuous */
  int member[SWEEP_PARAMETERS_MOST];
  int member_count;
} sweep_digit;

typedef enum sweep_method { SWEEP_GRID, SWEEP_SOBOL, SWEEP_RANDOM, SWEEP_LHS } sweep_method;
extern const char *const sweep_method_names[]; /* of SWEEP_SOBOL and those after it */
enum { SWEEP_METHOD_NAMES = 3 };

extern const char *const sweep_store_names[]; /* of the bits of mhas_store_flag, from the lowest */
enum { SWEEP_STORE_NAMES = 6 };

struct mhas_sweep {
  const mhas_experiment *experiment;
  mhas_experiment *searching; /* the experiment, if there is a search */
  sweep_place search_place;
  sweep_arena arena; /* of the file's tree, which holds the texts among the values */
  mhas_text text, overrides;
  uint64_t seed;
  unsigned store;
  mhas_limits limits;
  int64_t replicates;
  sweep_definition *definition; /* of every parameter */
  int group_count;              /* of zip */
  sweep_expression *where;      /* NULL if there is none */
  uint64_t where_needs;         /* parameters (and the replicate) that it depends on, also by way of expressions */

  sweep_digit *digit;
  int digit_count;
  mhas_value *fixed;                /* the parameters that no digit and no expression sets */
  int order[SWEEP_PARAMETERS_MOST]; /* parameters given by expressions, each behind those that it needs */
  int order_count;
  uint64_t needs[SWEEP_PARAMETERS_MOST]; /* of a parameter given by an expression, as where_needs */

  sweep_method method;
  int64_t sample_count;
  double *sample; /* [sample_count][digit_count], in [0, 1) */

  int64_t combinations; /* points without replicates */
  sweep_scope scope;
  mhas_text canonical;
  char hash[17];
};

/* ---- reading: each complains about what it finds and goes on ---- */

typedef struct sweep_reader {
  mhas_sweep *sweep;
  sweep_complaints *complaints;
  sweep_arena *arena;
  sweep_node *root;
} sweep_reader;

/* The --set words, put into the tree. */
void sweep_read_overrides(sweep_reader *reader, const char *const *overrides, size_t count);

/* Everything but the parameters: the top level's keys, experiment, seed, replicates, store, limits, sample. */
void sweep_read_settings(sweep_reader *reader);

/* `search`: needs the experiment and `store`; may put an experiment that searches in its place. */
void sweep_read_search(sweep_reader *reader);
void sweep_write_search(const mhas_sweep *sweep, mhas_text *text);

/* A map with known keys only, under a key of the top level; NULL if there is none or it is something else. */
const sweep_node *sweep_map_take(sweep_reader *reader, const char *name, const char *const *keys, size_t count,
                                 const char *example);

/* Parameters, defaults, zip, where: needs the experiment. */
void sweep_read_parameters(sweep_reader *reader);
void sweep_read_zip(sweep_reader *reader);
void sweep_read_where(sweep_reader *reader);

/* The order of the expressions; circles are complained about. */
void sweep_order_expressions(sweep_reader *reader);

/* Digits, number of points, samples. Needs definitions without faults. */
void sweep_lay_out_grid(sweep_reader *reader);
mhas_code sweep_draw_sample(mhas_sweep *sweep, mhas_error *error);

/* Values of expressions, where they can all be looked at. Needs the grid. */
void sweep_verify(sweep_reader *reader);

bool sweep_write_canonical(mhas_sweep *sweep); /* false if memory ran out */

/* ---- points ---- */

/* Value `index` of a definition that is no expression; sweep_definition_at: of a continuous one at u. */
mhas_value sweep_definition_value(const sweep_definition *definition, int64_t index);

/* Sets a parameter in `values` and in the scope of the expressions. */
void sweep_set(mhas_sweep *sweep, int parameter, mhas_value value, mhas_value *values);

/* Sets every member of a digit to value `index`. */
void sweep_set_digit(mhas_sweep *sweep, int digit, int64_t index, mhas_value *values);

/* Sets all that digits decide for one point without its replicate. */
void sweep_set_combination(mhas_sweep *sweep, int64_t combination, mhas_value *values);
void sweep_set_replicate(mhas_sweep *sweep, int64_t replicate);

/* Evaluates, in the scope, the expressions of the parameters in `needed`. */
void sweep_evaluate(mhas_sweep *sweep, uint64_t needed);

/* What `where` says in the scope as it is: NaN if that is no answer. 1 without a `where`. */
double sweep_where_value(const mhas_sweep *sweep);

/* From the scope's value of a parameter given by an expression to its own type. False with the reason if it cannot
 * take it. */
bool sweep_settle(const mhas_sweep *sweep, int parameter, mhas_value *value, mhas_error *reason);

/* Does `where` keep the point? A `where` without an answer keeps it (it fails when it is run). `values` is scratch. */
bool sweep_keeps(mhas_sweep *sweep, int64_t index, mhas_value *values);

/* The digits that set one of these parameters, as bits. */
uint64_t sweep_digits_of(const mhas_sweep *sweep, uint64_t parameters);

/* ---- a part of the grid: some digits (and the replicate) run, the others stand at their first value ---- */

typedef struct sweep_part {
  uint64_t digits;
  bool replicate;
  int64_t count; /* of its points; -1 if more than asked for */
} sweep_part;

/* The part in which everything in `needs` varies; all sampled points if there is a sampler. */
sweep_part sweep_part_of(const mhas_sweep *sweep, uint64_t needs, int64_t most);
void sweep_set_part(mhas_sweep *sweep, const sweep_part *part, int64_t index, mhas_value *values);

#endif
