/* server/core/notice.h: notices: a node's machine will be terminated, or an operator takes the node
 * out. */
#ifndef TFE_SERVER_CORE_NOTICE_H
#define TFE_SERVER_CORE_NOTICE_H

#include <stdbool.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Notice that applies to a node. Written by notice.c, and what a message says of the reason by its
 * handler, before notice_apply. */
struct notice {
    /* kind of the notice; 0 if there is none. REBALANCE does not make the node leave */
    enum tfe_notice kind;
    bool is_leaving;             /* the node will be in no later epoch */
    bool is_drained;             /* drained by an operator: released as soon as it is not needed */
    bool is_interrupted;         /* its agent was stopped by hand, and the machine stays */
    enum tfe_cause released_for; /* why the pool takes the node away; 0 if it does not */
    struct tfe_mono since;       /* when the first notice arrived */
    struct tfe_mono deadline;    /* when the machine will be terminated; NEVER if unknown */
};

/* Returns the cause of an epoch without this node, which is leaving. */
static inline enum tfe_cause notice_cause(const struct notice *notice)
{
    if (notice->released_for != 0) {
        return notice->released_for;
    }
    return notice->is_drained       ? CAUSE_DRAINED
           : notice->is_interrupted ? CAUSE_INTERRUPTED
                                    : CAUSE_PREEMPTED;
}

/* Applies a notice of this kind: the machine will be terminated, or an operator's command.
 * within_ms may be MSG_UNSET. */
void notice_apply(struct rdzv *r, struct node *node, enum tfe_notice kind, uint32_t within_ms);
/* Drains the node as its record says. The record has no deadline, so that the node leaves at a
 * convenient time. */
void notice_restore_drained(struct rdzv *r, struct node *node);
/* Withdraws the notice that the machine will be terminated. An operator's drain stays. */
void notice_withdraw(struct rdzv *r, struct node *node);
/* Clears a notice that was about the machine of an earlier process with this node's id. */
void notice_forget(struct node *node);

/* Releases a drained node if it is connected and nothing waits for it any more. */
void drain_end(struct rdzv *r, struct node *node);
/* Releases all drained nodes of the job that can be released. */
void drain_end_all(struct rdzv *r, struct job *job);

#endif
