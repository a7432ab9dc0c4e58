/* server/core/quarantine.c: quarantine of newcomers that fail where other nodes got further without
 * them (design 4.11). */
#include "server/core/quarantine.h"

#include "common/base/backoff.h"
#include "server/core/job.h"

#define WAIT_FIRST_MS 1000
#define WAIT_MAX_MS 60000

bool quarantine_is_due(const struct node *node, bool has_progressed)
{
    const struct job *job = node->job;
    if (node->quarantine.is_proven || !job->budget.has_progressed || has_progressed) {
        return false;
    }
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        const struct node *other = job->epoch.seats[seat];
        if (other->quarantine.is_proven && !other->is_gone) {
            return true; /* the job can go on with this node */
        }
    }
    return false;
}

void quarantine_begin(struct rdzv *r, struct node *node, const char *reason)
{
    struct quarantine *q = &node->quarantine;
    q->wait_ms = backoff_next(q->wait_ms, WAIT_FIRST_MS, WAIT_MAX_MS);
    wheel_set(&r->wheel, &q->timer.wheel, tfe_mono_add(r->now, q->wait_ms));
    ready_set(node, 0);
    send_trace(r, TRACE_NODE_QUARANTINED, node->job, node, q->wait_ms, reason);
}

void quarantine_end(struct rdzv *r, struct node *node)
{
    wheel_cancel(&r->wheel, &node->quarantine.timer.wheel);
}

void quarantine_prove_all(struct job *job)
{
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        job->epoch.seats[seat]->quarantine.is_proven = true;
    }
}
