/* tests/unit/agent/test_pending.c: events queued until the end of a step. */
#include <stdio.h>
#include <string.h>

#include "agent/pending.h"
#include "tests/unit/test_runner.h"

TEST(pending, each_event_owns_its_text)
{
    /* Bug: all events shared one buffer, so two trainers that could not be started both got the
     * reason of the second. */
    static struct pending p;
    char text[32];
    for (uint32_t local = 0; local < 2; local++) {
        snprintf(text, sizeof(text), "reason %u", local);
        pending_add(&p, &(struct agent_event){.type = AGENT_SPAWN_FAILED,
                                              .end = {.local_rank = local, .tail = text}});
    }
    pending_add(&p,
                &(struct agent_event){.type = AGENT_PORTS_FAILED, .reason = "port 1 is in use"});
    memset(text, 0, sizeof(text));
    assert_string_equal(pending_next(&p)->end.tail, "reason 0");
    assert_string_equal(pending_next(&p)->end.tail, "reason 1");
    assert_string_equal(pending_next(&p)->reason, "port 1 is in use");
    assert_null(pending_next(&p));
}

TEST(pending, event_above_the_capacity_is_dropped_and_capacity_recovers)
{
    static struct pending p;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < PENDING_MAX + 3; i++) {
            pending_add(&p, &(struct agent_event){.type = AGENT_LISTENING, .epoch = i});
        }
        for (uint32_t i = 0; i < PENDING_MAX; i++) {
            assert_int_equal(pending_next(&p)->epoch, i);
        }
        assert_null(pending_next(&p));
    }
}
