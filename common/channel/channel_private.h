/* common/channel/channel_private.h: the inside of a channel, for channel*.c only.
 *
 * Calls go downwards only (CMakeLists.txt, checked with every build):
 *
 *   channel.c           what the loop and the users of a channel call; the only one that frees
 *   channel_receive.c   bytes to flights of the handshake, frames, messages; calls ops
 *   channel_dial.c      a client's way to a connected socket
 *   channel_send.c      messages to frames, and frames to the socket
 *   channel_state.c     where the channel stands; its socket, its timer
 *   channel_budget.c      how many handshakes a turn takes
 *
 * What the lower ones want of the top is a wish (ending, want_flush, want_drained) that channel.c
 * settles when the callback of the loop is done, or a function that was handed down. */
#ifndef TFE_COMMON_CHANNEL_CHANNEL_PRIVATE_H
#define TFE_COMMON_CHANNEL_CHANNEL_PRIVATE_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/id.h"
#include "common/base/reason.h"
#include "common/base/time.h"
#include "common/channel/channel.h"
#include "common/channel/out_queue.h"
#include "common/channel/resolve.h"
#include "common/channel/seal.h"
#include "common/message/arena.h"

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
    void (*run)(struct channel *ch);
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
    event_callback_fn on_timer;
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
    struct tfe_reason
        reason; /* of the first address that failed; the first is the likeliest to be meant */
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
    struct principal by;  /* server: the client, once message 1 is answered */
    char *scope;          /* the client's; NULL: every job */

    struct event read_ev;  /* EV_READ | EV_PERSIST */
    struct event write_ev; /* EV_WRITE | EV_PERSIST; activated by hand at the end of a turn */
    struct event *timer;   /* NULL unless it runs: most channels have none to wait for */

    struct seal_session seal;
    struct out_queue out;
    int out_errno; /* sending failed; what the peer sent before is still read */

    /* Bytes that were read and make no whole flight or frame yet; NULL while there are none. */
    uint8_t *part;
    size_t part_n;
    size_t part_cap;

    struct channel_dial *dial;       /* client until established */
    struct hello_server *hello;      /* server */
    const struct hello_facts *facts; /* server: ours */
    uint64_t unknown;
    TAILQ_ENTRY(channel) gated;
};

/* --- channel_receive.c: bytes in --- */

void channel_on_readable(struct channel *ch);

/* Reads what there is of message 1. Whether all of it is there, with a good mac1. */
bool channel_read_request(struct channel *ch);
/* Precondition: it is there. */
void channel_answer_request(struct channel *ch);

void channel_drop_part(struct channel *ch);

/* --- channel_dial.c: a client until it is connected --- */

/* Copies what is needed. TFE_ENOMEM, and what hello_client_start returns. */
int dial_new(const char *host, uint16_t port, const struct token *token,
             const struct hello_facts *facts, uint32_t timeout_ms,
             struct channel_dial **ret) TFE_MUST_CHECK;

/* NULL is allowed. */
void dial_free(struct channel_dial *dial);

/* Tries the host's addresses, or has them looked up first: then on_resolved(ch, …) is called, and
 * is to hand them to dial_on_resolved. TFE_ENOMEM, TFE_ESYS. */
int dial_start(struct channel *ch, resolve_fn *on_resolved) TFE_MUST_CHECK;

/* The name's addresses are there, or will not come. */
void dial_on_resolved(struct channel *ch, const struct resolve_addresses *addresses,
                      const char *error);

/* connect(2) has come to an end, or took its share of the time. */
void dial_on_connected(struct channel *ch);
void dial_on_slow(struct channel *ch);

/* --- channel_send.c: bytes out --- */

/* Queues bytes as they are and arranges for writing them. TFE_ENOMEM. */
int channel_queue_raw(struct channel *ch, const uint8_t *bytes, size_t n) TFE_MUST_CHECK;

/* Writes at the end of this turn. */
void channel_flush_later(struct channel *ch);

/* Writes what the socket takes. Calls nobody back. */
void channel_flush(struct channel *ch);

/* --- channel_state.c: where it stands --- */

/* Whether ch still takes part: neither freed nor ended nor about to be. */
static inline bool channel_is_live(const struct channel *ch)
{
    return !ch->freed && !ch->ending && ch->state != CHANNEL_S_ENDED;
}

void channel_become(struct channel *ch, enum channel_state next);

/* The wish that ch should end, at the end of this turn of the loop; legal from everywhere. text is
 * static or in *dial; error is 0 or an errno that explains it. Only the first end counts. */
void channel_end_later(struct channel *ch, enum channel_end end, const char *text, int error);

/* Takes ch out of the loop. */
void channel_stop_events(struct channel *ch);

/* Starts (again) the one timer. False: no memory, and ch is ending. */
bool channel_set_timer(struct channel *ch, int64_t ms);
void channel_stop_timer(struct channel *ch);

/* Makes fd the channel's: options, events. */
void channel_take_fd(struct channel *ch, int fd);

/* Whether closing ends the connection in order, or resets it. */
void channel_set_orderly(struct channel *ch, bool orderly);

/* The socket is connected: starts to read. False: ch is ending. */
bool channel_start_reading(struct channel *ch);

/* --- channel_budget.c: handshakes per turn --- */

/* run: the turn of a channel that waited has come; it does not read its socket meanwhile. */
void channel_gate_init(struct channel_gate *gate, void (*run)(struct channel *ch));
void channel_gate_done(struct channel_gate *gate);

/* Whether ch may do its curve operations now; else its turn comes later. */
bool channel_gate_pass(struct channel *ch);
/* Its turn comes later in any case. False: no memory, it would never come. */
bool channel_gate_wait(struct channel *ch);

/* ch waits no longer. */
void channel_gate_leave(struct channel *ch);

#endif
