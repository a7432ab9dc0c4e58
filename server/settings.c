/* server/settings.c: the options of tfe-rdzv, as one struct filled by one table. */
#include "server/settings.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/msg.h"
#include "common/net/limits.h"

#define FIELD(name) offsetof(struct settings, name)

/* An hour of waiting is no waiting any more; a month of it is a typing error. */
#define WAIT_MAX_MS 3600000u
#define DAY_MS 86400000u
#define KEEP_DAYS_MAX 36500

static int parse_log_level(void *settings, const char *value, struct tfe_why *why)
{
    return log_parse_level(value, &((struct settings *)settings)->log_level, why);
}

static int parse_log_format(void *settings, const char *value, struct tfe_why *why)
{
    return log_parse_format(value, &((struct settings *)settings)->log_format, why);
}

/* Longer than the durations of the wire: days, or one of those. */
static int parse_keep_history(void *settings, const char *value, struct tfe_why *why)
{
    int64_t *ret = &((struct settings *)settings)->keep_history_ms;
    char *end;
    unsigned long days = strtoul(value, &end, 10);
    uint32_t ms;
    if (value[0] >= '0' && value[0] <= '9' && strcmp(end, "d") == 0 && days <= KEEP_DAYS_MAX) {
        *ret = (int64_t)days * DAY_MS;
        return 0;
    }
    if (options_duration(value, &ms) == 0) {
        *ret = ms;
        return 0;
    }
    why_set(why, "it takes a time of at most %dd, or 0 for ever", KEEP_DAYS_MAX);
    return TFE_EINVAL;
}

static const struct option_spec specs[] = {
    {.name = "port",
     .letter = 'p',
     .kind = OPTION_NUMBER,
     .argument = "PORT",
     .fallback = "5556",
     .help = "TCP port to listen on; 0 picks a free one",
     .offset = FIELD(port),
     .min = 0,
     .max = 65535},
    {.name = "bind",
     .kind = OPTION_TEXT,
     .argument = "ADDRESS",
     .fallback = "0.0.0.0",
     .help = "numeric address to listen on",
     .offset = FIELD(bind)},
    {.name = "advertise",
     .kind = OPTION_TEXT,
     .argument = "HOST",
     .help = "host that the printed join line names (default: this machine's address)",
     .offset = FIELD(advertise)},
    {.name = "state-dir",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .help = "where keys, tokens, jobs and the endpoint file live",
     .offset = FIELD(state_dir)},
    {.name = "ephemeral",
     .kind = OPTION_FLAG,
     .help = "keep jobs in memory only: a restart forgets them, keys and tokens stay",
     .offset = FIELD(ephemeral)},
    {.name = "recover",
     .kind = OPTION_FLAG,
     .help = "if the database of jobs is damaged, salvage it into a new file, and keep the old one",
     .offset = FIELD(recover)},
    {.name = "keep-history",
     .kind = OPTION_PARSE,
     .argument = "TIME",
     .fallback = "90d",
     .help = "forget what tfe-ctl epochs tells after so long; 0: never",
     .parse = parse_keep_history},
    {.name = "ttl",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "10s",
     .help = "a node's lease: silent for longer, it is lost",
     .offset = FIELD(ttl_ms),
     .min = LIMIT_TTL_MIN_MS,
     .max = LIMIT_TTL_MAX_MS},
    {.name = "fence",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "0",
     .help = "an agent cut off for so long kills its trainers; 0: 120s for one node, else 300s",
     .offset = FIELD(fence_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "gather",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "3s",
     .help = "first start: wait so long after the last node joined",
     .offset = FIELD(gather_ms),
     .min = 0,
     .max = WAIT_MAX_MS},
    {.name = "gather-max",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "30s",
     .help = "first start: wait at most so long once enough nodes are ready",
     .offset = FIELD(gather_max_ms),
     .min = 0,
     .max = WAIT_MAX_MS},
    {.name = "grow-wait",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "60s",
     .help = "new nodes wait so long for a checkpoint, where checkpoints are known",
     .offset = FIELD(grow_wait_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "elastic-timeout",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "0",
     .help = "a job with fewer than its least nodes for so long fails; 0: it waits for ever",
     .offset = FIELD(elastic_timeout_ms),
     .min = 0,
     .max = MSG_DURATION_MAX_MS},
    {.name = "stop-grace",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "5s",
     .help = "a node that needs so much and 30 s more to stop is left out",
     .offset = FIELD(stop_grace_ms),
     .min = 0,
     .max = WAIT_MAX_MS},
    {.name = "exit-grace",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "60s",
     .help = "the other trainers' time to end after rank 0 ended well",
     .offset = FIELD(exit_grace_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "max-restarts",
     .kind = OPTION_NUMBER,
     .argument = "N",
     .fallback = "3",
     .help = "faults of its own that a job survives",
     .offset = FIELD(max_restarts),
     .min = 0,
     .max = 1000000},
    {.name = "probe-wait",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "30s",
     .help = "a node whose address no other node reaches for so long is refused",
     .offset = FIELD(probe_ms),
     .min = 1000,
     .max = WAIT_MAX_MS},
    {.name = "renew-rate",
     .kind = OPTION_NUMBER,
     .argument = "N",
     .fallback = "5000",
     .help = "renewals per second; leases grow longer than --ttl when there would be more",
     .offset = FIELD(renew_rate),
     .min = 1,
     .max = 1000000},
    {.name = "max-half-open-per-address",
     .kind = OPTION_NUMBER,
     .argument = "N",
     .fallback = "64",
     .help = "connections of one address that may be in their handshake; more of them wait",
     .offset = FIELD(half_open_per_address),
     .min = 1,
     .max = LIMIT_HALF_OPEN},
    {.name = "log-level",
     .kind = OPTION_PARSE,
     .argument = "LEVEL",
     .fallback = "info",
     .help = "least level to log: debug, info, warn, error",
     .parse = parse_log_level},
    {.name = "log-format",
     .kind = OPTION_PARSE,
     .argument = "FORMAT",
     .fallback = "logfmt",
     .help = "form of the log lines on stderr: logfmt or json",
     .parse = parse_log_format},
};

_Static_assert(LIMIT_HALF_OPEN_PER_ADDRESS == 64, "the default in the table above");

const struct option_table settings_table = {
    .program = "tfe-rdzv",
    .usage = "tfe-rdzv [OPTIONS]",
    .about = "Agrees with the agents of a job which machines train, and with which ranks.",
    .specs = specs,
    .n = sizeof(specs) / sizeof(specs[0]),
};

int settings_parse(int argc, char **argv, struct settings *ret, enum options_result *ret_result,
                   struct tfe_why *why)
{
    int operand = argc;
    char ignored[256];
    *ret = (struct settings){.bind = NULL};
    int err = options_parse(&settings_table, argc, argv, ret, ret_result, &operand, ignored,
                            sizeof(ignored), why);
    if (err != 0 || *ret_result != OPTIONS_RUN) {
        return err;
    }
    if (operand < argc) {
        why_set(why, "tfe-rdzv takes no operands, but was given \"%s\"", argv[operand]);
        return TFE_EINVAL;
    }
    /* Below three leases a fence would kill trainers that only missed two renewals (DESIGN 6). */
    if (ret->fence_ms != 0 && ret->fence_ms < 3 * ret->ttl_ms) {
        why_set(why, "--fence must be 0 or at least three times --ttl (%u ms)", 3 * ret->ttl_ms);
        return TFE_EINVAL;
    }
    return 0;
}
