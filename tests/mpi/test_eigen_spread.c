/* Eigenvalues of a matrix whose vectors are spread over ranks, some of which may have nothing. */
#include "matrices.h"
#include "mhasweep/eigen.h"

/* A = F F^T / columns - shift, each rank with some of its rows; products by one sum over ranks. */
typedef struct spread {
  MPI_Comm comm;
  int64_t size, first, columns;
  const matrix *F;
  double shift;
  double *sums; /* (columns) */
  int64_t products, fails_at;
} spread;

static mhas_code multiply(void *context, const double *x, double *y, mhas_error *error) {
  spread *s = context;
  if (++s->products == s->fails_at) {
    return mhas_fail(error, MHAS_STOPPED, "no more");
  }
  memset(s->sums, 0, (size_t)s->columns * sizeof *s->sums);
  for (int64_t i = 0; i < s->size; i++) {
    for (int64_t k = 0; k < s->columns; k++) {
      s->sums[k] += s->F->entries[(s->first + i) * s->columns + k] * x[i];
    }
  }
  (void)MPI_Allreduce(MPI_IN_PLACE, s->sums, (int)s->columns, MPI_DOUBLE, MPI_SUM, s->comm);
  for (int64_t i = 0; i < s->size; i++) {
    y[i] = -s->shift * x[i];
    for (int64_t k = 0; k < s->columns; k++) {
      y[i] += s->F->entries[(s->first + i) * s->columns + k] * s->sums[k] / (double)s->columns;
    }
  }
  return MHAS_OK;
}

/* Rows of F are dealt out unevenly: the second of three or more ranks has none. */
static spread deal(const matrix *F, MPI_Comm comm, double shift) {
  int rank = 0;
  int ranks = 1;
  (void)MPI_Comm_rank(comm, &rank);
  (void)MPI_Comm_size(comm, &ranks);
  spread s = {.comm = comm, .columns = F->columns, .F = F, .shift = shift};
  for (int64_t i = 0; i < F->rows; i++) {
    int owner = (int)(i * ranks / F->rows);
    owner = ranks >= 3 && owner == 1 ? 0 : owner;
    s.size += owner == rank ? 1 : 0;
    s.first += owner < rank ? 1 : 0;
  }
  assert_ok(mhas_alloc(&s.sums, (size_t)s.columns, sizeof *s.sums, "sums", error));
  return s;
}

static mhas_eigen_problem problem_of(spread *s) {
  return (mhas_eigen_problem){.size = s->size,
                              .comm = s->comm,
                              .product = multiply,
                              .context = s,
                              .random = matrix_seed,
                              .tolerance = 1e-10,
                              .products_most = 3000};
}

static void spread_vectors_have_the_values_of_the_whole(void **unused) {
  (void)unused;
  const int64_t rows[] = {3, 40, 90, 250};
  for (int r = 0; r < 4; r++) {
    const int64_t least = rows[r] < 30 ? rows[r] : 30;
    matrix F = matrix_gaussian(rows[r], 30, 0);
    double sigma[30];
    assert_ok(mhas_singular_values(rows[r], 30, F.entries, sigma, error));
    for (mhas_end end = MHAS_SMALLEST; end <= MHAS_LARGEST; end++) {
      spread s = deal(&F, MPI_COMM_WORLD, 0.25);
      const mhas_eigen_problem problem = problem_of(&s);
      mhas_eigen found[2];
      double *vectors = NULL;
      int64_t products = 0;
      assert_ok(mhas_alloc(&vectors, (size_t)(2 * s.size), sizeof *vectors, "vectors", error));
      assert_ok(mhas_eigen_ends(&problem, end, 2, found, vectors, &products, error));
      for (int k = 0; k < 2; k++) {
        const int64_t place = end == MHAS_LARGEST ? k : rows[r] - 1 - k;
        const double square = place < least ? sigma[place] * sigma[place] / 30.0 : 0.0;
        assert_close(found[k].value, square - 0.25, 1e-9);
        assert_true(found[k].residual < 1e-7);
        double length = 0.0;
        for (int64_t i = 0; i < s.size; i++) {
          length += vectors[k * s.size + i] * vectors[k * s.size + i];
        }
        (void)MPI_Allreduce(MPI_IN_PLACE, &length, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        assert_close(length, 1.0, 1e-12);
      }
      mhas_free(vectors);
      mhas_free(s.sums);
    }
    matrix_free(&F);
  }
}

static void one_rank_has_the_same_bits_with_and_without_mpi(void **unused) {
  (void)unused;
  matrix F = matrix_gaussian(200, 20, 5000);
  mhas_eigen found[2][3];
  int64_t products[2];
  for (int with = 0; with < 2; with++) {
    spread s = deal(&F, MPI_COMM_SELF, 0.0);
    mhas_eigen_problem problem = problem_of(&s);
    problem.comm = with ? MPI_COMM_SELF : MPI_COMM_NULL;
    assert_ok(mhas_eigen_ends(&problem, MHAS_LARGEST, 3, found[with], NULL, &products[with], error));
    mhas_free(s.sums);
  }
  assert_int_equal(products[0], products[1]);
  assert_memory_equal(found[0], found[1], sizeof found[0]);
  matrix_free(&F);
}

static void the_same_ranks_give_the_same_bits(void **unused) {
  (void)unused;
  matrix F = matrix_gaussian(300, 25, 9000);
  mhas_eigen found[2][2];
  for (int turn = 0; turn < 2; turn++) {
    spread s = deal(&F, MPI_COMM_WORLD, 0.1);
    const mhas_eigen_problem problem = problem_of(&s);
    int64_t products = 0;
    assert_ok(mhas_eigen_ends(&problem, MHAS_SMALLEST, 2, found[turn], NULL, &products, error));
    mhas_free(s.sums);
  }
  assert_memory_equal(found[0], found[1], sizeof found[0]);
  mhas_eigen first[2];
  memcpy(first, found[0], sizeof first);
  (void)MPI_Bcast(first, sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD);
  assert_memory_equal(first, found[0], sizeof first);
  matrix_free(&F);
}

static void a_stop_reaches_all_ranks(void **unused) {
  (void)unused;
  matrix F = matrix_gaussian(300, 25, 9000);
  spread s = deal(&F, MPI_COMM_WORLD, 0.1);
  const mhas_eigen_problem problem = problem_of(&s);
  mhas_eigen found[1];
  int64_t products = 0;
  s.fails_at = 12;
  assert_code(mhas_eigen_ends(&problem, MHAS_SMALLEST, 1, found, NULL, &products, error), MHAS_STOPPED);
  assert_int_equal(products, 12);
  mhas_free(s.sums);
  matrix_free(&F);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(spread_vectors_have_the_values_of_the_whole),
    cmocka_unit_test(one_rank_has_the_same_bits_with_and_without_mpi),
    cmocka_unit_test(the_same_ranks_give_the_same_bits),
    cmocka_unit_test(a_stop_reaches_all_ranks),
};
MATRIX_TESTS_MAIN(tests)
