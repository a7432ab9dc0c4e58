/* common/records/epoch_summary.c: computes from a job's ledger how long training ran and stood
 * still, and why. */
#include "common/records/epoch_summary.h"

#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* If no progress is ever reported, an epoch of this duration counts as trained (design 1,
 * progress). */
#define PROGRESS_MS 60000

/* Returns the first of these times that is known, or -1. */
static int64_t first_known(const struct msg_epoch_row *row, const enum tfe_epoch_time *which,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (row->at[which[i]].ms != 0) {
            return row->at[which[i]].ms;
        }
    }
    return -1;
}

static bool has_step(const struct msg_epoch_row *row)
{
    return row->at[EPOCH_PROGRESSED].ms != 0 || row->has_lost;
}

/* Returns the i-th record, or NULL if it does not exist or is not an epoch. */
static struct epoch_record *epoch_at(const struct record_list *ledger, size_t i)
{
    return i < ledger->n && ledger->v[i].schema == &schema_epoch ? ledger->v[i].at : NULL;
}

/* True if the run reports steps at all. Then an epoch's training begins with its first step, and an
 * epoch without a step has not trained. */
static bool has_step_counts(const struct record_list *ledger, uint32_t run)
{
    for (size_t i = 0; i < ledger->n; i++) {
        const struct epoch_record *r = epoch_at(ledger, i);
        if (r && r->row.run == run && has_step(&r->row)) {
            return true;
        }
    }
    return false;
}

static bool has_new_checkpoint(const struct epoch_record *before, const struct epoch_record *r)
{
    return r->row.has_saved &&
           (!before || !before->row.has_saved || r->row.saved_step > before->row.saved_step);
}

/* True if the epoch's trainers failed before they made any progress. `failed` says that the epoch
 * ended by a failure of its trainers. */
static bool failed_early(const struct epoch_record *before, const struct epoch_record *r,
                         bool failed)
{
    return failed && r->began >= 0 && r->ended - r->began < PROGRESS_MS &&
           !has_new_checkpoint(before, r);
}

/* Marks an epoch that has not trained: its whole time is standstill, from the end of the previous
 * epoch to its own end. */
static void mark_standstill(struct epoch_record *r, const struct epoch_record *before,
                            int64_t until)
{
    int64_t since = before ? before->ended : r->began;
    r->running = until >= 0 ? 0 : -1;
    if (before || r->ended >= 0) { /* a first epoch does not count as standstill until it ends */
        r->standstill = since >= 0 && until >= since ? until - since : -1;
        r->is_lower_bound = r->ended < 0 && r->standstill >= 0;
    }
}

/* Computes an epoch's times. before: previous epoch of the same run, or NULL. until: end of the
 * epoch, or now while it runs; -1 if unknown. */
static void compute(struct epoch_record *r, const struct epoch_record *before, int64_t until,
                    bool failed, bool has_steps)
{
    static const enum tfe_epoch_time trained[] = {EPOCH_PROGRESSED, EPOCH_LISTENING, EPOCH_STARTED,
                                                  EPOCH_COMMITTED};
    r->began = first_known(&r->row, trained, COUNT(trained));
    r->standstill = 0;
    r->is_lower_bound = false;
    if (has_steps ? !has_step(&r->row) : failed_early(before, r, failed)) {
        mark_standstill(r, before, until);
        return;
    }
    r->running = r->began >= 0 && until >= r->began ? until - r->began : -1;
    if (before) {
        bool is_known = before->ended >= 0 && r->began >= before->ended;
        r->standstill = is_known ? r->began - before->ended : -1;
        r->is_lower_bound = is_known && r->row.at[EPOCH_PROGRESSED].ms == 0;
    }
}

static const struct msg_status_job *job_of(const struct record_list *ledger)
{
    for (size_t i = ledger->n; i-- > 0;) {
        if (ledger->v[i].schema == &schema_job) {
            return ledger->v[i].at;
        }
    }
    return NULL;
}

/* True if the job's newest epoch runs, or is being committed. */
static bool is_on(const struct msg_status_job *job)
{
    return job->state == STATE_RUNNING || strcmp(job->phase, "committing") == 0;
}

void epochs_compute(struct record_list *ledger, struct tfe_wall now)
{
    static const enum tfe_epoch_time due[] = {EPOCH_STOPPED, EPOCH_DETECTED, EPOCH_GATHERED,
                                              EPOCH_COMMITTED};
    const struct msg_status_job *job = job_of(ledger);
    const struct epoch_record *before = NULL;
    bool has_steps = false;
    for (size_t i = 0; i < ledger->n; i++) {
        struct epoch_record *r = epoch_at(ledger, i);
        const struct epoch_record *next = epoch_at(ledger, i + 1);
        if (!r) {
            continue;
        }
        if (!before || before->row.run != r->row.run) {
            before = NULL;
            has_steps = has_step_counts(ledger, r->row.run);
        }
        r->ended = r->row.at[EPOCH_ENDED].ms != 0 ? r->row.at[EPOCH_ENDED].ms : -1;
        if (r->ended < 0 && next) {
            r->ended = first_known(&next->row, due, COUNT(due));
        }
        bool runs = !next && !r->row.over && job && is_on(job);
        bool failed = r->row.failed || (next && next->row.run == r->row.run &&
                                        next->row.cause == CAUSE_TRAINER_FAILED);
        compute(r, before,
                r->ended >= 0 ? r->ended
                : runs        ? now.ms
                              : -1,
                failed && r->ended >= 0, has_steps);
        if (!next && job && job->run == r->row.run && r->began > 0 && job->saved.ms >= r->began) {
            r->saved = job->saved.ms;
            if (!r->row.over && job->has_saved) { /* the ledger has it once the epoch has ended */
                r->row.has_saved = true;
                r->row.saved_step = job->saved_step;
            }
        }
        before = r;
    }
}

/* Returns the time since the end of the last epoch if the job is not training now, or -1. */
static int64_t standstill_now(const struct record_list *ledger, struct tfe_wall now)
{
    const struct msg_status_job *job = job_of(ledger);
    const struct epoch_record *last = NULL;
    for (size_t i = 0; i < ledger->n; i++) {
        const struct epoch_record *r = epoch_at(ledger, i);
        last = r ? r : last;
    }
    if (!job || !last || msg_job_is_over(job->state) || job->state == STATE_RUNNING ||
        last->row.run != job->run || last->ended < 0) {
        return -1;
    }
    return now.ms > last->ended ? now.ms - last->ended : 0;
}

void epochs_sum(const struct record_list *ledger, struct tfe_wall now, struct epochs_total *ret)
{
    *ret = (struct epochs_total){.useful = -1, .job = job_of(ledger)};
    ret->now = standstill_now(ledger, now);
    for (size_t i = 0; i < ledger->n; i++) {
        const struct epoch_record *r = epoch_at(ledger, i);
        if (!r) {
            continue;
        }
        ret->running += r->running > 0 ? r->running : 0;
        if (r->standstill > 0) {
            ret->standstill_all += r->standstill;
            ret->standstill[(unsigned)r->row.cause % EPOCHS_CAUSES] += r->standstill;
            ret->is_lower_bound = ret->is_lower_bound || r->is_lower_bound;
        }
        if (r->row.has_lost) {
            ret->has_lost = true;
            ret->lost_steps += r->row.lost_steps;
        }
    }
    if (ret->now >= 0) {
        ret->standstill_all += ret->now;
        ret->is_lower_bound = true;
    }
    int64_t all = ret->running + ret->standstill_all;
    if (all > 0) {
        ret->useful = 100.0 * (double)ret->running / (double)all;
    }
}
