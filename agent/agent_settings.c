/* agent/agent_settings.c: the option table of tfe-agent. */
#include "agent/agent_settings.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/machine.h"
#include "agent/script_channel/script_line.h"
#include "agent/script_channel/state_memory.h"
#include "common/channel/endpoint.h"
#include "common/cli/option_table.h"
#include "common/message/msg.h"
#include "common/text/escape.h"

#define FIELD(name) offsetof(struct agent_settings, name)
/* Range of --log-max-bytes: a line or two, up to more than any disk. */
#define LOG_BYTES_MIN 4096u
#define LOG_BYTES_MAX (UINT64_C(1) << 50)

const char *const runtimes[] = {
    [RUNTIME_NONE] = "none", [RUNTIME_PODMAN] = "podman", [RUNTIME_DOCKER] = "docker", NULL};

void agent_settings_init(struct agent_settings *settings)
{
    *settings = (struct agent_settings){.pool_fd = -1};
    job_spec_init(&settings->agent.spec);
    output_show_init(&settings->show);
}

const char *agent_settings_state_dir(const struct agent_settings *settings)
{
    if (settings->no_persist || settings->standalone) {
        return NULL;
    }
    return settings->state_dir ? settings->state_dir : "";
}

static int parse_nnodes(void *spec, const char *value, struct tfe_reason *reason)
{
    struct job_spec *ret = spec;
    return options_nodes(value, &ret->min_nodes, &ret->max_nodes, reason);
}

/* Parses a number or torchrun's words gpu, cpu and auto. On CPUs auto means 1, because
 * TensorFlow uses all processors in one process. */
static int parse_nproc(void *nproc, const char *value, struct tfe_reason *reason)
{
    static const struct option_spec number = {
        .kind = OPTION_NUMBER, .min = 1, .max = MSG_NPROC_MAX};
    bool is_auto = strcmp(value, "auto") == 0;
    uint32_t n = 0;
    if (is_auto || strcmp(value, "gpu") == 0) {
        n = machine_gpus();
        n = n || !is_auto ? n : 1;
    } else if (strcmp(value, "cpu") == 0) {
        n = machine_processors();
    } else {
        return options_set_value(&number, nproc, value, reason);
    }
    if (n == 0) {
        reason_set(
            reason,
            "\"gpu\": no GPU found (there is no /dev/nvidia*, or CUDA_VISIBLE_DEVICES hides all)");
        return TFE_EINVAL;
    }
    *(uint32_t *)nproc = n < MSG_NPROC_MAX ? n : MSG_NPROC_MAX;
    return 0;
}

static int parse_grow(void *spec, const char *value, struct tfe_reason *reason)
{
    struct job_spec *ret = spec;
    bool is_never = strcmp(value, "never") == 0;
    bool is_now = strcmp(value, "now") == 0;
    if (!is_never && !is_now && strcmp(value, "auto") != 0) {
        reason_set(reason, "expected auto, now or never, found \"%s\"", value);
        return TFE_EINVAL;
    }
    ret->no_grow = is_never;
    ret->grow_now = is_now;
    return 0;
}

static int parse_role(void *config, const char *value, struct tfe_reason *reason)
{
    struct agent_config *ret = config;
    static const enum tfe_task tasks[] = {TASK_CHIEF, TASK_WORKER, TASK_PS, TASK_EVALUATOR};
    ret->has_role = false;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        if (strcmp(value, msg_task_name(tasks[i])) == 0) {
            ret->has_role = true;
            ret->role = tasks[i];
        }
    }
    if (!ret->has_role && strcmp(value, "any") != 0) {
        reason_set(reason, "expected any, chief, worker, ps or evaluator, found \"%s\"", value);
        return TFE_EINVAL;
    }
    return 0;
}

/* Parses POLICY for all roles, or a comma-separated list of ROLE:POLICY. */
static int parse_restart_policy(void *policies, const char *value, struct tfe_reason *reason)
{
    uint32_t ret = 0;
    for (const char *at = value; at; at = *at == ',' ? at + 1 : NULL) {
        const size_t n = strcspn(at, ",");
        bool is_known = false;
        for (unsigned i = 0; i < 5 * 4; i++) {
            const uint32_t task = i / 4;
            char word[32];
            snprintf(word, sizeof word, "%s%s%s",
                     task < 4 ? msg_task_name((enum tfe_task)task) : "", task < 4 ? ":" : "",
                     msg_restart_policy_name((enum tfe_restart_policy)(i % 4)));
            if (strlen(word) == n && strncmp(word, at, n) == 0) {
                ret = task < 4 ? job_restart_set(ret, task, i % 4) : JOB_RESTART_ALL(i % 4);
                is_known = true;
            }
        }
        if (!is_known) {
            reason_set(reason,
                       "expected OnFailure, Never, Always, ExitCode or a comma-separated list of "
                       "ROLE:POLICY, found \"%s\"",
                       value);
            return TFE_EINVAL;
        }
        at += n;
    }
    *(uint32_t *)policies = ret;
    return 0;
}

static int parse_job(void *job, const char *value, struct tfe_reason *reason)
{
    if (id_set(job, value)) {
        reason_set(reason, "\"%s\" is not a valid job name: expected " TFE_ID_RULE, value);
        return TFE_EINVAL;
    }
    return 0;
}

/* Parses the name of a run or of a node. */
static int parse_id(void *name, const char *value, struct tfe_reason *reason)
{
    if (!id_is_valid(value)) {
        reason_set(reason, "\"%s\" is not a valid name: expected " TFE_ID_RULE, value);
        return TFE_EINVAL;
    }
    *(const char **)name = value;
    return 0;
}

static int parse_address(void *settings, const char *value, struct tfe_reason *reason)
{
    struct agent_settings *s = settings;
    if (endpoint_parse(value, s->address_host, sizeof(s->address_host), &s->address_port)) {
        reason_set(reason, "expected HOST or HOST:PORT, found \"%s\"", value);
        return TFE_EINVAL;
    }
    s->agent.fixed_ports = s->address_port != 0;
    return 0;
}

/* Parses a relative path that stays inside the repository. */
static int parse_git_path(void *path, const char *value, struct tfe_reason *reason)
{
    bool is_inside = value[0] != '\0' && value[0] != '/';
    for (const char *part = value; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        is_inside = is_inside && !(part[0] == '.' && part[1] == '.' && strchr("/", part[2]));
    }
    if (!is_inside) {
        reason_set(reason, "expected a directory inside the repository, found \"%s\"", value);
        return TFE_EINVAL;
    }
    *(const char **)path = value;
    return 0;
}

static int parse_check(void *checks, const char *value, struct tfe_reason *reason)
{
    struct health_checks *ret = checks;
    if (!value[0] || ret->n == HEALTH_CHECKS_MAX) {
        reason_set(reason, "expected a command, given at most %u times", HEALTH_CHECKS_MAX);
        return TFE_EINVAL;
    }
    ret->v[ret->n++] = value;
    return 0;
}

/* Checks the pattern; it is compiled again where it is used. */
static int parse_progress_regex(void *field, const char *value, struct tfe_reason *reason)
{
    struct script_line *line;
    int rc = script_line_new(value, &line, reason);
    if (rc == 0) {
        script_line_free(line);
        *(const char **)field = value;
    }
    return rc;
}

static int parse_checkpoint_dir(void *dir, const char *value, struct tfe_reason *reason)
{
    if (strstr(value, "://")) {
        reason_set(reason,
                   "\"%s\" is not a local directory (a script that saves there can report its "
                   "checkpoints on TFE_SOCKET)",
                   value);
        return TFE_EINVAL;
    }
    if (strlen(value) >= PATH_MAX) {
        reason_set(reason, "the path is too long");
        return TFE_EINVAL;
    }
    *(const char **)dir = value;
    return 0;
}

/* Parses K=V of visible characters; a comma separates several, as in an environment variable. */
static int parse_label(void *labels, const char *value, struct tfe_reason *reason)
{
    struct pool_labels *ret = labels;
    for (const char *at = value; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        size_t n = strcspn(at, ",");
        size_t key = strcspn(at, "=");
        bool is_valid = n <= MSG_POOL_LABEL_MAX && key > 0 && key < n && *at != '@';
        for (size_t i = 0; i < n && is_valid; i++) {
            is_valid = (unsigned char)at[i] > 0x20 && at[i] != 0x7f;
        }
        if (!is_valid || ret->n == MSG_POOL_LABELS_MAX) {
            reason_set(reason,
                       "expected KEY=VALUE of at most %u visible characters, not beginning with "
                       "'@', at most %u times",
                       MSG_POOL_LABEL_MAX, MSG_POOL_LABELS_MAX);
            return TFE_EINVAL;
        }
        memcpy(ret->text[ret->n], at, n);
        ret->text[ret->n][n] = '\0';
        ret->v[ret->n] = ret->text[ret->n];
        ret->n++;
    }
    return 0;
}

/* Parses a number of bytes with optional K, M or G (powers of 1024). Returns false if it is
 * malformed or exceeds max. */
static bool read_size(const char *value, uint64_t max, uint64_t *ret)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long bytes = strtoull(value, &end, 10);
    const char *unit = *end && !end[1] ? strchr(units, *end) : NULL;
    unsigned shift = unit ? (unsigned)(unit - units + 1) * 10 : 0;
    if (value[0] < '0' || value[0] > '9' || errno || (*end && !unit) || bytes > max >> shift) {
        return false;
    }
    *ret = bytes << shift;
    return true;
}

static int parse_log_max_bytes(void *max_bytes, const char *value, struct tfe_reason *reason)
{
    uint64_t bytes;
    if (!read_size(value, LOG_BYTES_MAX, &bytes) || (bytes && bytes < LOG_BYTES_MIN)) {
        reason_set(
            reason,
            "expected a number of bytes, or of K, M or G, of at least 4K, or 0; found \"%s\"",
            value);
        return TFE_EINVAL;
    }
    *(uint64_t *)max_bytes = bytes;
    return 0;
}

static int parse_state_memory(void *limit, const char *value, struct tfe_reason *reason)
{
    if (strcmp(value, "auto") == 0) {
        *(uint64_t *)limit = STATE_MEMORY_AUTO;
    } else if (!read_size(value, INT64_MAX, limit)) {
        reason_set(reason, "expected a number of bytes, or of K, M or G, or auto; found \"%s\"",
                   value);
        return TFE_EINVAL;
    }
    return 0;
}

/* Options of the job, from the table in job_spec.h. */
#define SPEC_DEFAULT_OPTIONAL(text) NULL
#define SPEC_DEFAULT_SAME(text) text
#define SPEC_DEFAULT_FIRST(text) text
#define SPEC_HELP_OPTIONAL(text, help) help " (default: the server's, " text ")"
#define SPEC_HELP_SAME(text, help) help
#define SPEC_HELP_FIRST(text, help) help
#define SPEC_ROW(name, type, kind, who, min, max, setting, tag, text, option, argument, help)      \
    OPTION_ROW(OPTION_OF_##kind, option, argument, SPEC_DEFAULT_##who(text),                       \
               SPEC_HELP_##who(text, help), OPTION_RANGE(agent.spec.name, min, max)),

#define IGNORED(name_, argument_, letter_)                                                         \
    {                                                                                              \
        .kind = OPTION_IGNORED, .name = (name_), .argument = (argument_), .letter = (letter_)      \
    }

static const struct option_spec specs[] = {
    /* Parser of an option whose row in the table below has the help text. */
    {.name = "nproc-per-node",
     .kind = OPTION_PARSE,
     .hidden = true,
     .parse = parse_nproc,
     .offset = FIELD(agent.spec.nproc)},
    PARSE_FIELD("nnodes", agent.spec, parse_nnodes, "MIN:MAX", "1:1",
                "minimum and maximum number of worker nodes; N means N:N"),
    JOB_SPEC_OPTIONS(SPEC_ROW) /* * */
    PARSE_FIELD("role", agent, parse_role, "ROLE", "any",
                "role of this node: any, chief, worker, ps or evaluator"),
    PARSE_FIELD("grow", agent.spec, parse_grow, "WHEN", NULL,
                "when a running epoch ends to add nodes: auto, now or never (default: auto)"),
    PARSE_FIELD(
        "restart-policy", agent.spec.restart_policies, parse_restart_policy, "POLICY", "OnFailure",
        "when an ended trainer restarts: OnFailure, Never, Always, ExitCode, or ROLE:POLICY,..."),
    PARSE_FIELD("job", agent.job, parse_job, "NAME", "default", "the job to join"),
    {.name = "rdzv-id", .alias_of = "job"},
    FLAG("new-run", agent.new_run, "if the job is over, begin its next run"),
    PARSE_FIELD(
        "run", agent.run_key, parse_id, "KEY", NULL,
        "the run to join: begun if it is new; if it is over, the agent exits with its result"),
    FLAG("durable", agent.durable, "this machine is not preemptible: prefer it for rank 0"),
    TIME("exit-grace", agent.exit_grace_ms, 0, OPTION_DAY_MS, "60s",
         "time for this node's other trainers to end after rank 0 has exited with status 0"),
    TEXT("rdzv-endpoint", endpoint, "HOST:PORT", NULL,
         "address of the server (default: the server of this machine)"),
    FLAG("standalone", standalone, "start a private server, for a job on this machine alone"),
    TEXT("token-file", token_file, "FILE", NULL,
         "file with the join token (default: the state directory's agent.token)"),
    TEXT("token", token, "TOKEN", NULL,
         "the join token itself; other users of this machine can see it"),
    TEXT("state-dir", state_dir, "DIR", NULL,
         "directory of endpoint and token of a server on this machine, and of this agent's key"),
    FLAG("no-persist", no_persist, "keep this agent's own key in memory only"),
    TIME("join-timeout", agent.join_timeout_ms, 100, MSG_DURATION_MAX_MS, "600s",
         "exit if the server is not reached, or does not admit this node, for this time"),
    TIME("monitor-interval", agent.monitor_interval_ms, 100, OPTION_DAY_MS, NULL,
         "maximum time between two renewals of the lease (default: a third of the lease)"),
    PARSE("address", parse_address, "HOST[:PORT]", NULL,
          "address at which peers reach this node's trainers (default: its address towards the "
          "server)"),
    PARSE_FIELD("node-name", agent.node_name, parse_id, "LABEL", NULL,
                "label shown to users (default: the host name)"),
    PARSE_FIELD("check", checks, parse_check, "COMMAND", NULL,
                "command that sh runs before this node is ready and after a trainer has failed "
                "here: a nonzero status keeps the node out; may be repeated"),
    TIME("gpu-memory-wait", gpu_memory_wait_ms, 0, OPTION_DAY_MS, "0",
         "longest wait for the GPU memory of ended trainers before the next start; 0: none"),
    PARSE_FIELD(
        "notice", notice, notice_selection_parse, "SOURCES", "auto",
        "sources of preemption notices: auto, none, or aws,gce,azure,file:PATH,cmd:COMMAND"),
    PARSE_FIELD("metadata-endpoint", notice, notice_selection_place, "URL", NULL,
                "address of the clouds' metadata services (default: http://169.254.169.254)"),
    PARSE_FIELD("notice-signal", notice, notice_selection_signal, "SIGNAL", NULL,
                "a further signal that is a notice, for example USR1 from Slurm's --signal"),
    TIME("preempt-grace", agent.preempt_grace_ms, 0, OPTION_DAY_MS, "30s",
         "time that this machine has left after SIGTERM or a notice without a time"),
    TEXT("git", git, "URL@REF", NULL,
         "repository with SCRIPT, which is fetched at the branch, tag or commit REF"),
    PARSE_FIELD("git-path", git_path, parse_git_path, "DIR", NULL,
                "with --git: directory of the repository in which SCRIPT runs (default: its root)"),
    TEXT("python", python, "PROGRAM", NULL,
         "interpreter of the script (default: $PYTHON_EXEC, else of the agent's venv, else "
         "python3)"),
    OPTION_ROW(OPTION_FLAG, "module", NULL, NULL,
               "SCRIPT is the name of a module, as with python -m", .letter = 'm',
               .offset = FIELD(module)),
    FLAG("no-python", no_python, "SCRIPT is a command of its own"),
    FLAG("default-ps", default_ps, "a ps runs TensorFlow's own server instead of SCRIPT"),
    TEXT("trainer-user", trainer_user, "NAME", NULL,
         "as root: run trainers as this user, which cannot read the token or end the guard"),
    FLAG("no-hooks", standby.no_hooks,
         "do not observe the script's checkpoints, steps and SIGTERM handler"),
    PARSE_FIELD("checkpoint-dir", checkpoint_dir, parse_checkpoint_dir, "DIR", NULL,
                "directory in which the script saves TensorFlow checkpoints, to detect its saves"),
    TEXT("artifacts", artifacts.uri, "URI", NULL,
         "where rank 0's node copies $TFE_ARTIFACTS once its script has succeeded: a directory, "
         "s3://, gs:// or az://"),
    TEXT(
        "artifacts-command", artifacts.command, "COMMAND", NULL,
        "with --artifacts: command that sh runs to copy them, with the folder as its last argument "
        "and TFE_ARTIFACTS_URI"),
    TIME("artifacts-timeout", artifacts.timeout_ms, 1000, OPTION_DAY_MS, "30m",
         "time in which a failed copy is tried again, with back-off; then the job fails"),
    PARSE_FIELD(
        "state-memory", state_memory, parse_state_memory, "SIZE", "auto",
        "maximum memory for snapshots of the trainers' state: bytes, or with K, M or G; auto: a "
        "quarter of the free memory; 0: none"),
    TIME("start-timeout", watch.start_timeout_ms, 0, OPTION_DAY_MS, "300s",
         "a trainer that still waits for its peers after this time is ended; 0: never"),
    TIME("progress-timeout", watch.progress_timeout_ms, 0, OPTION_DAY_MS, "0",
         "a trainer that reports and prints nothing for this time is ended; 0: never"),
    PARSE_FIELD(
        "progress-regex", progress_regex, parse_progress_regex, "PATTERN", NULL,
        "pattern of progress in trainers' output: 'step (?<step>[0-9]+).*loss (?<loss>[0-9.]+)'"),
    FLAG("no-standby", standby.is_off, "keep no warm interpreter for the next start"),
    WORD("framework", standby.framework, framework_names, "NAME", "auto",
         "what a standby imports and how the port is handed over: auto, tensorflow, jax, torch or "
         "none"),
    TEXT("preload", standby.preload, "MODULES", NULL,
         "what a standby imports, separated by commas (default: the framework's, as the script "
         "imports them)"),
    NUMBER("standby-min-free", standby.min_free_percent, "PERCENT", 0, 100, "10",
           "keep no standby while less than this percentage of the memory is free"),
    TEXT("log-dir", logs.root, "DIR", NULL, "write trainers' output to files below this directory"),
    TIME("log-keep", logs.keep_ms, 0, MSG_DURATION_MAX_MS, "7d",
         "remove log files that are older than this; 0: never"),
    PARSE_FIELD("log-max-bytes", logs.max_bytes, parse_log_max_bytes, "SIZE", "0",
                "rotate log files that exceed this size in bytes, or with K, M or G; 0: never"),
    OPTION_ROW(
        OPTION_PARSE, "tee", "STREAMS", "3",
        "with --log-dir: streams also shown here: 0 none, 1 stdout, 2 stderr, 3 both, or 0:3,1:1",
        .letter = 't', .parse = output_show_tee, .offset = FIELD(show)),
    PARSE_FIELD("log-filter-ranks", show, output_show_ranks, "RANKS", NULL,
                "show the output of these ranks only: 0,4-7"),
    WORD("log-level", log_level, log_levels, "LEVEL", "info",
         "minimum level to log: debug, info, warn or error"),
    WORD("log-format", log_format, log_formats, "FORMAT", "auto",
         "logfmt, json, pretty, or auto: pretty on a terminal, else logfmt"),
    FLAG("pool", pool, "wait for submitted jobs and work for them; takes no SCRIPT"),
    PARSE_FIELD("label", labels, parse_label, "K=V", NULL,
                "with --pool: property that jobs may require, such as gpu=a100; may be repeated"),
    NUMBER("slots", slots, "N", 1, 64, "1",
           "with --pool: number of nodes that this machine provides"),
    TIME("idle-exit", idle_exit_ms, 0, MSG_DURATION_MAX_MS, "0",
         "with --pool: leave once no job has needed this node for this time; 0: stay"),
    NUMBER("floor", floor, "N", 0, MSG_NODES_MAX, "0",
           "with --idle-exit: stay if the pool would have fewer nodes than this"),
    TEXT("on-finish", on_finish, "COMMAND", NULL,
         "with --pool: command that sh runs once when the node has left as idle or drained, "
         "to return this machine"),
    WORD("runtime", runtime, runtimes, "ENGINE", "none",
         "with --pool and --trainer-user: engine for jobs' images: podman, docker, or none"),
    TEXT("runtime-options", runtime_options, "OPTIONS", NULL,
         "with --runtime: further options of the run command, separated by blanks: '--gpus all'"),
    /* Options that torchrun users have in their scripts. */
    {.name = "local-addr", .alias_of = "address"},
    IGNORED("rdzv-backend", "VALUE", 0),
    IGNORED("rdzv-conf", "VALUE", 0),
    IGNORED("node-rank", "VALUE", 0),
    IGNORED("master-addr", "VALUE", 0),
    IGNORED("master-port", "VALUE", 0),
    IGNORED("redirects", "VALUE", 'r'),
    IGNORED("local-ranks-filter", "VALUE", 0),
    IGNORED("start-method", "VALUE", 0),
    IGNORED("run-path", NULL, 0),
};

static const struct option_group groups[] = {
    {"nnodes", "The job"},    {"rdzv-endpoint", "The server"},
    {"address", "This node"}, {"notice", "Preemption notices"},
    {"git", "The script"},    {"log-dir", "Logs"},
    {"pool", "The pool"},     {NULL, NULL},
};

const struct option_table agent_options = {
    .program = "tfe-agent",
    .usage = "tfe-agent [OPTIONS] SCRIPT [ARGUMENTS...], or tfe-agent --pool [OPTIONS]",
    .about = "Joins an elastic TensorFlow job and keeps this node's trainers running.",
    .groups = groups,
    .specs = specs,
    .n = sizeof(specs) / sizeof(specs[0]),
    .stop_at_operand = true,
};
