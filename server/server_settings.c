/* server/server_settings.c: the options of tfe-rdzv as one struct, filled from one table. */
#include "server/server_settings.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/channel/endpoint.h"
#include "common/cli/option_table.h"
#include "common/message/msg.h"

#define FIELD(name) offsetof(struct settings, name)

/* A longer wait is taken for a typing error. */
#define WAIT_MAX_MS 3600000u
#define KEEP_DAYS_MAX 36500

/* Accepts days (beyond the protocol's range of durations) or a duration. */
static int parse_keep_history(void *settings, const char *value, struct tfe_reason *reason)
{
    int64_t *ret = &((struct settings *)settings)->keep_history_ms;
    char *end;
    unsigned long days = strtoul(value, &end, 10);
    uint32_t ms;
    if (value[0] >= '0' && value[0] <= '9' && strcmp(end, "d") == 0 && days <= KEEP_DAYS_MAX) {
        *ret = (int64_t)days * OPTION_DAY_MS;
        return 0;
    }
    if (options_duration(value, &ms) == 0) {
        *ret = ms;
        return 0;
    }
    reason_set(reason, "expected a time of at most %dd, or 0 for no limit", KEEP_DAYS_MAX);
    return TFE_EINVAL;
}

static int parse_bind(void *bind, const char *value, struct tfe_reason *reason)
{
    char host[TFE_HOST_MAX + 1];
    uint16_t port = 0;
    struct sockaddr_storage address;
    socklen_t n;
    if (endpoint_parse(value, host, sizeof host, &port) ||
        endpoint_address(value, 0, &address, &n)) {
        reason_set(reason, "\"%s\" is not a numeric address such as 0.0.0.0, 10.0.0.1 or ::%s",
                   value, strchr(value, ':') ? "; set the port with --port" : "");
        return TFE_EINVAL;
    }
    *(const char **)bind = value;
    return 0;
}

static int parse_allow_address(void *settings, const char *value, struct tfe_reason *reason)
{
    return addresses_parse(&((struct settings *)settings)->allowed, value, reason);
}

/* Defaults of jobs, from the table in job_spec.h. */
#define SPEC_OPTIONAL(...) OPTION_ROW(__VA_ARGS__),
#define SPEC_SAME(...)
#define SPEC_FIRST(...)
#define SPEC_ROW(name, type, kind, who, min, max, setting, tag, text, option, argument, help)      \
    SPEC_##who(OPTION_OF_##kind, option, argument, text, help,                                     \
               OPTION_RANGE(defaults.name, min, max))

static const struct option_spec specs[] = {
    OPTION_ROW(OPTION_NUMBER, "port", "PORT", "5556", "TCP port to listen on; 0 picks a free one",
               .letter = 'p', OPTION_RANGE(port, 0, 65535)),
    PARSE_FIELD("bind", bind, parse_bind, "ADDRESS", "0.0.0.0", "numeric address to listen on"),
    TEXT("advertise", advertise, "HOST", NULL,
         "host in the printed join line (default: this machine's address)"),
    PARSE("allow-address", parse_allow_address, "CIDR,...", NULL,
          "addresses that agents may announce besides the one they connect from: networks, or the "
          "word names for any host name"),
    TEXT("state-dir", state_dir, "DIR", NULL,
         "directory of keys, tokens, jobs and the endpoint file"),
    TEXT("backup-dir", backup_dir, "DIR", NULL,
         "directory for the copies of tfe-ctl backup (default: backups in the state directory)"),
    TEXT("user", user, "NAME", NULL,
         "as root: change to this user before anything is accepted (default: tfe, if it exists)"),
    FLAG("no-sandbox", no_sandbox,
         "disable the sandbox that limits system calls and paths of the server"),
    FLAG("ephemeral", ephemeral,
         "keep jobs, made tokens, the deny list and the audit in memory only"),
    FLAG("observers-see-arguments", shows_arguments,
         "show observers the arguments of jobs' commands, not only their programs"),
    PARSE("keep-history", parse_keep_history, "TIME", "90d",
          "delete finished jobs, epochs, expired keys and deny-list entries after this time; "
          "0: never"),
    TIME("ttl", ttl_ms, LIMIT_TTL_MIN_MS, LIMIT_TTL_MAX_MS, "10s",
         "length of a node's lease; a node that is silent for longer is lost"),
    TIME("fence", fence_ms, 0, OPTION_DAY_MS, "0",
         "an agent cut off for this time kills its trainers; 0: 120s for one node, else 300s"),
    NUMBER("renew-rate", renew_rate, "N", 1, 1000000, "5000",
           "maximum renewals per second; with more nodes, leases become longer than --ttl"),
    TIME("probe-wait", probe_ms, 1000, WAIT_MAX_MS, "30s",
         "time after which a node that no other node reaches is refused"),
    JOB_SPEC_OPTIONS(SPEC_ROW) /**/
    TIME("gather-max", gather_max_ms, 0, WAIT_MAX_MS, "30s",
         "first start: maximum wait once enough nodes are ready"),
    TIME("exit-grace", exit_grace_ms, 0, OPTION_DAY_MS, "60s",
         "time for the other trainers to end after rank 0 has ended well"),
    NUMBER("max-half-open-per-address", half_open_per_address, "N", 1, LIMIT_UNAUTHENTICATED, "64",
           "maximum unauthenticated connections per address; with one more, the oldest is closed"),
    NUMBER("max-jobs-per-token", jobs_per_token, "N", 1, 10000, "5000",
           "maximum jobs that agents with one token may open; with one more, the one idle longest "
           "is forgotten"),
    NUMBER("max-agents-per-token", agents_per_token, "N", 0, 65536, "0",
           "maximum agents connected with one token; 0: no limit for tokens for every job, a "
           "quarter of the free places for others"),
    WORD("log-level", log_level, log_levels, "LEVEL", "info",
         "minimum level to log: debug, info, warn or error"),
    WORD("log-format", log_format, log_formats, "FORMAT", "auto",
         "logfmt, json, pretty, or auto: pretty on a terminal, else logfmt"),
};

_Static_assert(LIMIT_UNAUTHENTICATED_PER_ADDRESS == 64, "the default in the table above");

static const struct option_group groups[] = {
    {"port", "Addresses and files"},         {"ttl", "Leases"},     {"max-restarts", "Jobs"},
    {"max-half-open-per-address", "Limits"}, {"log-level", "Logs"}, {NULL, NULL},
};

const struct option_table settings_table = {
    .program = "tfe-rdzv",
    .usage = "tfe-rdzv [OPTIONS]",
    .about = "Decides with the agents of a job which machines train, and with which ranks.",
    .groups = groups,
    .specs = specs,
    .n = sizeof(specs) / sizeof(specs[0]),
};

int settings_parse(int argc, char **argv, struct settings *ret, enum options_result *ret_result,
                   struct tfe_reason *reason)
{
    int operand = argc;
    char ignored[256];
    *ret = (struct settings){.bind = NULL};
    int rc = options_parse(&settings_table, argc, argv, ret, ret_result, &operand, ignored,
                           sizeof(ignored), reason);
    if (rc != 0 || *ret_result != OPTIONS_RUN) {
        return rc;
    }
    if (operand < argc) {
        reason_set(reason, "tfe-rdzv takes no operands, but was given \"%s\"", argv[operand]);
        return TFE_EINVAL;
    }
    /* A shorter fence would kill trainers that missed only two renewals (design 6). */
    if (ret->fence_ms != 0 && ret->fence_ms < 3 * ret->ttl_ms) {
        reason_set(reason, "--fence must be 0 or at least three times --ttl (%u ms)",
                   3 * ret->ttl_ms);
        return TFE_EINVAL;
    }
    return 0;
}
