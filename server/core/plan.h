/* server/core/plan.h: planned switches: growth, and leaving before a machine is terminated. */
#ifndef TFE_SERVER_CORE_PLAN_H
#define TFE_SERVER_CORE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;
struct text;

/* State of planned switches. Written by plan.c, and knows_steps and saved_step by job_progress.c.
 */
struct plan {
    /* For the whole run: */
    bool knows_saves; /* a checkpoint of this run was seen */
    bool knows_steps; /* a step of this run was reported */
    bool has_saved; /* saved_step is set: the step from which the next epoch continues from disk */
    uint64_t saved_step;
    /* number of the last SAVE, or a higher one that a script is known to have received */
    uint64_t number;
    uint32_t switch_ms; /* duration of the latest measured standstill; 0 if none was measured */
    uint32_t save_ms;   /* time from the last SAVE to its answer */
    /* start of the period for growth's share of time: the run's START, or the last growth */
    struct tfe_mono share_since;
    struct tfe_mono grown_at; /* when STOP was sent for the last growth; NEVER if none */
    uint32_t grown_ms;        /* standstill of the last growth; 0 if not measured */
    uint32_t grown_min_ms;    /* part of the last growth's standstill until its START */
    /* when STOP was sent for the switch whose standstill is being measured; NEVER if none */
    struct tfe_mono standstill_since;
    bool standstill_is_growth;
    /* For the current epoch: */
    struct tfe_mono young_until; /* until then the epoch has little unsaved work to lose */
    bool is_ordered;             /* an operator has requested growth */
    bool is_hold_reported; /* the trace that growth waits for a first checkpoint has been sent */
    /* since when a node that could be added is READY; NEVER if there is none */
    struct tfe_mono newcomer_at;
    uint32_t n_leaving;         /* number of members that are leaving */
    struct tfe_mono noticed_at; /* earliest notice of a leaving member; NEVER if none */
    struct tfe_mono leave_by;   /* earliest deadline of a leaving member; NEVER if none */
    /* latest time at which members without a deadline leave; NEVER if none */
    struct tfe_mono leave_until;
    enum tfe_cause leave_cause;
    uint32_t leaver; /* slot of the leaving member that is named as the reason */
    uint32_t
        n_hinted;    /* number of members with a rebalance notice, which may have to leave later */
    bool is_waiting; /* a checkpoint is being waited for */
    uint64_t first_save; /* number of the first SAVE whose answer ends the wait */
    /* some script listened when it was asked; then the second checkpoint ends the wait, else the
     * first */
    bool has_listener;
    uint32_t saves_then; /* number of checkpoints seen when the wait began */
    struct tfe_mono wait_began;
    /* when the requested checkpoint must be done; NEVER if no limit was sent */
    struct tfe_mono save_deadline;
    bool save_in_memory; /* state kept in memory also answers the last SAVE */
};

/* Starts a new run, of which nothing is known. */
void plan_begin_run(struct job *job);
/* Starts the planning for an epoch that has been opened or adopted. */
void plan_begin_epoch(struct rdzv *r, struct job *job);
/* Counts a member's first notice. O(1), because ten thousand machines may be called back
 * together. */
void plan_count(struct job *job, const struct node *node);
/* Counts the members' notices anew, after one has changed or gone or members have left.
 * O(members). */
void plan_recount(struct job *job);

/* Returns true if scripts of this run are known to report steps or checkpoints. */
static inline bool plan_knows_progress(const struct plan *plan)
{
    return plan->knows_steps || plan->knows_saves;
}
/* Notes that this many checkpoints of the epoch were reported. is_news: they are newer than the
 * last SAVE. */
void plan_learn_saves(struct job *job, uint32_t saves, bool is_more, bool is_news);

/* Plans a switch if it is time for one, and requests a checkpoint before it. Returns when to call
 * again. */
struct tfe_mono plan_settle(struct rdzv *r, struct job *job);
/* Returns true if growth waits for the first checkpoint of this run, and appends the reason to
 * text. */
bool plan_describe_hold(const struct rdzv *r, const struct job *job, struct text *text);
/* An operator requests growth at once. Returns TFE_ESTATE if no node is ready to be added, or if a
 * trainer of the epoch has already ended well. */
int plan_order_growth(struct job *job) TFE_MUST_CHECK;
/* Returns true if a planned switch has become pointless: the node to add or to remove is gone, the
 * job is about to end, or the switch would have to wait. */
bool plan_is_obsolete(const struct rdzv *r, struct job *job);
/* Returns when the reason for a planned switch was detected. */
struct tfe_mono plan_detected_at(const struct rdzv *r, const struct job *job);
/* Returns true if the job continues at once after a planned switch with a member that keeps this
 * epoch's state in memory, so that nobody waits for the disk. O(members). */
bool plan_state_in_memory(const struct job *job);
/* Starts measuring the standstill: the epoch is about to be stopped. */
void plan_stop(struct rdzv *r, struct job *job);
/* Measures the standstill: it has ended as far as the server can see. */
void plan_measure(struct rdzv *r, struct job *job);
/* Discards the standstill that is being measured. */
void plan_forget_standstill(struct job *job);
/* Sends the pending SAVE to a member that has not received it yet. */
void plan_resend_save(struct rdzv *r, struct job *job, struct node *node);
/* A node reports an answer to a SAVE of an earlier server: raises the number of SAVEs above it. */
void plan_raise_number(struct rdzv *r, struct job *job, uint64_t answers);

#endif
