/* server/core/probe.c: evidence from other nodes, which try a node's ports and say what came of it.
 *
 * A newcomer (DESIGN 4.1): its address must have been reached by another node and answered with its
 * id, or a wrong one (127.0.0.1, say) would stop a running epoch and then hang the next.
 *
 *     PREPARE(answer) -> READY(answering) -> PROBE, PROBED -> PREPARE -> READY: it counts
 *                              |                   |
 *                              |                   +-- nobody reaches it: again; refused after a
 * while
 *                              +-- nobody could try: it counts as it is, and is let go before an
 *                                  epoch is formed
 *
 * What answers is gone before the READY that an epoch is formed of, so that no trainer meets it.
 *
 * A suspect (DESIGN 5): its connection is gone, and so may its trainers be. Refused on all of their
 * ports, by the word of a node that knows the address, and against nobody's, they are dead.
 * Whatever else comes of it changes nothing: its reconnect or the end of its lease will tell. */
#include "server/core/probe.h"

#include <string.h>

#include "common/base/text.h"
#include "server/core/core.h"

/* An agent says within a second what came of a PROBE; this is for the way there and back. */
#define PROBE_WAIT_MS 1500
/* An address that was not reached is tried again so soon; busy probers are asked again so soon. */
#define RETRY_MS 1000
#define BUSY_MS 100
/* A guard needs moments to kill what its dead agent leaves behind: a suspect that seemed to live is
 * tried again so soon, then ever later. */
#define SUSPECT_AGAIN_FIRST_MS 50
#define SUSPECT_AGAIN_LAST_MS 5000
/* An agent lets go of its ports at once; who has not done so by then does not take part. */
#define LET_GO_MS 1000
/* PROBEs that one node has at a time, agent/prober.h: some are kept for suspects. */
#define ADDRESSES_AT_ONCE 8
#define PROBES_AT_ONCE 16
/* Nodes looked at for more opinions about a suspect, beside those who know its address. */
#define LOOKS_MAX 16

int probe_compare(const struct node *a, const struct node *b)
{
    return (a->probe.id > b->probe.id) - (a->probe.id < b->probe.id);
}

RB_GENERATE(probe_tree, node, probe.by_id, probe_compare)

/* --- one probe -------------------------------------------------------------------------------- */

static void begin(struct rdzv *r, struct node *node, enum tfe_probe_kind kind)
{
    struct probe *p = &node->probe;
    p->id = ++r->probes;
    if (p->id == 0) {
        p->id = ++r->probes; /* 0 is none */
    }
    p->kind = kind;
    p->n_asked = 0;
    p->n_answered = 0;
    p->succeeded = false;
    p->contradicted = false;
    p->began = r->now;
    p->until = tfe_mono_add(r->now, PROBE_WAIT_MS);
    RB_INSERT(probe_tree, &node->job->probes, node);
    wheel_set(&r->wheel, &p->timer.wheel, p->until);
}

static void ask(struct rdzv *r, struct node *node, struct node *prober)
{
    struct probe *p = &node->probe;
    struct msg_probe *probe = &send_to(r, prober->session, MSG_PROBE)->u.probe;
    *probe = (struct msg_probe){.probe = p->id,
                                .kind = p->kind,
                                .node = node->id.text,
                                .host = node->host,
                                .ports = node->ports,
                                .n_ports = node->job->nproc};
    p->asked[p->n_asked].id = prober->id;
    p->asked[p->n_asked].visit = prober->visit;
    p->asked[p->n_asked].has_answered = false;
    p->n_asked++;
    prober->n_probing++;
}

/* Takes the probe that is under way off the books; silence makes mute who did not answer. */
static void end(struct rdzv *r, struct node *node, bool timed_out)
{
    struct probe *p = &node->probe;
    for (uint32_t i = 0; i < p->n_asked; i++) {
        struct node *prober =
            p->asked[i].has_answered ? NULL : node_find(node->job, p->asked[i].id.text);
        if (prober && prober->session != NO_SESSION && prober->visit == p->asked[i].visit) {
            prober->n_probing--;
            prober->is_mute = prober->is_mute || timed_out;
        }
    }
    RB_REMOVE(probe_tree, &node->job->probes, node);
    p->id = 0;
    wheel_cancel(&r->wheel, &p->timer.wheel);
}

void probe_cancel(struct rdzv *r, struct node *node)
{
    if (node->probe.id != 0) {
        end(r, node, false);
    }
    wheel_cancel(&r->wheel, &node->probe.timer.wheel);
}

static void again_in(struct rdzv *r, struct node *node, uint32_t ms)
{
    wheel_set(&r->wheel, &node->probe.timer.wheel, tfe_mono_add(r->now, ms));
}

static bool can_be_asked(const struct node *prober, const struct node *node)
{
    return prober != node && prober->session != NO_SESSION && !prober->is_mute;
}

static struct node *next_around(struct node *node)
{
    struct node *next = RB_NEXT(node_tree, &node->job->nodes, node);
    return next ? next : RB_MIN(node_tree, &node->job->nodes);
}

/* --- who knows the address -------------------------------------------------------------------- */

static bool has_verified(const struct node *node, const struct tfe_id *prober)
{
    for (uint32_t i = 0; i < node->probe.n_verifiers; i++) {
        if (id_compare(&node->probe.verifiers[i], prober) == 0) {
            return true;
        }
    }
    return false;
}

static void add_verifier(struct node *node, const struct tfe_id *prober)
{
    struct probe *p = &node->probe;
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
    node->probe.n_verifiers = 0;
    node->probe.failing_since = TFE_MONO_NEVER;
}

bool probe_is_wanted(struct job *job, const struct node *node)
{
    if (job->n_connected < 2 && job->epoch.number != 0) {
        return false; /* nobody else is here, and a restart need not wait for a first time */
    }
    for (uint32_t i = 0; i < node->probe.n_verifiers; i++) {
        const struct node *verifier = node_find(job, node->probe.verifiers[i].text);
        if (verifier && verifier->session != NO_SESSION) {
            return false;
        }
    }
    return true;
}

/* --- a newcomer ------------------------------------------------------------------------------- */

static void count_as_ready(struct rdzv *r, struct node *node)
{
    if (!node_is_ready(node)) {
        node_set_ready(node, job_next_epoch(node->job));
        send_trace(r, TRACE_NODE_READY, node->job, node, node->ready_epoch, node->host);
    }
}

/* Whether it is about to be in the next epoch but for this. An epoch may have been formed
 * meanwhile: then it will be asked to be READY for the one after. */
static bool answers_now(const struct node *node)
{
    return node->answering && node->answering_epoch == job_next_epoch(node->job) && !node->released;
}

/* It need not answer any more. Its READY that says so follows. */
static void let_go(struct rdzv *r, struct node *node)
{
    if (answers_now(node)) {
        node->released = true;
        node->released_until = tfe_mono_add(r->now, LET_GO_MS);
        node_send_prepare(r, node, false);
    }
}

/* Up to three, in the order of ids from the node on, so that not the first bears it all. */
static void try_address(struct rdzv *r, struct node *node)
{
    struct probe *p = &node->probe;
    bool all_busy = false;
    if (p->id != 0 || !answers_now(node)) {
        return;
    }
    for (struct node *other = next_around(node);
         other != node && (p->id == 0 || p->n_asked < PROBERS_MAX); other = next_around(other)) {
        if (!can_be_asked(other, node) ||
            (other->seat == NO_SEAT && !other->answering && !node_is_ready(other))) {
            continue;
        }
        if (other->n_probing >= ADDRESSES_AT_ONCE) {
            all_busy = true;
            continue;
        }
        if (p->id == 0) {
            begin(r, node, PROBE_ADDRESS);
        }
        ask(r, node, other);
    }
    if (p->id != 0) {
        p->tried_epoch = job_next_epoch(node->job);
    } else if (all_busy) {
        again_in(r, node, BUSY_MS);
    } else if (!node_is_ready(node)) {
        send_trace(r, TRACE_NODE_UNVERIFIED, node->job, node, 0, node->host);
        count_as_ready(r, node);
    }
}

void probe_ready(struct rdzv *r, struct node *node, bool answering)
{
    if (!answering) {
        node_set_answering(node, false);
        count_as_ready(r, node);
        return;
    }
    if (node->released) {
        return; /* said before it heard that it may stop */
    }
    node_set_answering(node, true);
    node->answering_epoch = job_next_epoch(node->job);
    if (node->probe.n_verifiers > 0) {
        /* It has been reached before; this is only to have somebody here who knows it. */
        count_as_ready(r, node);
    }
    try_address(r, node);
}

/* Precondition: called for at most one node a step, for there is one sentence. */
static void refuse(struct rdzv *r, struct node *node, const struct node *prober,
                   enum tfe_probe_result result)
{
    struct job *job = node->job;
    uint32_t session = node->session;
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    text_add(&text, "no other node of job ");
    text_add(&text, job->name.text);
    text_add(&text, " reaches this one at ");
    text_add(&text, node->host);
    text_add(&text, ":");
    text_add_u64(&text, node->ports[0]);
    text_add(&text, ", tried for ");
    text_add_u64(&text, (uint64_t)tfe_mono_sub(r->now, node->probe.failing_since) / 1000);
    text_add(&text, " s (node ");
    text_add(&text, prober->name);
    text_add(&text, ": ");
    text_add(&text, msg_probe_result_name(result));
    text_add(&text, "); name an address that they can reach with --address");
    send_refused(r, session, REFUSAL_ADDRESS_UNREACHABLE, r->sentence);
    send_trace(r, TRACE_NODE_REFUSED, job, node, (uint64_t)REFUSAL_ADDRESS_UNREACHABLE,
               r->sentence);
    node_remove(r, node);
    send_close(r, session);
}

/* Nobody has reached it. prober: whose word this is, NULL where the rest only kept silent. */
static void not_reached(struct rdzv *r, struct node *node, const struct node *prober,
                        enum tfe_probe_result result)
{
    struct probe *p = &node->probe;
    if (p->n_verifiers > 0) {
        let_go(r, node); /* somebody has, before */
        return;
    }
    if (tfe_mono_is_never(p->failing_since)) {
        p->failing_since = p->began;
        send_trace(r, TRACE_NODE_UNREACHED, node->job, node, 0, node->host);
    }
    node_set_ready(node, 0);
    uint32_t limit = r->config.probe_ms;
    if (prober && tfe_mono_sub(r->now, p->failing_since) >= limit) {
        refuse(r, node, prober, result);
        return;
    }
    again_in(r, node, limit / 4 < RETRY_MS ? limit / 4 + 1 : RETRY_MS);
}

static void take_address_result(struct rdzv *r, struct node *node, const struct node *prober,
                                enum tfe_probe_result result)
{
    struct probe *p = &node->probe;
    if (result == PROBE_ANSWERED_OURS) {
        p->succeeded = true;
        p->failing_since = TFE_MONO_NEVER;
        add_verifier(node, &prober->id);
        send_trace(r, TRACE_NODE_VERIFIED, node->job, node, 0, prober->id.text);
        let_go(r, node); /* one is enough; the others' word still says who knows it */
    }
    if (p->n_answered == p->n_asked) {
        bool succeeded = p->succeeded;
        end(r, node, false);
        if (!succeeded) {
            not_reached(r, node, prober, result);
        }
    }
}

struct tfe_mono probe_let_go(struct rdzv *r, struct job *job)
{
    struct tfe_mono until = {0};
    struct node *node;
    /* Few answer when a switch is about to end, and every READY of ten thousand comes here. */
    RB_FOREACH(node, answering_tree, &job->answering)
    {
        struct probe *p = &node->probe;
        if (!node_is_ready(node)) {
            continue;
        }
        if (!node->released && p->tried_epoch != job_next_epoch(job) &&
            probe_is_wanted(job, node)) {
            try_address(r, node); /* nobody could when it came; somebody may now */
        }
        if (!node->released && p->id != 0 && tfe_mono_before(r->now, p->until)) {
            until = tfe_mono_max(until, p->until);
            continue;
        }
        let_go(r, node);
        if (tfe_mono_before(r->now, node->released_until)) {
            until = tfe_mono_max(until, node->released_until);
            continue;
        }
        node_set_ready(node, 0);
        send_trace(r, TRACE_NODE_LOST, job, node, 0, "still answers on its ports, left out");
    }
    return until;
}

/* --- a suspect -------------------------------------------------------------------------------- */

/* A one-node epoch is fenced by nothing but its own node's end: no proof from afar will do. */
static bool can_be_proven(const struct node *node)
{
    const struct job *job = node->job;
    return (job->state == JOB_RUNNING || job->state == JOB_PREPARING) && job->epoch.n_seats > 1 &&
           node->seat != NO_SEAT && node->session == NO_SESSION && !node->gone && node->started &&
           node->listening && !node->accounted;
}

static bool was_asked(const struct node *node, const struct node *prober)
{
    const struct probe *p = &node->probe;
    for (uint32_t i = 0; p->id != 0 && i < p->n_asked; i++) {
        if (id_compare(&p->asked[i].id, &prober->id) == 0) {
            return true;
        }
    }
    return false;
}

/* Until a suspect is tried again: half of the time since it became one. */
static uint32_t patience_ms(const struct rdzv *r, const struct probe *p)
{
    int64_t ms = tfe_mono_sub(r->now, p->suspect_since) / 2;
    return ms < SUSPECT_AGAIN_FIRST_MS  ? SUSPECT_AGAIN_FIRST_MS
           : ms < SUSPECT_AGAIN_LAST_MS ? (uint32_t)ms
                                        : SUSPECT_AGAIN_LAST_MS;
}

static void try_suspect(struct rdzv *r, struct node *node)
{
    struct probe *p = &node->probe;
    if (p->id != 0 || !can_be_proven(node)) {
        return;
    }
    for (uint32_t i = p->n_verifiers; i > 0; i--) {
        struct node *verifier = node_find(node->job, p->verifiers[i - 1].text);
        if (verifier && can_be_asked(verifier, node) && verifier->n_probing < PROBES_AT_ONCE) {
            if (p->id == 0) {
                begin(r, node, PROBE_SUSPECT);
            }
            ask(r, node, verifier);
        }
    }
    if (p->id == 0) {
        again_in(r, node, patience_ms(r, p)); /* one who knows it may come back */
        return;
    }
    struct node *other = next_around(node);
    for (int i = 0; i < LOOKS_MAX && other != node && p->n_asked < PROBERS_MAX; i++) {
        if (can_be_asked(other, node) && other->seat != NO_SEAT &&
            other->n_probing < PROBES_AT_ONCE && !was_asked(node, other)) {
            ask(r, node, other);
        }
        other = next_around(other);
    }
}

void probe_suspect(struct rdzv *r, struct node *node)
{
    node->probe.suspect_since = r->now;
    try_suspect(r, node);
}

static void conclude_suspect(struct rdzv *r, struct node *node, bool timed_out)
{
    struct job *job = node->job;
    struct probe *p = &node->probe;
    end(r, node, timed_out);
    if (!can_be_proven(node)) {
        return;
    }
    if (!p->succeeded || p->contradicted) {
        again_in(r, node, patience_ms(r, p));
        return;
    }
    send_trace(r, TRACE_NODE_DEAD, job, node, 0, p->asked[p->by].id.text);
    node_account(node);
    node->is_dead = true;
    if (job->state == JOB_RUNNING && !job->rank0_finished) {
        ledger_blame(job, node);
        job_want_switch(job, CAUSE_NODE_LOST);
    }
}

static void take_suspect_result(struct rdzv *r, struct node *node, const struct node *prober,
                                uint32_t place, enum tfe_probe_result result)
{
    struct probe *p = &node->probe;
    if (result != PROBE_REFUSED && !TFE_BUG(accepted_is_proof)) {
        p->contradicted = true;
    } else if (has_verified(node, &prober->id)) {
        p->succeeded = true;
        p->by = place;
    }
    if (p->n_answered == p->n_asked) {
        conclude_suspect(r, node, false);
    }
}

/* --- events ----------------------------------------------------------------------------------- */

int on_probed(struct rdzv *r, struct node *prober, const struct msg_probed *probed)
{
    if (probed->result < PROBE_ANSWERED_OURS || probed->result > PROBE_REFUSED) {
        return TFE_EINVAL;
    }
    struct job *job = prober->job;
    struct node key;
    key.probe.id = probed->probe;
    prober->is_mute = false;
    struct node *node = probed->probe ? RB_FIND(probe_tree, &job->probes, &key) : NULL;
    if (!node) {
        return 0; /* too late: it is back, or the epoch is another one */
    }
    struct probe *p = &node->probe;
    uint32_t place = 0;
    while (place < p->n_asked && id_compare(&p->asked[place].id, &prober->id) != 0) {
        place++;
    }
    if (place == p->n_asked || p->asked[place].has_answered ||
        p->asked[place].visit != prober->visit) {
        return 0; /* nobody asked it */
    }
    p->asked[place].has_answered = true;
    p->n_answered++;
    prober->n_probing--;
    if (p->kind == PROBE_ADDRESS) {
        take_address_result(r, node, prober, probed->result);
    } else {
        take_suspect_result(r, node, prober, place, probed->result);
    }
    job_settle(r, job);
    return 0;
}

void on_probe_over(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    struct probe *p = &node->probe;
    if (p->id == 0) {
        if (node->session == NO_SESSION) {
            try_suspect(r, node);
        } else {
            try_address(r, node);
        }
    } else if (p->kind == PROBE_SUSPECT) {
        conclude_suspect(r, node, true);
    } else {
        bool answered = p->n_answered > 0;
        bool succeeded = p->succeeded;
        end(r, node, true);
        if (!succeeded && answered) {
            not_reached(r, node, NULL, PROBE_NO_ANSWER);
        } else if (!succeeded) {
            try_address(r, node); /* others; or there is nobody who could */
        }
    }
    job_settle(r, job);
}
