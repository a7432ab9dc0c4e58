/* agent/server_report.h: what this node tells the server for people: FACTS of its machine (the
 * server, too, goes by one of them: whether it is a spot machine), VITALS (how it does), METRICS of
 * its scripts. Gathered on a thread of its own, said rarely, and never in the way of a lease or an
 * epoch. */
#ifndef TFE_AGENT_SERVER_REPORT_H
#define TFE_AGENT_SERVER_REPORT_H

#include <stdint.h>

#include "agent/script_channel/script_message.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct cloud_facts;
struct event_base;
struct report;

struct report_wish {
    struct event_base *base;
    uint32_t nproc;
    /* Says it to the server; only between report_up and report_down. */
    void (*send)(void *ctx, const struct tfe_msg *msg);
    /* What has become of the standbys now. NULL: there are none. */
    enum tfe_standby (*standby)(void *ctx);
    /* Returns the bytes that the running epoch's trainers have printed so far. */
    uint64_t (*printed)(void *ctx);
    /* The running epoch's trainers have shown no sign of life since then (output, CPU time, bytes
     * read or written, a step); NEVER: they do again. From the loop. */
    void (*idle)(void *ctx, struct tfe_mono since);
    void *ctx;
};

/* Without a thread (said in the log) less is known. */
struct report *report_new(const struct report_wish *wish);
/* NULL is allowed. */
void report_free(struct report *r);

/* A session has its WELCOME: the server knows nothing of this node. */
void report_up(struct report *r);
void report_down(struct report *r);

/* The cloud has told what this machine is. */
void report_cloud(struct report *r, const struct cloud_facts *cloud);

/* Trainers of an epoch start; has_rank_0: the first of them is the whole epoch's. */
void report_begin(struct report *r, uint64_t epoch, uint32_t rank, uint32_t nodes);
/* This trainer runs as pid. */
void report_trainer(struct report *r, uint32_t local, uint32_t pid);
void report_end(struct report *r);

/* The scripts have done so many steps. */
void report_step(struct report *r, uint64_t step);
/* A script of this place has told numbers. */
void report_told(struct report *r, uint32_t local, const struct script_message *told);
/* The standbys have changed; TensorFlow's version, or NULL. */
void report_standby(struct report *r, const char *tensorflow);
#endif
