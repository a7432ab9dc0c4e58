/* server/core/view.c: what the core knows, for those who only look. */
#include "server/core/core.h"

int rdzv_view_job(const struct rdzv *r, const char *after, struct msg_status_job *ret_job)
{
    struct job key = {0};
    struct job_tree *tree = (struct job_tree *)(uintptr_t)&r->jobs; /* tree.h knows no const */
    struct job *job = RB_MIN(job_tree, tree);
    if (after) {
        if (id_set(&key.name, after)) {
            return TFE_ENOENT;
        }
        job = RB_NFIND(job_tree, tree, &key);
        if (job && id_compare(&job->name, &key.name) == 0) {
            job = RB_NEXT(job_tree, tree, job);
        }
    }
    if (!job) {
        return TFE_ENOENT;
    }
    *ret_job = (struct msg_status_job){
        .job = job->name.text,
        .state = job_state_name(job->state),
        .run = job->run,
        .epoch = job->epoch.number,
        .min_nodes = job->min_nodes,
        .max_nodes = job->max_nodes,
        .nproc = job->nproc,
        /* One above the budget is charged until the verdict fails the job, or takes it back. */
        .restarts = job->restarts < job->max_restarts ? job->restarts : job->max_restarts,
    };
    return 0;
}

int rdzv_view_node(const struct rdzv *r, const char *job_name, const char *after,
                   struct msg_status_node *ret_node)
{
    struct job *job = job_find((struct rdzv *)(uintptr_t)r, job_name);
    if (!job) {
        return TFE_ENOENT;
    }
    struct node key = {0};
    struct node *node = RB_MIN(node_tree, &job->nodes);
    if (after) {
        if (id_set(&key.id, after)) {
            return TFE_ENOENT;
        }
        node = RB_NFIND(node_tree, &job->nodes, &key);
        if (node && id_compare(&node->id, &key.id) == 0) {
            node = RB_NEXT(node_tree, &job->nodes, node);
        }
    }
    while (node && node->gone) {
        node = RB_NEXT(node_tree, &job->nodes, node);
    }
    if (!node) {
        return TFE_ENOENT;
    }
    *ret_node = (struct msg_status_node){
        .node = node->id.text,
        .name = node->name,
        .role = node_role(node),
        .has_rank = node->seat != NO_SEAT,
        .rank = node->seat != NO_SEAT ? node->seat * job->nproc : 0,
        .host = node->host[0] ? node->host : NULL,
        .port = node->ports[0],
        .pid = node->pid,
        .processes = {.guard_pid = node->guard_pid,
                      .trainer_pids = node->trainer_pids,
                      .n_trainer_pids = node->n_trainer_pids,
                      .standby_pids = node->standby_pids,
                      .n_standby_pids = node->n_standby_pids},
    };
    return 0;
}
