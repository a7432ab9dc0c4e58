/* tests/unit/agent/dump.h: everything that an agent's core knows, as text: for stories in which
 * nothing may have changed. Left out is what may move without anybody noticing: addresses, room
 * that was reserved, the time itself, and what the last actions pointed to. */
#ifndef TFE_TESTS_UNIT_AGENT_DUMP_H
#define TFE_TESTS_UNIT_AGENT_DUMP_H

#include <stdio.h>
#include <stdlib.h>

#include "agent/core/core.h"

#define DUMP(...) fprintf(f, __VA_ARGS__)
#define DUMP_U(owner, field) fprintf(f, " " #field "=%llu", (unsigned long long)(owner)->field)
#define DUMP_T(owner, field) fprintf(f, " " #field "=%lld", (long long)(owner)->field.ms)

static inline void dump_link(FILE *f, const struct link *l)
{
    DUMP("link");
    DUMP_U(l, state), DUMP_U(l, token_worked), DUMP_U(l, ever_up), DUMP_U(l, unauthorised);
    DUMP_T(l, since), DUMP_T(l, say_next), DUMP_T(l, retry_at), DUMP_U(l, backoff_ms);
    DUMP_U(l, spread_ms), DUMP_U(l, ttl_ms), DUMP_U(l, renew_ms), DUMP_U(l, stop_grace_ms);
    DUMP_T(l, renew_at), DUMP_T(l, join_sent), DUMP_U(l, renewals), DUMP_T(l, lease_end),
        DUMP_T(l, granted);
    DUMP_T(l, silent_at), DUMP_U(l, exited_told);
    for (size_t i = 0; i < RENEWALS_MAX; i++) {
        DUMP(" %lld", (long long)l->renew_sent[i].ms);
    }
    DUMP(" why=%s\n", l->why);
}

static inline void dump_table(FILE *f, const struct table *t)
{
    DUMP("table");
    DUMP_U(t, epoch), DUMP_U(t, digest), DUMP_U(t, base), DUMP_U(t, world), DUMP_U(t, n_hosts);
    for (size_t i = 0; i < t->n; i++) {
        DUMP(" %u=%s:%u", t->rows[i].rank, t->hosts + t->host_at[i], t->rows[i].port);
    }
    DUMP("\n");
}

static inline void dump_work(FILE *f, const struct agent *a)
{
    DUMP("work");
    DUMP_U(a, work), DUMP_U(a, epoch), DUMP_U(a, highest), DUMP_U(a, prepare), DUMP_U(a, asked);
    DUMP_U(a, fresh_ports), DUMP_U(a, answer), DUMP_U(a, answers), DUMP_U(a, held);
    DUMP_U(a, starts), DUMP_U(a, alive), DUMP_U(a, first_ended_well), DUMP_T(a, exit_deadline);
    DUMP_U(a, has_listened), DUMP_U(a, sweeps_gently);
    DUMP_U(a, decided), DUMP_U(a, exit_pending), DUMP_U(a, exited.epoch), DUMP_U(a, exited.code);
    DUMP_U(a, exited.signal), DUMP_U(a, exited.stopped), DUMP_U(a, exited.end);
    DUMP_U(a, after), DUMP_U(a, exit_code), DUMP_T(a, leave_by), DUMP_U(a, leaving);
    DUMP_U(a, begun), DUMP_U(a, over), DUMP_U(a, guard_pid), DUMP_U(a, guard_lost);
    DUMP_U(&a->running, run), DUMP_U(&a->running, rank), DUMP_U(&a->running, digest);
    for (uint32_t i = 0; i < a->config.nproc; i++) {
        DUMP(" %u:%u:%u:%u:%u:%u", a->ports[i], a->running_ports[i], a->pids[i], a->told_pids[i],
             a->standby_pids[i], a->told_standby_pids[i]);
    }
    DUMP(" host=%s running_host=%s tail=%s sentence=%s\n", a->host, a->running_host, a->tail,
         a->has_sentence ? a->sentence : "");
}

static inline void dump_told(FILE *f, const struct agent *a)
{
    const struct progress *p = &a->progress;
    DUMP("told");
    DUMP_U(p, all.has_step), DUMP_U(p, all.step), DUMP_U(p, all.has_saved),
        DUMP_U(p, all.saved_step);
    DUMP_U(p, all.saves), DUMP_U(p, all.answers), DUMP_U(p, listeners), DUMP_U(p, is_told);
    DUMP_T(p, next);
    const struct notices *n = &a->notices;
    for (unsigned kind = NOTICE_REBALANCE; kind <= NOTICE_OPERATOR; kind++) {
        if (n->stands[kind]) {
            DUMP(" %s", msg_notice_name((enum tfe_notice)kind));
            DUMP_T(n, v[kind].deadline), DUMP_U(n, v[kind].uncertain), DUMP_T(n, back_at[kind]);
        }
    }
    DUMP_U(n, told), DUMP_U(n, ever), DUMP_T(n, told_deadline), DUMP_U(n, signal),
        DUMP_T(n, out_at);
    DUMP_T(n, last_moment);
    DUMP("\n");
}

/* The caller frees it. */
static inline char *dump_agent(const struct agent *a)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) {
        abort();
    }
    dump_link(f, &a->link);
    dump_work(f, a);
    dump_told(f, a);
    dump_table(f, &a->table);
    dump_table(f, &a->coming);
    struct rng rng = a->rng; /* a draw that nobody uses shifts all that follow */
    DUMP("rng %llu deadline=%lld\n", (unsigned long long)rng_next(&rng), (long long)a->deadline.ms);
    if (fclose(f)) {
        abort();
    }
    return text;
}

#undef DUMP_T
#undef DUMP_U
#undef DUMP

#endif
