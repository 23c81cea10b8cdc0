/*
 * Reading sweep files: what is accepted, and what is said about what is not.
 *
 * tests/data/sweep/broken has one broken file per fault, with the report it must give (without the file's name).
 */
#include <dirent.h>
#include <math.h>
#include <unistd.h>

#include "unit/test_sweep_helpers.h"

/* ---- accepted ---- */

static void all_settings_are_read(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "# a comment\n"
      "experiment: probe\n"
      "seed: 18446744073709551615\n"
      "parameters: {heads: [1, 2], dim: 0x10, context: 1.0e1, logit_scale: .5}\n"
      "replicates: 3\n"
      "store: [z, spectrum]\n"
      "limits: {seconds_per_point: 1.5, memory_per_rank: 2GiB, max_failures: 0}\n",
      NULL);
  assert_string_equal(mhas_sweep_experiment(sweep)->name, "probe");
  assert_true(mhas_sweep_seed(sweep) == UINT64_MAX);
  assert_int_equal(mhas_sweep_replicates(sweep), 3);
  assert_int_equal(mhas_sweep_store(sweep), MHAS_STORE_Z | MHAS_STORE_SPECTRUM);
  const mhas_limits *limits = mhas_sweep_limits(sweep);
  assert_true(limits->seconds_per_point == 1.5);
  assert_true(limits->memory_per_rank == 2147483648.0);
  assert_int_equal(limits->max_failures, 0);
  assert_string_equal(value_at(sweep, 0, "dim"), "16");
  assert_string_equal(value_at(sweep, 0, "context"), "10");
  assert_string_equal(value_at(sweep, 0, "logit_scale"), "0.5");
  assert_int_equal(mhas_sweep_grid_count(sweep), 6);
  mhas_sweep_destroy(sweep);
}

static void a_file_that_only_names_the_experiment_is_one_point_of_defaults(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: memorize", NULL);
  assert_int_equal(mhas_sweep_grid_count(sweep), 1);
  assert_int_equal(mhas_sweep_seed(sweep), 0);
  assert_int_equal(mhas_sweep_store(sweep), MHAS_STORE_CURVES);
  assert_true(isinf(mhas_sweep_limits(sweep)->seconds_per_point));
  assert_true(isinf(mhas_sweep_limits(sweep)->memory_per_rank));
  assert_true(mhas_sweep_limits(sweep)->max_failures == INT64_MAX);
  assert_string_equal(value_at(sweep, 0, "key_dim"), "64");
  assert_string_equal(value_at(sweep, 0, "steps"), "50000");
  assert_string_equal(value_at(sweep, 0, "early_stop"), "true");
  assert_string_equal(value_at(sweep, 0, "context_type"), "own");
  assert_string_equal(mhas_sweep_text(sweep), "experiment: memorize");
  mhas_sweep_destroy(sweep);
}

static void a_byte_order_mark_and_windows_lines_do_no_harm(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from(
      "\xef\xbb\xbf"
      "experiment: probe\r\nparameters:\r\n  heads: [1, 2]\r\n",
      NULL);
  assert_values(sweep, "heads", "1 2");
  mhas_sweep_destroy(sweep);
}

static void memory_limits_are_understood(void **state) {
  (void)state;
  static const struct {
    const char *written;
    double bytes;
  } cases[] = {{"2GiB", 2147483648.0}, {"500MB", 5e8},     {"1.5 KiB", 1536.0}, {"1048576", 1048576.0},
               {"2e9", 2e9},           {"\"3 TB\"", 3e12}, {"7B", 7.0}};
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    char text[128];
    (void)snprintf(text, sizeof text, "experiment: probe\nlimits: {memory_per_rank: %s}\n", cases[i].written);
    mhas_sweep *sweep = sweep_from(text, NULL);
    assert_true(mhas_sweep_limits(sweep)->memory_per_rank == cases[i].bytes);
    mhas_sweep_destroy(sweep);
  }
}

static void an_empty_store_list_stores_nothing(void **state) {
  (void)state;
  mhas_sweep *sweep = sweep_from("experiment: probe\nstore: []\n", NULL);
  assert_int_equal(mhas_sweep_store(sweep), 0);
  mhas_sweep_destroy(sweep);
}

/* ---- refused ---- */

static void read_whole(const char *path, mhas_text *text) {
  mhas_error error;
  assert_int_equal(mhas_text_read_file(path, 1 << 20, text, &error), MHAS_OK);
}

/* A line of an expected report, where the word EXPERIMENTS stands for the names of all that there are. */
static void append_expected(const char *line, mhas_text *whole) {
  static const char word[] = "EXPERIMENTS";
  const char *found = strstr(line, word);
  if (found == NULL) {
    mhas_text_append(whole, "%s\n", line);
    return;
  }
  int count = 0;
  const mhas_experiment *const *experiments = mhas_experiments(&count);
  mhas_text_append(whole, "%.*s", (int)(found - line), line);
  for (int i = 0; i < count; i++) {
    mhas_text_append(whole, "%s%s", i == 0 ? "" : ", ", experiments[i]->name);
  }
  mhas_text_append(whole, "%s\n", found + strlen(word));
}

/* "broken/07-name.yaml" must give the lines of "broken/07-name.expected", each behind the file's name. */
static void check_broken(const char *folder, const char *name) {
  char path[512];
  mhas_text text = {0};
  mhas_text expected = {0};
  mhas_text whole = {0};
  mhas_text report = {0};
  mhas_sweep *sweep = NULL;
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  read_whole(path, &text);
  (void)snprintf(path, sizeof path, "%s/%.*s.expected", folder, (int)(strlen(name) - strlen(".yaml")), name);
  read_whole(path, &expected);
  for (char *line = strtok(expected.data, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    mhas_text_append(&whole, "%s:", name);
    append_expected(line, &whole);
  }
  assert_true(whole.length > 0);
  /* A copy of exactly this length, so that reading past the end is noticed by a sanitizer. */
  char *exact = malloc(text.length + (text.length == 0));
  assert_non_null(exact);
  memcpy(exact, mhas_text_string(&text), text.length);
  const mhas_code code = mhas_sweep_parse(name, exact, text.length, NULL, 0, &sweep, &report);
  assert_string_equal(mhas_text_string(&report), mhas_text_string(&whole));
  assert_int_equal(code, MHAS_USAGE);
  assert_null(sweep);
  free(exact);
  mhas_text_free(&text);
  mhas_text_free(&expected);
  mhas_text_free(&whole);
  mhas_text_free(&report);
}

static void every_broken_file_gives_its_report(void **state) {
  (void)state;
  const char *folder = TEST_DATA "/sweep/broken";
  int count = 0;
  DIR *listing = opendir(folder);
  assert_non_null(listing);
  for (const struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
    const size_t length = strlen(entry->d_name);
    if (length > 5 && strcmp(entry->d_name + length - 5, ".yaml") == 0) {
      check_broken(folder, entry->d_name);
      count++;
    }
  }
  (void)closedir(listing);
  assert_true(count >= 40);
}

static void broken_files_print_nothing(void **state) {
  (void)state;
  FILE *catch = tmpfile();
  assert_non_null(catch);
  const int out = dup(STDOUT_FILENO);
  const int err = dup(STDERR_FILENO);
  (void)fflush(NULL);
  assert_true(dup2(fileno(catch), STDOUT_FILENO) >= 0 && dup2(fileno(catch), STDERR_FILENO) >= 0);
  static const char *const texts[] = {"a: [1", "\t- x", "a: b: c", "experiment: probe\nwhere: \"1 +\"\n", "{", "*x"};
  mhas_code codes[COUNT_OF(texts)];
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    mhas_sweep *sweep = NULL;
    mhas_text report = {0};
    codes[i] = mhas_sweep_parse("x", texts[i], strlen(texts[i]), NULL, 0, &sweep, &report);
    mhas_text_free(&report);
  }
  (void)fflush(NULL);
  assert_true(dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0);
  (void)close(out);
  (void)close(err);
  assert_int_equal(fseek(catch, 0, SEEK_END), 0);
  assert_int_equal(ftell(catch), 0);
  (void)fclose(catch);
  for (size_t i = 0; i < COUNT_OF(texts); i++) {
    assert_int_equal(codes[i], MHAS_USAGE);
  }
}

/* ---- giants ---- */

static char *repeated(const char *head, const char *piece, size_t times, const char *tail) {
  const size_t length = strlen(piece);
  char *text = malloc(strlen(head) + length * times + strlen(tail) + 1);
  assert_non_null(text);
  char *end = stpcpy(text, head);
  for (size_t i = 0; i < times; i++) {
    memcpy(end, piece, length);
    end += length;
  }
  (void)strcpy(end, tail);
  return text;
}

static void assert_giant_refused(const char *head, const char *piece, size_t times, const char *tail,
                                 const char *expected) {
  char *text = repeated(head, piece, times, tail);
  assert_refused(text, NULL, expected);
  free(text);
}

static void giants_are_refused_in_a_line(void **state) {
  (void)state;
  assert_giant_refused("", "seed: 1\n", 10000000, "",
                       "test.yaml:1:1: the file is longer than 4 MiB, the most for a sweep file\n");
  assert_giant_refused("experiment: probe\nseed: ", "[", 100000, "",
                       "test.yaml:2:22: nested more than 16 levels deep; a sweep file needs 3\n");
  assert_giant_refused("experiment: probe\nseed: ", "{a: ", 100000, "",
                       "test.yaml:2:67: nested more than 16 levels deep; a sweep file needs 3\n");
  assert_giant_refused("experiment: probe\nwhere: \"", "(", 100000, "\"",
                       "test.yaml:2:8: the expression of where: it has more than 1000 words and signs\n");
  assert_giant_refused("experiment: probe\nwhere: \"", "a", 100000, "\"",
                       "test.yaml:2:8: the expression of where: aaaaaaaaaaaaaaaaaaaa... is too long for a name or "
                       "number\n");
}

static void four_megabytes_of_empty_lines_are_read(void **state) {
  (void)state;
  char *text = repeated("experiment: probe", "\n", 4000000, "seed: 3\n");
  mhas_sweep *sweep = sweep_from(text, NULL);
  assert_int_equal(mhas_sweep_seed(sweep), 3);
  mhas_sweep_destroy(sweep);
  free(text);
}

static void errors_beyond_a_hundred_are_only_counted(void **state) {
  (void)state;
  char *text = repeated("experiment: probe\nparameters:\n  heads: [", "x, ", 20000, "x]\n");
  mhas_sweep *sweep = NULL;
  mhas_text report = {0};
  assert_int_equal(mhas_sweep_parse("test.yaml", text, strlen(text), NULL, 0, &sweep, &report), MHAS_USAGE);
  int lines = 0;
  for (size_t i = 0; i < report.length; i++) {
    lines += report.data[i] == '\n';
  }
  assert_int_equal(lines, 101);
  assert_non_null(strstr(mhas_text_string(&report), "test.yaml: ... and 19901 more\n"));
  assert_memory_equal(mhas_text_string(&report), "test.yaml:3:11: ", 16);
  mhas_text_free(&report);
  free(text);
}

/* ---- several at once ---- */

static void all_errors_are_reported_in_the_order_of_the_file(void **state) {
  (void)state;
  assert_refused(
      "store: [curve]\n"
      "parameters:\n"
      "  dim: 0\n"
      "  heads: [1, two]\n"
      "experiment: probe\n"
      "seeds: 3\n",
      NULL,
      "test.yaml:1:9: store cannot be curve; did you mean curves?\n"
      "test.yaml:3:8: dim = 0 is out of range; it takes whole numbers from 1 to 1048576\n"
      "test.yaml:4:14: heads takes a number, not two\n"
      "test.yaml:6:1: unknown key seeds; did you mean seed?\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_settings_are_read),
      cmocka_unit_test(a_file_that_only_names_the_experiment_is_one_point_of_defaults),
      cmocka_unit_test(a_byte_order_mark_and_windows_lines_do_no_harm),
      cmocka_unit_test(memory_limits_are_understood),
      cmocka_unit_test(an_empty_store_list_stores_nothing),
      cmocka_unit_test(every_broken_file_gives_its_report),
      cmocka_unit_test(broken_files_print_nothing),
      cmocka_unit_test(giants_are_refused_in_a_line),
      cmocka_unit_test(four_megabytes_of_empty_lines_are_read),
      cmocka_unit_test(errors_beyond_a_hundred_are_only_counted),
      cmocka_unit_test(all_errors_are_reported_in_the_order_of_the_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
