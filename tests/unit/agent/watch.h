/* tests/unit/agent/watch.h: sources of notices on an event loop, and what they have told. */
#ifndef TFE_TESTS_UNIT_AGENT_WATCH_H
#define TFE_TESTS_UNIT_AGENT_WATCH_H

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_settings.h"
#include "agent/preemption/cloud.h"
#include "agent/preemption/preemption.h"
#include "common/base/clock.h"
#include "tests/unit/agent/agent_fixture.h"

#define GRACE_MS 40000

struct watch {
    struct event_base *base;
    struct notice_watch *notices;
    struct notice_selection choice;
    struct notice_intervals intervals;
    unsigned told; /* in all */
    struct agent_notice last[NOTICE_OPERATOR + 1];
    unsigned n[NOTICE_OPERATOR + 1];
    char from[64];
    struct cloud_facts cloud;
    unsigned clouds; /* told */
};

void watch_init(struct watch *w);
void watch_start(struct watch *w, const char *notice);
void watch_done(struct watch *w);

/* One turn of the loop, of two milliseconds at most. */
void watch_turn(struct watch *w);

/* Runs the loop for so long: for what must not happen. */
void watch_for(struct watch *w, int64_t ms);

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
bool watch_is_ahead(struct tfe_mono deadline, int64_t ms);

#endif
