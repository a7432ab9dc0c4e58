/* common/net/channel.c: life and end of a channel: making, events, timer, closing, freeing. */
#include "common/net/channel.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/channel_private.h"
#include "common/net/clock.h"
#include "common/net/limits.h"
#include "common/net/timer.h"

/* One per thread, because a loop and its channels belong to one thread. Made with the first
 * channel, freed with the last. */
static _Thread_local struct channel_scratch *shared_scratch;

static struct channel_scratch *scratch_take(void)
{
    if (!shared_scratch) {
        struct channel_scratch *scratch = malloc(sizeof *scratch);
        if (!scratch) {
            return NULL;
        }
        scratch->users = 0;
        channel_gate_init(&scratch->gate);
        if (arena_init(&scratch->arena, ARENA_CAP)) {
            free(scratch);
            return NULL;
        }
        shared_scratch = scratch;
    }
    shared_scratch->users++;
    return shared_scratch;
}

static void scratch_let_go(struct channel_scratch *scratch)
{
    if (--scratch->users == 0) {
        shared_scratch = NULL;
        channel_gate_done(&scratch->gate);
        arena_done(&scratch->arena);
        free(scratch);
    }
}

const char *channel_end_name(enum channel_end end)
{
    switch (end) {
    case CHANNEL_EOF:
        return "eof";
    case CHANNEL_RESET:
        return "reset";
    case CHANNEL_TIMEOUT:
        return "timeout";
    case CHANNEL_UNREACHABLE:
        return "unreachable";
    case CHANNEL_UNAUTHORISED:
        return "unauthorised";
    case CHANNEL_PROTOCOL:
        return "protocol";
    case CHANNEL_OVERFLOW:
        return "overflow";
    case CHANNEL_NO_MEMORY:
        return "no_memory";
    }
    return "?";
}

bool channel_is_live(const struct channel *ch)
{
    return !ch->freed && !ch->ending && ch->state != CHANNEL_S_ENDED;
}

#define TO(state) (1u << (state))

/* States that may follow; ENDED may follow all. The picture is in channel_private.h. */
static const unsigned channel_next[CHANNEL_S__COUNT] = {
    [CHANNEL_S_RESOLVING] = TO(CHANNEL_S_CONNECTING),
    [CHANNEL_S_CONNECTING] = TO(CHANNEL_S_CONNECTING) | TO(CHANNEL_S_ANSWER),
    [CHANNEL_S_ANSWER] = TO(CHANNEL_S_OPEN),
    [CHANNEL_S_REQUEST] = TO(CHANNEL_S_FIRST),
    [CHANNEL_S_FIRST] = TO(CHANNEL_S_OPEN),
    [CHANNEL_S_OPEN] = TO(CHANNEL_S_FINISHING),
    [CHANNEL_S_FINISHING] = 0,
    [CHANNEL_S_ENDED] = 0,
};

void channel_become(struct channel *ch, enum channel_state next)
{
    if (next != CHANNEL_S_ENDED && !(channel_next[ch->state] & TO(next))) {
        abort(); /* a mistake in these files; no byte from a peer leads here */
    }
    ch->state = next;
}

void channel_drop_part(struct channel *ch)
{
    free(ch->part);
    ch->part = NULL;
    ch->part_n = 0;
    ch->part_cap = 0;
}

/* Takes ch out of the loop. */
static void stop_events(struct channel *ch)
{
    channel_gate_leave(ch);
    (void)event_del(&ch->read_ev);
    (void)event_del(&ch->write_ev);
    (void)event_del(&ch->timer_ev);
    ch->want_write = false;
}

static void destroy(struct channel *ch)
{
    struct channel_scratch *scratch = ch->scratch;
    seal_done(&ch->seal);
    free(ch);
    scratch_let_go(scratch);
}

void channel_free(struct channel *ch)
{
    if (!ch || ch->freed) {
        return;
    }
    ch->freed = true;
    stop_events(ch);
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

/* The last callback. channel_end_later has taken ch out of the loop. */
static void end_now(struct channel *ch)
{
    channel_become(ch, CHANNEL_S_ENDED);
    ch->ending = false;
    struct tfe_why detail;
    if (ch->end_errno) {
        errno = ch->end_errno;
        why_errno(&detail, "%s", ch->end_text);
    } else {
        why_set(&detail, "%s", ch->end_text);
    }
    ch->ops->closed(ch->ctx, ch, ch->end, detail.text);
    channel_free(ch);
}

void channel_enter(struct channel *ch)
{
    ch->busy = true;
}

void channel_leave(struct channel *ch)
{
    const bool flush =
        ch->want_flush && !ch->want_write; /* else the loop tells when the socket takes more */
    ch->want_flush = false;
    if (flush) {
        channel_flush(ch);
    }
    /* Whatever ended ch during this callback may as well be told now: this is the loop's own turn.
     */
    if (ch->ending && !ch->freed) {
        end_now(ch);
    }
    ch->busy = false;
    if (ch->freed) {
        destroy(ch);
    }
}

void channel_end_later(struct channel *ch, enum channel_end end, const char *text, int error)
{
    if (!channel_is_live(ch)) {
        return;
    }
    ch->ending = true;
    ch->end = end;
    ch->end_text = text;
    ch->end_errno = error;
    stop_events(ch);
    if (!ch->busy) {
        event_active(&ch->write_ev, EV_WRITE, 0);
    }
}

static void on_write(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct channel *ch = arg;
    channel_enter(ch);
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
    channel_leave(ch);
}

static void on_read(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct channel *ch = arg;
    channel_enter(ch);
    channel_on_readable(ch);
    channel_leave(ch);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct channel *ch = arg;
    channel_enter(ch);
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
    case CHANNEL_S_ENDED:
    case CHANNEL_S__COUNT:
        break;
    }
    channel_leave(ch);
}

bool channel_set_timer(struct channel *ch, int64_t ms)
{
    if (timer_after(&ch->timer_ev, ms > 0 ? ms : 1)) {
        channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for a timer", 0);
        return false;
    }
    return true;
}

/* Points both events to ch->fd. Precondition: neither is added. */
static void assign_events(struct channel *ch)
{
    /* These fail for a missing base or illegal flags only. */
    (void)event_assign(&ch->read_ev, ch->base, ch->fd, EV_READ | EV_PERSIST, on_read, ch);
    (void)event_assign(&ch->write_ev, ch->base, ch->fd, EV_WRITE | EV_PERSIST, on_write, ch);
}

void channel_take_fd(struct channel *ch, int fd)
{
    /* Frames are small and answered at once. A lost option costs speed, not correctness. */
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    /* Or the kernel takes megabytes for a peer that reads nothing, and nobody can take them back.
     */
    const int unsent = LIMIT_UNSENT_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    (void)event_del(&ch->read_ev);
    (void)event_del(&ch->write_ev);
    ch->want_write = false;
    ch->fd = fd;
    assign_events(ch);
}

bool channel_start_reading(struct channel *ch)
{
    socklen_t n = sizeof ch->peer;
    if (getpeername(ch->fd, &ch->peer.any, &n)) {
        ch->peer.any.sa_family = AF_UNSPEC;
    }
    if (event_add(&ch->read_ev, NULL)) {
        channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for an event", 0);
        return false;
    }
    return true;
}

static struct channel *channel_new(struct event_base *base, const struct channel_ops *ops,
                                   void *ctx, enum channel_state state)
{
    struct channel *ch = calloc(1, sizeof *ch);
    if (!ch) {
        return NULL;
    }
    ch->scratch = scratch_take();
    if (!ch->scratch) {
        free(ch);
        return NULL;
    }
    ch->base = base;
    ch->ops = ops;
    ch->ctx = ctx;
    ch->fd = -1;
    ch->state = state;
    assign_events(ch);
    (void)evtimer_assign(&ch->timer_ev, base, on_timer, ch);
    return ch;
}

int channel_connect(struct event_base *base, const char *host, uint16_t port,
                    const struct token *token, const struct hello_facts *facts, uint32_t timeout_ms,
                    const struct channel_ops *ops, void *ctx, struct channel **ret)
{
    struct channel *ch = channel_new(base, ops, ctx, CHANNEL_S_RESOLVING);
    if (!ch) {
        return TFE_ENOMEM;
    }
    ch->role = token->role;
    int rc = dial_new(host, port, token, facts, timeout_ms, &ch->dial);
    if (rc == 0) {
        rc = dial_start(ch);
    }
    if (rc) {
        channel_free(ch);
        return rc;
    }
    *ret = ch;
    return 0;
}

int channel_accept(struct event_base *base, int fd, struct hello_server *hello,
                   const struct hello_facts *facts, uint32_t timeout_ms,
                   const struct channel_ops *ops, void *ctx, struct channel **ret)
{
    struct channel *ch = channel_new(base, ops, ctx, CHANNEL_S_REQUEST);
    if (!ch) {
        (void)close(fd);
        return TFE_ENOMEM;
    }
    ch->hello = hello;
    ch->facts = *facts;
    channel_take_fd(ch, fd);
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

bool channel_local_address(const struct channel *ch, struct sockaddr_storage *ret)
{
    socklen_t n = sizeof *ret;
    memset(ret, 0, sizeof *ret);
    return ch->fd >= 0 && getsockname(ch->fd, (struct sockaddr *)ret, &n) == 0;
}

bool channel_peer_address(const struct channel *ch, struct sockaddr_storage *ret)
{
    /* Kept, because after a reset the kernel does not know it any more and the log wants it then.
     */
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &ch->peer, sizeof ch->peer);
    return ch->peer.any.sa_family != AF_UNSPEC;
}

const struct hello_facts *channel_peer_facts(const struct channel *ch)
{
    return &ch->peer_facts;
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

uint64_t channel_received(const struct channel *ch)
{
    return ch->received;
}

uint64_t channel_unknown_messages(const struct channel *ch)
{
    return ch->unknown;
}
