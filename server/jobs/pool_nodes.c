/* server/jobs/pool_nodes.c: the nodes of the pool, and the pool's timer. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "server/jobs/pool_private.h"
#include "server/session.h"

void pool_wake(struct pool *p, struct tfe_mono when)
{
    if (tfe_mono_before(when, p->fires)) {
        const int64_t ms = tfe_mono_sub(when, clock_mono());
        p->fires = when;
        (void)timer_after(&p->timer, ms > POOL_CHECK_MS ? POOL_CHECK_MS : ms);
    }
}

RB_GENERATE(pool_tree, pool_node, by_id, pool_node_compare)

int pool_node_compare(const struct pool_node *a, const struct pool_node *b)
{
    return id_compare(&a->id, &b->id);
}

/* --- nodes --- */

struct pool_node *pool_node_find(struct pool *p, const char *id)
{
    struct pool_node key;
    return id_set(&key.id, id) == 0 ? RB_FIND(pool_tree, &p->nodes, &key) : NULL;
}

static struct tfe_mono lease_end(const struct pool *p)
{
    const int64_t ttl = p->config.ttl_ms; /* a clock may run 5 % fast (design 5.1) */
    return tfe_mono_add(clock_mono(), ttl + ttl * 106 / 1000 + 50);
}

void pool_node_renew(struct pool *p, struct pool_node *node)
{
    node->lease = lease_end(p);
    TAILQ_REMOVE(&p->leases, node, by_lease);
    TAILQ_INSERT_TAIL(&p->leases, node, by_lease);
}

struct pool_node *pool_node_new(struct pool *p, const char *id)
{
    struct pool_node *node = calloc(1, sizeof(*node));
    if (node) {
        (void)id_set(&node->id, id); /* the caller has validated the id */
        node->rests = TFE_MONO_NEVER;
        node->since = clock_wall();
        node->lease = lease_end(p);
        RB_INSERT(pool_tree, &p->nodes, node);
        TAILQ_INSERT_TAIL(&p->leases, node, by_lease);
        pool_wake(p, node->lease);
    }
    return node;
}

bool pool_node_has_label(const struct pool_node *node, const char *label)
{
    const char *at = node->row ? node->row->labels : "";
    const size_t n = strlen(label);
    const struct msg_machine_info *machine_info = node->row ? &node->row->machine_info : NULL;
    if (machine_info && machine_info->has_spot && !node->has_spot_label &&
        strncmp(label, "spot=", 5) == 0) {
        return strcmp(label + 5, machine_info->is_spot ? "true" : "false") == 0;
    }
    while (*at != '\0') {
        const size_t n_at = strcspn(at, ",");
        if (n_at == n && strncmp(at, label, n) == 0) {
            return true;
        }
        at += n_at + (at[n_at] == ',');
    }
    return false;
}

const char *pool_node_label(const struct pool_node *node)
{
    return node->row && node->row->name[0] != '\0' ? node->row->name : node->id.text;
}

/* The node works for no job from now on. */
void pool_node_detach(struct pool *p, struct pool_node *node)
{
    pool_files_leave(p, node);
    if (node->job) {
        TAILQ_REMOVE(&node->job->nodes, node, of_job);
        pool_job_touch(node->job);
    }
    node->job = NULL;
    node->assignment = 0;
    node->is_leaving = false;
    node->release_cause = (enum tfe_cause)0;
    node->rests = TFE_MONO_NEVER;
    node->since = clock_wall();
}

void pool_node_attach(struct pool *p, struct pool_node *node, struct pool_job *job,
                      uint64_t assignment, enum tfe_task task)
{
    pool_node_detach(p, node);
    node->job = job;
    node->assignment = assignment;
    node->task = task;
    node->is_assign_sent = false;
    TAILQ_INSERT_TAIL(&job->nodes, node, of_job);
    pool_job_touch(job);
    node->version = job->version;
}

void pool_node_drop(struct pool *p, struct pool_node *node)
{
    pool_node_detach(p, node);
    if (node->session) {
        node->session->pooled = NULL;
    }
    TAILQ_REMOVE(&p->leases, node, by_lease);
    RB_REMOVE(pool_tree, &p->nodes, node);
    free(node->row);
    free(node);
}

void pool_node_send_removal(struct pool_node *node, uint32_t within_ms)
{
    static const char *const message[] = {[OUT_NOT] = "",
                                          [OUT_IDLE] =
                                              "it was idle for longer than its idle timeout",
                                          [OUT_DRAINED] = "an operator has drained it",
                                          [OUT_EVICTED] = "an operator has evicted it"};
    const struct tfe_msg msg = {.type = MSG_RELEASE,
                                .u.release = {.assignment = node->assignment,
                                              .within_ms = within_ms,
                                              .message = message[node->out],
                                              .out = node->out}};
    log_info("pool_node_out", LOG_S("node", node->id.text),
             LOG_S("reason", msg_out_name(node->out)));
    pool_node_send(node, &msg);
}
