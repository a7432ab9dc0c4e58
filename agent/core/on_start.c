/* agent/core/on_start.c: START: the trainers of an epoch begin here, if it may be followed. */
#include "agent/core/state.h"

/* Why this node starts no such epoch; NULL: it can. */
static const char *objection(const struct agent *a, const struct msg_start *start)
{
    if (start->epoch <= work_highest(&a->work)) {
        return "an epoch starts here at most once";
    }
    if (!link_has_lease(&a->link, &a->turn)) {
        return "it came after the end of the lease";
    }
    if (!a->turn.is_idle || !ready_for(&a->ready, start->epoch)) {
        return "this node is not ready for it";
    }
    return NULL;
}

void on_start(struct agent *a, const struct msg_start *start)
{
    struct turn *t = &a->turn;
    if (t->leave != LEAVE_NOT || work_runs(&a->work, start->epoch)) {
        return; /* on the way out; told twice, over a reconnect */
    }
    const struct table *table = NULL;
    const char *why = objection(a, start);
    if (!why) {
        table = tables_begin(&a->tables, start->epoch, start->table_digest);
        if (!table) {
            turn_trace(t, AGENT_TRACE_VOID_START, start->epoch, 0, "its table is not whole");
            ready_again(&a->ready, t); /* with no digest: the table comes again */
            return;
        }
        if ((uint64_t)start->rank + t->config.spec.nproc > table->n) {
            why = "its rank is outside of its table";
        } else if (!ready_offers(&a->ready, table->rows + start->rank, t->config.spec.nproc)) {
            why = "its place is another process's";
        }
    }
    if (why) {
        /* Answered with who we are and what became of us. A JOIN that is under way says it already;
         * a second one would make it unclear which of them a WELCOME counts from. */
        turn_trace(t, AGENT_TRACE_VOID_START, start->epoch, 0, why);
        t->wants_join = t->is_up;
        return;
    }
    link_fence(&a->link, t, start->fence_ms);
    ready_started(&a->ready);
    progress_begin(&a->progress, t, start->epoch, start->nodes);
    work_start(&a->work, t, start, table->rows, table->n);
}
