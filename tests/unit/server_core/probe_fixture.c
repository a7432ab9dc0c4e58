#include "tests/unit/server_core/probe_fixture.h"

struct world *an_answering_world(uint32_t min, uint32_t max)
{
    struct world *w = a_world(min, max);
    w->answers = true;
    return w;
}

void all_are_reached(struct world *w, uint64_t epoch)
{
    for (bool again = true; again;) {
        again = false;
        for (uint32_t s = 0; s < SESSIONS; s++) {
            if (w->probe[s]) {
                probed(w, s, PROBE_ANSWERED_OURS);
                again = true;
            }
            if (w->answering[s] && !w->asked[s]) {
                ready(w, s, epoch);
                again = true;
            }
        }
    }
}

struct world *a_reached_world(uint32_t min, uint32_t max, uint32_t n)
{
    struct world *w = an_answering_world(min, max);
    for (uint32_t i = 0; i < n; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
        all_are_reached(w, 1);
    }
    pass(w, 3000);
    all_are_reached(w, 1);
    assert_string_equal(job_state(w), "running");
    for (uint32_t i = 0; i < n; i++) {
        trainer_listens(w, i, 1);
    }
    return w;
}
