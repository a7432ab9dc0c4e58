/* agent/core/progress.c: how far the trainers of this node have come, told to the server; and
 * asking their scripts to save. */
#include "agent/core/core.h"

/* Steps may take a millisecond; the server needs to hear of them only now and then … */
#define TELL_EVERY_MS 200

/* … and less than a thousand times a second of a large job: its nodes tell the same, and not all at
 * once. */
static int64_t tell_every_ms(struct agent *a)
{
    const uint32_t nodes = a->running.nodes;
    return nodes <= TELL_EVERY_MS ? TELL_EVERY_MS : (int64_t)rng_between(&a->rng, nodes, 2 * nodes);
}

void progress_begin(struct agent *a)
{
    a->progress = (struct progress){.is_told = true, .next = a->now};
}

static void tell(struct agent *a)
{
    struct progress *p = &a->progress;
    p->is_told = true;
    p->next = tfe_mono_add(a->now, tell_every_ms(a));
    act_send(a, MSG_PROGRESS)->u.progress = (struct msg_progress){
        .epoch = a->epoch,
        .has_step = p->all.has_step,
        .step = p->all.step,
        .has_saved = p->all.has_saved,
        .saved_step = p->all.saved_step,
        .saves = p->all.saves,
        .answers = p->all.answers,
        .listens = p->all.listens,
    };
}

int progress_take(struct agent *a, const struct agent_event *event)
{
    struct progress *p = &a->progress;
    const struct agent_progress *told = &event->progress;
    if (event->local >= a->config.nproc) {
        return TFE_EINVAL;
    }
    if (a->work == WORK_IDLE || event->epoch != a->epoch) {
        return 0; /* of trainers that have ended */
    }
    struct agent_progress was = p->all;
    uint64_t bit = UINT64_C(1) << event->local;
    p->listeners = told->listens ? p->listeners | bit : p->listeners & ~bit;
    p->all.listens = p->listeners != 0;
    /* All trainers of an epoch take the same steps; one may be heard of before another. */
    if (told->has_step && (!was.has_step || told->step > was.step)) {
        p->all.has_step = true;
        p->all.step = told->step;
    }
    if (told->has_saved && (!was.has_saved || told->saved_step > was.saved_step)) {
        p->all.has_saved = true;
        p->all.saved_step = told->saved_step;
    }
    p->all.saves = told->saves > was.saves ? told->saves : was.saves;
    p->all.answers = told->answers > was.answers ? told->answers : was.answers;
    bool is_urgent = p->all.saves != was.saves || p->all.answers != was.answers ||
                     p->all.listens != was.listens || p->all.has_saved != was.has_saved ||
                     p->all.saved_step != was.saved_step;
    if (!is_urgent && p->all.has_step == was.has_step && p->all.step == was.step) {
        return 0;
    }
    p->is_told = false;
    if (a->link.state == LINK_UP && (is_urgent || !tfe_mono_before(a->now, p->next))) {
        tell(a);
    }
    return 0;
}

void progress_welcome(struct agent *a)
{
    const struct agent_progress *all = &a->progress.all;
    if (a->work != WORK_IDLE && (all->has_step || all->has_saved || all->saves || all->listens)) {
        tell(a); /* the server may be another one, which knows nothing of it */
    }
}

void progress_tick(struct agent *a)
{
    if (!tfe_mono_before(a->now, progress_deadline(a))) {
        tell(a);
    }
}

struct tfe_mono progress_deadline(const struct agent *a)
{
    bool is_due = a->work != WORK_IDLE && !a->progress.is_told && a->link.state == LINK_UP;
    return is_due ? a->progress.next : TFE_MONO_NEVER;
}

void progress_ask(struct agent *a, const struct msg_save *save)
{
    if (a->work != WORK_RUNNING || save->epoch != a->epoch) {
        return; /* overtaken by its end */
    }
    struct agent_action *ask = act_push(a, AGENT_SAVE);
    ask->epoch = save->epoch;
    ask->number = save->number;
    ask->deadline =
        save->within_ms == MSG_UNSET ? TFE_MONO_NEVER : tfe_mono_add(a->now, save->within_ms);
}
