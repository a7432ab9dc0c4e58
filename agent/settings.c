/* agent/settings.c: the option table of tfe-agent. */
#include "agent/settings.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/msg.h"

#define FIELD(name) offsetof(struct agent_settings, name)
#define DAY_MS 86400000u
/* A line or two, and what no disk holds. */
#define LOG_BYTES_MIN 4096u
#define LOG_BYTES_MAX (UINT64_C(1) << 50)

void agent_settings_init(struct agent_settings *settings)
{
    *settings = (struct agent_settings){.min_nodes = 1,
                                        .max_nodes = 1,
                                        .max_restarts = MSG_UNSET,
                                        .gather_ms = MSG_UNSET,
                                        .grow_wait_ms = MSG_UNSET,
                                        .elastic_timeout_ms = MSG_UNSET,
                                        .chief_grace_ms = MSG_UNSET,
                                        .stop_grace_ms = MSG_UNSET};
    output_show_init(&settings->show);
}

/* A whole number from 1 to MSG_NODES_MAX that ends at end_char. */
static const char *read_count(const char *text, char end_char, uint32_t *ret)
{
    if (text[0] < '0' || text[0] > '9') {
        return NULL;
    }
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || *end != end_char || value < 1 || value > MSG_NODES_MAX) {
        return NULL;
    }
    *ret = (uint32_t)value;
    return end;
}

static int parse_nnodes(void *settings, const char *value, struct tfe_why *why)
{
    struct agent_settings *s = settings;
    uint32_t min;
    uint32_t max;
    if (strchr(value, ':')) {
        const char *colon = read_count(value, ':', &min);
        if (!colon || !read_count(colon + 1, '\0', &max)) {
            why_set(why, "\"%s\" is not MIN:MAX with numbers from 1 to %u", value, MSG_NODES_MAX);
            return TFE_EINVAL;
        }
    } else {
        if (!read_count(value, '\0', &min)) {
            why_set(why, "\"%s\" is not a number from 1 to %u, nor MIN:MAX", value, MSG_NODES_MAX);
            return TFE_EINVAL;
        }
        max = min;
    }
    if (min > max) {
        why_set(why, "\"%s\" has a minimum above its maximum", value);
        return TFE_EINVAL;
    }
    s->min_nodes = min;
    s->max_nodes = max;
    return 0;
}

static int parse_job(void *settings, const char *value, struct tfe_why *why)
{
    if (id_set(&((struct agent_settings *)settings)->job, value)) {
        why_set(why, "\"%s\" is no job name: 1 to %d characters of A-Z a-z 0-9 . _ -", value,
                TFE_ID_MAX);
        return TFE_EINVAL;
    }
    return 0;
}

static int parse_run(void *settings, const char *value, struct tfe_why *why)
{
    if (!id_is_valid(value)) {
        why_set(why, "\"%s\" is no name of a run: 1 to %d characters of A-Z a-z 0-9 . _ -", value,
                TFE_ID_MAX);
        return TFE_EINVAL;
    }
    ((struct agent_settings *)settings)->run_key = value;
    return 0;
}

static int parse_address(void *settings, const char *value, struct tfe_why *why)
{
    struct agent_settings *s = settings;
    s->address = value;
    if (options_endpoint(value, s->address_host, sizeof(s->address_host), &s->address_port)) {
        why_set(why, "\"%s\" is not HOST or HOST:PORT", value);
        return TFE_EINVAL;
    }
    return 0;
}

/* Watched by inotify, so it must be a folder of this machine's file system. */
static int parse_checkpoint_dir(void *settings, const char *value, struct tfe_why *why)
{
    if (strstr(value, "://")) {
        why_set(why,
                "\"%s\" is no directory of this machine; a script that saves there can tell "
                "its checkpoints itself, on TFE_SOCKET",
                value);
        return TFE_EINVAL;
    }
    if (strlen(value) >= PATH_MAX) {
        why_set(why, "it is longer than a path may be");
        return TFE_EINVAL;
    }
    ((struct agent_settings *)settings)->checkpoint_dir = value;
    return 0;
}

static int parse_notice(void *settings, const char *value, struct tfe_why *why)
{
    return notice_choice_parse(&((struct agent_settings *)settings)->notice, value, why);
}

static int parse_notice_signal(void *settings, const char *value, struct tfe_why *why)
{
    return notice_choice_signal(&((struct agent_settings *)settings)->notice, value, why);
}

static int parse_tee(void *settings, const char *value, struct tfe_why *why)
{
    return output_show_tee(&((struct agent_settings *)settings)->show, value, why);
}

static int parse_log_filter(void *settings, const char *value, struct tfe_why *why)
{
    return output_show_ranks(&((struct agent_settings *)settings)->show, value, why);
}

/* A number of bytes, with K, M or G for powers of 1024. */
static int parse_log_max_bytes(void *settings, const char *value, struct tfe_why *why)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long bytes = strtoull(value, &end, 10);
    const char *unit = *end && !end[1] ? strchr(units, *end) : NULL;
    unsigned shift = unit ? (unsigned)(unit - units + 1) * 10 : 0;
    if (value[0] < '0' || value[0] > '9' || errno || (*end && !unit) ||
        (bytes && bytes << shift < LOG_BYTES_MIN) || bytes > LOG_BYTES_MAX >> shift) {
        why_set(why, "\"%s\" is no size: bytes, or with K, M or G behind; at least 4K, or 0",
                value);
        return TFE_EINVAL;
    }
    ((struct agent_settings *)settings)->log_max_bytes = bytes << shift;
    return 0;
}

static int parse_log_level(void *settings, const char *value, struct tfe_why *why)
{
    return log_parse_level(value, &((struct agent_settings *)settings)->log_level, why);
}

static int parse_log_format(void *settings, const char *value, struct tfe_why *why)
{
    return log_parse_format(value, &((struct agent_settings *)settings)->log_format, why);
}

static const struct option_spec specs[] = {
    {.name = "nnodes",
     .kind = OPTION_PARSE,
     .argument = "MIN:MAX",
     .fallback = "1:1",
     .help = "nodes the job needs, and takes at most; N means N:N",
     .parse = parse_nnodes},
    {.name = "nproc-per-node",
     .kind = OPTION_NUMBER,
     .argument = "N",
     .fallback = "1",
     .help = "trainers on this node",
     .offset = FIELD(nproc),
     .min = 1,
     .max = MSG_NPROC_MAX},
    {.name = "job",
     .kind = OPTION_PARSE,
     .argument = "NAME",
     .fallback = "default",
     .help = "the job to join",
     .parse = parse_job},
    {.name = "rdzv-id", .alias_of = "job"},
    {.name = "rdzv-endpoint",
     .kind = OPTION_TEXT,
     .argument = "HOST:PORT",
     .help = "the server (default: the one of this machine)",
     .offset = FIELD(endpoint)},
    {.name = "standalone",
     .kind = OPTION_FLAG,
     .help = "start a private server, for a job on this machine alone",
     .offset = FIELD(standalone)},
    {.name = "token-file",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .help = "file with the join token (default: the state directory's agent.token)",
     .offset = FIELD(token_file)},
    {.name = "token",
     .kind = OPTION_TEXT,
     .argument = "TOKEN",
     .help = "the join token itself; other users of this machine can see it",
     .offset = FIELD(token)},
    {.name = "state-dir",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .help = "where a server of this machine keeps endpoint and token",
     .offset = FIELD(state_dir)},
    {.name = "address",
     .kind = OPTION_PARSE,
     .argument = "HOST[:PORT]",
     .help = "where peers reach this node's trainers (default: its address towards the server)",
     .parse = parse_address},
    {.name = "node-name",
     .kind = OPTION_TEXT,
     .argument = "LABEL",
     .help = "label for people (default: the host name)",
     .offset = FIELD(node_name)},
    {.name = "max-restarts",
     .kind = OPTION_NUMBER,
     .argument = "N",
     .help = "failures of its own that the whole job survives (default: the server's, 3)",
     .offset = FIELD(max_restarts),
     .min = 0,
     .max = 1000000},
    {.name = "monitor-interval",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .help = "longest time between two renewals of the lease (default: a third of it)",
     .offset = FIELD(monitor_interval_ms),
     .min = 100,
     .max = DAY_MS},
    {.name = "gather",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .help = "first start: wait so long for a further node (default: the server's, 3s)",
     .offset = FIELD(gather_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "grow-wait",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .help = "new nodes wait so long for a checkpoint, where checkpoints are known",
     .offset = FIELD(grow_wait_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "elastic-timeout",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .help = "the job fails with fewer than MIN nodes for so long (default: the server's, never)",
     .offset = FIELD(elastic_timeout_ms),
     .min = 0,
     .max = MSG_DURATION_MAX_MS},
    {.name = "new-run",
     .kind = OPTION_FLAG,
     .help = "if the job is over, begin its next run",
     .offset = FIELD(new_run)},
    {.name = "run",
     .kind = OPTION_PARSE,
     .argument = "KEY",
     .help = "the run to take part in: begun if nobody has, left alone if it is over",
     .parse = parse_run},
    {.name = "durable",
     .kind = OPTION_FLAG,
     .help = "this machine does not go away: prefer it for rank 0",
     .offset = FIELD(durable)},
    {.name = "no-grow",
     .kind = OPTION_FLAG,
     .help = "never interrupt a running epoch to take more nodes in",
     .offset = FIELD(no_grow)},
    {.name = "chief-grace",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .help = "a switch waits so long for a rank 0 of which nothing is known (default: 0)",
     .offset = FIELD(chief_grace_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "stop-grace",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .help =
         "a node that needs so much and 30 s more to stop is left out (default: the server's, 5s)",
     .offset = FIELD(stop_grace_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "exit-grace",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "60s",
     .help = "time for this node's other trainers after the first ended well",
     .offset = FIELD(exit_grace_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "join-timeout",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "600s",
     .help = "give up when the server was not reached for so long",
     .offset = FIELD(join_timeout_ms),
     .min = 100,
     .max = MSG_DURATION_MAX_MS},
    {.name = "notice",
     .kind = OPTION_PARSE,
     .argument = "SOURCES",
     .fallback = "auto",
     .help =
         "who warns before this machine goes: auto, none, or aws,gce,azure,file:PATH,cmd:COMMAND",
     .parse = parse_notice},
    {.name = "notice-signal",
     .kind = OPTION_PARSE,
     .argument = "SIGNAL",
     .help = "a signal that warns, too: USR1, say, as Slurm's --signal sends it",
     .parse = parse_notice_signal},
    {.name = "preempt-grace",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "30s",
     .help = "how long this machine lives on after SIGTERM or a warning that names no time",
     .offset = FIELD(preempt_grace_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "python",
     .kind = OPTION_TEXT,
     .argument = "PROGRAM",
     .help = "interpreter of the script (default: $PYTHON_EXEC, else python3)",
     .offset = FIELD(python)},
    {.name = "module",
     .letter = 'm',
     .kind = OPTION_FLAG,
     .help = "SCRIPT is the name of a module, as with python -m",
     .offset = FIELD(module)},
    {.name = "no-python",
     .kind = OPTION_FLAG,
     .help = "SCRIPT is a command of its own",
     .offset = FIELD(no_python)},
    {.name = "checkpoint-dir",
     .kind = OPTION_PARSE,
     .argument = "DIR",
     .help = "where the script saves TensorFlow checkpoints: its saves are seen there",
     .parse = parse_checkpoint_dir},
    {.name = "start-timeout",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "300s",
     .help = "a trainer that still waits for its peers then is ended, and they are named; 0: never",
     .offset = FIELD(start_timeout_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "progress-timeout",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "0",
     .help = "a trainer that tells and prints nothing for so long is ended; 0: never",
     .offset = FIELD(progress_timeout_ms),
     .min = 0,
     .max = DAY_MS},
    {.name = "no-standby",
     .kind = OPTION_FLAG,
     .help = "keep no warm interpreter for the next start",
     .offset = FIELD(no_standby)},
    {.name = "preload",
     .kind = OPTION_TEXT,
     .argument = "MODULES",
     .help = "what a standby imports, separated by commas (default: TensorFlow, Keras and NumPy as "
             "the script imports them)",
     .offset = FIELD(preload)},
    {.name = "standby-min-free",
     .kind = OPTION_NUMBER,
     .argument = "PERCENT",
     .fallback = "10",
     .help = "no standby with less of the memory free",
     .offset = FIELD(standby_min_free),
     .min = 0,
     .max = 100},
    {.name = "log-dir",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .help = "keep what trainers print in files below it",
     .offset = FIELD(log_dir)},
    {.name = "log-keep",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "7d",
     .help = "remove log files that are older; 0: none",
     .offset = FIELD(log_keep_ms),
     .min = 0,
     .max = MSG_DURATION_MAX_MS},
    {.name = "log-max-bytes",
     .kind = OPTION_PARSE,
     .argument = "SIZE",
     .fallback = "0",
     .help = "a longer log file is moved aside and begun anew; 0: never",
     .parse = parse_log_max_bytes},
    {.name = "tee",
     .letter = 't',
     .kind = OPTION_PARSE,
     .argument = "STREAMS",
     .fallback = "3",
     .help = "with --log-dir: shown here too; 0 nothing, 1 stdout, 2 stderr, 3 both, or 0:3,1:1",
     .parse = parse_tee},
    {.name = "log-filter-ranks",
     .kind = OPTION_PARSE,
     .argument = "RANKS",
     .help = "show the output of these ranks only: 0,4-7",
     .parse = parse_log_filter},
    {.name = "log-level",
     .kind = OPTION_PARSE,
     .argument = "LEVEL",
     .fallback = "info",
     .help = "debug, info, warn or error",
     .parse = parse_log_level},
    {.name = "log-format",
     .kind = OPTION_PARSE,
     .argument = "FORMAT",
     .fallback = "logfmt",
     .help = "logfmt or json",
     .parse = parse_log_format},
    /* What torchrun's users have in their scripts. */
    {.name = "rdzv-backend", .kind = OPTION_IGNORED},
    {.name = "rdzv-conf", .kind = OPTION_IGNORED},
    {.name = "node-rank", .kind = OPTION_IGNORED},
    {.name = "master-addr", .kind = OPTION_IGNORED},
    {.name = "master-port", .kind = OPTION_IGNORED},
};

const struct option_table agent_options = {
    .program = "tfe-agent",
    .usage = "tfe-agent [OPTIONS] SCRIPT [ARGUMENTS...]",
    .about = "joins an elastic TensorFlow job and keeps this node's trainers running",
    .specs = specs,
    .n = sizeof(specs) / sizeof(specs[0]),
    .stop_at_operand = true,
};
