/* agent/preemption/preemption.h: warnings that this machine will go away, from wherever they come,
 * in one form. */
#ifndef TFE_AGENT_PREEMPTION_PREEMPTION_H
#define TFE_AGENT_PREEMPTION_PREEMPTION_H

#include "agent/core/agent.h"
#include "agent/preemption/choice.h"
#include "common/cli/options.h"

struct cloud_facts;
struct event_base;
struct notices;

/* Times between two questions, and how long an answer may take. */
struct notice_pace {
    uint32_t aws_ms;
    uint32_t gce_ms; /* at least this between two long polls */
    uint32_t gce_wait_s;
    uint32_t azure_ms;
    uint32_t azure_first_ms; /* the first list of events may take this long */
    uint32_t file_ms;
    uint32_t command_ms;
    uint32_t command_within_ms;
    uint32_t auto_ms; /* the first answer of a service that may not be there */
    uint32_t answer_ms;
    uint32_t facts_ms; /* after a failure: what the machine is, and a service that is not found */
    /* A node under a warning in which nothing has run for so long is drained: an epoch that was
     * being put together when the warning came has begun by then. */
    uint32_t quiet_ms;
};

/* As the clouds' pages ask for. */
extern const struct notice_pace notice_pace_default;

/* Borrowed for the life of the sources. */
struct notice_wish {
    const struct notice_choice *choice;
    const struct notice_pace *throughput;
    const struct option_table *options; /* variables that no command of ours inherits */
    uint32_t grace_ms;                  /* deadline of a warning that names none: --preempt-grace */
    /* Once at most: what the first cloud that is found says of this machine. NULL: none is asked.
     */
    void (*on_cloud)(void *ctx, const struct cloud_facts *facts);
};

/* The most pressing warning of its kind has changed; from is the source's name. The core weighs the
 * kinds. Comes from the loop, never from a call into this room. */
typedef void notice_fn(void *ctx, const struct agent_notice *notice, const char *from);

/* Starts watching; asking whether a service is there delays nothing. Failures of a source are
 * logged and do no more harm. */
struct notices *notices_new(struct event_base *base, const struct notice_wish *wish,
                            notice_fn *on_notice, void *ctx);
void notices_free(struct notices *notices);

/* Whether trainers run here. Once none does while a warning that is more than a hint is in force,
 * the node has been drained, and a cloud that waits for that is told. At first none runs. */
void notices_set_running(struct notices *notices, bool is_running);

#endif
