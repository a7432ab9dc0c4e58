/* agent/pool/pool_node.c: implementation of pool_node.h. States:
 *
 *   IDLE --ASSIGN--> files (files.c) --> WORKING: an agent, in a container if the job has an image
 *     ^                                      | the agent has ended and its files are removed
 *     '------------ FREED is sent -----------'
 *
 * The connection may break meanwhile: POOL reports the assignment again, and the agent has a
 * connection of its own. */
#include "agent/pool/pool_node.h"

#include <event2/event.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/health.h"
#include "agent/pool/assignment.h"
#include "agent/pool/child.h"
#include "agent/pool/files.h"
#include "agent/pool/finish.h"
#include "agent/pool/handover.h"
#include "agent/pool/image.h"
#include "agent/pool/member.h"
#include "agent/pool/scratch.h"
#include "agent/pool/toolbox.h"
#include "agent/preemption/pool_notices.h"
#include "agent/server_report.h"
#include "agent/uplink.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/channel/endpoint.h"
#include "common/cli/log.h"
#include "common/cli/sd_notify.h"
#include "common/cli/signals.h"
#include "common/cli/stdio.h"
#include "common/credentials/enrollment.h"
#include "common/credentials/node_secrets.h"
#include "common/job/job_file.h"

/* Added to the preemption grace: time for an agent to leave its job, including the final kill. */
#define LEAVE_MORE_MS 15000

struct pool {
    const struct agent_settings *settings;
    const struct join_info *info;
    char *const *options;
    uint32_t slot;
    const struct rlimit *cores;
    char program[PATH_MAX];
    struct tfe_id node_name;

    struct event_base *base;
    struct event *quit[TERMINATION_SIGNALS];
    struct event *watchdog;
    struct member *member;
    struct report *report;
    struct health *health;
    struct pool_notices *notices;

    uint64_t assignment;      /* 0 if idle */
    struct tfe_id job;        /* name of the job */
    json_t *spec;             /* the job; NULL if idle */
    struct handover handover; /* what its agent receives; without token and key until it starts */
    struct scratch *scratch;
    struct files *files;      /* the job's files, or NULL if it has none */
    struct toolbox *toolbox;  /* program for containers; NULL if this node runs no images */
    struct pool_child *child; /* the job's agent, or NULL */
    bool is_stopped;          /* the child has been signalled to end */
    bool is_hurried; /* a second signal arrived: do not wait for processes that cannot be killed */
    struct pool_end end; /* result to report in FREED once there is no child */
    int leaves;          /* signal that ends the node, SIGTERM on the server's request; 0 if none */
    enum tfe_out out;    /* reason why the server released the node */
    int given_up;        /* exit code once no server accepts the node; 0 if unset */
    int exit_code;
};

/* Returns true while the job's files are being prepared and no agent runs. */
static bool is_preparing(const struct pool *p)
{
    return p->files && !p->child;
}

/* --- leaving the pool --- */

static void leave(struct pool *p, int code)
{
    p->exit_code = code;
    event_base_loopbreak(p->base);
}

static int leave_code(const struct pool *p)
{
    if (p->given_up) {
        return p->given_up;
    }
    return p->out != OUT_NOT ? AGENT_EXIT_OK : 128 + p->leaves;
}

static uint32_t leave_ms(const struct pool *p);
static void leave_pool(struct pool *p, uint32_t within_ms, bool is_urgent);

static void on_lost(void *ctx, int code, const char *sentence)
{
    struct pool *p = ctx;
    stdio_print_message("tfe-agent", sentence);
    p->given_up = code;
    p->leaves = p->leaves ? p->leaves : SIGTERM;
    leave_pool(p, 0, true);
}

static void send_freed(struct pool *p)
{
    struct tfe_msg msg = {
        .type = MSG_FREED,
        .u.freed = {.assignment = p->assignment, .code = p->end.code, .message = p->end.message}};
    log_info("freed", LOG_S("job", p->job.text), LOG_U("assignment", p->assignment),
             LOG_U("status", p->end.code),
             LOG_S("reason", p->end.message[0] ? p->end.message : NULL));
    uplink_send(member_uplink(p->member), &msg);
    p->assignment = 0;
}

static uint64_t assignment_of(void *ctx)
{
    const struct pool *p = ctx;
    return p->assignment;
}

static bool works(void *ctx)
{
    const struct pool *p = ctx;
    return p->scratch != NULL;
}

static void on_connected(void *ctx)
{
    struct pool *p = ctx;
    pool_notices_up(p->notices);
}

static void on_welcome(void *ctx)
{
    struct pool *p = ctx;
    report_up(p->report);
    if (p->files) {
        files_welcome(p->files);
    }
    if (p->assignment && !p->scratch) {
        send_freed(p);
    }
}

static bool on_down(void *ctx)
{
    struct pool *p = ctx;
    report_down(p->report);
    pool_notices_down(p->notices);
    if (p->leaves && !p->child && !p->scratch) {
        leave(p, leave_code(p));
        return false;
    }
    return true;
}

/* --- assignments --- */

static void job_drop(struct pool *p)
{
    files_free(p->files);
    p->files = NULL;
    scratch_free(p->scratch);
    p->scratch = NULL;
    json_decref(p->spec);
    p->spec = NULL;
}

/* Ends the assignment with the result in p->end. */
static void free_now(struct pool *p)
{
    job_drop(p);
    if (member_is_up(p->member)) {
        send_freed(p);
    }
}

static void on_ended(void *ctx, const struct pool_end *how)
{
    struct pool *p = ctx;
    p->end = *how; /* copied, because it belongs to the child */
    if (how->code != 0) {
        health_forget(p->health);
        (void)health_is_good(p->health);
    }
    pool_child_free(p->child);
    p->child = NULL;
    p->is_stopped = false;
    free_now(p);
    if (p->leaves) {
        leave_pool(p, leave_ms(p), false);
    }
}

static void on_stuck(void *ctx)
{
    struct pool *p = ctx;
    if (p->is_hurried) {
        leave(p, leave_code(p));
    }
}

/* Code of an assignment that was ended or not started because of a signal,
 * which is not a failure. */
#define CODE_LEFT (128 + SIGTERM)

static void fail_assignment(struct pool *p, uint32_t code, const struct tfe_reason *reason)
{
    p->end = (struct pool_end){.code = code};
    snprintf(p->end.message, sizeof p->end.message, "%s", reason->text);
    log_error("not_started", LOG_S("job", p->job.text), LOG_S("reason", reason->text));
    free_now(p);
}

/* Returns the command line of an agent with this node's options; borrows its words. */
static char **agent_argv(struct pool *p)
{
    size_t n = 0;
    while (p->options[n]) {
        n++;
    }
    char **argv = must_alloc((n + 2) * sizeof *argv);
    argv[0] = p->program;
    memcpy(argv + 1, p->options, (n + 1) * sizeof *argv);
    return argv;
}

/* Starts the agent as a child process, or in a container with the job's image. */
static int start_agent(struct pool *p, struct tfe_reason *reason)
{
    extern char **environ;
    const bool is_container = image_is_run(p->settings, p->spec);
    struct pool_child_options options = {.base = p->base,
                                         .envp = environ,
                                         .directory = p->handover.directory,
                                         .cores = p->cores,
                                         .handover = &p->handover,
                                         .scratch = p->scratch,
                                         .ended = on_ended,
                                         .stuck = on_stuck,
                                         .ctx = p};
    char **argv;
    int rc = assignment_directory(p->spec, scratch_path(p->scratch), is_container,
                                  p->handover.directory, reason);
    if (rc) {
        return rc;
    }
    if (!is_container) {
        options.argv = argv = agent_argv(p);
        rc = pool_child_start(&options, &p->child, reason);
        free(argv);
        return rc;
    }
    rc = image_enter(p->settings, p->spec, p->scratch, p->toolbox, p->options, &p->handover, &argv,
                     reason);
    if (rc) {
        reason_prefix(reason, "image %.64s", job_text(p->spec, "image"));
        return rc;
    }
    options.argv = argv;
    options.engine = runtimes[p->settings->runtime];
    options.container = image_container(p->scratch);
    rc = pool_child_start(&options, &p->child, reason);
    image_argv_free(argv);
    return rc;
}

/* Starts the agent once the job's files are ready. */
static int begin(struct pool *p, struct tfe_reason *reason)
{
    const char *policy = job_text(p->spec, "clean_policy");
    token_format(p->info->token, p->handover.token);
    uplink_key(member_uplink(p->member), p->handover.key);
    int rc = start_agent(p, reason);
    explicit_bzero(&p->handover, sizeof p->handover);
    if (rc) {
        p->child = NULL;
        return rc;
    }
    pool_child_log(p->child, strcmp(policy, "All") == 0 ? p->settings->logs.root : NULL,
                   p->job.text);
    log_info("agent_started", LOG_S("job", p->job.text), LOG_I("pid", pool_child_pid(p->child)));
    return 0;
}

static void on_files(void *ctx)
{
    struct pool *p = ctx;
    struct tfe_reason reason;
    if (begin(p, &reason)) {
        fail_assignment(p, POOL_NOT_STARTED, &reason);
    }
}

static void on_no_files(void *ctx, const char *sentence)
{
    struct pool *p = ctx;
    const uint32_t code = p->is_stopped ? CODE_LEFT : POOL_NOT_READY;
    struct tfe_reason reason;
    reason_set(&reason, "%s", sentence);
    p->is_stopped = false;
    fail_assignment(p, code, &reason);
    if (p->leaves) {
        leave_pool(p, leave_ms(p), false);
    }
}

static void send_for_files(void *ctx, const struct tfe_msg *msg)
{
    struct pool *p = ctx;
    if (member_is_up(p->member)) { /* otherwise repeated after the next WELCOME */
        uplink_send(member_uplink(p->member), msg);
    }
}

static void prepare_files(struct pool *p)
{
    const struct files_options options = {.base = p->base,
                                          .job = p->spec,
                                          .scratch = p->scratch,
                                          .state_dir = agent_settings_state_dir(p->settings),
                                          .send = send_for_files,
                                          .ready = on_files,
                                          .failed = on_no_files,
                                          .ctx = p};
    p->files = files_new(&options);
}

/* Reads the assignment, of which the server may have sent anything. */
static int read_assignment(struct pool *p, const struct msg_assign *assign,
                           struct tfe_reason *reason)
{
    p->handover = (struct handover){
        .assignment = assign->assignment, .has_role = assign->has_role, .role = assign->role};
    snprintf(p->handover.spec, sizeof p->handover.spec, "%s", assign->spec);
    snprintf(p->handover.run_key, sizeof p->handover.run_key, "%s", assign->run_key);
    snprintf(p->handover.node_name, sizeof p->handover.node_name, "%s", p->node_name.text);
    (void)endpoint_format(p->handover.endpoint, p->info->host, p->info->port);
    p->job.text[0] = '\0';
    int rc = job_file_parse(assign->spec, &p->spec, reason);
    return rc ? rc : id_set(&p->job, job_text(p->spec, "name"));
}

/* Prepares the job's files, or starts its agent at once if it has none. */
static int start_assignment(struct pool *p, struct tfe_reason *reason)
{
    if (p->leaves) {
        reason_set(reason, "this node is leaving the pool");
        return TFE_ESTATE;
    }
    int rc = scratch_new(p->settings->slots > 1, &p->scratch, reason);
    if (rc || !files_are_needed(p->spec)) {
        return rc ? rc : begin(p, reason);
    }
    prepare_files(p);
    return 0;
}

static void on_assign(struct pool *p, const struct msg_assign *assign)
{
    struct tfe_reason reason;
    if (p->assignment) {
        if (p->assignment != assign->assignment) {
            log_warn("assigned_twice", LOG_U("assignment", assign->assignment),
                     LOG_U("has", p->assignment));
        }
        return;
    }
    p->assignment = assign->assignment;
    p->is_stopped = false;
    int rc = read_assignment(p, assign, &reason);
    log_info("assigned", LOG_S("job", p->job.text), LOG_U("assignment", p->assignment),
             LOG_S("role", assign->has_role ? msg_task_name(assign->role) : NULL));
    if (rc || start_assignment(p, &reason)) {
        fail_assignment(p, p->leaves ? CODE_LEFT : POOL_NOT_STARTED, &reason);
    }
}

static uint32_t leave_ms(const struct pool *p)
{
    const uint32_t grace_ms = p->settings->agent.preempt_grace_ms;
    return grace_ms < UINT32_MAX - LEAVE_MORE_MS ? grace_ms + LEAVE_MORE_MS : UINT32_MAX;
}

/* Repeated stop requests do not shorten the grace period; a second signal does. */
static void stop(struct pool *p, uint32_t within_ms, bool is_urgent)
{
    const bool was_stopped = p->is_stopped;
    p->is_stopped = true;
    if (is_preparing(p)) {
        files_stop(p->files);
    } else if (p->child && (!was_stopped || is_urgent)) {
        pool_child_stop(p->child, within_ms);
    }
}

/* Leaves the pool once no child runs. */
static void leave_pool(struct pool *p, uint32_t within_ms, bool is_urgent)
{
    if (p->child || is_preparing(p)) {
        stop(p, within_ms, is_urgent);
    } else if (member_is_up(p->member)) {
        member_goodbye(p->member);
    } else {
        leave(p, leave_code(p));
    }
}

/* Handles RELEASE. FREED for an unknown assignment tells the server that nothing is left of it. */
static void on_release(struct pool *p, const struct msg_release *release)
{
    const uint32_t within_ms = release->within_ms ? release->within_ms : leave_ms(p);
    if (release->out != OUT_NOT && !p->leaves &&
        (release->assignment == p->assignment || !p->assignment)) {
        p->leaves = SIGTERM;
        p->out = release->out;
        log_info("leaving", LOG_S("reason", release->message[0] ? release->message : NULL));
        leave_pool(p, within_ms, false);
        return;
    }
    if (release->assignment && release->assignment != p->assignment) {
        struct tfe_msg msg = {.type = MSG_FREED,
                              .u.freed = {.assignment = release->assignment, .message = ""}};
        uplink_send(member_uplink(p->member), &msg);
    }
    if (p->scratch && release->assignment == p->assignment) {
        log_info("released", LOG_S("job", p->job.text), LOG_U("assignment", p->assignment),
                 LOG_S("reason", release->message[0] ? release->message : NULL));
        if (p->child && release->over) {
            pool_child_over(p->child);
        }
        stop(p, within_ms, false);
    }
}

/* --- events --- */

static void on_message(void *ctx, const struct tfe_msg *msg)
{
    struct pool *p = ctx;
    switch ((int)msg->type) {
    case MSG_ASSIGN:
        on_assign(p, &msg->u.assign);
        break;
    case MSG_RELEASE:
        on_release(p, &msg->u.release);
        break;
    case MSG_CHUNK:
        if (p->files) {
            files_handle_chunk(p->files, &msg->u.chunk);
        }
        break;
    default: /* messages for job agents */
        break;
    }
}

static void on_signal(evutil_socket_t signo, short what, void *ctx)
{
    struct pool *p = ctx;
    char name[SIGNAL_NAME_MAX];
    const bool is_second = p->leaves != 0;
    p->leaves = p->leaves ? p->leaves : (int)signo;
    log_info("leaving", LOG_S("signal", signal_name((int)signo, name)));
    p->is_hurried = is_second;
    if (p->child && is_second && pool_child_is_stuck(p->child)) {
        leave(p, leave_code(p));
    } else {
        leave_pool(p, leave_ms(p), is_second);
    }
}

static void send_report(void *ctx, const struct tfe_msg *msg)
{
    struct pool *p = ctx;
    uplink_offer(member_uplink(p->member), msg);
}

static void on_health(void *ctx, const char *reason)
{
    const struct pool *p = ctx;
    report_check(p->report, reason);
}

static void on_cloud(void *ctx, const struct cloud_info *machine_info)
{
    const struct pool *p = ctx;
    report_cloud(p->report, machine_info);
}

static void send_notice(void *ctx, const struct msg_notice *notice)
{
    const struct pool *p = ctx;
    uplink_send(member_uplink(p->member),
                &(struct tfe_msg){.type = MSG_NOTICE, .u.notice = *notice});
}

/* --- lifetime --- */

static void make_parts(struct pool *p)
{
    const struct agent_settings *s = p->settings;
    p->base = event_base_new();
    must_succeed(p->base);
    signals_watch_termination(p->base, on_signal, p, 0, p->quit);
    p->watchdog = sd_notify_watchdog(p->base);
    p->report = report_new(
        &(struct report_options){.base = p->base, .nproc = 1, .send = send_report, .ctx = p});
    p->health = health_new(&(struct health_config){.base = p->base,
                                                   .checks = &s->checks,
                                                   .options = &agent_options,
                                                   .result = on_health,
                                                   .ctx = p});
    (void)health_is_good(p->health);
    p->notices =
        pool_notices_new(&(struct pool_notices_options){.base = p->base,
                                                        .choice = &s->notice,
                                                        .grace_ms = s->agent.preempt_grace_ms,
                                                        .on_cloud = on_cloud,
                                                        .send = send_notice,
                                                        .ctx = p});
    p->member = member_new(&(struct member_options){.base = p->base,
                                                    .settings = s,
                                                    .info = p->info,
                                                    .node_name = p->node_name.text,
                                                    .slot = p->slot,
                                                    .assignment = assignment_of,
                                                    .works = works,
                                                    .connected = on_connected,
                                                    .welcome = on_welcome,
                                                    .message = on_message,
                                                    .down = on_down,
                                                    .lost = on_lost,
                                                    .ctx = p});
}

int pool_check(const struct agent_settings *settings, int n_operands, struct tfe_reason *reason)
{
    const struct {
        bool is_given;
        const char *option;
    } others[] = {
        {settings->standalone, "--standalone"},
        {settings->agent.run_key, "--run"},
        {settings->agent.new_run, "--new-run"},
        {settings->agent.has_role, "--role"},
        {settings->no_python, "--no-python"},
        {settings->git, "--git (submitted jobs name their own repository)"},
        {settings->module, "--module"},
        {n_operands > 0, "a script (submitted jobs bring their own)"},
        {settings->slots > 1 && settings->address_port,
         "--slots together with a port in --address"},
        {settings->slots > 1 && settings->on_finish,
         "--slots together with --on-finish (slots leave independently)"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i].is_given) {
            reason_set(reason, "--pool cannot be combined with %s", others[i].option);
            return TFE_EINVAL;
        }
    }
    if (settings->runtime != RUNTIME_NONE && !settings->trainer_user) {
        reason_set(reason, "--runtime requires --trainer-user (the user that containers run as)");
        return TFE_EINVAL;
    }
    return 0;
}

/* Makes the label of the node from its name and slot. */
static void pool_name(const struct agent_settings *settings, uint32_t slot, struct tfe_id *ret)
{
    node_label(settings->agent.node_name, ret);
    if (slot > 0) {
        char suffix[12];
        const int n = snprintf(suffix, sizeof suffix, "-%" PRIu32, slot);
        const size_t end = strlen(ret->text);
        const size_t offset = end + (size_t)n > TFE_ID_MAX ? TFE_ID_MAX - (size_t)n : end;
        memcpy(ret->text + offset, suffix, (size_t)n + 1);
    }
}

struct pool *pool_new(const struct agent_settings *settings, const struct join_info *info,
                      char *const *options, uint32_t slot, const struct rlimit *cores)
{
    struct pool *p = must_alloc(sizeof *p);
    struct tfe_reason reason;
    *p = (struct pool){.settings = settings,
                       .info = info,
                       .options = options,
                       .slot = slot,
                       .cores = cores,
                       .exit_code = AGENT_EXIT_FAILED};
    ssize_t n = readlink("/proc/self/exe", p->program, sizeof p->program - 1);
    p->program[n > 0 ? n : 0] = '\0';
    pool_name(settings, slot, &p->node_name);
    if (settings->runtime != RUNTIME_NONE && toolbox_new(&p->toolbox, &reason)) {
        stdio_print_message("tfe-agent", reason.text);
        free(p);
        return NULL;
    }
    make_parts(p);
    return p;
}

struct event_base *pool_base(const struct pool *p)
{
    return p->base;
}

int pool_end(struct pool *p)
{
    const int code = p->exit_code;
    /* the child is stuck: its processes remain, but its files are removed */
    pool_child_free(p->child);
    toolbox_free(p->toolbox);
    job_drop(p);
    pool_notices_free(p->notices);
    health_free(p->health);
    report_free(p->report);
    member_free(p->member);
    signals_unwatch(p->quit);
    event_drop(&p->watchdog);
    event_base_free(p->base);
    if (p->settings->on_finish && (p->out == OUT_IDLE || p->out == OUT_DRAINED)) {
        finish_run(p->settings->on_finish, p->node_name.text, msg_out_name(p->out));
    }
    free(p);
    return code;
}

int pool_run(const struct agent_settings *settings, const struct join_info *info,
             char *const *options, uint32_t slot, const struct rlimit *cores)
{
    struct pool *p = pool_new(settings, info, options, slot, cores);
    if (!p) {
        return AGENT_EXIT_FAILED;
    }
    sd_notify_send("READY=1"); /* waiting for a server counts as ready */
    event_base_dispatch(p->base);
    sd_notify_send("STOPPING=1");
    return pool_end(p);
}
