/* tests/unit/both/fleet.h: the real cores of a server and its agents in one virtual world:
 * connections that take time, break, or swallow everything; machines that die; trainers that fail;
 * clocks that run 5 % wrong. */
#ifndef TFE_TESTS_UNIT_BOTH_FLEET_H
#define TFE_TESTS_UNIT_BOTH_FLEET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent.h"
#include "common/base/rng.h"
#include "common/base/table.h"
#include "server/core/rdzv.h"
#include "tests/unit/base/flaky.h"
#include "tests/unit/both/parcel.h"
#include "tests/unit/story.h"

#define SLOTS 6u
#define CONNS 512u
#define EPOCHS 4096u
#define NEVER INT64_MAX

struct conn {
    uint64_t serial;
    uint32_t slot;
    bool server_open;
    bool agent_open;
    bool swallows; /* neither end learns anything any more */
    int64_t to_server;
    int64_t to_agent; /* nothing overtakes */
};

struct slot {
    struct agent *agent; /* NULL: no process */
    uint64_t life;
    int64_t deadline; /* on the fleet's clock */
    int64_t rate;     /* of the machine's clock, in thousandths */
    int64_t base;
    uint32_t conn; /* CONNS: none */
    int64_t fence;
    bool sweeping;
    /* Trainers outlive their agent by moments. */
    uint64_t epoch;
    uint32_t rank;
    uint32_t world;
    bool alive[NPROC];
    uint64_t last_started;
    int64_t listens_at;
    uint16_t ports[NPROC]; /* each process has its own */
    uint16_t train_port;   /* the first of those that its trainers have */
    uint64_t answers;      /* probes, on the ports of this epoch; 0 not */
    bool is_off;           /* the machine: it does not even refuse */
    int exit_code;         /* of the last process */
    uint32_t exits;
};

struct epoch_seen {
    uint32_t world;
    uint64_t digest;
    bool started[SLOTS * NPROC * 2];
};

struct fleet {
    struct flaky flaky;
    struct tfe_mem mem;
    struct rng rng;
    struct rdzv *r;
    int64_t now;
    int64_t server_deadline;
    int64_t server_down_until;
    struct parcel *parcels;
    uint64_t order;
    uint64_t serials;
    struct conn conns[CONNS];
    struct slot slots[SLOTS];
    uint32_t min, max, nproc;
    uint32_t max_restarts;
    uint64_t epoch; /* of the job, as last seen */
    struct epoch_seen epochs[EPOCHS];
    uint64_t history;
    uint64_t n_epochs;  /* begun */
    uint64_t n_dead;    /* suspects that others' probes have proven dead */
    uint64_t n_reached; /* addresses likewise */
    bool slow_sweeps;
    bool over; /* the job */
};

static inline int64_t any(struct fleet *f, int64_t low, int64_t high)
{
    return (int64_t)rng_between(&f->rng, (uint64_t)low, (uint64_t)high);
}

static inline void note(struct fleet *f, uint64_t what)
{
    f->history = (f->history ^ what) * UINT64_C(0x100000001b3);
}

/* --- clocks ----------------------------------------------------------------------------------- */

static inline int64_t slot_clock(const struct fleet *f, const struct slot *s)
{
    return s->base + f->now * s->rate / 1000;
}

/* The first moment at which the slot's clock shows at least this. */
static inline int64_t slot_moment(const struct slot *s, int64_t clock)
{
    if (clock == INT64_MAX) {
        return NEVER;
    }
    int64_t moment = ((clock - s->base) * 1000 + s->rate - 1) / s->rate;
    return moment;
}

/* --- parcels ---------------------------------------------------------------------------------- */

static inline struct parcel *parcel_new(struct fleet *f, enum parcel_type type, int64_t due)
{
    struct parcel *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    p->type = type;
    p->due = due;
    p->order = ++f->order;
    struct parcel **at = &f->parcels;
    while (*at && (*at)->due <= due) {
        at = &(*at)->next;
    }
    p->next = *at;
    *at = p;
    return p;
}

/* To the process that is in the slot now. */
static inline struct agent_event *tell_agent(struct fleet *f, uint32_t slot, int64_t after,
                                             enum agent_event_type type)
{
    struct parcel *p = parcel_new(f, PARCEL_AGENT_EVENT, f->now + after);
    p->slot = slot;
    p->life = f->slots[slot].life;
    p->event.type = type;
    p->event.text = "t";
    return &p->event;
}

/* --- connections ------------------------------------------------------------------------------ */

static inline int64_t fifo(struct fleet *f, int64_t *last)
{
    int64_t due = f->now + any(f, 0, 5);
    *last = due > *last ? due : *last;
    return *last;
}

static inline void conn_send(struct fleet *f, uint32_t i, enum parcel_type type,
                             const struct tfe_msg *msg)
{
    struct conn *c = &f->conns[i];
    if (c->swallows) {
        return;
    }
    struct parcel *p =
        parcel_new(f, type, fifo(f, type == PARCEL_TO_AGENT ? &c->to_agent : &c->to_server));
    p->conn = i;
    p->conn_serial = c->serial;
    if (msg) {
        parcel_pack(p, msg);
    }
}

/* The agent's end is gone; the server reads of it, unless nothing gets through. */
static inline void conn_leave(struct fleet *f, uint32_t slot)
{
    struct slot *s = &f->slots[slot];
    if (s->conn == CONNS) {
        return;
    }
    struct conn *c = &f->conns[s->conn];
    c->agent_open = false;
    if (c->server_open) {
        conn_send(f, s->conn, PARCEL_CLOSED, NULL);
    }
    s->conn = CONNS;
}

/* Both ends see it end. */
static inline void conn_cut(struct fleet *f, uint32_t slot)
{
    if (f->slots[slot].conn != CONNS) {
        conn_leave(f, slot);
        tell_agent(f, slot, 1, AGENT_DISCONNECTED);
    }
}

static inline void connect_agent(struct fleet *f, uint32_t slot)
{
    struct slot *s = &f->slots[slot];
    assert_int_equal(s->conn, CONNS);
    if (f->now < f->server_down_until) {
        tell_agent(f, slot, any(f, 1, 3000), AGENT_DISCONNECTED)->link = AGENT_LINK_UNREACHABLE;
        return;
    }
    uint32_t i = 0;
    while (f->conns[i].server_open || f->conns[i].agent_open) {
        assert_true(++i < CONNS);
    }
    f->conns[i] = (struct conn){.serial = ++f->serials,
                                .slot = slot,
                                .server_open = true,
                                .agent_open = true,
                                .to_server = f->now + 2,
                                .to_agent = f->now + 2};
    s->conn = i;
    static const char *const hosts[] = {"host0", "host1", "host2", "host3", "host4", "host5"};
    tell_agent(f, slot, 2, AGENT_CONNECTED)->host = hosts[slot];
}

/* --- trainers --------------------------------------------------------------------------------- */

static inline bool slot_trains(const struct slot *s)
{
    for (uint32_t i = 0; i < NPROC; i++) {
        if (s->alive[i]) {
            return true;
        }
    }
    return false;
}

/* The slot's trainers end; what remains of their epoch fails some time later, as collectives do. */
static inline void trainers_end(struct fleet *f, uint32_t slot, uint32_t code)
{
    struct slot *s = &f->slots[slot];
    for (uint32_t i = 0; i < NPROC; i++) {
        if (s->alive[i]) {
            s->alive[i] = false;
            if (s->agent) {
                struct agent_event *event = tell_agent(f, slot, 0, AGENT_TRAINER_EXITED);
                event->local = i;
                event->code = code;
            }
        }
    }
    for (uint32_t k = 0; k < SLOTS && code != 0; k++) {
        if (k != slot && f->slots[k].epoch == s->epoch && slot_trains(&f->slots[k])) {
            struct parcel *p = parcel_new(f, PARCEL_DIES, f->now + any(f, 50, 3000));
            p->slot = k;
            p->life = s->epoch;
            p->event.code = 1;
        }
    }
}

static inline uint32_t slot_at(const char *host)
{
    assert_int_equal(strncmp(host, "host", 4), 0);
    uint32_t slot = (uint32_t)(host[4] - '0');
    assert_true(slot < SLOTS);
    return slot;
}

/* What a probe would find there now. */
static inline enum tfe_probe_result look_at(struct fleet *f, const struct msg_probe *probe)
{
    const struct slot *s = &f->slots[slot_at(probe->host)];
    char id[32];
    snprintf(id, sizeof(id), "n%u.%llu", slot_at(probe->host), (unsigned long long)s->life);
    if (s->is_off || any(f, 0, 20) == 0) {
        return PROBE_NO_ANSWER;
    }
    if (s->agent && s->answers && probe->ports[0] == s->ports[0]) {
        return strcmp(id, probe->node) == 0 ? PROBE_ANSWERED_OURS : PROBE_ANSWERED_OTHER;
    }
    return slot_trains(s) && f->now >= s->listens_at && probe->ports[0] == s->train_port
               ? PROBE_ACCEPTED
               : PROBE_REFUSED;
}

static inline void spawn(struct fleet *f, uint32_t slot, const struct agent_place *place)
{
    struct slot *s = &f->slots[slot];
    assert_false(slot_trains(s));
    assert_true(place->epoch > s->last_started); /* at most once, and only upwards */
    assert_true(place->epoch < EPOCHS);
    assert_true(place->n_rows % f->nproc == 0 && place->n_rows <= f->max * f->nproc);
    assert_true(place->n_rows >= f->min * f->nproc);
    struct epoch_seen *seen = &f->epochs[place->epoch];
    uint64_t digest = table_digest(place->rows, place->n_rows);
    if (seen->world == 0) {
        seen->world = (uint32_t)place->n_rows;
        seen->digest = digest;
        f->n_epochs++;
    }
    assert_int_equal(seen->world, place->n_rows); /* one view */
    assert_true(seen->digest == digest);
    for (size_t i = 0; i < place->n_rows; i++) {
        /* No trainer ever meets what answers probes. */
        const struct slot *peer = &f->slots[slot_at(place->rows[i].host)];
        assert_true(peer->answers != place->epoch || peer->ports[0] != place->rows[i].port);
    }
    s->listens_at = f->now + 100;
    s->train_port = s->ports[0];
    s->epoch = s->last_started = place->epoch;
    s->rank = place->rank;
    s->world = (uint32_t)place->n_rows;
    for (uint32_t i = 0; i < f->nproc; i++) {
        assert_false(seen->started[place->rank + i]); /* by nobody else, ever */
        seen->started[place->rank + i] = true;
        s->alive[i] = true;
        struct agent_event *event = tell_agent(f, slot, 1, AGENT_SPAWNED);
        event->local = i;
        event->pid = (uint32_t)(place->epoch * 10 + i);
    }
    tell_agent(f, slot, 100, AGENT_LISTENING)->epoch = place->epoch;
    note(f, place->epoch << 32 | place->rank << 8 | slot);
}

/* --- machines --------------------------------------------------------------------------------- */

/* The process is gone; its guard ends the trainers. */
static inline void process_gone(struct fleet *f, uint32_t slot, int64_t guard_takes)
{
    struct slot *s = &f->slots[slot];
    agent_free(s->agent);
    s->agent = NULL;
    s->deadline = NEVER;
    s->life++;
    s->sweeping = false;
    s->answers = 0;
    if (slot_trains(s)) {
        struct parcel *p = parcel_new(f, PARCEL_DIES, f->now + guard_takes);
        p->slot = slot;
        p->life = s->epoch;
        p->event.code = 137;
    }
}

static inline void take_order(struct fleet *f, uint32_t slot, const struct agent_action *action)
{
    struct slot *s = &f->slots[slot];
    struct agent_event *event;
    struct parcel *p;
    switch (action->type) {
    case AGENT_CONNECT:
        connect_agent(f, slot);
        break;
    case AGENT_DISCONNECT:
    case AGENT_HANG_UP:
        conn_leave(f, slot);
        tell_agent(f, slot, 1, AGENT_DISCONNECTED);
        break;
    case AGENT_SEND:
        if (s->conn != CONNS) {
            conn_send(f, s->conn, PARCEL_TO_SERVER, &action->msg);
        }
        break;
    case AGENT_HOLD_PORTS:
        event = tell_agent(f, slot, any(f, 0, 3), AGENT_PORTS_HELD);
        event->epoch = action->epoch;
        event->ports = s->ports;
        event->n_ports = f->nproc;
        break;
    case AGENT_ANSWER:
        s->answers = action->answer ? action->epoch : 0;
        break;
    case AGENT_PROBE: {
        enum tfe_probe_result result = look_at(f, &action->msg.u.probe);
        event = tell_agent(f, slot, result == PROBE_NO_ANSWER ? 1000 : any(f, 0, 5), AGENT_PROBED);
        event->probe = action->msg.u.probe.probe;
        event->result = result;
        break;
    }
    case AGENT_SPAWN:
        spawn(f, slot, &action->place);
        break;
    case AGENT_SWEEP:
        s->sweeping = true;
        p = parcel_new(
            f, PARCEL_SWEPT,
            f->now + (f->slow_sweeps && any(f, 0, 40) == 0 ? any(f, 0, 60000) : any(f, 1, 300)));
        p->slot = slot;
        p->life = s->life;
        break;
    case AGENT_SAVE:
        break; /* these scripts save when they like */
    case AGENT_FENCE:
        s->fence = slot_moment(s, action->deadline.ms);
        break;
    case AGENT_EXIT:
        s->exit_code = action->code;
        s->exits++;
        note(f, (uint64_t)action->code << 8 | slot);
        conn_leave(f, slot);
        process_gone(f, slot, any(f, 1, 50));
        break;
    case AGENT_TRACE:
        break;
    }
}

static inline void step_agent(struct fleet *f, uint32_t slot, struct agent_event event)
{
    struct slot *s = &f->slots[slot];
    struct agent_actions actions;
    event.now.ms = slot_clock(f, s);
    assert_int_equal(agent_step(s->agent, &event, &actions), 0);
    s->deadline = slot_moment(s, actions.deadline.ms);
    /* EXIT comes last and frees the core. */
    for (size_t i = 0; i < actions.n && s->agent; i++) {
        take_order(f, slot, &actions.v[i]);
    }
}

static inline void start_agent(struct fleet *f, uint32_t slot)
{
    struct slot *s = &f->slots[slot];
    assert_null(s->agent);
    assert_false(slot_trains(s));
    s->conn = CONNS;
    s->fence = NEVER;
    s->last_started = 0;
    s->is_off = false;
    for (uint32_t i = 0; i < NPROC; i++) {
        s->ports[i] = (uint16_t)(4000 + s->life % 1000 * NPROC + i);
    }
    s->rate = any(f, 950, 1050);
    s->base = any(f, 0, 1000000);
    struct agent_config config = {.node_name = "box",
                                  .min_nodes = f->min,
                                  .max_nodes = f->max,
                                  .nproc = f->nproc,
                                  .max_restarts = f->max_restarts,
                                  .gather_ms = MSG_UNSET,
                                  .grow_wait_ms = MSG_UNSET,
                                  .elastic_timeout_ms = MSG_UNSET,
                                  .stop_grace_ms = MSG_UNSET,
                                  .script_digest = 1,
                                  .join_timeout_ms = 1000000,
                                  .exit_grace_ms = 60000,
                                  .seed = rng_next(&f->rng)};
    char id[32];
    snprintf(id, sizeof(id), "n%u.%llu", slot, (unsigned long long)s->life);
    assert_int_equal(id_set(&config.node, id), 0);
    assert_int_equal(id_set(&config.job, "j"), 0);
    assert_int_equal(agent_new(&config, &f->mem, &s->agent), 0);
    step_agent(f, slot, (struct agent_event){.type = AGENT_BEGIN});
}

/* kill -9, or the whole machine: then nobody reads of the connection's end. */
static inline void kill_agent(struct fleet *f, uint32_t slot, bool machine)
{
    struct slot *s = &f->slots[slot];
    if (machine) {
        s->is_off = true;
        if (s->conn != CONNS) {
            f->conns[s->conn].swallows = true;
        }
    }
    conn_leave(f, slot);
    process_gone(f, slot, machine ? 0 : any(f, 1, 50));
}

/* --- the server ------------------------------------------------------------------------------- */

static inline void step_server(struct fleet *f, struct rdzv_event event)
{
    struct rdzv_actions actions;
    event.now.ms = f->now;
    assert_int_equal(rdzv_step(f->r, &event, &actions), 0);
    f->server_deadline = actions.deadline.ms;
    uint64_t written = 0;
    for (size_t i = 0; i < actions.n; i++) {
        const struct rdzv_action *action = &actions.v[i];
        struct conn *c = &f->conns[action->session];
        switch (action->type) {
        case RDZV_PERSIST:
            written = action->record->sequence;
            break;
        case RDZV_SEND:
            assert_true(c->server_open);
            if (c->agent_open) {
                conn_send(f, action->session, PARCEL_TO_AGENT, &action->msg);
            }
            break;
        case RDZV_CLOSE:
            c->server_open = false;
            if (c->agent_open) {
                conn_send(f, action->session, PARCEL_TO_AGENT, NULL);
            }
            break;
        case RDZV_EXIT:
            fail_msg("the server wants to end: %s", action->sentence);
            break;
        case RDZV_LEDGER:
            break;
        case RDZV_TRACE:
            note(f, (uint64_t)action->trace.kind);
            f->n_reached += action->trace.kind == TRACE_NODE_VERIFIED;
            if (action->trace.kind == TRACE_NODE_DEAD) {
                uint32_t slot = (uint32_t)(action->trace.node[1] - '0');
                f->n_dead++;
                assert_false(slot_trains(&f->slots[slot]) &&
                             f->slots[slot].epoch == action->trace.epoch);
            }
            break;
        }
    }
    if (written) {
        step_server(f,
                    (struct rdzv_event){.type = RDZV_PERSISTED, .job = "j", .sequence = written});
    }
}

/* --- what must always hold -------------------------------------------------------------------- */

static inline void check(struct fleet *f)
{
    struct msg_status_job job;
    if (!rdzv_view_job(f->r, NULL, &job)) {
        assert_true(job.epoch >= f->epoch);
        f->epoch = job.epoch;
        f->over = strcmp(job.state, "succeeded") == 0 || strcmp(job.state, "failed") == 0;
        uint32_t members = 0;
        struct msg_status_node node;
        for (const char *after = NULL; !rdzv_view_node(f->r, "j", after, &node);
             after = node.node) {
            members += node.role == ROLE_MEMBER;
        }
        assert_true(members <= f->max);
    }
    /* A synchronous epoch makes progress while all of its trainers run: never two of them. */
    uint64_t whole = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct slot *s = &f->slots[i];
        if (!slot_trains(s)) {
            continue;
        }
        uint32_t alive = 0;
        for (uint32_t k = 0; k < SLOTS; k++) {
            for (uint32_t t = 0; t < NPROC && f->slots[k].epoch == s->epoch; t++) {
                alive += f->slots[k].alive[t];
            }
        }
        assert_true(alive <= s->world);
        if (alive == s->world) {
            assert_true(whole == 0 || whole == s->epoch);
            whole = s->epoch;
        }
    }
}

/* --- the run of time -------------------------------------------------------------------------- */

static inline void deliver(struct fleet *f, struct parcel *p)
{
    struct slot *s = &f->slots[p->slot];
    struct conn *c = &f->conns[p->conn];
    bool mine = c->serial == p->conn_serial && !c->swallows;
    switch (p->type) {
    case PARCEL_NONE:
        break;
    case PARCEL_TO_SERVER:
        if (mine && c->server_open) {
            step_server(
                f, (struct rdzv_event){.type = RDZV_MESSAGE, .session = p->conn, .msg = &p->msg});
        }
        break;
    case PARCEL_CLOSED:
        if (mine && c->server_open) {
            c->server_open = false;
            step_server(f, (struct rdzv_event){.type = RDZV_CLOSED, .session = p->conn});
        }
        break;
    case PARCEL_TO_AGENT:
        if (!mine || !c->agent_open || !f->slots[c->slot].agent) {
            break;
        }
        if (p->msg.type) {
            step_agent(f, c->slot, (struct agent_event){.type = AGENT_MESSAGE, .msg = &p->msg});
        } else {
            c->agent_open = false;
            f->slots[c->slot].conn = CONNS;
            step_agent(f, c->slot, (struct agent_event){.type = AGENT_DISCONNECTED});
        }
        break;
    case PARCEL_AGENT_EVENT:
        if (s->agent && s->life == p->life &&
            (p->event.type != AGENT_CONNECTED || s->conn != CONNS)) {
            step_agent(f, p->slot, p->event);
        }
        break;
    case PARCEL_SWEPT:
        if (s->agent && s->life == p->life && s->sweeping) {
            s->sweeping = false;
            trainers_end(f, p->slot, 143);
            tell_agent(f, p->slot, 0, AGENT_SWEPT);
        }
        break;
    case PARCEL_DIES:
        if (s->epoch == p->life) {
            trainers_end(f, p->slot, p->event.code);
        }
        break;
    }
}

/* Does what comes next, if it comes before until. */
static inline bool happen(struct fleet *f, int64_t until)
{
    int64_t next = f->parcels ? f->parcels->due : NEVER;
    int who = -1; /* a parcel */
    if (f->server_deadline < next) {
        next = f->server_deadline;
        who = -2;
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct slot *s = &f->slots[i];
        if (s->agent && s->deadline < next) {
            next = s->deadline;
            who = (int)i;
        }
        if (s->agent && slot_trains(s) && s->fence < next) {
            next = s->fence;
            who = (int)(SLOTS + i);
        }
    }
    if (next > until) {
        f->now = until;
        return false;
    }
    f->now = next > f->now ? next : f->now;
    if (who == -1) {
        struct parcel *p = f->parcels;
        f->parcels = p->next;
        deliver(f, p);
        parcel_free(p);
    } else if (who == -2) {
        step_server(f, (struct rdzv_event){.type = RDZV_TICK});
    } else if (who < (int)SLOTS) {
        step_agent(f, (uint32_t)who, (struct agent_event){.type = AGENT_TICK});
    } else {
        uint32_t slot = (uint32_t)who - SLOTS;
        f->slots[slot].fence = NEVER;
        trainers_end(f, slot, 137);
        tell_agent(f, slot, 0, AGENT_FENCED);
    }
    check(f);
    return true;
}

static inline void run_for(struct fleet *f, int64_t ms)
{
    int64_t until = f->now + ms;
    while (happen(f, until)) {
    }
}

/* --- beginning and end ------------------------------------------------------------------------ */

static inline struct fleet *fleet_new(uint64_t seed, uint32_t min, uint32_t max, uint32_t nproc)
{
    struct fleet *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->mem = flaky_mem(&f->flaky);
    rng_init(&f->rng, seed);
    f->now = 5000;
    f->server_deadline = NEVER;
    f->min = min;
    f->max = max;
    f->nproc = nproc;
    f->max_restarts = 1000000;
    for (uint32_t i = 0; i < SLOTS; i++) {
        f->slots[i].conn = CONNS;
        f->slots[i].deadline = f->slots[i].fence = NEVER;
    }
    struct rdzv_config config = {.incarnation = 1,
                                 .ttl_ms = 10000,
                                 .gather_ms = 3000,
                                 .gather_max_ms = 30000,
                                 .stop_grace_ms = 5000,
                                 .exit_grace_ms = 60000,
                                 .max_restarts = 3,
                                 .max_sessions = CONNS};
    assert_int_equal(rdzv_new(&config, &f->mem, &f->r), 0);
    return f;
}

static inline void fleet_free(struct fleet *f)
{
    while (f->parcels) {
        struct parcel *p = f->parcels;
        f->parcels = p->next;
        parcel_free(p);
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        agent_free(f->slots[i].agent);
    }
    rdzv_free(f->r);
    assert_int_equal(f->flaky.blocks, 0);
    free(f);
}

static inline uint32_t agents_alive(const struct fleet *f)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        n += f->slots[i].agent != NULL;
    }
    return n;
}

/* Nodes whose trainers run in the job's newest epoch; 0 unless it is whole. */
static inline uint32_t nodes_training(const struct fleet *f)
{
    uint32_t n = 0;
    uint32_t world = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct slot *s = &f->slots[i];
        if (slot_trains(s) && s->epoch == f->epoch) {
            n++;
            world = s->world;
        }
    }
    return n * f->nproc == world ? n : 0;
}

#endif
