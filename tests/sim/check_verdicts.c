/* tests/sim/check_verdicts.c: invariants that depend only on their arguments. */
#include "tests/sim/check.h"
#include "tests/sim/check_fail.h"

void check_planned_lost(struct check *c, uint32_t job, uint64_t epoch, const char *who)
{
    (void)job;
    check_fail(c, CHECK_PLANNED_KEEPS, "epoch %llu is stopped as planned, and broken at %s",
               (unsigned long long)epoch, who);
}

void check_kept(struct check *c, uint32_t job, uint64_t epoch, uint64_t last, uint64_t next)
{
    (void)job;
    if (next < last) {
        check_fail(
            c, CHECK_SAVED_KEEPS,
            "epoch %llu is stopped once it is saved, after step %llu; the next begins with %llu",
            (unsigned long long)epoch, (unsigned long long)last, (unsigned long long)next);
    }
}

void check_needless(struct check *c, uint64_t epoch, bool carried, const char *what)
{
    check_fail(c, carried ? CHECK_RESTART_FREE : CHECK_NEEDLESS, "epoch %llu: %s",
               (unsigned long long)epoch, what);
}

void check_leads(struct check *c, uint64_t epoch, uint32_t leader, uint32_t node,
                 const char *reason)
{
    check_fail(c, CHECK_LEADS, "epoch %llu is led by node %u, node %u %s",
               (unsigned long long)epoch, leader, node, reason);
}

void check_spot(struct check *c, uint64_t epoch, uint32_t spot, uint32_t node)
{
    check_fail(c, CHECK_SPOT_LAST,
               "in epoch %llu node %u is chief or ps, on a spot machine, node %u is none",
               (unsigned long long)epoch, spot, node);
}

void check_slow(struct check *c, uint64_t epoch, int64_t took, int64_t bound)
{
    check_fail(c, CHECK_SWITCH_SLOW,
               "epoch %llu is formed %lld ms after the last was stopped, bound %lld",
               (unsigned long long)epoch, (long long)took, (long long)bound);
}

void check_ledger(struct check *c, uint64_t epoch, uint32_t what, int64_t said, int64_t is)
{
    check_fail(c, CHECK_LEDGER, "time %u of epoch %llu is %lld, the ledger says %lld", what,
               (unsigned long long)epoch, (long long)is, (long long)said);
}

void check_spared(struct check *c, enum check_rule rule, uint32_t node, const char *reason)
{
    check_fail(c, rule, "the lease of node %u is taken for over by a server that was %s", node,
               reason);
}

void check_warned(struct check *c, uint64_t epoch, uint32_t node)
{
    check_fail(c, CHECK_WARNED, "node %u trains in epoch %llu when its machine goes", node,
               (unsigned long long)epoch);
}

void check_written_twice(struct check *c, const char *job, uint64_t sequence)
{
    check_fail(c, CHECK_ONE_WRITE, "record %llu of job %s is written once more while it is written",
               (unsigned long long)sequence, job);
}

void check_proof(struct check *c, uint32_t node, uint64_t asked, uint64_t heard)
{
    if (asked < heard) {
        check_fail(c, CHECK_PROOF_FITS,
                   "node %u is proven dead by nothing that was found since it came back", node);
    }
}

void check_adopted(struct check *c, uint64_t epoch, uint32_t spoke, uint32_t nodes)
{
    if (2 * spoke <= nodes) {
        check_fail(c, CHECK_SPOKEN_FOR,
                   "epoch %llu is adopted, %u of its %u nodes have spoken for it",
                   (unsigned long long)epoch, spoke, nodes);
    }
}

void check_certificate(struct check *c, uint32_t node, uint32_t trainers_alive)
{
    if (trainers_alive > 0) {
        check_fail(c, CHECK_TRUE_PROOF, "node %u has a death certificate, %u trainers live on it",
                   node, trainers_alive);
    }
}

void check_stale_peer(struct check *c, uint32_t job, uint64_t epoch, uint64_t earlier,
                      const char *who)
{
    (void)job;
    check_fail(c, CHECK_NO_STALE_PEER, "epoch %llu begins where %s still looks for epoch %llu",
               (unsigned long long)epoch, who, (unsigned long long)earlier);
}

void check_queue(struct check *c, uint32_t node, size_t bytes, size_t max)
{
    if (bytes > max) {
        check_fail(c, CHECK_QUEUES, "%zu bytes wait on a connection of node %u, the bound is %zu",
                   bytes, node, max);
    }
}

void check_memory(struct check *c, const char *owner, size_t bytes, size_t limit)
{
    if (bytes > limit) {
        check_fail(c, CHECK_MEMORY, "%s holds %zu bytes, its bound is %zu", owner, bytes, limit);
    }
}

void check_time_stands(struct check *c, const char *who)
{
    check_fail(c, CHECK_TIME_STANDS, "%s", who);
}

void check_honest(struct check *c, const char *who, const char *what, int rc)
{
    check_fail(c, CHECK_HONEST, "%s answers %s with error %d", who, what, rc);
}

void check_not_settled(struct check *c, const char *reason)
{
    check_fail(c, CHECK_SETTLES, "%s", reason);
}
