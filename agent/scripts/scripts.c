/* agent/scripts/scripts.c: a datagram socket in a private directory, and what is known of the
 * scripts behind it. */
#include "agent/scripts/scripts.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/scripts/checkpoints.h"
#include "agent/scripts/private_dir.h"
#include "agent/scripts/script_message.h"
#include "agent/scripts/sender.h"
#include "common/base/msg.h"
#include "common/net/clock.h"
#include "common/net/log.h"
#include "common/net/timer.h"

/* A script that floods the channel gets a small share of the loop: so many datagrams, then a pause.
 * What does not fit meanwhile is the sender's to repeat. */
#define TURN_MAX 32
#define PAUSE_MS 5
/* Read at once when a trainer has ended: its last words count before its end does. */
#define LAST_WORDS_MAX 512
/* A script that did not take what it was sent (its queue is full) is tried again this often. */
#define RETRY_MS 50
/* Senders whose parents have been looked at in this epoch. */
#define KNOWN_MAX 64

#define PATH_BYTES (PRIVATE_DIR_MAX + 20)

/* What the trainer of one local rank has told in this epoch. */
struct script {
    pid_t pid;                 /* where it listens; 0: it does not */
    bool owes_save, owes_stop; /* not yet sent: its queue was full */
    bool has_step, has_trained;
    uint64_t step;
};

struct scripts {
    struct scripts_wish wish;
    struct private_dir dir;
    char socket_path[PATH_BYTES], preempt_path[PATH_BYTES];
    int fd;
    struct event *readable, *pause, *retry;
    struct checkpoints *watch;

    uint64_t epoch; /* 0: nothing runs */
    uint32_t rank;  /* of the first trainer */
    struct script scripts[MSG_NPROC_MAX];
    uint64_t changed; /* a bit per local rank: the core is to be told */
    struct tfe_mono read_at;
    pid_t known[KNOWN_MAX];
    size_t n_known;

    /* Of the node: a checkpoint is one of all ranks. */
    bool told_here; /* a script has told of one: the watched directory adds nothing then */
    bool has_saved;
    uint64_t saved_step, answers;
    uint32_t saves;

    uint64_t asked; /* number of the newest save; 0 none */
    struct tfe_mono save_by;
    struct tfe_mono stop_by; /* NEVER: nobody was told to stop */
    uint64_t refused;
};

_Static_assert(MSG_NPROC_MAX <= 64, "changed has a bit for each trainer");

/* --- to the core --------------------------------------------------------------------------------
 */

static void mark(struct scripts *s, uint32_t local)
{
    s->changed |= UINT64_C(1) << local;
}

/* Once per trainer, however much it has told since. */
static void tell_changes(struct scripts *s)
{
    uint64_t changed = s->changed;
    s->changed = 0;
    for (uint32_t local = 0; local < s->wish.nproc && s->epoch; local++) {
        if (!(changed >> local & 1)) {
            continue;
        }
        const struct script *script = &s->scripts[local];
        struct agent_progress progress = {.listens = script->pid != 0,
                                          .has_step = script->has_step,
                                          .step = script->step,
                                          .has_trained = script->has_trained,
                                          .has_saved = s->has_saved,
                                          .saved_step = s->saved_step,
                                          .saves = s->saves,
                                          .answers = s->answers};
        s->wish.on_news(s->wish.ctx, s->epoch, local, &progress);
    }
}

/* A checkpoint told twice (by several ranks) is one. */
static void saved(struct scripts *s, uint32_t local, bool has_step, uint64_t step, uint64_t answers)
{
    if (!has_step || !s->has_saved || s->saved_step != step) {
        s->saves++;
    }
    s->has_saved = s->has_saved || has_step;
    s->saved_step = has_step ? step : s->saved_step;
    s->answers = answers > s->answers ? answers : s->answers;
    mark(s, local);
}

static void on_checkpoint(void *ctx, bool has_step, uint64_t step, uint64_t answers)
{
    struct scripts *s = ctx;
    if (s->epoch && !s->told_here) {
        saved(s, 0, has_step, step, answers);
        tell_changes(s);
    }
}

/* --- to the scripts ------------------------------------------------------------------------------
 */

static uint64_t ms_until(struct tfe_mono deadline)
{
    int64_t ms = tfe_mono_sub(deadline, clock_mono());
    return ms > 0 ? (uint64_t)ms : 0;
}

/* False: try again later. A listener that is gone is forgotten. */
static bool send_to(struct scripts *s, uint32_t local, const char *text, size_t n)
{
    struct script *script = &s->scripts[local];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof(to.sun_path), "%s/" PRIVATE_DIR_SCRIPT "%d", s->dir.path,
             (int)script->pid);
    if (sendto(s->fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&to,
               sizeof(to)) >= 0) {
        return true;
    }
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR) {
        return false;
    }
    log_debug("script_gone", LOG_U("local_rank", local), LOG_I("pid", script->pid));
    script->pid = 0;
    mark(s, local);
    return true;
}

/* Sends what this one still owes to its script. */
static bool pay(struct scripts *s, uint32_t local)
{
    struct script *script = &s->scripts[local];
    char text[SCRIPT_ANSWER_MAX];
    if (script->pid && script->owes_save) {
        bool has_within = !tfe_mono_is_never(s->save_by);
        size_t n = script_message_save(text, s->epoch, s->asked, has_within,
                                       has_within ? ms_until(s->save_by) : 0);
        script->owes_save = !send_to(s, local, text, n);
    }
    if (script->pid && script->owes_stop) {
        size_t n = script_message_stop(text, s->epoch, ms_until(s->stop_by));
        script->owes_stop = !send_to(s, local, text, n);
    }
    return !script->pid || (!script->owes_save && !script->owes_stop);
}

static void pay_all(struct scripts *s)
{
    bool all = true;
    for (uint32_t local = 0; local < s->wish.nproc; local++) {
        all = pay(s, local) && all;
    }
    if (!all) {
        timer_after(s->retry, RETRY_MS);
    }
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct scripts *s = ctx;
    pay_all(s);
    tell_changes(s);
}

/* --- from the scripts ----------------------------------------------------------------------------
 */

static void refuse(struct scripts *s, const char *why, pid_t pid)
{
    if (s->refused++ == 0) {
        log_warn("script_message_refused", LOG_S("why", why), LOG_I("pid", pid));
    }
}

static void take_hello(struct scripts *s, uint32_t local, const struct script_message *m)
{
    struct script *script = &s->scripts[local];
    script->pid = m->listens ? m->pid : 0;
    script->owes_save = m->listens && s->asked;
    script->owes_stop = m->listens && !tfe_mono_is_never(s->stop_by);
    mark(s, local);
    if (!pay(s, local)) {
        timer_after(s->retry, RETRY_MS);
    }
}

static void take(struct scripts *s, const struct script_message *m, pid_t pid)
{
    if (!s->epoch || m->epoch < s->epoch) {
        return; /* the last words of an epoch that is over */
    }
    if (m->epoch != s->epoch || m->rank < s->rank || m->rank - s->rank >= s->wish.nproc) {
        refuse(s, "its epoch or rank is not of this node", pid);
        return;
    }
    uint32_t local = m->rank - s->rank;
    switch (m->word) {
    case SCRIPT_HELLO:
        take_hello(s, local, m);
        return;
    case SCRIPT_PROGRESS:
        s->scripts[local].has_step = true;
        s->scripts[local].step = m->step;
        s->scripts[local].has_trained |= !m->restored;
        mark(s, local);
        return;
    case SCRIPT_CHECKPOINT:
        if (m->answers > s->asked) {
            refuse(s, "it answers a save that was never asked for", pid);
            return;
        }
        s->told_here = true;
        saved(s, local, true, m->step, m->answers);
        return;
    }
}

/* Looking at a sender's parents costs some reads in /proc: once per process and epoch. */
static bool sender_is_ours(struct scripts *s, pid_t pid)
{
    for (size_t i = 0; i < s->n_known; i++) {
        if (s->known[i] == pid) {
            return true;
        }
    }
    if (!sender_may_be_below(pid, getpid())) {
        return false;
    }
    if (s->n_known < KNOWN_MAX) {
        s->known[s->n_known++] = pid;
    }
    return true;
}

/* False: nothing was there. */
static bool take_one(struct scripts *s)
{
    char bytes[SCRIPT_MESSAGE_MAX];
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(s->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) {
        return errno == EINTR;
    }
    struct ucred sender = {.pid = 0};
    struct script_message m;
    const char *why = NULL;
    if (!sender_of(&message, &sender) || sender.uid != geteuid()) {
        refuse(s, "it comes from another user", sender.pid);
    } else if (message.msg_flags & MSG_TRUNC) {
        refuse(s, "it is too long", sender.pid);
    } else if (!sender_is_ours(s, sender.pid)) {
        refuse(s, "it comes from no process of this agent", sender.pid);
    } else if (script_message_read(bytes, (size_t)n, &m, &why)) {
        refuse(s, why, sender.pid);
    } else {
        take(s, &m, sender.pid);
    }
    return true;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct scripts *s = ctx;
    struct tfe_mono now = clock_mono();
    bool is_busy = tfe_mono_sub(now, s->read_at) <= PAUSE_MS;
    s->read_at = now;
    int n = 0;
    while (n < TURN_MAX && take_one(s)) {
        n++;
    }
    if (is_busy || n == TURN_MAX) {
        event_del(s->readable);
        timer_after(s->pause, PAUSE_MS);
    }
    tell_changes(s);
}

/* What was told before now, is known now. */
static void catch_up(struct scripts *s)
{
    if (!s->epoch) {
        return;
    }
    for (int i = 0; s->fd >= 0 && i < LAST_WORDS_MAX && take_one(s); i++) {
    }
    if (s->watch) {
        checkpoints_catch_up(s->watch);
    }
    tell_changes(s);
}

static void on_pause_over(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    struct scripts *s = ctx;
    event_add(s->readable, NULL);
}

/* --- orders --------------------------------------------------------------------------------------
 */

static void forget_epoch(struct scripts *s)
{
    memset(s->scripts, 0, sizeof(s->scripts));
    s->epoch = 0;
    s->changed = 0;
    s->n_known = 0;
    s->told_here = false;
    s->has_saved = false;
    s->saved_step = 0;
    s->saves = 0;
    s->answers = 0;
    s->asked = 0;
    s->save_by = TFE_MONO_NEVER;
    s->stop_by = TFE_MONO_NEVER;
    evtimer_del(s->retry);
}

void scripts_begin(struct scripts *s, uint64_t epoch, uint32_t rank)
{
    scripts_end(s);
    s->epoch = epoch;
    s->rank = rank;
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
}

void scripts_trainer_ended(struct scripts *s, uint32_t local)
{
    catch_up(s);
    if (local < s->wish.nproc && s->scripts[local].pid) {
        s->scripts[local].pid = 0;
        mark(s, local);
        tell_changes(s);
    }
}

static void create_preempt_file(struct scripts *s)
{
    if (s->dir.fd < 0) {
        return;
    }
    int fd =
        openat(s->dir.fd, PRIVATE_DIR_PREEMPT, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        log_warn("preempt_file", LOG_S("why", strerror(errno)));
        return;
    }
    close(fd);
}

void scripts_save(struct scripts *s, uint64_t epoch, uint64_t number, struct tfe_mono deadline)
{
    if (!s->epoch || epoch != s->epoch) {
        return;
    }
    if (s->watch) {
        checkpoints_ask(s->watch, number);
    }
    s->asked = number > s->asked ? number : s->asked;
    s->save_by = deadline;
    create_preempt_file(s);
    for (uint32_t local = 0; local < s->wish.nproc; local++) {
        s->scripts[local].owes_save = true;
    }
    pay_all(s);
    tell_changes(s);
}

uint32_t scripts_listeners(const struct scripts *s)
{
    uint32_t n = 0;
    for (uint32_t local = 0; local < s->wish.nproc; local++) {
        n += s->scripts[local].pid != 0;
    }
    return n;
}

uint32_t scripts_stop(struct scripts *s, uint64_t epoch, uint32_t grace_ms)
{
    if (!s->epoch || epoch != s->epoch) {
        return 0;
    }
    s->stop_by = tfe_mono_add(clock_mono(), grace_ms);
    for (uint32_t local = 0; local < s->wish.nproc; local++) {
        s->scripts[local].owes_stop = true;
    }
    pay_all(s);
    tell_changes(s);
    return scripts_listeners(s);
}

uint64_t scripts_refused(const struct scripts *s)
{
    return s->refused;
}

const char *scripts_socket(const struct scripts *s)
{
    return s->fd < 0 ? NULL : s->socket_path;
}

const char *scripts_preempt_file(const struct scripts *s)
{
    return s->fd < 0 ? NULL : s->preempt_path;
}

/* --- beginning and end ---------------------------------------------------------------------------
 */

/* TFE_ESYS with why: no socket. */
static int open_socket(struct scripts *s, struct tfe_why *why)
{
    int rc = private_dir_new(s->wish.private_base, &s->dir, why);
    if (rc) {
        return rc;
    }
    snprintf(s->socket_path, sizeof(s->socket_path), "%s/" PRIVATE_DIR_SOCKET, s->dir.path);
    snprintf(s->preempt_path, sizeof(s->preempt_path), "%s/" PRIVATE_DIR_PREEMPT, s->dir.path);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", s->socket_path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        why_errno(why, "socket");
        return TFE_ESYS;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int)) ||
        bind(fd, (const struct sockaddr *)&at, sizeof(at))) {
        why_errno(why, "bind %s", s->socket_path);
        close(fd);
        return TFE_ESYS;
    }
    s->fd = fd;
    s->readable = event_new(s->wish.base, fd, EV_READ | EV_PERSIST, on_readable, s);
    return s->readable && event_add(s->readable, NULL) == 0 ? 0 : TFE_ENOMEM;
}

int scripts_new(const struct scripts_wish *wish, struct scripts **ret)
{
    struct scripts *s = calloc(1, sizeof(*s));
    if (!s) {
        return TFE_ENOMEM;
    }
    s->wish = *wish;
    s->fd = -1;
    s->dir.fd = -1;
    s->pause = evtimer_new(wish->base, on_pause_over, s);
    s->retry = evtimer_new(wish->base, on_retry, s);
    if (!s->pause || !s->retry) {
        scripts_free(s);
        return TFE_ENOMEM;
    }
    forget_epoch(s);
    struct tfe_why why;
    int rc = open_socket(s, &why);
    if (rc == TFE_ESYS || rc == TFE_ETOOBIG) {
        log_warn("no_script_channel", LOG_S("why", why.text));
        rc = 0;
    }
    if (rc == 0 && wish->checkpoint_dir) {
        rc = checkpoints_new(wish->base, wish->checkpoint_dir, on_checkpoint, s, &s->watch);
    }
    if (rc) {
        scripts_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void scripts_free(struct scripts *s)
{
    if (!s) {
        return;
    }
    if (s->refused > 1) {
        log_warn("script_messages_refused", LOG_U("count", s->refused));
    }
    checkpoints_free(s->watch);
    struct event *events[] = {s->readable, s->pause, s->retry};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (events[i]) {
            event_free(events[i]);
        }
    }
    if (s->fd >= 0) {
        close(s->fd);
    }
    private_dir_done(&s->dir);
    free(s);
}
