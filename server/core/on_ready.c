/* server/core/on_ready.c: READY: a node could start the next epoch at once. */
#include <string.h>

#include "server/core/core.h"
#include "server/core/events.h"

int on_ready(struct rdzv *r, struct node *node, const struct msg_ready *ready)
{
    struct job *job = node->job;
    if (ready->n_ports != job->nproc || !ready->host || ready->host[0] == '\0' ||
        strnlen(ready->host, TFE_HOST_MAX + 1) > TFE_HOST_MAX) {
        return TFE_EINVAL;
    }
    for (size_t i = 0; i < ready->n_ports; i++) {
        if (ready->ports[i] == 0) {
            return TFE_EINVAL;
        }
    }
    if (job->state == JOB_RUNNING && node->seat != NO_SEAT && !node->accounted &&
        ready->epoch == job->epoch.number && ready->table_digest == 0) {
        node->table_digest = 0;
        epoch_tell_again(r, job, node); /* its table did not match the START's digest: once more */
        return 0;
    }
    if (ready->epoch != job_next_epoch(job)) {
        return 0; /* crossed a PREPARE for another number, which it will answer too */
    }
    if (job_engages(job, node)) {
        return 0; /* belongs to the running epoch; is asked anew when that ends */
    }
    if (strcmp(node->host, ready->host) != 0) {
        probe_forget(node);
    }
    memcpy(node->host, ready->host, strlen(ready->host) + 1);
    node->table_digest = ready->table_digest;
    memcpy(node->ports, ready->ports, ready->n_ports * sizeof(*ready->ports));
    node_account(node); /* nothing of an older epoch runs here */
    node->haunts = 0;
    if (wheel_is_set(&node->hold.wheel)) {
        job_settle(r, job); /* it is asked again when its quarantine is over */
        return 0;
    }
    probe_ready(r, node, ready->answering);
    job_settle(r, job);
    return 0;
}
