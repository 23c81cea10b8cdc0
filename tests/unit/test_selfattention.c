/* Self-attention with one output: against an independent program, differences, and what theory says of it. */
#include <stdlib.h>
#include <string.h>

#include "close.h"
#include "data/selfattention/expected.h"
#include "mhasweep/eigen.h"
#include "mhasweep/selfattention.h"
#include "model/columns.h"

enum { CASES = sizeof expected_shapes / sizeof *expected_shapes };

static const double *const expected_Phi[] = {expected_Phi_0, expected_Phi_1, expected_Phi_2, expected_Phi_3};
static const double *const expected_gradient[] = {expected_gradient_0, expected_gradient_1, expected_gradient_2,
                                                  expected_gradient_3};
static const double *const expected_hessian[] = {expected_hessian_0, expected_hessian_1, expected_hessian_2,
                                                 expected_hessian_3};
static const double *const expected_numbers[] = {expected_numbers_0, expected_numbers_1, expected_numbers_2,
                                                 expected_numbers_3};

/* ---- a model, its samples and directions ------------------------------------------------ */

typedef struct fixture {
  mhas_selfattention_shape shape;
  int64_t numbers;
  double *X, *y, *theta, *v, *gradient, *product, *Phi;
  mhas_selfattention *model;
} fixture;

static double *numbers_of(int64_t count) {
  double *made = calloc((size_t)(count > 0 ? count : 1), sizeof *made);
  assert_non_null(made);
  return made;
}

/* Entry k of array number a, as generate.py has it. */
static void fill(double *out, int64_t count, int64_t a) {
  for (int64_t k = 0; k < count; k++) {
    out[k] = (double)((7919 * k + 104729 * a + 31 * k * k) % 1000) / 500.0 - 1.0;
  }
}

static fixture make_fixture(mhas_selfattention_shape shape) {
  fixture f = {.shape = shape, .numbers = mhas_selfattention_numbers(&shape, shape.heads)};
  const int64_t size = shape.samples * shape.tokens * shape.dim;
  const int64_t u = mhas_selfattention_numbers_u(&shape, shape.heads);
  mhas_error error;
  f.X = numbers_of(size);
  f.y = numbers_of(shape.samples);
  f.Phi = numbers_of(shape.samples);
  f.theta = numbers_of(f.numbers);
  f.v = numbers_of(f.numbers);
  f.gradient = numbers_of(f.numbers);
  f.product = numbers_of(f.numbers);
  fill(f.X, size, 1);
  fill(f.theta, u, 2);
  fill(f.theta + u, f.numbers - u, 3);
  fill(f.v, u, 4);
  fill(f.v + u, f.numbers - u, 5);
  for (int64_t i = 0; i < shape.samples; i++) {
    f.y[i] = i % 2 == 0 ? 1.0 : -1.0;
  }
  if (mhas_selfattention_create(&shape, MHAS_HESSIAN, f.X, f.y, MPI_COMM_NULL, &f.model, &error) != MHAS_OK) {
    fail_msg("%s", error.text);
  }
  return f;
}

static void free_fixture(fixture *f) {
  mhas_selfattention_destroy(f->model);
  free(f->X);
  free(f->y);
  free(f->Phi);
  free(f->theta);
  free(f->v);
  free(f->gradient);
  free(f->product);
}

static fixture case_fixture(int i) {
  return make_fixture((mhas_selfattention_shape){.samples = expected_shapes[i].n,
                                                 .tokens = expected_shapes[i].T,
                                                 .dim = expected_shapes[i].d,
                                                 .heads = expected_shapes[i].H,
                                                 .copies = 1});
}

static double dot(int64_t count, const double *a, const double *b) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) {
    sum += a[i] * b[i];
  }
  return sum;
}

static double distance(int64_t count, const double *a, const double *b) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; i++) {
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return sqrt(sum);
}

static double loss_at(fixture *f, const double *theta) {
  assert_int_equal(mhas_selfattention_outputs(f->model, theta, f->Phi, NULL), MHAS_OK);
  return mhas_logistic_of(f->shape.samples, f->Phi, f->y).loss;
}

/* theta + t v into `out`. */
static void move(const fixture *f, double t, double *out) {
  for (int64_t i = 0; i < f->numbers; i++) {
    out[i] = f->theta[i] + t * f->v[i];
  }
}

/* ---- against the independent program ------------------------------------------------------ */

static void outputs_gradient_and_products_are_the_expected_ones(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    fixture f = case_fixture(i);
    const double *facts = expected_numbers[i];
    const int64_t every = (int64_t)facts[3];
    assert_int_equal(mhas_selfattention_gradient(f.model, f.theta, -1, f.gradient, f.Phi, NULL), MHAS_OK);
    assert_all_close(f.Phi, expected_Phi[i], f.shape.samples, 1e-13);
    assert_close(mhas_logistic_of(f.shape.samples, f.Phi, f.y).loss, facts[0], 1e-13);
    assert_int_equal(mhas_selfattention_linearise(f.model, f.theta, f.Phi, NULL), MHAS_OK);
    assert_all_close(f.Phi, expected_Phi[i], f.shape.samples, 1e-13);
    assert_int_equal(mhas_selfattention_hessian(f.model, f.v, f.product, NULL), MHAS_OK);
    assert_close(sqrt(dot(f.numbers, f.gradient, f.gradient)) / facts[1], 1.0, 1e-12);
    assert_close(sqrt(dot(f.numbers, f.product, f.product)) / facts[2], 1.0, 1e-10);
    for (int64_t j = 0; j * every < f.numbers; j++) {
      assert_true(fabs(f.gradient[j * every] - expected_gradient[i][j]) <= 1e-12 * facts[1]);
      assert_true(fabs(f.product[j * every] - expected_hessian[i][j]) <= 1e-10 * facts[2]);
    }
    free_fixture(&f);
  }
}

static void bounds_are_the_expected_ones(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    fixture f = case_fixture(i);
    const double R = mhas_selfattention_radius(&f.shape, f.X);
    const double B = mhas_selfattention_largest_u(&f.shape, f.shape.heads, f.theta);
    const mhas_selfattention_bounds bounds = mhas_selfattention_bound(&f.shape, R, B);
    assert_close(bounds.b1, expected_numbers[i][4], 1e-12);
    assert_close(bounds.kappa, expected_numbers[i][5], 1e-12);
    free_fixture(&f);
  }
}

/* ---- against differences ------------------------------------------------------------------- */

static const mhas_selfattention_shape odd_shapes[] = {
    {1, 1, 1, 1, 1, 0},  {3, 2, 5, 1, 1, 0}, {9, 5, 3, 4, 1, 0}, {4, 17, 2, 2, 1, 0}, {2, 3, 9, 19, 1, 0},
    {40, 7, 4, 3, 6, 0}, {5, 4, 3, 3, 1, 2}, {6, 3, 4, 2, 1, 7}, {5, 4, 3, 1, 4, 0},
};
enum { SHAPES = sizeof odd_shapes / sizeof *odd_shapes };

/* With copies, theta is that of each, so moving it moves them all. */
static void gradients_are_what_differences_of_losses_say(void **state) {
  (void)state;
  for (int i = 0; i < SHAPES; i++) {
    fixture f = make_fixture(odd_shapes[i]);
    double *moved = numbers_of(f.numbers);
    const double h = 1e-5;
    assert_int_equal(mhas_selfattention_gradient(f.model, f.theta, -1, f.gradient, NULL, NULL), MHAS_OK);
    move(&f, h, moved);
    const double up = loss_at(&f, moved);
    move(&f, -h, moved);
    const double down = loss_at(&f, moved);
    const double slope = (double)f.shape.copies * dot(f.numbers, f.gradient, f.v);
    assert_close((up - down) / (2.0 * h), slope, 1e-7);
    free(moved);
    free_fixture(&f);
  }
}

static void products_are_what_differences_of_gradients_say(void **state) {
  (void)state;
  for (int i = 0; i < SHAPES; i++) {
    fixture f = make_fixture(odd_shapes[i]);
    double *moved = numbers_of(f.numbers);
    double *down = numbers_of(f.numbers);
    const double h = 1e-5;
    move(&f, h, moved);
    assert_int_equal(mhas_selfattention_gradient(f.model, moved, -1, f.gradient, NULL, NULL), MHAS_OK);
    move(&f, -h, moved);
    assert_int_equal(mhas_selfattention_gradient(f.model, moved, -1, down, NULL, NULL), MHAS_OK);
    assert_int_equal(mhas_selfattention_linearise(f.model, f.theta, NULL, NULL), MHAS_OK);
    assert_int_equal(mhas_selfattention_hessian(f.model, f.v, f.product, NULL), MHAS_OK);
    for (int64_t j = 0; j < f.numbers; j++) {
      assert_close((f.gradient[j] - down[j]) / (2.0 * h), f.product[j], 1e-6);
    }
    free(moved);
    free(down);
    free_fixture(&f);
  }
}

static void products_are_symmetric(void **state) {
  (void)state;
  for (int i = 0; i < SHAPES; i++) {
    fixture f = make_fixture(odd_shapes[i]);
    double *w = numbers_of(f.numbers);
    fill(w, f.numbers, 6);
    assert_int_equal(mhas_selfattention_linearise(f.model, f.theta, NULL, NULL), MHAS_OK);
    assert_int_equal(mhas_selfattention_hessian(f.model, f.v, f.product, NULL), MHAS_OK);
    const double one = dot(f.numbers, w, f.product);
    assert_int_equal(mhas_selfattention_hessian(f.model, w, f.product, NULL), MHAS_OK);
    assert_close(dot(f.numbers, f.v, f.product), one, 1e-11);
    free(w);
    free_fixture(&f);
  }
}

static void a_sample_left_out_gives_nothing_to_the_gradient(void **state) {
  (void)state;
  fixture f = case_fixture(0);
  const int64_t n = f.shape.samples;
  double *without = numbers_of(f.numbers);
  fixture less = make_fixture((mhas_selfattention_shape){n - 1, f.shape.tokens, f.shape.dim, f.shape.heads, 1, 0});
  assert_int_equal(mhas_selfattention_gradient(f.model, f.theta, n - 1, without, f.Phi, NULL), MHAS_OK);
  assert_all_close(f.Phi, expected_Phi_0, n, 1e-13); /* its output is there all the same */
  assert_int_equal(mhas_selfattention_gradient(less.model, f.theta, -1, f.gradient, NULL, NULL), MHAS_OK);
  for (int64_t i = 0; i < f.numbers; i++) {
    assert_close(without[i], f.gradient[i] * (double)(n - 1) / (double)n, 1e-14);
  }
  free(without);
  free_fixture(&less);
  free_fixture(&f);
}

/* ---- its parts -------------------------------------------------------------------------------- */

/* The Hessian is sum of bend_i g_i g_i^T and the blocks. */
static void features_and_blocks_make_up_the_hessian(void **state) {
  (void)state;
  for (int i = 0; i < SHAPES; i++) {
    fixture f = make_fixture(odd_shapes[i]);
    const int64_t n = f.shape.samples;
    const int64_t per_head = mhas_selfattention_numbers(&f.shape, 1);
    double *F = numbers_of(n * f.numbers);
    double *sum = numbers_of(f.numbers);
    assert_int_equal(mhas_selfattention_linearise(f.model, f.theta, f.Phi, NULL), MHAS_OK);
    assert_int_equal(mhas_selfattention_hessian(f.model, f.v, f.product, NULL), MHAS_OK);
    mhas_selfattention_hessian_blocks(f.model, 0, f.shape.heads, f.v, sum);
    mhas_selfattention_features(f.model, f.theta, 0, n, F);
    for (int64_t s = 0; s < n; s++) {
      const double wrong = 1.0 / (1.0 + exp(f.y[s] * f.Phi[s]));
      const double along = (double)f.shape.copies * dot(f.numbers, F + s * f.numbers, f.v);
      for (int64_t j = 0; j < f.numbers; j++) {
        sum[j] += wrong * (1.0 - wrong) / (double)n * along * F[s * f.numbers + j];
      }
    }
    assert_all_close(sum, f.product, f.numbers, 1e-12);
    /* heads one by one */
    double *v = numbers_of(per_head);
    double *y = numbers_of(per_head);
    const int64_t u = f.shape.tokens * f.shape.dim;
    const int64_t d_k = f.shape.key_dim;
    const int64_t w = f.shape.dim * (d_k > 0 ? d_k : f.shape.dim);
    double *whole = numbers_of(f.numbers);
    mhas_selfattention_hessian_blocks(f.model, 0, f.shape.heads, f.v, whole);
    for (int64_t h = 0; h < f.shape.heads; h++) {
      const int64_t from[3] = {h * u, f.shape.heads * u + h * w, f.shape.heads * (u + w) + h * w};
      const int64_t to[3] = {0, u, u + w};
      for (int part = 0; part < (d_k > 0 ? 3 : 2); part++) {
        memcpy(v + to[part], f.v + from[part], (size_t)(part == 0 ? u : w) * sizeof *v);
      }
      mhas_selfattention_hessian_blocks(f.model, h, 1, v, y);
      for (int part = 0; part < (d_k > 0 ? 3 : 2); part++) {
        assert_all_close(y + to[part], whole + from[part], part == 0 ? u : w, 1e-13);
      }
    }
    free(v);
    free(y);
    free(whole);
    free(F);
    free(sum);
    free_fixture(&f);
  }
}

static void features_are_the_gradients_of_the_outputs(void **state) {
  (void)state;
  for (int i = 0; i < SHAPES; i++) {
    fixture f = make_fixture(odd_shapes[i]);
    const int64_t n = f.shape.samples;
    double *F = numbers_of(2 * f.numbers);
    const int64_t count = n > 1 ? 2 : 1;
    mhas_selfattention_features(f.model, f.theta, n - count, count, F);
    assert_int_equal(mhas_selfattention_gradient(f.model, f.theta, -1, f.gradient, f.Phi, NULL), MHAS_OK);
    double *moved = numbers_of(f.numbers);
    double *up = numbers_of(n);
    const double h = 1e-5;
    move(&f, h, moved);
    assert_int_equal(mhas_selfattention_outputs(f.model, moved, up, NULL), MHAS_OK);
    move(&f, -h, moved);
    assert_int_equal(mhas_selfattention_outputs(f.model, moved, f.Phi, NULL), MHAS_OK);
    for (int64_t s = 0; s < count; s++) {
      const double slope = (up[n - count + s] - f.Phi[n - count + s]) / (2.0 * h);
      assert_close(slope, (double)f.shape.copies * dot(f.numbers, F + s * f.numbers, f.v), 1e-7);
    }
    free(F);
    free(up);
    free(moved);
    free_fixture(&f);
  }
}

/* With X and W in hand, A of one head and sample by the formula. */
static void attention_is_the_softmax_of_the_logits(void **state) {
  (void)state;
  fixture f = case_fixture(2);
  const int64_t n = f.shape.samples;
  const int64_t T = f.shape.tokens;
  const int64_t d = f.shape.dim;
  const int64_t H = f.shape.heads;
  const double *W = f.theta + H * T * d + (H - 1) * d * d;
  const double *X = f.X + (n - 1) * T * d;
  double *A = numbers_of(n * H * T * T);
  double *relevant = numbers_of(n * T);
  mhas_selfattention_maps(f.model, f.theta, 0, n, A);
  for (int64_t t = 0; t < T; t++) {
    double weights[16];
    double sum = 0.0;
    for (int64_t s = 0; s < T; s++) {
      double logit = 0.0;
      for (int64_t i = 0; i < d; i++) {
        for (int64_t j = 0; j < d; j++) {
          logit += X[t * d + i] * W[i * d + j] * X[s * d + j];
        }
      }
      sum += weights[s] = exp(logit);
    }
    for (int64_t s = 0; s < T; s++) {
      assert_close(A[(((n - 1) * H + H - 1) * T + t) * T + s], weights[s] / sum, 1e-14);
    }
  }
  double expected = 0.0;
  for (int64_t i = 0; i < n; i++) {
    relevant[i * T + i % T] = 1.0;
    for (int64_t row = 0; row < H * T; row++) {
      expected += A[(i * H * T + row) * T + i % T] / (double)(n * H * T);
    }
  }
  double mass = 0.0;
  assert_int_equal(mhas_selfattention_mass(f.model, f.theta, relevant, &mass, NULL), MHAS_OK);
  assert_close(mass, expected, 1e-14);
  free(relevant);
  free(A);
  free_fixture(&f);
}

/* ---- heads held once ------------------------------------------------------------------------ */

static void copies_are_heads_that_are_equal(void **state) {
  (void)state;
  enum { n = 6, T = 4, d = 3, COPIES = 5 };
  fixture one = make_fixture((mhas_selfattention_shape){n, T, d, 1, COPIES, 0});
  fixture all = make_fixture((mhas_selfattention_shape){n, T, d, COPIES, 1, 0});
  for (int h = 0; h < COPIES; h++) {
    memcpy(all.theta + h * T * d, one.theta, T * d * sizeof(double));
    memcpy(all.theta + COPIES * T * d + h * d * d, one.theta + T * d, d * d * sizeof(double));
    memcpy(all.v + h * T * d, one.v, T * d * sizeof(double));
    memcpy(all.v + COPIES * T * d + h * d * d, one.v + T * d, d * d * sizeof(double));
  }
  assert_int_equal(mhas_selfattention_gradient(one.model, one.theta, -1, one.gradient, one.Phi, NULL), MHAS_OK);
  assert_int_equal(mhas_selfattention_gradient(all.model, all.theta, -1, all.gradient, all.Phi, NULL), MHAS_OK);
  assert_all_close(one.Phi, all.Phi, n, 1e-14);
  assert_int_equal(mhas_selfattention_linearise(one.model, one.theta, NULL, NULL), MHAS_OK);
  assert_int_equal(mhas_selfattention_linearise(all.model, all.theta, NULL, NULL), MHAS_OK);
  assert_int_equal(mhas_selfattention_hessian(one.model, one.v, one.product, NULL), MHAS_OK);
  assert_int_equal(mhas_selfattention_hessian(all.model, all.v, all.product, NULL), MHAS_OK);
  for (int h = 0; h < COPIES; h++) {
    assert_all_close(all.gradient + h * T * d, one.gradient, T * d, 1e-14);
    assert_all_close(all.gradient + COPIES * T * d + h * d * d, one.gradient + T * d, d * d, 1e-14);
    assert_all_close(all.product + h * T * d, one.product, T * d, 1e-13);
    assert_all_close(all.product + COPIES * T * d + h * d * d, one.product + T * d, d * d, 1e-13);
  }
  assert_close(mhas_selfattention_bound(&one.shape, 1.5, 0.7).kappa,
               mhas_selfattention_bound(&all.shape, 1.5, 0.7).kappa, 1e-15);
  free_fixture(&one);
  free_fixture(&all);
}

/* ---- bounds ----------------------------------------------------------------------------------- */

static mhas_code product_of_model(void *context, const double *x, double *y, mhas_error *error) {
  return mhas_selfattention_hessian(context, x, y, error);
}

/* Derived inequalities, at weights of many sizes. */
static void gradients_and_eigenvalues_keep_their_bounds(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) {
    for (double size = 0.01; size < 20.0; size *= 4.0) {
      fixture f = make_fixture(odd_shapes[i]);
      for (int64_t j = 0; j < f.numbers; j++) {
        f.theta[j] *= size;
      }
      const double R = mhas_selfattention_radius(&f.shape, f.X);
      const double B = mhas_selfattention_largest_u(&f.shape, f.shape.heads, f.theta);
      const mhas_selfattention_bounds bounds = mhas_selfattention_bound(&f.shape, R, B);
      const mhas_eigen_problem problem = {.size = f.numbers,
                                          .comm = MPI_COMM_NULL,
                                          .product = product_of_model,
                                          .context = f.model,
                                          .random = {.seed = 1},
                                          .tolerance = 1e-10,
                                          .products_most = 10000};
      mhas_eigen least;
      mhas_eigen most;
      int64_t products = 0;
      assert_int_equal(mhas_selfattention_gradient(f.model, f.theta, -1, f.gradient, f.Phi, NULL), MHAS_OK);
      const double loss = mhas_logistic_of(f.shape.samples, f.Phi, f.y).loss;
      assert_int_equal(mhas_selfattention_linearise(f.model, f.theta, NULL, NULL), MHAS_OK);
      assert_int_equal(mhas_eigen_ends(&problem, MHAS_SMALLEST, 1, &least, NULL, &products, NULL), MHAS_OK);
      assert_int_equal(mhas_eigen_ends(&problem, MHAS_LARGEST, 1, &most, NULL, &products, NULL), MHAS_OK);
      assert_true(sqrt(dot(f.numbers, f.gradient, f.gradient)) <= bounds.b1 * loss);
      assert_true(least.value >= -bounds.kappa * loss);
      assert_true(most.value <= bounds.b1 * bounds.b1 / 4.0 + bounds.kappa * fmin(1.0, loss));
      free_fixture(&f);
    }
  }
}

static void losses_of_sure_outputs_are_exact(void **state) {
  (void)state;
  const double Phi[] = {1000.0, -1000.0, 0.0, 40.0};
  const double y[] = {1.0, 1.0, -1.0, 1.0};
  assert_close(mhas_logistic_of(1, Phi, y).loss, 0.0, 0.0);
  assert_close(mhas_logistic_of(1, Phi + 1, y + 1).loss, 1000.0, 0.0);
  assert_close(mhas_logistic_of(1, Phi + 1, y + 1).slope, 1.0, 0.0);
  assert_close(mhas_logistic_of(1, Phi + 2, y + 2).loss, log(2.0), 1e-16);
  assert_close(mhas_logistic_of(1, Phi + 3, y + 3).loss / exp(-40.0), 1.0, 1e-14); /* 1 + e^-40 is 1 */
  assert_close(mhas_logistic_of(4, Phi, y).error, 0.5, 0.0);                       /* 0 is an error, too */
}

/* ---- the machine -------------------------------------------------------------------------------- */

static void all_levels_of_the_vector_unit_give_the_same_bits(void **state) {
  (void)state;
  enum { T = 7, C = 131, STRIDE = 140, SIZE = T * STRIDE };
  double first[6][SIZE];
  for (int level = 0; level <= (int)mhas_lanes_level(); level++) {
    const columns_double *loops = mhas_columns_double((lanes_level)level);
    double a[6][SIZE];
    for (int i = 0; i < 6; i++) {
      fill(a[i], SIZE, i);
    }
    loops->softmax(T, C, a[0], STRIDE);
    a[5][0] = loops->centre(T, C, a[0], a[1], STRIDE);
    a[5][2] = loops->total(T, C, a[0], a[2], STRIDE);
    a[5][3] = loops->weigh(T, C, a[0], a[2], STRIDE);
    a[5][1] = loops->tangent(T, C, a[0], a[1], STRIDE, a[3], a[4], STRIDE);
    loops->blend(T, C, 0.7, -0.2, a[0], a[1], STRIDE, a[3], a[4], STRIDE);
    if (level == 0) {
      memcpy(first, a, sizeof a);
    }
    assert_memory_equal(first, a, sizeof a);
  }
}

static void tiles_of_samples_change_nothing_but_rounding(void **state) {
  (void)state;
  /* Many tiles and a short one; copies of one sample in all of them. */
  fixture f = make_fixture((mhas_selfattention_shape){2000, 6, 5, 8, 1, 0});
  fixture one = make_fixture((mhas_selfattention_shape){1, 6, 5, 8, 1, 0});
  for (int64_t i = 0; i < 2000; i++) {
    memcpy(f.X + i * 30, one.X, 30 * sizeof(double));
    f.y[i] = 1.0;
  }
  mhas_selfattention_show(f.model, f.X);
  assert_int_equal(mhas_selfattention_gradient(f.model, f.theta, -1, f.gradient, f.Phi, NULL), MHAS_OK);
  assert_int_equal(mhas_selfattention_gradient(one.model, f.theta, -1, one.gradient, one.Phi, NULL), MHAS_OK);
  for (int64_t i = 0; i < 2000; i++) {
    assert_close(f.Phi[i], one.Phi[0], 1e-14);
  }
  assert_true(distance(f.numbers, f.gradient, one.gradient) < 1e-13);
  free_fixture(&f);
  free_fixture(&one);
}

static void sizes_beyond_blas_are_refused_in_words(void **state) {
  (void)state;
  const mhas_selfattention_shape shape = {10, 1 << 16, 4, 1 << 16, 1, 0};
  mhas_selfattention *model = NULL;
  mhas_error error;
  assert_int_equal(mhas_selfattention_check(&shape, &error), MHAS_LIMIT);
  assert_non_null(strstr(error.text, "BLAS"));
  assert_int_equal(mhas_selfattention_create(&shape, MHAS_OUTPUTS, NULL, NULL, MPI_COMM_NULL, &model, &error),
                   MHAS_LIMIT);
  assert_null(model);
}

static void memory_that_is_not_there_is_an_error(void **state) {
  (void)state;
  const mhas_selfattention_shape shape = {(int64_t)1 << 40, 1 << 10, 1 << 10, 1, 1, 0};
  mhas_selfattention *model = NULL;
  mhas_error error;
  assert_int_equal(mhas_selfattention_create(&shape, MHAS_OUTPUTS, NULL, NULL, MPI_COMM_NULL, &model, &error),
                   MHAS_NO_MEMORY);
  assert_null(model);
}

static void heads_are_dealt_out_evenly(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 7; ranks++) {
    const mhas_selfattention_shape shape = {1, 1, 1, 7, 1, 0};
    int64_t next = 0;
    for (int rank = 0; rank < ranks; rank++) {
      int64_t first = 0;
      const int64_t heads = mhas_selfattention_heads(&shape, rank, ranks, &first);
      assert_int_equal(first, next);
      assert_in_range(heads, 7 / ranks, (7 + ranks - 1) / ranks);
      next += heads;
    }
    assert_int_equal(next, 7);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(outputs_gradient_and_products_are_the_expected_ones),
      cmocka_unit_test(bounds_are_the_expected_ones),
      cmocka_unit_test(gradients_are_what_differences_of_losses_say),
      cmocka_unit_test(products_are_what_differences_of_gradients_say),
      cmocka_unit_test(products_are_symmetric),
      cmocka_unit_test(a_sample_left_out_gives_nothing_to_the_gradient),
      cmocka_unit_test(features_and_blocks_make_up_the_hessian),
      cmocka_unit_test(features_are_the_gradients_of_the_outputs),
      cmocka_unit_test(attention_is_the_softmax_of_the_logits),
      cmocka_unit_test(copies_are_heads_that_are_equal),
      cmocka_unit_test(gradients_and_eigenvalues_keep_their_bounds),
      cmocka_unit_test(losses_of_sure_outputs_are_exact),
      cmocka_unit_test(all_levels_of_the_vector_unit_give_the_same_bits),
      cmocka_unit_test(tiles_of_samples_change_nothing_but_rounding),
      cmocka_unit_test(sizes_beyond_blas_are_refused_in_words),
      cmocka_unit_test(memory_that_is_not_there_is_an_error),
      cmocka_unit_test(heads_are_dealt_out_evenly),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
