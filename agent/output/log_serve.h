/* agent/output/log_serve.h: sends trainers' output to clients of the server: lines of the ring, log
 * files and new output. Sends only within the window that the server grants, so a slow client
 * loses lines, receives their number, and never delays a trainer. */
#ifndef TFE_AGENT_OUTPUT_LOG_SERVE_H
#define TFE_AGENT_OUTPUT_LOG_SERVE_H

#include "agent/output/output_ring.h"

struct event_base;
struct log_serve;
struct log_writer;

/* Dependencies of a log server. Pointers are borrowed. */
struct log_serve_options {
    struct event_base *base;
    struct output_ring *ring;
    struct log_writer *logs; /* NULL if there are no log files */
    /* Returns true if the connection accepts more data; otherwise log_serve_resume follows later.
     */
    bool (*has_room)(void *ctx);
    void (*send)(void *ctx, const struct tfe_msg *msg);
    void *ctx;
};

struct log_serve *log_serve_new(const struct log_serve_options *options);
/* Frees a log server; call before log_writer_free. Accepts NULL. */
void log_serve_free(struct log_serve *serve);

/* Handles LOG_REQUEST, LOG_CREDIT and LOG_STOP. */
void log_serve_handle(struct log_serve *serve, const struct tfe_msg *msg);

/* Resumes sending when the connection accepts more data. */
void log_serve_resume(struct log_serve *serve);

/* Sends what is possible now and reports how many lines remain, because the agent may exit after
 * its trainers have ended. */
void log_serve_flush(struct log_serve *serve);

/* Drops all requests after the connection is lost. May be called from within send. */
void log_serve_drop_requests(struct log_serve *serve);

#endif
