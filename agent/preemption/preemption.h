/* agent/preemption/preemption.h: collects termination notices for this machine from all sources. */
#ifndef TFE_AGENT_PREEMPTION_PREEMPTION_H
#define TFE_AGENT_PREEMPTION_PREEMPTION_H

#include "agent/core/agent.h"
#include "agent/preemption/notice_selection.h"
#include "common/cli/options.h"

struct event_base;
struct notice_watch;

#define CLOUD_TEXT_MAX 95

/* A cloud's description of this machine. Texts are "" if unknown. */
struct cloud_info {
    const char *cloud; /* name of the cloud as in --notice */
    char zone[CLOUD_TEXT_MAX + 1];
    char instance[CLOUD_TEXT_MAX + 1]; /* machine type */
    bool has_spot;
    bool is_spot; /* the machine can be preempted */
};

/* Polling intervals and timeouts. */
struct notice_intervals {
    uint32_t aws_ms;
    uint32_t gce_ms; /* minimum time between two long polls */
    uint32_t gce_wait_s;
    uint32_t azure_ms;
    uint32_t azure_first_ms; /* timeout of the first list of events, which can take two minutes */
    uint32_t file_ms;
    uint32_t command_ms;
    uint32_t command_within_ms;
    uint32_t auto_ms; /* timeout of the first response of a service that may not exist */
    uint32_t answer_ms;
    uint32_t info_ms; /* retry interval for machine facts and for a service that was not found */
    /* A node with an active notice is drained after no trainer has run for this long. An epoch
     * that was being prepared when the notice arrived has started by then. */
    uint32_t quiet_ms;
};

/* Values that the clouds' documentation recommends. */
extern const struct notice_intervals notice_intervals_default;

/* Options of the sources. Pointers are borrowed for their lifetime. */
struct notice_watch_options {
    const struct notice_selection *choice;
    const struct notice_intervals *intervals;
    /* environment variables of these options are hidden from the command */
    const struct option_table *options;
    uint32_t grace_ms; /* deadline of a notice that names none (--preempt-grace) */
    /* Called at most once with the facts of the first cloud that is found; NULL
     * to skip the queries. */
    void (*on_cloud)(void *ctx, const struct cloud_info *info);
};

/* Reports that the most urgent notice of a kind has changed; from is the name of its source. The
 * core ranks the kinds. Called from the event loop only. */
typedef void notice_fn(void *ctx, const struct agent_notice *notice, const char *from);

/* Starts the selected sources without waiting for their services. Failures of a source are
 * logged and have no other effect. */
struct notice_watch *notice_watch_new(struct event_base *base,
                                      const struct notice_watch_options *options,
                                      notice_fn *on_notice, void *ctx);
void notice_watch_free(struct notice_watch *notices);

/* Tells the sources whether trainers run; initially none do. Once none runs while a notice
 * stronger than a hint is active, the node is drained, and a cloud that supports it receives
 * an acknowledgement. */
void notice_watch_set_running(struct notice_watch *notices, bool is_running);

#endif
