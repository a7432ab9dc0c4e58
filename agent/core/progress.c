/* agent/core/progress.c: implementation of progress.h. */
#include "agent/core/progress.h"

/* Minimum time between two PROGRESS messages about steps, which may take only 1 ms each. */
#define TELL_EVERY_MS 200

/* Returns the time until the next message. It grows with the number of nodes, with jitter, so that
 * the server receives at most about 1000 messages per second from one job. */
static int64_t tell_every_ms(const struct progress *p, struct turn *t)
{
    return p->nodes <= TELL_EVERY_MS ? TELL_EVERY_MS
                                     : (int64_t)rng_between(&t->rng, p->nodes, 2 * p->nodes);
}

void progress_begin(struct progress *p, const struct turn *t, uint64_t epoch, uint32_t nodes)
{
    const struct msg_memory memory = p->memory;
    *p = (struct progress){.all = {.epoch = epoch, .memory = memory},
                           .memory = memory,
                           .nodes = nodes,
                           .is_told = true,
                           .next = t->now};
}

void progress_again(struct progress *p, const struct turn *t, uint64_t epoch)
{
    progress_begin(p, t, epoch, p->nodes);
}

void progress_end(struct progress *p)
{
    p->all.epoch = 0;
}

static void tell(struct progress *p, struct turn *t)
{
    p->is_told = true;
    p->next = turn_in(t, tell_every_ms(p, t));
    turn_send(t, MSG_PROGRESS)->u.progress = p->all;
}

/* Keeps the higher step. All trainers of an epoch do the same steps, but their reports may arrive
 * in any order. */
static void newer(bool *has, uint64_t *step, bool told_has, uint64_t told_step)
{
    if (told_has && (!*has || told_step > *step)) {
        *has = true;
        *step = told_step;
    }
}

static bool is_same_memory(const struct msg_memory *a, const struct msg_memory *b)
{
    return a->bytes == b->bytes && a->has_kept == b->has_kept && a->epoch == b->epoch &&
           a->step == b->step;
}

int progress_take(struct progress *p, struct turn *t, uint32_t local,
                  const struct msg_progress *told)
{
    if (local >= t->config.spec.nproc) {
        return TFE_EINVAL;
    }
    if (p->all.epoch == 0 || told->epoch != p->all.epoch) {
        return 0; /* report of an earlier epoch's trainers */
    }
    struct msg_progress was = p->all;
    uint64_t bit = UINT64_C(1) << local;
    p->listeners = told->listens ? p->listeners | bit : p->listeners & ~bit;
    p->all.listens = p->listeners != 0;
    newer(&p->all.has_step, &p->all.step, told->has_step, told->step);
    newer(&p->all.has_saved, &p->all.saved_step, told->has_saved, told->saved_step);
    p->all.saves = told->saves > was.saves ? told->saves : was.saves;
    p->all.answers = told->answers > was.answers ? told->answers : was.answers;
    p->all.kept_answers =
        told->kept_answers > was.kept_answers ? told->kept_answers : was.kept_answers;
    p->all.memory = p->memory = told->memory;
    p->all.has_from = told->has_from;
    p->all.from_step = told->from_step;
    p->all.ends = was.ends || told->ends;
    p->all.partitioned = was.partitioned || told->partitioned;
    bool is_urgent = p->all.saves != was.saves || p->all.answers != was.answers ||
                     p->all.listens != was.listens || p->all.has_saved != was.has_saved ||
                     p->all.saved_step != was.saved_step || p->all.ends != was.ends ||
                     p->all.partitioned != was.partitioned ||
                     p->all.kept_answers != was.kept_answers;
    bool is_known = p->all.has_step == was.has_step && p->all.step == was.step &&
                    p->all.has_from == was.has_from && p->all.from_step == was.from_step &&
                    is_same_memory(&p->all.memory, &was.memory);
    if (!is_urgent && is_known) {
        return 0;
    }
    p->is_told = false;
    if (t->is_up && (is_urgent || turn_is_past(t, p->next))) {
        tell(p, t);
    }
    return 0;
}

void progress_set_alone(struct progress *p, struct turn *t, uint64_t epoch)
{
    if (p->all.epoch == 0 || p->all.epoch != epoch || p->all.alone) {
        return;
    }
    p->all.alone = true;
    p->is_told = false;
    if (t->is_up) {
        tell(p, t);
    }
}

void progress_welcome(struct progress *p, struct turn *t)
{
    const struct msg_progress *all = &p->all;
    bool is_told = all->has_step || all->has_saved || all->saves || all->listens || all->ends ||
                   all->partitioned || all->alone;
    if (p->all.epoch != 0 && (is_told || all->memory.bytes > 0)) {
        tell(p, t); /* the server may have lost its records */
    }
}

void progress_tick(struct progress *p, struct turn *t)
{
    if (turn_is_past(t, progress_deadline(p, t))) {
        tell(p, t);
    }
}

const struct msg_memory *progress_memory(const struct progress *p)
{
    return &p->memory;
}

struct tfe_mono progress_deadline(const struct progress *p, const struct turn *t)
{
    return p->all.epoch != 0 && !p->is_told && t->is_up ? p->next : TFE_MONO_NEVER;
}
