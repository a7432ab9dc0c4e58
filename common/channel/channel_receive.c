/* common/channel/channel_receive.c: turns received bytes into handshake messages, frames and
 * messages. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/channel/channel.h"
#include "common/channel/channel_private.h"
#include "common/message/codec.h"

#define FRAME_CAP (SEAL_HEADER_BYTES + SEAL_FRAME_MAX)
/* Smallest buffer for a part of a frame. */
#define PART_FIRST 64

_Static_assert(FRAME_CAP <= CHANNEL_READ_MAX, "a read can hold any frame");

static void on_eof(struct channel *ch)
{
    switch (ch->state) {
    case CHANNEL_S_ANSWER:
        if (ch->part_n == 0 && out_queue_is_empty(&ch->out)) {
            channel_end_later(
                ch, CHANNEL_UNAUTHORISED,
                "the server closed the connection without a response: it does not accept the token",
                0);
        } else {
            channel_end_later(ch, CHANNEL_EOF, "closed by the peer during the handshake", 0);
        }
        break;
    case CHANNEL_S_REQUEST:
    case CHANNEL_S_FIRST:
        channel_end_later(ch, CHANNEL_EOF, "closed by the peer during the handshake", 0);
        break;
    case CHANNEL_S_FINISHING:
        channel_end_later(ch, CHANNEL_EOF, "closed as agreed", 0);
        break;
    case CHANNEL_S_OPEN:
        channel_end_later(ch, CHANNEL_EOF,
                          ch->part ? "closed by the peer within a frame" : "closed by the peer", 0);
        break;
    case CHANNEL_S_RESOLVING:
    case CHANNEL_S_CONNECTING:
    case CHANNEL_S_ENDED:
    case CHANNEL_S__COUNT:
        break;
    }
}

void channel_drop_part(struct channel *ch)
{
    free(ch->part);
    ch->part = NULL;
    ch->part_n = 0;
    ch->part_cap = 0;
}

/* Reads once. Returns 0 if nothing is available or ch is ending. */
static size_t receive(struct channel *ch, uint8_t *in, size_t cap)
{
    const ssize_t got = recv(ch->fd, in, cap, MSG_DONTWAIT);
    const int error = got < 0 ? errno : 0;
    const bool nothing = error == EAGAIN || error == EINTR;
    if (got > 0 || nothing) {
        if (ch->out_errno && nothing) {
            channel_end_later(ch, CHANNEL_RESET, "write", ch->out_errno);
        } else if (ch->out_errno) {
            event_active(&ch->read_ev, EV_READ, 0);
        }
        return got > 0 ? (size_t)got : 0;
    }
    if (ch->shut && out_queue_is_empty(&ch->out)) {
        /* All has been sent, so it does not matter how the peer closes. */
        channel_end_later(ch, CHANNEL_EOF, "closed as agreed", 0);
    } else if (ch->out_errno) {
        channel_end_later(ch, CHANNEL_RESET, "write", ch->out_errno);
    } else if (error) {
        channel_end_later(ch, CHANNEL_RESET, "read", error);
    } else {
        on_eof(ch);
    }
    return 0;
}

/* Appends bytes to the stored part. Returns false, with ch ending, if out of memory. */
static bool append_part(struct channel *ch, const uint8_t *in, size_t n, size_t limit)
{
    const size_t need = ch->part_n + n;
    if (need > ch->part_cap) {
        size_t cap = ch->part_cap * 2 > PART_FIRST ? ch->part_cap * 2 : PART_FIRST;
        cap = cap < need ? need : cap > limit ? limit : cap;
        uint8_t *part = realloc(ch->part, cap);
        if (!part) {
            channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for a frame", 0);
            return false;
        }
        ch->part = part;
        ch->part_cap = cap;
    }
    memcpy(ch->part + ch->part_n, in, n);
    ch->part_n = need;
    return true;
}

static bool takes_frames(const struct channel *ch)
{
    return channel_is_live(ch) && (ch->state == CHANNEL_S_OPEN || ch->state == CHANNEL_S_FIRST);
}

/* Decodes and delivers the message in the decrypted frame of n bytes. */
static void deliver(struct channel *ch, size_t n)
{
    struct channel_scratch *scratch = ch->scratch;
    struct tfe_msg msg;
    if (ch->state == CHANNEL_S_OPEN && ch->ops->wants &&
        !ch->ops->wants(ch->ctx, ch, scratch->opened[0], n)) {
        return;
    }
    arena_reset(&scratch->arena);
    const int rc = codec_decode(&scratch->arena, scratch->opened, n, &msg);
    if (rc && rc != TFE_EUNKNOWN) {
        channel_end_later(ch, CHANNEL_PROTOCOL, "a malformed message", 0);
        return;
    }
    if (ch->state == CHANNEL_S_FIRST) {
        channel_stop_timer(ch);
        channel_become(ch, CHANNEL_S_OPEN);
        ch->ops->established(ch->ctx, ch, &ch->by);
        if (!takes_frames(ch)) {
            return;
        }
    }
    if (rc == TFE_EUNKNOWN) {
        ch->unknown++;
        return;
    }
    ch->ops->message(ch->ctx, ch, &msg);
}

/* Decrypts the next frame, which begins in the stored part or in `in`. Returns the number of bytes
 * of `in` that were consumed, and in *ret_plain_n the plaintext size of a complete frame, else
 * 0. */
static size_t next_frame(struct channel *ch, const uint8_t *in, size_t n, size_t *ret_plain_n)
{
    uint8_t *opened = ch->scratch->opened;
    const size_t kept = ch->part_n;
    size_t used = 0;
    size_t take = n;
    int rc;
    *ret_plain_n = 0;
    if (kept == 0) {
        rc = seal_open(&ch->seal.rx, in, n, &used, opened, ret_plain_n);
    } else {
        /* The stored part was no complete frame, so a complete one ends within `in`. */
        take = n < FRAME_CAP - kept ? n : FRAME_CAP - kept;
        if (!append_part(ch, in, take, FRAME_CAP)) {
            return n;
        }
        rc = seal_open(&ch->seal.rx, ch->part, ch->part_n, &used, opened, ret_plain_n);
    }
    if (rc == 0) {
        channel_drop_part(ch);
        return used - kept;
    }
    if (rc != TFE_EMORE || take == 0) {
        channel_end_later(ch, CHANNEL_PROTOCOL, "a frame failed authentication", 0);
    } else if (kept == 0) {
        (void)append_part(ch, in, n, FRAME_CAP);
    }
    return take;
}

static void feed(struct channel *ch, const uint8_t *in, size_t n)
{
    while (n > 0 && takes_frames(ch)) {
        size_t plain_n;
        const size_t used = next_frame(ch, in, n, &plain_n);
        in += used;
        n -= used;
        if (plain_n > 0) {
            deliver(ch, plain_n);
        }
    }
}

/* Processes the bytes after a handshake message as frames. */
static void feed_after_flight(struct channel *ch, size_t flight_n)
{
    uint8_t *bytes = ch->part;
    const size_t n = ch->part_n;
    ch->part = NULL;
    channel_drop_part(ch);
    feed(ch, bytes + flight_n, n - flight_n);
    free(bytes);
}

static void end_handshake(struct channel *ch, int rc, const char *text)
{
    if (rc == TFE_ENOMEM) {
        channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for a handshake", 0);
    } else {
        channel_end_later(ch, CHANNEL_PROTOCOL, text, 0);
    }
}

static void end_request(struct channel *ch, int rc)
{
    channel_set_orderly(ch, rc != TFE_ENOMEM);
    if (rc == TFE_EAUTH) {
        channel_end_later(ch, CHANNEL_UNAUTHORISED, "wrong token", 0);
    } else {
        end_handshake(ch, rc, "the peer does not use this protocol");
    }
}

bool channel_read_request(struct channel *ch)
{
    uint8_t *in = ch->scratch->in;
    /* Limit on what an unauthenticated client can make the server store. */
    const size_t n = receive(ch, in, HANDSHAKE_REQUEST_MAX - ch->part_n);
    if (n == 0 || !append_part(ch, in, n, HANDSHAKE_REQUEST_MAX)) {
        return false;
    }
    int rc = handshake_server_check_mac1(ch->handshake, clock_wall(), ch->part, ch->part_n);
    if (rc && (rc != TFE_EMORE || ch->part_n == HANDSHAKE_REQUEST_MAX)) {
        end_request(ch, rc);
    }
    return rc == 0;
}

/* Copies the client's scope. Most clients have the scope of every job, which needs no memory. */
static int copy_scope(struct channel *ch)
{
    if (strcmp(ch->by.scope, PRINCIPAL_EVERY_JOB) == 0) {
        ch->by.scope = PRINCIPAL_EVERY_JOB;
        return 0;
    }
    ch->scope = strdup(ch->by.scope);
    ch->by.scope = ch->scope;
    return ch->scope ? 0 : TFE_ENOMEM;
}

void channel_answer_request(struct channel *ch)
{
    uint8_t response[HANDSHAKE_RESPONSE_MAX];
    size_t response_n = 0;
    size_t used = 0;
    struct handshake_params client;
    int rc = handshake_server_answer(ch->handshake, clock_wall(), ch->params, ch->part, ch->part_n,
                                     &used, response, &response_n, &ch->seal, &ch->by, &client);
    if (rc == 0) {
        rc = copy_scope(ch);
    }
    if (rc == 0) {
        rc = channel_queue_raw(ch, response, response_n);
    }
    if (rc) {
        end_request(ch, rc);
        return;
    }
    channel_set_orderly(ch, true);
    channel_become(ch, CHANNEL_S_FIRST);
    feed_after_flight(ch, used);
}

static void finish_answer(struct channel *ch)
{
    size_t used = 0;
    struct handshake_params server;
    int rc = handshake_client_finish(ch->dial->handshake, ch->part, ch->part_n, &used, &ch->seal,
                                     &server);
    if (rc == TFE_EMORE && ch->part_n < HANDSHAKE_RESPONSE_MAX) {
        return;
    }
    if (rc) {
        end_handshake(ch, rc, "the response is not from the server of this token");
        return;
    }
    channel_stop_timer(ch);
    dial_free(ch->dial);
    ch->dial = NULL;
    channel_become(ch, CHANNEL_S_OPEN);
    /* The callback may finish or free ch, which drops the part; then nothing is left to process. */
    ch->ops->established(ch->ctx, ch, NULL);
    if (takes_frames(ch)) {
        feed_after_flight(ch, used);
    }
}

void channel_on_readable(struct channel *ch)
{
    if (!channel_is_live(ch)) {
        return;
    }
    /* Prefetch: with thousands of connections this memory is rarely in the cache, and arrives while
     * the kernel reads. */
    __builtin_prefetch(ch->ctx);
    __builtin_prefetch(&ch->seal.rx);
    __builtin_prefetch(&ch->seal.tx);
    if (ch->state == CHANNEL_S_REQUEST) {
        if (channel_read_request(ch) && channel_budget_use(ch)) {
            channel_answer_request(ch);
        }
        return;
    }
    uint8_t *in = ch->scratch->in;
    const bool flight = ch->state == CHANNEL_S_ANSWER;
    const size_t n =
        receive(ch, in, flight ? HANDSHAKE_RESPONSE_MAX - ch->part_n : CHANNEL_READ_MAX);
    if (n == 0 || ch->state == CHANNEL_S_FINISHING) {
        return;
    }
    if (!flight) {
        feed(ch, in, n);
    } else if (append_part(ch, in, n, HANDSHAKE_RESPONSE_MAX)) {
        finish_answer(ch);
    }
}
