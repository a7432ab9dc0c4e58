/* common/channel/channel_state.c: state, socket and timer of a channel, and requests to end it. */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "common/base/limits.h"
#include "common/base/timer.h"
#include "common/channel/channel_private.h"

#define TO(state) (1u << (state))

/* Permitted transitions; ENDED may follow any state. channel_private.h has the diagram. */
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
        abort(); /* a bug in channel*.c; no input from a peer leads here */
    }
    ch->state = next;
}

void channel_stop_timer(struct channel *ch)
{
    event_drop(&ch->timer);
}

void channel_stop_events(struct channel *ch)
{
    channel_budget_leave(ch);
    (void)event_del(&ch->read_ev);
    (void)event_del(&ch->write_ev);
    channel_stop_timer(ch);
    ch->want_write = false;
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
    channel_stop_events(ch);
    if (!ch->busy) {
        event_active(&ch->write_ev, EV_WRITE, 0);
    }
}

bool channel_set_timer(struct channel *ch, int64_t ms)
{
    if (!ch->timer) {
        ch->timer = evtimer_new(ch->base, ch->scratch->on_timer, ch);
    }
    if (!ch->timer || timer_after(ch->timer, ms > 0 ? ms : 1)) {
        channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for a timer", 0);
        return false;
    }
    return true;
}

void channel_adopt_fd(struct channel *ch, int fd)
{
    /* Disable Nagle's algorithm, because frames are small and need a prompt answer. A failure only
     * costs speed. */
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    /* Limit unsent bytes in the kernel: otherwise it buffers megabytes for a peer that does not
     * read. */
    const int unsent = LIMIT_UNSENT_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    (void)event_del(&ch->read_ev);
    (void)event_del(&ch->write_ev);
    ch->want_write = false;
    ch->fd = fd;
    /* Keep the callbacks. event_assign fails only for a NULL base or invalid flags. */
    (void)event_assign(&ch->read_ev, ch->base, fd, EV_READ | EV_PERSIST,
                       event_get_callback(&ch->read_ev), ch);
    (void)event_assign(&ch->write_ev, ch->base, fd, EV_WRITE | EV_PERSIST,
                       event_get_callback(&ch->write_ev), ch);
}

void channel_set_orderly(struct channel *ch, bool orderly)
{
    const struct linger linger = {.l_onoff = !orderly};
    (void)setsockopt(ch->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

bool channel_start_reading(struct channel *ch)
{
    if (event_add(&ch->read_ev, NULL)) {
        channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for an event", 0);
        return false;
    }
    return true;
}
