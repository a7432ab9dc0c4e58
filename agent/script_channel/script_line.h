/* agent/script_channel/script_line.h: progress that a script only prints: "tfe: step=120
 * loss=0.31", or what a pattern of the user's finds in its lines. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_LINE_H
#define TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/script_channel/script_message.h"

struct script_line;

/* pattern: a Perl-compatible regular expression (PCRE2) of at most 1,024 bytes whose groups have
 * names, "step (?<step>[0-9]+).*loss (?<loss>[0-9.e+-]+)": step, samples and total are known,
 * others are metrics. NULL: only lines that begin with "tfe: " tell something. TFE_EINVAL with why:
 * it is none, or names nothing. TFE_ENOMEM. */
int script_line_new(const char *pattern, struct script_line **ret,
                    struct tfe_reason *reason) TFE_MUST_CHECK;
/* NULL is allowed. */
void script_line_free(struct script_line *s);

/* Whether this line (n bytes, no newline) tells of progress: *ret is a PROGRESS without epoch and
 * rank then. Cheap for a line that does not. A pattern takes at most some 1 ms for a line and 50 ms
 * in a second; what it has no time for tells nothing, which is logged once. */
bool script_line_read(struct script_line *s, const char *line, size_t n,
                      struct script_message *ret);

#endif
