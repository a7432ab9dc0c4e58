/* tests/sim/cluster.h: what TensorFlow makes of one epoch. Between trainer.c and script.c. */
#ifndef TFE_TESTS_SIM_CLUSTER_H
#define TFE_TESTS_SIM_CLUSTER_H

#include "tests/sim/jobs.h"
#include "tests/sim/node.h"
#include "tests/sim/trainer.h"

enum cluster_state { CLUSTER_FORMING, CLUSTER_TRAINING, CLUSTER_BROKEN, CLUSTER_FINISHED };

struct member {
    uint32_t node;
    uint32_t local;
    bool lives;   /* its process is there */
    bool is_done; /* a worker that is served, ended with exit status 0 */
    bool stood;   /* its machine's clock stood still for a while */
};

/* Where the others look for a trainer. */
struct address {
    uint32_t machine;
    uint16_t port;
};

struct cluster {
    struct cluster *next; /* of the job */
    uint32_t id;
    uint32_t job;
    uint32_t era;
    uint64_t epoch;
    uint64_t digest;
    uint32_t world;
    enum cluster_state state;
    uint32_t ps_from; /* rank of the first ps; world: there is none */
    bool has_chief;   /* first, who does no worker's work */
    bool has_trained; /* all of its trainers have found each other */
    bool evaluates;   /* alone, and makes no steps */
    bool hangs;
    bool step_queued;
    uint32_t n_lives;
    uint32_t n_up;
    uint32_t n_blocked;
    uint32_t n_well; /* have ended well */
    uint32_t n_done; /* members that are */
    uint32_t n_stood;
    uint32_t block_tag; /* counts the stretches in which somebody did not answer */
    uint64_t first_step;
    uint64_t step;
    /* Scripts on the channel (script.c). */
    int64_t told_at;
    int64_t first_told_at; /* 0: never */
    bool stop_sent;
    bool calm;            /* nothing gives the server a reason to stop it */
    int64_t leave_by;     /* the end of the last notice … */
    bool warned;          /* a notice was given while it was so, and nothing has come since … */
    int64_t warned_since; /* … this */
    bool carried;         /* … since it has started again */
    bool planned; /* nothing but planned STOPs is on its way to it, and nothing disturbs them */
    int64_t confirmed_at; /* the server said then that it has saved, and nothing disturbs that; 0:
                             not */
    bool save_wanted;
    bool in_memory;         /* … where what is kept in memory is enough */
    bool saves;             /* one is under way, no step is made meanwhile */
    uint32_t save_tag;      /* of it */
    bool stands;            /* it has answered, and no step is made … */
    int64_t stands_until;   /* … until then; 0: it never did */
    bool frail;             /* … and its answer may come to the server too late for that */
    uint32_t n_saves;       /* checkpoints of this epoch */
    uint32_t n_stopping;    /* trainers that have heard `stop`: no step is made any more */
    struct member *members; /* by rank */
    struct address *table;  /* likewise */
};

/* NULL: it is gone. */
struct cluster *cluster_by_id(const struct world *w, uint32_t id);
struct cluster *cluster_of_epoch(struct world *w, uint32_t job, uint64_t epoch);
/* Served by ps, the chief goes on without a worker once it has begun; it alone notices what it
 * cannot go on without, and nobody else ends by himself. */
bool cluster_is_served(const struct cluster *c);
bool cluster_can_miss(const struct cluster *c, uint32_t rank);
/* Precondition: the member lives. */
struct trainer *cluster_trainer(struct world *w, const struct cluster *c, uint32_t rank);
const struct trainer_spec *cluster_spec(struct world *w, const struct cluster *c);
/* From the seed, the job, the epoch, the rank and what it is for. */
uint64_t cluster_draw(const struct world *w, const struct cluster *c, uint32_t rank, uint64_t what,
                      uint32_t lo, uint32_t hi);
void cluster_say(struct world *w, const struct cluster *c, const char *what, const char *reason);
/* Makes the next step, unless something stands in its way. */
void cluster_go_on(struct world *w, struct cluster *c);
/* Each of its trainers ends well within so long. */
void cluster_finish(struct world *w, struct cluster *c, const char *what, uint32_t within_ms);

#endif
