/* agent/output/output.h: what trainers print, line by line with their rank, and the last of it. */
#ifndef TFE_AGENT_OUTPUT_OUTPUT_H
#define TFE_AGENT_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

struct event_base;
struct output;      /* both streams of one trainer */
struct output_sink; /* the agent's stdout and stderr */

/* The agent never blocks on its own stdout or stderr: what they do not take waits, at most 256 KiB
 * a stream; beyond that the trainers' pipes are not read, so they wait as they would without an
 * agent. (What ended trainers left in their pipes is read in any case: up to 1 MiB a stream; what
 * is lost beyond that is counted in a line.) The flags of the two descriptors stay as they are:
 * they are shared with others. SIGPIPE must be ignored in the process. */
int output_sink_new(struct event_base *base, int stdout_fd, int stderr_fd,
                    struct output_sink **ret) TFE_MUST_CHECK;
/* Writes what is still queued for up to timeout_ms a stream, then frees. Every output must be
 * freed. */
void output_sink_free(struct output_sink *sink, uint32_t timeout_ms);

/* Makes the two pipes of a trainer; *ret_stdout and *ret_stderr are the writing ends, to be closed
 * by the caller after the spawn. Lines come out as "[rank] text\n"; a line over 64 KiB is cut into
 * several; a last line without newline gets one. TFE_ENOMEM, TFE_ESYS. */
int output_new(struct output_sink *sink, uint32_t rank, struct output **ret, int *ret_stdout,
               int *ret_stderr) TFE_MUST_CHECK;

/* Reads what the pipes still hold (the trainer is gone; a descendant that kept them open does not
 * delay this), closes them. */
void output_close(struct output *output);

/* The last 20 lines of stderr, at most MSG_TAIL_MAX bytes with NUL, control characters replaced by
 * spaces; valid until the next call or output_free. Complete after output_close. */
const char *output_tail(const struct output *output);
void output_free(struct output *output);

#endif
