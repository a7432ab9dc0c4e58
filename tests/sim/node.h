/* tests/sim/node.h: a worker machine: its clock, the agent process, the guard, the trainers. */
#ifndef TFE_TESTS_SIM_NODE_H
#define TFE_TESTS_SIM_NODE_H

#include "agent/core/agent.h"
#include "tests/sim/names.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"

#define NODE_NAME_MAX 32
#define NODE_RENEWALS 16
#define NODE_DEATH_CHARS 64
#define NODE_GUARD_PORT 9999 /* of a guard that has something to give */

/* Reports on their way to the agent's core while it is being stepped. */
#define NODE_PENDING_MAX (MSG_NPROC_MAX + 8)

struct node {
    char name[NODE_NAME_MAX];
    uint32_t index;
    uint32_t job; /* NAMES_NONE: no agent ever ran here */

    /* The machine. */
    bool on;
    bool suspended;       /* nothing runs; the clock goes on, or stands (clock.stopped) */
    bool durable;         /* its machine is not one of those that go away */
    bool spot;            /* the cloud may take it back, which its agent knows … */
    int64_t spot_after;   /* … so long after it has begun */
    bool plain;           /* asks for no run of its own, whatever its job's other agents do */
    bool fixed;           /* its trainers have the same ports in every epoch */
    bool peers_cut;       /* its trainers do not reach the others */
    uint32_t parted_from; /* it and this machine do not reach each other; NAMES_NONE */
    uint32_t taken_by;    /* it is gone, and its address is this machine's now; NAMES_NONE */
    struct sim_clock clock;
    int64_t runs_since;        /* virtual time of the last resume */
    int64_t kill_stuck_until;  /* its trainers are stuck in the kernel until then */
    struct sim_event *backlog; /* what waits for the machine or the agent to run */
    size_t n_backlog, cap_backlog;

    /* The agent process. */
    bool agent;
    bool frozen;
    bool over; /* it has ended by itself: exit_code */
    bool stepping;
    int exit_code;
    uint32_t process; /* counts up */
    char id[TFE_ID_MAX + 1];
    uint32_t known_as; /* machine on which the first process of this id ran */
    bool is_twin;      /* there is, or was, another process of this id */
    int64_t heard_at;  /* its last RENEW or JOIN, by the server; what it was granted then */
    uint32_t ttl_ms;
    int64_t lease_until; /* … and by when all that it was granted is over on any clock */
    int64_t joined_at;   /* as the server says */
    uint64_t heard;      /* … and the order in which the server heard of them last */
    uint64_t welcomed;   /* … and let them in … */
    uint64_t probe;      /* … and asked about it last … */
    uint64_t refused;    /* … whoever has found its ports closed then; 0: nobody has */
    struct spoken {
        uint32_t server; /* process that it has told … */
        uint32_t job;    /* … of this, whichever it is in now, … */
        uint64_t epoch;  /* … that it is in this, or was, … */
        uint32_t nodes;  /* … of so many nodes … */
        uint64_t digest; /* … with this table */
    } spoken;
    bool is_welcome;       /* on this connection */
    uint64_t evicted;      /* in this epoch, whether it has heard of it or not; 0 */
    bool knows_spot;       /* the cloud has told it, … */
    int64_t spot_heard_at; /* … and it the server, for the first time; SIM_NEVER */
    char run_key[16];
    bool outsider; /* its run has no room in the job that is there; it asks again */
    struct agent *core;
    struct sim_mem mem;
    struct sim_timer timer;
    struct tfe_mono deadline;
    uint32_t spin;
    int64_t spin_at;
    struct msg_memory memory, told_memory; /* that it lends its trainers; as its agent knows it */
    struct agent_event pending[NODE_PENDING_MAX];
    size_t n_pending;
    int64_t join_sent; /* on its own clock */
    int64_t renew_sent[NODE_RENEWALS];
    int64_t granted_from; /* the sending of what was last answered */
    struct sim_timer fence_check;

    /* The guard. */
    bool guard;
    bool fence_passed;
    bool sweeping;
    uint32_t guard_pid;
    uint32_t n_guards; /* in the life of the agent */
    bool buries;       /* its agent is gone: it waits for the last trainer's end */
    struct tfe_mono fence;
    struct sim_timer fence_timer;

    /* What its guard knows, and what one before it left: on its port until the fence, in a file. */
    char death[NODE_DEATH_CHARS + 1];
    char left[NODE_DEATH_CHARS + 1];
    uint32_t left_job;
    struct tfe_mono left_fence;

    uint16_t ports[2][MSG_NPROC_MAX];      /* by parity of the epoch */
    uint16_t next_ports[2][MSG_NPROC_MAX]; /* 0: none */
    uint16_t answers[MSG_NPROC_MAX];       /* the agent says who it is on these */
    size_t n_answers;
    uint16_t next_port;
    uint64_t epoch;   /* of the last spawn */
    uint32_t n_alive; /* trainer processes */
    uint32_t n_up;
    uint32_t n_placed;   /* trainers that the last spawn was about */
    uint32_t spawns;     /* so far */
    uint64_t done_epoch; /* last epoch whose trainers all ended with 0, as its agent reported; 0 if
                            none */
    uint32_t done_process; /* the agent process that reported it */
    uint64_t ready_for;    /* the highest epoch of its job that this machine has said READY for */
    bool signalled;        /* its agent will be out by a moment of its own … */
    int64_t out_by;        /* … this, at the earliest */
    uint32_t noticed;      /* kinds of notices that stand, a bit each */
    struct tfe_mono noticed_until[NOTICE_OPERATOR + 1]; /* … and by when its agent drops them */
    bool was_noticed;                                   /* or drained */
    uint32_t heeded; /* … and those that its agent has heard, the last then, with their deadlines */
    int64_t heeded_at;
    int64_t known_at, known_ms; /* the server has heard of that then, and that so much was left */
    struct tfe_mono goes_by[NOTICE_OPERATOR + 1];
    int64_t leave_by;         /* the judge looks then whether it is out … */
    int64_t told_at;          /* … of a notice that came then */
    int64_t judged_since;     /* … of a cluster that is as it was then */
    int64_t warned_at;        /* … by one of these, last */
    struct trainer *trainers; /* cap_trainers places: nproc of its jobs, all the same */
    uint32_t cap_trainers;
};

/* Makes w->nodes; names are given by node_name afterwards. */
void nodes_new(struct world *w, uint32_t n);
void nodes_free(struct world *w);
void node_name(struct world *w, uint32_t node, const char *name);
/* NAMES_NONE: no such machine. */
uint32_t node_find(const struct world *w, const char *name);
/* The machine on which the process with this node id runs that the server heard of last
 * (node_heard): what it says of the id is about that one. NAMES_NONE: that has ended, or it has
 * heard of none. */
uint32_t node_find_process(const struct world *w, const char *id);

/* Starts an agent of the job; id NULL makes one. Nothing happens where one runs; while trainers of
 * an earlier one are still dying it starts after them. */
void node_start(struct world *w, uint32_t node, uint32_t job, const char *id);
/* The server takes the trainers of the member with this id for dead: those of every process that
 * has come with it have to be. */
void node_check_dead(struct world *w, uint32_t job, uint64_t epoch, const char *id);
/* The server has its JOIN. */
void node_heard(struct world *w, uint32_t node);
/* Nothing is wrong with the machine, the way to it, or the agent process. */
bool node_is_sound(struct world *w, uint32_t node);
/* … which is connected as well. */
bool node_is_well(struct world *w, uint32_t node);
uint32_t node_job(const struct world *w, uint32_t node);
struct tfe_mono node_clock(const struct world *w, uint32_t node);
/* The machine runs and the agent process on it is there and not frozen. */
bool node_can_run(const struct world *w, uint32_t node);

/* --- faults --- */
void node_kill_agent(struct world *w, uint32_t node);
void node_kill_guard(struct world *w, uint32_t node);
/* All its processes are killed, its kernel lives: FINs and resets go out. */
void node_kill_all(struct world *w, uint32_t node);
/* The machine is gone without a word; node_start brings a new one of this name. */
void node_vanish(struct world *w, uint32_t node);
void node_freeze_agent(struct world *w, uint32_t node, bool frozen);
/* Nothing runs; the clock goes on (suspend) or stands still (clock_stops, hypervisor). */
void node_suspend(struct world *w, uint32_t node, bool clock_stops);
void node_resume(struct world *w, uint32_t node);
/* The server, or its peers, may miss a sign of it: not to be judged as if they had it. */
void node_silence(struct world *w, uint32_t node);
void node_cut_peers(struct world *w, uint32_t node, bool cut);
/* It and this one alone do not reach each other; NAMES_NONE ends that. */
void node_part(struct world *w, uint32_t node, uint32_t from);
/* It vanishes, and whoever tries its address meets this one, until there is another of its name. */
void node_give_address(struct world *w, uint32_t node, uint32_t to);
void node_set_rate(struct world *w, uint32_t node, int64_t ppm);
void node_signal(struct world *w, uint32_t node, uint32_t signo);
/* Whether its machine was said to go away, by whoever, and its agent still believes it. */
bool node_may_go(const struct world *w, const struct node *n);
/* Whether its agent says that its machine goes: it is in no epoch to come. By when that is, where
 * it is known, on its own clock. */
bool node_leaves(const struct world *w, uint32_t node);
struct tfe_mono node_goes_by(const struct world *w, uint32_t node);
/* Somebody tells its agent that the machine will go away: deadline_ms from now, MSG_UNSET none; or
 * that it will not after all. */
void node_notice(struct world *w, uint32_t node, enum tfe_notice kind, uint32_t deadline_ms,
                 bool withdrawn);
/* The cloud tells its agent that it may take the machine back. */
void node_told_spot(struct world *w, uint32_t node);
void node_fail_memory(struct world *w, uint32_t node, uint64_t k);

/* --- from the net --- */
void node_connected(struct world *w, uint32_t node);
void node_receive(struct world *w, uint32_t node, const struct tfe_msg *msg);
void node_disconnected(struct world *w, uint32_t node, enum agent_link link, const char *text);

/* --- from the trainers --- */
/* event waits until the machine runs again; whether it has to. */
bool node_defers(struct world *w, uint32_t node, const struct sim_event *event);
void node_trainer_up(struct world *w, uint32_t node);
/* The process is gone and reaped. */
void node_trainer_gone(struct world *w, uint32_t node, uint32_t local, uint32_t code,
                       uint32_t signal, bool is_own);

#endif
