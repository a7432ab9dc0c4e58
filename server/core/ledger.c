/* server/core/ledger.c: the rows of the ledger: why each epoch began, and what its beginning cost.
 */
#include "server/core/ledger.h"

#include <string.h>

#include "server/core/core.h"

static struct rdzv_ledger *row(struct job *job)
{
    return &job->ledger.v[job->ledger.current];
}

static void tell(struct rdzv *r, struct job *job)
{
    if (row(job)->epoch != 0) {
        send_ledger(r, row(job));
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
    struct ledger *l = &job->ledger;
    if (!job->has_cause || job->is_planned) {
        memcpy(l->next_blamed, node->name, strlen(node->name) + 1);
    }
}

static void begin_row(struct job *job)
{
    struct ledger *l = &job->ledger;
    l->current = !l->current;
    *row(job) = (struct rdzv_ledger){
        .job = job->name.text,
        .run = job->run,
        .epoch = job->epoch.number,
        .cause = job->epoch.cause,
        .blamed = l->blamed[l->current],
        .n_members = job->epoch.n_seats,
        .detected = TFE_MONO_NEVER,
        .stopped = TFE_MONO_NEVER,
        .gathered = TFE_MONO_NEVER,
        .committed = TFE_MONO_NEVER,
        .started = TFE_MONO_NEVER,
        .listening = TFE_MONO_NEVER,
        .progressed = TFE_MONO_NEVER,
        .ended = TFE_MONO_NEVER,
    };
    memcpy(l->blamed[l->current], l->next_blamed, sizeof(l->next_blamed));
}

void ledger_stop(struct rdzv *r, struct job *job)
{
    struct ledger *l = &job->ledger;
    const struct plan *p = &job->plan;
    l->next_planned = job->is_planned && job->epoch.opened;
    l->next_stopped = job->epoch.opened ? r->now : TFE_MONO_NEVER;
    l->next_detected = !job->is_planned                    ? r->now
                       : p->n_leaving > 0                  ? p->noticed_at
                       : tfe_mono_is_never(p->newcomer_at) ? r->now
                                                           : p->newcomer_at;
    if (job->epoch.opened && tfe_mono_is_never(row(job)->ended)) {
        row(job)->ended = r->now;
        tell(r, job);
    }
}

void ledger_close(struct rdzv *r, struct job *job)
{
    struct rdzv_ledger *v = row(job);
    const struct told *told = &job->epoch.told;
    const struct plan *p = &job->plan;
    if (v->epoch == 0 || v->is_over) {
        return;
    }
    v->ended = tfe_mono_is_never(v->ended) ? r->now : v->ended;
    v->has_saved = p->has_saved;
    v->saved_step = p->saved_step;
    if (told->has_step && p->has_saved) {
        v->has_lost = true;
        v->lost_steps = told->step > p->saved_step ? told->step - p->saved_step : 0;
    }
    v->is_over = true;
    tell(r, job);
}

void ledger_form(struct rdzv *r, struct job *job)
{
    struct ledger *l = &job->ledger;
    begin_row(job);
    row(job)->planned = l->next_planned;
    row(job)->detected = l->next_detected;
    row(job)->stopped = l->next_stopped;
    row(job)->gathered = r->now;
    ledger_begin_run(job);
}

void ledger_open(struct rdzv *r, struct job *job)
{
    row(job)->committed = r->now;
    row(job)->started = r->now;
    tell(r, job);
}

void ledger_listening(struct rdzv *r, struct job *job)
{
    row(job)->listening = r->now;
    tell(r, job);
}

void ledger_progressed(struct rdzv *r, struct job *job)
{
    row(job)->progressed = r->now;
    tell(r, job);
}

void ledger_adopt(struct job *job)
{
    begin_row(job);
}
