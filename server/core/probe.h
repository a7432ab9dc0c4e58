/* server/core/probe.h: what other nodes find out about a node's ports. */
#ifndef TFE_SERVER_CORE_PROBE_H
#define TFE_SERVER_CORE_PROBE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/time.h"
#include "common/message/msg.h"
#include "server/core/core.h"
#include "server/core/rdzv.h"

struct job;
struct node;
struct rdzv;

/* Nodes that one probe asks, and that are remembered to have reached a node. */
#define PROBERS_MAX RDZV_KNOWN_TO_MAX

/* What other nodes find out about a node's ports (probe.c). At most one probe of a node is under
 * way, and everything it needs is in here. Written by probe.c. */
struct probing {
    RB_ENTRY(node) by_id; /* in the job's tree of probes while one is under way */
    uint64_t id;          /* 0: none is */
    enum tfe_probe_kind kind;
    uint32_t n_probing;      /* as a prober of others: PROBEs it has not answered */
    struct core_timer timer; /* its end, or the next try */
    struct tfe_mono until;   /* when that is */
    uint32_t n_asked;
    uint32_t n_answered;
    struct {
        uint64_t visit; /* on which it was asked: no other node has that */
        uint32_t session;
        bool has_answered;
    } asked[PROBERS_MAX];
    struct tfe_mono began;
    uint64_t tried_epoch; /* ADDRESS: the last one that somebody was asked for */
    bool succeeded;    /* ADDRESS: somebody has reached it. SUSPECT: refused, to one who knows it */
    bool contradicted; /* SUSPECT: something may be alive there */
    bool is_mute; /* as a prober: did not say what came of a PROBE: none, until it speaks again */
    bool is_released;              /* it has been told to answer no more on its ports (below) */
    struct tfe_id by;              /* SUSPECT: whose word */
    struct tfe_mono suspect_since; /* SUSPECT: the first try */
    /* Who have got the node's id from its address, the newest last. */
    struct tfe_id verifiers[PROBERS_MAX];
    uint32_t n_verifiers;
    struct tfe_mono failing_since; /* nobody has reached it from then on; NEVER */
    uint64_t silent_epoch; /* it was told on this visit not to answer for this one; 0: none */
    /* Its last READY said that it still answers on its ports. */
    uint64_t answering_epoch;       /* … for which it was READY so; 0: it does not answer */
    RB_ENTRY(node) by_answering;    /* in the job's tree of them */
    struct tfe_mono released_until; /* … and has to be READY without by then */
};

RB_HEAD(probe_tree, node);
RB_HEAD(answering_tree, node);
int probe_compare(const struct node *a, const struct node *b);
int node_compare(const struct node *a, const struct node *b);
RB_PROTOTYPE(probe_tree, node, probing.by_id, probe_compare)
RB_PROTOTYPE(answering_tree, node, probing.by_answering, node_compare)

#define PROBING_NEW ((struct probing){.timer.kind = TIMER_PROBE, .failing_since = TFE_MONO_NEVER})

/* The node has a new connection: what it owed on the last one is forgotten. */
void probing_is_back(struct node *node);
/* Who has reached it is known from a record. */
void probing_restore(struct node *node, const struct tfe_id *verifiers, uint32_t n);
/* PREPARE for the next epoch, and to answer where others should try its address. */
void probe_prepare(struct rdzv *r, struct node *node);
/* A READY came from it, for the next epoch. Decides whether it counts, or has to be reached first.
 */
void probe_ready(struct rdzv *r, struct node *node, bool answering);
/* It does not answer, and nothing that is under way counts any more; what is known of its address
 * stays. */
void probe_cancel(struct rdzv *r, struct node *node);
/* Its address is another one: who reached the old one says nothing about it. */
void probe_forget(struct node *node);
/* Before an epoch is formed: lets go of all who still answer, so that no trainer ever meets them.
 * Returns until when the epoch has to wait for that; the past if it has not to. */
struct tfe_mono probe_let_go(struct rdzv *r, struct job *job);
/* The connection of a member ended without a GOODBYE, or its lease: asks others whether its
 * trainers are dead. */
void probe_suspect(struct rdzv *r, struct node *node);

/* What a result means for the node that was probed. */
enum probe_news {
    PROBE_NO_NEWS,
    PROBE_DEAD,       /* a suspect's trainers are */
    PROBE_UNREACHABLE /* nobody has reached it for as long as is waited: it has to go */
};
/* A prober's answer; *ret is the node that it is about, where there is news. */
enum probe_news probe_take_answer(struct rdzv *r, struct node *prober,
                                  const struct msg_probed *probed, struct node **ret);
/* The time of what is under way is over, or of the wait for the next try. */
enum probe_news probe_take_timeout(struct rdzv *r, struct node *node);

#endif
