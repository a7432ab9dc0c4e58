/* server/query/query_history.c: lists what only the store has (epochs, audit log) and makes
 * backups. Rows are read from the store one page at a time. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/id.h"
#include "common/cli/log.h"
#include "common/credentials/state_dir.h"
#include "server/jobs/job_registry.h"
#include "server/query/record_source.h"
#include "server/session.h"
#include "server/store/writer.h"

#define PAGE_ROWS 100

struct store_rows {
    struct rows rows;
    struct writer *writer;
    const struct sessions *all;
    struct writer_request *ask; /* pending read or write of the store; NULL if there is none */
    struct tfe_id job;
    struct record_list page;
    size_t told; /* rows of the page that have been sent */
    uint64_t after;
    bool is_audit;
    bool last; /* true if the store has no rows after this page */
    bool any;
    bool told_job;
    struct registry_texts texts; /* texts of the job's row */
    enum tfe_refusal refusal;    /* 0 if the store did what was asked */
    char sentence[sizeof(struct tfe_reason)];
};

static int refuse(const struct store_rows *s, struct tfe_msg *ret)
{
    *ret = (struct tfe_msg){.type = MSG_REFUSED, .u.refused = {s->refusal, s->sentence}};
    return 0;
}

static void fail(struct store_rows *s, enum tfe_refusal refusal, const char *sentence)
{
    s->refusal = refusal;
    (void)snprintf(s->sentence, sizeof(s->sentence), "%s", sentence);
}

static void store_rows_free(struct rows *rows)
{
    struct store_rows *s = (struct store_rows *)rows;
    if (s->ask) {
        writer_cancel(s->writer, s->ask);
    }
    record_list_done(&s->page);
    free(s);
}

static struct store_rows *store_rows_new(const struct rows_ops *ops, struct writer *writer)
{
    struct store_rows *s = calloc(1, sizeof(*s));
    if (s) {
        s->rows.ops = ops;
        s->writer = writer;
    }
    return s;
}

/* --- epochs of a job, and the audit log (which belongs to no job) --- */

static void on_page(void *ctx, int rc, struct record_list *page, const char *reason)
{
    struct store_rows *s = ctx;
    s->ask = NULL;
    if (rc != 0) {
        fail(s, REFUSAL_STORE, reason);
    } else {
        record_list_done(&s->page);
        s->page = *page;
        *page = (struct record_list){.v = NULL};
        s->told = 0;
        s->last = s->page.n < PAGE_ROWS;
    }
    s->rows.wake(s->rows.wake_ctx);
}

/* Sets *ret to the present state of the job, which the ledger does not contain; a job without
 * epochs has a state, too. Returns false if it was sent before. */
static bool next_job(struct store_rows *s, struct tfe_msg *ret)
{
    *ret = (struct tfe_msg){.type = MSG_STATUS_JOB};
    if (s->told_job || registry_find(s->all, s->job.text, &s->texts, &ret->u.status_job) != 0) {
        return false;
    }
    s->told_job = true;
    return true;
}

static int ledger_next(struct rows *rows, struct tfe_msg *ret)
{
    struct store_rows *s = (struct store_rows *)rows;
    if (s->told < s->page.n) {
        const void *row = s->page.v[s->told++].at;
        *ret = (struct tfe_msg){.type = s->is_audit ? MSG_AUDIT_ROW : MSG_EPOCH_ROW};
        if (s->is_audit) {
            ret->u.audit_row = *(const struct msg_audit_row *)row;
        } else {
            ret->u.epoch_row = *(const struct msg_epoch_row *)row;
        }
        s->after = s->is_audit ? ret->u.audit_row.number : ret->u.epoch_row.epoch;
        s->any = true;
        return 0;
    }
    if (!s->last && s->refusal == 0) {
        if (s->ask || writer_read(s->writer, s->is_audit ? NULL : s->job.text, s->after, PAGE_ROWS,
                                  on_page, s, &s->ask) == 0) {
            return TFE_EMORE;
        }
        fail(s, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
    }
    if (s->refusal == 0 && !s->is_audit && next_job(s, ret)) {
        return 0;
    }
    if (s->refusal == 0 && !s->is_audit && !s->any && !s->told_job) {
        s->refusal = REFUSAL_NO_SUCH_JOB;
        (void)snprintf(s->sentence, sizeof(s->sentence),
                       "there is no job \"%s\" on this server, and none is remembered",
                       s->job.text);
    }
    if (s->refusal != 0) {
        return refuse(s, ret);
    }
    *ret = (struct tfe_msg){.type = MSG_STATUS_END, .u.status_end = {.jobs = !s->is_audit}};
    return 0;
}

static const struct rows_ops ledger_ops = {.next = ledger_next, .free = store_rows_free};

int rows_ledger(const struct sessions *all, const char *job, struct rows **ret)
{
    struct store_rows *s = store_rows_new(&ledger_ops, all->writer);
    if (!s) {
        return TFE_ENOMEM;
    }
    s->all = all;
    (void)id_set(&s->job, job); /* the codec has validated the id */
    *ret = &s->rows;
    return 0;
}

int rows_audit(struct writer *writer, struct rows **ret)
{
    struct store_rows *s = store_rows_new(&ledger_ops, writer);
    if (!s) {
        return TFE_ENOMEM;
    }
    s->is_audit = true;
    *ret = &s->rows;
    return 0;
}

/* --- backup --- */

static void on_copied(void *ctx, int rc, struct record_list *page, const char *reason)
{
    struct store_rows *s = ctx;
    s->ask = NULL;
    if (rc == 0) {
        log_info("backup_made");
    } else {
        log_warn("backup_failed", LOG_S("reason", reason));
        fail(s, rc == TFE_EEXIST || rc == TFE_EINVAL ? REFUSAL_BAD_REQUEST : REFUSAL_STORE, reason);
    }
    s->rows.wake(s->rows.wake_ctx);
}

static int backup_next(struct rows *rows, struct tfe_msg *ret)
{
    struct store_rows *s = (struct store_rows *)rows;
    if (s->ask) {
        return TFE_EMORE;
    }
    if (s->refusal != 0) {
        return refuse(s, ret);
    }
    *ret = (struct tfe_msg){.type = MSG_DONE};
    return 0;
}

int rows_backup(struct writer *writer, const char *dir, const char *name, struct rows **ret)
{
    static const struct rows_ops ops = {.next = backup_next, .free = store_rows_free};
    struct store_rows *s = store_rows_new(&ops, writer);
    char path[PATH_MAX];
    struct tfe_reason reason;
    (void)mkdir(dir, 0700); /* errors of mkdir() are reported for the file */
    if (!s || state_dir_path(path, dir, name, &reason) != 0 ||
        writer_backup(writer, path, on_copied, s, &s->ask) != 0) {
        free(s);
        return TFE_ENOMEM;
    }
    *ret = &s->rows;
    return 0;
}
