/* bench/bundle_load.c: pool nodes that fetch a bundle like agents (agent/pool/fetch.c), on one
 * loop, or a node that only renews. All copies of the bundle share the same memory.
 *
 * Usage: tfe-bench-bundle --state-dir DIR --first N --nodes N      (label set=load)
 *        tfe-bench-bundle --state-dir DIR --probe MS               (renewal interval)
 *
 * The first form prints {"ready": N} once all nodes are in the pool, and {"done": N, "ms": …} once
 * all have the bundle, and ends with its stdin. The second form prints {"ready": 1}, and at the end
 * of its stdin its renewal times: {"n": …, "p50_us": …, "p99_us": …, "max_us": …}. */
#include <event2/event.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/pool/fetch.h"
#include "bench/machine.h"
#include "common/base/heap.h"
#include "common/base/limits.h"
#include "common/base/timer.h"
#include "common/channel/channel.h"
#include "common/cli/log.h"
#include "common/credentials/join.h"
#include "common/credentials/node_secrets.h"

#define RENEW_MS 15000
#define SAMPLES_MAX 1000000u

struct node {
    struct load *load;
    struct channel *channel;
    struct fetch *fetch;
    struct event *renew;
    struct tfe_id id;
    char secret[MSG_NODE_SECRET_CHARS + 1];
    char name[32];
    char digest[MSG_BUNDLE_HEX + 1];
    uint64_t renewals, said_us;
};

struct load {
    struct event_base *base;
    struct join_info info;
    struct handshake_params params;
    struct node *nodes;
    uint32_t n, n_in, n_done;
    uint64_t began_us;
    uint32_t probe_ms; /* renewal interval; 0 for a node that fetches */
    uint32_t *samples, n_samples;
};

/* One memory file for all nodes, since all write the same bytes. */
static int shared = -1;
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (shared < 0) {
        shared = __real_memfd_create(name, flags);
    }
    return dup(shared);
}

static void die(const char *what)
{
    (void)fprintf(stderr, "tfe-bench-bundle: %s\n", what);
    exit(1);
}

static void say(void *ctx, const struct tfe_msg *msg)
{
    struct node *node = ctx;
    if (channel_send(node->channel, msg) != 0) {
        die("a message was not sent");
    }
}

static void renew_later(struct node *node)
{
    (void)timer_after(node->renew, node->load->probe_ms ? node->load->probe_ms : RENEW_MS);
}

static void on_renew(evutil_socket_t fd, short what, void *ctx)
{
    struct node *node = ctx;
    const struct tfe_msg msg = {.type = MSG_RENEW, .u.renew.number = ++node->renewals};
    node->said_us = machine_us();
    say(node, &msg);
    if (!node->load->probe_ms) {
        renew_later(node);
    }
}

static void on_renewed(struct node *node)
{
    struct load *load = node->load;
    if (load->probe_ms && load->n_samples < SAMPLES_MAX) {
        load->samples[load->n_samples++] = (uint32_t)(machine_us() - node->said_us);
        renew_later(node);
    }
}

static void on_ended(void *ctx, int fd)
{
    struct node *node = ctx;
    struct load *load = node->load;
    if (++load->n_done == load->n) {
        (void)printf("{\"done\": %" PRIu32 ", \"ms\": %" PRIu64 "}\n", load->n,
                     (machine_us() - load->began_us) / 1000);
        (void)fflush(stdout);
    }
}

static void on_assign(struct node *node, const struct msg_assign *assign)
{
    const struct fetch_options options = {.base = node->load->base,
                                          .digest = node->digest,
                                          .send = say,
                                          .send_ctx = node,
                                          .ended = on_ended,
                                          .ctx = node};
    json_t *job = json_loads(assign->spec, 0, NULL);
    const char *digest =
        json_string_value(json_object_get(json_object_get(job, "source"), "bundle"));
    (void)snprintf(node->digest, sizeof(node->digest), "%s", digest ? digest : "");
    json_decref(job);
    node->load->began_us = node->load->began_us ? node->load->began_us : machine_us();
    node->fetch = fetch_new(&options);
}

static void on_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct node *node = ctx;
    struct load *load = node->load;
    switch ((int)msg->type) {
    case MSG_WELCOME:
        renew_later(node);
        if (++load->n_in == load->n) {
            (void)printf("{\"ready\": %" PRIu32 "}\n", load->n);
            (void)fflush(stdout);
        }
        break;
    case MSG_RENEWED:
        on_renewed(node);
        break;
    case MSG_ASSIGN:
        on_assign(node, &msg->u.assign);
        break;
    case MSG_CHUNK:
        fetch_handle_chunk(node->fetch, &msg->u.chunk);
        break;
    case MSG_REFUSED:
        die(msg->u.refused.sentence);
        break;
    }
}

static void on_established(void *ctx, struct channel *ch, const struct principal *by)
{
    static const char *const labels[] = {"set=load"};
    struct node *node = ctx;
    const struct tfe_msg msg = {.type = MSG_POOL,
                                .u.pool = {.labels = labels,
                                           .n_labels = node->load->probe_ms ? 0 : 1,
                                           .node_name = node->name,
                                           .host = "127.0.0.1",
                                           .node = node->id.text,
                                           .node_secret = node->secret}};
    say(node, &msg);
}

static void on_closed(void *ctx, struct channel *ch, enum channel_end end, const char *detail)
{
    die(detail);
}

static void begin(struct load *load, struct node *node, uint32_t number)
{
    static const struct channel_ops ops = {
        .established = on_established, .message = on_message, .closed = on_closed};
    node->load = load;
    node->renew = evtimer_new(load->base, on_renew, node);
    must_succeed(node->renew);
    node_secret_make(node->secret);
    (void)node_id_of(node->secret, &node->id);
    (void)snprintf(node->name, sizeof(node->name), "%s%" PRIu32, load->probe_ms ? "probe" : "n",
                   number);
    if (channel_connect(load->base, load->info.host, load->info.port, load->info.token,
                        &load->params, 60000, &ops, node, &node->channel) != 0) {
        die("no connection");
    }
}

static int compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void on_stdin(evutil_socket_t fd, short what, void *ctx)
{
    struct load *load = ctx;
    const uint32_t n = load->n_samples;
    if (load->probe_ms && n > 0) {
        qsort(load->samples, n, sizeof(*load->samples), compare);
        (void)printf("{\"n\": %" PRIu32 ", \"p50_us\": %" PRIu32 ", \"p99_us\": %" PRIu32
                     ", \"max_us\": %" PRIu32 "}\n",
                     n, load->samples[n / 2], load->samples[n - 1 - n / 100], load->samples[n - 1]);
    }
    (void)fflush(stdout);
    _exit(0); /* thousands of connections close faster this way */
}

int main(int argc, char **argv)
{
    struct load load = {.params = {.version_min = PROTOCOL_VERSION,
                                   .version_max = PROTOCOL_VERSION,
                                   .boot_nonce = 1}};
    struct join_config config = {.roles = {PRINCIPAL_AGENT}, .n_roles = 1};
    struct tfe_reason reason;
    uint32_t first = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        const uint32_t number = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--state-dir") == 0) {
            config.state_dir = argv[i + 1];
        } else if (strcmp(argv[i], "--first") == 0) {
            first = number;
        } else if (strcmp(argv[i], "--nodes") == 0) {
            load.n = number;
        } else {
            load.probe_ms = number;
        }
    }
    load.n = load.probe_ms ? 1 : load.n;
    (void)signal(SIGPIPE, SIG_IGN);
    machine_raise_files();
    log_init("tfe-bench-bundle", LOG_ERROR_, LOG_AUTO);
    if (sodium_init() < 0 || join_find(&config, &load.info, &reason) != 0) {
        die(reason.text);
    }
    load.base = event_base_new();
    load.nodes = must_alloc((load.n + 1) * sizeof(*load.nodes));
    load.samples = must_alloc(SAMPLES_MAX * sizeof(*load.samples));
    struct event *ended = event_new(load.base, STDIN_FILENO, EV_READ, on_stdin, &load);
    must_succeed(load.base && ended && event_add(ended, NULL) == 0);
    for (uint32_t i = 0; i < load.n; i++) {
        begin(&load, &load.nodes[i], first + i);
    }
    (void)event_base_dispatch(load.base);
    return 1;
}
