/* common/net/channel_private.h: the inside of a channel, for channel*.c only. */
#ifndef TFE_COMMON_NET_CHANNEL_PRIVATE_H
#define TFE_COMMON_NET_CHANNEL_PRIVATE_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "common/net/channel.h"
#include "common/net/out_queue.h"
#include "common/net/resolve.h"
#include "common/net/why.h"
#include "common/wire/arena.h"
#include "common/wire/seal.h"

/*   client   RESOLVING ──► CONNECTING ──► ANSWER ──┐
 *                 └── (next address) ◄──┘           ├──► OPEN ──► FINISHING ──► ENDED
 *   server                 REQUEST ───► FIRST ─────┘
 * ENDED is reached from every state. closed() runs in it, and after it the channel is freed. */
enum channel_state {
    CHANNEL_S_RESOLVING,  /* client: the name is being looked up */
    CHANNEL_S_CONNECTING, /* client: connect(2) is under way */
    CHANNEL_S_ANSWER,     /* client: message 1 is queued or sent, message 2 awaited */
    CHANNEL_S_REQUEST,    /* server: message 1 awaited */
    CHANNEL_S_FIRST,      /* server: message 2 is queued or sent, the first frame awaited */
    CHANNEL_S_OPEN,
    CHANNEL_S_FINISHING, /* the rest goes out; what comes in is dropped */
    CHANNEL_S_ENDED,
    CHANNEL_S__COUNT
};

/* A read takes so much at once: four of the largest frames, or some thousand renewals. */
#define CHANNEL_READ_MAX (64 * 1024)

/* How many handshakes this turn of the loop still takes, and who waits for the next ones. */
struct channel_gate {
    unsigned left;
    bool armed; /* `turn` comes with the next turn of base */
    struct event_base *base;
    struct event turn;
    TAILQ_HEAD(, channel) waiting;
};

/* Memory that is needed only while a callback of the loop runs, so all channels of a thread share
 * it. */
struct channel_scratch {
    size_t users;
    struct arena arena;
    struct channel_gate gate;
    uint8_t in[CHANNEL_READ_MAX];
    uint8_t opened[SEAL_PLAIN_MAX];
    uint8_t encoded[SEAL_PLAIN_MAX];
};

/* What a client needs until it is established, and not later. */
struct channel_dial {
    char host[TFE_HOST_MAX + 1];
    uint16_t port;
    struct tfe_mono deadline;
    struct resolve *resolve; /* NULL unless under way */
    struct resolve_addresses addresses;
    size_t at; /* index of the next address to try */
    bool timed_out;
    struct tfe_why
        why; /* of the first address that failed; the first is the likeliest to be meant */
    struct hello_client *hello;
    uint8_t request[HELLO_REQUEST_MAX];
    size_t request_n;
};

struct channel {
    struct event_base *base;
    const struct channel_ops *ops;
    void *ctx;
    struct channel_scratch *scratch;

    int fd; /* -1 before there is one */
    enum channel_state state;
    enum token_role role;
    bool busy;       /* a callback of the loop is on the stack: freeing waits until it returns */
    bool freed;      /* channel_free was called meanwhile */
    bool ending;     /* closed() comes in this turn, with the three fields below */
    bool want_write; /* write_ev is added */
    bool shut;       /* our half is shut down */
    bool want_flush; /* busy, and what was sent meanwhile goes out as the callback ends */
    bool want_drained;
    bool is_gated; /* server: its handshake waits for a later turn */
    enum channel_end end;
    int end_errno;        /* 0, or what end_text is followed by */
    const char *end_text; /* static, or in *dial */

    struct event read_ev;  /* EV_READ | EV_PERSIST */
    struct event write_ev; /* EV_WRITE | EV_PERSIST; activated by hand at the end of a turn */
    struct event timer_ev;

    struct seal_session seal;
    struct out_queue out;
    int out_errno; /* sending failed; what the peer sent before is still read */

    /* Bytes that were read and make no whole flight or frame yet; NULL while there are none. */
    uint8_t *part;
    size_t part_n;
    size_t part_cap;

    struct channel_dial *dial;  /* client until established */
    struct hello_server *hello; /* server */
    struct hello_facts facts;   /* server: ours */
    struct hello_facts peer_facts;
    uint64_t unknown;
    uint64_t received; /* bytes */
    TAILQ_ENTRY(channel) gated;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer;
};

/* --- channel.c: life and end --- */

/* Brackets of every callback from libevent. leave may free ch. */
void channel_enter(struct channel *ch);
void channel_leave(struct channel *ch);

/* Whether ch still takes part: neither freed nor ended nor about to be. */
bool channel_is_live(const struct channel *ch);

void channel_become(struct channel *ch, enum channel_state next);

/* Ends ch at the end of this turn of the loop; legal from everywhere. text is static or in *dial;
 * error is 0 or an errno that explains it. Only the first end counts. */
void channel_end_later(struct channel *ch, enum channel_end end, const char *text, int error);

/* Starts (again) the one timer. False: no memory, and ch is ending. */
bool channel_set_timer(struct channel *ch, int64_t ms);

/* Makes fd the channel's: options, events. */
void channel_take_fd(struct channel *ch, int fd);

/* The socket is connected: keeps the peer's address, starts to read. False: ch is ending. */
bool channel_start_reading(struct channel *ch);

void channel_drop_part(struct channel *ch);

/* --- channel_send.c: bytes out --- */

/* Queues bytes as they are and arranges for writing them. TFE_ENOMEM. */
int channel_queue_raw(struct channel *ch, const uint8_t *bytes, size_t n) TFE_MUST_CHECK;

/* Writes at the end of this turn. */
void channel_flush_later(struct channel *ch);

/* Writes what the socket takes. Calls nobody back. */
void channel_flush(struct channel *ch);

/* --- channel_receive.c: bytes in --- */

void channel_on_readable(struct channel *ch);

/* Answers message 1 if all of it is there. Between channel_enter and channel_leave. */
void channel_answer_request(struct channel *ch);

/* --- channel_gate.c: handshakes per turn --- */

void channel_gate_init(struct channel_gate *gate);
void channel_gate_done(struct channel_gate *gate);
void channel_gate_arm(struct channel_gate *gate, struct event_base *base);

/* Whether ch may do its curve operations now; else they come by themselves in a later turn. */
bool channel_gate_pass(struct channel *ch);

/* ch waits no longer. */
void channel_gate_leave(struct channel *ch);

/* --- channel_dial.c: a client until it is connected --- */

/* Copies what is needed. TFE_ENOMEM, and what hello_client_start returns. */
int dial_new(const char *host, uint16_t port, const struct token *token,
             const struct hello_facts *facts, uint32_t timeout_ms,
             struct channel_dial **ret) TFE_MUST_CHECK;

/* NULL is allowed. */
void dial_free(struct channel_dial *dial);

/* Looks the host up, or tries its addresses where it is one. TFE_ENOMEM, TFE_ESYS. */
int dial_start(struct channel *ch) TFE_MUST_CHECK;

/* connect(2) has come to an end, or took its share of the time. */
void dial_on_connected(struct channel *ch);
void dial_on_slow(struct channel *ch);

#endif
