/* server/core/on_ready.c: READY: a node could start the next epoch at once. */
#include <string.h>

#include "server/core/job.h"
#include "server/core/on.h"

static bool is_sound(const struct msg_ready *ready, uint32_t nproc)
{
    if ((ready->tensorflow && !id_is_valid(ready->tensorflow)) || ready->n_ports != nproc ||
        !ready->host || ready->host[0] == '\0' ||
        strnlen(ready->host, TFE_HOST_MAX + 1) > TFE_HOST_MAX) {
        return false;
    }
    for (size_t i = 0; i < ready->n_ports; i++) {
        if (ready->ports[i] == 0) {
            return false;
        }
    }
    return true;
}

int on_ready(struct rdzv *r, struct node *node, const struct msg_ready *ready)
{
    struct job *job = node->job;
    if (!is_sound(ready, job->spec.nproc)) {
        return TFE_EINVAL;
    }
    if (job->state == JOB_RUNNING && node_is_member(node) && !node->seat.is_accounted &&
        ready->epoch == job->epoch.number && ready->table_digest == 0) {
        ready_set_table(node, 0);
        /* the node's table did not match the digest in START: send it whole */
        epoch_tell_again(r, job, node);
        return 0;
    }
    if (ready->epoch != epoch_next(job)) {
        return 0; /* crossed a PREPARE for another number, which the node will answer too */
    }
    if (epoch_engages(job, node) || node_evaluates(node)) {
        return 0; /* the node is in the running epoch and gets PREPARE when that ends */
    }
    if (ready_reserve(r, node, ready->host)) {
        return TFE_ENOMEM;
    }
    if (strcmp(node->ready.host, ready->host) != 0) {
        probe_forget(node);
    }
    ready_learn(node, ready->host, ready->ports, ready->n_ports);
    ready_set_table(node, ready->table_digest);
    ready_set_memory(node, &ready->memory);
    seat_account(node); /* no trainer of an older epoch runs there */
    lease_set_left(node, 0);
    job_touch(job);
    if (version_take(r, node, ready->tensorflow)) {
        return 0;
    }
    /* otherwise it gets PREPARE when the quarantine ends */
    if (!quarantine_is_on(&node->quarantine)) {
        probe_ready(r, node, ready->answering);
    }
    return 0;
}
