/* agent/trainer/standby.c: implementation of standby.h. */
#include "agent/trainer/standby.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/memory.h"
#include "agent/trainer/environment.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/text/text.h"

/* Time that a starting trainer without a reported step is left undisturbed. */
#define BEGIN_MS 5000

/* Delay after the trainers' end: the next start follows within it, or the node is idle. */
#define ENDED_MS 100

/* Interval of memory checks while there is or should be a standby. */
#define MEMORY_CHECK_MS 5000

/* Delay before a dead standby is replaced; it doubles up to the maximum. */
#define AGAIN_FIRST_MS 1000
#define AGAIN_LONGEST_MS 60000

/* A new node becomes ready after this time even if its standbys are still importing. */
#define SETTLE_MS 120000

/* Linux MAX_ARG_STRLEN: maximum length of one string of argv or the environment, with NUL. */
#define STRING_MAX 131072

extern char **environ;

const char *const framework_names[] = {
    [FRAMEWORK_AUTO] = "auto", [FRAMEWORK_TENSORFLOW] = "tensorflow",
    [FRAMEWORK_JAX] = "jax",   [FRAMEWORK_TORCH] = "torch",
    [FRAMEWORK_NONE] = "none", NULL};

/* Modules that a standby may import without --preload. */
static const char *const framework_modules[] = {"tensorflow", "tf_keras", "keras",
                                                "numpy",      "jax",      "torch"};
#define N_FRAMEWORK_MODULES (sizeof framework_modules / sizeof framework_modules[0])
/* Size of ":tensorflow" and all modules, each preceded by '+' or ','. */
#define PRELOAD_MAX 80

/* States of a standby; one that is STARTING can also take over a trainer's start.
 *  NONE --(due)--> STARTING --spawned, W--> WARM --(a trainer's start)--> NONE
 *   ^                 |                      |
 *   '-----------------'----- died -----------' */
enum standby_state { STANDBY_NONE, STANDBY_STARTING, STANDBY_WARM };

struct standby {
    enum standby_state state;
    pid_t pid;
    bool is_ending;      /* killed by the agent because memory is low */
    struct tfe_mono due; /* time of the next start; NEVER if it waits for an event */
    uint32_t again_ms; /* longer than AGAIN_FIRST_MS if the last standby died before it was warm */
};

struct standbys {
    struct standbys_options options;
    struct guard_link *guard;
    char bootstrap[PATH_MAX]; /* path of the bootstrap, or "" if missing */
    bool is_off;              /* disabled permanently */
    bool memory_logged;
    bool trainers_run;
    bool was_settled;
    struct tfe_mono settle_by;
    uint32_t imported; /* bit i: the script has imported framework_modules[i] */
    struct event *timer;
    struct standby of[MSG_NPROC_MAX];
};

static void standby_schedule(struct standbys *s);

bool standby_bootstrap(char ret[PATH_MAX])
{
    static const char *const places[] = {TFE_DATA_FROM_BIN "/python/tfe_bootstrap.py",
                                         "tfe_bootstrap.py"};
    char program[PATH_MAX - 128];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) {
        return false;
    }
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(ret, PATH_MAX, "%s/%s", program, places[i]);
        if (access(ret, R_OK) == 0) {
            return true;
        }
    }
    ret[0] = '\0';
    return false;
}

/* --- removal --- */

static void report_settled(struct standbys *s)
{
    bool settled = standbys_are_settled(s);
    if (settled && !s->was_settled) {
        s->was_settled = true;
        s->options.settled(s->options.ctx);
    }
    s->was_settled = settled;
}

static void standby_gone(struct standbys *s, uint32_t local)
{
    struct standby *standby = &s->of[local];
    bool was_warm = standby->state == STANDBY_WARM;
    standby->state = STANDBY_NONE;
    standby->pid = 0;
    standby->is_ending = false;
    if (was_warm) {
        s->options.changed(s->options.ctx, local, 0, NULL);
    }
}

/* Disables standbys for the lifetime of this process; logged once. */
static void disable(struct standbys *s, const char *reason)
{
    if (s->is_off) {
        return;
    }
    s->is_off = true;
    log_warn("no_standby", LOG_S("reason", reason));
    standby_schedule(s);
    report_settled(s);
}

static bool memory_is_low(struct standbys *s)
{
    uint32_t free_percent = memory_free_percent();
    bool is_low = free_percent < s->options.settings->min_free_percent;
    if (is_low && !s->memory_logged) {
        log_warn("no_standby", LOG_S("reason", "memory is low"),
                 LOG_U("free_percent", free_percent));
    }
    s->memory_logged = is_low;
    return is_low;
}

static void standby_kill(struct standbys *s, uint32_t local)
{
    s->of[local].is_ending = true;
    guard_link_signal(s->guard, GUARD_STANDBY_SLOT + local, SIGKILL);
}

/* --- start --- */

/* Priority of a new bootstrap. */
enum bootstrap_way { BOOTSTRAP_NEW, BOOTSTRAP_IN_BACKGROUND };

/* Stores the modules that a standby imports, in the format of tfe_bootstrap.py: the list of
 * --preload, or the framework and the modules that the script has imported so far. */
static const char *preload_text(const struct standbys *s, char ret[PRELOAD_MAX])
{
    if (s->options.settings->preload) {
        return s->options.settings->preload;
    }
    struct text text;
    const char *before = "+";
    text_init(&text, ret, PRELOAD_MAX);
    text_addf(&text, ":%s", framework_names[s->options.settings->framework]);
    for (size_t i = 0; i < N_FRAMEWORK_MODULES; i++) {
        if (s->imported >> i & 1) {
            text_addf(&text, "%s%s", before, framework_modules[i]);
            before = ",";
        }
    }
    return ret;
}

/* Starts a bootstrap; for mode see tfe_bootstrap.py. Returns TFE_ENOMEM, TFE_ESYS or TFE_ESTATE. */
static int bootstrap_spawn(struct standbys *s, uint32_t local, const char *mode,
                           enum bootstrap_way way)
{
    const struct command *command = s->options.command;
    size_t n = 0;
    while (command->argv[n]) {
        n++;
    }
    const char **argv = calloc(n + 5, sizeof *argv);
    char how[16];
    char preload[PRELOAD_MAX];
    char **env = NULL;
    int rc = argv ? environment_new((const char *const *)environ, NULL, &env) : TFE_ENOMEM;
    if (rc == 0) {
        argv[0] = command->argv[0];
        argv[1] = s->bootstrap;
        snprintf(how, sizeof how, "%s%s", mode, s->options.settings->no_hooks ? "" : "+hooks");
        argv[2] = how;
        argv[3] = preload_text(s, preload);
        memcpy(argv + 4, command->argv, n * sizeof *argv);
        struct spawn_spec spec = {
            .argv = argv, .envp = (const char *const *)env, .directory = command->directory};
        rc = guard_link_spawn_standby(s->guard, GUARD_STANDBY_SLOT + local, &spec,
                                      way == BOOTSTRAP_IN_BACKGROUND);
    }
    environment_free(env);
    free(argv);
    return rc;
}

static void standby_start(struct standbys *s, uint32_t local)
{
    struct standby *standby = &s->of[local];
    if (memory_is_low(s)) {
        standby->due = tfe_mono_add(clock_mono(), MEMORY_CHECK_MS);
    } else if (bootstrap_spawn(s, local, "standby",
                               s->trainers_run ? BOOTSTRAP_IN_BACKGROUND : BOOTSTRAP_NEW)) {
        standby->due = tfe_mono_add(clock_mono(), AGAIN_FIRST_MS); /* e.g. a sweep is in progress */
    } else {
        standby->state = STANDBY_STARTING;
        standby->due = TFE_MONO_NEVER;
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct standbys *s = ctx;
    struct tfe_mono now = clock_mono();
    bool has_one = false;
    for (uint32_t i = 0; i < s->options.nproc && s->guard && !s->is_off; i++) {
        if (s->of[i].state == STANDBY_NONE && !tfe_mono_before(now, s->of[i].due)) {
            standby_start(s, i);
        }
        has_one = has_one || s->of[i].state != STANDBY_NONE;
    }
    for (uint32_t i = 0; has_one && i < s->options.nproc && memory_is_low(s); i++) {
        if (s->of[i].state != STANDBY_NONE && !s->of[i].is_ending) {
            standby_kill(s, i);
        }
    }
    standby_schedule(s);
    report_settled(s);
}

/* Sets the timer for the next start or memory check. */
static void standby_schedule(struct standbys *s)
{
    struct tfe_mono next = TFE_MONO_NEVER;
    struct tfe_mono now = clock_mono();
    for (uint32_t i = 0; i < s->options.nproc && s->guard && !s->is_off; i++) {
        if (s->of[i].state == STANDBY_NONE) {
            next = tfe_mono_min(next, s->of[i].due);
        } else {
            next = tfe_mono_min(next, tfe_mono_add(now, MEMORY_CHECK_MS));
        }
    }
    if (tfe_mono_is_never(next)) {
        evtimer_del(s->timer);
        return;
    }
    timer_after(s->timer, tfe_mono_sub(next, now));
}

static void all_due(struct standbys *s, struct tfe_mono when)
{
    for (uint32_t i = 0; i < s->options.nproc; i++) {
        if (s->of[i].state == STANDBY_NONE) {
            s->of[i].due = when;
        }
    }
    standby_schedule(s);
}

/* --- interface --- */

struct standbys *standbys_new(const struct standbys_options *options)
{
    struct standbys *s = must_alloc(sizeof *s);
    s->options = *options;
    s->settle_by = TFE_MONO_NEVER;
    s->was_settled = true;
    for (uint32_t i = 0; i < MSG_NPROC_MAX; i++) {
        s->of[i].due = TFE_MONO_NEVER;
        s->of[i].again_ms = AGAIN_FIRST_MS;
    }
    s->timer = evtimer_new(options->base, on_timer, s);
    must_succeed(s->timer);
    bool is_found = options->command->is_python && standby_bootstrap(s->bootstrap);
    if (options->command->is_python && !is_found) {
        log_warn("no_standby",
                 LOG_S("reason", "tfe_bootstrap.py was not found beside the program"));
    }
    s->is_off = !is_found || options->settings->is_off;
    return s;
}

void standbys_free(struct standbys *s)
{
    if (s) {
        event_free(s->timer);
        free(s);
    }
}

void standbys_guard(struct standbys *s, struct guard_link *link)
{
    s->guard = link;
    for (uint32_t i = 0; i < s->options.nproc && !link; i++) {
        if (s->of[i].state != STANDBY_NONE) {
            standby_gone(s, i);
            s->of[i].due = tfe_mono_add(clock_mono(), AGAIN_FIRST_MS);
        }
    }
    standby_schedule(s);
}

void standbys_begin(struct standbys *s)
{
    s->settle_by = tfe_mono_add(clock_mono(), SETTLE_MS);
    all_due(s, clock_mono());
    s->was_settled = standbys_are_settled(s);
}

void standbys_trainers_began(struct standbys *s)
{
    s->trainers_run = true;
    s->settle_by = TFE_MONO_NEVER;
    all_due(s, tfe_mono_add(clock_mono(), BEGIN_MS));
}

void standbys_trainers_stepped(struct standbys *s)
{
    struct tfe_mono now = clock_mono();
    bool is_new = false;
    for (uint32_t i = 0; i < s->options.nproc; i++) {
        struct standby *standby = &s->of[i];
        /* a standby that died keeps its own delay */
        if (standby->state == STANDBY_NONE && standby->again_ms == AGAIN_FIRST_MS &&
            tfe_mono_before(now, standby->due)) {
            standby->due = now;
            is_new = true;
        }
    }
    if (is_new) {
        standby_schedule(s);
    }
}

void standbys_trainers_ended(struct standbys *s)
{
    struct tfe_mono soon = tfe_mono_add(clock_mono(), ENDED_MS);
    s->trainers_run = false;
    for (uint32_t i = 0; i < s->options.nproc; i++) {
        struct standby *standby = &s->of[i];
        if (standby->state == STANDBY_NONE && standby->again_ms == AGAIN_FIRST_MS) {
            standby->due = tfe_mono_min(standby->due, soon);
        }
    }
    standby_schedule(s);
}

bool standbys_are_settled(const struct standbys *s)
{
    if (s->is_off || s->memory_logged || tfe_mono_is_never(s->settle_by) ||
        !tfe_mono_before(clock_mono(), s->settle_by)) {
        return true;
    }
    for (uint32_t i = 0; i < s->options.nproc; i++) {
        if (s->of[i].state != STANDBY_WARM && s->of[i].again_ms == AGAIN_FIRST_MS) {
            return false;
        }
    }
    return true;
}

static bool is_too_long(const struct spawn_spec *spec)
{
    for (const char *const *entry = spec->envp; *entry; entry++) {
        if (strlen(*entry) + 1 > STRING_MAX) {
            return true;
        }
    }
    return false;
}

int standbys_spawn(struct standbys *s, uint32_t local, const struct spawn_spec *spec, int stdout_fd,
                   int stderr_fd, const char **ret_how)
{
    struct standby *standby = &s->of[local];
    bool has_one = standby->state != STANDBY_NONE && !standby->is_ending;
    bool can_hand_over = has_one;
    if (standby->state == STANDBY_NONE && s->bootstrap[0] &&
        (!s->options.settings->no_hooks || s->options.has_end || is_too_long(spec))) {
        can_hand_over = bootstrap_spawn(s, local, "cold", BOOTSTRAP_NEW) == 0;
    }
    if (!can_hand_over) {
        *ret_how = "exec";
        return guard_link_spawn(s->guard, local, spec, stdout_fd, stderr_fd);
    }
    *ret_how = has_one ? "standby" : "bootstrap";
    int rc = guard_link_hand_over(s->guard, local, GUARD_STANDBY_SLOT + local, spec, stdout_fd,
                                  stderr_fd);
    if (rc == 0) {
        standby_gone(s, local);
    }
    return rc;
}

static void on_spawn_failed(struct standbys *s, uint32_t local, int error)
{
    standby_gone(s, local);
    if (error == EBUSY) { /* a sweep was in progress */
        s->of[local].due = tfe_mono_add(clock_mono(), AGAIN_FIRST_MS);
        standby_schedule(s);
        return;
    }
    struct tfe_reason reason;
    errno = error;
    reason_errno(&reason, "cannot start %s", s->options.command->argv[0]);
    disable(s, reason.text);
}

static void on_exited(struct standbys *s, uint32_t local, int wait_status)
{
    struct standby *standby = &s->of[local];
    bool was_warm = standby->state == STANDBY_WARM;
    bool was_ours = standby->is_ending;
    standby_gone(s, local);
    if (!was_ours && !was_warm && WIFEXITED(wait_status) && !s->is_off) {
        disable(s, "the interpreter ended before it had imported its modules");
        return;
    }
    if (!was_ours) {
        log_info("standby_died", LOG_U("local_rank", local), LOG_I("status", wait_status));
    }
    /* also delays the replacement of one that was killed for lack of memory */
    standby->due = tfe_mono_add(clock_mono(), standby->again_ms);
    standby->again_ms =
        backoff_next(was_warm ? 0 : standby->again_ms, AGAIN_FIRST_MS, AGAIN_LONGEST_MS);
    standby_schedule(s);
    report_settled(s);
}

static void on_warm(struct standbys *s, uint32_t local, const char *tensorflow)
{
    s->of[local].state = STANDBY_WARM;
    s->of[local].again_ms = AGAIN_FIRST_MS;
    log_debug("standby_warm", LOG_U("local_rank", local), LOG_I("pid", s->of[local].pid));
    s->options.changed(s->options.ctx, local, (uint32_t)s->of[local].pid, tensorflow);
    report_settled(s);
}

void standbys_event(struct standbys *s, const struct guard_event *event)
{
    uint32_t local = event->slot - GUARD_STANDBY_SLOT;
    enum standby_state state = local < s->options.nproc ? s->of[local].state : STANDBY_NONE;
    if (event->type == GUARD_COLD) {
        disable(s, event->reason);
    } else if (state == STANDBY_NONE) {
        return; /* it has become a trainer */
    } else if (event->type == GUARD_SPAWN_FAILED) {
        on_spawn_failed(s, local, event->value);
    } else if (event->type == GUARD_EXITED) {
        on_exited(s, local, event->value);
    } else if (event->type == GUARD_SPAWNED && state == STANDBY_STARTING) {
        s->of[local].pid = event->pid;
    } else if (event->type == GUARD_WARM && state == STANDBY_STARTING) {
        on_warm(s, local, event->reason);
    }
}

void standbys_note_import(struct standbys *s, const char *module)
{
    for (size_t i = 0; i < N_FRAMEWORK_MODULES; i++) {
        s->imported |= strcmp(framework_modules[i], module) == 0 ? 1u << i : 0;
    }
}

bool standbys_can_share_ports(const struct standbys *s)
{
    return s->bootstrap[0] && !s->options.settings->no_hooks;
}

enum tfe_standby standbys_state(const struct standbys *s)
{
    uint32_t warm = 0;
    uint32_t starting = 0;
    for (uint32_t local = 0; local < s->options.nproc; local++) {
        warm += s->of[local].state == STANDBY_WARM;
        starting += s->of[local].state == STANDBY_STARTING;
    }
    if (s->options.settings->is_off) {
        return WARMTH_NONE;
    }
    if (s->is_off) {
        return WARMTH_COLD;
    }
    if (starting > 0) {
        return WARMTH_IMPORTING;
    }
    return warm > 0 ? WARMTH_WARM : WARMTH_NONE;
}
