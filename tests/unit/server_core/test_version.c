/* tests/unit/server_core/test_version.c: a job with two versions of TensorFlow. */
#include "tests/unit/server_core/server_fixture.h"

static const char *const refused = "REFUSED version_mismatch: TensorFlow versions differ: the "
                                   "other nodes of job j have 2.21.0, this node has 2.20.0 "
                                   "(install the same version on all nodes)\n";

static void join_with(struct world *w, uint32_t session, const char *node, const char *version)
{
    w->join.tensorflow = version;
    join(w, session, node);
    w->join.tensorflow = NULL;
}

static int ready_with(struct world *w, uint32_t session, uint64_t epoch, const char *version)
{
    struct tfe_msg msg = {.type = MSG_READY,
                          .u.ready = {.epoch = epoch,
                                      .host = "h",
                                      .ports = (uint16_t[]){(uint16_t)(1000 + session)},
                                      .n_ports = 1,
                                      .tensorflow = version}};
    return say(w, session, &msg);
}

TEST(version, different_version_is_refused_with_both_named)
{
    struct world *w = a_world(1, 3);
    join_with(w, 0, "a", "2.21.0");
    join(w, 1, "b");
    join_with(w, 2, "c", "2.21.0");
    assert_int_equal(ready_with(w, 1, 1, "2.20.0"), 0);
    assert_saw(w, refused);
    assert_saw(w, "1:CLOSE");
    assert_int_equal(ready_with(w, 2, 1, "2.21.0"), 0);
    assert_not_saw(w, "REFUSED");
    join_with(w, 3, "d", "2.20.0");
    assert_saw(w, refused);
    join(w, 4, "e"); /* which does not know its own */
    assert_not_saw(w, "REFUSED");
    assert_int_equal(ready_with(w, 4, 1, "no id/at all"), TFE_EINVAL);
    world_free(w);
}

TEST(version, other_version_is_accepted_once_no_node_has_the_first)
{
    struct world *w = a_world(1, 3);
    join_with(w, 0, "a", "2.21.0");
    join_with(w, 1, "b", "2.21.0");
    goodbye(w, 0);
    join_with(w, 2, "c", "2.20.0");
    assert_saw(w, refused);
    goodbye(w, 1);
    join_with(w, 2, "c", "2.20.0");
    assert_not_saw(w, "REFUSED");
    assert_int_equal(ready_with(w, 2, 1, "2.21.0"), 0); /* nobody else has any */
    assert_not_saw(w, "REFUSED");
    world_free(w);
}

TEST(version, version_of_members_precedes_that_of_an_earlier_newcomer)
{
    struct disk disk;
    struct world *w = a_world(1, 4);
    w->disk = &disk;
    for (uint32_t session = 0; session < 2; session++) {
        join(w, session, name_of(session));
        ready(w, session, 1);
    }
    pass(w, 3000);
    struct world *next = a_world(1, 4);
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    next->deadline = next->now;
    join_with(next, 2, "c", "2.20.0");
    join_with(next, 3, "d", "2.20.0");
    next->join.highest_epoch = next->join.running_epoch = 1;
    join_with(next, 0, "a", "2.21.0");
    assert_saw(next, "0:WELCOME");
    assert_not_saw(next, "0:REFUSED");
    assert_int_equal(times_seen(next, refused), 2);
    assert_saw(next, "2:CLOSE");
    assert_saw(next, "3:CLOSE");
    join_with(next, 1, "b", "2.20.0"); /* it trains, whatever it has … */
    assert_saw(next, "1:REFUSED");     /* … but not with what the other has: that cannot be */
    world_free(next);
    world_free(w);
}
