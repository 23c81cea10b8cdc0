/* Grids of ranks: their shape, their agreement, and that nothing stays behind when they go. */
#include <unistd.h>

#include "matrices.h"

static int world_size(void) {
  int size = 0;
  assert_int_equal(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_SUCCESS);
  return size;
}

static int world_rank(void) {
  int rank = 0;
  assert_int_equal(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
  return rank;
}

static void the_shape_uses_all_ranks_and_is_nearly_square(void **unused) {
  (void)unused;
  static const int shapes[][3] = {{1, 1, 1}, {2, 1, 2}, {3, 1, 3}, {4, 2, 2},  {5, 1, 5},
                                  {6, 2, 3}, {8, 2, 4}, {9, 3, 3}, {12, 3, 4}, {1024, 32, 32}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    int rows = 0;
    int columns = 0;
    mhas_grid_shape(shapes[i][0], &rows, &columns);
    assert_int_equal(rows, shapes[i][1]);
    assert_int_equal(columns, shapes[i][2]);
  }
}

static void an_error_of_one_rank_is_told_by_all(void **unused) {
  (void)unused;
  mhas_grid *grid = NULL;
  assert_ok(mhas_grid_create(MPI_COMM_WORLD, 0, &grid, error));
  const int guilty = world_size() - 1;
  mhas_error error = {0};
  mhas_code code =
      world_rank() == guilty ? mhas_fail(&error, MHAS_LIMIT, "rank %d has no room", world_rank()) : MHAS_OK;
  code = mhas_grid_agree(grid, code, &error);
  char expected[64];
  (void)snprintf(expected, sizeof expected, "rank %d has no room", guilty);
  assert_int_equal(code, MHAS_LIMIT);
  assert_int_equal(error.code, MHAS_LIMIT);
  assert_string_equal(error.text, expected);
  assert_int_equal(mhas_grid_agree(grid, MHAS_OK, &error), MHAS_OK);
  assert_int_equal(mhas_grid_agree(grid, MHAS_STOPPED, NULL), MHAS_STOPPED);
  mhas_grid_destroy(grid);
}

static mhas_code stop_at_once(void *context, mhas_error *error) {
  return *(const bool *)context ? mhas_fail(error, MHAS_STOPPED, "asked to give up") : MHAS_OK;
}

static void a_watch_of_one_rank_ends_a_long_call_on_all(void **unused) {
  (void)unused;
  mhas_grid *grid = NULL;
  assert_ok(mhas_grid_create(MPI_COMM_WORLD, 8, &grid, error));
  matrix a = matrix_gaussian(40, 40, 0);
  mhas_cyclic dealt = matrix_deal(grid, &a);
  bool stop = world_rank() == world_size() - 1;
  mhas_grid_watch(grid, stop_at_once, &stop);
  mhas_qr *qr = NULL;
  assert_code(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, 1e-13, matrix_seed, &qr, error), MHAS_STOPPED);
  assert_null(qr);
  stop = false;
  assert_ok(mhas_cyclic_fill(&dealt, matrix_fill, &a, error));
  assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, 1e-13, matrix_seed, &qr, error));
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&dealt);
  matrix_free(&a);
  mhas_grid_destroy(grid);
}

/* Odd and even ranks at the same time, on matrices of their own. */
static void teams_work_side_by_side(void **unused) {
  (void)unused;
  MPI_Comm team = MPI_COMM_NULL;
  const int colour = world_rank() % 2;
  assert_int_equal(MPI_Comm_split(MPI_COMM_WORLD, colour, -world_rank(), &team), MPI_SUCCESS);
  mhas_grid *grid = NULL;
  assert_ok(mhas_grid_create(team, 4, &grid, error));
  matrix a = matrix_gaussian(30 + 7 * colour, 20, (uint64_t)colour);
  mhas_cyclic dealt = matrix_deal(grid, &a);
  mhas_qr *qr = NULL;
  int64_t rank = 0;
  assert_ok(mhas_qr_create(MHAS_QR_RANDOMIZED, &dealt, 1e-13, matrix_seed, &qr, error));
  assert_ok(mhas_qr_ranks(qr, (const double[]){1e-13}, 1, &rank, error));
  assert_int_equal(rank, 20);
  mhas_qr_destroy(qr);
  mhas_cyclic_free(&dealt);
  matrix_free(&a);
  mhas_grid_destroy(grid);
  assert_int_equal(MPI_Comm_free(&team), MPI_SUCCESS);
}

static long resident_pages(void) {
  long size = 0;
  long resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%ld %ld", &size, &resident), 2);
  assert_int_equal(fclose(file), 0);
  return resident;
}

static void form_and_free(void) {
  mhas_grid *grid = NULL;
  MPI_Comm team = MPI_COMM_NULL;
  assert_int_equal(MPI_Comm_dup(MPI_COMM_WORLD, &team), MPI_SUCCESS);
  assert_ok(mhas_grid_create(team, 0, &grid, error));
  mhas_grid_destroy(grid);
  assert_int_equal(MPI_Comm_free(&team), MPI_SUCCESS);
}

/* AddressSanitizer keeps freed memory for a while, and finds by itself what was never freed. */
#if defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 100, ROUNDS_ALONE = 300, GROWTH_MOST = 1 << 30 };
#else
enum { ROUNDS = 400, ROUNDS_ALONE = 20000, GROWTH_MOST = 1 << 20 };
#endif

/* A communicator or a BLACS handle that stayed would end this after some thousand rounds, or show as memory. With
 * several ranks each round waits for all of them, so only one alone goes all the way. */
static void grids_come_and_go_without_growth(void **unused) {
  (void)unused;
  const int rounds = world_size() == 1 ? ROUNDS_ALONE : ROUNDS;
  for (int i = 0; i < 50; i++) {
    form_and_free();
  }
  const long before = resident_pages();
  for (int i = 50; i < rounds; i++) {
    form_and_free();
  }
  const long grown = (resident_pages() - before) * sysconf(_SC_PAGESIZE);
  if (grown > GROWTH_MOST) {
    fail_msg("%d grids left %ld bytes behind", rounds - 50, grown);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_shape_uses_all_ranks_and_is_nearly_square),
    cmocka_unit_test(an_error_of_one_rank_is_told_by_all),
    cmocka_unit_test(a_watch_of_one_rank_ends_a_long_call_on_all),
    cmocka_unit_test(teams_work_side_by_side),
    cmocka_unit_test(grids_come_and_go_without_growth),
};
MATRIX_TESTS_MAIN(tests)
