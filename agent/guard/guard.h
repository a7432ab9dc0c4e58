/* agent/guard/guard.h: tfe-guard, the small process that starts trainers and kills every one of
 * them. */
#ifndef TFE_AGENT_GUARD_GUARD_H
#define TFE_AGENT_GUARD_GUARD_H

#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/reason.h"

/* Slots of one guard: MSG_NPROC_MAX trainers, then as many standbys. */
#define GUARD_SLOTS 128
#define GUARD_STANDBY_SLOT 64

struct guard_death;

struct guard_process {
    pid_t pid;
    int fd; /* the agent's end of the SOCK_SEQPACKET pair; close-on-exec */
    /* What JOIN says of the death certificate that this guard has; "" and 0: it has none. */
    struct tfe_id proof_hash;
    uint16_t death_port;
    struct tfe_id *death_job; /* of which it is, where that is known after the fork; NULL */
};

/* What a trainer is started with. Borrowed for the call. */
struct spawn_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH of envp */
    const char *const *envp; /* NULL-terminated */
    const char *directory;   /* working directory; NULL: the agent's */
};

/* What a guard tells, in these words. slot is a trainer's, or from GUARD_STANDBY_SLOT on a
 * standby's. */
enum guard_event_word {
    GUARD_SPAWNED = 1, /* pid. A second time for a hand-over that became a plain start */
    /* value: errno of what failed before exec (ENOENT: command not found, ENOTDIR: the directory is
     * not there, E2BIG). ETIME: the fence had passed and no new one was set; EBUSY: a sweep was on.
     * Nothing runs in the slot. */
    GUARD_SPAWN_FAILED,
    /* value: wait status of the slot's process, which ended and was reaped. Others of its session
     * have been killed. */
    GUARD_EXITED,
    /* Answer to a sweep. pid 0: not one descendant is left; every EXITED came before. Else a
     * descendant that cannot be killed (EPERM, or still there 5 s after SIGKILL): the guard keeps
     * trying and says so again at most once a second. One answer serves all sweeps so far. */
    GUARD_SWEPT,
    GUARD_FENCED, /* the fence passed and everything was killed; EXITED follow */
    GUARD_WARM,   /* a standby has imported its modules and waits */
    /* why: a standby cannot take the script, or one that had been given it could not. The first
     * ends (EXITED follows), in place of the second a plain start follows. */
    GUARD_COLD,
    /* The guard died and has been reaped: free the link. Every orphan has by now been adopted by
     * the agent (proc_kill_all_descendants_and_reap). Nothing else follows. */
    GUARD_LOST
};

#define GUARD_TEXT_MAX 200

struct guard_event {
    uint32_t word;
    uint32_t slot; /* SWEPT: the sweep's number */
    int32_t pid;
    int32_t value;
    char reason[GUARD_TEXT_MAX];
};

/* Where main's argv lies, so that the guard can write its name over its copy (ps then shows
 * tfe-guard, and not the agent's command line a second time). Before guard_fork; without it only
 * the short name is set. */
void guard_title_area(int argc, char **argv);

/* A directory of the agent's (private_dir.h) that may not be empty of other processes' files the
 * moment the agent is killed: its guard removes it at its own end. Before guard_fork; the path is
 * copied. Those that only the agent writes to the guard finds by itself. */
void guard_remove_at_end(const char *path);

/* Forks the guard. It lives in its own session, ignores terminal signals and SIGTERM, is a child
 * subreaper (also of what double-forks), keeps of the descriptors only its end of the pair and
 * stderr, and is named tfe-guard. It ends only when its pipe to the agent reaches EOF, after the
 * last descendant is reaped; with a certificate to give it stays until the fence, holding nothing
 * but its port, and SIGTERM ends it. The caller must be single-threaded in what it shares (no lock
 * may be held). TFE_ESYS with why. In the child this never returns.
 * death: the certificate of this agent, for its first guard; forgotten here, once it has that.
 * NULL: none. */
int guard_fork(struct guard_process *ret, struct guard_death *death,
               struct tfe_reason *reason) TFE_MUST_CHECK;

#endif
