/* server/core/persist.c: a job's record: validating it, writing it before any node learns of its
 * contents, and restoring the job after a restart of the server. */
#include "server/core/persist.h"

#include <string.h>

#include "common/base/backoff.h"
#include "server/core/epoch.h"
#include "server/core/job.h"
#include "server/core/layout.h"
#include "server/core/lease.h"
#include "server/core/node.h"
#include "server/core/notice.h"
#include "server/core/probe.h"
#include "server/core/states.h"
#include "server/core/table.h"
#include "server/core/verdict.h"

/* Back-off of a failed write (design 8); the running epoch continues meanwhile. */
#define WRITE_BACKOFF_FIRST_MS 1000
#define WRITE_BACKOFF_MAX_MS 60000

/* --- validation ------------------------------------------------------------------------------- */

static bool member_is_valid(const struct rdzv_member *member, uint32_t nproc)
{
    if (member->n_known_to > RDZV_KNOWN_TO_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < member->n_known_to; i++) {
        if (!id_is_valid(member->known_to[i].text)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < nproc; i++) {
        if (member->ports[i] == 0) {
            return false;
        }
    }
    bool has_death = member->proof_hash && member->proof_hash[0];
    return id_is_valid(member->node) && (!has_death || id_is_valid(member->proof_hash)) &&
           member->guard_port <= UINT16_MAX && member->name &&
           (member->name[0] == '\0' || id_is_valid(member->name)) && member->host &&
           member->host[0] && strnlen(member->host, TFE_HOST_MAX + 1) <= TFE_HOST_MAX;
}

static bool past_is_valid(const struct rdzv_record *record)
{
    bool is = record->n_past <= RDZV_RUNS_MAX;
    for (uint32_t i = 0; is && i < record->n_past; i++) {
        const struct rdzv_run_end *past = &record->past[i];
        is = past->run >= 1 && (past->run < record->run || record->run == MSG_RUN_MAX) &&
             id_is_valid(past->key.text) && past->at.ms >= 0 && past->result >= RESULT_SUCCEEDED &&
             past->result <= RESULT_CANCELLED;
    }
    return is;
}

/* Returns how many of the recorded members are no workers. */
static uint32_t epoch_extra(const struct rdzv_record *record)
{
    struct job_spec spec = record->spec;
    spec.n_ps = record->epoch_ps ? record->epoch_ps : spec.n_ps;
    return layout_extra(&spec);
}

static bool record_is_valid(const struct rdzv_record *record)
{
    bool is =
        id_is_valid(record->job) && job_spec_is_valid(&record->spec) && record->run >= 1 &&
        record->run <= MSG_RUN_MAX && record->epoch <= MSG_NUMBER_MAX &&
        record->epoch_ps <= MSG_NODES_MAX && (record->epoch_ps > 0) <= (record->spec.n_ps > 0) &&
        (record->resized || record->n_members <= layout_max_nodes(&record->spec)) &&
        (record->over || record->gone || record->n_members > epoch_extra(record)) &&
        record->epoch >= record->predecessor && record->ttl_ms <= MSG_DURATION_MAX_MS &&
        record->fence_ms <= MSG_DURATION_MAX_MS && record->backoff_ms <= MSG_DURATION_MAX_MS &&
        (!record->run_key || !record->run_key[0] || id_is_valid(record->run_key)) &&
        (!record->sentence || strnlen(record->sentence, MSG_SENTENCE_MAX) < MSG_SENTENCE_MAX) &&
        past_is_valid(record);
    for (uint32_t slot = 0; is && slot < record->n_members; slot++) {
        is = member_is_valid(&record->members[slot], record->spec.nproc);
    }
    return is;
}

/* --- writing ---------------------------------------------------------------------------------- */

int persist_reserve(struct rdzv *r, struct persist *w, size_t rows, size_t slots)
{
    int rc = mem_resize(r->mem, &w->members, slots, sizeof(*w->members));
    return rc ? rc : mem_resize(r->mem, &w->ports, rows, sizeof(*w->ports));
}

void persist_free(struct rdzv *r, struct persist *w)
{
    mem_free(r->mem, w->members);
    mem_free(r->mem, w->ports);
}

/* Sets the state from a record that was read from the store. */
static void persist_restore(struct persist *w, const struct rdzv_record *record)
{
    w->sequence = record->sequence;
    w->record.ttl_ms = record->ttl_ms;
    w->record.fence_ms = record->fence_ms;
    w->durable_epoch = record->epoch;
    w->durable_ttl_ms = record->ttl_ms;
    w->granted_ttl_ms = record->ttl_ms;
}

void persist_begin_run(struct persist *w)
{
    w->is_over = false;
    w->retry_at = TFE_MONO_NEVER;
}

/* Schedules a retry. reason: an error of this server itself, or NULL. */
static void put_off(struct rdzv *r, struct job *job, const char *reason)
{
    struct persist *w = &job->persist;
    w->backoff_ms = backoff_next(w->backoff_ms, WRITE_BACKOFF_FIRST_MS, WRITE_BACKOFF_MAX_MS);
    w->retry_at = tfe_mono_add(r->now, w->backoff_ms);
    send_trace(r, TRACE_WRITE_FAILED, job, NULL, w->backoff_ms, reason);
}

/* Asks the I/O layer to write the record. A record that could not be read back is not written: this
 * job stands still, and the other jobs are not affected. */
static void submit_record(struct rdzv *r, struct job *job)
{
    struct persist *w = &job->persist;
    const struct table_copy *table = tables_present(&job->tables);
    w->is_open = true;
    w->retry_at = TFE_MONO_NEVER;
    w->record.sequence = w->sequence;
    w->record.members = w->members;
    for (uint32_t slot = 0; slot < w->record.n_members; slot++) {
        /* these pointers may be stale, like those to the ports */
        w->members[slot].host = table->hosts[slot];
        w->members[slot].ports = w->ports + (size_t)slot * job->spec.nproc;
    }
    if (!record_is_valid(&w->record)) {
        put_off(r, job, "the record is inconsistent");
        return;
    }
    if (w->requested_step != r->steps) {
        send_action(r, RDZV_PERSIST)->record =
            &w->record; /* an action of this step already points to the record */
    }
    w->requested_step = r->steps;
}

static void list_members(struct job *job)
{
    struct persist *w = &job->persist;
    const struct epoch *epoch = &job->epoch;
    const struct table_copy *table = tables_present(&job->tables);
    for (uint32_t slot = 0; slot < epoch->n_slots; slot++) {
        const struct node *node = epoch->slots[slot];
        uint16_t *ports = w->ports + (size_t)slot * job->spec.nproc;
        memcpy(ports, node->ready.ports, job->spec.nproc * sizeof(*ports));
        for (uint32_t local = 0; local < layout_trainers(job, slot); local++) {
            ports[local] = table->rows[layout_rank(job, slot) + local].port;
        }
        /* otherwise a proof of termination would be the other process's */
        bool is_its_own = !node->slot.is_taken_over;
        w->members[slot] =
            (struct rdzv_member){.node = node->id.text,
                                 .name = node->name,
                                 .host = table->hosts[slot],
                                 .join_order = node->join_order,
                                 .durable = node->is_durable,
                                 .fixed_ports = node->has_fixed_ports,
                                 .drained = node->notice.is_drained,
                                 .known_to = node->probing.verifiers,
                                 .n_known_to = is_its_own ? node->probing.n_verifiers : 0,
                                 .proof_hash = is_its_own ? node->proof_hash.text : "",
                                 .guard_port = is_its_own ? node->guard_port : 0,
                                 .taken_over = !is_its_own};
    }
}

void persist_job(struct rdzv *r, struct job *job)
{
    struct persist *w = &job->persist;
    const struct epoch *epoch = &job->epoch;
    if (!w->is_gone) {
        list_members(job);
    }
    uint32_t ttl_ms = largest(lease_target_ms(r), largest(w->record.ttl_ms, w->granted_ttl_ms));
    w->record = (struct rdzv_record){
        .job = job->name.text,
        .gone = w->is_gone,
        .spec = job->spec,
        .resized = job->is_resized,
        .ps_resized = job->is_ps_resized,
        /* The job may have no ps option by now: a node that joins a job without nodes may change
         * its options. */
        .epoch_ps = w->is_over || w->is_gone || job->spec.n_ps == 0 ? 0 : epoch->n_ps,
        .run = job->run.number,
        .run_key = job->run.key.text,
        .restarts = job->budget.used,
        .failed_epochs = job->budget.failed_epochs,
        .backoff_ms = job->budget.backoff_ms,
        .has_progressed = job->budget.has_progressed,
        .predecessor = w->durable_epoch,
        .epoch = epoch->number,
        .cause = epoch->cause,
        .ttl_ms = ttl_ms,
        .fence_ms = largest(lease_fence_ms(r, 2, ttl_ms), w->record.fence_ms),
        .over = w->is_over,
        .fenced = w->is_over && !fence_run_is_over(r, job),
        .result = w->is_over ? job_result_of(w->ending) : 0,
        .sentence = w->is_over ? job->run.sentence : "",
        .ended = w->is_over ? job->run.ended : (struct tfe_wall){0},
        .members = w->members,
        .n_members = w->is_over || w->is_gone ? 0 : epoch->n_slots,
        .n_past = job->run.n_past,
    };
    memcpy(w->record.past, job->run.past, sizeof(job->run.past));
    w->sequence++;
    w->is_test = false;
    w->is_proven = false;
    w->backoff_ms = 0;
    submit_record(r, job);
}

bool persist_covers_epoch(const struct job *job)
{
    return job->epoch.n_slots > 0 && !job_is_over(job) && !job->persist.is_over &&
           (job->state == JOB_COMMITTING || job->persist.durable_epoch == job->epoch.number);
}

void persist_or_defer(struct rdzv *r, struct job *job)
{
    if (job->persist.is_open && job->persist.record.epoch != job->persist.durable_epoch) {
        job->persist.is_due =
            /* the new record must name the stored epoch as its predecessor, which is unknown until
             * then */
            true;
    } else {
        persist_job(r, job);
    }
}

void persist_if_due(struct rdzv *r, struct job *job)
{
    struct persist *w = &job->persist;
    if (w->is_due && (!w->is_open || !tfe_mono_is_never(w->retry_at))) {
        w->is_due = false;
        persist_job(r, job);
    }
}

void persist_end(struct rdzv *r, struct job *job, enum job_state ending)
{
    job->persist.is_over = true;
    job->persist.ending = ending;
    persist_or_defer(r, job);
}

void persist_forget(struct rdzv *r, struct job *job)
{
    job->persist.is_gone = true;
    persist_job(r, job);
}

bool persist_is_proven(struct rdzv *r, struct job *job)
{
    struct persist *w = &job->persist;
    bool is_proven = w->is_proven;
    w->is_proven = false;
    if (!is_proven && !w->is_open) {
        persist_job(r, job);
        w->is_test = true;
    }
    return is_proven;
}

void persist_retry(struct rdzv *r, struct job *job)
{
    if (job->persist.is_open && is_past(r, job->persist.retry_at)) {
        submit_record(r, job);
    }
}

bool persist_handle_done(struct job *job, uint64_t sequence)
{
    struct persist *w = &job->persist;
    if (!w->is_open || sequence != w->sequence) {
        return false; /* about a record that a later one has replaced */
    }
    w->is_open = false;
    w->retry_at = TFE_MONO_NEVER;
    w->is_proven = w->is_test;
    w->durable_epoch = w->record.epoch;
    w->durable_ttl_ms = w->record.ttl_ms;
    return true;
}

bool persist_handle_failure(struct rdzv *r, struct job *job, uint64_t sequence)
{
    struct persist *w = &job->persist;
    if (!w->is_open || sequence != w->sequence) {
        return false;
    }
    put_off(r, job, NULL);
    return true;
}

/* --- restoring a job -------------------------------------------------------------------------- */

/* Inserts the member's node into the job's tree and puts it into its slot. Returns TFE_EINVAL if
 * two members have the same id. */
static int restore_member(struct rdzv *r, struct job *job, uint32_t slot,
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
    slot_restore(node, slot);
    probing_restore(node, member->known_to, member->n_known_to);
    node_set_proof(node, member->proof_hash, (uint16_t)member->guard_port);
    if (member->drained) {
        notice_restore_drained(r, node);
    }
    node_insert(job, node);
    epoch_set_slot(&job->epoch, slot, node);
    return 0;
}

static int fill(struct rdzv *r, struct job *job, const struct rdzv_record *record)
{
    int rc = job_reserve(r, job, record->n_members ? record->n_members : 1, &job->spec);
    for (uint32_t slot = 0; rc == 0 && slot < record->n_members; slot++) {
        rc = restore_member(r, job, slot, &record->members[slot]);
    }
    return rc;
}

/* Restores a job that is over. Its trainers may run on if the server never learnt of their end, and
 * may connect to the epoch's ports in any case. */
static void restore_end(struct job *job, const struct rdzv_record *record, struct tfe_mono fenced)
{
    epoch_restore_last(job, record->epoch, record->cause);
    fence_reserve_ports(&job->fence, record->epoch, fenced);
    fence_reserve_ports(&job->fence, record->epoch + 1, fenced);
    if (record->fenced) {
        fence_extend_run(&job->fence, fenced);
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
        fence_reserve_ports(&job->fence, record->epoch + 1, fenced);
    }
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        struct node *node = job->epoch.slots[slot];
        lease_restore(r, node, record->ttl_ms, fenced);
        if (record->members[slot].taken_over) {
            slot_take_over(node, node->lease.fence_end);
        }
        if (node->join_order > r->joins) {
            r->joins = node->join_order;
        }
    }
    job->state = JOB_RUNNING;
}

int rdzv_restore(struct rdzv *r, struct tfe_mono now, const struct rdzv_record *record)
{
    if (!record_is_valid(record)) {
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
    memcpy(job->run.past, record->past, sizeof(record->past));
    job->run.n_past = record->n_past;
    int rc = fill(r, job, record);
    if (rc) {
        job_free(r, job);
        return rc;
    }
    verdict_begin_run(job, (struct budget){.used = record->restarts,
                                           .failed_epochs = record->failed_epochs,
                                           .backoff_ms = record->backoff_ms,
                                           .has_progressed = record->has_progressed});
    persist_restore(&job->persist, record);
    /* A later record of the same epoch, with longer leases, may not have reached the disk: members
     * may have been sent a fence that this record does not have. */
    struct tfe_mono fenced = lease_longest_fence_end(r, r->now, record->fence_ms);
    fence_set_unknown(&job->fence, fenced);
    if (record->over) {
        restore_end(job, record, fenced);
    } else {
        adopt(r, job, record, fenced);
    }
    job_update_visible_state(r, job, record->over ? record->ended : (struct tfe_wall){0});
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
