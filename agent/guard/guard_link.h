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
    /* A standby has imported its modules and waits. */
    void (*warm)(void *ctx, uint32_t slot);
    /* A standby cannot take the script, or one that had been given it could not: why is a
     * fragment. The first ends (exited follows), in place of the second a plain start follows. */
    void (*cold)(void *ctx, uint32_t slot, const char *why);
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

/* Starts a standby in an empty slot: a process that runs the bootstrap (argv says it all), with a
 * socket as descriptor 3, until a trainer's start is handed to it. Sweeps and the fence leave it
 * alone; the end of the agent does not. background: idle I/O priority, and a lower CPU priority
 * where that can be undone. Errors as guard_link_spawn. */
int guard_link_spawn_standby(struct guard_link *link, uint32_t slot, const struct spawn_spec *spec,
                             bool background) TFE_MUST_CHECK;

/* As guard_link_spawn, into the process of the standby in slot from, which is empty from now on. A
 * standby that turns out not to be there or not to take it is replaced by a plain start, told by
 * cold() if it said why; spawned() may come a second time then. Errors as guard_link_spawn; the
 * standby stays. */
int guard_link_hand_over(struct guard_link *link, uint32_t slot, uint32_t from,
                         const struct spawn_spec *spec, int stdout_fd,
                         int stderr_fd) TFE_MUST_CHECK;

/* Signals the slot's whole session (every group in it), SIGCONT after it so that a stopped process
 * takes it. An empty slot is ignored. */
void guard_link_signal(struct guard_link *link, uint32_t slot, int signo);

/* Kills every descendant but standbys, also double-forked ones, until none is left; then swept().
 */
void guard_link_sweep(struct guard_link *link);

/* The newest fence counts. At deadline (clock_mono's clock, CLOCK_BOOTTIME) the guard kills
 * everything, whatever the agent does, and starts nothing more until the next fence. TFE_MONO_NEVER
 * disarms. */
void guard_link_fence(struct guard_link *link, struct tfe_mono deadline);

#endif
