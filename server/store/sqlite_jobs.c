/* server/store/sqlite_jobs.c: job records and submitted jobs. */
#include <stdlib.h>
#include <string.h>

#include "server/store/sqlite_private.h"

/* --- writing of job records ------------------------------------------------------------------- */

/* The fields of a stored job that compare-and-set needs. */
struct stored_job {
    uint64_t epoch, sequence, incarnation;
    bool is_there;
};

static int read_stored_job(void *ctx, struct sqlite_row *row)
{
    struct stored_job *kept = ctx;
    kept->epoch = (uint64_t)column_int(row);
    kept->sequence = (uint64_t)column_int(row);
    kept->incarnation = (uint64_t)column_int(row);
    kept->is_there = true;
    return 0;
}

/* True if the record may replace the stored one: that is the predecessor named by the record, or an
 * earlier record of the same server process whose result the core had not received when it
 * submitted this one. */
static bool can_replace(const struct store_record *record, const struct stored_job *kept,
                        bool is_ours)
{
    if (record->epoch < kept->epoch) {
        return false; /* epoch numbers never decrease */
    }
    return record->predecessor == kept->epoch || (is_ours && kept->sequence <= record->sequence);
}

/* Compare-and-set: checks that the stored job is the one that the record follows. */
static int compare(struct store *s, const struct store_record *record, struct tfe_reason *reason)
{
    struct stored_job kept = {.is_there = false};
    int rc = sqlite_read(s, CALL("read a job", STATEMENT_CURRENT_JOB, V_TEXT(record->job.text)),
                         read_stored_job, &kept, reason);
    if (rc != 0 || (record->gone && !kept.is_there) || /* already deleted */
        can_replace(record, &kept, kept.is_there && kept.incarnation == s->incarnation)) {
        return rc;
    }
    reason_set(reason,
               "%s: job %s is at epoch %llu instead of %llu: another process has written to the "
               "database; this server exits, its agents continue",
               s->path, record->job.text, (unsigned long long)kept.epoch,
               (unsigned long long)record->predecessor);
    return TFE_ECONFLICT;
}

/* Deletes a job, a job of that name that was set aside, its ledger and its events. */
static int forget_job(struct store *s, const char *job, struct tfe_reason *reason)
{
    static const enum statement all[] = {STATEMENT_FORGET_JOB, STATEMENT_FORGET_LEDGER,
                                         STATEMENT_FORGET_EVENTS};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(all) / sizeof(all[0]); i++) {
        rc = sqlite_run(s, CALL("forget a job", all[i], V_TEXT(job)), reason);
    }
    return rc;
}

int store_put(struct store *s, const struct store_record *record, struct tfe_reason *reason)
{
    int rc = compare(s, record, reason);
    if (rc == 0 && record->gone) {
        return forget_job(s, record->job.text, reason);
    }
    return rc != 0 ? rc
                   : sqlite_run(s,
                                CALL("write a job", STATEMENT_PUT_JOB, V_TEXT(record->job.text),
                                     V_INT(record->epoch), V_INT(record->sequence),
                                     V_INT(s->incarnation), V_BYTES(record->bytes, record->n)),
                                reason);
}

/* --- reading of job records ------------------------------------------------------------------- */

struct loading {
    store_load_fn fn;
    void *ctx;
    char *aside; /* names of jobs to set aside, each with its NUL */
    size_t n_aside;
};

static int add_aside(struct loading *l, const char *job)
{
    const size_t n = strlen(job) + 1;
    char *names = realloc(l->aside, l->n_aside + n);
    if (!names) {
        return TFE_ENOMEM;
    }
    memcpy(names + l->n_aside, job, n);
    l->aside = names;
    l->n_aside += n;
    return 0;
}

static int load_record(struct loading *l, const char *job, const uint8_t *bytes, size_t n,
                       const char **ret_fault)
{
    struct rdzv_record *record;
    int rc = job_record_unpack(job, bytes, n, &record);
    if (rc == TFE_EINVAL) {
        *ret_fault = "its record cannot be read";
        return 0;
    }
    rc = rc == 0 ? l->fn(l->ctx, record, NULL) : rc;
    free(record);
    if (rc == TFE_EINVAL || rc == TFE_EEXIST) {
        *ret_fault = "the record is inconsistent";
        return 0;
    }
    return rc;
}

static int load_row(void *ctx, struct sqlite_row *row)
{
    struct loading *l = ctx;
    const char *fault = NULL;
    size_t n;
    const char *job = column_text(row);
    const uint8_t *bytes = column_bytes(row, &n);
    if (row->failed) {
        return TFE_ENOMEM;
    }
    if (job[0] == SQLITE_ASIDE[0]) {
        (void)l->fn(l->ctx, &(struct rdzv_record){.job = job + 1}, "it was set aside earlier");
        return 0;
    }
    int rc = load_record(l, job, bytes, n, &fault);
    if (fault) {
        (void)l->fn(l->ctx, &(struct rdzv_record){.job = job}, fault);
        rc = add_aside(l, job);
    }
    return rc;
}

int store_load(struct store *s, store_load_fn fn, void *ctx, struct tfe_reason *reason)
{
    struct loading l = {.fn = fn, .ctx = ctx};
    int rc = sqlite_read(s, CALL_PLAIN("restore the jobs", STATEMENT_JOBS), load_row, &l, reason);
    for (size_t at = 0; rc == 0 && at < l.n_aside; at += strlen(l.aside + at) + 1) {
        rc = sqlite_run(s, CALL("set a job aside", STATEMENT_SET_ASIDE, V_TEXT(l.aside + at)),
                        reason);
    }
    free(l.aside);
    return rc;
}

/* --- submitted jobs --------------------------------------------------------------------------- */

int sqlite_put_submission(struct store *s, const struct store_submission *row,
                          struct tfe_reason *reason)
{
    static const char what[] = "write a job that was submitted";
    return row->is_gone
               ? sqlite_run(s, CALL(what, STATEMENT_FORGET_SUBMISSION, V_TEXT(row->job)), reason)
               : sqlite_run(s,
                            CALL(what, STATEMENT_PUT_SUBMISSION, V_TEXT(row->job),
                                 V_INT(row->number), V_BYTES(row->bytes, row->n)),
                            reason);
}

struct submissions {
    int (*fn)(void *ctx, const struct store_submission *row);
    void *ctx;
};

static int read_submission(void *ctx, struct sqlite_row *row)
{
    const struct submissions *to = ctx;
    struct store_submission of = {.job = column_text(row)};
    of.number = (uint64_t)column_int(row);
    of.bytes = column_bytes(row, &of.n);
    return row->is_bad || row->failed ? 0 : to->fn(to->ctx, &of);
}

int store_read_submissions(struct store *s,
                           int (*fn)(void *ctx, const struct store_submission *row), void *ctx,
                           struct tfe_reason *reason)
{
    struct submissions to = {fn, ctx};
    return sqlite_read(s, CALL_PLAIN("read the jobs that were submitted", STATEMENT_SUBMISSIONS),
                       read_submission, &to, reason);
}
