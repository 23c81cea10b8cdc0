#include "sweep/lexer.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Longest first. */
static const char *const signs[] = {"&&", "||", "==", "!=", "<=", ">=", "+", "-", "*", "/",
                                    "%",  "^",  "(",  ")",  ",",  "<",  ">", "!", "?", ":"};

/* What people write out of habit from other languages, and what it is here. */
static const struct {
  const char *written, *advice;
} habits[] = {
    {"**", "powers are written with ^"},
    {"//", "write floor(a / b)"},
};

static bool is_name_byte(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t number_length(const char *text) {
  size_t length = 0;
  while (isdigit((unsigned char)text[length]) || text[length] == '.') {
    length++;
  }
  if (length > 0 && (text[length] == 'e' || text[length] == 'E')) {
    size_t exponent = length + 1;
    exponent += text[exponent] == '+' || text[exponent] == '-';
    if (isdigit((unsigned char)text[exponent])) {
      while (isdigit((unsigned char)text[exponent])) {
        exponent++;
      }
      length = exponent;
    }
  }
  return length;
}

static size_t name_length(const char *text) {
  size_t length = 0;
  while (is_name_byte(text[length])) {
    length++;
  }
  return length;
}

static bool read_sign(const char *at, sweep_token *token, size_t *length, char *fault, size_t size) {
  for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
    if (strncmp(at, habits[i].written, strlen(habits[i].written)) == 0) {
      (void)snprintf(fault, size, "%s is not understood: %s", habits[i].written, habits[i].advice);
      return false;
    }
  }
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
    *length = strlen(signs[i]);
    if (strncmp(at, signs[i], *length) == 0) {
      token->kind = SWEEP_SIGN_TOKEN;
      (void)snprintf(token->text, sizeof token->text, "%s", signs[i]);
      return true;
    }
  }
  if (*at == '=') {
    (void)snprintf(fault, size, "a single = compares nothing; write ==");
  } else if (*at == '&' || *at == '|') {
    (void)snprintf(fault, size, "write %c%c", *at, *at);
  } else if (isprint((unsigned char)*at)) {
    (void)snprintf(fault, size, "%c has no meaning in an expression", *at);
  } else {
    (void)snprintf(fault, size, "there is a character without meaning in an expression");
  }
  return false;
}

static void name_to_sign(sweep_token *token) {
  const char *sign = strcmp(token->text, "and") == 0 ? "&&" : strcmp(token->text, "or") == 0 ? "||" : NULL;
  if (sign != NULL) {
    token->kind = SWEEP_SIGN_TOKEN;
    (void)snprintf(token->text, sizeof token->text, "%s", sign);
  }
}

/* One token at `at`; *length is what it takes up. */
static bool read_token(const char *at, sweep_token *token, size_t *length, char *fault, size_t size) {
  size_t skip = 0; /* of the quote */
  *length = number_length(at);
  token->kind = SWEEP_NUMBER_TOKEN;
  if (*length > 0 && is_name_byte(at[*length])) {
    (void)snprintf(fault, size, "a number is followed by %c; is a * missing?", at[*length]);
    return false;
  }
  if (*length == 0) {
    *length = name_length(at);
    token->kind = SWEEP_NAME_TOKEN;
  }
  if (*length == 0 && (*at == '\'' || *at == '"')) {
    const char *end = strchr(at + 1, *at);
    if (end == NULL) {
      (void)snprintf(fault, size, "a quote %c is not closed", *at);
      return false;
    }
    skip = 1;
    *length = (size_t)(end - at) - 1;
    token->kind = SWEEP_QUOTED_TOKEN;
  }
  if (*length == 0 && skip == 0) {
    return read_sign(at, token, length, fault, size);
  }
  if (*length >= sizeof token->text) {
    (void)snprintf(fault, size, "%.20s... is too long for a name or number", at);
    return false;
  }
  memcpy(token->text, at + skip, *length);
  token->text[*length] = '\0';
  *length += 2 * skip;
  if (token->kind == SWEEP_NAME_TOKEN) {
    name_to_sign(token);
  }
  return true;
}

bool sweep_tokens_read(const char *text, sweep_tokens *tokens, char *fault, size_t size) {
  tokens->count = 0;
  for (const char *at = text; *at != '\0';) {
    if (isspace((unsigned char)*at)) {
      at++;
      continue;
    }
    if (tokens->count == SWEEP_TOKENS_MOST) {
      (void)snprintf(fault, size, "it has more than %d words and signs", SWEEP_TOKENS_MOST);
      return false;
    }
    size_t length = 0;
    if (!read_token(at, &tokens->list[tokens->count], &length, fault, size)) {
      return false;
    }
    tokens->count++;
    at += length;
  }
  return true;
}

bool sweep_token_is(const sweep_token *token, const char *sign) {
  return token->kind == SWEEP_SIGN_TOKEN && strcmp(token->text, sign) == 0;
}
