/* server/core/probe.h: probes: nodes connect to the ports of another node and report the result. */
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

/* Maximum number of nodes asked by one probe, and remembered as having reached a node. */
#define PROBERS_MAX RDZV_KNOWN_TO_MAX

/* Probe state of a node. At most one probe of a node is under way. Written by probe.c. */
struct probing {
    RB_ENTRY(node) by_id; /* entry in the job's tree of probes while one is under way */
    uint64_t id;          /* id of the probe that is under way; 0 if none */
    enum tfe_probe_kind kind;
    uint32_t n_probing;      /* as a prober: number of PROBEs that this node has not answered */
    struct core_timer timer; /* end of the probe that is under way, or time of the next try */
    struct tfe_mono until;   /* when the probe that is under way ends */
    uint32_t n_probers;
    uint32_t n_answered;
    struct {
        uint64_t visit; /* number of the connection on which the prober was asked */
        uint32_t session;
        bool has_answered;
    } probers[PROBERS_MAX];
    struct tfe_mono began;
    uint64_t tried_epoch; /* address probe: number of the last epoch for which one was tried */
    /* address probe: a prober reached the node. Suspect probe: a prober that knows the node's
     * address was refused */
    bool succeeded;
    bool contradicted;    /* suspect probe: something at the address may be alive */
    bool is_unresponsive; /* as a prober: did not answer a PROBE; gets none until it sends a result
                             again */
    bool is_released;     /* the node has been ordered to stop answering on its ports */
    struct tfe_id by;     /* suspect probe: id of the prober whose result counts */
    struct tfe_mono suspect_since; /* suspect probe: time of the first try */
    /* Nodes that received this node's id from its address, the newest last. */
    struct tfe_id verifiers[PROBERS_MAX];
    uint32_t n_verifiers;
    /* since when every prober has failed to reach the node; NEVER if it was reached */
    struct tfe_mono failing_since;
    /* epoch in which this connection ordered the node not to answer probes; 0 if none */
    uint64_t silent_epoch;
    /* Set if the node still answers on its ports, by its last READY: */
    uint64_t answering_epoch; /* number of the epoch of that READY; 0 if the node does not answer */
    RB_ENTRY(node) by_answering;    /* entry in the job's tree of nodes that still answer */
    struct tfe_mono released_until; /* by then the node must be READY without answering */
};

RB_HEAD(probe_tree, node);
RB_HEAD(answering_tree, node);
int probe_compare(const struct node *a, const struct node *b);
int node_compare(const struct node *a, const struct node *b);
RB_PROTOTYPE(probe_tree, node, probing.by_id, probe_compare)
RB_PROTOTYPE(answering_tree, node, probing.by_answering, node_compare)

#define PROBING_NEW ((struct probing){.timer.kind = TIMER_PROBE, .failing_since = TFE_MONO_NEVER})

/* Resets the prober state of a node that has a new connection. */
void probing_note_reconnect(struct node *node);
/* Sets the nodes that have reached this one, as recorded. */
void probing_restore(struct node *node, const struct tfe_id *verifiers, uint32_t n);
/* Sends PREPARE for the next epoch, which also asks the node to answer probes if its address must
 * be verified. */
void probe_prepare(struct rdzv *r, struct node *node);
/* Handles a READY for the next epoch: accepts it, or starts a probe of the node's address first. */
void probe_ready(struct rdzv *r, struct node *node, bool answering);
/* Ends the node's probe and the wait for it. The nodes that have reached its address stay known. */
void probe_cancel(struct rdzv *r, struct node *node);
/* Forgets who has reached the node, because its address has changed. */
void probe_forget(struct node *node);
/* Before an epoch is formed: tells all nodes that still answer probes to stop, so that no trainer
 * connects to an agent. Returns until when the epoch must wait for them; a time in the past if it
 * need not wait. */
struct tfe_mono probe_stop_answering(struct rdzv *r, struct job *job);
/* Probes whether the trainers of a member are dead, after its connection ended without GOODBYE or
 * its lease ended. */
void probe_suspect(struct rdzv *r, struct node *node);

#endif
