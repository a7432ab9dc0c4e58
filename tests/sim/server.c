/* tests/sim/server.c: I/O layer of the rendezvous core in the simulator. */
#include "tests/sim/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/handshake/seal.h"
#include "common/message/codec.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/jobs.h"
#include "tests/sim/judge.h"
#include "tests/sim/net.h"
#include "tests/sim/node.h"
#include "tests/sim/overheard.h"
#include "tests/sim/script.h"

/* As in server/driver.c: retry interval after a step without memory. */
#define RETRY_MS 100
/* Number of steps at one moment after which a deadline in the past counts as a loop. */
#define SPIN_MAX 100000

/* Stands for a connection whose output is ignored. */
#define HOSTILE_CONN (NO_CONN - 1)

/* Memory that the core may use: a base, and an amount for each machine, job and slot. A machine's
 * earlier agents are suspects for a lease each, and leases get longer if there are many: three
 * nodes per machine, of about 1.1 KiB, and six actions each plus half as many for growth of the
 * list. */
#define MEMORY_BASE (192u * 1024)
#define MEMORY_PER_NODE (3u * (1152u + 9u * sizeof(struct rdzv_action)))
#define MEMORY_PER_SESSION 16u

struct server {
    bool up;
    uint32_t process; /* number of server processes so far */
    struct rdzv_config config;
    struct rdzv *core;
    struct sim_mem mem;
    struct sim_clock clock;
    struct sim_timer timer;
    struct tfe_mono deadline;
    int64_t began_at;
    int64_t late_until;
    int64_t late_from; /* start of the last late period */
    int64_t late_end;
    int64_t late_before; /* end of the late period before */
    uint32_t ttl_max;
    uint32_t spin;
    int64_t spin_at;
    uint32_t *conn_of; /* connection by session */
    uint32_t *free_sessions;
    uint32_t n_free;
    uint32_t hostile[SERVER_HOSTILE_MAX]; /* sessions of the hostile member, or NO_CONN */
    uint64_t joins_seen;                  /* epoch in the JOIN that is being handled */
    uint64_t joins_running;
    uint64_t joins_digest;
    uint32_t n_untold; /* number of closed sessions that the core had no memory to handle */
    /* Chunks of the table that was sent last. */
    const struct msg_row *chunk_rows;
    uint64_t chunk_epoch;
    struct net_bytes **chunks;
    size_t n_chunks;
    size_t cap_chunks;
};

static void on_timer(struct world *w, const struct sim_event *event);

struct server *server_new(struct world *w, const struct rdzv_config *config)
{
    struct server *s = sim_alloc(1, sizeof(*s));
    s->config = *config;
    s->clock = (struct sim_clock){.own_ms = 5000, .ppm = 1000000};
    s->timer = TIMER_UNSET;
    s->conn_of = sim_alloc(config->max_sessions, sizeof(*s->conn_of));
    s->free_sessions = sim_alloc(config->max_sessions, sizeof(*s->free_sessions));
    w->server = s;
    return s;
}

static void chunks_drop(struct server *s)
{
    for (size_t i = 0; i < s->n_chunks; i++) {
        net_bytes_drop(s->chunks[i]);
    }
    s->n_chunks = 0;
    s->chunk_rows = NULL;
}

void server_free(struct world *w)
{
    struct server *s = w->server;
    rdzv_free(s->core);
    chunks_drop(s);
    free(s->chunks);
    free(s->conn_of);
    free(s->free_sessions);
    free(s);
    w->server = NULL;
}

struct rdzv_config *server_config(struct world *w)
{
    return &w->server->config;
}

bool server_is_up(const struct world *w)
{
    return w->server->up;
}

const struct rdzv *server_core(const struct world *w)
{
    return w->server->up ? w->server->core : NULL;
}

int64_t server_late_until(const struct world *w)
{
    return w->server->late_until;
}

bool server_is_disturbed(const struct world *w)
{
    const struct server *s = w->server;
    return !s->up || s->late_until > w->now || s->mem.fail_in != 0;
}

/* Returns when a lease that is granted at this time is over on any clock. */
static int64_t longest_end(int64_t at, uint32_t ttl_ms)
{
    return at + (int64_t)ttl_ms * 120 / 100 + 100;
}

/* More than what the core considers late, on any clock. */
#define LATE_MS 700

bool server_late_for(const struct world *w, const struct node *node)
{
    const struct server *s = w->server;
    int64_t heard_at = node->heard_at;
    uint32_t ttl_ms = node->ttl_ms;
    int64_t restored = longest_end(s->began_at, s->ttl_max);
    /* leases may get shorter */
    int64_t spared = ttl_ms < s->config.ttl_ms ? ttl_ms : s->config.ttl_ms;
    int64_t soonest = heard_at + (int64_t)ttl_ms * 105 / 100;
    int64_t latest = node->lease_until > restored ? node->lease_until : restored;
    return ttl_ms && heard_at > s->late_before && heard_at < s->late_from &&
           soonest > s->late_from && latest < s->late_end - LATE_MS &&
           w->now < s->late_end + spared * 9 / 10;
}

uint32_t server_longest_lease_ms(const struct world *w)
{
    const struct server *s = w->server;
    return s->ttl_max > s->config.ttl_ms ? s->ttl_max : s->config.ttl_ms;
}

int64_t server_longest_fence_ms(const struct world *w)
{
    const struct rdzv_config *c = &w->server->config;
    int64_t nodes = c->max_nodes ? c->max_nodes : c->max_sessions;
    int64_t ttl = c->ttl_ms;
    ttl +=
        c->renew_rate ? nodes * 3000 / c->renew_rate : 0; /* leases get longer if there are many */
    int64_t fence = c->fence_ms ? c->fence_ms : 300000;
    fence = fence < 3 * ttl ? 3 * ttl : fence;
    return fence * 120 / 100 + 100; /* on any clock, as the server waits for it */
}

void server_fail_memory(struct world *w, uint64_t k)
{
    w->server->mem.fail_in = k;
}

struct tfe_mono server_clock(const struct world *w)
{
    return clock_read(&w->server->clock, w->now);
}

int64_t server_when(const struct world *w, int64_t since, int64_t ms)
{
    const struct sim_clock *clock = &w->server->clock;
    return clock_when(clock, tfe_mono_add(clock_read(clock, since), ms));
}

static void arm(struct world *w)
{
    struct server *s = w->server;
    timer_set(w, &s->timer, on_timer, 0, clock_when(&s->clock, s->deadline));
}

/* --- actions --- */

static void free_session(struct world *w, uint32_t session)
{
    struct server *s = w->server;
    uint32_t conn = s->conn_of[session];
    *net_conn_session(w, conn) = NO_CONN;
    s->conn_of[session] = NO_CONN;
    s->free_sessions[s->n_free++] = session;
}

/* The session no longer belongs to the hostile member. */
static void hostile_gone(struct server *s, uint32_t session)
{
    s->conn_of[session] = NO_CONN;
    for (uint32_t i = 0; i < SERVER_HOSTILE_MAX; i++) {
        s->hostile[i] = s->hostile[i] == session ? NO_CONN : s->hostile[i];
    }
}

static void send_table(struct world *w, uint32_t conn, const struct msg_table *table)
{
    struct server *s = w->server;
    if (s->chunk_rows != table->rows || s->chunk_epoch != table->epoch) {
        chunks_drop(s);
        s->chunk_rows = table->rows;
        s->chunk_epoch = table->epoch;
        size_t first = 0;
        do { /* a table without changed rows is one chunk too */
            size_t rows = 0;
            struct net_bytes *bytes = net_encode_chunk(w, table, first, &rows);
            if (!bytes) {
                break;
            }
            s->chunks = sim_grow(s->chunks, s->n_chunks, &s->cap_chunks, sizeof(*s->chunks));
            s->chunks[s->n_chunks++] = bytes;
            first += rows;
        } while (first < table->n_rows);
    }
    for (size_t i = 0; i < s->n_chunks; i++) {
        net_server_send_bytes(w, conn, s->chunks[i]);
    }
}

static void note_granted(struct world *w, uint32_t conn, uint32_t ttl_ms)
{
    struct node *n = &w->nodes[net_conn_node(w, conn)];
    int64_t until = longest_end(w->now, ttl_ms);
    n->ttl_ms = ttl_ms;
    n->lease_until = n->lease_until > until ? n->lease_until : until;
}

static void judge_send_stop(struct world *w, uint32_t conn, const struct msg_stop *stop)
{
    uint32_t job = net_conn_job(w, conn);
    uint32_t node = net_conn_node(w, conn);
    bool is_own = job == node_job(w, node); /* not the one of a successor */
    if (is_own && stop->planned && judge_drains(w, node, stop->epoch)) {
        return; /* only its own worker */
    }
    if (is_own) {
        judge_stop(w, node, stop->epoch, stop->planned);
    }
    script_stop_sent(w, job, stop->epoch, stop->planned);
}

static void carry_out_send(struct world *w, uint32_t session, const struct tfe_msg *msg)
{
    uint32_t conn = w->server->conn_of[session];
    if (conn == HOSTILE_CONN) {
        return;
    }
    if (conn == NO_CONN) {
        if (w->server->n_untold == 0) {
            check_honest(w->check, "the server", "a SEND to a session that is not open", 0);
        }
        return;
    }
    if (msg->type == MSG_TABLE) {
        send_table(w, conn, &msg->u.table);
        return;
    }
    if (msg->type == MSG_RENEWED && msg->u.renewed.ttl_ms > w->server->ttl_max) {
        w->server->ttl_max = msg->u.renewed.ttl_ms;
    }
    if (msg->type == MSG_RENEWED) {
        note_granted(w, conn, msg->u.renewed.ttl_ms);
    }
    if (msg->type == MSG_WELCOME) { /* this step handles its JOIN */
        note_granted(w, conn, msg->u.welcome.ttl_ms);
        judge_welcomed(w, net_conn_node(w, conn));
        check_join_received(w->check, net_conn_job(w, conn), w->server->joins_seen,
                            w->server->joins_running, w->server->joins_digest);
    }
    if (msg->type == MSG_PROBE) {
        judge_asks(w, &msg->u.probe);
    }
    if (msg->type == MSG_STOP) {
        judge_send_stop(w, conn, &msg->u.stop);
    }
    if (msg->type == MSG_FINISH && net_conn_job(w, conn) == node_job(w, net_conn_node(w, conn))) {
        script_finish_sent(w, net_conn_node(w, conn));
    }
    if (msg->type == MSG_START && !msg->u.start.evaluates) {
        const struct msg_start *start = &msg->u.start;
        /* another process with the id is not READY for it */
        uint32_t node = net_conn_known_as(w, conn);
        uint32_t job = net_conn_job(w, conn);
        check_start(w->check, job, start->epoch, node,
                    &(struct check_part){start->rank,
                                         job_trainers(jobs_get(w, job), start->rank, start->world),
                                         start->world, start->table_digest});
    }
    net_server_send(w, conn, msg);
}

static void carry_out_trace(struct world *w, const struct rdzv_trace *t)
{
    char number[32] = "";
    overheard_trace(w, t);
    if (t->number) {
        snprintf(number, sizeof(number), " n=%llu", (unsigned long long)t->number);
    }
    world_trace(w, "server", rdzv_trace_name(t->kind), "%s/%llu%s%s%s%s%s%s", t->job ? t->job : "-",
                (unsigned long long)t->epoch, t->node ? " " : "", t->node ? t->node : "", number,
                t->text ? " \"" : "", t->text ? t->text : "", t->text ? "\"" : "");
}

/* Checks that a later server can read every record that is written. */
static void judge_record(struct world *w, const struct rdzv_record *record)
{
    struct sim_mem mem;
    struct rdzv *next;
    mem_init(&mem, w, "the next server", SIZE_MAX);
    int rc = rdzv_new(&w->server->config, &mem.mem, &next);
    if (rc == 0) {
        rc = rdzv_restore(next, server_clock(w), record);
        rdzv_free(next);
    }
    if (rc) {
        check_honest(w->check, "the next server", "a record of this one", rc);
    }
}

static void carry_out(struct world *w, const struct rdzv_action *action)
{
    struct server *s = w->server;
    uint32_t conn;
    switch (action->type) {
    case RDZV_SEND:
        carry_out_send(w, action->session, &action->msg);
        return;
    case RDZV_CLOSE:
        conn = s->conn_of[action->session];
        if (conn == HOSTILE_CONN) {
            hostile_gone(s, action->session);
            s->free_sessions[s->n_free++] = action->session;
        } else if (conn != NO_CONN) {
            free_session(w, action->session);
            net_server_close(w, conn);
        }
        return;
    case RDZV_PERSIST:
        judge_record(w, action->record);
        disk_write(w, action->record);
        return;
    case RDZV_EXIT: /* no other server exists in the simulation */
        check_honest(w->check, "the server", "its own records by ending itself,", 0);
        return;
    case RDZV_LEDGER:
        if (jobs_find(w, action->ledger->job) != NAMES_NONE) {
            judge_ledger(w, jobs_find(w, action->ledger->job), action->ledger, server_clock(w).ms);
        }
        return;
    case RDZV_TRACE:
        carry_out_trace(w, &action->trace);
        return;
    }
}

/* Principals of the simulation: agents with the agents' token, and one operator. */
static const struct principal agent = {
    .kind = PRINCIPAL_BY_TOKEN, .role = PRINCIPAL_AGENT, .scope = PRINCIPAL_EVERY_JOB};
static const struct principal operator= {
    .kind = PRINCIPAL_BY_TOKEN, .role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};

static int step(struct world *w, struct rdzv_event *event)
{
    struct server *s = w->server;
    struct rdzv_actions actions;
    event->now = server_clock(w);
    w->events++;
    s->mem.limit = MEMORY_BASE + (size_t)w->n_nodes * MEMORY_PER_NODE +
                   (size_t)s->config.max_sessions * MEMORY_PER_SESSION + jobs_memory(w);
    int rc = rdzv_step(s->core, event, &actions);
    if (rc == 0) {
        for (size_t i = 0; i < actions.n; i++) {
            carry_out(w, &actions.v[i]);
        }
        chunks_drop(s);
    }
    s->deadline = actions.deadline;
    arm(w);
    return rc;
}

/* --- events --- */

static void on_timer(struct world *w, const struct sim_event *event)
{
    struct server *s = w->server;
    if (!timer_is_due(w, &s->timer, event) || !s->up) {
        return;
    }
    if (s->late_until > w->now) {
        timer_set(w, &s->timer, on_timer, 0, s->late_until);
        return;
    }
    if (tfe_mono_before(server_clock(w), s->deadline)) {
        arm(w);
        return;
    }
    s->spin = s->spin_at == w->now ? s->spin + 1 : 0;
    s->spin_at = w->now;
    if (s->spin > SPIN_MAX) {
        check_fail(w->check, CHECK_ENDLESS_LOOP, "the server requests timers without end");
        return;
    }
    int rc = step(w, &(struct rdzv_event){.type = RDZV_TICK});
    if (rc == TFE_ENOMEM) {
        timer_set(w, &s->timer, on_timer, 0, w->now + RETRY_MS);
    } else if (rc) {
        check_honest(w->check, "the server", "a TICK", rc);
    }
}

static void tell_closed(struct world *w, uint32_t session);

static void on_retry_closed(struct world *w, const struct sim_event *event)
{
    if (w->server->up && event->tag == w->server->process) {
        w->server->n_untold--;
        tell_closed(w, event->who);
    }
}

/* The number of the session stays in use until the core has handled its end. */
static void tell_closed(struct world *w, uint32_t session)
{
    int rc = step(w, &(struct rdzv_event){.type = RDZV_CLOSED, .session = session});
    if (rc == TFE_ENOMEM) {
        w->server->n_untold++;
        world_at(w, w->now + RETRY_MS, on_retry_closed, session, w->server->process, 0);
        return;
    }
    if (rc) {
        check_honest(w->check, "the server", "a closed connection", rc);
    }
    w->server->free_sessions[w->server->n_free++] = session;
}

static void order(struct world *w, struct rdzv_event *event)
{
    if (!w->server->up || w->server->late_until > w->now) {
        return; /* the operator sees no reply */
    }
    event->by = &operator;
    int rc = step(w, event);
    if (rc && rc != TFE_ENOENT && rc != TFE_ENOMEM && rc != TFE_ESTATE) {
        check_honest(w->check, "the server", "an operator's order", rc);
    }
}

void server_drain(struct world *w, const char *job, const char *node, uint32_t within_ms)
{
    order(w, &(struct rdzv_event){.type = RDZV_DRAIN,
                                  .job = job,
                                  .node = node,
                                  .has_within = within_ms != MSG_UNSET,
                                  .within_ms = within_ms});
}

void server_resize(struct world *w, const char *job, uint32_t min, uint32_t max)
{
    uint32_t number = jobs_find(w, job);
    if (w->server->up && number != NAMES_NONE) {
        check_resized(w->check, number, min, max);
        order(w, &(struct rdzv_event){.type = RDZV_RESIZE,
                                      .job = job,
                                      .min_nodes = min,
                                      .max_nodes = max,
                                      .n_ps = MSG_UNSET});
    }
}

void server_order(struct world *w, enum rdzv_event_type type, const char *job, const char *node)
{
    order(w, &(struct rdzv_event){.type = type, .job = job, .node = node});
}

/* arg: the job; tag: the process; who: number of the record (from 1), or WRITTEN_FAILED. */
#define WRITTEN_FAILED 0x80000000u

static void on_written(struct world *w, const struct sim_event *event)
{
    if (!w->server->up || event->tag != w->server->process) {
        return;
    }
    if (w->server->late_until > w->now) {
        world_again(w, event, w->server->late_until);
        return;
    }
    struct rdzv_event written = {.type = event->who & WRITTEN_FAILED ? RDZV_PERSIST_FAILED
                                                                     : RDZV_PERSISTED,
                                 .job = jobs_get(w, (uint32_t)event->arg)->name.text,
                                 .sequence = event->who & ~WRITTEN_FAILED};
    int rc = step(w, &written);
    if (rc == TFE_ENOMEM) {
        world_again(w, event, w->now + RETRY_MS);
    } else if (rc) {
        check_honest(w->check, "the server", "PERSISTED", rc);
    }
}

void server_written(struct world *w, const char *job, uint64_t sequence, bool ok)
{
    world_at(w, w->now, on_written, (uint32_t)sequence | (ok ? 0 : WRITTEN_FAILED),
             w->server->process, jobs_find(w, job));
}

bool server_accept(struct world *w, uint32_t conn)
{
    struct server *s = w->server;
    if (s->n_free == 0) {
        return false;
    }
    uint32_t session = s->free_sessions[--s->n_free];
    s->conn_of[session] = conn;
    *net_conn_session(w, conn) = session;
    return true;
}

static void judge_join(struct world *w, uint32_t conn, const struct msg_join *join)
{
    struct msg_status_job status;
    uint32_t job = net_conn_job(w, conn);
    node_heard(w, net_conn_node(w, conn));
    if (rdzv_find_job(w->server->core, join->job, &status) != 0 ||
        status.state == STATE_SET_ASIDE) {
        check_reports_dropped(w->check, job);
    }
    judge_joins(w, net_conn_node(w, conn), join);
    w->server->joins_seen = join->highest_epoch;
    w->server->joins_running = join->running_epoch;
    w->server->joins_digest = join->running ? join->running->digest : 0;
}

static void deafen(struct world *w, uint32_t node)
{
    struct link *link = net_link(w, node);
    if (link->deafens) {
        node_silence(w, node);
        link->deafens = false;
        link->cut_down = true;
    }
}

void server_receive(struct world *w, uint32_t conn, const struct tfe_msg *msg)
{
    struct server *s = w->server;
    uint32_t session = *net_conn_session(w, conn);
    if (!s->up || session == NO_CONN) {
        return;
    }
    if (msg->type == MSG_JOIN || msg->type == MSG_RENEW) {
        w->nodes[net_conn_node(w, conn)].heard_at = w->now;
    }
    if (msg->type == MSG_JOIN) {
        judge_join(w, conn, &msg->u.join);
        deafen(w, net_conn_node(w, conn));
    } else if (msg->type == MSG_PROBED) {
        judge_answered(w, &msg->u.probed);
    } else if (msg->type == MSG_DEATH) {
        judge_buries(w);
    }
    int rc = step(w, &(struct rdzv_event){
                         .type = RDZV_MESSAGE, .by = &agent, .session = session, .msg = msg});
    if (rc == 0) {
        if (msg->type == MSG_MACHINE_INFO) {
            int64_t *spot = &w->nodes[net_conn_node(w, conn)].spot_heard_at;
            *spot = w->now < *spot ? w->now : *spot;
        }
        return;
    }
    /* As in server/session.c: send REFUSED, close, and tell the core. */
    struct tfe_msg refused = {.type = MSG_REFUSED};
    refused.u.refused.code = rc == TFE_ENOMEM ? REFUSAL_LIMIT_REACHED : REFUSAL_BAD_REQUEST;
    refused.u.refused.sentence = "the server cannot take this message";
    if (rc != TFE_ENOMEM) {
        check_honest(w->check, "the server", msg_type_name(msg->type), rc);
    }
    net_server_send(w, conn, &refused);
    server_hung_up(w, conn);
    net_server_close(w, conn);
}

void server_hung_up(struct world *w, uint32_t conn)
{
    uint32_t session = *net_conn_session(w, conn);
    if (!w->server->up || session == NO_CONN) {
        return;
    }
    *net_conn_session(w, conn) = NO_CONN;
    w->server->conn_of[session] = NO_CONN;
    tell_closed(w, session);
}

static void hostile_end(struct world *w, uint32_t session)
{
    hostile_gone(w->server, session);
    tell_closed(w, session);
}

void server_hostile(struct world *w, uint32_t place, const struct tfe_msg *msg)
{
    static struct arena arena;
    static uint8_t bytes[SEAL_PLAIN_MAX];
    struct server *s = w->server;
    struct tfe_msg heard;
    size_t n = 0;
    if (!s->up || s->late_until > w->now || s->mem.fail_in != 0) {
        return;
    }
    if (!msg) {
        if (s->hostile[place] != NO_CONN) {
            hostile_end(w, s->hostile[place]);
        }
        return;
    }
    if ((arena.cap == 0 && arena_init(&arena, ARENA_CAP) != 0) || s->n_free == 0) {
        return;
    }
    arena_reset(&arena);
    if (codec_encode(msg, bytes, sizeof(bytes), &n) != 0 ||
        codec_decode(&arena, bytes, n, &heard) != 0) {
        return; /* no codec accepts it */
    }
    if (s->hostile[place] == NO_CONN) {
        s->hostile[place] = s->free_sessions[--s->n_free];
        s->conn_of[s->hostile[place]] = HOSTILE_CONN;
    }
    uint32_t session = s->hostile[place];
    int rc = step(w, &(struct rdzv_event){
                         .type = RDZV_MESSAGE, .by = &agent, .session = session, .msg = &heard});
    if (rc != 0 && s->hostile[place] == session) {
        hostile_end(w, session);
    }
}

uint64_t server_epoch(const struct world *w, const char *job)
{
    struct msg_status_job status;
    return w->server->up && rdzv_find_job(w->server->core, job, &status) == 0 ? status.epoch : 0;
}

/* --- the process --- */

void server_start(struct world *w)
{
    struct server *s = w->server;
    if (s->up) {
        return;
    }
    check_server_begins(w->check);
    for (uint32_t job = 0; job < jobs_count(w); job++) {
        if (disk_has_lost(w, jobs_get(w, job)->name.text)) {
            check_forgotten(w->check, job);
            judge_record_lost(w, job);
            for (uint32_t node = 0; node < w->n_nodes; node++) {
                if (w->nodes[node].job == job) {
                    check_lease_forgotten(w->check, node);
                }
            }
        }
    }
    s->config.incarnation = world_draw(w, 77, ++s->process, 0);
    s->n_free = 0;
    memset(s->hostile, 0xff, sizeof(s->hostile)); /* sets NO_CONN */
    s->n_untold = 0;
    for (uint32_t i = s->config.max_sessions; i > 0; i--) {
        s->conn_of[i - 1] = NO_CONN;
        s->free_sessions[s->n_free++] = i - 1;
    }
    mem_init(&s->mem, w, "server", SIZE_MAX);
    int rc = rdzv_new(&s->config, &s->mem.mem, &s->core);
    if (rc) {
        check_honest(w->check, "the server", "its settings", rc);
        return;
    }
    struct tfe_mono now_there = server_clock(w);
    const struct rdzv_record *record;
    for (uint32_t i = 0; (record = disk_record(w, i)) != NULL; i++) {
        uint32_t job = jobs_find(w, record->job);
        /* as in server/driver.c: the job is rebuilt from its agents' reports */
        if (disk_is_torn(w, i)) {
            rc = rdzv_set_aside(s->core, record->job);
        } else {
            if (job != NAMES_NONE && disk_has_lost(w, record->job)) {
                check_rolled_back(w->check, job, record->epoch);
                judge_adopted(w, job, record->epoch);
            }
            rc = rdzv_restore(s->core, now_there, record);
        }
        if (rc) {
            check_honest(w->check, "the server", "its own record", rc);
        }
    }
    judge_restart(w);
    s->up = true;
    s->began_at = s->late_end = s->late_before = w->now; /* earlier leases count from here */
    s->deadline = now_there;
    s->late_until = 0;
    world_trace(w, "server", "up", "%s", "");
    timer_set(w, &s->timer, on_timer, 0, w->now); /* only a step returns the next deadline */
}

void server_kill(struct world *w, uint32_t kept)
{
    struct server *s = w->server;
    if (!s->up) {
        return;
    }
    world_trace(w, "server", "down", "%s", "");
    s->up = false;
    net_server_down(w);
    disk_crash(w, kept);
    rdzv_free(s->core);
    s->core = NULL;
    check_memory(w->check, "the server that has ended", s->mem.bytes, 0);
    s->late_until = 0;
}

void server_be_late(struct world *w, int64_t ms)
{
    struct server *s = w->server;
    /* After a late iteration the server reads its connections in any order. */
    for (uint32_t node = 0; node < w->n_nodes; node++) {
        node_silence(w, node);
    }
    if (s->late_until <= w->now) {
        s->late_before = s->late_end;
        s->late_from = w->now;
    }
    if (s->late_until < w->now + ms) {
        s->late_until = s->late_end = w->now + ms;
    }
}

void server_set_rate(struct world *w, int64_t ppm)
{
    struct server *s = w->server;
    clock_set(&s->clock, w->now, ppm, false);
    if (s->up) {
        arm(w);
    }
}
