/* tests/sim/trainer.h: simulated trainers and their clusters, which step and fail together. */
#ifndef TFE_TESTS_SIM_TRAINER_H
#define TFE_TESTS_SIM_TRAINER_H

#include "agent/core/agent.h"
#include "tests/sim/world.h"

struct node;
struct cluster;

/*  NONE --spawn--> STARTING --> UP --own end--> NONE
 *                     '--killed--'--> DYING --reaped--> NONE   */
enum trainer_state { TRAINER_NONE, TRAINER_STARTING, TRAINER_UP, TRAINER_DYING };

struct trainer {
    enum trainer_state state;
    bool frozen;  /* stopped by SIGSTOP */
    bool blocked; /* other trainers get no response from it */
    bool listens; /* its port is open, until it is reaped */
    uint16_t port;
    uint32_t tag; /* generation of the process */
    uint32_t rank;
    bool stopping;   /* has received `stop` and is saving */
    uint64_t heard;  /* number of the newest SAVE that it received */
    int64_t save_by; /* when the switch comes anyway, in virtual time */
    struct msg_progress told;
    struct cluster *cluster;
};

void trainers_free(struct world *w);

/* Starts a trainer process of the node, with the epoch that the node was told. */
void trainer_start(struct world *w, struct node *node, uint32_t local,
                   const struct agent_place *place);
/* Kills the trainer with SIGKILL. */
void trainer_kill(struct world *w, struct node *node, uint32_t local);
/* The machine is gone with everything on it. */
void trainer_vanish(struct world *w, struct node *node, uint32_t local);
/* The trainer ends by itself, or by a signal from elsewhere. */
void trainer_end(struct world *w, struct node *node, uint32_t local, uint32_t code,
                 uint32_t signal);
void trainer_freeze(struct world *w, struct node *node, uint32_t local, bool frozen);
/* Returns the number of the machine's trainers that live and are not being killed. */
uint32_t trainers_not_killed(const struct node *node);
/* Updates the trainer after its machine was suspended, resumed, cut off or reconnected. */
void trainer_look(struct world *w, struct node *node, uint32_t local);
/* Notes that the trainer's epoch was unreachable for a node (check_silence). */
void trainer_silence(struct world *w, struct node *node, uint32_t local);
/* Notes that the clock of the trainer's machine stands still. */
void trainer_clock_stood(struct node *node, uint32_t local);
/* Makes the trainer hang: it lives and makes no further step. */
void trainer_hang(struct world *w, struct node *node, uint32_t local);

/* The server has adopted the running epoch: it belongs to the present era. */
void trainers_rebuilt(struct world *w, uint32_t job, uint64_t epoch);

/* For the checks after a period of faults: number of the job's clusters with a living trainer, and
 * the largest of them. */
struct cluster_view {
    uint32_t clusters;
    uint64_t epoch;
    uint32_t world;
    uint32_t up;
    uint32_t working; /* number of trainers that its chief can use, or whose work is done */
    bool trains;      /* it makes steps, even if workers are missing */
    bool is_whole;    /* all trainers of its world are up and train */
    bool hangs;       /* all its trainers are up, and it will make no further step */
};
struct cluster_view trainers_of_job(struct world *w, uint32_t job);

#endif
