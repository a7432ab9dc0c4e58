/* tests/unit/server_core/test_ps.c: jobs with ps: another number of them, nodes that are pinned to
 * a role, and what the loss of a machine means by role. */
#include "tests/unit/server_core/operator.h"
#include "tests/unit/server_core/plan.h"
#include "tests/unit/server_core/served_fixture.h"

/* --- another number of ps --------------------------------------------------------------------- */

static int want_ps(struct world *w, uint32_t n_ps)
{
    return step(w, &(struct rdzv_event){.type = RDZV_RESIZE,
                                        .now = {w->now},
                                        .job = "j",
                                        .min_nodes = 1,
                                        .max_nodes = 2,
                                        .n_ps = n_ps});
}

static void fits(struct world *w, uint64_t step_)
{
    assert_int_equal(say(w, 0,
                         &(struct tfe_msg){.type = MSG_PROGRESS,
                                           .u.progress = {.epoch = 1,
                                                          .has_step = true,
                                                          .step = step_,
                                                          .saves = (uint32_t)step_,
                                                          .partitioned = true}}),
                     0);
}

static void assert_no_ps(struct world *w, uint32_t n_ps, const char *reason)
{
    assert_int_equal(want_ps(w, n_ps), TFE_EAUTH);
    assert_string_equal(rdzv_refusal(w->r), reason);
}

TEST(resize, other_ps_number_needs_partitioned_checkpoints_and_nodes)
{
    struct world *w = a_served_job(1, 2);
    assert_int_equal(try_join(w, 0, "a"), 0);
    assert_no_ps(w, 2,
                 "job \"j\" cannot have 2 ps now: it is waiting, and the number of ps changes "
                 "only at a checkpoint of a running epoch");
    world_free(w);
    w = a_serving_job(1, 2);
    assert_no_ps(w, 2,
                 "job \"j\" cannot have 2 ps now: its script has not created a partitioner "
                 "(tfe.strategy(partitioner=...)), which its checkpoints need");
    fits(w, 1);
    assert_no_ps(w, 0, "job \"j\" cannot have 0 ps now: a job with ps has from 1 to 65536");
    assert_no_ps(w, 4,
                 "job \"j\" cannot have 4 ps now: too few connected nodes can be ps in "
                 "addition to a chief and 1 worker");
    assert_int_equal(want_ps(w, 2), 0);         /* one worker fewer */
    assert_int_equal(want_ps(w, MSG_UNSET), 0); /* keeps that */
    world_free(w);
    w = a_running_world(1, 2, 2);
    assert_no_ps(w, 1, "job \"j\" cannot have 1 ps now: it was opened without ps (--ps)");
    world_free(w);
}

/* Whatever number they brought. */
TEST(resize, node_resize_refuses_a_joiner_with_another_ps_number)
{
    struct disk disk;
    struct world *w = a_serving_job(1, 2);
    w->disk = &disk;
    fits(w, 1);
    assert_int_equal(want_ps(w, MSG_UNSET), 0);
    assert_false(disk.record.ps_resized);
    w->join.spec.n_ps = 2;
    join(w, 5, "f");
    assert_saw(w, "5:REFUSED size_mismatch: job j was opened with --nnodes=1:2 "
                  "--nproc-per-node=1 --ps=1 --chief, this node requests --nnodes=1:2 "
                  "--nproc-per-node=1 --ps=2 --chief\n");
    assert_int_equal(want_ps(w, 2), 0);
    assert_true(disk.record.ps_resized);
    w->join.spec.n_ps = 1;
    join(w, 6, "g"); /* a machine of the first hour, started again */
    assert_saw(w, "--ps is ignored: an operator has set the ps of job j to 2");
    struct world *next = a_served_job(1, 2);
    assert_int_equal(rdzv_restore(next->r, (struct tfe_mono){next->now}, &disk.record), 0);
    join(next, 7, "h");
    assert_saw(next, "7:WELCOME");
    world_free(next);
    world_free(w);
}

/* The order to make the job smaller waited for a checkpoint that may never come. */
TEST(resize, fewer_nodes_and_other_ps_switch_without_a_checkpoint)
{
    struct world *w = a_served_job(1, 3);
    w->join.spec.grow_wait_ms = 60000;
    come(w, 5);
    all_listen(w, 5, 1);
    fits(w, 1);
    assert_int_equal(want_ps(w, 2), 0); /* at most two workers */
    pass(w, 59999);
    assert_not_saw(w, "STOP");
    pass(w, 1);
    assert_saw(w, "0:STOP epoch=1 planned\n");
    all_stop(w, 5);
    assert_saw(w, "START epoch=2 rank=4 world=5"); /* chief, two workers, two ps */
    world_free(w);
}

TEST(resize, other_ps_number_counts_remaining_workers_and_possible_ps)
{
    struct world *w = a_serving_job(2, 2);
    fits(w, 1);
    assert_int_equal(want_ps(w, 2), 0); /* which wants one worker now */
    world_free(w);
    w = a_served_job(1, 2);
    w->join.has_role = true;
    for (uint32_t i = 0; i < 4; i++) {
        w->join.role = i == 0 ? TASK_CHIEF : i == 1 ? TASK_PS : TASK_WORKER;
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    pass(w, 100);
    all_listen(w, 4, 1);
    fits(w, 1);
    assert_int_equal(want_ps(w, 2), TFE_EAUTH); /* no worker becomes one */
    w->join.role = TASK_PS;
    join(w, 4, "e");
    ready(w, 4, 2);
    assert_int_equal(want_ps(w, 2), 0);
    goodbye(w, 4);
    fits(w, 2);
    fits(w, 3);
    assert_not_saw(w, "STOP"); /* the job would stand still for it */
    world_free(w);
}

TEST(resize, members_rejoin_after_fewer_ps_with_any_ps_number)
{
    struct world *w = a_served_job(1, 2);
    come(w, 4);
    const char *digest = strstr(w->log, " digest=");
    assert_non_null(digest);
    struct msg_running running = {.run = 1,
                                  .rank = 1,
                                  .nodes = 4,
                                  .world = 4,
                                  .digest = strtoull(digest + strlen(" digest="), NULL, 16),
                                  .host = "c1",
                                  .ports = (uint16_t[]){1200},
                                  .n_ports = 1,
                                  .cause = CAUSE_START};
    all_listen(w, 4, 1);
    fits(w, 1);
    assert_int_equal(want_ps(w, 2), 0);
    assert_int_equal(want_ps(w, 1), 0); /* as it was, by an operator's word now */
    w->join.spec.n_ps = 3;
    w->join.running_epoch = w->join.highest_epoch = 1;
    w->join.running = &running;
    forget(w);
    join(w, 2, "c");
    assert_saw(w, "2:WELCOME");
    assert_not_saw(w, "STOP");
    assert_string_equal(job_state(w), "running");
    w->join.running = NULL;
    world_free(w);
}

TEST(resize, lost_job_rejects_members_beyond_its_layout)
{
    struct world *w = a_world(1, 4);
    w->join.spec.nproc = 64;
    w->join.spec.n_ps = 100;
    join(w, 0, "a");
    assert_int_equal(want_ps(w, MSG_UNSET), 0);
    uint16_t ports[64];
    for (uint16_t i = 0; i < 64; i++) {
        ports[i] = (uint16_t)(1000 + i);
    }
    /* Of a worker and a ps: such a job would have none but ps. */
    struct msg_running running = {.run = 1,
                                  .nodes = 2,
                                  .world = 65,
                                  .digest = 7,
                                  .host = "x",
                                  .ports = ports,
                                  .n_ports = 64,
                                  .cause = CAUSE_START};
    w->join.running_epoch = w->join.highest_epoch = 5;
    w->join.running = &running;
    for (uint32_t i = 1; i <= 2; i++) {
        forget(w);
        running.rank = i == 1 ? 0 : 64;
        join(w, i, name_of(i));
        assert_saw(w, ":STOP epoch=5");
        assert_string_equal(job_state(w), "waiting");
    }
    w->join.running = NULL;
    world_free(w);
}

/* --- nodes that are pinned ------------------------------------------------------------------- */

static void comes_as(struct world *w, uint32_t session, enum tfe_task role, uint64_t epoch)
{
    w->join.has_role = true;
    w->join.role = role;
    join(w, session, name_of(session));
    w->join.has_role = false;
    (void)try_ready(w, session, epoch);
}

TEST(pinned, surplus_pinned_node_waits_for_a_slot_of_its_role)
{
    struct world *w = a_serving_job(1, 2);
    comes_as(w, 5, TASK_PS, 2);
    struct msg_status_node node;
    char room[MSG_SENTENCE_MAX];
    assert_int_equal(rdzv_view_node(w->r, "j", "e", &node), 0);
    assert_string_equal(node.node, "f");
    rdzv_view_node_waits(w->r, "j", &node, room);
    assert_string_equal(node.waits, "spare: the job has its 1 ps, the only role of this node "
                                    "(--role): it gets a slot when one of them is lost");
    fits(w, 1);
    assert_int_equal(want_ps(w, 2), 0);
    rdzv_view_node_waits(w->r, "j", &node, room);
    assert_string_equal(node.waits, "spare: 1 ps serve, and 2 from the job's next checkpoint on");
    world_free(w);
}

/* --- a machine's death, by role --------------------------------------------------------------- */

/* As a_serving_job; of each node's death there is a certificate: "da" of a … */
static struct world *a_certified_job(void)
{
    static const char *const hashes[] = {"da", "db", "dc", "dd"};
    struct world *w = a_served_job(1, 2);
    for (uint32_t i = 0; i < 4; i++) {
        w->join.proof_hash = hashes[i];
        join(w, i, name_of(i));
        ready(w, i, 1);
    }
    w->join.proof_hash = NULL;
    pass(w, 100);
    all_listen(w, 4, 1);
    progress(w, 0, 1, 1);
    assert_string_equal(job_state(w), "running");
    return w;
}

static void is_brought(struct world *w, uint32_t session, const char *hash)
{
    assert_int_equal(
        say(w, session, &(struct tfe_msg){.type = MSG_DEATH, .u.death.certificate = hash}), 0);
}

TEST(certificate, proof_for_the_chief_ends_the_wait_for_its_fence)
{
    struct world *w = a_certified_job();
    join(w, 5, "f");
    ready(w, 5, 2);
    cut(w, 0);
    assert_not_saw(w, "STOP");
    is_brought(w, 2, "da");
    assert_saw(w, "1:STOP epoch=1\n");
    for (uint32_t s = 1; s < 4; s++) {
        stopped_and_ready(w, s, 1);
    }
    assert_saw(w, "START epoch=2");
    assert_not_saw(w, "wait_fence");
    world_free(w);
}
