/*
 * What the commands share: the words of the command line, printing for people and for machines.
 *
 * A command is a table (its words, from which both parsing and --help are made) and a function. The function prints
 * its results to stdout and returns a code; main turns that into a message on stderr and an exit status.
 */
#ifndef MHASWEEP_CLI_H
#define MHASWEEP_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "mhasweep/base.h"
#include "mhasweep/sweep.h"

enum { CLI_DONE = 0, CLI_BROKE = 1, CLI_USAGE = 2, CLI_OPEN = 75 }; /* exit statuses; `run` has those of mhas_run */

/* ---- words in ---------------------------------------------------------- */

typedef struct cli_option {
  const char *name;
  char letter;          /* 0 if it has no short form */
  const char *argument; /* what its value is called; in brackets if it may be missing; NULL if it takes none */
  const char *meaning;
} cli_option;

struct cli_words;

typedef struct cli_command {
  const char *name;
  const char *operand;     /* "SPEC.yaml", "[NAME]" in brackets if it may be missing, NULL if there is none */
  const char *summary;     /* one line */
  const char *description; /* paragraphs, parted by \n\n */
  const cli_option *options;
  int option_count;
  const char *examples; /* lines */
  const char *statuses; /* lines: exit status, meaning */
  bool under_mpi;       /* may be started by mpirun or srun: then its usage errors are said by rank 0 alone */
  /* *status is 0 at first; it is the exit status if the command returns MHAS_OK. */
  mhas_code (*run)(const struct cli_words *words, int *status, mhas_error *error);
} cli_command;

/* All of them, in the order in which users should meet them. */
const cli_command *const *cli_commands(int *count);
const cli_command *cli_command_find(const char *word); /* NULL if there is none */

extern const cli_command cli_run, cli_plan, cli_show, cli_export, cli_experiments, cli_simulate, cli_doctor;

typedef struct cli_words {
  const cli_command *command;
  char **argv;         /* all words of the process */
  const char *operand; /* NULL if it is missing */
  bool help;           /* --help was among them; nothing else counts then */
  int given_count;
  struct cli_given {
    int option;        /* its place in the command's table */
    const char *value; /* NULL if it takes none, or if one that may be missing is */
  } * given;           /* in the order of the command line */
} cli_words;

/* Understands argv[2] and on. MHAS_USAGE: unknown option (with the nearest), missing value, too many or too few
 * operands. The caller frees words->given with mhas_free, also after a failure. */
mhas_code cli_parse(const cli_command *command, int argc, char **argv, cli_words *words, mhas_error *error);

bool cli_has(const cli_words *words, int option);
const char *cli_value(const cli_words *words, int option); /* the last one given; NULL if none */
/* All values of an option that may be repeated: fills `values` (room for given_count), returns how many. */
size_t cli_values(const cli_words *words, int option, const char **values);
/* An option's value as a whole number >= 0; *number is left alone if the option is not there. */
mhas_code cli_count(const cli_words *words, int option, int64_t *number, mhas_error *error);

/* An option's value as a finite number >= least; *number is left alone if the option is not there. */
mhas_code cli_number(const cli_words *words, int option, double least, double *number, mhas_error *error);

/* The sweep file that is the command's operand, with the overrides of its option --set. All errors of the file go to
 * stderr, a line each. The caller destroys *sweep. */
mhas_code cli_read_sweep(const cli_words *words, int option_set, mhas_sweep **sweep, mhas_error *error);

/* An option whose value is `dynamic` or `static`; *fixed is left alone if it is not there. */
mhas_code cli_teams(const cli_words *words, int option, bool *fixed, mhas_error *error);

mhas_code cli_print_help(const cli_command *command, mhas_error *error);
void cli_print_overview(void); /* what mhasweep --help says */

/* The command's options, 0 .. option_count, of which the last is --help. */
const cli_option *cli_option_at(const cli_command *command, int place);

/* A parameter's "integer, 1 .. 65536, default 20". */
void cli_describe_parameter(const mhas_parameter *parameter, mhas_text *text);
const char *cli_type_name(mhas_type type);

/* The rank that mpirun or srun gave to this process; 0 without them. Before MPI_Init. */
int cli_launcher_rank(void);

/* Rank 0: also writes the exit status to the file that MHASWEEP_STATUS_FILE names, for launchers that lose it. */
void cli_report_status(int status);

/* Operations per second of dgemm (sgemm if float32) on matrices that fit the cache: the best of what `seconds` of
 * trying give. */
mhas_code cli_gemm_rate(bool float32, double seconds, double *rate, mhas_error *error);
/* The operations per second of one core of this machine for this sweep's operations, on average: each precision at the
 * speed of its matrix products, measured now. */
mhas_code cli_sweep_rate(const mhas_plan *plan, double *rate, mhas_error *error);
/* The largest error of dgemm against plainly written sums, on matrices of entries below 1, in units of rounding. */
mhas_code cli_dgemm_error(double *units, mhas_error *error);

/* ---- words out --------------------------------------------------------- */

/* Writes what is buffered of stdout. Fails with MHAS_IO if something could not be written; a reader that has gone away
 * (a closed pipe) gives an empty error text, since there is nothing to tell anyone. */
mhas_code cli_flush(mhas_error *error);

bool cli_on_terminal(void); /* a person looks at stdout */
int cli_width(void);        /* columns to use on stdout: of the terminal, else 100 */
int cli_height(void);       /* rows of that terminal, else 24 */
bool cli_colour(void);      /* stdout is a terminal that wants colours */
bool cli_can_draw(void);    /* stdout is a terminal on which the cursor moves */

/* Prints words broken into lines that fit `width`, each line indented. \n\n parts paragraphs. */
void cli_print_wrapped(const char *text, int indent, int width);
/* The same from the middle of a line: further lines begin in `column`, where the first begins. */
void cli_print_hanging(const char *text, int column, int width);

/*
 * A table of short texts: columns as wide as their widest cell, two spaces between them. The last column, if left
 * aligned, is wrapped to the width. Start with cli_table_start, add cells row by row.
 */
enum { CLI_COLUMNS_MOST = 8 };
typedef struct cli_table {
  int columns;
  bool right[CLI_COLUMNS_MOST]; /* right aligned */
  mhas_text cells;              /* NUL-terminated, one after the other */
} cli_table;
void cli_table_cell(cli_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
mhas_code cli_table_print(cli_table *table, int indent, mhas_error *error); /* and frees it */

/* Columns that a UTF-8 text takes on a terminal, taking every character for one column wide. */
int cli_text_width(const char *text);

/* Sets a key of an object and takes over `value`; *failed is set (and stays) if memory ran out. */
void cli_json_put(json_t *object, const char *key, json_t *value, bool *failed);
/* A number as JSON has it: integers whole, NaN and infinities null. */
json_t *cli_json_number(double number);
/* Prints a document, and frees it. */
mhas_code cli_json_print(json_t *document, bool failed, mhas_error *error);

#endif
