#include "experiments/checks.h"

mhas_code mhas_as_usage(mhas_error *error) {
  if (error != NULL) {
    error->code = MHAS_USAGE;
  }
  return MHAS_USAGE;
}

mhas_code mhas_check_numbers(const char *what, double numbers, mhas_error *error) {
  if (numbers > 0x1p44) { /* 128 TiB, the address space of a process */
    return mhas_fail(error, MHAS_USAGE, "%s: %.3g numbers, more than a machine can address", what, numbers);
  }
  return MHAS_OK;
}
