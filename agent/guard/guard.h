/* agent/guard/guard.h: interface of tfe-guard, the small process that starts trainers and kills
 * all of them when the agent fails. */
#ifndef TFE_AGENT_GUARD_GUARD_H
#define TFE_AGENT_GUARD_GUARD_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/text/reason.h"

/* Slots of a guard: MSG_NPROC_MAX for trainers, followed by the same number for standbys. */
#define GUARD_SLOTS 128
#define GUARD_STANDBY_SLOT 64

struct guard_proof;

struct guard_process {
    pid_t pid;
    int fd; /* the agent's end of the SOCK_SEQPACKET pair; close-on-exec */
    /* Hash of the guard's proof of termination and the port where it is served, as JOIN reports
     * them; "" and 0 if there is none. */
    struct tfe_id proof_hash;
    uint16_t proof_port;
};

/* Program, environment and directory of a process to start. Borrowed for the call. */
struct spawn_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH of envp */
    const char *const *envp; /* NULL-terminated */
    const char *directory;   /* working directory, or NULL to use the agent's */
};

/* Events that a guard sends. Slots from GUARD_STANDBY_SLOT on belong to standbys. */
enum guard_event_type {
    /* pid of the started process; sent again if a hand-over falls back to a plain start */
    GUARD_SPAWNED = 1,
    /* value: errno of the step that failed before exec (ENOENT: command not found, ENOTDIR:
     * no such directory, E2BIG), ETIME if the fence has passed, or EBUSY during a sweep.
     * The slot is empty. */
    GUARD_SPAWN_FAILED,
    /* value: wait status of the slot's process, which has been reaped. The other processes of
     * its session have been killed. */
    GUARD_EXITED,
    /* Response to all sweeps requested so far. pid is 0 if no descendant is left; all EXITED
     * events came before. Otherwise pid is a descendant that cannot be killed (EPERM, or alive 5
     * s after SIGKILL); the guard keeps trying and repeats the event at most once per second. */
    GUARD_SWEPT,
    GUARD_FENCED, /* the fence has passed and all trainers are being killed; EXITED events follow */
    GUARD_WARM,   /* a standby has imported its modules and waits for a job */
    /* reason: why a standby cannot run the script. If a trainer was already handed over to it, a
     * plain start follows; otherwise EXITED follows. */
    GUARD_COLD,
    /* The guard died and has been reaped; the last event, so free the link. The agent has
     * adopted all orphans (see proc_kill_all_descendants_and_reap). */
    GUARD_LOST
};

#define GUARD_TEXT_MAX 200

struct guard_event {
    uint32_t type;
    uint32_t slot; /* number of the sweep, for SWEPT */
    int32_t pid;
    int32_t value;
    char reason[GUARD_TEXT_MAX];
};

/* Records where main's argv is stored, so that the guard can overwrite its copy and ps shows
 * tfe-guard instead of the agent's command line. Call before guard_fork; otherwise only the
 * short name is set. */
void guard_title_area(int argc, char **argv);

/* Makes the guard remove this directory of the agent (private_dir.h) when it ends, retrying
 * while other processes still create files there. Call before guard_fork; copies path. The guard
 * finds directories that only the agent writes to by itself. */
void guard_remove_at_end(const char *path);

/* Forks the guard. The guard runs in its own session, ignores terminal signals and SIGTERM, is a
 * child subreaper, is named tfe-guard, and keeps only its end of the pair and stderr open. It
 * ends when its pipe to the agent reaches EOF and the last descendant is reaped. A guard with a
 * proof of termination then serves it until the fence or SIGTERM.
 * Precondition: no thread of the caller holds a lock. death is the proof for the agent's first
 * guard, or NULL; the agent's copy is erased. Returns TFE_ESYS with reason set. Does not
 * return in the child. */
int guard_fork(struct guard_process *ret, struct guard_proof *proof,
               struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
