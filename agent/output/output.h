/* agent/output/output.h: reads what trainers print and passes it to log files, to the agent's
 * own stdout and stderr with the rank before each line, and to clients of the server. */
#ifndef TFE_AGENT_OUTPUT_OUTPUT_H
#define TFE_AGENT_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/log_place.h"
#include "agent/output/output_show.h"
#include "common/base/error.h"
#include "common/base/id.h"

struct event_base;
struct log_writer;
struct output_ring;
struct output;      /* both streams of one trainer */
struct output_sink; /* the agent's stdout, stderr and log files */

/* Called with every line of the node's first trainer, without newline; borrowed for the call. */
typedef void output_line_fn(void *ctx, const char *line, size_t n);

/* Options of a sink. Pointers are borrowed for its lifetime. */
struct output_options {
    struct event_base *base;
    int stdout_fd, stderr_fd;
    uint32_t nproc; /* maximum number of concurrent trainers; 0 means 1 */
    const struct output_show *show;
    struct log_writer *logs; /* NULL if there are no log files */
    struct output_ring *ring;
    output_line_fn *on_line; /* receives lines of the first trainer, or NULL */
    void *on_line_ctx;
    uint32_t timeout_ms; /* time for which trainers wait for a stream that accepts no data; 0 for
                             the default, 1 s */
};

/* Creates a sink. The agent never blocks on its own stdout, its stderr or the disk: lines wait in
 * the ring. If there are log files, trainers wait while the files are too far behind; otherwise
 * while stdout or stderr is, as they would without an agent. They do not wait for a stream or disk
 * that accepts nothing for a second (a stopped terminal). When the ring is full, the oldest lines
 * are lost for those that have not consumed them; lost lines are counted and reported in their
 * place. Up to 1 MiB per stream left in the pipes of ended trainers is always read. The flags of
 * the two descriptors do not change, because other processes share them. Precondition: SIGPIPE is
 * ignored. */
struct output_sink *output_sink_new(const struct output_options *options);
/* Frees a sink after writing queued lines for up to timeout_ms per stream. Precondition:
 * every output is freed. */
void output_sink_free(struct output_sink *sink, uint32_t timeout_ms);

/* Identifies a trainer. */
struct output_place {
    uint32_t run;
    uint64_t epoch;
    uint32_t rank;
    uint32_t local_rank;
    /* replica name ("ps-0"), less than OUTPUT_NAME_MAX bytes; NULL to use the rank */
    const char *name;
};

/* Creates the two pipes of a trainer. The caller closes the write ends *ret_stdout and *ret_stderr
 * after the spawn. Lines are shown as "[rank] text
 * " or "[ps-0] text
 * "; lines over 64 KiB are split, and a last line without newline gets one. Of text overwritten
 * by carriage returns (a progress bar) only the newest state is shown, once per second and at
 * the end of the line. Log files receive every byte unchanged. Returns TFE_ENOMEM or TFE_ESYS. */
int output_new(struct output_sink *sink, const struct output_place *place, struct output **ret,
               int *ret_stdout, int *ret_stderr) TFE_MUST_CHECK;

/* Reads the data left in the pipes of an ended trainer and closes them, even if a descendant
 * still holds them open. */
void output_close(struct output *output);

/* Returns the last 20 lines of stderr, at most MSG_TAIL_MAX bytes with NUL, with control
 * characters replaced by spaces; valid until the next call or output_free, complete after
 * output_close. With was_raised set, an exception may have ended the trainer: if later output
 * (e.g. the values of a tensor) has pushed the last traceback out, its header and the
 * exception's line come first. */
const char *output_tail(struct output *output, bool was_raised);
/* Returns the number of bytes read from the trainer so far. */
uint64_t output_bytes(const struct output *output);
void output_free(struct output *output);

#endif
