/* agent/pool/pool.c: see pool.h.
 *
 *   IDLE ──ASSIGN──► WORKING ──its agent has ended, and is cleared away──► IDLE, FREED is said
 *
 * While it is idle an agent waits below it with a warm standby (await.c) and takes the assignment;
 * where there is none, one is started then.
 *
 * The connection comes and goes meanwhile: POOL says what this node works for, and its agent has a
 * connection of its own. */
#include "agent/pool/pool.h"

#include <event2/event.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/notice/warnings.h"
#include "agent/pool/await.h"
#include "agent/pool/check.h"
#include "agent/pool/child.h"
#include "agent/pool/container.h"
#include "agent/pool/files.h"
#include "agent/pool/finish.h"
#include "agent/pool/image.h"
#include "agent/pool/line.h"
#include "agent/pool/member.h"
#include "agent/pool/scratch.h"
#include "agent/report.h"
#include "agent/uplink.h"
#include "common/base/backoff.h"
#include "common/net/endpoint.h"
#include "common/net/enrolment.h"
#include "common/net/heap.h"
#include "common/net/hidden.h"
#include "common/net/log.h"
#include "common/net/notify.h"
#include "common/net/quit.h"
#include "common/net/stdio.h"
#include "common/net/timer.h"

/* What an agent has to leave its job in, where nobody says: its machine's grace and the kill's. */
#define LEAVE_MORE_MS 15000
/* A child that waits and does not live is started again after so long, doubling. */
#define WARM_AGAIN_MS 1000
#define WARM_LAST_MS 60000

struct pool {
    const struct agent_settings *settings;
    const struct join_info *info;
    char *const *options;
    uint32_t slot;
    const struct rlimit *cores;
    char program[PATH_MAX];
    struct tfe_id node_name;

    struct event_base *base;
    struct event *quit[QUIT_SIGNALS];
    struct event *watchdog;
    struct member *member;
    struct report *report;
    struct warnings *warnings;

    uint64_t assignment; /* 0: idle */
    struct tfe_id job;
    struct scratch *scratch;
    struct files *files;         /* that the job brings; NULL: none */
    bool is_laid;                /* … and they are there */
    struct container *container; /* of the image that it names; NULL: none */
    struct pool_child *child;    /* works, or waits for the next assignment */
    const char *log_root;        /* of the assignment: see pool_child_log */
    struct pool_line line;       /* what is to be begun, once there is no other child; argv NULL */
    bool is_stopped;             /* the child was told to end */
    bool is_hurried;             /* by a second signal: it waits for nobody that does not die */
    struct event *warm;          /* another child is to wait */
    uint32_t warm_ms;            /* … after so long: the last one did not live */
    bool is_cold;                /* none can wait here, and has said why */
    enum tfe_standby standby;    /* of the child that waits */
    struct pool_end end;         /* once there is no child, and FREED is still to be said */
    int leaves;                  /* the signal, or SIGTERM where the server wants it … */
    enum tfe_out out;            /* … and why */
    int given_up;                /* … or no server takes it: with this; 0 */
    int exit_code;
};

/* The files of its job, or its container, are on their way: nothing of it runs. */
static bool is_laying(const struct pool *p)
{
    return (p->files && !p->is_laid) || (p->container && !container_is_up(p->container));
}

/* The container has been told to end, and that of its job is said already. */
static bool is_going(const struct pool *p)
{
    return p->container && container_fd(p->container) < 0;
}

/* --- out of the pool -------------------------------------------------------------------------- */

static void leave(struct pool *p, int code)
{
    p->exit_code = code;
    event_base_loopbreak(p->base);
}

static int leave_code(const struct pool *p)
{
    return p->given_up ? p->given_up : p->out != OUT_NOT ? AGENT_EXIT_OK : 128 + p->leaves;
}

static uint32_t leave_ms(const struct pool *p);
static void leave_pool(struct pool *p, uint32_t within_ms, bool hurries);

/* Who waits for a job below it ends before. */
static void on_lost(void *ctx, int code, const char *sentence)
{
    struct pool *p = ctx;
    stdio_say("tfe-agent", sentence);
    p->given_up = code;
    p->leaves = p->leaves ? p->leaves : SIGTERM;
    leave_pool(p, 0, true);
}

static void say_freed(struct pool *p)
{
    struct tfe_msg msg = {
        .type = MSG_FREED,
        .u.freed = {.assignment = p->assignment, .code = p->end.code, .says = p->end.says}};
    log_info("freed", LOG_S("job", p->job.text), LOG_U("assignment", p->assignment),
             LOG_U("status", p->end.code), LOG_S("why", p->end.says[0] ? p->end.says : NULL));
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
    warnings_up(p->warnings);
}

static void on_welcome(void *ctx)
{
    struct pool *p = ctx;
    report_up(p->report);
    if (p->files) {
        files_welcome(p->files);
    }
    if (p->assignment && !p->scratch) {
        say_freed(p);
    }
}

static bool on_down(void *ctx)
{
    struct pool *p = ctx;
    report_down(p->report);
    warnings_down(p->warnings);
    if (p->leaves && !p->child && !p->scratch) {
        leave(p, leave_code(p));
        return false;
    }
    return true;
}

/* --- assignments ------------------------------------------------------------------------------ */

static void begin(struct pool *p);
static void become_idle(struct pool *p);

static void set_standby(struct pool *p, enum tfe_standby standby, const char *tensorflow)
{
    p->standby = standby;
    report_standby(p->report, tensorflow);
}

static void on_said(void *ctx, const struct await_said *said)
{
    struct pool *p = ctx;
    p->warm_ms = 0;
    set_standby(p, (enum tfe_standby)said->standby,
                said->tensorflow.text[0] ? said->tensorflow.text : NULL);
}

static void job_drop(struct pool *p)
{
    pool_line_done(&p->line);
    files_free(p->files);
    p->files = NULL;
    scratch_free(p->scratch);
    p->scratch = NULL;
}

/* As p->end says. */
static void free_now(struct pool *p)
{
    job_drop(p);
    if (member_is_up(p->member)) {
        say_freed(p);
    }
}

static void on_ended(void *ctx, const struct pool_end *how)
{
    struct pool *p = ctx;
    const struct pool_end end = *how; /* it is the child's */
    pool_child_free(p->child);
    p->child = NULL;
    p->is_cold = p->is_cold || (!p->assignment && end.code == POOL_NOT_STARTED);
    set_standby(p, WARMTH_NONE, NULL);
    if (is_laying(p) || is_going(p)) { /* it waited beside them */
        timer_after(p->warm, p->warm_ms);
        return;
    }
    if (p->line.argv && !p->is_stopped && !p->leaves) {
        begin(p); /* that one never did */
        return;
    }
    p->end = p->scratch ? end : p->end; /* one that waited says nothing of a job before it */
    if (p->container) {
        container_stop(p->container);
    } else {
        become_idle(p);
    }
}

static void on_stuck(void *ctx)
{
    struct pool *p = ctx;
    if (p->is_hurried) {
        leave(p, leave_code(p));
    }
}

/* Nothing of an assignment runs any more, or of what waited for one. */
static void become_idle(struct pool *p)
{
    p->is_stopped = false;
    if (p->assignment) {
        free_now(p);
    }
    if (p->leaves) {
        leave_pool(p, leave_ms(p), false);
    } else {
        timer_after(p->warm, p->warm_ms);
    }
}

/* What ended for a signal's sake, or did not begin for one, has not failed: LEFT. */
#define LEFT (128 + SIGTERM)

static void not_started(struct pool *p, uint32_t code, const struct tfe_why *why)
{
    p->end = (struct pool_end){.code = code};
    snprintf(p->end.says, sizeof p->end.says, "%s", why->text);
    log_error("not_started", LOG_S("job", p->job.text), LOG_S("why", why->text));
    if (p->container) { /* it goes before */
        pool_line_done(&p->line);
        container_stop(p->container);
    } else {
        free_now(p);
        timer_after(p->warm, p->warm_ms);
    }
}

static pid_t laying_pid(void *ctx)
{
    const struct pool *p = ctx;
    return p->container ? container_pid(p->container) : p->files ? files_pid(p->files) : 0;
}

/* What the child and the one that waits have in common. */
static struct pool_child_wish child_wish(struct pool *p)
{
    return (struct pool_child_wish){.base = p->base,
                                    .cores = p->cores,
                                    .said = on_said,
                                    .beside = laying_pid,
                                    .ended = on_ended,
                                    .stuck = on_stuck,
                                    .ctx = p};
}

/* A child that waits: it has by then what an agent needs seconds for. */
static void on_warm(evutil_socket_t fd, short what, void *ctx)
{
    struct pool *p = ctx;
    struct tfe_why why;
    extern char **environ;
    size_t n = 0;
    if (p->child || p->leaves || p->is_cold || p->settings->standby.is_off) {
        return;
    }
    while (p->options[n]) {
        n++;
    }
    char **argv = part_new((n + 2) * sizeof *argv);
    argv[0] = p->program;
    memcpy(argv + 1, p->options, n * sizeof *argv);
    struct pool_child_wish wish = child_wish(p);
    wish.argv = argv;
    wish.envp = environ;
    p->warm_ms = backoff_next(p->warm_ms, WARM_AGAIN_MS, WARM_LAST_MS);
    if (pool_child_start(&wish, &p->child, &why)) {
        log_warn("no_standby", LOG_S("why", why.text));
        p->child = NULL;
        timer_after(p->warm, p->warm_ms);
    }
    free(argv);
}

/* The line of the assignment becomes an agent: the one that waits, or a new one. One that waited
 * and has died is not yet cleared away: that calls again. */
static void begin(struct pool *p)
{
    const struct pool_line *line = &p->line;
    struct tfe_why why;
    int rc = 0;
    if (!p->child) {
        struct pool_child_wish wish = child_wish(p);
        wish.argv = line->argv;
        wish.envp = line->envp;
        wish.directory = line->directory;
        wish.scratch = p->scratch;
        wish.container = p->container ? container_fd(p->container) : 0;
        rc = pool_child_start(&wish, &p->child, &why);
    } else if (p->container ||
               pool_child_give(p->child, line->argv, line->envp, line->directory, p->scratch)) {
        pool_child_stop(p->child, 0);
        return;
    }
    if (rc) {
        p->child = NULL;
        not_started(p, POOL_NOT_STARTED, &why);
        return;
    }
    pool_child_log(p->child, p->log_root, p->job.text);
    pool_line_done(&p->line);
    set_standby(p, WARMTH_NONE, NULL);
    log_info("agent_started", LOG_S("job", p->job.text), LOG_I("pid", pool_child_pid(p->child)));
}

/* With what opens sessions as texts, for as long as it takes. */
static int make_line(struct pool *p, const struct msg_assign *assign, bool has_image,
                     struct tfe_why *why)
{
    char token[TOKEN_TEXT_MAX];
    char key[ENROLMENT_TEXT_MAX];
    char endpoint[ENDPOINT_TEXT_MAX];
    extern char **environ;
    token_format(p->info->token, token);
    uplink_key(member_uplink(p->member), key);
    const struct pool_line_wish wish = {
        .program = p->program,
        .options = p->options,
        .environment = (const char *const *)environ,
        .endpoint = endpoint_format(endpoint, p->info->host, p->info->port),
        .token = token,
        .key = key,
        .node_name = p->node_name.text,
        .directory = scratch_path(p->scratch),
        .has_image = has_image,
        .assign = assign,
    };
    p->log_root = assign->spec.clean_policy == CLEAN_ALL ? p->settings->logs.root : NULL;
    int rc = pool_line_make(&wish, &p->line, why);
    explicit_bzero(token, sizeof token);
    explicit_bzero(key, sizeof key);
    return rc;
}

static void stop(struct pool *p, uint32_t within_ms, bool hurries);
static void on_no_files(void *ctx, const char *sentence);

static void on_container(void *ctx, const struct container_facts *facts)
{
    struct pool *p = ctx;
    struct tfe_why why;
    if (pool_line_enter(&p->line, facts, scratch_base(p->scratch), &why)) {
        not_started(p, POOL_NOT_STARTED, &why);
    } else {
        begin(p);
    }
}

static void on_container_ended(void *ctx, const char *why)
{
    struct pool *p = ctx;
    const bool is_asked = is_going(p);
    struct container *ended = p->container;
    p->container = NULL;
    if (p->line.argv) {
        on_no_files(p, why[0] ? why : "it was released before its container stood");
    } else if (is_asked) {
        become_idle(p);
    } else {
        log_warn("container_ended", LOG_S("job", p->job.text), LOG_S("why", why));
        stop(p, leave_ms(p), false);
    }
    container_free(ended); /* which has said why */
}

/* Its files are there: what comes next is its container, or its agent. */
static int go_on(struct pool *p, const struct msg_assign *assign, struct tfe_why *why)
{
    const bool has_image = image_is_run(p->settings, &assign->spec);
    int rc = make_line(p, assign, has_image, why);
    if (rc == 0 && has_image) {
        rc = image_open(
            p->settings, &assign->spec, p->scratch,
            &(struct container_wish){
                .base = p->base, .ready = on_container, .ended = on_container_ended, .ctx = p},
            &p->container, why);
    } else if (rc == 0) {
        begin(p);
    }
    return rc;
}

static void on_files(void *ctx, const struct msg_assign *assign)
{
    struct pool *p = ctx;
    struct tfe_why why;
    p->is_laid = true;
    if (go_on(p, assign, &why)) {
        not_started(p, POOL_NOT_STARTED, &why);
    }
}

static void on_no_files(void *ctx, const char *sentence)
{
    struct pool *p = ctx;
    const uint32_t code = p->is_stopped ? LEFT : POOL_NOT_STARTED;
    struct tfe_why why;
    why_set(&why, "%s", sentence);
    p->is_stopped = false;
    not_started(p, code, &why);
    if (p->leaves) {
        leave_pool(p, leave_ms(p), false);
    }
}

static void say_of_files(void *ctx, const struct tfe_msg *msg)
{
    struct pool *p = ctx;
    if (member_is_up(p->member)) { /* else it is said again once it is */
        uplink_send(member_uplink(p->member), msg);
    }
}

static int lay_files(struct pool *p, const struct msg_assign *assign, struct tfe_why *why)
{
    const struct files_wish wish = {.base = p->base,
                                    .assign = assign,
                                    .scratch = p->scratch,
                                    .state_dir = agent_settings_state_dir(p->settings),
                                    .send = say_of_files,
                                    .ready = on_files,
                                    .failed = on_no_files,
                                    .ctx = p};
    p->is_laid = false;
    return files_new(&wish, &p->files, why);
}

static void on_assign(struct pool *p, const struct msg_assign *assign)
{
    struct tfe_why why;
    if (p->assignment) {
        if (p->assignment != assign->assignment) {
            log_warn("assigned_twice", LOG_U("assignment", assign->assignment),
                     LOG_U("has", p->assignment));
        }
        return;
    }
    p->assignment = assign->assignment;
    p->is_stopped = false;
    (void)id_set(&p->job, assign->spec.name);
    log_info("assigned", LOG_S("job", p->job.text), LOG_U("assignment", p->assignment),
             LOG_S("role", assign->has_role ? msg_task_name(assign->role) : NULL));
    int rc = 0;
    if (p->leaves) {
        why_set(&why, "this node leaves the pool");
        rc = TFE_ESTATE;
    }
    rc = rc ? rc : scratch_new(p->settings->slots > 1, &p->scratch, &why);
    if (rc == 0 && files_are_wanted(&assign->spec)) {
        rc = lay_files(p, assign, &why);
    } else {
        rc = rc ? rc : go_on(p, assign, &why);
    }
    if (rc) {
        not_started(p, p->leaves ? LEFT : POOL_NOT_STARTED, &why);
    }
}

static uint32_t leave_ms(const struct pool *p)
{
    const uint32_t grace_ms = p->settings->agent.preempt_grace_ms;
    return grace_ms < UINT32_MAX - LEAVE_MORE_MS ? grace_ms + LEAVE_MORE_MS : UINT32_MAX;
}

/* What is said again, or of two sides, hurries nobody: a second signal alone does. */
static void stop(struct pool *p, uint32_t within_ms, bool hurries)
{
    const bool is_told = p->is_stopped;
    p->is_stopped = true;
    if (p->container && is_laying(p)) {
        container_stop(p->container);
    } else if (is_laying(p)) {
        files_stop(p->files); /* who waits beside them may wait on */
    } else if (p->child && (!is_told || hurries)) {
        pool_child_stop(p->child, within_ms);
    }
}

/* Once nothing runs below it. */
static void leave_pool(struct pool *p, uint32_t within_ms, bool hurries)
{
    if (p->child || p->container || is_laying(p)) {
        stop(p, within_ms, hurries);
    } else if (member_is_up(p->member)) {
        member_goodbye(p->member);
    } else {
        leave(p, leave_code(p));
    }
}

/* Nothing is left of an assignment that this node does not have, whether it had it or not. */
static void on_release(struct pool *p, const struct msg_release *release)
{
    const uint32_t within_ms = release->within_ms ? release->within_ms : leave_ms(p);
    if (release->out != OUT_NOT && !p->leaves &&
        (release->assignment == p->assignment || !p->assignment)) {
        p->leaves = SIGTERM;
        p->out = release->out;
        log_info("leaving", LOG_S("why", release->says[0] ? release->says : NULL));
        leave_pool(p, within_ms, false);
        return;
    }
    if (release->assignment && release->assignment != p->assignment) {
        struct tfe_msg msg = {.type = MSG_FREED,
                              .u.freed = {.assignment = release->assignment, .says = ""}};
        uplink_send(member_uplink(p->member), &msg);
    }
    if (p->scratch && release->assignment == p->assignment) {
        log_info("released", LOG_S("job", p->job.text), LOG_U("assignment", p->assignment),
                 LOG_S("why", release->says[0] ? release->says : NULL));
        if (p->child && release->over) {
            pool_child_over(p->child);
        }
        stop(p, within_ms, false);
    }
}

/* --- events ----------------------------------------------------------------------------------- */

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
            files_take(p->files, &msg->u.chunk);
        }
        break;
    default: /* of other agents */
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

static void report_say(void *ctx, const struct tfe_msg *msg)
{
    struct pool *p = ctx;
    uplink_offer(member_uplink(p->member), msg);
}

static enum tfe_standby report_asks(void *ctx)
{
    const struct pool *p = ctx;
    return p->standby;
}

static void on_cloud(void *ctx, const struct cloud_facts *facts)
{
    const struct pool *p = ctx;
    report_cloud(p->report, facts);
}

static void say_warning(void *ctx, const struct msg_notice *notice)
{
    const struct pool *p = ctx;
    uplink_send(member_uplink(p->member),
                &(struct tfe_msg){.type = MSG_NOTICE, .u.notice = *notice});
}

/* --- from start to end ------------------------------------------------------------------------ */

static void make_parts(struct pool *p)
{
    const struct agent_settings *s = p->settings;
    p->base = event_base_new();
    part_must(p->base);
    p->warm = evtimer_new(p->base, on_warm, p);
    part_must(p->warm);
    quit_watch(p->base, on_signal, p, 0, p->quit);
    p->watchdog = notify_watchdog(p->base);
    p->report = report_new(&(struct report_wish){
        .base = p->base, .nproc = 1, .send = report_say, .standby = report_asks, .ctx = p});
    p->warnings = warnings_new(&(struct warnings_wish){.base = p->base,
                                                       .choice = &s->notice,
                                                       .grace_ms = s->agent.preempt_grace_ms,
                                                       .on_cloud = on_cloud,
                                                       .say = say_warning,
                                                       .ctx = p});
    p->member = member_new(&(struct member_wish){.base = p->base,
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

int pool_run(const struct agent_settings *settings, const struct join_info *info,
             char *const *options, uint32_t slot, const struct rlimit *cores)
{
    struct pool p = {.settings = settings,
                     .info = info,
                     .options = options,
                     .slot = slot,
                     .cores = cores,
                     .exit_code = AGENT_EXIT_FAILED};
    ssize_t n = readlink("/proc/self/exe", p.program, sizeof p.program - 1);
    p.program[n > 0 ? n : 0] = '\0';
    pool_name(settings, slot, &p.node_name);
    make_parts(&p);
    timer_after(p.warm, 0);
    notify_say("READY=1"); /* to wait for a server is its work, too */
    event_base_dispatch(p.base);
    notify_say("STOPPING=1");
    pool_child_free(p.child); /* it is stuck: what it has left stays, but no file */
    container_free(p.container);
    job_drop(&p);
    warnings_free(p.warnings);
    report_free(p.report);
    member_free(p.member);
    event_drop(&p.warm);
    quit_forget(p.quit);
    event_drop(&p.watchdog);
    event_base_free(p.base);
    if (settings->on_finish && (p.out == OUT_IDLE || p.out == OUT_DRAINED)) {
        finish_run(settings->on_finish, p.node_name.text, msg_out_name(p.out));
    }
    return p.exit_code;
}
