/* tests/unit/rdzv/plan.h: what scripts tell and machines warn of, for stories about planned
 * switches. */
#ifndef TFE_TESTS_UNIT_RDZV_PLAN_H
#define TFE_TESTS_UNIT_RDZV_PLAN_H

#include "tests/unit/rdzv/operator.h"

static inline void tells(struct world *w, uint32_t session, struct msg_progress progress)
{
    assert_int_equal(
        say(w, session, &(struct tfe_msg){.type = MSG_PROGRESS, .u.progress = progress}), 0);
}

/* Its script is there and can be asked, and has done so many steps. */
static inline void listens(struct world *w, uint32_t session, uint64_t epoch, uint64_t step)
{
    tells(w, session,
          (struct msg_progress){.epoch = epoch, .has_step = true, .step = step, .listens = true});
}

/* It has saved at that step, for the n-th time in the epoch, having heard of SAVE number `answers`.
 */
static inline void saved(struct world *w, uint32_t session, uint64_t epoch, uint64_t step,
                         uint32_t n, uint64_t answers)
{
    tells(w, session,
          (struct msg_progress){.epoch = epoch,
                                .has_step = true,
                                .step = step,
                                .has_saved = true,
                                .saved_step = step,
                                .saves = n,
                                .answers = answers,
                                .listens = answers != 0});
}

static inline void noticed(struct world *w, uint32_t session, enum tfe_notice kind,
                           uint32_t within_ms)
{
    assert_int_equal(say(w, session,
                         &(struct tfe_msg){.type = MSG_NOTICE,
                                           .u.notice = {.kind = kind, .deadline_ms = within_ms}}),
                     0);
}

static inline void notice_withdrawn(struct world *w, uint32_t session, enum tfe_notice kind)
{
    assert_int_equal(
        say(w, session,
            &(struct tfe_msg){
                .type = MSG_NOTICE,
                .u.notice = {.kind = kind, .deadline_ms = MSG_UNSET, .withdrawn = true}}),
        0);
}

/* All of the epoch's trainers are told to stop, end, and are ready again. */
static inline void switch_over(struct world *w, uint32_t first, uint32_t n, uint64_t epoch)
{
    for (uint32_t session = first; session < first + n; session++) {
        stopped_and_ready(w, session, epoch);
    }
}

#endif
