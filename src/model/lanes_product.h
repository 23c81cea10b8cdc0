/* Part of lanes_body.h: products too small for BLAS. */

/* Half of 64 bytes, or the register if it is shorter. */
#define HALF_REGISTER (REGISTER < 32 ? REGISTER : 32)
enum { NAME(HALF) = HALF_REGISTER / sizeof(NUMBER) };
typedef NUMBER NAME(half) __attribute__((vector_size(HALF_REGISTER), aligned(sizeof(NUMBER)), may_alias));

/* packed (k, width) = `width` rows of b (with a stride) turned; width is a multiple of the tile. */
static inline void NAME(pack)(int64_t width, int64_t k, const NUMBER *b, int64_t ldb, NUMBER *packed) {
  const int64_t tiles = k / NAME(TILE) * NAME(TILE);
  for (int64_t j = 0; j < width; j += NAME(TILE)) {
    for (int64_t p = 0; p < tiles; p += NAME(TILE)) {
      NAME(turn_tile)(b + j * ldb + p, ldb, packed + p * width + j, width);
    }
  }
  for (int64_t p = tiles; p < k; p++) {
    for (int64_t j = 0; j < width; j++) {
      packed[p * width + j] = b[j * ldb + p];
    }
  }
}

/* ROWS rows of c, and of each COUNT registers of type PIECE with WIDTH columns: sums in the order of k. a_row and
 * a_step: from one row of op(a) to the next, and from one entry in a row to the next. */
#define PRODUCT_ROWS(PIECE, WIDTH, COUNT, ROWS)                                                                      \
  static inline void NAME(PIECE##_rows_##ROWS)(int64_t k, NUMBER alpha, const NUMBER *a, int64_t a_row,              \
                                               int64_t a_step, const NUMBER *b, int64_t ldb, NUMBER beta, NUMBER *c, \
                                               int64_t ldc) {                                                        \
    NAME(PIECE) sum[ROWS][COUNT];                                                                                    \
    for (int i = 0; i < (ROWS); i++) {                                                                               \
      for (int u = 0; u < (COUNT); u++) {                                                                            \
        sum[i][u] = (NAME(PIECE)){0};                                                                                \
      }                                                                                                              \
    }                                                                                                                \
    for (int64_t p = 0; p < k; p++) {                                                                                \
      for (int u = 0; u < (COUNT); u++) {                                                                            \
        const NAME(PIECE) columns = *(const NAME(PIECE) *)(b + p * ldb + u * (WIDTH));                               \
        for (int i = 0; i < (ROWS); i++) {                                                                           \
          sum[i][u] += a[i * a_row + p * a_step] * columns;                                                          \
        }                                                                                                            \
      }                                                                                                              \
    }                                                                                                                \
    for (int i = 0; i < (ROWS); i++) {                                                                               \
      for (int u = 0; u < (COUNT); u++) {                                                                            \
        NAME(PIECE) *to = (NAME(PIECE) *)(c + i * ldc + u * (WIDTH));                                                \
        *to = beta == 0 ? alpha * sum[i][u] : alpha * sum[i][u] + beta * *to;                                        \
      }                                                                                                              \
    }                                                                                                                \
  }
/* At most MOST rows at a time: their sums have to find room in the registers. */
#define PRODUCT_COLUMNS(PIECE, WIDTH, COUNT, MOST)                                                               \
  PRODUCT_ROWS(PIECE, WIDTH, COUNT, 1)                                                                           \
  PRODUCT_ROWS(PIECE, WIDTH, COUNT, 2)                                                                           \
  PRODUCT_ROWS(PIECE, WIDTH, COUNT, 4)                                                                           \
  PRODUCT_ROWS(PIECE, WIDTH, COUNT, 8)                                                                           \
  static inline void NAME(columns_##PIECE)(int64_t m, int64_t k, NUMBER alpha, const NUMBER *a, int64_t a_row,   \
                                           int64_t a_step, const NUMBER *b, int64_t ldb, NUMBER beta, NUMBER *c, \
                                           int64_t ldc) {                                                        \
    int64_t i = 0;                                                                                               \
    for (; (MOST) >= 8 && i + 8 <= m; i += 8) {                                                                  \
      NAME(PIECE##_rows_8)(k, alpha, a + i * a_row, a_row, a_step, b, ldb, beta, c + i * ldc, ldc);              \
    }                                                                                                            \
    for (; (MOST) >= 4 && i + 4 <= m; i += 4) {                                                                  \
      NAME(PIECE##_rows_4)(k, alpha, a + i * a_row, a_row, a_step, b, ldb, beta, c + i * ldc, ldc);              \
    }                                                                                                            \
    for (; i + 2 <= m; i += 2) {                                                                                 \
      NAME(PIECE##_rows_2)(k, alpha, a + i * a_row, a_row, a_step, b, ldb, beta, c + i * ldc, ldc);              \
    }                                                                                                            \
    if (i < m) {                                                                                                 \
      NAME(PIECE##_rows_1)(k, alpha, a + i * a_row, a_row, a_step, b, ldb, beta, c + i * ldc, ldc);              \
    }                                                                                                            \
  }
PRODUCT_COLUMNS(unit, NAME(UNIT), NAME(UNITS), REGISTER / 8)
PRODUCT_COLUMNS(half, NAME(HALF), 32 / HALF_REGISTER, HALF_REGISTER / 4)
#undef PRODUCT_COLUMNS
#undef PRODUCT_ROWS
#undef HALF_REGISTER

/* Columns first .. n - 1, one by one, and ROWS rows of each. */
#define SINGLE_ROWS(ROWS)                                                                                    \
  static inline void NAME(single_##ROWS)(int64_t first, int64_t n, int64_t k, NUMBER alpha, const NUMBER *a, \
                                         int64_t a_row, int64_t a_step, const NUMBER *b, int64_t b_column,   \
                                         int64_t b_step, NUMBER beta, NUMBER *c, int64_t ldc) {              \
    for (int64_t j = first; j < n; j++) {                                                                    \
      NUMBER sum[ROWS] = {0};                                                                                \
      for (int64_t p = 0; p < k; p++) {                                                                      \
        for (int i = 0; i < (ROWS); i++) {                                                                   \
          sum[i] += a[i * a_row + p * a_step] * b[j * b_column + p * b_step];                                \
        }                                                                                                    \
      }                                                                                                      \
      for (int i = 0; i < (ROWS); i++) {                                                                     \
        c[i * ldc + j] = beta == 0 ? alpha * sum[i] : alpha * sum[i] + beta * c[i * ldc + j];                \
      }                                                                                                      \
    }                                                                                                        \
  }
SINGLE_ROWS(1)
SINGLE_ROWS(4)
#undef SINGLE_ROWS

static void NAME(product)(bool a_turned, bool b_turned, int64_t m, int64_t n, int64_t k, NUMBER alpha, const NUMBER *a,
                          int64_t lda, const NUMBER *b, int64_t ldb, NUMBER beta, NUMBER *c, int64_t ldc) {
  const int64_t a_row = a_turned ? 1 : lda;
  const int64_t a_step = a_turned ? lda : 1;
  NUMBER packed[LANES_PRODUCT_DEPTH * LANES];
  int64_t first = 0;
  while (first + LANES / 2 <= n) {
    const int64_t width = first + LANES <= n ? LANES : LANES / 2;
    const NUMBER *columns = b + first;
    if (b_turned) {
      NAME(pack)(width, k, b + first * ldb, ldb, packed);
      columns = packed;
    }
    const int64_t stride = b_turned ? width : ldb;
    if (width == LANES) {
      NAME(columns_unit)(m, k, alpha, a, a_row, a_step, columns, stride, beta, c + first, ldc);
    } else {
      NAME(columns_half)(m, k, alpha, a, a_row, a_step, columns, stride, beta, c + first, ldc);
    }
    first += width;
  }
  const int64_t b_column = b_turned ? ldb : 1;
  const int64_t b_step = b_turned ? 1 : ldb;
  int64_t i = 0;
  for (; first < n && i + 4 <= m; i += 4) {
    NAME(single_4)(first, n, k, alpha, a + i * a_row, a_row, a_step, b, b_column, b_step, beta, c + i * ldc, ldc);
  }
  for (; first < n && i < m; i++) {
    NAME(single_1)(first, n, k, alpha, a + i * a_row, a_row, a_step, b, b_column, b_step, beta, c + i * ldc, ldc);
  }
}
