/* agent/main.c: tfe-agent: parses options, checks what must be correct before the node joins,
 * and runs the event loop. */
#include <netdb.h>
#include <netinet/in.h>
#include <nss.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_settings.h"
#include "agent/core/agent.h"
#include "agent/guard/guard.h"
#include "agent/guard/guard_proof.h"
#include "agent/os/child_process.h"
#include "agent/os/ports.h"
#include "agent/os/proc.h"
#include "agent/os/trainer_user.h"
#include "agent/pool/assignment.h"
#include "agent/pool/handover.h"
#include "agent/pool/pool_node.h"
#include "agent/pool/slots.h"
#include "agent/runner.h"
#include "agent/standalone.h"
#include "agent/trainer/command.h"
#include "common/base/version.h"
#include "common/cli/log.h"
#include "common/cli/secret_mem.h"
#include "common/cli/stdio.h"
#include "common/credentials/join.h"

static int fail(int code, const struct tfe_reason *reason)
{
    stdio_print_message("tfe-agent", reason->text);
    return code;
}

static void on_early_signal(int signo)
{
    _exit(128 + signo);
}

/* Exits at once on a signal before the event loop handles it. The handler also matters for PID 1
 * of a container, which ignores signals without a handler. */
static void signals_set_up(void)
{
    const struct sigaction leave = {.sa_handler = on_early_signal};
    sigaction(SIGTERM, &leave, NULL);
    sigaction(SIGINT, &leave, NULL);
}

/* Checks that --address resolves to IPv4; otherwise peers could never connect to this node. */
static int check_address(const struct agent_settings *settings, struct tfe_reason *reason)
{
    if (!settings->address_host[0]) {
        return 0;
    }
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(settings->address_host, NULL, NULL, &found);
    if (rc) {
        reason_set(reason, "--address: cannot resolve %s: %s", settings->address_host,
                   gai_strerror(rc));
        return TFE_EINVAL;
    }
    bool is_v4 = false;
    for (const struct addrinfo *one = found; one && !is_v4; one = one->ai_next) {
        is_v4 = one->ai_family == AF_INET ||
                IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)one->ai_addr)->sin6_addr);
    }
    freeaddrinfo(found);
    if (!is_v4) {
        reason_set(reason,
                   "--address: %s is not an IPv4 address, and TensorFlow listens on IPv4 only",
                   settings->address_host);
    }
    return is_v4 ? 0 : TFE_EINVAL;
}

/* Checks that the job described by the options has a replica of this role. */
static int check_role(const struct agent_settings *settings, struct tfe_reason *reason)
{
    const struct agent_config *c = &settings->agent;
    const struct {
        bool has;
        const char *option;
    } of[] = {
        [TASK_WORKER] = {true, NULL},
        [TASK_CHIEF] = {c->spec.chief, "--chief"},
        [TASK_PS] = {c->spec.n_ps > 0, "--ps N"},
        [TASK_EVALUATOR] = {c->spec.evaluator, "--evaluator"},
    };
    if (c->has_role && !of[c->role].has) {
        reason_set(
            reason,
            "--role %s: the job has no such role without %s (set it for all agents of the job)",
            msg_task_name(c->role), of[c->role].option);
        return TFE_EINVAL;
    }
    return 0;
}

/* Rejects a limit that no epoch could keep. */
static int check_min_running(const struct agent_settings *settings, struct tfe_reason *reason)
{
    const struct job_spec *spec = &settings->agent.spec;
    if (spec->min_running > 1 && spec->n_ps == 0) {
        reason_set(reason, "--min-running %u: requires parameter servers (--ps N)",
                   spec->min_running);
        return TFE_EINVAL;
    }
    if (spec->min_running > spec->min_nodes) {
        reason_set(reason, "--min-running %u: exceeds the minimum of %u %s (--nnodes)",
                   spec->min_running, spec->min_nodes, spec->min_nodes == 1 ? "worker" : "workers");
        return TFE_EINVAL;
    }
    return 0;
}

/* Checks the access rights of another user's trainers once, instead of failing at each start. */
static int check_trainer_user(const struct agent_settings *settings, const struct command *command,
                              struct tfe_reason *reason)
{
    const bool has_script = command->is_python && !settings->module && !command->directory;
    const char *script = has_script ? command->argv[1] : NULL;
    const struct trainer_need needs[] = {
        {command->directory ? command->directory : ".", X_OK, "enter the working directory,"},
        {command->argv[0], X_OK, "run"},
        {script, R_OK, "read"},
        {getenv("TMPDIR"), W_OK | X_OK, "write into TMPDIR"},
        {settings->checkpoint_dir, W_OK | X_OK, "write into --checkpoint-dir"},
    };
    return settings->trainer_user ? trainer_user_try(needs, sizeof needs / sizeof needs[0], reason)
                                  : 0;
}

/* Checks that a copy of artifacts is possible: the bootstrap makes it at the end of a script. */
static int check_artifacts(const struct agent_settings *settings, const struct command *command,
                           struct tfe_reason *reason)
{
    const struct artifacts_settings *artifacts = &settings->artifacts;
    char path[PATH_MAX];
    if (artifacts->command && !artifacts->uri) {
        reason_set(reason, "--artifacts-command: requires --artifacts URI");
    } else if (artifacts->uri && !command->is_python) {
        reason_set(reason, "--artifacts: requires a Python script (a command can copy its files)");
    } else if (artifacts->uri && !standby_bootstrap(path)) {
        reason_set(reason, "--artifacts: tfe_bootstrap.py was not found beside the program");
    } else {
        return 0;
    }
    return TFE_EINVAL;
}

static int find_server(const struct agent_settings *settings, struct standalone *standalone,
                       struct join_info *ret, struct tfe_reason *reason)
{
    if (standalone) {
        join_forget(settings->token); /* the private server does not need it */
        int rc = standalone_start(standalone, reason);
        return rc ? rc : standalone_find(standalone, ret, reason);
    }
    const bool is_of_pool =
        settings->handover; /* an agent that the pool started finds its token in TFE_TOKEN */
    struct join_config config = {
        .endpoint = settings->endpoint,
        .token = is_of_pool ? NULL : settings->token,
        .token_file = is_of_pool ? NULL : settings->token_file,
        .state_dir = settings->state_dir,
        .roles = {PRINCIPAL_AGENT},
        .n_roles = 1,
    };
    return join_find(&config, ret, reason);
}

/* Returns the exit code if no server was found. */
static int code_of(int rc)
{
    return rc == TFE_EAUTH  ? AGENT_EXIT_UNAUTHORISED
           : rc == TFE_ESYS ? AGENT_EXIT_FAILED
                            : AGENT_EXIT_USAGE;
}

/* Runs a pool node. options are those of the command line. */
static int run_pool(const struct agent_settings *settings, char **options, int n_operands)
{
    struct tfe_reason reason;
    struct join_info info;
    struct rlimit cores;
    uint32_t slot = 0;
    int code;
    if (pool_check(settings, n_operands, &reason) ||
        (settings->trainer_user && trainer_user_set(settings->trainer_user, &reason)) ||
        check_address(settings, &reason)) {
        return fail(AGENT_EXIT_USAGE, &reason);
    }
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_CORE, &cores) != 0) {
        reason_errno(&reason, "getrlimit");
        return fail(AGENT_EXIT_FAILED, &reason);
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){.rlim_max = cores.rlim_max});
    /* Read the token before forking the slots, so that their parent process no longer has it
     * on its command line. */
    int rc = sodium_init() >= 0 ? find_server(settings, NULL, &info, &reason) : TFE_ESYS;
    if (rc) {
        return fail(code_of(rc), &reason);
    }
    if (settings->slots > 1 && !slots_fork(settings->slots, &slot, &code)) {
        join_done(&info);
        return code;
    }
    code = AGENT_EXIT_FAILED;
    if (proc_become_subreaper(&reason)) {
        (void)fail(code, &reason);
    } else {
        code = pool_run(settings, &info, options, slot, &cores);
    }
    join_done(&info);
    return code;
}

/* Runs the agent after the guard is forked: finds the server, reserves ports, runs the loop. */
static int run(const struct runner_options *given)
{
    struct runner_options options = *given;
    const struct agent_settings *settings = options.settings;
    struct tfe_reason reason;
    struct join_info info;
    int rc = find_server(settings, options.standalone, &info, &reason);
    if (rc) {
        return fail(code_of(rc), &reason);
    }
    if (ports_new(settings->agent.spec.nproc, settings->address_port, &options.ports, &reason)) {
        join_done(&info);
        return fail(AGENT_EXIT_FAILED, &reason);
    }
    options.info = &info;
    int code = runner_run(&options);
    ports_free(options.ports);
    join_done(&info);
    return code;
}

/* Checks the options before anything is fetched or started. */
static int check_options(struct agent_settings *settings, struct tfe_reason *reason)
{
    int rc = check_role(settings, reason);
    rc = rc ? rc : check_min_running(settings, reason);
    rc = rc ? rc : check_address(settings, reason);
    if (rc == 0 && settings->git_path && !settings->git) {
        reason_set(reason, "--git-path: requires --git");
        rc = TFE_EINVAL;
    }
    if (rc == 0 && settings->standalone) {
        rc = standalone_check(settings, reason);
    }
    if (rc == 0 && settings->trainer_user) {
        rc = trainer_user_set(settings->trainer_user, reason);
    }
    return rc;
}

/* Runs an agent of one job whose command is known. */
static int run_command(const struct agent_settings *settings, const struct runner_options *given)
{
    struct runner_options options = *given;
    struct tfe_reason reason;
    int code = AGENT_EXIT_FAILED;
    struct guard_process guard;
    struct guard_proof proof;
    /* a private server ends with this node, so no other process could use the proof */
    const bool has_proof = !settings->standalone;
    if (settings->default_ps && !options.command->is_python) {
        reason_set(&reason,
                   "--default-ps: %s is not a Python script (a ps needs a Python interpreter)",
                   options.operands[0]);
        return fail(AGENT_EXIT_USAGE, &reason);
    }
    if (has_proof) {
        guard_proof_make(&proof, settings->agent.job.text);
    }
    if (check_trainer_user(settings, options.command, &reason) ||
        check_artifacts(settings, options.command, &reason)) {
        code = fail(AGENT_EXIT_USAGE, &reason);
    } else if ((settings->standalone && standalone_new(settings, &options.standalone, &reason)) ||
               proc_become_subreaper(&reason) ||
               guard_fork(&guard, has_proof ? &proof : NULL, &reason)) {
        code = fail(AGENT_EXIT_FAILED, &reason);
    } else {
        /* From here on the token is in this process's memory, so core dumps are disabled. The
         * guard was forked before, so trainers keep the user's limits. */
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGPIPE, SIG_IGN);
        options.guard = &guard;
        code = run(&options);
    }
    standalone_free(options.standalone);
    return code;
}

/* Runs an agent of one job. */
static int run_job(struct agent_settings *settings, char **operands, int n_operands)
{
    struct tfe_reason reason;
    struct command command;
    struct runner_options options = {
        .settings = settings, .command = &command, .operands = operands, .n_operands = n_operands};
    if (sodium_init() < 0) {
        return AGENT_EXIT_FAILED;
    }
    notice_selection_complete(&settings->notice, "/sys");
    if (check_options(settings, &reason)) {
        return fail(AGENT_EXIT_USAGE, &reason);
    }
    int rc = settings->git ? git_source_new(settings, &options.git_source, &reason) : 0;
    if (rc) {
        return fail(rc == TFE_EINVAL ? AGENT_EXIT_USAGE : AGENT_EXIT_UNREACHED, &reason);
    }
    int code;
    rc = git_source_command(options.git_source, settings, operands, n_operands, &command, &reason);
    if (rc) {
        code = fail(rc == TFE_ENOENT ? AGENT_EXIT_NOT_FOUND : AGENT_EXIT_USAGE, &reason);
    } else {
        code = run_command(settings, &options);
        command_done(&command);
    }
    git_source_free(options.git_source);
    return code;
}

/* Checks that each mounted directory is the one to which the trainers' user has access: a path may
 * have been changed before the engine mounted it as root. */
static int check_mounts(const struct handover *handover, struct tfe_reason *reason)
{
    for (size_t i = 0; i < handover->n_mounts; i++) {
        const struct handover_mount *one = &handover->mounts[i];
        struct stat st;
        if (stat(one->path, &st) != 0 || st.st_dev != one->dev || st.st_ino != one->ino) {
            reason_set(reason, "%s was replaced while the container started", one->path);
            return TFE_ESTATE;
        }
    }
    return 0;
}

/* Makes the C library ignore the image's nsswitch.conf, which can name libraries to load. */
static void ignore_nsswitch(void)
{
    (void)__nss_configure_lookup("passwd", "files");
    (void)__nss_configure_lookup("group", "files");
    (void)__nss_configure_lookup("hosts", "files dns");
}

/* Adapts the settings to a container, where options about the machine do not apply. */
static int enter_image(struct agent_settings *settings, const struct handover *handover,
                       struct tfe_reason *reason)
{
    char directory[PATH_MAX];
    ignore_nsswitch();
    int rc = check_mounts(handover, reason);
    if (rc) {
        return rc;
    }
    settings->show.is_on_terminal = handover->is_on_terminal;
    settings->trainer_user = NULL; /* this process already runs as that user */
    settings->no_persist = true;
    settings->checks.n = 0; /* the pool runs them on the machine */
    settings->notice.modes[FROM_FILE] = settings->notice.modes[FROM_COMMAND] = SOURCE_OFF;
    if (!handover->has_logs) {
        settings->logs.root = NULL;
    }
    if (getcwd(directory, sizeof directory) && strcmp(directory, "/") == 0 &&
        chdir(handover->directory) != 0) {
        reason_errno(reason, "enter %s", handover->directory);
        return TFE_ESYS;
    }
    return 0;
}

/* Enters the job's directory with the rights of the trainers' user, who owns it. What belongs to
 * the machine's owner stays in the pool's directory: log files, and the commands that root runs.
 * logs is a buffer that lives as long as the settings. */
static int enter_directory(struct agent_settings *settings, const struct handover *handover,
                           char logs[PATH_MAX], struct tfe_reason *reason)
{
    char here[PATH_MAX];
    if (!settings->trainer_user) {
        return 0; /* the pool has started this process there */
    }
    int rc = trainer_user_set(settings->trainer_user, reason);
    if (rc) {
        return rc;
    }
    child_process_stay();
    if (settings->logs.root && settings->logs.root[0] != '/' && getcwd(here, sizeof here)) {
        const int n = snprintf(logs, PATH_MAX, "%s/%s", here, settings->logs.root);
        settings->logs.root = n < PATH_MAX ? logs : NULL;
    }
    if (trainer_user_enter(handover->directory)) {
        reason_errno(reason, "enter %s", handover->directory);
        return TFE_ESYS;
    }
    return 0;
}

/* Runs the agent of a pool node's assignment. */
static int run_assignment(struct agent_settings *settings, const struct handover *handover,
                          int pool_fd)
{
    struct tfe_reason reason;
    json_t *job;
    char **operands;
    char logs[PATH_MAX];
    int n_operands = 0;
    if (assignment_apply(handover, settings, &job, &operands, &reason)) {
        return fail(AGENT_EXIT_USAGE, &reason);
    }
    settings->pool_fd = handover->is_container ? pool_fd : -1;
    while (operands[n_operands]) {
        n_operands++;
    }
    int rc = handover->is_container ? enter_image(settings, handover, &reason)
                                    : enter_directory(settings, handover, logs, &reason);
    int code = rc ? fail(AGENT_EXIT_FAILED, &reason) : run_job(settings, operands, n_operands);
    free(operands);
    json_decref(job);
    return code;
}

/* For an agent in a trainer of another agent: variables of such a trainer that have the names of
 * options but other values. */
static void drop_outer_artifacts(void)
{
    if (getenv("TFE_EPOCH")) {
        (void)unsetenv("TFE_ARTIFACTS");
        (void)unsetenv("TFE_ARTIFACTS_COMMAND");
    }
}

int main(int argc, char **argv)
{
    struct tfe_reason reason;
    struct agent_settings settings;
    enum options_result result;
    int operand;
    char ignored[256];
    signals_set_up();
    agent_settings_init(&settings);
    /* The parent may have blocked SIGTERM; the agent must handle it. */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    struct handover handover;
    int pool_fd;
    if (stdio_open_missing(&reason) || secret_mem_protect_process(&reason)) {
        return AGENT_EXIT_FAILED;
    }
    if (handover_read(&handover, &pool_fd, &reason)) {
        return fail(AGENT_EXIT_FAILED, &reason);
    }
    drop_outer_artifacts();
    if (options_parse(&agent_options, argc, argv, &settings, &result, &operand, ignored,
                      sizeof(ignored), &reason)) {
        return fail(AGENT_EXIT_USAGE, &reason);
    }
    if (result == OPTIONS_HELP) {
        options_print_help(&agent_options, stdout);
        return stdio_flushed(stdout) ? AGENT_EXIT_OK : AGENT_EXIT_FAILED;
    }
    if (result == OPTIONS_VERSION) {
        (void)printf("tfe-agent %s (%s)\n", TFE_VERSION, tfe_commit);
        return stdio_flushed(stdout) ? AGENT_EXIT_OK : AGENT_EXIT_FAILED;
    }
    log_init("tfe-agent", settings.log_level, settings.log_format);
    if (ignored[0]) {
        log_warn("options_ignored", LOG_S("options", ignored));
    }
    if (pool_fd < 0 && settings.pool) {
        return run_pool(&settings, argv + 1, argc - operand);
    }
    guard_title_area(argc, argv);
    return pool_fd < 0 ? run_job(&settings, argv + operand, argc - operand)
                       : run_assignment(&settings, &handover, pool_fd);
}
