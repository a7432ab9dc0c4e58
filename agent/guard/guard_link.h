/* agent/guard/guard_link.h: the agent's end of the pipe to its guard. On libevent. */
#ifndef TFE_AGENT_GUARD_GUARD_LINK_H
#define TFE_AGENT_GUARD_GUARD_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard.h"
#include "common/base/time.h"

struct event_base;
struct guard_link;

/* What a trainer is started with. Borrowed for the call. */
struct spawn_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH of envp */
    const char *const *envp; /* NULL-terminated */
    const char *directory;   /* working directory; NULL: the agent's */
};

/* Callbacks come from the loop, never from inside a guard_link_* call. Each may free the link. */
struct guard_ops {
    void (*spawned)(void *ctx, uint32_t slot, pid_t pid);
    /* exec failed: error is errno (ENOENT: command not found, ENOTDIR: the directory is not there,
     * E2BIG). ETIME: the fence had passed and no new one was set. Nothing runs in the slot. */
    void (*spawn_failed)(void *ctx, uint32_t slot, int error);
    /* The slot's process itself ended and was reaped; wait_status as of waitpid(2). Others of its
     * session have been killed. */
    void (*exited)(void *ctx, uint32_t slot, int wait_status);
    /* Answer to guard_link_sweep: stuck_pid 0: not one descendant is left; every exited() came
     * before. Else a descendant that cannot be killed (EPERM, or still there 5 s after SIGKILL),
     * the guard keeps trying and says so again at most once a second. One answer serves all sweeps
     * so far. */
    void (*swept)(void *ctx, pid_t stuck_pid);
    /* The fence passed and everything was killed; the exits follow as exited(). */
    void (*fenced)(void *ctx);
    /* The guard died and has been reaped. The link is useless (free it); every orphan has by now
     * been adopted by the agent: see proc_kill_all_descendants_and_reap. No other callback follows.
     */
    void (*lost)(void *ctx);
};

/* Takes over process->fd. TFE_ENOMEM: fd stays the caller's. */
int guard_link_new(struct event_base *base, const struct guard_process *process,
                   const struct guard_ops *ops, void *ctx, struct guard_link **ret) TFE_MUST_CHECK;

/* Closes the pipe: the guard then kills everything and ends. Does not wait for it. NULL is allowed.
 */
void guard_link_free(struct guard_link *link);

pid_t guard_link_pid(const struct guard_link *link);

/* Starts a process in an empty slot, in a session and group of its own, with stdin from /dev/null,
 * the two descriptors as stdout and stderr (borrowed), nothing else open, default signal handlers,
 * an empty signal mask, and PDEATHSIG KILL. argv and envp may be megabytes. TFE_ESYS; TFE_ESTATE:
 * the slot is in use, or a sweep is not over; TFE_EINVAL: no such slot. */
int guard_link_spawn(struct guard_link *link, uint32_t slot, const struct spawn_spec *spec,
                     int stdout_fd, int stderr_fd) TFE_MUST_CHECK;

/* Signals the slot's whole session (every group in it), SIGCONT after it so that a stopped process
 * takes it. An empty slot is ignored. */
void guard_link_signal(struct guard_link *link, uint32_t slot, int signo);

/* Kills every descendant, also double-forked ones, until none is left; then swept(). */
void guard_link_sweep(struct guard_link *link);

/* The newest fence counts. At deadline (clock_mono's clock, CLOCK_BOOTTIME) the guard kills
 * everything, whatever the agent does, and starts nothing more until the next fence. TFE_MONO_NEVER
 * disarms. */
void guard_link_fence(struct guard_link *link, struct tfe_mono deadline);

#endif
