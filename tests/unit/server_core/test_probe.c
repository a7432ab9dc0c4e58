/* tests/unit/server_core/test_probe.c: what other nodes find out about a newcomer's address. */
#include "tests/unit/server_core/probe_fixture.h"

TEST(newcomer, probes_are_queued_above_the_rate)
{
    struct rdzv_config config = usual_config();
    config.probe_rate = 1;
    struct world *w = world_new(&config, 2, 4);
    w->answers = true;
    join(w, 0, "a");
    ready(w, 0, 1);
    join(w, 1, "b");
    ready(w, 1, 1);
    assert_saw(w, "0:PROBE address b");
    probed(w, 0, PROBE_ANSWERED_OURS);
    ready(w, 1, 1);
    join(w, 2, "c");
    ready(w, 2, 1);
    assert_not_saw(w, "PROBE");
    assert_not_saw(w, "~node_unverified");
    pass(w, 999);
    assert_not_saw(w, "PROBE");
    pass(w, 101);
    assert_int_equal(times_seen(w, "PROBE address c"), 2);
    world_free(w);
}

TEST(newcomer, unreachable_node_is_refused_after_30_s_without_a_stop)
{
    static const enum tfe_probe_result results[] = {PROBE_ANSWERED_OTHER, PROBE_ACCEPTED,
                                                    PROBE_NO_ANSWER, PROBE_REFUSED};
    for (size_t k = 0; k < sizeof(results) / sizeof(results[0]); k++) {
        struct world *w = a_reached_world(1, 3, 2);
        join(w, 2, "c");
        ready(w, 2, 2);
        int64_t began = w->now;
        int tries = 0;
        for (; w->now < began + 30000; tries++) {
            probed(w, 1, results[k]);
            probed(w, 0, results[k]);
            assert_int_equal(times_seen(w, "~node_unreached job=j node=c epoch=1 number=0 c\n"),
                             tries == 0);
            pass(w, 1000);
            assert_string_equal(w->log, "0:PROBE address c c:1200\n1:PROBE address c c:1200\n");
        }
        assert_int_equal(tries, 30);
        probed(w, 0, results[k]);
        probed(w, 1, results[k]);
        char expected[300];
        snprintf(expected, sizeof(expected),
                 "2:REFUSED address_unreachable: no other node of job j "
                 "reached this node at c:1200 "
                 "within 30 s (node b: %s; set a reachable address with --address)\n",
                 msg_probe_result_name(results[k]));
        assert_saw(w, expected);
        assert_saw(w, "2:CLOSE\n");
        assert_string_equal(job_state(w), "running");
        pass(w, 100000);
        assert_string_equal(w->log, "");
        world_free(w);
    }
}

TEST(newcomer, ready_without_prepare_is_ignored)
{
    /* Its READY was for an epoch that was formed without it. When the last prober had turned out to
     * be mute, it counted as ready for the epoch after, whose ports it did not hold. */
    struct world *w = an_answering_world(1, 2);
    w->holds_writes = true;
    for (uint32_t s = 0; s < 3; s++) {
        join(w, s, name_of(s));
    }
    ready(w, 0, 1);
    ready(w, 2, 1);
    assert_saw(w, "0:PROBE address c");
    w->probe[0] = 0; /* never answered */
    ready(w, 1, 1);
    probed(w, 0, PROBE_ANSWERED_OURS);
    ready(w, 1, 1);
    probed(w, 1, PROBE_ANSWERED_OURS);
    ready(w, 0, 1);
    assert_string_equal(job_state(w), "committing");
    for (int i = 0; i < 10; i++) {
        pass(w, 1000);
        assert_not_saw(w, "node_ready");
    }
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "2:PREPARE epoch=2 answer\n");
    pass(w, 10000);
    assert_not_saw(w, "node_ready");
    ready(w, 2, 2);
    assert_saw(w, "PROBE address c");
    world_free(w);
}

TEST(newcomer, reconnected_prober_is_responsive_again)
{
    /* Its next session had the same number, and was blamed for what the one before had been asked.
     */
    struct world *w = a_reached_world(1, 3, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    probed(w, 1, PROBE_NO_ANSWER);
    cut(w, 0);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 0, "a");
    pass(w, PROBE_WAIT_MS + 1000);
    assert_saw(w, "0:PROBE address c c:1200\n1:PROBE address c c:1200\n");
    world_free(w);
}

TEST(newcomer, unverified_node_is_accepted_without_a_prober)
{
    struct rdzv_config config = usual_config();
    config.probe_ms = 2000;
    struct world *w = world_new(&config, 1, 2);
    w->answers = true;
    come(w, 2);
    probed(w, 0, PROBE_REFUSED);
    cut(w, 0);
    pass(w, 1500);
    assert_not_saw(w, "~node_unverified");
    pass(w, 1500);
    assert_saw(w, "~node_unverified job=j node=");
    world_free(w);
}

TEST(newcomer, node_that_never_stops_answering_is_left_out)
{
    struct world *w = an_answering_world(1, 2);
    come(w, 2);
    probed(w, 0, PROBE_ANSWERED_OURS);
    ready(w, 1, 1);
    probed(w, 1, PROBE_ANSWERED_OURS);
    assert_saw(w, "0:PREPARE epoch=1\n");
    pass(w, 999);
    assert_not_saw(w, "PERSIST");
    pass(w, 1);
    assert_saw(w, "~node_lost job=j node=a epoch=0 number=0 still responds on its ports; excluded "
                  "from the epoch");
    assert_saw(w, "1:START epoch=1 rank=0 world=1");
    world_free(w);
}

TEST(newcomer, node_that_must_not_answer_is_not_unreachable)
{
    /* It was asked to answer, then not to, as the only other one was away when the epoch began; its
     * first READY came after that, and it was tried when it had let go. It was never tried again.
     */
    struct world *w = an_answering_world(1, 3);
    w->holds_writes = true;
    join(w, 0, "a");
    ready(w, 0, 1);
    pass(w, 3000);
    ready(w, 0, 1);
    join(w, 1, "b");
    assert_saw(w, "1:PREPARE epoch=2 answer\n");
    cut(w, 0);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "1:PREPARE epoch=2\n");
    join(w, 2, "a");
    w->asked[1] = true;
    ready(w, 1, 2);
    assert_saw(w, "2:PROBE address b");
    w->asked[1] = false;
    ready(w, 1, 2);
    probed(w, 2, PROBE_REFUSED);
    assert_not_saw(w, "~node_unreached");
    world_free(w);
}

TEST(newcomer, unrequested_probe_result_is_ignored)
{
    struct world *w = a_reached_world(1, 4, 3);
    join(w, 3, "d");
    ready(w, 3, 2);
    uint64_t probe = w->probe[0];
    struct tfe_msg msg = {.type = MSG_PROBED,
                          .u.probed = {.probe = probe, .result = PROBE_ANSWERED_OURS}};
    assert_int_equal(say(w, 3, &msg), 0); /* about itself */
    assert_string_equal(w->log, "");
    msg.u.probed.probe = probe + 1;
    assert_int_equal(say(w, 0, &msg), 0);
    assert_string_equal(w->log, "");
    msg.u.probed.probe = 0;
    assert_int_equal(say(w, 0, &msg), 0);
    assert_string_equal(w->log, "");
    msg.u.probed.probe = probe;
    msg.u.probed.result = (enum tfe_probe_result)6;
    assert_int_equal(say(w, 0, &msg), TFE_EINVAL);
    msg.u.probed.result = PROBE_ANSWERED_OURS;
    probed(w, 0, PROBE_REFUSED);
    msg.u.probed.probe = probe;
    assert_int_equal(say(w, 0, &msg), 0); /* a second opinion of the same */
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(newcomer, lost_verifiers_cause_another_probe_without_delay)
{
    struct world *w = a_reached_world(1, 3, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    probed(w, 0, PROBE_ANSWERED_OURS); /* c is known to a alone, a to b alone */
    ready(w, 2, 2);
    probed(w, 1, PROBE_NO_ANSWER);
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 1, 1);
    assert_saw(w, "START epoch=2");
    goodbye(w, 1);
    assert_saw(w, "0:PREPARE epoch=3 answer\n");
    assert_saw(w, "2:PREPARE epoch=3\n");
    stopped_and_ready(w, 2, 2);
    exited_as(w, 0, (struct msg_exited){.epoch = 2, .stopped = true});
    ready(w, 0, 3);
    assert_saw(w, "~node_ready job=j node=a"); /* it counts */
    assert_saw(w, "2:PROBE address a a:1000");
    probed(w, 2, PROBE_REFUSED);
    assert_not_saw(w, "unreached");
    assert_saw(w, "0:PREPARE epoch=3\n");
    ready(w, 0, 3);
    assert_saw(w, "START epoch=3");
    world_free(w);
}

TEST(newcomer, late_result_makes_a_prober_responsive_again)
{
    struct world *w = a_reached_world(1, 3, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    uint64_t late = w->probe[0];
    probed(w, 1, PROBE_REFUSED);
    pass(w, PROBE_WAIT_MS + 1000);
    assert_string_equal(w->log, "~node_unreached job=j node=c epoch=1 number=0 c\n"
                                "1:PROBE address c c:1200\n");
    struct tfe_msg msg = {.type = MSG_PROBED,
                          .u.probed = {.probe = late, .result = PROBE_ANSWERED_OURS}};
    assert_int_equal(say(w, 0, &msg), 0);
    assert_string_equal(w->log, ""); /* too late for that one */
    probed(w, 1, PROBE_REFUSED);
    pass(w, 1000);
    assert_string_equal(w->log, "0:PROBE address c c:1200\n1:PROBE address c c:1200\n");
    world_free(w);
}
