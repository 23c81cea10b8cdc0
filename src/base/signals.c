#include <errno.h>
#include <signal.h>
#include <string.h>

#include "mhasweep/base.h"

static volatile sig_atomic_t signal_count;
static volatile sig_atomic_t signal_last;

static void count_signal(int number) {
  signal_count = signal_count + 1;
  signal_last = number;
}

mhas_code mhas_signals_catch(mhas_error *error) {
  static const int caught[] = {SIGINT, SIGTERM, SIGUSR1};
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  (void)sigemptyset(&action.sa_mask);
  signal_count = 0;
  for (size_t i = 0; i < sizeof caught / sizeof *caught; i++) {
    if (sigaction(caught[i], &action, NULL) != 0) {
      return mhas_fail(error, MHAS_INTERNAL, "cannot catch signal %d: %s", caught[i], strerror(errno));
    }
  }
  action.sa_handler = SIG_IGN;
  if (sigaction(SIGPIPE, &action, NULL) != 0) {
    return mhas_fail(error, MHAS_INTERNAL, "cannot ignore SIGPIPE: %s", strerror(errno));
  }
  return MHAS_OK;
}

int mhas_signals_count(void) { return signal_count; }

const char *mhas_signals_last(void) {
  switch (signal_last) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGUSR1: return "SIGUSR1";
    default: return "";
  }
}
