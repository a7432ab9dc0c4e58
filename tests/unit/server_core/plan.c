/* tests/unit/server_core/plan.c: progress reports and notices, for tests of planned switches. */
#include "tests/unit/server_core/plan.h"

void tells(struct world *w, uint32_t session, struct msg_progress progress)
{
    assert_int_equal(
        say(w, session, &(struct tfe_msg){.type = MSG_PROGRESS, .u.progress = progress}), 0);
}

void listens(struct world *w, uint32_t session, uint64_t epoch, uint64_t step)
{
    tells(w, session,
          (struct msg_progress){.epoch = epoch, .has_step = true, .step = step, .listens = true});
}

void saved(struct world *w, uint32_t session, uint64_t epoch, uint64_t step, uint32_t n,
           uint64_t answers)
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

void keeps(struct world *w, uint32_t session, uint64_t epoch, uint64_t step, uint64_t answers)
{
    tells(w, session,
          (struct msg_progress){
              .epoch = epoch,
              .has_step = true,
              .step = step,
              .listens = true,
              .snapshot_answers = answers,
              .memory = {.bytes = 1, .has_snapshot = true, .epoch = epoch, .step = step}});
}

void noticed(struct world *w, uint32_t session, enum tfe_notice kind, uint32_t within_ms)
{
    assert_int_equal(say(w, session,
                         &(struct tfe_msg){.type = MSG_NOTICE,
                                           .u.notice = {.kind = kind, .deadline_ms = within_ms}}),
                     0);
}

void notice_withdrawn(struct world *w, uint32_t session, enum tfe_notice kind)
{
    assert_int_equal(
        say(w, session,
            &(struct tfe_msg){
                .type = MSG_NOTICE,
                .u.notice = {.kind = kind, .deadline_ms = MSG_UNSET, .withdrawn = true}}),
        0);
}

void switch_over(struct world *w, uint32_t first, uint32_t n, uint64_t epoch)
{
    for (uint32_t session = first; session < first + n; session++) {
        stopped_and_ready(w, session, epoch);
    }
}
