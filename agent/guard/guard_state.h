/* agent/guard/guard_state.h: internal state of tfe-guard, shared by its source files only. */
#ifndef TFE_AGENT_GUARD_GUARD_STATE_H
#define TFE_AGENT_GUARD_GUARD_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/guard.h"
#include "agent/guard/guard_group.h"
#include "agent/guard/guard_proto.h"

#define GUARD_NEVER INT64_MAX

/* Fixed descriptors of the guard. stdin and stdout are /dev/null, so that no received descriptor
 * takes their numbers; stderr is the agent's. PROOF_FD is open only if there is a port. */
enum { PAIR_FD = 3, PROOF_FD, CHILD_FD, FENCE_FD, FIRST_FREE_FD };

/* Constants of ioprio_set(2), which has no header. */
enum { GUARD_IOPRIO_WHO_PROCESS = 1, GUARD_IOPRIO_IDLE = 3 << 13 };

/* States of a slot:
 *  EMPTY --SPAWN--> STARTING --exec--> RUNNING --wait--> ENDING --session dead--> ENDED
 *    ^                 |                                                            |
 *    |                 '--exec failed--> FAILED                                     |
 *    '------ reported ----------------------'----------------- reported ------------' */
enum slot_state { SLOT_EMPTY, SLOT_STARTING, SLOT_RUNNING, SLOT_ENDING, SLOT_ENDED, SLOT_FAILED };

/* A start that was handed over to a standby and not confirmed. Until it is confirmed the trainer
 * can still be started as a new process. */
struct pending_handover {
    bool is_open;
    struct guard_order order;
    int fds[GUARD_FDS];
};

struct slot {
    enum slot_state state;
    pid_t pid;         /* also the session id */
    int report;        /* STARTING: read end of the exec report pipe, see slot_spawn */
    int value;         /* ENDING, ENDED: wait status; FAILED: errno */
    unsigned group;    /* cgroup of the process, or GUARD_NO_GROUP */
    bool unsent_pid;   /* SPAWNED has not been sent */
    bool others_alive; /* ENDING: the last scan found other processes of the session */
    int64_t ended_us;
    uint64_t signals; /* bit n-1 is set if signal n has to be sent */

    /* Fields for a process that runs the bootstrap (guard_handover.c). */
    bool is_standby;  /* importing or waiting; sweeps and the fence spare it */
    int control;      /* the guard's end of the standby's socket, or -1 if closed */
    bool unsent_warm; /* WARM has not been sent */
    bool unsent_cold;
    char reason[GUARD_TEXT_MAX]; /* text for COLD */
    struct pending_handover handover;
};

struct guard {
    struct slot slots[GUARD_SLOTS];
    struct guard_groups groups;
    bool closed;     /* the pair is closed: kill all processes, then end */
    bool agent_left; /* the agent sent LEAVE before it ended */
    bool childless;  /* waitpid reported ECHILD: the guard, a subreaper, has no descendant left */
    bool blocked;    /* the pair's send buffer is full */
    bool may_renice;

    /* Fence deadline. While fence_passed is set nothing starts until the agent
     * sends a new fence. */
    int64_t fence_ms;
    bool fence_passed;
    bool unsent_fenced;

    /* All processes except standbys are being killed: after a sweep, a passed
     * fence or a closed pair. */
    bool killing;
    int64_t killing_since_us;
    int empty_scans; /* consecutive scans that found no process to kill */
    uint32_t sweep_requested;
    uint32_t sweep_reported;
    pid_t stuck; /* process to report as unkillable, or 0 */
    int64_t stuck_sent_us;

    /* Time of the next scan of /proc, or GUARD_NEVER. */
    int64_t scan_at_us;
    uint32_t pause_us;
};

/* A function calls only functions below it in this list. */

/* --- guard_loop.c --- */
/* Result of guard_serve. */
struct guard_end {
    bool agent_left;    /* the agent sent LEAVE */
    bool agent_is_gone; /* always true: the guard ends only after its agent */
    bool is_childless;  /* always true: the guard ends only without descendants */
    int64_t fence_ms;   /* pending fence on CLOCK_BOOTTIME; GUARD_NEVER if unset or passed */
};

/* Serves the pair, the children and the fence; returns when the agent has ended and no
 * descendant is left. Call once per process. Preconditions: the fixed descriptors above are open
 * (CHILD_FD: signalfd for SIGCHLD; FENCE_FD: non-blocking timerfd on CLOCK_BOOTTIME), all
 * signals except faults are blocked, and this process is a subreaper. */
struct guard_end guard_serve(void);

/* --- guard_handover.c: standbys --- */
/* Returns true if the guard can raise a lowered CPU priority again. */
bool guard_can_renice(void);
/* Hands a trainer's start over to the standby in `from`; if that fails, starts a
 * new process in `to`. */
void standby_hand_over(struct guard *g, struct slot *to, struct slot *from,
                       const struct guard_order *order, const int fds[GUARD_FDS]);
/* Reads the messages of the slot's process from its socket. */
void standby_read_messages(struct slot *slot);
/* Starts a new process if the slot's process ended before it confirmed a hand-over. Returns
 * false if there is nothing to retry. */
bool standby_retry(struct guard *g, struct slot *slot);

/* --- guard_kill.c --- */
/* Schedules a scan at once; the following scans become less frequent. */
void scan_soon(struct guard *g);
void kill_everything(struct guard *g);
/* Kills the processes that have to die and records who is still alive. */
void kill_survivors(struct guard *g);
/* Sends the pending signals of all slots, with one scan per signal. */
void signals_send(struct guard *g);

/* --- guard_spawn.c --- */
bool slot_has_process(const struct slot *slot);
/* Empties the slot, closes its descriptors and releases its group. */
void slot_reset(struct guard *g, struct slot *slot);
/* Closes the descriptors kept for a retry, if any. */
void pending_handover_close(struct pending_handover *handover);

/* Starts a process in an empty slot, or records the failure. The report pipe gives EOF after
 * exec, or one int: the errno of the failed step (ENOENT: command not found, ENOTDIR: no
 * such working directory). Borrows fds. Precondition: the caller is single-threaded and
 * blocks all signals. */
void slot_spawn(struct guard *g, struct slot *slot, const struct guard_order *order,
                const int fds[GUARD_FDS]);

#endif
