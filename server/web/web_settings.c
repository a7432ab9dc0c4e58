/* server/web/web_settings.c: the table of tfe-web's options. */
#include "server/web/web_settings.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>

#include "common/channel/endpoint.h"
#include "common/cli/option_table.h"

#define FIELD(name) offsetof(struct web_settings, name)

static int parse_bind(void *bind, const char *value, struct tfe_reason *reason)
{
    struct sockaddr_storage address;
    socklen_t n;
    if (endpoint_address(value, 0, &address, &n) != 0) {
        reason_set(reason,
                   "\"%s\" is not a numeric address such as 127.0.0.1, 10.0.0.1 or ::", value);
        return TFE_EINVAL;
    }
    *(const char **)bind = value;
    return 0;
}

static const struct option_spec specs[] = {
    OPTION_ROW(OPTION_NUMBER, "port", "PORT", "8080", "TCP port to listen on; 0 picks a free one",
               .letter = 'p', OPTION_RANGE(port, 0, 65535)),
    PARSE_FIELD("bind", bind, parse_bind, "ADDRESS", "127.0.0.1",
                "numeric address to listen on; any except loopback needs TLS and a token"),
    TEXT("tls-cert", tls_cert, "FILE", NULL, "certificate chain, PEM"),
    TEXT("tls-key", tls_key, "FILE", NULL, "key of the certificate, PEM"),
    FLAG("insecure-http", insecure_http,
         "listen on any address without TLS: tokens can be read on the way"),
    NUMBER("max-connections", max_connections, "N", 8, 10000, "512",
           "maximum connections; with one more, the busiest address loses its oldest idle one"),
    TEXT("rdzv-endpoint", endpoint, "HOST:PORT", NULL,
         "address of the server (default: the server of this machine)"),
    TEXT("token-file", token_file, "FILE", NULL,
         "file with the token (default: observer.token or admin.token of the state directory)"),
    TEXT("token", token, "TOKEN", NULL, "the token itself; other users of this machine can see it"),
    TEXT("state-dir", state_dir, "DIR", NULL,
         "directory with the endpoint and tokens of this machine's server"),
    TEXT("user", user, "NAME", NULL,
         "as root: change to this user before anything is accepted (default: tfe-web, if it "
         "exists)"),
    FLAG("no-sandbox", no_sandbox,
         "disable the sandbox that limits system calls and paths of tfe-web"),
    WORD("log-level", log_level, log_levels, "LEVEL", "info",
         "minimum level to log: debug, info, warn or error"),
    WORD("log-format", log_format, log_formats, "FORMAT", "auto",
         "logfmt, json, pretty, or auto: pretty on a terminal, else logfmt"),
};

static const struct option_group groups[] = {
    {"port", "Addresses"},
    {"rdzv-endpoint", "The server"},
    {"user", "The process"},
    {"log-level", "Logs"},
    {NULL, NULL},
};

const struct option_table web_settings_table = {
    .program = "tfe-web",
    .usage = "tfe-web [OPTIONS]",
    .about = "Web page, HTTP API and metrics of a tfe-rdzv.",
    .groups = groups,
    .specs = specs,
    .n = sizeof(specs) / sizeof(specs[0]),
};

int web_settings_find(const struct web_settings *settings, struct join_info *ret,
                      struct tfe_reason *reason)
{
    const struct join_config config = {.endpoint = settings->endpoint,
                                       .token = settings->token,
                                       .token_file = settings->token_file,
                                       .state_dir = settings->state_dir,
                                       .roles = {PRINCIPAL_OBSERVER, PRINCIPAL_ADMIN},
                                       .n_roles = 2};
    return join_find(&config, ret, reason);
}

bool web_settings_is_lasting(const struct web_settings *settings)
{
    struct stat file;
    if (settings->token) {
        return false;
    }
    return !settings->token_file ||
           (stat(settings->token_file, &file) == 0 && S_ISREG(file.st_mode));
}

bool web_settings_is_local(const struct web_settings *settings)
{
    struct sockaddr_storage address;
    socklen_t n;
    if (endpoint_address(settings->bind, 0, &address, &n) != 0) {
        return false;
    }
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)&address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *v6 = (const void *)&address;
    return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

int web_settings_parse(int argc, char **argv, struct web_settings *ret,
                       enum options_result *ret_result, struct tfe_reason *reason)
{
    int operand = argc;
    char ignored[64];
    *ret = (struct web_settings){.port = 0};
    int rc = options_parse(&web_settings_table, argc, argv, ret, ret_result, &operand, ignored,
                           sizeof(ignored), reason);
    if (rc != 0 || *ret_result != OPTIONS_RUN) {
        return rc;
    }
    if (operand < argc) {
        reason_set(reason, "tfe-web takes no operands, but was given \"%s\"", argv[operand]);
        return TFE_EINVAL;
    }
    if (!ret->tls_cert != !ret->tls_key) {
        reason_set(reason, "--tls-cert and --tls-key must be used together");
        return TFE_EINVAL;
    }
    if (!ret->tls_cert && !ret->insecure_http && !web_settings_is_local(ret)) {
        reason_set(reason,
                   "--bind %s is reachable from other machines (use --tls-cert and --tls-key, or "
                   "--insecure-http on a trusted network)",
                   ret->bind);
        return TFE_EINVAL;
    }
    return 0;
}
