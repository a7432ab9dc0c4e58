/* agent/core/on_start.c: handlers of START, which begins an epoch, and RESTART, which restarts the
 * trainers of the current epoch. */
#include "agent/core/state.h"

/* Returns the reason why START must be ignored, or NULL if the epoch can begin. */
static const char *objection(const struct agent *a, const struct msg_start *start)
{
    if (start->epoch <= work_highest(&a->work)) {
        return "an epoch starts here at most once";
    }
    if (!link_has_lease(&a->link, &a->step)) {
        return "it came after the end of the lease";
    }
    if (!a->step.is_idle || !preparation_is_ready_for(&a->preparation, start->epoch)) {
        return "this node is not ready for it";
    }
    return NULL;
}

void on_start(struct agent *a, const struct msg_start *start)
{
    struct step_context *t = &a->step;
    if (t->leave != LEAVE_NOT || work_runs(&a->work, start->epoch)) {
        return; /* the agent is leaving, or START was repeated after a reconnect */
    }
    const struct table *table = NULL;
    const char *reason = objection(a, start);
    if (!reason) {
        table = tables_activate(&a->tables, start->epoch, start->table_digest);
        if (!table) {
            step_trace(t, AGENT_TRACE_VOID_START, start->epoch, 0, "its table is not whole");
            /* READY without a digest makes the server send the whole table */
            preparation_request_ready(&a->preparation, t);
            return;
        }
        uint32_t n = work_trainers(t, start, table->rows, table->n);
        if (start->evaluates ? start->rank != table->n : (uint64_t)start->rank + n > table->n) {
            reason = "its rank is outside of its table";
        } else if (!start->evaluates &&
                   !preparation_matches(&a->preparation, table->rows + start->rank, n)) {
            reason = "its place is another process's";
        }
    }
    if (reason) {
        /* JOIN answers a START that is ignored: it reports the node's state. If a JOIN is already
         * outstanding, a second one would make it unclear which of them WELCOME confirms. */
        step_trace(t, AGENT_TRACE_VOID_START, start->epoch, 0, reason);
        t->wants_join = t->is_up;
        return;
    }
    link_fence(&a->link, t, start->fence_ms);
    preparation_started(&a->preparation);
    progress_begin(&a->progress, t, start->epoch, start->nodes);
    work_start(&a->work, t, start, preparation_host(&a->preparation),
               preparation_ports(&a->preparation));
    work_spawn(&a->work, t, table->rows, table->n);
}

/* Returns the reason why RESTART must be ignored, or NULL if the trainers can restart. */
static const char *objection_again(const struct agent *a, const struct msg_restart *restart)
{
    if (!work_can_restart(&a->work, restart)) {
        return "nothing ended here that it could start again";
    }
    if (!link_has_lease(&a->link, &a->step)) {
        return "it came after the end of the lease";
    }
    return processes_can_start(&a->processes) ? NULL : "there is no guard";
}

void on_restart(struct agent *a, const struct msg_restart *restart)
{
    struct step_context *t = &a->step;
    if (t->leave != LEAVE_NOT || notices_end_agent(&a->notices) ||
        work_has_started(&a->work, restart)) {
        return;
    }
    const char *reason = objection_again(a, restart);
    if (reason) {
        step_trace(t, AGENT_TRACE_VOID_START, restart->epoch, 0, reason);
        t->wants_join = t->is_up;
        return;
    }
    const struct table *table = tables_held(&a->tables);
    /* Drop READY for an epoch that an earlier server chose; it may use the same ports. */
    preparation_cancel(&a->preparation, t, UINT64_MAX);
    progress_restart(&a->progress, t, restart->epoch);
    work_restart(&a->work, restart);
    work_spawn(&a->work, t, table->rows, table->n);
}
