/* server/core/notice.h: that a node's machine will go away, or that an operator takes the node out.
 */
#ifndef TFE_SERVER_CORE_NOTICE_H
#define TFE_SERVER_CORE_NOTICE_H

#include <stdbool.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* Written by notice.c. */
struct notice {
    enum tfe_notice kind;     /* 0: none. REBALANCE is not leaving */
    bool is_leaving;          /* in no later epoch */
    bool is_drained;          /* by an operator: let go as soon as it is not needed */
    bool is_interrupted;      /* its agent was ended by hand: the machine stays */
    struct tfe_mono since;    /* when it came first */
    struct tfe_mono deadline; /* NEVER: none is known */
};

/* Why an epoch begins that is without this node, which is leaving. */
static inline enum tfe_cause notice_cause(const struct notice *notice)
{
    return notice->is_drained       ? CAUSE_DRAINED
           : notice->is_interrupted ? CAUSE_INTERRUPTED
                                    : CAUSE_PREEMPTED;
}

/* A notice of that kind, for a machine that goes away or as an operator's order. within_ms may be
 * MSG_UNSET. */
void notice_apply(struct rdzv *r, struct node *node, enum tfe_notice kind, uint32_t within_ms);
/* Whether somebody ends its agent by hand: notice_apply follows, or it leaves at once. */
void notice_set_interrupted(struct node *node, bool is_interrupted);
/* An operator takes the node out: notice_apply follows. */
void notice_set_drained(struct node *node);
/* … as a record says, which does not tell by when it had to be gone: as soon as is convenient. */
void notice_restore_drained(struct rdzv *r, struct node *node);
/* What said that its machine goes was withdrawn. An operator's order stands, whatever its machine
 * says. */
void notice_withdraw(struct rdzv *r, struct node *node);
/* … or was said of another machine, by the process that had the node's id before. */
void notice_forget(struct node *node);

/* Lets a drained node go if it is here and nothing waits for it any more. */
void drain_end(struct rdzv *r, struct node *node);
/* … and all drained nodes of the job. */
void drain_end_all(struct rdzv *r, struct job *job);

#endif
