/* tests/unit/both/test_fleet.c: server and agents together, by the book and under random faults. */
#include "tests/unit/both/fleet.h"

TEST(fleet, goes_from_1_to_3_to_2_to_3_members)
{
    NO_FIXTURE;
    struct fleet *f = fleet_new(1, 1, 4, 1);
    start_agent(f, 0);
    run_for(f, 4000);
    assert_int_equal(nodes_training(f), 1);
    assert_int_equal(f->epoch, 1);
    start_agent(f, 1);
    start_agent(f, 2);
    run_for(f, 4000);
    assert_int_equal(nodes_training(f), 3);
    kill_agent(f, 1, false);
    run_for(f, 20000);
    assert_int_equal(nodes_training(f), 2);
    assert_int_equal(f->slots[0].rank, 0);
    start_agent(f, 1);
    run_for(f, 4000);
    assert_int_equal(nodes_training(f), 3);
    assert_int_equal(f->slots[0].rank, 0);
    fleet_free(f);
}

TEST(fleet, four_agents_with_1_to_2_are_two_members_and_two_spares)
{
    NO_FIXTURE;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct fleet *f = fleet_new(seed, 1, 2, 2);
        for (uint32_t i = 0; i < 4; i++) {
            start_agent(f, i);
        }
        run_for(f, 10000);
        assert_int_equal(f->epoch, 1);
        assert_int_equal(nodes_training(f), 2);
        uint32_t member = 0;
        while (!slot_trains(&f->slots[member])) {
            member++;
        }
        kill_agent(f, member, true);
        run_for(f, 20000);
        assert_int_equal(nodes_training(f), 2); /* a spare is in */
        fleet_free(f);
    }
}

TEST(fleet, a_server_that_is_away_for_less_than_the_fence_restarts_nothing)
{
    NO_FIXTURE;
    struct fleet *f = fleet_new(3, 1, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        start_agent(f, i);
    }
    run_for(f, 10000);
    assert_int_equal(nodes_training(f), 3);
    /* As long as nobody's lease ends: the server knows of a shorter one than the fence. */
    f->server_down_until = f->now + 5000;
    for (uint32_t i = 0; i < 3; i++) {
        conn_cut(f, i);
    }
    run_for(f, 60000);
    assert_int_equal(f->epoch, 1);
    assert_int_equal(nodes_training(f), 3);
    fleet_free(f);
}

TEST(fleet, all_end_with_0_when_rank_0_does_whatever_comes_first)
{
    NO_FIXTURE;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct fleet *f = fleet_new(seed, 1, 3, 1);
        for (uint32_t i = 0; i < 3; i++) {
            start_agent(f, i);
        }
        run_for(f, 10000);
        assert_int_equal(nodes_training(f), 3);
        /* Rank 0 ends well, and the collectives of its peers fail within moments. */
        for (uint32_t i = 0; i < 3; i++) {
            struct parcel *p = parcel_new(f, PARCEL_DIES, f->now + (f->slots[i].rank ? 5 : 0));
            p->slot = i;
            p->life = f->epoch;
            p->event.code = f->slots[i].rank ? 1 : 0;
        }
        run_for(f, 70000);
        assert_true(f->over);
        for (uint32_t i = 0; i < 3; i++) {
            assert_null(f->slots[i].agent);
            assert_int_equal(f->slots[i].exit_code, 0);
        }
        assert_int_equal(f->epoch, 1);
        fleet_free(f);
    }
}

/* --- random faults ---------------------------------------------------------------------------- */

static void fault(struct fleet *f)
{
    uint32_t i = (uint32_t)any(f, 0, SLOTS - 1);
    struct slot *s = &f->slots[i];
    if (!s->agent) {
        if (!slot_trains(s)) {
            start_agent(f, i);
        }
        return;
    }
    switch (any(f, 0, 11)) {
    case 0:
    case 1:
        conn_cut(f, i);
        break;
    case 2:
    case 3:
        if (s->conn != CONNS) {
            f->conns[s->conn].swallows = true;
        }
        break;
    case 4:
        kill_agent(f, i, false);
        break;
    case 5:
        kill_agent(f, i, true);
        break;
    case 6:
    case 7:
        trainers_end(f, i, (uint32_t)any(f, 1, 2));
        break;
    case 8: {
        struct agent_event event = {.type = AGENT_SIGNAL, .code = any(f, 0, 1) ? 15 : 2};
        step_agent(f, i, event);
        break;
    }
    case 9:
        s->sweeping = false;
        for (uint32_t t = 0; t < NPROC; t++) {
            s->alive[t] = false;
        }
        step_agent(f, i, (struct agent_event){.type = AGENT_GUARD_LOST});
        if (s->agent) { /* it was not on its way out */
            step_agent(f, i, (struct agent_event){.type = AGENT_GUARD, .pid = 1}); /* a new one */
        }
        break;
    case 10:
        if (any(f, 0, 5) == 0) {
            /* The server, or the way to it, is away. */
            f->server_down_until = f->now + any(f, 100, any(f, 0, 3) ? 20000 : 400000);
            for (uint32_t k = 0; k < SLOTS; k++) {
                if (any(f, 0, 1)) {
                    conn_cut(f, k);
                } else if (f->slots[k].conn != CONNS) {
                    f->conns[f->slots[k].conn].swallows = true;
                }
            }
        }
        break;
    default:
        if (s->rank == 0 || any(f, 0, 3)) {
            break;
        }
        trainers_end(f, i, 0); /* another rank ends well */
        break;
    }
}

/* By then every node has found the server, every fence has passed, and the slowest sweep has ended:
 * 332 s of fence, 35 s of PREPARING, 60 s of a sweep and another switch, 60 s of exit grace. */
#define SETTLES_WITHIN_MS 600000

struct totals {
    uint64_t epochs;
    uint64_t dead;
    uint64_t reached;
};

static uint64_t explore(uint64_t seed, struct totals *ret)
{
    struct fleet *f = fleet_new(seed, 1, 4, 1);
    f->max = (uint32_t)any(f, 1, 4);
    f->min = (uint32_t)any(f, 1, f->max);
    f->nproc = (uint32_t)any(f, 1, NPROC);
    f->max_restarts = any(f, 0, 9) ? 1000000 : (uint32_t)any(f, 0, 5);
    f->slow_sweeps = any(f, 0, 1);
    int64_t pause = any(f, 0, 2) ? any(f, 100, 5000) : any(f, 5000, 100000);
    for (uint32_t i = 0; i < f->max; i++) {
        start_agent(f, i);
    }
    for (int i = 0; i < 60; i++) {
        run_for(f, any(f, 0, 2 * pause));
        fault(f);
        check(f);
    }
    f->server_down_until = 0;
    run_for(f, 1000);
    for (uint32_t i = 0; i < SLOTS && agents_alive(f) < f->min; i++) {
        if (!f->slots[i].agent) {
            start_agent(f, i);
        }
    }
    run_for(f, SETTLES_WITHIN_MS);
    uint32_t alive = agents_alive(f);
    if (f->over) {
        assert_int_equal(alive, 0);
    } else {
        uint32_t expected = alive < f->max ? alive : f->max;
        if (alive >= f->min && nodes_training(f) != expected) {
            fail_msg("seed %llu: %u of %u nodes train in epoch %llu", (unsigned long long)seed,
                     nodes_training(f), expected, (unsigned long long)f->epoch);
        }
    }
    ret->epochs += f->n_epochs;
    ret->dead += f->n_dead;
    ret->reached += f->n_reached;
    uint64_t history = f->history;
    fleet_free(f);
    return history;
}

TEST(fleet, keeps_its_promises_under_random_faults_and_settles)
{
    NO_FIXTURE;
    const char *asked = getenv("FLEET_SEED"); /* one, to look at it */
    struct totals totals = {0};
    if (asked) {
        (void)explore(strtoull(asked, NULL, 10), &totals);
        return;
    }
    for (uint64_t seed = 1; seed <= 300; seed++) {
        (void)explore(seed, &totals);
    }
    assert_true(totals.epochs > 1500); /* something did happen */
    assert_true(totals.reached > 500);
    assert_true(totals.dead > 50);
}

TEST(fleet, replays_from_its_seed)
{
    NO_FIXTURE;
    struct totals totals = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        assert_true(explore(seed, &totals) == explore(seed, &totals));
    }
}

int main(void)
{
    const struct CMUnitTest stories[] = {
        STORY(fleet, goes_from_1_to_3_to_2_to_3_members),
        STORY(fleet, four_agents_with_1_to_2_are_two_members_and_two_spares),
        STORY(fleet, a_server_that_is_away_for_less_than_the_fence_restarts_nothing),
        STORY(fleet, all_end_with_0_when_rank_0_does_whatever_comes_first),
        STORY(fleet, keeps_its_promises_under_random_faults_and_settles),
        STORY(fleet, replays_from_its_seed),
    };
    return cmocka_run_group_tests(stories, NULL, NULL);
}
