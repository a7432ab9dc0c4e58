/* common/channel/channel_private.h: internals of a channel, for channel*.c only.
 *
 * Calls go downwards only (CMakeLists.txt, checked with every build):
 *
 *   channel.c           entry points for the loop and for users; the only file that frees
 *   channel_receive.c   bytes to handshake messages, frames, messages; calls ops
 *   channel_dial.c      a client's connection set-up: name, addresses, connect
 *   channel_send.c      messages to frames, and frames to the socket
 *   channel_state.c     state, socket, timer
 *   channel_budget.c    number of handshakes per iteration of the loop
 *
 * Lower layers request an action of the top by a flag (ending, want_flush, want_drained) that
 * channel.c processes when the loop's callback ends, or by a function pointer passed down. */
#ifndef TFE_COMMON_CHANNEL_CHANNEL_PRIVATE_H
#define TFE_COMMON_CHANNEL_CHANNEL_PRIVATE_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/base/id.h"
#include "common/base/time.h"
#include "common/channel/channel.h"
#include "common/channel/out_queue.h"
#include "common/channel/resolve.h"
#include "common/handshake/seal.h"
#include "common/message/arena.h"
#include "common/text/reason.h"

/* States of a channel.
 *
 *   client   RESOLVING ──► CONNECTING ──► ANSWER ──┐
 *                 └── (next address) ◄──┘           ├──► OPEN ──► FINISHING ──► ENDED
 *   server                 REQUEST ───► FIRST ─────┘
 *
 * ENDED follows every state: closed() runs in it, then the channel is freed. */
enum channel_state {
    CHANNEL_S_RESOLVING,  /* client: the name is being resolved */
    CHANNEL_S_CONNECTING, /* client: connect(2) is in progress */
    CHANNEL_S_ANSWER,     /* client: message 1 is queued or sent; waits for message 2 */
    CHANNEL_S_REQUEST,    /* server: waits for message 1 */
    CHANNEL_S_FIRST,      /* server: message 2 is queued or sent; waits for the first frame */
    CHANNEL_S_OPEN,
    CHANNEL_S_FINISHING, /* the queue is written; received data is dropped */
    CHANNEL_S_ENDED,
    CHANNEL_S__COUNT
};

/* Size of one read: four of the largest frames, or about a thousand renewals. */
#define CHANNEL_READ_MAX (64 * 1024)

/* Handshakes left in this iteration of the loop, and channels that wait for a later one. */
struct channel_budget {
    void (*run)(struct channel *ch);
    unsigned left;
    bool armed; /* `turn` is scheduled for the next iteration of base */
    struct event_base *base;
    struct event turn;
    TAILQ_HEAD(, channel) waiting;
};

/* Memory needed only while a callback of the loop runs, shared by all channels of a thread. */
struct channel_scratch {
    size_t users;
    struct arena arena;
    struct channel_budget budget;
    event_callback_fn on_timer;
    uint8_t in[CHANNEL_READ_MAX];
    uint8_t opened[SEAL_PLAIN_MAX];
    uint8_t encoded[SEAL_PLAIN_MAX];
};

/* Client state that is needed only until the channel is established. */
struct channel_dial {
    char host[TFE_HOST_MAX + 1];
    uint16_t port;
    struct tfe_mono deadline;
    struct resolve *resolve; /* pending name resolution; NULL if none */
    struct resolve_addresses addresses;
    size_t at; /* index of the next address to try */
    bool timed_out;
    struct tfe_reason
        reason; /* failure of the first address, which is the most likely to be the intended one */
    struct handshake_client *handshake;
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    size_t request_n;
};

struct channel {
    struct event_base *base;
    const struct channel_ops *ops;
    void *ctx;
    struct channel_scratch *scratch;

    int fd; /* socket; -1 before there is one */
    enum channel_state state;
    bool busy;   /* a callback of the loop is running, so freeing is deferred until it returns */
    bool freed;  /* channel_free was called while busy */
    bool ending; /* closed() runs in this iteration, with end, end_errno and end_text */
    bool want_write; /* write_ev is added */
    bool shut;       /* the sending side is shut down */
    bool want_flush; /* messages sent while busy are written when the callback ends */
    bool want_drained;
    bool waits_for_budget; /* server: the handshake waits for a later iteration */
    enum channel_end end;
    int end_errno;        /* errno that follows end_text; 0 if none */
    const char *end_text; /* reason for the end; static, or in *dial */
    struct principal by;  /* server: the client's identity, once message 1 is answered */
    char *scope;          /* copy of the client's scope; NULL for every job */

    struct event read_ev; /* EV_READ | EV_PERSIST */
    struct event
        write_ev; /* EV_WRITE | EV_PERSIST; also activated manually at the end of an iteration */
    struct event
        *timer; /* allocated only while armed, because most channels have no time to wait for */

    struct seal_session seal;
    struct out_queue out;
    int out_errno; /* errno of a failed write, 0 if none; what the peer sent before is still read */

    /* Received bytes of an incomplete handshake message or frame; NULL if there are none. */
    uint8_t *part;
    size_t part_n;
    size_t part_cap;

    struct channel_dial *dial;             /* client: set-up state until established, then NULL */
    struct handshake_server *handshake;    /* server: secrets for the handshake, borrowed */
    const struct handshake_params *params; /* server: handshake parameters, borrowed */
    uint64_t unknown;
    TAILQ_ENTRY(channel) budget_link;
};

/* --- channel_receive.c: input ----------------------------------------------------------------- */

void channel_on_readable(struct channel *ch);

/* Reads available bytes of message 1. Returns true if it is complete, with a valid mac1. */
bool channel_read_request(struct channel *ch);
/* Answers message 1. Precondition: channel_read_request has returned true. */
void channel_answer_request(struct channel *ch);

void channel_drop_part(struct channel *ch);

/* --- channel_dial.c: a client's connection set-up --------------------------------------------- */

/* Makes the set-up state, with copies of the arguments. Returns TFE_ENOMEM, or an error of
 * handshake_client_start. */
int dial_new(const char *host, uint16_t port, const struct token *token,
             const struct handshake_params *params, uint32_t timeout_ms,
             struct channel_dial **ret) TFE_MUST_CHECK;

/* Frees the set-up state. NULL is allowed. */
void dial_free(struct channel_dial *dial);

/* Connects to a numeric host, or starts resolving a name: on_resolved(ch, ...) must then call
 * dial_on_resolved. Returns 0, TFE_ENOMEM or TFE_ESYS. */
int dial_start(struct channel *ch, resolve_fn *on_resolved) TFE_MUST_CHECK;

/* Continues with the name's addresses, or ends the channel with error. */
void dial_on_resolved(struct channel *ch, const struct resolve_addresses *addresses,
                      const char *error);

/* dial_on_connected: connect(2) has completed or failed. dial_on_slow: it has used up its share of
 * the time. */
void dial_on_connected(struct channel *ch);
void dial_on_slow(struct channel *ch);

/* --- channel_send.c: output ------------------------------------------------------------------- */

/* Queues unencrypted bytes and schedules the write. Returns 0 or TFE_ENOMEM. */
int channel_queue_raw(struct channel *ch, const uint8_t *bytes, size_t n) TFE_MUST_CHECK;

/* Schedules a write at the end of this iteration. */
void channel_flush_later(struct channel *ch);

/* Writes as much as the socket accepts. Runs no callbacks. */
void channel_flush(struct channel *ch);

/* --- channel_state.c: state, socket and timer ------------------------------------------------- */

/* True if ch is neither freed nor ended nor about to end. */
static inline bool channel_is_live(const struct channel *ch)
{
    return !ch->freed && !ch->ending && ch->state != CHANNEL_S_ENDED;
}

void channel_become(struct channel *ch, enum channel_state next);

/* Requests the end of ch at the end of this loop iteration; may be called in any state. text is
 * static or in *dial; error is 0 or an errno that explains it. Later requests are ignored. */
void channel_end_later(struct channel *ch, enum channel_end end, const char *text, int error);

/* Removes all events of ch from the loop. */
void channel_stop_events(struct channel *ch);

/* Arms or re-arms the channel's only timer. Returns false, with ch ending, if out of memory. */
bool channel_set_timer(struct channel *ch, int64_t ms);
void channel_stop_timer(struct channel *ch);

/* Adopts fd: sets socket options and events. */
void channel_adopt_fd(struct channel *ch, int fd);

/* Selects whether closing the socket ends the connection in an orderly way or resets it. */
void channel_set_orderly(struct channel *ch, bool orderly);

/* Starts reading from the connected socket. Returns false, with ch ending, if out of memory. */
bool channel_start_reading(struct channel *ch);

/* --- channel_budget.c: handshakes per iteration ----------------------------------------------- */

/* Initialises the budget. run continues a waiting channel, whose socket is not read meanwhile. */
void channel_budget_init(struct channel_budget *budget, void (*run)(struct channel *ch));
void channel_budget_done(struct channel_budget *budget);

/* Returns true if ch may perform its curve operations now; otherwise it waits for a later
 * iteration. */
bool channel_budget_use(struct channel *ch);
/* Makes ch wait for a later iteration. Returns false if out of memory. */
bool channel_budget_wait(struct channel *ch);

/* Removes ch from the waiting channels. */
void channel_budget_leave(struct channel *ch);

#endif
