/* tests/sim/net.c: simulated connections between agents and the server: FIFO; they can be slow,
 * stalled, cut, reset or gone. */
#include "tests/sim/net.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/handshake/seal.h"
#include "common/message/arena.h"
#include "common/message/codec.h"
#include "tests/sim/check.h"
#include "tests/sim/node.h"
#include "tests/sim/server.h"

/* Approximate time for which a kernel retries a connect; interval at which the simulator checks. */
#define CONNECT_MS 5000
#define CONNECT_LOOK_MS 100
/* If frames come in pieces, one frame of so many is cut, and so is one of so many remainders. */
#define PIECES_EACH 4

enum item_kind { ITEM_DATA, ITEM_TABLE, ITEM_FIN, ITEM_RST };

struct item {
    struct item *next;
    int64_t at;
    enum item_kind kind;
    struct net_bytes *bytes;
    uint32_t n;    /* number of bytes that arrive with this item */
    uint32_t upto; /* number of bytes of the message that have arrived with this item */
};

struct way {
    struct item *head;
    struct item **tail;
    size_t bytes; /* bytes of ITEM_DATA, because the server's I/O layer streams tables */
    int64_t last_at;
    bool scheduled; /* an event for the first item is in the heap */
};

struct conn {
    bool used;
    uint32_t tag;
    uint32_t node;
    uint32_t next; /* next connection of the same node, or next in the free list */
    uint32_t session;
    uint32_t era;
    uint32_t job; /* job of the agent that opened it, whose machine may have another agent since */
    uint32_t known_as;
    bool agent_open;
    bool server_open;
    bool is_half; /* one end has received a reset that the other did not send */
    struct way up;
    struct way down;
    struct seal_session agent_keys;
    struct seal_session server_keys;
};

struct net {
    struct link *links;
    uint32_t n_links;
    struct conn **conns;
    uint32_t n_conns;
    size_t cap_conns;
    uint32_t free;
    struct item *spare_items;
    struct arena arena;
    uint64_t n_cut; /* counter, source of the positions at which frames are cut */
    uint8_t plain[SEAL_PLAIN_MAX];
    uint8_t frame[SEAL_FRAME_MAX + SEAL_HEADER_BYTES];
};

struct net *net_new(struct world *w, uint32_t n_nodes)
{
    struct net *net = sim_alloc(1, sizeof(*net));
    if (arena_init(&net->arena, ARENA_CAP)) {
        exit(3);
    }
    net->links = sim_alloc(n_nodes, sizeof(*net->links));
    net->n_links = n_nodes;
    net->free = NO_CONN;
    for (uint32_t i = 0; i < n_nodes; i++) {
        net->links[i] = (struct link){.latency_lo = 1,
                                      .latency_hi = 1,
                                      .try_since = SIM_NEVER,
                                      .conns = NO_CONN,
                                      .conn = NO_CONN};
    }
    w->net = net;
    return net;
}

uint32_t net_latency(const struct world *w)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < w->net->n_links; i++) {
        uint32_t ms = w->net->links[i].latency_hi;
        longest = ms > longest ? ms : longest;
    }
    return longest;
}

struct link *net_link(struct world *w, uint32_t node)
{
    return &w->net->links[node];
}

bool net_is_connected(const struct world *w, uint32_t node)
{
    uint32_t conn = w->net->links[node].conn;
    return conn != NO_CONN && !w->net->conns[conn]->is_half;
}

uint32_t net_conn_node(const struct world *w, uint32_t conn)
{
    return w->net->conns[conn]->node;
}

uint32_t net_conn_job(const struct world *w, uint32_t conn)
{
    return w->net->conns[conn]->job;
}

uint32_t net_conn_known_as(const struct world *w, uint32_t conn)
{
    return w->net->conns[conn]->known_as;
}

uint32_t *net_conn_session(struct world *w, uint32_t conn)
{
    return &w->net->conns[conn]->session;
}

uint32_t net_agent_era(const struct world *w, uint32_t node)
{
    uint32_t conn = w->net->links[node].conn;
    return conn == NO_CONN ? 0 : w->net->conns[conn]->era;
}

/* --- queues --- */

static void on_up(struct world *w, const struct sim_event *event);
static void on_down(struct world *w, const struct sim_event *event);

void net_bytes_drop(struct net_bytes *bytes)
{
    if (bytes && --bytes->refs == 0) {
        free(bytes);
    }
}

static struct net_bytes *bytes_new(const uint8_t *v, size_t n)
{
    struct net_bytes *bytes = malloc(sizeof(*bytes) + n);
    if (!bytes) {
        exit(3);
    }
    bytes->refs = 1;
    bytes->n = (uint32_t)n;
    memcpy(bytes->v, v, n);
    return bytes;
}

static void way_clear(struct net *net, struct way *way)
{
    while (way->head) {
        struct item *item = way->head;
        way->head = item->next;
        net_bytes_drop(item->bytes);
        item->next = net->spare_items;
        net->spare_items = item;
    }
    way->tail = &way->head;
    way->bytes = 0;
}

static void way_schedule(struct world *w, uint32_t id, bool up)
{
    struct conn *c = w->net->conns[id];
    struct way *way = up ? &c->up : &c->down;
    if (way->head && !way->scheduled) {
        way->scheduled = true;
        world_at(w, way->head->at, up ? on_up : on_down, id, c->tag, 0);
    }
}

static void way_add_piece(struct world *w, uint32_t id, bool up, struct item piece)
{
    struct net *net = w->net;
    struct conn *c = net->conns[id];
    struct way *way = up ? &c->up : &c->down;
    const struct link *link = &net->links[c->node];
    int64_t at = w->now + (link->latency_lo < link->latency_hi
                               ? (int64_t)rng_between(&w->rng, link->latency_lo, link->latency_hi)
                               : link->latency_lo);
    way->last_at = at > way->last_at ? at : way->last_at;
    struct item *item = net->spare_items;
    if (item) {
        net->spare_items = item->next;
    } else {
        item = sim_alloc(1, sizeof(*item));
    }
    *item = piece;
    item->at = way->last_at;
    *way->tail = item;
    way->tail = &item->next;
    if (item->kind == ITEM_DATA) {
        way->bytes += item->n;
        if (way->bytes > LIMIT_QUEUE_BYTES) {
            check_fail(w->check, CHECK_QUEUE_LIMIT,
                       "%zu bytes are queued on a connection of node %u, the limit is %zu",
                       way->bytes, c->node, (size_t)LIMIT_QUEUE_BYTES);
        }
    }
    way_schedule(w, id, up);
}

static void way_add(struct world *w, uint32_t id, bool up, enum item_kind kind,
                    struct net_bytes *bytes)
{
    struct net *net = w->net;
    uint32_t n = bytes ? bytes->n : 0;
    uint32_t at = 0;
    while (w->options.pieces && at + 1 < n) {
        uint64_t draw = world_draw(w, id, ++net->n_cut, 16);
        if (draw % PIECES_EACH != 0) {
            break;
        }
        uint32_t piece = 1 + (uint32_t)(draw / PIECES_EACH % (n - at - 1));
        at += piece;
        bytes->refs++;
        way_add_piece(w, id, up, (struct item){NULL, 0, kind, bytes, piece, at});
    }
    way_add_piece(w, id, up, (struct item){NULL, 0, kind, bytes, n - at + SEAL_HEADER_BYTES, n});
}

/* Removes the first item; the caller owns its bytes. */
static struct item way_take(struct net *net, struct way *way)
{
    struct item *item = way->head;
    struct item taken = *item;
    way->head = item->next;
    if (!way->head) {
        way->tail = &way->head;
    }
    if (taken.kind == ITEM_DATA) {
        way->bytes -= taken.n;
    }
    item->next = net->spare_items;
    net->spare_items = item;
    return taken;
}

/* --- connections --- */

static void make_keys(struct world *w, uint32_t id, struct conn *c)
{
    uint8_t key[2][SEAL_KEY_BYTES];
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i / SEAL_KEY_BYTES][i % SEAL_KEY_BYTES] = (uint8_t)world_draw(w, id, c->tag, 1000 + i);
    }
    struct seal_key fresh = {.until_rekey = SEAL_REKEY_FRAMES};
    c->agent_keys = (struct seal_session){.tx = fresh, .rx = fresh};
    memcpy(c->agent_keys.tx.key, key[0], SEAL_KEY_BYTES);
    memcpy(c->agent_keys.rx.key, key[1], SEAL_KEY_BYTES);
    c->server_keys = (struct seal_session){.tx = c->agent_keys.rx, .rx = c->agent_keys.tx};
}

static uint32_t conn_new(struct world *w, uint32_t node)
{
    struct net *net = w->net;
    uint32_t id = net->free;
    if (id == NO_CONN) {
        net->conns = sim_grow(net->conns, net->n_conns, &net->cap_conns, sizeof(*net->conns));
        id = net->n_conns++;
        net->conns[id] = sim_alloc(1, sizeof(struct conn));
    } else {
        net->free = net->conns[id]->next;
    }
    struct conn *c = net->conns[id];
    *c = (struct conn){.used = true,
                       .tag = c->tag + 1,
                       .node = node,
                       .next = net->links[node].conns,
                       .session = NO_CONN,
                       .era = check_era(w->check, node_job(w, node)),
                       .job = node_job(w, node),
                       .known_as = w->nodes[node].known_as,
                       .agent_open = true,
                       .server_open = true};
    c->up.tail = &c->up.head;
    c->down.tail = &c->down.head;
    if (w->options.wire) {
        make_keys(w, id, c);
    }
    net->links[node].conns = id;
    net->links[node].conn = id;
    return id;
}

static void free_if_closed(struct world *w, uint32_t id)
{
    struct net *net = w->net;
    struct conn *c = net->conns[id];
    if (!c->used || c->agent_open || c->server_open) {
        return;
    }
    way_clear(net, &c->up);
    way_clear(net, &c->down);
    c->used = false;
    c->tag++;
    for (uint32_t *at = &net->links[c->node].conns; *at != NO_CONN; at = &net->conns[*at]->next) {
        if (*at == id) {
            *at = c->next;
            break;
        }
    }
    c->next = net->free;
    net->free = id;
}

static void close_agent_end(struct world *w, uint32_t id)
{
    struct conn *c = w->net->conns[id];
    c->agent_open = false;
    if (w->net->links[c->node].conn == id) {
        w->net->links[c->node].conn = NO_CONN;
    }
    way_clear(w->net, &c->down);
    free_if_closed(w, id);
}

static void close_server_end(struct world *w, uint32_t id)
{
    struct conn *c = w->net->conns[id];
    c->server_open = false;
    way_clear(w->net, &c->up);
    free_if_closed(w, id);
}

void net_free(struct world *w)
{
    struct net *net = w->net;
    for (uint32_t i = 0; i < net->n_conns; i++) {
        way_clear(net, &net->conns[i]->up);
        way_clear(net, &net->conns[i]->down);
        free(net->conns[i]);
    }
    while (net->spare_items) {
        struct item *item = net->spare_items;
        net->spare_items = item->next;
        free(item);
    }
    arena_done(&net->arena);
    free(net->conns);
    free(net->links);
    free(net);
    w->net = NULL;
}

void net_kick(struct world *w, uint32_t node)
{
    uint32_t next;
    for (uint32_t id = w->net->links[node].conns; id != NO_CONN; id = next) {
        next = w->net->conns[id]->next;
        way_schedule(w, id, true);
        way_schedule(w, id, false);
    }
}

/* --- connecting --- */

static void on_try(struct world *w, const struct sim_event *event)
{
    uint32_t node = event->who;
    struct link *link = &w->net->links[node];
    if (event->tag != link->try_tag || link->try_since == SIM_NEVER) {
        return;
    }
    if (link->stalled || link->cut_up || link->cut_down || link->gone ||
        server_late_until(w) > w->now || !node_can_run(w, node)) {
        if (w->now - link->try_since >= CONNECT_MS && node_can_run(w, node)) {
            link->try_since = SIM_NEVER;
            node_disconnected(w, node, AGENT_LINK_UNREACHABLE, "timed out");
            return;
        }
        world_again(w, event, w->now + CONNECT_LOOK_MS);
        return;
    }
    link->try_since = SIM_NEVER;
    if (!server_is_up(w)) {
        node_disconnected(w, node, AGENT_LINK_UNREACHABLE, "connection refused");
        return;
    }
    uint32_t id = conn_new(w, node);
    if (!server_accept(w, id)) {
        w->net->conns[id]->server_open = false;
        close_agent_end(w, id);
        node_disconnected(w, node, AGENT_LINK_LOST, "the server is full");
        return;
    }
    node_connected(w, node);
}

void net_connect(struct world *w, uint32_t node)
{
    struct link *link = &w->net->links[node];
    link->try_tag++;
    link->try_since = w->now;
    world_at(w, w->now + 2 * (int64_t)link->latency_lo, on_try, node, link->try_tag, 0);
}

/* --- sending --- */

/* Seals n bytes of net->plain. */
static struct net_bytes *seal(struct world *w, struct seal_key *key, const uint8_t *plain, size_t n)
{
    size_t sealed;
    if (!w->options.wire) {
        return bytes_new(plain, n);
    }
    int rc = seal_frame(key, plain, n, w->net->frame, sizeof(w->net->frame), &sealed);
    if (rc) {
        check_honest(w->check, "seal_frame", "a message", rc);
        return bytes_new(plain, 0);
    }
    return bytes_new(w->net->frame, sealed);
}

static void send(struct world *w, uint32_t id, bool up, const struct tfe_msg *msg)
{
    struct conn *c = w->net->conns[id];
    size_t n;
    int rc = codec_encode(msg, w->net->plain, sizeof(w->net->plain), &n);
    if (rc) {
        check_honest(w->check, "codec_encode", msg_type_name(msg->type), rc);
        return;
    }
    struct seal_key *key = up ? &c->agent_keys.tx : &c->server_keys.tx;
    way_add(w, id, up, ITEM_DATA, seal(w, key, w->net->plain, n));
}

/* Data was sent to an end that no longer exists, in direction `up`: its kernel answers with a
 * reset. */
static void answer_half(struct world *w, uint32_t id, bool up)
{
    struct conn *c = w->net->conns[id];
    if (c->is_half && !(up ? c->down.head : c->up.head)) {
        way_add(w, id, !up, ITEM_RST, NULL);
    }
}

void net_agent_send(struct world *w, uint32_t node, const struct tfe_msg *msg)
{
    uint32_t id = w->net->links[node].conn;
    if (id == NO_CONN) {
        return;
    }
    if (w->net->conns[id]->server_open) {
        send(w, id, true, msg);
    } else {
        answer_half(w, id, true);
    }
}

/* Returns true if anything from the server to the agent is on its way on this connection. */
static bool is_way_down(struct world *w, uint32_t conn)
{
    const struct conn *c = w->net->conns[conn];
    if (c->agent_open || w->net->links[c->node].gone) {
        return true;
    }
    answer_half(w, conn, false);
    return false;
}

void net_server_send(struct world *w, uint32_t conn, const struct tfe_msg *msg)
{
    if (is_way_down(w, conn)) {
        send(w, conn, false, msg);
    }
}

struct net_bytes *net_encode_chunk(struct world *w, const struct msg_table *table, size_t first,
                                   size_t *ret_rows)
{
    size_t n;
    int rc =
        codec_encode_table_chunk(table, first, w->net->plain, sizeof(w->net->plain), &n, ret_rows);
    if (rc) {
        check_honest(w->check, "codec_encode_table_chunk", "a table", rc);
        return NULL;
    }
    return bytes_new(w->net->plain, n);
}

void net_server_send_bytes(struct world *w, uint32_t conn, struct net_bytes *bytes)
{
    struct conn *c = w->net->conns[conn];
    if (!is_way_down(w, conn)) {
        return;
    }
    if (w->options.wire) {
        bytes = seal(w, &c->server_keys.tx, bytes->v, bytes->n);
    } else {
        bytes->refs++;
    }
    way_add(w, conn, false, ITEM_TABLE, bytes);
}

/* --- ending --- */

void net_agent_close(struct world *w, uint32_t node)
{
    struct link *link = &w->net->links[node];
    uint32_t id = link->conn;
    link->try_since = SIM_NEVER;
    if (id == NO_CONN) {
        return;
    }
    if (w->net->conns[id]->server_open) {
        way_add(w, id, true, ITEM_FIN, NULL);
    }
    close_agent_end(w, id);
}

void net_agent_abort(struct world *w, uint32_t node)
{
    struct link *link = &w->net->links[node];
    uint32_t id = link->conn;
    link->try_since = SIM_NEVER;
    if (id == NO_CONN) {
        return;
    }
    if (w->net->conns[id]->server_open) {
        way_clear(w->net, &w->net->conns[id]->up);
        way_add(w, id, true, ITEM_RST, NULL);
    }
    close_agent_end(w, id);
}

void net_reset(struct world *w, uint32_t node)
{
    uint32_t id = w->net->links[node].conn;
    if (id == NO_CONN) {
        return;
    }
    struct conn *c = w->net->conns[id];
    way_clear(w->net, &c->up);
    way_clear(w->net, &c->down);
    if (c->server_open) {
        way_add(w, id, true, ITEM_RST, NULL);
    }
    way_add(w, id, false, ITEM_RST, NULL);
}

void net_false_reset(struct world *w, uint32_t node, bool to_server)
{
    uint32_t id = w->net->links[node].conn;
    struct conn *c = id == NO_CONN ? NULL : w->net->conns[id];
    if (c && c->server_open && !c->is_half) {
        c->is_half = true;
        way_clear(w->net, to_server ? &c->up : &c->down);
        way_add(w, id, to_server, ITEM_RST, NULL);
    }
}

void net_vanish(struct world *w, uint32_t node)
{
    struct link *link = &w->net->links[node];
    uint32_t next;
    link->gone = true;
    link->try_since = SIM_NEVER;
    for (uint32_t id = link->conns; id != NO_CONN; id = next) {
        next = w->net->conns[id]->next;
        way_clear(w->net, &w->net->conns[id]->up);
        close_agent_end(w, id);
    }
}

void net_server_close(struct world *w, uint32_t conn)
{
    way_add(w, conn, false, ITEM_FIN, NULL);
    if (!w->net->conns[conn]->agent_open) {
        way_clear(w->net, &w->net->conns[conn]->down);
    }
    close_server_end(w, conn);
}

void net_server_down(struct world *w)
{
    for (uint32_t id = 0; id < w->net->n_conns; id++) {
        if (w->net->conns[id]->used && w->net->conns[id]->server_open) {
            net_server_close(w, id);
        }
    }
}

/* --- delivering --- */

/* Returns false if the rest of the message is still to come, or it is no message. */
static bool open_message(struct world *w, struct seal_key *key, const struct item *item,
                         struct tfe_msg *ret)
{
    const uint8_t *plain = item->bytes->v;
    size_t n = item->upto;
    if (w->options.wire) {
        size_t used;
        int rc = seal_open(key, item->bytes->v, item->upto, &used, w->net->plain, &n);
        if (rc == TFE_EMORE && item->upto < item->bytes->n) {
            return false;
        }
        if (rc) {
            check_honest(w->check, "seal_open", "a frame", rc);
            return false;
        }
        plain = w->net->plain;
    }
    arena_reset(&w->net->arena);
    int rc = codec_decode(&w->net->arena, plain, n, ret);
    if (rc) {
        check_honest(w->check, "codec_decode", "a message", rc);
    }
    return rc == 0;
}

static void on_up(struct world *w, const struct sim_event *event)
{
    uint32_t id = event->who;
    struct conn *c = w->net->conns[id];
    if (event->tag != c->tag) {
        return;
    }
    c->up.scheduled = false;
    const struct link *link = &w->net->links[c->node];
    if (!c->up.head || link->stalled || link->cut_up || link->gone) {
        return; /* net_kick continues */
    }
    if (server_late_until(w) > w->now) {
        c->up.scheduled = true;
        world_again(w, event, server_late_until(w));
        return;
    }
    struct item item = way_take(w->net, &c->up);
    way_schedule(w, id, true);
    struct tfe_msg msg;
    switch (item.kind) {
    case ITEM_DATA:
    case ITEM_TABLE:
        if (open_message(w, &c->server_keys.rx, &item, &msg)) {
            server_receive(w, id, &msg);
        }
        net_bytes_drop(item.bytes);
        return;
    case ITEM_FIN:
    case ITEM_RST:
        server_hung_up(w, id);
        if (c->tag == event->tag) {
            if (c->up.head) { /* data sent after it */
                answer_half(w, id, true);
            }
            close_server_end(w, id);
        }
        return;
    }
}

static void on_down(struct world *w, const struct sim_event *event)
{
    uint32_t id = event->who;
    struct conn *c = w->net->conns[id];
    if (event->tag != c->tag) {
        return;
    }
    c->down.scheduled = false;
    if (!c->agent_open) {
        way_clear(w->net, &c->down); /* of a machine that has vanished and may have a successor */
        return;
    }
    const struct link *link = &w->net->links[c->node];
    if (!c->down.head || link->stalled || link->cut_down || link->gone ||
        !node_can_run(w, c->node)) {
        return; /* net_kick continues */
    }
    struct item item = way_take(w->net, &c->down);
    way_schedule(w, id, false);
    struct tfe_msg msg;
    uint32_t node = c->node;
    switch (item.kind) {
    case ITEM_DATA:
    case ITEM_TABLE:
        if (open_message(w, &c->agent_keys.rx, &item, &msg)) {
            node_receive(w, node, &msg);
        }
        net_bytes_drop(item.bytes);
        return;
    case ITEM_FIN:
    case ITEM_RST:
        close_agent_end(w, id);
        node_disconnected(w, node, AGENT_LINK_LOST,
                          item.kind == ITEM_RST ? "connection reset" : "closed by the server");
        return;
    }
}
