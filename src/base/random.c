#include <Random123/philox.h>
#include <math.h>

#include "mhasweep/base.h"

typedef struct pair {
  uint64_t word[2];
} pair;

/* The two 64-bit words of block `block`: elements 2 block and 2 block + 1 of the stream. */
static inline pair draw(mhas_random random, mhas_stream stream, uint64_t block) {
  const philox4x32_key_t key = {{(uint32_t)random.seed, (uint32_t)(random.seed >> 32)}};
  const philox4x32_ctr_t counter = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, random.replicate}};
  const philox4x32_ctr_t bits = philox4x32(counter, key);
  return (pair){{(uint64_t)bits.v[1] << 32 | bits.v[0], (uint64_t)bits.v[3] << 32 | bits.v[2]}};
}

static inline double to_unit(uint64_t word) { return (double)(word >> 11) * 0x1p-53; }

/* Walks elements index .. index + count - 1, handing each block's pair to `both` and storing the elements asked for. */
#define FILL(type, both)                         \
  do {                                           \
    size_t done = 0;                             \
    while (done < count) {                       \
      const uint64_t at = index + done;          \
      type value[2];                             \
      both(draw(random, stream, at / 2), value); \
      out[done++] = value[at % 2];               \
      if (at % 2 == 0 && done < count) {         \
        out[done++] = value[1];                  \
      }                                          \
    }                                            \
  } while (0)

static inline void both_words(pair words, uint64_t value[2]) {
  value[0] = words.word[0];
  value[1] = words.word[1];
}

static inline void both_uniform(pair words, double value[2]) {
  value[0] = to_unit(words.word[0]);
  value[1] = to_unit(words.word[1]);
}

/* Box and Muller 1958. The radius takes 1 - u, so that the logarithm never sees zero. */
static inline void both_normal(pair words, double value[2]) {
  const double radius = sqrt(-2.0 * log(1.0 - to_unit(words.word[0])));
  const double angle = 6.283185307179586 * to_unit(words.word[1]);
  value[0] = radius * cos(angle);
  value[1] = radius * sin(angle);
}

void mhas_random_words(mhas_random random, mhas_stream stream, uint64_t index, size_t count, uint64_t *out) {
  FILL(uint64_t, both_words);
}

void mhas_random_uniform(mhas_random random, mhas_stream stream, uint64_t index, size_t count, double *out) {
  FILL(double, both_uniform);
}

void mhas_random_normal(mhas_random random, mhas_stream stream, uint64_t index, size_t count, double *out) {
  FILL(double, both_normal);
}

/* The high word of the 128-bit product: word / 2^64 * bound, rounded down. */
static inline int64_t scale_below(uint64_t word, uint64_t bound) {
  return (int64_t)(((unsigned __int128)word * bound) >> 64);
}

void mhas_random_below(mhas_random random, mhas_stream stream, uint64_t index, size_t count, uint64_t bound,
                       int64_t *out) {
  for (size_t i = 0; i < count; i++) {
    uint64_t word = 0;
    mhas_random_words(random, stream, index + i, 1, &word);
    out[i] = scale_below(word, bound);
  }
}

void mhas_random_permutation(mhas_random random, mhas_stream stream, uint64_t round, size_t count, int64_t *out) {
  for (size_t i = 0; i < count; i++) {
    out[i] = (int64_t)i;
  }
  /* Fisher and Yates, from the end; the words of round r are elements r count .. (r + 1) count - 1. */
  for (size_t i = count; i > 1; i--) {
    int64_t j = 0;
    mhas_random_below(random, stream, round * count + (count - i), 1, i, &j);
    const int64_t swapped = out[i - 1];
    out[i - 1] = out[j];
    out[j] = swapped;
  }
}
