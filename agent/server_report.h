/* agent/server_report.h: reports this node to the server for operators: MACHINE_INFO about the
 * machine (the server itself uses only whether it is a spot machine), MACHINE_STATS (load, memory,
 * time per step) and METRICS of scripts. Samples are taken on a separate thread, and messages are
 * rare, so that they never delay a lease or an epoch. */
#ifndef TFE_AGENT_SERVER_REPORT_H
#define TFE_AGENT_SERVER_REPORT_H

#include <stdint.h>

#include "agent/script_channel/script_message.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct cloud_info;
struct event_base;
struct report;

struct report_options {
    struct event_base *base;
    uint32_t nproc;
    /* Sends a message to the server; called only between report_up and report_down. */
    void (*send)(void *ctx, const struct tfe_msg *msg);
    /* Returns the combined state of the standbys; NULL if there are none. */
    enum tfe_standby (*standby)(void *ctx);
    /* Returns the bytes that the running epoch's trainers have printed so far. */
    uint64_t (*printed)(void *ctx);
    /* Reports that the trainers have been inactive since then (no output, CPU time, I/O or
     * step), or NEVER when they are active again. From the event loop. */
    void (*idle)(void *ctx, struct tfe_mono since);
    void *ctx;
};

/* Creates the reporter. If the thread cannot be started, which is logged, less is reported. */
struct report *report_new(const struct report_options *options);
/* Frees the reporter. Accepts NULL. */
void report_free(struct report *r);

/* Handles WELCOME of a new session, in which the server knows nothing about this node. */
void report_up(struct report *r);
void report_down(struct report *r);

/* Stores the cloud's description of the machine. */
void report_cloud(struct report *r, const struct cloud_info *cloud);

/* Reports the first check of this machine that fails, in one line; NULL if all pass (health.h). */
void report_check(struct report *r, const char *failed);

/* Handles the start of an epoch's trainers. The metrics of rank 0 represent the whole epoch. */
void report_begin(struct report *r, uint64_t epoch, uint32_t rank, uint32_t nodes);
/* Records the process of a trainer. */
void report_trainer(struct report *r, uint32_t local, uint32_t pid);
void report_end(struct report *r);

/* Records the number of steps completed by the scripts. */
void report_step(struct report *r, uint64_t step);
/* Records metrics that a script has reported. */
void report_metrics(struct report *r, uint32_t local, const struct script_message *message);
/* Reports the state of the copy of the artifacts, which rank 0's trainer makes here. A state that
 * is reported without a connection is sent with the next one. */
void report_artifact(struct report *r, const struct script_message *message);
/* Handles a change of the standbys. tensorflow is the imported version, or NULL. */
void report_standby(struct report *r, const char *tensorflow);
#endif
