/* server/web/main.c: main program of tfe-web, the gateway between HTTP and tfe-rdzv. */
#include <event2/event.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/base/timer.h"
#include "common/base/version.h"
#include "common/channel/endpoint.h"
#include "common/cli/log.h"
#include "common/cli/sd_notify.h"
#include "common/cli/secret_mem.h"
#include "common/cli/signals.h"
#include "common/cli/stdio.h"
#include "server/sandbox/drop_privileges.h"
#include "server/sandbox/sandbox.h"
#include "server/web/health.h"
#include "server/web/http.h"
#include "server/web/logins.h"
#include "server/web/metrics.h"
#include "server/web/routes.h"
#include "server/web/shares.h"
#include "server/web/streams.h"
#include "server/web/token_reader.h"
#include "server/web/views.h"
#include "server/web/web_settings.h"

/* 77 is EX_NOPERM of sysexits(3), as in tfe-ctl. */
enum { EXIT_USAGE = 2, EXIT_UNAUTHORISED = 77 };

/* The user that root becomes without --user. */
#define DEFAULT_USER "tfe-web"

/* Sanitizers use system calls that the filter does not allow. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* Descriptors that are not HTTP connections. */
#define FILES_OWN 64

struct program {
    struct web_settings settings;
    struct web web;
    struct event *quit[TERMINATION_SIGNALS];
};

static void on_signal(evutil_socket_t number, short what, void *ctx)
{
    struct program *p = ctx;
    char name[SIGNAL_NAME_MAX];
    log_info("stopping", LOG_S("signal", signal_name(number, name)));
    sd_notify_send("STOPPING=1");
    (void)event_base_loopbreak(p->web.base);
}

/* Raises the limit of open files for the configured number of connections. */
static void raise_files(const struct web_settings *s)
{
    struct rlimit files;
    rlim_t wanted = s->max_connections + FILES_OWN;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < wanted) {
        files.rlim_cur = wanted < files.rlim_max ? wanted : files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

static int start_parts(struct program *p, struct tfe_reason *reason)
{
    struct web *web = &p->web;
    int rc = shares_new(&web->shares);
    rc = rc == 0 ? views_new(web, &web->views) : rc;
    rc = rc == 0 ? logins_new(web, &web->logins) : rc;
    rc = rc == 0 ? metrics_new(web, &web->metrics) : rc;
    rc = rc == 0 ? views_use(web->views, web->server.token, NULL, &web->own) : rc;
    rc = rc == 0 ? probe_new(web, &web->probe) : rc;
    if (rc != 0) {
        reason_set(reason, "start: %s", tfe_error_sentence(rc));
        return rc;
    }
    const struct http_handler handler = routes_handler(web);
    return http_new(web->base, &p->settings, &handler, &web->http, reason);
}

static void announce(const struct program *p)
{
    const struct web_settings *s = &p->settings;
    char at[ENDPOINT_TEXT_MAX];
    char server[ENDPOINT_TEXT_MAX];
    endpoint_format(at, s->bind, http_port(p->web.http));
    endpoint_format(server, p->web.server.host, p->web.server.port);
    (void)printf("%s://%s/\n", s->tls_cert ? "https" : "http", at);
    log_info("listening", LOG_S("address", at), LOG_S("server", server),
             LOG_B("asks_login", p->web.requires_login));
    if (fflush(stdout) != 0) {
        log_warn("stdout_closed");
    }
    sd_notify_send("READY=1");
}

/* Drops root and enters the sandbox. Token, certificate and key are read and the socket listens by
 * now. */
static int confine(const struct web_settings *s, const struct privileges *rights,
                   const struct join_info *server, struct tfe_reason *reason)
{
    /* The metrics read /proc/self. The other files are needed to resolve host names (resolver(3)).
     */
    static const char *const readable[] = {
        "/proc/self",     "/etc/hosts",    "/etc/resolv.conf",  "/run/systemd/resolve",
        "/etc/host.conf", "/etc/gai.conf", "/etc/nsswitch.conf"};
    struct sockaddr_storage address;
    socklen_t n;
    const bool is_numeric = endpoint_address(server->host, server->port, &address, &n) == 0;
    const struct sandbox sandbox = {.readable = readable,
                                    .n_readable =
                                        is_numeric ? 1 : sizeof(readable) / sizeof(readable[0])};
    int rc = privileges_drop(rights, reason);
    if (rc == 0 && rights->stays_root) {
        log_warn("runs_as_root", LOG_S("hint", "create the user " DEFAULT_USER " or set --user"));
    }
    return rc != 0 || s->no_sandbox || SANITIZED ? rc : sandbox_enter(&sandbox, reason);
}

static int start(struct program *p, struct tfe_reason *reason)
{
    struct web *web = &p->web;
    struct privileges rights;
    int rc = sodium_init() < 0 ? TFE_ESYS : secret_mem_protect_process(reason);
    rc = rc == 0 ? web_settings_find(&p->settings, &web->server, reason) : rc;
    rc = rc == 0 ? privileges_find(p->settings.user, DEFAULT_USER, &rights, reason) : rc;
    if (rc == 0 && web_settings_is_lasting(&p->settings)) {
        rc = token_reader_new(&p->settings, &rights, &web->reader, reason);
    }
    if (rc != 0) {
        return rc;
    }
    raise_files(&p->settings);
    web->settings = &p->settings;
    web->requires_login = !web_settings_is_local(&p->settings);
    web->base = event_base_new();
    if (!web->base) {
        reason_set(reason, "cannot set up the event loop");
        return TFE_ENOMEM;
    }
    signals_watch_termination(web->base, on_signal, p, 0, p->quit);
    rc = start_parts(p, reason);
    return rc == 0 ? confine(&p->settings, &rights, &web->server, reason) : rc;
}

static int run(struct program *p)
{
    struct tfe_reason reason = {.text = ""};
    const int rc = start(p, &reason);
    int status = rc == TFE_EAUTH ? EXIT_UNAUTHORISED : rc == TFE_EINVAL ? EXIT_USAGE : EXIT_FAILURE;
    if (rc == 0) {
        announce(p);
        status = event_base_dispatch(p->web.base) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
        reason_set(&reason, "the event loop failed");
    }
    if (status != EXIT_SUCCESS) {
        stdio_print_message("tfe-web", reason.text);
    }
    return status;
}

static void finish(struct program *p)
{
    struct web *web = &p->web;
    http_free(web->http); /* also ends calls and streams */
    probe_free(web->probe);
    logins_free(web->logins);
    metrics_free(web->metrics);
    views_free(web->views);
    shares_free(web->shares);
    signals_unwatch(p->quit);
    if (web->base) {
        event_base_free(web->base);
    }
    token_reader_free(web->reader);
    join_done(&web->server);
}

int main(int argc, char **argv)
{
    struct program program = {.quit = {NULL}};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    enum options_result result;
    struct tfe_reason reason;
    (void)sigaction(SIGPIPE, &ignore, NULL);
    if (web_settings_parse(argc, argv, &program.settings, &result, &reason) != 0) {
        stdio_print_message("tfe-web", reason.text);
        return EXIT_USAGE;
    }
    if (result == OPTIONS_HELP) {
        options_print_help(&web_settings_table, stdout);
        return EXIT_SUCCESS;
    }
    if (result == OPTIONS_VERSION) {
        (void)printf("tfe-web %s (%s)\n", TFE_VERSION, tfe_commit);
        return EXIT_SUCCESS;
    }
    log_init("tfe-web", program.settings.log_level, program.settings.log_format);
    int status = run(&program);
    finish(&program);
    return status;
}
