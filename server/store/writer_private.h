/* server/store/writer_private.h: the inside of the writer: what loop and thread share. */
#ifndef TFE_SERVER_STORE_WRITER_PRIVATE_H
#define TFE_SERVER_STORE_WRITER_PRIVATE_H

#include <stdint.h>
#include <sys/queue.h>

#include "common/base/id.h"
#include "common/base/worker.h"
#include "server/store/writer.h"

/* Something that the thread is to do, or has done. One of record, row and ask is there. */
struct work {
    STAILQ_ENTRY(work) link;
    struct store_record *record;
    enum tfe_msg_type type; /* of row */
    void *row;              /* of the ledger, or to be kept */
    struct writer_ask *ask; /* the one that this is the first member of */
    struct tfe_id job;      /* of row and ask */
    int rc;
};
STAILQ_HEAD(work_list, work);

struct writer_ask {
    struct work work;
    writer_answer_fn fn; /* the loop's; NULL: nobody wants to know */
    void *ctx;
    int (*run)(void *run_ctx,
               struct tfe_reason *reason); /* NULL: it asks for something of the store */
    void *run_ctx;
    char *path; /* of a backup; NULL: it asks for a page, or for its work.row to be kept */
    uint64_t after;
    uint32_t max;
    struct store_page of; /* max 0: it asks for no events; of.job is the work's */
    struct row_list page;
    struct tfe_reason reason;
};

/* The thread appends to the last two and takes from the others; the loop the other way round. */
enum { WORK_RECORDS, WORK_ROWS, WORK_ASKS, WORK_WRITTEN, WORK_ANSWERED, WORK__LISTS };

/* How the last transaction of a kind went. */
struct condition {
    int rc;
    struct tfe_reason reason;
    struct tfe_mono since; /* told: the first of its kind in a row */
};
enum { CONDITION_RECORDS, CONDITION_ROWS, CONDITION__COUNT };

struct writer {
    struct writer_config config;
    struct worker *worker;
    struct condition told[CONDITION__COUNT]; /* what the loop was told last */

    /* Under the worker's lock. */
    struct work_list lists[WORK__LISTS];
    uint32_t n_rows;
    struct condition now[CONDITION__COUNT];
    struct tfe_mono busy_since; /* a transaction is under way; NEVER */
    struct spread writes;       /* … and how long those took that are done */
    bool stop;

    /* The thread's own. */
    struct tfe_mono rows_again; /* when rows that were not written are tried again */
    struct tfe_mono prune_next;
};

/* The first of a list, taken out; NULL: there is none. With the lock held, or alone. */
static inline struct work *work_take(struct work_list *list)
{
    struct work *work = STAILQ_FIRST(list);
    if (work) {
        STAILQ_REMOVE_HEAD(list, link);
    }
    return work;
}

/* NULL is allowed. */
void work_free(struct work *work);

/* The thread's main; ctx is a struct writer. */
void writer_work(void *ctx);

#endif
