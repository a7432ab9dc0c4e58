/* agent/core/progress.c: implementation of progress.h. */
#include "agent/core/progress.h"

/* Minimum time between two PROGRESS messages about steps, which may take only 1 ms each. */
#define SEND_INTERVAL_MS 200

/* Returns the time until the next message. It grows with the number of nodes, with jitter, so that
 * the server receives at most about 1000 messages per second from one job. */
static int64_t send_interval_ms(const struct progress *p, struct step_context *t)
{
    return p->nodes <= SEND_INTERVAL_MS ? SEND_INTERVAL_MS
                                        : (int64_t)rng_between(&t->rng, p->nodes, 2 * p->nodes);
}

void progress_begin(struct progress *p, const struct step_context *t, uint64_t epoch,
                    uint32_t nodes)
{
    *p = (struct progress){.all = {.epoch = epoch, .memory = p->all.memory},
                           .nodes = nodes,
                           .is_sent = true,
                           .next_send_at = t->now};
}

void progress_restart(struct progress *p, const struct step_context *t, uint64_t epoch)
{
    progress_begin(p, t, epoch, p->nodes);
}

void progress_end(struct progress *p)
{
    p->all.epoch = 0;
}

static void send_progress(struct progress *p, struct step_context *t)
{
    p->is_sent = true;
    p->next_send_at = step_deadline_in(t, send_interval_ms(p, t));
    step_send(t, MSG_PROGRESS)->u.progress = p->all;
}

/* Keeps the higher step. All trainers of an epoch do the same steps, but their reports may arrive
 * in any order. */
static void keep_higher(bool *has, uint64_t *step, bool has_new, uint64_t new_step)
{
    if (has_new && (!*has || new_step > *step)) {
        *has = true;
        *step = new_step;
    }
}

static bool is_same_memory(const struct msg_memory *a, const struct msg_memory *b)
{
    return a->bytes == b->bytes && a->has_snapshot == b->has_snapshot && a->epoch == b->epoch &&
           a->step == b->step;
}

int progress_apply(struct progress *p, struct step_context *t, uint32_t local,
                   const struct msg_progress *report)
{
    if (local >= t->config.spec.nproc) {
        return TFE_EINVAL;
    }
    if (p->all.epoch == 0 || report->epoch != p->all.epoch) {
        return 0; /* report of an earlier epoch's trainers */
    }
    struct msg_progress was = p->all;
    uint64_t bit = UINT64_C(1) << local;
    p->listeners = report->listens ? p->listeners | bit : p->listeners & ~bit;
    p->all.listens = p->listeners != 0;
    keep_higher(&p->all.has_step, &p->all.step, report->has_step, report->step);
    keep_higher(&p->all.has_saved, &p->all.saved_step, report->has_saved, report->saved_step);
    p->all.saves = report->saves > was.saves ? report->saves : was.saves;
    p->all.answers = report->answers > was.answers ? report->answers : was.answers;
    p->all.snapshot_answers = report->snapshot_answers > was.snapshot_answers
                                  ? report->snapshot_answers
                                  : was.snapshot_answers;
    p->all.memory = report->memory;
    p->all.has_from = report->has_from;
    p->all.from_step = report->from_step;
    p->all.ends = was.ends || report->ends;
    p->all.partitioned = was.partitioned || report->partitioned;
    bool is_urgent = p->all.saves != was.saves || p->all.answers != was.answers ||
                     p->all.listens != was.listens || p->all.has_saved != was.has_saved ||
                     p->all.saved_step != was.saved_step || p->all.ends != was.ends ||
                     p->all.partitioned != was.partitioned ||
                     p->all.snapshot_answers != was.snapshot_answers;
    bool is_unchanged = p->all.has_step == was.has_step && p->all.step == was.step &&
                        p->all.has_from == was.has_from && p->all.from_step == was.from_step &&
                        is_same_memory(&p->all.memory, &was.memory);
    if (!is_urgent && is_unchanged) {
        return 0;
    }
    p->is_sent = false;
    if (t->is_up && (is_urgent || step_is_past(t, p->next_send_at))) {
        send_progress(p, t);
    }
    return 0;
}

void progress_set_alone(struct progress *p, struct step_context *t, uint64_t epoch)
{
    if (p->all.epoch == 0 || p->all.epoch != epoch || p->all.alone) {
        return;
    }
    p->all.alone = true;
    p->is_sent = false;
    if (t->is_up) {
        send_progress(p, t);
    }
}

void progress_welcome(struct progress *p, struct step_context *t)
{
    const struct msg_progress *all = &p->all;
    bool is_sent = all->has_step || all->has_saved || all->saves || all->listens || all->ends ||
                   all->partitioned || all->alone;
    if (p->all.epoch != 0 && (is_sent || all->memory.bytes > 0)) {
        send_progress(p, t); /* the server may have lost its records */
    }
}

void progress_tick(struct progress *p, struct step_context *t)
{
    if (step_is_past(t, progress_deadline(p, t))) {
        send_progress(p, t);
    }
}

const struct msg_memory *progress_memory(const struct progress *p)
{
    return &p->all.memory;
}

struct tfe_mono progress_deadline(const struct progress *p, const struct step_context *t)
{
    return p->all.epoch != 0 && !p->is_sent && t->is_up ? p->next_send_at : TFE_MONO_NEVER;
}
