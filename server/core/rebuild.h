/* server/core/rebuild.h: a job whose record is lost, put together from what its members say. */
#ifndef TFE_SERVER_CORE_REBUILD_H
#define TFE_SERVER_CORE_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* What a node has said of its part in the epoch that its job is being rebuilt from. Written by
 * report.c. */
struct report {
    bool is_given;
    uint32_t seat;
    bool is_listening;
    bool has_ended;       /* its trainers have, so: */
    uint8_t code, signal; /* as in EXITED */
    bool stopped;
    uint64_t restart; /* number of the RESTART that had started them */
};

/* What a job without a record is put together from; epoch 0: it is not. Written by rebuild.c. */
struct rebuild {
    uint64_t epoch;
    uint32_t run;
    uint32_t nodes;
    uint32_t n_reported;
    uint64_t digest;
    enum tfe_cause cause;
    struct tfe_mono until;
    struct tfe_mono left_until; /* what those run who have reported, and do so no more */
    struct node *nobody;        /* in the seats of members that nothing was heard of; in no tree */
};

/* One of those who have reported does so no more; what it runs ends by then. */
static inline void rebuild_count_out(struct rebuild *rebuild, struct tfe_mono until)
{
    rebuild->n_reported--;
    rebuild->left_until = tfe_mono_max(rebuild->left_until, until);
}

/* Whether what the JOIN says of the running epoch could be what the job is to be rebuilt from. */
bool rebuild_wants(const struct rdzv *r, const struct job *job, const struct msg_join *join);
/* Whether it could be true. */
bool rebuild_believes(const struct msg_join *join);
/* Room for it. TFE_ENOMEM. */
int rebuild_reserve(struct rdzv *r, struct job *job, const struct msg_join *join) TFE_MUST_CHECK;
/* Takes it in; preconditions: the two above. False: somebody else says that it has this rank. */
bool rebuild_take(struct rdzv *r, struct node *node, const struct msg_join *join);
/* It reports that it has this seat. */
void report_begin(struct node *node, uint32_t seat, uint64_t restart);
/* The trainers of a node that reports listen, or have come to their end. False: it is about another
 * epoch, or the node does not report. */
bool report_take_listening(struct node *node, uint64_t epoch);
bool report_take_end(struct node *node, const struct msg_exited *exited);
/* What the node said does not count any more. */
void report_forget(struct node *node);
/* … or has been made use of. */
void report_done(struct node *node);

enum rebuild_step { REBUILD_WAITS, REBUILD_ADOPTED, REBUILD_GIVEN_UP };
enum rebuild_step rebuild_settle(struct rdzv *r, struct job *job);
/* After REBUILD_ADOPTED: what follows from those ends that were told meanwhile. */
void rebuild_judge(struct rdzv *r, struct job *job);

#endif
