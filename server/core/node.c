/* server/core/node.c: a node (one agent process): its memory, its connection, its READY, its
 * version of TensorFlow. */
#include "server/core/node.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/core.h"
#include "server/core/epoch.h"
#include "server/core/evaluator.h"
#include "server/core/job.h"
#include "server/core/lease.h"
#include "server/core/probe.h"
#include "server/core/rebuild.h"
#include "server/core/verdict.h"

/* design 6: reconnects are spread so that at most this many nodes of a job reconnect per second. */
#define SPREAD_RATE 2500
#define SPREAD_MIN_MS 100

int node_compare(const struct node *a, const struct node *b)
{
    return id_compare(&a->id, &b->id);
}

RB_GENERATE(node_tree, node, by_id, node_compare)

struct node *node_find(struct job *job, const char *id)
{
    struct node *node = id ? RB_ROOT(&job->nodes) : NULL;
    while (node) { /* as in job_find, without a whole node as key */
        int order = strcmp(id, node->id.text);
        if (order == 0) {
            break;
        }
        node = order < 0 ? RB_LEFT(node, by_id) : RB_RIGHT(node, by_id);
    }
    return node;
}

struct node *node_new(struct rdzv *r, const char *id, const char *name, uint32_t nproc)
{
    size_t name_n = strlen(name) + 1;
    size_t pids = (size_t)nproc * sizeof(uint32_t);
    size_t ports = (size_t)nproc * sizeof(uint16_t);
    char *block =
        mem_new(r->mem, 1, sizeof(struct node) + 2 * pids + ports + READY_HOST_CAP + name_n);
    if (!block) {
        return NULL;
    }
    struct node *node = (void *)block;
    block += sizeof(*node);
    *node = (struct node){
        .lease = LEASE_NEW,
        .session.number = NO_SESSION,
        .slot = SLOT_NONE,
        .name = block + 2 * pids + ports + READY_HOST_CAP,
        .ready.ports = (void *)(block + 2 * pids),
        .ready.host = block + 2 * pids + ports,
        .ready.host_cap = READY_HOST_CAP,
        .probing = PROBING_NEW,
        .quarantine = QUARANTINE_NEW,
        .processes = {.trainer_pids = (void *)block, .standby_pids = (void *)(block + pids)}};
    memcpy(node->name, name, name_n);
    (void)id_set(&node->id, id);
    return node;
}

void node_free(struct rdzv *r, struct node *node)
{
    if (node) {
        if (node->ready.host_cap > READY_HOST_CAP) {
            mem_free(r->mem, node->ready.host);
        }
        mem_free(r->mem, node);
    }
}

void node_set_proof(struct node *node, const char *hash, uint16_t guard_port)
{
    bool has = hash && id_set(&node->proof_hash, hash) == 0;
    node->guard_port = has ? guard_port : 0;
    if (!has) {
        node->proof_hash.text[0] = '\0';
    }
}

void node_insert(struct job *job, struct node *node)
{
    node->job = job;
    RB_INSERT(node_tree, &job->nodes, node);
    job->n_nodes++;
}

void node_note_epoch(struct node *node, uint64_t epoch)
{
    if (epoch > node->highest_epoch) {
        node->highest_epoch = epoch;
    }
}

uint32_t node_spread_ms(const struct node *node, uint32_t ttl_ms)
{
    uint32_t spread = node->job->n_nodes * 1000 / SPREAD_RATE;
    spread = spread < SPREAD_MIN_MS ? SPREAD_MIN_MS : spread;
    return spread < ttl_ms / 2 ? spread : ttl_ms / 2;
}

/* --- connection ------------------------------------------------------------------------------- */

void node_attach(struct rdzv *r, struct node *node, uint32_t session)
{
    r->by_session[session] = node;
    node->session = (struct node_session){
        .number = session, .sent_spread_ms = node->session.sent_spread_ms, .visit = ++r->visits};
    node->is_gone = false;
    ready_set_table(node, 0);
    slot_note_reconnect(node);
    probing_note_reconnect(node);
    probe_cancel(r, node);
    node->job->n_connected++;
    (void)lease_renew(r, node);
}

void node_detach(struct rdzv *r, struct node *node)
{
    if (!node_is_connected(node)) {
        return;
    }
    ready_set(node, 0);
    probe_cancel(r, node);
    r->by_session[node->session.number] = NULL;
    node->session.number = NO_SESSION;
    node->job->n_connected--;
}

static void forget_version(struct node *node)
{
    struct version *version = &node->job->version;
    if (node->has_version) {
        node->has_version = false;
        if (--version->n_nodes == 0) {
            version->text.text[0] = '\0';
        }
    }
}

void node_remove(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    report_forget(node);
    node_detach(r, node);
    probe_cancel(r, node);
    quarantine_end(r, node);
    lease_end(r, node);
    ready_set_memory(node, &(struct msg_memory){0}); /* the kept state ends with the agent */
    forget_version(node);
    if (node_evaluates(node)) {
        evaluator_clear(&job->evaluator);
    }
    if (node_is_member(node)) {
        node->is_gone = true;
        return;
    }
    RB_REMOVE(node_tree, &job->nodes, node);
    job->n_nodes--;
    node->next_dead = r->dead_nodes;
    r->dead_nodes = node;
}

void node_refuse(struct rdzv *r, struct node *node, enum tfe_refusal code)
{
    send_trace(r, TRACE_NODE_REFUSED, node->job, node, (uint64_t)code, r->sentence);
    if (node_is_connected(node)) {
        send_refused(r, node->session.number, code, r->sentence);
    }
    node_remove(r, node);
}

void node_prepare(struct rdzv *r, struct node *node)
{
    ready_set(node, 0); /* a READY must not count while the node still answers probes */
    if (node_evaluates(node)) {
        return; /* the node runs the evaluator */
    }
    probe_prepare(r, node);
}

uint32_t node_note_spread(struct node *node, uint32_t spread_ms)
{
    node->session.sent_spread_ms = spread_ms;
    return spread_ms;
}

/* --- READY ------------------------------------------------------------------------------------ */

bool node_is_ready(const struct node *node)
{
    return node_is_connected(node) && !node->notice.is_leaving &&
           node->ready.epoch == epoch_next(node->job);
}

void ready_set(struct node *node, uint64_t epoch)
{
    bool was = node_is_ready(node);
    node->ready.epoch = epoch;
    bool is = node_is_ready(node);
    if (is && !was) {
        node->job->n_ready++;
    } else if (was && !is) {
        node->job->n_ready--;
    }
}

int ready_reserve(struct rdzv *r, struct node *node, const char *host)
{
    struct ready *ready = &node->ready;
    if (strlen(host) < ready->host_cap) {
        return 0;
    }
    char *buf = mem_new(r->mem, 1, TFE_HOST_MAX + 1);
    if (!buf) {
        return TFE_ENOMEM;
    }
    memcpy(buf, ready->host, strlen(ready->host) + 1);
    ready->host = buf;
    ready->host_cap = TFE_HOST_MAX + 1;
    return 0;
}

void ready_learn(struct node *node, const char *host, const uint16_t *ports, size_t n_ports)
{
    memcpy(node->ready.host, host, strlen(host) + 1);
    memcpy(node->ready.ports, ports, n_ports * sizeof(*ports));
}

void ready_set_table(struct node *node, uint64_t digest)
{
    node->ready.table_digest = digest;
}

void ready_set_memory(struct node *node, const struct msg_memory *memory)
{
    bool may_be = memory->has_snapshot && memory->epoch <= node->job->epoch.number;
    node->job->memory_bytes += memory->bytes - node->ready.memory.bytes;
    node->ready.memory = (struct msg_memory){.bytes = memory->bytes,
                                             .has_snapshot = may_be,
                                             .epoch = may_be ? memory->epoch : 0,
                                             .step = may_be ? memory->step : 0};
}

/* --- version of TensorFlow: the same on all nodes of a job ------------------------------------ */

static void refuse(struct rdzv *r, struct node *node, const char *other, const char *own)
{
    text_setf(r->sentence, sizeof(r->sentence),
              "TensorFlow versions differ: the other nodes of job %s have %s, this node has %s "
              "(install the same version on all nodes)",
              node->job->name.text, other, own);
    node_refuse(r, node, REFUSAL_VERSION_MISMATCH);
}

/* Refuses newcomers in favour of the members, which already train: after a restart a newcomer may
 * have joined before them. Returns false if some member has the other version too. */
static bool members_go_first(struct rdzv *r, struct job *job, const char *text)
{
    struct tfe_id theirs = job->version.text;
    struct node *node;
    struct node *next;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->has_version && node_is_member(node)) {
            return false;
        }
    }
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        if (node->has_version) {
            refuse(r, node, text, theirs.text);
        }
    }
    return true;
}

bool version_note(struct rdzv *r, struct node *node, const char *text)
{
    struct job *job = node->job;
    if (!text || (node->has_version && strcmp(text, job->version.text.text) == 0)) {
        return false;
    }
    forget_version(node); /* a node that had reported another version has been upgraded */
    if (job->version.n_nodes > 0 && strcmp(text, job->version.text.text) != 0 &&
        !(epoch_engages(job, node) && members_go_first(r, job, text))) {
        refuse(r, node, job->version.text.text, text);
        return true;
    }
    if (job->version.n_nodes == 0) {
        (void)id_set(&job->version.text, text); /* cannot fail: the codec has checked the text */
    }
    job->version.n_nodes++;
    node->has_version = true;
    return false;
}
