/* tests/unit/server_core/test_robustness.c: invalid events, exhausted memory, clocks that jump, and
 * replay. */
#include "common/base/rng.h"
#include "tests/unit/server_core/server_fixture.h"

/* A long life with everything in it. Ends with a finished job and one that runs. */
static void live(struct world *w)
{
    w->join.spec.nproc = 2;
    for (uint32_t i = 0; i < 4; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    pass(w, 20000);
    assert_int_equal(say(w, 0,
                         &(struct tfe_msg){.type = MSG_PROCESSES,
                                           .u.processes = {.guard_pid = 5,
                                                           .trainer_pids = (uint32_t[]){6, 7},
                                                           .n_trainer_pids = 2}}),
                     0);
    assert_int_equal(say(w, 0, &(struct tfe_msg){.type = MSG_LISTENING, .u.listening.epoch = 1}),
                     0);
    exited(w, 1, 1, 1);
    ready(w, 1, 2);
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 2, 1);
    pass(w, 20000);
    ready(w, 3, 3);
    cut(w, 2);
    struct msg_join plain = w->join;
    w->join.running_epoch = w->join.highest_epoch = 2;
    join(w, 7, "c");
    w->join = plain;
    cut(w, 0);
    pass(w, 20000);
    stopped_and_ready(w, 1, 2);
    stopped_and_ready(w, 7, 2);
    goodbye(w, 1);
    stopped_and_ready(w, 7, 3);
    stopped_and_ready(w, 3, 3);
    pass(w, 400000);
    w->join.job = "other";
    w->join.highest_epoch = 9;
    join(w, 20, "x");
    w->join.spec.nproc = 1;
    join(w, 21, "y"); /* refused */
    w->join.spec.nproc = 2;
    ready(w, 20, 10);
    pass(w, 5000);
    w->join.job = "j";
    for (uint32_t i = 8; i < 12; i++) {
        join(w, i, name_of(i - 4));
    }
    exited(w, 7, 4, 0);
    exited(w, 3, 4, 0);
    pass(w, 100000);
}

/* max 3 of 4, so that there is a spare */
static struct world *a_life(uint64_t fail_at, bool retries)
{
    struct world *w = a_world(1, 3);
    w->quiet = false;
    w->retries = retries;
    w->flaky.fail_at = fail_at;
    live(w);
    return w;
}

TEST(step, same_events_give_the_same_actions)
{
    struct world *a = a_life(0, false);
    struct world *b = a_life(0, false);
    assert_true(a->history == b->history);
    assert_int_equal(a->flaky.asked, b->flaky.asked);
    struct msg_status_job job;
    assert_int_equal(rdzv_view_job(a->r, NULL, &job), 0);
    assert_string_equal(job.job, "j");
    assert_string_equal(job.phase, "succeeded");
    assert_int_equal(rdzv_view_job(a->r, "j", &job), 0);
    assert_string_equal(job.phase, "running");
    assert_int_equal(job.epoch, 10);
    world_free(a);
    world_free(b);
}

TEST(step, failed_allocation_changes_nothing)
{
    struct world *well = a_life(0, false);
    uint64_t asked = well->flaky.asked;
    assert_true(asked > 10);
    /* The first two make the core itself. */
    for (uint64_t i = 3; i <= asked; i++) {
        struct world *w = a_life(i, true);
        assert_int_equal(w->failed, 1);
        assert_true(w->history == well->history);
        world_free(w);
    }
    world_free(well);
}

TEST(step, failed_creation_leaks_nothing)
{
    struct rdzv_config config = usual_config();
    for (uint64_t i = 1; i <= 2; i++) {
        struct flaky flaky = {.fail_at = i};
        struct tfe_mem mem = flaky_mem(&flaky);
        struct rdzv *r = NULL;
        assert_int_equal(rdzv_new(&config, &mem, &r), TFE_ENOMEM);
        assert_null(r);
        assert_int_equal(flaky.blocks, 0);
    }
    rdzv_free(NULL);
}

TEST(step, settings_out_of_range_are_refused)
{
    struct flaky flaky = {0};
    struct tfe_mem mem = flaky_mem(&flaky);
    struct rdzv *r;
    for (int i = 0; i < 5; i++) {
        struct rdzv_config config = usual_config();
        switch (i) {
        case 0:
            config.ttl_ms = 0;
            break;
        case 1:
            config.ttl_ms = MSG_DURATION_MAX_MS / 3 + 1; /* three of them are a fence */
            break;
        case 2:
            config.fence_ms = MSG_DURATION_MAX_MS + 1;
            break;
        case 3:
            config.max_sessions = 0;
            break;
        default:
            config.max_sessions = UINT32_MAX;
            break;
        }
        assert_int_equal(rdzv_new(&config, &mem, &r), TFE_EINVAL);
    }
    assert_int_equal(flaky.asked, 0);
}

/* Sends the message and demands an error that changes nothing, which the next status shows. */
static void refuses(struct world *w, uint32_t session, const struct tfe_msg *msg, int error)
{
    struct msg_status_job before;
    struct msg_status_job after;
    int64_t deadline = w->deadline;
    assert_int_equal(rdzv_view_job(w->r, NULL, &before), 0);
    assert_int_equal(say(w, session, msg), error);
    assert_string_equal(w->log, "");
    assert_int_equal(w->deadline, deadline);
    assert_int_equal(rdzv_view_job(w->r, NULL, &after), 0);
    assert_int_equal(before.state, after.state);
    assert_int_equal(before.epoch, after.epoch);
}

TEST(step, session_out_of_range_is_refused)
{
    struct world *w = a_running_world(1, 1, 1);
    refuses(w, SESSIONS, &(struct tfe_msg){.type = MSG_RENEW}, TFE_EINVAL);
    refuses(w, UINT32_MAX, &(struct tfe_msg){.type = MSG_RENEW}, TFE_EINVAL);
    struct rdzv_actions actions;
    assert_int_equal(
        rdzv_step(w->r,
                  &(struct rdzv_event){.type = RDZV_CLOSED, .now = {w->now}, .session = SESSIONS},
                  &actions),
        TFE_EINVAL);
    world_free(w);
}

TEST(step, first_message_of_a_session_must_be_join)
{
    struct world *w = a_running_world(1, 1, 1);
    static const int types[] = {MSG_RENEW,  MSG_READY,   MSG_LISTENING,
                                MSG_EXITED, MSG_GOODBYE, MSG_PROCESSES};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        refuses(w, 9, &(struct tfe_msg){.type = (enum tfe_msg_type)types[i]}, TFE_ESTATE);
    }
    struct tfe_msg msg = {.type = MSG_JOIN, .u.join = w->join};
    msg.u.join.node = "another";
    msg.u.join.node_name = "";
    refuses(w, 0, &msg, TFE_ESTATE);
    msg.u.join.job = "elsewhere";
    msg.u.join.node = "a";
    refuses(w, 0, &msg, TFE_ESTATE);
    world_free(w);
}

TEST(step, message_of_a_server_is_refused)
{
    struct world *w = a_running_world(1, 1, 1);
    static const int types[] = {
        MSG_WELCOME,    MSG_RENEWED,     MSG_PREPARE,    MSG_STOP,   MSG_TABLE,   MSG_START,
        MSG_NOTED,      MSG_LEASE_ENDED, MSG_PROBE,      MSG_FINISH, MSG_REFUSED, MSG_STATUS,
        MSG_STATUS_JOB, MSG_STATUS_NODE, MSG_STATUS_END, 0,          255};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        refuses(w, 0, &(struct tfe_msg){.type = (enum tfe_msg_type)types[i]}, TFE_EINVAL);
    }
    world_free(w);
}

TEST(step, join_with_invalid_values_is_refused)
{
    struct world *w = a_running_world(1, 4, 1);
    char label[TFE_ID_MAX + 2];
    memset(label, 'n', sizeof(label) - 1);
    label[sizeof(label) - 1] = '\0';
    char tail[MSG_TAIL_MAX + 2];
    memset(tail, 't', sizeof(tail) - 1);
    tail[sizeof(tail) - 1] = '\0';
    const struct msg_exited wrong_local = {.epoch = 1, .local_rank = 1, .tail = ""};
    const struct msg_exited long_tail = {.epoch = 1, .tail = tail};
    for (int i = 0; i < 13; i++) {
        struct tfe_msg msg = {.type = MSG_JOIN, .u.join = w->join};
        struct msg_join *j = &msg.u.join;
        j->node = "n";
        j->node_name = "n";
        switch (i) {
        case 0:
            j->job = "";
            break;
        case 1:
            j->job = "a/b";
            break;
        case 2:
            j->node = NULL;
            break;
        case 3:
            j->node_name = label;
            break;
        case 4:
            j->node_name = NULL;
            break;
        case 5:
            j->spec.min_nodes = 0;
            break;
        case 6:
            j->spec.min_nodes = 5;
            break;
        case 7:
            j->spec.max_nodes = MSG_NODES_MAX + 1;
            break;
        case 8:
            j->spec.nproc = 0;
            break;
        case 9:
            j->spec.nproc = MSG_NPROC_MAX + 1;
            break;
        case 10:
            j->running_epoch = 1; /* above the highest it has heard of */
            break;
        case 11:
            j->exited = &wrong_local;
            break;
        default:
            j->exited = &long_tail;
            break;
        }
        refuses(w, 5, &msg, TFE_EINVAL);
    }
    world_free(w);
}

TEST(step, ready_exited_and_processes_with_invalid_values_are_refused)
{
    struct world *w = a_running_world(1, 1, 1);
    exited(w, 0, 1, 1); /* PREPARING: a READY would count */
    char host[TFE_HOST_MAX + 2];
    memset(host, 'h', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    static const uint16_t ports[] = {1, 0};
    static const uint32_t pids[2] = {1, 2};
    const struct msg_ready bad_ready[] = {
        {.epoch = 2, .host = "h", .ports = ports, .n_ports = 0},
        {.epoch = 2, .host = "h", .ports = ports, .n_ports = 2},
        {.epoch = 2, .host = "h", .ports = ports + 1, .n_ports = 1},
        {.epoch = 2, .host = NULL, .ports = ports, .n_ports = 1},
        {.epoch = 2, .host = "", .ports = ports, .n_ports = 1},
        {.epoch = 2, .host = host, .ports = ports, .n_ports = 1},
    };
    for (size_t i = 0; i < sizeof(bad_ready) / sizeof(bad_ready[0]); i++) {
        refuses(w, 0, &(struct tfe_msg){.type = MSG_READY, .u.ready = bad_ready[i]}, TFE_EINVAL);
    }
    refuses(w, 0, &(struct tfe_msg){.type = MSG_EXITED, .u.exited = {.epoch = 2, .local_rank = 1}},
            TFE_EINVAL);
    refuses(w, 0,
            &(struct tfe_msg){.type = MSG_PROCESSES,
                              .u.processes = {.trainer_pids = pids, .n_trainer_pids = 2}},
            TFE_EINVAL);
    refuses(w, 0,
            &(struct tfe_msg){.type = MSG_PROCESSES,
                              .u.processes = {.standby_pids = pids, .n_standby_pids = SIZE_MAX}},
            TFE_EINVAL);
    ready(w, 0, 2);
    pass(w, 1000);
    assert_saw(w, "START epoch=2");
    world_free(w);
}

/* Whatever an agent says, and whenever: an answer or an error, never a trap, and a sound view after
 * it. */
TEST(step, any_message_in_any_state_is_handled)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        uint32_t max = (uint32_t)rng_between(&rng, 1, 4);
        struct world *w = a_world((uint32_t)rng_between(&rng, 1, max), max);
        w->join.spec.max_restarts = (uint32_t)rng_between(&rng, 0, 30);
        uint64_t last_epoch = 0;
        for (int i = 0; i < 400; i++) {
            uint32_t s = (uint32_t)rng_between(&rng, 0, 7);
            struct msg_status_job job = {.epoch = 0};
            bool there = !rdzv_view_job(w->r, NULL, &job);
            uint64_t epoch = job.epoch + rng_between(&rng, 0, 2);
            epoch = epoch ? epoch : 1;
            struct msg_exited last = {.epoch = epoch,
                                      .code = (uint32_t)rng_between(&rng, 0, 1),
                                      .stopped = rng_between(&rng, 0, 1) == 0,
                                      .tail = "t"};
            int rc = 0;
            switch (rng_between(&rng, 0, 9)) {
            case 0:
            case 1:
                w->join.highest_epoch = there ? job.epoch : 0;
                w->join.running_epoch = rng_between(&rng, 0, 1) ? w->join.highest_epoch : 0;
                w->join.exited = rng_between(&rng, 0, 2) ? NULL : &last;
                rc = try_join(w, s, name_of((uint32_t)rng_between(&rng, 0, 5)));
                break;
            case 2:
            case 3:
            case 4:
                rc = try_ready(w, s, epoch);
                break;
            case 5:
                rc = say(w, s, &(struct tfe_msg){.type = MSG_EXITED, .u.exited = last});
                break;
            case 6:
                rc =
                    say(w, s, &(struct tfe_msg){.type = MSG_LISTENING, .u.listening.epoch = epoch});
                break;
            case 7:
                cut(w, s);
                break;
            case 8:
                pass(w, (int64_t)(rng_next(&rng) >> rng_between(&rng, 44, 63)));
                break;
            default:
                if (rng_between(&rng, 0, 3) == 0) {
                    rc = say(w, s, &(struct tfe_msg){.type = MSG_GOODBYE});
                }
                break;
            }
            assert_true(rc == 0 || rc == TFE_ESTATE);
            if (!rdzv_view_job(w->r, NULL, &job)) {
                assert_true(job.epoch >= last_epoch);
                last_epoch = job.epoch;
                uint32_t members = 0;
                struct msg_status_node node;
                for (const char *after = NULL; !rdzv_view_node(w->r, "j", after, &node);
                     after = node.node) {
                    members += node.role == ROLE_MEMBER;
                    assert_true(!node.has_rank || node.rank < max);
                }
                assert_true(members <= max);
            } else {
                last_epoch = 0;
            }
        }
        world_free(w);
    }
}

TEST(step, backward_time_counts_as_no_time)
{
    struct world *w = a_running_world(1, 2, 2);
    int64_t began = w->now;
    w->now = began + 5000;
    assert_int_equal(say(w, 0, &(struct tfe_msg){.type = MSG_RENEW, .u.renew.number = 1}), 0);
    w->now = 0;
    assert_int_equal(say(w, 1, &(struct tfe_msg){.type = MSG_RENEW, .u.renew.number = 1}), 0);
    w->renews[0] = w->renews[1] = false;
    /* Both leases count from the latest time that was ever told. */
    w->now = began;
    pass_until(w, began + 5000 + TTL_HELD_MS - 1);
    assert_not_saw(w, "node_lost");
    pass(w, 1);
    assert_int_equal(times_seen(w, "~node_lost"), 2);
    world_free(w);
}

TEST(step, early_tick_changes_nothing)
{
    struct world *w = a_running_world(1, 2, 1);
    forget(w);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_TICK, .now = {w->now}}), 0);
    }
    assert_string_equal(w->log, "");
    world_free(w);
}

TEST(step, mass_expiry_is_handled_in_batches)
{
    enum { NODES = 2500 };
    struct rdzv_config config = usual_config();
    config.max_sessions = NODES;
    struct world *w = world_new(&config, NODES, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        char id[16];
        snprintf(id, sizeof(id), "n%u", i);
        struct tfe_msg msg = {.type = MSG_JOIN, .u.join = w->join};
        msg.u.join.node = id;
        msg.u.join.node_name = id;
        assert_int_equal(say(w, i, &msg), 0);
    }
    pass(w, TTL_HELD_MS - 1);
    w->now += 1;
    int left = NODES;
    for (int slice = 0; slice < 3; slice++) {
        forget(w);
        assert_true(w->deadline <= w->now);
        assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_TICK, .now = {w->now}}), 0);
        int lost = times_seen(w, "~node_lost");
        assert_int_equal(lost, left < 1000 ? left : 1000);
        left -= lost;
    }
    assert_int_equal(left, 0);
    assert_true(w->deadline == INT64_MAX);
    assert_string_equal(job_state(w), "none");
    world_free(w);
}

TEST(step, join_beyond_the_job_limit_is_refused_with_the_reason)
{
    struct rdzv_config config = usual_config();
    config.max_sessions = 10001;
    struct world *w = world_new(&config, 1, 1);
    struct tfe_msg msg = {.type = MSG_JOIN, .u.join = w->join};
    msg.u.join.node = "a";
    msg.u.join.node_name = "a";
    char id[16];
    msg.u.join.job = id;
    for (uint32_t i = 0; i <= 10000; i++) {
        snprintf(id, sizeof(id), "j%u", i);
        assert_int_equal(say(w, i, &msg), 0);
    }
    assert_saw(w, "10000:REFUSED limit_reached: cannot open the job: the server holds 10000 jobs");
    assert_saw(w, "10000:CLOSE");
    world_free(w);
}

TEST(view, status_contains_rank_address_and_processes)
{
    struct world *w = a_running_world(1, 2, 2);
    join(w, 2, "c");
    struct msg_processes processes = {.guard_pid = 11,
                                      .trainer_pids = (uint32_t[]){12},
                                      .n_trainer_pids = 1,
                                      .standby_pids = (uint32_t[]){13},
                                      .n_standby_pids = 1};
    assert_int_equal(say(w, 1, &(struct tfe_msg){.type = MSG_PROCESSES, .u.processes = processes}),
                     0);
    struct msg_status_node node;
    assert_int_equal(rdzv_view_node(w->r, "j", "a", &node), 0);
    assert_string_equal(node.node, "b");
    assert_int_equal(node.role, ROLE_MEMBER);
    assert_true(node.has_rank);
    assert_int_equal(node.rank, 1);
    assert_string_equal(node.host, "b1");
    assert_int_equal(node.port, 1100);
    assert_int_equal(node.pid, 4711);
    assert_int_equal(node.processes.guard_pid, 11);
    assert_int_equal(node.processes.trainer_pids[0], 12);
    assert_int_equal(node.processes.standby_pids[0], 13);
    assert_int_equal(rdzv_view_node(w->r, "j", "b", &node), 0);
    assert_int_equal(node.role, ROLE_PREPARING);
    assert_null(node.host);
    assert_false(node.has_rank);
    assert_int_equal(rdzv_view_node(w->r, "j", "c", &node), TFE_ENOENT);
    assert_int_equal(rdzv_view_node(w->r, "k", NULL, &node), TFE_ENOENT);
    assert_int_equal(rdzv_view_node(w->r, "j", "not an id", &node), TFE_ENOENT);
    ready(w, 2, 2);
    assert_int_equal(rdzv_view_node(w->r, "j", "b", &node), 0);
    assert_int_equal(node.role, ROLE_SPARE);
    world_free(w);
}
