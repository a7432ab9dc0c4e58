/* agent/output/output_tail.h: the last lines of a stream, as they travel with EXITED. Pure. */
#ifndef TFE_AGENT_OUTPUT_OUTPUT_TAIL_H
#define TFE_AGENT_OUTPUT_OUTPUT_TAIL_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/msg.h"

#define TAIL_LINES 20

struct tail {
    uint64_t written; /* all bytes there were; the ring holds the last of them */
    char ring[MSG_TAIL_MAX];
};

/* A line without its newline. */
void tail_add(struct tail *tail, const char *line, size_t n);

/* The last 20 lines, with NUL; control characters are replaced by spaces; a line that had to be cut
 * begins with a whole character. */
void tail_make(const struct tail *tail, char ret[MSG_TAIL_MAX]);

#endif
