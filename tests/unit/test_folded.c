/* The folded order of the trained model's products, in all its forms, against the layer-by-layer one. */
#include <stdio.h>
#include <string.h>

#include "model/lanes.h"
#include "model/parts.h"
#include "rig.h"

/* clang-format off */
#define PLAIN {MHAS_SOFTMAX, {0, 0}, 0, 0.0}, {0.0, 0.0}
#define WEIGHED(weighting) {weighting, {0, 0}, 0, 0.0}, {0.0, 0.0}
#define DROPPING {MHAS_SOFTMAX, {0, 0}, 0, 0.0}, {0.3, 0.2}
#define COMPOSED(weighting, pre, post, dropout) {weighting, {pre, post}, 2, 20.0}, {dropout, 0.0}
enum { BASE = MHAS_BRANCH_BASE, QUERY = MHAS_BRANCH_QUERY, KEY = MHAS_BRANCH_KEY, ALL = BASE | QUERY | KEY };
/* clang-format on */

/* Odd sizes: ones, primes, wide values, lines of vector units just missed and just met; the last is a bit of everything
 * at the paper's proportions. */
static const struct {
  int64_t T;
  mhas_model_shape shape;
} cases[] = {
    {5, {2, 5, 3, 2, 4, 3, false, 3, 1.5, 1e4, PLAIN}},
    {6, {3, 6, 2, 1, 5, 4, true, 0, 2.0, 1e4, PLAIN}},
    {1, {1, 1, 1, 1, 1, 1, false, 2, 1.0, 1e4, PLAIN}},
    {1, {1, 1, 1, 1, 1, 1, true, 0, 1.0, 1e4, PLAIN}},
    {3, {3, 7, 1, 3, 5, 1, true, 11, 1.0, 1e4, PLAIN}},
    {4, {1, 7, 5, 1, 5, 11, false, 0, 3.0, 1e4, PLAIN}},
    {3, {5, 2, 7, 1, 5, 17, true, 2, 4.0, 100., PLAIN}},
    {7, {2, 3, 1, 1, 2, 2, false, 13, 0.5, 1.0, PLAIN}},
    {5, {17, 4, 2, 1, 3, 16, false, 4, 1.0, 1e4, PLAIN}},
    {11, {2, 4, 3, 3, 1, 33, false, 0, 1.0, 1e4, PLAIN}},
    {13, {3, 17, 16, 1, 8, 19, false, 10, 9.0, 1e4, PLAIN}},
    {9, {4, 13, 11, 1, 6, 31, true, 5, 7.0, 1e4, PLAIN}},
    /* other weights than those of softmax, and weights that drop out */
    {5, {2, 5, 3, 1, 4, 3, false, 3, 1.5, 1e4, WEIGHED(MHAS_LINEAR)}},
    {6, {3, 6, 2, 2, 5, 4, true, 0, 2.0, 1e4, WEIGHED(MHAS_LINEAR)}},
    {4, {3, 7, 5, 1, 5, 11, false, 4, 3.0, 1e4, WEIGHED(MHAS_HARD)}},
    {5, {2, 5, 3, 1, 4, 9, false, 3, 1.5, 1e4, DROPPING}},
    {6, {3, 6, 2, 2, 5, 4, true, 3, 2.0, 1e4, DROPPING}},
    {6, {3, 6, 2, 1, 5, 4, true, 3, 2.0, 1e4, DROPPING}},
    /* composed */
    {5, {3, 5, 3, 1, 4, 7, false, 3, 1.5, 1e4, COMPOSED(MHAS_SOFTMAX, BASE, BASE, 0.0)}},
    {5, {3, 5, 3, 2, 4, 7, false, 3, 1.5, 1e4, COMPOSED(MHAS_SOFTMAX, ALL, ALL, 0.2)}},
    {5, {3, 5, 3, 1, 4, 7, true, 3, 1.5, 1e4, COMPOSED(MHAS_SOFTMAX, ALL, ALL, 0.0)}},
    {4, {2, 4, 3, 1, 4, 5, false, 0, 1.5, 1e4, COMPOSED(MHAS_SOFTMAX, KEY, 0, 0.0)}},
    {4, {2, 4, 3, 2, 4, 5, true, 0, 1.5, 1e4, COMPOSED(MHAS_LINEAR, 0, QUERY, 0.0)}},
};
enum { CASES = sizeof cases / sizeof *cases, ORDERS = 4 };
static const mhas_random case_random = {.seed = 11, .replicate = 2};

/* One of the folded orders; false where the shape does not have it. */
static bool order_number(int i, const mhas_model_shape *shape, mhas_order *order) {
  *order = (mhas_order){.folded = true, .joined = i % 2 != 0, .value_first = i / 2 != 0};
  return !order->value_first || shape->value_dim == 1;
}

static rig rig_of_order(const mhas_model_shape *shape, mhas_order order, mhas_precision precision, int64_t T) {
  rig r = rig_create(shape, precision, T, MHAS_GAUSSIAN, case_random);
  mhas_model_destroy(r.model);
  assert_int_equal(mhas_model_create_ordered(shape, order, precision, T, &r.model, &rig_error), MHAS_OK);
  mhas_model_initialise(r.model, case_random);
  return r;
}

/* ---- the same as layer by layer ---- */

static void check_against_layers(int i, mhas_order order, mhas_precision precision, double tolerance) {
  const mhas_model_shape *shape = &cases[i].shape;
  const int64_t T = cases[i].T;
  rig folded = rig_of_order(shape, order, precision, T);
  rig layered = rig_of_order(shape, (mhas_order){0}, precision, T);
  double a[512];
  double b[512];
  const int64_t outputs = T * mhas_model_outputs(shape);
  assert_in_range(outputs, 1, 512);
  mhas_model_forward(folded.model, &folded.samples, folded.picks, T, a);
  mhas_model_forward(layered.model, &layered.samples, layered.picks, T, b);
  assert_all_close(a, b, outputs, tolerance);
  mhas_model_disturb(folded.model, case_random, 4);
  mhas_model_disturb(layered.model, case_random, 4);
  assert_close(rig_loss(&folded), rig_loss(&layered), tolerance);
  check_same_gradients(&folded, &layered, tolerance);
  rig_destroy(&folded);
  rig_destroy(&layered);
}

static void every_order_gives_what_layers_give(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    for (int k = 0; k < ORDERS; k++) {
      mhas_order order;
      if (order_number(k, &cases[i].shape, &order)) {
        check_against_layers(i, order, MHAS_FLOAT64, 1e-12);
        check_against_layers(i, order, MHAS_FLOAT32, 1e-4);
      }
    }
  }
}

static double loss_again(const rig *r) {
  mhas_model_disturb(r->model, case_random, 4);
  return rig_loss(r);
}

static void gradients_are_those_of_central_differences_in_every_order(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    for (int k = 0; k < ORDERS; k++) {
      mhas_order order;
      if (cases[i].shape.dim > 8 || !order_number(k, &cases[i].shape, &order)) {
        continue;
      }
      rig r = rig_of_order(&cases[i].shape, order, MHAS_FLOAT64, cases[i].T);
      for (mhas_slice slice = 0; slice < MHAS_SLICES; slice++) {
        check_differences(&r, slice, loss_again, 1e-5, 1e-8);
      }
      rig_destroy(&r);
    }
  }
}

static void attention_maps_are_those_of_layers(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    const mhas_model_shape *shape = &cases[i].shape;
    const int64_t count = cases[i].T * shape->heads * shape->context;
    rig folded = rig_of_order(shape, (mhas_order){.folded = true}, MHAS_FLOAT64, cases[i].T);
    rig layered = rig_of_order(shape, (mhas_order){0}, MHAS_FLOAT64, cases[i].T);
    double *a = calloc((size_t)count, sizeof *a);
    double *b = calloc((size_t)count, sizeof *b);
    assert_true(a != NULL && b != NULL);
    mhas_model_attention(folded.model, &folded.samples, 0, cases[i].T, a);
    mhas_model_attention(layered.model, &layered.samples, 0, cases[i].T, b);
    assert_all_close(a, b, count, 1e-13);
    free(a);
    free(b);
    rig_destroy(&folded);
    rig_destroy(&layered);
  }
}

/* ---- maps that are kept between passes ---- */

/* Every way to change the parameters, on two models; then they agree as before. */
static void change(mhas_model *model, const mhas_samples *samples, const int64_t *picks, int way) {
  const mhas_adam adam = {0.9, 0.999, 1e-8};
  switch (way) {
    case 0: mhas_model_keep_best(model); break;
    case 1:
      (void)mhas_model_gradient(model, samples, picks, samples->shape.samples);
      mhas_model_update(model, &adam, 0.01);
      break;
    case 2: mhas_model_decay(model, 0.5, 0.5); break;
    case 3: mhas_model_shrink(model, 0.1, 0.1); break;
    case 4: assert_int_equal(mhas_model_prune(model, 0.3, &rig_error), MHAS_OK); break;
    case 5: assert_int_equal(mhas_model_quantize(model, 6, &rig_error), MHAS_OK); break;
    case 6: mhas_model_initialise(model, (mhas_random){.seed = 99}); break;
    default: mhas_model_load_best(model); break;
  }
}

static void no_change_of_parameters_goes_unseen(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    rig folded = rig_of_order(&cases[i].shape, (mhas_order){.folded = true}, MHAS_FLOAT64, cases[i].T);
    rig layered = rig_of_order(&cases[i].shape, (mhas_order){0}, MHAS_FLOAT64, cases[i].T);
    double last = 0.0;
    for (int way = 0; way < 8; way++) {
      change(folded.model, &folded.samples, folded.picks, way);
      change(layered.model, &layered.samples, layered.picks, way);
      const double a = mhas_model_score(folded.model, &folded.samples, 0, cases[i].T).loss;
      const double b = mhas_model_score(layered.model, &layered.samples, 0, cases[i].T).loss;
      assert_close(a, b, 1e-10);
      assert_true(a != last);
      last = a;
    }
    rig_destroy(&folded);
    rig_destroy(&layered);
  }
}

static void other_samples_with_a_shared_context_are_seen(void **state) {
  (void)state;
  rig r = rig_of_order(&cases[1].shape, (mhas_order){.folded = true}, MHAS_FLOAT64, cases[1].T);
  rig other = rig_of_order(&cases[1].shape, (mhas_order){0}, MHAS_FLOAT64, cases[1].T);
  (void)mhas_model_score(r.model, &r.samples, 0, r.T);
  assert_int_equal(mhas_samples_draw(&r.samples, (mhas_random){.seed = 77}, 0, r.T, &rig_error), MHAS_OK);
  assert_int_equal(mhas_samples_draw(&other.samples, (mhas_random){.seed = 77}, 0, r.T, &rig_error), MHAS_OK);
  assert_close(mhas_model_score(r.model, &r.samples, 0, r.T).loss,
               mhas_model_score(other.model, &other.samples, 0, r.T).loss, 1e-12);
  rig_destroy(&r);
  rig_destroy(&other);
}

/* ---- counts ---- */

static void operations_are_counted_by_hand_for_one_shape(void **state) {
  (void)state;
  /* H 2, d 5, d_h 3, d_v 1, d_o 4, n 3, C 3: r = 8, D = 6 */
  const mhas_model_shape own = {2, 5, 3, 1, 4, 3, false, 3, 1.5, 1e4, PLAIN};
  const mhas_order first = {.folded = true, .joined = true, .value_first = true};
  const double fold = 2.0 * 2 * (8 * 5 * 3 + 6 * 5 * 3 + 8 * 5 + 8 * 6 * 3);
  const double sample = 2.0 * 2 * (8 * 6 + 15 + 15 + 3);
  const double out = 2.0 * (2 * 4 + 4 * 3);
  const double softmax = 5.0 * (2 * 3 + 3);
  assert_close(mhas_order_forward_flops(&own, first, 7.0), fold + 7 * (sample + out + softmax), 0.0);
  const double unfold = 2.0 * 2 * (15 * (8 + 5) + 2 * 15 * 6 + 5 * (8 + 5) + 2 * 8 * 6 * 3);
  const double back = 2.0 * 2 * (8 * 6 + 15 + 15 + 6);
  assert_close(mhas_order_gradient_flops(&own, first, 7.0), fold + unfold + 7 * (sample + back + 3 * out + 2 * softmax),
               0.0);
  /* r = n = 3; the context is embedded once */
  mhas_model_shape shared = own;
  shared.shared = true;
  const mhas_order apart = {.folded = true};
  const double fold_shared = 2.0 * (3 * 25 + 2 * (3 * 5 * 3 + 6 * 5 * 3 + 3 * 5));
  assert_close(mhas_order_forward_flops(&shared, apart, 7.0),
               fold_shared + 7 * (2.0 * 2 * (3 * (6 + 3) + 3) + out + softmax), 0.0);
  /* the bias of the embedding makes the positions learned; a weight of linear attention is one operation */
  mhas_model_shape linear = own;
  linear.variant.weighting = MHAS_LINEAR;
  const double unfold_linear = 2.0 * 2 * (15 * (8 + 8) + 2 * 15 * 6 + 5 * (8 + 8) + 2 * 8 * 6 * 3);
  assert_close(mhas_order_gradient_flops(&linear, first, 7.0),
               fold + unfold_linear + 7 * (sample + back + 3 * out + 2 * (2 * 3 + 5.0 * 3)), 0.0);
}

static void the_order_follows_the_sizes(void **state) {
  (void)state;
  mhas_model_shape shape = {20, 64, 64, 1, 64, 32, false, 100, 1.0, 1e4, PLAIN};
  mhas_order order = mhas_order_of(&shape, 256);
  assert_true(order.folded && order.joined && order.value_first);
  shape.key_dim = 10; /* few columns: the joined map would be wider than both */
  order = mhas_order_of(&shape, 256);
  assert_true(order.folded && !order.joined && order.value_first);
  shape.value_dim = 8;
  assert_false(mhas_order_of(&shape, 256).value_first);
  assert_false(mhas_order_of(&shape, 1).folded); /* nothing to share the work of folding */
  shape.key_dim = 64;
  shape.value_dim = 1;
  shape.disturbance.dropout = 0.1;
  assert_true(mhas_order_of(&shape, 256).folded);
  shape.variant = (mhas_variant){.compose = {BASE, BASE}, .rank = 2, .scale = 1.0};
  assert_true(mhas_order_of(&shape, 256).folded);
  shape.variant.compose[MHAS_PRE] = ALL;
  assert_true(mhas_order_of(&shape, 256).folded);
}

static void no_order_has_fewer_operations_than_the_chosen_one(void **state) {
  (void)state;
  for (int i = 0; i < CASES; i++) {
    const double chosen = mhas_model_gradient_flops(&cases[i].shape, cases[i].T, (double)cases[i].T);
    assert_true(chosen <= mhas_order_gradient_flops(&cases[i].shape, (mhas_order){0}, (double)cases[i].T));
    for (int k = 0; k < ORDERS; k++) {
      mhas_order order;
      if (order_number(k, &cases[i].shape, &order)) {
        assert_true(chosen <= mhas_order_gradient_flops(&cases[i].shape, order, (double)cases[i].T));
      }
    }
  }
}

/* ---- loops ---- */

static void exponentials_are_right_to_two_units_and_survive_the_ends(void **state) {
  (void)state;
  for (double x = 0.0; x > -90.0; x -= 0.0371) {
    double pair[2] = {0.0, x};
    double sum = 0.0;
    float single[2] = {0.0f, (float)x};
    float single_sum = 0.0f;
    mhas_lanes_plain_double.softmax(1, 2, 1.0, pair, 2, pair, &sum);
    assert_close(pair[1] / pair[0] / exp(x), 1.0, 1e-15);
    mhas_lanes_plain_float.softmax(1, 2, 1.0f, single, 2, single, &single_sum);
    if (x > -87.0) {
      assert_close((double)single[1] / (double)single[0] / exp((double)(float)x), 1.0, 4e-7);
    }
  }
  float far[3] = {0.0f, -1e30f, -INFINITY};
  mhas_lanes_plain_float.softmax(1, 3, 1.0f, far, 3, far, NULL);
  assert_true(far[0] == 1.0f && far[1] == 0.0f && far[2] == 0.0f);
  double bad[3] = {0.0, NAN, 1.0};
  mhas_lanes_plain_double.softmax(1, 3, 1.0, bad, 3, bad, NULL);
  assert_true(isnan(bad[0]) && isnan(bad[1]) && isnan(bad[2]));
}

/* Steps of training at each level of the vector unit that this machine has; the products are the same. */
static void every_level_gives_the_same_bits(void **state) {
  (void)state;
  const mhas_model_shape *shape = &cases[10].shape;
  const mhas_adam adam = {0.9, 0.999, 1e-8};
  double first[2] = {0.0, 0.0};
  for (lanes_level level = 0; level <= mhas_lanes_level(); level++) {
    for (mhas_precision precision = MHAS_FLOAT32; precision <= MHAS_FLOAT64; precision++) {
      rig r = rig_of_order(shape, (mhas_order){.folded = true, .value_first = true}, precision, cases[10].T);
      r.model->lanes = precision == MHAS_FLOAT32 ? (const void *)mhas_lanes_float(level) : mhas_lanes_double(level);
      double loss = 0.0;
      for (int step = 0; step < 5; step++) {
        loss = rig_loss(&r);
        mhas_model_update(r.model, &adam, 0.01);
      }
      double *expected = &first[precision == MHAS_FLOAT64];
      *expected = level == LANES_PLAIN ? loss : *expected;
      assert_memory_equal(&loss, expected, sizeof loss);
      rig_destroy(&r);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_order_gives_what_layers_give),
      cmocka_unit_test(gradients_are_those_of_central_differences_in_every_order),
      cmocka_unit_test(attention_maps_are_those_of_layers),
      cmocka_unit_test(no_change_of_parameters_goes_unseen),
      cmocka_unit_test(other_samples_with_a_shared_context_are_seen),
      cmocka_unit_test(operations_are_counted_by_hand_for_one_shape),
      cmocka_unit_test(the_order_follows_the_sizes),
      cmocka_unit_test(no_order_has_fewer_operations_than_the_chosen_one),
      cmocka_unit_test(exponentials_are_right_to_two_units_and_survive_the_ends),
      cmocka_unit_test(every_level_gives_the_same_bits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
