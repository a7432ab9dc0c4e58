/* server/store/writer_private.h: the inside of the writer: what loop and thread share. */
#ifndef TFE_SERVER_STORE_WRITER_PRIVATE_H
#define TFE_SERVER_STORE_WRITER_PRIVATE_H

#include <pthread.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/id.h"
#include "server/store/writer.h"

struct event;

struct item {
    STAILQ_ENTRY(item) link;
    struct rdzv_record *record;
    int err;
};
STAILQ_HEAD(item_list, item);

struct row_item {
    STAILQ_ENTRY(row_item) link;
    struct tfe_id job;
    struct ledger_page page; /* of one row */
};
STAILQ_HEAD(row_item_list, row_item);

struct writer_ask {
    STAILQ_ENTRY(writer_ask) link;
    writer_answer_fn fn; /* the loop's; NULL: nobody wants to know */
    void *ctx;
    char *path; /* of a backup; NULL: it asks for a page */
    struct tfe_id job;
    uint64_t after;
    uint32_t max;
    struct ledger_page page;
    int err;
    struct tfe_why why;
};
STAILQ_HEAD(ask_list, writer_ask);

/* How the last transaction of a kind went. */
struct condition {
    int err;
    struct tfe_why why;
};
enum { CONDITION_RECORDS, CONDITION_ROWS, CONDITION__COUNT };

struct writer {
    struct writer_config config;
    struct event *on_done;
    pthread_t thread;
    int done_fd;
    bool started;
    struct condition told[CONDITION__COUNT]; /* what the loop was told last */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t wake;
    struct item_list queue;
    struct item_list done;
    struct row_item_list rows;
    uint32_t n_rows;
    struct ask_list asks;
    struct ask_list answered;
    struct condition now[CONDITION__COUNT];
    bool stop;

    /* The thread's own. */
    struct writer_ask *backup;  /* under way */
    struct tfe_mono rows_again; /* when rows that were not written are tried again */
    struct tfe_mono prune_next;
};

void item_free(struct item *item);
void row_item_free(struct row_item *row);
void ask_free(struct writer_ask *ask);

/* The thread's main; ctx is a struct writer. */
void *writer_work(void *ctx);

#endif
