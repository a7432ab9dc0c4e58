/* server/core/probe.c: evidence from other nodes, which connect to a node's ports and report the
 * result.
 *
 * A newcomer (design 4.1): another node must have reached its address and received its id, or a
 * wrong address (127.0.0.1, for example) would stop a running epoch and then hang the next one.
 *
 *    PREPARE(answer) -> READY(answering) -> PROBE, PROBED -> PREPARE -> READY: accepted
 *                             |                   |
 *                             |                   +-- not reached: probe again, refuse after
 * probe_ms
 *                             |
 *                             +-- no prober: accepted unverified, stops answering before an epoch
 *                                 is formed
 *
 * A node stops answering before the READY with which it enters an epoch, so that no trainer
 * connects to the agent instead of a trainer.
 *
 * A suspect (design 5): its connection is gone, and so may its trainers be. They are dead if a node
 * that knows the address is refused on all of their ports and no other prober contradicts it. Any
 * other result changes nothing: the node's reconnect or the end of its lease will decide. Probers
 * also look for the node's proof of termination and bring it in a DEATH (on_liveness.c). That
 * search continues after the end of the lease, until no fence is waited for. */
#include "server/core/probe.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/core.h"
#include "server/core/epoch.h"
#include "server/core/handlers.h"
#include "server/core/job.h"
#include "server/core/lease.h"
#include "server/core/node.h"
#include "server/core/states.h"
#include "server/core/worker_restart.h"

/* Time limit of a probe: an agent reports within a second; the rest allows for network latency. */
#define PROBE_WAIT_MS 1500
/* Intervals: before an unreached address is tried again; before busy probers are asked again. */
#define RETRY_MS 1000
#define BUSY_MS 100
/* A guard needs a moment to kill what its dead agent has left behind. A suspect that seems to live
 * is tried again after the first interval, then after ever longer ones. */
#define SUSPECT_AGAIN_FIRST_MS 50
#define SUSPECT_AGAIN_LAST_MS 5000
/* Time that an agent has to stop answering on its ports; a node that still answers then is left
 * out. */
#define STOP_ANSWERING_MS 1000
/* Maximum numbers of PROBEs that one node handles at a time (agent/os/prober.h). Some are reserved
 * for suspects. */
#define ADDRESSES_AT_ONCE 8
#define PROBES_AT_ONCE 16
/* Maximum number of nodes considered as further probers of a suspect, besides those that know its
 * address. */
#define EXTRA_PROBERS_MAX 16

int probe_compare(const struct node *a, const struct node *b)
{
    return (a->probing.id > b->probing.id) - (a->probing.id < b->probing.id);
}

RB_GENERATE(probe_tree, node, probing.by_id, probe_compare)
RB_GENERATE(answering_tree, node, probing.by_answering, node_compare)

void probing_note_reconnect(struct node *node)
{
    node->probing.is_unresponsive = false;
    node->probing.n_probing = 0;
    node->probing.silent_epoch = 0;
}

void probing_restore(struct node *node, const struct tfe_id *verifiers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        node->probing.verifiers[i] = verifiers[i];
    }
    node->probing.n_verifiers = n;
}

static void send_prepare(struct rdzv *r, struct node *node, bool answer)
{
    const struct job *job = node->job;
    uint64_t next = epoch_next(job);
    /* Odd and even epochs use different sets of ports. If the epoch number was raised by an even
     * amount, the next epoch would use the set of the running one. */
    bool is_same_set = job->epoch.number != 0 && (job->epoch.number & 1) == (next & 1);
    send_node(r, node, MSG_PREPARE)->u.prepare =
        (struct msg_prepare){.epoch = next,
                             .fresh_ports = is_same_set || fence_ports_in_use(r, job, next),
                             .answer = answer};
    if (!answer) {
        node->probing.silent_epoch = next;
    }
}

/* Sets the epoch for which the node answers probes; 0: it does not answer. */
static void set_answering(struct node *node, uint64_t epoch)
{
    struct probing *p = &node->probing;
    if (epoch != 0 && p->answering_epoch == 0) {
        RB_INSERT(answering_tree, &node->job->answering, node);
    } else if (epoch == 0 && p->answering_epoch != 0) {
        RB_REMOVE(answering_tree, &node->job->answering, node);
    }
    p->answering_epoch = epoch;
    p->is_released = false;
}

/* --- one probe -------------------------------------------------------------------------------- */

static void begin(struct rdzv *r, struct node *node, enum tfe_probe_kind kind)
{
    struct probing *p = &node->probing;
    p->id = ++r->probes;
    if (p->id == 0) {
        p->id = ++r->probes; /* 0 means no probe */
    }
    p->kind = kind;
    p->n_probers = 0;
    p->n_answered = 0;
    p->succeeded = false;
    p->contradicted = false;
    p->began = r->now;
    p->until = tfe_mono_add(r->now, PROBE_WAIT_MS);
    RB_INSERT(probe_tree, &node->job->probes, node);
    wheel_set(&r->wheel, &p->timer.wheel, p->until);
}

static void request(struct rdzv *r, struct node *node, struct node *prober)
{
    struct probing *p = &node->probing;
    struct msg_probe *probe = &send_node(r, prober, MSG_PROBE)->u.probe;
    *probe = (struct msg_probe){.probe = p->id,
                                .kind = p->kind,
                                .node = node->id.text,
                                .host = node->ready.host,
                                .ports = node->ready.ports,
                                .n_ports = node->job->spec.nproc,
                                .guard_port = p->kind == PROBE_SUSPECT ? node->guard_port : 0};
    p->probers[p->n_probers].visit = prober->session.visit;
    p->probers[p->n_probers].session = prober->session.number;
    p->probers[p->n_probers].has_answered = false;
    p->n_probers++;
    prober->probing.n_probing++;
}

/* Ends the probe that is under way. If it timed out, probers that did not answer are marked as
 * mute. */
static void end(struct rdzv *r, struct node *node, bool timed_out)
{
    struct probing *p = &node->probing;
    for (uint32_t i = 0; i < p->n_probers; i++) {
        struct node *prober =
            p->probers[i].has_answered ? NULL : r->by_session[p->probers[i].session];
        if (prober && prober->session.visit == p->probers[i].visit) {
            prober->probing.n_probing--;
            prober->probing.is_unresponsive = prober->probing.is_unresponsive || timed_out;
        }
    }
    RB_REMOVE(probe_tree, &node->job->probes, node);
    p->id = 0;
    wheel_cancel(&r->wheel, &p->timer.wheel);
}

void probe_cancel(struct rdzv *r, struct node *node)
{
    set_answering(node, 0);
    if (node->probing.id != 0) {
        end(r, node, false);
    }
    wheel_cancel(&r->wheel, &node->probing.timer.wheel);
}

static void again_in(struct rdzv *r, struct node *node, uint32_t ms)
{
    wheel_set(&r->wheel, &node->probing.timer.wheel, tfe_mono_add(r->now, ms));
}

static bool can_probe(const struct node *prober, const struct node *node)
{
    return prober != node && node_is_connected(prober) && !prober->probing.is_unresponsive;
}

static struct node *next_around(struct node *node)
{
    struct node *next = RB_NEXT(node_tree, &node->job->nodes, node);
    return next ? next : RB_MIN(node_tree, &node->job->nodes);
}

/* --- which nodes know the address ------------------------------------------------------------- */

static bool has_verified(const struct node *node, const struct tfe_id *prober)
{
    for (uint32_t i = 0; i < node->probing.n_verifiers; i++) {
        if (id_compare(&node->probing.verifiers[i], prober) == 0) {
            return true;
        }
    }
    return false;
}

static void add_verifier(struct node *node, const struct tfe_id *prober)
{
    struct probing *p = &node->probing;
    if (has_verified(node, prober)) {
        return;
    }
    if (p->n_verifiers == PROBERS_MAX) {
        memmove(&p->verifiers[0], &p->verifiers[1], (PROBERS_MAX - 1) * sizeof(p->verifiers[0]));
        p->n_verifiers--;
    }
    p->verifiers[p->n_verifiers++] = *prober;
}

void probe_forget(struct node *node)
{
    node->probing.n_verifiers = 0;
    node->probing.failing_since = TFE_MONO_NEVER;
}

/* Returns true if other nodes should probe the node's address once it is READY. */
static bool needs_verification(struct job *job, const struct node *node)
{
    if (job->n_connected < 2 && job->epoch.number != 0) {
        /* no other node is here, and a restart need not wait for a first verification */
        return false;
    }
    for (uint32_t i = 0; i < node->probing.n_verifiers; i++) {
        const struct node *verifier = node_find(job, node->probing.verifiers[i].text);
        if (verifier && node_is_connected(verifier)) {
            return false;
        }
    }
    return true;
}

void probe_prepare(struct rdzv *r, struct node *node)
{
    probe_cancel(r, node);
    if (node->highest_epoch >= epoch_next(node->job)) {
        return; /* the node claimed an epoch that was not credible, and would not follow a lower one
                 */
    }
    /* A node that is asked to answer only now could enter the epoch by its READY to an earlier
     * PREPARE of the same number, while it answers. So a request not to answer for a number
     * stays in force. */
    bool is_late = node->probing.silent_epoch == epoch_next(node->job);
    send_prepare(r, node, !is_late && needs_verification(node->job, node));
}

/* --- a newcomer ------------------------------------------------------------------------------- */

static void count_as_ready(struct rdzv *r, struct node *node)
{
    if (!node_is_ready(node)) {
        ready_set(node, epoch_next(node->job));
        send_trace(r, TRACE_NODE_READY, node->job, node, node->ready.epoch, node->ready.host);
    }
}

/* Returns true if the node answers probes for the next epoch. If an epoch has been formed
 * meanwhile, the node will be asked to be READY for the one after. */
static bool answers_now(const struct node *node)
{
    return node->probing.answering_epoch == epoch_next(node->job) && !node->probing.is_released;
}

/* Tells the node to stop answering probes. Its READY that it has done so follows. */
static void stop_answering(struct rdzv *r, struct node *node)
{
    if (answers_now(node)) {
        node->probing.is_released = true;
        node->probing.released_until = tfe_mono_add(r->now, STOP_ANSWERING_MS);
        send_prepare(r, node, false);
    }
}

/* Returns true if another address may be probed in this second. Limits probes to probe_rate
 * addresses per second, whatever addresses the nodes report. */
static bool may_probe_now(struct rdzv *r)
{
    if (is_past(r, tfe_mono_add(r->tries_since, 1000))) {
        r->tries_since = r->now;
        r->tries = 0;
    }
    return r->tries++ < r->config.probe_rate;
}

/* Returns true if a prober that is now disconnected failed to reach the node. A prober is waited
 * for up to probe_ms; otherwise a running epoch could be stopped for a node that is unreachable. */
static bool has_just_failed(const struct rdzv *r, const struct node *node)
{
    struct tfe_mono since = node->probing.failing_since;
    return !tfe_mono_is_never(since) && tfe_mono_sub(r->now, since) < r->config.probe_ms;
}

/* Requests a probe of the address from up to three nodes. Starts with the node whose id follows,
 * so that the work is spread over all nodes. */
static void try_address(struct rdzv *r, struct node *node)
{
    struct probing *p = &node->probing;
    bool all_busy = false;
    if (p->id != 0 || !answers_now(node)) {
        return;
    }
    for (struct node *other = next_around(node);
         other != node && (p->id == 0 || p->n_probers < PROBERS_MAX); other = next_around(other)) {
        if (!can_probe(other, node) ||
            (!node_is_member(other) && other->probing.answering_epoch == 0 &&
             !node_is_ready(other))) {
            continue;
        }
        if (other->probing.n_probing >= ADDRESSES_AT_ONCE) {
            all_busy = true;
            continue;
        }
        if (p->id == 0) {
            if (!may_probe_now(r)) {
                all_busy = true;
                break;
            }
            begin(r, node, PROBE_ADDRESS);
        }
        request(r, node, other);
    }
    if (p->id != 0) {
        p->tried_epoch = epoch_next(node->job);
    } else if (all_busy) {
        again_in(r, node, BUSY_MS);
    } else if (has_just_failed(r, node)) {
        again_in(r, node, RETRY_MS);
    } else if (!node_is_ready(node)) {
        send_trace(r, TRACE_NODE_UNVERIFIED, node->job, node, 0, node->ready.host);
        count_as_ready(r, node);
    }
}

void probe_ready(struct rdzv *r, struct node *node, bool answering)
{
    if (!answering) {
        set_answering(node, 0);
        count_as_ready(r, node);
        return;
    }
    if (node->probing.is_released) {
        return; /* sent before the node received that it may stop */
    }
    set_answering(node, epoch_next(node->job));
    if (node->probing.n_verifiers > 0) {
        /* Its address has been verified before; this probe only finds a connected node that knows
         * it. */
        count_as_ready(r, node);
    }
    try_address(r, node);
}

/* Refuses a node that no other node reaches: it must use another address. prober: the last node
 * that tried. */
static void refuse(struct rdzv *r, struct node *node, const struct node *prober,
                   enum tfe_probe_result result)
{
    text_setf(r->sentence, sizeof(r->sentence),
              "no other node of job %s reached this node at %s:%u within %llu "
              "s (node %s: %s; set a reachable address with --address)",
              node->job->name.text, node->ready.host, node->ready.ports[0],
              (unsigned long long)tfe_mono_sub(r->now, node->probing.failing_since) / 1000,
              prober->name, msg_probe_result_name(result));
    node_refuse(r, node, REFUSAL_ADDRESS_UNREACHABLE);
}

/* Handles a probe in which no node reached the address. prober: the node whose result this is, or
 * NULL if the remaining ones did not answer. */
static void not_reached(struct rdzv *r, struct node *node, const struct node *prober,
                        enum tfe_probe_result result)
{
    struct probing *p = &node->probing;
    if (p->n_verifiers > 0 || !answers_now(node)) {
        /* it was reached before, or was ordered to stop answering, possibly before it was probed */
        stop_answering(r, node);
        return;
    }
    if (tfe_mono_is_never(p->failing_since)) {
        p->failing_since = p->began;
        send_trace(r, TRACE_NODE_UNREACHED, node->job, node, 0, node->ready.host);
    }
    ready_set(node, 0);
    uint32_t limit = r->config.probe_ms;
    if (prober && tfe_mono_sub(r->now, p->failing_since) >= limit) {
        refuse(r, node, prober, result);
    } else {
        again_in(r, node, limit / 4 < RETRY_MS ? limit / 4 + 1 : RETRY_MS);
    }
}

static void handle_address_result(struct rdzv *r, struct node *node, const struct node *prober,
                                  enum tfe_probe_result result)
{
    struct probing *p = &node->probing;
    if (result == PROBE_ANSWERED_OURS) {
        p->succeeded = true;
        p->failing_since = TFE_MONO_NEVER;
        add_verifier(node, &prober->id);
        send_trace(r, TRACE_NODE_VERIFIED, node->job, node, 0, prober->id.text);
        /* one success is enough; later results only add nodes that know the address */
        stop_answering(r, node);
    }
    if (p->n_answered == p->n_probers) {
        bool succeeded = p->succeeded;
        end(r, node, false);
        if (!succeeded) {
            not_reached(r, node, prober, result);
        }
    }
}

struct tfe_mono probe_stop_answering(struct rdzv *r, struct job *job)
{
    struct tfe_mono until = {0};
    struct node *node;
    /* Few nodes answer at the end of a switch, and every READY of ten thousand comes here. */
    RB_FOREACH(node, answering_tree, &job->answering)
    {
        struct probing *p = &node->probing;
        if (!node_is_ready(node)) {
            continue;
        }
        if (!node->probing.is_released && p->tried_epoch != epoch_next(job) &&
            needs_verification(job, node)) {
            try_address(r, node); /* no node could probe it when it came; one may be able to now */
        }
        if (!node->probing.is_released && p->id != 0 && tfe_mono_before(r->now, p->until)) {
            until = tfe_mono_max(until, p->until);
            continue;
        }
        stop_answering(r, node);
        if (tfe_mono_before(r->now, node->probing.released_until)) {
            until = tfe_mono_max(until, node->probing.released_until);
            continue;
        }
        ready_set(node, 0);
        send_trace(r, TRACE_NODE_LOST, job, node, 0,
                   "still responds on its ports; excluded from the epoch");
    }
    return until;
}

/* --- a suspect -------------------------------------------------------------------------------- */

/* Returns true if closed ports can prove that the node's trainers are dead. In an epoch of one node
 * they cannot, because only that node's own end fences it. */
static bool can_be_proven(const struct node *node)
{
    const struct job *job = node->job;
    return (job->state == JOB_RUNNING || job->state == JOB_PREPARING) && job->epoch.n_slots > 1 &&
           node_is_member(node) && !node_is_connected(node) && !node->is_gone &&
           node->slot.is_started && node->slot.is_listening && !node->slot.is_accounted &&
           !node->slot.is_taken_over; /* another process answers at this address now */
}

/* Returns true if the node may have left a proof of termination. Probers look for it in any case.
 * It is the only evidence for trainers that never listen and for epochs of one node. */
static bool may_have_proof(const struct node *node)
{
    return node->guard_port != 0 && node->ready.host[0] != '\0' && node_is_member(node) &&
           !node_is_connected(node) && !node->slot.is_accounted && !node->slot.is_taken_over;
}

static bool has_probed(const struct node *node, const struct node *prober)
{
    const struct probing *p = &node->probing;
    for (uint32_t i = 0; p->id != 0 && i < p->n_probers; i++) {
        if (p->probers[i].visit == prober->session.visit) {
            return true;
        }
    }
    return false;
}

/* Returns the time until a suspect is probed again: half of the time since it became one. */
static uint32_t retry_delay_ms(const struct rdzv *r, const struct probing *p)
{
    int64_t ms = tfe_mono_sub(r->now, p->suspect_since) / 2;
    return ms < SUSPECT_AGAIN_FIRST_MS  ? SUSPECT_AGAIN_FIRST_MS
           : ms < SUSPECT_AGAIN_LAST_MS ? (uint32_t)ms
                                        : SUSPECT_AGAIN_LAST_MS;
}

static void try_suspect(struct rdzv *r, struct node *node)
{
    struct probing *p = &node->probing;
    bool has_proof = may_have_proof(node);
    if (p->id != 0 || (!can_be_proven(node) && !has_proof)) {
        return;
    }
    for (uint32_t i = p->n_verifiers; i > 0; i--) {
        struct node *verifier = node_find(node->job, p->verifiers[i - 1].text);
        if (verifier && can_probe(verifier, node) && verifier->probing.n_probing < PROBES_AT_ONCE) {
            if (p->id == 0) {
                begin(r, node, PROBE_SUSPECT);
            }
            request(r, node, verifier);
        }
    }
    /* If no refusal could count, any node may look for the proof of termination. */
    bool is_anybodys = p->id == 0 && has_proof;
    struct node *other = next_around(node);
    for (int i = 0; i < EXTRA_PROBERS_MAX && other != node && (p->id != 0 || is_anybodys) &&
                    (p->id == 0 || p->n_probers < PROBERS_MAX);
         i++) {
        if (can_probe(other, node) && (is_anybodys || node_is_member(other)) &&
            other->probing.n_probing < PROBES_AT_ONCE && !has_probed(node, other)) {
            if (p->id == 0) {
                begin(r, node, PROBE_SUSPECT);
            }
            request(r, node, other);
        }
        other = next_around(other);
    }
    if (p->id == 0) {
        again_in(r, node, retry_delay_ms(r, p)); /* no node can probe now; try again later */
    }
}

void probe_suspect(struct rdzv *r, struct node *node)
{
    node->probing.suspect_since = r->now;
    try_suspect(r, node);
}

static void conclude_suspect(struct rdzv *r, struct node *node, bool timed_out)
{
    struct probing *p = &node->probing;
    end(r, node, timed_out);
    bool can_be = can_be_proven(node);
    if (!can_be || !p->succeeded || p->contradicted) {
        if (can_be || may_have_proof(node)) {
            again_in(r, node, retry_delay_ms(r, p));
        }
        return;
    }
    send_trace(r, TRACE_NODE_DEAD, node->job, node, 0, p->by.text);
    slot_prove_dead(node);
    if (node->job->state == JOB_RUNNING && !node->job->success.is_here) {
        worker_lose(r, node, CAUSE_NODE_LOST);
    }
}

static void handle_suspect_result(struct rdzv *r, struct node *node, const struct node *prober,
                                  enum tfe_probe_result result)
{
    struct probing *p = &node->probing;
    if (result != PROBE_REFUSED) {
        p->contradicted = true;
    } else if (has_verified(node, &prober->id)) {
        p->succeeded = true;
        p->by = prober->id;
    }
    if (p->n_answered == p->n_probers) {
        conclude_suspect(r, node, false);
    }
}

/* --- events ----------------------------------------------------------------------------------- */

int on_probed(struct rdzv *r, struct node *prober, const struct msg_probed *probed)
{
    struct node key;
    key.probing.id = probed->probe;
    if (probed->result < PROBE_ANSWERED_OURS || probed->result > PROBE_REFUSED) {
        return TFE_EINVAL;
    }
    prober->probing.is_unresponsive = false;
    struct node *node = probed->probe ? RB_FIND(probe_tree, &prober->job->probes, &key) : NULL;
    if (!node) {
        return 0; /* too late: the node has reconnected, or the epoch has changed */
    }
    struct probing *p = &node->probing;
    uint32_t place = 0;
    while (place < p->n_probers && p->probers[place].visit != prober->session.visit) {
        place++;
    }
    if (place == p->n_probers || p->probers[place].has_answered) {
        return 0; /* no PROBE was sent to this prober */
    }
    p->probers[place].has_answered = true;
    p->n_answered++;
    prober->probing.n_probing--;
    job_touch(prober->job);
    if (p->kind == PROBE_ADDRESS) {
        handle_address_result(r, node, prober, probed->result);
    } else {
        handle_suspect_result(r, node, prober, probed->result);
    }
    return 0;
}

static void end_address_probe(struct rdzv *r, struct node *node)
{
    bool answered = node->probing.n_answered > 0;
    end(r, node, true);
    if (node->probing.succeeded) {
        return;
    }
    if (answered) {
        not_reached(r, node, NULL, PROBE_NO_ANSWER);
    } else {
        /* ask other probers, or accept the node unverified if there are none */
        try_address(r, node);
    }
}

void on_probe_over(struct rdzv *r, struct node *node)
{
    job_touch(node->job);
    if (node->probing.id != 0 && node->probing.kind == PROBE_SUSPECT) {
        conclude_suspect(r, node, true);
    } else if (node->probing.id != 0) {
        end_address_probe(r, node);
    } else if (node_is_connected(node)) {
        try_address(r, node);
    } else {
        try_suspect(r, node);
    }
}
