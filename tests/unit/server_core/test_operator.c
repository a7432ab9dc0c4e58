/* tests/unit/server_core/test_operator.c: an operator evicts nodes, stops jobs, and names nodes. */
#include "tests/unit/server_core/plan.h"

/* --- evict ------------------------------------------------------------------------------------ */

static const struct principal admin = {.role = PRINCIPAL_ADMIN, .scope = PRINCIPAL_EVERY_JOB};

TEST(evict, unban_applies_to_one_node_of_one_job)
{
    struct world *w = a_running_world(1, 3, 3);
    evict(w, "b");
    evict(w, "c");
    assert_int_equal(order(w, RDZV_UNBAN, "k", "b"), 0);
    assert_int_equal(order(w, RDZV_UNBAN, "not a name", "b"), 0);
    assert_int_equal(try_join(w, 4, "b"), 0);
    assert_saw(w, "4:REFUSED evicted");
    assert_int_equal(order(w, RDZV_UNBAN, "j", "b"), 0);
    join(w, 5, "b");
    assert_saw(w, "5:WELCOME");
    assert_int_equal(try_join(w, 6, "c"), 0);
    assert_saw(w, "6:REFUSED evicted");
    world_free(w);
}

TEST(evict, returning_node_is_refused)
{
    struct world *w = a_running_world(1, 2, 2);
    cut(w, 1);
    evict(w, "b");
    stopped_and_ready(w, 0, 1);
    assert_saw(w, "0:START epoch=2");
    w->join.running_epoch = w->join.highest_epoch = 1;
    join(w, 2, "b");
    assert_saw(w, "2:REFUSED evicted: ");
    assert_saw(w, "2:CLOSE");
    assert_not_saw(w, "WELCOME");
    w->join.running_epoch = w->join.highest_epoch = 0;
    w->join.job = "other"; /* somebody else of this id */
    join(w, 3, "b");
    assert_saw(w, "3:WELCOME");
    world_free(w);
}

TEST(evict, exit_reported_by_a_returning_node_counts)
{
    struct world *w = a_running_world(1, 1, 1);
    join(w, 1, "b");
    ready(w, 1, 2);
    cut(w, 0);
    evict(w, "a");
    assert_not_saw(w, "START");
    const struct msg_exited last = {.epoch = 1, .stopped = true, .tail = ""};
    w->join.highest_epoch = 1;
    w->join.exited = &last;
    join(w, 2, "a");
    assert_saw(w, "2:REFUSED evicted");
    assert_saw(w, "1:START epoch=2 rank=0 world=1");
    world_free(w);
}

TEST(evict, eviction_works_in_every_other_state)
{
    struct world *w = a_running_world(1, 1, 1);
    join(w, 1, "b");
    evict(w, "b"); /* joining */
    assert_saw(w, "1:REFUSED evicted");
    assert_not_saw(w, "STOP");
    join(w, 2, "c");
    ready(w, 2, 2);
    evict(w, "c"); /* spare */
    assert_saw(w, "2:REFUSED evicted");
    assert_not_saw(w, "STOP");
    join(w, 3, "d");
    cut(w, 3);
    evict(w, "d"); /* suspect */
    assert_not_saw(w, "REFUSED");
    assert_int_equal(role_of(w, "d"), 0);
    world_free(w);

    w = a_world(2, 2);
    join(w, 0, "a");
    evict(w, "a"); /* waiting */
    assert_string_equal(job_state(w), "none");
    world_free(w);

    w = a_running_world(1, 2, 2);
    drain(w, "b");
    stopped_and_ready(w, 0, 1);
    evict(w, "b"); /* leaving, and not stopping */
    assert_saw(w, "1:REFUSED evicted");
    assert_saw(w, "0:START epoch=2 rank=0 world=1");
    world_free(w);

    w = a_world(1, 2);
    w->holds_writes = true;
    come(w, 2);
    evict(w, "a"); /* committing */
    assert_saw(w, "0:REFUSED evicted");
    w->holds_writes = false;
    forget(w);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_not_saw(w, "START");
    ready(w, 1, 2);
    assert_saw(w, "1:START epoch=2 rank=0 world=1");
    world_free(w);

    w = a_running_world(2, 2, 2);
    exited(w, 0, 1, 0);
    evict(w, "b"); /* rank 0 has ended well, b hangs */
    assert_saw(w, "0:FINISH succeeded");
    world_free(w);
}

/* --- stop ------------------------------------------------------------------------------------- */

static void ends_stopped(struct world *w, const char *state, uint32_t sessions)
{
    assert_string_equal(job_state(w), state);
    w->holds_writes = true;
    struct disk *disk = calloc(1, sizeof(*disk));
    assert_non_null(disk);
    w->disk = disk;
    stop_job(w);
    assert_saw(w, "~job_stopping job=j");
    assert_saw(w, " over\n");
    assert_not_saw(w, "FINISH");
    assert_int_equal(disk->record.result, RESULT_CANCELLED);
    assert_string_equal(disk->record.sentence, "job j was cancelled by an operator");
    stop_job(w); /* once more: it is about to */
    assert_string_equal(w->log, "");
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    if (strcmp(state, "running") == 0) {
        assert_not_saw(w, "FINISH"); /* who trains says first that its trainers have ended */
        trainers_stop(w, 0, 1);
    }
    assert_string_equal(job_state(w), "cancelled");
    for (uint32_t i = 0; i < sessions; i++) {
        char line[96];
        snprintf(line, sizeof(line),
                 "%u:FINISH cancelled: job j was cancelled by an operator\n%u:CLOSE\n", i, i);
        assert_saw(w, line);
    }
    stop_job(w); /* it has */
    assert_string_equal(w->log, "");
    join(w, 40, "late");
    assert_saw(w, "40:FINISH cancelled: job j run 1 ended cancelled");
    pass(w, 1000000);
    assert_string_equal(w->log, "");
    world_free(w);
    free(disk);
}

TEST(stop, end_is_durable_before_it_is_sent_in_every_state)
{
    struct world *w = a_world(2, 3);
    join(w, 0, "a");
    ends_stopped(w, "waiting", 1);

    w = a_world(1, 2);
    join(w, 0, "a");
    ready(w, 0, 1);
    ends_stopped(w, "gathering", 1);

    w = a_running_world(1, 2, 2);
    exited(w, 0, 1, 1);
    ends_stopped(w, "preparing", 2);

    w = a_running_world(1, 2, 2);
    join(w, 2, "c");
    ends_stopped(w, "running", 3);

    w = a_running_world(2, 2, 2);
    goodbye(w, 1);
    stopped_and_ready(w, 0, 1);
    ends_stopped(w, "waiting", 1); /* below min, after an epoch */
}

TEST(stop, later_stop_does_not_change_the_result)
{
    struct world *w = a_running_world(1, 1, 1);
    w->holds_writes = true;
    stop_job(w);
    exited(w, 0, 1, 0); /* too late */
    assert_not_saw(w, "PERSIST");
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "0:FINISH cancelled: job j was cancelled by an operator");
    world_free(w);

    w = a_running_world(1, 1, 1);
    w->holds_writes = true;
    exited(w, 0, 1, 0);
    stop_job(w); /* too late */
    assert_string_equal(w->log, "");
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_saw(w, "0:FINISH succeeded");
    world_free(w);
}

TEST(stop, job_without_remaining_nodes_is_still_cancelled)
{
    struct world *w = a_world(2, 2);
    join(w, 0, "a");
    w->holds_writes = true;
    stop_job(w);
    goodbye(w, 0);
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_string_equal(job_state(w), "cancelled");
    world_free(w);
}

/* --- who is meant, and who is not there ------------------------------------------------------- */

static struct rdzv_found find(const struct world *w, const char *name)
{
    struct rdzv_found found = {.n = 0};
    int rc = rdzv_find_node(w->r, &admin, name, &found);
    assert_int_equal(rc, found.n ? 0 : TFE_ENOENT);
    return found;
}

static void join_labelled(struct world *w, uint32_t session, const char *node, const char *label)
{
    struct tfe_msg msg = {.type = MSG_JOIN, .u.join = w->join};
    msg.u.join.node = node;
    msg.u.join.node_name = label;
    assert_int_equal(say(w, session, &msg), 0);
}

TEST(name, id_precedes_label_and_connected_node_precedes_suspect)
{
    struct world *w = a_world(8, 8);
    assert_int_equal(find(w, "box").n, 0);
    join_labelled(w, 0, "a", "box");
    assert_string_equal(find(w, "box").v[0].node, "a");
    assert_string_equal(find(w, "box").v[0].job, "j");
    join_labelled(w, 1, "b", "a");
    assert_string_equal(find(w, "a").v[0].node, "a");
    assert_int_equal(find(w, "a").n, 1);
    join_labelled(w, 2, "c", "box");
    assert_int_equal(find(w, "box").n, 2);
    cut(w, 0);
    assert_int_equal(find(w, "box").n, 1);
    assert_string_equal(find(w, "box").v[0].node, "c");
    cut(w, 2);
    assert_int_equal(find(w, "box").n, 2); /* both suspects */
    evict(w, "c");
    assert_string_equal(find(w, "box").v[0].node, "a");
    w->join.job = "k";
    for (uint32_t i = 3; i < 9; i++) {
        join_labelled(w, i, name_of(i - 1), "many");
    }
    assert_int_equal(find(w, "many").n, 6);
    assert_string_equal(find(w, "many").v[RDZV_FOUND_MAX - 1].job, "k");
    world_free(w);
}

TEST(name, lost_member_is_not_found)
{
    struct world *w = a_running_world(1, 2, 2);
    goodbye(w, 1);
    assert_int_equal(find(w, "b").n, 0);
    assert_int_equal(order(w, RDZV_DRAIN, "j", "b"), TFE_ENOENT);
    assert_int_equal(order(w, RDZV_EVICT, "j", "b"), TFE_ENOENT);
    world_free(w);
}

TEST(order, order_about_an_unknown_subject_changes_nothing)
{
    struct world *w = a_running_world(1, 1, 1);
    static const enum rdzv_event_type orders[] = {RDZV_DRAIN, RDZV_EVICT, RDZV_STOP_JOB};
    int64_t deadline = w->deadline;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(order(w, orders[i], "k", "a"), TFE_ENOENT);
        assert_int_equal(order(w, orders[i], NULL, "a"), TFE_ENOENT);
        assert_int_equal(order(w, orders[i], "not a name", "a"), TFE_ENOENT);
        if (orders[i] != RDZV_STOP_JOB) {
            assert_int_equal(order(w, orders[i], "j", "b"), TFE_ENOENT);
            assert_int_equal(order(w, orders[i], "j", NULL), TFE_ENOENT);
            assert_int_equal(order(w, orders[i], "j", "not an id"), TFE_ENOENT);
        }
        assert_string_equal(w->log, "");
        assert_int_equal(w->deadline, deadline);
    }
    world_free(w);
}

/* --- memory, and everything at any time --- */

static struct world *an_operated_life(uint64_t fail_at)
{
    struct world *w = a_world(1, 3);
    w->retries = fail_at != 0;
    w->flaky.fail_at = fail_at;
    for (uint32_t i = 0; i < 5; i++) {
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    pass(w, 5000);
    drain(w, "e");
    drain(w, "b");
    stopped_and_ready(w, 0, 1);
    stopped_and_ready(w, 2, 1);
    trainers_stop(w, 1, 1);
    evict(w, "a");
    stopped_and_ready(w, 2, 2);
    stopped_and_ready(w, 3, 2);
    join(w, 9, "a");
    stop_job(w);
    pass(w, 1000);
    return w;
}

TEST(order, failed_allocation_changes_nothing)
{
    struct world *well = an_operated_life(0);
    assert_string_equal(job_state(well), "cancelled");
    for (uint64_t i = 3; i <= well->flaky.asked; i++) {
        struct world *w = an_operated_life(i);
        assert_int_equal(w->failed, 1);
        assert_true(w->history == well->history);
        world_free(w);
    }
    world_free(well);
}

/* Some event, sound or not. */
static int anything(struct world *w, struct rng *rng, uint64_t job_epoch)
{
    uint32_t s = (uint32_t)rng_between(rng, 0, 7);
    uint64_t epoch = job_epoch + rng_between(rng, 0, 1);
    epoch = epoch ? epoch : 1;
    const char *node = name_of((uint32_t)rng_between(rng, 0, 7));
    switch (rng_between(rng, 0, 11)) {
    case 0:
    case 1:
        w->join.highest_epoch = job_epoch;
        w->join.running_epoch = rng_between(rng, 0, 1) ? job_epoch : 0;
        return try_join(w, s, node);
    case 2:
    case 3:
    case 4:
        return try_ready(w, s, epoch);
    case 5:
        return say(w, s,
                   &(struct tfe_msg){.type = MSG_EXITED,
                                     .u.exited = {.epoch = epoch,
                                                  .code = (uint32_t)rng_between(rng, 0, 1),
                                                  .stopped = rng_between(rng, 0, 1) == 0,
                                                  .tail = ""}});
    case 6:
        cut(w, s);
        return 0;
    case 7:
        pass(w, (int64_t)(rng_next(rng) >> rng_between(rng, 46, 63)));
        return 0;
    case 8:
        w->holds_writes = rng_between(rng, 0, 1);
        forget(w);
        return w->write
                   ? write_ends(w, rng_between(rng, 0, 1) ? RDZV_PERSISTED : RDZV_PERSIST_FAILED)
                   : 0;
    case 9:
        return order(w, RDZV_DRAIN, "j", node);
    case 10:
        /* Who was evicted does not come back, and so not too many are. */
        return rng_between(rng, 0, 9) ? 0 : order(w, RDZV_EVICT, "j", node);
    default:
        return rng_between(rng, 0, 99) ? 0 : order(w, RDZV_STOP_JOB, "j", NULL);
    }
}

TEST(order, leaving_node_is_in_no_new_epoch)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        uint32_t max = (uint32_t)rng_between(&rng, 1, 4);
        struct world *w = a_world((uint32_t)rng_between(&rng, 1, max), max);
        w->join.spec.max_restarts = 1000;
        bool was_over = false;
        for (int i = 0; i < 400; i++) {
            bool was_leaving[8] = {false};
            struct msg_status_job job = {.epoch = 0};
            struct msg_status_node node;
            bool there = !rdzv_view_job(w->r, NULL, &job);
            uint64_t before = job.epoch;
            for (uint32_t n = 0; n < 8; n++) {
                was_leaving[n] = role_of(w, name_of(n)) == ROLE_LEAVING;
            }
            int rc = anything(w, &rng, before);
            assert_true(rc == 0 || rc == TFE_ESTATE || rc == TFE_ENOENT ||
                        (rc == TFE_EINVAL && !there));
            if (rdzv_view_job(w->r, NULL, &job)) {
                assert_false(was_over);
                continue;
            }
            for (const char *after = NULL; !rdzv_view_node(w->r, "j", after, &node);
                 after = node.node) {
                uint32_t n = (uint32_t)(node.node[0] - 'a');
                assert_true(node.role != ROLE_LEAVING || !node.has_rank || job.epoch == before);
                assert_true(!was_leaving[n] || node.role == ROLE_LEAVING ||
                            strstr(w->log, "~node_joined") || strstr(w->log, "~node_lost"));
            }
            was_over = msg_job_is_over(job.state);
        }
        world_free(w);
    }
}

/* --- resize --- */

static int resize(struct world *w, uint32_t min, uint32_t max)
{
    forget(w);
    return step(w, &(struct rdzv_event){.type = RDZV_RESIZE,
                                        .now = {w->now},
                                        .job = "j",
                                        .min_nodes = min,
                                        .max_nodes = max,
                                        .n_ps = MSG_UNSET});
}

TEST(resize, reduction_waits_for_a_checkpoint_if_only_removed_nodes_have_the_state)
{
    struct world *w = a_running_world(1, 3, 3);
    keeps(w, 2, 1, 40, 0);
    assert_int_equal(resize(w, 1, 2), 0);
    assert_int_equal(times_seen(w, "SAVE epoch=1 number=1\n"), 3);
    keeps(w, 2, 1, 41, 1);
    assert_not_saw(w, "STOP");
    saved(w, 0, 1, 41, 1, 1);
    assert_saw(w, "STOP epoch=1 planned\n");
    world_free(w);
}

TEST(resize, resize_applies_to_a_waiting_job_and_not_to_an_over_or_invalid_one)
{
    struct world *w = a_world(3, 3);
    come(w, 2);
    assert_int_equal(resize(w, 3, 2), TFE_EINVAL);
    assert_int_equal(resize(w, 0, 2), TFE_EINVAL);
    assert_int_equal(resize(w, 1, 2), 0);
    assert_saw(w, "START epoch=1");
    stop_job(w);
    pass(w, 2000);
    assert_int_equal(resize(w, 1, 2), TFE_ESTATE);
    world_free(w);
}

TEST(resize, resize_of_an_empty_job_is_applied_by_the_next_node)
{
    struct world *w = a_running_world(2, 2, 2);
    goodbye(w, 0);
    goodbye(w, 1);
    assert_string_equal(job_state(w), "waiting");
    w->join = usual_join(1, 1);
    w->join.spec.nproc = 2;
    join(w, 2, "c");
    assert_saw(w, "WELCOME");
    ready(w, 2, 2);
    assert_saw(w, "START epoch=2 rank=0 world=2 nodes=1");
    w->join.spec.nproc = 1;
    assert_int_equal(try_join(w, 3, "d"), 0);
    assert_saw(w, "size_mismatch");
    world_free(w);
}

TEST(resize, resize_by_a_joiner_is_refused_while_old_trainers_may_run)
{
    struct world *w = a_running_world(1, 1, 1);
    w->renews[0] = false;
    cut(w, 0);
    pass(w, TTL_HELD_MS);
    w->join.spec.nproc = 2;
    assert_int_equal(try_join(w, 1, "b"), 0);
    assert_saw(w, "size_mismatch");
    w->join.spec.nproc = 1;
    w->join.spec.max_nodes = 5;
    join(w, 1, "b");
    assert_saw(w, "WELCOME");
    world_free(w);
}

/* --- what operators see --- */

TEST(role, node_role_shows_its_task)
{
    const uint32_t standby = 99;
    const struct tfe_msg imports = {
        .type = MSG_PROCESSES,
        .u.processes = {.guard_pid = 1, .standby_pids = &standby, .n_standby_pids = 1}};
    struct world *w = a_world(2, 2);
    join(w, 0, "a");
    assert_int_equal(role_of(w, "a"), ROLE_PREPARING);
    assert_int_equal(say(w, 0, &imports), 0);
    assert_int_equal(role_of(w, "a"), ROLE_IMPORTING);
    ready(w, 0, 1);
    assert_int_equal(role_of(w, "a"), ROLE_WAITING);
    join(w, 1, "b");
    ready(w, 1, 1);
    assert_int_equal(role_of(w, "a"), ROLE_MEMBER);
    cut(w, 0);
    assert_int_equal(role_of(w, "a"), ROLE_SUSPECT);
    world_free(w);
}

TEST(resize, resize_survives_a_change_of_options)
{
    struct world *w = a_running_world(1, 3, 1);
    assert_int_equal(resize(w, 1, 2), 0);
    goodbye(w, 0);
    w->join.spec.script_digest = 5; /* it may bring something else: nobody is in the job */
    w->join.spec.max_restarts = 7;
    join(w, 1, "b");
    assert_saw(w, "1:WELCOME");
    struct msg_status_job row;
    assert_int_equal(rdzv_view_job(w->r, NULL, &row), 0);
    assert_int_equal(row.max_nodes, 2);
    assert_int_equal(row.restarts_left, 7);
    world_free(w);
}

TEST(resize, without_memory_changes_nothing)
{
    struct world *w = a_running_world(1, 2, 2);
    w->flaky.fail_at = w->flaky.asked + 1;
    assert_int_equal(resize(w, 1, 60), TFE_ENOMEM);
    assert_not_saw(w, "~job_resized");
    w->flaky.fail_at = w->flaky.asked + 2;
    assert_int_equal(resize(w, 1, 60), TFE_ENOMEM);
    struct msg_status_job row;
    assert_int_equal(rdzv_view_job(w->r, NULL, &row), 0);
    assert_int_equal(row.max_nodes, 2);
    assert_int_equal(resize(w, 1, 60), 0);
    world_free(w);
}
