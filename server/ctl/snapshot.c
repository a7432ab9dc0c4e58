/* server/ctl/snapshot.c: the answer to STATUS, kept until it is complete. */
#include "server/ctl/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "common/net/heap.h"

/* The fields are const for readers; what they point to was allocated here. */
static void free_const(const void *p)
{
    void *own;
    memcpy(&own, &p, sizeof(own));
    free(own);
}

static uint32_t *copy_pids(const uint32_t *pids, size_t n)
{
    uint32_t *copy = malloc((n > 0 ? n : 1) * sizeof(*copy));
    if (copy != NULL && n > 0) {
        memcpy(copy, pids, n * sizeof(*copy));
    }
    return copy;
}

static void job_done(const struct msg_status_job *job)
{
    free_const(job->job);
    free_const(job->state);
}

static void node_done(const struct msg_status_node *node)
{
    free_const(node->node);
    free_const(node->name);
    free_const(node->host);
    free_const(node->processes.trainer_pids);
    free_const(node->processes.standby_pids);
}

int snapshot_add_job(struct snapshot *s, const struct msg_status_job *job)
{
    if (mem_reserve(&heap_mem, (void **)&s->jobs, &s->jobs_cap, s->n_jobs + 1, sizeof(*s->jobs)) !=
        0) {
        return TFE_ENOMEM;
    }
    struct snapshot_job copy = {.job = *job, .first_node = s->n_nodes};
    copy.job.job = strdup(job->job);
    copy.job.state = strdup(job->state);
    if (copy.job.job == NULL || copy.job.state == NULL) {
        job_done(&copy.job);
        return TFE_ENOMEM;
    }
    s->jobs[s->n_jobs++] = copy;
    return 0;
}

int snapshot_add_node(struct snapshot *s, const struct msg_status_node *node)
{
    if (s->n_jobs == 0) {
        return TFE_ESTATE;
    }
    if (mem_reserve(&heap_mem, (void **)&s->nodes, &s->nodes_cap, s->n_nodes + 1,
                    sizeof(*s->nodes)) != 0) {
        return TFE_ENOMEM;
    }
    const struct msg_processes *p = &node->processes;
    struct msg_status_node copy = *node;
    copy.node = strdup(node->node);
    copy.name = strdup(node->name != NULL ? node->name : "");
    copy.host = node->host != NULL ? strdup(node->host) : NULL;
    copy.processes.trainer_pids = copy_pids(p->trainer_pids, p->n_trainer_pids);
    copy.processes.standby_pids = copy_pids(p->standby_pids, p->n_standby_pids);
    if (copy.node == NULL || copy.name == NULL || (node->host != NULL && copy.host == NULL) ||
        copy.processes.trainer_pids == NULL || copy.processes.standby_pids == NULL) {
        node_done(&copy);
        return TFE_ENOMEM;
    }
    s->nodes[s->n_nodes++] = copy;
    s->jobs[s->n_jobs - 1].n_nodes++;
    return 0;
}

void snapshot_done(struct snapshot *s)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        job_done(&s->jobs[i].job);
    }
    for (size_t i = 0; i < s->n_nodes; i++) {
        node_done(&s->nodes[i]);
    }
    free(s->jobs);
    free(s->nodes);
    *s = (struct snapshot){.jobs = NULL};
}
