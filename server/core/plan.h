/* server/core/plan.h: switches that nobody needs at this very moment: growth, and leaving before a
 * machine goes. */
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

/* Written by plan.c. */
struct plan {
    /* Of the run. */
    bool knows_saves; /* a checkpoint was seen */
    bool knows_steps; /* a step was told */
    bool has_saved;   /* where the next epoch goes on, for all that is known: */
    uint64_t saved_step;
    uint64_t number;    /* of the last SAVE; or a higher one that a script has heard of */
    uint32_t switch_ms; /* the last standstill that was measured; 0: none was */
    uint32_t save_ms;   /* from the last SAVE to its answer */
    struct tfe_mono
        share_since;          /* of growth's share of time: the run's START, or the last growth */
    struct tfe_mono grown_at; /* STOP for the last growth; NEVER */
    uint32_t grown_ms;        /* its standstill; 0: not measured */
    uint32_t grown_least_ms;  /* … of which its START is known */
    struct tfe_mono stood_since; /* STOP of the switch whose standstill is being measured; NEVER */
    bool stood_to_grow;
    /* Of this epoch. */
    struct tfe_mono young_until; /* it has little behind it that could be lost */
    bool is_ordered;             /* growth, by an operator */
    bool is_hold_told;           /* that it waits for a checkpoint, and none was ever seen */
    struct tfe_mono newcomer_at; /* somebody who could come in is READY since; NEVER */
    uint32_t n_leaving;          /* members */
    struct tfe_mono noticed_at;  /* the first of them; NEVER */
    struct tfe_mono leave_by;    /* the first deadline of theirs; NEVER */
    struct tfe_mono leave_until; /* when those without a deadline leave at the latest; NEVER */
    enum tfe_cause leave_cause;
    uint32_t leaver;     /* seat of one of them */
    uint32_t n_hinted;   /* members that may have to go some time */
    bool is_waiting;     /* for a checkpoint: */
    uint64_t asked;      /* an answer to this SAVE or a later one, */
    bool is_heard;       /* or (who listened when asked: the second, else the first) */
    uint32_t saves_then; /* above so many */
    struct tfe_mono asked_at;
    struct tfe_mono asked_until; /* NEVER: not said */
    bool asked_in_memory;        /* what is kept in memory answers the last SAVE, too */
};

/* A new run: nothing is known of it. */
void plan_begin_run(struct job *job);
/* The epoch is opened or adopted. */
void plan_begin_epoch(struct rdzv *r, struct job *job);
/* Its first notice has come. O(1): ten thousand machines may be called back together. */
void plan_count(struct job *job, const struct node *node);
/* A notice has changed or gone, or members have. O(members). */
void plan_recount(struct job *job);

/* Whether scripts of this run are known to tell steps, or to save. */
static inline bool plan_knows_progress(const struct plan *plan)
{
    return plan->knows_steps || plan->knows_saves;
}
void plan_learn_steps(struct job *job);
void plan_learn_saved_step(struct job *job, uint64_t step);
/* So many checkpoints of this epoch were told; is_news: since the last time that somebody was
 * asked. */
void plan_learn_saves(struct job *job, uint32_t saves, bool is_more, bool is_news);

/* Plans a switch where it is time for one, asks for a checkpoint before; returns when to look
 * again. */
struct tfe_mono plan_settle(struct rdzv *r, struct job *job);
/* Whether growth waits for the first checkpoint of this run that is seen, and why, for people. */
bool plan_describe_hold(const struct rdzv *r, const struct job *job, struct text *text);
/* An operator wants it at once. TFE_ESTATE: nobody is ready to come in, or somebody of the epoch
 * ends already. */
int plan_order_growth(struct job *job) TFE_MUST_CHECK;
/* Whether who was to be taken in, or to leave, is not any more; or the job is about to end, or the
 * switch would have to wait. */
bool plan_is_void(const struct rdzv *r, struct job *job);
/* When the reason for a planned switch was seen. */
struct tfe_mono plan_detected_at(const struct rdzv *r, const struct job *job);
/* Whether the job goes on at once after a planned switch, with a member that keeps the state of
 * this epoch in memory: then nobody has to wait for the disk. O(members). */
bool plan_is_kept(const struct job *job);
/* The epoch is about to be stopped: the standstill begins. */
void plan_stop(struct rdzv *r, struct job *job);
/* It has ended, as far as can be seen. */
void plan_measure(struct rdzv *r, struct job *job);
/* What is known of a standstill says nothing any more. */
void plan_forget_standstill(struct job *job);
/* A member's scripts may have to be asked: a SAVE is under way that it was not told. */
void plan_ask_late(struct rdzv *r, struct job *job, struct node *node);
/* A node tells of an answer to a SAVE that this server has not sent, or has told so before it came:
 * what it asks has higher numbers. */
void plan_outnumber(struct rdzv *r, struct job *job, uint64_t answers);

#endif
