/* server/query/query_history.c: lists what only the store has (epochs, audit log) and makes
 * backups. Records are read from the store one page at a time. */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/base/id.h"
#include "common/cli/log.h"
#include "common/credentials/state_dir.h"
#include "server/jobs/job_registry.h"
#include "server/query/store_rows.h"
#include "server/session.h"

#define PAGE_ROWS 100

struct history_rows {
    struct store_rows store;
    const struct sessions *all; /* NULL for the audit log */
    struct tfe_id job;
    uint64_t after; /* number of the last record sent */
    bool has_sent_job;
    struct registry_texts texts; /* texts of the job's row */
};

/* Returns the next record of the page. Returns NULL after the last one, and requests the next
 * page unless the store has no more. */
static const void *next_record(struct history_rows *s)
{
    const void *row = store_rows_next(&s->store);
    if (!row && !s->store.waits && !s->store.is_last && s->store.refusal == 0) {
        const struct store_page page = {.type = s->all ? MSG_EPOCH_ROW : MSG_AUDIT_ROW,
                                        .job = s->all ? s->job.text : NULL,
                                        .after = s->after,
                                        .max = PAGE_ROWS};
        store_rows_wait(&s->store, writer_read(s->store.writer, &page, store_rows_on_result, s,
                                               &s->store.request));
    }
    return row;
}

/* --- epochs of a job -------------------------------------------------------------------------- */

static int ledger_next(struct rows *rows, struct tfe_msg *ret)
{
    struct history_rows *s = (struct history_rows *)rows;
    const struct msg_epoch_row *row = next_record(s);
    if (row) {
        *ret = (struct tfe_msg){.type = MSG_EPOCH_ROW, .u.epoch_row = *row};
        s->after = row->epoch;
        return 0;
    }
    const int rc = store_rows_end(&s->store, MSG_STATUS_END, ret);
    if (rc != 0 || s->store.refusal != 0) {
        return rc;
    }
    /* The present state of the job, which the ledger does not contain. A job without epochs has a
     * state, too. */
    struct msg_status_job job;
    if (!s->has_sent_job && registry_find(s->all, s->job.text, &s->texts, &job) == 0) {
        *ret = (struct tfe_msg){.type = MSG_STATUS_JOB, .u.status_job = job};
        s->has_sent_job = true;
        return 0;
    }
    if (!s->has_sent_job && s->after == 0) {
        char sentence[sizeof(s->store.sentence)];
        (void)snprintf(sentence, sizeof(sentence),
                       "there is no job \"%s\" on this server and no record of one", s->job.text);
        store_rows_refuse(&s->store, REFUSAL_NO_SUCH_JOB, sentence);
        return store_rows_end(&s->store, MSG_STATUS_END, ret);
    }
    ret->u.status_end.jobs = 1;
    return 0;
}

int rows_ledger(const struct sessions *all, const char *job, struct rows **ret)
{
    static const struct rows_ops ops = {.next = ledger_next, .free = store_rows_free};
    struct history_rows *s = store_rows_new(&ops, sizeof(*s), all->writer, ret);
    if (!s) {
        return TFE_ENOMEM;
    }
    s->all = all;
    (void)id_set(&s->job, job); /* the codec has validated the id */
    return 0;
}

/* --- audit log -------------------------------------------------------------------------------- */

static int audit_next(struct rows *rows, struct tfe_msg *ret)
{
    struct history_rows *s = (struct history_rows *)rows;
    const struct msg_audit_row *row = next_record(s);
    if (row) {
        *ret = (struct tfe_msg){.type = MSG_AUDIT_ROW, .u.audit_row = *row};
        s->after = row->number;
        return 0;
    }
    return store_rows_end(&s->store, MSG_STATUS_END, ret);
}

int rows_audit(struct writer *writer, struct rows **ret)
{
    static const struct rows_ops ops = {.next = audit_next, .free = store_rows_free};
    return store_rows_new(&ops, sizeof(struct history_rows), writer, ret) ? 0 : TFE_ENOMEM;
}

/* --- backup ----------------------------------------------------------------------------------- */

static void on_copied(void *ctx, int rc, struct record_list *page, const char *reason)
{
    if (rc == 0) {
        log_info("backup_made");
    } else {
        log_warn("backup_failed", LOG_S("reason", reason));
    }
    store_rows_on_result(ctx, rc, NULL, reason);
}

static int backup_next(struct rows *rows, struct tfe_msg *ret)
{
    return store_rows_end((struct store_rows *)rows, MSG_DONE, ret);
}

int rows_backup(struct writer *writer, const char *dir, const char *name, struct rows **ret)
{
    static const struct rows_ops ops = {.next = backup_next, .free = store_rows_free};
    struct store_rows *s = store_rows_new(&ops, sizeof(*s), writer, ret);
    char path[PATH_MAX];
    struct tfe_reason reason;
    (void)mkdir(dir, 0700); /* errors of mkdir() are reported for the file */
    if (!s) {
        return TFE_ENOMEM;
    }
    int rc = state_dir_path(path, dir, name, &reason);
    if (rc == 0) {
        rc = writer_backup(writer, path, on_copied, s, &s->request);
    }
    store_rows_wait(s, rc);
    return 0;
}
