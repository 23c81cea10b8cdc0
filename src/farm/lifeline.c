/* A worker's end. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farm/lifeline_words.h"

static const double CONNECT_SECONDS = 3.0;
static const double REPLY_SECONDS = 10.0; /* rank 0 may have many to greet */
static const double LAPSE_SHARE = 0.5;    /* of the silence that counts as death */
static const double MASTER_SILENCES = 4.0;

struct mhas_lifeline {
  int socket, worker;
  double silence;
  pthread_t thread;
  atomic_bool leaving;
  atomic_bool over; /* rank 0 has let this rank go */
  atomic_uint_fast64_t moves;
  atomic_int lapses;
  _Atomic double ticked; /* when the thread was last at work */
};

/* ---- connecting ---- */

static bool wait_for(int socket, short events, double seconds) {
  const double until = mhas_now() + seconds;
  for (;;) {
    struct pollfd wait = {.fd = socket, .events = events};
    const double left = until - mhas_now();
    const int ready = poll(&wait, 1, left > 0.0 ? (int)(1e3 * left) + 1 : 0);
    if (ready > 0) {
      return true;
    }
    if (left <= 0.0 || (ready < 0 && errno != EINTR)) {
      return false;
    }
  }
}

/* A socket that is connected to this address of rank 0; -1 if it is not to be had. */
static int connect_to(const mhas_lifeline_address *address, int i) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(address->port)};
  const bool is_six = address->addresses[i].family == AF_INET6;
  memcpy(&six.sin6_addr, address->addresses[i].bytes, sizeof six.sin6_addr);
  memcpy(&four.sin_addr, address->addresses[i].bytes, sizeof four.sin_addr);
  const int made = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) {
    return -1;
  }
  const struct sockaddr *to = is_six ? (const struct sockaddr *)&six : (const struct sockaddr *)&four;
  int failed = connect(made, to, is_six ? sizeof six : sizeof four) == 0 ? 0 : errno;
  if (failed == EINPROGRESS) {
    socklen_t length = sizeof failed;
    if (!wait_for(made, POLLOUT, CONNECT_SECONDS) || getsockopt(made, SOL_SOCKET, SO_ERROR, &failed, &length) != 0) {
      failed = ETIMEDOUT;
    }
  }
  if (failed != 0) {
    (void)close(made);
    return -1;
  }
  return made;
}

/* Does rank 0 know us there? */
static bool greet(int socket, const mhas_lifeline_address *address, int worker) {
  lifeline_greeting greeting = {.worker = worker};
  uint8_t expected[MHAS_LIFELINE_TOKEN];
  uint8_t reply[MHAS_LIFELINE_TOKEN];
  memcpy(greeting.token, address->token, sizeof greeting.token);
  (void)gethostname(greeting.host, sizeof greeting.host - 1);
  lifeline_reply(address->token, expected);
  if (send(socket, &greeting, sizeof greeting, MSG_NOSIGNAL) != (ssize_t)sizeof greeting) {
    return false;
  }
  size_t got = 0;
  while (got < sizeof reply && wait_for(socket, POLLIN, REPLY_SECONDS)) {
    const ssize_t more = recv(socket, reply + got, sizeof reply - got, 0);
    if (more == 0 || (more < 0 && errno != EINTR && errno != EAGAIN)) {
      return false;
    }
    got += more > 0 ? (size_t)more : 0;
  }
  return got == sizeof reply && memcmp(reply, expected, sizeof reply) == 0;
}

/* The loopback, which every address list has, leads to rank 0 only on its own machine; so it comes first there, and
 * last elsewhere, where hosts that share a machine may still meet. */
static bool is_loopback(const mhas_lifeline_address *address, int i) {
  return address->addresses[i].family == AF_INET && address->addresses[i].bytes[0] == 127;
}

static int reach(const mhas_lifeline_address *address, int worker) {
  char host[MHAS_LIFELINE_HOST] = "";
  (void)gethostname(host, sizeof host - 1);
  const bool here = strcmp(host, address->host) == 0;
  for (int turn = 0; turn < 2; turn++) {
    for (int i = 0; i < address->count; i++) {
      if (is_loopback(address, i) != (here == (turn == 0))) {
        continue;
      }
      const int socket = connect_to(address, i);
      if (socket >= 0 && greet(socket, address, worker)) {
        return socket;
      }
      if (socket >= 0) {
        (void)close(socket);
      }
    }
  }
  return -1;
}

/* ---- the thread ---- */

static void end_process(const mhas_lifeline *line, int status) {
  if (!atomic_load(&line->leaving)) {
    if (status != 0 && line->worker == 0) { /* one for all */
      static const char words[] = "mhasweep: rank 0 is gone, so all others end; --resume goes on\n";
      (void)!write(STDERR_FILENO, words, sizeof words - 1);
    }
    _exit(status); /* the others may wait for ever in a collective call, and so may this one's main thread */
  }
}

/* Reads what has come; when something did, *heard is now. False: there is nothing more to listen for. */
static bool listen_to_master(mhas_lifeline *line, double *heard) {
  char words[64];
  const ssize_t count = recv(line->socket, words, sizeof words, 0);
  if (count < 0) {
    if (errno == EINTR || errno == EAGAIN) {
      return true;
    }
    end_process(line, 1);
    return false;
  }
  *heard = mhas_now();
  for (ssize_t i = 0; i < count; i++) {
    if (words[i] == LIFELINE_END) {
      end_process(line, 0);
    }
    if (words[i] == LIFELINE_LEAVE) {
      atomic_store(&line->over, true);
      return false;
    }
  }
  if (count == 0) {
    end_process(line, 1);
  }
  return count > 0;
}

static void beat(mhas_lifeline *line) {
  const uint64_t moves = atomic_load(&line->moves);
  (void)send(line->socket, &moves, sizeof moves, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void *keep_alive(void *context) {
  mhas_lifeline *line = context;
  const double period = lifeline_period(line->silence);
  double heard = mhas_now();
  double next = heard;
  while (!atomic_load(&line->leaving)) {
    const double now = mhas_now();
    if (now - atomic_load(&line->ticked) > LAPSE_SHARE * line->silence) {
      (void)atomic_fetch_add(&line->lapses, 1);
      heard = now; /* this process stood still, and cannot know of the other */
    }
    atomic_store(&line->ticked, now);
    if (now >= next) {
      beat(line);
      next = now + period;
    }
    struct pollfd wait = {.fd = line->socket, .events = POLLIN};
    if (poll(&wait, 1, (int)(1e3 * period) + 1) > 0 && !listen_to_master(line, &heard)) {
      return NULL;
    }
    if (mhas_now() - heard > MASTER_SILENCES * line->silence &&
        mhas_now() - atomic_load(&line->ticked) < LAPSE_SHARE * line->silence) {
      end_process(line, 1);
    }
  }
  return NULL;
}

/* Signals are for the main thread. */
static int start_thread(mhas_lifeline *line) {
  sigset_t all;
  sigset_t before;
  (void)sigfillset(&all);
  int reason = pthread_sigmask(SIG_SETMASK, &all, &before);
  if (reason == 0) {
    reason = pthread_create(&line->thread, NULL, keep_alive, line);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  return reason;
}

/* ---- what the worker calls ---- */

mhas_code mhas_lifeline_join(const mhas_lifeline_address *address, int worker, double silence, mhas_lifeline **line,
                             mhas_error *error) {
  mhas_lifeline *made = NULL;
  *line = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "a lifeline", error));
  made->silence = silence;
  made->worker = worker;
  atomic_store(&made->ticked, mhas_now());
  made->socket = reach(address, worker);
  if (made->socket < 0) {
    mhas_free(made);
    return mhas_fail(error, MHAS_IO, "rank 0 on %s cannot be reached by TCP", address->host);
  }
  const int reason = start_thread(made);
  if (reason != 0) {
    (void)close(made->socket);
    mhas_free(made);
    return mhas_fail(error, MHAS_INTERNAL, "no thread can be started: %s", strerror(reason));
  }
  *line = made;
  return MHAS_OK;
}

void mhas_lifeline_move(mhas_lifeline *line) { (void)atomic_fetch_add_explicit(&line->moves, 1, memory_order_relaxed); }

int mhas_lifeline_lapses(const mhas_lifeline *line) {
  const bool now = mhas_now() - atomic_load(&line->ticked) > LAPSE_SHARE * line->silence;
  return atomic_load(&line->lapses) + now;
}

void mhas_lifeline_await(mhas_lifeline *line) {
  while (!atomic_load(&line->over)) {
    mhas_sleep(0.01);
  }
}

void mhas_lifeline_leave(mhas_lifeline *line) {
  if (line == NULL) {
    return;
  }
  const uint64_t bye = LIFELINE_BYE;
  atomic_store(&line->leaving, true);
  (void)send(line->socket, &bye, sizeof bye, MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)shutdown(line->socket, SHUT_RDWR); /* wakes the thread */
  (void)pthread_join(line->thread, NULL);
  (void)close(line->socket);
  mhas_free(line);
}
