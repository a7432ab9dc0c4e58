/* tests/unit/server/test_action_executor.c: records that the core emits about itself reach all
 * subscribers in order. */
#include <stdio.h>
#include <string.h>

#include "server/action_executor.h"
#include "tests/unit/test_runner.h"

struct listener {
    char name;
    char *log;
};

static void hear(void *ctx, const struct rdzv_trace *trace)
{
    const struct listener *l = ctx;
    size_t at = strlen(l->log);
    (void)snprintf(l->log + at, 64 - at, "%c%llu ", l->name, (unsigned long long)trace->number);
}

/* Runs a step that emits records with these numbers. */
static void tell(struct outlets *to, uint64_t first, uint64_t last)
{
    struct rdzv_action v[4];
    size_t n = 0;
    for (uint64_t i = first; i <= last; i++) {
        v[n++] = (struct rdzv_action){.type = RDZV_TRACE, .trace = {.number = i}};
    }
    actions_run(&(struct rdzv_actions){.v = v, .n = n}, to);
}

TEST(traces, nobody_has_to_listen)
{
    struct outlets to = {.n_lost = 0};
    tell(&to, 1, 1);
}

TEST(traces, each_listener_hears_all_in_the_order_of_asking)
{
    char log[64] = "";
    char other_log[64] = "";
    struct listener a = {'a', log};
    struct listener b = {'b', log};
    struct listener c = {'c', other_log};
    struct outlets to = {.listeners = {{hear, &b}, {hear, &a}, {hear, &c}}};
    tell(&to, 2, 3);
    assert_string_equal(log, "b2 a2 b3 a3 ");
    assert_string_equal(other_log, "c2 c3 ");
}

TEST(traces, as_many_may_listen_as_there_are_places)
{
    char log[64] = "";
    struct listener l = {'x', log};
    struct outlets to = {.n_lost = 0};
    for (int i = 0; i < LISTENERS_MAX; i++) {
        to.listeners[i].fn = hear;
        to.listeners[i].ctx = &l;
    }
    tell(&to, 7, 7);
    assert_int_equal(strlen(log), LISTENERS_MAX * strlen("x7 "));
}
