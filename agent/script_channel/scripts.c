/* agent/script_channel/scripts.c: the state of the scripts that use the channel. */
#include "agent/script_channel/scripts.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/private_dir.h"
#include "agent/os/trainer_user.h"
#include "agent/script_channel/checkpoints.h"
#include "agent/script_channel/script_message.h"
#include "agent/script_channel/script_socket.h"
#include "agent/script_channel/state_memory.h"
#include "agent/script_channel/trainer_tmp.h"
#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/message/msg.h"

/* Limits the share of the event loop that a busy script can use: after MESSAGES_PER_EVENT datagrams
 * reading pauses. Senders retry while the socket is full. */
#define MESSAGES_PER_EVENT 32
#define PAUSE_MS 5
/* Maximum number of datagrams read when a trainer has ended, because its last
 * messages precede its exit. */
#define LAST_MESSAGES_MAX 512
/* Retry interval for messages to a script whose queue is full. */
#define RETRY_MS 50
/* Maximum number of verified senders per epoch. */
#define KNOWN_MAX 64

#define PATH_BYTES (PRIVATE_DIR_MAX + 20)

/* State of the script of one local rank in this epoch. */
struct script {
    pid_t pid;                       /* pid of the listening script, or 0 */
    bool save_pending, stop_pending; /* messages not sent yet because the script's queue was full */
    bool partitioned;      /* checkpoints are independent of the number of parameter servers */
    bool memory_requested; /* a memory request is unanswered */
    bool handles;          /* the script handles SIGTERM */
    bool ends;             /* the script has started to exit with status 0 */
    bool has_step, has_trained;
    bool reports_steps; /* the script reports its own steps, so hooks are ignored */
    uint64_t step;
};

/* State of the running epoch. */
struct epoch {
    uint32_t rank; /* rank of the first trainer */
    /* The node's progress; its epoch is 0 if no trainer runs. One checkpoint covers all ranks. */
    struct msg_progress progress;
    struct script scripts[MSG_NPROC_MAX];
    uint64_t changed;       /* bitmap by local rank of unreported changes */
    pid_t known[KNOWN_MAX]; /* verified senders */
    size_t n_known;
    /* A script has reported a checkpoint, so other observations are ignored. */
    bool script_reported;
    bool hook_observed; /* a hook has observed a checkpoint, so the watched directory is ignored */
    bool keras3_logged;
    uint64_t save_number; /* number of the newest save request, or 0 */
    struct tfe_mono save_by;
    bool save_in_memory;     /* a snapshot in memory answers the save request */
    struct tfe_mono stop_by; /* NEVER if no stop was sent */
    bool stop_in_memory;
};

struct scripts {
    struct scripts_options options;
    struct private_dir dir;
    char socket_path[PATH_BYTES], preempt_path[PATH_BYTES], tmp_path[PATH_BYTES];
    char artifacts_path[PATH_BYTES]; /* "" if there is none */
    struct trainer_tmp *tmp;
    int fd;
    struct event *readable, *pause, *retry;
    struct checkpoints *watch;
    struct state_memory *memory;
    struct epoch epoch;
    struct tfe_mono read_at;
    struct msg_memory snapshots[MSG_NPROC_MAX]; /* by local rank, across epochs */
    uint64_t n_rejected;
};

_Static_assert(MSG_NPROC_MAX <= 64, "changed has a bit for each trainer");

/* --- reports to the core --- */

static void mark_changed(struct scripts *s, uint32_t local)
{
    s->epoch.changed |= UINT64_C(1) << local;
}

/* Returns the total size of all memory and the newest snapshot in it. */
static struct msg_memory memory_of_node(const struct scripts *s)
{
    struct msg_memory all = {.bytes = 0};
    for (uint32_t local = 0; local < s->options.nproc; local++) {
        const struct msg_memory *m = &s->snapshots[local];
        bool is_newer = m->epoch > all.epoch || (m->epoch == all.epoch && m->step > all.step);
        uint64_t bytes =
            m->bytes < MSG_NUMBER_MAX - all.bytes ? all.bytes + m->bytes : MSG_NUMBER_MAX;
        if (m->has_snapshot && (!all.has_snapshot || is_newer)) {
            all = *m;
        }
        all.bytes = bytes;
    }
    return all;
}

/* Reports each changed trainer once, however many messages it sent. */
static void report_changes(struct scripts *s)
{
    uint64_t changed = s->epoch.changed;
    s->epoch.changed = 0;
    for (uint32_t local = 0; local < s->options.nproc && s->epoch.progress.epoch; local++) {
        if (!(changed >> local & 1)) {
            continue;
        }
        const struct script *script = &s->epoch.scripts[local];
        struct msg_progress progress = s->epoch.progress;
        progress.listens = script->pid != 0;
        progress.has_step = script->has_step;
        progress.step = script->step;
        progress.memory = memory_of_node(s);
        progress.ends = script->ends;
        progress.partitioned = script->partitioned;
        s->options.on_progress(s->options.ctx, local, script->has_trained, &progress);
    }
}

/* Counts a checkpoint; reports of the same one by several ranks count once. */
static void record_checkpoint(struct scripts *s, uint32_t local, bool has_step, uint64_t step,
                              uint64_t answers)
{
    struct msg_progress *p = &s->epoch.progress;
    if (!has_step || !p->has_saved || p->saved_step != step) {
        p->saves++;
    }
    p->has_saved = p->has_saved || has_step;
    p->saved_step = has_step ? step : p->saved_step;
    p->answers = answers > p->answers ? answers : p->answers;
    mark_changed(s, local);
}

static void on_checkpoint(void *ctx, bool has_step, uint64_t step, uint64_t answers)
{
    struct scripts *s = ctx;
    if (s->epoch.progress.epoch && !s->epoch.script_reported && !s->epoch.hook_observed) {
        record_checkpoint(s, 0, has_step, step, answers);
        report_changes(s);
    }
}

/* --- messages to the scripts --- */

static uint64_t ms_until(struct tfe_mono deadline)
{
    int64_t ms = tfe_mono_sub(deadline, clock_mono());
    return ms > 0 ? (uint64_t)ms : 0;
}

/* Sends a message, with a descriptor if file is not -1. Returns false to retry later. Forgets a
 * listener that is gone. */
static bool send_to(struct scripts *s, uint32_t local, const char *text, size_t n, int file)
{
    struct script *script = &s->epoch.scripts[local];
    if (n == 0) {
        return false; /* out of memory */
    }
    int rc = script_socket_send(s->fd, s->dir.fd, script->pid, text, n, file);
    if (rc == TFE_ESYS) {
        log_debug("script_gone", LOG_U("local_rank", local), LOG_I("pid", script->pid));
        script->pid = 0;
        mark_changed(s, local);
    }
    return rc != TFE_ESTATE;
}

/* Sends the script's pending messages. Returns false if some remain. */
static bool send_pending(struct scripts *s, uint32_t local)
{
    const struct epoch *e = &s->epoch;
    struct script *script = &s->epoch.scripts[local];
    char text[SCRIPT_REPLY_MAX];
    if (script->pid && script->save_pending) {
        bool has_within = !tfe_mono_is_never(e->save_by);
        size_t n = script_message_save(text, e->progress.epoch, e->save_number, has_within,
                                       has_within ? ms_until(e->save_by) : 0, e->save_in_memory);
        script->save_pending = !send_to(s, local, text, n, -1);
    }
    if (script->pid && script->stop_pending) {
        size_t n =
            script_message_stop(text, e->progress.epoch, ms_until(e->stop_by), e->stop_in_memory);
        script->stop_pending = !send_to(s, local, text, n, -1);
    }
    return !script->pid || (!script->save_pending && !script->stop_pending);
}

static void send_all_pending(struct scripts *s)
{
    bool all = true;
    for (uint32_t local = 0; local < s->options.nproc; local++) {
        all = send_pending(s, local) && all;
    }
    if (!all) {
        timer_after(s->retry, RETRY_MS);
    }
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
    struct scripts *s = ctx;
    send_all_pending(s);
    report_changes(s);
}

/* If the message cannot be sent now, the script repeats its request. */
static void on_memory(void *ctx, uint32_t local, int fd, uint64_t bytes, const char *reason)
{
    struct scripts *s = ctx;
    struct script *script = &s->epoch.scripts[local];
    if (fd >= 0 && s->snapshots[local].bytes != bytes) {
        /* new, larger memory without a snapshot */
        s->snapshots[local] = (struct msg_memory){.bytes = bytes};
        mark_changed(s, local);
    }
    if (s->epoch.progress.epoch && script->pid && script->memory_requested) {
        char text[SCRIPT_REPLY_MAX];
        size_t n = script_message_memory(text, s->epoch.progress.epoch, bytes, reason);
        script->memory_requested = !send_to(s, local, text, n, fd);
    }
}

/* --- messages from the scripts --- */

static void reject_message(struct scripts *s, const char *reason, pid_t pid)
{
    if (s->n_rejected++ == 0) {
        log_warn("script_message_refused", LOG_S("reason", reason), LOG_I("pid", pid));
    }
}

static void handle_hello(struct scripts *s, uint32_t local, const struct script_message *m)
{
    struct script *script = &s->epoch.scripts[local];
    script->pid = m->listens ? m->pid : 0;
    script->partitioned = m->partitioned;
    script->save_pending = m->listens && s->epoch.save_number;
    script->stop_pending = m->listens && !tfe_mono_is_never(s->epoch.stop_by);
    mark_changed(s, local);
    if (!send_pending(s, local)) {
        timer_after(s->retry, RETRY_MS);
    }
}

/* Passes a message on to the agent. */
static void forward(struct scripts *s, uint32_t local, const struct script_message *m)
{
    if (s->options.on_message) {
        s->options.on_message(s->options.ctx, local, m);
    }
}

static void handle_progress(struct scripts *s, uint32_t local, const struct script_message *m)
{
    struct script *script = &s->epoch.scripts[local];
    if (m->seen && script->reports_steps) {
        return;
    }
    if (m->has_step) {
        script->reports_steps = !m->seen;
        script->has_step = true;
        script->step = m->step;
        script->has_trained |= !m->restored;
    }
    if (m->metrics.n > 0 || m->samples > 0 || m->total > 0) {
        struct script_message report = *m;
        report.step = script->step;
        forward(s, local, &report);
    }
    if (m->restored && !m->seen) { /* a hook may have seen another model being restored */
        s->epoch.progress.has_from = true;
        s->epoch.progress.from_step = m->step;
    }
    mark_changed(s, local);
}

/* Records a complete snapshot in the memory of this trainer. */
static void handle_snapshot(struct scripts *s, uint32_t local, const struct script_message *m,
                            pid_t pid)
{
    struct msg_memory *snapshot = &s->snapshots[local];
    struct msg_progress *p = &s->epoch.progress;
    if (snapshot->bytes == 0) {
        reject_message(s, "a snapshot was reported without memory for one", pid);
        return;
    }
    snapshot->has_snapshot = true;
    snapshot->epoch = p->epoch;
    snapshot->step = m->step;
    p->snapshot_answers = m->answers > p->snapshot_answers ? m->answers : p->snapshot_answers;
    mark_changed(s, local);
}

/* Records a checkpoint. A script that listens reports its own checkpoints, because only it knows
 * which save request they answer. */
static void handle_checkpoint(struct scripts *s, uint32_t local, const struct script_message *m)
{
    if (m->seen && (s->epoch.script_reported || s->epoch.scripts[local].pid)) {
        return;
    }
    s->epoch.script_reported = s->epoch.script_reported || !m->seen;
    s->epoch.hook_observed = s->epoch.hook_observed || m->seen;
    log_debug("checkpoint_reported", LOG_S("by", m->seen ? "hook" : "script"),
              LOG_U("step", m->step));
    record_checkpoint(s, local, m->has_step, m->step, m->answers);
}

static void handle_remark(struct scripts *s, uint32_t local, const struct script_message *m)
{
    if (m->remark == REMARK_HOOK_FAILED) {
        log_debug("hook_failed", LOG_S("reason", m->reason));
    } else if (m->remark == REMARK_STRATEGY_MADE || m->remark == REMARK_IMPORTED) {
        forward(s, local, m);
    } else if (m->remark == REMARK_KERAS3_FIT && !s->epoch.keras3_logged) {
        s->epoch.keras3_logged = true;
        log_warn("keras3_fit",
                 LOG_S("reason", "fit() of Keras 3 fails with more than one worker (use tf_keras "
                                 "with TF_USE_LEGACY_KERAS=1, or a custom training loop)"));
    }
}

static void handle_message(struct scripts *s, const struct script_message *m, pid_t pid)
{
    const struct epoch *e = &s->epoch;
    if (!e->progress.epoch || m->epoch < e->progress.epoch) {
        return; /* late message of an ended epoch */
    }
    if (m->epoch != e->progress.epoch || m->rank < e->rank ||
        m->rank - e->rank >= s->options.nproc) {
        reject_message(s, "the epoch or rank does not belong to this node", pid);
        return;
    }
    if (m->answers > e->save_number) {
        reject_message(s, "the answered save request was never sent", pid);
        return;
    }
    uint32_t local = m->rank - e->rank;
    switch (m->type) {
    case SCRIPT_HELLO:
        handle_hello(s, local, m);
        return;
    case SCRIPT_PROGRESS:
        handle_progress(s, local, m);
        return;
    case SCRIPT_MEMORY:
        s->epoch.scripts[local].memory_requested = true;
        state_memory_request(s->memory, local, m->bytes);
        return;
    case SCRIPT_CHECKPOINT:
        handle_checkpoint(s, local, m);
        return;
    case SCRIPT_HANDLER:
        s->epoch.scripts[local].handles = m->handles;
        return;
    case SCRIPT_REMARK:
        handle_remark(s, local, m);
        return;
    case SCRIPT_SNAPSHOT:
        handle_snapshot(s, local, m, pid);
        return;
    case SCRIPT_ENDS:
        s->epoch.scripts[local].ends = s->epoch.scripts[local].ends || m->code == 0;
        mark_changed(s, local);
        forward(s, local, m);
        return;
    case SCRIPT_ARTIFACT:
        forward(s, local, m);
        return;
    }
}

void scripts_printed(struct scripts *s, uint32_t local, struct script_message *progress)
{
    if (s->epoch.progress.epoch) {
        progress->epoch = s->epoch.progress.epoch;
        progress->rank = s->epoch.rank + local;
        handle_progress(s, local, progress);
        report_changes(s);
    }
}

/* Checks each sender once per epoch, because walking up its parents needs
 * several reads in /proc. */
static bool sender_is_descendant(struct scripts *s, pid_t pid)
{
    struct epoch *e = &s->epoch;
    for (size_t i = 0; i < e->n_known; i++) {
        if (e->known[i] == pid) {
            return true;
        }
    }
    if (!script_socket_may_be_descendant(pid)) {
        return false;
    }
    if (e->n_known < KNOWN_MAX) {
        e->known[e->n_known++] = pid;
    }
    return true;
}

/* Handles one datagram. Returns false if there was none. */
static bool receive_one(struct scripts *s)
{
    char bytes[SCRIPT_MESSAGE_MAX];
    struct ucred sender;
    struct script_message m;
    struct tfe_reason reason;
    ssize_t n = script_socket_receive(s->fd, bytes, sizeof(bytes), &sender);
    if (n < 0) {
        return false;
    }
    if (sender.uid != trainer_user_uid()) {
        reject_message(s, "the sender runs as another user", sender.pid);
    } else if ((size_t)n > sizeof(bytes)) {
        reject_message(s, "the message is too long", sender.pid);
    } else if (!sender_is_descendant(s, sender.pid)) {
        reject_message(s, "the sender is not a process of this agent", sender.pid);
    } else if (script_message_read(bytes, (size_t)n, &m, &reason)) {
        reject_message(s, reason.text, sender.pid);
    } else {
        handle_message(s, &m, sender.pid);
    }
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    struct scripts *s = ctx;
    struct tfe_mono now = clock_mono();
    bool is_busy = tfe_mono_sub(now, s->read_at) <= PAUSE_MS;
    s->read_at = now;
    int n = 0;
    while (n < MESSAGES_PER_EVENT && receive_one(s)) {
        n++;
    }
    if (is_busy || n == MESSAGES_PER_EVENT) {
        event_del(s->readable);
        timer_after(s->pause, PAUSE_MS);
    }
    report_changes(s);
}

/* Processes all messages and checkpoints that exist now. */
static void catch_up(struct scripts *s)
{
    if (!s->epoch.progress.epoch) {
        return;
    }
    for (int i = 0; s->fd >= 0 && i < LAST_MESSAGES_MAX && receive_one(s); i++) {
    }
    if (s->watch) {
        checkpoints_catch_up(s->watch);
    }
    report_changes(s);
}

static void on_pause_over(evutil_socket_t fd, short what, void *ctx)
{
    struct scripts *s = ctx;
    event_add(s->readable, NULL);
}

/* --- requests of the agent --- */

static void forget_epoch(struct scripts *s)
{
    s->epoch = (struct epoch){.save_by = TFE_MONO_NEVER, .stop_by = TFE_MONO_NEVER};
    evtimer_del(s->retry);
}

void scripts_begin(struct scripts *s, uint64_t epoch, uint32_t rank)
{
    scripts_end(s);
    if (scripts_tmp_dir(s)) {
        trainer_tmp_begin(s->tmp);
    }
    s->epoch.progress.epoch = epoch;
    s->epoch.rank = rank;
    if (s->watch) {
        checkpoints_begin(s->watch);
    }
}

void scripts_end(struct scripts *s)
{
    catch_up(s);
    forget_epoch(s);
    private_dir_clear(&s->dir, PRIVATE_DIR_PREEMPT);
    private_dir_clear(&s->dir, PRIVATE_DIR_SCRIPT);
    trainer_tmp_end(s->tmp);
}

void scripts_trainer_ended(struct scripts *s, uint32_t local)
{
    catch_up(s);
    if (local < s->options.nproc && s->epoch.scripts[local].pid) {
        s->epoch.scripts[local].pid = 0;
        mark_changed(s, local);
        report_changes(s);
    }
}

static void create_preempt_file(struct scripts *s)
{
    if (s->dir.fd < 0) {
        return;
    }
    int fd = openat(s->dir.fd, PRIVATE_DIR_PREEMPT, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        return; /* do not open it: another user could have created anything there */
    }
    if (fd < 0) {
        log_warn("preempt_file", LOG_S("reason", strerror(errno)));
        return;
    }
    close(fd);
}

void scripts_save(struct scripts *s, uint64_t epoch, uint64_t number, struct tfe_mono deadline,
                  bool in_memory)
{
    struct epoch *e = &s->epoch;
    if (!e->progress.epoch || epoch != e->progress.epoch) {
        return;
    }
    if (s->watch) {
        checkpoints_request_save(s->watch, number);
    }
    e->save_number = number > e->save_number ? number : e->save_number;
    e->save_by = deadline;
    e->save_in_memory = in_memory;
    create_preempt_file(s);
    for (uint32_t local = 0; local < s->options.nproc; local++) {
        s->epoch.scripts[local].save_pending = true;
    }
    send_all_pending(s);
    report_changes(s);
}

uint32_t scripts_stop(struct scripts *s, uint64_t epoch, uint32_t grace_ms, bool in_memory,
                      uint64_t *ret_handlers)
{
    *ret_handlers = 0;
    if (!s->epoch.progress.epoch || epoch != s->epoch.progress.epoch) {
        return 0;
    }
    catch_up(s);
    s->epoch.stop_by = tfe_mono_add(clock_mono(), grace_ms);
    s->epoch.stop_in_memory = in_memory;
    for (uint32_t local = 0; local < s->options.nproc; local++) {
        s->epoch.scripts[local].stop_pending = true;
    }
    send_all_pending(s);
    report_changes(s);
    uint32_t listeners = 0;
    for (uint32_t local = 0; local < s->options.nproc; local++) {
        bool listens = s->epoch.scripts[local].pid != 0;
        listeners += listens;
        *ret_handlers |= (uint64_t)(!listens && s->epoch.scripts[local].handles) << local;
    }
    return listeners;
}

const char *scripts_socket(const struct scripts *s)
{
    return s->fd < 0 ? NULL : s->socket_path;
}

const char *scripts_tmp_dir(const struct scripts *s)
{
    return s->fd < 0 || getenv("TMPDIR") ? NULL : s->tmp_path;
}

const char *scripts_artifacts_dir(const struct scripts *s)
{
    return s->fd < 0 || !s->artifacts_path[0] ? NULL : s->artifacts_path;
}

const char *scripts_preempt_file(const struct scripts *s)
{
    return s->fd < 0 ? NULL : s->preempt_path;
}

/* --- creation and destruction --- */

/* Creates the directory for artifacts. Returns TFE_ESYS with reason set. */
static int make_artifacts_dir(struct scripts *s, struct tfe_reason *reason)
{
    int fd = -1;
    if (mkdirat(s->dir.fd, PRIVATE_DIR_ARTIFACTS, 0700) == 0) {
        fd = openat(s->dir.fd, PRIVATE_DIR_ARTIFACTS,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    int rc = fd < 0 ? TFE_ESYS : trainer_user_give(fd);
    if (rc) {
        reason_errno(reason, "create %s/" PRIVATE_DIR_ARTIFACTS, s->dir.path);
    } else {
        snprintf(s->artifacts_path, sizeof s->artifacts_path, "%s/" PRIVATE_DIR_ARTIFACTS,
                 s->dir.path);
    }
    fd_close(&fd);
    return rc;
}

/* Creates the directory and the socket. Returns TFE_ESYS or TFE_ETOOBIG with reason set. */
static int open_socket(struct scripts *s, struct tfe_reason *reason)
{
    int rc = private_dir_new(s->options.private_base, &s->dir, reason);
    if (rc) {
        return rc;
    }
    snprintf(s->socket_path, sizeof(s->socket_path), "%s/" PRIVATE_DIR_SOCKET, s->dir.path);
    snprintf(s->preempt_path, sizeof(s->preempt_path), "%s/" PRIVATE_DIR_PREEMPT, s->dir.path);
    snprintf(s->tmp_path, sizeof(s->tmp_path), "%s/" PRIVATE_DIR_TMP, s->dir.path);
    s->fd = script_socket_open(s->socket_path);
    if (s->fd < 0 || trainer_user_give(s->dir.fd)) {
        reason_errno(reason, "bind %s", s->socket_path);
        fd_close(&s->fd);
        return TFE_ESYS;
    }
    if (s->options.has_artifacts && make_artifacts_dir(s, reason)) {
        fd_close(&s->fd);
        return TFE_ESYS;
    }
    s->readable = event_new(s->options.base, s->fd, EV_READ | EV_PERSIST, on_readable, s);
    must_succeed(s->readable && event_add(s->readable, NULL) == 0);
    return 0;
}

struct scripts *scripts_new(const struct scripts_options *options)
{
    struct scripts *s = must_alloc(sizeof(*s));
    struct tfe_reason reason;
    s->options = *options;
    s->fd = -1;
    s->dir.fd = -1;
    s->pause = evtimer_new(options->base, on_pause_over, s);
    s->retry = evtimer_new(options->base, on_retry, s);
    must_succeed(s->pause && s->retry);
    s->tmp = trainer_tmp_new(options->base, &s->dir);
    s->memory = state_memory_new(options->base, options->state_memory, on_memory, s);
    forget_epoch(s);
    if (open_socket(s, &reason)) {
        log_warn("no_script_channel", LOG_S("reason", reason.text));
    }
    if (options->checkpoint_dir) {
        s->watch = checkpoints_new(options->base, options->checkpoint_dir, on_checkpoint, s);
    }
    return s;
}

void scripts_free(struct scripts *s)
{
    if (!s) {
        return;
    }
    if (s->n_rejected > 1) {
        log_warn("script_messages_refused", LOG_U("count", s->n_rejected));
    }
    checkpoints_free(s->watch);
    state_memory_free(s->memory);
    event_drop(&s->readable);
    event_drop(&s->pause);
    event_drop(&s->retry);
    trainer_tmp_free(s->tmp);
    fd_close(&s->fd);
    private_dir_done(&s->dir);
    free(s);
}
