/* tests/sim/cluster.h: a simulated TensorFlow cluster of one epoch. Shared by trainer.c and
 * script.c. */
#ifndef TFE_TESTS_SIM_CLUSTER_H
#define TFE_TESTS_SIM_CLUSTER_H

#include "tests/sim/jobs.h"
#include "tests/sim/node.h"
#include "tests/sim/trainer.h"

enum cluster_state { CLUSTER_FORMING, CLUSTER_TRAINING, CLUSTER_BROKEN, CLUSTER_FINISHED };

struct member {
    uint32_t node;
    uint32_t local;
    bool lives;   /* the trainer's process exists */
    bool is_done; /* a served worker that has ended with exit status 0 */
    bool stood;   /* the clock of its machine stood still for a while */
};

/* Address at which the other trainers look for a trainer. */
struct address {
    uint32_t machine;
    uint16_t port;
};

struct cluster {
    struct cluster *next; /* next cluster of the job */
    uint32_t id;
    uint32_t job;
    uint32_t era;
    uint64_t epoch;
    uint64_t digest;
    uint32_t world;
    enum cluster_state state;
    uint32_t ps_from; /* rank of the first ps; equal to world if there is none */
    bool has_chief;   /* the first rank is a chief, which does no worker's work */
    bool has_trained; /* all trainers of the cluster have found each other */
    bool evaluates;   /* an evaluator: alone, makes no steps */
    bool hangs;
    bool step_queued;
    uint32_t n_lives;
    uint32_t n_up;
    uint32_t n_blocked;
    uint32_t n_well; /* number of trainers that have ended well */
    uint32_t n_done; /* number of members with is_done set */
    uint32_t n_stood;
    uint32_t block_tag; /* counts the periods in which some trainer did not respond */
    uint64_t first_step;
    uint64_t step;
    /* State of the scripts on the channel (script.c). */
    int64_t told_at;
    int64_t first_told_at; /* time of the first progress report; 0 if there was none */
    bool stop_sent;
    bool calm;            /* no reason for the server to stop the cluster has occurred */
    int64_t leave_by;     /* deadline of the last notice to a member */
    bool warned;          /* a notice was given while calm, and nothing has happened since */
    int64_t warned_since; /* time of the notice that set `warned` */
    bool carried;         /* the warning was given before the server's restart */
    /* only planned STOPs are on their way to the cluster, and nothing disturbs them */
    bool planned;
    int64_t confirmed_at; /* when the server confirmed an undisturbed checkpoint; 0 if it has not */
    bool save_wanted;
    bool in_memory;    /* state kept in memory answers the request to save */
    bool saves;        /* a checkpoint is being written, and no step is made meanwhile */
    uint32_t save_tag; /* generation of the checkpoint that is being written */
    bool stands;       /* the cluster has answered a SAVE and makes no step until stands_until */
    /* until when no step is made after an answered SAVE; 0 if it never stood */
    int64_t stands_until;
    bool frail;       /* the answer to the SAVE may reach the server too late to be used */
    uint32_t n_saves; /* number of checkpoints written in this epoch */
    /* number of trainers that have received `stop`: no step is made any more */
    uint32_t n_stopping;
    struct member *members; /* members by rank */
    struct address *table;  /* addresses by rank */
};

/* Returns the cluster, or NULL if it is gone. */
struct cluster *cluster_by_id(const struct world *w, uint32_t id);
struct cluster *cluster_of_epoch(struct world *w, uint32_t job, uint64_t epoch);
/* Returns true if the cluster has ps. The chief then goes on without a worker once it has started;
 * only the chief notices missing tasks, and no other trainer ends by itself. */
bool cluster_is_served(const struct cluster *c);
bool cluster_can_miss(const struct cluster *c, uint32_t rank);
/* Returns the trainer of a member. Precondition: the member lives. */
struct trainer *cluster_trainer(struct world *w, const struct cluster *c, uint32_t rank);
const struct trainer_spec *cluster_spec(struct world *w, const struct cluster *c);
/* Returns a random value from the seed, the job, the epoch, the rank and a purpose. */
uint64_t cluster_draw(const struct world *w, const struct cluster *c, uint32_t rank, uint64_t what,
                      uint32_t lo, uint32_t hi);
void cluster_say(struct world *w, const struct cluster *c, const char *what, const char *reason);
/* Makes the next step, unless something prevents it. */
void cluster_go_on(struct world *w, struct cluster *c);
/* Ends all trainers of the cluster well within this time. */
void cluster_finish(struct world *w, struct cluster *c, const char *what, uint32_t within_ms);

#endif
