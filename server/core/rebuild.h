/* server/core/rebuild.h: a job whose record is lost, put together from what its members say. */
#ifndef TFE_SERVER_CORE_REBUILD_H
#define TFE_SERVER_CORE_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/msg.h"
#include "common/base/time.h"

struct job;
struct node;
struct rdzv;

/* What a node has said of its part in the epoch that its job is being rebuilt from. */
struct report {
    uint32_t seat;
    bool ran; /* its trainers did, when it came */
    bool listening;
    bool has_ended;       /* its trainers have, so: */
    uint8_t code, signal; /* as in EXITED */
    bool stopped;
};

/* What a job without a record is put together from; epoch 0: it is not. */
struct rebuild {
    uint64_t epoch;
    uint32_t run;
    uint32_t nodes;
    uint32_t n_reported;
    uint64_t digest;
    enum tfe_cause cause;
    struct tfe_mono until;
};

/* Whether what the JOIN says of the running epoch could be what the job is to be rebuilt from. */
bool rebuild_wants(const struct job *job, const struct msg_join *join);
/* Room for it. TFE_ENOMEM. */
int rebuild_reserve(struct rdzv *r, struct job *job, const struct msg_join *join) TFE_MUST_CHECK;
/* Takes it in; preconditions: the two above. False: somebody else says that it has this rank. */
bool rebuild_take(struct rdzv *r, struct node *node, const struct msg_join *join);
/* The trainers of a node that reports have come to their end. */
void rebuild_take_end(struct node *node, const struct msg_exited *exited);
/* After REBUILD_ADOPTED: what follows from those ends that were told meanwhile. */
void rebuild_judge(struct rdzv *r, struct job *job);
/* What the node said does not count any more. */
void rebuild_forget(struct node *node);
enum rebuild_step { REBUILD_WAITS, REBUILD_ADOPTED, REBUILD_GIVEN_UP };
enum rebuild_step rebuild_settle(struct rdzv *r, struct job *job);

#endif
