/* tests/unit/server/test_log_tails.c: which log tails are retained when there are too many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/events/log_tails.h"
#include "tests/unit/test_runner.h"

static struct log_tails tails;

static int end(void **state)
{
    (void)state;
    log_tails_done(&tails);
    return 0;
}

static void add(const char *job, const char *node, uint64_t epoch)
{
    struct log_tail *tail = calloc(1, sizeof(*tail));
    assert_non_null(tail);
    assert_int_equal(id_set(&tail->job, job), 0);
    assert_int_equal(id_set(&tail->node, node), 0);
    tail->epoch = epoch;
    tail->text = strdup("Traceback");
    log_tails_add(&tails, tail);
}

/* Returns how many tails of this job and node are retained, and the epoch of the oldest. */
static unsigned kept(const char *job, const char *node, uint64_t *ret_oldest)
{
    const struct log_tail *tail;
    unsigned n = 0;
    for (unsigned i = 0; (tail = log_tails_get(&tails, i)); i++) {
        if (strcmp(tail->job.text, job) == 0 && strcmp(tail->node.text, node) == 0) {
            *ret_oldest = n++ == 0 ? tail->epoch : *ret_oldest;
        }
    }
    return n;
}

#define FIXTURE NULL, end

TEST_IN(tails, repeated_failures_of_a_node_drop_its_own_tails)
{
    uint64_t oldest = 0;
    add("red", "quiet", 1);
    add("blue", "other", 1);
    for (uint64_t epoch = 1; epoch <= 1000; epoch++) {
        add("red", "loud", epoch);
    }
    assert_int_equal(kept("red", "quiet", &oldest), 1);
    assert_int_equal(kept("blue", "other", &oldest), 1);
    assert_int_equal(kept("red", "loud", &oldest), LIMIT_LOG_TAILS - 2);
    assert_int_equal(oldest, 1000 - (LIMIT_LOG_TAILS - 2) + 1); /* the newest tails are retained */
}

TEST_IN(tails, large_job_does_not_drop_the_tails_of_a_small_one)
{
    char node[16];
    uint64_t oldest = 0;
    for (uint64_t epoch = 1; epoch <= 5; epoch++) {
        add("small", "a", epoch);
    }
    for (unsigned i = 0; i < 3000; i++) {
        (void)snprintf(node, sizeof(node), "n%u", i);
        add("large", node, 7);
    }
    assert_int_equal(kept("small", "a", &oldest), 5);
    assert_int_equal(kept("large", "n0", &oldest), 0);
    assert_int_equal(kept("large", "n2999", &oldest), 1);
    assert_int_equal(tails.n, LIMIT_LOG_TAILS);
}

TEST_IN(tails, two_jobs_share_the_capacity_equally)
{
    uint64_t oldest = 0;
    for (uint64_t epoch = 1; epoch <= 500; epoch++) {
        add("red", "a", epoch);
    }
    for (uint64_t epoch = 1; epoch <= 500; epoch++) {
        add("blue", "b", epoch);
    }
    assert_in_range(kept("red", "a", &oldest), LIMIT_LOG_TAILS / 2 - 1, LIMIT_LOG_TAILS / 2 + 1);
    assert_in_range(kept("blue", "b", &oldest), LIMIT_LOG_TAILS / 2 - 1, LIMIT_LOG_TAILS / 2 + 1);
}

TEST_IN(tails, order_of_arrival_is_preserved)
{
    for (uint64_t epoch = 1; epoch <= 3 * LIMIT_LOG_TAILS; epoch++) {
        add(epoch % 3 ? "red" : "blue", epoch % 2 ? "a" : "b", epoch);
    }
    for (unsigned i = 1; i < LIMIT_LOG_TAILS; i++) {
        assert_true(log_tails_get(&tails, i - 1)->epoch < log_tails_get(&tails, i)->epoch);
    }
    assert_null(log_tails_get(&tails, LIMIT_LOG_TAILS));
}

TEST_IN(tails, of_a_forgotten_job_go_and_the_others_stay)
{
    uint64_t oldest = 0;
    add("red", "n", 1);
    add("blue", "n", 2);
    add("red", "n", 3);
    log_tails_forget(&tails, "red");
    assert_int_equal(kept("red", "n", &oldest), 0);
    assert_int_equal(kept("blue", "n", &oldest), 1);
    assert_int_equal(oldest, 2);
}
