/* An expression's text as tokens. */
#ifndef MHASWEEP_SWEEP_LEXER_H
#define MHASWEEP_SWEEP_LEXER_H

#include <stdbool.h>
#include <stddef.h>

enum { SWEEP_TOKENS_MOST = 1000, SWEEP_TOKEN_LENGTH = 64 };

typedef enum sweep_token_kind {
  SWEEP_NUMBER_TOKEN,
  SWEEP_NAME_TOKEN,
  SWEEP_QUOTED_TOKEN,
  SWEEP_SIGN_TOKEN
} sweep_token_kind;

typedef struct sweep_token {
  sweep_token_kind kind;
  char text[SWEEP_TOKEN_LENGTH]; /* a quoted word without its quotes; `and`, `or` as signs */
} sweep_token;

typedef struct sweep_tokens {
  size_t count;
  sweep_token list[SWEEP_TOKENS_MOST];
} sweep_tokens;

/* False if the text has something that no expression has; *fault says what, in words for the user (size bytes). */
bool sweep_tokens_read(const char *text, sweep_tokens *tokens, char *fault, size_t size);

bool sweep_token_is(const sweep_token *token, const char *sign); /* a sign, and this one */

#endif
