/* tests/unit/both/test_operated.c: server and agents together while an operator drains, evicts and
 * stops. */
#include "tests/unit/both/fleet.h"

static int operate(struct fleet *f, enum rdzv_event_type what, const char *node)
{
    struct rdzv_event event = {.type = what, .now = {f->now}, .job = "j", .node = node};
    struct rdzv_found found;
    if (node && rdzv_find_node(f->r, node, &found)) {
        return TFE_ENOENT;
    }
    step_server(f, event); /* which demands success */
    return 0;
}

/* The name of the process in the slot. */
static const char *node_in(const struct fleet *f, uint32_t slot, char ret[32])
{
    snprintf(ret, 32, "n%u.%llu", slot, (unsigned long long)f->slots[slot].life);
    return ret;
}

static struct fleet *three_that_train(uint64_t seed)
{
    struct fleet *f = fleet_new(seed, 1, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        start_agent(f, i);
    }
    run_for(f, 10000);
    assert_int_equal(nodes_training(f), 3);
    return f;
}

TEST(operated, a_drained_agent_exits_0_and_the_others_go_on)
{
    NO_FIXTURE;
    char node[32];
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fleet *f = three_that_train(seed);
        uint32_t slot = (uint32_t)any(f, 0, 2);
        assert_int_equal(operate(f, RDZV_DRAIN, node_in(f, slot, node)), 0);
        run_for(f, 10000);
        assert_null(f->slots[slot].agent);
        assert_int_equal(f->slots[slot].exit_code, 0);
        assert_int_equal(f->epoch, 2);
        assert_int_equal(nodes_training(f), 2);
        fleet_free(f);
    }
}

TEST(operated, an_evicted_agent_exits_1_and_the_others_go_on)
{
    NO_FIXTURE;
    char node[32];
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fleet *f = three_that_train(seed);
        uint32_t slot = (uint32_t)any(f, 0, 2);
        bool is_cut = any(f, 0, 1);
        if (is_cut) {
            conn_cut(f, slot);
        }
        assert_int_equal(operate(f, RDZV_EVICT, node_in(f, slot, node)), 0);
        run_for(f, 10000);
        assert_null(f->slots[slot].agent);
        assert_int_equal(f->slots[slot].exit_code, 1);
        assert_int_equal(nodes_training(f), 2);
        fleet_free(f);
    }
}

TEST(operated, the_agents_of_a_stopped_job_exit_1)
{
    NO_FIXTURE;
    struct fleet *f = three_that_train(1);
    assert_int_equal(operate(f, RDZV_STOP_JOB, NULL), 0);
    run_for(f, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_null(f->slots[i].agent);
        assert_int_equal(f->slots[i].exit_code, 1);
    }
    fleet_free(f);
}

static void fault(struct fleet *f)
{
    char node[32];
    uint32_t i = (uint32_t)any(f, 0, SLOTS - 1);
    if (!f->slots[i].agent) {
        if (!slot_trains(&f->slots[i])) {
            start_agent(f, i);
        }
        return;
    }
    switch (any(f, 0, 9)) {
    case 0:
    case 1:
        conn_cut(f, i);
        break;
    case 2:
        if (f->slots[i].conn != CONNS) {
            f->conns[f->slots[i].conn].swallows = true;
        }
        break;
    case 3:
        kill_agent(f, i, any(f, 0, 1));
        break;
    case 4:
        trainers_end(f, i, 1);
        break;
    case 5:
    case 6:
    case 7:
        (void)operate(f, RDZV_DRAIN, node_in(f, i, node));
        break;
    default:
        (void)operate(f, RDZV_EVICT, node_in(f, i, node));
        break;
    }
}

static bool is_stopped(const struct fleet *f)
{
    struct msg_status_job job;
    return !rdzv_view_job(f->r, NULL, &job) && strcmp(job.state, "stopped") == 0;
}

TEST(operated, a_fleet_keeps_its_promises_under_faults_and_orders_and_settles)
{
    NO_FIXTURE;
    uint64_t epochs = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct fleet *f = fleet_new(seed, 1, 4, 1);
        f->max = (uint32_t)any(f, 1, 4);
        f->min = (uint32_t)any(f, 1, f->max);
        f->slow_sweeps = any(f, 0, 1);
        int64_t pause = any(f, 0, 2) ? any(f, 100, 5000) : any(f, 5000, 100000);
        for (int i = 0; i < 80; i++) {
            fault(f);
            run_for(f, any(f, 0, 2 * pause));
        }
        for (uint32_t i = 0; i < SLOTS && agents_alive(f) < f->min; i++) {
            if (!f->slots[i].agent) {
                start_agent(f, i);
            }
        }
        run_for(f, 600000); /* as in test_fleet.c */
        uint32_t alive = agents_alive(f);
        uint32_t expected = alive < f->max ? alive : f->max;
        if (alive >= f->min && nodes_training(f) != expected) {
            fail_msg("seed %llu: %u of %u nodes train in epoch %llu", (unsigned long long)seed,
                     nodes_training(f), expected, (unsigned long long)f->epoch);
        }
        epochs += f->n_epochs;
        if (operate(f, RDZV_STOP_JOB, NULL) == 0) {
            run_for(f, 400000);
            assert_true(is_stopped(f) || f->over); /* it may have failed before */
            assert_int_equal(agents_alive(f), 0);
        }
        fleet_free(f);
    }
    assert_true(epochs > 1000); /* something did happen */
}

int main(void)
{
    const struct CMUnitTest stories[] = {
        STORY(operated, a_drained_agent_exits_0_and_the_others_go_on),
        STORY(operated, an_evicted_agent_exits_1_and_the_others_go_on),
        STORY(operated, the_agents_of_a_stopped_job_exit_1),
        STORY(operated, a_fleet_keeps_its_promises_under_faults_and_orders_and_settles),
    };
    return cmocka_run_group_tests(stories, NULL, NULL);
}
