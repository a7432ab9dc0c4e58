/* tests/sim/node.h: a simulated worker machine: its clock, agent process, guard and trainers. */
#ifndef TFE_TESTS_SIM_NODE_H
#define TFE_TESTS_SIM_NODE_H

#include "agent/core/agent.h"
#include "tests/sim/names.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"

#define NODE_NAME_MAX 32
#define NODE_RENEWALS 16
#define NODE_DEATH_CHARS 64
#define NODE_GUARD_PORT 9999 /* port of a guard that has a proof of termination */

/* Maximum number of reports queued for the agent's core while it is being stepped. */
#define NODE_PENDING_MAX (MSG_NPROC_MAX + 8)

struct node {
    char name[NODE_NAME_MAX];
    uint32_t index;
    uint32_t job; /* job of the agent; NAMES_NONE if no agent ever ran here */

    /* State of the machine: */
    bool on;
    bool suspended; /* nothing runs; the clock goes on, or stands still (clock.stopped) */
    bool durable;   /* the machine is not preemptible */
    bool spot;      /* a spot machine; its agent learns that after spot_after */
    /* time after its start until the agent knows that the machine is a spot machine */
    int64_t spot_after;
    bool plain;           /* the agent uses no run key, whatever the job's other agents do */
    bool fixed;           /* trainers have the same ports in every epoch */
    bool peers_cut;       /* trainers cannot reach other machines */
    uint32_t parted_from; /* machine with which this one has no connection; NAMES_NONE if none */
    /* machine that now has this one's address, after this one is gone; NAMES_NONE if none */
    uint32_t taken_by;
    struct sim_clock clock;
    int64_t runs_since;       /* virtual time of the last resume */
    int64_t kill_stuck_until; /* until when trainers are stuck in the kernel and cannot be killed */
    struct sim_event *backlog; /* events that wait for the machine or the agent to run */
    size_t n_backlog, cap_backlog;

    /* the agent process exists */
    bool agent;
    bool frozen;
    bool over; /* the agent has ended by itself, with exit_code */
    bool stepping;
    int exit_code;
    uint32_t process; /* number of agent processes so far */
    char id[TFE_ID_MAX + 1];
    uint32_t known_as; /* machine on which the first process with this id ran */
    bool is_twin;      /* another process with this id exists or existed */
    int64_t heard_at;  /* when the server received the agent's last RENEW or JOIN */
    uint32_t ttl_ms;
    int64_t lease_until; /* when everything that the agent was granted has ended on any clock */
    int64_t joined_at;   /* join order, as the server counts it */
    uint64_t heard;      /* order of events: when the server last received a message of the agent */
    uint64_t welcomed;   /* order of events: when the server last admitted the agent */
    uint64_t probe;      /* order of events: when the server last had the agent probed */
    /* order of events: of the probe in which its ports were found closed; 0 if none */
    uint64_t refused;
    struct spoken {
        uint32_t server; /* server process to which the agent has reported the following fields */
        uint32_t job;    /* job that the agent has reported, whichever it is in now */
        uint64_t epoch;  /* epoch in which it reported to be, or to have been */
        uint32_t nodes;  /* number of nodes of the reported epoch */
        uint64_t digest; /* digest of the reported epoch's table */
    } spoken;
    bool is_welcome;  /* WELCOME was received on this connection */
    uint64_t evicted; /* epoch in which the node was evicted, whether it knows or not; 0 if none */
    bool knows_spot;  /* the agent knows that its machine is a spot machine */
    /* when the server first learned that the machine is a spot machine; SIM_NEVER if it has not */
    int64_t spot_heard_at;
    char run_key[16];
    bool outsider; /* its run is refused by the job's present run, and the agent tries again */
    struct agent *core;
    struct sim_mem mem;
    struct sim_timer timer;
    struct tfe_mono deadline;
    uint32_t spin;
    int64_t spin_at;
    /* memory that the agent lends its trainers: actual, and as reported */
    struct msg_memory memory, told_memory;
    struct agent_event pending[NODE_PENDING_MAX];
    size_t n_pending;
    int64_t join_sent; /* when JOIN was sent, on the node's own clock */
    int64_t renew_sent[NODE_RENEWALS];
    int64_t granted_from; /* when the message was sent that was answered last */
    struct sim_timer fence_check;

    /* the guard process exists */
    bool guard;
    bool fence_passed;
    bool sweeping;
    uint32_t guard_pid;
    uint32_t n_guards; /* number of guards in the agent's life */
    bool buries;       /* the agent is gone, and the guard waits for the last trainer's end */
    struct tfe_mono fence;
    struct sim_timer fence_timer;

    /* Proof of termination of the present guard, and that of an earlier one, which is on its port
     * until the fence, or in a file. */
    char death[NODE_DEATH_CHARS + 1];
    char left[NODE_DEATH_CHARS + 1];
    uint32_t left_job;
    struct tfe_mono left_fence;

    uint16_t ports[2][MSG_NPROC_MAX];      /* ports by parity of the epoch */
    uint16_t next_ports[2][MSG_NPROC_MAX]; /* next ports by parity of the epoch; 0 if none */
    uint16_t answers[MSG_NPROC_MAX];       /* ports on which the agent answers probes with its id */
    size_t n_answers;
    uint16_t next_port;
    uint64_t epoch;   /* epoch of the last spawn */
    uint32_t n_alive; /* number of trainer processes */
    uint32_t n_up;
    uint32_t n_placed; /* number of trainers of the last spawn */
    uint32_t spawns;   /* number of spawns so far */
    /* last epoch whose trainers all ended with 0, as its agent reported; 0 if none */
    uint64_t done_epoch;
    uint32_t done_process; /* number of the agent process that reported done_epoch */
    uint64_t ready_for;    /* highest epoch of its job for which this machine was READY */
    bool signalled;        /* the agent got a signal and ends by itself at out_by or later */
    int64_t out_by;        /* earliest end of an agent that got a signal */
    uint32_t noticed;      /* bit set of the kinds of notices in force */
    struct tfe_mono noticed_until[NOTICE_OPERATOR + 1]; /* when the agent drops each notice */
    bool was_noticed; /* a notice was given, or the node is drained */
    /* bit set of notices that the agent has received, with the last one's time and deadline */
    uint32_t heeded;
    int64_t heeded_at;
    /* when the server learned of the notice, and how much time was left then */
    int64_t known_at, known_ms;
    struct tfe_mono goes_by[NOTICE_OPERATOR + 1];
    int64_t leave_by;     /* when the oracle checks that the node has left */
    int64_t told_at;      /* when the notice was given that leave_by belongs to */
    int64_t judged_since; /* start of the cluster state that leave_by belongs to */
    int64_t warned_at;    /* time of the last warning of either kind */
    /* cap_trainers entries: nproc of its jobs, which is the same for all */
    struct trainer *trainers;
    uint32_t cap_trainers;
};

/* Creates w->nodes; names are set later by node_name. */
void nodes_new(struct world *w, uint32_t n);
void nodes_free(struct world *w);
void node_name(struct world *w, uint32_t node, const char *name);
/* Returns the index of the machine, or NAMES_NONE. */
uint32_t node_find(const struct world *w, const char *name);
/* Returns the machine of the process with this node id from which the server received a message
 * last (node_heard): the server's statements about the id refer to that process. NAMES_NONE if it
 * has ended or there is none. */
uint32_t node_find_process(const struct world *w, const char *id);

/* Starts an agent of the job; id NULL generates an id. Does nothing if an agent runs; starts it
 * later if trainers of an earlier agent are still dying. */
void node_start(struct world *w, uint32_t node, uint32_t job, const char *id);
/* The server considers the trainers of the member with this id dead: checks that those of every
 * process with that id are. */
void node_check_dead(struct world *w, uint32_t job, uint64_t epoch, const char *id);
/* The server has received the node's JOIN. */
void node_heard(struct world *w, uint32_t node);
/* Returns true if the machine, its link and its agent process are healthy. */
bool node_is_sound(struct world *w, uint32_t node);
/* Returns true if the node is healthy and connected. */
bool node_is_well(struct world *w, uint32_t node);
uint32_t node_job(const struct world *w, uint32_t node);
struct tfe_mono node_clock(const struct world *w, uint32_t node);
/* Returns true if the machine runs and its agent process exists and is not frozen. */
bool node_can_run(const struct world *w, uint32_t node);

/* --- faults --- */
void node_kill_agent(struct world *w, uint32_t node);
void node_kill_guard(struct world *w, uint32_t node);
/* Kills all processes; the kernel lives, so FINs and resets are sent. */
void node_kill_all(struct world *w, uint32_t node);
/* The machine vanishes without sending anything; node_start brings a new one of this name. */
void node_vanish(struct world *w, uint32_t node);
void node_freeze_agent(struct world *w, uint32_t node, bool frozen);
/* Suspends the machine; the clock goes on, or stands still (clock_stops: by a hypervisor). */
void node_suspend(struct world *w, uint32_t node, bool clock_stops);
void node_resume(struct world *w, uint32_t node);
/* Notes that the server or the peers may miss signs of life of the node. */
void node_silence(struct world *w, uint32_t node);
void node_cut_peers(struct world *w, uint32_t node, bool cut);
/* Separates the node from one other node; NAMES_NONE ends that. */
void node_part(struct world *w, uint32_t node, uint32_t from);
/* The node vanishes, and its address belongs to `to` until a machine of its name exists again. */
void node_give_address(struct world *w, uint32_t node, uint32_t to);
void node_set_rate(struct world *w, uint32_t node, int64_t ppm);
void node_signal(struct world *w, uint32_t node, uint32_t signo);
/* Returns true if the machine was announced to go away, by any source, and its agent still believes
 * that. */
bool node_may_go(const struct world *w, const struct node *n);
/* Returns true if the agent reports that its machine goes away, so that it is in no later epoch;
 * sets the deadline on its own clock, if known. */
bool node_leaves(const struct world *w, uint32_t node);
struct tfe_mono node_goes_by(const struct world *w, uint32_t node);
/* Gives the agent a notice that the machine will go away deadline_ms from now (MSG_UNSET: unknown),
 * or that it will not. */
void node_notice(struct world *w, uint32_t node, enum tfe_notice kind, uint32_t deadline_ms,
                 bool withdrawn);
/* The cloud tells the agent that the machine is a spot machine. */
void node_told_spot(struct world *w, uint32_t node);
void node_fail_memory(struct world *w, uint32_t node, uint64_t k);

/* --- events from the net --- */
void node_connected(struct world *w, uint32_t node);
void node_receive(struct world *w, uint32_t node, const struct tfe_msg *msg);
void node_disconnected(struct world *w, uint32_t node, enum agent_link link, const char *text);

/* --- events from the trainers --- */
/* Defers the event until the machine runs again. Returns true if it was deferred. */
bool node_defers(struct world *w, uint32_t node, const struct sim_event *event);
void node_trainer_up(struct world *w, uint32_t node);
/* The process is gone and reaped. */
void node_trainer_gone(struct world *w, uint32_t node, uint32_t local, uint32_t code,
                       uint32_t signal, bool is_own);

#endif
