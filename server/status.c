/* server/status.c: answers the question of STATUS, at the pace at which the asker reads. */
#include "server/status.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/net/channel.h"
#include "common/net/limits.h"
#include "server/core/rdzv.h"

/* Above this the answer waits: one row more and a REFUSED still fit. */
#define QUEUE_HIGH (LIMIT_QUEUE_BYTES / 2)

/* How soon to look whether the asker has read on. A half full queue lasts longer on most links. */
#define LOOK_MS 20

/* Names, not pointers: between two turns of the loop the core may change in any way. */
struct status_stream {
    const struct rdzv *core;
    struct channel *ch;
    struct event *timer;
    struct tfe_id job;  /* the one at hand, or the last one done; "" none yet */
    struct tfe_id node; /* the last one told; "" none yet */
    uint32_t n_jobs;
    bool one; /* only this job was asked for */
    bool in_job;
    bool over;
    bool moved;
};

static const char *after(const struct tfe_id *id)
{
    return id->text[0] != '\0' ? id->text : NULL;
}

static int send_job(struct status_stream *s)
{
    struct tfe_msg msg = {.type = MSG_STATUS_JOB};
    if (rdzv_view_job(s->core, after(&s->job), &msg.u.status_job) != 0) {
        struct tfe_msg end = {.type = MSG_STATUS_END, .u.status_end = {.jobs = s->n_jobs}};
        s->over = true;
        return channel_send(s->ch, &end);
    }
    int err = id_set(&s->job, msg.u.status_job.job);
    s->node.text[0] = '\0';
    s->in_job = true;
    s->n_jobs++;
    return err != 0 ? err : channel_send(s->ch, &msg);
}

static int send_node(struct status_stream *s)
{
    struct tfe_msg msg = {.type = MSG_STATUS_NODE};
    if (rdzv_view_node(s->core, s->job.text, after(&s->node), &msg.u.status_node) == 0) {
        int err = id_set(&s->node, msg.u.status_node.node);
        return err != 0 ? err : channel_send(s->ch, &msg);
    }
    s->in_job = false;
    if (!s->one) {
        return 0;
    }
    struct tfe_msg end = {.type = MSG_STATUS_END, .u.status_end = {.jobs = s->n_jobs}};
    s->over = true;
    return channel_send(s->ch, &end);
}

/* As much as the queue takes. */
static int run(struct status_stream *s)
{
    while (!s->over && channel_queued(s->ch) < QUEUE_HIGH) {
        int err = s->in_job ? send_node(s) : send_job(s);
        s->moved = true;
        if (err != 0) {
            s->over = true;
            return channel_ends_itself(err) ? 0 : TFE_ENOMEM;
        }
    }
    return 0;
}

static void look_again(struct status_stream *s)
{
    static const struct timeval soon = {.tv_usec = LOOK_MS * 1000};
    (void)evtimer_add(s->timer, &soon);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct status_stream *s = ctx;
    (void)fd;
    (void)what;
    if (run(s) != 0) {
        /* The asker would wait for an end that does not come. */
        channel_finish(s->ch, LIMIT_HANDSHAKE_MS);
    }
    if (!s->over) {
        look_again(s);
    }
}

/* Makes the stream stand before the job that is asked for. */
static bool find_job(const struct rdzv *core, const char *name, struct msg_status_job *ret)
{
    const char *at = NULL;
    while (rdzv_view_job(core, at, ret) == 0) {
        int order = strcmp(ret->job, name);
        if (order >= 0) {
            return order == 0;
        }
        at = ret->job;
    }
    return false;
}

static int refuse_unknown(struct channel *ch, const char *job)
{
    char sentence[TFE_ID_MAX + 64];
    (void)snprintf(sentence, sizeof(sentence), "there is no job \"%s\" on this server", job);
    struct tfe_msg msg = {.type = MSG_REFUSED,
                          .u.refused = {.code = REFUSAL_NO_SUCH_JOB, .sentence = sentence}};
    int err = channel_send(ch, &msg);
    return err == 0 || channel_ends_itself(err) ? 0 : TFE_ENOMEM;
}

int status_answer(struct event_base *base, const struct rdzv *core, struct channel *ch,
                  const struct msg_status *question, struct status_stream **ret_stream)
{
    struct status_stream stack = {.core = core, .ch = ch};
    *ret_stream = NULL;
    if (question->job != NULL) {
        struct tfe_msg msg = {.type = MSG_STATUS_JOB};
        if (!find_job(core, question->job, &msg.u.status_job)) {
            return refuse_unknown(ch, question->job);
        }
        int err = id_set(&stack.job, msg.u.status_job.job);
        if (err == 0) {
            err = channel_send(ch, &msg);
        }
        if (err != 0) {
            return channel_ends_itself(err) ? 0 : TFE_ENOMEM;
        }
        stack.one = true;
        stack.in_job = true;
        stack.n_jobs = 1;
    }
    int err = run(&stack);
    if (err != 0 || stack.over) {
        return err;
    }
    struct status_stream *s = malloc(sizeof(*s));
    if (s == NULL) {
        return TFE_ENOMEM;
    }
    *s = stack;
    s->timer = evtimer_new(base, on_timer, s);
    if (s->timer == NULL) {
        free(s);
        return TFE_ENOMEM;
    }
    look_again(s);
    *ret_stream = s;
    return 0;
}

bool status_stream_is_over(const struct status_stream *stream)
{
    return stream->over;
}

bool status_stream_has_moved(struct status_stream *stream)
{
    bool moved = stream->moved;
    stream->moved = false;
    return moved;
}

void status_stream_free(struct status_stream *stream)
{
    if (stream != NULL) {
        event_free(stream->timer);
        free(stream);
    }
}
