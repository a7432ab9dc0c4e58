/* server/core/node.c: one agent process, from JOIN to the end of its place. */
#include <string.h>

#include "server/core/core.h"

/* DESIGN 6: so many nodes of a job come back in a second when all have lost their connections. */
#define SPREAD_RATE 2500
#define SPREAD_LEAST_MS 100

int node_compare(const struct node *a, const struct node *b)
{
    return id_compare(&a->id, &b->id);
}

RB_GENERATE(node_tree, node, by_id, node_compare)
RB_GENERATE(answering_tree, node, by_answering, node_compare)

struct node *node_find(struct job *job, const char *id)
{
    struct node key;
    if (id_set(&key.id, id)) {
        return NULL;
    }
    return RB_FIND(node_tree, &job->nodes, &key);
}

struct node *node_new(struct rdzv *r, const struct msg_join *join)
{
    size_t name_n = strlen(join->node_name) + 1;
    size_t pids = (size_t)join->nproc * sizeof(uint32_t);
    size_t ports = (size_t)join->nproc * sizeof(uint16_t);
    char *block = mem_new(r->mem, 1, sizeof(struct node) + 2 * pids + ports + name_n);
    if (!block) {
        return NULL;
    }
    struct node *node = (void *)block;
    block += sizeof(*node);
    node->trainer_pids = (void *)block;
    node->standby_pids = (void *)(block + pids);
    node->ports = (void *)(block + 2 * pids);
    node->name = block + 2 * pids + ports;
    memcpy(node->name, join->node_name, name_n);
    node->session = NO_SESSION;
    node->seat = NO_SEAT;
    node->lease.timer.kind = TIMER_LEASE;
    node->hold.kind = TIMER_HOLD;
    node->probe.timer.kind = TIMER_PROBE;
    node->probe.failing_since = TFE_MONO_NEVER;
    return node;
}

void node_attach(struct rdzv *r, struct node *node, uint32_t session)
{
    r->by_session[session] = node;
    node->session = session;
    node->visit = ++r->visits;
    node->asked_epoch = 0;
    node->table_digest = 0;
    node->gone = false;
    node->is_dead = false;
    node->is_mute = false;
    node->save_told = 0; /* it may have been lost with the last connection */
    node->n_probing = 0;
    probe_cancel(r, node);
    node->job->n_connected++;
    (void)lease_renew(r, node);
}

void node_detach(struct rdzv *r, struct node *node)
{
    if (node->session == NO_SESSION) {
        return;
    }
    node_set_ready(node, 0);
    node_set_answering(node, false);
    probe_cancel(r, node);
    r->by_session[node->session] = NULL;
    node->session = NO_SESSION;
    node->job->n_connected--;
}

uint32_t node_spread_ms(const struct node *node, uint32_t ttl_ms)
{
    uint32_t spread = node->job->n_nodes * 1000 / SPREAD_RATE;
    spread = spread < SPREAD_LEAST_MS ? SPREAD_LEAST_MS : spread;
    return spread < ttl_ms / 2 ? spread : ttl_ms / 2;
}

bool node_is_ready(const struct node *node)
{
    return node->session != NO_SESSION && !node->leaving &&
           node->ready_epoch == job_next_epoch(node->job);
}

void node_set_ready(struct node *node, uint64_t epoch)
{
    bool was = node_is_ready(node);
    node->ready_epoch = epoch;
    bool is = node_is_ready(node);
    if (is && !was) {
        node->job->n_ready++;
    } else if (was && !is) {
        node->job->n_ready--;
    }
}

void node_set_answering(struct node *node, bool answering)
{
    if (answering && !node->answering) {
        RB_INSERT(answering_tree, &node->job->answering, node);
    } else if (!answering && node->answering) {
        RB_REMOVE(answering_tree, &node->job->answering, node);
    }
    node->answering = answering;
    node->released = false;
}

void node_account(struct node *node)
{
    if (node->seat != NO_SEAT && !node->accounted && !node->is_other) {
        node->accounted = true;
        node->job->epoch.n_accounted++;
    }
}

void node_remove(struct rdzv *r, struct node *node)
{
    struct job *job = node->job;
    rebuild_forget(node);
    node_detach(r, node);
    probe_cancel(r, node);
    wheel_cancel(&r->wheel, &node->hold.wheel);
    lease_end(r, node);
    if (node->seat != NO_SEAT) {
        node->gone = true;
        return;
    }
    RB_REMOVE(node_tree, &job->nodes, node);
    job->n_nodes--;
    node->next_dead = r->dead_nodes;
    r->dead_nodes = node;
}

enum tfe_node_role node_role(const struct node *node)
{
    if (node->leaving) {
        return ROLE_LEAVING;
    }
    if (node->seat != NO_SEAT) {
        return ROLE_MEMBER;
    }
    return node_is_ready(node) ? ROLE_SPARE : ROLE_JOINING;
}

void node_send_prepare(struct rdzv *r, struct node *node, bool answer)
{
    uint64_t next = job_next_epoch(node->job);
    struct msg_prepare *prepare = &send_to(r, node->session, MSG_PREPARE)->u.prepare;
    prepare->epoch = next;
    /* A number that was raised may have the running epoch's own parity. */
    const struct epoch *epoch = &node->job->epoch;
    bool same_set = epoch->number != 0 && (epoch->number & 1) == (next & 1);
    prepare->fresh_ports =
        same_set || tfe_mono_before(r->now, node->job->ports_spoken_until[next & 1]);
    prepare->answer = answer;
    node->asked_epoch = next;
    node->asked_answer = answer;
}

void node_prepare(struct rdzv *r, struct node *node)
{
    node_set_ready(node, 0); /* or it would count before it has let go of what it answers with */
    node_set_answering(node, false);
    probe_cancel(r, node);
    /* Asked to answer only now, it could be taken in by the READY to an earlier PREPARE of the same
     * number, while it does answer: what was once not wanted for an epoch is not wanted any more.
     */
    bool is_late = node->asked_epoch == job_next_epoch(node->job) && !node->asked_answer;
    node_send_prepare(r, node, !is_late && probe_is_wanted(node->job, node));
}
