/*
 * The ground floor: errors, memory, growing text, random numbers, signals, time.
 *
 * Nothing here knows of MPI, HDF5 or attention. No function exits or aborts;
 * what can fail returns a code and says why in a mhas_error of the caller's.
 * None is collective. Only the signal functions touch process-wide state.
 */
#ifndef MHASWEEP_BASE_H
#define MHASWEEP_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- errors ------------------------------------------------------------ */

typedef enum mhas_code {
  MHAS_OK = 0,
  MHAS_USAGE,     /* the command line or the sweep file is wrong: exit 2 */
  MHAS_NO_MEMORY, /* an allocation failed */
  MHAS_IO,        /* a file could not be read, written or understood */
  MHAS_MPI,       /* an MPI call failed, or the world is not as launched */
  MHAS_NUMERIC,   /* diverged, NaN, singular: the point fails, the sweep goes on */
  MHAS_LIMIT,     /* a limit of the sweep file was passed: the point fails, the sweep goes on */
  MHAS_STOPPED,   /* asked to give up: the point stays pending */
  MHAS_INTERNAL   /* a broken promise inside this program */
} mhas_code;

enum { MHAS_ERROR_LENGTH = 1024 };

/* What went wrong, in words for the user; meaningless unless a call has failed. */
typedef struct mhas_error {
  mhas_code code;
  char text[MHAS_ERROR_LENGTH];
} mhas_error;

/* Fills *error and returns `code`, so that `return mhas_fail(...)` reads well. `error` may be NULL. */
mhas_code mhas_fail(mhas_error *error, mhas_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Puts "<context>: " in front of the text of an error on its way up; returns its code. */
mhas_code mhas_error_context(mhas_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Leaves the function with the code of a call that failed. Only where nothing has to be freed. */
#define MHAS_TRY(call)                       \
  do {                                       \
    const mhas_code mhas_try_code_ = (call); \
    if (mhas_try_code_ != MHAS_OK) {         \
      return mhas_try_code_;                 \
    }                                        \
  } while (0)

/* ---- memory ------------------------------------------------------------ */

/*
 * `count` elements of `size` bytes, zeroed, 64-byte aligned (a cache line, an AVX-512 register).
 * Never NULL for a count of 0. Fails with MHAS_NO_MEMORY, saying how much `what` needed, also when
 * count * size overflows. The caller owns *memory and frees it with mhas_free.
 */
mhas_code mhas_alloc(void *memory, size_t count, size_t size, const char *what, mhas_error *error);
void mhas_free(void *memory); /* NULL is fine */

/* A piece of a run's state: flat numbers without pointers. */
typedef struct mhas_piece {
  void *data; /* NULL with bytes > 0: it is in other processes, and a mhas_mover is there */
  size_t bytes;
} mhas_piece;

/*
 * Brings pieces that are in other processes, by their number, in blocks that come in order from offset 0 on: into
 * `block`, to be kept; or out of it, to where they belong. False: it cannot be done.
 */
typedef struct mhas_mover {
  bool (*fetch)(void *context, int piece, size_t offset, size_t bytes, void *block);
  bool (*deliver)(void *context, int piece, size_t offset, size_t bytes, void *block);
  void *context;
} mhas_mover;

/* a * b, or false if it does not fit. */
bool mhas_multiply(size_t a, size_t b, size_t *product);

/* The one place where a 64-bit count becomes the 32-bit int of BLAS, LAPACK and MPI. */
mhas_code mhas_narrow(int64_t count, const char *what, int *narrow, mhas_error *error);

/* ---- text -------------------------------------------------------------- */

/* A growing string. Start with {0}; `data` is NULL until something is appended. If memory runs out, `failed` is set and
 * stays set, and what was appended before stays readable: check it once at the end. */
typedef struct mhas_text {
  char *data; /* NUL-terminated */
  size_t length;
  size_t capacity;
  bool failed;
} mhas_text;

void mhas_text_append(mhas_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mhas_text_append_bytes(mhas_text *text, const char *bytes, size_t length);
const char *mhas_text_string(const mhas_text *text); /* never NULL */
void mhas_text_free(mhas_text *text);

/* The whole of a file of at most `most` bytes. MHAS_IO with the reason (missing, a folder, too large ...). */
mhas_code mhas_text_read_file(const char *path, size_t most, mhas_text *text, mhas_error *error);

/* The entry of `names` nearest to `word` by edit distance, or NULL if none is near enough to be a typing slip. */
const char *mhas_nearest_name(const char *word, const char *const *names, size_t count);

/* Numbers for people: "1.5 GiB", "3.2 G", "2 h 05 min". Each writes into `out` (at least 32 bytes) and returns it. */
enum { MHAS_HUMAN_LENGTH = 32 };
char *mhas_human_bytes(double bytes, char *out);
char *mhas_human_count(double count, char *out);
char *mhas_human_seconds(double seconds, char *out);

/* ---- random numbers ---------------------------------------------------- */

/*
 * Every random number of the program is a pure function of (seed, replicate, stream, index): Philox4x32-10 (Random123;
 * Salmon et al., SC11) with key = seed and counter = (block, stream, replicate). No state, so any rank makes any part
 * of any array by itself, and the first T samples are the same for every T' >= T.
 */
typedef struct mhas_random {
  uint64_t seed;
  uint32_t replicate;
} mhas_random;

/* One name per independent sequence. Numbers are part of the result's meaning: append, never renumber. */
typedef enum mhas_stream {
  MHAS_STREAM_CONTEXT = 1,
  MHAS_STREAM_QUERY = 2,
  MHAS_STREAM_LABEL = 3,
  MHAS_STREAM_W_QUERY = 4,
  MHAS_STREAM_W_KEY = 5,
  MHAS_STREAM_W_VALUE = 6,
  MHAS_STREAM_W_OUT = 7,
  MHAS_STREAM_EMBEDDING = 8,
  MHAS_STREAM_EMBEDDING_BIAS = 9,
  MHAS_STREAM_DECODER = 10,
  MHAS_STREAM_DECODER_BIAS = 11,
  MHAS_STREAM_SHUFFLE = 12,
  MHAS_STREAM_SAMPLE = 13,
  /* of where data come from: */
  MHAS_STREAM_BAG = 32,
  MHAS_STREAM_PATCHES = 33,
  MHAS_STREAM_PATCHES_BIAS = 34,
  MHAS_STREAM_CLS = 35,
  MHAS_STREAM_POSITIONS = 36,
  MHAS_STREAM_STAGE_QUERY = 37,
  MHAS_STREAM_STAGE_KEY = 38,
  MHAS_STREAM_STAGE_VALUE = 39,
  MHAS_STREAM_STAGE_OUT = 40,
  MHAS_STREAM_STAGE_MLP_IN = 41,
  MHAS_STREAM_STAGE_MLP_OUT = 42,
  /* of the search for dependent queries: */
  MHAS_STREAM_ORDER = 48,
  MHAS_STREAM_PROJECTION = 49,
  /* of the construction: */
  MHAS_STREAM_TARGET = 60,   /* attention patterns */
  MHAS_STREAM_SATURATE = 61, /* directions of saturation */
  /* of trainings with noise, and of composing: */
  MHAS_STREAM_DROPOUT = 80,
  MHAS_STREAM_QUERY_NOISE = 81,
  MHAS_STREAM_LABEL_NOISE = 82,   /* which labels */
  MHAS_STREAM_LABEL_INSTEAD = 83, /* the labels put in their place */
  MHAS_STREAM_COMPOSE = 96,       /* the first of 14: one for each composing array, in the order of mhas_slice */
  /* of the algebra of teams: */
  MHAS_STREAM_SKETCH = 112,
  MHAS_STREAM_START = 113, /* of iterations for singular values */
  MHAS_STREAM_SIMULATION = 120,
  /* of the theory of optimization: */
  MHAS_STREAM_MIX_LABEL = 128,
  MHAS_STREAM_MIX_POSITION = 129,  /* which tokens are relevant */
  MHAS_STREAM_MIX_PROTOTYPE = 130, /* of the others */
  MHAS_STREAM_MIX_NOISE = 131,     /* on them; also Gaussian tokens */
  MHAS_STREAM_MIX_BASIS = 132,     /* signals and prototypes */
  MHAS_STREAM_FLIP = 133,          /* labels */
  MHAS_STREAM_PLANTED_U = 134,
  MHAS_STREAM_PLANTED_W = 135,
  MHAS_STREAM_INIT_U = 136,
  MHAS_STREAM_INIT_W = 137,
  MHAS_STREAM_INIT_SIGN = 138,
  MHAS_STREAM_LEFT_OUT = 139,
  /* of eigenvalues: the first vector, and those in place of what is used up */
  MHAS_STREAM_EIGEN_START = 144,
  MHAS_STREAM_EIGEN_RESTART = 145,
  /* of token selection by one head: */
  MHAS_STREAM_TOKEN = 146,
  MHAS_STREAM_TOKEN_QUERY = 147,
  MHAS_STREAM_TOKEN_HEAD = 148,
  MHAS_STREAM_TOKEN_LABEL = 149,
  MHAS_STREAM_TOKEN_FLIP = 150,
  MHAS_STREAM_TOKEN_WEIGHT = 151,
  /* of in-context learning: */
  MHAS_STREAM_ICL_TOKENS = 160,      /* of the steps */
  MHAS_STREAM_ICL_TEST_TOKENS = 161, /* those that losses are evaluated on */
  MHAS_STREAM_ICL_NEW_TOKENS = 162,  /* those of new tasks */
  MHAS_STREAM_ICL_TASKS = 163,       /* v of each prompt */
  MHAS_STREAM_ICL_TEACHER_A = 164,
  MHAS_STREAM_ICL_TEACHER_W = 165,
  MHAS_STREAM_ICL_A = 166,
  MHAS_STREAM_ICL_W = 167,
  MHAS_STREAM_ICL_BIRTH = 168, /* which neurons are redrawn, and what they become */
  MHAS_STREAM_ICL_BIRTH_A = 169,
  MHAS_STREAM_ICL_BIRTH_W = 170,
  MHAS_STREAM_ICL_NOISE = 171, /* of perturbations */
  MHAS_STREAM_ICL_NEW_A = 172, /* new tasks */
  MHAS_STREAM_ICL_NEW_W = 173,
  MHAS_STREAM_ICL_NEW_MIX = 174,
  MHAS_STREAM_ICL_PROMPTS = 175 /* the prompts of loss_finite_sampled */
} mhas_stream;

/* Elements index .. index + count - 1 of a stream. Uniform on [0, 1) with 53 bits; normal by Box-Muller; raw 64-bit
 * words. */
void mhas_random_uniform(mhas_random random, mhas_stream stream, uint64_t index, size_t count, double *out);
void mhas_random_normal(mhas_random random, mhas_stream stream, uint64_t index, size_t count, double *out);
void mhas_random_words(mhas_random random, mhas_stream stream, uint64_t index, size_t count, uint64_t *out);

/* Elements as integers, uniform on 0 .. bound - 1 (by multiplication: bias below bound / 2^64). */
void mhas_random_below(mhas_random random, mhas_stream stream, uint64_t index, size_t count, uint64_t bound,
                       int64_t *out);

/* A uniform permutation of 0 .. count - 1; `round` picks which of the stream's permutations of that count. */
void mhas_random_permutation(mhas_random random, mhas_stream stream, uint64_t round, size_t count, int64_t *out);

/* ---- signals ----------------------------------------------------------- */

/* From here on SIGINT, SIGTERM and SIGUSR1 are counted (from 0) instead of killing the process; SIGPIPE is ignored. */
mhas_code mhas_signals_catch(mhas_error *error);
int mhas_signals_count(void);        /* how many arrived so far */
const char *mhas_signals_last(void); /* "SIGTERM" ..., "" if none */

/* ---- time -------------------------------------------------------------- */

double mhas_now(void);             /* seconds of a clock that never jumps; only differences mean something */
double mhas_epoch(void);           /* seconds since 1970-01-01T00:00:00Z, by the machine's clock */
void mhas_sleep(double seconds);   /* returns early if a signal comes */
void mhas_timestamp(char out[32]); /* now, ISO 8601, UTC: 2026-01-31T12:00:00Z */

/* ---- this build --------------------------------------------------------- */

const char *mhas_version(void);    /* "0.1.0" */
const char *mhas_git_commit(void); /* of the tree that was built; "unknown" without git */

#endif
