#include <stdio.h>
#include <string.h>

#include "mhasweep/base.h"

mhas_code mhas_fail(mhas_error *error, mhas_code code, const char *format, ...) {
  if (error != NULL) {
    va_list arguments;
    va_start(arguments, format);
    error->code = code;
    (void)vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
  }
  return code;
}

mhas_code mhas_error_context(mhas_error *error, const char *format, ...) {
  if (error == NULL) {
    return MHAS_INTERNAL;
  }
  char context[MHAS_ERROR_LENGTH];
  va_list arguments;
  va_start(arguments, format);
  const int used = vsnprintf(context, sizeof context, format, arguments);
  va_end(arguments);
  if (used >= 0) {
    char whole[2 * MHAS_ERROR_LENGTH + 2];
    (void)snprintf(whole, sizeof whole, "%s: %s", context, error->text);
    memcpy(error->text, whole, sizeof error->text - 1);
    error->text[sizeof error->text - 1] = '\0';
  }
  return error->code;
}
