/* Which variables a result file has: one description for those who create, open and fill them. */
#ifndef MHASWEEP_STORE_LAYOUT_H
#define MHASWEEP_STORE_LAYOUT_H

#include <hdf5.h>

#include "mhasweep/store.h"

/* Raise when a file of the old layout could not be gone on with. */
enum { STORE_SCHEMA = 1 };

/* Root attributes that the program itself reads back. */
#define STORE_ATTRIBUTE_SCHEMA "schema_version"
#define STORE_ATTRIBUTE_EXPERIMENT "experiment"
#define STORE_ATTRIBUTE_HASH "spec_hash"
#define STORE_ATTRIBUTE_CANONICAL "spec_canonical"

/* The dimensions, each with a scale of its name. */
#define STORE_POINT "point"
#define STORE_RECORD "record"
#define STORE_K "k"

#define STORE_REPLICATE "replicate"
#define STORE_STATUS "status"
#define STORE_SECONDS "seconds"
#define STORE_CURVE_PREFIX "curve_"
#define STORE_ARRAYS "stored" /* the group of the stored arrays */

/* What a variable is to its reader: the attribute `role`. */
#define STORE_ROLE_PARAMETER "parameter"
#define STORE_ROLE_RESULT "result"
#define STORE_ROLE_RUN "run"
#define STORE_ROLE_CURVE "curve"
#define STORE_ROLE_SPECTRUM "spectrum"

typedef enum store_kind { STORE_INT8, STORE_INT64, STORE_FLOAT32, STORE_FLOAT64, STORE_TEXT } store_kind;

/* The value that stands for "missing". */
enum { STORE_MISSING = -1 };

enum { STORE_NAME_LENGTH = 96 };

typedef struct store_column {
  char name[STORE_NAME_LENGTH];
  store_kind kind;
  size_t text_length;    /* STORE_TEXT: bytes of a string */
  const char *dimension; /* the second one: STORE_RECORD, STORE_K or NULL */
  int64_t width;         /* elements of a row: 1, or the length of the second dimension */
  size_t row_bytes;
  const char *unit, *meaning, *role;
  const char *const *words; /* names of the values 0, 1 ...; NULL-terminated; NULL if it has none */
  bool starts_missing;      /* else it starts as zeros */
  bool is_axis;             /* parameters only */
} store_column;

/* The run's own columns, behind the results. */
typedef enum store_run_column {
  STORE_RUN_STATUS,
  STORE_RUN_ERROR,
  STORE_RUN_ATTEMPTS,
  STORE_RUN_STARTED,
  STORE_RUN_SECONDS,
  STORE_RUN_RANKS,
  STORE_RUN_FIRST_RANK,
  STORE_RUN_FLOPS,
  STORE_RUN_HOSTNAME,
  STORE_RUN_COUNT
} store_run_column;

/* Columns in the order of the file: parameters, replicate, results, run, curves, spectrum. */
typedef struct store_layout {
  store_column *columns;
  int count;
  int replicate, first_result, first_run, first_curve, spectrum; /* places; of those absent: `count` */
  int64_t records, singular_values;                              /* second dimensions; 0 if absent */
} store_layout;

/* records and singular_values of 0: no curves, no spectrum. Everything but the array belongs to the sweep. */
mhas_code store_layout_create(const mhas_sweep *sweep, int64_t records, int64_t singular_values, store_layout *layout,
                              mhas_error *error);
void store_layout_free(store_layout *layout);

hid_t store_memory_type(store_kind kind);             /* of numbers; not to be closed */
hid_t store_file_type(const store_column *column);    /* to be released */
const char *const *store_status_words(void);          /* pending, running, done, failed */
size_t store_utf8_cut(const char *text, size_t most); /* the longest whole-character prefix of at most `most` bytes */

#endif
