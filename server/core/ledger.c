/* server/core/ledger.c: rows of the ledger: why each epoch began and how long its phases took. */
#include "server/core/ledger.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/job.h"
#include "server/core/job_progress.h"
#include "server/core/node.h"

/* Maximum number of lost nodes named in a text or row. */
#define LOST_NAMED 3u

static struct rdzv_ledger *current(struct job *job)
{
    return &job->ledger.v[job->ledger.current];
}

static void emit_row(struct rdzv *r, struct job *job, enum rdzv_ledger_change change)
{
    if (current(job)->row.epoch != 0) {
        struct rdzv_action *action = send_action(r, RDZV_LEDGER);
        action->ledger = current(job);
        action->change = change;
    }
}

void ledger_begin_run(struct job *job)
{
    struct ledger *l = &job->ledger;
    l->next_blamed[0] = '\0';
    l->next_planned = false;
    l->next_detected = l->next_stopped = TFE_MONO_NEVER;
}

void ledger_blame(struct job *job, const struct node *node)
{
    memcpy(job->ledger.next_blamed, node->name, strlen(node->name) + 1);
}

const char *ledger_blamed(struct job *job)
{
    struct ledger *l = &job->ledger;
    if (l->next_blamed[0] == '\0') {
        return NULL;
    }
    memcpy(l->sent_blamed, l->next_blamed, sizeof l->sent_blamed);
    return l->sent_blamed;
}

uint32_t ledger_add_lost(struct text *text, const struct job *job)
{
    uint32_t n = 0;
    for (uint32_t slot = 0; slot < job->epoch.n_slots; slot++) {
        const struct node *node = job->epoch.slots[slot];
        bool is_lost = !node_is_connected(node) && (!node->slot.is_accounted || node->slot.is_dead);
        if (is_lost && n++ < LOST_NAMED) {
            text_addf(text, "%s%s", n > 1 ? ", " : "", node->name[0] ? node->name : node->id.text);
        }
    }
    if (n > LOST_NAMED) {
        text_addf(text, " and %u more", n - LOST_NAMED);
    }
    return n;
}

void ledger_blame_lost(struct job *job)
{
    char names[TFE_LABEL_MAX + 1];
    struct text text;
    text_init(&text, names, sizeof(names));
    if (job->pending_switch.is_set && job->pending_switch.cause == CAUSE_NODE_LOST &&
        ledger_add_lost(&text, job) > 1) {
        memcpy(job->ledger.next_blamed, names, sizeof(names));
    }
}

void ledger_begin_row(struct job *job)
{
    struct ledger *l = &job->ledger;
    l->current = !l->current;
    *current(job) = (struct rdzv_ledger){.job = job->name.text,
                                         .row = {.run = job->run.number,
                                                 .epoch = job->epoch.number,
                                                 .cause = job->epoch.cause,
                                                 .blamed = l->blamed[l->current],
                                                 .members = job->epoch.n_slots}};
    for (size_t i = 0; i < EPOCH__TIMES; i++) {
        current(job)->at[i] = TFE_MONO_NEVER;
    }
    memcpy(l->blamed[l->current], l->next_blamed, sizeof(l->next_blamed));
}

void ledger_stop(struct rdzv *r, struct job *job, struct tfe_mono detected)
{
    struct ledger *l = &job->ledger;
    l->next_planned = job->pending_switch.is_planned && job->epoch.is_open;
    l->next_stopped = job->epoch.is_open ? r->now : TFE_MONO_NEVER;
    l->next_detected = detected;
    if (job->epoch.is_open && tfe_mono_is_never(current(job)->at[EPOCH_ENDED])) {
        current(job)->at[EPOCH_ENDED] = r->now;
        emit_row(r, job, LEDGER_OTHER);
    }
}

void ledger_close(struct rdzv *r, struct job *job)
{
    struct msg_epoch_row *row = &current(job)->row;
    struct tfe_mono *ended = &current(job)->at[EPOCH_ENDED];
    const struct progress *progress = &job->progress;
    const struct plan *p = &job->plan;
    uint64_t safe;
    if (row->epoch == 0 || row->over) {
        return;
    }
    *ended = tfe_mono_is_never(*ended) ? r->now : *ended;
    row->has_saved = p->has_saved;
    row->saved_step = p->saved_step;
    /* If the epoch never started, the known progress is that of the epoch before. */
    bool has_step = progress->has_step && job->epoch.is_open;
    job->ledger.has_reached = has_step;
    job->ledger.reached = progress->step;
    if (has_step && progress_safe_step(job, &safe)) {
        row->has_lost = true;
        row->lost_steps = progress->step > safe ? progress->step - safe : 0;
    }
    row->over = true;
    row->failed = job->persist.is_over && job->persist.ending == JOB_FAILED;
    emit_row(r, job, LEDGER_CLOSED);
}

void ledger_learn_from(struct rdzv *r, struct job *job, uint64_t step)
{
    const struct ledger *l = &job->ledger;
    struct rdzv_ledger *before = &job->ledger.v[!l->current];
    uint64_t lost = l->reached > step ? l->reached - step : 0;
    if (before->row.epoch == 0 || before->row.run != job->run.number || !l->has_reached ||
        (before->row.has_lost && before->row.lost_steps == lost)) {
        return;
    }
    before->row.has_lost = true;
    before->row.lost_steps = lost;
    send_action(r, RDZV_LEDGER)->ledger = before;
}

void ledger_form(struct rdzv *r, struct job *job)
{
    struct ledger *l = &job->ledger;
    ledger_begin_row(job);
    current(job)->row.planned = l->next_planned;
    current(job)->at[EPOCH_DETECTED] = l->next_detected;
    current(job)->at[EPOCH_STOPPED] = l->next_stopped;
    current(job)->at[EPOCH_GATHERED] = r->now;
    ledger_begin_run(job);
}

void ledger_open(struct rdzv *r, struct job *job)
{
    current(job)->at[EPOCH_COMMITTED] = r->now;
    ledger_note(r, job, EPOCH_STARTED);
}

void ledger_note(struct rdzv *r, struct job *job, enum tfe_epoch_time what)
{
    current(job)->at[what] = r->now;
    emit_row(r, job,
             what == EPOCH_STARTED      ? LEDGER_STARTED
             : what == EPOCH_PROGRESSED ? LEDGER_PROGRESSED
                                        : LEDGER_OTHER);
}

void ledger_count_restart(struct rdzv *r, struct job *job)
{
    current(job)->row.restarts++;
    emit_row(r, job, LEDGER_OTHER);
}
