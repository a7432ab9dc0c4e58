/* tests/unit/server_core/test_lease.c: how long leases are, and what renewals cost. */
#include "tests/unit/server_core/server_fixture.h"

/* Bears one renewal per second: with ttl 10 s three nodes. */
static struct world *a_modest_server(uint32_t min, uint32_t max)
{
    struct rdzv_config config = usual_config();
    config.renew_rate = 1;
    struct world *w = world_new(&config, min, max);
    w->quiet = false;
    return w;
}

TEST(ttl, restarted_server_waits_for_the_longest_lease)
{
    struct world *w = a_modest_server(4, 4);
    struct disk disk;
    w->disk = &disk;
    for (uint32_t i = 0; i < 4; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    assert_string_equal(job_state(w), "running");
    struct world *next = a_world(4, 4);
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    next->deadline = next->now;
    pass(next, 16639);
    assert_not_saw(next, "~node_lost");
    pass(next, 2 * 16640);
    assert_saw(next, "~node_lost");
    world_free(next);
    world_free(w);
}

/* --- what it costs --- */

/* Jobs of a thousand nodes each that wait for one more. */
#define NODES_PER_JOB 1000u

struct crowd {
    struct flaky flaky;
    struct tfe_mem mem;
    struct rdzv *r;
    struct rdzv_actions actions;
    uint32_t n;
};

static int crowd_says(struct crowd *c, uint32_t session, int64_t now, struct tfe_msg msg)
{
    return rdzv_step(
        c->r,
        &(struct rdzv_event){.type = RDZV_MESSAGE, .now = {now}, .session = session, .msg = &msg},
        &c->actions);
}

static struct crowd *a_crowd(uint32_t n)
{
    struct crowd *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    struct rdzv_config config = usual_config();
    config.max_sessions = n;
    config.renew_rate = n;
    c->n = n;
    c->mem = flaky_mem(&c->flaky);
    assert_int_equal(rdzv_new(&config, &c->mem, &c->r), 0);
    for (uint32_t i = 0; i < n; i++) {
        char job[32];
        char node[32];
        snprintf(job, sizeof(job), "j%u", i / NODES_PER_JOB);
        snprintf(node, sizeof(node), "n%u", i);
        struct tfe_msg msg = {.type = MSG_JOIN,
                              .u.join = usual_join(NODES_PER_JOB + 1, NODES_PER_JOB + 1)};
        msg.u.join.job = job;
        msg.u.join.node = node;
        msg.u.join.node_name = node;
        assert_int_equal(crowd_says(c, i, 1000, msg), 0);
    }
    return c;
}

static void crowd_free(struct crowd *c)
{
    rdzv_free(c->r);
    assert_int_equal(c->flaky.blocks, 0);
    free(c);
}

TEST(cost, renewal_sends_one_message_and_allocates_nothing)
{
    static const uint32_t sizes[] = {1000, 10000, 100000};
    for (int k = 0; k < 3; k++) {
        struct crowd *c = a_crowd(sizes[k]);
        uint64_t asked = c->flaky.asked;
        for (int64_t round = 0; round < 3; round++) {
            for (uint32_t i = 0; i < c->n; i++) {
                struct tfe_msg msg = {.type = MSG_RENEW, .u.renew.number = (uint64_t)round + 1};
                assert_int_equal(crowd_says(c, i, 2000 + 3000 * round + i / 100, msg), 0);
                assert_int_equal(c->actions.n, 1);
                assert_int_equal(c->actions.v[0].msg.type, MSG_RENEWED);
            }
        }
        assert_int_equal(c->flaky.asked, asked);
        crowd_free(c);
    }
}

static uint32_t spread_told(struct crowd *c, uint32_t session, uint64_t number)
{
    struct tfe_msg msg = {.type = MSG_RENEW, .u.renew.number = number};
    assert_int_equal(crowd_says(c, session, 2000, msg), 0);
    assert_int_equal(c->actions.v[0].msg.type, MSG_RENEWED);
    return c->actions.v[0].msg.u.renewed.spread_ms;
}

/* The first of a fleet that joined at once kept the spread of the small job that they had found,
 * and most of the fleet was back within the first second after an outage. */
TEST(spread, grown_job_sends_the_new_spread_once_to_earlier_nodes)
{
    struct crowd *c = a_crowd(NODES_PER_JOB);
    assert_int_equal(spread_told(c, 0, 1), 400);
    assert_int_equal(spread_told(c, 0, 2), 0);
    assert_int_equal(spread_told(c, NODES_PER_JOB / 2, 1), 400);
    assert_int_equal(spread_told(c, NODES_PER_JOB - 1, 1), 0); /* WELCOME has said it */
    assert_int_equal(crowd_says(c, 1, 2000, (struct tfe_msg){.type = MSG_GOODBYE}), 0);
    assert_int_equal(crowd_says(c, 2, 2000, (struct tfe_msg){.type = MSG_GOODBYE}), 0);
    assert_int_equal(crowd_says(c, 3, 2000, (struct tfe_msg){.type = MSG_GOODBYE}), 0);
    assert_int_equal(spread_told(c, 0, 3), 0);
    crowd_free(c);
}

TEST(cost, simultaneous_lease_ends_are_handled_in_batches)
{
    /* A renewal that comes meanwhile must not wait for all of them. */
    struct crowd *c = a_crowd(20000);
    uint32_t lost = 0;
    uint32_t steps = 0;
    int64_t now = 1000 + TTL_HELD_MS;
    while (c->actions.deadline.ms < now) { /* on time, as a shell is */
        struct tfe_mono when = c->actions.deadline;
        assert_int_equal(
            rdzv_step(c->r, &(struct rdzv_event){.type = RDZV_TICK, .now = when}, &c->actions), 0);
    }
    while (lost < c->n) {
        assert_int_equal(
            rdzv_step(c->r, &(struct rdzv_event){.type = RDZV_TICK, .now = {now}}, &c->actions), 0);
        uint32_t slice = 0;
        for (size_t i = 0; i < c->actions.n; i++) {
            slice +=
                c->actions.v[i].type == RDZV_TRACE && c->actions.v[i].trace.kind == TRACE_NODE_LOST;
        }
        if (slice == 0 || slice > RDZV_PERSIST_MAX) {
            fail_msg("%u lost in a step after %u", slice, lost);
        }
        assert_true(lost + slice == c->n || c->actions.deadline.ms <= now); /* come back at once */
        lost += slice;
        steps++;
    }
    assert_int_equal(steps, c->n / RDZV_PERSIST_MAX);
    crowd_free(c);
}
