/* Rank 0's ends. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "farm/lifeline_words.h"

static const double GREETING_SECONDS = 2.0; /* for one that has connected to say who it is */

struct mhas_lifelines {
  int workers, listener;
  double period, next_beat;
  uint8_t token[MHAS_LIFELINE_TOKEN];
  struct pollfd *ends; /* [workers]: fd < 0: not there */
  int *hosts;          /* [workers] */
  char (*names)[MHAS_LIFELINE_HOST];
  int at;    /* where the reading of `ends` is */
  int ready; /* of them, ends with something to read that were not looked at yet */
};

/* ---- opening ---- */

static void add_address(mhas_lifeline_address *address, int family, const void *bytes, size_t length) {
  if (address->count < MHAS_LIFELINE_ADDRESSES) {
    address->addresses[address->count].family = family;
    memcpy(address->addresses[address->count++].bytes, bytes, length);
  }
}

static void list_addresses(mhas_lifeline_address *address) {
  struct ifaddrs *all = NULL;
  if (getifaddrs(&all) != 0) {
    return;
  }
  for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
    if (one->ifa_addr == NULL || (one->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    if (one->ifa_addr->sa_family == AF_INET) {
      const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)one->ifa_addr;
      add_address(address, AF_INET, &four->sin_addr, sizeof four->sin_addr);
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)one->ifa_addr;
      if (!IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) && !IN6_IS_ADDR_LOOPBACK(&six->sin6_addr)) {
        add_address(address, AF_INET6, &six->sin6_addr, sizeof six->sin6_addr);
      }
    }
  }
  freeifaddrs(all);
}

/* On all addresses of both families, or of the one that there is. */
static int start_listening(int workers, uint16_t *port) {
  for (int family = AF_INET6;; family = AF_INET) {
    const int made = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in four = {.sin_family = AF_INET};
    const int off = 0;
    if (made >= 0) {
      struct sockaddr *any = family == AF_INET6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
      socklen_t length = family == AF_INET6 ? sizeof six : sizeof four;
      if (family == AF_INET6) {
        (void)setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
      }
      if (bind(made, any, length) == 0 && listen(made, workers < 4096 ? workers + 16 : 4096) == 0 &&
          getsockname(made, any, &length) == 0) {
        *port = ntohs(family == AF_INET6 ? six.sin6_port : four.sin_port);
        return made;
      }
      (void)close(made);
    }
    if (family == AF_INET) {
      return -1;
    }
  }
}

/* A connection to each worker; the default limit of 1024 files is too few for large worlds. */
static void raise_limit(int workers) {
  struct rlimit limit;
  const rlim_t wanted = (rlim_t)workers + 256;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
}

static mhas_code allocate(mhas_lifelines *lines, mhas_error *error) {
  const size_t workers = (size_t)lines->workers;
  MHAS_TRY(mhas_alloc(&lines->ends, workers, sizeof *lines->ends, "the lifelines", error));
  MHAS_TRY(mhas_alloc(&lines->hosts, workers, sizeof *lines->hosts, "the lifelines", error));
  MHAS_TRY(mhas_alloc(&lines->names, workers, sizeof *lines->names, "the lifelines", error));
  for (int worker = 0; worker < lines->workers; worker++) {
    lines->ends[worker] = (struct pollfd){.fd = -1, .events = POLLIN};
  }
  return MHAS_OK;
}

static void release(mhas_lifelines *lines) {
  for (int worker = 0; lines->ends != NULL && worker < lines->workers; worker++) {
    if (lines->ends[worker].fd >= 0) {
      (void)close(lines->ends[worker].fd);
    }
  }
  if (lines->listener >= 0) {
    (void)close(lines->listener);
  }
  mhas_free(lines->ends);
  mhas_free(lines->hosts);
  mhas_free(lines->names);
  mhas_free(lines);
}

mhas_code mhas_lifelines_open(int workers, double silence, mhas_lifelines **lines, mhas_lifeline_address *address,
                              mhas_error *error) {
  mhas_lifelines *made = NULL;
  memset(address, 0, sizeof *address);
  *lines = NULL;
  MHAS_TRY(mhas_alloc(&made, 1, sizeof *made, "the lifelines", error));
  made->workers = workers;
  made->listener = -1;
  made->period = lifeline_period(silence);
  mhas_code code = allocate(made, error);
  if (code == MHAS_OK) {
    raise_limit(workers);
    made->listener = start_listening(workers, &address->port);
    if (made->listener < 0 || getrandom(made->token, sizeof made->token, 0) != (ssize_t)sizeof made->token) {
      code = mhas_fail(error, MHAS_IO, "no connection can be listened for: %s", strerror(errno));
    }
  }
  if (code != MHAS_OK) {
    release(made);
    return code;
  }
  (void)gethostname(address->host, sizeof address->host - 1);
  memcpy(address->token, made->token, sizeof made->token);
  list_addresses(address);
  *lines = made;
  return MHAS_OK;
}

/* ---- gathering ---- */

static bool receive_greeting(const mhas_lifelines *lines, int socket, lifeline_greeting *greeting) {
  const double until = mhas_now() + GREETING_SECONDS;
  size_t got = 0;
  while (got < sizeof *greeting && mhas_now() < until) {
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    if (poll(&wait, 1, 100) <= 0) {
      continue;
    }
    const ssize_t more = recv(socket, (char *)greeting + got, sizeof *greeting - got, MSG_DONTWAIT);
    if (more == 0 || (more < 0 && errno != EINTR && errno != EAGAIN)) {
      return false;
    }
    got += more > 0 ? (size_t)more : 0;
  }
  return got == sizeof *greeting && memcmp(greeting->token, lines->token, sizeof lines->token) == 0 &&
         greeting->worker >= 0 && greeting->worker < lines->workers;
}

static void welcome(mhas_lifelines *lines, int socket) {
  lifeline_greeting greeting;
  uint8_t reply[MHAS_LIFELINE_TOKEN];
  const int on = 1;
  lifeline_reply(lines->token, reply);
  if (!receive_greeting(lines, socket, &greeting) ||
      send(socket, reply, sizeof reply, MSG_NOSIGNAL) != (ssize_t)sizeof reply) {
    (void)close(socket);
    return;
  }
  (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct pollfd *end = &lines->ends[greeting.worker];
  if (end->fd >= 0) {
    (void)close(end->fd); /* it has given that one up */
  }
  end->fd = socket;
  greeting.host[sizeof greeting.host - 1] = '\0';
  memcpy(lines->names[greeting.worker], greeting.host, sizeof greeting.host);
}

static int count_missing(const mhas_lifelines *lines) {
  int missing = 0;
  for (int worker = 0; worker < lines->workers; worker++) {
    missing += lines->ends[worker].fd < 0;
  }
  return missing;
}

/* Equal names, equal numbers. */
static void number_hosts(mhas_lifelines *lines) {
  for (int worker = 0; worker < lines->workers; worker++) {
    int same = 0;
    while (strcmp(lines->names[same], lines->names[worker]) != 0) {
      same++;
    }
    lines->hosts[worker] = same;
  }
}

void mhas_lifelines_gather(mhas_lifelines *lines, double patience, int *missing) {
  const double until = mhas_now() + patience;
  for (*missing = count_missing(lines); *missing > 0 && mhas_now() < until; *missing = count_missing(lines)) {
    struct pollfd wait = {.fd = lines->listener, .events = POLLIN};
    if (poll(&wait, 1, 50) > 0) {
      const int socket = accept4(lines->listener, NULL, NULL, SOCK_CLOEXEC);
      if (socket >= 0) {
        welcome(lines, socket);
      }
    }
  }
  number_hosts(lines);
  (void)close(lines->listener);
  lines->listener = -1;
}

bool mhas_lifelines_has(const mhas_lifelines *lines, int worker) { return lines->ends[worker].fd >= 0; }

int mhas_lifelines_host_count(const mhas_lifelines *lines) {
  char here[MHAS_LIFELINE_HOST] = "";
  bool alone = true;
  int count = 0;
  (void)gethostname(here, sizeof here - 1);
  for (int worker = 0; worker < lines->workers; worker++) {
    count += lines->hosts[worker] == worker; /* the first one of its host */
    alone &= strcmp(lines->names[worker], here) != 0;
  }
  return count + alone;
}

const int *mhas_lifelines_hosts(const mhas_lifelines *lines) { return lines->hosts; }

const char *mhas_lifelines_host_name(const mhas_lifelines *lines, int worker) { return lines->names[worker]; }

/* ---- while the farm works ---- */

static void say(const mhas_lifelines *lines, int worker, char word) {
  if (lines->ends[worker].fd >= 0) {
    (void)send(lines->ends[worker].fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* who is dead is found out by reading */
  }
}

static void send_beats(mhas_lifelines *lines, double now) {
  if (now >= lines->next_beat) {
    lines->next_beat = now + lines->period;
    for (int worker = 0; worker < lines->workers; worker++) {
      say(lines, worker, LIFELINE_BEAT);
    }
  }
}

/* What this end has to say; false: nothing whole. */
static bool read_end(mhas_lifelines *lines, int worker, mhas_beat *beat) {
  uint64_t moves[64];
  struct pollfd *end = &lines->ends[worker];
  *beat = (mhas_beat){.worker = worker};
  const ssize_t count = recv(end->fd, moves, sizeof moves, MSG_DONTWAIT);
  if (count > 0) { /* a beat that came in two parts only shows a number that never was */
    beat->moves = count >= (ssize_t)sizeof *moves ? moves[(size_t)count / sizeof *moves - 1] : 0;
    if (beat->moves == LIFELINE_BYE) {
      (void)close(end->fd);
      end->fd = -1;
      return false;
    }
    return true;
  }
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
    return false;
  }
  (void)close(end->fd);
  end->fd = -1;
  beat->closed = true;
  return true;
}

bool mhas_lifelines_next(mhas_lifelines *lines, double now, mhas_beat *beat) {
  send_beats(lines, now);
  if (lines->ready == 0) {
    lines->at = 0;
    lines->ready = poll(lines->ends, (nfds_t)lines->workers, 0);
  }
  while (lines->ready > 0 && lines->at < lines->workers) {
    const int worker = lines->at++;
    if (lines->ends[worker].fd >= 0 && lines->ends[worker].revents != 0) {
      lines->ready--;
      if (read_end(lines, worker, beat)) {
        return true;
      }
    }
  }
  lines->ready = 0;
  return false;
}

void mhas_lifelines_end(mhas_lifelines *lines, int worker) { say(lines, worker, LIFELINE_END); }

/* ---- closing ---- */

int mhas_lifelines_close(mhas_lifelines *lines, const bool *ended, double patience) {
  if (lines == NULL) {
    return 0;
  }
  for (int worker = 0; worker < lines->workers; worker++) {
    say(lines, worker, ended != NULL && ended[worker] ? LIFELINE_END : LIFELINE_LEAVE);
  }
  int left = 0;
  const double until = mhas_now() + patience;
  do {
    mhas_beat beat;
    while (mhas_lifelines_next(lines, 0.0, &beat)) { /* only who is gone matters now */
    }
    left = 0;
    for (int worker = 0; worker < lines->workers; worker++) {
      left += ended != NULL && ended[worker] && lines->ends[worker].fd >= 0;
    }
    if (left > 0) {
      mhas_sleep(0.01);
    }
  } while (left > 0 && mhas_now() < until);
  release(lines);
  return left;
}
