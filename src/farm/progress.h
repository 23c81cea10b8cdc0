/* Progress for people, with its stream and terminal in the caller's hands. Private to the farm. */
#ifndef MHASWEEP_FARM_PROGRESS_H
#define MHASWEEP_FARM_PROGRESS_H

#include <stdio.h>

#include "mhasweep/farm.h"

/* `width`: columns of the terminal; 0: ask the stream each time. The stream stays the caller's. */
mhas_code mhas_progress_create_on(FILE *stream, bool terminal, int width, mhas_progress **progress, mhas_error *error);

/* The live line, fewer than `width` characters: bar, counts, rate, busy ranks, ETA; what does not fit is left out. */
void mhas_progress_live(mhas_text *text, const mhas_farm_state *state, int width);

/* A line of a log, without its newline: the same without the bar. */
void mhas_progress_log(mhas_text *text, const mhas_farm_state *state);

/* The last line, without its newline. */
void mhas_progress_closing(mhas_text *text, const mhas_farm_state *state);

#endif
