/* tests/unit/server_core/test_forget.c: jobs that are over are forgotten: by command, by age, to
 * make room. */
#include "tests/unit/server_core/plan.h"

#define DAY_MS 86400000

static int forget_job(struct world *w, const char *job)
{
    return step(w, &(struct rdzv_event){.type = RDZV_FORGET, .now = {w->now}, .job = job});
}

static void forget_before(struct world *w, int64_t before)
{
    assert_int_equal(
        step(w, &(struct rdzv_event){.type = RDZV_FORGET, .now = {w->now}, .before = {before}}), 0);
}

static struct principal with_key(uint8_t key)
{
    return (struct principal){.origin = {key}, .role = PRINCIPAL_AGENT, .scope = "*"};
}

static void opens_as(struct world *w, uint32_t session, const char *job, struct principal by)
{
    struct tfe_msg msg = {.type = MSG_JOIN, .u.join = w->join};
    msg.u.join.job = job;
    msg.u.join.node = job;
    msg.u.join.node_name = job;
    forget(w);
    assert_int_equal(step(w, &(struct rdzv_event){.type = RDZV_MESSAGE,
                                                  .now = {w->now},
                                                  .by = &by,
                                                  .session = session,
                                                  .msg = &msg}),
                     0);
}

/* A node with this key for every job asks to open a job. */
static void opens(struct world *w, uint32_t session, const char *job, uint8_t key)
{
    opens_as(w, session, job, with_key(key));
}

/* A node with this key for some jobs only asks to open a job. */
static void opens_scoped(struct world *w, uint32_t session, const char *job, uint8_t key)
{
    struct principal by = with_key(key);
    by.scope = "?*";
    opens_as(w, session, job, by);
}

TEST(forget, finished_job_is_forgotten_once_that_is_durable)
{
    struct world *w = a_running_world(1, 1, 1);
    assert_int_equal(forget_job(w, "j"), TFE_ESTATE);
    exited(w, 0, 1, 0);
    w->holds_writes = true;
    assert_int_equal(forget_job(w, "j"), 0);
    assert_saw(w, "PERSIST job=j epoch=1 after=1 members=0");
    join(w, 1, "b"); /* between two jobs of that name: which is not known yet */
    assert_saw(w, "1:REFUSED limit_reached: job j is being forgotten");
    assert_int_equal(forget_job(w, "j"), TFE_ESTATE);
    assert_int_equal(write_ends(w, RDZV_PERSIST_FAILED), 0);
    assert_string_equal(job_state(w), "succeeded");
    pass(w, 1000);
    assert_saw(w, "PERSIST job=j");
    assert_int_equal(write_ends(w, RDZV_PERSISTED), 0);
    assert_string_equal(job_state(w), "none");
    assert_int_equal(forget_job(w, "j"), TFE_ENOENT);
    join(w, 2, "c");
    assert_saw(w, "2:WELCOME c run=1");
    assert_saw(w, "2:PREPARE epoch=1");
    world_free(w);
}

TEST(forget, job_finished_long_ago_is_forgotten)
{
    struct world *w = a_world(1, 1);
    w->wall = 100 * (int64_t)DAY_MS;
    come(w, 1);
    exited(w, 0, 1, 0);
    forget_before(w, w->wall);
    assert_string_equal(job_state(w), "succeeded");
    forget_before(w, w->wall + 1);
    assert_string_equal(job_state(w), "none");
    world_free(w);
}

TEST(job_limit, one_key_leaves_capacity_and_idle_jobs_are_replaced)
{
    struct rdzv_config config = usual_config();
    config.max_jobs_per_key = 3;
    struct world *w = world_new(&config, 1, 1);
    w->wall = DAY_MS;
    opens(w, 0, "a", 1);
    opens(w, 1, "b", 1);
    opens(w, 2, "c", 1);
    opens(w, 3, "d", 1);
    assert_saw(w, "3:REFUSED limit_reached: cannot open the job: this token has opened 3 jobs, its "
                  "maximum (--max-jobs-per-token)");
    opens(w, 4, "honest", 2);
    assert_saw(w, "4:WELCOME honest");
    ready(w, 1, 1);
    pass(w, 3000);
    exited(w, 1, 1, 0); /* b is over */
    opens(w, 3, "d", 1);
    assert_saw(w, "try again: this finished job is being forgotten: b");
    opens(w, 3, "d", 1);
    assert_saw(w, "3:WELCOME d");
    world_free(w);
}

TEST(job_limit, agents_of_one_key_are_limited)
{
    struct rdzv_config config = usual_config();
    config.max_nodes_per_key = 2;
    struct world *w = world_new(&config, 1, 1);
    opens(w, 0, "a", 1);
    opens(w, 1, "b", 1);
    opens(w, 2, "c", 1);
    assert_saw(w, "2:REFUSED limit_reached: too many agents: this token has 2, its");
    opens(w, 3, "honest", 2);
    assert_saw(w, "3:WELCOME honest");
    goodbye(w, 0);
    opens(w, 2, "c", 1);
    assert_saw(w, "2:WELCOME c");
    world_free(w);
}

TEST(job_limit, scoped_key_gets_a_quarter_of_the_free_places)
{
    struct rdzv_config config = usual_config();
    config.max_nodes = 16;
    struct world *w = world_new(&config, 1, 1);
    char job[] = "a";
    for (uint32_t i = 0; i < 4; i++, job[0]++) {
        opens_scoped(w, i, job, 1);
    }
    opens_scoped(w, 4, "x", 1);
    assert_saw(w, "4:REFUSED limit_reached: too many agents: this token has 4, its");
    for (uint32_t i = 5; i < 9; i++, job[0]++) {
        opens(w, i, job, 2); /* a key for every job */
    }
    opens_scoped(w, 9, "y", 3);
    assert_saw(w, "9:WELCOME y");
    opens_scoped(w, 10, "z", 3);
    assert_saw(w, "10:WELCOME z");
    opens_scoped(w, 11, "zz", 3);
    assert_saw(w, "11:REFUSED limit_reached: too many agents: this token has 2, its");
    opens(w, 11, "zz", 2);
    assert_saw(w, "11:WELCOME zz");
    world_free(w);
}

TEST(forget, job_without_nodes_for_long_is_forgotten)
{
    struct world *w = a_world(1, 1);
    w->wall = DAY_MS;
    come(w, 1);
    goodbye(w, 0);
    assert_string_equal(job_state(w), "waiting");
    w->wall += 5000;
    pass(w, 5000);
    forget_before(w, w->wall - 5000);
    assert_string_equal(job_state(w), "waiting");
    forget_before(w, w->wall - 4000);
    assert_string_equal(job_state(w), "none");
    world_free(w);
}
