/* server/history.c: answers what only the store can answer: EPOCHS and BACKUP.
 *
 *   ask the writer ──► page ──► rows into the channel ──► next page … ──► STATUS_END
 *                                  └── queue high: look again soon */
#include "server/history.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/net/channel.h"
#include "common/net/limits.h"
#include "common/net/log.h"
#include "server/core/rdzv.h"
#include "server/store/writer.h"

#define PAGE_ROWS 100

/* As in status.c. */
#define QUEUE_HIGH (LIMIT_QUEUE_BYTES / 2)
#define LOOK_MS 20

struct history {
    struct writer *writer;
    const struct rdzv *core;
    struct channel *ch;
    struct event *timer;
    struct writer_ask *ask; /* NULL: the store owes nothing */
    struct tfe_id job;
    struct ledger_page page;
    size_t sent; /* rows of the page */
    uint64_t after;
    bool last; /* there is no page behind this one */
    bool any;
    bool over;
    bool moved;
};

static void say(struct history *h, const struct tfe_msg *msg)
{
    int err = channel_send(h->ch, msg);
    h->moved = true;
    if (err != 0) {
        h->over = true;
        if (!channel_ends_itself(err)) {
            channel_finish(h->ch, LIMIT_HANDSHAKE_MS); /* the asker would wait in vain */
        }
    }
}

static void refuse(struct history *h, enum tfe_refusal code, const char *sentence)
{
    struct tfe_msg msg = {.type = MSG_REFUSED, .u.refused = {.code = code, .sentence = sentence}};
    h->over = true;
    say(h, &msg);
}

/* What the ledger does not know, the core may: a job that has had no epoch yet. */
static bool core_knows(const struct history *h)
{
    struct msg_status_job job;
    const char *at = NULL;
    while (rdzv_view_job(h->core, at, &job) == 0) {
        int order = strcmp(job.job, h->job.text);
        if (order >= 0) {
            return order == 0;
        }
        at = job.job;
    }
    return false;
}

static void end(struct history *h)
{
    struct tfe_msg msg = {.type = MSG_STATUS_END, .u.status_end = {.jobs = 1}};
    char sentence[TFE_ID_MAX + 96];
    if (h->any || core_knows(h)) {
        say(h, &msg);
        h->over = true;
        return;
    }
    (void)snprintf(sentence, sizeof(sentence),
                   "there is no job \"%s\" on this server, and none is remembered", h->job.text);
    refuse(h, REFUSAL_NO_SUCH_JOB, sentence);
}

static void ask(struct history *h);

static void go_on(struct history *h)
{
    static const struct timeval soon = {.tv_usec = LOOK_MS * 1000};
    while (!h->over && h->sent < h->page.n) {
        if (channel_queued(h->ch) >= QUEUE_HIGH) {
            (void)evtimer_add(h->timer, &soon);
            return;
        }
        struct tfe_msg msg = {.type = MSG_EPOCH_ROW, .u.epoch_row = h->page.rows[h->sent++]};
        h->after = msg.u.epoch_row.epoch;
        h->any = true;
        say(h, &msg);
    }
    if (h->over) {
        return;
    }
    if (h->last) {
        end(h);
    } else {
        ask(h);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    go_on(ctx);
}

static void on_page(void *ctx, int err, struct ledger_page *page, const char *why)
{
    struct history *h = ctx;
    h->ask = NULL;
    if (err != 0) {
        refuse(h, REFUSAL_STORE, why);
        return;
    }
    ledger_page_done(&h->page);
    h->page = *page;
    *page = (struct ledger_page){.rows = NULL};
    h->sent = 0;
    h->last = h->page.n < PAGE_ROWS;
    go_on(h);
}

static void ask(struct history *h)
{
    if (writer_read(h->writer, h->job.text, h->after, PAGE_ROWS, on_page, h, &h->ask) != 0) {
        refuse(h, REFUSAL_LIMIT_REACHED, "the server is out of memory; try again later");
    }
}

static void on_copied(void *ctx, int err, struct ledger_page *page, const char *why)
{
    struct history *h = ctx;
    struct tfe_msg msg = {.type = MSG_DONE};
    (void)page;
    h->ask = NULL;
    if (err == 0) {
        log_info("backup_made");
        say(h, &msg);
        h->over = true;
    } else {
        log_warn("backup_failed", LOG_S("why", why));
        refuse(h, err == TFE_EEXIST || err == TFE_EINVAL ? REFUSAL_BAD_REQUEST : REFUSAL_STORE,
               why);
    }
}

int history_answer(struct event_base *base, struct writer *writer, const struct rdzv *core,
                   struct channel *ch, const struct tfe_msg *question, struct history **ret)
{
    struct history *h = calloc(1, sizeof(*h));
    if (h == NULL) {
        return TFE_ENOMEM;
    }
    *h = (struct history){.writer = writer, .core = core, .ch = ch};
    h->timer = evtimer_new(base, on_timer, h);
    int err = h->timer == NULL ? TFE_ENOMEM : 0;
    if (err == 0 && question->type == MSG_BACKUP) {
        err = writer_backup(writer, question->u.backup.path, on_copied, h, &h->ask);
    } else if (err == 0) {
        (void)id_set(&h->job, question->u.epochs.job); /* the codec has checked it */
        ask(h);
    }
    if (err != 0) {
        history_free(h);
        return err;
    }
    *ret = h;
    return 0;
}

bool history_is_over(const struct history *history)
{
    return history->over;
}

bool history_has_moved(struct history *history)
{
    bool moved = history->moved || history->ask != NULL;
    history->moved = false;
    return moved;
}

void history_free(struct history *history)
{
    if (history == NULL) {
        return;
    }
    if (history->ask != NULL) {
        writer_forget(history->writer, history->ask);
    }
    if (history->timer != NULL) {
        event_free(history->timer);
    }
    ledger_page_done(&history->page);
    free(history);
}
