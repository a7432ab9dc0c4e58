/* tests/unit/scheduler/test_match.c: the sums agree with an exhaustive search. */
#include "server/scheduler/match.h"
#include "tests/unit/test_runner.h"

/* The most needs that can be met, by trying each way. */
static uint32_t met(struct match m)
{
    for (unsigned task = 0; task < MATCH_TASKS; task++) {
        if (m.need[task] == 0) {
            continue;
        }
        m.need[task]--;
        uint32_t best = met(m); /* this one stays without */
        for (unsigned kind = 1; kind < MATCH_SETS; kind++) {
            if ((kind & (1u << task)) && m.nodes[kind] > 0) {
                m.nodes[kind]--;
                uint32_t with = 1 + met(m);
                m.nodes[kind]++;
                best = with > best ? with : best;
            }
        }
        return best;
    }
    return 0;
}

static uint32_t needs(const struct match *m)
{
    return m->need[0] + m->need[1] + m->need[2] + m->need[3];
}

static uint32_t pseudo(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 16) % below;
}

static struct match some(uint32_t *state)
{
    struct match m = {{0}, {0}};
    for (unsigned i = 0; i < 4; i++) {
        m.nodes[1 + pseudo(state, MATCH_SETS - 1)] += pseudo(state, 2);
        m.need[pseudo(state, MATCH_TASKS)] += pseudo(state, 2);
    }
    return m;
}

TEST(match, lacking_nodes_equal_those_of_an_exhaustive_search)
{
    uint32_t seed = 1;
    for (unsigned i = 0; i < 3000; i++) {
        struct match m = some(&seed);
        assert_int_equal(match_lacks(&m), needs(&m) - met(m));
        assert_int_equal(match_lacking(&m) == 0, match_lacks(&m) == 0);
    }
}

TEST(match, another_node_helps_only_if_it_fits_the_lacking_set)
{
    uint32_t seed = 2;
    for (unsigned i = 0; i < 3000; i++) {
        struct match m = some(&seed);
        uint32_t before = match_lacks(&m);
        uint8_t lacking = match_lacking(&m);
        for (unsigned kind = 1; kind < MATCH_SETS; kind++) {
            m.nodes[kind]++;
            assert_int_equal(match_lacks(&m) < before, (kind & lacking) != 0);
            m.nodes[kind]--;
        }
    }
}

TEST(match, each_class_once_satisfies_every_task)
{
    uint32_t seed = 3;
    unsigned whole = 0;
    for (unsigned i = 0; i < 6000; i++) {
        struct match m = some(&seed);
        if (match_lacking(&m) != 0) {
            continue;
        }
        whole += needs(&m) > 0;
        unsigned first = pseudo(&seed, MATCH_SETS);
        for (unsigned task = 0; task < MATCH_TASKS; task++) {
            for (unsigned k = 0; k < MATCH_SETS; k++) {
                uint8_t kind = (uint8_t)((first + k) % MATCH_SETS);
                match_assign(&m, task, kind, match_max(&m, task, kind));
                assert_int_equal(match_lacking(&m), 0);
            }
        }
        assert_int_equal(needs(&m), 0);
    }
    assert_true(whole > 100);
}
