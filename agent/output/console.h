/* agent/output/console.h: shows trainers' lines on the agent's own stdout or stderr, with the name
 * of the trainer before each line. Never blocks: a slow stream falls behind in the ring. */
#ifndef TFE_AGENT_OUTPUT_CONSOLE_H
#define TFE_AGENT_OUTPUT_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/output_ring.h"

/* Number of bytes by which a stream may be behind before trainers wait for it. */
#define CONSOLE_LAG_MAX ((size_t)256 * 1024)

struct event;
struct output_options;
struct console;

/* Creates a console for the lines of one stream, with the sink's options. fd is borrowed and keeps
 * its flags. caught_up is activated when the console is no longer behind. Precondition: SIGPIPE is
 * ignored. */
struct console *console_new(const struct output_options *options, enum tfe_stream stream, int fd,
                            struct event *caught_up);

/* Frees a console after trying to write its lines for up to timeout_ms. Accepts NULL. */
void console_free(struct console *console, uint32_t timeout_ms);

/* Shows an unfinished line of a stream if all earlier lines are written. Returns false if it does
 * not. */
bool console_show_unfinished(struct console *console, const struct output_stream *stream,
                             const char *line, size_t n);

/* Returns true if the stream is behind, but has accepted data within the last timeout_ms. */
bool console_is_behind(struct console *console, uint32_t timeout_ms);

#endif
