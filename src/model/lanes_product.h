/* ---- small products ---- */

/* A register's worth of lanes, or several registers that the compiler makes of it; and half of that. */
typedef NUMBER NAME(whole) __attribute__((vector_size(64), aligned(sizeof(NUMBER)), may_alias));
typedef NUMBER NAME(half) __attribute__((vector_size(32), aligned(sizeof(NUMBER)), may_alias));

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

/* ROWS rows of c, as many columns as ROW has lanes: sums in the order of k. a_row and a_step: from one row of op(a) to
 * the next, and from one entry in a row to the next. */
#define PRODUCT_ROWS(ROW, ROWS)                                                                                  \
  static inline void NAME(ROW##_##ROWS)(int64_t k, NUMBER alpha, const NUMBER *a, int64_t a_row, int64_t a_step, \
                                        const NUMBER *b, int64_t ldb, NUMBER beta, NUMBER *c, int64_t ldc) {     \
    NAME(ROW) sum[ROWS] = {{0}};                                                                                 \
    for (int64_t p = 0; p < k; p++) {                                                                            \
      const NAME(ROW) columns = *(const NAME(ROW) *)(b + p * ldb);                                               \
      for (int i = 0; i < (ROWS); i++) {                                                                         \
        sum[i] += a[i * a_row + p * a_step] * columns;                                                           \
      }                                                                                                          \
    }                                                                                                            \
    for (int i = 0; i < (ROWS); i++) {                                                                           \
      NAME(ROW) *to = (NAME(ROW) *)(c + i * ldc);                                                                \
      *to = beta == 0 ? alpha * sum[i] : alpha * sum[i] + beta * *to;                                            \
    }                                                                                                            \
  }
#define PRODUCT_COLUMNS(ROW)                                                                                   \
  PRODUCT_ROWS(ROW, 1)                                                                                         \
  PRODUCT_ROWS(ROW, 2)                                                                                         \
  PRODUCT_ROWS(ROW, 4)                                                                                         \
  PRODUCT_ROWS(ROW, 8)                                                                                         \
  static inline void NAME(columns_##ROW)(int64_t m, int64_t k, NUMBER alpha, const NUMBER *a, int64_t a_row,   \
                                         int64_t a_step, const NUMBER *b, int64_t ldb, NUMBER beta, NUMBER *c, \
                                         int64_t ldc) {                                                        \
    int64_t i = 0;                                                                                             \
    for (; i + 8 <= m; i += 8) {                                                                               \
      NAME(ROW##_8)(k, alpha, a + i * a_row, a_row, a_step, b, ldb, beta, c + i * ldc, ldc);                   \
    }                                                                                                          \
    if (i + 4 <= m) {                                                                                          \
      NAME(ROW##_4)(k, alpha, a + i * a_row, a_row, a_step, b, ldb, beta, c + i * ldc, ldc);                   \
      i += 4;                                                                                                  \
    }                                                                                                          \
    if (i + 2 <= m) {                                                                                          \
      NAME(ROW##_2)(k, alpha, a + i * a_row, a_row, a_step, b, ldb, beta, c + i * ldc, ldc);                   \
      i += 2;                                                                                                  \
    }                                                                                                          \
    if (i < m) {                                                                                               \
      NAME(ROW##_1)(k, alpha, a + i * a_row, a_row, a_step, b, ldb, beta, c + i * ldc, ldc);                   \
    }                                                                                                          \
  }
PRODUCT_COLUMNS(whole)
PRODUCT_COLUMNS(half)
#undef PRODUCT_COLUMNS
#undef PRODUCT_ROWS

/* Columns first .. n - 1, one by one. */
static inline void NAME(columns_single)(int64_t m, int64_t first, int64_t n, int64_t k, NUMBER alpha, const NUMBER *a,
                                        int64_t a_row, int64_t a_step, const NUMBER *b, int64_t b_column,
                                        int64_t b_step, NUMBER beta, NUMBER *c, int64_t ldc) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = first; j < n; j++) {
      NUMBER sum = 0;
      for (int64_t p = 0; p < k; p++) {
        sum += a[i * a_row + p * a_step] * b[j * b_column + p * b_step];
      }
      c[i * ldc + j] = beta == 0 ? alpha * sum : alpha * sum + beta * c[i * ldc + j];
    }
  }
}

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
      NAME(columns_whole)(m, k, alpha, a, a_row, a_step, columns, stride, beta, c + first, ldc);
    } else {
      NAME(columns_half)(m, k, alpha, a, a_row, a_step, columns, stride, beta, c + first, ldc);
    }
    first += width;
  }
  NAME(columns_single)
  (m, first, n, k, alpha, a, a_row, a_step, b, b_turned ? ldb : 1, b_turned ? 1 : ldb, beta, c, ldc);
}
