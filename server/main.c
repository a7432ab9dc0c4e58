/* server/main.c: tfe-rdzv from start to end: the order in which its parts start and stop. */
#include <event2/event.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/base/version.h"
#include "common/channel/listener.h"
#include "common/cli/log.h"
#include "common/cli/sd_notify.h"
#include "common/cli/secret_mem.h"
#include "common/cli/signals.h"
#include "common/cli/stdio.h"
#include "common/credentials/state_dir.h"
#include "common/handshake/handshake.h"
#include "server/auth/deny_list.h"
#include "server/auth/keys.h"
#include "server/driver.h"
#include "server/events/agent_reports.h"
#include "server/events/counters.h"
#include "server/events/event_text.h"
#include "server/events/trace_log.h"
#include "server/jobs/pool.h"
#include "server/node_address.h"
#include "server/sandbox/drop_privileges.h"
#include "server/sandbox/sandbox.h"
#include "server/server_settings.h"
#include "server/server_state.h"
#include "server/sessions.h"
#include "server/store/store.h"

/* Time for peers to read what is queued for them. The process must exit within 2 s of a signal
 * (design 9). */
#define STOP_MS 1500

/* Time for the writer thread to return from the disk. */
#define STORE_WAIT_MS 300

enum { EXIT_USAGE = 2 };

/* User that a server started by root becomes if --user is not given. */
#define DEFAULT_USER "tfe"

/* Sanitizers make system calls that the sandbox refuses. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* Descriptors that connections cannot use: stdio, lock, event loop, listener, signal pipe, writer
 * thread, database and a backup. */
#define FILES_OWN 18

/* Descriptors not available to agents: FILES_OWN, and some for handshakes and tfe-ctl sessions
 * while all agent sessions are in use. */
#define FILES_RESERVED 32

#define AGENTS_MIN 8

/* Two sessions per possible member (the old and the new one of a reconnecting node). More would
 * only cost memory. */
#define AGENTS_MAX (2 * MSG_NODES_MAX)

struct server {
    struct settings settings;
    struct rdzv_config config;
    struct state state;
    struct event_base *base;
    struct keys *keys;
    struct deny_list *bans;
    struct events *events;
    struct series *series;
    struct reports *reports;
    struct pool *pool;
    struct driver *driver;
    struct sessions *sessions;
    struct listener *listener;
    struct event *quit[TERMINATION_SIGNALS];
    struct event *on_late;
    struct event *watchdog;
    uint32_t max_agents;
    struct trace_log *traces;
    struct counters gauges;
    bool stopping;
};

static void end_loop(void *ctx)
{
    struct server *server = ctx;
    (void)event_base_loopbreak(server->base);
}

static void on_late(evutil_socket_t fd, short what, void *ctx)
{
    end_loop(ctx);
}

static void on_signal(evutil_socket_t number, short what, void *ctx)
{
    static const struct timeval late = {.tv_sec = STOP_MS / 1000, .tv_usec = STOP_MS % 1000 * 1000};
    struct server *server = ctx;
    char name[SIGNAL_NAME_MAX];
    if (server->stopping) {
        end_loop(server); /* a second signal ends the server at once */
        return;
    }
    server->stopping = true;
    log_info("stopping", LOG_S("signal", signal_name(number, name)));
    sd_notify_send("STOPPING=1");
    listener_free(server->listener);
    server->listener = NULL;
    driver_stop(server->driver);
    (void)evtimer_add(server->on_late, &late);
    sessions_stop(server->sessions, end_loop, server);
}

/* Computes the configuration from the settings and the limits of this machine. */
static void configure(struct server *server)
{
    const struct settings *s = &server->settings;
    server->config = (struct rdzv_config){
        .ttl_ms = s->ttl_ms,
        .fence_ms = s->fence_ms,
        .gather_max_ms = s->gather_max_ms,
        .defaults = s->defaults,
        .renew_rate = s->renew_rate,
        .exit_grace_ms = s->exit_grace_ms,
        .probe_ms = s->probe_ms,
        .max_jobs_per_key = s->jobs_per_token,
        .max_nodes_per_key = s->agents_per_token,
        /* Sessions that are only refused for lack of capacity need a number, too. */
        .max_sessions = server->max_agents + FILES_RESERVED,
        .max_nodes = server->max_agents,
    };
    randombytes_buf(&server->config.incarnation, sizeof(server->config.incarnation));
}

/* Prepares the process before it handles secrets or sockets: opens /dev/null for descriptors 0 to 2
 * that are closed (so that no socket becomes stderr), ignores SIGPIPE and SIGXFSZ, and disables
 * core dumps. Returns 0 or TFE_ESYS. */
static int prepare_process(struct tfe_reason *reason)
{
    if (stdio_open_missing(reason) != 0) {
        return TFE_ESYS;
    }
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    /* A file size limit is treated like a full disk; it must not kill the server. */
    if (sigaction(SIGPIPE, &ignore, NULL) != 0 || sigaction(SIGXFSZ, &ignore, NULL) != 0) {
        reason_errno(reason, "ignore SIGPIPE and SIGXFSZ");
        return TFE_ESYS;
    }
    /* RLIMIT_CORE does not apply where core_pattern is a pipe (core(5)), so both are set. */
    struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) {
        reason_errno(reason, "turn core dumps off");
        return TFE_ESYS;
    }
    return secret_mem_protect_process(reason);
}

/* Raises RLIMIT_NOFILE to its hard limit and sets *ret_max_agents to the number of agents that it
 * allows. Returns 0, or TFE_ESYS if the limit cannot be read or is too low. */
static int raise_files(uint32_t *ret_max_agents, struct tfe_reason *reason)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        reason_errno(reason, "read the limit of open files");
        return TFE_ESYS;
    }
    if (files.rlim_cur < files.rlim_max) {
        struct rlimit raised = {.rlim_cur = files.rlim_max, .rlim_max = files.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0) {
            files = raised;
        }
    }
    if (files.rlim_cur < FILES_RESERVED + AGENTS_MIN) {
        reason_set(reason, "the limit of open files is %llu, at least %d are needed (ulimit -n)",
                   (unsigned long long)files.rlim_cur, FILES_RESERVED + AGENTS_MIN);
        return TFE_ESYS;
    }
    rlim_t agents = files.rlim_cur - FILES_RESERVED;
    *ret_max_agents = agents < AGENTS_MAX ? (uint32_t)agents : AGENTS_MAX;
    return 0;
}

static int prepare(struct server *server, struct tfe_reason *reason)
{
    const struct settings *s = &server->settings;
    struct privileges rights;
    int rc = prepare_process(reason);
    if (rc == 0) {
        rc = privileges_find(s->user, DEFAULT_USER, &rights, reason);
    }
    if (rc == 0) {
        rc = state_make(&server->state, s->state_dir, &rights, reason);
    }
    if (rc == 0) {
        rc = privileges_drop(&rights, reason);
    }
    if (rc == 0) {
        rc = state_open(&server->state, s->backup_dir, reason);
    }
    if (rc == 0 && rights.stays_root) {
        log_warn("runs_as_root", LOG_S("hint", "create the user " DEFAULT_USER " or set --user"));
    }
    /* Must run before the second thread starts. */
    if (rc == 0) {
        rc = raise_files(&server->max_agents,
                         reason); /* the sandbox does not allow later changes of limits */
    }
    if (rc == 0 && !s->no_sandbox && !SANITIZED) {
        const char *folders[3] = {server->state.dir};
        size_t n = 1;
        if (s->backup_dir && s->backup_dir[0] != '\0') {
            folders[n++] = server->state.backup_dir;
        }
        if (keys_provided_dir()) {
            folders[n++] = keys_provided_dir();
        }
        rc = sandbox_enter(&(struct sandbox){.writable = folders, .n_writable = n}, reason);
    }
    if (rc == 0) {
        rc = keys_open(server->state.dir, server->settings.keep_history_ms, &server->keys, reason);
    }
    if (rc == 0) {
        configure(server);
    }
    return rc;
}

static int start_loop(struct server *server, struct tfe_reason *reason)
{
    struct event_config *config = event_config_new();
    if (config) {
        /* Use the kernel's precise timers instead of a clock cached per millisecond. */
        (void)event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
        server->base = event_base_new_with_config(config);
        event_config_free(config);
    }
    if (server->base) {
        signals_watch_termination(server->base, on_signal, server, 0, server->quit);
        server->on_late = evtimer_new(server->base, on_late, server);
        server->watchdog = sd_notify_watchdog(server->base);
    }
    if (!server->on_late || counters_start(&server->gauges, server->base) != 0) {
        reason_set(reason, "cannot set up the event loop");
        return TFE_ESYS;
    }
    return 0;
}

static int open_store(struct server *server, struct store **ret, struct tfe_reason *reason)
{
    uint64_t incarnation = server->config.incarnation;
    char path[PATH_MAX];
    if (server->settings.ephemeral) {
        return store_open(NULL, incarnation, clock_wall(), NULL, ret, reason);
    }
    int rc = state_dir_path(path, server->state.dir, STATE_DIR_STORE, reason);
    return rc != 0 ? rc : store_open(path, incarnation, clock_wall(), NULL, ret, reason);
}

static int take_ban(void *ctx, const struct tfe_msg *row)
{
    /* Expired entries stay in the store but are not loaded. */
    return row->u.ban_row.until.ms > clock_wall().ms ? deny_list_add(ctx, &row->u.ban_row, NULL)
                                                     : 0;
}

static int load_bans(struct server *server, struct store *store, struct tfe_reason *reason)
{
    int rc = deny_list_new(&server->bans);
    if (rc != 0) {
        reason_set(reason, "no memory for the deny list");
        return rc;
    }
    const struct store_page all = {.type = MSG_BAN_ROW, .max = UINT32_MAX};
    return store_read(store, &all, take_ban, server->bans, reason);
}

/* Starts the event log and the statistics, with their state from the store. */
static int start_seeing(struct server *server, struct store *store, struct tfe_reason *reason)
{
    const struct rdzv *core = driver_core(server->driver);
    int rc = events_new(core, &server->events);
    rc = rc == 0 ? series_new(&server->series) : rc;
    rc = rc == 0 ? reports_new(core, server->events, server->series, &server->reports) : rc;
    if (rc != 0) {
        reason_set(reason, "no memory for the events");
        return rc;
    }
    rc = events_load(server->events, store, reason);
    if (rc == 0) {
        driver_outlets(server->driver)->events = server->events;
    }
    return rc;
}

/* Starts the pool of submitted jobs. The core must be running: the pool reads job states from it.
 */
static int start_pool(struct server *server, struct store *store, struct tfe_reason *reason)
{
    const struct pool_config config = {.base = server->base,
                                       .core = driver_core(server->driver),
                                       .ops = &driver_session_ops,
                                       .ops_ctx = server->driver,
                                       .events = server->events,
                                       .reports = server->reports,
                                       .keys = keys_ring(server->keys),
                                       .bundle_dir = server->state.bundle_dir,
                                       .incarnation = server->config.incarnation,
                                       .ttl_ms = server->config.ttl_ms,
                                       .max_restarts = server->config.defaults.max_restarts,
                                       .shows_arguments = server->settings.shows_arguments};
    if (pool_new(&config, &server->pool) != 0) {
        reason_set(reason, "no memory for the pool");
        return TFE_ENOMEM;
    }
    driver_outlets(server->driver)->pool = server->pool;
    events_set_owner_fn(server->events, pool_owner_of, server->pool);
    series_set_owner_fn(server->series, pool_owner_of, server->pool);
    return pool_load(server->pool, store, reason);
}

/* Starts the core with its state from the store. */
static int start_driver(struct server *server, struct tfe_reason *reason)
{
    struct store *store;
    int rc = open_store(server, &store, reason);
    if (rc != 0) {
        return rc;
    }
    server->traces = trace_log_new(TRACE_LOG_JOB_LINES);
    rc = server->traces ? driver_new(server->base, &server->config, &server->driver) : TFE_ENOMEM;
    if (rc != 0) {
        reason_set(reason, "start the rendezvous: %s", tfe_error_sentence(rc));
    } else {
        driver_outlets(server->driver)->traces = server->traces;
        driver_outlets(server->driver)->gauges = &server->gauges;
        rc = driver_restore(server->driver, store, reason);
    }
    if (rc == 0) {
        rc = keys_load(server->keys, store, reason);
    }
    if (rc == 0) {
        rc = load_bans(server, store, reason);
    }
    if (rc == 0) {
        rc = start_seeing(server, store, reason);
    }
    if (rc == 0) {
        rc = start_pool(server, store, reason);
    }
    if (rc == 0) {
        rc = driver_set_store(server->driver, store, server->settings.keep_history_ms, reason);
    }
    if (rc != 0) {
        store_close(store);
    } else {
        events_attach_writer(server->events, driver_writer(server->driver));
        pool_keep(server->pool, driver_writer(server->driver));
    }
    return rc;
}

static int start_sessions(struct server *server, struct tfe_reason *reason)
{
    struct sessions_config config = {
        .base = server->base,
        .handshake = keys_handshake(server->keys),
        .keys = server->keys,
        .bans = server->bans,
        .events = server->events,
        .series = server->series,
        .reports = server->reports,
        .pool = server->pool,
        .params = {.version_min = PROTOCOL_VERSION,
                   .version_max = PROTOCOL_VERSION,
                   .boot_nonce = server->config.incarnation},
        .rdzv = driver_core(server->driver),
        .writer = driver_writer(server->driver),
        .backup_dir = server->state.backup_dir,
        .max_sessions = server->config.max_sessions,
        .max_connections = server->max_agents + FILES_RESERVED - FILES_OWN,
        .allowed = &server->settings.allowed,
        .gauges = &server->gauges,
        .half_open_per_address = server->settings.half_open_per_address,
        .ops = &driver_session_ops,
        .ops_ctx = server->driver,
    };
    int rc = sessions_new(&config, &server->sessions);
    if (rc != 0) {
        reason_set(reason, "no memory for %u sessions", config.max_sessions);
        return rc;
    }
    driver_outlets(server->driver)->sessions = server->sessions;
    return 0;
}

/* Prints the join line for people and launch scripts. Nothing else is written to stdout. */
static int announce(struct server *server, struct tfe_reason *reason)
{
    const struct settings *s = &server->settings;
    uint16_t port = listener_port(server->listener);
    char host[TFE_HOST_MAX + 1];
    char at[ENDPOINT_TEXT_MAX];
    char token[PATH_MAX];
    int rc = state_write_endpoint(&server->state, s->bind, port, reason);
    if (rc == 0) {
        rc =
            state_dir_path(token, server->state.dir, state_dir_token_name(PRINCIPAL_AGENT), reason);
    }
    if (rc != 0) {
        return rc;
    }
    endpoint_format(at, s->bind, port);
    (void)printf("listening on %s\n", at);
    log_info("listening", LOG_S("address", at), LOG_S("state_dir", server->state.dir),
             LOG_U("agents_max", server->max_agents), LOG_U("ttl_ms", s->ttl_ms));
    advertise_find(s->advertise, s->bind, host);
    endpoint_format(at, host, port);
    (void)printf(
        "join with: tfe-agent --rdzv-endpoint=%s --token-file=%s --nnodes=MIN:MAX SCRIPT\n", at,
        token);
    if (fflush(stdout) != 0) {
        log_warn("stdout_closed");
    }
    sd_notify_send("READY=1");
    return 0;
}

static int start_listening(struct server *server, struct tfe_reason *reason)
{
    int rc = listener_new(server->base, server->settings.bind, (uint16_t)server->settings.port,
                          sessions_accept, server->sessions, &server->listener, reason);
    return rc == 0 ? announce(server, reason) : rc;
}

/* Starts all parts in order of their dependencies. */
static int start(struct server *server, struct tfe_reason *reason)
{
    int (*const parts[])(struct server *, struct tfe_reason *) = {prepare, start_loop, start_driver,
                                                                  start_sessions, start_listening};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        rc = parts[i](server, reason);
    }
    return rc;
}

/* Stops all parts in reverse order; also correct after a partial start. */
static void finish(struct server *server)
{
    listener_free(server->listener);
    sessions_free(server->sessions);
    reports_free(server->reports);
    if (!driver_free(server->driver, STORE_WAIT_MS)) {
        log_warn("store_hangs",
                 LOG_S("effect", "the last write was not acknowledged to any client"));
    }
    if (server->events) {
        events_set_owner_fn(server->events, NULL, NULL);
        series_set_owner_fn(server->series, NULL, NULL);
    }
    pool_free(server->pool);
    series_free(server->series);
    events_free(server->events);
    trace_log_free(server->traces);
    signals_unwatch(server->quit);
    counters_done(&server->gauges);
    event_drop(&server->on_late);
    event_drop(&server->watchdog);
    if (server->base) {
        event_base_free(server->base);
    }
    deny_list_free(server->bans);
    keys_free(server->keys);
    state_close(&server->state);
}

int main(int argc, char **argv)
{
    struct server server = {.state = {.lock_fd = -1}};
    enum options_result result;
    struct tfe_reason reason = {.text = ""};
    if (settings_parse(argc, argv, &server.settings, &result, &reason) != 0) {
        stdio_print_message("tfe-rdzv", reason.text);
        return EXIT_USAGE;
    }
    if (result == OPTIONS_HELP) {
        options_print_help(&settings_table, stdout);
        return EXIT_SUCCESS;
    }
    if (result == OPTIONS_VERSION) {
        (void)printf("tfe-rdzv %s (%s)\n", TFE_VERSION, tfe_commit);
        return EXIT_SUCCESS;
    }
    log_init("tfe-rdzv", server.settings.log_level, server.settings.log_format);
    int status = EXIT_FAILURE;
    if (sodium_init() < 0) {
        reason_set(&reason, "cannot set up libsodium");
    } else if (start(&server, &reason) == 0) {
        status = event_base_dispatch(server.base) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        const char *over = driver_over(server.driver);
        reason_set(&reason, "%s", over ? over : "the event loop failed");
        status = over ? EXIT_FAILURE : status;
    }
    if (status != EXIT_SUCCESS) {
        stdio_print_message("tfe-rdzv", reason.text);
    } else {
        log_info("stopped");
    }
    finish(&server);
    return status;
}
