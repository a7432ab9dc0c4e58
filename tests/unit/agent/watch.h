/* tests/unit/agent/watch.h: fixture: sources of notices on an event loop, and what
 * they have reported. */
#ifndef TFE_TESTS_UNIT_AGENT_WATCH_H
#define TFE_TESTS_UNIT_AGENT_WATCH_H

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_settings.h"
#include "agent/preemption/preemption.h"
#include "common/base/clock.h"
#include "tests/unit/agent/agent_fixture.h"

#define GRACE_MS 40000

struct watch {
    struct event_base *base;
    struct notice_watch *notices;
    struct notice_selection choice;
    struct notice_intervals intervals;
    unsigned told;       /* in total */
    bool runs_when_told; /* a notice is followed by set_running at once */
    struct agent_notice last[NOTICE_OPERATOR + 1];
    unsigned n[NOTICE_OPERATOR + 1];
    char from[64];
    struct cloud_info cloud;
    unsigned clouds; /* number of reports */
};

void watch_init(struct watch *w);
void watch_start(struct watch *w, const char *notice);
void watch_done(struct watch *w);

/* Runs the event loop once, for at most 2 ms. */
void watch_turn(struct watch *w);

/* Runs the event loop for this time, to check that something does not happen. */
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

/* Returns true if the deadline is this far ahead, within ten seconds. */
bool watch_is_ahead(struct tfe_mono deadline, int64_t ms);

#endif
