/* server/table_stream.c: tables as sockets drain. What waits is a position, not bytes: ten thousand
 * agents that get a table of 200 KB each would be 2 GB of sealed frames else. Nor are they sealed
 * in one turn of the loop, which would take seconds: a few streams go on in each, in order. */
#include "server/table_stream.h"

#include <event2/event.h>
#include <stdlib.h>

#include "common/net/channel.h"

/* Chunks for one agent before the next one's turn: 80 KB, less than a millisecond of sealing. */
#define CHUNKS_PER_TURN 8
/* Some 2 ms of sealing and sending. */
#define STREAMS_PER_TURN 8

struct table_stream {
    struct table_gate *gate;
    struct channel *ch;
    bool is_waiting; /* in the gate's list */
    bool is_let_in;  /* counted in this turn, drained() is under way */
    TAILQ_ENTRY(table_stream) wait;
    struct table_chunks *chunks;
    size_t next;
    bool has_start;
    struct msg_start start;
};

/* Due at once, but timers come behind the sockets of the next turn. */
static void arm(struct table_gate *gate)
{
    static const struct timeval next = {0};
    if (!gate->armed) {
        gate->armed = evtimer_add(&gate->turn, &next) == 0;
    }
}

static void let_in(struct table_gate *gate, struct table_stream *t)
{
    TAILQ_REMOVE(&gate->waiting, t, wait);
    t->is_waiting = false;
    t->is_let_in = true;
    gate->left--;
    channel_want_drained(t->ch);
}

static void on_turn(evutil_socket_t fd, short what, void *ctx)
{
    struct table_gate *gate = ctx;
    struct table_stream *t;
    (void)fd;
    (void)what;
    gate->armed = false;
    gate->left = STREAMS_PER_TURN;
    while (gate->left > 0 && (t = TAILQ_FIRST(&gate->waiting)) != NULL) {
        let_in(gate, t);
        arm(gate);
    }
}

void table_gate_init(struct table_gate *gate, struct event_base *base)
{
    gate->left = STREAMS_PER_TURN;
    gate->armed = false;
    TAILQ_INIT(&gate->waiting);
    (void)evtimer_assign(&gate->turn, base, on_turn, gate);
}

void table_gate_done(struct table_gate *gate)
{
    (void)evtimer_del(&gate->turn);
    gate->armed = false;
}

/* Whether the stream may go on now; else drained() comes again in a later turn. */
static bool pass(struct table_stream *t)
{
    struct table_gate *gate = t->gate;
    if (t->is_let_in) {
        t->is_let_in = false;
        return true;
    }
    if (t->is_waiting) {
        return false;
    }
    arm(gate);
    if (!gate->armed) {
        return true; /* no memory for a timer: nobody would ever let it in */
    }
    if (gate->left > 0 && TAILQ_EMPTY(&gate->waiting)) {
        gate->left--;
        return true;
    }
    TAILQ_INSERT_TAIL(&gate->waiting, t, wait);
    t->is_waiting = true;
    return false;
}

int table_stream_new(struct table_gate *gate, struct channel *ch, struct table_chunks *chunks,
                     struct table_stream **ret)
{
    struct table_stream *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return TFE_ENOMEM;
    }
    table_chunks_keep(chunks);
    t->chunks = chunks;
    t->gate = gate;
    t->ch = ch;
    channel_want_drained(ch);
    *ret = t;
    return 0;
}

void table_stream_free(struct table_stream *t)
{
    if (t != NULL) {
        if (t->is_waiting) {
            TAILQ_REMOVE(&t->gate->waiting, t, wait);
        }
        table_chunks_drop(t->chunks);
        free(t);
    }
}

uint64_t table_stream_epoch(const struct table_stream *t)
{
    return table_chunks_epoch(t->chunks);
}

void table_stream_start(struct table_stream *t, const struct msg_start *start)
{
    t->has_start = true;
    t->start = *start;
}

int table_stream_go_on(struct table_stream *t)
{
    struct channel *ch = t->ch;
    size_t count = table_chunks_count(t->chunks);
    if (!pass(t)) {
        return TFE_EMORE;
    }
    for (int turn = 0; turn < CHUNKS_PER_TURN && t->next < count; turn++) {
        size_t n;
        const uint8_t *plain = table_chunks_get(t->chunks, t->next, &n);
        int err = channel_send_encoded(ch, plain, n);
        if (err != 0) {
            return channel_ends_itself(err) ? 0 : TFE_ENOMEM;
        }
        t->next++;
        /* At once: frames of all agents would pile up until the end of this turn of the loop. */
        if (!channel_push(ch)) {
            break;
        }
    }
    if (t->next < count) {
        channel_want_drained(ch);
        return TFE_EMORE;
    }
    if (!t->has_start) {
        return 0;
    }
    struct tfe_msg msg = {.type = MSG_START, .u.start = t->start};
    int err = channel_send(ch, &msg);
    return err == 0 || channel_ends_itself(err) ? 0 : TFE_ENOMEM;
}
