/* server/core/restore.c: a job as it was last recorded, after the server was away.
 *
 * A running epoch is adopted as it stands: its members are suspects that have the largest lease
 * ever granted to come back with it, and since nothing is known of their trainers their fences
 * count in full from now on. What was decided but not recorded never happened: nobody had been
 * told. */
#include <string.h>

#include "common/base/table.h"
#include "server/core/core.h"

static bool is_sound(const struct rdzv_record *record)
{
    return id_is_valid(record->job) && record->min_nodes >= 1 &&
           record->min_nodes <= record->max_nodes && record->max_nodes <= MSG_NODES_MAX &&
           record->nproc >= 1 && record->nproc <= MSG_NPROC_MAX && record->run >= 1 &&
           record->n_members <= record->max_nodes && (record->over || record->n_members >= 1) &&
           record->epoch >= record->predecessor && record->ttl_ms <= MSG_DURATION_MAX_MS &&
           record->fence_ms <= MSG_DURATION_MAX_MS && record->backoff_ms <= MSG_DURATION_MAX_MS &&
           (!record->run_key || !record->run_key[0] || id_is_valid(record->run_key)) &&
           (!record->sentence || strnlen(record->sentence, MSG_SENTENCE_MAX) < MSG_SENTENCE_MAX);
}

static bool member_is_sound(const struct rdzv_member *member)
{
    if (member->n_known_to > RDZV_KNOWN_TO_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < member->n_known_to; i++) {
        if (!id_is_valid(member->known_to[i].text)) {
            return false;
        }
    }
    return id_is_valid(member->node) && member->name &&
           strnlen(member->name, TFE_LABEL_MAX + 1) <= TFE_LABEL_MAX && member->host &&
           member->host[0] && strnlen(member->host, TFE_HOST_MAX + 1) <= TFE_HOST_MAX;
}

/* The member's node into the job's tree and its seat. TFE_EINVAL: it has one already. */
static int seat_member(struct rdzv *r, struct job *job, uint32_t seat,
                       const struct rdzv_member *member)
{
    struct node *node = node_new(
        r,
        &(struct msg_join){.node_name = member->name, .nproc = job->nproc, .node = member->node});
    if (!node) {
        return TFE_ENOMEM;
    }
    (void)id_set(&node->id, member->node); /* member_is_sound */
    node->job = job;
    node->join_order = member->join_order;
    node->durable = member->durable;
    memcpy(node->host, member->host, strlen(member->host) + 1);
    memcpy(node->ports, member->ports, job->nproc * sizeof(*member->ports));
    node->seat = seat;
    node->started = true;
    node->is_proven = true; /* for all that is known */
    for (uint32_t i = 0; i < member->n_known_to; i++) {
        node->probe.verifiers[i] = member->known_to[i];
    }
    node->probe.n_verifiers = member->n_known_to;
    if (member->drained) {
        /* By when it had to be gone is not known any more: as soon as is convenient. */
        node->drained = true;
        node->leaving = true;
        node->notice = NOTICE_OPERATOR;
        node->noticed = r->now;
        node->notice_deadline = TFE_MONO_NEVER;
    }
    if (RB_INSERT(node_tree, &job->nodes, node)) {
        mem_free(r->mem, node);
        return TFE_EINVAL;
    }
    job->n_nodes++;
    job->epoch.seats[seat] = node;
    return 0;
}

static int fill(struct rdzv *r, struct job *job, const struct rdzv_record *record)
{
    for (uint32_t seat = 0; seat < record->n_members; seat++) {
        if (!member_is_sound(&record->members[seat])) {
            return TFE_EINVAL;
        }
    }
    if (job_reserve(r, job, record->n_members ? record->n_members : 1, job->max_nodes,
                    job->nproc)) {
        return TFE_ENOMEM;
    }
    for (uint32_t seat = 0; seat < record->n_members; seat++) {
        int rc = seat_member(r, job, seat, &record->members[seat]);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static void adopt(struct rdzv *r, struct job *job, const struct rdzv_record *record)
{
    struct epoch *epoch = &job->epoch;
    epoch->n_seats = record->n_members;
    epoch->opened = true;
    epoch->adopted = true;
    epoch->started = r->now;
    plan_begin_epoch(r, job);
    plan_forget_standstill(job);
    ledger_adopt(job);
    epoch_make_table(job);
    /* Who was lost before the last epoch is in no record. */
    if (record->epoch > 1) {
        job->ports_spoken_until[(record->epoch + 1) & 1] =
            lease_fence_end_from(r->now, record->fence_ms);
    }
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        struct node *node = epoch->seats[seat];
        lease_restore(r, node, record->ttl_ms, record->fence_ms);
        if (node->join_order > r->joins) {
            r->joins = node->join_order;
        }
    }
    job->state = JOB_RUNNING;
}

int rdzv_restore(struct rdzv *r, struct tfe_mono now, const struct rdzv_record *record)
{
    if (!is_sound(record)) {
        return TFE_EINVAL;
    }
    if (job_find(r, record->job)) {
        return TFE_EEXIST;
    }
    if (tfe_mono_before(r->now, now)) {
        r->now = now;
    }
    (void)wheel_peek(&r->wheel, r->now);
    struct job *job =
        job_new(r, &(struct msg_join){
                       .job = record->job,
                       .min_nodes = record->min_nodes,
                       .max_nodes = record->max_nodes,
                       .nproc = record->nproc,
                       .max_restarts = record->max_restarts,
                       .gather_ms = record->gather_ms,
                       .grow_wait_ms = record->grow_wait_ms,
                       .stop_grace_ms = record->stop_grace_ms,
                       .elastic_timeout_ms = record->elastic_timeout_ms,
                       .chief_grace_ms = record->chief_grace_ms,
                       .no_grow = record->no_grow,
                       .run_key = record->run_key && record->run_key[0] ? record->run_key : NULL,
                       .script_digest = record->script_digest});
    if (!job) {
        return TFE_ENOMEM;
    }
    job->run = record->run;
    int rc = late_read(job, record->past ? record->past : "");
    if (rc == 0) {
        rc = fill(r, job, record);
    }
    if (rc) {
        job_free(r, job);
        return rc;
    }
    job->is_first_epoch = false;
    job->restarts = record->restarts;
    job->fault.fruitless = record->fruitless;
    job->fault.backoff_ms = record->backoff_ms;
    job->has_progressed = record->has_progressed;
    job->epoch.number = record->epoch;
    job->epoch.cause = record->cause;
    job->durable_epoch = record->epoch;
    job->highest_epoch = record->epoch;
    job->write.sequence = record->sequence;
    job->write.record.ttl_ms = record->ttl_ms;
    job->durable_ttl_ms = record->ttl_ms;
    job->granted_ttl_ms = record->ttl_ms;
    job->write.record.fence_ms = record->fence_ms;
    if (record->over) {
        job->state = record->result == RESULT_SUCCEEDED ? JOB_SUCCEEDED
                     : record->result == RESULT_FAILED  ? JOB_FAILED
                                                        : JOB_STOPPED;
        memcpy(job->sentence, record->sentence, strlen(record->sentence) + 1);
        job->ended = record->ended;
    } else {
        adopt(r, job, record);
    }
    RB_INSERT(job_tree, &r->jobs, job);
    r->n_jobs++;
    r->deadline = wheel_next(&r->wheel);
    return 0;
}
