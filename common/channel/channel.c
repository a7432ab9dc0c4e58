/* common/channel/channel.c: entry points of a channel for the loop and for users. */
#include "common/channel/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/channel/channel_private.h"

/* Scratch memory of the thread, because a loop and its channels belong to one thread. Allocated
 * with the first channel, freed with the last. */
static _Thread_local struct channel_scratch *shared_scratch;

static void scratch_unref(struct channel_scratch *scratch)
{
    if (--scratch->users == 0) {
        shared_scratch = NULL;
        channel_budget_done(&scratch->budget);
        arena_done(&scratch->arena);
        free(scratch);
    }
}

const char *channel_end_name(enum channel_end end)
{
    static const char *const names[] = {
        [CHANNEL_EOF] = "eof",
        [CHANNEL_RESET] = "reset",
        [CHANNEL_TIMEOUT] = "timeout",
        [CHANNEL_UNREACHABLE] = "unreachable",
        [CHANNEL_UNAUTHORISED] = "unauthorised",
        [CHANNEL_PROTOCOL] = "protocol",
        [CHANNEL_OVERFLOW] = "overflow",
        [CHANNEL_NO_MEMORY] = "no_memory",
    };
    return names[end];
}

static void destroy(struct channel *ch)
{
    struct channel_scratch *scratch = ch->scratch;
    seal_done(&ch->seal);
    free(ch->scope);
    free(ch);
    scratch_unref(scratch);
}

void channel_free(struct channel *ch)
{
    if (!ch || ch->freed) {
        return;
    }
    ch->freed = true;
    channel_stop_events(ch);
    if (ch->fd >= 0) {
        (void)close(ch->fd);
        ch->fd = -1;
    }
    out_queue_clear(&ch->out);
    channel_drop_part(ch);
    dial_free(ch->dial);
    ch->dial = NULL;
    if (!ch->busy) {
        destroy(ch);
    }
}

/* Runs the last callback. channel_end_later has removed ch's events. */
static void end_now(struct channel *ch)
{
    channel_become(ch, CHANNEL_S_ENDED);
    ch->ending = false;
    struct tfe_reason detail;
    if (ch->end_errno) {
        errno = ch->end_errno;
        reason_errno(&detail, "%s", ch->end_text);
    } else {
        reason_set(&detail, "%s", ch->end_text);
    }
    ch->ops->closed(ch->ctx, ch, ch->end, detail.text);
    channel_free(ch);
}

/* --- callbacks from the loop ------------------------------------------------------------------ */

/* Enclose every callback from the loop. leave may free ch. */
static void enter(struct channel *ch)
{
    ch->busy = true;
}

static void leave(struct channel *ch)
{
    const bool flush =
        ch->want_flush &&
        !ch->want_write; /* with want_write the loop reports when the socket accepts more */
    ch->want_flush = false;
    if (flush) {
        channel_flush(ch);
    }
    /* This is a callback from the loop, so closed() may run now. */
    if (ch->ending && !ch->freed) {
        end_now(ch);
    }
    /* ch is not freed here: channel_free defers freeing while busy, which the analyser cannot
     * know. */
    ch->busy = false; // NOLINT(clang-analyzer-unix.Malloc)
    if (ch->freed) {
        destroy(ch);
    }
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
    struct channel *ch = arg;
    enter(ch);
    if (ch->state == CHANNEL_S_CONNECTING && channel_is_live(ch)) {
        dial_on_connected(ch);
    } else {
        channel_flush(ch);
        if (ch->want_drained && ch->state == CHANNEL_S_OPEN && channel_is_live(ch) &&
            out_queue_is_empty(&ch->out)) {
            ch->want_drained = false;
            ch->ops->drained(ch->ctx, ch);
        }
    }
    leave(ch);
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
    struct channel *ch = arg;
    enter(ch);
    channel_on_readable(ch);
    leave(ch);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct channel *ch = arg;
    enter(ch);
    switch (ch->state) {
    case CHANNEL_S_RESOLVING:
        channel_end_later(ch, CHANNEL_TIMEOUT, "the name was not resolved in time", 0);
        break;
    case CHANNEL_S_CONNECTING:
        dial_on_slow(ch);
        break;
    case CHANNEL_S_ANSWER:
    case CHANNEL_S_REQUEST:
    case CHANNEL_S_FIRST:
        channel_end_later(ch, CHANNEL_TIMEOUT, "the handshake took too long", 0);
        break;
    case CHANNEL_S_FINISHING:
        channel_end_later(ch, CHANNEL_EOF, "the peer did not close in time", 0);
        break;
    case CHANNEL_S_OPEN:
        ch->ops->silent(ch->ctx, ch);
        break;
    case CHANNEL_S_ENDED:
    case CHANNEL_S__COUNT:
        break;
    }
    leave(ch);
}

/* A channel that waited for the handshake budget continues. */
static void on_budget(struct channel *ch)
{
    enter(ch);
    if (event_add(&ch->read_ev, NULL)) {
        channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for an event", 0);
    } else {
        channel_answer_request(ch);
    }
    leave(ch);
}

static void on_resolved(void *ctx, const struct resolve_addresses *addresses, const char *error)
{
    struct channel *ch = ctx;
    enter(ch);
    dial_on_resolved(ch, addresses, error);
    leave(ch);
}

/* --- creation --------------------------------------------------------------------------------- */

static struct channel_scratch *scratch_ref(void)
{
    if (!shared_scratch) {
        struct channel_scratch *scratch = malloc(sizeof *scratch);
        if (!scratch) {
            return NULL;
        }
        scratch->users = 0;
        scratch->on_timer = on_timer;
        channel_budget_init(&scratch->budget, on_budget);
        if (arena_init(&scratch->arena, ARENA_CAP)) {
            free(scratch);
            return NULL;
        }
        shared_scratch = scratch;
    }
    shared_scratch->users++;
    return shared_scratch;
}

static struct channel *channel_new(struct event_base *base, const struct channel_ops *ops,
                                   void *ctx, enum channel_state state)
{
    struct channel *ch = calloc(1, sizeof *ch);
    if (!ch) {
        return NULL;
    }
    ch->scratch = scratch_ref();
    if (!ch->scratch) {
        free(ch);
        return NULL;
    }
    ch->base = base;
    ch->ops = ops;
    ch->ctx = ctx;
    ch->fd = -1;
    ch->state = state;
    /* event_assign fails only for a NULL base or invalid flags. */
    (void)event_assign(&ch->read_ev, base, -1, EV_READ | EV_PERSIST, on_read, ch);
    (void)event_assign(&ch->write_ev, base, -1, EV_WRITE | EV_PERSIST, on_write, ch);
    return ch;
}

int channel_connect(struct event_base *base, const char *host, uint16_t port,
                    const struct token *token, const struct handshake_params *params,
                    uint32_t timeout_ms, const struct channel_ops *ops, void *ctx,
                    struct channel **ret)
{
    struct channel *ch = channel_new(base, ops, ctx, CHANNEL_S_RESOLVING);
    if (!ch) {
        return TFE_ENOMEM;
    }
    int rc = dial_new(host, port, token, params, timeout_ms, &ch->dial);
    if (rc == 0) {
        rc = dial_start(ch, on_resolved);
    }
    if (rc) {
        channel_free(ch);
        return rc;
    }
    *ret = ch;
    return 0;
}

int channel_accept(struct event_base *base, int fd, struct handshake_server *handshake,
                   const struct handshake_params *params, uint32_t timeout_ms,
                   const struct channel_ops *ops, void *ctx, struct channel **ret)
{
    struct channel *ch = channel_new(base, ops, ctx, CHANNEL_S_REQUEST);
    if (!ch) {
        (void)close(fd);
        return TFE_ENOMEM;
    }
    ch->handshake = handshake;
    ch->params = params;
    channel_adopt_fd(ch, fd);
    channel_set_orderly(ch, false);
    if (!channel_start_reading(ch) || !channel_set_timer(ch, timeout_ms)) {
        channel_free(ch);
        return TFE_ENOMEM;
    }
    *ret = ch;
    return 0;
}

void channel_finish(struct channel *ch, uint32_t timeout_ms)
{
    if (!channel_is_live(ch)) {
        return;
    }
    if (ch->state != CHANNEL_S_OPEN && ch->state != CHANNEL_S_FINISHING) {
        channel_end_later(ch, CHANNEL_EOF, "closed before the handshake was done", 0);
        return;
    }
    if (ch->state == CHANNEL_S_OPEN) {
        channel_become(ch, CHANNEL_S_FINISHING);
        channel_drop_part(ch);
    }
    if (channel_set_timer(ch, timeout_ms)) {
        channel_flush_later(ch);
    }
}

void channel_expect(struct channel *ch, uint32_t ms)
{
    if (ch->state != CHANNEL_S_OPEN || !channel_is_live(ch)) {
        return;
    }
    if (ms == 0) {
        channel_stop_timer(ch);
    } else {
        (void)channel_set_timer(ch, ms); /* if it fails the channel ends */
    }
}

bool channel_has_request(struct channel *ch)
{
    if (ch->state != CHANNEL_S_REQUEST || ch->waits_for_budget) {
        return channel_is_live(ch);
    }
    return channel_is_live(ch) && channel_read_request(ch) && channel_budget_wait(ch);
}

bool channel_local_address(const struct channel *ch, struct sockaddr_storage *ret)
{
    socklen_t n = sizeof *ret;
    memset(ret, 0, sizeof *ret);
    return ch->fd >= 0 && getsockname(ch->fd, (struct sockaddr *)ret, &n) == 0;
}

void channel_want_drained(struct channel *ch)
{
    ch->want_drained = true;
    channel_flush_later(ch);
}

bool channel_push(struct channel *ch)
{
    channel_flush(ch);
    return out_queue_is_empty(&ch->out);
}

size_t channel_queued(const struct channel *ch)
{
    return ch->out.n;
}

uint64_t channel_unknown_messages(const struct channel *ch)
{
    return ch->unknown;
}

void channel_identify(struct channel *ch, const struct principal *by)
{
    const char *scope = ch->by.scope; /* the scope of `by` may be freed before the channel */
    ch->by = *by;
    ch->by.scope = scope;
}
