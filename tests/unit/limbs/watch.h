/* tests/unit/limbs/watch.h: sources of notices on an event loop, and what they have told. */
#ifndef TFE_TESTS_UNIT_LIMBS_WATCH_H
#define TFE_TESTS_UNIT_LIMBS_WATCH_H

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/notice/notice.h"
#include "agent/settings.h"
#include "common/net/clock.h"
#include "tests/unit/limbs/rig.h"

#define GRACE_MS 40000

/* Everything a hundred times as fast. */
static const struct notice_pace watch_pace = {
    .aws_ms = 20,
    .gce_ms = 10,
    .gce_wait_s = 1,
    .azure_ms = 10,
    .azure_first_ms = 5000,
    .file_ms = 10,
    .command_ms = 10,
    .command_within_ms = 300,
    .auto_ms = 400,
    .answer_ms = 150,
    .quiet_ms = 50,
};

struct watch {
    struct event_base *base;
    struct notices *notices;
    struct notice_choice choice;
    unsigned told; /* in all */
    struct agent_notice last[NOTICE_OPERATOR + 1];
    unsigned n[NOTICE_OPERATOR + 1];
    char from[64];
};

static inline void watch_on_notice(void *ctx, const struct agent_notice *notice, const char *from)
{
    struct watch *w = ctx;
    w->told++;
    w->last[notice->kind] = *notice;
    w->n[notice->kind]++;
    (void)snprintf(w->from, sizeof w->from, "%s", from);
}

static inline void watch_init(struct watch *w)
{
    memset(w, 0, sizeof *w);
    w->base = event_base_new();
    assert_non_null(w->base);
}

static inline void watch_start(struct watch *w, const char *notice)
{
    struct tfe_why why;
    const struct notice_wish wish = {
        .choice = &w->choice, .pace = &watch_pace, .options = &agent_options, .grace_ms = GRACE_MS};
    if (notice_choice_parse(&w->choice, notice, &why) || notice_choice_places(&w->choice, &why)) {
        fail_msg("%s", why.text);
    }
    assert_int_equal(notices_new(w->base, &wish, watch_on_notice, w, &w->notices), 0);
}

static inline void watch_done(struct watch *w)
{
    notices_free(w->notices);
    event_base_free(w->base);
}

/* One turn of the loop, of two milliseconds at most. */
static inline void watch_turn(struct watch *w)
{
    const struct timeval tick = {.tv_usec = 2000};
    (void)event_base_loopexit(w->base, &tick);
    (void)event_base_loop(w->base, EVLOOP_ONCE);
}

/* Runs the loop for so long: for what must not happen. */
static inline void watch_for(struct watch *w, int64_t ms)
{
    const int64_t end = rig_ms() + ms;
    while (rig_ms() < end) {
        watch_turn(w);
    }
}

#define watch_until(w, condition)                                                                  \
    do {                                                                                           \
        const int64_t give_up_ = rig_ms() + RIG_PATIENCE_MS;                                       \
        while (!(condition)) {                                                                     \
            watch_turn(w);                                                                         \
            if (rig_ms() > give_up_) {                                                             \
                fail_msg("%s did not come true", #condition);                                      \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* Whether the deadline lies so far ahead, as seen now, give or take ten seconds. */
static inline bool watch_is_ahead(struct tfe_mono deadline, int64_t ms)
{
    const int64_t off = tfe_mono_sub(deadline, clock_mono()) - ms;
    return !tfe_mono_is_never(deadline) && off > -10000 && off < 10000;
}

#endif
