/* agent/guard/guard_state.h: what tfe-guard keeps, for its own files only. */
#ifndef TFE_AGENT_GUARD_GUARD_STATE_H
#define TFE_AGENT_GUARD_GUARD_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_group.h"
#include "agent/guard/guard_proto.h"

#define GUARD_NEVER INT64_MAX

/* The guard's own descriptors. stdin and stdout are /dev/null, so that what comes through the pair
 * is never mistaken for one of them; stderr stays the agent's. PROOF_FD: only with a port.
 */
enum { PAIR_FD = 3, PROOF_FD, CHILD_FD, FENCE_FD, FIRST_FREE_FD };

/* ioprio_set(2), which has no header for its numbers. */
enum { GUARD_IOPRIO_WHO_PROCESS = 1, GUARD_IOPRIO_IDLE = 3 << 13 };

/*  EMPTY --SPAWN--> STARTING --exec--> RUNNING --wait--> ENDING --session dead--> ENDED
 *    ^                 |                                                            |
 *    |                 '--exec failed--> FAILED                                     |
 *    '------- told ------------------------'------------------- told ---------------'   */
enum slot_state { SLOT_EMPTY, SLOT_STARTING, SLOT_RUNNING, SLOT_ENDING, SLOT_ENDED, SLOT_FAILED };

/* What a process was handed and has not yet said to have taken: until then the trainer can still be
 * started the plain way. */
struct hand {
    bool is_open;
    struct guard_order order;
    int fds[GUARD_FDS];
};

struct slot {
    enum slot_state state;
    pid_t pid;        /* and session */
    int report;       /* STARTING: see slot_spawn */
    int value;        /* ENDING, ENDED: wait status; FAILED: errno */
    unsigned group;   /* control group, or GUARD_NO_GROUP */
    bool owes_pid;    /* SPAWNED is not told yet */
    bool others_live; /* ENDING: the last look found somebody in the session */
    int64_t ended_us;
    uint64_t signals; /* bit n-1: signal n is still to be sent */

    /* Of what runs the bootstrap (guard_hand.c). */
    bool is_standby; /* imports or waits: neither a sweep nor the fence is about it */
    int control;     /* our end of its socket; -1: it has none, or closed it */
    bool owes_warm;  /* WARM is not told yet */
    bool owes_cold;
    char reason[GUARD_TEXT_MAX]; /* owes_cold */
    struct hand hand;
};

struct guard {
    struct slot slots[GUARD_SLOTS];
    struct guard_groups groups;
    bool closed;    /* the agent is gone: kill, then end */
    bool was_left;  /* … and has said before that it would go */
    bool childless; /* waitpid said so: not one descendant is left, we are their subreaper */
    bool blocked;   /* the agent takes no packet at the moment */
    bool may_renice;

    /* The fence. passed: nothing may start until the agent sends another. */
    int64_t fence_ms;
    bool fence_passed;
    bool owes_fenced;

    /* Everything but standbys is being killed: a sweep, a passed fence; or a closed pair. */
    bool killing;
    int64_t killing_since_us;
    int empty_looks; /* in a row: nobody was there to be killed */
    uint32_t sweep_asked;
    uint32_t sweep_answered;
    pid_t stuck; /* to be told */
    int64_t stuck_told_us;

    /* When to look at /proc again; GUARD_NEVER if there is no reason. */
    int64_t look_us;
    uint32_t pause_us;
};

/* Calls go downwards, in this order. */

/* --- guard_loop.c ----------------------------------------------------------------------------- */
/* How the guard's work ended. */
struct guard_end {
    bool was_left;      /* the agent had said that it would go */
    bool agent_is_gone; /* always: it is what ends it … */
    bool is_childless;  /* … and this */
    int64_t fence_ms;   /* of CLOCK_BOOTTIME; GUARD_NEVER: none was set, or it has passed */
};

/* Serves the pair, the children and the fence; returns when the agent is gone and not one
 * descendant is left. Preconditions: the descriptors above are what their names say (a signalfd for
 * SIGCHLD, a non-blocking timerfd on CLOCK_BOOTTIME), every signal but the faults is blocked, and
 * this process is a subreaper. Once in a process. */
struct guard_end guard_serve(void);

/* --- guard_hand.c: standbys ------------------------------------------------------------------- */
/* Whether a lower CPU priority could be undone. */
bool hand_may_renice(void);
/* A trainer's start: into a standby if there is one that can take it, else the plain way. */
void hand_over(struct guard *g, struct slot *to, struct slot *from, const struct guard_order *order,
               const int fds[GUARD_FDS]);
/* Reads what the process of the slot says on its socket. */
void hand_listen(struct slot *slot);
/* Its process ended before it had taken what it was handed: starts the trainer the plain way. */
bool hand_retry(struct guard *g, struct slot *slot);

/* --- guard_kill.c ----------------------------------------------------------------------------- */
/* Something has to be killed now: look at once, then ever less often. */
void look_soon(struct guard *g);
void kill_everything(struct guard *g);
/* Kills what is to be killed, and sees who is left. */
void survivors_kill(struct guard *g);
/* One walk per signal, however many slots want it. */
void signals_send(struct guard *g);

/* --- guard_slot.c ----------------------------------------------------------------------------- */
bool slot_has_process(const struct slot *slot);
/* Empties the slot; what it owns is closed, its group left. */
void slot_reset(struct guard *g, struct slot *slot);
/* Closes what is kept for a second try, if anything is. */
void hand_close(struct hand *hand);

/* --- guard_spawn.c ---------------------------------------------------------------------------- */
/* Fills an empty slot with a process of its own, or with the failure to start it. Its report gives
 * EOF once exec has happened, or one int, the errno of what failed before (ENOENT: no such command;
 * ENOTDIR: no such directory to work in). fds are the order's, borrowed. Precondition: the caller
 * is single-threaded and blocks every signal. */
void slot_spawn(struct guard *g, struct slot *slot, const struct guard_order *order,
                const int fds[GUARD_FDS]);

#endif
