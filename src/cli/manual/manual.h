/*
 * The manual pages and shell completions, written at build time from the tables of the commands and experiments, so
 * that each option and parameter is described in one place.
 *
 * Every function appends one document to `text`; if memory runs out, the text knows.
 */
#ifndef MHASWEEP_CLI_MANUAL_H
#define MHASWEEP_CLI_MANUAL_H

#include "cli/cli.h"

void manual_commands(mhas_text *text);    /* mhasweep(1) */
void manual_experiments(mhas_text *text); /* mhasweep-experiments(7): what each parameter and result means */

/* Completions: the tables; what needs none stands in the scripts beside this file. */
void manual_bash(mhas_text *text);
void manual_zsh(mhas_text *text);

/* ---- roff ---- */

/* The title line; `section` as in "1". */
void roff_title(mhas_text *text, const char *name, const char *section, const char *about);

/* A paragraph's words, so that nothing in them is taken for a request or an escape; ends the line. \n\n parts
 * paragraphs. */
void roff_words(mhas_text *text, const char *words);

/* The same within a line, between \fB and \fR if `bold`. */
void roff_literal(mhas_text *text, const char *words, bool bold);

/* Lines as they are, in a box of their own; "  " before each is taken off. */
void roff_lines(mhas_text *text, const char *lines);

#endif
