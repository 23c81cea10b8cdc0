/*
 * Least squares with two coefficients over kinds of rows (octaves of cost), each with what its last chunks took. Chunks
 * of one kind alone cannot tell the cost of a flop from that of a row, and the costliest go first, so older kinds stay
 * remembered; while there is but one, a weak pull towards the guess, scaled to fit, decides.
 */
#include "farm/pace.h"

#include <math.h>
#include <string.h>

static const double GUESS_PER_FLOP = 1e-9;
static const double GUESS_PER_ROW = 1e-3;
static const double PULL = 1e-3; /* of the guess, relative to the weight of the kinds */
static const double LEAST_SECONDS = 1e-9;
static const double OUTLIER = 10.0; /* a chunk that took more than so many times its prediction counts as that much, */
static const double TRUSTED = 4.0;  /* once so many chunks of its kind are known */
enum { ROUNDS = 4 };                /* of refining the weights */

void mhas_pace_start(mhas_pace *pace) {
  memset(pace, 0, sizeof *pace);
  pace->per_flop = GUESS_PER_FLOP;
  pace->per_row = GUESS_PER_ROW;
}

double mhas_pace_seconds(const mhas_pace *pace, double flops, double rows) {
  return pace->per_flop * flops + pace->per_row * rows;
}

/* ---- the fit ---- */

/* Coefficients in units of the guess. */
typedef struct coefficients {
  double flop, row;
} coefficients;

/* The minimum of the quadratic form within the non-negative quarter. */
static coefficients solve(double ff, double fr, double rr, double qf, double qr) {
  const double determinant = ff * rr - fr * fr;
  coefficients c = {0.0, 0.0};
  if (ff > 0.0 && determinant > 0.0) {
    c.flop = (qf * rr - qr * fr) / determinant;
    c.row = (qr * ff - qf * fr) / determinant;
  }
  if (c.flop <= 0.0) {
    c = (coefficients){0.0, rr > 0.0 ? qr / rr : 0.0};
  } else if (c.row <= 0.0) {
    c = (coefficients){qf / ff, 0.0};
  }
  return c;
}

/* One round: what `now` predicts sets the weights, so that every kind is fitted relative to its size; the pull leads to
 * `anchor`. */
static coefficients refine(const mhas_pace *pace, coefficients now, coefficients anchor) {
  double ff = 0.0, fr = 0.0, rr = 0.0, qf = 0.0, qr = 0.0;
  for (int i = 0; i < MHAS_PACE_KINDS; i++) {
    const mhas_pace_kind *kind = &pace->kinds[i];
    if (kind->chunks > 0.0) {
      const double f = GUESS_PER_FLOP * kind->flops;
      const double r = GUESS_PER_ROW * kind->rows;
      const double predicted = fmax(now.flop * f + now.row * r, LEAST_SECONDS);
      const double weight = kind->chunks / (predicted * predicted);
      ff += weight * f * f;
      fr += weight * f * r;
      rr += weight * r * r;
      qf += weight * f * kind->seconds;
      qr += weight * r * kind->seconds;
    }
  }
  return solve(ff * (1.0 + PULL), fr, rr * (1.0 + PULL), qf + PULL * ff * anchor.flop, qr + PULL * rr * anchor.row);
}

static void fit(mhas_pace *pace) {
  double guessed = 0.0, taken = 0.0;
  for (int i = 0; i < MHAS_PACE_KINDS; i++) {
    guessed += GUESS_PER_FLOP * pace->kinds[i].flops + GUESS_PER_ROW * pace->kinds[i].rows;
    taken += pace->kinds[i].seconds;
  }
  const coefficients anchor = {taken / guessed, taken / guessed};
  coefficients now = anchor;
  for (int round = 0; round < ROUNDS; round++) {
    now = refine(pace, now, anchor);
  }
  pace->per_flop = GUESS_PER_FLOP * now.flop;
  pace->per_row = GUESS_PER_ROW * now.row;
}

/* ---- learning ---- */

static mhas_pace_kind *kind_of(mhas_pace *pace, double flops_per_row) {
  const int octave = flops_per_row >= 1.0 ? ilogb(flops_per_row) : 0;
  return &pace->kinds[octave < MHAS_PACE_KINDS ? octave : MHAS_PACE_KINDS - 1];
}

void mhas_pace_learn(mhas_pace *pace, double flops, double rows, double seconds) {
  mhas_pace_kind *kind = kind_of(pace, flops / rows);
  double counted = fmax(seconds, LEAST_SECONDS * rows);
  if (kind->chunks >= TRUSTED) {
    counted = fmin(counted, OUTLIER * mhas_pace_seconds(pace, flops, rows));
  }
  const double kept = 1.0 - 1.0 / MHAS_PACE_MEMORY;
  kind->chunks = kept * kind->chunks + 1.0;
  kind->flops = kept * kind->flops + flops;
  kind->rows = kept * kind->rows + rows;
  kind->seconds = kept * kind->seconds + counted;
  pace->learned++;
  fit(pace);
}
