/* tests/unit/rdzv/test_probe.c: what other nodes find out about a newcomer's address, and about a
 * suspect's trainers. */
#include "tests/unit/rdzv/world.h"

/* An answer must be there by then, or the prober is mute. */
#define PROBE_WAIT_MS 1500

static struct world *an_answering_world(uint32_t min, uint32_t max)
{
    struct world *w = a_world(min, max);
    w->answers = true;
    return w;
}

/* Whoever was asked has reached the node, and whoever was let go is READY without. */
static void all_are_reached(struct world *w, uint64_t epoch)
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

static void listens(struct world *w, uint32_t session, uint64_t epoch)
{
    assert_int_equal(
        say(w, session, &(struct tfe_msg){.type = MSG_LISTENING, .u.listening.epoch = epoch}), 0);
}

/* Nodes a, b, … on sessions 0 …, in epoch 1, each reached by up to three others, all listening. */
static struct world *a_reached_world(uint32_t min, uint32_t max, uint32_t n)
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
        listens(w, i, 1);
    }
    return w;
}

/* --- a newcomer ------------------------------------------------------------------------------- */

TEST(newcomer, is_reached_before_the_running_epoch_stops)
{
    struct world *w = a_reached_world(1, 3, 2);
    join(w, 2, "c");
    assert_saw(w, "2:PREPARE epoch=2 answer\n");
    ready(w, 2, 2);
    assert_string_equal(w->log, "0:PROBE address c c:1200\n1:PROBE address c c:1200\n");
    probed(w, 0, PROBE_ANSWERED_OURS);
    assert_string_equal(w->log, "~node_verified job=j node=c epoch=1 number=0 a\n"
                                "2:PREPARE epoch=2\n");
    ready(w, 2, 2);
    assert_saw(w, "~node_ready job=j node=c");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 joined");
    assert_saw(
        w,
        "0:STOP epoch=1 planned\n0:PREPARE epoch=2\n1:STOP epoch=1 planned\n1:PREPARE epoch=2\n");
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 1, 1);
    assert_saw(w, "2:START epoch=2 rank=2 world=3");
    world_free(w);
}

TEST(newcomer, waits_its_turn_where_too_many_are_to_be_tried)
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

TEST(newcomer, the_first_has_nobody_and_is_tried_before_the_epoch)
{
    struct world *w = an_answering_world(1, 2);
    join(w, 0, "a");
    ready(w, 0, 1);
    assert_saw(w, "~node_unverified job=j node=a epoch=0 number=0 a\n~node_ready job=j node=a");
    assert_string_equal(job_state(w), "gathering");
    join(w, 1, "b");
    ready(w, 1, 1);
    assert_string_equal(w->log, "0:PROBE address b b:1100\n");
    probed(w, 0, PROBE_ANSWERED_OURS);
    ready(w, 1, 1); /* all are here; but a was never tried, and still answers */
    assert_saw(w, "1:PROBE address a a:1000");
    assert_string_equal(job_state(w), "preparing");
    probed(w, 1, PROBE_ANSWERED_OURS);
    assert_saw(w, "0:PREPARE epoch=1\n");
    assert_not_saw(w, "PERSIST"); /* it may not have stopped answering yet */
    ready(w, 0, 1);
    assert_saw(w, "0:START epoch=1 rank=0 world=2");
    world_free(w);
}

TEST(newcomer, alone_it_starts_unverified)
{
    struct world *w = an_answering_world(1, 1);
    join(w, 0, "a");
    ready(w, 0, 1);
    assert_saw(w, "~node_unverified");
    assert_saw(w, "0:PREPARE epoch=1\n");
    assert_not_saw(w, "PERSIST");
    ready(w, 0, 1);
    assert_saw(w, "0:START epoch=1 rank=0 world=1");
    exited(w, 0, 1, 1);
    assert_saw(w, "0:PREPARE epoch=2\n"); /* nobody is here to try it: no second round */
    world_free(w);
}

TEST(newcomer, one_success_is_enough)
{
    struct world *w = a_reached_world(1, 4, 3);
    join(w, 3, "d");
    ready(w, 3, 2);
    assert_int_equal(times_seen(w, ":PROBE address d d:1300"), 3);
    probed(w, 0, PROBE_REFUSED);
    probed(w, 1, PROBE_NO_ANSWER);
    assert_string_equal(w->log, "");
    probed(w, 2, PROBE_ANSWERED_OURS);
    assert_saw(w, "3:PREPARE epoch=2\n");
    ready(w, 3, 2);
    assert_saw(w, "~switch");
    world_free(w);
}

TEST(newcomer, that_nobody_reaches_never_stops_the_epoch_and_is_refused_after_30_s)
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
        snprintf(
            expected, sizeof(expected),
            "2:REFUSED address_unreachable: no other node of job j reaches this one at c:1200, "
            "tried for 30 s (node b: %s); name an address that they can reach with "
            "--address\n",
            msg_probe_result_name(results[k]));
        assert_saw(w, expected);
        assert_saw(w, "2:CLOSE\n");
        assert_string_equal(job_state(w), "running");
        pass(w, 100000);
        assert_string_equal(w->log, "");
        world_free(w);
    }
}

TEST(newcomer, how_long_is_tried_can_be_set)
{
    struct rdzv_config config = usual_config();
    config.probe_ms = 2000;
    struct world *w = world_new(&config, 1, 3);
    w->answers = true;
    come(w, 2);
    for (int64_t began = w->now; w->now < began + 2000;) {
        probed(w, 0, PROBE_REFUSED);
        assert_not_saw(w, "REFUSED");
        pass(w, 501); /* four tries at least */
    }
    probed(w, 0, PROBE_REFUSED);
    assert_saw(w, "1:REFUSED address_unreachable");
    world_free(w);
}

TEST(newcomer, a_success_forgives_the_failures)
{
    struct world *w = a_reached_world(1, 2, 1);
    join(w, 1, "b");
    ready(w, 1, 2);
    for (int i = 0; i < 25; i++) {
        probed(w, 0, PROBE_REFUSED);
        pass(w, 1000);
    }
    probed(w, 0, PROBE_ANSWERED_OURS);
    ready(w, 1, 2);
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 joined");
    world_free(w);
}

TEST(newcomer, the_first_ones_bad_address_is_found_out_before_the_epoch)
{
    struct world *w = an_answering_world(2, 2);
    come(w, 2);
    probed(w, 0, PROBE_ANSWERED_OURS);
    ready(w, 1, 1);
    probed(w, 1, PROBE_REFUSED);
    assert_saw(w, "~node_unreached job=j node=a");
    assert_string_equal(job_state(w), "waiting");
    for (int i = 0; i < 30; i++) {
        pass(w, 1000);
        probed(w, 1, PROBE_REFUSED);
    }
    assert_saw(w, "0:REFUSED address_unreachable");
    join(w, 2, "c");
    ready(w, 2, 1);
    all_are_reached(w, 1);
    assert_string_equal(job_state(w), "running");
    world_free(w);
}

TEST(newcomer, a_prober_that_says_nothing_is_no_prober)
{
    struct world *w = a_reached_world(1, 2, 1);
    join(w, 1, "b");
    ready(w, 1, 2);
    assert_saw(w, "0:PROBE address b");
    pass(w, PROBE_WAIT_MS - 1);
    assert_string_equal(w->log, "");
    pass(w, 1);
    assert_saw(w, "~node_unverified job=j node=b");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 joined");
    world_free(w);
}

TEST(newcomer, a_prober_that_speaks_late_is_one_again)
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

TEST(newcomer, is_not_ready_for_an_epoch_that_it_was_never_asked_for)
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

TEST(newcomer, a_prober_that_reconnects_is_not_mute)
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

/* As nobody could try it then, it counted as it was: the running epoch was stopped for it, and the
 * next one formed without it. */
TEST(newcomer, that_was_not_reached_waits_for_who_tried_it)
{
    struct world *w = a_reached_world(1, 2, 1);
    join(w, 1, "b");
    ready(w, 1, 2);
    probed(w, 0, PROBE_NO_ANSWER);
    assert_saw(w, "~node_unreached job=j node=b");
    cut(w, 0);
    pass(w, 1000);
    assert_not_saw(w, "~node_unverified");
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 0, "a");
    pass(w, 1000);
    assert_saw(w, "0:PROBE address b");
    assert_int_equal(times_seen(w, "~switch"), 0);
    world_free(w);
}

TEST(newcomer, that_was_not_reached_counts_as_it_is_where_nobody_comes_who_could_try)
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

TEST(newcomer, one_prober_has_eight_of_them_at_a_time)
{
    struct world *w = a_reached_world(1, 64, 1);
    for (uint32_t s = 1; s <= 20; s++) {
        char id[8];
        snprintf(id, sizeof(id), "n%02u", s);
        join(w, s, id);
    }
    int asked = 0;
    for (uint32_t s = 1; s <= 20; s++) {
        ready(w, s, 2);
        asked += times_seen(w, "0:PROBE");
        for (uint32_t k = 1; k <= 20; k++) {
            assert_true(times_seen(w, ":PROBE") <= 3);
        }
    }
    assert_int_equal(asked, 8);
    world_free(w);
}

TEST(newcomer, who_never_stops_answering_is_left_out)
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
    assert_saw(w, "~node_lost job=j node=a epoch=0 number=0 still answers on its ports, left out");
    assert_saw(w, "1:START epoch=1 rank=0 world=1");
    world_free(w);
}

TEST(newcomer, who_was_told_not_to_answer_is_not_unreachable)
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

TEST(newcomer, an_agent_that_knows_nothing_of_answering_counts_as_it_is)
{
    struct world *w = a_reached_world(1, 3, 2);
    join(w, 2, "c");
    w->asked[2] = false; /* does not know the field */
    ready(w, 2, 2);
    assert_not_saw(w, "PROBE");
    assert_saw(w, "~switch job=j node=- epoch=1 number=0 joined");
    world_free(w);
}

TEST(newcomer, an_answer_that_was_not_asked_for_says_nothing)
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

TEST(newcomer, another_address_has_to_be_reached_anew)
{
    struct world *w = a_reached_world(1, 2, 2);
    exited(w, 1, 1, 1);
    assert_saw(w, "1:PREPARE epoch=2\n"); /* a knows it */
    stopped_and_ready(w, 0, 1);
    uint16_t port = 7;
    struct tfe_msg msg = {
        .type = MSG_READY,
        .u.ready = {.epoch = 2, .host = "elsewhere", .ports = &port, .n_ports = 1}};
    assert_int_equal(say(w, 1, &msg), 0); /* asked without: it counts once more */
    pass(w, 1000);                        /* the back-off */
    assert_saw(w, "START epoch=2");
    exited(w, 1, 2, 1);
    assert_saw(w, "1:PREPARE epoch=3 answer\n");
    world_free(w);
}

TEST(newcomer, whose_verifiers_are_gone_is_tried_again_but_not_held_up)
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

/* --- a suspect -------------------------------------------------------------------------------- */

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
    listens(w, 2, 2);
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
    listens(w, 0, 2);
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
    listens(again, 1, 1);
    cut(again, 1);
    assert_saw(again, "0:PROBE suspect b");
    probed(again, 0, PROBE_REFUSED);
    assert_saw(again, "~node_dead job=j node=b epoch=1 number=0 a\n");
    assert_string_equal(job_state(again), "preparing");
    world_free(w);
    world_free(again);
}
