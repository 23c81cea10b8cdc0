/* The canonical text and its hash: what changes the meaning of a sweep, and what does not; and --set. */
#include "unit/test_sweep_helpers.h"

static const char *const base =
    "experiment: memorize\n"
    "seed: 42\n"
    "parameters:\n"
    "  heads: [1, 5]\n"
    "  key_dim: [4, 8]\n"
    "  context: {from: 8, to: 32, step: 8}\n"
    "  lr: 0.001\n"
    "  samples: \"= heads * (context - 1) + 1\"\n"
    "zip: [[heads, key_dim]]\n"
    "where: \"key_dim <= dim && context_type == own\"\n"
    "store: [curves, z]\n"
    "limits: {max_failures: 3}\n";

static void the_canonical_text_has_every_key_in_order(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "experiment: probe\n"
      "seed: 42\n"
      "parameters:\n"
      "  heads: [1, 5]\n"
      "  key_dim: [4, 8]\n"
      "  context: {from: 8, to: 32, step: 8}\n"
      "  context_type: shared\n"
      "zip: [[heads, key_dim]]\n"
      "where: \"key_dim<=dim and context_type==shared\"\n"
      "replicates: 6\n"
      "sample: {method: sobol, count: 12}\n",
      NULL);
  /* Every parameter is there, said or not, by name; between these lines stand those of more parameters. */
  const char *const lines[] = {
      "experiment = probe\n",
      "\nnumerics = 3\n",
      "\nparameters.classes = 100\n",
      "\nparameters.context = {from: 8, to: 32, step: 8}\n",
      "\nparameters.context_type = shared\n",
      "\nparameters.dim = 64\n",
      "\nparameters.distribution = uniform\n",
      "\nparameters.fit_tolerance = 1e-06\n",
      "\nparameters.heads = [1, 5]\n",
      "\nparameters.key_dim = [4, 8]\n",
      "\nparameters.labels = regression\n",
      "\nparameters.logit_scale = 1\n",
      "\nparameters.samples = \"= heads * ( context - 1 ) + 1\"\n",
      "\nparameters.weights = random\n",
      "\nreplicates = 6\n",
      "\nsample = {method: sobol, count: 12}\n",
      "\nseed = 42\n",
      "\nstore = [curves]\n",
      "\nwhere = key_dim <= dim && context_type == 'shared'\n",
      "\nzip = [[heads, key_dim]]\n",
  };
  const char *at = mhas_sweep_canonical(sweep);
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    const char *found = strstr(at, lines[i]);
    if (found == NULL || (i == 0 && found != at)) {
      fail_msg("\"%s\" is not in\n%s", lines[i], at);
    }
    at = found + strlen(lines[i]) - 1; /* at the line's end, where the next may begin */
  }
  assert_string_equal(at, "\n");
  /* FNV-1a of that text: an independent loop. */
  uint64_t hash = 14695981039346656037U;
  for (const char *c = mhas_sweep_canonical(sweep); *c != '\0'; c++) {
    hash ^= (unsigned char)*c;
    hash *= 1099511628211U;
  }
  char expected[17];
  (void)snprintf(expected, sizeof expected, "%016llx", (unsigned long long)hash);
  assert_string_equal(mhas_sweep_hash(sweep), expected);
  mhas_sweep_destroy(sweep);
}

static void comments_order_and_notation_do_not_matter(void **state) {
  (void)state;
  static const char *const same[] = {
      /* key order, comments, block style, notation of numbers, spaces in expressions, order within zip and store,
       * defaults written out, limits */
      "store: [z, curves] # both\n"
      "where: \"key_dim<=dim   and context_type   == 'own'\"\n"
      "limits: {seconds_per_point: 60}\n"
      "parameters:\n"
      "  samples: '=heads*(context-1.0)+1'\n"
      "  lr: 1.0e-3\n"
      "  context: {step: 8.0, to: 0x20, from: 8}\n"
      "  dim: [64]\n"
      "  key_dim:\n"
      "    - 4\n"
      "    - 8\n"
      "  heads: [1.0, 5e0]\n"
      "  out_dim: \"= dim\"\n"
      "replicates: 1\n"
      "zip: [[key_dim, heads]]\n"
      "seed: 42.0\n"
      "experiment: 'memorize'\n",
  };
  for (size_t i = 0; i < COUNT_OF(same); i++) {
    mhas_sweep *one = sweep_from(base, NULL);
    mhas_sweep *two = sweep_from(same[i], NULL);
    assert_string_equal(mhas_sweep_canonical(one), mhas_sweep_canonical(two));
    assert_string_equal(mhas_sweep_hash(one), mhas_sweep_hash(two));
    mhas_sweep_destroy(one);
    mhas_sweep_destroy(two);
  }
}

static void a_list_of_one_is_its_value(void **state) {
  (void)state;
  static const char *const values[] = {"heads=4", "heads=[4]", "heads={from: 4, to: 4}",
                                       "heads={from: 4, to: 4, step: 2}"};
  mhas_sweep *first = sweep_from("experiment: probe", values[0]);
  for (size_t i = 1; i < COUNT_OF(values); i++) {
    mhas_sweep *sweep = sweep_from("experiment: probe", values[i]);
    assert_string_equal(mhas_sweep_hash(first), mhas_sweep_hash(sweep));
    mhas_sweep_destroy(sweep);
  }
  mhas_sweep_destroy(first);
}

static void limits_do_not_change_the_meaning(void **state) {
  (void)state;
  mhas_sweep *one = sweep_from(base, NULL);
  mhas_sweep *two = sweep_from(base, "limits.max_failures=7");
  assert_string_equal(mhas_sweep_hash(one), mhas_sweep_hash(two));
  assert_int_equal(mhas_sweep_limits(one)->max_failures, 3);
  assert_int_equal(mhas_sweep_limits(two)->max_failures, 7);
  mhas_sweep_destroy(one);
  mhas_sweep_destroy(two);
}

static void whatever_decides_the_rows_changes_the_hash(void **state) {
  (void)state;
  static const char *const changes[] = {"seed=43",
                                        "heads=[5, 1]",
                                        "heads=[1, 6]",
                                        "dim=32",
                                        "lr=0.002",
                                        "context={from: 8, to: 40, step: 8}",
                                        "context={from: 8, to: 32, count: 4, scale: log}",
                                        "samples== heads * (context - 1) + 2",
                                        "zip=[]",
                                        "where=key_dim < dim",
                                        "replicates=2",
                                        "store=[curves]",
                                        "sample={method: lhs, count: 9}"};
  char seen[COUNT_OF(changes) + 1][17];
  size_t count = 0;
  mhas_sweep *sweep = sweep_from(base, NULL);
  (void)strcpy(seen[count++], mhas_sweep_hash(sweep));
  mhas_sweep_destroy(sweep);
  for (size_t i = 0; i < COUNT_OF(changes); i++) {
    sweep = sweep_from(base, changes[i]);
    for (size_t k = 0; k < count; k++) {
      assert_string_not_equal(seen[k], mhas_sweep_hash(sweep));
    }
    (void)strcpy(seen[count++], mhas_sweep_hash(sweep));
    mhas_sweep_destroy(sweep);
  }
}

/* ---- --set ---- */

static void set_replaces_and_adds(void **state) {
  (void)state;
  const char *const overrides[] = {"heads=[2, 3]",    "dim=16",         "replicates=2", "limits.seconds_per_point=9",
                                   "where=heads > 2", "heads=[3, 4, 5]"};
  mhas_sweep *sweep = NULL;
  mhas_text report = {0};
  const char *text = "experiment: probe\nparameters:\n  heads: 1\n";
  assert_int_equal(mhas_sweep_parse("test.yaml", text, strlen(text), overrides, COUNT_OF(overrides), &sweep, &report),
                   MHAS_OK);
  assert_int_equal(mhas_sweep_grid_count(sweep), 6);
  assert_values(sweep, "heads", "3 3 4 4 5 5"); /* the later word wins */
  assert_string_equal(value_at(sweep, 0, "dim"), "16");
  assert_true(mhas_sweep_limits(sweep)->seconds_per_point == 9.0);
  assert_string_equal(
      mhas_sweep_overrides(sweep),
      "heads=[2, 3]\ndim=16\nreplicates=2\nlimits.seconds_per_point=9\nwhere=heads > 2\nheads=[3, 4, 5]");
  assert_string_equal(mhas_sweep_text(sweep), text);
  mhas_text_free(&report);
  mhas_sweep_destroy(sweep);
}

static void set_takes_expressions_experiments_and_samplers(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: probe\nparameters:\n", "samples== heads * 2");
  assert_values(sweep, "samples", "16");
  mhas_sweep_destroy(sweep);
  sweep = sweep_from("experiment: probe\n", "experiment=memorize");
  assert_string_equal(mhas_sweep_experiment(sweep)->name, "memorize");
  mhas_sweep_destroy(sweep);
  sweep =
      sweep_from("experiment: probe\nparameters: {heads: [1, 2]}\nsample: {method: lhs, count: 4}\n", "sample.count=7");
  assert_int_equal(mhas_sweep_grid_count(sweep), 7);
  mhas_sweep_destroy(sweep);
}

static void set_may_come_before_the_experiment_it_belongs_to(void **state) {
  (void)state;
  const char *const overrides[] = {"lr=0.5", "experiment=memorize"}; /* probe has no lr */
  mhas_sweep *sweep = NULL;
  mhas_text report = {0};
  assert_int_equal(mhas_sweep_parse("test.yaml", "experiment: probe", 17, overrides, 2, &sweep, &report), MHAS_OK);
  assert_string_equal(value_at(sweep, 0, "lr"), "0.5");
  mhas_text_free(&report);
  mhas_sweep_destroy(sweep);
}

static void set_says_what_is_wrong(void **state) {
  (void)state;
  static const struct {
    const char *word, *reason;
  } cases[] = {
      {"heads", "write NAME=VALUE"},
      {"=4", "write NAME=VALUE"},
      {"heads=", "no value; write NAME=VALUE"},
      {"hedas=4", "there is no parameter or setting hedas; did you mean heads?"},
      {"limits.max_failure=4",
       "there is no parameter or setting limits.max_failure; did you mean limits.max_failures?"},
      {"heads=0", "heads = 0 is out of range; it takes whole numbers from 1 to 1048576"},
      {"heads=[1, 2",
       "not valid YAML: flow sequence without a closing bracket; are all brackets [ ] { } closed, on "
       "indented lines?"},
      {"where=dim = 3", "the expression of where: a single = compares nothing; write =="},
      {"sample.count=4", "sample has no method; write {method: sobol, count: 500}"},
      {"experiment=prob", "experiment cannot be prob; did you mean probe?"},
      {"seed=-1", "seed takes a whole number from 0 to 18446744073709551615, not -1"},
      {"heads=\xff", "byte 0xFF is not UTF-8 text; a sweep file is YAML in UTF-8"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char expected[512];
    (void)snprintf(expected, sizeof expected, "--set %s: %s\n", cases[i].word, cases[i].reason);
    assert_refused("experiment: probe\n", cases[i].word, expected);
  }
}

static void errors_of_the_file_come_before_those_of_set(void **state) {
  (void)state;
  assert_refused("experiment: probe\nparameters:\n  dim: 0\n", "heads=0",
                 "test.yaml:3:8: dim = 0 is out of range; it takes whole numbers from 1 to 1048576\n"
                 "--set heads=0: heads = 0 is out of range; it takes whole numbers from 1 to 1048576\n");
  mhas_sweep *sweep = sweep_from("experiment: probe\nparameters:\n  dim: 0\n", "dim=4"); /* and mend it */
  mhas_sweep_destroy(sweep);
}

/* ---- writing values ---- */

static void values_are_written_as_in_a_sweep_file(void **state) {
  (void)state;
  static const char *const words[] = {"own", "shared", NULL};
  static const mhas_parameter integer = {.name = "i", .type = MHAS_INTEGER};
  static const mhas_parameter real = {.name = "r", .type = MHAS_REAL};
  static const mhas_parameter choice = {.name = "c", .type = MHAS_CHOICE, .choices = words};
  static const mhas_parameter flag = {.name = "f", .type = MHAS_FLAG};
  const struct {
    const mhas_parameter *parameter;
    mhas_value value;
    const char *expected;
  } cases[] = {
      {&integer, {.integer = 64}, "64"},
      {&integer, {.integer = INT64_MIN}, "-9223372036854775808"},
      {&real, {.real = 0.001}, "0.001"},
      {&real, {.real = 0.1 + 0.2}, "0.30000000000000004"},
      {&real, {.real = 1e-8}, "1e-08"},
      {&real, {.real = 1e300}, "1e+300"},
      {&real, {.real = 5e-324}, "4.94065645841247e-324"},
      {&choice, {.integer = 1}, "shared"},
      {&choice, {.integer = -1}, "-1"},
      {&choice, {.integer = 2}, "2"},
      {&flag, {.integer = 1}, "true"},
      {&flag, {.integer = 0}, "false"},
  };
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    mhas_text text = {0};
    mhas_value_format(cases[i].parameter, cases[i].value, &text);
    assert_string_equal(mhas_text_string(&text), cases[i].expected);
    mhas_text_free(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_canonical_text_has_every_key_in_order),
      cmocka_unit_test(comments_order_and_notation_do_not_matter),
      cmocka_unit_test(a_list_of_one_is_its_value),
      cmocka_unit_test(limits_do_not_change_the_meaning),
      cmocka_unit_test(whatever_decides_the_rows_changes_the_hash),
      cmocka_unit_test(set_replaces_and_adds),
      cmocka_unit_test(set_takes_expressions_experiments_and_samplers),
      cmocka_unit_test(set_may_come_before_the_experiment_it_belongs_to),
      cmocka_unit_test(set_says_what_is_wrong),
      cmocka_unit_test(errors_of_the_file_come_before_those_of_set),
      cmocka_unit_test(values_are_written_as_in_a_sweep_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
