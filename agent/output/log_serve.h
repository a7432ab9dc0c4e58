/* agent/output/log_serve.h: trainers' output for whoever asks for it through the server: what
 * memory has kept, log files, and what is printed from then on. Nothing is said but within the
 * window that the server has given, so whoever reads slowly loses lines here, and is told how many;
 * trainers never wait for it. */
#ifndef TFE_AGENT_OUTPUT_LOG_SERVE_H
#define TFE_AGENT_OUTPUT_LOG_SERVE_H

#include "agent/output/kept.h"
#include "common/base/id.h"

struct event_base;
struct log_serve;
struct log_writer;

/* What it points to is borrowed. */
struct log_serve_wish {
    struct event_base *base;
    struct kept *kept;
    struct log_writer *logs; /* NULL: there are no files */
    const struct tfe_id *job;
    /* Whether the connection takes more now; else log_serve_go_on comes once it does. */
    bool (*has_room)(void *ctx);
    void (*send)(void *ctx, const struct tfe_msg *msg);
    void *ctx;
};

struct log_serve *log_serve_new(const struct log_serve_wish *wish);
/* Before the writer. NULL is allowed. */
void log_serve_free(struct log_serve *serve);

/* LOG_ASK, LOG_CREDIT, LOG_STOP. */
void log_serve_take(struct log_serve *serve, const struct tfe_msg *msg);

/* The connection takes more. */
void log_serve_go_on(struct log_serve *serve);

/* Trainers have ended, and the agent may: says what it can at once, and of the rest how much it is.
 */
void log_serve_flush(struct log_serve *serve);

/* The connection is gone, and whoever asked through it. Also from within send. */
void log_serve_forget(struct log_serve *serve);

#endif
