/* Small charts in a line of text: one bar a value, as blocks where the terminal's locale has them. */
#include "cli/spark.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LEVELS = 8 };

/* The locale of the environment says UTF-8. */
static bool has_blocks(void) {
  static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *word = getenv(variables[i]);
    if (word != NULL && word[0] != '\0') {
      const char *charset = strrchr(word, '.');
      return charset != NULL && (strcasecmp(charset, ".UTF-8") == 0 || strcasecmp(charset, ".utf8") == 0);
    }
  }
  return false;
}

void spark_scale_add(spark_scale *scale, double value) {
  if (!isfinite(value)) {
    return;
  }
  scale->low = scale->any ? fmin(scale->low, value) : value;
  scale->high = scale->any ? fmax(scale->high, value) : value;
  scale->any = true;
  scale->logarithmic = scale->low > 0.0 && scale->high >= 1000.0 * scale->low;
}

static int level_of(const spark_scale *scale, double value) {
  double share = 0.5;
  if (scale->logarithmic) {
    share = log(value / scale->low) / log(scale->high / scale->low);
  } else if (scale->high > scale->low) {
    share = value / (scale->high - scale->low) - scale->low / (scale->high - scale->low);
  }
  const int level = (int)(share * LEVELS);
  return level < 0 ? 0 : level >= LEVELS ? LEVELS - 1 : level;
}

void spark_append(mhas_text *text, const double *values, int count, int times, const spark_scale *scale) {
  static const char ascii[LEVELS + 1] = ".:-=+*#@";
  const bool blocks = has_blocks();
  for (int i = 0; i < count; i++) {
    for (int time = 0; time < times; time++) {
      if (!isfinite(values[i])) {
        mhas_text_append(text, " ");
      } else if (blocks) {
        mhas_text_append(text, "\xE2\x96%c", 0x81 + level_of(scale, values[i])); /* U+2581 .. U+2588 */
      } else {
        mhas_text_append(text, "%c", ascii[level_of(scale, values[i])]);
      }
    }
  }
}
