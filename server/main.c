/* server/main.c: tfe-rdzv from start to end: the order in which things come up and go down. */
#include <event2/event.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/clock.h"
#include "common/net/heap.h"
#include "common/net/listener.h"
#include "common/net/log.h"
#include "common/net/state_dir.h"
#include "common/wire/hello.h"
#include "server/advertise.h"
#include "server/driver.h"
#include "server/keys.h"
#include "server/process.h"
#include "server/sessions.h"
#include "server/settings.h"
#include "server/state.h"
#include "server/store/memory.h"
#include "server/store/recover.h"
#include "server/store/sqlite.h"

/* DESIGN 9: exit 0 within 2 s of a signal. Peers get this long to read what was queued for them. */
#define STOP_MS 1500

/* … and the disk this long to give back the thread that writes to it. */
#define STORE_WAIT_MS 300

/* The version of the protocol after the handshake that this program speaks. */
#define PROTOCOL_VERSION 1

enum { EXIT_USAGE = 2 };

struct server {
    struct settings settings;
    struct state state;
    struct event_base *base;
    struct hello_server *hello;
    struct store *store;
    struct driver *driver;
    struct sessions *sessions;
    struct listener *listener;
    struct event *on_term;
    struct event *on_int;
    struct event *on_late;
    uint32_t max_agents;
    bool stopping;
};

static void end_loop(void *ctx)
{
    struct server *server = ctx;
    (void)event_base_loopbreak(server->base);
}

static void on_late(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    end_loop(ctx);
}

static void on_signal(evutil_socket_t number, short what, void *ctx)
{
    static const struct timeval late = {.tv_sec = STOP_MS / 1000, .tv_usec = STOP_MS % 1000 * 1000};
    struct server *server = ctx;
    (void)what;
    if (server->stopping) {
        end_loop(server); /* asked twice: at once */
        return;
    }
    server->stopping = true;
    log_info("stopping", LOG_S("signal", number == SIGTERM ? "SIGTERM" : "SIGINT"));
    sessions_set_listener(server->sessions, NULL);
    listener_free(server->listener);
    server->listener = NULL;
    driver_stop(server->driver);
    (void)evtimer_add(server->on_late, &late);
    sessions_stop(server->sessions, end_loop, server);
}

static int start_loop(struct server *server, struct tfe_why *why)
{
    struct event_config *config = event_config_new();
    if (config != NULL) {
        /* The kernel's precise timers instead of a cached millisecond: deadlines are the product.
         */
        (void)event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
        server->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (server->base != NULL) {
        server->on_term = evsignal_new(server->base, SIGTERM, on_signal, server);
        server->on_int = evsignal_new(server->base, SIGINT, on_signal, server);
        server->on_late = evtimer_new(server->base, on_late, server);
    }
    if (server->on_term == NULL || server->on_int == NULL || server->on_late == NULL ||
        event_add(server->on_term, NULL) != 0 || event_add(server->on_int, NULL) != 0) {
        why_set(why, "the event loop cannot be set up");
        return TFE_ESYS;
    }
    return 0;
}

static int takes_in(void *ctx, const struct rdzv_record *record)
{
    return rdzv_restore(ctx, clock_mono(), record);
}

/* --recover: each record is tried on a core of its own, as the real one will be. */
static int recover_store(const struct rdzv_config *config, const char *path, struct tfe_why *why)
{
    struct rdzv *core;
    struct recover_report report;
    int err = rdzv_new(config, &heap_mem, &core);
    if (err != 0) {
        why_set(why, "recover %s: %s", path, tfe_error_sentence(err));
        return err;
    }
    err = sqlite_store_recover(path, clock_wall(), takes_in, core, &report, why);
    rdzv_free(core);
    if (err == 0 && !report.was_damaged) {
        log_info("store_is_whole", LOG_S("file", path));
    } else if (err == 0) {
        log_warn("store_salvaged", LOG_S("file", path), LOG_U("jobs", report.jobs),
                 LOG_U("jobs_dropped", report.dropped), LOG_U("ledger_rows", report.rows),
                 LOG_S("old_file", report.kept));
    }
    return err;
}

static int open_store(struct server *server, const struct rdzv_config *config, struct tfe_why *why)
{
    char path[PATH_MAX];
    if (server->settings.ephemeral) {
        return memory_store_open(&server->store, why);
    }
    int err = state_path(path, server->state.dir, STATE_DIR_STORE, why);
    if (err == 0 && server->settings.recover) {
        err = recover_store(config, path, why);
    }
    return err != 0 ? err
                    : sqlite_store_open(path, config->incarnation, clock_wall(), NULL,
                                        &server->store, why);
}

static int start_core(struct server *server, struct tfe_why *why)
{
    const struct settings *s = &server->settings;
    struct rdzv_config config = {
        .ttl_ms = s->ttl_ms,
        .fence_ms = s->fence_ms,
        .gather_ms = s->gather_ms,
        .gather_max_ms = s->gather_max_ms,
        .grow_wait_ms = s->grow_wait_ms,
        .elastic_timeout_ms = s->elastic_timeout_ms,
        .renew_rate = s->renew_rate,
        .stop_grace_ms = s->stop_grace_ms,
        .exit_grace_ms = s->exit_grace_ms,
        .max_restarts = s->max_restarts,
        .probe_ms = s->probe_ms,
        /* Who is only told that there is no room takes a number from nobody. */
        .max_sessions = server->max_agents + PROCESS_FILES_RESERVED,
        .max_nodes = server->max_agents,
    };
    randombytes_buf(&config.incarnation, sizeof(config.incarnation));
    randombytes_buf(&config.seed, sizeof(config.seed));
    int err = open_store(server, &config, why);
    if (err != 0) {
        return err;
    }
    err = driver_new(server->base, &config, &server->driver);
    if (err != 0) {
        why_set(why, "start the rendezvous: %s", tfe_error_sentence(err));
        return err;
    }
    err = driver_restore(server->driver, server->store, why);
    if (err == 0) {
        err = driver_set_store(server->driver, server->store, s->keep_history_ms, why);
        server->store = err == 0 ? NULL : server->store;
    }
    if (err != 0) {
        return err;
    }
    struct sessions_config sessions = {
        .base = server->base,
        .hello = server->hello,
        .facts = {.version_min = PROTOCOL_VERSION,
                  .version_max = PROTOCOL_VERSION,
                  .boot_nonce = config.incarnation},
        .rdzv = driver_core(server->driver),
        .writer = driver_writer(server->driver),
        .max_sessions = config.max_sessions,
        .half_open_per_address = s->half_open_per_address,
        .ops = &driver_session_ops,
        .ops_ctx = server->driver,
    };
    err = sessions_new(&sessions, &server->sessions);
    if (err != 0) {
        why_set(why, "no memory for %u sessions", config.max_sessions);
        return err;
    }
    driver_set_sessions(server->driver, server->sessions);
    return 0;
}

/* What a person or a launch script needs; stdout carries nothing else. */
static int announce(struct server *server, struct tfe_why *why)
{
    const struct settings *s = &server->settings;
    uint16_t port = listener_port(server->listener);
    char host[TFE_HOST_MAX + 1];
    char at[STATE_ENDPOINT_MAX];
    char token[PATH_MAX];
    int err = state_write_endpoint(&server->state, s->bind, port, why);
    if (err == 0) {
        err = state_path(token, server->state.dir, state_dir_token_name(TOKEN_AGENT), why);
    }
    if (err != 0) {
        return err;
    }
    state_format_endpoint(at, s->bind, port);
    (void)printf("listening on %s\n", at);
    log_info("listening", LOG_S("address", at), LOG_S("state_dir", server->state.dir),
             LOG_U("agents_max", server->max_agents), LOG_U("ttl_ms", s->ttl_ms));
    advertise_find(s->advertise, s->bind, host);
    state_format_endpoint(at, host, port);
    (void)printf(
        "join with: tfe-agent --rdzv-endpoint=%s --token-file=%s --nnodes=MIN:MAX SCRIPT\n", at,
        token);
    if (fflush(stdout) != 0) {
        log_warn("stdout_closed");
    }
    return 0;
}

static int start(struct server *server, struct tfe_why *why)
{
    const struct settings *s = &server->settings;
    int err = process_prepare(why);
    if (err == 0) {
        err = state_open(&server->state, s->state_dir, why);
    }
    if (err == 0) {
        err = keys_open(server->state.dir, &server->hello, why);
    }
    if (err == 0) {
        err = process_raise_files(&server->max_agents, why);
    }
    if (err == 0) {
        err = start_loop(server, why);
    }
    if (err == 0) {
        err = start_core(server, why);
    }
    if (err == 0) {
        err = listener_new(server->base, s->bind, (uint16_t)s->port, sessions_accept,
                           server->sessions, &server->listener, why);
    }
    if (err == 0) {
        sessions_set_listener(server->sessions, server->listener);
        err = announce(server, why);
    }
    return err;
}

/* Takes a server that started only half, too. */
static void finish(struct server *server)
{
    if (server->sessions != NULL) {
        sessions_set_listener(server->sessions, NULL);
    }
    listener_free(server->listener);
    sessions_free(server->sessions);
    store_close(server->store); /* where there is no thread that does */
    if (!driver_free(server->driver, STORE_WAIT_MS)) {
        log_warn("store_hangs", LOG_S("effect", "the last write was promised to nobody"));
    }
    struct event *const events[] = {server->on_term, server->on_int, server->on_late};
    for (unsigned i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i] != NULL) {
            event_free(events[i]);
        }
    }
    if (server->base != NULL) {
        event_base_free(server->base);
    }
    hello_server_free(server->hello);
    state_close(&server->state);
}

int main(int argc, char **argv)
{
    struct server server = {.state = {.lock_fd = -1}};
    enum options_result result;
    struct tfe_why why = {.text = ""};
    if (settings_parse(argc, argv, &server.settings, &result, &why) != 0) {
        (void)fprintf(stderr, "tfe-rdzv: %s\n", why.text);
        return EXIT_USAGE;
    }
    if (result == OPTIONS_HELP) {
        options_print_help(&settings_table, stdout);
        return EXIT_SUCCESS;
    }
    if (result == OPTIONS_VERSION) {
        (void)printf("tfe-rdzv %s\n", TFE_VERSION);
        return EXIT_SUCCESS;
    }
    log_init("tfe-rdzv", server.settings.log_level, server.settings.log_format);
    int status = EXIT_FAILURE;
    if (sodium_init() < 0) {
        why_set(&why, "libsodium cannot be set up");
    } else if (start(&server, &why) == 0) {
        status = event_base_dispatch(server.base) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        const char *over = driver_over(server.driver);
        why_set(&why, "%s", over ? over : "the event loop failed");
        status = over ? EXIT_FAILURE : status;
    }
    if (status != EXIT_SUCCESS) {
        (void)fprintf(stderr, "tfe-rdzv: %s\n", why.text);
    } else {
        log_info("stopped");
    }
    finish(&server);
    return status;
}
