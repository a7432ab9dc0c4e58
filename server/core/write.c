/* server/core/write.c: what has to be on disk before anybody hears of it. */
#include "server/core/write.h"

#include "server/core/core.h"

/* DESIGN 8: a failed write is tried again, with back-off; the running epoch goes on meanwhile. */
#define WRITE_BACKOFF_FIRST_MS 1000
#define WRITE_BACKOFF_MAX_MS 60000

static uint32_t largest(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void ask(struct rdzv *r, struct job *job)
{
    job->write.is_open = true;
    job->write.again = TFE_MONO_NEVER;
    job->write.record.sequence = job->write.sequence;
    job->write.record.members = job->write.members;
    for (uint32_t seat = 0; seat < job->write.record.n_members; seat++) {
        job->write.members[seat].host =
            job->epoch.hosts[seat]; /* may have moved since, these too */
        job->write.members[seat].ports = job->write.ports + (size_t)seat * job->nproc;
    }
    if (job->write.asked_in != r->steps) {
        send_persist(r, &job->write.record); /* else the action of this step points there already */
    }
    job->write.asked_in = r->steps;
}

void write_job(struct rdzv *r, struct job *job)
{
    struct write *w = &job->write;
    const struct epoch *epoch = &job->epoch;
    for (uint32_t rank = 0; rank < epoch->n_seats * job->nproc; rank++) {
        w->ports[rank] = epoch->rows[rank].port;
    }
    for (uint32_t seat = 0; seat < epoch->n_seats; seat++) {
        const struct node *node = epoch->seats[seat];
        w->members[seat] = (struct rdzv_member){.node = node->id.text,
                                                .name = node->name,
                                                .host = epoch->hosts[seat],
                                                .join_order = node->join_order,
                                                .durable = node->durable,
                                                .drained = node->drained,
                                                .known_to = node->probe.verifiers,
                                                .n_known_to = node->probe.n_verifiers};
    }
    late_write(job, w->past);
    uint32_t ttl_ms = largest(lease_wanted_ms(r), largest(w->record.ttl_ms, job->granted_ttl_ms));
    w->record = (struct rdzv_record){
        .job = job->name.text,
        .min_nodes = job->min_nodes,
        .max_nodes = job->max_nodes,
        .nproc = job->nproc,
        .max_restarts = job->max_restarts,
        .gather_ms = job->gather_ms,
        .grow_wait_ms = job->grow_wait_ms,
        .stop_grace_ms = job->stop_grace_ms,
        .elastic_timeout_ms = job->elastic_timeout_ms,
        .chief_grace_ms = job->chief_grace_ms,
        .no_grow = job->no_grow,
        .script_digest = job->script_digest,
        .run = job->run,
        .run_key = job->run_key.text,
        .restarts = job->restarts,
        .fruitless = job->fault.fruitless,
        .backoff_ms = job->fault.backoff_ms,
        .has_progressed = job->has_progressed,
        .predecessor = job->durable_epoch,
        .epoch = epoch->number,
        .cause = epoch->cause,
        .ttl_ms = ttl_ms,
        .fence_ms = largest(lease_fence_ms(r, 2, ttl_ms), w->record.fence_ms),
        .over = w->is_over,
        .result = w->is_over ? job_result_of(w->ending) : 0,
        .sentence = w->is_over ? job->sentence : "",
        .ended = w->is_over ? job->ended : (struct tfe_wall){0},
        .members = w->members,
        .n_members = w->is_over ? 0 : epoch->n_seats,
        .past = w->past,
    };
    w->sequence++;
    w->proves = false;
    w->is_sure = false;
    w->backoff_ms = WRITE_BACKOFF_FIRST_MS;
    ask(r, job);
}

void write_in_turn(struct rdzv *r, struct job *job)
{
    if (job->write.is_open && job->write.record.epoch != job->durable_epoch) {
        job->write.is_due =
            true; /* it names what is on disk as predecessor: which is not known yet */
    } else {
        write_job(r, job);
    }
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
    ask(r, job);
}

void on_persisted(struct rdzv *r, struct job *job, uint64_t sequence)
{
    if (!job->write.is_open || sequence != job->write.sequence) {
        return; /* of a record that a later one has replaced */
    }
    job->write.is_open = false;
    job->write.again = TFE_MONO_NEVER;
    job->write.is_sure = job->write.proves;
    job->durable_epoch = job->write.record.epoch;
    job->durable_ttl_ms = job->write.record.ttl_ms;
    job_settle(r, job);
}

void on_persist_failed(struct rdzv *r, struct job *job, uint64_t sequence)
{
    struct write *w = &job->write;
    if (!w->is_open || sequence != w->sequence) {
        return;
    }
    w->again = tfe_mono_add(r->now, w->backoff_ms);
    send_trace(r, TRACE_WRITE_FAILED, job, NULL, w->backoff_ms, NULL);
    w->backoff_ms =
        w->backoff_ms * 2 < WRITE_BACKOFF_MAX_MS ? w->backoff_ms * 2 : WRITE_BACKOFF_MAX_MS;
    job_settle(r, job);
}

void on_conflict(struct rdzv *r)
{
    send_exit(r, "another server writes to the same store: this one ends, trainers go on");
}
