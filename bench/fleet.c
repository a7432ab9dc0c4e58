/* bench/fleet.c: simulated agents: JOIN, READY, LISTENING, renewals, probes, tables. */
#include "bench/fleet.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "bench/machine.h"
#include "common/base/backoff.h"
#include "common/base/limits.h"
#include "common/channel/channel.h"
#include "common/credentials/node_secrets.h"
#include "common/handshake/seal.h"
#include "common/message/cluster_table.h"
#include "tests/job_options.h"

#define LATENCIES_MAX (1u << 20) /* latencies stored since the mark */
#define TENTHS_MAX 6000          /* tenths of a second in the histogram of WELCOMEs */
#define FIRST_PORT 10000
/* As in agent/core/link.c: the shortest wait after a lost connection, the first wait after a
 * failed attempt, and the longest before the first WELCOME. */
#define FIRST_TRY_MS 100u
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MAX_MS 3000u

struct agent {
    struct fleet *fleet;
    struct channel *channel;
    struct event timer; /* next renewal or next connection attempt */
    TAILQ_ENTRY(agent) waiting;
    uint32_t number;
    bool wanted;
    bool queued;
    bool connecting;
    bool welcome;
    bool told; /* LISTENING has been sent */
    uint16_t renew_ms;
    uint16_t spread_ms;
    uint16_t backoff_ms;
    uint64_t epoch; /* running epoch; 0 if none */
    uint64_t highest;
    uint64_t digest; /* digest of the stored table; 0 if none */
    uint64_t table_epoch;
    uint64_t base;
    uint32_t rows; /* rows received of the incoming table (agents that check rows) */
    uint32_t table_bytes;
    uint32_t fresh; /* number of changes to another pair of ports */
    uint32_t renewals;
    uint32_t answered;
    uint64_t sent_us;
    uint64_t started_us;
    uint64_t received; /* bytes received on this connection since the mark */
    struct tfe_id node;
    char node_secret[MSG_NODE_SECRET_CHARS + 1];
};
TAILQ_HEAD(agent_list, agent);

/* The table of an epoch, shared by the agents that check its rows. */
struct reference {
    uint64_t epoch;
    uint64_t digest;   /* 0 until a START has named it */
    uint32_t bytes[2]; /* size of the whole table and of its changes */
    uint32_t room;
    uint32_t *hashes; /* hashes of the rows by rank; 0 if not known yet */
};

struct fleet {
    struct event_base *base;
    struct fleet_config config;
    struct handshake_params params;
    struct agent *agents;
    uint64_t *ids; /* first bytes of each agent's node id, for look-ups */
    struct agent_list to_connect;
    uint32_t n_connecting;
    uint32_t window;
    uint32_t throughput_ms;
    uint32_t next; /* next agent of the renewal window */
    struct fleet_facts seen;
    struct reference reference[2];
    uint64_t mark_us;
    uint32_t *latencies;
    size_t n_latencies;
    uint32_t *sorted;
    uint32_t welcomes[TENTHS_MAX];
    uint32_t n_welcomes;
    uint64_t last_welcome_us;
};

static void arm(struct agent *a, uint64_t us)
{
    const struct timeval tv = {.tv_sec = (time_t)(us / 1000000),
                               .tv_usec = (suseconds_t)(us % 1000000)};
    (void)evtimer_add(&a->timer, &tv);
}

static void say(struct agent *a, const struct tfe_msg *msg)
{
    if (a->channel && channel_send(a->channel, msg)) {
        (void)fprintf(stderr, "agent %u: a message was not sent\n", a->number);
    }
}

/* --- renewals --------------------------------------------------------------------------------- */

static void renew(struct agent *a)
{
    a->sent_us = machine_us();
    say(a, &(struct tfe_msg){.type = MSG_RENEW, .u.renew.number = ++a->renewals});
}

/* Starts one more renewal of the window, on the next agent without one under way. */
static void renew_next(struct fleet *f)
{
    for (uint32_t tries = 0; tries < f->config.n; tries++) {
        struct agent *a = &f->agents[f->next];
        f->next = f->next + 1 == f->config.n ? 0 : f->next + 1;
        if (a->welcome && a->answered == a->renewals) {
            renew(a);
            return;
        }
    }
}

static uint16_t ms16(uint32_t ms)
{
    return (uint16_t)(ms < 60000 ? ms : 60000);
}

static void on_renewed(struct agent *a, const struct msg_renewed *renewed)
{
    struct fleet *f = a->fleet;
    f->seen.renewed++;
    if (renewed->spread_ms != 0) {
        a->spread_ms = ms16(renewed->spread_ms);
    }
    if (renewed->number == a->renewals) {
        if (f->n_latencies < LATENCIES_MAX) {
            f->latencies[f->n_latencies++] = (uint32_t)(machine_us() - a->sent_us);
        }
        a->answered = a->renewals;
        if (f->window > 0) {
            renew_next(f);
        }
    }
}

static void arm_renewal(struct agent *a)
{
    const uint32_t ms = a->fleet->throughput_ms ? a->fleet->throughput_ms : a->renew_ms;
    /* Jitter of 20 %, as in agents, so that renewals do not synchronise. */
    arm(a, (uint64_t)ms * (800 + randombytes_uniform(401)));
}

/* --- epochs ----------------------------------------------------------------------------------- */

/* Returns the port of an epoch: one of two for odd and even epochs, from another pair after a
 * request for fresh ports. */
static uint16_t port_of(const struct agent *a, uint64_t epoch)
{
    const uint32_t number = a->fleet->config.first_label + a->number;
    return (uint16_t)(FIRST_PORT + (2 * number + 7918u * a->fresh + (epoch & 1)) % 50000);
}

static void send_ready(struct agent *a, uint64_t epoch, bool answering)
{
    const uint16_t port = port_of(a, epoch);
    a->table_bytes = 0; /* from an epoch that was stopped before its table was complete */
    say(a, &(struct tfe_msg){.type = MSG_READY,
                             .u.ready = {.epoch = epoch,
                                         .host = "127.0.0.1",
                                         .ports = &port,
                                         .n_ports = 1,
                                         .table_digest = a->digest,
                                         .answering = answering}});
}

static uint32_t row_hash(const struct msg_row *row)
{
    const uint64_t digest = table_digest(row, 1);
    const uint32_t hash = (uint32_t)(digest ^ (digest >> 32));
    return hash ? hash : 1;
}

/* Returns true for the first and every hundredth agent, which check each row. The others count
 * bytes, because otherwise this process would measure the decoding of ten thousand tables. */
static bool looks_at_rows(const struct agent *a)
{
    return a->number % 100 == 0;
}

static bool wants(void *ctx, struct channel *ch, uint8_t type, size_t n)
{
    struct agent *a = ctx;
    (void)ch;
    a->received += SEAL_HEADER_BYTES + n + SEAL_TAG_BYTES;
    if (type != MSG_TABLE) {
        return true;
    }
    a->table_bytes += (uint32_t)n;
    return looks_at_rows(a);
}

static bool is_as_reference(struct fleet *f, const struct msg_table *table)
{
    struct reference *r = &f->reference[table->epoch & 1];
    if (r->epoch != table->epoch) {
        if (table->world > r->room) {
            uint32_t *hashes = realloc(r->hashes, table->world * sizeof *hashes);
            if (!hashes) {
                return false;
            }
            r->hashes = hashes;
            r->room = table->world;
        }
        memset(r->hashes, 0, r->room * sizeof *r->hashes);
        r->epoch = table->epoch;
        r->digest = 0;
        r->bytes[0] = r->bytes[1] = 0;
    }
    for (size_t i = 0; i < table->n_rows; i++) {
        uint32_t *known = &r->hashes[table->rows[i].rank];
        const uint32_t hash = row_hash(&table->rows[i]);
        if (*known != 0 && *known != hash) {
            return false;
        }
        *known = hash;
    }
    return true;
}

static void on_table(struct agent *a, const struct msg_table *table)
{
    if (!is_as_reference(a->fleet, table)) {
        a->fleet->seen.wrong++;
    }
    if (a->table_epoch != table->epoch) {
        a->rows = 0;
        a->table_epoch = table->epoch;
    }
    a->base = table->base_digest;
    a->rows += (uint32_t)table->n_rows;
}

/* Returns true if the chunks before START are a whole table, or changes to a stored one. */
static bool has_table(struct agent *a, const struct msg_start *start)
{
    struct reference *r = &a->fleet->reference[start->epoch & 1];
    const uint32_t bytes = a->table_bytes;
    a->table_bytes = 0;
    if (r->epoch != start->epoch) {
        return bytes > 0; /* no agent that checks rows has received this table yet */
    }
    if (r->digest != 0 && r->digest != start->table_digest) {
        return false;
    }
    r->digest = start->table_digest;
    if (looks_at_rows(a)) {
        const bool changes = a->base != 0;
        r->bytes[changes] = bytes;
        return a->table_epoch == start->epoch &&
               (changes ? a->base == a->digest : a->rows == start->world);
    }
    /* The size must equal that of the whole table or of the changes, as measured by agents that
     * check rows. */
    return bytes == r->bytes[0] || bytes == r->bytes[1] ||
           (r->bytes[0] == 0 && bytes > r->bytes[1]) || (r->bytes[1] == 0 && bytes > 0);
}

/* Sets the running epoch; 0 for none. */
static void set_epoch(struct agent *a, uint64_t epoch)
{
    struct fleet *f = a->fleet;
    f->seen.started -= a->epoch != 0 && a->epoch == f->seen.epoch;
    f->seen.started += epoch != 0 && epoch == f->seen.epoch;
    a->epoch = epoch;
}

static void on_start(struct agent *a, const struct msg_start *start)
{
    struct fleet *f = a->fleet;
    if (!has_table(a, start)) {
        f->seen.wrong++;
        return;
    }
    a->digest = start->table_digest;
    if (start->epoch > f->seen.epoch) {
        f->seen.epoch = start->epoch;
        f->seen.epochs_seen++;
        f->seen.started = 0;
    }
    set_epoch(a, start->epoch);
    a->highest = start->epoch;
    a->started_us = machine_us();
    say(a, &(struct tfe_msg){.type = MSG_LISTENING, .u.listening.epoch = start->epoch});
}

static void on_stop(struct agent *a, const struct msg_stop *stop)
{
    a->fleet->seen.stopped++;
    a->highest = stop->epoch > a->highest ? stop->epoch : a->highest;
    if (a->epoch != 0) {
        say(a, &(struct tfe_msg){.type = MSG_EXITED,
                                 .u.exited = {.epoch = a->epoch, .stopped = true, .tail = ""}});
        set_epoch(a, 0);
    }
}

static const struct agent *find_agent(const struct fleet *f, const char *node)
{
    struct tfe_id id;
    uint64_t first;
    if (id_set(&id, node)) {
        return NULL;
    }
    memcpy(&first, id.text, sizeof first);
    for (uint32_t i = 0; i < f->config.n; i++) {
        if (f->ids[i] == first && id_compare(&f->agents[i].node, &id) == 0) {
            return &f->agents[i];
        }
    }
    return NULL;
}

static void on_probe(struct agent *a, const struct msg_probe *probe)
{
    enum tfe_probe_result result = PROBE_ANSWERED_OURS;
    if (probe->kind == PROBE_SUSPECT) {
        const struct agent *other = find_agent(a->fleet, probe->node);
        result = other && other->wanted ? PROBE_ACCEPTED : PROBE_REFUSED;
    }
    say(a, &(struct tfe_msg){.type = MSG_PROBED,
                             .u.probed = {.probe = probe->probe, .result = result}});
}

/* --- connections ------------------------------------------------------------------------------ */

static void connect_more(struct fleet *f);

static void on_established(void *ctx, struct channel *ch, const struct principal *by)
{
    struct agent *a = ctx;
    const struct fleet_config *config = &a->fleet->config;
    char label[32];
    (void)by;
    (void)snprintf(label, sizeof label, "sim-%u", config->first_label + a->number);
    a->connecting = false;
    a->fleet->n_connecting--;
    if (config->silent) {
        /* A message of a later version, which the server ignores but which opens the session. */
        static const uint8_t unknown[] = {0xff};
        if (channel_send_encoded(ch, unknown, sizeof unknown)) {
            abort();
        }
        a->welcome = true;
        a->spread_ms = FIRST_TRY_MS; /* default, because no WELCOME sets it */
        a->fleet->seen.connected++;
        connect_more(a->fleet);
        return;
    }
    struct tfe_msg join = {.type = MSG_JOIN,
                           .u.join = {.job = config->job,
                                      .node = a->node.text,
                                      .node_secret = a->node_secret,
                                      .node_name = label,
                                      .spec = job_of_size(config->min_nodes, config->max_nodes, 1),
                                      .highest_epoch = a->highest,
                                      .running_epoch = a->epoch}};
    join.u.join.spec.gather_ms = config->gather_ms;
    join.u.join.spec.script_digest = 1;
    say(a, &join);
    connect_more(a->fleet);
}

static void on_welcome(struct agent *a, const struct msg_welcome *welcome)
{
    struct fleet *f = a->fleet;
    const uint64_t tenth = (machine_us() - f->mark_us) / 100000;
    a->renew_ms = ms16(welcome->renew_ms);
    a->spread_ms = ms16(welcome->spread_ms);
    a->backoff_ms = 0;
    if (!a->welcome) {
        a->welcome = true;
        f->seen.connected++;
        f->n_welcomes++;
        f->last_welcome_us = machine_us() - f->mark_us;
        f->welcomes[tenth < TENTHS_MAX ? tenth : TENTHS_MAX - 1]++;
    }
    arm_renewal(a);
}

static void on_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct agent *a = ctx;
    (void)ch;
    switch ((int)msg->type) {
    case MSG_WELCOME:
        on_welcome(a, &msg->u.welcome);
        break;
    case MSG_RENEWED:
        on_renewed(a, &msg->u.renewed);
        break;
    case MSG_PREPARE:
        a->fresh += msg->u.prepare.fresh_ports;
        send_ready(a, msg->u.prepare.epoch, msg->u.prepare.answer);
        break;
    case MSG_TABLE:
        on_table(a, &msg->u.table);
        break;
    case MSG_START:
        on_start(a, &msg->u.start);
        break;
    case MSG_STOP:
        on_stop(a, &msg->u.stop);
        break;
    case MSG_PROBE:
        on_probe(a, &msg->u.probe);
        break;
    case MSG_REFUSED:
        (void)fprintf(stderr, "agent %u: refused: %s\n", a->number, msg->u.refused.sentence);
        break;
    }
}

/* Returns the wait before the next connection attempt, as in agents: a random time up to spread_ms
 * after a WELCOME, else a doubling back-off. */
static uint32_t wait_ms(struct agent *a)
{
    if (a->welcome) {
        const uint32_t spread = a->spread_ms;
        return spread > FIRST_TRY_MS ? FIRST_TRY_MS + randombytes_uniform(spread - FIRST_TRY_MS + 1)
                                     : spread;
    }
    /* A third of the lease time. */
    const uint32_t longest = a->renew_ms ? a->renew_ms : BACKOFF_MAX_MS;
    a->backoff_ms = (uint16_t)backoff_next(a->backoff_ms, BACKOFF_FIRST_MS, longest);
    return 1 + randombytes_uniform(a->backoff_ms);
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
{
    struct agent *a = ctx;
    struct fleet *f = a->fleet;
    (void)ch;
    (void)end;
    (void)detail;
    a->channel = NULL;
    a->received = 0;
    a->table_bytes = 0;
    f->n_connecting -= a->connecting;
    a->connecting = false;
    if (a->wanted) {
        arm(a, (uint64_t)1000 * wait_ms(a));
    }
    f->seen.connected -= a->welcome;
    a->welcome = false;
    a->answered = a->renewals;
    connect_more(f);
}

static const struct channel_ops ops = {
    .established = on_established, .message = on_message, .closed = on_closed, .wants = wants};

static void connect_more(struct fleet *f)
{
    struct agent *a;
    while (f->n_connecting < f->config.connecting_max &&
           (a = TAILQ_FIRST(&f->to_connect)) != NULL) {
        TAILQ_REMOVE(&f->to_connect, a, waiting);
        a->queued = false;
        if (channel_connect(f->base, f->config.info->host, f->config.info->port,
                            f->config.info->token, &f->params, 60000, &ops, a, &a->channel)) {
            arm(a, 100000);
            return;
        }
        a->connecting = true;
        f->n_connecting++;
    }
}

static void want_connection(struct agent *a)
{
    if (!a->queued && !a->channel) {
        a->queued = true;
        TAILQ_INSERT_TAIL(&a->fleet->to_connect, a, waiting);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct agent *a = ctx;
    (void)fd;
    (void)what;
    if (a->welcome) {
        if (a->answered == a->renewals) {
            renew(a);
        }
        arm_renewal(a);
    } else if (a->wanted) {
        want_connection(a);
        connect_more(a->fleet);
    }
}

/* --- fleet ------------------------------------------------------------------------------------ */

/* Resets an agent to a new process with a new node id and no history. */
static void be_born(struct agent *a)
{
    node_secret_make(a->node_secret);
    (void)node_id_of(a->node_secret, &a->node);
    memcpy(&a->fleet->ids[a->number], a->node.text, sizeof a->fleet->ids[0]);
    set_epoch(a, 0);
    a->backoff_ms = 0;
    a->highest = a->table_epoch = 0;
    a->digest = 0;
}

int fleet_new(struct event_base *base, const struct fleet_config *config, struct fleet **ret)
{
    struct fleet *f = calloc(1, sizeof *f);
    if (!f) {
        return TFE_ENOMEM;
    }
    f->base = base;
    f->config = *config;
    f->params =
        (struct handshake_params){.version_min = PROTOCOL_VERSION, .version_max = PROTOCOL_VERSION};
    randombytes_buf(&f->params.boot_nonce, sizeof f->params.boot_nonce);
    TAILQ_INIT(&f->to_connect);
    f->agents = calloc(config->n, sizeof *f->agents);
    f->ids = calloc(config->n, sizeof *f->ids);
    f->latencies = malloc(2 * LATENCIES_MAX * sizeof *f->latencies);
    if (!f->agents || !f->ids || !f->latencies) {
        fleet_free(f);
        return TFE_ENOMEM;
    }
    f->sorted = f->latencies + LATENCIES_MAX;
    for (uint32_t i = 0; i < config->n; i++) {
        struct agent *a = &f->agents[i];
        a->fleet = f;
        a->number = i;
        be_born(a);
        (void)event_assign(&a->timer, base, -1, 0, on_timer, a);
    }
    fleet_mark(f);
    *ret = f;
    return 0;
}

void fleet_free(struct fleet *f)
{
    if (!f) {
        return;
    }
    for (uint32_t i = 0; f->agents && i < f->config.n; i++) {
        (void)event_del(&f->agents[i].timer);
        channel_free(f->agents[i].channel);
    }
    free(f->reference[0].hashes);
    free(f->reference[1].hashes);
    free(f->agents);
    free(f->ids);
    free(f->latencies);
    free(f);
}

void fleet_connect(struct fleet *f, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && i < f->config.n; i++) {
        f->agents[i].wanted = true;
        want_connection(&f->agents[i]);
    }
    connect_more(f);
}

static void take_out(struct fleet *f, uint32_t agent, bool polite)
{
    struct agent *a = &f->agents[agent];
    a->wanted = false;
    be_born(a);
    if (!a->channel) {
        return;
    }
    f->seen.connected -= a->welcome;
    f->n_connecting -= a->connecting;
    a->welcome = a->connecting = false;
    (void)event_del(&a->timer);
    if (polite) {
        say(a, &(struct tfe_msg){.type = MSG_GOODBYE, .u.goodbye.drained = true});
        channel_finish(a->channel, 1000);
        return;
    }
    channel_free(a->channel);
    a->channel = NULL;
}

void fleet_lose(struct fleet *f, uint32_t agent)
{
    take_out(f, agent, false);
}

void fleet_leave(struct fleet *f, uint32_t agent)
{
    take_out(f, agent, true);
}

void fleet_renew(struct fleet *f, uint32_t window)
{
    f->window = window;
    for (uint32_t i = 0; i < window; i++) {
        renew_next(f);
    }
}

void fleet_pace(struct fleet *f, uint32_t interval_ms)
{
    f->throughput_ms = interval_ms;
    for (uint32_t i = 0; i < f->config.n; i++) {
        if (f->agents[i].welcome) {
            arm_renewal(&f->agents[i]);
        }
    }
}

void fleet_mark(struct fleet *f)
{
    f->mark_us = machine_us();
    f->seen.renewed = 0;
    f->n_latencies = 0;
    f->n_welcomes = 0;
    f->last_welcome_us = 0;
    for (uint32_t i = 0; i < f->config.n; i++) {
        f->agents[i].received = 0;
    }
    memset(f->welcomes, 0, sizeof f->welcomes);
}

void fleet_look(const struct fleet *f, struct fleet_facts *ret)
{
    *ret = f->seen;
}

uint64_t fleet_bytes(const struct fleet *f)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < f->config.n; i++) {
        bytes += f->agents[i].received;
    }
    return bytes;
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

uint32_t fleet_latency_us(struct fleet *f, double q)
{
    const size_t n = f->n_latencies;
    if (n == 0) {
        return 0;
    }
    memcpy(f->sorted, f->latencies, n * sizeof *f->sorted);
    qsort(f->sorted, n, sizeof *f->sorted, by_value);
    return f->sorted[(size_t)(q * (double)(n - 1))];
}

void fleet_welcomes(const struct fleet *f, uint32_t *ret_busiest, uint32_t *ret_all)
{
    uint32_t second = 0; /* WELCOMEs in the second that ends with this tenth */
    *ret_busiest = 0;
    for (uint32_t i = 0; i < TENTHS_MAX; i++) {
        second += f->welcomes[i] - (i < 10 ? 0 : f->welcomes[i - 10]);
        *ret_busiest = second > *ret_busiest ? second : *ret_busiest;
    }
    *ret_all = f->n_welcomes;
}

uint64_t fleet_last_welcome_us(const struct fleet *f)
{
    return f->last_welcome_us;
}

uint64_t fleet_started_us(struct fleet *f, double q)
{
    size_t n = 0;
    for (uint32_t i = 0; i < f->config.n && n < LATENCIES_MAX; i++) {
        const struct agent *a = &f->agents[i];
        if (a->epoch == f->seen.epoch && a->started_us >= f->mark_us) {
            f->sorted[n++] = (uint32_t)(a->started_us - f->mark_us);
        }
    }
    if (n == 0) {
        return 0;
    }
    qsort(f->sorted, n, sizeof *f->sorted, by_value);
    return f->sorted[(size_t)(q * (double)(n - 1))];
}
