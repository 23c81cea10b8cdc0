#include "farm/allotment.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mhasweep/farm.h"

extern char **environ;

/* ---- durations in words ---- */

/* A whole number off *text; false if there is none. */
static bool take_number(const char **text, double *number) {
  char *end = NULL;
  if (**text < '0' || **text > '9') {
    return false;
  }
  errno = 0;
  *number = (double)strtoull(*text, &end, 10);
  *text = end;
  return errno == 0 && *number < 1e12;
}

/* M:S, H:M:S or D-H:M:S, as SLURM writes them; *text is at the first colon or hyphen, `first` is before it. */
static bool read_clock(const char *text, double first, double *seconds) {
  double parts[3] = {first, 0.0, 0.0};
  double days = 0.0;
  int count = 1;
  const bool has_days = *text == '-';
  if (has_days) {
    days = first;
    text++;
    if (!take_number(&text, &parts[0])) {
      return false;
    }
  }
  while (*text == ':' && count < 3) {
    text++;
    if (!take_number(&text, &parts[count++])) {
      return false;
    }
  }
  if (*text != '\0' || count < (has_days ? 3 : 2)) {
    return false;
  }
  *seconds = count == 3 ? 86400.0 * days + 3600.0 * parts[0] + 60.0 * parts[1] + parts[2] : 60.0 * parts[0] + parts[1];
  return true;
}

static double unit_of(char letter) {
  switch (letter) {
    case 's': return 1.0;
    case 'm': return 60.0;
    case 'h': return 3600.0;
    case 'd': return 86400.0;
    default: return 0.0;
  }
}

bool mhas_duration_read(const char *text, double *seconds) {
  double number = 0.0;
  if (!take_number(&text, &number)) {
    return false;
  }
  if (*text == ':' || *text == '-') {
    return read_clock(text, number, seconds);
  }
  *seconds = 0.0;
  do {
    const double unit = unit_of(*text);
    if (unit == 0.0) {
      return false;
    }
    *seconds += unit * number;
    text++;
  } while (*text != '\0' && take_number(&text, &number));
  return *text == '\0';
}

/* ---- asking squeue ---- */

/* Starts it without a shell, its output into *out; the job's number is checked to be one. */
static mhas_code start_squeue(const char *job, pid_t *pid, int *out, mhas_error *error) {
  char *const words[] = {"squeue", "--noheader", "--format=%L", "--jobs", (char *)job, NULL};
  int ends[2];
  posix_spawn_file_actions_t actions;
  if (strspn(job, "0123456789") != strlen(job) || *job == '\0') {
    return mhas_fail(error, MHAS_USAGE, "SLURM_JOB_ID is no number");
  }
  if (pipe2(ends, O_CLOEXEC) != 0 || posix_spawn_file_actions_init(&actions) != 0) {
    return mhas_fail(error, MHAS_IO, "squeue cannot be asked: %s", strerror(errno));
  }
  int reason = posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (reason == 0) {
    reason = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  if (reason == 0) {
    reason = posix_spawnp(pid, words[0], &actions, NULL, words, environ);
  }
  (void)posix_spawn_file_actions_destroy(&actions);
  (void)close(ends[1]);
  if (reason != 0) {
    (void)close(ends[0]);
    return mhas_fail(error, MHAS_IO, "squeue cannot be started: %s", strerror(reason));
  }
  *out = ends[0];
  return MHAS_OK;
}

/* Its first line, without blanks around it; empty if it says nothing in time. */
static void read_line(int out, double until, char *line, size_t size) {
  size_t length = 0;
  for (;;) {
    struct pollfd wait = {.fd = out, .events = POLLIN};
    const double left = until - mhas_now();
    if (left <= 0.0 || length + 1 >= size) {
      break;
    }
    if (poll(&wait, 1, (int)ceil(1e3 * left)) <= 0) {
      continue; /* a signal, or the time is over */
    }
    const ssize_t got = read(out, line + length, size - 1 - length);
    if (got <= 0) {
      break;
    }
    length += (size_t)got;
  }
  line[length] = '\0';
  line[strcspn(line, "\n")] = '\0';
  const size_t blanks = strspn(line, " ");
  memmove(line, line + blanks, strlen(line + blanks) + 1);
  line[strcspn(line, " ")] = '\0';
}

static mhas_code ask_squeue(const char *job, double patience, double *seconds, mhas_error *error) {
  pid_t pid = 0;
  int out = -1;
  char line[128];
  MHAS_TRY(start_squeue(job, &pid, &out, error));
  read_line(out, mhas_now() + patience, line, sizeof line);
  (void)close(out);
  (void)kill(pid, SIGKILL); /* it has answered, or never will */
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
  if (strcmp(line, "UNLIMITED") == 0 || strcmp(line, "NOT_SET") == 0) {
    return MHAS_OK;
  }
  return mhas_duration_read(line, seconds) ? MHAS_OK
                                           : mhas_fail(error, MHAS_IO, "squeue does not say when job %s ends%s%s", job,
                                                       *line == '\0' ? "" : ": ", line);
}

/* ---- the end ---- */

static bool read_end_time(double *seconds) {
  const char *word = getenv("SLURM_JOB_END_TIME");
  double end = 0.0;
  if (word == NULL || !take_number(&word, &end) || *word != '\0') {
    return false;
  }
  *seconds = fmax(end - (double)time(NULL), 0.0);
  return true;
}

mhas_allotment mhas_allotment_find(double limit, double patience, mhas_error *doubt) {
  mhas_allotment found = {INFINITY, "SLURM_JOB_END_TIME"};
  const char *job = getenv("SLURM_JOB_ID");
  doubt->text[0] = '\0';
  if (!read_end_time(&found.seconds) && job != NULL) {
    found.source = "squeue";
    (void)ask_squeue(job, patience, &found.seconds, doubt);
  }
  return limit <= found.seconds ? (mhas_allotment){limit, "--time-limit"} : found;
}

double mhas_allotment_margin(double seconds) { return fmin(fmax(0.05 * seconds, 2.0), fmin(120.0, 0.5 * seconds)); }
