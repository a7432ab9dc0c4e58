/* server/core/write.c: writes a job's record, which must be durable before any node learns of its
 * contents. */
#include "server/core/write.h"

#include <string.h>

#include "common/base/backoff.h"
#include "server/core/job.h"
#include "server/core/sound.h"

/* design 8: a failed write is retried with back-off; the running epoch goes on meanwhile. */
#define WRITE_BACKOFF_FIRST_MS 1000
#define WRITE_BACKOFF_MAX_MS 60000

int write_reserve(struct rdzv *r, struct write *w, size_t rows, size_t seats)
{
    int rc = mem_resize(r->mem, &w->members, seats, sizeof(*w->members));
    return rc ? rc : mem_resize(r->mem, &w->ports, rows, sizeof(*w->ports));
}

void write_done(struct rdzv *r, struct write *w)
{
    mem_free(r->mem, w->members);
    mem_free(r->mem, w->ports);
}

void write_restore(struct write *w, const struct rdzv_record *record)
{
    w->sequence = record->sequence;
    w->record.ttl_ms = record->ttl_ms;
    w->record.fence_ms = record->fence_ms;
    w->durable_epoch = record->epoch;
    w->durable_ttl_ms = record->ttl_ms;
    w->granted_ttl_ms = record->ttl_ms;
}

void write_begin_run(struct write *w)
{
    w->is_over = false;
    w->again = TFE_MONO_NEVER;
}

/* Schedules a retry. reason: an error of this server itself, or NULL. */
static void put_off(struct rdzv *r, struct job *job, const char *reason)
{
    struct write *w = &job->write;
    w->backoff_ms = backoff_next(w->backoff_ms, WRITE_BACKOFF_FIRST_MS, WRITE_BACKOFF_MAX_MS);
    w->again = tfe_mono_add(r->now, w->backoff_ms);
    send_trace(r, TRACE_WRITE_FAILED, job, NULL, w->backoff_ms, reason);
}

/* Asks the I/O layer to write the record. A record that could not be read back is not written: this
 * job stands still, and the other jobs are not affected. */
static void ask(struct rdzv *r, struct job *job)
{
    struct write *w = &job->write;
    const struct table_copy *table = tables_present(&job->tables);
    w->is_open = true;
    w->again = TFE_MONO_NEVER;
    w->record.sequence = w->sequence;
    w->record.members = w->members;
    for (uint32_t seat = 0; seat < w->record.n_members; seat++) {
        /* these pointers may be stale, like those to the ports */
        w->members[seat].host = table->hosts[seat];
        w->members[seat].ports = w->ports + (size_t)seat * job->spec.nproc;
    }
    if (!record_is_sound(&w->record)) {
        put_off(r, job, "the record contradicts itself");
        return;
    }
    if (w->asked_in != r->steps) {
        send_action(r, RDZV_PERSIST)->record =
            &w->record; /* an action of this step already points to the record */
    }
    w->asked_in = r->steps;
}

static void list_members(struct job *job)
{
    struct write *w = &job->write;
    const struct epoch *epoch = &job->epoch;
    const struct table_copy *table = tables_present(&job->tables);
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        const struct node *node = epoch->seats[seat];
        uint16_t *ports = w->ports + (size_t)seat * job->spec.nproc;
        memcpy(ports, node->ready.ports, job->spec.nproc * sizeof(*ports));
        for (uint32_t local = 0; local < roster_trainers(job, seat); local++) {
            ports[local] = table->rows[roster_rank(job, seat) + local].port;
        }
        /* otherwise a proof of termination would be the other process's */
        bool is_its_own = !node->seat.is_taken_over;
        w->members[seat] =
            (struct rdzv_member){.node = node->id.text,
                                 .name = node->name,
                                 .host = table->hosts[seat],
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

void write_job(struct rdzv *r, struct job *job)
{
    struct write *w = &job->write;
    const struct epoch *epoch = &job->epoch;
    if (!w->is_gone) {
        list_members(job);
    }
    run_write_past(job, w->past);
    uint32_t ttl_ms = largest(lease_wanted_ms(r), largest(w->record.ttl_ms, w->granted_ttl_ms));
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
        .fruitless = job->budget.fruitless,
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
        .n_members = w->is_over || w->is_gone ? 0 : epoch->n_seats,
        .past = w->past,
    };
    w->sequence++;
    w->proves = false;
    w->is_sure = false;
    w->backoff_ms = 0;
    ask(r, job);
}

bool write_is_kept(const struct job *job)
{
    return job->epoch.n_seats > 0 && !job_is_over(job) && !job->write.is_over &&
           (job->state == JOB_COMMITTING || job->write.durable_epoch == job->epoch.number);
}

void write_in_turn(struct rdzv *r, struct job *job)
{
    if (job->write.is_open && job->write.record.epoch != job->write.durable_epoch) {
        job->write.is_due =
            /* the new record must name the stored epoch as its predecessor, which is unknown until
             * then */
            true;
    } else {
        write_job(r, job);
    }
}

void write_what_is_due(struct rdzv *r, struct job *job)
{
    struct write *w = &job->write;
    if (w->is_due && (!w->is_open || !tfe_mono_is_never(w->again))) {
        w->is_due = false;
        write_job(r, job);
    }
}

void write_end(struct rdzv *r, struct job *job, enum job_state ending)
{
    job->write.is_over = true;
    job->write.ending = ending;
    write_in_turn(r, job);
}

void write_gone(struct rdzv *r, struct job *job)
{
    job->write.is_gone = true;
    write_job(r, job);
}

bool write_is_sure(struct rdzv *r, struct job *job)
{
    struct write *w = &job->write;
    bool is_sure = w->is_sure;
    w->is_sure = false;
    if (!is_sure && !w->is_open) {
        write_job(r, job);
        w->proves = true;
    }
    return is_sure;
}

void write_again(struct rdzv *r, struct job *job)
{
    if (job->write.is_open && is_past(r, job->write.again)) {
        ask(r, job);
    }
}

bool write_take_done(struct job *job, uint64_t sequence)
{
    struct write *w = &job->write;
    if (!w->is_open || sequence != w->sequence) {
        return false; /* about a record that a later one has replaced */
    }
    w->is_open = false;
    w->again = TFE_MONO_NEVER;
    w->is_sure = w->proves;
    w->durable_epoch = w->record.epoch;
    w->durable_ttl_ms = w->record.ttl_ms;
    return true;
}

bool write_take_failure(struct rdzv *r, struct job *job, uint64_t sequence)
{
    struct write *w = &job->write;
    if (!w->is_open || sequence != w->sequence) {
        return false;
    }
    put_off(r, job, NULL);
    return true;
}
