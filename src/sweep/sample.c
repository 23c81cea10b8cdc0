/*
 * Samplers: a table of numbers in [0, 1), one per point and axis.
 *
 * sobol is GSL's sequence as it is (the seed plays no part); random and lhs are functions of the seed by the program's
 * own counter-based generator, so that they are the same on every machine.
 */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_qrng.h>

#include "sweep/inside.h"

static mhas_code draw_sobol(mhas_sweep *sweep, mhas_error *error) {
  gsl_error_handler_t *before = gsl_set_error_handler_off(); /* GSL's own handler aborts */
  gsl_qrng *sequence = gsl_qrng_alloc(gsl_qrng_sobol, (unsigned)sweep->digit_count);
  mhas_code code = MHAS_OK;
  if (sequence == NULL) {
    code = mhas_fail(error, MHAS_NO_MEMORY, "out of memory: a Sobol sequence of %d axes", sweep->digit_count);
    goto done;
  }
  for (int64_t i = 0; i < sweep->sample_count; i++) {
    if (gsl_qrng_get(sequence, sweep->sample + i * sweep->digit_count) != GSL_SUCCESS) {
      code = mhas_fail(error, MHAS_INTERNAL, "the Sobol sequence ends before %lld points", (long long)i);
      goto done;
    }
  }
done:
  if (sequence != NULL) {
    gsl_qrng_free(sequence);
  }
  (void)gsl_set_error_handler(before);
  return code;
}

/* McKay, Beckman, Conover 1979: on every axis one point in each of `count` strata, at a uniform place within it. */
static mhas_code draw_lhs(mhas_sweep *sweep, mhas_error *error) {
  const mhas_random random = {.seed = sweep->seed};
  const int64_t count = sweep->sample_count;
  const int axes = sweep->digit_count;
  int64_t *stratum = NULL;
  MHAS_TRY(mhas_alloc(&stratum, (size_t)count, sizeof *stratum, "the strata of a Latin hypercube", error));
  /* The permutations take the stream's elements below count * axes, the places within strata those behind. */
  mhas_random_uniform(random, MHAS_STREAM_SAMPLE, (uint64_t)(count * axes), (size_t)(count * axes), sweep->sample);
  for (int axis = 0; axis < axes; axis++) {
    mhas_random_permutation(random, MHAS_STREAM_SAMPLE, (uint64_t)axis, (size_t)count, stratum);
    for (int64_t i = 0; i < count; i++) {
      double *u = &sweep->sample[i * axes + axis];
      *u = ((double)stratum[i] + *u) / (double)count;
    }
  }
  mhas_free(stratum);
  return MHAS_OK;
}

mhas_code sweep_draw_sample(mhas_sweep *sweep, mhas_error *error) {
  const size_t numbers = (size_t)(sweep->sample_count * sweep->digit_count);
  if (sweep->method == SWEEP_GRID) {
    return MHAS_OK;
  }
  MHAS_TRY(mhas_alloc(&sweep->sample, numbers, sizeof *sweep->sample, "the sampled points", error));
  if (sweep->method == SWEEP_SOBOL) {
    return draw_sobol(sweep, error);
  }
  if (sweep->method == SWEEP_LHS) {
    return draw_lhs(sweep, error);
  }
  mhas_random_uniform((mhas_random){.seed = sweep->seed}, MHAS_STREAM_SAMPLE, 0, numbers, sweep->sample);
  return MHAS_OK;
}
