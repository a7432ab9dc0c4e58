/* server/scheduler/match.c: sums over sets of tasks. */
#include "server/scheduler/match.h"

int64_t match_spare(const struct match *m, unsigned set)
{
    int64_t sum = 0;
    for (unsigned kind = 1; kind < MATCH_SETS; kind++) {
        sum += kind & set ? m->nodes[kind] : 0;
    }
    for (unsigned task = 0; task < MATCH_TASKS; task++) {
        sum -= set & (1u << task) ? m->need[task] : 0;
    }
    return sum;
}

/* The sets that lack the most are closed under intersection, because what a set lacks is
 * supermodular: the smallest of them is contained in all. */
static int64_t worst(const struct match *m, unsigned *ret_set)
{
    int64_t min = 0;
    unsigned smallest = 0;
    for (unsigned set = 1; set < MATCH_SETS; set++) {
        int64_t has = match_spare(m, set);
        if (has < min) {
            min = has;
            smallest = set;
        } else if (has == min && min < 0) {
            smallest &= set;
        }
    }
    *ret_set = smallest;
    return min;
}

uint8_t match_lacking(const struct match *m)
{
    unsigned set = 0;
    (void)worst(m, &set);
    return (uint8_t)set;
}

uint32_t match_lacks(const struct match *m)
{
    unsigned set = 0;
    return (uint32_t)-worst(m, &set);
}

uint32_t match_max(const struct match *m, unsigned task, uint8_t kind)
{
    if (!(kind & (1u << task))) {
        return 0;
    }
    int64_t limit = m->need[task] < m->nodes[kind] ? m->need[task] : m->nodes[kind];
    for (unsigned set = 1; set < MATCH_SETS; set++) {
        bool loses = (kind & set) && !(set & (1u << task));
        int64_t has = loses ? match_spare(m, set) : limit;
        limit = has < limit ? has : limit;
    }
    return limit > 0 ? (uint32_t)limit : 0;
}

void match_assign(struct match *m, unsigned task, uint8_t kind, uint32_t n)
{
    m->need[task] -= n;
    m->nodes[kind] -= n;
}
