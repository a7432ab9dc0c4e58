/* server/core/restore.c: restores a job from its record after a restart of the server.
 *
 * A running epoch is adopted: its members count as suspects and have the longest lease ever granted
 * to reconnect. Nothing is known of their trainers, so their fences count in full from now on. A
 * decision that was not recorded never happened, because no node had been told of it. */
#include "server/core/job.h"
#include "server/core/sound.h"
#include "server/core/states.h"

/* Inserts the member's node into the job's tree and puts it into its slot. Returns TFE_EINVAL if
 * two members have the same id. */
static int seat_member(struct rdzv *r, struct job *job, uint32_t seat,
                       const struct rdzv_member *member)
{
    if (node_find(job, member->node)) {
        return TFE_EINVAL;
    }
    struct node *node = node_new(r, member->node, member->name, job->spec.nproc);
    if (!node || ready_reserve(r, node, member->host)) {
        node_free(r, node);
        return TFE_ENOMEM;
    }
    node->join_order = member->join_order;
    node->is_durable = member->durable;
    node->has_fixed_ports = member->fixed_ports;
    ready_learn(node, member->host, member->ports, job->spec.nproc);
    seat_restore(node, seat);
    probing_restore(node, member->known_to, member->n_known_to);
    node_note_death(node, member->proof_hash, (uint16_t)member->guard_port);
    if (member->drained) {
        notice_restore_drained(r, node);
    }
    node_insert(job, node);
    epoch_seat(&job->epoch, seat, node);
    return 0;
}

static int fill(struct rdzv *r, struct job *job, const struct rdzv_record *record)
{
    int rc = job_reserve(r, job, record->n_members ? record->n_members : 1, &job->spec);
    for (uint32_t seat = 0; rc == 0 && seat < record->n_members; seat++) {
        rc = seat_member(r, job, seat, &record->members[seat]);
    }
    return rc;
}

/* Restores a job that is over. Its trainers may run on if the server never learnt of their end, and
 * may connect to the epoch's ports in any case. */
static void restore_end(struct job *job, const struct rdzv_record *record, struct tfe_mono fenced)
{
    epoch_restore_last(job, record->epoch, record->cause);
    fence_keep_ports(&job->fence, record->epoch, fenced);
    fence_keep_ports(&job->fence, record->epoch + 1, fenced);
    if (record->fenced) {
        fence_keep_run(&job->fence, fenced);
    }
    job->state = job_state_of(record->result);
}

static void adopt(struct rdzv *r, struct job *job, const struct rdzv_record *record,
                  struct tfe_mono fenced)
{
    struct epoch_past past = {
        .number = record->epoch, .cause = record->cause, .n_ps = record->epoch_ps};
    /* cannot fail, because there is no digest to match */
    (void)epoch_adopt(r, job, record->n_members, &past);
    quarantine_prove_all(job);
    /* Nodes lost before the last epoch are in no record; their trainers may use the other set of
     * ports. */
    if (record->epoch > 1) {
        fence_keep_ports(&job->fence, record->epoch + 1, fenced);
    }
    for (uint32_t seat = 0; seat < job->epoch.n_seats; seat++) {
        struct node *node = job->epoch.seats[seat];
        lease_restore(r, node, record->ttl_ms, fenced);
        if (record->members[seat].taken_over) {
            seat_take_over(node, node->lease.fence_end);
        }
        if (node->join_order > r->joins) {
            r->joins = node->join_order;
        }
    }
    job->state = JOB_RUNNING;
}

int rdzv_restore(struct rdzv *r, struct tfe_mono now, const struct rdzv_record *record)
{
    if (!record_is_sound(record)) {
        return TFE_EINVAL;
    }
    if (job_find(r, record->job)) {
        return TFE_EEXIST;
    }
    if (tfe_mono_before(r->now, now)) {
        r->now = now;
    }
    (void)wheel_peek(&r->wheel, r->now);
    const char *key = record->run_key && record->run_key[0] ? record->run_key : NULL;
    struct job *job = job_new(r, record->job, &record->spec, key);
    if (!job) {
        return TFE_ENOMEM;
    }
    job->is_resized = record->resized;
    job->is_ps_resized = record->ps_resized;
    run_restore(job, record->run, record->over ? record->sentence : NULL, record->ended);
    int rc = run_read_past(job, record->past ? record->past : "");
    if (rc == 0) {
        rc = fill(r, job, record);
    }
    if (rc) {
        job_free(r, job);
        return rc;
    }
    verdict_begin_run(job, (struct budget){.used = record->restarts,
                                           .fruitless = record->fruitless,
                                           .backoff_ms = record->backoff_ms,
                                           .has_progressed = record->has_progressed});
    write_restore(&job->write, record);
    /* A later record of the same epoch, with longer leases, may not have reached the disk: members
     * may have been sent a fence that this record does not have. */
    struct tfe_mono fenced = lease_longest_fence_end(r, r->now, record->fence_ms);
    fence_expect_unknown(&job->fence, fenced);
    if (record->over) {
        restore_end(job, record, fenced);
    } else {
        adopt(r, job, record, fenced);
    }
    job_note_word(job, record->over ? record->ended : (struct tfe_wall){0});
    job_insert(r, job);
    r->deadline = wheel_next(&r->wheel);
    return 0;
}

int rdzv_set_aside(struct rdzv *r, const char *name)
{
    struct tfe_id id;
    void *v = r->aside;
    if (id_set(&id, name)) {
        return TFE_EINVAL;
    }
    if (mem_reserve(r->mem, &v, &r->cap_aside, r->n_aside + 1, sizeof(id))) {
        return TFE_ENOMEM;
    }
    r->aside = v;
    r->aside[r->n_aside++] = id;
    return 0;
}
