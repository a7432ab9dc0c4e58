/* tests/unit/server_core/dump.c: writes the state of a rendezvous core as text. */
#include "tests/unit/server_core/dump.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/core/job.h"
#include "server/core/node.h"
#include "server/core/states.h"

#define DUMP(...) fprintf(f, __VA_ARGS__)
#define DUMP_U(owner, field) fprintf(f, " " #field "=%llu", (unsigned long long)(owner)->field)
#define DUMP_T(owner, field) fprintf(f, " " #field "=%lld", (long long)(owner)->field.ms)

static void dump_timer(FILE *f, const char *name, const struct core_timer *timer)
{
    bool is_running = wheel_is_set(&timer->wheel);
    DUMP(" %s=%lld", name, is_running ? (long long)timer->wheel.due.ms : -1LL);
}

static void dump_node(FILE *f, const struct node *n)
{
    DUMP("  node %s (%s) at %s", n->id.text, n->name, n->ready.host);
    DUMP_U(n, join_order), DUMP_U(n, highest_epoch), DUMP_U(n, pid), DUMP_U(n, is_gone);
    DUMP_U(n, is_durable), DUMP_U(n, is_spot), DUMP_U(n, has_fixed_ports), DUMP_U(n, ready.epoch),
        DUMP_U(n, ready.table_digest);
    dump_timer(f, "lease", &n->lease.timer);
    const struct lease *l = &n->lease;
    DUMP_U(l, is_counted), DUMP_U(l, was_shifted), DUMP_U(l, is_held), DUMP_T(l, fence_end);
    DUMP_U(l, left_epoch);
    const struct node_session *c = &n->session;
    DUMP_U(c, number), DUMP_U(c, visit), DUMP_U(c, sent_spread_ms);
    const struct slot *s = &n->slot;
    DUMP_U(s, index), DUMP_U(s, is_accounted), DUMP_U(s, is_started), DUMP_U(s, is_listening);
    DUMP_U(s, is_dead), DUMP_U(s, is_taken_over), DUMP_T(s, previous_fence_end);
    DUMP_U(s, start_visit), DUMP_U(s, n_void_starts), DUMP_U(s, has_reported), DUMP_U(s, listens);
    DUMP_U(s, snapshot_answers), DUMP_U(s, save_sent), DUMP_U(n, ready.memory.bytes);
    DUMP_U(n, ready.memory.epoch), DUMP_U(n, ready.memory.step);
    const struct notice *x = &n->notice;
    DUMP_U(x, kind), DUMP_U(x, is_leaving), DUMP_U(x, is_drained), DUMP_T(x, deadline);
    const struct probing *p = &n->probing;
    dump_timer(f, "probe", &p->timer);
    DUMP_U(p, id), DUMP_U(p, n_probers), DUMP_U(p, n_answered), DUMP_T(p, until);
    DUMP_U(p, tried_epoch), DUMP_U(p, succeeded), DUMP_U(p, contradicted), DUMP_U(p, n_verifiers);
    DUMP_T(p, failing_since), DUMP_T(p, suspect_since);
    DUMP_U(p, answering_epoch), DUMP_U(p, is_released), DUMP_T(p, released_until);
    DUMP_U(p, is_unresponsive), DUMP_U(p, n_probing), DUMP_U(p, silent_epoch);
    dump_timer(f, "quarantine", &n->quarantine.timer);
    DUMP_U(n, quarantine.is_proven), DUMP_U(n, quarantine.wait_ms);
    const struct report *r = &n->report;
    DUMP_U(r, is_given), DUMP_U(r, has_ended), DUMP_U(r, slot), DUMP_U(r, is_listening);
    const struct node_processes *pids = &n->processes;
    DUMP_U(pids, guard_pid), DUMP_U(pids, n_trainer_pids), DUMP_U(pids, n_standby_pids);
    for (uint32_t i = 0; i < n->job->spec.nproc; i++) {
        DUMP(" :%u", n->ready.ports[i]);
    }
    DUMP("\n");
}

static void dump_epoch(FILE *f, const struct job *j)
{
    const struct epoch *e = &j->epoch;
    DUMP("\n  epoch");
    DUMP_U(e, number), DUMP_U(e, highest), DUMP_U(e, digest), DUMP_U(e, cause), DUMP_T(e, started);
    DUMP_U(e, n_accounted), DUMP_U(e, is_open), DUMP_U(e, has_fixed_ports),
        DUMP_U(e, has_progressed), DUMP_U(e, is_adopted), DUMP_T(e, leader_until);
    for (uint32_t slot = 0; slot < e->n_slots; slot++) {
        DUMP(" %s@%s", e->slots[slot]->id.text, tables_present(&j->tables)->hosts[slot]);
    }
    const struct progress *t = &j->progress;
    DUMP_U(t, step), DUMP_U(t, saves), DUMP_U(t, answers), DUMP_U(t, n_listen);
    DUMP_U(t, has_snapshot), DUMP_U(t, snapshot_step), DUMP_U(t, has_from);
}

static void dump_parts(FILE *f, const struct job *j)
{
    const struct persist *w = &j->persist;
    DUMP("\n  write");
    DUMP_U(w, sequence), DUMP_U(w, is_open), DUMP_U(w, is_over), DUMP_U(w, is_due);
    DUMP_U(w, is_test), DUMP_U(w, is_proven), DUMP_U(w, ending), DUMP_T(w, retry_at);
    DUMP_U(w, backoff_ms), DUMP_U(w, record.epoch), DUMP_U(w, record.predecessor);
    DUMP_U(w, granted_ttl_ms), DUMP_U(w, durable_ttl_ms), DUMP_U(w, durable_epoch);
    const struct plan *p = &j->plan;
    DUMP("\n  plan");
    DUMP_U(p, number), DUMP_U(p, switch_ms), DUMP_U(p, save_ms), DUMP_T(p, newcomer_at);
    DUMP_U(p, n_leaving), DUMP_T(p, leave_by), DUMP_U(p, n_hinted), DUMP_U(p, is_waiting);
    DUMP_U(p, first_save), DUMP_T(p, save_deadline), DUMP_U(j, ledger.current);
    const struct budget *b = &j->budget;
    DUMP("\n  budget");
    DUMP_U(b, used), DUMP_U(b, has_progressed), DUMP_U(b, epoch), DUMP_U(b, is_settled);
    DUMP_U(b, is_open), DUMP_T(b, verdict_at), DUMP_T(b, not_before), DUMP_U(b, backoff_ms);
    DUMP_U(b, failed_epochs), DUMP_U(b, widest), DUMP_U(b, failed_epochs_was);
    const struct rebuild *x = &j->rebuild;
    DUMP("\n  rebuild");
    DUMP_U(x, epoch), DUMP_U(x, run), DUMP_U(x, nodes), DUMP_U(x, n_reported), DUMP_U(x, digest);
    DUMP_T(x, until);
}

static void dump_spec(FILE *f, const struct job_spec *s)
{
#define DUMP_SPEC(name, ...) DUMP_U(s, name);
    JOB_SPEC_FIELDS(DUMP_SPEC)
#undef DUMP_SPEC
}

static void dump_job(FILE *f, struct job *j)
{
    DUMP(" job %s %s", j->name.text, job_state_name(j->state));
    dump_timer(f, "timer", &j->timer);
    dump_spec(f, &j->spec);
    DUMP_U(j, pending_switch.is_set), DUMP_U(j, pending_switch.is_planned),
        DUMP_U(j, pending_switch.cause);
    DUMP_U(j, success.is_here), DUMP_U(j, success.is_due), DUMP_T(j, success.until);
    DUMP_U(j, n_nodes), DUMP_U(j, n_connected), DUMP_U(j, n_ready), DUMP_T(j, last_join);
    DUMP_U(j, memory_bytes);
    const struct job_phase *p = &j->phase;
    DUMP_T(p, waiting_since), DUMP_T(p, ready_since), DUMP_T(p, switch_began);
    DUMP_T(p, stop_began), DUMP_T(p, fence_until), DUMP_U(p, fence_slot),
        DUMP_T(j, fence.run_until);
    DUMP_T(j, fence.ports_until[0]), DUMP_T(j, fence.ports_until[1]);
    DUMP_U(j, mass_loss.mass_epoch), DUMP_T(j, mass_loss.mass_until), DUMP_U(j, run.number);
    DUMP_U(j, run.is_new), DUMP_U(j, run.n_past), DUMP_T(j, run.ended);
    DUMP(" key=%s sentence=%s", j->run.key.text, j->run.sentence);
    dump_epoch(f, j);
    dump_parts(f, j);
    DUMP("\n");
    struct node *node;
    RB_FOREACH(node, node_tree, &j->nodes)
    {
        dump_node(f, node);
    }
}

char *dump_core(struct rdzv *r)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    if (!f) {
        abort();
    }
    DUMP("core");
    DUMP_U(r, n_jobs), DUMP_U(r, joins), DUMP_U(r, n_leases), DUMP_U(r, visits), DUMP_U(r, probes);
    DUMP_U(r, evicted.n);
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
