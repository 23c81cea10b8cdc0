/*
 * A TCP connection from rank 0 to every other rank, beside MPI, by which each learns whether the other still lives:
 * MPI 3 cannot tell. A thread of each worker writes a beat now and then, whatever the worker itself is at; a process
 * that dies closes its end, and one that hangs, or whose machine is gone, falls silent. Private to the farm.
 */
#ifndef MHASWEEP_FARM_LIFELINE_H
#define MHASWEEP_FARM_LIFELINE_H

#include "mhasweep/base.h"

enum { MHAS_LIFELINE_ADDRESSES = 8, MHAS_LIFELINE_TOKEN = 16, MHAS_LIFELINE_HOST = 64 };

/* Where rank 0 listens, for the others; flat. */
typedef struct mhas_lifeline_address {
  uint8_t token[MHAS_LIFELINE_TOKEN]; /* tells our ranks from whoever else comes by */
  char host[MHAS_LIFELINE_HOST];
  uint16_t port;
  int count;
  struct {
    int family;
    uint8_t bytes[16];
  } addresses[MHAS_LIFELINE_ADDRESSES];
} mhas_lifeline_address;

/* ---- rank 0 ---- */

typedef struct mhas_lifelines mhas_lifelines;

/* Listens; `silence` is the seconds without a beat that count as death, for how often to send them. */
mhas_code mhas_lifelines_open(int workers, double silence, mhas_lifelines **lines, mhas_lifeline_address *address,
                              mhas_error *error);

/* Waits for the workers for so many seconds at the most; *missing: how many did not come. */
void mhas_lifelines_gather(mhas_lifelines *lines, double patience, int *missing);

bool mhas_lifelines_has(const mhas_lifelines *lines, int worker); /* it has come */

/* A number for each worker's host, [workers]. */
const int *mhas_lifelines_hosts(const mhas_lifelines *lines);

const char *mhas_lifelines_host_name(const mhas_lifelines *lines, int worker);

typedef struct mhas_beat {
  int worker;
  bool closed;    /* its process has ended, or left */
  uint64_t moves; /* else: how far its row is, in any unit */
} mhas_beat;

int mhas_lifelines_host_count(const mhas_lifelines *lines); /* rank 0's included */

/* The next thing that has come in; false: nothing more for now. Sends the master's own beats on the way. */
bool mhas_lifelines_next(mhas_lifelines *lines, double now, mhas_beat *beat);

/* This worker shall end at once, whatever it is at. */
void mhas_lifelines_end(mhas_lifelines *lines, int worker);

/*
 * Workers are let go (`ended`, [workers]: those that are to end instead; NULL: none). Returns how many of these still
 * hold their connection after so many seconds: they hang. lines NULL is fine.
 */
int mhas_lifelines_close(mhas_lifelines *lines, const bool *ended, double patience);

/* ---- a worker ---- */

typedef struct mhas_lifeline mhas_lifeline;

/* Connects to rank 0 and starts the thread. From then on the process ends (_exit, status 1) when rank 0 does, or is not
 * heard of for four times `silence`, and (status 0) when rank 0 says so. MHAS_IO if it cannot be reached. */
mhas_code mhas_lifeline_join(const mhas_lifeline_address *address, int worker, double silence, mhas_lifeline **line,
                             mhas_error *error);

/* The row that runs has moved. */
void mhas_lifeline_move(mhas_lifeline *line);

/* How often this process has stood still for so long that others may think it dead. */
int mhas_lifeline_lapses(const mhas_lifeline *line);

/* Waits until rank 0 lets this one go. */
void mhas_lifeline_await(mhas_lifeline *line);

/* Says so first, so that it is not taken for dead. NULL is fine. */
void mhas_lifeline_leave(mhas_lifeline *line);

#endif
