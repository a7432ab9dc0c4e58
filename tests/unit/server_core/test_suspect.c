/* tests/unit/server_core/test_suspect.c: what other nodes find out about a suspect's trainers. */
#include "tests/unit/server_core/probe_fixture.h"

TEST(suspect, refused_probes_of_verifiers_prove_death_and_switch_at_once)
{
    struct world *w = a_reached_world(1, 3, 3);
    uint64_t asked = w->flaky.asked;
    cut(w, 1);
    assert_string_equal(w->log, "~node_suspect job=j node=b epoch=1 number=0 b\n"
                                "0:PROBE suspect b b:1100\n"
                                "2:PROBE suspect b b:1100\n");
    probed(w, 2, PROBE_REFUSED);
    assert_string_equal(w->log, "");
    probed(w, 0, PROBE_REFUSED);
    assert_saw(w, "~node_dead job=j node=b epoch=1 number=0 a\n");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 node_lost");
    assert_saw(w, "0:STOP epoch=1\n0:PREPARE epoch=2\n2:STOP epoch=1\n2:PREPARE epoch=2\n");
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 2, 1);
    assert_saw(w, "START epoch=2 rank=0 world=2 nodes=2 cause=node_lost"); /* no second for b */
    struct msg_status_job job;
    assert_int_equal(rdzv_view_job(w->r, NULL, &job), 0);
    assert_int_equal(job.restarts, 0);
    assert_int_equal(w->flaky.asked, asked); /* nothing of this takes memory */
    world_free(w);
}

TEST(suspect, one_contradicting_probe_prevents_the_proof)
{
    static const enum tfe_probe_result results[] = {PROBE_ACCEPTED, PROBE_NO_ANSWER,
                                                    PROBE_ANSWERED_OTHER, PROBE_ANSWERED_OURS};
    for (size_t k = 0; k < sizeof(results) / sizeof(results[0]); k++) {
        struct world *w = a_reached_world(1, 4, 4);
        cut(w, 1);
        assert_int_equal(times_seen(w, ":PROBE suspect b"), 3);
        probed(w, 0, PROBE_REFUSED);
        probed(w, 3, results[k]);
        probed(w, 2, PROBE_REFUSED);
        assert_string_equal(w->log, "");
        assert_string_equal(job_state(w), "running");
        world_free(w);
    }
}

TEST(suspect, silent_prober_does_not_contradict)
{
    struct world *w = a_reached_world(1, 3, 3);
    cut(w, 1);
    probed(w, 0, PROBE_REFUSED);
    pass(w, PROBE_WAIT_MS - 1);
    assert_string_equal(w->log, "");
    pass(w, 1);
    assert_saw(w, "~node_dead job=j node=b");
    world_free(w);
}

TEST(suspect, many_suspects_are_probed_within_the_limit)
{
    struct world *w = a_reached_world(1, 8, 8);
    for (uint32_t s = 1; s < 8; s++) {
        cut(w, s);
        assert_true(times_seen(w, ":PROBE") <= 3);
        w->probe[s] = 0;
    }
    assert_string_equal(job_state(w), "running");
    for (int i = 0; i < 100 && strcmp(job_state(w), "running") == 0; i++) {
        if (w->probe[0]) {
            probed(w, 0, PROBE_REFUSED);
        }
        pass(w, 50);
    }
    assert_string_equal(job_state(w), "preparing");
    assert_in_range(w->now, 0, 1003000 + 5000);
    world_free(w);
}

/* --- a server that comes back ----------------------------------------------------------------- */
