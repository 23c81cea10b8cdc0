#include <time.h>

#include "mhasweep/base.h"

double mhas_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double mhas_epoch(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void mhas_sleep(double seconds) {
  const time_t whole = (time_t)seconds;
  const struct timespec length = {.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)};
  (void)nanosleep(&length, NULL); /* cut short by a signal: the caller looks around and sleeps again */
}

void mhas_timestamp(char out[32]) {
  const time_t now = time(NULL);
  struct tm parts;
  if (gmtime_r(&now, &parts) == NULL || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
    out[0] = '\0';
  }
}
