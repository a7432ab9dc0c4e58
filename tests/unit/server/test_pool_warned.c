/* tests/unit/server/test_pool_warned.c: pool nodes that report a preemption or maintenance notice.
 */
#include "tests/unit/server/pool_bench.h"

#define FIXTURE bench_begin, bench_end

static void notices(unsigned i, enum tfe_notice kind, bool withdrawn)
{
    const struct tfe_msg msg = {.type = MSG_NOTICE,
                                .u.notice = {.kind = kind, .withdrawn = withdrawn}};
    pool_handle_message(bench.p, &bench.sessions[i], &msg);
}

TEST_IN(pool_warned, a_node_that_is_warned_gets_no_job_until_that_is_withdrawn)
{
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    notices(0, NOTICE_REBALANCE, false); /* a rebalance recommendation is only a hint */
    assert_false(bench_node(0)->is_warned);
    notices(0, NOTICE_PREEMPT, false);
    notices(0, NOTICE_MAINTENANCE, false); /* replaces the preemption notice */
    bench_quiet();
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_durable();
    bench_said_is("1:assign 1 j any; "); /* without the notice node 0 would be first */
    assert_string_equal(bench_submit(bench_spec("k", 1, 1)), "done");
    bench_durable();
    bench_said_is("");
    notices(0, NOTICE_MAINTENANCE, true);
    bench_turn();
    bench_durable();
    bench_said_is("0:assign 2 k any; ");
}

TEST_IN(pool_warned, a_node_that_is_warned_as_it_comes_gets_no_job_before)
{
    assert_string_equal(bench_submit(bench_spec("j", 1, 1)), "done");
    bench_durable();
    bench_came(0, NULL, 0);
    notices(0, NOTICE_PREEMPT, false); /* in the same turn */
    bench_quiet();
    bench_turn();
    bench_durable();
    bench_said_is("");
}

TEST_IN(pool_warned, a_warning_outlives_the_connection_of_a_node_that_works)
{
    bench_placed(bench_spec("j", 1, 1));
    notices(0, NOTICE_PREEMPT, false);
    bench_left(0);
    bench_turn();
    bench_came(0, NULL, 1);
    assert_true(bench_node(0)->is_warned);
    bench_freed(0, 1, 0);
    bench_quiet();
    bench_turn();
    bench_durable();
    bench_said_is("");
    bench_came(0, NULL, 0);
    notices(0, NOTICE_PREEMPT, true); /* withdraws a notice that may have been lost */
    bench_quiet();
    bench_turn();
    bench_durable();
    bench_said_is("0:assign 2 j any; ");
}

TEST_IN(pool_warned, a_notice_of_no_kind_ends_the_session)
{
    bench_came(0, NULL, 0);
    bench_came(1, NULL, 0);
    bench_quiet();
    notices(0, 0, false);
    bench_said_is("0:refused bad_request (there is no such kind of notice); 0:end; ");
    notices(1, NOTICE_OPERATOR + 1, false);
    bench_said_is("1:refused bad_request (there is no such kind of notice); 1:end; ");
    assert_false(bench_node(0)->is_warned || bench_node(1)->is_warned);
}
