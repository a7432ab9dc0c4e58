/* agent/output/output.h: what trainers print: into log files, line by line with the rank onto the
 * agent's own streams, and the last of it kept. */
#ifndef TFE_AGENT_OUTPUT_OUTPUT_H
#define TFE_AGENT_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/output_show.h"
#include "common/base/error.h"
#include "common/base/id.h"

struct event_base;
struct kept;
struct log_writer;
struct output;      /* both streams of one trainer */
struct output_sink; /* the agent's stdout and stderr, and its log files */

/* A line that the node's first trainer has printed, without its newline; borrowed for the call. */
typedef void output_line_fn(void *ctx, const char *line, size_t n);

/* What it points to is borrowed for the sink's life. */
struct output_wish {
    struct event_base *base;
    int stdout_fd, stderr_fd;
    uint32_t nproc; /* trainers there will be at a time; 0: 1 */
    const struct output_show *show;
    struct log_writer *logs;  /* NULL: there are no log files */
    const struct tfe_id *job; /* with logs */
    struct kept *kept;        /* the last of all that is printed; NULL: nowhere */
    output_line_fn *on_line;  /* NULL: nobody reads along */
    void *on_line_ctx;
    uint32_t patience_ms; /* with a stream that takes nothing; 0: as below */
};

/* The agent never blocks on its own stdout or stderr: what they do not take waits in a bounded
 * queue. Where there are log files, a full queue loses lines. Where there are none, the trainers'
 * pipes are not read while it is full, so they wait as they would without an agent; but a stream
 * that takes nothing at all for a second (a stopped terminal) is no longer waited for. Lost lines
 * are counted in a line of their own. (What ended trainers left in their pipes is read in any case:
 * up to 1 MiB a stream.) The flags of the two descriptors stay as they are: they are shared with
 * others. SIGPIPE must be ignored in the process. */
struct output_sink *output_sink_new(const struct output_wish *wish);
/* Writes what is still queued for up to timeout_ms a stream, then frees. Every output must be
 * freed. */
void output_sink_free(struct output_sink *sink, uint32_t timeout_ms);

/* Whose output it is. */
struct output_place {
    uint32_t run;
    uint64_t epoch;
    uint32_t rank;
    uint32_t local_rank;
    const char *name; /* "ps-0", of OUTPUT_NAME_MAX with NUL; NULL: its rank */
};

/* Makes the two pipes of a trainer; *ret_stdout and *ret_stderr are the writing ends, to be closed
 * by the caller after the spawn. Lines come out as "[rank] text\n" ("[ps-0] text\n"); a line over
 * 64 KiB is cut into several; a last line without newline gets one. Of what a carriage return
 * overwrites (a progress bar) the newest is shown, once a second and at the line's end. Log files
 * get every byte as it is. TFE_ENOMEM, TFE_ESYS. */
int output_new(struct output_sink *sink, const struct output_place *place, struct output **ret,
               int *ret_stdout, int *ret_stderr) TFE_MUST_CHECK;

/* Reads what the pipes still hold (the trainer is gone; a descendant that kept them open does not
 * delay this), closes them. */
void output_close(struct output *output);

/* The last 20 lines of stderr, at most MSG_TAIL_MAX bytes with NUL, control characters replaced by
 * spaces; valid until the next call or output_free. Complete after output_close. was_raised: an
 * exception may have ended it; where so much was printed behind the last traceback (the values of a
 * tensor, say) that it is not among them, its head and the exception's line come first. */
const char *output_tail(struct output *output, bool was_raised);
/* Bytes that were read from it so far. */
uint64_t output_bytes(const struct output *output);
void output_free(struct output *output);

#endif
