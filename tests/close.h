/* cmocka, with the headers that it wants before it, and comparison of floating-point numbers. */
#ifndef MHASWEEP_TESTS_CLOSE_H
#define MHASWEEP_TESTS_CLOSE_H

/* clang-format off */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

/* |actual - expected| <= tolerance max(1, |expected|). A NaN is never close. */
#define assert_close(actual, expected, tolerance)                                                \
  do {                                                                                           \
    const double close_actual = (actual);                                                        \
    const double close_expected = (expected);                                                    \
    if (!(fabs(close_actual - close_expected) <= (tolerance)*fmax(1.0, fabs(close_expected)))) { \
      fail_msg("%s is %.17g, not %.17g (off by %.3g)", #actual, close_actual, close_expected,    \
               close_actual - close_expected);                                                   \
    }                                                                                            \
  } while (0)

#define assert_all_close(actual, expected, count, tolerance)                                                      \
  do {                                                                                                            \
    for (int64_t close_i = 0; close_i < (int64_t)(count); close_i++) {                                            \
      if (!(fabs((actual)[close_i] - (expected)[close_i]) <= (tolerance)*fmax(1.0, fabs((expected)[close_i])))) { \
        fail_msg("%s[%d] is %.17g, not %.17g", #actual, (int)close_i, (double)(actual)[close_i],                  \
                 (double)(expected)[close_i]);                                                                    \
      }                                                                                                           \
    }                                                                                                             \
  } while (0)

#endif
