/* server/jobs/pool_removal.c: removes nodes from the pool: idle ones, and those that an operator
 * names. */
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "server/jobs/pool_private.h"

/* Time for a drained node to leave if the operator gives none. */
#define OUT_WITHIN_MS 60000u

void pool_node_out(struct pool *p, struct pool_node *node, enum tfe_out reason, uint32_t within_ms)
{
    node->out = reason;
    node->since = clock_wall();
    (void)pool_step(
        p, (struct placement_event){.type = PLACEMENT_NODE_REMOVED, .node = node->id.text});
    pool_node_send_removal(node, within_ms);
}

/* --- finding the node --- */

/* Finds a node by its label, among the nodes of the job (NULL: all). *ret_n is the number of
 * matches. */
static struct pool_node *find_name(struct pool *p, const char *name, const char *job, size_t *ret_n)
{
    struct pool_node *found = NULL;
    struct pool_node *node;
    *ret_n = 0;
    RB_FOREACH(node, pool_tree, &p->nodes)
    {
        if (node->row && strcmp(node->row->name, name) == 0 &&
            (!job || (node->job && strcmp(node->job->name.text, job) == 0))) {
            found = node;
            ++*ret_n;
        }
    }
    return found;
}

struct pool_node *pool_find_target(struct pool *p, const struct principal *by, const char *name,
                                   bool *ret_is_unclear)
{
    struct rdzv_found found;
    size_t n;
    struct pool_node *node = pool_node_find(p, name);
    *ret_is_unclear = false;
    if (strcmp(by->scope, PRINCIPAL_EVERY_JOB) != 0) {
        return NULL; /* the principal may not see the pool */
    }
    if (node) {
        return node;
    }
    const bool is_in_core = rdzv_find_node(p->config.core, by, name, &found) == 0;
    node = find_name(p, name, NULL, &n);
    if (n == 0 && is_in_core && found.n == 1) { /* name may be the id of the agent below the node */
        node = find_name(p, found.v[0].name, found.v[0].job, &n);
        return n == 1 ? node : NULL;
    }
    /* The agent below the node has the same label. */
    *ret_is_unclear =
        n > 1 || (n == 1 && is_in_core &&
                  (found.n > 1 || !node->job || strcmp(found.v[0].job, node->job->name.text) != 0));
    return n == 1 && !*ret_is_unclear ? node : NULL;
}

enum tfe_cause pool_release_cause(struct pool *p, const char *job, const char *label)
{
    size_t n;
    const struct pool_node *node = find_name(p, label, job, &n);
    if (n != 1) {
        return (enum tfe_cause)0;
    }
    return node->out == OUT_DRAINED || node->out == OUT_EVICTED ? CAUSE_DRAINED
                                                                : node->release_cause;
}

const struct session *pool_node_session(const struct pool_node *node)
{
    return node->session;
}

void pool_execute_order(struct pool *p, struct pool_node *node, const struct tfe_msg *order,
                        struct operator_response *ret)
{
    const bool drains = order->type == MSG_DRAIN;
    const uint32_t within = drains ? order->u.drain.within_ms : 1;
    (void)id_set(&ret->node, node->id.text);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", node->row ? node->row->name : "");
    if (node->job) {
        ret->job = node->job->name;
    }
    ret->msg = (struct tfe_msg){.type = MSG_DONE};
    pool_node_out(p, node, drains ? OUT_DRAINED : OUT_EVICTED,
                  within == MSG_UNSET ? OUT_WITHIN_MS : within);
}
