/* server/core/probe.h: what other nodes find out about a node's ports. */
#ifndef TFE_SERVER_CORE_PROBE_H
#define TFE_SERVER_CORE_PROBE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/msg.h"
#include "common/base/time.h"
#include "server/core/rdzv.h"
#include "server/core/timer.h"

struct job;
struct node;
struct rdzv;

/* Nodes that one probe asks, and that are remembered to have reached a node. */
#define PROBERS_MAX RDZV_KNOWN_TO_MAX

/* What other nodes find out about a node's ports (probe.c). At most one probe of a node is under
 * way, and everything it needs is in here. */
struct probe {
    RB_ENTRY(node) by_id; /* in the job's tree of probes while one is under way */
    uint64_t id;          /* 0: none is */
    enum tfe_probe_kind kind;
    struct core_timer timer; /* its end, or the next try */
    struct tfe_mono until;   /* when that is */
    uint32_t n_asked;
    uint32_t n_answered;
    struct {
        struct tfe_id id;
        uint64_t visit; /* on which it was asked */
        bool has_answered;
    } asked[PROBERS_MAX];
    struct tfe_mono began;
    uint64_t tried_epoch; /* ADDRESS: the last one that somebody was asked for */
    bool succeeded;    /* ADDRESS: somebody has reached it. SUSPECT: refused, to one who knows it */
    bool contradicted; /* SUSPECT: something may be alive there */
    uint32_t by;       /* SUSPECT: whose word, of those asked */
    struct tfe_mono suspect_since; /* SUSPECT: the first try */
    /* Who have got the node's id from its address, the newest last. */
    struct tfe_id verifiers[PROBERS_MAX];
    uint32_t n_verifiers;
    struct tfe_mono failing_since; /* nobody has reached it from then on; NEVER */
};

/* Whether others should try the node's address once it is READY. */
bool probe_is_wanted(struct job *job, const struct node *node);
/* A READY came from it, for the next epoch. Decides whether it counts, or has to be reached first.
 */
void probe_ready(struct rdzv *r, struct node *node, bool answering);
/* Nothing that is under way counts any more; what is known of its address stays. */
void probe_cancel(struct rdzv *r, struct node *node);
/* Its address is another one: who reached the old one says nothing about it. */
void probe_forget(struct node *node);
/* Before an epoch is formed: lets go of all who still answer, so that no trainer ever meets them.
 * Returns until when the epoch has to wait for that; the past if it has not to. */
struct tfe_mono probe_let_go(struct rdzv *r, struct job *job);
/* The connection of a member ended without a GOODBYE: asks others whether its trainers are dead. */
void probe_suspect(struct rdzv *r, struct node *node);
/* TFE_EINVAL: no such result. */
int on_probed(struct rdzv *r, struct node *prober, const struct msg_probed *probed) TFE_MUST_CHECK;
void on_probe_over(struct rdzv *r, struct node *node);

#endif
