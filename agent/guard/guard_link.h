/* agent/guard/guard_link.h: the agent's end of the pipe to its guard, on libevent. */
#ifndef TFE_AGENT_GUARD_GUARD_LINK_H
#define TFE_AGENT_GUARD_GUARD_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard.h"
#include "common/base/time.h"

struct event_base;
struct guard_link;

/* Called from the event loop, never from inside a guard_link_* call. The callback
 * may free the link. */
typedef void guard_event_fn(void *ctx, const struct guard_event *event);

/* Creates a link and takes ownership of process->fd. */
struct guard_link *guard_link_new(struct event_base *base, const struct guard_process *process,
                                  guard_event_fn *on_event, void *ctx);

/* Closes the pipe without waiting; the guard then kills all processes and ends. Accepts NULL. */
void guard_link_free(struct guard_link *link);

pid_t guard_link_pid(const struct guard_link *link);

/* Starts a process in an empty slot: in its own session and process group, with stdin from
 * /dev/null, the two borrowed descriptors as stdout and stderr, no other descriptor, default
 * signal handlers, no blocked signal, and PDEATHSIG SIGKILL. argv and envp may be megabytes.
 * Returns TFE_ESYS, TFE_ESTATE if the slot is in use or a sweep is in progress, or TFE_EINVAL
 * for an invalid slot. */
int guard_link_spawn(struct guard_link *link, uint32_t slot, const struct spawn_spec *spec,
                     int stdout_fd, int stderr_fd) TFE_MUST_CHECK;

/* Starts a standby in an empty slot: a process that runs the bootstrap given in argv, with a
 * socket as descriptor 3, until a trainer's start is handed over to it. Sweeps and the fence
 * spare standbys; the end of the agent does not. background sets idle I/O priority, and a lower
 * CPU priority if that can be undone. Errors as for guard_link_spawn. */
int guard_link_spawn_standby(struct guard_link *link, uint32_t slot, const struct spawn_spec *spec,
                             bool background) TFE_MUST_CHECK;

/* Starts a trainer as guard_link_spawn does, but in the process of the standby in slot `from`,
 * which is empty afterwards. If the standby is gone or cannot run the script, the guard starts a
 * new process: COLD gives the reason and SPAWNED may come a second time. Errors as for
 * guard_link_spawn; then the standby remains. */
int guard_link_hand_over(struct guard_link *link, uint32_t slot, uint32_t from,
                         const struct spawn_spec *spec, int stdout_fd,
                         int stderr_fd) TFE_MUST_CHECK;

/* Sends a signal to all processes of the slot's session, then SIGCONT so that stopped processes
 * handle it. SIGTERM goes to the main process only. Ignores an empty slot. */
void guard_link_signal(struct guard_link *link, uint32_t slot, int signo);

/* Kills every descendant except standbys, including double-forked ones, until none is left.
 * SWEPT reports the end. */
void guard_link_sweep(struct guard_link *link);

/* Replaces the fence. At the deadline (CLOCK_BOOTTIME, as clock_mono) the guard kills all
 * trainers, whatever the agent does, and starts none until the next fence. TFE_MONO_NEVER
 * disarms the fence. */
void guard_link_fence(struct guard_link *link, struct tfe_mono deadline);

#endif
