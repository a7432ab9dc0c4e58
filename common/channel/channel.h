/* common/channel/channel.h: an encrypted connection that carries messages, for client and server.
 * Uses libevent. */
#ifndef TFE_COMMON_CHANNEL_CHANNEL_H
#define TFE_COMMON_CHANNEL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/handshake/handshake.h"
#include "common/handshake/token.h"
#include "common/message/msg.h"
#include "common/message/principal.h"

struct event_base;
struct channel;

/* Why a channel ended. */
enum channel_end {
    CHANNEL_EOF,          /* the peer closed, or this side did after channel_finish */
    CHANNEL_RESET,        /* connection reset or another socket error */
    CHANNEL_TIMEOUT,      /* connect or handshake exceeded its time limit */
    CHANNEL_UNREACHABLE,  /* client: connecting failed, or the name does not resolve */
    CHANNEL_UNAUTHORISED, /* client: the server closed after message 1 without sending a byte;
                             server: wrong token */
    CHANNEL_PROTOCOL,     /* the peer sent bytes that violate the protocol */
    CHANNEL_OVERFLOW,     /* the peer reads too slowly: its queue exceeded the limit */
    CHANNEL_NO_MEMORY
};

/* Returns the name of a reason: "eof", "reset", ... */
const char *channel_end_name(enum channel_end end);

/* Callbacks of a channel. All run from the loop, never from within a channel_* call, and may call
 * any channel_* function, including channel_free. */
struct channel_ops {
    /* Client: the handshake is complete and messages may be sent; by is NULL. Server: the client's
     * first frame has been decrypted (no state changes before that), and its message follows. by
     * identifies the client and is valid as long as the channel. */
    void (*established)(void *ctx, struct channel *ch, const struct principal *by);
    /* Delivers a message; msg and what it points to are valid until the callback returns. */
    void (*message)(void *ctx, struct channel *ch, const struct tfe_msg *msg);
    /* The last callback; the channel is freed when it returns. detail is a phrase for logs
     * ("connection refused"), never NULL. Not called after channel_free. */
    void (*closed)(void *ctx, struct channel *ch, enum channel_end end, const char *detail);
    /* Returns whether to decode a message of this type byte and size; unwanted messages are
     * dropped. NULL accepts all. */
    bool (*wants)(void *ctx, struct channel *ch, uint8_t type, size_t n);
    /* The time set by channel_expect has passed. May be NULL if channel_expect is never called. */
    void (*silent)(void *ctx, struct channel *ch);
    /* All queued bytes have been written, after channel_want_drained. May be NULL if that is never
     * called. */
    void (*drained)(void *ctx, struct channel *ch);
};

/* Connects to host (a name or an address; resolved without blocking the loop) and performs the
 * client's handshake within timeout_ms. Tries the addresses of a name in turn, IPv4 first. Copies
 * token and host; ops must live as long as the channel. Returns TFE_ENOMEM, TFE_ESYS, TFE_EINVAL
 * (host empty or too long) or TFE_EPROTO (invalid server key in the token) if nothing was started;
 * no callback follows then. */
int channel_connect(struct event_base *base, const char *host, uint16_t port,
                    const struct token *token, const struct handshake_params *params,
                    uint32_t timeout_ms, const struct channel_ops *ops, void *ctx,
                    struct channel **ret) TFE_MUST_CHECK;

/* Performs the server's handshake on an accepted non-blocking socket. Takes ownership of fd, also
 * on error. Borrows handshake, params and ops for the channel's life. Returns TFE_ENOMEM after
 * closing fd. Before message 1 is answered, closing resets the connection, except after a wrong
 * token or bytes of another protocol, because clients interpret an orderly close there as a
 * rejected token. */
int channel_accept(struct event_base *base, int fd, struct handshake_server *handshake,
                   const struct handshake_params *params, uint32_t timeout_ms,
                   const struct channel_ops *ops, void *ctx, struct channel **ret) TFE_MUST_CHECK;

/* Encodes, encrypts and queues a message. Messages sent within a callback of this channel are
 * written in one system call when it ends, all others at the end of the loop iteration. Returns
 * TFE_EFULL if more than LIMIT_QUEUE_BYTES would be queued (the channel then ends with
 * CHANNEL_OVERFLOW), TFE_ESTATE if the handshake is incomplete or the channel is closing,
 * TFE_EINVAL if msg cannot be encoded, TFE_ENOMEM if nothing was queued. */
int channel_send(struct channel *ch, const struct tfe_msg *msg) TFE_MUST_CHECK;

/* Sends a message that codec_encode has encoded, so that one encoding serves many receivers.
 * Returns errors as channel_send. */
int channel_send_encoded(struct channel *ch, const uint8_t *plain, size_t n) TFE_MUST_CHECK;

/* True if an error from channel_send needs no handling, because the channel is about to end and
 * closed() will report it. */
static inline bool channel_ends_itself(int error)
{
    return error == TFE_EFULL || error == TFE_ESTATE;
}

/* Calls silent() once after ms, unless called again before; 0 disarms. The channel is established.
 * Has no effect on a channel that is closing. */
void channel_expect(struct channel *ch, uint32_t ms);

/* Writes what is queued, shuts down the sending side and waits for the peer to close, at most
 * timeout_ms; then closed() reports CHANNEL_EOF. Drops what the peer sends meanwhile. */
void channel_finish(struct channel *ch, uint32_t timeout_ms);

/* Closes and frees the channel at once, without further callbacks. NULL is allowed. */
void channel_free(struct channel *ch);

/* Server: true if the client has sent a complete first message with a valid mac1, which the socket
 * may still hold; the server will answer it. Not to be called from a callback of ch. */
bool channel_has_request(struct channel *ch);

/* Returns the local address of an established connection in *ret, or false if unknown. */
bool channel_local_address(const struct channel *ch, struct sockaddr_storage *ret);

/* Calls drained() once, from the loop, when nothing is queued any more. For senders that produce
 * long output in pieces. */
void channel_want_drained(struct channel *ch);

/* Writes queued bytes now instead of at the end of the iteration. Returns true if the socket
 * accepted all. */
bool channel_push(struct channel *ch);

/* Returns the number of queued bytes that the kernel has not accepted yet, so that senders can
 * follow the reader's pace. */
size_t channel_queued(const struct channel *ch);

/* Replaces the identity of the server's client, which has obtained a key of its own with the same
 * scope. */
void channel_identify(struct channel *ch, const struct principal *by);

/* Returns the number of dropped messages of unknown type (from a later protocol version). */
uint64_t channel_unknown_messages(const struct channel *ch);

#endif
