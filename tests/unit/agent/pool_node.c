/* tests/unit/agent/pool_node.c: implementation of pool_node.h. */
#include "tests/unit/agent/pool_node.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/pool/agent_args.h"
#include "agent/pool/finish.h"
#include "agent/pool/handover.h"
#include "agent/pool/image.h"
#include "agent/pool/pool_node.h"
#include "agent/pool/scratch.h"
#include "agent/preemption/preemption.h"
#include "agent/server_report.h"
#include "common/cli/signals.h"
#include "tests/unit/fake_clock.h"

struct pool_node_bench node;

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    const size_t n = strlen(node.said);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(node.said + n, sizeof node.said - n, format, args);
    va_end(args);
}

/* --- event loop --- */

int __wrap_event_base_dispatch(struct event_base *base);
int __wrap_event_base_dispatch(struct event_base *base)
{
    node.base = base;
    node.story();
    return 0;
}

int __wrap_event_base_loopbreak(struct event_base *base);
int __wrap_event_base_loopbreak(struct event_base *base)
{
    node.is_over = true;
    return 0;
}

void node_pass(int64_t ms)
{
    fake_clock_pass(node.base, ms);
}

void __wrap_signals_watch_termination(struct event_base *base, event_callback_fn fn, void *ctx,
                                      int not_this, struct event *ret[TERMINATION_SIGNALS]);
void __wrap_signals_watch_termination(struct event_base *base, event_callback_fn fn, void *ctx,
                                      int not_this, struct event *ret[TERMINATION_SIGNALS])
{
    node.on_signal = fn;
    node.signal_ctx = ctx;
}

void node_signal_comes(int signo)
{
    node.on_signal(signo, EV_SIGNAL, node.signal_ctx);
}

/* --- connection --- */

struct uplink *__wrap_uplink_new(struct event_base *base, const struct join_info *info,
                                 const char *state_dir, const char *address_host,
                                 uplink_event_fn *on_event, void *ctx);
struct uplink *__wrap_uplink_new(struct event_base *base, const struct join_info *info,
                                 const char *state_dir, const char *address_host,
                                 uplink_event_fn *on_event, void *ctx)
{
    node.on_event = on_event;
    node.ctx = ctx;
    return NULL;
}

void __wrap_uplink_free(struct uplink *u);
void __wrap_uplink_free(struct uplink *u) {}

void __wrap_uplink_key(struct uplink *u, char ret[ENROLLMENT_TEXT_MAX]);
void __wrap_uplink_key(struct uplink *u, char ret[ENROLLMENT_TEXT_MAX])
{
    ret[0] = '\0';
}

void __wrap_uplink_connect(struct uplink *u);
void __wrap_uplink_connect(struct uplink *u)
{
    say("connect; ");
}

void __wrap_uplink_finish(struct uplink *u);
void __wrap_uplink_finish(struct uplink *u)
{
    say("finish; ");
}

void __wrap_uplink_hang_up(struct uplink *u);
void __wrap_uplink_hang_up(struct uplink *u)
{
    say("hang up; ");
}

void __wrap_uplink_send(struct uplink *u, const struct tfe_msg *msg);
void __wrap_uplink_send(struct uplink *u, const struct tfe_msg *msg)
{
    if (msg->type == MSG_POOL) {
        say("POOL %s has %llu idle %u floor %u; ", msg->u.pool.node_name,
            (unsigned long long)msg->u.pool.assignment, (unsigned)msg->u.pool.idle_exit_ms,
            (unsigned)msg->u.pool.floor);
    } else if (msg->type == MSG_FREED) {
        say("FREED %llu %u %s; ", (unsigned long long)msg->u.freed.assignment,
            (unsigned)msg->u.freed.code, msg->u.freed.says);
    } else if (msg->type == MSG_NOTICE) {
        say("NOTICE %s%s%s in %d; ", msg_notice_name(msg->u.notice.kind),
            msg->u.notice.withdrawn ? " withdrawn" : "",
            msg->u.notice.uncertain ? " uncertain" : "", (int)msg->u.notice.deadline_ms);
    } else if (msg->type == MSG_RENEW) {
        say("RENEW %llu; ", (unsigned long long)msg->u.renew.number);
    } else {
        say("%s; ", msg_type_name(msg->type));
    }
}

void node_message(struct tfe_msg msg)
{
    node.on_event(node.ctx, &(struct agent_event){.type = AGENT_MESSAGE, .msg = &msg});
}

void node_welcome(void)
{
    node_message((struct tfe_msg){
        .type = MSG_WELCOME,
        .u.welcome = {.renew_ms = 3000, .ttl_ms = 9000, .spread_ms = 700, .node = "n"}});
}

void node_connected(void)
{
    node.on_event(node.ctx, &(struct agent_event){.type = AGENT_CONNECTED, .host = "192.0.2.1"});
}

void node_disconnected_by(enum agent_link how)
{
    node.on_event(node.ctx, &(struct agent_event){.type = AGENT_DISCONNECTED,
                                                  .lost = {.how = how, .reason = "so it was"}});
}

void node_disconnected(void)
{
    node_disconnected_by(AGENT_LINK_LOST);
}

struct tfe_msg node_assign(uint64_t assignment)
{
    static const char *const argv[] = {"python", "train.py"};
    return (struct tfe_msg){.type = MSG_ASSIGN,
                            .u.assign = {.assignment = assignment,
                                         .run_key = "key",
                                         .spec = {.name = "j",
                                                  .min_nodes = 1,
                                                  .max_nodes = 1,
                                                  .nproc = 1,
                                                  .argv = argv,
                                                  .n_argv = 2,
                                                  .source = "",
                                                  .backoff_limit = MSG_UNSET,
                                                  .restart_policies = MSG_UNSET}}};
}

void node_assigned(uint64_t assignment)
{
    node_message(node_assign(assignment));
}

void node_released(uint64_t assignment, uint32_t within_ms, enum tfe_out out, bool is_over)
{
    node_message((struct tfe_msg){.type = MSG_RELEASE,
                                  .u.release = {.assignment = assignment,
                                                .within_ms = within_ms,
                                                .says = "so it is",
                                                .out = out,
                                                .over = is_over}});
}

/* --- log --- */

struct report *__wrap_report_new(const struct report_options *options);
struct report *__wrap_report_new(const struct report_options *options)
{
    return NULL;
}

void __wrap_report_free(struct report *r);
void __wrap_report_free(struct report *r) {}

void __wrap_report_up(struct report *r);
void __wrap_report_up(struct report *r) {}

void __wrap_report_down(struct report *r);
void __wrap_report_down(struct report *r) {}

void __real_notice_watch_set_running(struct notice_watch *notices, bool is_running);
void __wrap_notice_watch_set_running(struct notice_watch *notices, bool is_running);
void __wrap_notice_watch_set_running(struct notice_watch *notices, bool is_running)
{
    node.is_running = is_running;
    __real_notice_watch_set_running(notices, is_running);
}

struct notice_watch *__real_notice_watch_new(struct event_base *base,
                                             const struct notice_watch_options *options,
                                             notice_fn *on_notice, void *ctx);
struct notice_watch *__wrap_notice_watch_new(struct event_base *base,
                                             const struct notice_watch_options *options,
                                             notice_fn *on_notice, void *ctx);
struct notice_watch *__wrap_notice_watch_new(struct event_base *base,
                                             const struct notice_watch_options *options,
                                             notice_fn *on_notice, void *ctx)
{
    node.azure_ms = options->intervals->azure_ms;
    return __real_notice_watch_new(base, options, on_notice, ctx);
}

/* --- child agents --- */

static struct pool_child *const the_child = (struct pool_child *)&node.child;

int __wrap_pool_child_start(const struct pool_child_options *options, struct pool_child **ret,
                            struct tfe_reason *reason);
int __wrap_pool_child_start(const struct pool_child_options *options, struct pool_child **ret,
                            struct tfe_reason *reason)
{
    assert_false(node.has_child);
    if (!node.starts) {
        reason_set(reason, "no process can be started");
        return TFE_ESYS;
    }
    node.child = *options;
    node.has_child = true;
    node.is_dead = node.is_stuck = false;
    assert_int_equal(options->handover->assignment != 0, 1);
    if (options->engine) {
        assert_string_equal(options->container, "its-container");
    }
    say(options->engine ? "run; " : "start; ");
    *ret = the_child;
    return 0;
}

void __wrap_pool_child_log(struct pool_child *c, const char *root, const char *job);
void __wrap_pool_child_log(struct pool_child *c, const char *root, const char *job)
{
    (void)snprintf(node.job_root, sizeof node.job_root, "%s of %s", root ? root : "-", job);
}

void __wrap_pool_child_over(struct pool_child *c);
void __wrap_pool_child_over(struct pool_child *c)
{
    say("over; ");
}

pid_t __wrap_pool_child_pid(const struct pool_child *c);
pid_t __wrap_pool_child_pid(const struct pool_child *c)
{
    return node.is_dead ? 0 : 7;
}

bool __wrap_pool_child_is_stuck(const struct pool_child *c);
bool __wrap_pool_child_is_stuck(const struct pool_child *c)
{
    return node.is_stuck;
}

void __wrap_pool_child_stop(struct pool_child *c, uint32_t within_ms);
void __wrap_pool_child_stop(struct pool_child *c, uint32_t within_ms)
{
    say("stop %u; ", (unsigned)within_ms);
}

void __wrap_pool_child_free(struct pool_child *c);
void __wrap_pool_child_free(struct pool_child *c)
{
    node.has_child = false;
}

void node_ended(uint32_t code)
{
    node.child.ended(node.child.ctx, &(struct pool_end){.code = code, .message = "it ended"});
}

int __wrap_agent_args_make(const struct agent_args_options *options, struct agent_args *ret,
                           struct tfe_reason *reason);
int __wrap_agent_args_make(const struct agent_args_options *options, struct agent_args *ret,
                           struct tfe_reason *reason)
{
    static char *words[] = {"agent", NULL};
    if (options->assign->spec.chief) { /* simulates an assignment that cannot be started */
        reason_set(reason, "it wants what cannot be");
        return TFE_EINVAL;
    }
    assert_string_equal(options->directory, "/its/own");
    ret->argv = words;
    return 0;
}

void __wrap_agent_args_done(struct agent_args *line);
void __wrap_agent_args_done(struct agent_args *line)
{
    *line = (struct agent_args){.argv = NULL};
}

int __wrap_scratch_new(bool has_neighbours, struct scratch **ret, struct tfe_reason *reason);
int __wrap_scratch_new(bool has_neighbours, struct scratch **ret, struct tfe_reason *reason)
{
    assert_false(node.has_scratch);
    node.has_scratch = true;
    node.neighbours = has_neighbours;
    *ret = (struct scratch *)&node;
    return 0;
}

const char *__wrap_scratch_path(const struct scratch *s);
const char *__wrap_scratch_path(const struct scratch *s)
{
    return "/its/own";
}

void __wrap_scratch_free(struct scratch *s);
void __wrap_scratch_free(struct scratch *s)
{
    node.has_scratch = node.has_scratch && !s;
}

/* --- files --- */

int __wrap_files_new(const struct files_options *options, struct files **ret,
                     struct tfe_reason *reason);
int __wrap_files_new(const struct files_options *options, struct files **ret,
                     struct tfe_reason *reason)
{
    if (!node.lays) {
        reason_set(reason, "no room for them");
        return TFE_ESYS;
    }
    assert_false(node.has_files);
    node.files = *options;
    node.has_files = true;
    say("lay; ");
    *ret = (struct files *)&node.files;
    return 0;
}

void __wrap_files_free(struct files *files);
void __wrap_files_free(struct files *files)
{
    node.has_files = node.has_files && !files;
}

void __wrap_files_welcome(struct files *files);
void __wrap_files_welcome(struct files *files)
{
    say("files again; ");
}

void __wrap_files_handle_chunk(struct files *files, const struct msg_chunk *chunk);
void __wrap_files_handle_chunk(struct files *files, const struct msg_chunk *chunk)
{
    say("chunk; ");
}

void __wrap_files_stop(struct files *files);
void __wrap_files_stop(struct files *files)
{
    say("files stop; ");
}

void __wrap_finish_run(const char *command, const char *node_name, const char *reason);
void __wrap_finish_run(const char *command, const char *node_name, const char *reason)
{
    say("finish %s for %s: %s; ", command, node_name, reason);
}

/* --- containers --- */

bool __wrap_image_is_run(const struct agent_settings *settings, const struct msg_spec *spec);
bool __wrap_image_is_run(const struct agent_settings *settings, const struct msg_spec *spec)
{
    return spec->image != NULL;
}

const char *__wrap_image_container(const struct scratch *scratch);
const char *__wrap_image_container(const struct scratch *scratch)
{
    return "its-container";
}

int __wrap_image_enter(const struct agent_settings *settings, const struct msg_spec *spec,
                       const struct scratch *scratch, const struct toolbox *toolbox,
                       struct agent_args *line, struct handover *handover,
                       struct tfe_reason *reason);
int __wrap_image_enter(const struct agent_settings *settings, const struct msg_spec *spec,
                       const struct scratch *scratch, const struct toolbox *toolbox,
                       struct agent_args *line, struct handover *handover,
                       struct tfe_reason *reason)
{
    reason_set(reason, "there is no way in");
    return node.enters ? 0 : TFE_EINVAL;
}

/* --- lifetime --- */

int node_begin(void **state)
{
    memset(&node, 0, sizeof node);
    fake_clock_init();
    node.starts = node.lays = node.enters = true;
    agent_settings_init(&node.settings);
    node.settings.slots = 1;
    node.settings.agent.node_name = "host";
    node.settings.agent.join_timeout_ms = 60000;
    node.settings.agent.preempt_grace_ms = 30000;
    node.settings.agent.monitor_interval_ms = 0;
    return 0;
}

int node_end(void **state)
{
    assert_false(node.has_scratch);
    assert_false(node.has_files);
    return 0;
}

int node_run_slot(void (*story)(void), uint32_t slot)
{
    static struct token token;
    const struct join_info info = {.host = "server", .port = 5556, .token = &token};
    static char *const options[] = {"--pool", NULL};
    node.story = story;
    return pool_run(&node.settings, &info, options, slot, NULL);
}

int node_run(void (*story)(void))
{
    return node_run_slot(story, 0);
}

void node_said_is(const char *expected)
{
    assert_string_equal(node.said, expected);
    node.said[0] = '\0';
}

void node_quiet(void)
{
    node.said[0] = '\0';
}

void node_up(void)
{
    node_pass(0);
    node_connected();
    node_welcome();
    node_quiet();
}

void node_works(uint64_t assignment)
{
    node_up();
    node_assigned(assignment);
    node_said_is("start; ");
}

void node_leaves(void)
{
    if (node.has_child) {
        node_signal_comes(SIGTERM);
        node_ended(143);
    } else {
        node_signal_comes(SIGTERM);
    }
    node_disconnected();
    assert_true(node.is_over);
}
