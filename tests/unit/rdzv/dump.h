/* tests/unit/rdzv/dump.h: everything that a rendezvous core knows, as text: for stories in which
 * nothing may have changed. Left out is what may move without anybody noticing: addresses, room
 * that was reserved, and the time itself. */
#ifndef TFE_TESTS_UNIT_RDZV_DUMP_H
#define TFE_TESTS_UNIT_RDZV_DUMP_H

#include <stdio.h>
#include <stdlib.h>

#include "server/core/core.h"

struct dump {
    char *text;
    size_t n;
};

#define DUMP(...) fprintf(f, __VA_ARGS__)
#define DUMP_U(owner, field) fprintf(f, " " #field "=%llu", (unsigned long long)(owner)->field)
#define DUMP_T(owner, field) fprintf(f, " " #field "=%lld", (long long)(owner)->field.ms)

static inline void dump_timer(FILE *f, const char *name, const struct core_timer *timer)
{
    bool is_set = wheel_is_set(&timer->wheel);
    DUMP(" %s=%lld", name, is_set ? (long long)timer->wheel.due.ms : -1LL);
}

static inline void dump_node(FILE *f, const struct node *n)
{
    DUMP("  node %s (%s) at %s", n->id.text, n->name, n->host);
    dump_timer(f, "lease", &n->lease.timer);
    dump_timer(f, "probe", &n->probe.timer);
    dump_timer(f, "hold", &n->hold);
    DUMP_U(n, lease.counts), DUMP_U(n, lease.was_shifted), DUMP_U(n, lease.is_held);
    DUMP_T(n, lease.fence_end), DUMP_U(n, join_order), DUMP_U(n, ready_epoch), DUMP_U(n, session);
    DUMP_U(n, visit), DUMP_U(n, seat), DUMP_U(n, pid), DUMP_U(n, gone), DUMP_U(n, accounted);
    DUMP_U(n, started), DUMP_U(n, is_other), DUMP_T(n, other_fence_end), DUMP_U(n, highest_epoch);
    DUMP_U(n, told_visit), DUMP_U(n, n_void), DUMP_U(n, leaving), DUMP_U(n, listening);
    DUMP_U(n, durable), DUMP_U(n, is_dead), DUMP_U(n, answering), DUMP_U(n, answering_epoch);
    DUMP_U(n, released), DUMP_T(n, released_until), DUMP_U(n, is_mute), DUMP_U(n, n_probing);
    DUMP_U(n, is_proven), DUMP_U(n, hold_ms), DUMP_U(n, reports), DUMP_U(n, report.has_ended);
    DUMP_U(n, haunts), DUMP_U(n, report.seat), DUMP_U(n, report.listening),
        DUMP_U(n, progress.epoch), DUMP_U(n, progress.step);
    DUMP_U(n, progress.saves), DUMP_U(n, guard_pid), DUMP_U(n, n_trainer_pids);
    DUMP_U(n, n_standby_pids), DUMP_U(n, drained), DUMP_U(n, notice), DUMP_T(n, notice_deadline);
    DUMP_U(n, save_told), DUMP_U(n, told_spread_ms), DUMP_U(n, table_digest);
    const struct probe *p = &n->probe;
    DUMP_U(p, id), DUMP_U(p, n_asked), DUMP_U(p, n_answered), DUMP_T(p, until);
    DUMP_U(p, tried_epoch), DUMP_U(p, succeeded), DUMP_U(p, contradicted), DUMP_U(p, n_verifiers);
    DUMP_T(p, failing_since), DUMP_T(p, suspect_since);
    for (uint32_t i = 0; i < n->job->nproc; i++) {
        DUMP(" :%u", n->ports[i]);
    }
    DUMP("\n");
}

static inline void dump_job(FILE *f, struct job *j)
{
    DUMP(" job %s %s", j->name.text, job_state_name(j->state));
    dump_timer(f, "timer", &j->timer);
    DUMP_U(j, min_nodes), DUMP_U(j, max_nodes), DUMP_U(j, nproc), DUMP_U(j, max_restarts);
    DUMP_U(j, gather_ms), DUMP_U(j, grow_wait_ms), DUMP_U(j, stop_grace_ms);
    DUMP_U(j, elastic_timeout_ms), DUMP_U(j, chief_grace_ms), DUMP_U(j, no_grow);
    DUMP_U(j, script_digest), DUMP_U(j, run), DUMP_U(j, restarts), DUMP_U(j, granted_ttl_ms);
    DUMP_U(j, durable_ttl_ms), DUMP_U(j, durable_epoch), DUMP_U(j, highest_epoch);
    DUMP_U(j, has_cause), DUMP_U(j, next_cause), DUMP_U(j, rank0_finished);
    DUMP_U(j, has_progressed), DUMP_U(j, is_first_epoch), DUMP_U(j, n_nodes),
        DUMP_U(j, n_connected);
    DUMP_U(j, n_ready), DUMP_T(j, waiting_since), DUMP_T(j, last_join);
    DUMP_T(j, ready_since), DUMP_T(j, switch_began), DUMP_T(j, stop_began), DUMP_T(j, fenced_until);
    DUMP_T(j, exit_deadline), DUMP_U(j, fence_traced), DUMP_U(j, mass_epoch), DUMP_T(j, mass_until);
    DUMP_T(j, ports_spoken_until[0]), DUMP_T(j, ports_spoken_until[1]), DUMP_T(j, ended);
    DUMP_U(j, n_past);
    DUMP(" key=%s sentence=%s\n  epoch", j->run_key.text, j->sentence);
    const struct epoch *e = &j->epoch;
    DUMP_U(e, number), DUMP_U(e, digest), DUMP_U(e, cause), DUMP_T(e, started);
    DUMP_U(e, n_accounted), DUMP_U(e, opened), DUMP_T(e, leader_until);
    for (uint32_t seat = 0; seat < e->n_seats; seat++) {
        DUMP(" %s@%s", e->seats[seat]->id.text, e->hosts[seat]);
    }
    DUMP("\n  write");
    const struct write *w = &j->write;
    DUMP_U(w, sequence), DUMP_U(w, is_open), DUMP_U(w, is_over), DUMP_U(w, is_due);
    DUMP_U(w, proves), DUMP_U(w, is_sure), DUMP_U(w, ending), DUMP_T(w, again);
    DUMP_U(w, backoff_ms), DUMP_U(w, record.epoch), DUMP_U(w, record.predecessor);
    DUMP("\n  plan");
    const struct plan *p = &j->plan;
    DUMP_U(j, is_planned), DUMP_U(p, number), DUMP_U(p, switch_ms), DUMP_U(p, save_ms);
    DUMP_T(p, newcomer_at), DUMP_U(p, n_leaving), DUMP_T(p, leave_by), DUMP_U(p, n_hinted);
    DUMP_U(p, is_waiting), DUMP_U(p, asked), DUMP_T(p, asked_until), DUMP_U(j, ledger.current);
    DUMP("\n  fault");
    const struct fault *x = &j->fault;
    DUMP_U(x, epoch), DUMP_U(x, is_settled), DUMP_U(x, is_open), DUMP_T(x, verdict_at);
    DUMP_T(x, not_before), DUMP_U(x, backoff_ms), DUMP_U(x, fruitless), DUMP_U(x, widest);
    DUMP_U(x, fruitless_was);
    DUMP("\n  rebuild");
    const struct rebuild *b = &j->rebuild;
    DUMP_U(b, epoch), DUMP_U(b, run), DUMP_U(b, nodes), DUMP_U(b, n_reported), DUMP_U(b, digest);
    DUMP_T(b, until);
    DUMP("\n");
    struct node *node;
    RB_FOREACH(node, node_tree, &j->nodes)
    {
        dump_node(f, node);
    }
}

/* The caller frees it. */
static inline char *dump_core(struct rdzv *r)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) {
        abort();
    }
    DUMP("core");
    DUMP_U(r, n_jobs), DUMP_U(r, joins), DUMP_U(r, n_leases), DUMP_U(r, visits), DUMP_U(r, probes);
    DUMP_U(r, evictions);
    for (uint32_t s = 0; s < r->config.max_sessions; s++) {
        if (r->by_session[s]) {
            DUMP(" %u:%s", s, r->by_session[s]->id.text);
        }
    }
    DUMP("\n");
    struct job *job;
    RB_FOREACH(job, job_tree, &r->jobs)
    {
        dump_job(f, job);
    }
    if (fclose(f)) {
        abort();
    }
    return text;
}

#undef DUMP_T
#undef DUMP_U
#undef DUMP

#endif
