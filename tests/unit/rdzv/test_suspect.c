/* tests/unit/rdzv/test_suspect.c: what other nodes find out about a suspect's trainers. */
#include "tests/unit/rdzv/reached.h"

TEST(suspect, refused_to_those_who_know_it_is_dead_and_the_switch_is_at_once)
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

TEST(suspect, what_a_prober_says_on_another_connection_was_not_asked_of_it)
{
    struct world *w = a_reached_world(1, 3, 3);
    cut(w, 1);
    const uint64_t asked = w->probe[2];
    cut(w, 2);
    w->join.highest_epoch = w->join.running_epoch = 1;
    join(w, 2, "c"); /* the server gives it the same number again */
    w->probe[2] = asked;
    probed(w, 2, PROBE_REFUSED);
    probed(w, 0, PROBE_REFUSED);
    assert_not_saw(w, "~node_dead"); /* c's own answer is still waited for */
    world_free(w);
}

TEST(suspect, accepted_or_silent_changes_nothing_and_is_asked_again_ever_later)
{
    for (int k = 0; k < 2; k++) {
        struct world *w = a_reached_world(1, 2, 2);
        cut(w, 1);
        int64_t waits[] = {50, 50, 50, 75, 112};
        for (int i = 0; i < 5; i++) {
            probed(w, 0, k ? PROBE_ACCEPTED : PROBE_NO_ANSWER);
            assert_string_equal(w->log, "");
            pass(w, waits[i] - 1);
            assert_string_equal(w->log, "");
            pass(w, 1);
            assert_string_equal(w->log, "0:PROBE suspect b b:1100\n");
        }
        probed(w, 0, PROBE_REFUSED);
        assert_saw(w, "~switch job=j node=- epoch=1 number=0 node_lost");
        world_free(w);
    }
}

TEST(suspect, is_asked_about_until_its_lease_ends_and_no_longer)
{
    struct world *w = a_reached_world(1, 2, 2);
    cut(w, 1);
    int tries = 0;
    for (int64_t began = w->now; w->now < began + TTL_HELD_MS + 5000; pass(w, 10)) {
        if (w->probe[0]) {
            tries++;
            probed(w, 0, PROBE_ACCEPTED);
        }
    }
    assert_in_range(tries, 11, 15);
    assert_string_equal(job_state(w), "preparing");
    world_free(w);
}

TEST(suspect, one_contradiction_is_enough)
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

TEST(suspect, a_prober_that_is_silent_does_not_contradict)
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

TEST(suspect, those_who_never_reached_it_prove_nothing)
{
    struct world *w = a_reached_world(1, 3, 2);
    join(w, 2, "c");
    ready(w, 2, 2);
    probed(w, 0, PROBE_ANSWERED_OURS); /* c is known to a alone */
    probed(w, 1, PROBE_NO_ANSWER);
    ready(w, 2, 2);
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 1, 1);
    trainer_listens(w, 2, 2);
    cut(w, 2);
    assert_saw(w, "0:PROBE suspect c c:1200\n1:PROBE suspect c c:1200\n");
    probed(w, 1, PROBE_REFUSED);
    pass(w, PROBE_WAIT_MS); /* a is silent, and so nothing but b's word is there */
    assert_string_equal(w->log, "");
    pass(w, 2000); /* a is mute by now: nobody else could prove anything */
    assert_not_saw(w, "PROBE");
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(suspect, that_never_listened_is_not_asked_about)
{
    struct world *w = an_answering_world(1, 2);
    come(w, 2);
    all_are_reached(w, 1);
    cut(w, 1);
    assert_saw(w, "~node_suspect");
    assert_not_saw(w, "PROBE");
    pass(w, 5000);
    assert_not_saw(w, "PROBE");
    world_free(w);
}

TEST(suspect, a_one_node_epoch_is_never_proven_dead_from_afar)
{
    struct world *w = a_reached_world(1, 1, 1);
    join(w, 1, "b"); /* a spare, which comes to know the member */
    ready(w, 1, 2);
    all_are_reached(w, 2);
    exited(w, 0, 1, 1);
    ready(w, 0, 2);
    assert_saw(w, "1:PROBE address a");
    all_are_reached(w, 2);
    pass(w, 1000); /* the back-off */
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    trainer_listens(w, 0, 2);
    cut(w, 0);
    assert_saw(w, "~node_suspect");
    assert_not_saw(w, "PROBE");
    pass(w, 5000);
    assert_not_saw(w, "PROBE");
    world_free(w);
}

TEST(suspect, a_proof_that_comes_after_it_is_back_is_ignored)
{
    struct world *w = a_reached_world(1, 2, 2);
    cut(w, 1);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 2, "b");
    probed(w, 0, PROBE_REFUSED);
    assert_string_equal(w->log, "");
    assert_string_equal(job_state(w), "running");
    cut(w, 2); /* and once more: a new question, the old answer is not its answer */
    assert_saw(w, "0:PROBE suspect b");
    probed(w, 0, PROBE_REFUSED);
    assert_saw(w, "~node_dead job=j node=b");
    world_free(w);
}

TEST(suspect, a_proof_about_another_epoch_is_ignored)
{
    struct world *w = a_reached_world(1, 3, 3);
    cut(w, 1);
    uint64_t probe = w->probe[0];
    exited(w, 2, 1, 1); /* its peer fails: the switch comes before the answer */
    ready(w, 2, 2);
    stopped_and_ready(w, 0, 1);
    pass(w, 1000);
    assert_saw(w, "START epoch=2");
    forget(w);
    struct tfe_msg msg = {.type = MSG_PROBED,
                          .u.probed = {.probe = probe, .result = PROBE_REFUSED}};
    assert_int_equal(say(w, 0, &msg), 0);
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(suspect, a_proof_during_the_switch_ends_the_wait_for_it)
{
    struct world *w = a_reached_world(1, 3, 3);
    cut(w, 1);
    exited(w, 2, 1, 1);
    ready(w, 2, 2);
    stopped_and_ready(w, 0, 1);
    assert_not_saw(w, "START"); /* b has its second */
    probed(w, 2, PROBE_REFUSED);
    probed(w, 0, PROBE_REFUSED);
    assert_saw(w, "START epoch=2 rank=0 world=2");
    world_free(w);
}

TEST(suspect, proven_dead_and_back_before_the_others_are_ready_takes_part)
{
    struct world *w = a_reached_world(1, 2, 2);
    cut(w, 1);
    probed(w, 0, PROBE_REFUSED);
    assert_saw(w, "0:STOP epoch=1");
    w->join.highest_epoch = 1;
    join(w, 2, "b");
    assert_saw(w, "2:PREPARE epoch=2\n");
    stopped_and_ready(w, 0, 1);
    assert_not_saw(w, "START");
    ready(w, 2, 2);
    assert_saw(w, "2:START epoch=2 rank=1 world=2");
    world_free(w);
}

TEST(suspect, proven_dead_explains_a_failure_when_its_lease_is_over_though_nobody_waited_for_that)
{
    /* Its machine is gone, its connection was not seen to break: found dead once the switch is on.
     */
    struct world *w = a_reached_world(1, 3, 3);
    exited_as(w, 1, (struct msg_exited){.epoch = 1, .code = 1, .tail = "ValueError: bad shape"});
    assert_saw(w, "~restarts job=j node=b epoch=1 number=1");
    cut(w, 2);
    probed(w, 0, PROBE_REFUSED);
    probed(w, 1, PROBE_REFUSED);
    assert_saw(w, "~node_dead job=j node=c");
    stopped_and_ready(w, 0, 1);
    ready(w, 1, 2);
    pass(w, 1000);
    assert_saw(w, "START epoch=2 rank=0 world=2");
    pass(w, TTL_HELD_MS);
    assert_saw(w, "~node_lost job=j node=c");
    assert_saw(w, "~restarts job=j node=- epoch=1 number=0");
    world_free(w);
}

TEST(suspect, the_way_a_connection_ends_matters)
{
    struct world *w = a_reached_world(1, 3, 3);
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 5, "b"); /* replaces its older session: no evidence */
    assert_not_saw(w, "PROBE");
    goodbye(w, 5); /* gone, by its own word */
    assert_not_saw(w, "PROBE");
    assert_saw(w, "drained");
    world_free(w);
}

TEST(suspect, many_at_once_are_bounded_and_found)
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

TEST(suspect, of_an_epoch_in_which_it_has_not_listened_yet_is_not_asked_about)
{
    struct world *w = a_reached_world(1, 2, 2);
    exited(w, 1, 1, 1);
    ready(w, 1, 2);
    stopped_and_ready(w, 0, 1);
    pass(w, 1000); /* the back-off */
    assert_saw(w, "START epoch=2");
    cut(w, 1);
    assert_saw(w, "~node_suspect");
    assert_not_saw(w, "PROBE");
    world_free(w);
}

/* --- a server that comes back ----------------------------------------------------------------- */

/* Who had reached whom was forgotten with the server: whoever was lost in an adopted epoch was only
 * missed when its lease ended. */
TEST(suspect, of_an_adopted_epoch_is_known_to_those_on_record)
{
    static struct disk disk;
    struct world *w = an_answering_world(1, 2);
    w->disk = &disk;
    come(w, 2);
    all_are_reached(w, 1);
    struct world *again = an_answering_world(1, 2);
    assert_int_equal(rdzv_restore(again->r, (struct tfe_mono){again->now}, &disk.record), 0);
    again->join.running_epoch = again->join.highest_epoch = 1;
    join(again, 0, "a");
    join(again, 1, "b");
    trainer_listens(again, 1, 1);
    cut(again, 1);
    assert_saw(again, "0:PROBE suspect b");
    probed(again, 0, PROBE_REFUSED);
    assert_saw(again, "~node_dead job=j node=b epoch=1 number=0 a\n");
    assert_string_equal(job_state(again), "preparing");
    world_free(w);
    world_free(again);
}
