/* server/store/writer_private.h: internals of the writer, shared by the loop's side and the
 * thread. */
#ifndef TFE_SERVER_STORE_WRITER_PRIVATE_H
#define TFE_SERVER_STORE_WRITER_PRIVATE_H

#include <stdint.h>
#include <sys/queue.h>

#include "common/base/id.h"
#include "common/base/worker.h"
#include "server/store/writer.h"

/* A work item, pending or done. Exactly one of record, row and ask is set. */
struct work {
    STAILQ_ENTRY(work) link;
    struct store_record *record;
    enum tfe_msg_type type;         /* type of row */
    void *row;                      /* ledger row, or row to store */
    struct writer_request *request; /* the request that contains this item as its first member */
    struct tfe_id job;              /* job of row or ask */
    int rc;
};
STAILQ_HEAD(work_list, work);

struct writer_request {
    struct work work;
    writer_result_fn fn; /* result callback of the loop; NULL if the result is not wanted */
    void *ctx;
    int (*run)(void *run_ctx,
               struct tfe_reason *reason); /* function to run; NULL for an operation on the store */
    void *run_ctx;
    char *path;           /* path of a backup; NULL for a page, or to store work.row */
    struct store_page of; /* rows to read; its job is in work.job */
    struct record_list page;
    struct tfe_reason reason;
};

/* Work lists. The thread appends to the last two and removes from the others; the loop does the
 * reverse. */
enum { WORK_RECORDS, WORK_ROWS, WORK_REQUESTS, WORK_WRITTEN, WORK_ANSWERED, WORK__LISTS };

/* Result of the last transaction of a kind. */
struct condition {
    int rc;
    struct tfe_reason reason;
    struct tfe_mono since; /* in `reported`: time of the first consecutive failure */
};
enum { CONDITION_RECORDS, CONDITION_ROWS, CONDITION__COUNT };

struct writer {
    struct writer_config config;
    struct worker *worker;
    struct condition reported[CONDITION__COUNT]; /* last reported to the loop */

    /* Members protected by the worker's lock. */
    struct work_list lists[WORK__LISTS];
    uint32_t n_rows;
    struct condition now[CONDITION__COUNT];
    struct tfe_mono busy_since; /* start of the current transaction; NEVER if none */
    struct histogram writes;    /* durations of completed transactions */
    bool stop;

    /* Members that only the thread uses. */
    struct tfe_mono rows_again; /* time of the next attempt to write failed rows */
    struct tfe_mono prune_next;
};

/* Removes and returns the first item, or NULL if the list is empty. The lock is held, or no other
 * thread exists. */
static inline struct work *work_pop(struct work_list *list)
{
    struct work *work = STAILQ_FIRST(list);
    if (work) {
        STAILQ_REMOVE_HEAD(list, link);
    }
    return work;
}

/* Frees a work item. NULL is allowed. */
void work_free(struct work *work);

/* Main function of the thread; ctx is a struct writer. */
void writer_work(void *ctx);

#endif
