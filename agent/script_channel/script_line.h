/* agent/script_channel/script_line.h: extracts progress from the lines that a script prints:
 * "tfe: step=120 loss=0.31", or matches of a user's pattern. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_LINE_H
#define TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/script_channel/script_message.h"

struct script_line;

/* Compiles a pattern: a Perl-compatible regular expression (PCRE2) of at most 1,024 bytes with
 * named groups, e.g. "step (?<step>[0-9]+).*loss (?<loss>[0-9.e+-]+)". The groups step, samples
 * and total have a fixed meaning; others are metrics. With pattern NULL only lines that begin
 * with "tfe: " are parsed. Returns TFE_EINVAL with reason if the pattern is invalid or has no
 * named group, or TFE_ENOMEM. */
int script_line_new(const char *pattern, struct script_line **ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;
/* Frees a parser. Accepts NULL. */
void script_line_free(struct script_line *s);

/* Returns true if the line (n bytes without newline) reports progress; *ret is then a PROGRESS
 * without epoch and rank. Fast for other lines. Matching is limited to about 1 ms per line and
 * 50 ms per second; lines over the limit are ignored, which is logged once. */
bool script_line_read(struct script_line *s, const char *line, size_t n,
                      struct script_message *ret);

#endif
