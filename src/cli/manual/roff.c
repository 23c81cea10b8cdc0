/* Texts as man(7) wants them. */
#include <string.h>

#include "cli/manual/manual.h"

/* A backslash begins an escape; a bare minus would become a hyphen, which no shell takes for one; a dot or an
 * apostrophe at the start of a line is a request. */
static void append_byte(mhas_text *text, char byte, bool line_start) {
  if (line_start && (byte == '.' || byte == '\'')) {
    mhas_text_append(text, "\\&");
  }
  switch (byte) {
    case '\\': mhas_text_append(text, "\\e"); break;
    case '-': mhas_text_append(text, "\\-"); break;
    case '\'': mhas_text_append(text, "\\(aq"); break;
    case '`': mhas_text_append(text, "\\(ga"); break;
    case '^': mhas_text_append(text, "\\(ha"); break;
    case '~': mhas_text_append(text, "\\(ti"); break;
    default: mhas_text_append_bytes(text, &byte, 1);
  }
}

void roff_title(mhas_text *text, const char *name, const char *section, const char *about) {
  mhas_text_append(text,
                   ".\\\" Made at build time from the tables of the program.\n"
                   ".TH %s %s \"\" \"mhasweep %s\" \"%s\"\n",
                   name, section, mhas_version(), about);
}

void roff_literal(mhas_text *text, const char *words, bool bold) {
  mhas_text_append(text, "%s", bold ? "\\fB" : "");
  for (; *words != '\0'; words++) {
    append_byte(text, *words, false);
  }
  mhas_text_append(text, "%s", bold ? "\\fR" : "");
}

void roff_words(mhas_text *text, const char *words) {
  bool line_start = true;
  for (; *words != '\0'; words++) {
    if (words[0] == '\n' && words[1] == '\n') {
      mhas_text_append(text, "\n.PP\n");
      words++;
      line_start = true;
    } else {
      append_byte(text, *words == '\n' ? ' ' : *words, line_start);
      line_start = false;
    }
  }
  mhas_text_append(text, "\n");
}

void roff_lines(mhas_text *text, const char *lines) {
  mhas_text_append(text, ".PP\n.RS 4\n.EX\n");
  while (*lines != '\0') {
    lines += strncmp(lines, "  ", 2) == 0 ? 2 : 0;
    bool line_start = true;
    for (; *lines != '\0' && *lines != '\n'; lines++) {
      append_byte(text, *lines, line_start);
      line_start = false;
    }
    lines += *lines == '\n';
    mhas_text_append(text, "\n");
  }
  mhas_text_append(text, ".EE\n.RE\n");
}
