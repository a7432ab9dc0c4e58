/* tests/sim/trainer.h: trainers and the clusters they form: steps in lock-step, failures together.
 */
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
    bool frozen;  /* SIGSTOP */
    bool blocked; /* the others get no answer of it */
    bool listens; /* its port is open, until its grave */
    uint16_t port;
    uint32_t tag; /* of the process */
    uint32_t rank;
    bool stopping;   /* has heard `stop`, and saves */
    uint64_t heard;  /* number of the newest SAVE it was asked for */
    int64_t save_by; /* … and when the switch comes anyway, in virtual time */
    struct msg_progress told;
    struct cluster *cluster;
};

void trainers_free(struct world *w);

/* A process of node begins; what it is told of its epoch is in place. */
void trainer_start(struct world *w, struct node *node, uint32_t local,
                   const struct agent_place *place);
/* SIGKILL. */
void trainer_kill(struct world *w, struct node *node, uint32_t local);
/* The machine is gone, with everything on it. */
void trainer_vanish(struct world *w, struct node *node, uint32_t local);
/* Ends by itself, or by somebody else's signal. */
void trainer_end(struct world *w, struct node *node, uint32_t local, uint32_t code,
                 uint32_t signal);
void trainer_freeze(struct world *w, struct node *node, uint32_t local, bool frozen);
/* Trainers of the machine that live and are not even being killed. */
uint32_t trainers_not_killed(const struct node *node);
/* After the machine was suspended, resumed, cut or joined again. */
void trainer_look(struct world *w, struct node *node, uint32_t local);
/* The epoch it is in was out of somebody's sight (check_silence). */
void trainer_silence(struct world *w, struct node *node, uint32_t local);
/* The clock of its machine stands still. */
void trainer_clock_stood(struct node *node, uint32_t local);
/* It will make no further step, and lives on. */
void trainer_hang(struct world *w, struct node *node, uint32_t local);

/* The server has taken the epoch up as it runs: it belongs to the present era. */
void trainers_rebuilt(struct world *w, uint32_t job, uint64_t epoch);

/* For the judgement at rest: clusters of the job with a living trainer, and the largest of them. */
struct cluster_view {
    uint32_t clusters;
    uint64_t epoch;
    uint32_t world;
    uint32_t up;
    uint32_t working; /* … of these, as far as its chief can use them */
    bool trains;      /* it makes steps, whoever of its workers is missing */
    bool is_whole;    /* all of its world are up, and train */
    bool hangs;       /* … though they will make no further step */
};
struct cluster_view trainers_of_job(struct world *w, uint32_t job);

#endif
