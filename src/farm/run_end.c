/* How a run ends: its closing words and its exit status. Rank 0 only. */
#include <inttypes.h>
#include <math.h>

#include "farm/run.h"
#include "farm/run_words.h"

static void say_stranded(const sweep_run *run, const mhas_farm_state *state) {
  const double mebibytes = ceil(run->todo.bytes_to_fit / (1 << 20)); /* as the sweep file takes it, and never too few */
  const bool one = state->stranded == 1;
  const int left = state->workers - state->lost;
  mhas_text way = {0};
  if (state->lost > 0) {
    mhas_text_append(&way, "`--resume` with all ranks goes on");
  } else {
    mhas_text_append(&way,
                     "Start it with -n %d or more (one rank hands out the work), or raise limits.memory_per_rank to "
                     "%.0fMiB, and --resume",
                     state->widest + 1, mebibytes);
  }
  mhas_say("%" PRId64 " point%s need%s a team of %s%d ranks, and %d work%s here%s: %s pending. %s", state->stranded,
           one ? "" : "s", one ? "s" : "", one ? "" : "up to ", state->widest, left, left == 1 ? "s" : "",
           state->lost > 0 ? " now" : "", one ? "it stays" : "they stay", mhas_text_string(&way));
  mhas_text_free(&way);
}

static void say_out_of_time(const mhas_farm_state *state) {
  if (state->done + state->failed > 0 || state->given_up > 0) {
    mhas_say("stopped in time: what is open would not have ended before the end; `--resume` goes on");
  } else {
    mhas_say("nothing could be done in the time that there was; give it more");
  }
}

int mhas_run_conclude(const sweep_run *run, const mhas_farm_state *state) {
  const char *path = run->path.data;
  mhas_tally tally;
  mhas_error error;
  if (mhas_tally_file(path, &tally, &error) != MHAS_OK) {
    mhas_say("%s", error.text);
    return EXIT_BROKEN;
  }
  const int64_t open = tally.pending + tally.running;
  char elapsed[MHAS_HUMAN_LENGTH];
  if (!run->options->quiet && state->total > 0) {
    mhas_say("%s: %" PRId64 " done, %" PRId64 " failed, %" PRId64 " open after %s", path, tally.done, tally.failed,
             open, mhas_human_seconds(state->elapsed, elapsed));
  }
  if (state->too_many_failures) {
    mhas_say("stopped: more than %" PRId64 " points failed (limits.max_failures)",
             mhas_sweep_limits(run->sweep)->max_failures);
    mhas_say_failures(path, 5);
    return EXIT_SOME_FAILED;
  }
  if (state->stranded > 0) {
    say_stranded(run, state);
  }
  if (open > 0) {
    if (state->out_of_time) {
      say_out_of_time(state);
    } else if (state->stopping) {
      mhas_say("stopped on request; `--resume` goes on");
    } else if (state->lost > 0 && state->lost == state->workers) {
      mhas_say("stopped: rank 0 alone is left; `--resume` goes on");
    } else if (run->todo.cut) {
      mhas_say("stopped at --limit; `--resume` goes on");
    }
    return EXIT_STOPPED;
  }
  if (tally.failed > 0) {
    mhas_say_failures(path, 5);
    mhas_say("%" PRId64 " points failed: `mhasweep show --failed %s` lists them, `--retry-failed` runs them again",
             tally.failed, path);
    return EXIT_SOME_FAILED;
  }
  return EXIT_DONE;
}
