/* common/channel/channel_send.c: turns messages into encrypted frames, and writes queued bytes to
 * the socket. */
#include <errno.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/channel/channel.h"
#include "common/channel/channel_private.h"
#include "common/message/codec.h"

void channel_flush_later(struct channel *ch)
{
    /* While the socket is full the loop reports when it accepts more. Messages sent within this
     * channel's callback are written when that ends, while its data is in the CPU caches. All
     * others are written by the activated event, which runs after all callbacks of this iteration
     * and so collects their frames. */
    if (ch->want_write) {
        return;
    }
    if (ch->busy && !ch->want_drained) {
        ch->want_flush = true;
    } else {
        event_active(&ch->write_ev, EV_WRITE, 0);
    }
}

static void stop_writing(struct channel *ch)
{
    (void)event_del(&ch->write_ev);
    ch->want_write = false;
}

void channel_flush(struct channel *ch)
{
    if (!channel_is_live(ch) || ch->out_errno) {
        return;
    }
    const int rc = out_queue_write(&ch->out, ch->fd);
    if (rc == 0) {
        if (ch->want_write) {
            stop_writing(ch);
            if (ch->want_drained) {
                event_active(&ch->write_ev, EV_WRITE,
                             0); /* the removed write event would have called drained() */
            }
        }
        if (ch->state == CHANNEL_S_FINISHING && !ch->shut) {
            ch->shut = true;
            (void)shutdown(ch->fd, SHUT_WR);
        }
    } else if (rc == TFE_EMORE) {
        /* event_add does not register an event with epoll while it is active, as a manually
         * activated event is, and writability would never be reported. event_del first. */
        if (!ch->want_write) {
            (void)event_del(&ch->write_ev);
        }
        if (!ch->want_write && event_add(&ch->write_ev, NULL)) {
            channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for an event", 0);
            return;
        }
        ch->want_write = true;
    } else {
        /* Data that the peer sent before it closed, perhaps the reason, must still be read. The
         * reading side then ends the channel. */
        ch->out_errno = errno;
        out_queue_clear(&ch->out);
        stop_writing(ch);
        event_active(&ch->read_ev, EV_READ, 0);
    }
}

int channel_queue_raw(struct channel *ch, const uint8_t *bytes, size_t n)
{
    uint8_t *space = out_queue_reserve(&ch->out, n);
    if (!space) {
        return TFE_ENOMEM;
    }
    memcpy(space, bytes, n);
    out_queue_add(&ch->out, n);
    channel_flush_later(ch);
    return 0;
}

static bool has_room(const struct channel *ch, size_t n)
{
    return ch->out.n + n <= LIMIT_QUEUE_BYTES;
}

int channel_send_encoded(struct channel *ch, const uint8_t *plain, size_t n)
{
    if (ch->state != CHANNEL_S_OPEN || !channel_is_live(ch)) {
        return TFE_ESTATE;
    }
    if (n == 0 || n > SEAL_PLAIN_MAX) {
        return TFE_EINVAL;
    }
    const size_t sealed_n = n + SEAL_HEADER_BYTES + SEAL_TAG_BYTES;
    if (!has_room(ch, sealed_n)) {
        /* Frames of this iteration have not been written yet. Only what the socket does not accept
         * counts against the peer. */
        channel_flush(ch);
        if (!channel_is_live(ch)) {
            return TFE_ENOMEM;
        }
        if (!has_room(ch, sealed_n)) {
            channel_end_later(ch, CHANNEL_OVERFLOW, "the peer reads too slowly", 0);
            return TFE_EFULL;
        }
    }
    if (ch->out_errno) {
        /* The write side has failed: drop the message like any that is lost in transit. closed()
         * follows. */
        return 0;
    }
    uint8_t *space = out_queue_reserve(&ch->out, sealed_n);
    if (!space) {
        return TFE_ENOMEM;
    }
    size_t frame_n = 0;
    int rc = seal_frame(&ch->seal.tx, plain, n, space, sealed_n, &frame_n);
    if (rc) {
        return rc;
    }
    out_queue_add(&ch->out, frame_n);
    channel_flush_later(ch);
    return 0;
}

int channel_send(struct channel *ch, const struct tfe_msg *msg)
{
    if (ch->state != CHANNEL_S_OPEN || !channel_is_live(ch)) {
        return TFE_ESTATE;
    }
    uint8_t *plain = ch->scratch->encoded;
    size_t n = 0;
    if (codec_encode(msg, plain, sizeof ch->scratch->encoded, &n)) {
        return TFE_EINVAL;
    }
    return channel_send_encoded(ch, plain, n);
}
