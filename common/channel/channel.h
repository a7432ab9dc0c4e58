/* common/channel/channel.h: one sealed connection that carries messages, for both sides. On
 * libevent.
 */
#ifndef TFE_COMMON_CHANNEL_CHANNEL_H
#define TFE_COMMON_CHANNEL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/channel/handshake.h"
#include "common/channel/token.h"
#include "common/message/msg.h"
#include "common/message/principal.h"

struct event_base;
struct channel;

/* Why a channel ended. */
enum channel_end {
    CHANNEL_EOF,          /* the peer closed, or we did after channel_finish */
    CHANNEL_RESET,        /* reset or another socket error */
    CHANNEL_TIMEOUT,      /* connect or handshake took longer than its limit */
    CHANNEL_UNREACHABLE,  /* client: the connect failed, or the name does not resolve */
    CHANNEL_UNAUTHORISED, /* client: closed by the server after message 1, without one byte;
                             server: wrong token. */
    CHANNEL_PROTOCOL,     /* bytes that break the protocol */
    CHANNEL_OVERFLOW,     /* the peer reads too slowly: more than its queue limit was waiting */
    CHANNEL_NO_MEMORY
};

/* "eof", "reset", … */
const char *channel_end_name(enum channel_end end);

/* All callbacks come from the loop, never from inside a channel_* call. In each of them any
 * channel_* function may be called, channel_free too. */
struct channel_ops {
    /* Client: the handshake is done, messages may be sent; by is NULL.
     * Server: the client's first frame has been opened (no state changes before that); its message
     * follows at once. by is who the client is, and lives as long as the channel. */
    void (*established)(void *ctx, struct channel *ch, const struct principal *by);
    /* msg and what it points to live until the callback returns. */
    void (*message)(void *ctx, struct channel *ch, const struct tfe_msg *msg);
    /* Last callback; the channel is freed when it returns. detail is a sentence fragment for logs
     * ("connection refused"), never NULL. Not called after channel_free. */
    void (*closed)(void *ctx, struct channel *ch, enum channel_end end, const char *detail);
    /* Whether to decode a message of this type byte and n bytes at all; what it does not want is
     * dropped, and message() does not come. NULL: everything. */
    bool (*wants)(void *ctx, struct channel *ch, uint8_t type, size_t n);
    /* The time of channel_expect is over. May be NULL where that is never called. */
    void (*silent)(void *ctx, struct channel *ch);
    /* Answers channel_want_drained. May be NULL where that is never called. */
    void (*drained)(void *ctx, struct channel *ch);
};

/* Connects (host is a name or an address; resolving does not block the loop) and does the client's
 * handshake, all within timeout_ms: the addresses of a name are tried in turn, v4 first. token and
 * host are copied; ops must live as long as the channel. TFE_ENOMEM, TFE_ESYS, TFE_EINVAL (host is
 * too long or empty), TFE_EPROTO (the token's server key is no key): nothing was started, no
 * callback comes. */
int channel_connect(struct event_base *base, const char *host, uint16_t port,
                    const struct token *token, const struct hello_facts *facts, uint32_t timeout_ms,
                    const struct channel_ops *ops, void *ctx, struct channel **ret) TFE_MUST_CHECK;

/* Takes an accepted, non-blocking socket and does the server's handshake. Owns fd from here on,
 * also after an error. hello, facts and ops are borrowed for the channel's life. TFE_ENOMEM: fd is
 * closed. Before message 1 is answered, whatever closes fd resets it, but a wrong token or bytes
 * that are not this protocol: a client takes an orderly end there for a refusal of its token. */
int channel_accept(struct event_base *base, int fd, struct hello_server *hello,
                   const struct hello_facts *facts, uint32_t timeout_ms,
                   const struct channel_ops *ops, void *ctx, struct channel **ret) TFE_MUST_CHECK;

/* Encodes, seals and queues. What is sent within a callback of this channel leaves in one write as
 * it ends, all else at the end of the loop's turn. TFE_EFULL: more than LIMIT_QUEUE_BYTES would
 * wait for the peer; the channel ends with CHANNEL_OVERFLOW in the next turn. TFE_ESTATE: the
 * handshake is not done, or the channel is finishing or about to end. TFE_EINVAL: msg cannot be
 * encoded. TFE_ENOMEM: nothing was queued. */
int channel_send(struct channel *ch, const struct tfe_msg *msg) TFE_MUST_CHECK;

/* Sends a message that has been encoded before (codec_encode's bytes), for what goes to many. Same
 * errors. */
int channel_send_encoded(struct channel *ch, const uint8_t *plain, size_t n) TFE_MUST_CHECK;

/* Whether an error of sending on an open channel needs no care: it is about to end by itself, and
 * closed() says so. */
static inline bool channel_ends_itself(int error)
{
    return error == TFE_EFULL || error == TFE_ESTATE;
}

/* silent() comes once in ms, unless this is called again before (0: it does not come). The channel
 * is established; one that finishes expects nothing but its end. */
void channel_expect(struct channel *ch, uint32_t ms);

/* Sends what is queued, then shuts the sending half down and waits for the peer to close, at most
 * timeout_ms; then closed() comes with CHANNEL_EOF. What the peer sends meanwhile is dropped. */
void channel_finish(struct channel *ch, uint32_t timeout_ms);

/* Closes at once, frees; no callback comes any more. NULL is allowed. */
void channel_free(struct channel *ch);

/* Server: whether the client has sent a whole first flight with a good mac1, which may still lie in
 * the socket; it is answered in its turn then. Not from a callback of ch. */
bool channel_knocks(struct channel *ch);

/* This end of the connection; valid once established. False: unknown. */
bool channel_local_address(const struct channel *ch, struct sockaddr_storage *ret);

/* drained() comes once, from the loop, when nothing is queued (any more): for those who produce
 * what is long piece by piece. */
void channel_want_drained(struct channel *ch);

/* Offers what is queued to the socket now instead of at the end of the turn. True: it took all. */
bool channel_push(struct channel *ch);

/* Bytes that are queued and that the kernel has not taken yet, for those who produce long answers
 * at the pace at which they are read. */
size_t channel_queued(const struct channel *ch);

/* The server's client has got a key of its own, for the same jobs: it is known by that from now on.
 */
void channel_identify(struct channel *ch, const struct principal *by);

/* Messages of unknown type dropped so far (they are of a later version). */
uint64_t channel_unknown_messages(const struct channel *ch);

#endif
