/* tests/fuzz/fuzz_http.c: HTTP requests to tfe-web, from the first byte to the query for the
 * server, which does not exist. First byte: number of bytes sent at a time, 0 for all; highest bit:
 * login is required. */
#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/cli/log.h"
#include "server/web/health.h"
#include "server/web/http.h"
#include "server/web/logins.h"
#include "server/web/metrics.h"
#include "server/web/routes.h"
#include "server/web/shares.h"
#include "server/web/streams.h"
#include "server/web/views.h"
#include "server/web/web_settings.h"
#include "tests/fuzz/fuzz.h"

/* Admin's token of a server that does not exist. The corpus contains it. */
#define TOKEN                                                                                      \
    "tfe1_admin_"                                                                                  \
    "AQADAAAAAADuGThLMvL92a5Kr7PH2GFrc58Fow0GtOIjb96nEhaBWfNG"                                     \
    "6KPv1X2eow2fS40wnOXPfO22kR6Ki-ImVqCxn5z95e3MvfCPBG-WeHMc"

/* Turns of the loop without output after which the response is complete, or waits for the server.
 */
#define QUIET_TURNS 4

static struct web_settings settings = {.bind = "127.0.0.1", .max_connections = 8};
static struct web web;

static struct sockaddr_in here(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/* Returns a port without a listener, reserved for the life of this process. */
static uint16_t dead_port(void)
{
    struct sockaddr_in at = here(0);
    socklen_t n = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
    MUST(getsockname(fd, (struct sockaddr *)&at, &n) == 0);
    return ntohs(at.sin_port);
}

static void set_up(void)
{
    MUST(sodium_init() >= 0);
    log_init("fuzz_http", LOG_ERROR_, LOG_LOGFMT);
    web.settings = &settings;
    web.base = event_base_new();
    web.server.token = sodium_malloc(sizeof(*web.server.token));
    MUST(web.base && web.server.token && token_parse(web.server.token, TOKEN) == 0);
    (void)snprintf(web.server.host, sizeof(web.server.host), "127.0.0.1");
    web.server.port = dead_port();
    MUST(shares_new(&web.shares) == 0 && views_new(&web, &web.views) == 0 &&
         logins_new(&web, &web.logins) == 0 && metrics_new(&web, &web.metrics) == 0 &&
         views_use(web.views, web.server.token, NULL, &web.own) == 0 &&
         probe_new(&web, &web.probe) == 0);
}

static uint32_t count(enum share_kind kind)
{
    return shares_count(web.shares, kind);
}

static void turn(void)
{
    (void)event_base_loop(web.base, EVLOOP_NONBLOCK);
}

/* Reads what has come. Returns false at the end of the connection. */
static bool read_response(int fd, char *response, size_t room, size_t *n)
{
    char rest[4096];
    const bool is_full = *n == room;
    ssize_t got =
        recv(fd, is_full ? rest : response + *n, is_full ? sizeof(rest) : room - *n, MSG_DONTWAIT);
    *n += got > 0 && !is_full ? (size_t)got : 0;
    return got > 0 || (got < 0 && errno == EAGAIN);
}

static void send_request(int fd, const uint8_t *bytes, size_t size, size_t each)
{
    while (size > 0) {
        const size_t n = each > 0 && each < size ? each : size;
        const ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0 && errno != EAGAIN) {
            return; /* tfe-web has closed the connection */
        }
        bytes += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
        turn();
        if (sent <= 0) {
            return; /* tfe-web does not read */
        }
    }
}

/* Every response has the security headers. */
static void check(const char *response, size_t n)
{
    const char *code = strchr(response, ' ');
    MUST(n == 0 || (n > 8 && memcmp(response, "HTTP/", 5) == 0 && code));
    MUST(n == 0 || strncmp(code, " 100 ", 5) == 0 || strstr(response, "Content-Security-Policy: "));
    MUST(count(SHARE_CALLS) <= settings.max_connections &&
         count(SHARE_STREAMS) <= settings.max_connections);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char response[16384 + 1];
    struct tfe_reason reason = {.text = ""};
    size_t n = 0;
    if (!web.base) {
        set_up();
    }
    if (size == 0) {
        return 0;
    }
    web.requires_login = (data[0] & 0x80) != 0;
    const struct http_handler handler = routes_handler(&web);
    MUST(http_new(web.base, &settings, &handler, &web.http, &reason) == 0);
    const struct sockaddr_in at = here(http_port(web.http));
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MUST(fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0);
    turn();
    send_request(fd, data + 1, size - 1, data[0] & 0x7f);
    (void)shutdown(fd, SHUT_WR);
    for (int quiet = 0; quiet < QUIET_TURNS; quiet++) {
        const size_t before = n;
        turn();
        if (!read_response(fd, response, sizeof(response) - 1, &n)) {
            break;
        }
        quiet = n > before ? 0 : quiet;
    }
    response[n] = '\0';
    check(response, n);
    close(fd);
    http_free(web.http);
    web.http = NULL;
    turn(); /* deferred callbacks */
    MUST(count(SHARE_CALLS) == 0 && count(SHARE_STREAMS) == 0 && count(SHARE_LOGS) == 0 &&
         count(SHARE_UPLOADS) == 0);
    return 0;
}
