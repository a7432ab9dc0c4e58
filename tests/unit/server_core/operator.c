/* tests/unit/server_core/operator.c: commands of an operator, for tests. */
#include "tests/unit/server_core/operator.h"

int order(struct world *w, enum rdzv_event_type what, const char *job, const char *node)
{
    forget(w);
    return step(w, &(struct rdzv_event){.type = what, .now = {w->now}, .job = job, .node = node});
}

void drain(struct world *w, const char *node)
{
    assert_int_equal(order(w, RDZV_DRAIN, "j", node), 0);
}

void evict(struct world *w, const char *node)
{
    assert_int_equal(order(w, RDZV_EVICT, "j", node), 0);
}

void stop_job(struct world *w)
{
    assert_int_equal(order(w, RDZV_STOP_JOB, "j", NULL), 0);
}

void trainers_stop(struct world *w, uint32_t session, uint64_t epoch)
{
    exited_as(w, session, (struct msg_exited){.epoch = epoch, .stopped = true});
}

enum tfe_node_role role_of(const struct world *w, const char *id)
{
    struct msg_status_node node;
    for (const char *after = NULL; !rdzv_view_node(w->r, "j", after, &node); after = node.node) {
        if (strcmp(node.node, id) == 0) {
            return node.role;
        }
    }
    return 0;
}
